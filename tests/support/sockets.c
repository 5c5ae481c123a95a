#define _GNU_SOURCE
#include "sockets.h"

#include "clock.h"
#include "fixture.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
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

static socklen_t local(union address *address, const char *path)
{
    memset(address, 0, sizeof *address);
    address->local.sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address->local.sun_path)
        fixture_fail("path too long for a unix socket: %s; set TMPDIR to a shorter one", path);
    memcpy(address->local.sun_path, path, strlen(path) + 1);
    return sizeof address->local;
}

static int make_socket(const union address *address)
{
    return socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int bind_reusable(const union address *address, socklen_t length)
{
    int fd = make_socket(address);
    int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 || bind(fd, &address->any, length) != 0)
        fixture_fail("cannot bind a listening socket: %s", strerror(errno));
    return fd;
}

bool socket_ipv6_available(void)
{
    union address address;
    socklen_t length = loopback(&address, true, 0);
    int fd = make_socket(&address);
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

static int listen_at(const union address *address, socklen_t length)
{
    int fd = bind_reusable(address, length);
    if (listen(fd, 1024) != 0)
        fixture_fail("listen: %s", strerror(errno));
    return fd;
}

int socket_listen(bool ipv6, uint16_t port)
{
    union address address;
    socklen_t length = loopback(&address, ipv6, port);
    return listen_at(&address, length);
}

int socket_listen_unix(const char *path)
{
    union address address;
    socklen_t length = local(&address, path);
    unlink(path);
    return listen_at(&address, length);
}

static bool wait_ready(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd ready = {.fd = fd, .events = events};
    for (;;) {
        int count = poll(&ready, 1, test_ms_left(deadline_ns));
        if (count > 0)
            return true;
        if (count < 0 && errno == EINTR)
            continue;
        if (count == 0)
            errno = ETIMEDOUT;
        return false;
    }
}

static int connect_start(const union address *address, socklen_t length)
{
    int fd = make_socket(address);
    if (fd < 0)
        return -1;
    if (address->any.sa_family != AF_UNIX)
        socket_no_delay(fd);
    if (connect(fd, &address->any, length) == 0 || errno == EINPROGRESS)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int connect_finish(int fd, uint64_t deadline_ns)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (fd < 0)
        return -1;
    if (!wait_ready(fd, POLLOUT, deadline_ns))
        error = errno;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        error = errno;
    if (error == 0)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

int socket_connect_start_to(const char *host, uint16_t port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(host, service, &hints, &found) != 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    union address address = {0};
    memcpy(&address, found->ai_addr, found->ai_addrlen);
    int fd = connect_start(&address, found->ai_addrlen);
    freeaddrinfo(found);
    return fd;
}

int socket_connect_to(const char *host, uint16_t port, uint64_t deadline_ns)
{
    return connect_finish(socket_connect_start_to(host, port), deadline_ns);
}

int socket_connect_unix(const char *path, uint64_t deadline_ns)
{
    union address address;
    socklen_t length = local(&address, path);
    return connect_finish(connect_start(&address, length), deadline_ns);
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

bool socket_send_all(int fd, const void *data, size_t length, uint64_t deadline_ns)
{
    const char *at = data, *end = at + length;
    while (at < end) {
        long sent = socket_send_some(fd, at, (size_t)(end - at));
        if (sent < 0 || (sent < end - at && !wait_ready(fd, POLLOUT, deadline_ns)))
            return false;
        at += sent;
    }
    return true;
}

long socket_receive(int fd, void *data, size_t size, uint64_t deadline_ns)
{
    for (;;) {
        ssize_t count = recv(fd, data, size, 0);
        if (count >= 0)
            return (long)count;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN || !wait_ready(fd, POLLIN, deadline_ns))
            return -1;
    }
}

void socket_no_delay(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void socket_close_with_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}
