/* Starting the user's command. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

struct cli_child {
    char **argv; /* argv[0] is looked for in PATH */
    char **environment;
    int terminal;      /* -1, or the descriptor of a terminal that its process group is given the foreground of */
    bool own_group;    /* in a process group of its own */
    int parent_signal; /* what it gets when the thread that starts it is gone; 0: nothing */
    void (*announce)(void *arg); /* in the child, in its group, before it is executed or could not be; NULL: nothing */
    void *arg;
};

/*
 * Starts it with all signals unblocked and at their defaults (what was ignored when redlock began stays ignored, as
 * nohup(1) needs it). Only functions that a forked child of a process with threads may use are used in it. Returns its
 * process, or -1 when it could not be executed: *exit_status is CLI_NOT_FOUND, CLI_NOT_EXECUTABLE or CLI_SYSTEM then,
 * and the reason has been said.
 */
pid_t cli_child_start(const struct cli_child *child, int *exit_status);

/* Its exit status as a shell has it: 128 and the signal. From waitpid(2)'s. */
int cli_child_exit(int wait_status);

/* Was it ignored when redlock began? CMD begins with it ignored, too. */
bool cli_child_ignores(int number);

/* Remembers which signals are ignored; to be called before any disposition is changed. */
void cli_child_note_signals(void);

#endif
