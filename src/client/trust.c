/* Trust: ends the nodes' quarantine. An operator vouches that no lock is held. */
#include "src/client/client.h"
#include "src/node/guard.h"

static void trust_replied(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    struct rl_node *target = &round->locks->client->nodes->node[node];
    if (vote->vote == QUORUM_GRANTED)
        rl_guard_take_trusted(target, reply, target->flight.heard);
}

static void trust_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    (void)arguments;
    if (!operation->client->core.options.guard) {
        rl_operation_explain(operation, "the client's guard is off: there is no quarantine to end");
        rl_operation_complete(operation, REDLOCK_INVALID);
        return;
    }
    /* A round needs a lease; none of it is sent. */
    rl_operation_look(operation, (struct rl_text){"trust", 5}, RL_COMMAND_TRUST, trust_replied,
                      rl_operation_end_by_round);
}

const struct rl_operation_type rl_trust = {.size = sizeof(struct rl_operation), .start = trust_start};
