/* Many processes, one lock: bench-contend NODES PROCESSES SECONDS HOLD_US [async|descriptor].
 *
 * Each process repeatedly acquires, holds and releases the lock until the time is over, with default options. A witness
 * in shared memory, which knows nothing about locks, records when each holder begins and ends, and so detects two
 * simultaneous holders. A wait that is cut short by the end counts with its duration until then, so that a starved
 * process is visible. Each wait is recorded twice: as measured, and minus the time in which the whole machine stopped.
 * Prints one line of numbers; times in ms. */
#include "contend.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor.h"
#include "clock.h"

enum { LEAD_MS = 100 };

struct arena *arena;

void sleep_until(uint64_t clock)
{
    struct timespec time = {(time_t)(clock / 1000000000u), (long)(clock % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        continue;
}

/* Returns early with an error if a process has ended prematurely. */
static void wait_until_ready(const struct contest *contest)
{
    while (atomic_load(&arena->ready) < contest->processes) {
        if (waitpid(-1, NULL, WNOHANG) != 0)
            actor_fail("a process ended", "see above");
        usleep(1000);
    }
}

/* 1 if all processes acquire equally often, 1/n if one process takes every turn. */
static double jain(unsigned processes)
{
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < processes; i++) {
        double acquired = (double)arena->accounts[i].acquired;
        sum += acquired;
        squares += acquired * acquired;
    }
    return squares > 0 ? sum * sum / (processes * squares) : 0;
}

static void print_ms(uint64_t ns)
{
    printf("%g ", (double)ns / 1e6);
}

/* The order is that of enum contest_figure. */
static void print_outcome(const struct contest *contest)
{
    static struct account all;
    for (unsigned i = 0; i < contest->processes; i++) {
        const struct account *account = &arena->accounts[i];
        all.acquired += account->acquired;
        all.hand_offs += account->hand_offs;
        all.lost_attempts += account->lost_attempts;
        all.failures += account->failures;
        all.cpu += account->cpu;
        histogram_merge(&all.waits, &account->waits);
        histogram_merge(&all.running, &account->running);
        histogram_merge(&all.hand_overs, &account->hand_overs);
    }
    double acquired = (double)all.acquired;
    uint64_t begin = atomic_load(&arena->begin), end = atomic_load(&arena->end);
    printf("%g %g ", acquired * 1e9 / (double)contest->duration, 100 * (double)all.hand_offs / acquired);
    print_ms(histogram_quantile(&all.hand_overs, 0.5));
    print_ms(histogram_quantile(&all.waits, 0.5));
    print_ms(histogram_quantile(&all.waits, 0.99));
    print_ms(histogram_quantile(&all.running, 0.99));
    print_ms(all.waits.worst);
    print_ms(standstills_within(&arena->standstills, begin, end));
    printf("%g %g %g ", jain(contest->processes), (double)all.lost_attempts / acquired,
           (double)all.cpu / 1e6 / acquired);
    printf("%" PRIu64 " %" PRIu64 "\n", all.failures, atomic_load(&arena->overlaps));
}

static bool parse(int count, char **arguments, struct contest *contest)
{
    double seconds, hold_us;
    if (count < 5 || sscanf(arguments[2], "%u", &contest->processes) != 1 ||
        sscanf(arguments[3], "%lf", &seconds) != 1 || sscanf(arguments[4], "%lf", &hold_us) != 1)
        return false;
    contest->nodes = arguments[1];
    contest->duration = (uint64_t)(seconds * 1e9);
    contest->hold = (uint64_t)(hold_us * 1e3);
    for (int i = 5; i < count; i++) {
        if (strcmp(arguments[i], "async") == 0)
            contest->api = ASYNCHRONOUS;
        else if (strcmp(arguments[i], "descriptor") == 0)
            contest->api = DESCRIPTOR;
    }
    return contest->processes >= 1 && contest->processes <= PROCESSES_MAX && seconds > 0 && hold_us >= 0;
}

int main(int count, char **arguments)
{
    struct contest contest = {0};
    if (!parse(count, arguments, &contest)) {
        fprintf(stderr, "usage: %s HOST:PORT[,HOST:PORT...] PROCESSES(1-%d) SECONDS HOLD_US [async|descriptor]\n",
                arguments[0], PROCESSES_MAX);
        return 2;
    }
    arena = actor_share_memory(sizeof *arena);
    actor_wait(actor_start(actor_trust, contest.nodes));
    for (contest.number = 0; contest.number < contest.processes; contest.number++)
        actor_start(contend, &contest);
    wait_until_ready(&contest);
    standstills_watch(&arena->standstills);
    uint64_t begin = clock_now() + LEAD_MS * 1000000u;
    atomic_store(&arena->end, begin + contest.duration);
    atomic_store(&arena->begin, begin);
    for (unsigned i = 0; i < contest.processes; i++)
        actor_wait(-1);
    print_outcome(&contest);
    return 0;
}
