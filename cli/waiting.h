/* The line on a terminal that shows what an acquire waits for. */
#ifndef CLI_WAITING_H
#define CLI_WAITING_H

#include "session.h"

#include <redlock/redlock.h>

#include <stdint.h>

struct cli_waiting;

/* Shows it until cli_waiting_hide(); wait_ms: for how long, or REDLOCK_FOREVER. NULL where there is no terminal. The
 * client and what it acquires are used by a thread meanwhile. */
struct cli_waiting *cli_waiting_show(redlock_client *client, const struct cli_acquire *how, int64_t wait_ms);

/* Takes it away; NULL does nothing. */
void cli_waiting_hide(struct cli_waiting *waiting);

#endif
