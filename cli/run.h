/*
 * redlock run is three processes, each the child of the one before, and each a subreaper:
 *
 *   front     the process that the user started: signals, terminal, exit status
 *   watchdog  only watches the other two
 *   holder    holds the lock; the parent of CMD, which leads its own process group
 *
 * Each of them ends CMD's process tree in time if the lock ends and the others do not, because they were killed or
 * stopped. So any two of the three may be killed or stopped at any moment. If one is killed, the command is ended with
 * the usual grace. The end of validity is in shared memory: a stopped process reads no messages. The front may be
 * stopped at the terminal like any job, and the holder renews the lock meanwhile.
 */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "session.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Memory that the three processes share. */
struct cli_run_shared {
    _Atomic int64_t valid_until; /* on cli_now_ms()'s clock; written by the holder */
    atomic_int group;            /* CMD's process group; 0: CMD has not started, or the tree is empty */
    atomic_bool terminated;      /* the tree got SIGTERM, and no renewal came after it */
    atomic_bool lost;            /* CMD was ended because of the lock, or ran without it at its end */
    atomic_int loss;             /* enum redlock_loss, if the client reported one */
};

struct cli_run {
    struct cli_acquire acquire;
    char **command;
    const char *on_lost; /* a shell command; NULL: none */
    int64_t grace_ms;
    int64_t cap_ms;    /* 0: none */
    int not_obtained;  /* exit status if the lock is not acquired: -E */
    int terminal;      /* the terminal, -1: none; CMD gets the foreground if we have it */
    bool in_pipeline;  /* CMD gets it when it first needs it: other programs of the job may read the terminal */
    pid_t front;       /* the front's process */
    pid_t front_group; /* its process group */
    pid_t watchdog;    /* set in the watchdog and the holder */
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

/* The watchdog's reports to the front: first the holder's PID, then its exit status. */
struct cli_run_report {
    pid_t holder;
    bool ended;
    int status; /* from waitpid(2) */
};

/* The front's descriptors of the other two. */
struct cli_run_links {
    int holder;
    int watchdog;
};

/* Runs the holder. Returns its exit status, which is redlock's. front: its end of the link to the front. */
int cli_run_hold(const struct cli_run *run, int front);

/* Runs the watchdog, which starts the holder. ends: of the links to the front, as in cli_run_links. */
_Noreturn void cli_run_watch(struct cli_run *run, const struct cli_run_links *ends);

/* Runs the front. Returns the exit status, or ends by the signal that ended the wait. */
int cli_run_guard(const struct cli_run *run, pid_t watchdog, const struct cli_run_links *links);

#endif
