/* Healing: sets the locks of a renewal on the nodes that lack them, after a majority has confirmed the locks. */
#ifndef RL_HEAL_H
#define RL_HEAL_H

#include "quorum/tally.h"

struct rl_batch;

/* Heals the nodes that lack locks of a renewal that every node has answered. nodes: those that can be sent to. */
void rl_heal_after(const struct rl_batch *renewed, quorum_nodes nodes);

#endif
