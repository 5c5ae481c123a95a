/* Results in the making: what the public structs are filled with. */
#ifndef RL_RESULT_H
#define RL_RESULT_H

#include "quorum/lease.h"
#include "quorum/round.h"
#include "redlock/redlock.h"

/* Empties a result without touching the entries of nodes beyond `nodes`. */
void rl_result_clear(redlock_result *result, unsigned nodes);

/* Sets status and a text; result may be NULL. Returns the status, for `return rl_result_fail(...)`. */
int rl_result_fail(redlock_result *result, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The public words for the rules' verdicts and votes. */
int rl_result_status(enum quorum_verdict verdict);
int rl_result_outcome(enum quorum_vote vote);

/* "expired", ... */
const char *rl_result_loss(enum quorum_loss loss);

/* The votes by class. */
void rl_result_count(redlock_result *result, const struct quorum_tally *tally);

#endif
