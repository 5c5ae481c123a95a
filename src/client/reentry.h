/* Re-entry: an acquire whose owner holds locks already. */
#ifndef RL_REENTRY_H
#define RL_REENTRY_H

#include <stdbool.h>

#include "src/lock/names.h"

struct rl_acquire;

/* true: the owner's locks decide the acquire, by a re-entry or a refusal. */
bool rl_reentry_decides(struct rl_acquire *acquire, const struct rl_names *names);

#endif
