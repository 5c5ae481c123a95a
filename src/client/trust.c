/* Trust: ends the nodes' quarantine. An operator vouches that no lock is held. */
#include "src/client/trust.h"
#include "src/client/client.h"
#include "src/core/result.h"
#include "src/node/guard.h"

struct trust {
    struct rl_operation base;
    struct rl_lease *lease; /* a round needs one; none of it is sent */
    redlock_callback callback;
    void *arg;
};

static void replied(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    struct rl_node *told = &round->locks->client->nodes->node[node];
    if (vote->vote == QUORUM_GRANTED)
        rl_guard_take_reply(told, reply, round->slot[node].request.sent, told->heard);
}

static void decided(struct rl_round *round)
{
    struct trust *trust = round->owner;
    rl_operation_complete(&trust->base, rl_result_status(round->rules.verdict));
}

static void stop(struct rl_operation *operation)
{
    if (operation->round)
        rl_round_cancel(operation->round);
}

static void tell(struct rl_operation *operation, redlock_result *result)
{
    struct trust *trust = (struct trust *)operation;
    rl_lease_unref(trust->lease);
    trust->callback(operation->client, result, trust->arg);
}

static void drop(struct rl_operation *operation)
{
    struct trust *trust = (struct trust *)operation;
    rl_lease_unref(trust->lease);
}

static const struct rl_operation_type type = {stop, tell, NULL, NULL, drop};

int rl_trust_start(redlock_client *client, redlock_callback callback, void *arg)
{
    int created, status = REDLOCK_NO_MEMORY;
    redlock_result why;
    struct trust *trust = (struct trust *)rl_operation_create(client, &type, sizeof *trust, &created);
    const struct quorum_terms terms = {.kind = QUORUM_LOOK, .nodes = client->nodes->count};
    if (!trust)
        return created;
    trust->callback = callback;
    trust->arg = arg;
    if (!client->core.options.guard) {
        rl_result_fail(&why, REDLOCK_INVALID, "the client's guard is off: there is no quarantine to end");
        rl_operation_refuse(&trust->base, &why);
        return REDLOCK_OK;
    }
    trust->lease = rl_lease_create_one(&client->locks, "trust", 5, &status);
    if (trust->lease)
        trust->base.round = rl_round_create(&client->locks, trust->lease, RL_ASK_TRUST, &terms);
    if (!trust->base.round) {
        rl_operation_complete(&trust->base, status);
        return REDLOCK_OK;
    }
    trust->base.attempts = 1;
    trust->base.round->owner = trust;
    trust->base.round->decided = decided;
    trust->base.round->replied = replied;
    rl_round_start(trust->base.round);
    return REDLOCK_OK;
}
