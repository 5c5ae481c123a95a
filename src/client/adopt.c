/* Adopt: creates a handle of a lock that another process acquired, if a majority of the nodes still has its token. */
#include <assert.h>
#include <stdbool.h>

#include "src/client/client.h"
#include "src/client/options.h"
#include "src/core/escape.h"
#include "src/core/result.h"

struct adopt {
    struct rl_operation base;
    struct rl_lease_terms terms;
    redlock_lock *lock; /* the handle; NULL until the lock is adopted */
};

#define HAS_HANDLE "this client holds that lock: use its handle"

static void adopt_won(struct adopt *adopt, quorum_time validity_end)
{
    const struct rl_lease *adopted = adopt->base.lease;
    const struct rl_text name = rl_lease_resource(adopted, 0);
    assert(!adopt->lock && validity_end > 0);
    /* By another adoption, begun before this one had ended. Two leases with one token would release and renew each other's
     * keys. The second handle comes from a re-entrant acquire. */
    if (rl_leases_find_token(adopted->locks, name.bytes, name.size, rl_lease_value(adopted))) {
        rl_operation_explain(&adopt->base, HAS_HANDLE);
        rl_operation_complete(&adopt->base, REDLOCK_INVALID);
        return;
    }
    adopt->terms.validity_end = validity_end;
    if (rl_lease_hold(adopt->base.lease, &adopt->terms))
        adopt->lock = &adopt->base.lease->handles.first;
    rl_operation_complete(&adopt->base, adopt->lock ? REDLOCK_OK : REDLOCK_NO_MEMORY);
}

/* A failure deletes nothing. Another holder may still be valid, also without a majority of the keys: the guard keeps
 * nodes that forgot them from granting the lock, and these keys keep the others. */
static void adopt_decided(struct rl_round *round)
{
    struct adopt *adopt = round->owner;
    if (round->rules.verdict == QUORUM_WON) {
        adopt_won(adopt, round->rules.validity_end);
        return;
    }
    rl_operation_complete(&adopt->base, rl_result_status(round->rules.verdict));
}

static void adopt_report(struct rl_operation *operation, redlock_result *result, struct rl_returned *returned)
{
    struct adopt *adopt = (struct adopt *)operation;
    returned->lock = rl_operation_hand_out(operation, adopt->lock, result);
    if (returned->lock)
        result->validity_ms = (int64_t)(rl_lease_validity(operation->lease) / QUORUM_MILLISECOND);
}

static void adopt_begin(struct adopt *adopt, const redlock_acquire_options *options, const char *resource, size_t size,
                        struct rl_text token)
{
    int status;
    struct rl_operation *operation = &adopt->base;
    const struct quorum_terms terms = {
        .kind = QUORUM_ADOPT,
        .ttl = options->ttl_ms * QUORUM_MILLISECOND,
        .minimum_validity = options->minimum_validity_ms * QUORUM_MILLISECOND,
        .all_answers = options->all_answers,
    };
    operation->lease = rl_lease_create_of(&operation->client->locks, resource, size, token, &status);
    if (operation->lease)
        rl_operation_start_round(operation, rl_round_create(operation->lease, RL_COMMAND_EXTEND, terms), adopt_decided);
    else
        rl_operation_complete(operation, status);
}

static void adopt_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    struct adopt *adopt = (struct adopt *)operation;
    redlock_client *client = operation->client;
    redlock_acquire_options options;
    redlock_result why;
    char bytes[REDLOCK_TOKEN_MAX];
    struct rl_text token = {bytes, 0};
    int status = rl_options_read_acquire(arguments->options, &client->core.options, &options, &why);
    size_t size = options.resource_size;
    if (!status && options.fence)
        status = rl_result_fail(&why, REDLOCK_INVALID,
                                "an adopted lock has no fencing token; pass on the token of the acquire");
    if (!status && options.also_count)
        status = rl_result_fail(&why, REDLOCK_INVALID, "a lock on several resources cannot be adopted");
    if (!status && options.permits)
        status = rl_result_fail(&why, REDLOCK_INVALID, "a permit of a semaphore cannot be adopted");
    if (!status && options.shared)
        status = rl_result_fail(&why, REDLOCK_INVALID, "a shared lock cannot be adopted");
    if (!status)
        status = rl_lock_name_check(arguments->resource, &size, &client->core.options, &why);
    if (!status)
        status = rl_token_read(arguments->token, bytes, &token.size, &why);
    if (!status && rl_leases_find_token(&client->locks, arguments->resource, size, token))
        status = rl_result_fail(&why, REDLOCK_INVALID, HAS_HANDLE);
    if (status) {
        rl_operation_refuse(operation, &why);
        return;
    }
    adopt->terms = rl_options_terms(&options, rl_owner_of(&options, arguments->caller.owner), &client->core.options);
    adopt_begin(adopt, &options, arguments->resource, size, token);
}

const struct rl_operation_type rl_adopt = {
    .size = sizeof(struct adopt), .returns_lock = true, .start = adopt_start, .report = adopt_report};
