/* Requests the proofs of grants: one request per node, behind the grants of a turn. quorum/attest.h has the rules. */
#ifndef RL_ATTEST_H
#define RL_ATTEST_H

#include "quorum/attest.h"
#include "redlock/redlock.h"
#include "src/node/flight.h"

struct rl_node;
struct rl_nodes;

/* One node's part. */
struct rl_attest {
    struct quorum_attest rules;
    struct rl_requests waiting;  /* granted ones that wait for their proof, oldest first */
    struct rl_request *punctual; /* the first one that has not been reported as overdue */
    char evicted[24];            /* the judged number of evicted keys */
    bool refused;                /* the user may not do what a proof needs: heartbeats repeat the proof until it may */
};

/* Call it before sending a request that may grant (the request for its proof then goes into the same write), or, if no
 * grant is expected, when the node has granted. */
void rl_attest_owe(struct rl_node *node);

/* Call it before sending a release: renews the last look, if it is old, so that the next acquire need not. */
void rl_attest_renew_look(struct rl_node *node, quorum_time now);

/* Requests the marker and the time now, or all evidence, as the heartbeat: rl_node_beat_answered() follows. false: no memory, or the
 * connection does not accept it. */
bool rl_attest_beat(struct rl_node *node);

/* Writes the evidence as a proof shows it, and returns its size. */
size_t rl_attest_evidence(char text[static QUORUM_SHOWN_MAX], const char *role, const char *history,
                          const char *evicted);

/* Sends the pending requests for proofs. Call it before the connections are written. */
void rl_attest_send(struct rl_nodes *nodes);

/* Holds a grant back until the node has shown its marker; then the request's proven() is called. */
void rl_attest_await(struct rl_node *node, struct rl_request *request);

/* The connection has ended: the grants that wait for a proof end as broken. */
void rl_attest_end(struct rl_node *node, quorum_time now);

/* Prepares the requests for proofs. false: no memory; close it in any case, when no request is in flight any more. */
bool rl_attest_open(struct rl_nodes *nodes);
void rl_attest_close(struct rl_nodes *nodes);

#endif
