/* What the benchmark tells: tables on standard output, the same and more in bench.json, distributions in files to plot. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "stage.h"

void report_open(const char *directory);

/* A group's heading; what follows belongs to it. */
void report_group(const struct stage *stage);

/* All entrants, with the ratio of each one's acquire p50 to the base's. base: NULL for none. */
void report_table(const struct stage *stage, const struct entrant *base);

/* A single figure. */
void report_figure(const char *label, const char *name, struct estimate figure, const char *unit);

/* The acquire latencies of all blocks so far, as cumulative shares, of the entrants whose labels begin so:
 * directory/GROUP.dat, for plot.gnuplot. Before stage_close(). */
void report_distributions(const struct stage *stage, const char *prefix);

/* Targets of every group: no lock failed (what fails fast would look fast), no key was left behind. */
void report_conduct(const struct stage *stage);

/* What must be reached, judged by the interval: missed only when all of it is on the wrong side. */
void target_at_most(const char *name, struct estimate value, double limit);
void target_at_least(const char *name, struct estimate value, double limit);

/* Ends the document; prints the targets when asked; returns how many were missed. */
unsigned report_close(bool print_targets);

#endif
