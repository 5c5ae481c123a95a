#define _GNU_SOURCE
#include "sockets.h"

#include "clock.h"
#include "fixture.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 64 }; /* per turn */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t loopback(union address *address, bool ipv6, uint16_t port)
{
    memset(address, 0, sizeof *address);
    if (ipv6) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons(port);
        address->v6.sin6_addr = in6addr_loopback;
        return sizeof(address->v6);
    }
    address->v4.sin_family = AF_INET;
    address->v4.sin_port = htons(port);
    address->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof(address->v4);
}

static int bind_reusable(const union address *address, socklen_t length)
{
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 || bind(fd, &address->any, length) != 0)
        fixture_fail("cannot bind a listening socket: %s", strerror(errno));
    return fd;
}

bool socket_ipv6_available(void)
{
    union address address;
    socklen_t length = loopback(&address, true, 0);
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool available = fd >= 0 && bind(fd, &address.any, length) == 0;
    if (fd >= 0)
        close(fd);
    return available;
}

int socket_reserve_port(bool ipv6, uint16_t *port)
{
    union address address;
    socklen_t length = loopback(&address, ipv6, 0);
    int fd = bind_reusable(&address, length);
    length = sizeof address;
    if (getsockname(fd, &address.any, &length) != 0)
        fixture_fail("getsockname: %s", strerror(errno));
    *port = ntohs(ipv6 ? address.v6.sin6_port : address.v4.sin_port);
    return fd;
}

int socket_listen(bool ipv6, uint16_t port)
{
    union address address;
    socklen_t length = loopback(&address, ipv6, port);
    int fd = bind_reusable(&address, length);
    if (listen(fd, 1024) != 0)
        fixture_fail("listen: %s", strerror(errno));
    return fd;
}

long socket_send_some(int fd, const void *data, size_t length)
{
    size_t sent = 0;
    while (sent < length) {
        ssize_t count = send(fd, (const char *)data + sent, length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0)
            sent += (size_t)count;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            return -1;
    }
    return (long)sent;
}

void socket_no_delay(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* --- A thread that waits for descriptors --- */

static void *run(void *arg)
{
    struct poller *poller = arg;
    (void)prctl(PR_SET_TIMERSLACK, 1ul); /* by default a wake-up may be 50 us late */
    pthread_mutex_lock(&poller->lock);
    while (!poller->quit)
        poller->turn(poller->owner);
    pthread_mutex_unlock(&poller->lock);
    return NULL;
}

/* The thread blocks all signals, which belong to the test. */
void poller_start(struct poller *poller, void (*turn)(void *owner), void *owner)
{
    sigset_t all, before;
    *poller = (struct poller){.turn = turn, .owner = owner, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    pthread_mutex_init(&poller->lock, NULL);
    poller_watch(poller, &poller->wake, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&poller->thread, NULL, run, poller);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        fixture_fail("cannot start a thread: %s", strerror(error));
}

void poller_stop(struct poller *poller)
{
    poller_enter(poller);
    poller->quit = true;
    poller_leave(poller);
    pthread_join(poller->thread, NULL);
    close(poller->wake.fd);
    close(poller->epoll);
    pthread_mutex_destroy(&poller->lock);
}

void poller_watch(struct poller *poller, struct watched *watched, int fd)
{
    struct epoll_event all = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = watched};
    *watched = (struct watched){.fd = fd};
    if (epoll_ctl(poller->epoll, EPOLL_CTL_ADD, fd, &all) != 0)
        fixture_fail("cannot watch a descriptor: %s", strerror(errno));
}

/* A process that the test has forked meanwhile may have the descriptor, too: closing it does not end the watch. */
void poller_close(struct poller *poller, struct watched *watched, bool reset)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    epoll_ctl(poller->epoll, EPOLL_CTL_DEL, watched->fd, NULL);
    if (reset)
        (void)setsockopt(watched->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(watched->fd);
    *watched = (struct watched){.fd = -1};
}

/* The events are taken under the lock: all of them are of descriptors that are still watched. */
void poller_wait(struct poller *poller, uint64_t next_ns)
{
    struct pollfd any = {.fd = poller->epoll, .events = POLLIN};
    struct epoll_event events[EVENTS];
    uint64_t now = test_now_ns();
    struct timespec left = test_timespec(next_ns > now ? next_ns - now : 0);
    pthread_mutex_unlock(&poller->lock);
    if (ppoll(&any, 1, next_ns == UINT64_MAX ? NULL : &left, NULL) < 0 && errno != EINTR)
        fixture_fail("ppoll: %s", strerror(errno));
    pthread_mutex_lock(&poller->lock);
    int count = epoll_wait(poller->epoll, events, EVENTS, 0);
    for (int i = 0; i < count; i++) {
        struct watched *watched = events[i].data.ptr;
        watched->readable = watched->readable || events[i].events & ~(uint32_t)EPOLLOUT;
        watched->writable = watched->writable || events[i].events & ~(uint32_t)EPOLLIN;
    }
}

void poller_enter(struct poller *poller)
{
    pthread_mutex_lock(&poller->lock);
}

void poller_leave(struct poller *poller)
{
    uint64_t one = 1;
    (void)!write(poller->wake.fd, &one, sizeof one);
    pthread_mutex_unlock(&poller->lock);
}
