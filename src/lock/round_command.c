#include "src/lock/round_command.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "src/core/clock.h"
#include "src/lock/locks.h"
#include "src/lock/queue_table.h"
#include "src/lock/round.h"
#include "src/node/limits.h"

/* The one key of a plain lock. */
static void add_lock_key(struct rl_round_command *built, const struct rl_lease *lease)
{
    assert(lease->key_count == 1);
    rl_command_add(&built->command, lease->key[0].bytes, lease->key[0].size);
}

/* Calls a script with all keys. */
static void call(struct rl_round_command *built, enum rl_script_id script, bool use_eval, const struct rl_lease *lease)
{
    rl_decimal(built->keys, lease->key_count);
    rl_command_script(&built->command, script, use_eval, built->keys);
    struct rl_text semaphore = rl_lease_semaphore(lease);
    if (semaphore.bytes && (script == RL_SCRIPT_GRANT || script == RL_SCRIPT_WAIT)) {
        rl_command_add(&built->command, semaphore.bytes, semaphore.size);
        return;
    }
    for (unsigned i = 0; i < lease->key_count; i++)
        rl_command_add(&built->command, lease->key[i].bytes, lease->key[i].size);
}

static void add_token(struct rl_round_command *built, const struct rl_lease *lease)
{
    struct rl_text value = rl_lease_value(lease);
    rl_command_add(&built->command, value.bytes, value.size);
}

/* Formatted only for commands that need it: releases, half of all commands, do not. */
static void add_ttl(struct rl_round_command *built, const struct rl_round *round)
{
    rl_command_add(&built->command, built->ttl, rl_decimal(built->ttl, round->rules.terms.ttl / QUORUM_MILLISECOND));
}

/* The fencing token, 0 for none, and the ttl of its record. */
static void add_fence(struct rl_round_command *built, const struct rl_lease *lease, uint64_t fence)
{
    rl_command_add(&built->command, built->fence, rl_decimal(built->fence, fence));
    rl_command_add(&built->command, built->fence_ttl,
                   rl_decimal(built->fence_ttl, lease->locks->core->options.fence_ttl_ms));
}

/* The published pattern, so that clients in other languages and this one exclude each other. */
static void set(struct rl_round_command *built, const struct rl_round *round)
{
    const struct rl_lease *lease = round->lease;
    rl_command_add(&built->command, "SET", 3);
    add_lock_key(built, lease);
    add_token(built, lease);
    rl_command_add(&built->command, "NX", 2);
    rl_command_add(&built->command, "PX", 2);
    add_ttl(built, round);
}

static void add_mode(struct rl_round_command *built, const struct rl_lease *lease)
{
    rl_command_add_text(&built->command, lease->shared ? "shared" : "exclusive");
}

/* The semaphore's number of slots, 0 for a lock, and the requested slot, -1 for none. */
static void add_slot(struct rl_round_command *built, const struct rl_lease *lease)
{
    rl_command_add(&built->command, built->permits, rl_decimal(built->permits, lease->permits));
    if (lease->slot < 0)
        rl_command_add(&built->command, "-1", 2);
    else
        rl_command_add(&built->command, built->slot, rl_decimal(built->slot, (uint64_t)lease->slot));
}

static void grant(struct rl_round_command *built, const struct rl_round *round, bool use_eval)
{
    const struct rl_lease *lease = round->lease;
    call(built, RL_SCRIPT_GRANT, use_eval, lease);
    add_token(built, lease);
    add_ttl(built, round);
    add_fence(built, lease, round->fence);
    add_mode(built, lease);
    add_slot(built, lease);
    rl_command_add(&built->command, round->waits ? "1" : "0", 1);
}

static void keep(struct rl_round_command *built, const struct rl_round *round, bool use_eval)
{
    const struct rl_lease *lease = round->lease;
    call(built, RL_SCRIPT_KEEP, use_eval, lease);
    rl_command_add_text(&built->command, "keep");
    rl_command_add_text(&built->command, built->keys);
    add_token(built, lease);
    add_ttl(built, round);
    add_fence(built, lease, round->fence);
    add_mode(built, lease);
}

static void extend(struct rl_round_command *built, const struct rl_round *round, bool use_eval)
{
    const struct rl_lease *lease = round->lease;
    rl_command_script(&built->command, RL_SCRIPT_EXTEND, use_eval, "1");
    add_lock_key(built, lease);
    add_token(built, lease);
    add_ttl(built, round);
}

/* The waiter's name in the queues: the client's channel; for several resources a hash of them; for readers " r". */
static const char *waiter_name(struct rl_round_command *built, const struct rl_lease *lease)
{
    const char *readers = lease->shared ? " r" : "";
    if (lease->key_count == 1 && !lease->shared)
        return lease->locks->nodes->channel;
    if (lease->key_count > 1)
        snprintf(built->waiter, sizeof built->waiter, "%s %08x%s", lease->locks->nodes->channel, rl_lease_set(lease),
                 readers);
    else
        snprintf(built->waiter, sizeof built->waiter, "%s%s", lease->locks->nodes->channel, readers);
    return built->waiter;
}

static void free_all(struct rl_round_command *built, const struct rl_lease *lease, bool use_eval, const char *waiter)
{
    call(built, RL_SCRIPT_FREE, use_eval, lease);
    add_token(built, lease);
    add_fence(built, lease, rl_lease_own_fence(lease));
    add_mode(built, lease);
    rl_command_add_text(&built->command, waiter ? waiter : "");
    struct rl_text semaphore = rl_lease_semaphore(lease);
    rl_command_add(&built->command, semaphore.bytes ? semaphore.bytes : "", semaphore.size);
}

/* waiter: the waiter to dequeue, or NULL. hand: the node hands the lock over to the next waiter; a holder that has been
 * a waiter does so even on a node where it has no key. Its entry stays if another acquire of this client uses it. */
static void release(struct rl_round_command *built, const struct rl_lease *lease, bool use_eval, const char *waiter,
                    bool hand)
{
    if (!rl_lease_is_plain(lease)) {
        free_all(built, lease, use_eval, waiter);
        return;
    }
    bool stays = !waiter && lease->queueing.queued;
    rl_command_script(&built->command, RL_SCRIPT_RELEASE, use_eval, "1");
    add_lock_key(built, lease);
    add_token(built, lease);
    if (waiter || !hand || stays)
        rl_command_add_text(&built->command, waiter ? waiter : stays ? waiter_name(built, lease) : "");
    if (!hand || stays)
        rl_command_add_text(&built->command, hand ? "" : "undo");
    if (stays)
        rl_command_add_text(&built->command, "stays");
}

/* The value that the node may set the key to, the ttl, the time, and the marker that proves the grant. */
static const char *offer(struct rl_round_command *built, const struct rl_round *round)
{
    const redlock_options *options = &round->locks->core->options;
    if (!round->offer || !built->subscribed)
        return "";
    snprintf(built->offer, sizeof built->offer, "%s %u %llu %s", round->offer->token, round->offer->ttl_ms,
             (unsigned long long)rl_now(), options->guard ? options->marker_key : "");
    return built->offer;
}

static void wait(struct rl_round_command *built, const struct rl_round *round, bool use_eval)
{
    call(built, RL_SCRIPT_WAIT, use_eval, round->lease);
    rl_command_add_text(&built->command, waiter_name(built, round->lease));
    rl_command_add(&built->command, built->ticket, rl_decimal(built->ticket, round->ticket));
    rl_command_add_text(&built->command, round->command == RL_COMMAND_TAKE ? "take" : "enqueue");
    add_token(built, round->lease);
    add_ttl(built, round);
    add_fence(built, round->lease, round->fence);
    add_mode(built, round->lease);
    add_slot(built, round->lease);
    rl_command_add(&built->command, built->subscribed ? "1" : "0", 1);
    rl_command_add_text(&built->command, offer(built, round));
}

/* A release dequeues the holder, unless another waiter of this client uses its entry. The client's next waiter enqueues
 * behind the withdrawal of an offer, except if the withdrawal is sent again. */
static const char *waiter_to_dequeue(struct rl_round_command *built, const struct rl_lease *lease, bool use_eval)
{
    bool is_ours = (lease->queueing.withdrawn && !use_eval) || !rl_queue_is_waiting(lease->locks, lease);
    return lease->queueing.queued && is_ours ? waiter_name(built, lease) : NULL;
}

bool rl_round_command_format(struct rl_round_command *built, const struct rl_round *round, bool use_eval)
{
    const struct rl_lease *lease = round->lease;
    built->command.count = 0;
    built->command.bytes = NULL;
    switch (round->command) {
    case RL_COMMAND_SET:
        set(built, round);
        break;
    case RL_COMMAND_GRANT:
        grant(built, round, use_eval);
        break;
    case RL_COMMAND_KEEP:
        keep(built, round, use_eval);
        break;
    case RL_COMMAND_EXTEND:
        extend(built, round, use_eval);
        break;
    case RL_COMMAND_RELEASE:
        release(built, lease, use_eval, waiter_to_dequeue(built, lease, use_eval), round->hands_over);
        break;
    case RL_COMMAND_DEQUEUE:
        release(built, lease, use_eval, waiter_name(built, lease), false);
        break;
    case RL_COMMAND_QUERY:
        rl_command_script(&built->command, RL_SCRIPT_QUERY, use_eval, "1");
        add_lock_key(built, lease);
        break;
    case RL_COMMAND_TRUST:
        rl_guard_command(round->locks->nodes, NULL, RL_GUARD_TRUST, use_eval, &built->command, &built->guard);
        break;
    case RL_COMMAND_TAKE:
    case RL_COMMAND_ENQUEUE:
        wait(built, round, use_eval);
        break;
    }
    return rl_command_format(&built->command);
}
