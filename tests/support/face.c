#define _GNU_SOURCE
#include "face.h"

#include "clock.h"
#include "fixture.h"

#include <ev.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIMIT_MS = 60000, READY_MS = 20000 };

struct face {
    enum face_kind kind;
    redlock_client *client;
    struct ev_loop *loop; /* NULL unless ASYNCHRONOUS_FACE */
    struct face *next;    /* the one opened before */
};

static struct face *newest;

/* The result of a callback, and where to store it. */
struct completion {
    unsigned calls;
    bool inside; /* the call that started it has not returned */
    int status;
    redlock_lock **lock;
    redlock_state *state;
    redlock_result *result;
};

enum face_kind face_of(int i)
{
    return (enum face_kind)(i % FACES);
}

redlock_options face_options(void)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.ttl_ms = 60000;
    options.guard = 0; /* the test owns the servers; the guard has separate tests */
    options.node_timeout_ms = 10000;
    options.connect_timeout_ms = 10000;
    options.silence_limit_ms = 30000;
    options.backoff_max_ms = 50;
    options.renewal_percent = 0;
    return options;
}

/* --- Opening and closing --- */

struct face *face_open(enum face_kind kind, const char *nodes, const redlock_options *options)
{
    redlock_options defaults = face_options();
    struct face *face = fixture_allocate(sizeof *face);
    redlock_result result;
    int status;
    face->kind = kind;
    if (!options)
        options = &defaults;
    if (kind != ASYNCHRONOUS_FACE) {
        status = redlock_connect(nodes, options, &face->client, &result);
    } else {
        face->loop = ev_loop_new(EVFLAG_NOENV);
        status = redlock_attach(face->loop, nodes, options, &face->client, &result);
    }
    if (status != REDLOCK_OK)
        fixture_fail("no client for %s: %s", nodes, redlock_result_text(&result));
    face->next = newest;
    newest = face;
    return face;
}

struct face *face_newest(void)
{
    return newest;
}

redlock_client *face_client(struct face *face)
{
    return face->client;
}

struct ev_loop *face_loop(struct face *face)
{
    return face->loop;
}

static bool all_ready(void *arg)
{
    struct face *face = arg;
    redlock_result result;
    return face_ready(face, 0, &result) == REDLOCK_OK && result.granted == result.nodes;
}

bool face_wait_all_ready(struct face *face)
{
    redlock_result result;
    bool ready = face_wait(face, all_ready, face, READY_MS);
    if (!ready) {
        face_ready(face, 0, &result);
        fprintf(stderr, "not all nodes are ready: %s\n", redlock_result_text(&result));
    }
    return ready;
}

struct face *face_open_ready(enum face_kind kind, const char *nodes, const redlock_options *options)
{
    struct face *face = face_open(kind, nodes, options);
    if (!face_wait_all_ready(face))
        fixture_fail("not all of the nodes became ready: %s", nodes);
    return face;
}

/* --- Turning the loop --- */

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)timer;
    (void)events;
}

/* Waits for completions, and runs their callbacks. */
static void dispatch(redlock_client *client, int timeout_ms)
{
    struct pollfd completions = {.fd = redlock_descriptor(client), .events = POLLIN};
    if (poll(&completions, 1, timeout_ms) > 0 && redlock_dispatch(client) != REDLOCK_OK)
        fixture_fail("redlock_dispatch() failed");
}

bool face_wait(struct face *face, bool (*predicate)(void *arg), void *arg, unsigned timeout_ms)
{
    uint64_t deadline = test_deadline_ns(timeout_ms);
    ev_timer tick;
    bool met;
    if (face->kind == BLOCKING_FACE)
        return wait_until(predicate, arg, timeout_ms);
    if (face->kind == DESCRIPTOR_FACE) {
        while (!(met = predicate(arg)) && test_ms_left(deadline) > 0)
            dispatch(face->client, 1);
        return met;
    }
    ev_timer_init(&tick, on_timer, 0.001, 0.001);
    ev_timer_start(face->loop, &tick);
    while (!(met = predicate(arg)) && test_ms_left(deadline) > 0)
        ev_run(face->loop, EVRUN_ONCE);
    ev_timer_stop(face->loop, &tick);
    return met;
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

void face_idle(struct face *face, unsigned duration_ms)
{
    face_wait(face, never, NULL, duration_ms);
}

/* --- Callbacks --- */

static void on_completed(redlock_client *client, const redlock_result *result, void *arg)
{
    struct completion *completion = arg;
    (void)client;
    if (completion->inside || ++completion->calls > 1)
        fixture_fail("a callback from inside the call that started it, or more than one");
    completion->status = result->status;
    *completion->result = *result;
}

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    struct completion *completion = arg;
    *completion->lock = lock;
    on_completed(client, result, arg);
}

static void on_queried(redlock_client *client, const redlock_state *state, const redlock_result *result, void *arg)
{
    struct completion *completion = arg;
    *completion->state = *state;
    on_completed(client, result, arg);
}

static void on_closed(redlock_client *client, const redlock_result *result, void *arg)
{
    if (client)
        fixture_fail("the close callback was given a client");
    on_completed(client, result, arg);
}

static bool is_completed(void *arg)
{
    const struct completion *completion = arg;
    return completion->calls > 0;
}

static int finish(struct face *face, struct completion *completion, int started)
{
    completion->inside = false;
    if (started == REDLOCK_OK && !face_wait(face, is_completed, completion, LIMIT_MS))
        fixture_fail("an operation had not ended after %d ms", LIMIT_MS);
    return started == REDLOCK_OK ? completion->status : started;
}

static int checked(int status, const redlock_result *result)
{
    if (result->status != status)
        fixture_fail("returned %s, but the result says %s", redlock_status_name(status),
                     redlock_status_name(result->status));
    return status;
}

/* --- Operations --- */

/* A function that calls the blocking function, or the asynchronous one with its callback. out: what the callback gets besides the
 * result. */
#define CALL(declaration, out, blocking, asynchronous)                                                                 \
    int declaration                                                                                                    \
    {                                                                                                                  \
        struct completion completion = {.inside = true, .result = result, out};                                        \
        if (completion.lock && face->kind != BLOCKING_FACE)                                                            \
            *completion.lock = NULL; /* for a call that is refused at once */                                          \
        return face->kind == BLOCKING_FACE ? checked((blocking), result) : finish(face, &completion, (asynchronous));  \
    }

CALL(face_ready(struct face *face, int64_t wait_ms, redlock_result *result), .lock = NULL,
     redlock_ready(face->client, wait_ms, result),
     redlock_ready_async(face->client, wait_ms, on_completed, &completion))
CALL(face_acquire(struct face *face, const char *resource, const redlock_acquire_options *options, redlock_lock **lock,
                  redlock_result *result),
     .lock = lock, redlock_acquire(face->client, resource, options, lock, result),
     redlock_acquire_async(face->client, resource, options, on_acquired, &completion))
CALL(face_trust(struct face *face, redlock_result *result), .lock = NULL, redlock_trust(face->client, NULL, result),
     redlock_trust_async(face->client, NULL, on_completed, &completion))
CALL(face_inspect(struct face *face, const char *resource, redlock_result *result), .lock = NULL,
     redlock_inspect(face->client, resource, 0, NULL, result),
     redlock_inspect_async(face->client, resource, 0, NULL, on_completed, &completion))
CALL(face_extend(struct face *face, redlock_lock *lock, uint32_t ttl_ms, redlock_result *result), .lock = NULL,
     redlock_extend(lock, ttl_ms, NULL, result), redlock_extend_async(lock, ttl_ms, NULL, on_completed, &completion))
CALL(face_downgrade(struct face *face, redlock_lock *lock, redlock_result *result), .lock = NULL,
     redlock_downgrade(lock, NULL, result), redlock_downgrade_async(lock, NULL, on_completed, &completion))
CALL(face_release(struct face *face, redlock_lock **lock, redlock_result *result), .lock = NULL,
     redlock_release(lock, NULL, result), redlock_release_async(lock, NULL, on_completed, &completion))
CALL(face_query(struct face *face, const char *resource, redlock_state *state, redlock_result *result), .state = state,
     redlock_query(face->client, resource, 0, NULL, state, result),
     redlock_query_async(face->client, resource, 0, NULL, on_queried, &completion))

int face_close(struct face **face, redlock_result *result)
{
    struct face *closing = *face;
    redlock_result unused;
    struct completion completion = {.inside = true, .result = result ? result : &unused};
    struct face **link = &newest;
    int status;
    *face = NULL;
    while (*link != closing)
        link = &(*link)->next;
    *link = closing->next;
    if (closing->kind == BLOCKING_FACE) {
        status = checked(redlock_close(&closing->client, NULL, completion.result), completion.result);
    } else {
        redlock_client *client = closing->client; /* to dispatch it until it is closed */

        status = finish(closing, &completion, redlock_close_async(&client, NULL, on_closed, &completion));
        if (closing->loop)
            ev_loop_destroy(closing->loop);
    }
    free(closing);
    return status;
}
