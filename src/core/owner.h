/* Whose a lock is: the owner alone may acquire it again. See "Re-entrancy" in docs/design.md. */
#ifndef RL_OWNER_H
#define RL_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock/redlock.h"
#include "src/core/thread.h"

/* The kinds are name spaces: a thread's number never equals a pointer that a caller gives. */
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

/* The owner that the options ask for; otherwise the caller's: its thread, or none. */
static inline struct rl_owner rl_owner_of(const redlock_acquire_options *options, struct rl_owner caller)
{
    if (options->reentry == REDLOCK_REENTRY_NEVER)
        return rl_owner_none();
    return options->owner ? (struct rl_owner){RL_OWNER_GIVEN, (uintptr_t)options->owner} : caller;
}

/* A lock without an owner is nobody's to acquire again. */
static inline bool rl_owner_is(struct rl_owner owner, struct rl_owner other)
{
    return owner.kind != RL_OWNER_NONE && owner.kind == other.kind && owner.value == other.value;
}

#endif
