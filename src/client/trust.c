/* Trust: ends the nodes' quarantine. An operator vouches that no lock is held. */
#include "src/client/client.h"
#include "src/core/result.h"
#include "src/node/guard.h"

static void trust_replied(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    struct rl_node *target = &round->locks->client->nodes->node[node];
    if (vote->vote == QUORUM_GRANTED)
        rl_guard_take_trusted(target, reply, rl_node_heard(target));
}

static void trust_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    redlock_client *client = arguments->client;
    const struct quorum_terms terms = {.kind = QUORUM_LOOK, .nodes = client->nodes->count};
    int status;
    if (!client->core.options.guard) {
        rl_operation_explain(operation, "the client's guard is off: there is no quarantine to end");
        rl_operation_complete(operation, REDLOCK_INVALID);
        return;
    }
    /* A round needs a lease; none of it is sent. */
    operation->lease = rl_lease_create_one(&client->locks, "trust", 5, &status);
    if (!operation->lease) {
        rl_operation_complete(operation, status);
        return;
    }
    struct rl_round *round = rl_round_create(&client->locks, operation->lease, RL_COMMAND_TRUST, &terms);
    if (round)
        round->replied = trust_replied;
    rl_operation_start_round(operation, round, rl_operation_end_by_round);
}

const struct rl_operation_type rl_trust = {.size = sizeof(struct rl_operation), .start = trust_start};
