/*
 * Reads histories, of real clients (tests/torture) or of simulated ones, and checks that the guarantees were kept:
 *
 *   exclusion   While a lock's validity query has promised the lock to one client, no other client's query promises the
 *               same resource, unless both are readers or a semaphore has enough permits. The interval begins with `held`
 *               and ends with the latest promise, or earlier when its release began or its loss was reported. A release
 *               may keep the lock until the end of its at_least_ms.
 *   fencing     Tokens of a resource are never equal. If an acquire begins after another's token is known, its token is
 *               larger. A reader is told the last token or a larger one.
 *   told        The loss of a lock is reported within the tolerance after its end. Time in which the process did not
 *               run is not counted.
 *   bounded     An acquire ends by its deadline, with the same allowance.
 *   nothing     No key remains at the end.
 */
#ifndef TORTURE_CHECK_H
#define TORTURE_CHECK_H

#include "history.h"

#include <stddef.h>

struct check;

enum check_promise { CHECK_EXCLUSION, CHECK_FENCING, CHECK_TOLD, CHECK_BOUNDED, CHECK_NOTHING, CHECK_PROMISES };

extern const char *const check_promise_names[CHECK_PROMISES];

struct check_summary {
    size_t holds;    /* locks that were held */
    size_t attempts; /* acquires */
    size_t losses;
    size_t fences;
    size_t faults;
    uint64_t latest_told_us;
    uint64_t median_told_us;
    size_t violations[CHECK_PROMISES];
    uint64_t begin;
    uint64_t end;
};

/* told_ms: how late a loss may be reported; bound_ms: by how much an acquire may exceed its wait. */
struct check *check_new(unsigned told_ms, unsigned bound_ms);
void check_free(struct check *check);

/* Adds one line, or a file of lines. Returns false if it is no history (the last line of a file may be cut). The
 * lines of one WHO must be in order; lines of different clients may come in any order. */
bool check_add(struct check *check, const struct history_line *line);
bool check_line(struct check *check, const char *text);
bool check_file(struct check *check, const char *path);

/* Call this after the last line. Reports each violation, with its time in ns. */
typedef void check_report(void *arg, enum check_promise which, uint64_t time, const char *text);
struct check_summary check_all(struct check *check, check_report *report, void *arg);

#endif
