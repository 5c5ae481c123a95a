/*
 * The queue of completions from the loop's thread to the threads that call redlock_dispatch(): ended operations, and
 * events of locks. The loop's thread never waits for a dispatching thread: it pushes the completions of one turn of the
 * loop to a lock-free stack, and writes the eventfd if the stack was empty. The mutex is only between threads that
 * dispatch or close.
 */
#ifndef RL_COMPLETIONS_H
#define RL_COMPLETIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/core/process.h"
#include "src/core/wakeup.h"

struct rl_completion {
    struct rl_completion *next;
    void (*run)(struct rl_completion *completion); /* calls the user's callback */
    void (*end)(struct rl_completion *completion); /* frees it, after run() or without it */
};

struct rl_completions {
    _Atomic(struct rl_completion *) posted; /* newest first */
    struct rl_completion *gathered;         /* in this turn of the loop, newest first */
    struct rl_completion *gathered_oldest;
    rl_process *owner;                  /* a callback may fork, and return in the child */
    _Atomic(struct rl_wakeup *) wakeup; /* NULL until a caller wants the descriptor */
    pthread_mutex_t mutex;
    pthread_cond_t left;         /* no thread dispatches */
    _Atomic uint64_t dispatcher; /* the dispatching thread's number; 0: none. Set under the mutex */
    bool ended;                  /* no thread may dispatch any more. Under the mutex */
    struct rl_completion *batch; /* taken from the stack, oldest first; the dispatching thread's */
    struct rl_completion *running;
    const struct rl_completion *last; /* the close's: rl_completions_run() does not run it */
    bool last_came;
};

void rl_completions_open(struct rl_completions *completions, const struct rl_completion *last);
void rl_completions_close(struct rl_completions *completions);

/* Frees everything without running it. In a forked child another thread may have been dispatching. */
void rl_completions_drop(struct rl_completions *completions);

/* Loop's thread: adds one to this turn's, and posts them. */
void rl_completions_add(struct rl_completions *completions, struct rl_completion *completion);
void rl_completions_post(struct rl_completions *completions);

/* The descriptor that is readable while completions wait; -1: the system refused one. Any thread. */
int rl_completions_descriptor(struct rl_completions *completions);

/* Makes the calling thread the dispatching one. false: there is one already, or completions have ended. */
bool rl_completions_enter(struct rl_completions *completions);

/* The same at the end of a close: waits until no thread dispatches. None may enter afterwards. */
void rl_completions_enter_last(struct rl_completions *completions);

/* Runs what has been posted. true: the last completion has come. */
bool rl_completions_run(struct rl_completions *completions);

/* The dispatching thread leaves, perhaps by ending inside a callback: the completions that it has taken and not run
 * wait for the next one. After the last completion no thread may enter. */
void rl_completions_leave(struct rl_completions *completions);

bool rl_completions_is_dispatcher(const struct rl_completions *completions);

#endif
