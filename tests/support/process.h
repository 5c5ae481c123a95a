/* Child processes for fixtures. They never outlive the test, and never disturb its signals or its other children.
 *
 * The end of a child is detected by a pipe that only the child holds. So SIGCHLD and waitpid(-1) of the program
 * under test (libev's default loop reaps every child) do not matter. */
#ifndef TESTS_SUPPORT_PROCESS_H
#define TESTS_SUPPORT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid; /* 0: none */
    int alive; /* end of file when the child has ended; -1: none */
};

struct process_options {
    char *const *argv;     /* argv[0] is searched in PATH */
    const char *directory; /* working directory; NULL: the current one */
    const char *output;    /* file for its standard output and error; NULL: /dev/null */
    int input;             /* its standard input; 0 or -1: /dev/null */
    bool detached;         /* in a separate session, and not killed with the test */
};

/* Returns false and sets errno if it cannot be started. Unless detached, it is killed when the thread that started
 * it ends. It gets its own process group: when the shell of a test in the background ends, the kernel sends SIGHUP
 * to each group that has a stopped process and no parent left in the session. */
bool process_start(struct process *process, const struct process_options *options);

bool process_running(const struct process *process);
void process_signal(const struct process *process, int signal);

/* Waits until it has ended, and reaps it. Returns false if the time is over. */
bool process_wait(struct process *process, uint64_t deadline_ns);

/* Sends SIGKILL and waits for the end. */
void process_kill(struct process *process);

/* True if SIGSTOP has taken effect. */
bool process_stopped(const struct process *process);
/* As /proc shows it: 'S' for one that sleeps, 'Z' for a zombie; 0: there is none with this PID. */
char process_state(pid_t pid);
/* There is none with this PID, or a zombie. */
bool process_has_ended(pid_t pid);

#endif
