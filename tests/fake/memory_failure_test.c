/*
 * Fails each allocation of the asynchronous API once, on the host's loop and on the client's own, while a client uses
 * every function. The library must not crash or leak, every operation must end with NO_MEMORY or as if the allocation had
 * succeeded, and no key may be left.
 */
#include "fake/calls.h"

#include "src/client/client.h"
#include "support/file.h"

static struct test_allocator *allocator;

/* The k-th allocation fails, and all later ones if memory is short until the client is closed; 0: none. */
static void begin_life(bool lasts, size_t k)
{
    allocator = scene_count_memory();
    (lasts ? test_allocator_fail_from : test_allocator_fail_at)(allocator, k);
}

static void assert_no_leak(size_t k)
{
    ck_assert_msg(test_allocator_live(allocator) == 0, "allocation %zu failed, and memory leaked", k);
    test_allocator_free(allocator);
}

/* true: no allocation failed in this run, so k has passed the last one. */
static bool end_life(size_t k)
{
    /* A waiter that lacks the memory to leave the queue stays in it until its entry expires. */
    static const char *const queue[] = {"held:redlock:queue", "held:redlock:alive", "held:redlock:free", NULL};
    bool flawless = test_allocator_failures(allocator) == 0;
    ck_assert_ptr_null(scene.client);
    assert_no_leak(k);
    scene_let_go_on(0, scene.nodes, "held");
    for (unsigned i = 0; i < scene.nodes; i++) {
        fake_server_forget_records(scene.node[i]);
        ck_assert_msg(fake_server_keys_left(scene.node[i], queue) == 0, "allocation %zu failed, and a key is left", k);
        fake_server_forget_keys(scene.node[i]);
    }
    return flawless;
}

static struct answer answer;
static struct scene_events events;

/* A failure breaks one connection. On a busy machine another may not be there yet: two of three nodes are out of reach. */
static bool is_fine(int status, int expected)
{
    bool failed = test_allocator_failures(allocator) > 0;
    return status == expected || (failed && status == REDLOCK_NO_MEMORY) ||
           (failed && status == REDLOCK_NO_QUORUM && call.answer.result.unreachable > 1);
}

static void assert_fine(const char *what, int status, int expected)
{
    ck_assert_msg(is_fine(status, expected), "%s: %s instead of %s or REDLOCK_NO_MEMORY: %s", what,
                  redlock_status_name(status), redlock_status_name(expected), redlock_result_text(&call.answer.result));
}

/* --- Every function --- */

/* The status of the call itself, or else of its callback. */
static int run(unsigned number, int expected)
{
    scene_cleared(&call.answer);
    int status = call_start(number, ATTACHED);
    if (status == REDLOCK_OK) {
        scene.started++;
        status = scene_wait(&call.answer);
    }
    assert_fine(call_name(number), status, expected);
    return status;
}

/* What a client does in its life. */
static const struct {
    unsigned number;
    const char *resource;
    int64_t wait_ms;
    int expected;
} uses[] = {
    {CALL_READY, NULL, REDLOCK_FOREVER, REDLOCK_OK},
    {CALL_ACQUIRE, "stock", SCENE_SOON_MS, REDLOCK_OK},
    {CALL_EXTEND, NULL, 0, REDLOCK_OK},
    {CALL_QUERY, "stock", 0, REDLOCK_OK},
    {CALL_DOWNGRADE, NULL, 0, REDLOCK_OK},
    {CALL_RELEASE, NULL, 0, REDLOCK_OK},
    {CALL_ACQUIRE, "held", 15, REDLOCK_TIMED_OUT},
    {CALL_ACQUIRE, "left to close", 0, REDLOCK_OK},
    {CALL_ADOPT, "gone", 0, REDLOCK_LOST},
    {CALL_RELEASE_TOKEN, "gone", 0, REDLOCK_LOST},
    {CALL_ADOPT, "adopted", 0, REDLOCK_OK},
    {CALL_INSPECT, "adopted", 0, REDLOCK_OK},
    {CALL_SCAN, NULL, 0, REDLOCK_OK},
};

static void use_client(void)
{
    static const unsigned of_locks = CALL_BIT(CALL_EXTEND) | CALL_BIT(CALL_DOWNGRADE) | CALL_BIT(CALL_RELEASE);
    redlock_cancellation *cancellation = NULL;
    assert_fine("cancellation", redlock_cancellation_create(scene.client, &cancellation), REDLOCK_OK);
    redlock_cancellation_destroy(&cancellation);
    call_begin();
    scene_add_rule(0, 1, &(struct fake_rule){.command = "SCAN", .reply = "*2\r\n$1\r\n0\r\n*0\r\n"});
    scene_hold_on(0, scene.nodes, "adopted");
    for (unsigned i = 0; i < ROWS(uses); i++) {
        call.resource = uses[i].resource;
        call.acquire = *SCENE_WITH(.wait_ms = uses[i].wait_ms, .event = scene_note_event, .event_arg = &events);
        if (of_locks & CALL_BIT(uses[i].number) && !call.lock)
            continue;
        int status = run(uses[i].number, uses[i].expected);
        if (uses[i].number == CALL_ACQUIRE)
            call.lock = call.answer.lock;
        else if (uses[i].number == CALL_RELEASE) /* released, with or without a callback */
            scene_until(!call.lock && !redlock_held_by_me(scene.client, "stock", 0));
        else if (uses[i].number == CALL_ADOPT && status != REDLOCK_OK)
            scene_let_go_on(0, scene.nodes, uses[i].resource);
        ck_assert(uses[i].number != CALL_EXTEND || redlock_held_by_me(scene.client, "stock", 0));
    }
}

static bool live(bool own_thread, bool lasts, size_t k)
{
    begin_life(lasts, k);
    scene.options.operations_max = 2; /* the client forgets none that a failure has ended */
    scene_hold_on(0, 2, "held");
    int status = own_thread ? redlock_connect(scene_list(), &scene.options, &scene.client, NULL)
                            : redlock_attach(scene.loop, scene_list(), &scene.options, &scene.client, NULL);
    scene.connected = own_thread ? scene.client : NULL;
    assert_fine("create", status, REDLOCK_OK);
    if (status == REDLOCK_OK) {
        use_client();
        ck_assert(lasts || test_allocator_failures(allocator) <= 1);
        test_allocator_fail_at(allocator, 0);
        ck_assert_status(run(CALL_CLOSE, REDLOCK_OK), REDLOCK_OK);
    }
    scene.connected = NULL;
    return end_life(k);
}

/* --- Every allocation --- */

TEST_CASE_WITHIN(every_allocation, scene_three_nodes, scene_end, 2 * SCENE_TIMEOUT_S);

/* Behind the first failure of the other kinds of run, and on the client's own thread, the paths are mostly those of the
 * first kind: these take every third allocation. In one process, where valgrind runs it, the four kinds take turns. */
TEST_LONG_ROWS(every_allocation, every_allocation_on_each_thread, 4)
{
    size_t k = 1, kind = (size_t)_i, step = kind == 0 || tests_share_a_process() ? 1 : 3;
    while (!live(kind & 2, kind & 1, k)) {
        k += step;
        kind = tests_share_a_process() ? k % 4 : kind;
    }
    ck_assert_uint_gt(k, 10); /* so allocations did fail */
}

/* --- What a live client keeps --- */

enum { SEEN = 10, NAMES = 40 };

/* How a name is locked, and released. */
static const redlock_acquire_options *const locks_by[] = {
    SCENE_WITH(.wait_ms = 0), SCENE_WITH(.shared = 1), SCENE_WITH(.permits = 3, .permits_wanted = 2),
    SCENE_WITH(.fence = 1, .event = scene_note_event, .event_arg = &events)};

static void delete_key(const char *name)
{
    for (unsigned i = 0; i < scene.nodes; i++)
        fake_server_delete_key(scene.node[i], name);
}

static void wait_in_vain_for(const char *name)
{
    redlock_cancellation *cancellation;
    for (unsigned i = 0; i < scene.nodes; i++)
        fake_server_set_key(scene.node[i], name, SCENE_OTHER, 60000);
    ck_assert_status(scene_acquire(&answer, name, REDLOCK_WAIT_MS(15)), REDLOCK_TIMED_OUT);
    ck_assert_status(redlock_cancellation_create(scene.client, &cancellation), REDLOCK_OK);
    scene_start_acquire(&answer, name, SCENE_WITH(.wait_ms = REDLOCK_FOREVER, .cancellation = cancellation));
    scene_turn();
    redlock_cancel(cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    redlock_cancellation_destroy(&cancellation);
    delete_key(name);
}

static void lose(const char *name)
{
    int descriptor;
    redlock_lock *lock = scene_lock(name);
    ck_assert_status(redlock_lost_descriptor(lock, &descriptor), REDLOCK_OK);
    for (unsigned i = 0; i < scene.nodes; i++)
        scene_until(scene_has_key(i, name));
    delete_key(name);
    ck_assert_status(scene_wait(scene_start_extend(&answer, lock, 0)), REDLOCK_LOST);
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_LOST);
}

static void use_names(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        for (unsigned k = 0; k < ROWS(locks_by); k++) {
            ck_assert_status(scene_acquire(&answer, scene_name(i), locks_by[k]), REDLOCK_OK);
            ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
        }
        wait_in_vain_for(scene_name(i));
        lose(scene_name(i));
        call_begin();
        call.resource = scene_name(i);
        run(CALL_QUERY, REDLOCK_OK);
        run(CALL_INSPECT, REDLOCK_OK);
        run(CALL_RELEASE_TOKEN, REDLOCK_LOST);
        run(CALL_ADOPT, REDLOCK_LOST);
    }
}

TEST_CASE_WITHIN(live_client, scene_three_nodes, scene_end, SCENE_TIMEOUT_S);

/* A client that lives for months meets any number of names. It keeps as much after many of each as after a few. What it
 * keeps for reuse grows with what was in flight at once, hence with how late this thread runs, but not by a block for
 * each name. */
TEST(live_client, memory_and_descriptors_do_not_grow_with_the_names_that_a_client_has_seen)
{
    begin_life(false, 0);
    scene.options.renewal_percent = 0;
    scene_attach();
    use_names(0, SEEN);
    scene_idle(50);
    size_t blocks = test_allocator_live(allocator), descriptors = file_open_descriptors();
    use_names(SEEN, NAMES);
    scene_until_or(test_allocator_live(allocator) < blocks + (NAMES - SEEN) / 2, "%zu blocks, then %zu", blocks,
                   test_allocator_live(allocator));
    scene_until_or(file_open_descriptors() <= descriptors, "%zu descriptors, then %zu", descriptors,
                   file_open_descriptors());
    ck_assert_status(scene_close(&answer), REDLOCK_OK);
    assert_no_leak(1);
}

static const struct rl_nodes *idle_nodes(void)
{
    allocator = scene_count_memory();
    scene_attach();
    for (unsigned i = 0; i < scene.nodes; i++)
        scene_until(rl_node_is_ready(&scene.client->nodes->node[i]));
    return scene.client->nodes;
}

/* Half of it are the nodes, which have room only for what an idle client needs. */
TEST(live_client, an_idle_client_is_small)
{
    idle_nodes();
    ck_assert_uint_le(test_allocator_live_bytes(allocator), 36 * 1024);
}

/* Also if there is memory for the first listener, but not for its buffer. */
TEST_ROWS(live_client, without_memory_for_its_listeners_a_client_polls_until_it_has_some, 2)
{
    const struct rl_nodes *nodes = idle_nodes();
    ck_assert(!rl_listeners_are_deaf(nodes));
    test_allocator_fail_from(allocator, 1 + (size_t)_i);
    ck_assert(!rl_listeners_start(scene.client->nodes));
    ck_assert(rl_listeners_are_deaf(nodes));
    test_allocator_fail_at(allocator, 0);
    ck_assert(rl_listeners_start(scene.client->nodes));
    scene_until(rl_listeners_up(nodes) == quorum_all(scene.nodes));
    ck_assert(!rl_listeners_are_deaf(nodes));
}

/* --- Many locks while no memory is available --- */

enum { MANY = 100 /* more rounds than the client keeps for reuse */, TTL_MS = 600000 };

static redlock_lock *locks[MANY];

static void hold_many(const redlock_acquire_options *options)
{
    begin_life(false, 0);
    scene_attach();
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_status(scene_acquire(&answer, scene_name(i), options), REDLOCK_OK);
        locks[i] = answer.lock;
    }
    test_allocator_fail_from(allocator, 1);
}

SCENE_CASE(held_locks, scene_three_nodes);

TEST(held_locks, each_loss_is_reported)
{
    events = (struct scene_events){0};
    hold_many(SCENE_WITH(.event = scene_note_event, .event_arg = &events));
    scene_start_close(&answer);
    test_allocator_fail_at(allocator, 0);
    scene_wait(&answer);
    ck_assert_uint_eq(events.lost, MANY);
    ck_assert_int_eq(events.loss[0], REDLOCK_LOSS_CLOSED);
    assert_no_leak(1);
    scene.keys_may_stay = true;
}

/* By themselves the renewals would be due minutes later. */
TEST(held_locks, renewals_and_releases_wait_for_memory_and_the_loop_does_not)
{
    scene.options.ttl_ms = TTL_MS;
    hold_many(NULL);
    for (struct rl_lease *lease = scene.client->locks.leases.first; lease; lease = lease->links.next)
        rl_lease_step(lease, &(struct quorum_lease_event){.type = QUORUM_LEASE_HASTEN, .now = rl_now()});
    redlock_release_async(&locks[0], NULL, NULL, NULL);
    quorum_time due = scene.client->locks.release_timer.due;
    redlock_release_async(&locks[1], NULL, NULL, NULL);
    ck_assert_uint_eq(scene.client->locks.release_timer.due, due); /* they go together */
    scene_until(scene.client->locks.release_timer.due > due);
    test_allocator_fail_at(allocator, 0);
    scene_until(scene_statistics().renewed >= MANY - 2);
    for (unsigned i = 2; i < MANY; i++)
        ck_assert_int_gt(redlock_validity_ms(locks[i]), 0);
    scene_wait_for_no_key(0, scene.nodes, scene_name(0));
    scene_close(&answer);
    assert_no_leak(1);
}

TEST_PROGRAM("memory failures")
