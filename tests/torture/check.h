/*
 * Reads histories and says whether what was promised was kept:
 *
 *   exclusion   while a lock's validity query has promised it, nobody else's has for the same resource: [held, the
 *               latest promise, or earlier: its release began, it was told to be lost]
 *   fencing     tokens of a resource are never equal, and one that was acquired after another was held is larger
 *   told        a lock that ends is told to be lost within the tolerance of its end, but for what the process did not
 *               run
 *   bounded     an acquire ends by its deadline, with the same allowance
 *   nothing     no key is left at the end
 */
#ifndef TORTURE_CHECK_H
#define TORTURE_CHECK_H

#include "history.h"

#include <stdio.h>

struct check;

struct check_terms {
    unsigned told_ms;  /* how late a loss may be told */
    unsigned bound_ms; /* how far beyond its wait an acquire may end */
};

/* One lock from its acquire to its end. Times 0: it did not happen. */
struct check_hold {
    char who[16];
    char resource[16];
    unsigned hold;
    uint64_t started;
    int64_t wait_ms;
    uint64_t answered; /* the acquire ended */
    uint64_t held;     /* when it was first known to be valid */
    uint64_t promised; /* until when, by the latest answer */
    uint64_t released; /* when the release began */
    uint64_t lost;     /* when it was told */
    char why[64];
    int64_t fence;
    bool violates;
};

struct check_fault {
    char what[64];
    unsigned target;
    uint64_t begin;
    uint64_t end;
};

enum check_promise { CHECK_EXCLUSION, CHECK_FENCING, CHECK_TOLD, CHECK_BOUNDED, CHECK_NOTHING, CHECK_PROMISES };

struct check_summary {
    size_t holds;    /* locks that were held */
    size_t attempts; /* acquires */
    size_t losses;
    size_t fences;
    size_t faults;
    size_t clients; /* that held at least one */
    uint64_t latest_told_us;
    uint64_t median_told_us;
    size_t violations[CHECK_PROMISES];
    uint64_t begin;
    uint64_t end;
};

extern const char *const check_promise_names[CHECK_PROMISES];

struct check *check_new(const struct check_terms *terms);
void check_free(struct check *check);

/* A line, or a file of them; false: it is no history (the last line of a file may be cut). Lines of one WHO in their
 * order; else in any. */
bool check_line(struct check *check, const char *text);
bool check_file(struct check *check, const char *path);

/* After the last line. Says each violation on `out` (NULL: silently). */
struct check_summary check_all(struct check *check, FILE *out);

/* For a report; after check_all(). */
size_t check_holds(const struct check *check, const struct check_hold **holds);
size_t check_faults(const struct check *check, const struct check_fault **faults);
/* Until when the lock was promised, its release and loss allowed for. */
uint64_t check_hold_end(const struct check_hold *hold);

#endif
