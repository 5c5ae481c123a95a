/* What is said on standard error: whole lines, each beginning with "redlock COMMAND: ", control bytes shown as \xNN.
 * Any thread. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stddef.h>

/* What lines begin with after "redlock": the command's name; static. NULL: none. */
void cli_message_command(const char *command);
void cli_message_verbose(bool verbose);
bool cli_is_verbose(void);

/* What went wrong or must be known. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* That the system refuses a descriptor: errno says why. */
void cli_say_no_descriptor(void);
/* Only with --verbose. */
void cli_explain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Only with --verbose: the result in a line, and a line for each node. */
void cli_explain_result(const char *step, const redlock_result *result);

/* A line that replaces itself; "" takes it away. Only on a terminal: nothing is written elsewhere. */
void cli_live(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool cli_is_live(void);

/* An argument for a message: in quotes, cut to fit, control bytes shown. Returns buffer. */
enum { CLI_QUOTED_SIZE = 128 };
const char *cli_quote(const char *text, char buffer[CLI_QUOTED_SIZE]);

#endif
