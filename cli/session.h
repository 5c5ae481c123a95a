/* A command's client: connect, acquire with a status line, handle interrupts. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "command.h"
#include "message.h"

#include <redlock/redlock.h>

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Creates a client from the settings (blocking API), which leaves its locks on the nodes when it is closed, or releases
 * them. CLI_OK, or the exit status after a message. */
int cli_connect(redlock_client **client, bool leaves_locks);

/* Closes it; with --verbose prints the unconfirmed requests. *client may be NULL. */
void cli_close(redlock_client **client);

/* Whether the node is in quarantine, and grants locks when that ends, by itself or by redlock trust. */
bool cli_quarantine_ends(const redlock_node_status *node);

/* The options that run and acquire share, as the command line gives them; and the rows of their tables that are alike. */
enum { CLI_NOT_GIVEN = -1 };
struct cli_given {
    int64_t wait_ms; /* REDLOCK_FOREVER: not given; otherwise it also waits while too few nodes are reachable */
    bool no_wait;
    int64_t ttl_ms;
    int64_t cap_ms;
    int64_t at_least_ms;
    bool fence;
    struct cli_number conflict; /* exit status if the lock is not acquired; 0: that is no news, say nothing about it */
};
extern struct cli_given cli_given;
/* clang-format off */
#define CLI_WAIT_OPTIONS                                                                                    \
    {'w', "wait", "TIME", "wait for the lock for up to this long; default: while it is held",               \
     .duration_ms = &cli_given.wait_ms},                                                                    \
    {'n', "no-wait", NULL, "do not wait: give up if the lock is held", .flag = &cli_given.no_wait},         \
    {'E', "conflict-exit-code", "NUMBER", "exit status if the lock is not acquired (1); 0: also silently",  \
     .number = &cli_given.conflict}
/* clang-format on */

/* How to acquire. */
struct cli_acquire {
    const char *resource;
    redlock_acquire_options options; /* cancellation is set by cli_acquire() */
};

/* Checks the options that were given, loads the settings, and sets those of `how` by both. CLI_OK, or the exit status
 * after a message. */
int cli_acquire_prepare(struct cli_acquire *how);

/*
 * Acquires, with a status line on a terminal, or a line when a wait begins and one when it ends. Refuses to wait for a
 * lock of the redlock run that started this process: CLI_USAGE. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and
 * SIGALRM end the wait: the result is then REDLOCK_CANCELLED, nothing is left on the nodes, and the caller calls
 * cli_interrupt_again() when everything is closed. From the first call on these signals only set a flag. Returns CLI_OK,
 * or the exit status after a message; without one after a signal.
 */
int cli_acquire(redlock_client *client, const struct cli_acquire *how, redlock_lock **lock, redlock_result *result);

/* The end of the lock's validity on cli_now_ms()'s clock, never too late; 0: it is lost. */
int64_t cli_end_of_validity(const redlock_lock *lock);

/* Ends an acquire, present or later, as a signal does. For signal handlers. */
void cli_acquire_stop(void);

/* Signals whose default action would end the process, and leave a lock or a waiter on the nodes. */
sigset_t cli_interrupts(void);

/* From here on these signals set a flag that ends an acquire, present or later. */
void cli_interrupts_catch(void);

/* From here on they stay pending: none has an effect any more. */
void cli_interrupts_block(void);

/* The signal that arrived; 0: none yet. */
int cli_interrupted(void);

/* Acts as if this signal had arrived. */
void cli_interrupt_with(int number);

/* Ends the process by the signal that arrived, as its sender expects; returns if none did. */
void cli_interrupt_again(void);

#endif
