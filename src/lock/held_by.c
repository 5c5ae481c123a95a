#include "src/lock/held_by.h"

#include <stdio.h>
#include <string.h>

#include "src/core/core.h"
#include "src/core/escape.h"

static unsigned count_of(const struct rl_held_by *held_by, uint64_t hash)
{
    unsigned count = 0;
    for (unsigned i = 0; i < QUORUM_NODES_MAX; i++)
        count += held_by->hash[i] == hash;
    return count;
}

static uint64_t hash_of(const char *token, size_t size)
{
    return rl_hash(RL_HASH_OF_NOTHING, token, size) | 1;
}

void rl_held_by_note(struct rl_core *core, struct rl_held_by **held_by, unsigned node, struct rl_text token,
                     const char *remark, quorum_time until)
{
    struct rl_held_by *held = *held_by;
    if (remark)
        token = (struct rl_text){remark, strlen(remark)};
    if (token.size == 0 || token.size > REDLOCK_TOKEN_MAX) {
        if (held)
            held->hash[node] = 0;
        return;
    }
    if (!held) {
        held = *held_by = rl_allocate(&core->allocator, sizeof *held);
        if (!held)
            return;
    }
    uint64_t hash = held->hash[node] = hash_of(token.bytes, token.size);
    if (held->size && count_of(held, hash) < count_of(held, hash_of(held->token, held->size)))
        return;
    held->remark = remark;
    held->size = (uint8_t)token.size;
    memcpy(held->token, token.bytes, token.size);
    held->until = until;
}

void rl_held_by_copy(struct rl_core *core, struct rl_held_by **to, const struct rl_held_by *from)
{
    if (from && !*to)
        *to = rl_allocate(&core->allocator, sizeof **to);
    if (from && *to)
        **to = *from;
}

void rl_held_by_fill(const struct rl_held_by *held_by, redlock_result *result)
{
    if (!held_by || !held_by->size)
        return;
    unsigned naming = QUORUM_NODES_MAX - count_of(held_by, 0);
    if (2 * count_of(held_by, hash_of(held_by->token, held_by->size)) <= naming)
        return;
    if (held_by->remark)
        snprintf(result->holder.token, sizeof result->holder.token, "%s", held_by->remark);
    else
        rl_holder_show(held_by->token, held_by->size, &result->holder);
    if (held_by->until == QUORUM_NEVER)
        result->remaining_ms = REDLOCK_STATE_NO_EXPIRY;
    else if (held_by->until)
        result->remaining_ms = (int64_t)(quorum_time_until(held_by->until, rl_now()) / QUORUM_MILLISECOND);
}
