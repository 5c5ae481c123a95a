/* The two words that name a lock from one process to another: RESOURCE TOKEN. */
#ifndef CLI_TOKEN_H
#define CLI_TOKEN_H

#include "command.h"

#include <redlock/redlock.h>

/* Takes them from the command line; a token '-' is read from standard input. CLI_OK, or the exit status; what is wrong
 * has been said. Both live as long as the process. */
int cli_token_read(const struct cli_arguments *arguments, const char **resource, const char **token);

/* What is not held by its token may be a lock that cannot be handed on by one: a reader's, or a permit. Then this says
 * so. */
void cli_token_explain_loss(redlock_client *client, const char *resource);

#endif
