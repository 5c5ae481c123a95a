/* Programs under test, mostly redlock(1), driven as a user drives them: by arguments, environment, signals and a
 * terminal.
 *
 * Standard output and error are kept in memory and may be read while the program runs. The programs are killed at
 * the end of the test, or when the test ends early. Their environment is the test's without HOME and without
 * variables that begin with REDLOCK or XDG. redlock is the one of this build, or another one that REDLOCK_TEST_PROGRAM
 * names. */
#ifndef TESTS_COMMAND_PROGRAM_H
#define TESTS_COMMAND_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

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

/* Starts bash(1) with this line, in which $R is redlock. */
struct program *program_start(const char *line);
/* Starts redlock with the words of a line. bash(1) splits it, so it may contain quotes. Words NAME=value before the
 * others are added to the environment. */
struct program *program_start_redlock(const char *words);

/* Kills all programs and frees them. The texts that they returned become invalid. */
void programs_end(void);

pid_t program_pid(const struct program *program);
/* The children of a process, oldest first, up to `most`. Returns their number; the others become 0. */
size_t program_children(pid_t parent, pid_t *children, size_t most);
/* The first of them; 0 if it has none. */
pid_t program_child(pid_t parent);
/* Whether no process has this PID. */
bool program_is_gone(pid_t pid);

/* Whether the program has ended; it is reaped then. */
bool program_has_ended(struct program *program);
/* The exit status of a program that has ended, or minus the signal that ended it. */
int program_status(const struct program *program);

/* Everything it has written so far; valid until the next call. On a terminal both functions return the same text. */
const char *program_output(struct program *program);
const char *program_errors(struct program *program);

/* Types keys on its terminal. */
void program_type(struct program *program, const char *keys);
/* Closes the terminal, as when its window is closed. */
void program_hang_up(struct program *program);
/* The foreground process group of its terminal. */
pid_t program_foreground(const struct program *program);

#endif
