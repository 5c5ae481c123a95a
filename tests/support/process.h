/* Child processes for fixtures. They never outlive the test, and never disturb its signals or its other children.
 *
 * The end of a child is read from /proc. So SIGCHLD and waitpid(-1) of the program under test (libev's default loop reaps
 * every child) do not matter, and each process may ask for the children of another. */
#ifndef TESTS_SUPPORT_PROCESS_H
#define TESTS_SUPPORT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid; /* 0: none */
};

/* Starts argv[0], which is searched in PATH, with a file for its standard output and error; NULL: /dev/null. A program that
 * cannot be run says so in its output, and ends at once. It is killed when the thread that started it ends.
 * It gets its own process group: when the shell of a test in the background ends, the kernel sends SIGHUP to each group
 * that has a stopped process and no parent left in the session. */
void process_start(struct process *process, char *const *argv, const char *output_file);

bool process_running(const struct process *process);
/* SIGSTOP and SIGCONT have taken effect on its main thread when it returns. */
void process_signal(const struct process *process, int signal);

/* Waits until it has ended, and reaps it. Returns false if the time is over. */
bool process_wait(struct process *process, uint64_t deadline_ns);

/* Sends SIGKILL and waits for the end. */
void process_kill(struct process *process);

bool process_stopped(const struct process *process);
/* As /proc shows it: 'S' for one that sleeps, 'Z' for a zombie; 0: there is none with this PID. */
char process_state(pid_t pid);
/* There is none with this PID, or a zombie. */
bool process_has_ended(pid_t pid);

#endif
