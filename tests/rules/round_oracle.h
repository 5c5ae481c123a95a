/*
 * The rules of one round, computed a second time in the simplest way: one record per node, plain counting, no bit sets.
 * A subject is a round under test together with its oracle. subject_step() drives both; where they differ, it fails the
 * test and prints the recorded events.
 */
#ifndef TESTS_RULES_ROUND_ORACLE_H
#define TESTS_RULES_ROUND_ORACLE_H

#include <stdbool.h>

#include "quorum/round.h"

struct oracle_node {
    bool coming; /* named in `coming` of START */
    bool asked;  /* got the request */
    bool clean;  /* its reply showed that the node has nothing of ours */
    bool voted;  /* its first vote has been counted; later ones do not count */
    bool late;   /* its timeout passed before it voted */
    bool permanent;
    enum quorum_vote vote;
};

struct oracle {
    struct quorum_terms terms;
    struct oracle_node node[QUORUM_NODES_MAX];
    bool started;
    bool cancelled;
    bool over;
    enum quorum_verdict verdict; /* valid once `over` */
    quorum_time sent;            /* the first send; QUORUM_NEVER before it */
    quorum_time decided_at;
    quorum_time validity_end; /* valid once won, or confirmed late */
    bool settled;             /* an extension that was won: every node has been counted */
    bool confirmed;           /* an extension that was lost by timeouts got a majority later */
};

struct subject {
    struct quorum_round round;
    struct oracle oracle;
    unsigned steps; /* the number of recorded events */
};

void subject_init(struct subject *subject, const struct quorum_terms *terms);

void subject_step(struct subject *subject, const struct quorum_event *event);

#endif
