/* The fencing token of an acquire: proposed with each attempt, and raised until a majority has it. */
#ifndef RL_ACQUIRE_FENCE_H
#define RL_ACQUIRE_FENCE_H

#include <stdbool.h>

struct rl_acquire;
struct rl_round;

/* Proposes a token. */
void rl_acquire_fence_propose(struct rl_acquire *acquire);

/* A majority has the lock. true: a majority also has its fencing token, above all earlier ones. false: the token must
 * be raised. */
bool rl_acquire_fence_settle(struct rl_acquire *acquire);

/* A round has granted the lock: hands it out once its token is settled. */
void rl_acquire_fence_confirm(struct rl_acquire *acquire, const struct rl_round *round);

#endif
