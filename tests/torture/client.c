/*
 * A client of a torture run. It acquires locks, holds them for a while, queries their validity, and records all of this
 * in its history.
 *
 * torture_client blocking|asynchronous|descriptor|command NAME NODES HISTORY SEED GUARD [REDLOCK]
 *
 * The first three are the ways to call the library. NODES is a node list. HISTORY is a file that the client appends to.
 * GUARD is 1 or 0. REDLOCK is the program redlock(1), which the mode `command` uses. After SIGTERM the client releases its
 * locks, closes, records the end and exits.
 */
#include "history.h"

#include <redlock/redlock.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rules/random.h"
#include "support/face.h"

enum { WORKERS = 3, RESOURCES = 3, ASK_MS = 20, MAX_TTL_MS = 3000, WAIT_MS = 3000, START_MS = 20000 };
enum { MS = 1000000 };

static int history;
static char name[12];
static struct face *face;
static enum face_kind way;
static redlock_cancellation *cancellation;
static atomic_bool stopping;

/* Makes one attempt after another. */
struct worker {
    uint64_t random;
    char who[16];
    char resource[16];
    unsigned hold;
    unsigned hold_ms; /* planned duration of the hold */
    bool by_descriptor;
    atomic_bool lost;
    redlock_acquire_options options;
};
static struct worker workers[WORKERS];

static void say_at(uint64_t time, const struct worker *worker, enum history_event event, int64_t number,
                   const char *text)
{
    struct history_line line = {.time = time, .event = event, .hold = worker->hold, .number = number};
    memcpy(line.who, worker->who, sizeof line.who);
    memcpy(line.resource, worker->resource, sizeof line.resource);
    snprintf(line.text, sizeof line.text, "%s", text);
    if (!history_write(history, &line)) {
        perror("torture_client: cannot write the history");
        _exit(3);
    }
}

static void say(const struct worker *worker, enum history_event event, int64_t number, const char *text)
{
    say_at(history_now(), worker, event, number, text);
}

/* --------------------------------------------------------------------------------------------------------- a worker */

static void on_event(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    static const char *const why[] = {"not", "expired", "gone", "clock", "closed"};
    struct worker *worker = arg;
    (void)lock;
    (void)validity_ms;
    if (event != REDLOCK_EVENT_LOST || worker->by_descriptor)
        return;
    atomic_store(&worker->lost, true);
    say(worker, HISTORY_LOST, 0, why[loss]);
}

/* Most holds are short. Some are long enough to be renewed, and some end by themselves. extra_ms: time that the acquire
 * may take besides its wait. */
static void plan(struct worker *worker, unsigned extra_ms)
{
    unsigned kind = random_below(&worker->random, 100);
    worker->hold++;
    snprintf(worker->resource, sizeof worker->resource, "r%u", random_below(&worker->random, RESOURCES));
    worker->options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    worker->options.wait_ms = WAIT_MS;
    worker->options.ttl_ms = 400 + random_below(&worker->random, MAX_TTL_MS - 400);
    worker->options.cancellation = cancellation;
    worker->options.fence = 1;
    worker->options.event = on_event;
    worker->options.event_arg = worker;
    worker->options.no_renewal = kind >= 98;
    worker->hold_ms = kind < 84   ? random_below(&worker->random, 20)
                      : kind < 95 ? random_below(&worker->random, 500)
                      : kind < 98 ? random_below(&worker->random, 4000)
                                  : MAX_TTL_MS + 1000; /* until it is lost */
    atomic_store(&worker->lost, false);
    say(worker, HISTORY_START, worker->options.wait_ms + extra_ms, "-");
}

static void ask(struct worker *worker, redlock_lock *lock, enum history_event event)
{
    uint64_t now = history_now(); /* before the query: its promise counts from this time at the latest */
    int64_t validity = redlock_validity_ms(lock);
    if (validity > 0 || event == HISTORY_HELD)
        say_at(now, worker, event, 1000 * validity, "-");
}

static unsigned pause_ms(struct worker *worker)
{
    return 1 + random_below(&worker->random, 20);
}

/* Sleeps. Records it as a stall if the last end of a sleep is much longer ago: the process was stopped, or the machine is
 * loaded. */
static void nap(const struct worker *worker, unsigned ms, uint64_t *last)
{
    usleep(ms * 1000);
    uint64_t now = history_now();
    if (now - *last > (ms + 6) * MS)
        say_at(now, worker, HISTORY_STALL, (int64_t)((now - *last) / MS + 1), "-");
    *last = now;
}

static void on_terminate(int signal)
{
    (void)signal;
    atomic_store(&stopping, true);
    if (cancellation)
        redlock_cancel(cancellation);
}

/* ------------------------------------------------------------------------------------------------------ the library */

static bool is_over(void *arg)
{
    struct worker *worker = arg;
    return atomic_load(&worker->lost) || atomic_load(&stopping);
}

/* Waits for the loss of a lock. */
static void wait_for_loss(struct worker *worker, redlock_lock *lock)
{
    struct pollfd lost = {.fd = -1, .events = POLLIN};
    if (way != BLOCKING_FACE) {
        face_wait(face, is_over, worker, ASK_MS);
        return;
    }
    redlock_lost_descriptor(lock, &lost.fd);
    if (poll(&lost, 1, ASK_MS) <= 0 || !worker->by_descriptor)
        return;
    atomic_store(&worker->lost, true);
    say(worker, HISTORY_LOST, 0, "descriptor");
}

static void work_once(struct worker *worker)
{
    redlock_lock *lock;
    redlock_result result;
    plan(worker, 0);
    int status = face_acquire(face, worker->resource, &worker->options, &lock, &result);
    if (status != REDLOCK_OK) {
        say(worker, HISTORY_FAILED, 0, redlock_status_name(status));
        return;
    }
    uint64_t until = history_now() + (uint64_t)worker->hold_ms * MS;
    ask(worker, lock, HISTORY_HELD);
    say(worker, HISTORY_FENCE, (int64_t)redlock_lock_fence(lock), "-");
    while (history_now() < until && !is_over(worker)) {
        wait_for_loss(worker, lock);
        ask(worker, lock, HISTORY_VALID);
    }
    say(worker, HISTORY_RELEASE, 0, "-");
    status = face_release(face, &lock, &result);
    say(worker, HISTORY_RELEASED, 0, redlock_status_name(status));
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    while (!atomic_load(&stopping)) {
        work_once(worker);
        face_idle(face, pause_ms(worker));
    }
    return NULL;
}

/* Only the blocking functions are for several threads. */
static void run_library(const char *nodes, const redlock_options *options)
{
    pthread_t threads[WORKERS];
    unsigned workers_used = way == BLOCKING_FACE ? WORKERS : 1;
    face = face_open(way, nodes, options);
    if (redlock_cancellation_create(face_client(face), &cancellation) != REDLOCK_OK)
        exit(2);
    for (unsigned i = 1; i < workers_used; i++)
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            exit(2);
    work(&workers[0]);
    for (unsigned i = 1; i < workers_used; i++)
        pthread_join(threads[i], NULL);
    redlock_cancellation_destroy(&cancellation);
    face_close(&face, NULL);
    for (unsigned i = 0; i < workers_used; i++)
        say(&workers[i], HISTORY_END, 0, "-");
}

/* ------------------------------------------------------------------------------------------------------- redlock(1) */

/* The command that redlock run executes. It records every few milliseconds that it is alive, because the lock must
 * then be held. */
static int be_held(char **argv)
{
    struct worker worker = {.hold = (unsigned)strtoul(argv[4], NULL, 10)};
    uint64_t last = history_now(), until = last + strtoull(argv[6], NULL, 10) * MS;
    const char *fence = getenv("REDLOCK_FENCE");
    snprintf(worker.who, sizeof worker.who, "%s", argv[2]);
    snprintf(worker.resource, sizeof worker.resource, "%s", argv[5]);
    say(&worker, HISTORY_HELD, 1000, "-");
    if (fence)
        say(&worker, HISTORY_FENCE, strtoll(fence, NULL, 10), "-");
    while (history_now() < until) {
        say(&worker, HISTORY_VALID, 1000, "-");
        nap(&worker, 5, &last);
    }
    say(&worker, HISTORY_RELEASE, 0, "-");
    return 0;
}

/* argv as main() got it: [1] is the program, [3] the nodes, [4] the history. */
static void exec_redlock(const struct worker *worker, char **argv)
{
    char number[16], ms[16];
    snprintf(number, sizeof number, "%u", worker->hold);
    snprintf(ms, sizeof ms, "%u", worker->hold_ms);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl(argv[7], "redlock", "run", "--config", "command.conf", "--nodes", argv[3], "--wait", "3s", "--grace", "300ms",
          "--fence", worker->resource, "--", argv[0], "held", worker->who, argv[4], number, worker->resource, ms,
          (char *)NULL);
    _exit(126);
}

static void run_once(struct worker *worker, char **argv)
{
    int status = 0;
    plan(worker, START_MS); /* a busy machine takes many seconds to start redlock run, and then the command */
    pid_t child = fork();
    if (child == 0)
        exec_redlock(worker, argv);
    while (child > 0 && waitpid(child, &status, 0) < 0 && !atomic_load(&stopping))
        continue;
    if (child > 0 && atomic_load(&stopping)) {
        kill(child, SIGTERM);
        waitpid(child, &status, 0);
    }
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == 1 || code == 69)
        say(worker, HISTORY_FAILED, 0, code == 1 ? "not acquired" : "no quorum");
    if (code == 64 || code == 78 || code == 126 || code == 127) {
        fprintf(stderr, "torture_client: redlock run exits with %d\n", code);
        exit(2);
    }
}

/* Each lock has a separate WHO, because a command that redlock run has ended records nothing more. */
static void run_command(char **argv)
{
    struct worker *worker = &workers[0];
    while (!atomic_load(&stopping)) {
        snprintf(worker->who, sizeof worker->who, "%.10s.%u", name, worker->hold + 1);
        run_once(worker, argv);
        usleep(pause_ms(worker) * 1000);
    }
}

/* ------------------------------------------------------------------------------------------------------------- main */

/* Measures the time in which the process does not run. */
static void *measure_stalls(void *arg)
{
    struct worker meter = {.hold = 0};
    (void)arg;
    snprintf(meter.who, sizeof meter.who, "%s.m", name);
    for (uint64_t last = history_now();;)
        nap(&meter, 2, &last);
    return NULL;
}

static void log_line(int level, const char *line, void *arg)
{
    uint64_t now = history_now();
    (void)arg;
    fprintf(stderr, "%.3f %s [%d] %s\n", (double)now / 1e9, name, level, line);
}

static redlock_options client_options(bool guard)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.max_ttl_ms = MAX_TTL_MS;
    options.ttl_ms = MAX_TTL_MS / 2;
    options.guard = guard;
    options.log = log_line;
    options.client_name = name;
    options.backoff_max_ms = 500;
    return options;
}

static void prepare(uint64_t seed)
{
    /* Without SA_RESTART, to interrupt a wait for redlock run. */
    const struct sigaction action = {.sa_handler = on_terminate};
    pthread_t meter;
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].random = seed * WORKERS + i;
        workers[i].by_descriptor = i % 2;
        snprintf(workers[i].who, sizeof workers[i].who, "%s.%u", name, i);
    }
    if (pthread_create(&meter, NULL, measure_stalls, NULL) != 0)
        exit(2);
    pthread_detach(meter);
    sigaction(SIGTERM, &action, NULL);
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        fputs("usage: torture_client WAY NAME NODES HISTORY SEED GUARD [REDLOCK]\n", stderr);
        return 2;
    }
    bool held = strcmp(argv[1], "held") == 0;
    snprintf(name, sizeof name, "%s", argv[2]);
    history = history_open(argv[held ? 3 : 4]);
    if (history < 0) {
        perror(argv[held ? 3 : 4]);
        return 2;
    }
    if (held)
        return be_held(argv);
    const redlock_options options = client_options(argv[6][0] == '1');
    prepare(strtoull(argv[5], NULL, 10));
    if (strcmp(argv[1], "command") == 0 && argc == 8) {
        run_command(argv);
        return 0;
    }
    way = strcmp(argv[1], "blocking") == 0     ? BLOCKING_FACE
          : strcmp(argv[1], "descriptor") == 0 ? DESCRIPTOR_FACE
                                               : ASYNCHRONOUS_FACE;
    run_library(argv[3], &options);
    return 0;
}
