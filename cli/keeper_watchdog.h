/*
 * The second process of a keeper: when the keeper is killed, or stopped until the lock's validity is over, the watchdog
 * signals the loss to the process that the lock is kept for. A watchdog that is killed is replaced.
 */
#ifndef CLI_KEEPER_WATCHDOG_H
#define CLI_KEEPER_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli_keeper_shared; /* memory of both processes */

struct cli_keeper_watchdog {
    pid_t pid;          /* 0: none */
    int link;           /* its other end breaks when the keeper ends */
    int process;        /* a pidfd: of the process that is signalled */
    int loss_signal;    /* 0: no loss is signalled, and there is no watchdog */
    int64_t started_ms; /* when the last one was started, on cli_now_ms()'s clock */
    struct cli_keeper_shared *shared;
};

/* To be called when the keeper holds the lock, until valid_until on cli_now_ms()'s clock. False: errno. */
bool cli_keeper_watchdog_start(struct cli_keeper_watchdog *watchdog, int process, int loss_signal, int64_t valid_until);

/* The lock is valid until this moment. */
void cli_keeper_watchdog_prolong(struct cli_keeper_watchdog *watchdog, int64_t valid_until);

/* If the watchdog has ended, starts another one; after a pause where the last one has just been started, because it may
 * end at once for want of memory or descriptors. To be called on SIGCHLD, and as cli_keeper_watchdog_wake_ms() says. */
void cli_keeper_watchdog_renew(struct cli_keeper_watchdog *watchdog);

/* How long the keeper may sleep before the watchdog has to be renewed or told of a new end of validity; -1: for as long
 * as it likes. */
int cli_keeper_watchdog_wake_ms(const struct cli_keeper_watchdog *watchdog, int64_t validity_ms);

/* Signals the loss, unless the watchdog has done so. */
void cli_keeper_watchdog_signal_loss(struct cli_keeper_watchdog *watchdog);

/* Ends the watchdog: there is no loss to be signalled any more. */
void cli_keeper_watchdog_end(struct cli_keeper_watchdog *watchdog);

#endif
