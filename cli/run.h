/*
 * redlock run is two processes, and each watches over the other.
 *
 *   front    the one that the user started: it has his signals, his terminal and his exit status, and is the guardian
 *   holder   its child: it has the lock and is the parent of CMD, which has a process group of its own
 *
 * The end of validity is in memory that both have: the front may be stopped for so long that messages would not be
 * taken any more. The holder ends CMD's group in time when the lock ends, and when the front is dead. The front ends
 * the group when the holder is dead, or does not do it in time (it was stopped, say): so one of the two may be killed
 * at any moment. The front may be stopped at the terminal like any job, and the lock is renewed meanwhile.
 */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "session.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli_run {
    struct cli_acquire acquire;
    char **command;
    int64_t grace_ms;
    int64_t cap_ms;               /* 0: none */
    int not_obtained;             /* the exit status for that: -E */
    int terminal;                 /* -1, or the terminal; CMD gets the foreground if we have it */
    pid_t front;                  /* the front's process */
    pid_t front_group;            /* its process group */
    _Atomic int64_t *valid_until; /* of both processes: the holder writes, on cli_now_ms()'s clock */
};

/* So much validity beyond the grace is asked for: CMD is not started to be ended at once. */
enum { CLI_RUN_LEAST_MS = 200 };

/* What the holder tells the front, one message a packet: a few in its life, so that none is lost. */
enum cli_run_word {
    CLI_RUN_STARTED, /* CMD is about to run, or could not be: group, end */
    CLI_RUN_STOPPED, /* CMD was stopped by the terminal: signal */
    CLI_RUN_TOLD,    /* the group had its SIGTERM for the lock's sake */
    CLI_RUN_ENDED    /* nothing of the group is left; signal: what ended CMD, 0: none */
};

struct cli_run_message {
    enum cli_run_word word;
    int signal;
    pid_t group;
    int64_t end_ms; /* of validity */
};

/* The holder's life. Returns its exit status, which is redlock's. front: the other end is the front's. */
int cli_run_hold(const struct cli_run *run, int front);

/* The front's life with the holder. Returns the exit status, or ends by the signal that ended the waiting. */
int cli_run_guard(const struct cli_run *run, pid_t holder, int link);

#endif
