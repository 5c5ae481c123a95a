#include "src/client/acquire.h"

#include <assert.h>
#include <string.h>

#include "src/client/acquire_fence.h"
#include "src/client/client.h"
#include "src/client/options.h"
#include "src/client/reentry.h"
#include "src/core/clock.h"
#include "src/core/histogram.h"
#include "src/core/memory.h"
#include "src/core/result.h"
#include "src/lock/detached.h"
#include "src/lock/handover.h"

void rl_acquire_complete(struct rl_acquire *acquire, int status)
{
    rl_acquire_wait_stop(acquire);
    rl_operation_complete(&acquire->base, status);
    rl_acquire_wait_leave(acquire, status == REDLOCK_OK ? acquire->base.round : NULL);
}

/* The semaphore's slot that this client used last, plus one; 0: none. */
static uint8_t *remembered(redlock_client *client, struct rl_text semaphore)
{
    uint64_t hash = rl_hash(RL_HASH_OF_NOTHING, semaphore.bytes, semaphore.size);
    return &client->slots[(hash ^ hash >> 32) % RL_SLOTS_REMEMBERED];
}

/* -------------------------------------------------------------------------------------------- the end of an attempt */

void rl_acquire_won(struct rl_acquire *acquire, const struct rl_round *round)
{
    assert(!acquire->lock && round->rules.verdict == QUORUM_WON);
    struct rl_lease *lease = acquire->base.lease;
    acquire->terms.validity_end = round->rules.validity_end;
    if (!rl_lease_hold(lease, &acquire->terms)) {
        rl_lease_release_detached(lease);
        rl_acquire_complete(acquire, REDLOCK_NO_MEMORY);
        return;
    }
    acquire->lock = &lease->handles.first;
    acquire->raising = false;
    if (acquire->permits)
        *remembered(acquire->base.client, rl_lease_resource(lease, 0)) = (uint8_t)(acquire->slots->slot + 1);
    rl_acquire_complete(acquire, REDLOCK_OK);
}

void rl_acquire_handed(struct rl_acquire *acquire, struct rl_round *round)
{
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
    rl_acquire_won(acquire, round);
}

/* Waiting repairs neither. */
static bool needs_repair(int status)
{
    return status == REDLOCK_MISCONFIGURED || status == REDLOCK_CLOCK;
}

/* Tries another free slot of the semaphore, if there is one. */
static bool try_next_slot(struct rl_acquire *acquire, int cause)
{
    if (!acquire->permits || cause != REDLOCK_HELD || acquire->overdue ||
        !quorum_permits_next(acquire->slots, rl_random_u64(&acquire->base.client->core.random)))
        return false;
    rl_acquire_attempt(acquire);
    return true;
}

/* Another acquire of the same owner may have got the lock since this one began to wait. */
static bool reenters_by_now(struct rl_acquire *acquire)
{
    const struct rl_names names = rl_lease_names(acquire->base.lease);
    if (!rl_reentry_decides(acquire, &names))
        return false;
    rl_acquire_wait_leave(acquire, NULL);
    return true;
}

void rl_acquire_lost(struct rl_acquire *acquire, int cause)
{
    assert(cause != REDLOCK_OK);
    acquire->base.cause = (int16_t)cause;
    if (try_next_slot(acquire, cause))
        return;
    if (acquire->overdue)
        rl_acquire_complete(acquire, REDLOCK_TIMED_OUT);
    else if (!acquire->wait || (needs_repair(cause) && !acquire->wait->keep_waiting))
        rl_acquire_complete(acquire, cause);
    else if (!reenters_by_now(acquire))
        rl_acquire_wait_on(acquire);
}

static void decided(struct rl_round *round)
{
    struct rl_acquire *acquire = round->owner;
    if (round->rules.verdict == QUORUM_WON)
        rl_acquire_fence_confirm(acquire, round);
    else
        rl_acquire_lost(acquire, rl_result_status(round->rules.verdict));
}

/* Explains "held" for a lock that is free, but not for this client. */
static void explain_refusal(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    if (vote->vote == QUORUM_HELD && reply->element[1]->integer == 0)
        rl_round_note(round, node, "free, but other waiters are ahead");
}

void rl_acquire_replied(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    struct rl_acquire *acquire = round->owner;
    const struct quorum_fence_event event = {QUORUM_FENCE_ANSWERED, node, vote->record};
    if (round->fence && vote->vote == QUORUM_GRANTED && !quorum_round_over(&round->rules))
        quorum_fence_step(acquire->fence, &event);
    if (acquire->permits && vote->vote == QUORUM_HELD)
        quorum_permits_refused(acquire->slots, vote->record);
    if (vote->vote == QUORUM_GRANTED && vote->record > acquire->record)
        acquire->record = vote->record;
    if (round->command != RL_COMMAND_TAKE)
        return;
    explain_refusal(round, node, vote, reply);
    rl_queue_answered(&acquire->wait->waiter, node, vote, reply);
}

/* -------------------------------------------------------------------------------------------------------- attempts */

static enum rl_command_kind command_kind(const struct rl_acquire *acquire)
{
    if (rl_acquire_queue(acquire))
        return RL_COMMAND_TAKE;
    return rl_lease_is_plain(acquire->base.lease) && !acquire->fence ? RL_COMMAND_SET : RL_COMMAND_GRANT;
}

/* A new lease for the next attempt, with the resources of the one before. Of a semaphore another slot. */
static bool renew_lease(struct rl_acquire *acquire, int *status)
{
    struct rl_locks *locks = &acquire->base.client->locks;
    const struct rl_names names = rl_lease_names(acquire->base.lease);
    struct rl_lease *lease;
    if (acquire->permits) {
        quorum_permits_try(acquire->slots);
        lease = rl_lease_create_slot(locks, &names, acquire->permits, acquire->slots->slot, status);
    } else {
        lease = rl_lease_create(locks, &names, status);
    }
    if (!lease)
        return false;
    rl_lease_unref(acquire->base.lease);
    acquire->base.lease = lease;
    return true;
}

/* Without a wait, a disconnected node has as long to reconnect as a ready node has to reply. The first connections have
 * their own timeout: a new client must not find its nodes unreachable. */
static void on_reconnecting_late(struct rl_timer *timer)
{
    struct rl_operation *operation = rl_operation_of_timer(timer);
    if (operation->round)
        rl_round_stop_reconnecting(operation->round);
}

/* Also when a connection breaks while the attempt waits for its turn. */
static void limit_reconnecting(struct rl_operation *operation)
{
    const struct rl_acquire *acquire = (struct rl_acquire *)operation;
    redlock_client *client = operation->client;
    if (!acquire->wait && !operation->completed && !operation->timer.set && operation->round &&
        rl_round_awaits_connection(operation->round))
        rl_timer_set(&client->core.timers, &operation->timer,
                     quorum_time_add(rl_now(), rl_nodes_timeout(client->nodes)));
}

static struct rl_round *create_round(struct rl_acquire *acquire, bool is_first)
{
    struct rl_queue *queue = rl_acquire_queue(acquire);
    struct rl_lease *lease = acquire->base.lease;
    const struct quorum_terms terms = {
        .kind = QUORUM_ACQUIRE,
        .nodes = lease->locks->nodes->count,
        .ttl = acquire->terms.ttl_ms * QUORUM_MILLISECOND,
        .drift_ppm = lease->locks->core->options.drift_ppm,
        .minimum_validity = acquire->minimum_validity_ms * QUORUM_MILLISECOND,
        .all_answers = acquire->all_answers,
    };
    lease->shared = acquire->shared;
    lease->ttl_ms = acquire->terms.ttl_ms;
    lease->queueing.queued = queue != NULL;
    struct rl_round *round = rl_round_create(lease->locks, lease, command_kind(acquire), &terms);
    if (!round)
        return NULL;
    round->ticket = queue ? queue->ticket : 0;
    round->waits = acquire->wait != NULL;
    round->fanout.proves_late = queue && queue->hot && is_first; /* it will be queued: a proof would be wasted */
    if (queue)
        rl_handover_offer(queue, round);
    if (round->command != RL_COMMAND_SET) /* a reply to a SET has no record, and reading it would only cost time */
        round->replied = rl_acquire_replied;
    return round;
}

void rl_acquire_attempt(struct rl_acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    assert(!operation->completed && !acquire->lock);
    int status;
    bool is_first = !operation->round && !acquire->permits;
    rl_round_leave(operation->round);
    operation->round = NULL;
    acquire->raising = false;
    acquire->record = 0;
    rl_acquire_wait_stop(acquire);
    if (!is_first && !renew_lease(acquire, &status)) {
        rl_acquire_complete(acquire, status);
        return;
    }
    struct rl_round *round = create_round(acquire, is_first);
    if (!round) {
        rl_acquire_complete(acquire, REDLOCK_NO_MEMORY);
        return;
    }
    if (acquire->fence) {
        rl_acquire_fence_propose(acquire);
        round->fence = acquire->fence->token;
    }
    rl_operation_start_round(operation, round, decided);
    limit_reconnecting(operation);
}

/* -------------------------------------------------------------------------------------------------------- operation */

static void stop(struct rl_operation *operation)
{
    struct rl_acquire *acquire = (struct rl_acquire *)operation;
    rl_acquire_wait_stop(acquire);
    if (operation->round)
        rl_round_cancel(operation->round);
    if (acquire->raising)
        rl_lease_release_detached(operation->lease);
    rl_acquire_wait_leave(acquire, NULL);
}

/* If the loop is late, it first reads the replies that have arrived: they may grant the lock. */
static void on_deadline(struct rl_timer *timer)
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
    stop(operation);
    rl_operation_complete(operation, REDLOCK_TIMED_OUT);
}

static void count(const struct rl_acquire *acquire, const redlock_result *result)
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

static void report(struct rl_operation *operation, redlock_result *result, struct rl_returned *returned)
{
    struct rl_acquire *acquire = (struct rl_acquire *)operation;
    acquire->lock = rl_operation_hand_out(operation, acquire->lock, result);
    if (acquire->lock) {
        quorum_time end = operation->lease->rules.validity_end;
        result->validity_ms = (int64_t)(quorum_time_until(end, operation->decided) / QUORUM_MILLISECOND);
        result->fence = operation->lease->fence;
    }
    count(acquire, result);
    returned->lock = acquire->lock;
}

static void drop(struct rl_operation *operation)
{
    rl_acquire_wait_stop((struct rl_acquire *)operation);
}

/* ----------------------------------------------------------------------------------------------------------- start */

/* The slot that this client used last, which is likely to be free; otherwise a random one. */
static unsigned first_slot(const struct rl_acquire *acquire, struct rl_text semaphore)
{
    redlock_client *client = acquire->base.client;
    unsigned slot = *remembered(client, semaphore);
    return slot ? (slot - 1) % acquire->permits : (unsigned)(rl_random_u64(&client->core.random) % acquire->permits);
}

static struct rl_lease *create_lease(const struct rl_acquire *acquire, const struct rl_names *names, int *status)
{
    struct rl_locks *locks = &acquire->base.client->locks;
    if (acquire->permits)
        return rl_lease_create_slot(locks, names, acquire->permits, acquire->slots->slot, status);
    return rl_lease_create(locks, names, status);
}

static void begin(struct rl_acquire *acquire, const redlock_acquire_options *options, const struct rl_caller *caller,
                  const struct rl_names *names)
{
    struct rl_operation *operation = &acquire->base;
    int status;
    if (acquire->permits)
        quorum_permits_init(acquire->slots, operation->client->nodes->count, acquire->permits,
                            first_slot(acquire, names->name[0]));
    operation->timer.fire = acquire->wait ? on_deadline : on_reconnecting_late;
    if (options->wait_ms > 0)
        rl_operation_wait(operation, options->wait_ms);
    if (rl_operation_heed(operation, options->cancellation, caller) || rl_reentry_decides(acquire, names))
        return;
    operation->lease = create_lease(acquire, names, &status);
    if (!operation->lease) {
        rl_operation_complete(operation, status);
        return;
    }
    quorum_time deadline = operation->timer.set ? operation->timer.due : QUORUM_NEVER;
    if (!acquire->wait || rl_acquire_wait_begin(acquire, deadline, options->keep_waiting, names))
        rl_acquire_attempt(acquire);
}

/* What an acquire with these options has behind its struct. */
static size_t extra_size(const struct rl_arguments *arguments)
{
    const redlock_acquire_options *options = &arguments->options;
    return (options->wait_ms ? sizeof(struct rl_acquire_wait) : 0) +
           (options->fence ? sizeof(struct quorum_fence) : 0) + (options->permits ? sizeof(struct quorum_permits) : 0);
}

static void *take_extra(char **at, bool is_needed, size_t size)
{
    void *extra = is_needed ? *at : NULL;
    *at += is_needed ? size : 0;
    return extra;
}

/* A permit has an owner only if the caller gives one: threads pass permits on to each other. */
static struct rl_owner lock_owner(const redlock_acquire_options *options, struct rl_owner caller)
{
    struct rl_owner owner = rl_owner_of(options, caller);
    return options->permits && owner.kind != RL_OWNER_GIVEN ? rl_owner_none() : owner;
}

static void take_options(struct rl_acquire *acquire, const redlock_acquire_options *options, struct rl_owner caller)
{
    char *extra = (char *)(acquire + 1);
    acquire->terms = rl_options_terms(options, lock_owner(options, caller), &acquire->base.client->core.options);
    acquire->minimum_validity_ms = options->minimum_validity_ms;
    acquire->permits = (uint8_t)options->permits;
    acquire->all_answers = options->all_answers;
    acquire->shared = options->shared;
    acquire->wait = take_extra(&extra, options->wait_ms, sizeof *acquire->wait);
    acquire->fence = take_extra(&extra, options->fence, sizeof *acquire->fence);
    acquire->slots = take_extra(&extra, options->permits, sizeof *acquire->slots);
}

static void start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    struct rl_acquire *acquire = (struct rl_acquire *)operation;
    const redlock_options *defaults = &operation->client->core.options;
    redlock_acquire_options options;
    redlock_result why;
    struct rl_names names;
    int status = rl_options_read_acquire(&arguments->options, defaults, &options, &why);
    if (!status)
        status = rl_cancellation_check(operation->client, options.cancellation, &why);
    if (!status)
        status = rl_names_read(&names, arguments->resource, &options, defaults, &why);
    if (status) {
        rl_operation_refuse(operation, &why);
        return;
    }
    if (options.shared)
        options.fence = 0;
    take_options(acquire, &options, arguments->caller.owner);
    begin(acquire, &options, &arguments->caller, &names);
}

const struct rl_operation_type rl_acquire = {.size = sizeof(struct rl_acquire),
                                             .returns_lock = true,
                                             .extra_size = extra_size,
                                             .start = start,
                                             .stop = stop,
                                             .report = report,
                                             .changed = limit_reconnecting,
                                             .drop = drop};
