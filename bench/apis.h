/* The APIs of the library. Every target is set for each of them, except those without a limit here. */
#ifndef BENCH_APIS_H
#define BENCH_APIS_H

#include <stdbool.h>

enum { APIS = 3 };

struct api {
    const char *name;    /* in targets, and as an argument of bench-contend */
    const char *label;   /* in tables */
    const char *program; /* the contender */
    bool threaded;       /* each lock in flight takes a thread of the caller */
    struct {             /* 0: none */
        double acquire_to_raw, acquire_to_floor_a, both_to_floor_a; /* p50 */
        double system_calls;                                        /* acquire + release */
        double own_allocations;                                     /* the same; also where it is 0 */
        double rate_to_floor_c, cpu_to_floor_c;                     /* 1000 in flight */
        double rate_to_lone;                                        /* 32 processes, one lock */
    } limits;
};

extern const struct api apis[APIS];

#endif
