/* Each function that waits for nodes has a deadline and can be cancelled, in all three ways to call. Three of five nodes
 * are frozen: there is no majority, and no reply timeout passes during the test. */
#include "fake/scene.h"

#include <stdatomic.h>

enum way { ATTACHED, DESCRIPTOR, BLOCKING, WAYS };
enum { DEADLINE_MS = 100, FROZEN = 3, NODES = 5, ATTEMPTS = 20 };

static struct answer answer;
static redlock_lock *lock;
static redlock_call_options limits;
static redlock_acquire_options acquire_limits; /* the same for functions that have acquire options */
static enum way way;

static int finish(int started)
{
    return scene_wait(scene_started(&answer, started));
}

#define RUN(name, blocking, asynchronous)                                                                              \
    static int run_##name(void)                                                                                        \
    {                                                                                                                  \
        return way == BLOCKING ? (blocking) : finish((asynchronous));                                                  \
    }

static void scan_found(const redlock_found *found, void *arg)
{
    (void)arg;
    ck_abort_msg("found %s", found->resource.bytes);
}

RUN(release, redlock_release(&lock, &limits, &answer.result),
    redlock_release_async(&lock, &limits, scene_completed, &answer))
RUN(extend, redlock_extend(lock, 0, &limits, &answer.result),
    redlock_extend_async(lock, 0, &limits, scene_completed, &answer))
RUN(downgrade, redlock_downgrade(lock, &limits, &answer.result),
    redlock_downgrade_async(lock, &limits, scene_completed, &answer))
RUN(query, redlock_query(scene.client, "stock", 0, &limits, NULL, &answer.result),
    redlock_query_async(scene.client, "stock", 0, &limits, scene_queried, &answer))
RUN(adopt, redlock_adopt(scene.client, "stock", &acquire_limits, SCENE_OTHER, &lock, &answer.result),
    redlock_adopt_async(scene.client, "stock", &acquire_limits, SCENE_OTHER, scene_acquired, &answer))
RUN(acquire, redlock_acquire(scene.client, "more", &acquire_limits, &lock, &answer.result),
    redlock_acquire_async(scene.client, "more", &acquire_limits, scene_acquired, &answer))
RUN(release_token, redlock_release_token(scene.client, "stock", 0, SCENE_OTHER, &limits, &answer.result),
    redlock_release_token_async(scene.client, "stock", 0, SCENE_OTHER, &limits, scene_completed, &answer))
RUN(trust, redlock_trust(scene.client, &limits, &answer.result),
    redlock_trust_async(scene.client, &limits, scene_completed, &answer))
RUN(inspect, redlock_inspect(scene.client, "stock", 0, &limits, &answer.result),
    redlock_inspect_async(scene.client, "stock", 0, &limits, scene_completed, &answer))
/* It asks one node, here one that is not frozen: prepare() holds its reply back. */
RUN(scan, redlock_scan(scene.client, NODES - 1, NULL, scan_found, NULL, &limits, &answer.result),
    redlock_scan_async(scene.client, NODES - 1, NULL, scan_found, NULL, &limits, scene_completed, &answer))
RUN(close, redlock_close(&scene.client, &limits, &answer.result),
    redlock_close_async(&scene.client, &limits, scene_completed, &answer))

/* Who has the lock when the call begins. */
enum holder { NO_HOLDER, THIS_CLIENT, OTHER_CLIENT };

static const struct row {
    const char *name;
    int (*run)(void);
    enum holder holder;
    bool is_release;
} rows[] = {
    {"acquire", run_acquire, NO_HOLDER, false},  {"adopt", run_adopt, OTHER_CLIENT, false},
    {"release", run_release, THIS_CLIENT, true}, {"release_token", run_release_token, OTHER_CLIENT, true},
    {"extend", run_extend, THIS_CLIENT, false},  {"query", run_query, NO_HOLDER, false},
    {"trust", run_trust, NO_HOLDER, false},      {"inspect", run_inspect, NO_HOLDER, false},
    {"scan", run_scan, NO_HOLDER, false},        {"downgrade", run_downgrade, THIS_CLIENT, false},
    {"close", run_close, THIS_CLIENT, true},
};
#define CALLS (ROWS(rows) * WAYS)

static void no_limits(void)
{
    limits = (redlock_call_options)REDLOCK_CALL_OPTIONS_INIT;
    acquire_limits = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    acquire_limits.wait_ms = REDLOCK_FOREVER;
}

static void five_nodes(void)
{
    scene_begin(NODES);
    lock = NULL;
    way = ATTACHED;
    no_limits();
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
    limits.timeout_ms = REDLOCK_FOREVER;
    do
        memset(&answer, 0, sizeof answer);
    while (run_trust() != REDLOCK_OK || answer.result.granted < NODES);
}

/* Brings the nodes into the state in which the call begins, and freezes three of them. */
static void prepare(const struct row *row)
{
    scene.options.ttl_ms = 30000; /* the longest with the guard */
    scene.options.renewal_percent = 0;
    if (!scene.client && row->run == run_trust)
        open_guarded();
    else if (!scene.client)
        (way == ATTACHED ? scene_attach : scene_connect)();
    if (row->holder == THIS_CLIENT && !lock) {
        lock = scene_lock("stock");
        scene_wait_for_sent_to(0, NODES, SENT_SET, 1);
    }
    if (row->holder == OTHER_CLIENT)
        scene_hold_on(0, NODES, "stock");
    scene_each(0, FROZEN, fake_server_pause);
    if (row->run == run_scan)
        scene_add_rule(
            NODES - 1, NODES,
            &(struct fake_rule){.command = "SCAN", .skip = true, .reply = "*2\r\n$1\r\n0\r\n*0\r\n", .hold = true});
    memset(&answer, 0, sizeof answer);
}

/* What goes on in the background ends: no key is left of a lock that was to be released. */
static void assert_goes_on(const struct row *row)
{
    scene_calm(0, NODES);
    if (row->is_release)
        for (unsigned i = 0; i < NODES; i++)
            scene_until(!scene_has_key(i, "stock"));
    if (row->run != run_adopt)
        return;
    scene_assert_key(0, NODES, "stock", true); /* another process has the lock */
    scene_let_go_on(0, NODES, "stock");
}

static void assert_cut(const struct row *row, int status, int expected)
{
    ck_assert_msg(status == expected, "%s: %s instead of %s: %s", row->name, redlock_status_name(status),
                  redlock_status_name(expected), redlock_result_text(&answer.result));
    ck_assert_status(answer.result.status, expected);
    if (row->run == run_close)
        lock = NULL; /* the client's */
    ck_assert(!lock || row->run == run_extend || row->run == run_downgrade);
    if (row->run == run_release || row->run == run_release_token)
        ck_assert_has(answer.result.text, "the release goes on in the background");
    if (row->run == run_close) {
        ck_assert_uint_ge(answer.result.pending_undos, FROZEN);
        ck_assert_has(answer.result.text, "undos not confirmed");
    }
}

TEST_CASE_WITHIN(deadlines, five_nodes, scene_end, 2 * SCENE_TIMEOUT_S);

/* A busy machine wakes a thread late, but not each time. */
TEST_ROWS(deadlines, a_call_ends_at_its_deadline, CALLS)
{
    const struct row *row = &rows[_i / WAYS];
    uint64_t took_ns = UINT64_MAX;
    way = (enum way)(_i % WAYS);
    for (unsigned i = 0; i < ATTEMPTS && took_ns > (DEADLINE_MS + 10) * 1000000ull; i++) {
        prepare(row);
        limits.timeout_ms = acquire_limits.wait_ms = DEADLINE_MS;
        uint64_t begun = test_now_ns();
        int status = row->run();
        took_ns = test_now_ns() - begun;
        assert_cut(row, status, REDLOCK_TIMED_OUT);
        ck_assert_uint_ge(took_ns, (DEADLINE_MS - 1) * 1000000ull);
        assert_goes_on(row);
    }
    ck_assert_msg(took_ns <= (DEADLINE_MS + 10) * 1000000ull, "%s took %.1f ms at best", row->name,
                  (double)took_ns / 1e6);
}

static bool is_any_sent(void *unused)
{
    (void)unused;
    return fake_server_count(scene.node[NODES - 1], NULL) > 0;
}

static void *cancel_when_sent(void *unused)
{
    (void)unused;
    wait_until(is_any_sent, NULL, SCENE_SOON_MS);
    redlock_cancel(scene.cancellation);
    return NULL;
}

/* Before the call it prevents everything but a release, which goes on. */
TEST_ROWS(deadlines, a_cancellation_ends_a_call, 2 * CALLS)
{
    const struct row *row = &rows[_i / WAYS % ROWS(rows)];
    bool before = _i >= CALLS;
    pthread_t thread;
    way = (enum way)(_i % WAYS);
    prepare(row);
    limits.cancellation = acquire_limits.cancellation = scene_cancellation();
    scene_each(0, NODES, fake_server_forget_records);
    if (before)
        redlock_cancel(scene.cancellation);
    else
        thread = scene_thread(cancel_when_sent, NULL);
    assert_cut(row, row->run(), REDLOCK_CANCELLED);
    if (!before)
        scene_join(thread);
    else if (!row->is_release)
        ck_assert_uint_eq(scene_count_all(SENT_ATTEMPT) + scene_count_all(SENT_EXTEND) + scene_count_all(SENT_QUERY),
                          0);
    assert_goes_on(row);
}

/* --- What goes on --- */

SCENE_CASE(going_on, five_nodes);

/* The majority replies after the call has ended. */
TEST_ROWS(going_on, an_extension_that_is_confirmed_later_counts, WAYS)
{
    way = (enum way)_i;
    prepare(&rows[4]);
    int64_t end = redlock_valid_until_ns(lock);
    limits.timeout_ms = 0;
    ck_assert_status(run_extend(), REDLOCK_TIMED_OUT);
    ck_assert_int_eq(redlock_valid_until_ns(lock), end);
    scene_calm(0, NODES);
    scene_until(redlock_valid_until_ns(lock) > end);
}

/* A node that is being connected gets the release when it is ready. */
TEST(going_on, a_release_by_token_reaches_nodes_that_connect_later)
{
    scene_hold_on(0, NODES, "stock");
    scene_add_rule(0, FROZEN, &(struct fake_rule){.command = "CLIENT ID", .hold = true});
    scene_attach_only();
    scene_until(scene_ready_nodes() == NODES - FROZEN);
    limits.timeout_ms = 50;
    ck_assert_status(run_release_token(), REDLOCK_TIMED_OUT);
    for (unsigned i = 0; i < NODES; i++)
        ck_assert_int_eq(scene_has_key(i, "stock"), i < FROZEN);
    assert_goes_on(&rows[3]);
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
TEST_ROWS(deadlines, bad_call_options_are_refused_in_words, CALLS)
{
    const struct row *row = &rows[_i / WAYS];
    if (row->run == run_acquire || row->run == run_adopt)
        return;
    way = (enum way)(_i % WAYS);
    prepare(row);
    redlock_client *client = scene.client;
    redlock_lock *handle = lock;
    limits = bad[_i % ROWS(bad)].options;
    bool at_once = way != BLOCKING && (row->run == run_release || row->run == run_close);
    if (at_once && row->run == run_release)
        ck_assert_status(redlock_release_async(&lock, &limits, scene_completed, &answer), REDLOCK_INVALID);
    else if (at_once)
        ck_assert_status(redlock_close_async(&scene.client, &limits, scene_completed, &answer), REDLOCK_INVALID);
    else
        ck_assert_status(row->run(), REDLOCK_INVALID);
    if (!at_once)
        ck_assert_has(answer.result.text, bad[_i % ROWS(bad)].words);
    ck_assert_ptr_eq(scene.client, client);
    ck_assert_ptr_eq(lock, handle);
    if (row->holder == OTHER_CLIENT)
        scene_let_go_on(0, NODES, "stock");
}

TEST_PROGRAM("deadlines")
