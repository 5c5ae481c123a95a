/* The proofs that grants count: requests behind the grants of a turn, one for each node. quorum/attest.h has the rules. */
#ifndef RL_ATTEST_H
#define RL_ATTEST_H

#include "quorum/attest.h"
#include "redlock/redlock.h"
#include "src/node/request.h"

struct rl_node;
struct rl_nodes;

/* One node's. */
struct rl_attest {
    struct quorum_attest rules;
    struct rl_request *first; /* grants that have been answered and wait for their proof, oldest first */
    struct rl_request *last;
    struct rl_request *punctual; /* the first of them that has not been reported overdue */
};

/* A request that may grant was sent to the node: its proof leaves with the same write. */
void rl_attest_owe(struct rl_node *node);

/* Sends the proofs that are owed, before the connections are written. */
void rl_attest_send(struct rl_nodes *nodes);

/* The request was granted: its attested() is called when the node has shown its marker. */
void rl_attest_await(struct rl_request *request);

/* The link is gone: what waits for a proof is answered as broken. */
void rl_attest_end(struct rl_node *node, quorum_time now);

void rl_attest_free_spare(struct rl_nodes *nodes);

#endif
