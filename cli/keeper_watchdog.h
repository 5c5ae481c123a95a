/*
 * The second process of a keeper. If the keeper is killed, or stopped until the lock's validity has ended, the watchdog
 * sends the loss signal to the process for which the lock is held. The keeper replaces a watchdog that is killed.
 */
#ifndef CLI_KEEPER_WATCHDOG_H
#define CLI_KEEPER_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli_keeper_shared; /* shared memory */

struct cli_keeper_watchdog {
    pid_t pid;          /* 0: none */
    int link;           /* closed when the keeper ends */
    int process;        /* pidfd of the process that gets the signal */
    int loss_signal;    /* 0: none, and no watchdog */
    int64_t started_ms; /* when the last one was started, on cli_now_ms()'s clock */
    struct cli_keeper_shared *shared;
};

/* Call it when the keeper holds the lock, with its end of validity on cli_now_ms()'s clock. False: see errno. */
bool cli_keeper_watchdog_start(struct cli_keeper_watchdog *watchdog, int process, int loss_signal, int64_t valid_until);

/* Publishes a new end of validity. */
void cli_keeper_watchdog_prolong(struct cli_keeper_watchdog *watchdog, int64_t valid_until);

/* Replaces a watchdog that has ended; after a pause if it had just been started, because it may end at once for lack of
 * memory or descriptors. Call it on SIGCHLD, and after cli_keeper_watchdog_wake_ms(). */
void cli_keeper_watchdog_renew(struct cli_keeper_watchdog *watchdog);

/* How long the keeper may sleep until the watchdog needs to be replaced or needs a new end of validity; -1: no
 * limit. */
int cli_keeper_watchdog_wake_ms(const struct cli_keeper_watchdog *watchdog, int64_t validity_ms);

/* Sends the loss signal, unless the watchdog has done so. */
void cli_keeper_watchdog_signal_loss(struct cli_keeper_watchdog *watchdog);

/* Ends the watchdog: no loss signal will be needed. */
void cli_keeper_watchdog_end(struct cli_keeper_watchdog *watchdog);

#endif
