/* One round over the nodes: executes the rules' actions, judges the replies as votes, and passes them and timeouts to the
 * rules. The answers to releases: see undo.h. */
#ifndef RL_ROUND_H
#define RL_ROUND_H

#include "quorum/round.h"
#include "redlock/redlock.h"
#include "src/node/fanout.h"
#include "src/node/node.h"
#include "src/node/reply.h"

struct rl_locks;
struct rl_lease;
struct rl_round_list;
struct rl_held_by;
struct rl_round;

typedef void rl_round_replied(struct rl_round *round, unsigned node, const struct rl_vote *vote,
                              const redisReply *reply);

/* What every reply reads and writes comes first, up to the beginning of the rules: with many rounds in flight each cache
 * line of a round is a miss. */
struct rl_round {
    struct rl_fanout fanout; /* its references are the round's */
    struct rl_locks *locks;
    struct rl_lease *lease; /* a reference */
    /* Called for each reply, with its vote, before the vote is counted; may be NULL. */
    rl_round_replied *replied;
    char (*text)[RL_NODE_TEXT_SIZE]; /* per node, why it did not grant; NULL: there is nothing to say */
    uint64_t fence;                  /* the fencing token to send; 0: none */
    unsigned trusted;                /* TRUST: the node that gets the command that is built */
    enum rl_command_kind command : 8;
    bool waits;         /* GRANT: of an acquire that would wait: it leaves a free lock to those that wait already */
    bool hands_over;    /* RELEASE: of a lock that was held; the next waiter may get it */
    bool leaves_free;   /* RELEASE: the next waiter is only woken, so that others may get the lock */
    bool is_downgraded; /* as the lease was when the round was created */
    bool renews;        /* EXTEND, KEEP: a renewal. A carrier sends it, and nobody waits for its texts */
    quorum_nodes kept;  /* nodes that get the release when they are connected again */
    struct quorum_round rules;
    struct rl_round_list *list; /* of rounds that wait for their turn, or for a node; NULL: none */
    struct rl_round *next;      /* in it */
    struct rl_round *previous;
    void (*decided)(struct rl_round *round); /* NULL if no owner waits for it */
    void (*overdue)(struct rl_round *round); /* a node is late, and the round waits for it; may be NULL */
    void *owner;                             /* for the callbacks */
    union {
        uint64_t ticket;            /* TAKE, ENQUEUE: the waiter's ticket */
        quorum_time *refused_since; /* RELEASE: per node, since when it refuses; 0: it does not */
    };
    struct rl_held_by *held_by;  /* the holder that the nodes name; NULL: none does */
    struct rl_lease *offer;      /* TAKE, ENQUEUE: nodes may hand the lock over to it; a reference, or NULL */
    struct rl_request request[]; /* one per node; behind them the times of `refused_since` */
};

/* Creates a round with one reference, the caller's. It completes the terms: the nodes and the drift are the client's.
 * NULL: no memory. */
struct rl_round *rl_round_create(struct rl_lease *lease, enum rl_command_kind command, struct quorum_terms terms);

/* The same for an extension of the lease, to this ttl. */
struct rl_round *rl_round_create_extension(struct rl_lease *lease, uint32_t ttl_ms);

/* Sends to all usable nodes. May call decided() before it returns. */
void rl_round_begin(struct rl_round *round);

/*
 * The same for the round of an operation, but an acquire waits in the client, behind those that wait already, until a
 * majority of the nodes is connected and has room for it (quorum/window.h): the validity of a lock counts from its first
 * request, and must not pass in this client.
 */
void rl_round_start(struct rl_round *round);

/* Begins the waiting rounds, in order, until the nodes are crowded. Call it once a turn. */
void rl_rounds_admit(struct rl_locks *locks);

/* Ends the round now, with an undo where needed. Does not call decided(). */
void rl_round_cancel(struct rl_round *round);

/* The round is undecided, but a node has sent replies that the loop has not read yet. */
bool rl_round_has_unread_replies(const struct rl_round *round);

/* Counts the nodes that have not replied as timed out, with this text. Calls decided(). */
void rl_round_stop_waiting(struct rl_round *round, const char *why);

/* The owner of a release stops waiting for it. The release goes on, and its owner may leave. */
void rl_round_go_on(struct rl_round *round);

/* The round waits for a connection. */
bool rl_round_awaits_connection(const struct rl_round *round);

/* Counts the nodes that were ready before and are reconnecting as unreachable. May call decided(). */
void rl_round_stop_reconnecting(struct rl_round *round);

/* Ends the owner's reference; its callbacks are not called any more. */
void rl_round_leave(struct rl_round *round);

/* Passes a change of a node's state to the rounds that wait for the node. */
void rl_rounds_node_changed(struct rl_locks *locks, struct rl_node *node);

/* Sets the result's outcomes per node and their counts. */
void rl_round_fill(const struct rl_round *round, redlock_result *result);

/* For undo.c, which handles the answers to releases, for heals and for hand-overs: */

/* Passes an event to the rules and executes their actions. */
void rl_round_step(struct rl_round *round, const struct quorum_event *event);

/* Builds the round's command and sends it. Returns the nodes that it was not sent to. */
quorum_nodes rl_round_send(struct rl_round *round, quorum_nodes nodes, bool use_eval);

/* The round sets a held lock again where it is missing. A carrier sends it, and it has no verdict. */
static inline bool rl_round_heals(const struct rl_round *round)
{
    return round->command == RL_COMMAND_HEAL || round->command == RL_COMMAND_RESTORE;
}

/* The round sets keys, which a node in quarantine does not grant. */
static inline bool rl_round_is_grant(const struct rl_round *round)
{
    return round->rules.terms.kind == QUORUM_ACQUIRE;
}

/* The round has not begun. */
static inline bool rl_round_is_waiting(const struct rl_round *round)
{
    return !quorum_round_over(&round->rules) && !round->rules.asked && !round->rules.coming;
}

/* The node has not been counted yet. */
static inline bool rl_round_is_open(const struct rl_round *round, unsigned node)
{
    return round->rules.tally.voted[QUORUM_PENDING] & quorum_node(node);
}

/* Sets a node's text, if anyone will read it and the node has not been counted: a later reply must not replace the text
 * that says why it was counted. */
void rl_round_note(struct rl_round *round, unsigned node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Passes a vote to the rules; without a reply, what the node counts as. */
void rl_round_count(struct rl_round *round, unsigned node, struct rl_vote vote, quorum_time now);

/* For a vote that keeps the lock from other clients: a server that may no longer be the node's master, or not yet be the
 * only one, counts as a node that timed out. */
void rl_round_withhold_unconfirmed(struct rl_round *round, struct rl_node *node, struct rl_vote *vote, quorum_time now);

/* The node's timeout has passed. */
void rl_round_count_overdue(struct rl_round *round, const struct rl_node *node, quorum_time now);

/* Sets the node's text to an error reply's. */
void rl_round_note_reply(struct rl_round *round, unsigned node, const redisReply *reply);

#endif
