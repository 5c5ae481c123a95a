/*
 * One round: one parallel attempt over all nodes to acquire, extend or release. The host reports events, with the time;
 * the round returns actions. It decides early, for success and for failure, and once.
 *
 * Redlock, steps 1-5: read the clock; send to all nodes; a majority within the validity wins; otherwise undo
 * everywhere.
 *
 * A node's timeout ends the wait for that node; it does not show whether the node executed the request. So the grant of
 * an extension counts however late it arrives: it may still win an open round, and it confirms one that was lost by
 * timeouts, as long as the resulting validity, counted from the first send, has not ended. And a release waits for late
 * nodes until a majority has confirmed it, because its requests are on the way. The host ends that wait, by a vote.
 */
#ifndef QUORUM_ROUND_H
#define QUORUM_ROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "quorum/tally.h"
#include "quorum/time.h"

enum quorum_kind {
    QUORUM_ACQUIRE,
    QUORUM_EXTEND,
    QUORUM_ADOPT, /* extend by the token alone: the lock's end is unknown; the validity is judged as in acquire */
    QUORUM_RELEASE,
    QUORUM_LOOK /* reads only; decided when every node has replied or timed out */
};

enum quorum_verdict {
    QUORUM_UNDECIDED,
    QUORUM_WON,
    QUORUM_LOST_HELD,          /* acquire: without other holders' keys a majority would have granted */
    QUORUM_LOST_NO_QUORUM,     /* too many nodes down, silent or refusing */
    QUORUM_LOST_MISCONFIGURED, /* the same, for reasons that waiting does not repair */
    QUORUM_LOST_TOO_SLOW,      /* acquire, adopt: too little validity was left; extend: the validity it started with had
                             ended; or our clock stopped meanwhile */
    QUORUM_LOST_GONE,          /* extend, adopt, release: too many nodes do not have our key */
    QUORUM_LOST_CANCELLED,     /* by the host */
    QUORUM_LOST_CLOCK,         /* too many nodes refuse the fencing token: their clocks are too far from ours */
    QUORUM_VERDICTS            /* the number of verdicts */
};

struct quorum_terms {
    enum quorum_kind kind;
    unsigned nodes;                   /* N */
    uint32_t drift_ppm;               /* see validity.h */
    bool all_answers;                 /* success, and any end of a release, waits until every node has replied or
                                         timed out */
    quorum_duration ttl;              /* in the request; extend: 0: a change that leaves the lock's end as it is */
    quorum_duration minimum_validity; /* acquire, adopt: with less left at the decision it is too slow; at least 1 ns */
    quorum_time validity_end;         /* extend, release: the lock's present end; others: 0 */
};

enum quorum_event_type {
    QUORUM_START,   /* usable: can be sent to now; coming: may become usable, QUORUM_USABLE or QUORUM_VOTED follows;
                     others voted before */
    QUORUM_USABLE,  /* node is usable from now on */
    QUORUM_VOTED,   /* node has replied, or counts as `vote` */
    QUORUM_HANDED,  /* acquire: node has handed the lock over to us, not before `since`; without a request */
    QUORUM_OVERDUE, /* node's timeout has passed: its reply may still arrive */
    QUORUM_CANCEL
};

struct quorum_event {
    enum quorum_event_type type;
    quorum_time now;
    unsigned node;         /* USABLE, VOTED, HANDED, OVERDUE */
    enum quorum_vote vote; /* VOTED */
    bool permanent;        /* VOTED: waiting does not repair this refusal */
    bool clock;            /* VOTED: refused because of a clock */
    bool left_nothing;     /* VOTED: the node's reply shows that it has nothing of ours */
    quorum_time since;     /* HANDED: by our clock; earlier than the grant */
    quorum_time stopped;   /* VOTED, HANDED, OVERDUE: when our clock was last found to have stopped; 0: never */
    quorum_nodes usable;   /* START */
    quorum_nodes coming;   /* START */
};

/* For the host to execute. */
struct quorum_actions {
    quorum_nodes send; /* send to these nodes now; a release does so even after its decision, when a node becomes
                          usable */
    quorum_nodes undo; /* send these nodes the undo, behind the request; soon, and not if they leave may_hold */
    bool decided;      /* the verdict has just been reached; set once */
    bool confirmed;    /* extend: lost by timeouts, now confirmed by a majority; validity_end is set; set once */
    quorum_nodes heal; /* extend: a majority has confirmed the lock, and every node has been counted; these lack it;
                          set once */
};

/* What every vote reads and writes comes first, in few cache lines. */
struct quorum_round {
    struct quorum_tally tally;
    quorum_nodes coming;         /* not sent to yet, may become usable */
    quorum_nodes asked;          /* got the request */
    quorum_nodes clock;          /* refused because of a clock */
    quorum_nodes overdue;        /* release: late; the round waits for them until there is a majority */
    quorum_nodes may_hold;       /* got an acquire, and may have a key of ours */
    enum quorum_verdict verdict; /* written once */
    struct quorum_terms terms;
    quorum_time sent; /* when the first request left; QUORUM_NEVER before */
    quorum_time decided_at;
    quorum_time validity_end; /* once won or confirmed late: the end of validity; never before
                                 terms.validity_end */
    bool confirmed;           /* extend: lost by timeouts, then confirmed by a majority */
};

void quorum_round_init(struct quorum_round *round, const struct quorum_terms *terms);

struct quorum_actions quorum_round_step(struct quorum_round *round, const struct quorum_event *event);

static inline bool quorum_round_over(const struct quorum_round *round)
{
    return round->verdict != QUORUM_UNDECIDED;
}

/* An extension that is won waits for no node; but once every node is counted, those that lack the lock are known. */
static inline bool quorum_round_finds_absent(const struct quorum_round *round)
{
    return round->terms.kind == QUORUM_EXTEND && round->verdict == QUORUM_WON;
}

/* Has a majority, and waits for the other replies. */
static inline bool quorum_round_is_settling(const struct quorum_round *round)
{
    return !quorum_round_over(round) && round->terms.kind != QUORUM_LOOK && quorum_tally_won(&round->tally);
}

#endif
