/* Messages on standard error: whole lines, each starting with "redlock COMMAND: ", control bytes as \xNN. Any
 * thread. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stddef.h>

/* Sets the command's name at the start of each line; static. NULL: none. */
void cli_message_command(const char *command);
extern bool cli_is_verbose, cli_is_quiet;

/* An error, or the loss of a lock. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same; returns the exit status. */
int cli_fail(int exit_status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the user may want to know, but has asked for: not with --quiet. */
void cli_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The system refused a descriptor: see errno. */
void cli_say_no_descriptor(void);
/* Only with --verbose. */
void cli_explain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Only with --verbose: a line for the result, and one for each node. */
void cli_explain_result(const char *step, const redlock_result *result);

/* A status line that replaces the last one; "" erases it. Only on a terminal. */
void cli_live(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool cli_is_live(void);

/* " by deploy@web-3:4711 since 10:42:07", with the date if it was half a day ago; "" without a label. Returns buffer. */
enum { CLI_HOLDER_SIZE = REDLOCK_LABEL_SIZE + 40 };
const char *cli_holder_text(const redlock_holder *holder, char buffer[CLI_HOLDER_SIZE]);

/* How many bytes the UTF-8 character has that begins here; 0: it is none. As RFC 3629 has it: no overlong forms, no
 * surrogates, nothing beyond U+10FFFF. */
size_t cli_character_size(const unsigned char *bytes, size_t size);

/* An argument for a message: quoted, cut to fit, control bytes escaped. Returns buffer. */
enum { CLI_QUOTED_SIZE = 128 };
const char *cli_quote(const char *text, char buffer[CLI_QUOTED_SIZE]);

#endif
