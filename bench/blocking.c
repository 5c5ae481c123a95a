/* Runner of contenders whose calls block. The first slot runs on the main thread, each further one on a separate
 * thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contender.h"
#include "worker.h"

struct lane {
    pthread_t thread;
    struct slot slot;
    struct record record;
    const struct block *block;
};

static struct lane *lanes;
static unsigned lane_count;

static void *run(void *argument)
{
    struct lane *lane = argument;
    while (record_next(&lane->record, lane->block, &lane->slot)) {
        if (!contender_lock(&lane->slot)) {
            lane->record.failed++;
            continue;
        }
        record_acquired(&lane->record, &lane->slot);
        if (contender_unlock(&lane->slot))
            record_released(&lane->record, &lane->slot);
        else
            lane->record.failed++;
    }
    return NULL;
}

static void grow_lanes(unsigned count)
{
    if (count <= lane_count)
        return;
    free(lanes);
    lanes = calloc(count, sizeof *lanes);
    if (!lanes)
        abort();
    lane_count = count;
}

static void merge(struct record *into, const struct record *from)
{
    histogram_merge(&into->acquire, &from->acquire);
    histogram_merge(&into->both, &from->both);
    into->failed += from->failed;
}

void runner_start(const struct block *block)
{
    grow_lanes(block->in_flight);
    for (unsigned i = 0; i < block->in_flight; i++) {
        memset(&lanes[i].record, 0, sizeof lanes[i].record);
        lanes[i].block = block;
    }
    for (unsigned i = 1; i < block->in_flight; i++)
        if (pthread_create(&lanes[i].thread, NULL, run, &lanes[i]) != 0)
            abort();
    run(&lanes[0]);
    for (unsigned i = 1; i < block->in_flight; i++) {
        pthread_join(lanes[i].thread, NULL);
        merge(&lanes[0].record, &lanes[i].record);
    }
    worker_block_over(&lanes[0].record);
}

void runner_connect(const char *nodes)
{
    contender_open(nodes);
}

void runner_serve(void)
{
    char line[128];
    while (fgets(line, sizeof line, stdin))
        worker_command(line);
    contender_close();
}
