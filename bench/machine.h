/* What else the machine was doing: figures taken beside other work are to be read with care. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

/* CPU seconds since the machine and this program were started. */
struct machine_use {
    double all;  /* that the processors could have worked */
    double busy; /* that they did */
    double ours; /* that we did, with all children that have ended */
};

struct machine_use machine_use_now(void);

/* The share of the processors that others had since then; our children must have ended. */
double machine_others_percent(const struct machine_use *since);

#endif
