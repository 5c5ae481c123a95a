/*
 * What a torture run writes down while it runs: one line per event, appended by one write(2), so that what a killed
 * process has written stays whole. Times are nanoseconds of CLOCK_BOOTTIME, one clock for all processes of the machine.
 *
 *     TIME WHO EVENT HOLD RESOURCE NUMBER TEXT
 *
 * WHO is a client ("b0.2": its process and thread) or "nemesis". HOLD numbers the attempts of one WHO. What is missing
 * is "-" or 0.
 *
 *     start    an acquire begins; NUMBER: its wait_ms
 *     held     it has answered OK, and the query right after it, asked at TIME, NUMBER ms of validity
 *     fence    the fencing token NUMBER of the hold
 *     valid    a query asked at TIME answered NUMBER ms
 *     release  it is about to be released
 *     released TEXT: the status
 *     lost     it was told that it is lost; TEXT: why, and by what
 *     failed   the acquire ended without a lock; TEXT: the status
 *     stall    the process did not run for NUMBER ms until TIME: not the library's fault
 *     end      the client has closed, and was told NUMBER unconfirmed undos
 *
 *     begin    a fault begins; HOLD: the node, or the client's number; TEXT: which
 *     finish   it ends
 *     left     a key was left on node HOLD at the end; TEXT: its name
 *     note     TEXT
 */
#ifndef TORTURE_HISTORY_H
#define TORTURE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
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
    HISTORY_NOTE,
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

/* A descriptor to append to; -1 and errno. */
int history_open(const char *path);
/* false: it could not be written. Any thread. */
bool history_write(int file, const struct history_line *line);

/* false: it is no line of a history. */
bool history_parse(const char *text, struct history_line *line);

#endif
