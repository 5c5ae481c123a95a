/* Messages on standard error: whole lines, each starting with "redlock COMMAND: ", control bytes as \xNN. Any
 * thread. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The command's name at the start of each line. NULL: none. */
extern const char *cli_message_command;
extern bool cli_is_verbose, cli_is_quiet;

/* An error, or the loss of a lock. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same; returns the exit status. */
#define cli_fail(exit_status, ...) (cli_say(__VA_ARGS__), (exit_status))
/* What the user may want to know, but has not asked for: not with --quiet. */
#define cli_notice(...) (cli_is_quiet ? (void)0 : cli_say(__VA_ARGS__))
/* The system refused a descriptor: see errno. */
void cli_say_no_descriptor(void);
/* Only with --verbose. */
#define cli_explain(...) (cli_is_verbose ? cli_say(__VA_ARGS__) : (void)0)
/* Only with --verbose: a line for the result, and one for each node. */
void cli_explain_result(const char *step, const redlock_result *result);

/* A status line that replaces the last one; "" erases it. Only on a terminal. */
void cli_live(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool cli_is_live(void);

/* " by deploy@web-3:4711 since 10:42:07", with the date if it was half a day ago; "" without a label. Returns buffer. */
enum { CLI_HOLDER_SIZE = REDLOCK_LABEL_SIZE + 40 };
const char *cli_holder_text(const redlock_holder *holder, char buffer[CLI_HOLDER_SIZE]);

/* ", for 9.3 s unless renewed", or ", without an expiry". Returns buffer. */
enum { CLI_LEFT_SIZE = 64 };
const char *cli_left_text(int64_t remaining_ms, const char *unless, char buffer[CLI_LEFT_SIZE]);

/* An argument for a message: quoted, cut to fit, control bytes escaped. Returns buffer. */
enum { CLI_QUOTED_SIZE = 128 };
const char *cli_quote(const char *text, char buffer[CLI_QUOTED_SIZE]);

#endif
