/*
 * What every floor of one client stands on: its memory, options, loop, timers, random numbers, log and counters. The client owns it;
 * the floors above this one keep a pointer. Only the loop's thread uses it.
 */
#ifndef RL_CORE_H
#define RL_CORE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "redlock/redlock.h"
#include "src/core/random.h"
#include "src/core/timer.h"
#include "src/core/wakeup.h"

struct rl_core {
    redlock_allocator allocator;
    redlock_options options; /* the strings are owned by the client */
    struct ev_loop *loop;
    struct rl_timers timers;
    struct rl_random random;
    struct rl_wakeup *wakeup; /* wakes the loop from other threads */
    redlock_statistics statistics;
    bool closing;
    bool forked; /* being freed in a forked child: nothing is sent, nothing is logged, no callback runs */
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

/* Whether a line of this level reaches the user's log callback. */
bool rl_logs(const struct rl_core *core, int level);
void rl_log(const struct rl_core *core, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
