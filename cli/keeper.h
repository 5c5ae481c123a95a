/* A process of its own that holds a lock for as long as another process lives. */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include <redlock/redlock.h>

#include <sys/types.h>

struct cli_keeper {
    pid_t pid;
    int link; /* to it */
};

/*
 * Starts the keeper, which has nothing to keep so far and ends when this process does. To be called before there is a
 * client: a forked one is of no use. options: how the lock is to be held; resource and options must live until it is
 * handed over. loss_signal: 0, or what the process is sent when the lock is lost. CLI_OK, or the exit status; what went
 * wrong has been said.
 */
int cli_keeper_start(pid_t process, int loss_signal, const char *resource, const redlock_acquire_options *options,
                     struct cli_keeper *keeper);

/* Hands the lock over. CLI_OK: it is the keeper's, who ends it with the process; else the exit status, said. */
int cli_keeper_take(struct cli_keeper *keeper, const char *token);

/* Ends it, and the lock if it has one. Does nothing when none was started (pid 0). */
void cli_keeper_end(struct cli_keeper *keeper);

#endif
