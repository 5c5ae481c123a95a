/* Which holder the nodes name that have not granted a lock: for results and the log, no decision depends on it. */
#ifndef RL_HELD_BY_H
#define RL_HELD_BY_H

#include "quorum/round.h"
#include "redlock/redlock.h"
#include "src/node/command.h"

struct rl_core;

struct rl_held_by {
    uint64_t hash[QUORUM_NODES_MAX]; /* of the token that the node has named last; 0: none */
    quorum_time until;               /* the named key's expiry; 0: unknown */
    const char *remark;              /* shown in place of the token; NULL: none */
    uint8_t size;
    char token[REDLOCK_TOKEN_MAX]; /* the one that most nodes name */
};

/* A node names a holder, or none: no bytes, and no remark. *held_by is created when it is needed, if there is memory.
 * until: as above. */
void rl_held_by_note(struct rl_core *core, struct rl_held_by **held_by, unsigned node, struct rl_text token,
                     const char *remark, quorum_time until);

/* Copies what the nodes of a queue name to the round of one of its waiters, which leaves it. */
void rl_held_by_copy(struct rl_core *core, struct rl_held_by **to, const struct rl_held_by *from);

/* Sets the result's holder, if more than half of the nodes that name one name the same. */
void rl_held_by_fill(const struct rl_held_by *held_by, redlock_result *result);

#endif
