/* Many processes, one lock: bench-contend NODES PROCESSES SECONDS HOLD_US.
 *
 * Each process repeatedly acquires, holds and releases the lock until the time is over. A witness in shared memory,
 * which knows nothing about locks, records when each holder begins and ends, and so detects two simultaneous
 * holders. A wait that is cut short by the end counts with its duration until then, so that a starved process is
 * visible. Each wait is recorded twice: as measured, and minus the time in which the whole machine stopped. Prints
 * one line; times in ns. */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <redlock/redlock.h>

#include "clock.h"
#include "histogram.h"
#include "standstill.h"

enum { PROCESSES_MAX = 64, READY_TIMEOUT_MS = 10000, LEAD_MS = 100 };

static const char resource[] = "/0000/contended";

/* The record of one process, which only that process writes. */
struct account {
    uint64_t acquired, hand_offs, lost_attempts, failures;
    uint64_t cpu;
    struct histogram waits, running; /* as measured; minus standstills */
};

struct arena {
    _Atomic unsigned ready;       /* processes that have connected */
    _Atomic uint64_t begin, end;  /* clock; 0: unknown yet */
    _Atomic unsigned holder;      /* the witness: 1 + number of the process that holds the lock, 0: none */
    _Atomic unsigned last_holder; /* 1 + number */
    _Atomic uint64_t overlaps;
    struct standstills standstills;
    struct account accounts[PROCESSES_MAX];
};

struct contest {
    const char *nodes;
    unsigned processes;
    uint64_t duration, hold; /* ns */
    unsigned fair;
};

static struct arena *arena;

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "contend: %s: %s\n", what, why);
    exit(1);
}

static void sleep_until(uint64_t clock)
{
    struct timespec time = {(time_t)(clock / 1000000000u), (long)(clock % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        continue;
}

static void witness_begin(struct account *account, unsigned self)
{
    unsigned nobody = 0;
    if (!atomic_compare_exchange_strong(&arena->holder, &nobody, self))
        atomic_fetch_add(&arena->overlaps, 1);
    if (atomic_exchange(&arena->last_holder, self) != self)
        account->hand_offs++;
}

static void witness_end(unsigned self)
{
    unsigned expected = self;
    if (!atomic_compare_exchange_strong(&arena->holder, &expected, 0))
        atomic_fetch_add(&arena->overlaps, 1);
}

/* Returns false if the contest ended first. */
static bool hold_once(redlock_client *client, const struct contest *contest, struct account *account, unsigned self)
{
    redlock_lock *lock;
    redlock_result result;
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    uint64_t started = clock_now(), end = atomic_load(&arena->end);
    if (started >= end)
        return false;
    options.wait_ms = (int64_t)((end - started) / 1000000u) + 1;
    options.fair = contest->fair;
    int status = redlock_acquire(client, resource, &options, &lock, &result);
    uint64_t acquired = clock_now();
    histogram_add(&account->waits, acquired - started);
    histogram_add(&account->running, acquired - started - standstills_within(&arena->standstills, started, acquired));
    if (status != REDLOCK_OK) {
        account->lost_attempts += result.attempts;
        account->failures += status != REDLOCK_TIMED_OUT;
        return status == REDLOCK_TIMED_OUT;
    }
    witness_begin(account, self);
    account->acquired++;
    account->lost_attempts += result.attempts - 1;
    sleep_until(acquired + contest->hold);
    witness_end(self);
    if (redlock_release(&lock, &result) != REDLOCK_OK)
        account->failures++;
    return true;
}

static redlock_client *connect_client(const char *nodes)
{
    redlock_client *client;
    redlock_result result;
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.guard = 0; /* the servers are new, and have no other clients */
    if (redlock_connect(nodes, &options, &client, &result) != REDLOCK_OK ||
        redlock_ready(client, READY_TIMEOUT_MS, &result) != REDLOCK_OK)
        fail("no client", redlock_result_text(&result));
    return client;
}

static void contend(const struct contest *contest, unsigned number)
{
    struct account *account = &arena->accounts[number];
    prctl(PR_SET_TIMERSLACK, 1); /* so that the hold does not last 50 us longer than requested */
    redlock_client *client = connect_client(contest->nodes);
    atomic_fetch_add(&arena->ready, 1);
    while (atomic_load(&arena->begin) == 0)
        usleep(1000);
    sleep_until(atomic_load(&arena->begin));
    uint64_t cpu = clock_cpu();
    while (hold_once(client, contest, account, number + 1))
        continue;
    account->cpu = clock_cpu() - cpu;
    redlock_close(&client, NULL);
}

static void start_all(const struct contest *contest)
{
    pid_t parent = getpid();
    for (unsigned i = 0; i < contest->processes; i++) {
        pid_t child = fork();
        if (child < 0)
            fail("no process", "fork");
        if (child > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        contend(contest, i);
        _exit(0);
    }
}

/* Returns early with an error if a process has ended prematurely. */
static void wait_until_ready(const struct contest *contest)
{
    while (atomic_load(&arena->ready) < contest->processes) {
        if (waitpid(-1, NULL, WNOHANG) != 0)
            fail("a process ended", "see above");
        usleep(1000);
    }
}

static void wait_for_all(unsigned processes)
{
    for (unsigned i = 0; i < processes; i++) {
        int status;
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail("a process did not end well", "see above");
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

static void print_outcome(unsigned processes)
{
    static struct account all;
    for (unsigned i = 0; i < processes; i++) {
        const struct account *account = &arena->accounts[i];
        all.acquired += account->acquired;
        all.hand_offs += account->hand_offs;
        all.lost_attempts += account->lost_attempts;
        all.failures += account->failures;
        all.cpu += account->cpu;
        histogram_merge(&all.waits, &account->waits);
        histogram_merge(&all.running, &account->running);
    }
    printf("contend acquired=%" PRIu64 " hand_offs=%" PRIu64 " lost_attempts=%" PRIu64 " failures=%" PRIu64,
           all.acquired, all.hand_offs, all.lost_attempts, all.failures);
    printf(" overlaps=%" PRIu64 " cpu=%" PRIu64 " wait=%" PRIu64 ",%" PRIu64 ",%" PRIu64 " jain=%.6f",
           atomic_load(&arena->overlaps), all.cpu, histogram_quantile(&all.waits, 0.5),
           histogram_quantile(&all.waits, 0.99), all.waits.worst, jain(processes));
    printf(" running_p99=%" PRIu64 " stood_still=%" PRIu64 "\n", histogram_quantile(&all.running, 0.99),
           standstills_within(&arena->standstills, atomic_load(&arena->begin), atomic_load(&arena->end)));
}

static bool parse(int count, char **arguments, struct contest *contest)
{
    double seconds, hold_us;
    if (count < 5 || count > 6 || sscanf(arguments[2], "%u", &contest->processes) != 1 ||
        sscanf(arguments[3], "%lf", &seconds) != 1 || sscanf(arguments[4], "%lf", &hold_us) != 1)
        return false;
    contest->nodes = arguments[1];
    contest->duration = (uint64_t)(seconds * 1e9);
    contest->fair = count == 6 && strcmp(arguments[5], "fair") == 0;
    contest->hold = (uint64_t)(hold_us * 1e3);
    return contest->processes >= 1 && contest->processes <= PROCESSES_MAX && seconds > 0 && hold_us >= 0;
}

int main(int count, char **arguments)
{
    struct contest contest;
    if (!parse(count, arguments, &contest)) {
        fprintf(stderr, "usage: %s HOST:PORT[,HOST:PORT...] PROCESSES(1-%d) SECONDS HOLD_US [fair]\n", arguments[0],
                PROCESSES_MAX);
        return 2;
    }
    arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED)
        fail("no shared memory", "mmap");
    start_all(&contest);
    wait_until_ready(&contest);
    standstills_watch(&arena->standstills);
    uint64_t begin = clock_now() + LEAD_MS * 1000000u;
    atomic_store(&arena->end, begin + contest.duration);
    atomic_store(&arena->begin, begin);
    wait_for_all(contest.processes);
    print_outcome(contest.processes);
    return 0;
}
