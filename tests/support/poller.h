/* A fixture's thread that polls descriptors, and whose state tests may change at any time. */
#ifndef TESTS_SUPPORT_POLLER_H
#define TESTS_SUPPORT_POLLER_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct poller {
    pthread_t thread;
    pthread_mutex_t lock;   /* of the fixture's state; held during a turn */
    pthread_cond_t changed; /* signals every change that a test may wait for */
    void (*turn)(void *owner);
    void *owner;
    int wake; /* eventfd */
    unsigned visitors;
    bool polling;
    bool quit;
};

/* The thread repeats turn(owner), which calls poller_wait() once. */
void poller_start(struct poller *poller, void (*turn)(void *owner), void *owner);
void poller_stop(struct poller *poller);

/* For a turn. Waits for events, for next_ns (UINT64_MAX: never), or for a test. polled[0] belongs to the poller. */
void poller_wait(struct poller *poller, struct pollfd *polled, size_t count, uint64_t next_ns);

/* For a test: takes the lock between two turns, so that the descriptors, too, may be closed (a polled one would stay
 * open until the thread has returned from poll(2)). A turn follows. */
void poller_enter(struct poller *poller);
void poller_leave(struct poller *poller);

#endif
