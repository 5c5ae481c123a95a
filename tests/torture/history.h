/*
 * The record of a torture run: one line per event, appended by one write(2), so that the lines of a killed process are
 * complete. Times are in nanoseconds of CLOCK_BOOTTIME, which all processes of the machine share. The simulator records
 * its worlds' locks in the same way, by their true time.
 *
 *   TIME WHO EVENT HOLD RESOURCE NUMBER TEXT
 *
 * WHO is a client ("b0.2": its process and thread) or "nemesis". HOLD numbers the attempts of one WHO. A missing value
 * is "-" or 0.
 *
 *   start    an acquire begins; NUMBER: its wait_ms, -1: no limit; TEXT: shared: a reader's; 1/4: one of a semaphore's
 *            four permits
 *   held     the acquire returned OK, and the query right after it, sent at TIME, returned NUMBER us of validity
 *   fence    NUMBER is the fencing token of the hold
 *   valid    a query sent at TIME returned NUMBER us
 *   release  the client is about to release the lock; NUMBER: its nodes keep it for so many us, until the end of its
 *            at_least_ms or of its validity
 *   released the release returned; NUMBER: a majority keeps it for so many us; TEXT: the status
 *   lost     the library reported the loss; TEXT: the reason, and the call or callback that reported it
 *   failed   the acquire ended without a lock; TEXT: the status
 *   stall    the process did not run for NUMBER ms until TIME, which is not the library's fault
 *   end      the client has closed; HOLD: its last one
 *
 *   begin    a fault begins; HOLD: the node's or the client's number; TEXT: its name
 *   finish   the fault ends
 *   left     keys remained on nodes at the end; TEXT: their names
 */
#ifndef TORTURE_HISTORY_H
#define TORTURE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

enum history_event {
    HISTORY_START,
    HISTORY_HELD,
    HISTORY_FENCE,
    HISTORY_VALID,
    HISTORY_RELEASE,
    HISTORY_RELEASED,
    HISTORY_LOST,
    HISTORY_FAILED,
    HISTORY_STALL,
    HISTORY_END,
    HISTORY_BEGIN,
    HISTORY_FINISH,
    HISTORY_LEFT,
    HISTORY_EVENTS
};

struct history_line {
    uint64_t time; /* ns */
    char who[16];
    enum history_event event;
    unsigned hold;
    char resource[16];
    int64_t number;
    char text[64];
};

uint64_t history_now(void);

/* Opens a history for appending. Returns the descriptor, or -1 and errno. */
int history_open(const char *path);
/* Returns false if the line could not be written. Any thread. */
bool history_write(int file, const struct history_line *line);

/* Returns false if the text is no line of a history. */
bool history_parse(const char *text, struct history_line *line);

#endif
