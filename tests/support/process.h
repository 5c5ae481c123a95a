/* Child processes for fixtures: never outlive the test, never disturb its signals or its own children.
 *
 * The end of a child is seen on a pipe that only the child holds, so neither SIGCHLD nor waitpid(-1) of the program under
 * test (libev's default loop reaps every child) matters. */
#ifndef TESTS_SUPPORT_PROCESS_H
#define TESTS_SUPPORT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid; /* 0: none */
    int alive; /* end of file: it has ended; -1: none */
};

struct process_options {
    char *const *argv;     /* argv[0] is looked for in PATH */
    const char *directory; /* to work in; NULL: as here */
    const char *output;    /* file its standard output and error go to; NULL: /dev/null */
    int input;             /* its standard input; 0 or -1: /dev/null */
    bool detached;         /* in a session of its own and not killed with the test */
};

/* false and errno when it cannot be started. Unless detached it is killed when the thread that started it ends. In a
 * process group of its own: when the shell of a test in the background ends, the kernel hangs up each group in which a
 * process is stopped and that has no parent in the session any more. */
bool process_start(struct process *process, const struct process_options *options);

bool process_running(const struct process *process);
void process_signal(const struct process *process, int signal);

/* Waits until it has ended and reaps it; false when the time is over. */
bool process_wait(struct process *process, uint64_t deadline_ns);

/* SIGKILL, and waits for the end. */
void process_kill(struct process *process);

/* Forgets a process that another process started: closes what this one holds of it. */
void process_forget(struct process *process);

/* Has SIGSTOP taken effect? */
bool process_stopped(const struct process *process);

#endif
