/*
 * A client of a torture run. It acquires locks, holds them for a while, queries their validity, and records all of this
 * in its history.
 *
 * torture_client blocking|async|command NAME NODES HISTORY SEED GUARD [REDLOCK]
 *
 * NODES is a node list. HISTORY is a file that the client appends to. GUARD is 1 or 0. REDLOCK is the program
 * redlock(1), which the mode `command` uses. After SIGTERM the client releases its locks, closes, records the end and
 * exits.
 */
#include "history.h"

#include <redlock/redlock.h>

#include <ev.h>
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

enum { WORKERS = 3, RESOURCES = 3, ASK_MS = 20, MAX_TTL_MS = 3000, WAIT_MS = 3000, START_MS = 4000 };
enum { MS = 1000000 };

static int history;
static char name[12];
static redlock_client *client;
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
    /* Asynchronous API. */
    struct ev_loop *loop;
    ev_timer timer;
    redlock_lock *lock;
    uint64_t release_at;
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
    if (event != REDLOCK_EVENT_LOST)
        return;
    atomic_store(&worker->lost, true);
    if (!worker->by_descriptor)
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
    worker->options.fair = kind % 4 == 0;
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
        say_at(now, worker, event, validity, "-");
}

static void note_held(struct worker *worker, redlock_lock *lock)
{
    ask(worker, lock, HISTORY_HELD);
    say(worker, HISTORY_FENCE, (int64_t)redlock_lock_fence(lock), "-");
}

static unsigned pause_ms(struct worker *worker)
{
    return 1 + random_below(&worker->random, 20);
}

/* ----------------------------------------------------------------------------------------------------- blocking API */

static void hold(struct worker *worker, redlock_lock *lock)
{
    struct pollfd lost = {.fd = -1, .events = POLLIN};
    uint64_t until = history_now() + (uint64_t)worker->hold_ms * MS;
    redlock_lost_descriptor(lock, &lost.fd);
    while (history_now() < until && !atomic_load(&stopping)) {
        if (poll(&lost, 1, ASK_MS) > 0) {
            if (worker->by_descriptor)
                say(worker, HISTORY_LOST, 0, "descriptor");
            return;
        }
        ask(worker, lock, HISTORY_VALID);
    }
}

static void work_once(struct worker *worker)
{
    redlock_lock *lock;
    plan(worker, 0);
    int status = redlock_acquire(client, worker->resource, &worker->options, &lock, NULL);
    if (status != REDLOCK_OK) {
        say(worker, HISTORY_FAILED, 0, redlock_status_name(status));
        return;
    }
    note_held(worker, lock);
    hold(worker, lock);
    say(worker, HISTORY_RELEASE, 0, "-");
    status = redlock_release(&lock, NULL);
    say(worker, HISTORY_RELEASED, 0, redlock_status_name(status));
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    while (!atomic_load(&stopping)) {
        work_once(worker);
        usleep(pause_ms(worker) * 1000);
    }
    return NULL;
}

static void on_terminate(int signal)
{
    (void)signal;
    atomic_store(&stopping, true);
    redlock_cancel(cancellation);
}

static void run_blocking(const char *nodes, const redlock_options *options)
{
    pthread_t threads[WORKERS];
    redlock_result result;
    if (redlock_connect(nodes, options, &client, &result) != REDLOCK_OK ||
        redlock_cancellation_create(client, &cancellation) != REDLOCK_OK) {
        fprintf(stderr, "torture_client: %s\n", redlock_result_text(&result));
        exit(2);
    }
    signal(SIGTERM, on_terminate);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].by_descriptor = i % 2;
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            exit(2);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    redlock_cancellation_destroy(&cancellation);
    redlock_close(&client, NULL);
}

/* ------------------------------------------------------------------------------------------------- asynchronous API */

static void start(struct worker *worker);

static void after(struct worker *worker, unsigned ms)
{
    ev_timer_stop(worker->loop, &worker->timer);
    ev_timer_set(&worker->timer, ms / 1000.0, 0.);
    ev_timer_start(worker->loop, &worker->timer);
}

static void on_released(redlock_client *owner, const redlock_result *result, void *arg)
{
    struct worker *worker = arg;
    (void)owner;
    say(worker, HISTORY_RELEASED, 0, redlock_status_name(result->status));
    if (!atomic_load(&stopping))
        after(worker, pause_ms(worker));
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct worker *worker = timer->data;
    (void)loop;
    (void)events;
    if (!worker->lock) {
        start(worker);
        return;
    }
    ask(worker, worker->lock, HISTORY_VALID);
    if (history_now() < worker->release_at && !atomic_load(&worker->lost)) {
        after(worker, ASK_MS);
        return;
    }
    say(worker, HISTORY_RELEASE, 0, "-");
    redlock_release_async(&worker->lock, on_released, worker);
}

static void on_acquired(redlock_client *owner, redlock_lock *lock, const redlock_result *result, void *arg)
{
    struct worker *worker = arg;
    (void)owner;
    worker->lock = lock;
    if (!lock) {
        say(worker, HISTORY_FAILED, 0, redlock_status_name(result->status));
        if (!atomic_load(&stopping))
            after(worker, pause_ms(worker));
        return;
    }
    note_held(worker, lock);
    worker->release_at = history_now() + (uint64_t)worker->hold_ms * MS;
    after(worker, 0);
}

static void start(struct worker *worker)
{
    plan(worker, 0);
    redlock_acquire_async(client, worker->resource, &worker->options, on_acquired, worker);
}

static void on_closed(redlock_client *owner, const redlock_result *result, void *arg)
{
    (void)owner;
    (void)result;
    ev_break(arg, EVBREAK_ALL);
}

/* The close releases the held locks, so their release is recorded before it. */
static void on_stop(struct ev_loop *loop, ev_signal *watcher, int events)
{
    (void)watcher;
    (void)events;
    atomic_store(&stopping, true);
    for (unsigned i = 0; i < WORKERS; i++) {
        ev_timer_stop(loop, &workers[i].timer);
        if (workers[i].lock)
            say(&workers[i], HISTORY_RELEASE, 0, "-");
    }
    redlock_close_async(&client, on_closed, loop);
}

static void run_async(const char *nodes, const redlock_options *options)
{
    struct ev_loop *loop = ev_default_loop(EVFLAG_AUTO);
    redlock_result result;
    ev_signal terminate;
    if (redlock_attach(loop, nodes, options, &client, &result) != REDLOCK_OK) {
        fprintf(stderr, "torture_client: %s\n", redlock_result_text(&result));
        exit(2);
    }
    ev_signal_init(&terminate, on_stop, SIGTERM);
    ev_signal_start(loop, &terminate);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].loop = loop;
        ev_timer_init(&workers[i].timer, on_timer, 0., 0.);
        workers[i].timer.data = &workers[i];
        start(&workers[i]);
    }
    ev_run(loop, 0);
}

/* ------------------------------------------------------------------------------------------------------- redlock(1) */

/* Sleeps. Records a much longer sleep as a stall, because this process has no other thread that measures stalls. */
static void nap(struct worker *worker)
{
    uint64_t before = history_now();
    usleep(5000);
    uint64_t now = history_now();
    if (now - before > 12 * MS)
        say_at(now, worker, HISTORY_STALL, (int64_t)((now - before) / MS + 1), "-");
}

/* The command that redlock run executes. It records every few milliseconds that it is alive, because the lock must
 * then be held. */
static int be_held(char **argv)
{
    struct worker worker = {.hold = (unsigned)strtoul(argv[4], NULL, 10)};
    uint64_t until = history_now() + strtoull(argv[6], NULL, 10) * MS;
    const char *fence = getenv("REDLOCK_FENCE");
    snprintf(worker.who, sizeof worker.who, "%s", argv[2]);
    snprintf(worker.resource, sizeof worker.resource, "%s", argv[5]);
    say(&worker, HISTORY_HELD, 1, "-");
    if (fence)
        say(&worker, HISTORY_FENCE, strtoll(fence, NULL, 10), "-");
    while (history_now() < until) {
        say(&worker, HISTORY_VALID, 1, "-");
        nap(&worker);
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
    plan(worker, START_MS); /* a busy machine takes seconds to start redlock run, and then the command */
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

static void note_stop(int signal)
{
    (void)signal;
    atomic_store(&stopping, true);
}

/* Each lock has a separate WHO, because a command that redlock run has ended records nothing more. */
static void run_command(char **argv)
{
    struct sigaction action = {.sa_handler = note_stop}; /* without SA_RESTART, to interrupt the wait */
    struct worker *worker = &workers[0];
    sigaction(SIGTERM, &action, NULL);
    while (!atomic_load(&stopping)) {
        snprintf(worker->who, sizeof worker->who, "%.10s.%u", name, worker->hold + 1);
        run_once(worker, argv);
        usleep(pause_ms(worker) * 1000);
    }
}

/* ------------------------------------------------------------------------------------------------------------- main */

/* Measures the time in which the process does not run because it is stopped or the machine is loaded. */
static void *measure_stalls(void *arg)
{
    const struct timespec nap = {.tv_nsec = 2 * MS};
    struct worker meter = {.hold = 0};
    (void)arg;
    snprintf(meter.who, sizeof meter.who, "%s.m", name);
    for (uint64_t before = history_now();;) {
        nanosleep(&nap, NULL);
        uint64_t now = history_now();
        if (now - before > 7 * MS)
            say_at(now, &meter, HISTORY_STALL, (int64_t)((now - before) / MS + 1), "-");
        before = now;
    }
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
    pthread_t meter;
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].random = seed * WORKERS + i;
        snprintf(workers[i].who, sizeof workers[i].who, "%s.%u", name, i);
    }
    if (pthread_create(&meter, NULL, measure_stalls, NULL) != 0)
        exit(2);
    pthread_detach(meter);
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        fputs("usage: torture_client blocking|async|command NAME NODES HISTORY SEED GUARD [REDLOCK]\n", stderr);
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
    if (strcmp(argv[1], "blocking") == 0)
        run_blocking(argv[3], &options);
    else
        run_async(argv[3], &options);
    for (unsigned i = 0; i < WORKERS; i++)
        say(&workers[i], HISTORY_END, 0, "-");
    return 0;
}
