/* Contenders for one lock: runs bench-contend, and holds its figures or those of a peer's worker. */
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include <stdbool.h>

#include "estimate.h"
#include "process.h"

enum { CONTEST_ROUNDS_MAX = 8 };

enum contest_figure {
    CONTEST_RATE,
    CONTEST_HAND_OFFS,
    CONTEST_HAND_OVER,
    CONTEST_WAIT_P50,
    CONTEST_WAIT_P99,
    CONTEST_RUNNING_P99, /* minus the time in which the machine stopped */
    CONTEST_WAIT_WORST,
    CONTEST_STOOD_STILL,
    CONTEST_JAIN,
    CONTEST_LOST_ATTEMPTS,
    CONTEST_CPU,
    CONTEST_FAILURES,
    CONTEST_OVERLAPS,
    CONTEST_FIGURES
};

struct contest {
    const char *api; /* the name of one, or of a peer */
    unsigned processes, hold_us;
    unsigned rounds;
    double figures[CONTEST_FIGURES][CONTEST_ROUNDS_MAX];
};

/* Adds a round: the line of numbers that the process prints. */
void contest_read(struct contest *contest, struct process *process);

/* Adds a round of bench-contend. */
void contest_play(struct contest *contest, const char *nodes, double seconds);

struct estimate contest_estimate(const struct contest *contest, enum contest_figure figure);

/* Of the rates; the rounds of both were played in turn. */
struct estimate contest_ratio(const struct contest *contest, const struct contest *base);

/* Of all rounds. */
double contest_sum(const struct contest *contest, enum contest_figure figure);

void contest_report(const struct contest *contest);

#endif
