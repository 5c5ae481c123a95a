/* A command's client: connect, acquire with a status line, handle interrupts. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "message.h"

#include <redlock/redlock.h>

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Creates a client from the settings (blocking API). CLI_OK, or the exit status after a message. */
int cli_connect(redlock_client **client);

/* The same, for a client that leaves its locks on the nodes when it is closed. */
int cli_connect_to_leave(redlock_client **client);

/* Closes it; with --verbose prints the unconfirmed requests. *client may be NULL. */
void cli_close(redlock_client **client);

/* Whether the node is in quarantine, and grants locks when that ends, by itself or by redlock trust. */
bool cli_quarantine_ends(const redlock_node_status *node);

/* How to acquire. */
struct cli_acquire {
    const char *resource;
    int64_t wait_ms;                 /* 0: try once; otherwise the longest wait; REDLOCK_FOREVER */
    bool insists;                    /* the user gave a wait: also wait while too few nodes are reachable */
    bool skips;                      /* a lock that is held is no news: say nothing about it */
    redlock_acquire_options options; /* wait_ms and cancellation are set by cli_acquire() */
};

/* "'a'", "'a' and 'b'" or "'a' and 3 more", for messages. Returns buffer. */
enum { CLI_NAMES_SIZE = 2 * CLI_QUOTED_SIZE };
const char *cli_acquire_names(const struct cli_acquire *how, char buffer[CLI_NAMES_SIZE]);

/* Queries the nodes for the first resource that is not free, or the first of all. state, result: of that resource. */
const char *cli_acquire_obstacle(redlock_client *client, const struct cli_acquire *how, redlock_state *state,
                                 redlock_result *result);

/*
 * Acquires, with a status line on a terminal, or a line when a wait begins and one when it ends. Refuses to wait for a
 * lock of the redlock run that started this process: CLI_USAGE. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGALRM end the
 * wait: the result is then REDLOCK_CANCELLED, nothing is left on the nodes, and the caller calls cli_interrupt_again()
 * when everything is closed. From the first call on these signals only set a flag. Returns CLI_OK, or the exit status
 * after a message; without one after a signal.
 */
int cli_acquire(redlock_client *client, const struct cli_acquire *how, redlock_lock **lock, redlock_result *result);

/* The end of the lock's validity on cli_now_ms()'s clock, never too late; 0: it has ended. */
int64_t cli_end_of_validity(const redlock_lock *lock);

/* Ends an acquire, present or later, as a signal does. For signal handlers. */
void cli_acquire_stop(void);

/* Ignores SIGPIPE from here on: an operation on the nodes must finish even if standard error is closed. */
void cli_outlive_readers(void);

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
