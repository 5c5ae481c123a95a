/* Ready: waits until a majority of the nodes is usable. Checks again at every change of a node's state. */
#include <stdio.h>

#include "src/client/client.h"
#include "src/core/result.h"

static int ready_look(redlock_client *client)
{
    quorum_time now = rl_now();
    unsigned usable = 0, hopeless = 0, majority = quorum_majority(client->nodes->count);
    for (unsigned i = 0; i < client->nodes->count; i++) {
        struct rl_usable node = rl_node_usable(&client->nodes->node[i], now, true);
        usable += node.is == RL_USABLE;
        hopeless += node.is == RL_OUT && node.permanent;
    }
    if (usable >= majority)
        return REDLOCK_OK;
    return client->nodes->count - hopeless < majority ? REDLOCK_MISCONFIGURED : REDLOCK_NO_QUORUM;
}

static void ready_changed(struct rl_operation *operation)
{
    operation->cause = (int16_t)ready_look(operation->client);
    if (operation->cause != REDLOCK_NO_QUORUM)
        rl_operation_complete(operation, operation->cause);
}

static void ready_fill(struct rl_operation *operation, redlock_result *result)
{
    quorum_time now = rl_now();
    struct quorum_tally tally;
    quorum_tally_init(&tally, result->nodes);
    for (unsigned i = 0; i < result->nodes; i++) {
        struct rl_usable node = rl_node_usable(&operation->client->nodes->node[i], now, true);
        if (node.is != RL_COMING)
            quorum_tally_vote(&tally, i, node.is == RL_USABLE ? QUORUM_GRANTED : node.vote, false);
        snprintf(result->node[i].text, sizeof result->node[i].text, "%s", node.reason);
    }
    rl_result_votes(result, &tally);
}

static void ready_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    redlock_result why;
    if (arguments->wait_ms < REDLOCK_FOREVER) {
        rl_result_fail(&why, REDLOCK_INVALID, "wait_ms is %lld; it must be 0, more, or REDLOCK_FOREVER",
                       (long long)arguments->wait_ms);
        rl_operation_refuse(operation, &why);
        return;
    }
    ready_changed(operation);
    if (arguments->wait_ms == 0)
        rl_operation_complete(operation, operation->cause);
    rl_operation_wait(operation, arguments->wait_ms);
}

const struct rl_operation_type rl_ready = {
    .size = sizeof(struct rl_operation), .start = ready_start, .fill = ready_fill, .changed = ready_changed};
