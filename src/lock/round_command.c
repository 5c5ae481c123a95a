#include "src/lock/round_command.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "src/lock/locks.h"
#include "src/lock/queue_table.h"
#include "src/lock/round.h"
#include "src/node/guard.h"
#include "src/node/limits.h"

struct waiter_name {
    char text[RL_CHANNEL_SIZE + 16];
};

static void add(struct rl_command *command, struct rl_text text)
{
    rl_command_add(command, text.bytes ? text.bytes : "", text.size);
}

static void add_keys(struct rl_command *command, const struct rl_lease *lease)
{
    for (unsigned i = 0; i < lease->key_count; i++)
        rl_command_add(command, lease->key[i].bytes, lease->key[i].size);
}

/* The keys beside those of the lock; the scripts expect them in this order. */
enum { FREE, QUEUE, ALIVE, FENCE, HELPERS };
static const struct rl_text helpers[HELPERS] = {[FREE] = {RL_FREE_SUFFIX, sizeof RL_FREE_SUFFIX - 1},
                                                [QUEUE] = {RL_QUEUE_SUFFIX, sizeof RL_QUEUE_SUFFIX - 1},
                                                [ALIVE] = {RL_ALIVE_SUFFIX, sizeof RL_ALIVE_SUFFIX - 1},
                                                [FENCE] = {RL_FENCE_SUFFIX, sizeof RL_FENCE_SUFFIX - 1}};

/* Adds a helper key of each of the lease's first keys; of a slot it is the semaphore's. */
static void add_helpers_of(struct rl_command *command, const struct rl_lease *lease, unsigned keys, unsigned helper)
{
    struct rl_text semaphore = rl_lease_semaphore(lease);
    for (unsigned i = 0; i < keys; i++)
        rl_command_add_joined(command,
                              semaphore.bytes ? semaphore : (struct rl_text){lease->key[i].bytes, lease->key[i].size},
                              helpers[helper].bytes, helpers[helper].size);
}

static void add_helpers(struct rl_command *command, const struct rl_lease *lease, unsigned helper)
{
    add_helpers_of(command, lease, lease->key_count, helper);
}

static void add_slots(struct rl_command *command, struct rl_text semaphore, unsigned slots)
{
    char infix[sizeof RL_SLOT_INFIX + RL_DECIMAL_SIZE] = RL_SLOT_INFIX;
    const size_t size = sizeof RL_SLOT_INFIX - 1;
    for (unsigned i = 0; i < slots; i++)
        rl_command_add_joined(command, semaphore, infix, size + rl_decimal(infix + size, i));
}

/* Calls a script that may use every key of the lock; `free` gets the slots that the lock is on, others get the semaphore. A
 * script names every key that it uses: a Redis Cluster and some servers require it. */
static void call(struct rl_command *command, enum rl_script_id script, bool use_eval, const struct rl_lease *lease)
{
    const struct rl_key *key = &lease->key[lease->slots ? lease->key_count : 0];
    struct rl_text semaphore = {key->bytes, key->size};
    unsigned slots = script != RL_SCRIPT_FREE ? lease->permits : 0, keys = slots ? 1 : lease->key_count;
    rl_command_script(command, script, use_eval, keys * (1 + HELPERS) + slots);
    if (slots)
        add(command, semaphore);
    else
        add_keys(command, lease);
    for (unsigned i = 0; i < HELPERS; i++)
        add_helpers_of(command, lease, keys, i);
    add_slots(command, semaphore, slots);
}

static void query(struct rl_command *command, const struct rl_lease *lease, bool use_eval)
{
    rl_command_script(command, RL_SCRIPT_QUERY, use_eval, 3 + RL_SLOT_LAST + 1);
    add_keys(command, lease);
    add_helpers(command, lease, QUEUE);
    add_helpers(command, lease, ALIVE);
    add_slots(command, (struct rl_text){lease->key[0].bytes, lease->key[0].size}, RL_SLOT_LAST + 1);
}

static void add_ttl(struct rl_command *command, const struct rl_round *round)
{
    rl_command_add_number(command, round->rules.terms.ttl / QUORUM_MILLISECOND);
}

/* The fencing token, 0 for none, and the ttl of its record. */
static void add_fence(struct rl_command *command, const struct rl_lease *lease, uint64_t fence)
{
    rl_command_add_number(command, fence);
    rl_command_add_number(command, lease->locks->core->options.fence_ttl_ms);
}

static void add_mode(struct rl_command *command, const struct rl_lease *lease)
{
    rl_command_add_text(command, lease->shared ? "shared" : "exclusive");
}

static void add_terms(struct rl_command *command, const struct rl_round *round)
{
    add(command, rl_lease_value(round->lease));
    add_ttl(command, round);
    add_fence(command, round->lease, round->fence);
    add_mode(command, round->lease);
}

/* The semaphore's number of slots, 0 for a lock, and the requested slots; without any minus the number that is wanted. */
static void add_wanted(struct rl_command *command, const struct rl_lease *lease)
{
    char wanted[4 * REDLOCK_PERMITS_MAX] = "-1";
    size_t size = 0;
    rl_command_add_number(command, lease->permits);
    for (unsigned slot = 0; slot < lease->permits && lease->slots; slot++)
        if (lease->slots >> slot & 1)
            size += (size_t)snprintf(wanted + size, sizeof wanted - size, size ? " %u" : "%u", slot);
    if (lease->permits && !size)
        snprintf(wanted, sizeof wanted, "-%u", lease->wanted);
    rl_command_add_text(command, wanted);
}

/* The published pattern, so that clients in other languages and this one exclude each other. */
static void set(struct rl_command *command, const struct rl_round *round, bool gets)
{
    assert(round->lease->key_count == 1);
    rl_command_add_text(command, "SET");
    add_keys(command, round->lease);
    add(command, rl_lease_value(round->lease));
    rl_command_add_text(command, "NX");
    if (gets)
        rl_command_add_text(command, "GET");
    rl_command_add_text(command, "PX");
    add_ttl(command, round);
}

static void grant(struct rl_command *command, const struct rl_round *round, bool use_eval)
{
    call(command, RL_SCRIPT_GRANT, use_eval, round->lease);
    add_terms(command, round);
    add_wanted(command, round->lease);
    rl_command_add_text(command, round->waits ? "1" : "0");
}

/* The waiter's name in the queues: the client's channel; for several resources a hash of them; for readers " r". */
static const char *waiter_name_as(struct waiter_name *name, const struct rl_lease *lease, bool shared)
{
    char set[sizeof " 00000000"] = "";
    if (rl_lease_resources(lease) > 1)
        snprintf(set, sizeof set, " %08x", rl_lease_set(lease));
    snprintf(name->text, sizeof name->text, "%s%s%s", lease->locks->nodes->channel, set, shared ? " r" : "");
    return name->text;
}

static const char *waiter_name(struct waiter_name *name, const struct rl_lease *lease)
{
    return waiter_name_as(name, lease, lease->shared);
}

static void free_all(struct rl_command *command, const struct rl_lease *lease, bool use_eval, const char *waiter)
{
    call(command, RL_SCRIPT_FREE, use_eval, lease);
    add(command, rl_lease_value(lease));
    add_fence(command, lease, rl_lease_own_fence(lease));
    add_mode(command, lease);
    rl_command_add_text(command, waiter ? waiter : "");
    rl_command_add_number(command, rl_lease_rest(lease) / QUORUM_MILLISECOND);
}

/* Calls release.lua with the keys that the user may use: with the marker a node can prove a hand-over. */
static void call_release(struct rl_command *command, const struct rl_lease *lease, bool use_eval, bool only_lock)
{
    const redlock_options *options = &lease->locks->core->options;
    rl_command_script(command, RL_SCRIPT_RELEASE, use_eval, only_lock ? 1 : options->guard ? 5 : 4);
    add_keys(command, lease);
    for (unsigned i = FREE; i <= ALIVE && !only_lock; i++)
        add_helpers(command, lease, i);
    if (options->guard && !only_lock)
        rl_command_add_text(command, options->marker_key);
}

/* waiter: the waiter to dequeue, or NULL. hand: the node hands the lock over to the next waiter; a holder that has been
 * a waiter does so even on a node where it has no key. Its entry stays if another acquire of this client uses it. */
static void release(struct rl_command *command, const struct rl_lease *lease, bool use_eval, const char *waiter,
                    bool hand, bool only_lock)
{
    struct waiter_name name;
    if (!rl_lease_is_plain(lease)) {
        free_all(command, lease, use_eval, waiter);
        return;
    }
    uint64_t rest_ms = rl_lease_rest(lease) / QUORUM_MILLISECOND;
    bool stays = !waiter && lease->queueing.queued;
    call_release(command, lease, use_eval, only_lock);
    add(command, rl_lease_value(lease));
    if (waiter || !hand || stays || rest_ms)
        rl_command_add_text(command, waiter ? waiter : stays ? waiter_name(&name, lease) : "");
    if (rest_ms)
        rl_command_add_number(command, rest_ms);
    else if (!hand || stays)
        rl_command_add_text(command, hand ? "" : "undo");
    if (stays)
        rl_command_add_text(command, "stays");
}

/* The value that the node may set the key to, the ttl, the time, and the marker that proves the grant. */
static void add_offer(struct rl_command *command, const struct rl_round *round, bool subscribed)
{
    const redlock_options *options = &round->locks->core->options;
    char offer[REDLOCK_TOKEN_SIZE + 2 * RL_DECIMAL_SIZE + 128 + 4] = "";
    if (rl_listeners_are_deaf(round->locks->nodes))
        snprintf(offer, sizeof offer, "%s", RL_OFFER_DEAF);
    else if (round->offer && subscribed)
        snprintf(offer, sizeof offer, "%s %u %llu %s", round->offer->token.bytes, round->offer->ttl_ms,
                 (unsigned long long)rl_now(), options->guard ? options->marker_key : "");
    rl_command_add_text(command, offer);
}

static void wait(struct rl_command *command, const struct rl_round *round, bool subscribed, bool use_eval)
{
    struct waiter_name name;
    call(command, RL_SCRIPT_WAIT, use_eval, round->lease);
    rl_command_add_text(command, waiter_name(&name, round->lease));
    rl_command_add_number(command, round->ticket);
    rl_command_add_text(command, round->command == RL_COMMAND_TAKE ? "take" : "enqueue");
    add_terms(command, round);
    add_wanted(command, round->lease);
    rl_command_add_text(command, subscribed ? "1" : "0");
    add_offer(command, round, subscribed);
}

/* A release dequeues the holder, unless another waiter of this client uses its entry. The client's next waiter enqueues
 * behind the withdrawal of an offer, except if the withdrawal is sent again. */
static const char *waiter_to_dequeue(struct waiter_name *name, const struct rl_lease *lease, bool use_eval)
{
    bool is_ours = (lease->queueing.withdrawn && !use_eval) || !rl_queue_is_waiting(lease->locks, lease, lease->shared);
    return lease->queueing.queued && is_ours ? waiter_name(name, lease) : NULL;
}

/* The lease is a reader's already. A node that did not grant the lock in its turn keeps the writer's entry in its queue,
 * with its offer; the release will name the reader's. */
static void downgrade(struct rl_command *command, const struct rl_round *round, bool use_eval)
{
    struct waiter_name name;
    bool stays = rl_queue_is_waiting(round->locks, round->lease, false);
    call(command, RL_SCRIPT_DOWNGRADE, use_eval, round->lease);
    add(command, rl_lease_value(round->lease));
    rl_command_add_number(command, round->lease->ttl_ms);
    rl_command_add_text(command, round->lease->queueing.queued ? waiter_name_as(&name, round->lease, false) : "");
    rl_command_add_text(command, stays ? "1" : "0");
}

/* ------------------------------------------------------------------------------------------------ several rounds at once */

static const struct rl_round *round_of(const struct rl_fanout *member)
{
    return (const struct rl_round *)member;
}

/* Of each lock that is not plain. A release of one does not come here. */
static void add_others(struct rl_command *command, struct rl_fanout *const *member, unsigned count)
{
    rl_command_add_text(command, rl_round_heals(round_of(member[0])) ? "heal" : "keep");
    for (unsigned i = 0; i < count; i++) {
        const struct rl_round *round = round_of(member[i]);
        rl_command_add_number(command, round->lease->key_count);
        add_terms(command, round);
    }
}

bool rl_round_command_format_all(struct rl_fanout *const *member, unsigned count, bool use_eval,
                                 struct rl_command *command)
{
    static const enum rl_script_id scripts[] = {[RL_COMMAND_EXTEND] = RL_SCRIPT_EXTEND,
                                                [RL_COMMAND_KEEP] = RL_SCRIPT_KEEP,
                                                [RL_COMMAND_HEAL] = RL_SCRIPT_HEAL,
                                                [RL_COMMAND_RESTORE] = RL_SCRIPT_KEEP,
                                                [RL_COMMAND_RELEASE] = RL_SCRIPT_RELEASES};
    enum rl_command_kind kind = round_of(member[0])->command;
    unsigned keys = 0;
    bool has_helper = kind == RL_COMMAND_RELEASE || scripts[kind] == RL_SCRIPT_KEEP;
    for (unsigned i = 0; i < count; i++)
        keys += round_of(member[i])->lease->key_count;
    rl_command_script(command, scripts[kind], use_eval, has_helper ? 2 * keys : keys);
    for (unsigned i = 0; i < count; i++)
        add_keys(command, round_of(member[i])->lease);
    for (unsigned i = 0; i < count && has_helper; i++)
        add_helpers(command, round_of(member[i])->lease, kind == RL_COMMAND_RELEASE ? FREE : FENCE);
    if (scripts[kind] == RL_SCRIPT_KEEP)
        add_others(command, member, count);
    for (unsigned i = 0; i < count && scripts[kind] != RL_SCRIPT_KEEP; i++) {
        add(command, rl_lease_value(round_of(member[i])->lease));
        if (kind != RL_COMMAND_RELEASE)
            add_ttl(command, round_of(member[i]));
    }
    return rl_command_format(command);
}

bool rl_round_command_format(struct rl_command *command, const struct rl_round *round, bool special, bool use_eval)
{
    const struct rl_lease *lease = round->lease;
    struct rl_fanout *alone = (struct rl_fanout *)(uintptr_t)&round->fanout;
    struct waiter_name name;
    switch (round->command) {
    case RL_COMMAND_SET:
    case RL_COMMAND_SET_GET:
        set(command, round, special);
        break;
    case RL_COMMAND_GRANT:
        grant(command, round, use_eval);
        break;
    case RL_COMMAND_DOWNGRADE:
        downgrade(command, round, use_eval);
        break;
    case RL_COMMAND_EXTEND:
    case RL_COMMAND_KEEP:
    case RL_COMMAND_HEAL:
    case RL_COMMAND_RESTORE:
        return rl_round_command_format_all(&alone, 1, use_eval, command);
    case RL_COMMAND_RELEASE:
        release(command, lease, use_eval, waiter_to_dequeue(&name, lease, use_eval),
                round->hands_over && !round->leaves_free, special);
        break;
    case RL_COMMAND_DEQUEUE:
        release(command, lease, use_eval, waiter_name(&name, lease), false, false);
        break;
    case RL_COMMAND_QUERY:
        query(command, lease, use_eval);
        break;
    case RL_COMMAND_TRUST:
        rl_guard_trust(&round->locks->nodes->node[round->trusted], use_eval, command);
        break;
    case RL_COMMAND_TAKE:
    case RL_COMMAND_ENQUEUE:
        wait(command, round, special, use_eval);
        break;
    }
    return rl_command_format(command);
}
