/* The status line on a terminal while an acquire waits. */
#ifndef CLI_WAITING_H
#define CLI_WAITING_H

#include "session.h"

#include <redlock/redlock.h>

#include <stdint.h>

struct cli_waiting;

/* Shows it until cli_waiting_hide(); wait_ms: the longest wait, or REDLOCK_FOREVER. NULL without a terminal. A thread
 * uses the client and `how` meanwhile. */
struct cli_waiting *cli_waiting_show(redlock_client *client, const struct cli_acquire *how, int64_t wait_ms);

/* Erases it; NULL does nothing. */
void cli_waiting_hide(struct cli_waiting *waiting);

#endif
