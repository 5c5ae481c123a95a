/* The benchmark's output: tables on standard output, the same and more in bench.json, and distributions in files for
 * plots. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "stage.h"

void report_open(const char *directory);

/* Prints a group's heading; the next reports belong to it. */
void report_group(const struct stage *stage);

/* All entrants, with the ratio of each acquire p50 to that of `base` (NULL: without a ratio). */
void report_table(const struct stage *stage, const struct entrant *base);

/* A single figure. */
void report_figure(const char *label, const char *name, struct estimate figure, const char *unit);

/* Writes the acquire latencies of all blocks, as cumulative shares, of the entrants whose labels begin with the
 * prefix: directory/GROUP.dat, for plot.gnuplot. Call it before stage_close(). */
void report_distributions(const struct stage *stage, const char *prefix);

/* Targets of every group: no lock failed (a fast failure would look like a fast lock), and no key remained. */
void report_conduct(const struct stage *stage);

/* A limit for the interval. It is missed only if the whole interval is on the wrong side. */
void target_at_most(const char *name, struct estimate value, double limit);
void target_at_least(const char *name, struct estimate value, double limit);

/* Ends the document. Prints the targets if requested. Returns the number of missed ones. */
unsigned report_close(bool print_targets);

#endif
