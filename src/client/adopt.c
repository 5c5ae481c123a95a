/* Adopt: creates a handle of a lock that another process acquired, if a majority of the nodes still has its token. */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "src/client/adopt.h"
#include "src/client/client.h"
#include "src/client/options.h"
#include "src/core/clock.h"
#include "src/core/escape.h"
#include "src/core/result.h"
#include "src/lock/detached.h"

struct adopt {
    struct rl_operation base;
    redlock_acquire_options options;
    struct rl_caller caller;
    struct rl_owner owner;
    struct rl_lease *lease;
    redlock_lock *lock; /* the handle; NULL until the lock is adopted */
    redlock_acquire_callback callback;
    void *arg;
};

static void won(struct adopt *adopt, quorum_time validity_end)
{
    const redlock_acquire_options *options = &adopt->options;
    const struct rl_lease_terms terms = {
        .validity_end = validity_end,
        .ttl_ms = options->ttl_ms,
        .renewal_percent = options->no_renewal ? 0 : adopt->base.client->core.options.renewal_percent,
        .cap_ms = options->cap_ms,
        .notify_before_ms = options->notify_before_ms,
        .owner = adopt->owner,
        .event = options->event,
        .event_arg = options->event_arg,
    };
    if (rl_lease_hold(adopt->lease, &terms))
        adopt->lock = &adopt->lease->first;
    rl_operation_complete(&adopt->base, adopt->lock ? REDLOCK_OK : REDLOCK_NO_MEMORY);
}

/* If a majority does not have the token, the lock is lost for every holder, and the remaining keys are deleted. After
 * any other failure another process may still hold it. */
static void decided(struct rl_round *round)
{
    struct adopt *adopt = round->owner;
    if (round->rules.verdict == QUORUM_WON) {
        won(adopt, round->rules.validity_end);
        return;
    }
    if (round->rules.verdict == QUORUM_LOST_GONE)
        rl_lease_release_detached(adopt->lease);
    rl_operation_complete(&adopt->base, rl_result_status(round->rules.verdict));
}

static void stop(struct rl_operation *operation)
{
    if (operation->round)
        rl_round_cancel(operation->round);
}

static void tell(struct rl_operation *operation, redlock_result *result)
{
    struct adopt *adopt = (struct adopt *)operation;
    redlock_client *client = operation->client;
    redlock_acquire_callback callback = adopt->callback;
    void *arg = adopt->arg;
    /* If the client began to close after the grant, it has released the lock already. */
    if (adopt->lock && client->core.closing) {
        rl_lease_end_handle(adopt->lock);
        rl_lease_unref(adopt->lease);
        adopt->lock = NULL;
        result->status = result->cause = REDLOCK_CANCELLED;
    }
    if (adopt->lock)
        rl_lease_give(adopt->lock);
    if (adopt->lock)
        result->validity_ms = (int64_t)(rl_lease_validity(adopt->lease) / QUORUM_MILLISECOND);
    rl_lease_unref(adopt->lease);
    callback(client, adopt->lock, result, arg);
}

static void drop(struct rl_operation *operation)
{
    struct adopt *adopt = (struct adopt *)operation;
    rl_lease_unref(adopt->lease);
}

static const struct rl_operation_type type = {stop, tell, NULL, NULL, drop};

static struct rl_round *create_round(const struct adopt *adopt)
{
    redlock_client *client = adopt->base.client;
    const struct quorum_terms terms = {
        .kind = QUORUM_ADOPT,
        .nodes = client->nodes->count,
        .ttl = adopt->options.ttl_ms * QUORUM_MILLISECOND,
        .drift_ppm = client->core.options.drift_ppm,
        .minimum_validity = adopt->options.minimum_validity_ms * QUORUM_MILLISECOND,
        .all_answers = adopt->options.all_answers,
    };
    return rl_round_create(&client->locks, adopt->lease, RL_ASK_EXTEND, &terms);
}

static void begin(struct adopt *adopt, const char *resource, size_t size, struct rl_text token)
{
    int status = REDLOCK_NO_MEMORY;
    struct rl_operation *operation = &adopt->base;
    if (rl_operation_heed(operation, adopt->options.cancellation, &adopt->caller))
        return;
    adopt->lease = rl_lease_create_of(&operation->client->locks, resource, size, token, &status);
    if (adopt->lease)
        operation->round = create_round(adopt);
    if (!operation->round) {
        rl_operation_complete(operation, status);
        return;
    }
    operation->attempts = 1;
    operation->round->owner = adopt;
    operation->round->decided = decided;
    rl_round_start(operation->round);
}

/* Two leases with one token would release and renew each other's keys. The second handle comes from a re-entrant
 * acquire. */
static int check(redlock_client *client, const char *resource, size_t *size, const char *text, char *bytes,
                 struct rl_text *token, redlock_result *why)
{
    int status = rl_resource_check(resource, size, why);
    if (!status)
        status = rl_token_read(text, bytes, &token->size, why);
    if (!status && rl_leases_find_token(&client->locks, resource, *size, *token))
        status = rl_result_fail(why, REDLOCK_INVALID, "this client has a handle of that lock: use the handle");
    return status;
}

int rl_adopt_start(redlock_client *client, const char *resource, const redlock_acquire_options *given, const char *text,
                   struct rl_caller caller, redlock_acquire_callback callback, void *arg)
{
    redlock_acquire_options options;
    redlock_result why;
    char bytes[REDLOCK_TOKEN_MAX];
    struct rl_text token = {bytes, 0};
    int created, status = rl_options_read_acquire(given, &client->core.options, &options, &why);
    size_t size = options.resource_size;
    if (!status && options.fence)
        status = rl_result_fail(&why, REDLOCK_INVALID,
                                "a lock that is adopted has no fencing token; who acquired it hands on its own");
    if (!status && options.also_count)
        status = rl_result_fail(&why, REDLOCK_INVALID, "only a lock on one resource can be adopted");
    if (!status && options.permits)
        status = rl_result_fail(&why, REDLOCK_INVALID, "a permit of a semaphore cannot be adopted");
    if (!status && options.shared)
        status = rl_result_fail(&why, REDLOCK_INVALID, "a shared lock cannot be adopted");
    if (!status)
        status = rl_cancellation_check(client, options.cancellation, &why);
    if (!status)
        status = check(client, resource, &size, text, bytes, &token, &why);
    struct adopt *adopt = (struct adopt *)rl_operation_create(client, &type, sizeof *adopt, &created);
    if (!adopt)
        return created;
    adopt->options = options;
    adopt->caller = caller;
    adopt->owner = rl_owner_of(&options, caller.owner);
    adopt->callback = callback;
    adopt->arg = arg;
    if (status)
        rl_operation_refuse(&adopt->base, &why);
    else
        begin(adopt, resource, size, token);
    return REDLOCK_OK;
}
