/*
 * Reads histories and checks that the guarantees were kept:
 *
 *   exclusion   While a lock's validity query has promised the lock to one client, no other client's query promises the
 *               same resource. The interval begins with `held` and ends with the latest promise, or earlier when its
 *               release began or its loss was reported.
 *   fencing     Tokens of a resource are never equal. If a lock is acquired after another was held, its token is
 *               larger.
 *   told        The loss of a lock is reported within the tolerance after its end. Time in which the process did not
 *               run is not counted.
 *   bounded     An acquire ends by its deadline, with the same allowance.
 *   nothing     No key remains at the end.
 */
#ifndef TORTURE_CHECK_H
#define TORTURE_CHECK_H

#include "history.h"

#include <stdio.h>

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
bool check_line(struct check *check, const char *text);
bool check_file(struct check *check, const char *path);

/* Call this after the last line. Prints each violation to `out` (NULL: prints nothing). */
struct check_summary check_all(struct check *check, FILE *out);

#endif
