#include "src/lock/locks.h"

#include <assert.h>

#include "src/lock/renewal.h"

void rl_locks_open(struct rl_locks *locks, struct rl_core *core, struct rl_nodes *nodes,
                   const struct rl_locks_events *events, redlock_client *client)
{
    locks->core = core;
    locks->nodes = nodes;
    locks->events = events;
    locks->client = client;
    locks->release_timer.fire = rl_detached_on_timer;
    locks->renewal_timer.fire = rl_renewals_gathered;
    rl_queues_open(locks);
}

void rl_locks_drop(struct rl_locks *locks)
{
    assert(!locks->waiting.first); /* their operations have ended */
    rl_timer_stop(&locks->core->timers, &locks->admission_timer);
    rl_queues_free(locks);
    rl_releases_drop(locks);
    rl_detached_drop(locks);
}
