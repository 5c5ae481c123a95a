/* Acquire: rounds, each with a lease of its own, until one is won, the time is over, or waiting is of no use. */
#include <stddef.h>
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
    struct rl_timer pause;  /* until the next attempt */
    struct rl_lease *lease; /* of the attempt under way; then of the lock */
    quorum_time validity_end;
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

static void won(struct acquire *acquire, const struct rl_round *round)
{
    quorum_time end = round->rules.validity_end;
    if (!rl_lease_hold(acquire->lease, end, acquire->options.ttl_ms)) {
        rl_release_forget(acquire->lease);
        rl_operation_complete(&acquire->base, REDLOCK_NO_MEMORY);
        return;
    }
    acquire->validity_end = end;
    rl_operation_complete(&acquire->base, REDLOCK_OK);
}

static void decided(struct rl_round *round)
{
    struct acquire *acquire = round->owner;
    struct rl_operation *operation = &acquire->base;
    enum quorum_verdict verdict = round->rules.verdict;
    if (verdict == QUORUM_WON) {
        won(acquire, round);
        return;
    }
    operation->cause = rl_result_status(verdict);
    if (acquire->options.wait_ms == 0 || verdict == QUORUM_LOST_MISCONFIGURED) {
        rl_operation_complete(operation, operation->cause);
        return;
    }
    quorum_time now = rl_now();
    quorum_duration took = round->rules.sent == QUORUM_NEVER ? 0 : quorum_time_since(round->rules.sent, now);
    quorum_time next =
        quorum_retry_next(&acquire->retry, now, verdict, took, rl_random_u64(&operation->client->random));
    if (next == QUORUM_NEVER)
        rl_operation_complete(operation, REDLOCK_TIMED_OUT);
    else
        rl_timer_set(&operation->client->timers, &acquire->pause, next);
}

static void attempt(struct acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    redlock_client *client = operation->client;
    int status = REDLOCK_NO_MEMORY;
    leave_attempt(acquire);
    acquire->lease = rl_lease_create(client, acquire->resource, acquire->resource_size, &status);
    const struct quorum_terms terms = {
        .kind = QUORUM_ACQUIRE,
        .nodes = client->nodes_count,
        .ttl = acquire->options.ttl_ms * QUORUM_MILLISECOND,
        .drift_ppm = client->options.drift_ppm,
        .minimum_validity = acquire->options.minimum_validity_ms * QUORUM_MILLISECOND,
    };
    if (acquire->lease)
        operation->round = rl_round_create(client, acquire->lease, RL_ASK_SET, &terms);
    if (!operation->round) {
        rl_operation_complete(operation, status);
        return;
    }
    operation->attempts++;
    operation->round->owner = acquire;
    operation->round->decided = decided;
    rl_round_start(operation->round);
}

static void on_pause_over(struct rl_timer *timer)
{
    attempt((struct acquire *)(void *)((char *)timer - offsetof(struct acquire, pause)));
}

static void stop(struct rl_operation *operation)
{
    struct acquire *acquire = (struct acquire *)operation;
    rl_timer_stop(&operation->client->timers, &acquire->pause);
    if (operation->round)
        rl_round_cancel(operation->round);
}

static void on_deadline(struct rl_timer *timer)
{
    struct rl_operation *operation =
        (struct rl_operation *)(void *)((char *)timer - offsetof(struct rl_operation, timer));
    stop(operation);
    rl_operation_complete(operation, REDLOCK_TIMED_OUT);
}

static void tell(struct rl_operation *operation, redlock_result *result)
{
    struct acquire *acquire = (struct acquire *)operation;
    redlock_client *client = operation->client;
    struct rl_lease *lease = acquire->lease;
    redlock_lock *lock = NULL;
    if (operation->status == REDLOCK_OK && lease && lease->held) {
        lock = &lease->handle;
        result->validity_ms =
            (int64_t)(quorum_time_until(acquire->validity_end, operation->decided) / QUORUM_MILLISECOND);
    } else if (operation->status == REDLOCK_OK) {
        result->status = result->cause =
            REDLOCK_CANCELLED; /* the client was closed between the grant and now: released already */
    }
    redlock_acquire_callback callback = acquire->callback;
    void *arg = acquire->arg;
    rl_lease_release(lease);
    callback(client, lock, result, arg);
}

static const struct rl_operation_type type = {stop, tell, NULL, NULL};

static void begin(struct acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    int64_t wait_ms = acquire->options.wait_ms;
    quorum_time deadline = QUORUM_NEVER;
    if (wait_ms > 0 && (uint64_t)wait_ms < QUORUM_NEVER / QUORUM_MILLISECOND)
        deadline = quorum_time_add(operation->started, (quorum_duration)wait_ms * QUORUM_MILLISECOND);
    quorum_retry_init(&acquire->retry, deadline);
    acquire->pause.fire = on_pause_over;
    operation->timer.fire = on_deadline;
    if (deadline != QUORUM_NEVER)
        rl_timer_set(&operation->client->timers, &operation->timer, deadline);
    operation->cancellation = acquire->options.cancellation;
    if (operation->cancellation && atomic_load(&operation->cancellation->cancelled))
        rl_operation_complete(operation, REDLOCK_CANCELLED);
    else
        attempt(acquire);
}

int rl_acquire_start(redlock_client *client, const char *resource, const redlock_acquire_options *given,
                     redlock_acquire_callback callback, void *arg)
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
