/* A command's dealings with the nodes: connecting, acquiring with a line that shows the waiting, being interrupted. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "message.h"

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stdint.h>

/* Makes the client that the settings describe (blocking face). CLI_OK, or an exit status; what is wrong has been said
 * then. */
int cli_connect(redlock_client **client);

/* The same, of a client whose locks stay on the nodes when it is closed. */
int cli_connect_to_leave(redlock_client **client);

/* Closes it; with --verbose tells what could not be confirmed. *client may be NULL. */
void cli_close(redlock_client **client);

/* How to acquire. */
struct cli_acquire {
    const char *resource;
    int64_t wait_ms; /* 0: try once; REDLOCK_FOREVER; else for so long */
    bool insists;    /* the wait was asked for in so many words: it goes on while too few nodes can be reached, too */
    redlock_acquire_options options; /* all else; its wait_ms and cancellation are set here */
};

/* "'a'", "'a' and 'b'" or "'a' and 3 more", for messages. Returns buffer. */
enum { CLI_NAMES_SIZE = 2 * CLI_QUOTED_SIZE };
const char *cli_acquire_names(const struct cli_acquire *how, char buffer[CLI_NAMES_SIZE]);

/* Asks the nodes what is in the way: the first of the resources that they show as not free, or the first of all. state,
 * result: what they show of it. */
const char *cli_acquire_obstacle(redlock_client *client, const struct cli_acquire *how, redlock_state *state,
                                 redlock_result *result);

/*
 * Acquires, and shows on a terminal what it is waiting for. SIGINT, SIGTERM and SIGHUP end the waiting: the result is
 * REDLOCK_CANCELLED then, nothing is left on the nodes, and cli_interrupt_again() is to be called when all is closed.
 * From the first call on these signals only set a flag. Returns CLI_OK, or the exit status; what went wrong has been
 * said, unless it was a signal.
 */
int cli_acquire(redlock_client *client, const struct cli_acquire *how, redlock_lock **lock, redlock_result *result);

/* What is begun on the nodes is brought to its end though nobody reads what is said of it any more: SIGPIPE is ignored
 * from here on. */
void cli_outlive_readers(void);

/* From here on SIGINT, SIGTERM and SIGHUP set a flag that ends an acquire, present or later. */
void cli_interrupts_catch(void);

/* The signal that came, 0: none yet. */
int cli_interrupted(void);

/* As if this signal had come. */
void cli_interrupt_with(int number);

/* Ends the process by the signal that came, as its sender expects; returns if none came. */
void cli_interrupt_again(void);

#endif
