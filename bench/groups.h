/* The groups of measurements. Each fills a new stage, reports it and sets its targets; main.c prints the heading and
 * closes the stage. */
#ifndef BENCH_GROUPS_H
#define BENCH_GROUPS_H

#include "stage.h"

void group_latency(struct stage *stage);
void group_sizes(struct stage *stage);
void group_faults(struct stage *stage);
void group_spread(struct stage *stage);
void group_throughput(struct stage *stage);
void group_memory(struct stage *stage);
void group_counts(struct stage *stage);
void group_start(struct stage *stage);
void group_fence(struct stage *stage);
void group_several(struct stage *stage);
void group_attest(struct stage *stage);
void group_overload(struct stage *stage);
void group_contend(struct stage *stage);
void group_handover(struct stage *stage);
void group_peers(struct stage *stage);
void group_hold(struct stage *stage);
void group_fleet(struct stage *stage);

#endif
