/*
 * Attested grants. A client's knowledge of a node may be out of date when it acts on it: the client was stopped or
 * busy, or the node was flushed a millisecond ago. So a grant counts only together with proof, from the same connection
 * and behind the grant, that the node still has the marker that the client has judged, byte for byte, and the same
 * evidence of its process, which a copy of the data does not bring along (role, replication history, evicted keys).
 *
 * The marker alone proves that the node was not flushed. A failover there and back brings the old marker along with the
 * copied data; only a look at the evidence shows it. A look costs the server several times as much as reading the
 * marker. But a server is a replica meanwhile, and refuses writes: if two writes at most QUORUM_WRITES_APART apart
 * succeed, it did not fail over between them. So one look lasts for QUORUM_LOOK_LASTS, as long as the grants, which are
 * writes, follow one another quickly. The client renews an old look along with releases, which nobody waits for as for
 * an acquire.
 */
#ifndef QUORUM_ATTEST_H
#define QUORUM_ATTEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quorum/tally.h"
#include "quorum/time.h"

/* From sending a write, or a look, to receiving a proof that relies on it. A server that becomes a replica, loads
 * another's data and is promoted again within this time would pass unnoticed: the quickest one seen took 1.4 ms. */
#define QUORUM_WRITES_APART QUORUM_MILLISECOND

/* From sending the look to receiving a proof that relies on it. Writes are no evidence where a replica accepts them
 * (replica-read-only no), or where a proxy switches to another server. */
#define QUORUM_LOOK_LASTS (5 * QUORUM_MILLISECOND)

/* What the client knows of a node's clock and of the number of its evicted keys may be this old behind a grant; if it is
 * older, it is read with the proof. */
#define QUORUM_KNOWLEDGE_LASTS (1500 * QUORUM_MILLISECOND)

/* The last sample of a node's clock may be this old behind a grant. A client that hears its nodes in turn may have heard
 * this one before. */
#define QUORUM_SAMPLE_LASTS QUORUM_SECOND

/* And behind a heartbeat the evidence. INFO costs a node more than the rest of it. What it shows starts the node's
 * quarantine, which protects other clients' locks, with the first client that looks; the next renewal heals this client's
 * own. Where heartbeats are 1 or 3 s apart, each look comes 5 or 6 s after the one before. */
#define QUORUM_BEATS_LOOK (4500 * QUORUM_MILLISECOND)

/* Maximum size of a node's evidence and marker. */
#define QUORUM_SHOWN_MAX 640

struct quorum_attest {
    quorum_time looked;           /* when the last look that showed the judged evidence was sent; 0: never */
    quorum_time wrote;            /* when that, or a later grant that is a write, was sent */
    quorum_time knows;            /* when the last look that showed the number of evicted keys, too, was sent */
    quorum_duration took;         /* the last proof, from request to reply */
    bool always_look;             /* the node may evict keys, which no marker shows */
    uint16_t evidence;            /* bytes of evidence; the marker follows */
    uint16_t size;                /* 0: no judgement, and no reply is proof */
    char shown[QUORUM_SHOWN_MAX]; /* the judged reply */
};

/* The client has judged the reply to a look that left at `sent`: `evidence` bytes of evidence, then the marker. A reply
 * longer than QUORUM_SHOWN_MAX is never proven. */
void quorum_attest_judged(struct quorum_attest *attest, const char *shown, size_t size, size_t evidence,
                          quorum_time sent);

/* No reply is proof until the next judgement. */
void quorum_attest_forget(struct quorum_attest *attest);

/* What a proof must show beside the marker. */
struct quorum_attest_needs {
    bool look;
    bool evicted; /* the look shows the number of evicted keys */
    bool time;    /* the node's clock */
};

enum quorum_attest_occasion {
    QUORUM_FOR_GRANT,
    QUORUM_FOR_BEAT, /* a heartbeat, which samples the clock each time */
    QUORUM_FOR_LOOK  /* a look in any case */
};

/* After idleness it is all that can change while no client looks. A grant needs a look unless the marker alone suffices.
 * sampled: when the last sample of the node's clock was requested. */
struct quorum_attest_needs quorum_attest_needs(const struct quorum_attest *attest, enum quorum_attest_occasion occasion,
                                               quorum_time sampled, quorum_time now);

/* Whether to look although no grant needs it now: the next proof can then rely on it. */
bool quorum_attest_is_aging(const struct quorum_attest *attest, quorum_time now);

enum quorum_proof {
    QUORUM_PROVEN,     /* the grants before it count */
    QUORUM_NOT_PROVEN, /* they do not */
    QUORUM_LOOK_AGAIN  /* the marker is the same, but the last look is too old: send a look, which decides */
};

/* A proof: the reply to a look is evidence and marker, otherwise the marker. */
struct quorum_shown {
    bool look;
    bool whole; /* a look that shows the number of evicted keys, too, with a sample of the clock */
    quorum_time sent;
    quorum_time received;
    quorum_time wrote; /* when the last grant before it was sent, if that is a write; otherwise 0 */
    const char *bytes;
    size_t size;
};

enum quorum_proof quorum_attest_prove(struct quorum_attest *attest, const struct quorum_shown *shown);

/* Whether this is the judged marker. That proves no grant: it shows nothing of the evidence. */
bool quorum_attest_is_marker(const struct quorum_attest *attest, const char *marker, size_t size);

/* Whether a grant that came with its own look, read by the server in one step with the grant, is proven. */
bool quorum_attest_shows(const struct quorum_attest *attest, const char *shown, size_t size);

/* A vote with its proof: a grant without proof does not count. */
static inline enum quorum_vote quorum_attest_vote(enum quorum_vote vote, enum quorum_proof proof)
{
    return vote == QUORUM_GRANTED && proof != QUORUM_PROVEN ? QUORUM_UNATTESTED : vote;
}

#endif
