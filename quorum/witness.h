/*
 * A node may be a name that leads to one master at a time: behind Sentinel, or the owner of a slot of a Redis Cluster.
 * After a failover two servers may take writes for a while: the old master, with the clients that are cut off with it, and
 * the new one. A client must stop counting the old one before the new one leaves quarantine.
 *
 * Several witnesses say which one it is: the sentinels of the master, or the other masters of the cluster. Each says a
 * configuration, an address with its epoch, and changes its mind only for a later epoch. A configuration is confirmed if
 * a majority of the witnesses says it, epoch and all, and a vote of the node counts only while one has, in replies to
 * requests sent at most QUORUM_CONFIRMED_LASTS ago.
 *
 * Two majorities share a witness, and it says the earlier configuration first. So confirmed configurations follow one
 * another by epoch, for all clients alike: once a later one has been confirmed, an earlier one can count for another
 * QUORUM_CONFIRMED_LASTS at most. A client uses a master only after it was confirmed, and the marker there starts anew with
 * each later epoch; the margin of its quarantine covers that time. How the failover was decided, by votes or by hand, and
 * when the witnesses hear of it does not matter. (Without the epoch, two witnesses could agree on an address for
 * different reasons: one has not heard of two failovers, there and back.)
 *
 * A master of a cluster is no witness of its own slot: it is the one that is replaced.
 */
#ifndef QUORUM_WITNESS_H
#define QUORUM_WITNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quorum/time.h"

#define QUORUM_WITNESSES_MAX 16
/* At most half the margin of a quarantine (guard.h). A witness is asked twice as often, so half of it is also how slow its
 * replies may be. */
#define QUORUM_CONFIRMED_LASTS (500 * QUORUM_MILLISECOND)
#define QUORUM_WITNESS_ID_SIZE 41
#define QUORUM_MASTER_SIZE     272 /* host, a space, and port */
#define QUORUM_SLOTS           16384

/* What one of them has said last. */
struct quorum_witness {
    quorum_time sent;                /* the requests; 0: it has not replied */
    bool unknown;                    /* it knows no master of this name, or of this slot */
    bool observes;                   /* it knows, but its word does not count: it is the master itself, or a replica */
    unsigned others;                 /* other witnesses that it knows, and in a cluster the master */
    uint64_t epoch;                  /* of the configuration */
    char id[QUORUM_WITNESS_ID_SIZE]; /* its own; "": it does not say */
    char named[QUORUM_MASTER_SIZE];  /* "": none */
};

struct quorum_witnesses {
    unsigned count;
    unsigned least; /* a majority of this many must agree at least: of those listed, or that a cluster needs */
    struct quorum_witness witness[QUORUM_WITNESSES_MAX];
};

/* A configuration that a majority says, and until when it is confirmed by that. address NULL: none. */
struct quorum_confirmation {
    const char *address;
    uint64_t epoch;
    quorum_time until;
};

void quorum_witnesses_init(struct quorum_witnesses *witnesses, unsigned count, unsigned least);

struct quorum_confirmation quorum_witnesses_confirmation(const struct quorum_witnesses *witnesses);

/* Whether the address would be confirmed if the pending witnesses (bits) said so now: after this client has stood still,
 * their replies are on the way. */
bool quorum_witnesses_may_confirm(const struct quorum_witnesses *witnesses, const char *address, uint32_t pending,
                                  quorum_time now);

/* Why no address is confirmed. */
enum quorum_witnesses_state {
    QUORUM_WITNESSES_CONFIRM,
    QUORUM_WITNESSES_SILENT,   /* fewer than a majority reply */
    QUORUM_WITNESSES_UNKNOWN,  /* a majority cannot be reached without those that do not know the name */
    QUORUM_WITNESSES_FAILOVER, /* a majority names one address, but with different epochs */
    QUORUM_WITNESSES_DISAGREE  /* no majority names one address */
};

enum quorum_witnesses_state quorum_witnesses_state(const struct quorum_witnesses *witnesses, quorum_time now);

/* The slot of a Redis Cluster that keeps the keys with this tag. */
unsigned quorum_slot(const char *tag, size_t size);

#endif
