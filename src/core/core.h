/*
 * src/core is the lowest floor: clock, timers, memory, random numbers, threads, wake-ups, and the text of results and
 * tokens. It knows no nodes and no locks. Its files do not call each other in cycles.
 *
 * struct rl_core is the state that all floors of one client share. The client owns it; each floor above keeps a
 * pointer. Only the loop's thread uses it.
 */
#ifndef RL_CORE_H
#define RL_CORE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "redlock/redlock.h"
#include "src/core/process.h"
#include "src/core/random.h"
#include "src/core/timer.h"
#include "src/core/wakeup.h"

struct rl_core {
    redlock_allocator allocator;
    redlock_options options; /* the client owns the strings */
    struct ev_loop *loop;
    struct rl_timers timers;
    struct rl_random random;
    struct rl_wakeup *wakeup; /* wakes the loop from other threads */
    redlock_statistics statistics;
    bool closing;
    bool forked; /* a forked child frees the client: it sends nothing, logs nothing and calls no callback */
    rl_process *owner;
};

/* Uninitialised memory, or NULL. */
static inline void *rl_core_allocate(struct rl_core *core, size_t size)
{
    return core->allocator.allocate(size, core->allocator.user);
}

static inline void rl_core_free(struct rl_core *core, void *memory)
{
    core->allocator.release(memory, core->allocator.user);
}

/* True if the log callback receives lines of this level: worth formatting them. */
bool rl_logs(const struct rl_core *core, int level);
void rl_log(const struct rl_core *core, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
