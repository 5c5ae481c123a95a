/* The names and texts of statuses, outcomes, losses and findings; and redlock_result, which has them. */
#ifndef RL_RESULT_H
#define RL_RESULT_H

#include "quorum/lease.h"
#include "quorum/round.h"
#include "redlock/redlock.h"

/* The most important one of these bits of enum redlock_finding, or 0. */
uint32_t rl_finding_first(uint32_t findings);

/* Clears a result, but only the first `nodes` entries of node[]: the array is most of its 4 KiB. */
void rl_result_clear(redlock_result *result, unsigned nodes);

/* Sets status and text, and returns the status. result may be NULL. */
int rl_result_fail(redlock_result *result, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Maps the rules' verdicts to enum redlock_status. Their votes have the values of enum redlock_outcome. */
int rl_result_status(enum quorum_verdict verdict);

/* Sets the result's number of votes per class, and each node's outcome. */
void rl_result_votes(redlock_result *result, const struct quorum_tally *tally);

/* Copies the votes, by class and by node, of a result of as many nodes. The names stay. */
void rl_result_copy_votes(redlock_result *result, const redlock_result *from);

#endif
