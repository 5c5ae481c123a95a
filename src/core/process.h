/*
 * Who calls: the process that created a client, whose forked children have the client's memory but not its connections;
 * the calling thread, and its protection from pthread_cancel(3) and SIGPIPE; and the owner of a lock, whose acquires alone
 * re-enter it (see "Re-entrancy" in docs/design.md).
 */
#ifndef RL_PROCESS_H
#define RL_PROCESS_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "redlock/redlock.h"

/* A page that the kernel wipes in a forked child, so recognizing the child takes one read and no system call. */
typedef const volatile unsigned char rl_process;

/* Marks the calling process. NULL: the system refused; Linux 4.14 or later is needed. */
rl_process *rl_process_mark(void);
void rl_process_free(rl_process *owner); /* may be NULL */

/* True in the process that called rl_process_mark(), false in a forked child. */
static inline bool rl_process_is(rl_process *owner)
{
    return *owner == 1;
}

/* The calling thread's number, from 1. It is never reused in the process; the system reuses a pthread_t. */
uint64_t rl_thread_id(void);

/* Starts a thread with all signals blocked, so that it handles none of the host program's signals. */
bool rl_thread_start(pthread_t *thread, void *(*run)(void *), void *data);

/* Defers pthread_cancel(3) of the calling thread until the returned state is restored. */
int rl_thread_disable_cancel(void);
void rl_thread_restore_cancel(int state);

/*
 * hiredis writes to sockets without MSG_NOSIGNAL. The link blocks SIGPIPE for the thread around these writes and consumes
 * a raised one, so that the process' dispositions and pending signals do not change.
 */
struct rl_sigpipe {
    sigset_t before; /* the thread's mask */
    bool blocks;     /* until restored; false: there is nothing to restore */
    bool pending;    /* one was pending before: it belongs to the host program */
};

void rl_sigpipe_block(struct rl_sigpipe *guard);
void rl_sigpipe_restore(struct rl_sigpipe *guard, bool broken); /* broken: a write may have raised it */

/* The kinds are separate name spaces: a thread's number never equals a caller's pointer. */
enum rl_owner_kind { RL_OWNER_NONE, RL_OWNER_THREAD, RL_OWNER_GIVEN };

struct rl_owner {
    enum rl_owner_kind kind;
    uint64_t value;
};

static inline struct rl_owner rl_owner_none(void)
{
    return (struct rl_owner){RL_OWNER_NONE, 0};
}

static inline struct rl_owner rl_owner_thread(void)
{
    return (struct rl_owner){RL_OWNER_THREAD, rl_thread_id()};
}

/* The owner by the options; without one there, `caller`: the calling thread, or no owner. But a permit has an owner only if
 * the options give one: threads pass permits on to each other. */
static inline struct rl_owner rl_owner_of(const redlock_acquire_options *options, struct rl_owner caller)
{
    if (options->owner)
        return (struct rl_owner){RL_OWNER_GIVEN, (uintptr_t)options->owner};
    return options->reentry == REDLOCK_REENTRY_NEVER || options->permits ? rl_owner_none() : caller;
}

/* No acquire re-enters a lock without an owner: "no owner" does not equal itself. */
static inline bool rl_owner_is(struct rl_owner owner, struct rl_owner other)
{
    return owner.kind != RL_OWNER_NONE && owner.kind == other.kind && owner.value == other.value;
}

#endif
