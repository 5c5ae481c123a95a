/* Invalid calls: NULL, wrong arguments, another thread, a forked child, repeated calls. Each returns a status with a
 * text and has no effect. */
#include "fake/calls.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/client/client.h"
#include "src/client/loop_thread.h"
#include "support/file.h"

static struct answer answer;
static redlock_result result;
static size_t most_descriptors; /* in a forked child, after the end of its parent's client */

static void three_nodes(void)
{
    scene_begin(3);
    call_begin();
    most_descriptors = SIZE_MAX;
}

static void assert_refused(int status, const char *words)
{
    ck_assert_status(status, REDLOCK_INVALID);
    ck_assert_has(result.text, words);
}

SCENE_CASE(arguments, three_nodes);

/* Before there is a client: each function gets NULL for it, or for its lock. */
TEST(arguments, null_is_refused_in_words)
{
    size_t size = 99;
    redlock_client *client = (redlock_client *)&result;
    assert_refused(redlock_attach(NULL, scene_list(), NULL, &client, &result), "loop is NULL");
    ck_assert_ptr_null(client);
    assert_refused(redlock_attach(scene.loop, scene_list(), NULL, NULL, &result), "client is NULL");
    assert_refused(redlock_attach(scene.loop, NULL, NULL, &client, &result), "node list is empty");
    ck_assert_status(redlock_attach(scene.loop, NULL, NULL, &client, NULL), REDLOCK_INVALID);
    client = (redlock_client *)&result;
    assert_refused(redlock_connect(NULL, NULL, &client, &result), "node list is empty");
    ck_assert_ptr_null(client);
    scene.options.ttl_ms = 0; /* tests/parts has all options and lists */
    assert_refused(redlock_attach(scene.loop, scene_list(), &scene.options, &client, &result), "ttl_ms is 0");
    assert_refused(redlock_connect(scene_list(), &scene.options, &client, &result), "ttl_ms is 0");
    assert_refused(redlock_connect("a,,b", NULL, &client, &result), "node 2 of the list");
    assert_refused(redlock_connect("cluster://a", NULL, &client, &result),
                   "set prefix {redlock}: and marker_key {redl");
    ck_assert_ptr_null(client);
    scene.options.ttl_ms = 60000;
    assert_refused(redlock_connect(scene_list(), NULL, NULL, &result), "client is NULL");
    ck_assert_uint_eq(calls_not_refused(ATTACHED, 0, ""), 0);
    ck_assert_uint_eq(calls_not_refused(BLOCKING, 0, " is NULL"), 0);
    ck_assert_status(redlock_release_async(NULL, NULL, scene_completed, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_close_async(NULL, NULL, scene_completed, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_release(NULL, NULL, &result), REDLOCK_INVALID);
    ck_assert_status(redlock_close(NULL, NULL, &result), REDLOCK_INVALID);
    ck_assert_status(redlock_dispatch(NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_descriptor(NULL), REDLOCK_INVALID);
    ck_assert(!redlock_validity_ms(NULL) && !redlock_valid_until_ns(NULL));
    ck_assert_str_eq(redlock_lock_token(NULL), "");
    ck_assert_str_eq(redlock_lock_resource(NULL, &size), "");
    ck_assert_uint_eq(size, 0);
    scene_attach();
    ck_assert(!redlock_held_by_me(scene.client, NULL, 0));
    ck_assert(!redlock_held_by_me(scene.client, "", 0));
    ck_assert(!redlock_held_by_me(scene.client, "stock", 100000));
    ck_assert_status(redlock_cancellation_create(scene.client, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_node_status_get(scene.client, 0, NULL), REDLOCK_INVALID);
    scene_close(&answer);
    scene_connect();
    assert_refused(redlock_acquire(scene.client, "stock", NULL, NULL, &result), "lock is NULL");
}

/* tests/parts/names_test.c has all names, and tests/parts/options_test.c all options. */
static const struct {
    const char *resource, *words;
    const redlock_acquire_options *options;
} bad[] = {
    {NULL, "the resource is NULL", NULL},
    {"stock", "longer than 512 bytes", SCENE_WITH(.resource_size = SIZE_MAX)},
    {"redlock:marker", "key is the nodes' marker, 'redlock:marker'", NULL},
    {"stock", "ttl_ms is 3", SCENE_WITH(.ttl_ms = 3)},
    {"stock", "also_count", SCENE_WITH(.also_count = 1u << 30)},
    {"stock", "also is NULL", SCENE_WITH(.also_count = 1)},
    {"stock", "struct_size is 1073741824", &(const redlock_acquire_options){.struct_size = 1u << 30}},
};

TEST_ROWS(arguments, bad_argument_is_refused_in_words, WAYS)
{
    (_i == ATTACHED ? scene_attach : scene_connect)();
    for (unsigned row = 0; row < ROWS(bad); row++) {
        call_begin();
        call.resource = bad[row].resource;
        if (bad[row].options)
            call.acquire = *bad[row].options;
        ck_assert_status(call_run(CALL_ACQUIRE, (enum way)_i), REDLOCK_INVALID);
        ck_assert_has(call.answer.result.text, bad[row].words);
        ck_assert(!call.got && !call.answer.lock);
        ck_assert_uint_eq(call.answer.result.attempts, 0);
    }
    ck_assert_uint_eq(scene_count_all(SENT_SET), 0);
}

/* A name may be reserved only together with the prefix. */
TEST_ROWS(arguments, the_librarys_own_keys_are_refused_by_each_call, WAYS)
{
    static const unsigned named = CALL_BIT(CALL_ACQUIRE) | CALL_BIT(CALL_ADOPT) | CALL_BIT(CALL_RELEASE_TOKEN) |
                                  CALL_BIT(CALL_QUERY) | CALL_BIT(CALL_INSPECT);
    scene.options.prefix = "stock:";
    call.resource = "redlock:queue";
    (_i == ATTACHED ? scene_attach : scene_connect)();
    for (unsigned i = 0; i < CALLS; i++)
        if (named & CALL_BIT(i)) {
            ck_assert_status(call_run(i, (enum way)_i), REDLOCK_INVALID);
            ck_assert_has(call.answer.result.text, "ends in ':redlock:queue'");
        }
    scene_lock_and_release("redlock:marker");
    scene_lock_and_release("redlock:queue2");
}

/* And contain any byte, NUL included. */
TEST(arguments, a_resource_may_be_as_long_as_allowed)
{
    char name[REDLOCK_RESOURCE_MAX + 1] = "", prefix[128 + 1] = "";
    size_t size;
    for (size_t i = 0; i < REDLOCK_RESOURCE_MAX; i++)
        name[i] = (char)(i + 'x');
    memset(prefix, 'p', sizeof prefix - 1);
    scene.options.prefix = prefix;
    scene_attach();
    ck_assert_status(scene_acquire(&answer, name, SCENE_WITH(.resource_size = REDLOCK_RESOURCE_MAX)), REDLOCK_OK);
    ck_assert_mem_eq(redlock_lock_resource(answer.lock, &size), name, sizeof name);
    ck_assert_uint_eq(size, REDLOCK_RESOURCE_MAX);
    ck_assert(redlock_held_by_me(scene.client, name, size));
    scene_wait_for_sent(0, SENT_SET, 1);
    ck_assert_mem_eq(scene_sent(0, SENT_SET, NULL, 0, NULL)->command->argv[1].data + strlen(prefix), name, size);
}

/* --- The other API, another thread --- */

SCENE_CASE(thread_and_process, three_nodes);

TEST(thread_and_process, an_attached_client_has_no_blocking_functions_and_no_dispatch)
{
    scene_attach();
    call.lock = scene_lock("stock");
    ck_assert_uint_eq(calls_not_refused(BLOCKING, 0, "asynchronous client"), 0);
    ck_assert(scene.client && call.lock);
    rl_leases_mark_lost(&scene.client->locks, QUORUM_LEASE_CLOCK);
    assert_refused(redlock_release(&call.lock, NULL, &result), "asynchronous client"); /* nor for a lost lock */
    ck_assert_status(redlock_descriptor(scene.client), REDLOCK_INVALID);
    ck_assert_status(redlock_dispatch(scene.client), REDLOCK_INVALID);
    scene_until(scene_is_logged("redlock_descriptor(): the client is attached"));
    scene_until(scene_is_logged("redlock_dispatch(): the client is attached"));
}

static void *call_all(void *unused)
{
    redlock_cancellation *cancellation;
    ck_assert_uint_eq(calls_not_refused(ATTACHED, 0, ""), 0);
    ck_assert(scene.client && call.lock);
    ck_assert_has(redlock_status_text(REDLOCK_INVALID), "only from the thread that attached it");
    ck_assert_status(redlock_cancellation_create(scene.client, &cancellation), REDLOCK_INVALID);
    ck_assert(!redlock_held_by_me(scene.client, "stock", 0));
    ck_assert_int_gt(redlock_validity_ms(call.lock), 0); /* what any thread may ask */
    ck_assert_int_gt(redlock_valid_until_ns(call.lock), 0);
    ck_assert_int_eq(redlock_lock_loss(call.lock), REDLOCK_NOT_LOST);
    return unused;
}

TEST(thread_and_process, another_thread_may_not_call)
{
    scene_attach();
    call.lock = scene_lock("stock");
    scene_join(scene_thread(call_all, NULL));
    ck_assert_int_gt(redlock_validity_ms(call.lock), 0);
}

/* --- A forked child --- */

static struct test_allocator *allocator;

enum { WRONG = 1, AT_WORK = 2 };

/* No cleanup follows in a child: the fake nodes belong to its parent. */
#define check_in_child(holds)                                                                                          \
    do {                                                                                                               \
        if (!(holds)) {                                                                                                \
            fprintf(stderr, "wrong in the child: %s\n", #holds);                                                       \
            _exit(WRONG);                                                                                              \
        }                                                                                                              \
    } while (0)

static void in_child(void)
{
    redlock_cancellation *cancellation;
    redlock_lock *same = call.lock;
    check_in_child(calls_not_refused(DESCRIPTOR, CALL_BIT(CALL_CLOSE), "") == 0);
    check_in_child(!scene.connected || calls_not_refused(BLOCKING, CALL_BIT(CALL_CLOSE), "forked") == 0);
    check_in_child(redlock_descriptor(scene.client) == REDLOCK_INVALID);
    check_in_child(redlock_nodes(scene.client) == 0);
    check_in_child(redlock_dispatch(scene.client) == REDLOCK_INVALID);
    check_in_child(redlock_cancellation_create(scene.client, &cancellation) == REDLOCK_INVALID);
    check_in_child(call.lock == same && !call.got && !redlock_held_by_me(scene.client, "stock", 0));
    int status = scene.connected ? redlock_close(&scene.client, NULL, &result)
                                 : redlock_close_async(&scene.client, NULL, NULL, NULL);
    if (!scene.connected)
        ev_loop_destroy(scene.loop);
    check_in_child(status == REDLOCK_OK && !scene.client);
}

static void in_child_that_closes_asynchronously(void)
{
    check_in_child(redlock_close_async(&scene.client, NULL, scene_completed, NULL) == REDLOCK_OK && !scene.client);
}

/* It goes on with a client of its own. */
static void in_child_with_a_client_of_its_own(void)
{
    redlock_options options = scene.options;
    redlock_lock *none = NULL, *own = NULL;
    options.log = NULL;
    in_child();
    check_in_child(redlock_connect(scene_list(), &options, &scene.client, &result) == REDLOCK_OK);
    check_in_child(redlock_acquire(scene.client, "stock", NULL, &none, NULL) == REDLOCK_HELD);
    check_in_child(redlock_acquire(scene.client, "own", NULL, &own, NULL) == REDLOCK_OK);
    check_in_child(redlock_release(&own, NULL, NULL) == REDLOCK_OK);
    check_in_child(redlock_close(&scene.client, NULL, NULL) == REDLOCK_OK);
}

/* A fork copies another thread's work half done. So in the child the client's thread must have been asleep. */
static void run_in_child(void (*child)(void))
{
    const struct rl_loop_thread *thread = scene.client->loop_thread;
    if (thread && atomic_load(&thread->awake) != (pthread_t)0)
        _exit(AT_WORK);
    check_in_child(redlock_validity_ms(call.lock) == 0);
    child();
    check_in_child(file_open_descriptors() <= most_descriptors);
    check_in_child(test_allocator_live(allocator) == 0);
    _exit(0);
}

/* Returns the status with which the child ended. */
static int wait_for(pid_t child)
{
    int status;
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

static void assert_child_is_harmless(void (*child)(void))
{
    int status;
    do {
        pid_t pid = scene_fork();
        if (pid == 0)
            run_in_child(child);
        status = wait_for(pid);
    } while (WIFEXITED(status) && WEXITSTATUS(status) == AT_WORK);
    ck_assert_msg(status == 0, "the child ended with status %#x", (unsigned)status);
    for (unsigned i = 0; i < scene.nodes; i++) {
        ck_assert(scene_has_key(i, "stock"));
        ck_assert_ptr_null(scene_sent(i, SENT_UNDO, redlock_lock_token(call.lock), 0, NULL));
    }
}

/* What the parent does when it forks. */
enum work {
    RESTS,
    STARTS, /* every kind of operation has started; with a thread, one has ended and waits to be dispatched */
    WRITES  /* and the requests have been written */
};

static const struct {
    bool connects;
    enum work work;
    void (*child)(void);
} children[] = {
    {false, RESTS, in_child},
    {false, STARTS, in_child},
    {false, WRITES, in_child},
    {false, RESTS, in_child_with_a_client_of_its_own},
    {true, RESTS, in_child},
    {true, STARTS, in_child},
    {true, STARTS, in_child_that_closes_asynchronously},
    {true, RESTS, in_child_with_a_client_of_its_own},
};

static struct answer others[4];

static void start_others(void)
{
    redlock_lock *released = scene_lock("released");
    scene_hold_on(0, scene.nodes, "held");
    scene_start_acquire(&answer, "held", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    scene_wait_for_sent(0, SENT_WAIT, 1);
    scene_start_acquire(&others[0], "more", NULL);
    scene_start_extend(&others[1], call.lock, 0);
    scene_start_release(&others[2], &released);
    scene_start_query(&others[3], "stock");
    if (!scene.connected)
        return;
    struct pollfd completions = {.fd = redlock_descriptor(scene.client), .events = POLLIN};
    ck_assert_int_eq(poll(&completions, 1, SCENE_SOON_MS), 1);
}

/* The parent's lock and its connections, of which each node has accepted one, stay as they are. */
TEST_ROWS(thread_and_process, a_forked_child_sends_nothing, ROWS(children))
{
    enum work work = children[_i].work;
    allocator = scene_count_memory();
    bool has_own = children[_i].child == in_child_with_a_client_of_its_own;
    if (has_own)
        most_descriptors = file_open_descriptors() + scene.nodes;
    (children[_i].connects ? scene_connect : scene_attach)();
    call.lock = scene_lock("stock");
    scene_wait_for_sent_to(0, scene.nodes, SENT_SET, 1);
    if (work != RESTS)
        start_others();
    if (work == WRITES)
        ev_run(scene.loop, EVRUN_NOWAIT);
    assert_child_is_harmless(children[_i].child);
    for (unsigned i = 0; i < 4 && work != RESTS; i++)
        ck_assert_status(scene_wait(&others[i]), REDLOCK_OK);
    scene_let_go_on(0, scene.nodes, "held");
    if (work != RESTS)
        ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    const struct fake_record *set; /* what the parent had buffered is not written by the child as well */
    for (unsigned i = 0; i < scene.nodes; i++)
        for (unsigned at = 0; (set = scene_sent(i, SENT_SET, NULL, at, NULL)); at++)
            ck_assert_ptr_null(scene_sent(i, SENT_SET, scene_token(set), 1, NULL));
    ck_assert_status(scene_release(&answer, &call.lock), REDLOCK_OK);
    for (unsigned i = 0; i < scene.nodes && !has_own; i++)
        ck_assert_uint_eq(fake_server_open_connections(scene.node[i]), fake_server_accepted(scene.node[i]));
}

static atomic_int forked;
static bool closes;

static void fork_here(redlock_client *client, const redlock_result *given, void *arg)
{
    forked = scene_fork();
    if (forked == 0 && closes)
        redlock_close_async(&scene.client, NULL, scene_completed, NULL);
    scene_completed(client, given, arg);
}

/* The first callback of a turn forks, and returns in the child, which closes the client there or later. */
TEST_ROWS(thread_and_process, a_child_that_was_forked_in_a_callback_returns_from_it, 3)
{
    bool connects = _i == 2;
    closes = _i > 0;
    if (connects) { /* with malloc(3), which a child can use whatever the client's thread was doing */
        scene_connect();
    } else {
        allocator = scene_count_memory();
        scene_attach();
    }
    scene_start_ready_then(&answer, 0, fork_here);
    scene_start_ready(&others[0], 0);
    scene_start_query(&others[1], "stock");
    while (!answer.callbacks)
        if (connects)
            redlock_dispatch(scene.connected);
        else
            ev_run(scene.loop, EVRUN_NOWAIT);
    if (forked == 0) {
        if (!connects)
            ev_loop_fork(scene.loop);
        for (unsigned i = 0; !connects && i < 10; i++)
            ev_run(scene.loop, EVRUN_NOWAIT);
        if (!closes)
            redlock_close_async(&scene.client, NULL, scene_completed, NULL);
        check_in_child(!others[0].callbacks && !others[1].callbacks);
        check_in_child(connects || test_allocator_live(allocator) == 0);
        _exit(0);
    }
    ck_assert_int_eq(wait_for(forked), 0);
    ck_assert_status(scene_wait(&others[0]), REDLOCK_OK);
    ck_assert_status(scene_wait(&others[1]), REDLOCK_OK);
}

static void fork_and_wait(struct ev_loop *loop, ev_check *watcher, int events)
{
    (void)events;
    ev_check_stop(loop, watcher);
    forked = scene_fork();
    if (forked != 0)
        ck_assert_int_eq(wait_for(forked), 0);
}

/* The host's callback runs first, and the loop has noticed the reply already. */
TEST(thread_and_process, a_child_that_was_forked_in_a_callback_of_the_host_leaves_the_reply_to_its_parent)
{
    ev_check host;
    scene_attach();
    scene_hold_replies(0, 1, NULL); /* the turn that writes the request must not read the reply */
    scene_start_query(&answer, "stock");
    ev_run(scene.loop, EVRUN_NOWAIT);
    scene_calm(0, 1);
    const struct rl_link *link = &scene.client->nodes->node[0].link;
    struct pollfd reply = {.fd = link->readable.fd, .events = POLLIN};
    ck_assert_int_eq(poll(&reply, 1, SCENE_SOON_MS), 1);
    ev_check_init(&host, fork_and_wait);
    ev_set_priority(&host, EV_MAXPRI);
    ev_check_start(scene.loop, &host);
    ev_run(scene.loop, EVRUN_NOWAIT);
    if (forked == 0)
        _exit(rl_link_has_unread(link) ? 0 : WRONG);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
}

static unsigned events_seen;
static atomic_bool waits_for_child; /* the test's thread makes no more of Check's assertions */

static void end_child(void)
{
    _exit(0); /* before the handlers of the test program, whose objects belong to the parent */
}

static void fork_in_event(redlock_lock *of, int event, int loss, int64_t validity_ms, void *arg)
{
    (void)of;
    (void)event;
    (void)loss;
    (void)validity_ms;
    (void)arg;
    if (events_seen++ > 0)
        return;
    while (scene.connected && !waits_for_child)
        sched_yield();
    forked = scene_fork();
    if (forked == 0 && scene.connected)
        atexit(end_child);
}

/* The second acquire wants a warning that is due at once, for both handles. */
TEST(thread_and_process, a_child_that_was_forked_in_an_event_gets_no_event_of_another_handle)
{
    struct answer both[2];
    events_seen = 0;
    scene_attach();
    for (unsigned i = 0; i < 2; i++)
        ck_assert_status(
            scene_acquire(&both[i], "stock",
                          SCENE_WITH(.owner = both, .event = fork_in_event, .notify_before_ms = i * 86400000)),
            REDLOCK_OK);
    while (!events_seen)
        ev_run(scene.loop, EVRUN_NOWAIT);
    if (forked == 0)
        _exit(events_seen == 1 ? 0 : WRONG);
    ck_assert_int_eq(wait_for(forked), 0);
    ck_assert_uint_eq(events_seen, 2);
}

/* The child has no other thread, and would share the parent's epoll and timer. */
TEST(thread_and_process, a_child_that_was_forked_in_an_event_on_the_clients_thread_ends)
{
    redlock_lock *other = NULL;
    const redlock_acquire_options *options =
        SCENE_WITH(.event = fork_in_event, .notify_before_ms = 59999, .ttl_ms = 60000);
    events_seen = 0;
    forked = 0;
    waits_for_child = false;
    scene_connect();
    ck_assert_status(redlock_acquire(scene.connected, "stock", options, &call.lock, &result), REDLOCK_OK);
    uint64_t deadline = test_deadline_ns(SCENE_SOON_MS);
    waits_for_child = true;
    while (!forked && test_ms_left(deadline) > 0)
        poll(NULL, 0, 1);
    ck_assert_int_eq(wait_for(forked), 0);
    ck_assert_status(redlock_acquire(scene.connected, "other", NULL, &other, &result), REDLOCK_OK);
    ck_assert_status(redlock_release(&other, NULL, &result), REDLOCK_OK);
    ck_assert_status(redlock_release(&call.lock, NULL, &result), REDLOCK_OK);
}

TEST_PROGRAM("misuse")
