/* Ready: waits until a majority of the nodes is usable. Checks again at every change of a node's state. */
#include <stdio.h>

#include "src/client/client.h"
#include "src/client/ready.h"
#include "src/core/clock.h"
#include "src/core/result.h"

static int look(redlock_client *client)
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

static void changed(struct rl_operation *operation)
{
    operation->cause = (int16_t)look(operation->client);
    if (operation->cause != REDLOCK_NO_QUORUM)
        rl_operation_complete(operation, operation->cause);
}

static void fill(struct rl_operation *operation, redlock_result *result)
{
    quorum_time now = rl_now();
    for (unsigned i = 0; i < result->nodes; i++) {
        struct rl_usable node = rl_node_usable(&operation->client->nodes->node[i], now, true);
        redlock_node_result *line = &result->node[i];
        line->outcome = node.is == RL_USABLE   ? REDLOCK_NODE_GRANTED
                        : node.is == RL_COMING ? REDLOCK_NODE_PENDING
                                               : rl_result_outcome(node.vote);
        snprintf(line->text, sizeof line->text, "%s", node.reason);
        result->granted += line->outcome == REDLOCK_NODE_GRANTED;
        result->refused += line->outcome == REDLOCK_NODE_REFUSED;
        result->unreachable += line->outcome == REDLOCK_NODE_UNREACHABLE;
        result->timed_out += line->outcome == REDLOCK_NODE_TIMED_OUT;
    }
}

static void on_deadline(struct rl_timer *timer)
{
    rl_operation_complete(rl_operation_of_timer(timer), REDLOCK_TIMED_OUT);
}

static const struct rl_operation_type type = {.size = sizeof(struct rl_operation), .fill = fill, .changed = changed};

int rl_ready_start(redlock_client *client, int64_t wait_ms, redlock_callback callback, void *arg)
{
    int created;
    redlock_result why;
    struct rl_operation *operation =
        rl_operation_create(client, &type, 0, (union rl_callback){.plain = callback}, arg, &created);
    if (!operation)
        return created;
    operation->timer.fire = on_deadline;
    if (wait_ms < REDLOCK_FOREVER) {
        rl_result_fail(&why, REDLOCK_INVALID, "wait_ms is %lld; it must be 0, more, or REDLOCK_FOREVER",
                       (long long)wait_ms);
        rl_operation_refuse(operation, &why);
        return REDLOCK_OK;
    }
    changed(operation);
    if (wait_ms == 0)
        rl_operation_complete(operation, operation->cause);
    rl_operation_wait(operation, wait_ms);
    return REDLOCK_OK;
}
