/*
 * A held lock in time: when to renew it, when to warn, and when it is over. The host tells what happened and wakes it at
 * quorum_lease_deadline(); no answer of any node is needed to find that a lock is lost.
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
    QUORUM_LOSS_GONE,    /* a majority says that the key is not there */
    QUORUM_LOSS_CLOCK,   /* our clock stood still: the nodes may have let it expire */
    QUORUM_LOSS_CLOSED   /* the host gave it up */
};

struct quorum_lease_terms {
    quorum_duration ttl;
    unsigned renewal_percent;      /* of the ttl after which it is renewed; 0: never */
    quorum_duration notify_before; /* the end of validity; 0: never */
    quorum_time cap;               /* renewal never carries the lock beyond this; QUORUM_NEVER: none */
};

struct quorum_lease {
    struct quorum_lease_terms terms;
    quorum_time validity_end;
    quorum_time renew_at;  /* QUORUM_NEVER: renewal is off, over its cap, or under way */
    quorum_time hasten_to; /* the next renewal is not later than this; QUORUM_NEVER: its own time */
    unsigned failures;     /* renewals in a row that came to nothing */
    bool renewing;         /* one is under way */
    bool notified;         /* the end has been announced */
    enum quorum_loss loss; /* written once */
};

enum quorum_lease_event_type {
    QUORUM_LEASE_GRANTED,   /* validity_end, spread */
    QUORUM_LEASE_WOKEN,     /* by the clock */
    QUORUM_LEASE_RENEWED,   /* a renewal has been decided: verdict, validity_end */
    QUORUM_LEASE_CONFIRMED, /* a renewal or extension that had failed was confirmed late: validity_end, ttl */
    QUORUM_LEASE_EXTENDED,  /* the holder extended it: validity_end, ttl */
    QUORUM_LEASE_HASTEN,    /* a node forgot the lock, or its clock jumped: renew, and heal, within `spread` */
    QUORUM_LEASE_CLOCK,     /* our clock stood still */
    QUORUM_LEASE_CLOSED
};

struct quorum_lease_event {
    enum quorum_lease_event_type type;
    quorum_time now;
    quorum_time validity_end;
    quorum_duration ttl;
    quorum_duration spread; /* GRANTED: over which the first renewals of all locks are spread; HASTEN */
    enum quorum_verdict verdict;
    uint64_t random; /* GRANTED, RENEWED, HASTEN */
};

struct quorum_lease_actions {
    quorum_duration renew; /* ask the nodes for this ttl; 0: nothing to ask */
    bool failing;          /* tell: a renewal has failed, the first of a row */
    bool ending;           /* tell: notify_before is reached */
    enum quorum_loss lost; /* tell: it is over */
};

void quorum_lease_init(struct quorum_lease *lease, const struct quorum_lease_terms *terms);

struct quorum_lease_actions quorum_lease_step(struct quorum_lease *lease, const struct quorum_lease_event *event);

/* When to send QUORUM_LEASE_WOKEN; QUORUM_NEVER: not before something else happens. */
quorum_time quorum_lease_deadline(const struct quorum_lease *lease);

/* The ttl of a renewal that was planned with `ttl` and is sent at `now`: the keys must still end at the cap. In whole
 * milliseconds, 1 at least. */
quorum_duration quorum_lease_ttl_at(const struct quorum_lease *lease, quorum_duration ttl, quorum_time now);

/*
 * May a node that a renewal found without the lock have it set again? Only while the last one that was decided has been
 * won: the majority that had confirmed it before one that failed may have forgotten since. A late confirmation does not
 * change that: it may be of a renewal before the one that failed.
 */
bool quorum_lease_may_heal(const struct quorum_lease *lease);

/* May a renewal take so long? By half of what is left at most. */
bool quorum_lease_may_wait(const struct quorum_lease *lease, quorum_time now, quorum_duration longest);

#endif
