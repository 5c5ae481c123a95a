/*
 * redlock run is two processes, and the second is the child of the first; each is a subreaper:
 *
 *   front     the process that the user started: signals, terminal, exit status
 *   holder    holds the lock; the parent of CMD, which leads its own process group
 *
 * Each of them ends CMD's process tree in time if the lock ends and the other does not, because it was killed or
 * stopped. If one is killed, the command is ended with the usual grace. The end of validity is in shared memory: a
 * stopped process reads no messages. The front may be stopped at the terminal like any job, and the holder renews the
 * lock meanwhile.
 */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cgroup.h"
#include "session.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Memory that the two processes share. */
struct cli_run_shared {
    _Atomic int64_t valid_until; /* on cli_now_ms()'s clock; written by the holder */
    _Atomic int64_t walk_ms;     /* how long it took to send SIGTERM to the tree: SIGKILL takes as long */
    atomic_bool terminated;      /* the tree got SIGTERM or SIGKILL, and no renewal came after it */
    atomic_bool paused;   /* the front stops at the terminal, and the holder, which waits for the lock, with it */
    atomic_bool lost;     /* CMD was ended because of the lock, or ran without it at its end */
    atomic_bool outlived; /* a process of CMD lived when the validity had ended */
    atomic_int loss;      /* enum redlock_loss, if the client reported one */
};

struct cli_run {
    struct cli_acquire acquire;
    char **command;
    const char *on_lost; /* a shell command; NULL: none */
    int64_t grace_ms;
    bool leave;        /* the lock is released when CMD exits, and processes that it has left run on */
    int terminal;      /* the terminal, -1: none; CMD gets the foreground if we have it */
    bool in_pipeline;  /* CMD gets it when it first needs it: other programs of the job may read the terminal */
    pid_t front;       /* the front's process */
    pid_t front_group; /* its process group */
    char cgroup[CLI_CGROUP_SIZE]; /* CMD's control group; "": none */
    struct cli_run_shared *shared;
    struct cli_process *strangers; /* children that redlock did not start, but a shell that executed it */
    size_t stranger_count;
};

/* The minimum validity beyond the grace: CMD must not start only to be ended at once. */
enum { CLI_RUN_LEAST_MS = 200 };

/* The holder's messages to the front, one per packet; so few that none is lost. */
enum cli_run_word {
    CLI_RUN_STARTED, /* CMD is about to run, or failed to: group */
    CLI_RUN_STOPPED, /* CMD was stopped by the terminal: signal */
    CLI_RUN_ENDED    /* the tree is empty; signal: the one that ended CMD, 0: none */
};

struct cli_run_message {
    enum cli_run_word word;
    int signal;
    pid_t group;
};

/* Runs the holder, in a child of the front. front: its end of the link to the front. */
_Noreturn void cli_run_hold(const struct cli_run *run, int front);

/* Starts the holder and runs the front. Returns the exit status, or ends by the signal that ended the wait. */
int cli_run_guard(struct cli_run *run);

/* For both: sends SIGTERM to the tree, unless the other has done so, and measures how long that takes. */
struct cli_tree;
void cli_run_terminate(const struct cli_run *run, const struct cli_tree *tree);

/* For both: sends SIGKILL to it. */
void cli_run_kill(const struct cli_run *run, const struct cli_tree *tree);

/* For both, when no process of the tree is left. */
void cli_run_note_end(const struct cli_run *run);

#endif
