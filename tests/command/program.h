/* Programs under test, mostly redlock(1), driven as a user drives them: by arguments, environment, signals and a
 * terminal.
 *
 * Standard output and error are kept in memory and may be read while the program runs. The programs are killed at
 * the end of the test, or when the test ends early. Their environment is the test's without HOME and without
 * variables that begin with REDLOCK or XDG. REDLOCK_CONFIG is /dev/null unless set. */
#ifndef TESTS_COMMAND_PROGRAM_H
#define TESTS_COMMAND_PROGRAM_H

#include <stdarg.h>
#include <stdbool.h>
#include <sys/types.h>

/* The redlock program of this build. */
extern const char program_redlock[];

struct program;

struct program_options {
    const char *nodes;              /* REDLOCK_NODES; NULL: not set */
    const char *const *environment; /* additional variables: "NAME=VALUE", ended by NULL; NULL: none */
    bool terminal; /* in a separate session on a separate terminal, which gets standard output and error */
};

enum { PROGRAM_SOON_MS = 20000 };

/* options NULL: no nodes, no terminal. argv[0] is searched in PATH. */
struct program *program_start_argv(const struct program_options *options, char *const *argv);
/* Starts `first` (NULL: none) followed by these words, ended by NULL. */
struct program *program_start_list(const struct program_options *options, const char *first, va_list words);
/* Starts redlock with these arguments, ended by NULL. */
struct program *program_start(const struct program_options *options, ...) __attribute__((sentinel));
/* The same, and waits for the end of the program. */
struct program *program_run(const struct program_options *options, ...) __attribute__((sentinel));

/* Kills all programs and frees them. The texts that they returned become invalid. */
void programs_end(void);

pid_t program_pid(const struct program *program);
/* The processes of redlock run. Each is the first child of the one before. */
enum program_process { PROGRAM_FRONT, PROGRAM_WATCHDOG, PROGRAM_HOLDER, PROGRAM_PROCESSES };
pid_t program_process(const struct program *program, enum program_process process);
/* The first child of a process; 0 if it has none. */
pid_t program_child(pid_t parent);
void program_signal(const struct program *program, int number);
bool program_is_running(struct program *program);
bool program_is_stopped(const struct program *program);

/* Waits until the program has ended, and reaps it. Returns its exit status, or minus the signal that ended it. Ends
 * the test if the program does not end soon. */
int program_wait(struct program *program);

/* Everything it has written so far; valid until the next call. On a terminal both functions return the same text. */
const char *program_output(struct program *program);
const char *program_errors(struct program *program);

/* Waits until its output, or its errors, contain the text. Returns false if they do not soon. */
bool program_says(struct program *program, const char *text);
/* Number of occurrences of the text in its output. */
unsigned program_count(struct program *program, const char *text);
/* Waits until its output contains the text more often than `before`. Returns false if it does not soon. */
bool program_says_again(struct program *program, const char *text, unsigned before);

/* Types keys on its terminal. */
void program_type(struct program *program, const char *keys);
/* Closes the terminal, as when its window is closed. */
void program_hang_up(struct program *program);
/* The foreground process group of its terminal. */
pid_t program_foreground(const struct program *program);

/* Fails the test unless the program exits with the status; shows its output then. A status of minus N means signal
 * N. */
#define program_exits(which, status)                                                                                   \
    do {                                                                                                               \
        struct program *program_ended = (which);                                                                       \
        int program_status = program_wait(program_ended);                                                              \
        ck_assert_msg(program_status == (status), "exit status %d, not %d; errors: %s; output: %s", program_status,    \
                      (status), program_errors(program_ended), program_output(program_ended));                         \
    } while (0)

/* Fails the test unless its errors are one line that contains the text. */
#define program_says_in_one_line(program, text)                                                                        \
    do {                                                                                                               \
        const char *program_text = program_errors(program);                                                            \
        ck_assert_msg(strstr(program_text, text) != NULL && strchr(program_text, '\n') != NULL &&                      \
                          strchr(program_text, '\n')[1] == '\0',                                                       \
                      "not a line with '%s': %s", text, program_text);                                                 \
    } while (0)

#endif
