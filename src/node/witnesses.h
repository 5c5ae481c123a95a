/*
 * The witnesses of a node whose master may change: its Sentinels, or the masters of its Redis Cluster. Each has a
 * connection, on which it is asked in turn, a few times a second, which master it knows, and by which configuration.
 * quorum/witness.h judges what they say: which address the node is to be connected to, and until when its votes count.
 * The user lists the Sentinels. Of a cluster he lists some servers, and each of them names the masters.
 */
#ifndef RL_WITNESSES_H
#define RL_WITNESSES_H

#include <stdbool.h>
#include <stddef.h>

#include "quorum/witness.h"
#include "src/link/address.h"
#include "src/link/link.h"
#include "src/node/attempts.h"

struct rl_node;

#define RL_FINDINGS_WITNESSES                                                                                          \
    (REDLOCK_FINDING_WITNESSES_SILENT | REDLOCK_FINDING_MASTER_UNKNOWN | REDLOCK_FINDING_WITNESSES_DISAGREE |          \
     REDLOCK_FINDING_FAILOVER)

/* What they say now. */
struct rl_verdict {
    uint32_t finding;            /* why no address is confirmed; 0: one is */
    bool pending;                /* replies that may confirm it are on the way */
    const char *master;          /* NULL: as before. Otherwise the address to connect to from now on */
    quorum_time confirmed_until; /* of the present address */
    uint64_t term;               /* its epoch; 0: it is not confirmed */
};

enum rl_witness_state { RL_WITNESS_BACKOFF, RL_WITNESS_RESOLVING, RL_WITNESS_ASKED, RL_WITNESS_RESTING };

struct rl_witness {
    struct rl_witnesses *group;
    struct rl_address address;
    struct rl_attempts attempts;
    struct rl_link link;
    struct rl_timer timer; /* the next attempt, its timeout, or the next requests */
    enum rl_witness_state state;
    bool connecting;
    unsigned reply;                /* the number of the next reply, by enum request in witnesses.c */
    struct quorum_witness reading; /* what the replies have shown so far */
};

struct rl_witnesses {
    struct rl_node *node;
    void (*judged)(struct rl_node *node, const struct rl_verdict *verdict);
    struct quorum_witnesses rules;
    unsigned slot;                   /* of the cluster */
    quorum_duration turns;           /* when the first witness is asked, and the others in turn; clients differ in it */
    char master[QUORUM_MASTER_SIZE]; /* the address that the node is connected to; "": none yet */
    char text[RL_LINK_TEXT_SIZE];    /* why no address is confirmed */
    unsigned room;
    struct rl_witness witness[]; /* `room` of them; the first rules.count are in use */
};

/* Starts to ask. slot: of the cluster, if the node is in one. judged() is called with each change. false: no memory. */
bool rl_witnesses_open(struct rl_node *node, unsigned slot,
                       void (*judged)(struct rl_node *node, const struct rl_verdict *verdict));

/* Closes the connections. In a forked child it touches only memory and descriptors. */
void rl_witnesses_close(struct rl_witnesses *witnesses);
void rl_witnesses_free(struct rl_node *node);

/* The client's wakeup was signalled: a resolution may be done. */
void rl_witnesses_resolved(struct rl_witnesses *witnesses);

/* The master has refused a request because it is elsewhere: asks at once. */
void rl_witnesses_ask(struct rl_witnesses *witnesses);

/* The address is not confirmed now, but may be by replies that are on the way. */
bool rl_witnesses_may_confirm(const struct rl_witnesses *witnesses, quorum_time now);

/* Why no address is confirmed now. */
const char *rl_witnesses_explain(struct rl_witnesses *witnesses, quorum_time now);

/* What each of them says, truncated to fit. */
void rl_witnesses_describe(const struct rl_witnesses *witnesses, quorum_time now, char *text, size_t size);

#endif
