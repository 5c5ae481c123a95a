#include "src/client/acquire_wait.h"

#include <assert.h>
#include <stddef.h>

#include "src/client/acquire.h"
#include "src/client/client.h"
#include "src/core/clock.h"
#include "src/lock/handover.h"
#include "src/lock/queue_table.h"

struct rl_queue *rl_acquire_queue(const struct rl_acquire *acquire)
{
    struct rl_queue *queue = acquire->wait ? acquire->wait->waiter.queue : NULL;
    return queue && queue->known ? queue : NULL;
}

static bool is_attempting(const struct rl_acquire *acquire)
{
    return acquire->base.round && !quorum_round_over(&acquire->base.round->rules);
}

static struct rl_acquire *acquire_of(struct rl_waiter *waiter)
{
    return ((struct rl_acquire_wait *)(void *)((char *)waiter - offsetof(struct rl_acquire_wait, waiter)))->acquire;
}

/* Without a wake-up from the nodes the client tries again by itself. If the deadline leaves no time for another
 * attempt, the operation still waits until then: a node may wake it. */
static void plan_next_attempt(struct rl_acquire *acquire)
{
    struct rl_acquire_wait *wait = acquire->wait;
    struct rl_core *core = &acquire->base.client->core;
    const struct quorum_round *round = &acquire->base.round->rules;
    quorum_time now = rl_now();
    quorum_duration took = round->sent == QUORUM_NEVER ? 0 : quorum_time_since(round->sent, now);
    /* An attempt that a majority granted was given up because its validity was too short. */
    enum quorum_verdict verdict = round->verdict == QUORUM_WON ? QUORUM_LOST_TOO_SLOW : round->verdict;
    quorum_time next = quorum_retry_next(&wait->retry, now, verdict, took, rl_random_u64(&core->random));
    if (next != QUORUM_NEVER)
        rl_timer_set(&core->timers, &wait->pause, next);
}

void rl_acquire_wait_on(struct rl_acquire *acquire)
{
    assert(acquire->wait && acquire->base.round && !acquire->base.completed);
    struct rl_locks *locks = &acquire->base.client->locks;
    struct rl_acquire_wait *wait = acquire->wait;
    struct rl_waiter *waiter = &wait->waiter;
    const struct rl_names names = rl_lease_names(acquire->base.lease);
    if (!waiter->queue && !rl_queue_join(locks, &names, waiter))
        return;
    if (waiter->queue && !rl_queue_is_first(waiter))
        return;                 /* a reader that tried together with the first waiter */
    plan_next_attempt(acquire); /* before rl_queue_tried(), which may start an attempt */
    if (!waiter->queue)
        return;
    bool held = acquire->base.round->rules.verdict == QUORUM_LOST_HELD;
    rl_queue_tried(waiter, held, wait->pause.set ? wait->pause.due : wait->retry.deadline);
    if (rl_queue_can_be_notified(waiter))
        rl_acquire_wait_stop(acquire);
}

static void on_turn(struct rl_waiter *waiter)
{
    struct rl_acquire *acquire = acquire_of(waiter);
    if (!is_attempting(acquire))
        rl_acquire_attempt(acquire);
}

static void on_handed(struct rl_waiter *waiter, struct rl_round *round)
{
    rl_acquire_handed(acquire_of(waiter), round);
}

static void on_slot_freed(struct rl_waiter *waiter, unsigned slot)
{
    struct rl_acquire *acquire = acquire_of(waiter);
    if (!is_attempting(acquire) && acquire->slots)
        quorum_permits_freed(acquire->slots, slot);
}

static void on_must_poll(struct rl_waiter *waiter)
{
    struct rl_acquire *acquire = acquire_of(waiter);
    if (!acquire->wait->pause.set && acquire->base.round)
        plan_next_attempt(acquire);
}

static void on_pause_over(struct rl_timer *timer)
{
    struct rl_acquire_wait *wait =
        (struct rl_acquire_wait *)(void *)((char *)timer - offsetof(struct rl_acquire_wait, pause));
    if (rl_queue_can_be_notified(&wait->waiter))
        return; /* a majority can wake it by now, or a look is in progress */
    if (wait->waiter.queue)
        rl_queue_try(&wait->waiter);
    rl_acquire_attempt(wait->acquire);
}

void rl_acquire_wait_stop(struct rl_acquire *acquire)
{
    if (acquire->wait)
        rl_timer_stop(&acquire->base.client->core.timers, &acquire->wait->pause);
}

void rl_acquire_wait_leave(struct rl_acquire *acquire, const struct rl_round *won)
{
    rl_acquire_wait_stop(acquire);
    if (acquire->wait)
        rl_queue_leave(&acquire->wait->waiter, won);
}

/* One exclusive lock without a fencing token can be handed over. Its validity counts from the last message that the
 * waiter sent, so a hand-over takes up to RL_WAITER_FRESH_MS of it. */
static void offer_hand_over(struct rl_acquire *acquire, const struct rl_names *names)
{
    struct rl_waiter *waiter = &acquire->wait->waiter;
    uint32_t ttl_ms = acquire->terms.ttl_ms;
    bool plain = names->count == 1 && !acquire->shared && !acquire->permits && !acquire->fence;
    waiter->handed = on_handed;
    waiter->minimum_validity = acquire->minimum_validity_ms * QUORUM_MILLISECOND;
    if (plain && !acquire->all_answers && ttl_ms >= RL_HANDOVER_TTL_MS && acquire->minimum_validity_ms <= ttl_ms / 2)
        waiter->ttl = ttl_ms * QUORUM_MILLISECOND;
}

bool rl_acquire_wait_begin(struct rl_acquire *acquire, quorum_time deadline, bool keep_waiting,
                           const struct rl_names *names)
{
    struct rl_acquire_wait *wait = acquire->wait;
    struct rl_locks *locks = &acquire->base.client->locks;
    assert(!wait->waiter.queue);
    wait->acquire = acquire;
    wait->keep_waiting = keep_waiting;
    wait->pause.fire = on_pause_over;
    wait->waiter.attempt = on_turn;
    wait->waiter.must_poll = on_must_poll;
    wait->waiter.slot_freed = on_slot_freed;
    wait->waiter.permits = acquire->permits;
    wait->waiter.shared = acquire->shared;
    wait->waiter.deadline = deadline;
    offer_hand_over(acquire, names);
    quorum_retry_init(&wait->retry, deadline);
    /* A semaphore's acquires try at once, each another slot, unless others wait there or waited within the last second. */
    return (acquire->permits && !rl_queue_find(locks, names, acquire->shared)) ||
           rl_queue_join(locks, names, &wait->waiter);
}
