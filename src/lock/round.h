/* One round over the nodes: executes the rules' actions, and passes replies and timeouts to the rules. */
#ifndef RL_ROUND_H
#define RL_ROUND_H

#include "quorum/round.h"
#include "redlock/redlock.h"
#include "src/node/node.h"
#include "src/node/reply.h"
#include "src/node/request.h"

struct rl_locks;
struct rl_lease;

/* One node's part of the round. */
struct rl_round_node {
    struct rl_request ask;
    struct rl_request undo;   /* the undo: behind the request, or the only one in a release */
    uint64_t record;          /* of a grant that waits for its proof: see struct rl_vote */
    quorum_time undo_refused; /* since when the node refuses the undo; 0: it does not */
    uint32_t latency_us;
    char text[RL_NODE_TEXT_SIZE];
};

struct rl_round {
    struct quorum_round rules;
    struct rl_locks *locks;
    unsigned references;    /* the owner's, and one per request in flight or kept */
    struct rl_lease *lease; /* a reference */
    enum rl_question question;
    struct rl_round *next; /* in the list of rounds that wait for a node, or of spare rounds */
    struct rl_round *previous;
    bool on_list;
    struct rl_round *next_undo;              /* in the list of delayed undos, each with a reference */
    quorum_nodes undo;                       /* the nodes that it goes to */
    void (*decided)(struct rl_round *round); /* NULL if no owner waits for it */
    void (*overdue)(struct rl_round *round); /* a node is late, and the round waits for it; may be NULL */
    /* Called for each reply, with its vote, before the vote is counted; may be NULL. */
    void (*replied)(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply);
    void *owner;     /* for the callbacks */
    uint64_t fence;  /* the fencing token to send; 0: none */
    uint64_t ticket; /* TAKE, SIGN: the waiter's ticket */
    bool fair;
    struct rl_round_node node[]; /* one per node */
};

/* Creates a round with one reference, the caller's. NULL: no memory. */
struct rl_round *rl_round_create(struct rl_locks *locks, struct rl_lease *lease, enum rl_question question,
                                 const struct quorum_terms *terms);

/* Sends to all usable nodes. May call decided() before it returns. */
void rl_round_start(struct rl_round *round);

/* Ends the round now, with an undo where needed. Does not call decided(). */
void rl_round_cancel(struct rl_round *round);

/* The round is undecided, but a node has sent replies that the loop has not read yet. */
bool rl_round_has_unread_replies(const struct rl_round *round);

/* Counts the nodes that have not replied as timed out. Calls decided(). */
void rl_round_stop_waiting(struct rl_round *round);

/* Counts the nodes that were ready before and are reconnecting as unreachable. May call decided(). */
void rl_round_stop_reconnecting(struct rl_round *round);

/* Ends the owner's reference; its callbacks are not called any more. */
void rl_round_leave(struct rl_round *round);

/* Passes a change of a node's state to the rounds that wait for the node. */
void rl_rounds_node_changed(struct rl_locks *locks, struct rl_node *node);

/* Sets the result's outcomes per node and their counts. */
void rl_round_fill(const struct rl_round *round, redlock_result *result);

void rl_rounds_free_spare(struct rl_locks *locks);

/* For undo.c, whose requests are part of a round: */

/* Ends one reference; the last one frees the round. */
void rl_round_unref(struct rl_round *round);

/* The round of a request; member: the request's offset in struct rl_round_node. */
struct rl_round *rl_round_of(struct rl_request *request, size_t member);

/* Sends a request, which takes a reference. false: the connection does not accept it. */
bool rl_round_send(struct rl_round *round, struct rl_node *node, struct rl_request *request,
                   const struct rl_command *command, quorum_time now);

/* Sends a request again with the script's text instead of its hash. */
bool rl_round_send_text(struct rl_round *round, struct rl_request *request, enum rl_question question);

/* The node has not been counted yet. */
bool rl_round_is_open(const struct rl_round *round, unsigned node);

/* Counts a node without a reply, for this reason. */
void rl_round_count_out(struct rl_round *round, unsigned node, enum quorum_vote vote, bool permanent,
                        const char *reason, quorum_time now);
void rl_round_count_overdue(struct rl_round *round, const struct rl_request *request, quorum_time now);
void rl_round_vote(struct rl_round *round, unsigned node, struct rl_vote vote, quorum_time now);
void rl_round_note_latency(struct rl_round_node *part, const struct rl_request *request, quorum_time now);

#endif
