/* One round of requests over the nodes: carries the rules' actions out, and tells the rules what came of them. */
#ifndef RL_ROUND_H
#define RL_ROUND_H

#include "quorum/round.h"
#include "redlock/redlock.h"
#include "src/node/node.h"
#include "src/node/reply.h"
#include "src/node/request.h"

struct rl_locks;
struct rl_lease;

/* One node's part. */
struct rl_round_node {
    struct rl_request ask;
    struct rl_request undo;   /* a release of the lease's token: behind the ask, or by itself in a release */
    uint64_t record;          /* of a grant that waits for its proof: see struct rl_vote */
    quorum_time undo_refused; /* since when the node refuses the undo; 0: it does not */
    uint32_t latency_us;
    char text[RL_NODE_TEXT_SIZE];
};

struct rl_round {
    struct quorum_round rules;
    struct rl_locks *locks;
    unsigned references;    /* the owner's, and one per request under way or kept */
    struct rl_lease *lease; /* a reference */
    enum rl_question question;
    struct rl_round *next; /* of the client's waiting ones, or of its spare ones */
    struct rl_round *previous;
    bool on_list;
    struct rl_round *next_undo;              /* of the client's, with a reference each */
    quorum_nodes undo;                       /* nodes that it goes to */
    void (*decided)(struct rl_round *round); /* NULL when nobody waits for it (any more) */
    void (*overdue)(struct rl_round *round); /* a node is late, and still waited for; may be NULL */
    /* Sees each reply, and what it counts as, before the vote; may be NULL. */
    void (*replied)(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply);
    void *owner;     /* theirs */
    uint64_t fence;  /* the fencing token that nodes are told; 0: none */
    uint64_t ticket; /* TAKE, SIGN: the waiter's place */
    bool fair;
    struct rl_round_node node[]; /* one per node */
};

/* NULL: no memory. One reference, the caller's. */
struct rl_round *rl_round_create(struct rl_locks *locks, struct rl_lease *lease, enum rl_question question,
                                 const struct quorum_terms *terms);

/* Asks all nodes that can be asked. decided() may be called before it returns. */
void rl_round_start(struct rl_round *round);

/* Ends it now, with an undo where needed; decided() is not called. */
void rl_round_cancel(struct rl_round *round);

/* Not decided, though a node that is counted on may have answered: the loop is late. */
bool rl_round_has_unread_replies(const struct rl_round *round);

/* Counts out the nodes that have not answered yet. decided() is called. */
void rl_round_stop_waiting(struct rl_round *round);

/* Counts out the nodes that have been ready before and are still being connected again. */
void rl_round_stop_reconnecting(struct rl_round *round);

/* The owner's reference ends, and with it its interest. */
void rl_round_leave(struct rl_round *round);

/* A node's state has changed, for the rounds that wait for it. */
void rl_rounds_node_changed(struct rl_locks *locks, struct rl_node *node);

/* Per node outcomes and counts. */
void rl_round_fill(const struct rl_round *round, redlock_result *result);

void rl_rounds_free_spare(struct rl_locks *locks);

/* For undo.c, whose requests belong to a round: */

/* Ends one reference; the last one frees the round. */
void rl_round_unref(struct rl_round *round);

/* The round of a request; member: the request's offset in struct rl_round_node. */
struct rl_round *rl_round_of(struct rl_request *request, size_t member);

/* Sends with a reference. false: the link does not take it. */
bool rl_round_send(struct rl_round *round, struct rl_node *node, struct rl_request *request,
                   const struct rl_command *command, quorum_time now);

/* Sends once more, with the script's text instead of its hash, behind all that has been sent meanwhile. */
bool rl_round_send_text(struct rl_round *round, struct rl_request *request, enum rl_question question);

/* Whether the node has not been counted yet. What it says later does not replace the text that says why it was counted
 * so. */
bool rl_round_is_open(const struct rl_round *round, unsigned node);

/* Counts the node without a reply, for this reason. */
void rl_round_count_out(struct rl_round *round, unsigned node, enum quorum_vote vote, bool permanent,
                        const char *reason, quorum_time now);
void rl_round_count_overdue(struct rl_round *round, const struct rl_request *request, quorum_time now);
void rl_round_vote(struct rl_round *round, unsigned node, struct rl_vote vote, quorum_time now);
void rl_round_note_latency(struct rl_round_node *part, const struct rl_request *request, quorum_time now);

#endif
