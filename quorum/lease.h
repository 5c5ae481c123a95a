/*
 * A held lock over time: when to renew it, when to warn, and when it is lost. The host reports events and wakes the
 * lease at quorum_lease_deadline(). A loss by the clock needs no reply of any node.
 *
 * A renewal is a round, or it goes to one node after the other, in turn with the heartbeats (see heartbeat.h). A node that
 * confirms it keeps the key for the ttl after the request, and no node shortens a ttl; so the lock is valid until the
 * latest time until which a majority keeps it. As long as the turns go well, the end moves before a round is due.
 */
#ifndef QUORUM_LEASE_H
#define QUORUM_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "quorum/round.h"
#include "quorum/time.h"

enum quorum_loss {
    QUORUM_NOT_LOST,
    QUORUM_LOSS_EXPIRED, /* its validity is over */
    QUORUM_LOSS_GONE,    /* a majority does not have the key */
    QUORUM_LOSS_CLOCK,   /* our clock stopped: the lock may have expired on the nodes */
    QUORUM_LOSS_CLOSED   /* the host closed it */
};

struct quorum_lease_terms {
    quorum_duration ttl;
    unsigned renewal_percent;      /* renew after this much of the ttl; 0: never */
    quorum_duration notify_before; /* warn this long before the end of validity; 0: never */
    quorum_time cap;               /* renewal never extends the lock beyond this; QUORUM_NEVER: no cap */
    quorum_time least;             /* a release before this keeps the keys until then; 0: it deletes them */
};

/* The renewals in turn. They begin anew with each round that confirms the lock, and with each heal. */
struct quorum_lease_turns {
    quorum_time since;     /* a request from before this, or of this moment, does not count */
    quorum_time round_end; /* the end of validity then */
    quorum_time *kept; /* per node, until when it keeps the key, less the drift; 0: not confirmed. The host's memory */
    unsigned nodes;    /* N; 0: no renewals in turn */
};

struct quorum_lease {
    struct quorum_lease_terms terms;
    struct quorum_lease_turns turns;
    quorum_time validity_end;
    quorum_time renew_at;  /* QUORUM_NEVER: renewal is off, beyond its cap, or in progress */
    quorum_time hasten_to; /* upper bound of the next renewal; QUORUM_NEVER: none */
    unsigned failures;     /* failed renewals in a row */
    bool notified;         /* the warning has been given */
    enum quorum_loss loss; /* written once */
};

enum quorum_lease_event_type {
    QUORUM_LEASE_GRANTED, /* validity_end, spread */
    QUORUM_LEASE_WOKEN,   /* the deadline has passed */
    QUORUM_LEASE_RENEWED, /* a renewal has been decided: verdict, validity_end */
    QUORUM_LEASE_IN_TURN, /* a node has replied to a renewal in turn, or has failed to: node, granted, sent, validity_end:
                               until when the node keeps the key, less the drift */
    QUORUM_LEASE_CONFIRMED, /* a renewal or extension that had failed was confirmed late: validity_end, ttl */
    QUORUM_LEASE_EXTENDED,  /* the holder extended it: validity_end, ttl */
    QUORUM_LEASE_JOINED,    /* its owner has acquired it once more: joined */
    QUORUM_LEASE_HASTEN,    /* a node lost the lock, or its clock jumped: renew, and heal, within `spread` */
    QUORUM_LEASE_CLOCK,     /* our clock stopped */
    QUORUM_LEASE_CLOSED
};

struct quorum_lease_event {
    enum quorum_lease_event_type type;
    quorum_time now;
    quorum_time validity_end;
    quorum_time sent;
    unsigned node;
    bool granted;
    quorum_duration ttl;
    quorum_duration spread; /* GRANTED: spreads the first renewals of all locks; HASTEN */
    enum quorum_verdict verdict;
    uint64_t random; /* GRANTED, RENEWED, HASTEN */
    const struct quorum_lease_terms *joined;
};

struct quorum_lease_actions {
    quorum_duration renew; /* send a renewal with this ttl; 0: none */
    bool confirmed;        /* a majority has confirmed the lock since the last heal */
    bool failing;          /* report: a renewal has failed, the first in a row */
    bool ending;           /* report: notify_before has been reached */
    enum quorum_loss lost; /* report: the lock is lost */
};

/* kept: memory for `nodes` times; it lives as long as the lease. */
void quorum_lease_init(struct quorum_lease *lease, const struct quorum_lease_terms *terms, quorum_time *kept,
                       unsigned nodes);

struct quorum_lease_actions quorum_lease_step(struct quorum_lease *lease, const struct quorum_lease_event *event);

/* When to send QUORUM_LEASE_WOKEN; QUORUM_NEVER: not before another event. */
quorum_time quorum_lease_deadline(const struct quorum_lease *lease);

/* Nodes are about to be sent a request that sets the lock again: only what is confirmed after that shows that a majority
 * has the lock. */
void quorum_lease_begin_turns(struct quorum_lease *lease, quorum_time now);

/*
 * The ttl of a renewal in turn that this node is to be sent now; 0: none, because the node keeps the key for long enough
 * until its next turn, an interval later, or turns are too rare for this lock, or its last renewal failed.
 */
quorum_duration quorum_lease_in_turn(const struct quorum_lease *lease, unsigned node, quorum_duration interval,
                                     quorum_time now);

/* The ttl of a renewal that was planned with `ttl` and is sent at `now`: the keys must expire at the cap. In whole
 * milliseconds, at least 1. */
quorum_duration quorum_lease_ttl_at(const struct quorum_lease *lease, quorum_duration ttl, quorum_time now);

/*
 * The ttl that a release sends to keep the keys until `least`, instead of deleting them; 0: it deletes them. By the
 * nodes' clocks it is never too short; by ours neither, with this drift, unless `most` limits it: the longest ttl that
 * the nodes' quarantine covers. In whole milliseconds.
 */
quorum_duration quorum_lease_rest(quorum_time least, quorum_time now, uint32_t drift_ppm, quorum_duration most);

/*
 * Whether to set the lock again on a node that a renewal found without it: only if the last decided renewal succeeded.
 * The majority that had confirmed an earlier one may have lost the lock since. A late confirmation does not change
 * that: it may belong to a renewal before the failed one.
 */
bool quorum_lease_may_heal(const struct quorum_lease *lease);

/* How long a renewal may wait for some nodes before it asks the others: half of the remaining validity. */
quorum_duration quorum_lease_patience(const struct quorum_lease *lease, quorum_time now);

#endif
