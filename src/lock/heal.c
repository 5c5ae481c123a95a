#include "src/lock/heal.h"

#include <assert.h>
#include <string.h>

#include "src/lock/batch.h"
#include "src/lock/locks.h"

static void take_reply(struct rl_batch *batch, unsigned node, const redisReply *reply)
{
    for (unsigned i = 0; i < batch->count; i++)
        if (rl_batch_is_done(batch, reply, i))
            batch->locks->core->statistics.healed++;
        else if (batch->item[i].lease->key_count == 1) /* by its reply it has nothing of ours */
            rl_lease_note_absent(batch->item[i].lease, node);
}

static void answered(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer)
{
    (void)request;
    struct rl_batch *batch = (struct rl_batch *)fanout;
    if (answer->kind == RL_ANSWER_OVERDUE)
        return;
    for (unsigned i = 0; i < batch->count; i++)
        batch->item[i].lease->renewal.healing &= ~quorum_node(answer->node->index);
    if (answer->kind == RL_ANSWER_REPLY && rl_batch_is_answer(batch, answer->reply))
        take_reply(batch, answer->node->index, answer->reply);
}

/* Not sent again after NOSCRIPT: it could follow a release, and set the key of a released lock. The next renewal heals
 * the node. */
static const struct rl_fanout_type type = {.answered = answered, .destroy = rl_batch_destroy};

/* Only locks that a majority has just confirmed, and that are still held. Not twice at a time, where the node's window
 * holds the first heal back: if the first one finds another holder's key and the second does not, the reply to the
 * first would hide that the second has set the key. */
static bool is_to_heal(const struct rl_batch_item *item, quorum_nodes node)
{
    const struct rl_lease *lease = item->lease;
    return (item->absent & node & ~lease->renewal.healing) && lease->links.listed &&
           quorum_lease_may_heal(&lease->rules);
}

static void heal_on(const struct rl_batch *renewed, unsigned node, unsigned wanted)
{
    quorum_nodes bit = quorum_node(node);
    struct rl_batch *batch = rl_batch_create(renewed->locks, &type, true, renewed->plain, wanted);
    if (!batch)
        return; /* the next renewal heals the node */
    for (unsigned i = 0; i < renewed->count; i++)
        if (is_to_heal(&renewed->item[i], bit)) {
            batch->item[batch->count] = renewed->item[i];
            rl_lease_ref(batch->item[batch->count++].lease);
        }
    assert(batch->count == wanted);
    bool sent = rl_batch_send(batch, node, false);
    for (unsigned i = 0; sent && i < batch->count; i++) {
        batch->item[i].lease->may_hold |= bit;
        batch->item[i].lease->renewal.healing |= bit;
        batch->item[i].lease->renewal.healed |= bit;
    }
    rl_fanout_unref(&batch->fanout);
}

void rl_heal_after(const struct rl_batch *renewed, quorum_nodes nodes)
{
    quorum_nodes absent = 0;
    for (unsigned i = 0; i < renewed->count; i++)
        absent |= renewed->item[i].absent;
    for (quorum_nodes left = absent & nodes; left; left &= left - 1) {
        unsigned node = (unsigned)__builtin_ctz(left), wanted = 0;
        for (unsigned i = 0; i < renewed->count; i++)
            wanted += is_to_heal(&renewed->item[i], quorum_node(node));
        if (wanted)
            heal_on(renewed, node, wanted);
    }
}
