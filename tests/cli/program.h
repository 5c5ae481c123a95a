/* Programs under test, redlock(1) first of all, driven as a user drives them: by arguments, environment, signals, a
 * terminal.
 *
 * Standard output and error are kept in memory and may be looked at while the program runs. The programs are killed at
 * the end of the test, and with it. Their environment is the test's, without HOME and all that begins with REDLOCK or
 * XDG; REDLOCK_CONFIG is /dev/null unless set. */
#ifndef TESTS_CLI_PROGRAM_H
#define TESTS_CLI_PROGRAM_H

#include <stdarg.h>
#include <stdbool.h>
#include <sys/types.h>

/* The redlock that was built. */
extern const char program_redlock[];

struct program;

struct program_options {
    const char *nodes;              /* REDLOCK_NODES; NULL: not set */
    const char *const *environment; /* more of it: "NAME=VALUE", ended by NULL; NULL: nothing */
    bool terminal; /* in a session of its own on a terminal of its own, which output and error both go to */
};

enum { PROGRAM_SOON_MS = 20000 };

/* options NULL: no nodes, no terminal. argv[0] is looked for in PATH. */
struct program *program_start_argv(const struct program_options *options, char *const *argv);
/* first (NULL: none), then these words, ended by NULL. */
struct program *program_start_list(const struct program_options *options, const char *first, va_list words);
/* redlock with these arguments, ended by NULL. */
struct program *program_start(const struct program_options *options, ...) __attribute__((sentinel));
/* The same, and waits for its end. */
struct program *program_run(const struct program_options *options, ...) __attribute__((sentinel));

/* Kills and forgets all of them; the texts they handed out are gone. */
void programs_end(void);

pid_t program_pid(const struct program *program);
/* A process of redlock run, of which each is the first child of the one before. */
enum program_process { PROGRAM_FRONT, PROGRAM_WATCHDOG, PROGRAM_HOLDER, PROGRAM_PROCESSES };
pid_t program_process(const struct program *program, enum program_process process);
/* The first child of a process, 0: it has none. */
pid_t program_child(pid_t parent);
void program_signal(const struct program *program, int number);
bool program_is_running(struct program *program);
bool program_is_stopped(const struct program *program);

/* Waits until it has ended, and reaps it: its exit status, or minus the signal that ended it. Ends the test when it
 * does not end soon. */
int program_wait(struct program *program);

/* All it has written so far; valid until the next call. On a terminal both are the same. */
const char *program_output(struct program *program);
const char *program_errors(struct program *program);

/* Waits until its output, or its errors, hold the text; false when they do not soon. */
bool program_says(struct program *program, const char *text);
/* How often its output holds the text. */
unsigned program_count(struct program *program, const char *text);
/* Waits until its output holds the text more often than this; false when it does not soon. */
bool program_says_again(struct program *program, const char *text, unsigned before);

/* Keys pressed on its terminal. */
void program_type(struct program *program, const char *keys);
/* The terminal is gone, as when its window is closed. */
void program_hang_up(struct program *program);
/* The process group in the foreground of its terminal. */
pid_t program_foreground(const struct program *program);

/* Fails the test unless it exits with the status, showing what it said. Minus a signal is meant by minus its number. */
#define program_exits(which, status)                                                                                   \
    do {                                                                                                               \
        struct program *program_ended = (which);                                                                       \
        int program_status = program_wait(program_ended);                                                              \
        ck_assert_msg(program_status == (status), "exit status %d, not %d; errors: %s; output: %s", program_status,    \
                      (status), program_errors(program_ended), program_output(program_ended));                         \
    } while (0)

/* Fails the test unless its errors are one line with the text in it. */
#define program_says_in_one_line(program, text)                                                                        \
    do {                                                                                                               \
        const char *program_text = program_errors(program);                                                            \
        ck_assert_msg(strstr(program_text, text) != NULL && strchr(program_text, '\n') != NULL &&                      \
                          strchr(program_text, '\n')[1] == '\0',                                                       \
                      "not a line with '%s': %s", text, program_text);                                                 \
    } while (0)

#endif
