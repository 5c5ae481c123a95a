/* Sockets on loopback for fixtures: close-on-exec and without SIGPIPE. */
#ifndef TESTS_SUPPORT_SOCKETS_H
#define TESTS_SUPPORT_SOCKETS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Some machines have no ::1; tests that need it are then skipped. */
bool socket_ipv6_available(void);

/* Reserves a port of 127.0.0.1 (or ::1) for as long as the returned descriptor stays open: bound, not listening. The
 * kernel assigns the port to no other socket, a connect() to it is refused, and a listener with SO_REUSEADDR may use
 * it. */
int socket_reserve_port(bool ipv6, uint16_t *port);

/* A non-blocking listener. */
int socket_listen(bool ipv6, uint16_t port);

/* Sends the bytes for which the socket has room. Returns their number, or -1 if the connection is broken. */
long socket_send_some(int fd, const void *data, size_t length);

void socket_no_delay(int fd);

/* --- A fixture's thread that waits for descriptors, and whose state tests may change at any time --- */

/* The kernel reports only that a descriptor has become readable or writable: it is both until the kernel refuses. */
struct watched {
    int fd;
    bool readable, writable;
};

struct poller {
    pthread_t thread;
    pthread_mutex_t lock; /* of the fixture's state; held during a turn */
    void (*turn)(void *owner);
    void *owner;
    int epoll;
    struct watched wake; /* an eventfd */
    bool quit;
};

/* The thread repeats turn(owner), which calls poller_wait() once. */
void poller_start(struct poller *poller, void (*turn)(void *owner), void *owner);
void poller_stop(struct poller *poller);

/* Under the lock: begins to watch a descriptor, and ends this, with an RST instead of a FIN if `reset`. */
void poller_watch(struct poller *poller, struct watched *watched, int fd);
void poller_close(struct poller *poller, struct watched *watched, bool reset);

/* For a turn. Waits for events, for next_ns (UINT64_MAX: never), or for a test. */
void poller_wait(struct poller *poller, uint64_t next_ns);

/* For a test: takes the lock between two turns. A turn follows. */
void poller_enter(struct poller *poller);
void poller_leave(struct poller *poller);

#endif
