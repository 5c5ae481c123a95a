/* Each function that waits for nodes has a deadline, can be cancelled and ends with its client, in all three ways to
 * call. Three of five nodes are frozen: there is no majority, and no reply timeout passes during the test. */
#include "fake/calls.h"

#include <unistd.h>

#include "support/clock.h"

enum { DEADLINE_MS = 100, FROZEN = 3, NODES = 5, ATTEMPTS = 20 };
enum { WAITING_CALLS = CALL_READY, ROWS_OF_CALLS = WAITING_CALLS * WAYS };

/* The client that has the lock when the call begins. */
enum {
    OURS = CALL_BIT(CALL_RELEASE) | CALL_BIT(CALL_EXTEND) | CALL_BIT(CALL_DOWNGRADE) | CALL_BIT(CALL_CLOSE),
    ANOTHERS = CALL_BIT(CALL_ADOPT) | CALL_BIT(CALL_RELEASE_TOKEN),
    RELEASES = CALL_BIT(CALL_RELEASE) | CALL_BIT(CALL_RELEASE_TOKEN) | CALL_BIT(CALL_CLOSE),
};

static unsigned number; /* of the call */
static enum way way;

static bool is_among(unsigned calls)
{
    return calls & CALL_BIT(number);
}

static void five_nodes(void)
{
    scene_begin(NODES);
    call_begin();
    call.acquire.wait_ms = REDLOCK_FOREVER;
    call.node = NODES - 1; /* it is not frozen: prepare() holds its reply back */
}

/* With the guard: new nodes are in quarantine until the client trusts them. */
static void open_guarded(void)
{
    scene.options.guard = 1;
    if (way == ATTACHED)
        scene_attach_only();
    else
        ck_assert_status(redlock_connect(scene_list(), &scene.options, &scene.client, NULL), REDLOCK_OK);
    scene.connected = way == ATTACHED ? NULL : scene.client;
    call.limits.timeout_ms = REDLOCK_FOREVER;
    while (call_run(CALL_TRUST, way) != REDLOCK_OK || call.answer.result.granted < NODES)
        ;
}

/* Brings the nodes into the state in which the row's call begins, and freezes three of them. */
static void prepare(int row)
{
    number = (unsigned)(row / WAYS % WAITING_CALLS);
    way = (enum way)(row % WAYS);
    scene.options.ttl_ms = 30000; /* the longest with the guard */
    scene.options.renewal_percent = 0;
    if (!scene.client && number == CALL_TRUST)
        open_guarded();
    else if (!scene.client)
        (way == ATTACHED ? scene_attach : scene_connect)();
    if (is_among(OURS) && !call.lock) {
        call.lock = scene_lock("stock");
        scene_wait_for_sent_to(0, NODES, SENT_SET, 1);
    }
    if (is_among(ANOTHERS))
        scene_hold_on(0, NODES, "stock");
    scene_each(0, FROZEN, fake_server_pause);
    if (number == CALL_SCAN)
        scene_add_rule(
            NODES - 1, NODES,
            &(struct fake_rule){.command = "SCAN", .skip = true, .reply = "*2\r\n$1\r\n0\r\n*0\r\n", .hold = true});
}

/* What goes on in the background ends: no key is left of a lock that was to be released. */
static void assert_goes_on(void)
{
    scene_calm(0, NODES);
    if (is_among(RELEASES))
        scene_wait_for_no_key(0, NODES, "stock");
    if (number != CALL_ADOPT)
        return;
    scene_assert_key(0, NODES, "stock", true); /* another process has the lock */
    scene_let_go_on(0, NODES, "stock");
}

static void assert_cut(int status, int expected)
{
    ck_assert_msg(status == expected, "%s: %s instead of %s: %s", call_name(number), redlock_status_name(status),
                  redlock_status_name(expected), redlock_result_text(&call.answer.result));
    ck_assert_status(call.answer.result.status, expected);
    ck_assert(!call.got && !call.answer.lock);
    if (number == CALL_RELEASE || number == CALL_RELEASE_TOKEN)
        ck_assert_has(call.answer.result.text, "the release goes on in the background");
    if (number == CALL_RELEASE)
        ck_assert_ptr_null(call.lock);
    if (number == CALL_CLOSE) {
        call.lock = NULL; /* the client's */
        ck_assert_uint_ge(call.answer.result.pending_undos, FROZEN);
        ck_assert_has(call.answer.result.text, "undos not confirmed");
    }
}

TEST_CASE_WITHIN(deadlines, five_nodes, scene_end, 2 * SCENE_TIMEOUT_S);

/* A busy machine wakes a thread late, but not each time, and lets it wait, which does not count. */
TEST_ROWS(deadlines, a_call_ends_at_its_deadline, ROWS_OF_CALLS)
{
    double took_ms = 0;
    for (unsigned i = 0; i < ATTEMPTS && (i == 0 || took_ms > DEADLINE_MS + 10); i++) {
        prepare(_i);
        call.limits.timeout_ms = call.acquire.wait_ms = DEADLINE_MS;
        double waited_ms = lateness_waited_ms(getpid());
        uint64_t begun = test_now_ns();
        int status = call_run(number, way);
        took_ms = (double)(test_now_ns() - begun) / 1e6;
        assert_cut(status, REDLOCK_TIMED_OUT);
        ck_assert_double_ge(took_ms, DEADLINE_MS - 1);
        took_ms -= lateness_waited_ms(getpid()) - waited_ms;
        assert_goes_on();
    }
    ck_assert_msg(took_ms <= DEADLINE_MS + 10, "%s took %.1f ms at best", call_name(number), took_ms);
}

static bool is_any_sent(void *unused)
{
    (void)unused;
    return fake_server_count(scene.node[NODES - 1], NULL) > 0;
}

static void *cancel_when_sent(void *unused)
{
    wait_until(is_any_sent, unused, SCENE_SOON_MS);
    redlock_cancel(scene.cancellation);
    return NULL;
}

/* Before the call it prevents everything but a release, which goes on. */
TEST_ROWS(deadlines, a_cancellation_ends_a_call, ROWS_OF_CALLS + WAITING_CALLS)
{
    bool before = _i >= ROWS_OF_CALLS;
    pthread_t thread;
    prepare(before ? _i % WAITING_CALLS * WAYS + _i % WAYS : _i);
    call.limits.cancellation = call.acquire.cancellation = scene_cancellation();
    scene_each(0, NODES, fake_server_forget_records);
    if (before)
        redlock_cancel(scene.cancellation);
    else
        thread = scene_thread(cancel_when_sent, NULL);
    assert_cut(call_run(number, way), REDLOCK_CANCELLED);
    if (!before)
        scene_join(thread);
    else if (!is_among(RELEASES))
        ck_assert_uint_eq(scene_count_all(SENT_ATTEMPT) + scene_count_all(SENT_EXTEND) + scene_count_all(SENT_QUERY),
                          0);
    assert_goes_on();
}

/* Of a client of each kind. The close waits for the replies to undos; when the nodes resume, no key stays on them. */
TEST_ROWS(deadlines, a_close_ends_a_call, ROWS_OF_CALLS)
{
    static struct answer closed;
    if (_i % WAYS == BLOCKING || _i / WAYS == CALL_CLOSE)
        return;
    prepare(_i);
    scene_cleared(&call.answer);
    scene_started(&call.answer, call_start(number, way));
    if (way == ATTACHED)
        scene_turn();
    ck_assert_uint_eq(call.answer.callbacks, 0);
    scene_start_close(&closed);
    ck_assert_status(scene_wait(&call.answer), REDLOCK_CANCELLED); /* no node has replied */
    ck_assert_ptr_null(call.answer.lock);
    scene_calm(0, NODES);
    ck_assert_status(scene_wait(&closed), REDLOCK_OK);
    ck_assert_uint_eq(closed.result.pending_undos, 0);
    ck_assert_uint_lt(call.answer.place, closed.place);
}

SCENE_CASE(going_on, five_nodes);

/* The majority replies after the call has ended. */
TEST_ROWS(going_on, an_extension_that_is_confirmed_later_counts, WAYS)
{
    prepare(CALL_EXTEND * WAYS + _i);
    int64_t end = redlock_valid_until_ns(call.lock);
    call.limits.timeout_ms = 0;
    ck_assert_status(call_run(CALL_EXTEND, way), REDLOCK_TIMED_OUT);
    ck_assert_int_eq(redlock_valid_until_ns(call.lock), end);
    scene_calm(0, NODES);
    scene_until(redlock_valid_until_ns(call.lock) > end);
}

/* A node that is being connected gets the release when it is ready. */
TEST(going_on, a_release_by_token_reaches_nodes_that_connect_later)
{
    scene_hold_on(0, NODES, "stock");
    scene_add_rule(0, FROZEN, &(struct fake_rule){.command = "CLIENT ID", .hold = true});
    scene_attach_only();
    scene_until(scene_ready_nodes() == NODES - FROZEN);
    number = CALL_RELEASE_TOKEN;
    call.limits.timeout_ms = 50;
    ck_assert_status(call_run(number, ATTACHED), REDLOCK_TIMED_OUT);
    scene_wait_for_no_key(FROZEN, NODES, "stock");
    scene_assert_key(0, FROZEN, "stock", true);
    assert_goes_on();
}

/* --- Bad input --- */

static const struct {
    redlock_call_options options;
    const char *words;
} bad[] = {
    {{.struct_size = 3}, "struct_size is 3"},
    {{.struct_size = 1u << 30}, "struct_size is 1073741824"},
    {{.struct_size = sizeof(redlock_call_options)}, "the options are not initialised"},
    {{.struct_size = REDLOCK_STRUCT_SIZE(redlock_call_options), .timeout_ms = -2}, "timeout_ms is -2"},
    {{.struct_size = REDLOCK_STRUCT_SIZE(redlock_call_options), .timeout_ms = INT64_MIN},
     "timeout_ms is -9223372036854775808"},
};

/* Nothing is done: a handle stays, and so does a client. Each call reads its options in the same way. */
TEST_ROWS(deadlines, bad_call_options_are_refused_in_words, WAYS)
{
    prepare(CALL_RELEASE * WAYS + _i);
    redlock_client *client = scene.client;
    redlock_lock *lock = call.lock;
    for (number = CALL_RELEASE; number < WAITING_CALLS; number++) {
        call.limits = bad[number % ROWS(bad)].options;
        if (way != BLOCKING && (number == CALL_RELEASE || number == CALL_CLOSE)) {
            ck_assert_status(call_start(number, way), REDLOCK_INVALID);
        } else {
            ck_assert_status(call_run(number, way), REDLOCK_INVALID);
            ck_assert_has(call.answer.result.text, bad[number % ROWS(bad)].words);
        }
        ck_assert_ptr_eq(scene.client, client);
        ck_assert_ptr_eq(call.lock, lock);
    }
}

/* Only the callback gets the result. A release needs none, and a close only of a client with its own thread. */
TEST_ROWS(deadlines, null_callback_is_refused_and_logged, BLOCKING)
{
    prepare(CALL_RELEASE * WAYS + _i);
    redlock_client *client = scene.client;
    scene_calm(0, NODES);
    call.no_callback = true;
    ck_assert_uint_eq(calls_not_refused(way, CALL_BIT(CALL_RELEASE) | CALL_BIT(CALL_CLOSE), ""), 0);
    scene_until(scene_is_logged("the callback of a ..._async function is NULL"));
    if (way == DESCRIPTOR) {
        ck_assert_status(call_start(CALL_CLOSE, way), REDLOCK_INVALID);
        scene_until(scene_is_logged("redlock_close_async(): the callback is NULL"));
    }
    ck_assert_ptr_eq(scene.client, client);
    ck_assert_int_gt(redlock_validity_ms(call.lock), 0);
    ck_assert_status(call_start(CALL_RELEASE, way), REDLOCK_OK);
    ck_assert_ptr_null(call.lock);
}

/* A release ends a lock, and a close everything else: the limit refuses neither. An operation has ended when its
 * completion has been dispatched. */
TEST_ROWS(deadlines, more_operations_than_allowed_are_refused_but_no_release, BLOCKING)
{
    struct answer asked[2];
    scene.options.operations_max = 2;
    prepare(CALL_RELEASE * WAYS + _i);
    for (unsigned i = 0; i < 2; i++)
        scene_start_query(&asked[i], "stock");
    if (way == DESCRIPTOR)
        scene_calm(0, NODES);
    scene_until(way == ATTACHED || scene_statistics().operations_pending == 0);
    ck_assert_uint_eq(calls_not_refused(way, RELEASES, ""), 0);
    scene_until(scene_is_logged("operations_max"));
    scene_started(&call.answer, call_start(CALL_RELEASE, way));
    scene_calm(0, NODES);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_status(scene_wait(&asked[i]), REDLOCK_OK);
    ck_assert_status(scene_wait(&call.answer), REDLOCK_OK);
    ck_assert_status(call_run(CALL_QUERY, way), REDLOCK_OK);
}

TEST_PROGRAM("deadlines")
