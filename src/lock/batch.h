/*
 * A batch: one command that renews, or heals, up to 64 leases. The leases of a batch are all plain, or none is. Each
 * lease has its own part of the reply.
 */
#ifndef RL_BATCH_H
#define RL_BATCH_H

#include "quorum/round.h"
#include "src/core/timer.h"
#include "src/node/command.h"
#include "src/node/fanout.h"

struct rl_locks;
struct rl_lease;

#define RL_BATCH_MAX 64

/* One lease's part. */
struct rl_batch_item {
    struct rl_lease *lease;    /* a reference */
    struct quorum_round round; /* of a renewal */
    quorum_nodes absent;       /* nodes that lack the lock, by their replies or by may_hold */
    char ttl[RL_DECIMAL_SIZE];
    char fence[RL_DECIMAL_SIZE];
    char keys[RL_DECIMAL_SIZE];
};

/* A renewal sends its command to all nodes at once, or to one after the other. */
struct rl_batch_turns {
    quorum_nodes unasked;
    unsigned left;       /* nodes that have not replied and have not been counted */
    unsigned first;      /* the first node */
    bool one_by_one;     /* each node gets the command after the one before it has replied */
    struct rl_timer end; /* when all remaining nodes get the command at once */
    struct rl_long_command command;
};

struct rl_batch {
    struct rl_fanout fanout; /* its references are the batch's */
    struct rl_locks *locks;
    bool heals;
    bool plain;
    char fence_ttl[RL_DECIMAL_SIZE];
    struct rl_batch_turns turns; /* of a renewal */
    unsigned count;
    struct rl_batch_item *item;  /* behind the requests */
    struct rl_request request[]; /* one per node */
};

/* Creates a batch for up to `most` leases, with one reference. answered: see struct rl_fanout_type. NULL: no memory. */
struct rl_batch *rl_batch_create(struct rl_locks *locks, const struct rl_fanout_type *type, bool heals, bool plain,
                                 unsigned most);

/* For the batch's `struct rl_fanout_type`. */
void rl_batch_destroy(struct rl_fanout *fanout);

/* Formats the command. false: no memory. Free the command in any case. */
bool rl_batch_format(const struct rl_batch *batch, bool use_eval, struct rl_long_command *command);

/* Formats the command and sends it to one node. */
bool rl_batch_send(struct rl_batch *batch, unsigned node, bool use_eval);

/* The reply has a part for each lease. Any other reply is a refusal. */
bool rl_batch_is_answer(const struct rl_batch *batch, const redisReply *reply);

/* The node has the lease's lock, and has renewed or healed it. */
bool rl_batch_is_done(const struct rl_batch *batch, const redisReply *reply, unsigned index);

#endif
