/* Starts the user's command. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

struct cli_child {
    char **argv; /* argv[0] is searched in PATH */
    char **environment;
    int terminal;                /* a terminal whose foreground the process group gets; -1: none */
    bool own_group;              /* in a new process group */
    int parent_signal;           /* sent to it when the thread that started it ends; 0: none */
    void (*announce)(void *arg); /* called in the child, in its group, before exec; may be NULL */
    void *arg;
};

/*
 * Starts it with all signals unblocked and at their defaults (signals ignored at redlock's start stay ignored, for
 * nohup(1)). The child calls only async-signal-safe functions. Returns its PID, or -1 if it could not be executed,
 * after a message; *exit_status is then CLI_NOT_FOUND, CLI_NOT_EXECUTABLE or CLI_SYSTEM.
 */
pid_t cli_child_start(const struct cli_child *child, int *exit_status);

/* Converts waitpid(2)'s status to a shell's exit status: 128 + signal. */
int cli_child_exit(int wait_status);

/* Whether the signal was ignored at redlock's start. CMD starts with it ignored too. */
bool cli_child_ignores(int number);

/* Records the ignored signals. Call it before any disposition changes. */
void cli_child_note_signals(void);

#endif
