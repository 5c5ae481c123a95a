/* Acquire: rounds, each with a lease of its own, until one is won, the time is over, or waiting is of no use. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "quorum/retry.h"
#include "src/client.h"
#include "src/clock.h"
#include "src/options.h"
#include "src/result.h"

struct acquire {
    struct rl_operation base;
    redlock_acquire_options options;
    struct quorum_retry retry;
    struct rl_timer pause; /* until the next attempt */
    struct rl_waiter waiter;
    struct rl_lease *lease; /* of the attempt under way; then of the lock */
    redlock_lock *lock;     /* what it came to */
    bool overdue;           /* the time to wait is over: this attempt is the last */
    const void *owner;
    redlock_acquire_callback callback;
    void *arg;
    size_t resource_size;
    char resource[];
};

static void leave_attempt(struct acquire *acquire)
{
    rl_round_leave(acquire->base.round);
    acquire->base.round = NULL;
    rl_lease_release(acquire->lease);
    acquire->lease = NULL;
}

/* Ends it, and its place in the queue. */
static void complete(struct acquire *acquire, int status)
{
    rl_timer_stop(&acquire->base.client->timers, &acquire->pause);
    rl_operation_complete(&acquire->base, status);
    rl_queue_leave(&acquire->waiter, status == REDLOCK_OK);
}

static void won(struct acquire *acquire, const struct rl_round *round)
{
    redlock_client *client = acquire->base.client;
    const redlock_acquire_options *options = &acquire->options;
    const struct rl_lease_terms terms = {
        .validity_end = round->rules.validity_end,
        .ttl_ms = options->ttl_ms,
        .renewal_percent = options->no_renewal ? 0 : client->options.renewal_percent,
        .cap_ms = options->cap_ms,
        .notify_before_ms = options->notify_before_ms,
        .owner = acquire->owner,
        .event = options->event,
        .event_arg = options->event_arg,
    };
    if (!rl_lease_hold(acquire->lease, &terms)) {
        rl_release_forget(acquire->lease);
        complete(acquire, REDLOCK_NO_MEMORY);
        return;
    }
    acquire->lock = &acquire->lease->first;
    complete(acquire, REDLOCK_OK);
}

/* Where nobody calls us, we try by ourselves. */
static void pause_or_give_up(struct acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    const struct quorum_round *round = &operation->round->rules;
    quorum_time now = rl_now();
    quorum_duration took = round->sent == QUORUM_NEVER ? 0 : quorum_time_since(round->sent, now);
    quorum_time next =
        quorum_retry_next(&acquire->retry, now, round->verdict, took, rl_random_u64(&operation->client->random));
    if (next == QUORUM_NEVER)
        complete(acquire, REDLOCK_TIMED_OUT);
    else
        rl_timer_set(&operation->client->timers, &acquire->pause, next);
}

/* Lost, with time left: in the queue, where it is this operation's turn or will be. */
static void wait_on(struct acquire *acquire)
{
    redlock_client *client = acquire->base.client;
    struct rl_waiter *waiter = &acquire->waiter;
    if (!waiter->queue &&
        !rl_queue_join(client, acquire->resource, acquire->resource_size, waiter, acquire->options.fair))
        return;
    pause_or_give_up(acquire); /* before the queue is told: it may have called already */
    if (!waiter->queue || acquire->base.completed)
        return;
    rl_queue_tried(waiter);
    if (rl_queue_is_called(waiter))
        rl_timer_stop(&client->timers, &acquire->pause);
}

static void decided(struct rl_round *round)
{
    struct acquire *acquire = round->owner;
    enum quorum_verdict verdict = round->rules.verdict;
    if (verdict == QUORUM_WON) {
        won(acquire, round);
        return;
    }
    acquire->base.cause = rl_result_status(verdict);
    if (acquire->overdue)
        complete(acquire, REDLOCK_TIMED_OUT);
    else if (acquire->options.wait_ms == 0 || (verdict == QUORUM_LOST_MISCONFIGURED && !acquire->options.keep_waiting))
        complete(acquire, acquire->base.cause);
    else
        wait_on(acquire);
}

/* Free, and not for us: this has to be said, or "held" is a riddle. */
static void explain_refusal(struct rl_round *round, unsigned node, const redisReply *reply)
{
    if (rl_reply_vote(round->question, reply).vote == QUORUM_HELD && reply->element[1]->integer == 0)
        snprintf(round->slot[node].text, sizeof round->slot[node].text, "free, but others wait for it");
}

static void replied(struct rl_round *round, unsigned node, const redisReply *reply)
{
    struct acquire *acquire = round->owner;
    if (round->question != RL_ASK_SET)
        explain_refusal(round, node, reply);
    if (round->question == RL_ASK_TAKE)
        rl_queue_answered(&acquire->waiter, node, reply);
}

/* fair without a place in the queue: it tries once. */
static enum rl_question question(const struct acquire *acquire)
{
    if (acquire->waiter.queue)
        return RL_ASK_TAKE;
    return acquire->options.fair ? RL_ASK_TRY : RL_ASK_SET;
}

static void attempt(struct acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    redlock_client *client = operation->client;
    const struct rl_queue *queue = acquire->waiter.queue;
    int status = REDLOCK_NO_MEMORY;
    leave_attempt(acquire);
    rl_timer_stop(&client->timers, &acquire->pause);
    acquire->lease = rl_lease_create(client, acquire->resource, acquire->resource_size, &status);
    const struct quorum_terms terms = {
        .kind = QUORUM_ACQUIRE,
        .nodes = client->nodes_count,
        .ttl = acquire->options.ttl_ms * QUORUM_MILLISECOND,
        .drift_ppm = client->options.drift_ppm,
        .minimum_validity = acquire->options.minimum_validity_ms * QUORUM_MILLISECOND,
        .all_answers = acquire->options.all_answers,
    };
    if (acquire->lease)
        operation->round = rl_round_create(client, acquire->lease, question(acquire), &terms);
    if (!operation->round) {
        complete(acquire, status);
        return;
    }
    operation->attempts++;
    acquire->lease->queued = queue != NULL;
    operation->round->ticket = queue ? queue->ticket : 0;
    operation->round->fair = acquire->options.fair;
    operation->round->owner = acquire;
    operation->round->decided = decided;
    operation->round->replied = replied;
    rl_round_start(operation->round);
}

static void on_turn(struct rl_waiter *waiter)
{
    attempt((struct acquire *)(void *)((char *)waiter - offsetof(struct acquire, waiter)));
}

static void on_uncalled(struct rl_waiter *waiter)
{
    struct acquire *acquire = (struct acquire *)(void *)((char *)waiter - offsetof(struct acquire, waiter));
    if (!acquire->pause.set && acquire->base.round)
        pause_or_give_up(acquire);
}

static void on_pause_over(struct rl_timer *timer)
{
    struct acquire *acquire = (struct acquire *)(void *)((char *)timer - offsetof(struct acquire, pause));
    if (acquire->waiter.queue)
        rl_queue_try(&acquire->waiter);
    attempt(acquire);
}

static void stop(struct rl_operation *operation)
{
    struct acquire *acquire = (struct acquire *)operation;
    rl_timer_stop(&operation->client->timers, &acquire->pause);
    if (operation->round)
        rl_round_cancel(operation->round);
    rl_queue_leave(&acquire->waiter, false);
}

static void on_deadline(struct rl_timer *timer)
{
    struct rl_operation *operation =
        (struct rl_operation *)(void *)((char *)timer - offsetof(struct rl_operation, timer));
    if (operation->round && quorum_round_is_settling(&operation->round->rules)) {
        ((struct acquire *)operation)->overdue =
            true; /* the lock is there; the last answers have their nodes' timeouts */
        return;
    }
    stop(operation);
    rl_operation_complete(operation, REDLOCK_TIMED_OUT);
}

static void count(const struct acquire *acquire, const redlock_result *result)
{
    const struct rl_operation *operation = &acquire->base;
    redlock_statistics *statistics = &operation->client->statistics;
    statistics->acquires[-result->status]++;
    statistics->attempts += operation->attempts;
    if (result->status != REDLOCK_OK)
        return;
    statistics->hand_offs += acquire->lease->queued && operation->attempts > 1;
    rl_histogram_add(&statistics->acquire_latency, quorum_time_since(operation->started, operation->decided));
}

static void tell(struct rl_operation *operation, redlock_result *result)
{
    struct acquire *acquire = (struct acquire *)operation;
    redlock_client *client = operation->client;
    redlock_acquire_callback callback = acquire->callback;
    void *arg = acquire->arg;
    if (acquire->lock) {
        quorum_time end = acquire->lease->rules.validity_end;
        result->validity_ms = (int64_t)(quorum_time_until(end, operation->decided) / QUORUM_MILLISECOND);
    }
    if (acquire->lock && client->closing) { /* between the grant and now: its end has been seen to */
        rl_lease_end_handle(acquire->lock);
        rl_lease_release(acquire->lease);
        acquire->lock = NULL;
        result->status = result->cause = REDLOCK_CANCELLED;
        result->validity_ms = 0;
    }
    count(acquire, result);
    rl_lease_release(acquire->lease);
    callback(client, acquire->lock, result, arg);
}

static void drop(struct rl_operation *operation)
{
    struct acquire *acquire = (struct acquire *)operation;
    rl_timer_stop(&operation->client->timers, &acquire->pause);
    rl_lease_release(acquire->lease);
}

static const struct rl_operation_type type = {stop, tell, NULL, NULL, drop};

/* ------------------------------------------------------------------------------------------------------ re-entry */

static void share(struct acquire *acquire)
{
    redlock_client *client = acquire->base.client;
    acquire->lock = rl_lease_share(acquire->lease, acquire->options.event, acquire->options.event_arg);
    client->statistics.reentered += acquire->lock != NULL;
    rl_operation_complete(&acquire->base, acquire->lock ? REDLOCK_OK : REDLOCK_NO_MEMORY);
}

static bool is_long_enough(const struct acquire *acquire)
{
    return rl_lease_validity(acquire->lease) >= acquire->options.minimum_validity_ms * QUORUM_MILLISECOND;
}

static void reentry_decided(struct rl_round *round)
{
    struct acquire *acquire = round->owner;
    rl_lease_extended(acquire->lease, &round->rules);
    if (atomic_load(&acquire->lease->loss))
        rl_operation_complete(&acquire->base, REDLOCK_LOST);
    else if (round->rules.verdict != QUORUM_WON)
        rl_operation_complete(&acquire->base, rl_result_status(round->rules.verdict));
    else if (!is_long_enough(acquire))
        rl_operation_complete(&acquire->base, REDLOCK_TOO_SLOW);
    else
        share(acquire);
}

/* The owner has it already. Re-entry into a lost lock is never a success: what the outer section relied on is gone. */
static void reenter(struct acquire *acquire, struct rl_lease *lease)
{
    struct rl_operation *operation = &acquire->base;
    acquire->lease = rl_lease_retain(lease);
    if (rl_lease_validity(lease) == 0) {
        rl_operation_complete(operation, REDLOCK_LOST);
        return;
    }
    if (is_long_enough(acquire) && acquire->options.ttl_ms <= lease->ttl_ms) {
        share(acquire);
        return;
    }
    operation->round = rl_extend_round(lease, acquire->options.ttl_ms);
    if (!operation->round) {
        rl_operation_complete(operation, REDLOCK_NO_MEMORY);
        return;
    }
    operation->attempts++;
    operation->round->owner = acquire;
    operation->round->decided = reentry_decided;
    rl_round_start(operation->round);
}

/* ----------------------------------------------------------------------------------------------------------- start */

/* Who asks for fairness, and who waits where others wait or have waited lately. */
static bool is_to_queue(const struct acquire *acquire)
{
    return acquire->options.fair || rl_queue_find(acquire->base.client, acquire->resource, acquire->resource_size);
}

static void begin(struct acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    int64_t wait_ms = acquire->options.wait_ms;
    struct rl_lease *owned = NULL;
    acquire->pause.fire = on_pause_over;
    acquire->waiter.attempt = on_turn;
    acquire->waiter.uncalled = on_uncalled;
    operation->timer.fire = on_deadline;
    if (wait_ms > 0)
        rl_operation_wait(operation, wait_ms);
    quorum_retry_init(&acquire->retry, operation->timer.set ? operation->timer.due : QUORUM_NEVER);
    operation->cancellation = acquire->options.cancellation;
    if (acquire->owner)
        owned = rl_leases_find_owned(operation->client, acquire->resource, acquire->resource_size, acquire->owner);
    if (operation->cancellation && atomic_load(&operation->cancellation->cancelled))
        rl_operation_complete(operation, REDLOCK_CANCELLED);
    else if (owned)
        reenter(acquire, owned);
    else if (wait_ms == 0 || !is_to_queue(acquire) ||
             rl_queue_join(operation->client, acquire->resource, acquire->resource_size, &acquire->waiter,
                           acquire->options.fair))
        attempt(acquire);
}

int rl_acquire_start(redlock_client *client, const char *resource, const redlock_acquire_options *given,
                     const void *owner, redlock_acquire_callback callback, void *arg)
{
    redlock_acquire_options options;
    redlock_result why;
    int status = rl_options_read_acquire(given, &client->options, &options, &why);
    size_t size = options.resource_size;
    if (!status)
        status = rl_resource_check(resource, &size, &why);
    size_t kept = status ? 0 : size;
    int created;
    struct acquire *acquire = (struct acquire *)rl_operation_create(client, &type, sizeof *acquire + kept, &created);
    if (!acquire)
        return created;
    acquire->options = options;
    acquire->owner = options.owner ? options.owner : owner;
    acquire->callback = callback;
    acquire->arg = arg;
    if (status) {
        rl_operation_refuse(&acquire->base, &why);
        return REDLOCK_OK;
    }
    acquire->resource_size = size;
    memcpy(acquire->resource, resource, size);
    begin(acquire);
    return REDLOCK_OK;
}
