/*
 * A node's marker: a text on the node that says since when its server can be relied on, and by which facts of the
 * server's process that was judged. The facts are read ahead of the marker, by plain commands. A server that restarted,
 * was flushed, took over another's data, evicted keys or swapped databases shows other facts, or no marker: it has lost
 * locks, and a marker that starts anew is written.
 *
 * A master that was failed over and came back shows none of this if it never followed the new one, which Sentinel does not
 * ensure: it has a copy of its own, from before. But its term as the master is another one.
 *
 * The text is: 2 run_id history [e]evicted changes since written max_ttl nodes why nonce deployment
 * changes is the number of SWAPDB calls, below QUORUM_MARKER_TERM, and that many times the term.
 */
#ifndef QUORUM_MARKER_H
#define QUORUM_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUORUM_MARKER_SIZE 512 /* of its text */

#define QUORUM_MARKER_TERM UINT64_C(1000000000)

/* As `since`: from the time at which the marker is written, which only the node knows. */
#define QUORUM_MARKER_NOW UINT64_MAX

/* Of the server's process; a copy of its data does not bring them along. */
struct quorum_marker_facts {
    char run_id[41];
    char history[41]; /* the ID of the replication history that it followed before; "0": none, or it has cleared it */
    bool evicts;      /* its maxmemory-policy may evict keys */
    uint64_t evicted; /* keys */
    uint64_t swaps;   /* SWAPDB calls */
    uint64_t term;    /* behind Sentinel, or in a cluster: the epoch of the configuration; 0: not known */
};

struct quorum_marker {
    struct quorum_marker_facts facts;
    uint64_t since;   /* ms by the node's clock; QUORUM_TRUSTED: an operator vouches for it */
    uint64_t written; /* us by the node's clock */
    uint64_t max_ttl; /* ms */
    uint64_t nodes;   /* their number in the deployment */
    char why[12];
    char nonce[17]; /* makes each rewritten marker unique */
    char deployment[72];
};

/* What the client knows beside the marker's text. */
struct quorum_marker_view {
    const struct quorum_marker_facts *facts; /* read ahead of the marker */
    uint64_t time;                           /* us by the node's clock, read behind the marker */
    const char *seen_nonce;                  /* of the marker that this client saw last; "": none */
    uint64_t seen;                           /* when, in us by the node's clock */
    bool jumped;                             /* the client has found that the node's clock jumped */
    uint64_t max_ttl;                        /* the client's own values */
    uint64_t nodes;
    const char *deployment; /* less than 72 bytes, as an option is */
};

enum quorum_marker_verdict {
    QUORUM_MARKER_KEEP,  /* the marker is right */
    QUORUM_MARKER_WRITE, /* it must be written anew */
    QUORUM_MARKER_OTHER, /* of another deployment or another number of nodes */
    QUORUM_MARKER_TAKEN  /* no marker of this format */
};

/* false: the text is no marker of this format. */
bool quorum_marker_parse(struct quorum_marker *marker, const char *text, size_t size);

/* found: the text; size 0: there is none. marker: as it is, or, for WRITE, as it must be, without `written` and `nonce`. */
enum quorum_marker_verdict quorum_marker_judge(const struct quorum_marker_view *view, const char *found, size_t size,
                                               struct quorum_marker *marker);

#endif
