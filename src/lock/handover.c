#include "src/lock/handover.h"

#include <assert.h>
#include <string.h>

#include "src/core/clock.h"
#include "src/lock/detached.h"
#include "src/lock/locks.h"
#include "src/lock/queue.h"
#include "src/lock/queue_table.h"
#include "src/lock/round.h"
#include "src/node/guard.h"

static struct rl_round *create(struct rl_queue *queue)
{
    int status;
    struct rl_locks *locks = queue->locks;
    const struct rl_text resource = rl_lease_resource(queue->lease, 0);
    const struct quorum_terms terms = {
        .kind = QUORUM_ACQUIRE,
        .nodes = locks->nodes->count,
        .ttl = queue->first->ttl,
        .drift_ppm = locks->core->options.drift_ppm,
        .minimum_validity = queue->first->minimum_validity,
    };
    struct rl_lease *lease = rl_lease_create_one(locks, resource.bytes, resource.size, &status);
    if (!lease)
        return NULL;
    struct rl_round *offer = rl_round_create(locks, lease, RL_COMMAND_TAKE, &terms);
    lease->queueing.queued = true;
    lease->ttl_ms = (uint32_t)(terms.ttl / QUORUM_MILLISECOND);
    rl_lease_unref(lease);
    return offer;
}

void rl_handover_offer(struct rl_queue *queue, struct rl_round *request)
{
    assert(!request->offer);
    if (!queue->first || !queue->first->ttl)
        return;
    if (!queue->offer)
        queue->offer = create(queue);
    if (queue->offer)
        request->offer = rl_lease_ref(queue->offer->lease);
}

static struct rl_round *close_offer(struct rl_queue *queue)
{
    struct rl_round *offer = queue->offer;
    queue->offer = NULL;
    return offer;
}

void rl_handover_withdraw(struct rl_queue *queue)
{
    struct rl_round *offer = close_offer(queue);
    if (!offer)
        return;
    offer->lease->queueing.withdrawn = true;
    rl_lease_release_detached(offer->lease);
    rl_round_leave(offer);
}

quorum_nodes rl_handover_end(struct rl_queue *queue, const struct rl_round *won)
{
    struct rl_round *offer = queue->offer;
    quorum_nodes listed = queue->rules.listed & ~(won ? won->lease->may_hold : 0);
    if (won)
        queue->hot = offer == won;
    if (!offer)
        return listed;
    if (won == offer) { /* nodes that have not handed it over yet will, or dequeue it on the release */
        listed = won->lease->may_hold & ~won->lease->queueing.offered;
        rl_round_leave(close_offer(queue));
        return listed;
    }
    /* A node that granted the attempt has removed the offer. Any other may have handed the lock over, and its message
     * may be lost: without the withdrawal its key would stay until the ttl ends. */
    quorum_nodes removed = won ? won->rules.tally.voted[QUORUM_GRANTED] : 0;
    offer->lease->may_hold &= ~removed;
    offer->lease->queueing.offered &= ~removed;
    listed &= ~offer->lease->may_hold;
    if (offer->lease->may_hold || listed)
        rl_handover_withdraw(queue);
    else
        rl_round_leave(close_offer(queue));
    return listed;
}

/* A node that may have lost data, or cannot prove that it has not, does not count. */
static bool counts(struct rl_node *node, const struct rl_handed *handed, quorum_time now)
{
    if (node->nodes->core->options.guard &&
        !quorum_attest_shows(&node->attest.rules, handed->shown, handed->shown_size)) {
        node->nodes->core->statistics.unattested++;
        rl_guard_doubt(node);
        return false;
    }
    return !node->unfit && !rl_guard_objection(node, now);
}

static void take(struct rl_queue *queue, struct rl_node *node, const struct rl_handed *handed)
{
    quorum_time now = rl_now();
    assert(queue->first && queue->first->handed);
    struct rl_round *offer = queue->offer;
    rl_fanout_ref(&offer->fanout);
    if (handed->since <= now && counts(node, handed, now))
        rl_round_handed(offer, node, handed->since, now);
    if (offer->rules.verdict == QUORUM_WON) {
        queue->first->handed(queue->first, offer);
    } else {
        const struct quorum_waiting_event event = {.type = QUORUM_WAITING_HANDED, .now = now, .node = node->index};
        rl_queue_step(queue, &event);
    }
    rl_fanout_unref(&offer->fanout);
}

static bool is_same(struct rl_text a, struct rl_text b)
{
    return a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0;
}

void rl_handover_take(struct rl_locks *locks, unsigned node, const struct rl_handed *handed)
{
    assert(node < locks->nodes->count);
    size_t prefix = strlen(locks->core->options.prefix);
    if (handed->key.size <= prefix || handed->key.size - prefix > REDLOCK_RESOURCE_MAX)
        return; /* no client offers such a name */
    const struct rl_text resource = {handed->key.bytes + prefix, handed->key.size - prefix};
    const struct rl_names names = rl_names_of(resource.bytes, resource.size);
    struct rl_queue *queue = rl_queue_find(locks, &names, false);
    struct rl_lease *held;
    if (queue && queue->first && queue->offer && is_same(handed->value, rl_lease_value(queue->offer->lease)))
        take(queue, &locks->nodes->node[node], handed);
    else if ((held = rl_leases_find_token(locks, resource.bytes, resource.size, handed->value)) != NULL)
        held->may_hold |= quorum_node(node); /* one more grant of a lock that was handed over */
    else
        locks->core->statistics.messages_dropped++;
}
