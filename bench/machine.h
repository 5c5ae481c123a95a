/* The load of the machine by other programs. Figures that were measured beside other load are less reliable. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

/* CPU seconds since the machine and this program were started. */
struct machine_use {
    double all;  /* capacity of the processors */
    double busy; /* used by all programs */
    double ours; /* used by this program and its children that have ended */
};

struct machine_use machine_use_now(void);

/* The share of the processors that other programs used since then. Our children must have ended. */
double machine_others_percent(const struct machine_use *since);

#endif
