/*
 * The thread that runs the loop of a client created by redlock_connect(), and the two queues between it and the others.
 *
 * One thread at a time drives the loop: it polls, reads and writes. Usually that is the loop's thread. While lone
 * blocking calls follow each other closely, the calling thread drives the loop until its call has ended, another
 * operation begins, or an event is to be reported: that saves a call two switches between threads. The loop's thread rests
 * meanwhile. It drives again as soon as something waits, or when no call has driven for RL_REST: late replies and timers
 * may wait that long.
 */
#ifndef RL_LOOP_THREAD_H
#define RL_LOOP_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "quorum/time.h"
#include "src/client/calls.h"
#include "src/client/completions.h"

/* How long the loop's thread rests after a call that drove the loop. */
#define RL_REST (2 * QUORUM_MILLISECOND)

/* How long the loop's thread keeps driving after several calls at a time: it serves them all with few switches. */
#define RL_CROWDED (20 * QUORUM_MILLISECOND)

enum rl_driver { RL_NOBODY, RL_LOOPS_THREAD, RL_CALLING_THREAD };

enum rl_closing { RL_OPEN, RL_CLOSING, RL_CLOSING_ASYNC };

struct rl_loop_thread {
    struct ev_loop *loop;
    pthread_t thread;
    redlock_allocator allocator; /* the client's; outlives it */
    redlock_client *client;
    pthread_mutex_t turn;     /* held by the thread that works on the client; a driver that polls releases it */
    _Atomic pthread_t worker; /* that thread; 0: none, so the client is not in the middle of a change */
    enum rl_driver driver;
    const bool *awaited; /* ends the drive of a calling thread */
    bool wanted;         /* a calling thread wants to drive the next time */
    quorum_time crowded; /* until then no calling thread drives: there were several calls at a time */
    bool ended;          /* the client is closed */
    struct {
        int poll;          /* epoll: the loop's thread sleeps here, until the client's wake-up or the timer */
        int timer;         /* timerfd */
        bool set;          /* the timer */
        quorum_time until; /* then the loop's thread drives, unless a calling thread does */
    } rest;
    atomic_int closing; /* enum rl_closing */
    struct rl_calls calls;
    struct rl_completions completions;
    atomic_uint queued; /* asynchronous calls whose callback has not run */
    struct {            /* redlock_close_async() */
        struct rl_call call;
        struct rl_completion completion;
        redlock_callback callback;
        void *arg;
        redlock_result result;
    } close;
};

/* Starts the calls of other threads. Runs on the loop's thread. */
void rl_loop_thread_take_calls(redlock_client *client);

/* Queues a call. Any thread; the dispatching one, inside a callback, gathers the calls of its dispatch. false: the
 * client is closed, and only its last callbacks are left. */
bool rl_loop_thread_queue(redlock_client *client, struct rl_call *call);

/* The same for a blocking call, for which a dispatching thread does not gather. */
bool rl_loop_thread_queue_now(redlock_client *client, struct rl_call *call);

/* Starts a call, and drives the loop until *ended, or until the loop's thread must drive: then that ends the call. false:
 * nothing was done; another thread drives. */
bool rl_loop_thread_drive(redlock_client *client, struct rl_call *call, const bool *ended);

/* The callbacks of events may be called: this is the loop's thread. */
bool rl_loop_thread_calls_back(const redlock_client *client);

/* A calling thread drives, and must not poll again. */
bool rl_loop_thread_is_done(const redlock_client *client);

/* The calling thread works on the client: this is inside one of the client's callbacks. */
bool rl_loop_thread_is_current(const redlock_client *client);

/* Begins a close. false: there is one in progress. */
bool rl_loop_thread_begin_close(redlock_client *client, enum rl_closing closing);

/* The start function of a call that closes its client. */
void rl_loop_thread_start_close(struct rl_call *call);

/* After the call that closes the client: runs the last callbacks on this thread, and frees the client. */
void rl_loop_thread_end(redlock_client *client);

/* The same after the last completion of redlock_close_async(), whose callback is the last. */
void rl_loop_thread_end_async(redlock_client *client);

/* The same in a forked child, without callbacks. Leaves the client alone if its thread was busy during the fork. */
void rl_loop_thread_drop(redlock_client *client);

int rl_loop_thread_close_async(redlock_client **client, redlock_callback callback, void *arg);

#endif
