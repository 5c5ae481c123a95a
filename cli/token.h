/* The arguments RESOURCE TOKEN, which identify a lock of another process. */
#ifndef CLI_TOKEN_H
#define CLI_TOKEN_H

#include "command.h"

#include <redlock/redlock.h>

/* Reads them from the command line; a token '-' from standard input. CLI_OK, or the exit status after a message. Both
 * live as long as the process. */
int cli_token_read(const struct cli_arguments *arguments, const char **resource, const char **token);

/* Prints a message if the resource has a lock that cannot be passed on by a token: a reader's, or a permit. */
void cli_token_explain_loss(redlock_client *client, const char *resource);

#endif
