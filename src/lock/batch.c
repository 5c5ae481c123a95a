#include "src/lock/batch.h"

#include <assert.h>
#include <string.h>

#include "src/core/memory.h"
#include "src/lock/locks.h"
#include "src/node/limits.h"

struct rl_batch *rl_batch_create(struct rl_locks *locks, const struct rl_fanout_type *type, bool heals, bool plain,
                                 unsigned most)
{
    assert(most >= 1 && most <= RL_BATCH_MAX);
    size_t requests = locks->nodes->count * sizeof(struct rl_request), items = most * sizeof(struct rl_batch_item);
    struct rl_batch *batch = rl_allocate(&locks->core->allocator, sizeof *batch + requests + items);
    if (!batch)
        return NULL;
    rl_fanout_init(&batch->fanout, type, locks->nodes, batch->request, false);
    batch->fanout.urgent = !heals;
    batch->locks = locks;
    batch->heals = heals;
    batch->plain = plain;
    batch->item = (struct rl_batch_item *)(void *)&batch->request[locks->nodes->count];
    rl_decimal(batch->fence_ttl, locks->core->options.fence_ttl_ms);
    return batch;
}

void rl_batch_destroy(struct rl_fanout *fanout)
{
    struct rl_batch *batch = (struct rl_batch *)fanout;
    struct rl_locks *locks = batch->locks;
    rl_timer_stop(&locks->core->timers, &batch->turns.end);
    for (unsigned i = 0; i < batch->count; i++)
        rl_lease_unref(batch->item[i].lease);
    rl_long_command_free(&batch->turns.command, &locks->core->allocator);
    rl_core_free(locks->core, batch);
}

static void add_text(struct rl_long_command *command, struct rl_text text)
{
    rl_long_command_add(command, text.bytes, text.size);
}

static void add_plain(struct rl_long_command *command, const struct rl_batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++)
        rl_long_command_add(command, batch->item[i].lease->key[0].bytes, batch->item[i].lease->key[0].size);
    for (unsigned i = 0; i < batch->count; i++) {
        add_text(command, rl_lease_value(batch->item[i].lease));
        rl_long_command_add_text(command, batch->item[i].ttl);
    }
}

static void add_others(struct rl_long_command *command, const struct rl_batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++)
        for (unsigned k = 0; k < batch->item[i].lease->key_count; k++)
            rl_long_command_add(command, batch->item[i].lease->key[k].bytes, batch->item[i].lease->key[k].size);
    rl_long_command_add_text(command, batch->heals ? "heal" : "keep");
    for (unsigned i = 0; i < batch->count; i++) {
        rl_long_command_add_text(command, batch->item[i].keys);
        add_text(command, rl_lease_value(batch->item[i].lease));
        rl_long_command_add_text(command, batch->item[i].ttl);
        rl_long_command_add_text(command, batch->item[i].fence);
        rl_long_command_add_text(command, batch->fence_ttl);
        rl_long_command_add_text(command, batch->item[i].lease->shared ? "shared" : "exclusive");
    }
}

bool rl_batch_format(const struct rl_batch *batch, bool use_eval, struct rl_long_command *command)
{
    assert(batch->count > 0);
    unsigned keys = 0, arguments = batch->plain ? 2 * batch->count : 1 + 6 * batch->count;
    for (unsigned i = 0; i < batch->count; i++)
        keys += batch->item[i].lease->key_count;
    enum rl_script_id script = batch->heals ? RL_SCRIPT_HEAL : RL_SCRIPT_RENEW;
    if (!rl_long_command_begin(command, &batch->locks->core->allocator, batch->plain ? script : RL_SCRIPT_KEEP,
                               use_eval, keys, arguments))
        return false;
    (batch->plain ? add_plain : add_others)(command, batch);
    return rl_long_command_format(command);
}

bool rl_batch_send(struct rl_batch *batch, unsigned node, bool use_eval)
{
    struct rl_long_command command;
    bool sent = rl_batch_format(batch, use_eval, &command) &&
                rl_fanout_send(&batch->fanout, quorum_node(node), &command.command) == 0;
    rl_long_command_free(&command, &batch->locks->core->allocator);
    return sent;
}

/* A character per plain lease, or a number per other lease. */
bool rl_batch_is_answer(const struct rl_batch *batch, const redisReply *reply)
{
    if (batch->plain)
        return reply->type == REDIS_REPLY_STRING && (size_t)reply->len == batch->count &&
               strspn(reply->str, "01") == (size_t)reply->len;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != batch->count)
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            return false;
    return true;
}

/* Whether the node refuses the fencing token does not matter here. */
bool rl_batch_is_done(const struct rl_batch *batch, const redisReply *reply, unsigned index)
{
    assert(index < batch->count);
    return batch->plain ? reply->str[index] == '1' : reply->element[index]->integer != RL_KEEP_ABSENT;
}
