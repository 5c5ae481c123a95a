/*
 * One round: one parallel attempt over all nodes to acquire, extend or release. The host tells what happened, with the
 * time; the round says what to do. It decides early, both ways, and once.
 *
 * Redlock, steps 1-5: read the clock; ask all nodes; a majority within the validity wins; else undo everywhere.
 *
 * A node's timeout ends the waiting for it, and says nothing about what the node has done. So the grant of an extension
 * counts however late it arrives: it may still win an open round, and it confirms one that was lost by timeouts, as long
 * as the validity that it supports, which is counted from the first send, is still ahead. And a release waits for late
 * nodes until a majority has confirmed it: what is on its way is not lost. The host ends that wait, by a vote.
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
    QUORUM_ADOPT, /* extend, by the token alone: the lock's own end is not known, and what is left is judged as in acquire */
    QUORUM_RELEASE,
    QUORUM_LOOK /* asks only; decided when every node has answered or been counted out */
};

enum quorum_verdict {
    QUORUM_UNDECIDED,
    QUORUM_WON,
    QUORUM_LOST_HELD,          /* acquire: without the others' keys a majority would have been there */
    QUORUM_LOST_NO_QUORUM,     /* too many nodes down, silent or refusing */
    QUORUM_LOST_MISCONFIGURED, /* as before, for reasons that waiting does not end */
    QUORUM_LOST_TOO_SLOW, /* acquire, adopt: too little validity was left; extend: none was, of the end it began with; or
                             our clock stopped meanwhile */
    QUORUM_LOST_GONE,     /* extend, adopt, release: too many nodes do not have our key */
    QUORUM_LOST_CANCELLED, /* the host said so */
    QUORUM_LOST_CLOCK      /* too many nodes refuse a fencing token, for their clocks are too far from ours */
};

struct quorum_terms {
    enum quorum_kind kind;
    unsigned nodes;      /* N */
    quorum_duration ttl; /* what the nodes are asked for */
    uint32_t drift_ppm;  /* see validity.h */
    quorum_duration
        minimum_validity;     /* acquire, adopt: less than this left at the decision is too slow; at least 1 ns */
    quorum_time validity_end; /* extend, release: of the lock as it is; others: 0 */
    bool
        all_answers; /* what is won, and any end of a release, waits until every node has answered or been counted out */
};

enum quorum_event_type {
    QUORUM_START, /* usable: can be asked now; coming: may become usable, a QUORUM_USABLE or QUORUM_VOTE follows; others voted before */
    QUORUM_USABLE,  /* node can be asked from now on */
    QUORUM_VOTED,   /* node has answered, or is counted as vote */
    QUORUM_OVERDUE, /* node's timeout has passed: its answer may still come */
    QUORUM_CANCEL
};

struct quorum_event {
    enum quorum_event_type type;
    quorum_time now;
    unsigned node;         /* USABLE, VOTED, OVERDUE */
    enum quorum_vote vote; /* VOTED */
    bool permanent;        /* VOTED: waiting does not end this refusal */
    bool clock;            /* VOTED: refused because of a clock */
    bool left_nothing;     /* VOTED: the node's own answer shows that nothing of ours is there */
    quorum_time stopped;   /* VOTED, OVERDUE: when our clock was last found to have stopped; 0: never */
    quorum_nodes usable;   /* START */
    quorum_nodes coming;   /* START */
};

/* What the host is to do. */
struct quorum_actions {
    quorum_nodes send; /* ask these nodes now; a release tells nodes that become usable once it is decided, too */
    quorum_nodes undo; /* send these nodes the undo, behind what they were sent; soon, and not if they leave may_hold */
    bool decided;      /* the verdict has just been reached; said once */
    bool confirmed; /* extend: lost by timeouts before, now confirmed by a majority: validity_end is set; said once */
};

struct quorum_round {
    struct quorum_terms terms;
    struct quorum_tally tally;
    quorum_nodes coming;   /* not asked yet, may be */
    quorum_nodes asked;    /* were sent the request */
    quorum_nodes clock;    /* refused because of a clock */
    quorum_nodes overdue;  /* release: late, and still waited for as long as there is no majority */
    quorum_nodes may_hold; /* asked to acquire, and not known to hold nothing of ours */
    quorum_time sent;      /* when the first request left; QUORUM_NEVER before */
    quorum_time decided_at;
    quorum_time validity_end;    /* once won or confirmed late: the lock may be relied on until then; never before
                                    terms.validity_end */
    bool confirmed;              /* extend: lost by timeouts, and confirmed by a majority since */
    enum quorum_verdict verdict; /* written once */
};

void quorum_round_init(struct quorum_round *round, const struct quorum_terms *terms);

struct quorum_actions quorum_round_step(struct quorum_round *round, const struct quorum_event *event);

static inline bool quorum_round_over(const struct quorum_round *round)
{
    return round->verdict != QUORUM_UNDECIDED;
}

/* Has a majority, and waits for the other answers. */
static inline bool quorum_round_is_settling(const struct quorum_round *round)
{
    return !quorum_round_over(round) && round->terms.kind != QUORUM_LOOK && quorum_tally_won(&round->tally);
}

#endif
