/* A background process that holds a lock while another process lives. */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include <redlock/redlock.h>

#include <stdbool.h>
#include <sys/types.h>

struct cli_keeper {
    pid_t pid;     /* 0: none */
    int link;      /* socket to it */
    pid_t process; /* for which it holds the lock */
};

/*
 * Starts the keeper. It has no lock yet. Until it gets one it ends with this process, and with the process that the
 * lock is for; its end stops an acquire (cli_acquire_stop()). Call it before the client is created: a client cannot be
 * used after a fork. options: of the lock; resource and options must live until cli_keeper_take(). loss_signal: sent to
 * the process when the lock is lost; 0: none. Returns CLI_OK, or the exit status after a message.
 */
int cli_keeper_start(pid_t process, int loss_signal, const char *resource, const redlock_acquire_options *options,
                     struct cli_keeper *keeper);

/* Passes the lock to the keeper, which releases it when the process ends. CLI_OK, or the exit status after a
 * message. */
int cli_keeper_take(struct cli_keeper *keeper, const char *token);

/* Whether it has ended without a lock, after a message. */
bool cli_keeper_has_ended(struct cli_keeper *keeper);

/* Ends it, and its lock if it has one. Does nothing if none was started (pid 0). */
void cli_keeper_end(struct cli_keeper *keeper);

#endif
