/*
 * The thread that runs the loop of a client created by redlock_connect(), and the two queues between it and the others.
 * No other thread ever runs the loop: a thread of the caller can be held up by a signal handler or by its priority, and
 * every renewal and every loss of the client would wait for it.
 */
#ifndef RL_LOOP_THREAD_H
#define RL_LOOP_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "src/client/call.h"
#include "src/client/completions.h"

enum rl_closing { RL_OPEN, RL_CLOSING, RL_CLOSING_ASYNC };

struct rl_loop_thread {
    struct ev_loop *loop;
    pthread_t thread;
    redlock_allocator allocator; /* the client's; outlives it */
    redlock_client *client;
    _Atomic pthread_t awake; /* the same thread while it works on the client; 0 while it polls, or has ended */
    bool ended;              /* the client is closed */
    atomic_int closing;      /* enum rl_closing */
    struct rl_calls calls;
    struct rl_completions completions;
    atomic_uint posted; /* asynchronous calls whose callback has not run */
    struct {            /* redlock_close_async() */
        struct rl_call call;
        struct rl_completion completion;
        redlock_callback callback;
        void *arg;
    } close;
};

/* Posts a call. Any thread; the dispatching one, inside a callback, gathers the calls of its dispatch. false: the
 * client is closed, and only its last callbacks are left. */
bool rl_loop_thread_post(redlock_client *client, struct rl_call *call);

/* The same for a blocking call, for which a dispatching thread does not gather. */
bool rl_loop_thread_post_now(redlock_client *client, struct rl_call *call);

/* The calling thread works on the client: this is inside one of the client's callbacks. */
bool rl_loop_thread_is_current(const redlock_client *client);

/* Begins a close. false: there is one in progress. */
bool rl_loop_thread_begin_close(redlock_client *client, enum rl_closing closing);

/* The run() of a call that closes its client. */
void rl_loop_thread_start_close(struct rl_call *call);

/* After the call that closes the client: runs the last callbacks on this thread, and frees the client. */
void rl_loop_thread_end(redlock_client *client);

/* The same after the last completion of redlock_close_async(), whose callback is the last. */
void rl_loop_thread_end_async(redlock_client *client);

/* The same in a forked child, without callbacks. Leaves the client alone if its thread was busy during the fork. */
void rl_loop_thread_drop(redlock_client *client);

int rl_loop_thread_close_async(redlock_client **client, const struct rl_arguments *arguments, redlock_callback callback,
                               void *arg);

#endif
