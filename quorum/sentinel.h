/*
 * A node behind Sentinel is a name that leads to one master at a time. After a failover two servers may take writes for a
 * while: the old master, with the clients that are cut off with it, and the new one. A client must stop counting the old
 * one before the new one leaves quarantine.
 *
 * Names alone do not show that: a sentinel names the old master until it hears of the promotion, which takes seconds, or
 * as long as it is cut off from the sentinel that it elected. But it has voted for the failover before the promotion, and
 * says so. So a sentinel confirms an address if it names it, and has not voted for a failover beyond the configuration
 * that it names; and a vote of the node counts only while a majority of its sentinels has confirmed the address, in
 * replies to requests sent at most QUORUM_CONFIRMED_LASTS ago. Every promotion needs the votes of a majority, two
 * majorities share a sentinel, so the last vote of the old master that counts is at most that old when the promotion
 * begins, and the quarantine of the new one is longer by that time.
 *
 * A failover that was voted for and given up leaves the vote's epoch above the configuration's until the next one. The
 * vote is void if the elected leader itself says that it has the same configuration and no failover in progress. But a
 * sentinel shows its last vote alone: it may have voted before, for a leader that promoted another server and is cut off
 * now. So this counts only if no other epoch lies between the configuration and the vote; otherwise every sentinel must
 * say so, because one of them is the leader.
 *
 * SENTINEL FAILOVER, by an operator, needs no votes. The other sentinels hear of it within seconds if they can talk to
 * each other: the quarantine is longer by QUORUM_UNVOTED_LONGER.
 */
#ifndef QUORUM_SENTINEL_H
#define QUORUM_SENTINEL_H

#include <stdbool.h>
#include <stdint.h>

#include "quorum/time.h"

#define QUORUM_SENTINELS_MAX    9
#define QUORUM_CONFIRMED_LASTS  QUORUM_SECOND
#define QUORUM_VOTED_LONGER     QUORUM_CONFIRMED_LASTS
#define QUORUM_UNVOTED_LONGER   (5 * QUORUM_SECOND)
#define QUORUM_SENTINEL_ID_SIZE 41
#define QUORUM_MASTER_SIZE      272 /* host, a space, and port */

/* What one sentinel has said last. It reads its vote first, then the configuration, then the name: a failover between
 * them can only make it confirm less. */
struct quorum_sentinel {
    quorum_time sent;                     /* the requests; 0: it has not replied */
    bool unknown;                         /* it knows no master of this name */
    bool failing_over;                    /* it leads a failover */
    unsigned others;                      /* other sentinels that it knows */
    uint64_t config_epoch;                /* of the configuration that it names */
    uint64_t vote_epoch;                  /* of the last failover that it voted for */
    char id[QUORUM_SENTINEL_ID_SIZE];     /* its own; "": it does not say */
    char leader[QUORUM_SENTINEL_ID_SIZE]; /* that it voted for; "": none */
    char named[QUORUM_MASTER_SIZE];       /* "": none */
};

struct quorum_sentinels {
    unsigned count;
    struct quorum_sentinel sentinel[QUORUM_SENTINELS_MAX];
};

void quorum_sentinels_init(struct quorum_sentinels *sentinels, unsigned count);

/* Until when the address is confirmed; 0: it is not. */
quorum_time quorum_sentinels_confirmed_until(const struct quorum_sentinels *sentinels, const char *address);

/* Whether it would be, if the pending sentinels (bits) confirmed it now: after this client has stood still, their replies
 * are on the way. */
bool quorum_sentinels_may_confirm(const struct quorum_sentinels *sentinels, const char *address, uint32_t pending,
                                  quorum_time now);

/* The address that is confirmed now; NULL: none. */
const char *quorum_sentinels_confirmed(const struct quorum_sentinels *sentinels, quorum_time now);

/* The term of this master: the latest epoch of a configuration that names it. */
uint64_t quorum_sentinels_term(const struct quorum_sentinels *sentinels, const char *address);

/* By how much longer the quarantine of this master is than that of a server that is listed by its address. */
quorum_duration quorum_sentinels_longer(const struct quorum_sentinels *sentinels, const char *address);

/* Why no address is confirmed. */
enum quorum_sentinels_state {
    QUORUM_SENTINELS_CONFIRM,
    QUORUM_SENTINELS_SILENT,   /* fewer than a majority reply */
    QUORUM_SENTINELS_UNKNOWN,  /* a majority cannot be reached without those that do not know the name */
    QUORUM_SENTINELS_FAILOVER, /* a majority names one address, but has voted for a failover */
    QUORUM_SENTINELS_DISAGREE  /* no majority names one address */
};

enum quorum_sentinels_state quorum_sentinels_state(const struct quorum_sentinels *sentinels, quorum_time now);

#endif
