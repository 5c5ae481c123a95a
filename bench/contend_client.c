/* One process of the contest, by one of the APIs. */
#include <ev.h>
#include <redlock/redlock.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "actor.h"
#include "clock.h"
#include "contend.h"

static const char resource[] = "/0000/contended";

static struct {
    const struct contest *contest;
    struct account *account;
    unsigned self; /* 1 + number */
    redlock_client *client;
    redlock_lock *lock;
    uint64_t started, acquired; /* clock */
    struct ev_loop *loop;
    ev_io completions; /* API by descriptor */
    ev_io hold_over;   /* a timerfd: the loop's own timers are not exact enough */
} me;

static void witness_begin(void)
{
    unsigned nobody = 0;
    if (!atomic_compare_exchange_strong(&arena->holder, &nobody, me.self))
        atomic_fetch_add(&arena->overlaps, 1);
    if (atomic_exchange(&arena->last_holder, me.self) == me.self)
        return;
    me.account->hand_offs++;
    uint64_t released = atomic_load(&arena->released);
    if (released > 0 && me.acquired > released)
        histogram_add(&me.account->hand_overs, me.acquired - released);
}

static void witness_end(void)
{
    unsigned expected = me.self;
    if (!atomic_compare_exchange_strong(&arena->holder, &expected, 0))
        atomic_fetch_add(&arena->overlaps, 1);
    atomic_store(&arena->released, clock_now());
}

/* Returns false if the contest is over. */
static bool begin_wait(redlock_acquire_options *options)
{
    uint64_t end = atomic_load(&arena->end);
    me.started = clock_now();
    if (me.started >= end)
        return false;
    options->wait_ms = (int64_t)((end - me.started) / 1000000u) + 1;
    return true;
}

/* Returns true if the lock is held. */
static bool end_wait(int status, const redlock_result *result)
{
    struct account *account = me.account;
    me.acquired = clock_now();
    histogram_add(&account->waits, me.acquired - me.started);
    histogram_add(&account->running,
                  me.acquired - me.started - standstills_within(&arena->standstills, me.started, me.acquired));
    if (status != REDLOCK_OK) {
        account->lost_attempts += result->attempts;
        account->failures += status != REDLOCK_TIMED_OUT;
        return false;
    }
    witness_begin();
    account->acquired++;
    account->lost_attempts += result->attempts - 1;
    return true;
}

/* --------------------------------------------------------------------------------------------------------- blocking */

static void run_blocking(void)
{
    redlock_result result;
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    while (begin_wait(&options)) {
        if (!end_wait(redlock_acquire(me.client, resource, &options, &me.lock, &result), &result))
            continue;
        if (me.contest->hold > 0)
            sleep_until(me.acquired + me.contest->hold);
        witness_end();
        me.account->failures += redlock_release(&me.lock, NULL, &result) != REDLOCK_OK;
    }
}

/* ----------------------------------------------------------------------------------------------------- asynchronous */

static void next(void);

static void on_released(redlock_client *client, const redlock_result *result, void *data)
{
    (void)client, (void)data;
    me.account->failures += result->status != REDLOCK_OK;
    next();
}

static void release(void)
{
    witness_end();
    if (redlock_release_async(&me.lock, NULL, on_released, NULL) != REDLOCK_OK)
        actor_fail("a release", "not accepted");
}

static void on_hold_over(struct ev_loop *loop, ev_io *watcher, int events)
{
    uint64_t times;
    (void)loop, (void)events;
    if (read(watcher->fd, &times, sizeof times) == sizeof times)
        release();
}

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *data)
{
    (void)client, (void)data;
    me.lock = lock;
    if (!end_wait(result->status, result)) {
        next();
        return;
    }
    if (me.contest->hold == 0) {
        release();
        return;
    }
    uint64_t over = me.acquired + me.contest->hold;
    struct itimerspec time = {.it_value = {(time_t)(over / 1000000000u), (long)(over % 1000000000u)}};
    timerfd_settime(me.hold_over.fd, TFD_TIMER_ABSTIME, &time, NULL);
}

static void next(void)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    if (!begin_wait(&options))
        ev_break(me.loop, EVBREAK_ALL);
    else if (redlock_acquire_async(me.client, resource, &options, on_acquired, NULL) != REDLOCK_OK)
        actor_fail("an acquire", "not accepted");
}

static void on_ready(redlock_client *client, const redlock_result *result, void *data)
{
    redlock_result copy = *result;
    (void)client, (void)data;
    if (result->status != REDLOCK_OK)
        actor_fail("no client", redlock_result_text(&copy));
    ev_break(me.loop, EVBREAK_ALL);
}

static void on_completions(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop, (void)watcher, (void)events;
    redlock_dispatch(me.client);
}

static void attach(void)
{
    redlock_result result;
    if (redlock_attach(me.loop, me.contest->nodes, NULL, &me.client, &result) != REDLOCK_OK ||
        redlock_ready_async(me.client, ACTOR_READY_TIMEOUT_MS, on_ready, NULL) != REDLOCK_OK)
        actor_fail("no client", redlock_result_text(&result));
    ev_run(me.loop, 0);
}

static void open_asynchronous(void)
{
    me.loop = ev_loop_new(EVFLAG_NOENV);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (!me.loop || timer < 0)
        actor_fail("no loop", "see above");
    ev_io_init(&me.hold_over, on_hold_over, timer, EV_READ);
    ev_io_start(me.loop, &me.hold_over);
    if (me.contest->api == ASYNCHRONOUS) {
        attach();
        return;
    }
    me.client = actor_connect(me.contest->nodes);
    ev_io_init(&me.completions, on_completions, redlock_descriptor(me.client), EV_READ);
    ev_io_start(me.loop, &me.completions);
}

static void run_asynchronous(void)
{
    next();
    ev_run(me.loop, 0);
}

static void on_closed(redlock_client *client, const redlock_result *result, void *data)
{
    (void)client, (void)result, (void)data;
    ev_break(me.loop, EVBREAK_ALL);
}

static void close_asynchronous(void)
{
    redlock_close_async(&me.client, NULL, on_closed, NULL);
    ev_run(me.loop, 0);
}

/* ---------------------------------------------------------------------------------------------------------- process */

static void on_begin(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    if (atomic_load(&arena->begin) == 0)
        return;
    ev_timer_stop(loop, timer);
    ev_break(loop, EVBREAK_ALL);
}

/* A client on a loop needs the loop meanwhile. */
static void wait_for_begin(void)
{
    if (me.loop) {
        ev_timer timer;
        ev_timer_init(&timer, on_begin, 0.001, 0.001);
        ev_timer_start(me.loop, &timer);
        ev_run(me.loop, 0);
    }
    while (atomic_load(&arena->begin) == 0)
        usleep(1000);
    sleep_until(atomic_load(&arena->begin));
}

void contend(const void *argument)
{
    const struct contest *contest = me.contest = argument;
    me.account = &arena->accounts[contest->number];
    me.self = contest->number + 1;
    prctl(PR_SET_TIMERSLACK, 1); /* so that the hold does not last 50 us longer than requested */
    if (contest->api == BLOCKING)
        me.client = actor_connect(contest->nodes);
    else
        open_asynchronous();
    atomic_fetch_add(&arena->ready, 1);
    wait_for_begin();
    uint64_t cpu = clock_cpu();
    if (contest->api == BLOCKING)
        run_blocking();
    else
        run_asynchronous();
    me.account->cpu = clock_cpu() - cpu;
    if (contest->api == ASYNCHRONOUS)
        close_asynchronous();
    else
        redlock_close(&me.client, NULL, NULL);
}
