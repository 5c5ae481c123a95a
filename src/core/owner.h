/* The owner of a lock: only its acquires re-enter the lock. See "Re-entrancy" in docs/design.md. */
#ifndef RL_OWNER_H
#define RL_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock/redlock.h"
#include "src/core/thread.h"

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

/* The owner by the options; without one there, `caller`: the calling thread, or no owner. */
static inline struct rl_owner rl_owner_of(const redlock_acquire_options *options, struct rl_owner caller)
{
    if (options->reentry == REDLOCK_REENTRY_NEVER)
        return rl_owner_none();
    return options->owner ? (struct rl_owner){RL_OWNER_GIVEN, (uintptr_t)options->owner} : caller;
}

/* No acquire re-enters a lock without an owner: "no owner" does not equal itself. */
static inline bool rl_owner_is(struct rl_owner owner, struct rl_owner other)
{
    return owner.kind != RL_OWNER_NONE && owner.kind == other.kind && owner.value == other.value;
}

#endif
