/*
 * The Sentinels of a node whose master may change. Each has a connection, on which it is asked in turn, a few times a
 * second, for its last vote, its configuration and the master's address. quorum/sentinel.h judges what they say: which
 * address the node is to be connected to, and until when its votes count.
 */
#ifndef RL_SENTINELS_H
#define RL_SENTINELS_H

#include <stdbool.h>
#include <stddef.h>

#include "quorum/sentinel.h"
#include "src/link/address.h"
#include "src/link/link.h"
#include "src/node/attempts.h"

struct rl_node;

#define RL_FINDINGS_SENTINELS                                                                                          \
    (REDLOCK_FINDING_SENTINELS_SILENT | REDLOCK_FINDING_MASTER_UNKNOWN | REDLOCK_FINDING_SENTINELS_DISAGREE |          \
     REDLOCK_FINDING_FAILOVER)

/* What they say now. */
struct rl_verdict {
    uint32_t finding;            /* why no address is confirmed; 0: one is */
    bool pending;                /* replies that may confirm it are on the way */
    const char *master;          /* NULL: as before. Otherwise the address to connect to from now on */
    quorum_time confirmed_until; /* of the present address */
    quorum_duration longer;      /* its quarantine */
    uint64_t term;
};

enum rl_sentinel_state { RL_SENTINEL_BACKOFF, RL_SENTINEL_RESOLVING, RL_SENTINEL_ASKED, RL_SENTINEL_RESTING };

struct rl_sentinel {
    struct rl_sentinels *group;
    struct rl_address address;
    struct rl_attempts attempts;
    struct rl_link link;
    struct rl_timer timer; /* the next attempt, its timeout, or the next requests */
    enum rl_sentinel_state state;
    bool connecting;
    unsigned reply;                 /* the number of the next reply, by enum request in sentinels.c */
    struct quorum_sentinel reading; /* what the replies have shown so far */
    char asked[QUORUM_MASTER_SIZE]; /* the address that its vote was asked for; "": it has not named one */
};

struct rl_sentinels {
    struct rl_node *node;
    void (*judged)(struct rl_node *node, const struct rl_verdict *verdict);
    struct quorum_sentinels rules;
    char master[QUORUM_MASTER_SIZE]; /* the address that the node is connected to; "": none yet */
    char text[RL_LINK_TEXT_SIZE];    /* why no address is confirmed */
    struct rl_sentinel sentinel[];
};

/* Starts to ask. judged() is called with each change. false: no memory. */
bool rl_sentinels_open(struct rl_node *node, void (*judged)(struct rl_node *node, const struct rl_verdict *verdict));

/* Closes the connections. In a forked child it touches only memory and descriptors. */
void rl_sentinels_close(struct rl_sentinels *sentinels);
void rl_sentinels_free(struct rl_node *node);

/* The client's wakeup was signalled: a resolution may be done. */
void rl_sentinels_resolved(struct rl_sentinels *sentinels);

/* The address is not confirmed now, but may be by replies that are on the way. */
bool rl_sentinels_may_confirm(const struct rl_sentinels *sentinels, quorum_time now);

/* Why no address is confirmed now. */
const char *rl_sentinels_explain(struct rl_sentinels *sentinels, quorum_time now);

/* What each of them says, truncated to fit. */
void rl_sentinels_describe(const struct rl_sentinels *sentinels, quorum_time now, char *text, size_t size);

#endif
