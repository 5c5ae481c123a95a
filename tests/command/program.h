/* Programs under test, mostly redlock(1), driven as a user drives them: by arguments, environment, signals and a
 * terminal.
 *
 * Standard output and error are kept in memory and may be read while the program runs. The programs are killed at
 * the end of the test, or when the test ends early. Their environment is the test's without HOME and without
 * variables that begin with REDLOCK or XDG. */
#ifndef TESTS_COMMAND_PROGRAM_H
#define TESTS_COMMAND_PROGRAM_H

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

/* The redlock program of this build, or another one that REDLOCK_TEST_PROGRAM names. */
const char *program_redlock(void);

/* How the next programs start. All zero at the start of a test without nodes. */
extern struct program_setting {
    const char *nodes;  /* REDLOCK_NODES; NULL: not set */
    const char *config; /* REDLOCK_CONFIG; NULL: /dev/null */
    bool terminal;      /* in a separate session on a separate terminal, which gets standard output and error */
    int newest_call;    /* system calls with a larger number are missing, as on an older kernel; 0: none is */
} program_setting;

struct program;

enum { PROGRAM_SOON_MS = 60000 };

/* A text as by printf(3), valid until the end of the test. */
char *program_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Starts redlock with the words of a line, which is made as by printf(3). bash(1) splits it, so it may contain
 * quotes. Words NAME=value before the others are added to the environment. */
#define program_start(...) program_start_words(program_text(__VA_ARGS__))
/* The same, and waits for the end of the program. */
#define program_run(...) program_waited(program_start(__VA_ARGS__))
/* Starts bash(1) with this line, in which $R is redlock. */
#define program_shell(...) program_start_bash(program_text(__VA_ARGS__))

struct program *program_start_words(const char *line);
struct program *program_start_bash(char *line);
struct program *program_waited(struct program *program);

/* Kills all programs and frees them. The texts that they returned become invalid. */
void programs_end(void);

pid_t program_pid(const struct program *program);
/* The processes of redlock run. The holder is the first child of the front. */
enum program_process { PROGRAM_FRONT, PROGRAM_HOLDER, PROGRAM_PROCESSES };
pid_t program_process(const struct program *program, enum program_process process);
/* The children of a process, oldest first, up to `most`. Returns their number; the others become 0. */
size_t program_children(pid_t parent, pid_t *children, size_t most);
/* The first of them; 0 if it has none. */
pid_t program_child(pid_t parent);
void program_signal(const struct program *program, int number);
bool program_is_running(struct program *program);
bool program_is_stopped(void *program); /* for wait_until() */
/* Whether no process has this PID. The second function waits until none has it. */
bool program_is_gone(pid_t pid);
bool program_soon_gone(pid_t pid);

/* Waits until the program has ended, and reaps it. Returns its exit status, or minus the signal that ended it. Ends
 * the test if the program does not end soon. */
int program_wait(struct program *program);

/* Everything it has written so far; valid until the next call. On a terminal both functions return the same text. */
const char *program_output(struct program *program);
const char *program_errors(struct program *program);

/* Waits until its output, or its errors, contain the text. Returns false if they do not soon. */
bool program_says(struct program *program, const char *text);
/* The same; then returns the number that follows the text. */
int program_number(struct program *program, const char *text);
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

/* --- Checks. Each fails the test, and shows what the program has written, unless what it says holds. (Check has a limit
 * for the length of a message.) --- */

/* It exits with the status; minus N means signal N. Returns the program. */
#define program_exits(program, status) program_ends(__FILE__, __LINE__, program, status)
struct program *program_ends(const char *file, int line, struct program *program, int status);

/* SIGTERM ends it, and the command that it runs. */
#define program_terminates(which)                                                                                      \
    do {                                                                                                               \
        struct program *program_terminating = (which);                                                                 \
        program_signal(program_terminating, SIGTERM);                                                                  \
        program_exits(program_terminating, 128 + SIGTERM);                                                             \
    } while (0)

/* Its output, or its errors, contain the text now, or soon. */
#define program_has(which, written, text)                                                                              \
    do {                                                                                                               \
        const char *program_written = written(which);                                                                  \
        ck_assert_msg(strstr(program_written, text) != NULL, "'%s' is not in: %.4000s", text, program_written);        \
    } while (0)
#define program_output_has(which, text)  program_has(which, program_output, text)
#define program_errors_have(which, text) program_has(which, program_errors, text)
#define program_shows(which, text)                                                                                     \
    do {                                                                                                               \
        struct program *program_showing = (which);                                                                     \
        ck_assert_msg(program_says(program_showing, text), "not shown: '%s', but: %.3000s%.3000s", text,               \
                      program_output(program_showing), program_errors(program_showing));                               \
    } while (0)

#endif
