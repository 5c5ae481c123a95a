/* Query: reads the state of a resource's lock on every node. */
#include <string.h>

#include "src/client/client.h"
#include "src/core/escape.h"
#include "src/core/result.h"

struct query {
    struct rl_operation base;
    redlock_state state;
    /* A semaphore: by slot and node, the hash of the holder's token; 0: free. */
    uint64_t holder[REDLOCK_PERMITS_MAX][REDLOCK_NODES_MAX];
};

static uint64_t query_hash(const char *token, size_t size)
{
    return rl_hash(RL_HASH_OF_NOTHING, token, size) | 1;
}

static void query_read_permits(struct query *query, unsigned node, const redisReply *taken)
{
    for (size_t i = 0; i < taken->elements; i += 2) {
        const redisReply *token = taken->element[i + 1];
        query->holder[taken->element[i]->integer][node] = query_hash(token->str, (size_t)token->len);
    }
}

static void query_replied(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    struct query *query = round->owner;
    redlock_node_state *state = &query->state.node[node];
    if (vote->vote != QUORUM_GRANTED)
        return;
    query_read_permits(query, node, reply->element[RL_QUERY_TAKEN]);
    const redisReply *holder = reply->element[RL_QUERY_HOLDER];
    long long left = reply->element[RL_QUERY_LEFT]->integer, waiters = reply->element[RL_QUERY_WAITERS]->integer;
    state->waiters = waiters < 0 ? -1 : waiters > INT32_MAX ? INT32_MAX : (int32_t)waiters;
    if (left == -2)
        state->remaining_ms = 0;
    else
        state->remaining_ms =
            left < 0 || left == INT64_MAX ? REDLOCK_STATE_NO_EXPIRY : left + 1; /* Redis rounds down */
    if (left != -2 && holder->type == REDIS_REPLY_STRING)
        rl_token_show(holder->str, (size_t)holder->len, state->token);
    else if (left != -2 && holder->type == REDIS_REPLY_INTEGER)
        snprintf(state->token, sizeof state->token, "%s",
                 holder->integer == RL_HOLDER_READERS ? RL_REMARK_SHARED : RL_REMARK_NO_LOCK);
}

static unsigned query_count_showing(const redlock_state *state, unsigned nodes, const char *token)
{
    unsigned count = 0;
    for (unsigned i = 0; i < nodes; i++)
        count += state->node[i].remaining_ms > 0 && strcmp(state->node[i].token, token) == 0;
    return count;
}

/* The time until fewer nodes than a majority have the token: with N/2+1 = 3, the third longest remaining ttl. */
static int64_t query_remaining(const redlock_state *state, unsigned nodes, const char *token)
{
    int64_t answer = 0;
    for (unsigned i = 0; i < nodes; i++) {
        int64_t candidate = state->node[i].remaining_ms;
        unsigned at_least = 0;
        if (strcmp(state->node[i].token, token) != 0)
            continue;
        for (unsigned j = 0; j < nodes; j++)
            at_least += strcmp(state->node[j].token, token) == 0 && state->node[j].remaining_ms >= candidate;
        if (at_least >= quorum_majority(nodes) && candidate > answer)
            answer = candidate;
    }
    return answer;
}

/* The slot's holder on a majority; 0: there is none. */
static uint64_t query_slot_holder(const struct query *query, unsigned slot, unsigned nodes)
{
    const uint64_t *holder = query->holder[slot];
    for (unsigned i = 0; i < nodes; i++) {
        unsigned count = 0;
        for (unsigned j = 0; j < nodes; j++)
            count += holder[j] == holder[i];
        if (holder[i] && count >= quorum_majority(nodes))
            return holder[i];
    }
    return 0;
}

static void query_sum_up_permits(struct query *query, struct rl_text semaphore)
{
    redlock_client *client = query->base.client;
    for (unsigned slot = 0; slot < REDLOCK_PERMITS_MAX; slot++) {
        uint64_t holder = query_slot_holder(query, slot, client->nodes->count);
        const struct rl_lease *mine =
            holder ? rl_leases_find_slot(&client->locks, semaphore.bytes, semaphore.size, slot) : NULL;
        query->state.permits_taken += holder != 0;
        if (mine && query_hash(mine->token.bytes, mine->token.size) == holder)
            query->state.held_by_me = 1;
    }
}

static void query_sum_up(struct query *query)
{
    redlock_state *state = &query->state;
    redlock_client *client = query->base.client;
    unsigned nodes = client->nodes->count;
    for (unsigned i = 0; i < nodes; i++) {
        unsigned count = state->node[i].remaining_ms > 0 ? query_count_showing(state, nodes, state->node[i].token) : 0;
        state->free_nodes += state->node[i].remaining_ms == 0;
        if (state->node[i].waiters > 0 && (uint32_t)state->node[i].waiters > state->waiters)
            state->waiters = (uint32_t)state->node[i].waiters;
        if (count <= state->locked_nodes)
            continue;
        state->locked_nodes = count;
        redlock_holder_read(state->node[i].token, &state->holder);
    }
    state->locked = state->locked_nodes >= quorum_majority(nodes);
    state->remaining_ms = state->locked ? query_remaining(state, nodes, state->holder.token) : 0;
    const struct rl_text name = rl_lease_resource(query->base.lease, 0);
    const struct rl_lease *mine = rl_leases_find(&client->locks, name.bytes, name.size);
    state->held_by_me = mine &&
                        strcmp(mine->shared ? RL_REMARK_SHARED : rl_lease_token_text(mine), state->holder.token) == 0 &&
                        state->locked;
    query_sum_up_permits(query, name);
}

static void query_decided(struct rl_round *round)
{
    struct query *query = round->owner;
    query_sum_up(query);
    rl_operation_complete(&query->base, rl_result_status(round->rules.verdict));
}

static void query_report(struct rl_operation *operation, redlock_result *result, struct rl_returned *returned)
{
    (void)result;
    returned->state = &((struct query *)operation)->state;
}

static void query_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    struct query *query = (struct query *)operation;
    redlock_result why;
    size_t size = arguments->size;
    for (unsigned i = 0; i < operation->client->nodes->count; i++)
        query->state.node[i].remaining_ms = query->state.node[i].waiters = -1;
    if (rl_resource_check(arguments->resource, &size, &operation->client->core.options, &why))
        rl_operation_refuse(operation, &why);
    else
        rl_operation_look(operation, (struct rl_text){arguments->resource, size}, RL_COMMAND_QUERY, query_replied,
                          query_decided);
}

const struct rl_operation_type rl_query = {
    .size = sizeof(struct query), .returns_state = true, .start = query_start, .report = query_report};
