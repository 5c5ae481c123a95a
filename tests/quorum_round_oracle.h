/*
 * What one round must do, worked out a second time and in the dullest way: one record per node, plain counting, no sets
 * of bits to keep. A subject is a round under test together with its oracle; subject_step() drives both and fails the
 * test, with the story so far, where they differ.
 */
#ifndef TESTS_QUORUM_ROUND_ORACLE_H
#define TESTS_QUORUM_ROUND_ORACLE_H

#include <stdbool.h>

#include "quorum/round.h"

struct oracle_node {
    bool coming; /* so named at START */
    bool asked;  /* was sent the request */
    bool clean;  /* has said that nothing of ours is there */
    bool voted;  /* its first answer is in; later ones do not count */
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
    enum quorum_verdict verdict; /* once over */
    quorum_time sent;            /* the first send; QUORUM_NEVER before */
    quorum_time decided_at;
    quorum_time validity_end; /* once won, or confirmed late */
    bool confirmed;           /* an extension lost by timeouts has a majority since */
};

struct subject {
    struct quorum_round round;
    struct oracle oracle;
    unsigned steps; /* how long the story is */
};

void subject_init(struct subject *subject, const struct quorum_terms *terms);

struct quorum_actions subject_step(struct subject *subject, const struct quorum_event *event);

/* Plain counts over the nodes. */
unsigned oracle_count(const struct oracle *oracle, enum quorum_vote vote);
unsigned oracle_open(const struct oracle *oracle);
bool oracle_majority(const struct oracle *oracle, unsigned count);

/* The last moment at which a majority still wins. */
quorum_time oracle_last_moment(const struct oracle *oracle);

/* Fails the test, and tells the events that led there. */
_Noreturn void subject_fail(const struct subject *subject, const char *why);

#endif
