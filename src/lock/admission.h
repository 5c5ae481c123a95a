/*
 * When acquires begin. The validity of a lock counts from its first request, so an acquire waits in the client until a
 * majority of the nodes is connected and has room for it (quorum/window.h): its validity must not pass in this client.
 */
#ifndef RL_ADMISSION_H
#define RL_ADMISSION_H

#include "src/core/timer.h"

struct rl_locks;
struct rl_round;

/* Begins the round, or puts an acquire behind those that wait. May call decided() before it returns. */
void rl_round_start(struct rl_round *round);

/* Begins the waiting rounds, in order, until the nodes are crowded. Call it once a turn. */
void rl_rounds_admit(struct rl_locks *locks);

void rl_rounds_on_admission(struct rl_timer *timer);

/* Call it after the end of the client's operations. */
void rl_rounds_drop(struct rl_locks *locks);

#endif
