/*
 * Acquire: attempts, each a round with a new lease, until one is won, the time is over, or waiting does not help.
 *
 * In: the arguments; the verdict of each round; from the queue (src/lock/queue.c) the waiter's turn or a lock that is
 * handed over. Out: a lease that is held, and its handle; between attempts an entry in the queue. What must never
 * happen: an attempt that is given up without its undo.
 *
 * An attempt that is won settles its fencing token, if it wants one, and then holds the lease. One that has failed tries
 * other slots of a semaphore, ends the operation, or waits. An owner that holds the lock already re-enters it.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

#include "quorum/permits.h"
#include "quorum/retry.h"
#include "src/client/client.h"
#include "src/client/options.h"
#include "src/core/histogram.h"
#include "src/core/result.h"
#include "src/core/wall.h"
#include "src/lock/queue_table.h"

struct rl_acquire_wait {
    struct rl_acquire *acquire;
    struct quorum_retry retry;
    struct rl_timer pause; /* until the next attempt */
    struct rl_waiter waiter;
    bool keep_waiting; /* although a majority is misconfigured */
};

struct rl_acquire {
    struct rl_operation base; /* its lease is that of the attempt, then of the lock */
    redlock_lock *lock;       /* the handle; NULL until the lock is acquired */
    uint64_t record;          /* the largest fencing record of the nodes that granted */
    uint32_t minimum_validity_ms;
    uint8_t permits; /* of a semaphore; otherwise 0 */
    uint8_t wanted;  /* of them */
    bool all_answers;
    bool shared;
    bool raising;                /* the attempt's round was won, and another one raises its fencing token */
    bool overdue;                /* the deadline has passed: this attempt is the last */
    bool spared;                 /* the deadline was postponed once, to read replies that had arrived */
    struct rl_lease_terms terms; /* of the lock */
    /* Behind the struct, if the acquire needs them: */
    struct rl_acquire_wait *wait; /* it waits */
    struct quorum_fence *fence;   /* of the attempt, if it wants a fencing token */
    struct quorum_permits *slots; /* of a semaphore */
};

static void acquire_attempt(struct rl_acquire *acquire);
static bool acquire_reenters_by_now(struct rl_acquire *acquire);
static void acquire_confirm(struct rl_acquire *acquire, const struct rl_round *round);
static void acquire_lost(struct rl_acquire *acquire, int cause);
static void acquire_won(struct rl_acquire *acquire, const struct rl_round *round);
static void acquire_on_handed(struct rl_waiter *waiter, struct rl_round *round);

/* ---------------------------------------------------------------------------------------------------------- waiting */

static void acquire_stop_pause(struct rl_operation *operation)
{
    struct rl_acquire *acquire = (struct rl_acquire *)operation;
    if (acquire->wait)
        rl_timer_stop(&acquire->wait->pause);
}

static struct rl_queue *acquire_queue(const struct rl_acquire *acquire)
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
static void acquire_plan_attempt(struct rl_acquire *acquire)
{
    struct rl_acquire_wait *wait = acquire->wait;
    struct rl_core *core = &acquire->base.client->core;
    const struct quorum_round *round = &acquire->base.round->rules;
    const struct quorum_waiting *rules = rl_queue_rules(&wait->waiter);
    quorum_time now = rl_now();
    quorum_duration took = round->sent == QUORUM_NEVER ? 0 : quorum_time_since(round->sent, now);
    /* An attempt that a majority granted was given up because its validity was too short. */
    enum quorum_verdict verdict = round->verdict == QUORUM_WON ? QUORUM_LOST_TOO_SLOW : round->verdict;
    if (rules && quorum_waiting_sees_changes(rules))
        wait->retry.losses = 0; /* a pause that has grown behind one holder would keep all others waiting */
    quorum_time next = quorum_retry_next(&wait->retry, now, verdict, took, rl_random_u64(&core->random));
    if (next != QUORUM_NEVER)
        rl_timer_set(&core->timers, &wait->pause, rules ? quorum_waiting_poll_at(rules, now, next) : next);
}

static void acquire_wait_on(struct rl_acquire *acquire)
{
    assert(acquire->wait && acquire->base.round && !acquire->base.completed);
    struct rl_acquire_wait *wait = acquire->wait;
    struct rl_waiter *waiter = &wait->waiter;
    const struct rl_names names = rl_lease_names(acquire->base.lease);
    rl_operation_keep_votes(&acquire->base);
    bool reenters = acquire->base.lease->links.listed; /* its owner's lock is to be extended */
    if (!waiter->queue && !reenters && !rl_queue_join(&acquire->base.client->locks, &names, waiter))
        return;
    if (waiter->queue && waiter->queue->first != waiter)
        return;                    /* a reader that tried together with the first waiter */
    acquire_plan_attempt(acquire); /* before rl_queue_tried(), which may start an attempt */
    if (!waiter->queue)
        return;
    bool held = acquire->base.round->rules.verdict == QUORUM_LOST_HELD;
    rl_queue_tried(waiter, held, wait->pause.set ? wait->pause.due : wait->retry.deadline);
    if (rl_queue_can_be_notified(waiter))
        acquire_stop_pause(&acquire->base);
}

static void acquire_on_turn(struct rl_waiter *waiter)
{
    struct rl_acquire *acquire = acquire_of(waiter);
    if (!is_attempting(acquire))
        acquire_attempt(acquire);
}

static void acquire_on_slot_freed(struct rl_waiter *waiter, unsigned slot)
{
    struct rl_acquire *acquire = acquire_of(waiter);
    if (!is_attempting(acquire) && acquire->slots)
        quorum_permits_freed(acquire->slots, slot);
}

static void acquire_on_must_poll(struct rl_waiter *waiter)
{
    struct rl_acquire *acquire = acquire_of(waiter);
    if (!acquire->wait->pause.set && acquire->base.round)
        acquire_plan_attempt(acquire);
}

static void acquire_on_pause_over(struct rl_timer *timer)
{
    struct rl_acquire_wait *wait =
        (struct rl_acquire_wait *)(void *)((char *)timer - offsetof(struct rl_acquire_wait, pause));
    if (rl_queue_can_be_notified(&wait->waiter))
        return; /* a majority can wake it by now, or a look is in progress */
    if (wait->waiter.queue)
        rl_queue_try(&wait->waiter);
    else if (acquire_reenters_by_now(wait->acquire))
        return;
    acquire_attempt(wait->acquire);
}

static void acquire_leave_queue(struct rl_acquire *acquire, const struct rl_round *won)
{
    acquire_stop_pause(&acquire->base);
    if (acquire->wait)
        rl_queue_leave(&acquire->wait->waiter, won, acquire->base.round);
}

/* One exclusive lock without a fencing token can be handed over. Its validity counts from the last message that the
 * waiter sent, so a hand-over takes up to RL_WAITER_FRESH_MS of it. */
static void acquire_offer_hand_over(struct rl_acquire *acquire, const struct rl_names *names)
{
    struct rl_waiter *waiter = &acquire->wait->waiter;
    uint32_t ttl_ms = acquire->terms.ttl_ms;
    bool plain = names->count == 1 && !acquire->shared && !acquire->permits && !acquire->fence;
    waiter->handed = acquire_on_handed;
    waiter->minimum_validity = acquire->minimum_validity_ms * QUORUM_MILLISECOND;
    if (plain && !acquire->all_answers && ttl_ms >= RL_HANDOVER_TTL_MS && acquire->minimum_validity_ms <= ttl_ms / 2)
        waiter->ttl = ttl_ms * QUORUM_MILLISECOND;
}

static void acquire_prepare_wait(struct rl_acquire *acquire, bool keep_waiting, const struct rl_names *names)
{
    struct rl_acquire_wait *wait = acquire->wait;
    wait->acquire = acquire;
    wait->keep_waiting = keep_waiting;
    wait->pause.fire = acquire_on_pause_over;
    wait->waiter.attempt = acquire_on_turn;
    wait->waiter.must_poll = acquire_on_must_poll;
    wait->waiter.slot_freed = acquire_on_slot_freed;
    wait->waiter.permits = acquire->permits;
    wait->waiter.wanted = acquire->wanted;
    wait->waiter.shared = acquire->shared;
    wait->waiter.deadline = acquire->base.timer.set ? acquire->base.timer.due : QUORUM_NEVER;
    acquire_offer_hand_over(acquire, names);
    wait->retry.deadline = wait->waiter.deadline;
}

static void acquire_complete(struct rl_acquire *acquire, int status)
{
    acquire_stop_pause(&acquire->base);
    rl_operation_complete(&acquire->base, status);
    acquire_leave_queue(acquire, status == REDLOCK_OK ? acquire->base.round : NULL);
}

/* ---------------------------------------------------------------------------------------------------------- replies */

static void acquire_replied(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    struct rl_acquire *acquire = round->owner;
    if (round->fence && vote->vote == QUORUM_GRANTED && !quorum_round_over(&round->rules))
        quorum_fence_answered(acquire->fence, node, vote->record);
    if (acquire->permits && vote->vote == QUORUM_HELD)
        quorum_permits_refused(acquire->slots, vote->record);
    if (vote->vote == QUORUM_GRANTED && vote->record > acquire->record)
        acquire->record = vote->record;
    if (round->command != RL_COMMAND_TAKE)
        return;
    if (vote->vote == QUORUM_HELD && reply->element[RL_WAIT_REMAINING]->integer == 0)
        rl_round_note(round, node, "free, but other waiters are ahead");
    rl_queue_answered(&acquire->wait->waiter, node, vote, reply);
}

/* ---------------------------------------------------------------------------------------------------- fencing token */

static void acquire_propose_token(struct rl_acquire *acquire)
{
    assert(acquire->fence);
    redlock_client *client = acquire->base.client;
    quorum_fence_init(acquire->fence, client->nodes->count, &client->fence_clock, rl_wall_us(), rl_now());
}

/* A majority has the lock. true: it has the fencing token, too, above all earlier ones. false: it must be raised. */
static bool acquire_settle_token(struct rl_acquire *acquire)
{
    assert(acquire->fence);
    bool settled = quorum_fence_confirmed(acquire->fence);
    quorum_fence_learn(&acquire->base.client->fence_clock, acquire->fence);
    if (settled)
        acquire->base.lease->fence = acquire->fence->token;
    return settled;
}

/* Gives up a granted lock. The undo follows all its requests. */
static void acquire_give_up(struct rl_acquire *acquire, int cause)
{
    acquire->raising = false;
    rl_lease_release_detached(acquire->base.lease);
    acquire_lost(acquire, cause);
}

static void acquire_token_raised(struct rl_round *round)
{
    struct rl_acquire *acquire = round->owner;
    quorum_duration least = acquire->minimum_validity_ms * QUORUM_MILLISECOND;
    enum quorum_verdict verdict = round->rules.verdict;
    if (verdict == QUORUM_LOST_GONE) /* it expired meanwhile */
        acquire_give_up(acquire, REDLOCK_TOO_SLOW);
    else if (verdict != QUORUM_WON)
        acquire_give_up(acquire, rl_result_status(verdict));
    else if (quorum_time_until(round->rules.validity_end, rl_now()) < least)
        acquire_give_up(acquire, REDLOCK_TOO_SLOW);
    else
        acquire_confirm(acquire, round);
}

/* Sends the larger token with an extension. */
static void acquire_raise_token(struct rl_acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    const struct quorum_terms terms = {
        .kind = QUORUM_EXTEND,
        .ttl = acquire->terms.ttl_ms * QUORUM_MILLISECOND,
        .validity_end = operation->round->rules.validity_end,
    };
    struct rl_round *round = rl_round_create(operation->lease, RL_COMMAND_KEEP, terms);
    acquire->raising = round != NULL;
    if (!round) {
        rl_lease_release_detached(operation->lease);
        acquire_complete(acquire, REDLOCK_NO_MEMORY);
        return;
    }
    round->fence = acquire->fence->token;
    round->replied = acquire_replied;
    rl_round_leave(operation->round);
    rl_operation_start_round(operation, round, acquire_token_raised);
}

static void acquire_confirm(struct rl_acquire *acquire, const struct rl_round *round)
{
    assert(round->rules.verdict == QUORUM_WON);
    if (acquire->shared)
        acquire->base.lease->fence = acquire->record; /* readers get the last writer's token */
    if (!acquire->fence || acquire_settle_token(acquire))
        acquire_won(acquire, round);
    else if (acquire->overdue) /* the deadline has passed while the last answers were awaited */
        acquire_give_up(acquire, REDLOCK_TOO_SLOW);
    else
        acquire_raise_token(acquire);
}

/* --------------------------------------------------------------------------------------------------------- re-entry */

static void acquire_share(struct rl_acquire *acquire)
{
    assert(!acquire->lock && !acquire->permits);
    redlock_client *client = acquire->base.client;
    acquire->lock = rl_lease_share(acquire->base.lease, &acquire->terms);
    client->core.statistics.reentered += acquire->lock != NULL;
    if (acquire->lock && !acquire->base.round)
        rl_operation_explain(&acquire->base,
                             "done: this owner already holds the lock: hold count %u; no request was sent",
                             acquire->base.lease->handles.count);
    rl_operation_complete(&acquire->base, acquire->lock ? REDLOCK_OK : REDLOCK_NO_MEMORY);
}

static bool is_long_enough(const struct rl_acquire *acquire)
{
    return rl_lease_validity(acquire->base.lease) >= acquire->minimum_validity_ms * QUORUM_MILLISECOND;
}

static bool wants_token(const struct rl_acquire *acquire)
{
    return acquire->fence && !acquire->base.lease->fence;
}

/* Refuses a lock that the owner's own excludes: the owner would wait for itself. */
static void acquire_refuse_own(struct rl_acquire *acquire, const struct rl_lease *own, struct rl_text name)
{
    struct rl_operation *operation = &acquire->base;
    bool is_lost = rl_lease_validity(own) == 0;
    int shown = name.size > 64 ? 64 : (int)name.size;
    if (is_lost)
        rl_operation_explain(operation, "this owner lost its lock on '%.*s'; release all its handles first", shown,
                             name.bytes);
    else
        rl_operation_explain(operation,
                             "the lock can never be granted: this owner holds '%.*s'%s; release that first%s", shown,
                             name.bytes, own->shared ? " shared" : "",
                             own == operation->lease ? "" : ", or acquire all of the resources at once");
    acquire_complete(acquire, is_lost ? REDLOCK_LOST : REDLOCK_INVALID);
}

static void acquire_extend_first(struct rl_acquire *acquire);

static void acquire_reentry_decided(struct rl_round *round)
{
    struct rl_acquire *acquire = round->owner;
    rl_lease_extended(acquire->base.lease, &round->rules);
    bool is_released = !acquire->base.lease->links.listed; /* all its handles, meanwhile */
    if (atomic_load(&acquire->base.lease->loss) || (is_released && (!acquire->wait || acquire->overdue)))
        rl_operation_complete(&acquire->base, REDLOCK_LOST);
    else if (is_released)
        acquire_attempt(acquire);
    else if (acquire->base.lease->shared && !acquire->shared) /* it has been downgraded meanwhile */
        acquire_refuse_own(acquire, acquire->base.lease, rl_lease_resource(acquire->base.lease, 0));
    else if (round->rules.verdict != QUORUM_WON)
        acquire_lost(acquire, rl_result_status(round->rules.verdict));
    else if (wants_token(acquire) && !acquire_settle_token(acquire))
        acquire_extend_first(acquire);
    else if (!is_long_enough(acquire))
        acquire_lost(acquire, REDLOCK_TOO_SLOW);
    else
        acquire_share(acquire);
}

static void acquire_extend_first(struct rl_acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    rl_round_leave(operation->round);
    struct rl_round *round = rl_round_create_extension(operation->lease, acquire->terms.ttl_ms);
    if (round && wants_token(acquire)) {
        round->command = RL_COMMAND_KEEP;
        round->fence = acquire->fence->token;
        round->replied = acquire_replied;
    }
    rl_operation_start_round(operation, round, acquire_reentry_decided);
}

/* Re-entry into a lost lock fails, because the outer section has lost its protection. */
static void acquire_reenter(struct rl_acquire *acquire, struct rl_lease *lease)
{
    assert(rl_owner_is(lease->owner, acquire->terms.owner));
    acquire_leave_queue(acquire, NULL);
    rl_round_leave(acquire->base.round); /* of an attempt that has failed */
    acquire->base.round = NULL;
    rl_lease_unref(acquire->base.lease);
    acquire->base.lease = rl_lease_ref(lease);
    if (rl_lease_validity(lease) == 0 || (lease->shared && !acquire->shared)) {
        acquire_refuse_own(acquire, lease, rl_lease_resource(lease, 0));
        return;
    }
    if (is_long_enough(acquire) && acquire->terms.ttl_ms <= rl_lease_ttl_ms(lease) && !wants_token(acquire)) {
        acquire_share(acquire);
        return;
    }
    if (wants_token(acquire))
        acquire_propose_token(acquire);
    acquire_extend_first(acquire);
}

/* true: the owner's locks decide the acquire, by a re-entry or a refusal. */
static bool acquire_is_reentry(struct rl_acquire *acquire, const struct rl_names *names)
{
    struct rl_locks *locks = &acquire->base.client->locks;
    struct rl_owner owner = acquire->terms.owner;
    struct rl_text name;
    if (owner.kind == RL_OWNER_NONE)
        return false;
    if (acquire->permits) { /* each acquire takes other permits */
        unsigned held = rl_leases_count_permits(locks, names->name[0], acquire->permits, owner);
        if (held + acquire->wanted <= acquire->permits)
            return false;
        rl_operation_explain(&acquire->base,
                             "%u more can never be granted: this owner holds %u of the %u permits; release %u first",
                             acquire->wanted, held, acquire->permits, held + acquire->wanted - acquire->permits);
        acquire_complete(acquire, REDLOCK_INVALID);
        return true;
    }
    struct rl_lease *own = rl_leases_find_owned(locks, names, owner);
    if (own)
        acquire_reenter(acquire, own);
    else if ((own = rl_leases_find_obstacle(locks, names, owner, acquire->shared, &name)) != NULL)
        acquire_refuse_own(acquire, own, name);
    return own != NULL;
}

/* The semaphore's slot that this client used last, of several the first, plus one; 0: none. */
static uint8_t *remembered(redlock_client *client, struct rl_text semaphore)
{
    uint64_t hash = rl_hash(RL_HASH_OF_NOTHING, semaphore.bytes, semaphore.size);
    return &client->slots[(hash ^ hash >> 32) % RL_SLOTS_REMEMBERED];
}

/* -------------------------------------------------------------------------------------------- the end of an attempt */

static void acquire_won(struct rl_acquire *acquire, const struct rl_round *round)
{
    assert(!acquire->lock && round->rules.verdict == QUORUM_WON);
    struct rl_lease *lease = acquire->base.lease;
    acquire->terms.validity_end = round->rules.validity_end;
    if (!rl_lease_hold(lease, &acquire->terms)) {
        rl_lease_release_detached(lease);
        acquire_complete(acquire, REDLOCK_NO_MEMORY);
        return;
    }
    acquire->lock = &lease->handles.first;
    acquire->raising = false;
    if (acquire->permits)
        *remembered(acquire->base.client, rl_lease_resource(lease, 0)) =
            (uint8_t)(quorum_permits_first(acquire->slots) + 1);
    acquire_complete(acquire, REDLOCK_OK);
}

/* A majority has handed the lock over to the round's lease. An attempt in progress is given up. */
static void acquire_on_handed(struct rl_waiter *waiter, struct rl_round *round)
{
    struct rl_acquire *acquire = acquire_of(waiter);
    assert(acquire->wait && round->rules.verdict == QUORUM_WON);
    struct rl_operation *operation = &acquire->base;
    if (operation->round)
        rl_round_cancel(operation->round);
    rl_round_leave(operation->round);
    rl_lease_unref(operation->lease);
    rl_fanout_ref(&round->fanout);
    operation->round = round;
    operation->lease = rl_lease_ref(round->lease);
    operation->attempts++;
    acquire_won(acquire, round);
}

/* Tries other free slots of the semaphore, if there are enough. */
static bool acquire_next_slot(struct rl_acquire *acquire, int cause)
{
    if (!acquire->permits || cause != REDLOCK_HELD || acquire->overdue ||
        !quorum_permits_next(acquire->slots, rl_random_u64(&acquire->base.client->core.random)))
        return false;
    acquire_attempt(acquire);
    return true;
}

/* Another acquire of the same owner may have got the lock since this one began to wait. */
static bool acquire_reenters_by_now(struct rl_acquire *acquire)
{
    const struct rl_names names = rl_lease_names(acquire->base.lease);
    return acquire_is_reentry(acquire, &names);
}

static void acquire_lost(struct rl_acquire *acquire, int cause)
{
    bool needs_repair = cause == REDLOCK_MISCONFIGURED || cause == REDLOCK_CLOCK; /* waiting repairs neither */
    assert(cause != REDLOCK_OK);
    acquire->base.cause = (int16_t)cause;
    if (acquire_next_slot(acquire, cause))
        return;
    if (acquire->overdue)
        acquire_complete(acquire, REDLOCK_TIMED_OUT);
    else if (!acquire->wait || (needs_repair && !acquire->wait->keep_waiting))
        acquire_complete(acquire, cause);
    else if (acquire->base.lease->links.listed || !acquire_reenters_by_now(acquire))
        acquire_wait_on(acquire);
}

static void acquire_decided(struct rl_round *round)
{
    struct rl_acquire *acquire = round->owner;
    if (round->rules.verdict == QUORUM_WON)
        acquire_confirm(acquire, round);
    else
        acquire_lost(acquire, rl_result_status(round->rules.verdict));
}

/* -------------------------------------------------------------------------------------------------------- attempts */

static enum rl_command_kind acquire_command(const struct rl_acquire *acquire)
{
    if (acquire_queue(acquire))
        return RL_COMMAND_TAKE;
    return rl_lease_is_plain(acquire->base.lease) && !acquire->fence ? RL_COMMAND_SET : RL_COMMAND_GRANT;
}

static struct rl_lease *acquire_create_lease(const struct rl_acquire *acquire, const struct rl_names *names,
                                             int *status)
{
    struct rl_locks *locks = &acquire->base.client->locks;
    if (acquire->permits)
        return rl_lease_create_slots(locks, names, acquire->permits, acquire->slots->slots, status);
    return rl_lease_create(locks, names, status);
}

/* A new lease for the next attempt, with the resources of the one before. Of a semaphore other slots. */
static bool acquire_renew_lease(struct rl_acquire *acquire, int *status)
{
    const struct rl_names names = rl_lease_names(acquire->base.lease);
    if (acquire->permits)
        quorum_permits_try(acquire->slots);
    struct rl_lease *lease = acquire_create_lease(acquire, &names, status);
    if (!lease)
        return false;
    rl_lease_unref(acquire->base.lease);
    acquire->base.lease = lease;
    return true;
}

/* Without a wait, a disconnected node has as long to reconnect as a ready node has to reply. The first connections have
 * their own timeout: a new client must not find its nodes unreachable. */
static void acquire_on_reconnecting_late(struct rl_timer *timer)
{
    struct rl_operation *operation = rl_operation_of_timer(timer);
    if (operation->round)
        rl_round_stop_reconnecting(operation->round);
}

/* Also when a connection breaks while the attempt waits for its turn. */
static void acquire_limit_reconnecting(struct rl_operation *operation)
{
    const struct rl_acquire *acquire = (struct rl_acquire *)operation;
    redlock_client *client = operation->client;
    if (!acquire->wait && !operation->completed && !operation->timer.set && operation->round &&
        rl_round_awaits_connection(operation->round))
        rl_timer_set(&client->core.timers, &operation->timer,
                     quorum_time_add(rl_now(), rl_nodes_timeout(client->nodes)));
}

static struct rl_round *acquire_create_round(struct rl_acquire *acquire, bool is_first)
{
    struct rl_queue *queue = acquire_queue(acquire);
    struct rl_lease *lease = acquire->base.lease;
    const struct quorum_terms terms = {
        .kind = QUORUM_ACQUIRE,
        .ttl = acquire->terms.ttl_ms * QUORUM_MILLISECOND,
        .minimum_validity = acquire->minimum_validity_ms * QUORUM_MILLISECOND,
        .all_answers = acquire->all_answers,
    };
    lease->shared = acquire->shared;
    lease->ttl_ms = acquire->terms.ttl_ms;
    lease->queueing.queued = queue != NULL;
    struct rl_round *round = rl_round_create(lease, acquire_command(acquire), terms);
    if (!round)
        return NULL;
    round->ticket = queue ? queue->ticket : 0;
    round->waits = acquire->wait != NULL;
    round->fanout.proves_late = queue && queue->hot && is_first; /* it will be queued: a proof would be wasted */
    if (queue)
        rl_handover_offer(queue, round);
    if (round->command != RL_COMMAND_SET) /* a reply to a SET has no record, and reading it would only cost time */
        round->replied = acquire_replied;
    return round;
}

static void acquire_attempt(struct rl_acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    assert(!operation->completed && !acquire->lock);
    int status;
    bool is_first = !operation->round && !acquire->permits;
    rl_round_leave(operation->round);
    operation->round = NULL;
    acquire->raising = false;
    acquire->record = 0;
    acquire_stop_pause(&acquire->base);
    if (!is_first && !acquire_renew_lease(acquire, &status)) {
        acquire_complete(acquire, status);
        return;
    }
    struct rl_round *round = acquire_create_round(acquire, is_first);
    if (!round) {
        acquire_complete(acquire, REDLOCK_NO_MEMORY);
        return;
    }
    if (acquire->fence) {
        acquire_propose_token(acquire);
        round->fence = acquire->fence->token;
    }
    rl_operation_start_round(operation, round, acquire_decided);
    acquire_limit_reconnecting(operation);
}

/* -------------------------------------------------------------------------------------------------------- operation */

static void acquire_stop(struct rl_operation *operation)
{
    struct rl_acquire *acquire = (struct rl_acquire *)operation;
    acquire_stop_pause(&acquire->base);
    if (operation->round)
        rl_round_cancel(operation->round);
    if (acquire->raising)
        rl_lease_release_detached(operation->lease);
    acquire_leave_queue(acquire, NULL);
}

/* If the loop is late, it first reads the replies that have arrived: they may grant the lock. */
static void acquire_on_deadline(struct rl_timer *timer)
{
    struct rl_operation *operation = rl_operation_of_timer(timer);
    struct rl_acquire *acquire = (struct rl_acquire *)operation;
    if (operation->round && quorum_round_is_settling(&operation->round->rules)) {
        acquire->overdue = true; /* a majority has granted; the last replies have until their nodes' timeouts */
        return;
    }
    if (!acquire->spared && operation->round && rl_round_has_unread_replies(operation->round)) {
        acquire->spared = true;
        rl_timer_set(&operation->client->core.timers, timer, rl_now() + QUORUM_MILLISECOND);
        return;
    }
    rl_operation_cut(operation, REDLOCK_TIMED_OUT);
}

static void acquire_count(const struct rl_acquire *acquire, const redlock_result *result)
{
    const struct rl_operation *operation = &acquire->base;
    redlock_statistics *statistics = &operation->client->core.statistics;
    assert(result->status <= 0 && result->status > -REDLOCK_STATUSES);
    statistics->acquires[-result->status]++;
    statistics->attempts += operation->attempts;
    if (result->status != REDLOCK_OK)
        return;
    bool has_reentered = acquire->lock != &operation->lease->handles.first;
    statistics->hand_offs += operation->lease->queueing.queued && operation->attempts > 1 && !has_reentered;
    rl_histogram_add(&statistics->acquire_latency, quorum_time_since(operation->started, operation->decided));
}

static void acquire_report(struct rl_operation *operation, redlock_result *result, struct rl_returned *returned)
{
    struct rl_acquire *acquire = (struct rl_acquire *)operation;
    acquire->lock = rl_operation_hand_out(operation, acquire->lock, result);
    if (acquire->lock) {
        quorum_time end = operation->lease->rules.validity_end;
        result->validity_ms = (int64_t)(quorum_time_until(end, operation->decided) / QUORUM_MILLISECOND);
        result->fence = operation->lease->fence;
    }
    acquire_count(acquire, result);
    returned->lock = acquire->lock;
}

/* ----------------------------------------------------------------------------------------------------------- start */

/* The slot that this client used last, which is likely to be free; otherwise a random one. */
static unsigned first_slot(const struct rl_acquire *acquire, struct rl_text semaphore)
{
    redlock_client *client = acquire->base.client;
    unsigned slot = *remembered(client, semaphore);
    return slot ? (slot - 1) % acquire->permits : (unsigned)(rl_random_u64(&client->core.random) % acquire->permits);
}

static void acquire_begin(struct rl_acquire *acquire, const redlock_acquire_options *options,
                          const struct rl_names *names)
{
    struct rl_operation *operation = &acquire->base;
    struct rl_locks *locks = &operation->client->locks;
    int status;
    if (acquire->permits)
        quorum_permits_init(acquire->slots, operation->client->nodes->count, acquire->permits, acquire->wanted,
                            first_slot(acquire, names->name[0]));
    operation->timer.fire = acquire->wait ? acquire_on_deadline : acquire_on_reconnecting_late;
    if (options->wait_ms > 0)
        rl_operation_wait(operation, options->wait_ms);
    if (acquire->wait)
        acquire_prepare_wait(acquire, options->keep_waiting, names);
    if (acquire_is_reentry(acquire, names))
        return;
    operation->lease = acquire_create_lease(acquire, names, &status);
    if (!operation->lease) {
        rl_operation_complete(operation, status);
        return;
    }
    /* A semaphore's acquires try at once, each another slot, unless others wait there or waited within the last second. */
    if (!acquire->wait || (acquire->permits && !rl_queue_find(locks, names, acquire->shared)) ||
        rl_queue_join(locks, names, &acquire->wait->waiter))
        acquire_attempt(acquire);
}

/* What an acquire with these options has behind its struct. */
static size_t acquire_extra_size(const struct rl_arguments *arguments)
{
    const redlock_acquire_options *options = arguments->options;
    return (options->wait_ms ? sizeof(struct rl_acquire_wait) : 0) +
           (options->fence ? sizeof(struct quorum_fence) : 0) + (options->permits ? sizeof(struct quorum_permits) : 0);
}

static void *next_extra(char **at, bool is_needed, size_t size)
{
    void *extra = is_needed ? *at : NULL;
    *at += is_needed ? size : 0;
    return extra;
}

static void acquire_set_options(struct rl_acquire *acquire, const redlock_acquire_options *options,
                                struct rl_owner caller)
{
    char *extra = (char *)(acquire + 1);
    acquire->terms = rl_options_terms(options, rl_owner_of(options, caller), &acquire->base.client->core.options);
    acquire->minimum_validity_ms = options->minimum_validity_ms;
    acquire->permits = (uint8_t)options->permits;
    acquire->wanted = (uint8_t)(options->permits_wanted ? options->permits_wanted : 1);
    acquire->all_answers = options->all_answers;
    acquire->shared = options->shared;
    acquire->wait = next_extra(&extra, options->wait_ms, sizeof *acquire->wait);
    acquire->fence = next_extra(&extra, options->fence, sizeof *acquire->fence);
    acquire->slots = next_extra(&extra, options->permits, sizeof *acquire->slots);
}

static void acquire_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    struct rl_acquire *acquire = (struct rl_acquire *)operation;
    redlock_acquire_options options;
    struct rl_names names;
    if (!rl_operation_read_acquire(operation, arguments, &options, &names))
        return;
    if (options.shared)
        options.fence = 0;
    acquire_set_options(acquire, &options, arguments->caller.owner);
    acquire_begin(acquire, &options, &names);
}

const struct rl_operation_type rl_acquire = {.size = sizeof(struct rl_acquire),
                                             .returns_lock = true,
                                             .extra_size = acquire_extra_size,
                                             .start = acquire_start,
                                             .stop = acquire_stop,
                                             .report = acquire_report,
                                             .changed = acquire_limit_reconnecting,
                                             .drop = acquire_stop_pause};
