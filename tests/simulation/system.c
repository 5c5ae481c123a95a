/*
 * The system that the library and hiredis use: descriptors, sockets, clocks, random numbers; and libev. The linker
 * prefers these functions to the C library's, so all code above them is the production code. Only the history is written
 * to a descriptor of the kernel.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "support/fixture.h"
#include "world.h"

/* These functions interpose. With hidden visibility they would serve only the program itself. */
#define SYSTEM   __attribute__((visibility("default")))

#define FIRST    1000000 /* larger than any descriptor of the kernel */
#define MOST     64
#define WATCHERS 2

enum kind { NOTHING, TIMER, BELL, SOCKET };

struct descriptor {
    enum kind kind;
    quorum_time armed;     /* TIMER: when it fires; QUORUM_NEVER: disarmed */
    uint64_t rung;         /* BELL: the eventfd's counter */
    struct sim_link *link; /* SOCKET; NULL before connect(2) */
    ev_io *watchers[WATCHERS];
};

/* The descriptors and watchers of one process. */
struct sim_watch {
    struct descriptor descriptors[MOST];
    unsigned count; /* of those that were ever used */
    ev_prepare *prepare;
    ev_idle *idle;
};

struct sim_process *sim_current;

static struct descriptor *find(int fd)
{
    assert(sim_current && fd >= FIRST && fd < FIRST + MOST);
    return &sim_current->watch->descriptors[fd - FIRST];
}

/* The kernel, too, returns the lowest number that is free. */
static int make(enum kind kind)
{
    struct sim_watch *watch = sim_current->watch;
    unsigned index = 0;
    while (index < watch->count && watch->descriptors[index].kind != NOTHING)
        index++;
    assert(index < MOST);
    watch->count += index == watch->count;
    watch->descriptors[index] = (struct descriptor){.kind = kind, .armed = QUORUM_NEVER};
    return FIRST + (int)index;
}

static void unmake(struct descriptor *descriptor)
{
    if (descriptor->link)
        sim_link_close(descriptor->link);
    memset(descriptor, 0, sizeof *descriptor);
}

struct sim_watch *sim_watch_create(void)
{
    return fixture_allocate(sizeof(struct sim_watch));
}

void sim_watch_destroy(struct sim_watch *watch)
{
    for (unsigned i = 0; i < watch->count; i++)
        unmake(&watch->descriptors[i]);
    free(watch);
}

/* ----------------------------------------------------------------------------------------------------------- clocks */

SYSTEM int clock_gettime(clockid_t id, struct timespec *time)
{
    if (sim_current->in_turn)
        sim_process_preempt(sim_current);
    quorum_time now = sim_process_clock(sim_current);
    if (id == CLOCK_REALTIME)
        now = sim_process_wall(sim_current);
    time->tv_sec = (time_t)(now / QUORUM_SECOND);
    time->tv_nsec = (long)(now % QUORUM_SECOND);
    return 0;
}

SYSTEM ssize_t getrandom(void *buffer, size_t size, unsigned flags)
{
    (void)flags;
    for (size_t done = 0; done < size;) {
        uint64_t bits = next_random(&sim_current->entropy);
        size_t part = size - done < sizeof bits ? size - done : sizeof bits;
        memcpy((char *)buffer + done, &bits, part);
        done += part;
    }
    return (ssize_t)size;
}

SYSTEM int timerfd_create(clockid_t clock, int flags)
{
    (void)clock;
    (void)flags;
    return make(TIMER);
}

SYSTEM int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    struct descriptor *descriptor = find(fd);
    (void)old;
    assert(flags == TFD_TIMER_ABSTIME && descriptor->kind == TIMER);
    descriptor->armed = (quorum_time) new->it_value.tv_sec *QUORUM_SECOND + (quorum_time) new->it_value.tv_nsec;
    return 0;
}

SYSTEM int eventfd(unsigned initial, int flags)
{
    (void)flags;
    int fd = make(BELL);
    find(fd)->rung = initial;
    return fd;
}

/* ---------------------------------------------------------------------------------------------------------- sockets */

SYSTEM int socket(int domain, int type, int protocol)
{
    (void)domain;
    (void)type;
    (void)protocol;
    return make(SOCKET);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* glibc declares its address as a transparent union */
/* 10.0.0.1 is the first node. */
SYSTEM int connect(int fd, const struct sockaddr *address, socklen_t size)
{
    struct descriptor *descriptor = find(fd);
    (void)size;
    if (descriptor->link) {
        errno = descriptor->link->error ? descriptor->link->error : descriptor->link->connected ? EISCONN : EALREADY;
        return -1;
    }
    const struct sockaddr_in *inet = (const struct sockaddr_in *)(const void *)address;
    descriptor->link = sim_link_open(sim_current, (ntohl(inet->sin_addr.s_addr) & 0xff) - 1);
    errno = EINPROGRESS;
    return -1;
}

#pragma GCC diagnostic pop

SYSTEM int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    (void)fd;
    (void)level;
    (void)option;
    (void)value;
    (void)size;
    return 0;
}

SYSTEM int getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
    struct descriptor *descriptor = find(fd);
    (void)level;
    int error = descriptor->link ? descriptor->link->error : 0;
    memset(value, 0, *size);
    if (option == SO_ERROR)
        memcpy(value, &error, sizeof error);
    return 0;
}

SYSTEM int fcntl(int fd, int command, ...)
{
    (void)fd;
    return command == F_GETFL ? O_RDWR | O_NONBLOCK : 0;
}

SYSTEM int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

static ssize_t receive(struct sim_link *link, void *buffer, size_t size, bool peek)
{
    size_t left = link->inbox.length - link->read;
    if (left) {
        size_t part = left < size ? left : size;
        memcpy(buffer, link->inbox.data + link->read, part);
        link->read += peek ? 0 : part;
        if (link->read == link->inbox.length)
            link->inbox.length = link->read = 0;
        return (ssize_t)part;
    }
    errno = link->error ? link->error : EAGAIN;
    return -1;
}

static ssize_t transmit(struct sim_link *link, const void *buffer, size_t size)
{
    if (link->error) {
        errno = EPIPE;
        return -1;
    }
    const struct sim_config *config = &sim_world->config;
    bool partial = config->faults & 1u << SIM_FAULT_PARTIAL && !sim_world->calm;
    if (partial && random_chance(&sim_world->network, 5)) {
        if (random_chance(&sim_world->network, 500)) {
            errno = EAGAIN;
            return -1;
        }
        size = (size_t)random_between(&sim_world->network, 1, size);
    }
    sim_link_write(link, buffer, size);
    return (ssize_t)size;
}

static ssize_t read_counter(uint64_t *counter, void *buffer, size_t size)
{
    if (*counter == 0) {
        errno = EAGAIN;
        return -1;
    }
    assert(size == sizeof *counter);
    memcpy(buffer, counter, size);
    *counter = 0;
    return (ssize_t)size;
}

static bool has_gone_off(const struct descriptor *descriptor)
{
    return descriptor->armed <= sim_process_clock(sim_current);
}

SYSTEM ssize_t read(int fd, void *buffer, size_t size)
{
    struct descriptor *descriptor = find(fd);
    if (descriptor->kind == SOCKET)
        return receive(descriptor->link, buffer, size, false);
    if (descriptor->kind == BELL)
        return read_counter(&descriptor->rung, buffer, size);
    uint64_t expirations = has_gone_off(descriptor);
    if (expirations)
        descriptor->armed = QUORUM_NEVER;
    return read_counter(&expirations, buffer, size);
}

SYSTEM ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    return receive(find(fd)->link, buffer, size, flags & MSG_PEEK);
}

SYSTEM ssize_t write(int fd, const void *buffer, size_t size)
{
    uint64_t number;
    if (fd < FIRST)
        return syscall(SYS_write, fd, buffer, size);
    struct descriptor *descriptor = find(fd);
    if (descriptor->kind == SOCKET)
        return transmit(descriptor->link, buffer, size);
    assert(descriptor->kind == BELL && size == sizeof number);
    memcpy(&number, buffer, size);
    descriptor->rung += number;
    return (ssize_t)size;
}

SYSTEM ssize_t send(int fd, const void *buffer, size_t size, int flags)
{
    (void)flags;
    return write(fd, buffer, size);
}

SYSTEM int close(int fd)
{
    unmake(find(fd));
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------ libev */

static void keep(ev_io *watcher)
{
    struct descriptor *descriptor = find(watcher->fd);
    unsigned at = descriptor->watchers[0] ? 1 : 0;
    assert(!descriptor->watchers[at]);
    descriptor->watchers[at] = watcher;
    watcher->active = 1;
    watcher->events &= EV_READ | EV_WRITE;
}

static void forget(ev_io *watcher)
{
    struct descriptor *descriptor = find(watcher->fd);
    for (unsigned i = 0; i < WATCHERS; i++)
        if (descriptor->watchers[i] == watcher)
            descriptor->watchers[i] = NULL;
    watcher->active = 0;
}

SYSTEM void ev_io_start(struct ev_loop *loop, ev_io *watcher)
{
    (void)loop;
    if (!ev_is_active(watcher))
        keep(watcher);
}

SYSTEM void ev_io_stop(struct ev_loop *loop, ev_io *watcher)
{
    (void)loop;
    if (ev_is_active(watcher))
        forget(watcher);
}

/* Each process has at most one of these. */
#define ONE_WATCHER(kind)                                                                                              \
    SYSTEM void ev_##kind##_start(struct ev_loop *loop, ev_##kind *watcher)                                            \
    {                                                                                                                  \
        (void)loop;                                                                                                    \
        sim_current->watch->kind = watcher;                                                                            \
        watcher->active = 1;                                                                                           \
    }                                                                                                                  \
    SYSTEM void ev_##kind##_stop(struct ev_loop *loop, ev_##kind *watcher)                                             \
    {                                                                                                                  \
        (void)loop;                                                                                                    \
        sim_current->watch->kind = NULL;                                                                               \
        watcher->active = 0;                                                                                           \
    }

ONE_WATCHER(prepare)
ONE_WATCHER(idle)

static int readiness(const struct descriptor *descriptor)
{
    switch (descriptor->kind) {
    case TIMER:
        return has_gone_off(descriptor) ? EV_READ : 0;
    case BELL:
        return descriptor->rung ? EV_READ : 0;
    case SOCKET:
        break;
    case NOTHING:
        return 0;
    }
    const struct sim_link *link = descriptor->link;
    if (!link)
        return 0;
    bool readable = link->inbox.length > link->read || link->error;
    return (readable ? EV_READ : 0) | (link->connected || link->error ? EV_WRITE : 0);
}

/* Starts with a random descriptor, because the kernel guarantees no order. A descriptor that is opened or closed
 * meanwhile is seen in its new state. */
void sim_watch_dispatch(struct sim_process *process)
{
    struct sim_watch *watch = process->watch;
    unsigned first = random_below(&sim_world->workload, watch->count);
    for (unsigned i = 0; i < watch->count * WATCHERS; i++) {
        struct descriptor *descriptor = &watch->descriptors[(first + i / WATCHERS) % watch->count];
        ev_io *watcher = descriptor->watchers[i % WATCHERS];
        int ready = watcher ? readiness(descriptor) & watcher->events : 0;
        if (ready)
            watcher->cb((struct ev_loop *)(void *)process, watcher, ready);
    }
}

bool sim_watch_is_ready(const struct sim_process *process)
{
    const struct sim_watch *watch = process->watch;
    for (unsigned i = 0; i < watch->count * WATCHERS; i++) {
        const struct descriptor *descriptor = &watch->descriptors[i / WATCHERS];
        const ev_io *watcher = descriptor->watchers[i % WATCHERS];
        if (watcher && readiness(descriptor) & watcher->events)
            return true;
    }
    return watch->idle != NULL;
}

quorum_time sim_watch_alarm(const struct sim_process *process)
{
    quorum_time earliest = QUORUM_NEVER;
    for (unsigned i = 0; i < process->watch->count; i++) {
        const struct descriptor *descriptor = &process->watch->descriptors[i];
        if (descriptor->kind == TIMER && descriptor->armed < earliest)
            earliest = descriptor->armed;
    }
    return earliest;
}

void sim_watch_prepare(struct sim_process *process)
{
    ev_prepare *prepare = process->watch->prepare;
    if (prepare)
        prepare->cb((struct ev_loop *)(void *)process, prepare, EV_PREPARE);
}
