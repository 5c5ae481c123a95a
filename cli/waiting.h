/* While an acquire waits: a status line on a terminal, otherwise a line when the wait begins; and one at its end. */
#ifndef CLI_WAITING_H
#define CLI_WAITING_H

#include "session.h"

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stdint.h>

struct cli_waiting;

/* Shows it until cli_waiting_hide(); wait_ms: the longest wait, or REDLOCK_FOREVER; said: a line has told that it
 * begins. NULL: nothing is shown. A thread uses the client and `how` meanwhile. */
struct cli_waiting *cli_waiting_show(redlock_client *client, const struct cli_acquire *how, int64_t wait_ms, bool said);

/* Erases it; NULL does nothing. */
void cli_waiting_hide(struct cli_waiting *waiting, bool acquired);

#endif
