/* A contender's process: WORKER NODES [VARIANT]. It reads one command per line from standard input and writes one answer per
 * line to standard output.
 *
 *   block IN_FLIGHT MICROSECONDS [OPERATIONS]   acquires and releases locks; prints the results, times in ns: p50,
 *   p99, worst
 *   distribution                                every block so far: "acquire NS COUNT" and "both NS COUNT" lines,
 *                                               then "."
 *   state                                       resident memory, and what contender_state() counts
 *
 * By hand: printf 'block 1 1000000\n' | bench-floor-a 127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003 */
#include "worker.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "contender.h"

static struct block block;
static struct record total;
static uint64_t block_began, cpu_began;

const char *contender_variant = "";

static long resident_kib(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%*d %ld", &pages) != 1)
        pages = 0;
    if (statm)
        fclose(statm);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void print_buckets(const char *name, const struct histogram *histogram)
{
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        if (histogram->buckets[i])
            printf("%s %" PRIu64 " %" PRIu32 "\n", name, histogram_bucket_start(i), histogram->buckets[i]);
}

static void print_distribution(void)
{
    print_buckets("acquire", &total.acquire);
    print_buckets("both", &total.both);
    printf(".\n");
}

static void print_state(void)
{
    struct contender_state state;
    contender_state(&state);
    printf("state resident_kib=%ld allocations=%llu bytes=%llu most_bytes=%llu late_grants=%llu\n", resident_kib(),
           state.allocations, state.bytes, state.most_bytes, state.late_grants);
}

static void start_block(uint64_t duration)
{
    block_began = clock_now();
    block.end = block_began + duration;
    cpu_began = clock_cpu();
    runner_start(&block);
}

void worker_command(const char *line)
{
    uint64_t microseconds = 0;
    block = (struct block){0};
    if (sscanf(line, "block %u %" SCNu64 " %" SCNu64, &block.in_flight, &microseconds, &block.operations) >= 2 &&
        block.in_flight > 0) {
        start_block(microseconds * 1000);
        return;
    }
    if (strncmp(line, "distribution", 12) == 0)
        print_distribution();
    else if (strncmp(line, "state", 5) == 0)
        print_state();
    else
        printf("error: not understood: %s\n", line);
    fflush(stdout);
}

void worker_block_over(const struct record *record)
{
    uint64_t wall = clock_now() - block_began, cpu = clock_cpu() - cpu_began;
    printf("block operations=%" PRIu64 " failed=%" PRIu64 " wall=%" PRIu64 " cpu=%" PRIu64, record->both.count,
           record->failed, wall, cpu);
    printf(" acquire=%" PRIu64 ",%" PRIu64 ",%" PRIu64, histogram_quantile(&record->acquire, 0.5),
           histogram_quantile(&record->acquire, 0.99), record->acquire.worst);
    printf(" both=%" PRIu64 ",%" PRIu64 ",%" PRIu64, histogram_quantile(&record->both, 0.5),
           histogram_quantile(&record->both, 0.99), record->both.worst);
    printf(" first=%" PRIu64 " again=%" PRIu64 "\n", record->first, record->again);
    fflush(stdout);
    histogram_merge(&total.acquire, &record->acquire);
    histogram_merge(&total.both, &record->both);
}

/* Without printf: creating the name is not timed, but it counts as the client's CPU time. */
static size_t name_resource(char *name, uint64_t number)
{
    static uint64_t process;
    if (!process)
        process = (uint64_t)getpid();
    uint64_t parts[] = {process, number};
    size_t length = 0;
    for (size_t i = 0; i < 2; i++) {
        name[length++] = '/';
        for (int shift = 44; shift >= 0; shift -= 4)
            name[length++] = "0123456789abcdef"[(parts[i] >> shift) & 15];
    }
    name[length] = '\0';
    return length;
}

bool record_next(struct record *record, const struct block *bounds, struct slot *slot)
{
    static _Atomic uint64_t names;
    if (clock_now() >= bounds->end || (bounds->operations && record->started >= bounds->operations))
        return false;
    record->started++;
    slot->resource_length = name_resource(slot->resource, names++);
    slot->again = false;
    slot->started = clock_now();
    return true;
}

void record_acquired(struct record *record, struct slot *slot)
{
    slot->acquired = clock_now();
    if (!record->first)
        record->first = slot->acquired;
}

void record_released(struct record *record, const struct slot *slot)
{
    uint64_t now = clock_now();
    record->again += slot->again;
    histogram_add(&record->acquire, slot->acquired - slot->started);
    histogram_add(&record->both, now - slot->started);
}

int main(int count, char **arguments)
{
    if (count < 2 || count > 3) {
        fprintf(stderr,
                "usage: %s HOST:PORT[,HOST:PORT...] [VARIANT]   (commands on standard input, see bench/worker.c)\n",
                arguments[0]);
        return 2;
    }
    if (count == 3)
        contender_variant = arguments[2];
    signal(SIGPIPE, SIG_IGN);
    runner_connect(arguments[1]);
    printf("ready\n");
    fflush(stdout);
    runner_serve();
    return 0;
}
