/* Invalid calls: NULL, wrong arguments, another thread, a forked child, repeated calls. Each returns a status with a
 * text and has no effect. */
#include "fake/scene.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/client/client.h"
#include "src/client/loop_thread.h"
#include "support/file.h"

static struct answer answer;
static redlock_result result;
static redlock_lock *lock;
static size_t most_descriptors; /* in a forked child, after the end of its parent's client */

static void three_nodes(void)
{
    scene_begin(3);
    lock = NULL;
    most_descriptors = SIZE_MAX;
}

/* --- Functions that must refuse --- */

static unsigned not_invalid(const int *statuses, size_t count)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong |= (unsigned)(statuses[i] != REDLOCK_INVALID) << i;
    return wrong;
}

/* Calls every asynchronous function except close. Returns which did not refuse, as bits. Also for a forked child, where
 * an assertion would continue the parent's suite. */
static unsigned call_asynchronous(redlock_client *client)
{
    redlock_cancellation *cancellation;
    redlock_lock *same = lock;
    const int statuses[] = {
        redlock_ready_async(client, 0, scene_completed, NULL),
        redlock_acquire_async(client, "more", NULL, scene_acquired, NULL),
        redlock_extend_async(lock, 0, NULL, scene_completed, NULL),
        redlock_downgrade_async(lock, NULL, scene_completed, NULL),
        redlock_release_async(&same, NULL, scene_completed, NULL),
        redlock_query_async(client, "stock", 0, NULL, scene_queried, NULL),
        redlock_cancellation_create(client, &cancellation),
    };
    bool changed = same != lock || redlock_held_by_me(client, "stock", 0);
    return not_invalid(statuses, sizeof statuses / sizeof *statuses) | (unsigned)changed << 8;
}

/* The same for the blocking functions. They give these words as the reason. */
static unsigned call_blocking(redlock_client *client, const char *words)
{
    redlock_lock *same = lock, *none = lock;
    int ready = redlock_ready(client, 0, &result);
    bool explained = strstr(result.text, words) != NULL;
    const int statuses[] = {
        ready,
        redlock_acquire(client, "more", NULL, &none, NULL),
        redlock_acquire(client, "more", NULL, NULL, NULL),
        redlock_extend(lock, 0, NULL, &result),
        redlock_downgrade(lock, NULL, &result),
        redlock_release(&same, NULL, &result),
        redlock_query(client, "stock", 0, NULL, NULL, &result),
    };
    bool changed = same != lock || none;
    return not_invalid(statuses, sizeof statuses / sizeof *statuses) | (unsigned)changed << 8 |
           (unsigned)!explained << 9;
}

static void assert_refused(int status, const char *words)
{
    ck_assert_status(status, REDLOCK_INVALID);
    ck_assert_has(result.text, words);
}

/* --- NULL --- */

SCENE_CASE(arguments, three_nodes);

TEST(arguments, null_arguments_of_the_asynchronous_api)
{
    redlock_client *client = (redlock_client *)&result;
    assert_refused(redlock_attach(NULL, scene_list(), NULL, &client, &result), "loop is NULL");
    ck_assert_ptr_null(client);
    assert_refused(redlock_attach(scene.loop, scene_list(), NULL, NULL, &result), "client is NULL");
    assert_refused(redlock_attach(scene.loop, NULL, NULL, &client, &result), "node list is empty");
    ck_assert_status(redlock_attach(scene.loop, NULL, NULL, &client, NULL), REDLOCK_INVALID);
    ck_assert_uint_eq(call_asynchronous(NULL), 0);
    ck_assert_status(redlock_release_async(NULL, NULL, scene_completed, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_close_async(NULL, NULL, scene_completed, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_close_async(&client, NULL, scene_completed, NULL), REDLOCK_INVALID);
    scene_attach();
    ck_assert_status(redlock_cancellation_create(scene.client, NULL), REDLOCK_INVALID);
}

TEST(arguments, null_arguments_of_the_blocking_api)
{
    redlock_client *client = (redlock_client *)&result;
    assert_refused(redlock_connect(NULL, NULL, &client, &result), "node list is empty");
    ck_assert_ptr_null(client);
    assert_refused(redlock_connect(scene_list(), NULL, NULL, &result), "client is NULL");
    ck_assert_uint_eq(call_blocking(NULL, "the client is NULL"), 0);
    assert_refused(redlock_extend(NULL, 0, NULL, &result), "the lock is NULL");
    assert_refused(redlock_downgrade(NULL, NULL, &result), "the lock is NULL");
    ck_assert_status(redlock_release(NULL, NULL, &result), REDLOCK_INVALID);
    assert_refused(redlock_release(&lock, NULL, &result), "released already");
    ck_assert_status(redlock_close(NULL, NULL, &result), REDLOCK_INVALID);
    assert_refused(redlock_close(&client, NULL, &result), "closed already");
}

TEST(arguments, null_handles_have_no_validity)
{
    size_t size = 99;
    ck_assert_int_eq(redlock_validity_ms(NULL), 0);
    ck_assert_int_eq(redlock_valid_until_ns(NULL), 0);
    ck_assert_str_eq(redlock_lock_token(NULL), "");
    ck_assert_str_eq(redlock_lock_resource(NULL, &size), "");
    ck_assert_uint_eq(size, 0);
    scene_attach();
    ck_assert(!redlock_held_by_me(scene.client, NULL, 0));
    ck_assert(!redlock_held_by_me(scene.client, "", 0));
    ck_assert(!redlock_held_by_me(scene.client, "stock", 100000));
}

/* --- Arguments --- */

TEST(arguments, bad_list_or_option_makes_no_client)
{
    redlock_client *client = NULL;
    redlock_options half = scene.options, no_ttl = scene.options, small = scene.options;
    half.allocator.allocate = test_allocate;
    no_ttl.ttl_ms = 0;
    small.struct_size = 3;
    const struct {
        const char *list, *words;
        const redlock_options *options;
    } rows[] = {
        {"a,,b", "node 2 of the list", &scene.options},
        {scene_list(), "the allocator needs all of", &half},
        {scene_list(), "ttl_ms is 0", &no_ttl},
        {scene_list(), "struct_size is 3", &small},
    };
    for (int i = 0; i < ROWS(rows); i++) {
        assert_refused(redlock_attach(scene.loop, rows[i].list, rows[i].options, &client, &result), rows[i].words);
        ck_assert_ptr_null(client);
        assert_refused(redlock_connect(rows[i].list, rows[i].options, &client, &result), rows[i].words);
        ck_assert_ptr_null(client);
    }
}

static char long_name[REDLOCK_RESOURCE_MAX + 2];

/* tests/parts/options_test.c has all options. */
static const struct {
    const char *resource, *words;
    const redlock_acquire_options *options;
} bad[] = {
    {NULL, "the resource is NULL", NULL},
    {"", "name is empty", NULL},
    {long_name, "longer than 512 bytes", NULL},
    {"stock", "longer than 512 bytes", SCENE_WITH(.resource_size = REDLOCK_RESOURCE_MAX + 1)},
    {"stock", "longer than 512 bytes", SCENE_WITH(.resource_size = SIZE_MAX)},
    {"stock:redlock:queue", "ends in ':redlock:queue'", NULL},
    {":redlock:alive", "ends in ':redlock:alive'", NULL},
    {"stock:redlock:free", "ends in ':redlock:free'", NULL},
    {"stock:redlock:fence", "ends in ':redlock:fence'", NULL},
    {"stock:redlock:slot:31", "ends in ':redlock:slot:NUMBER'", NULL},
    {"redlock:marker", "key is the nodes' marker, 'redlock:marker'", NULL},
    {"stock", "ttl_ms is 3", SCENE_WITH(.ttl_ms = 3)},
    {"stock", "also_count", SCENE_WITH(.also_count = 1u << 30)},
    {"stock", "also is NULL", SCENE_WITH(.also_count = 1)},
    {"stock", "struct_size is 1073741824", &(const redlock_acquire_options){.struct_size = 1u << 30}},
};

static void assert_acquire_is_refused(const char *words)
{
    ck_assert_status(scene_wait(&answer), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, words);
    ck_assert_ptr_null(answer.lock);
    ck_assert_uint_eq(answer.result.attempts, 0);
}

/* By each API, and by the queue of a client with its own thread. */
TEST_ROWS(arguments, bad_argument_is_refused_in_words, ROWS(bad))
{
    memset(long_name, 'x', sizeof long_name - 1);
    scene_attach();
    scene_start_acquire(&answer, bad[_i].resource, bad[_i].options);
    assert_acquire_is_refused(bad[_i].words);
    scene_close(&answer);
    scene_connect();
    scene_start_acquire(&answer, bad[_i].resource, bad[_i].options);
    assert_acquire_is_refused(bad[_i].words);
    int status = redlock_acquire(scene.client, bad[_i].resource, bad[_i].options, &lock, &result);
    assert_refused(status, bad[_i].words);
    ck_assert_ptr_null(lock);
    ck_assert_uint_eq(scene_count_all(SENT_SET), 0);
}

/* The key is the marker's key, although the name is not. */
TEST(arguments, a_resource_may_have_the_markers_name_behind_a_prefix)
{
    scene.options.prefix = "redlock:";
    scene_attach();
    scene_acquire(&answer, "stock", SCENE_WITH(.also = &(redlock_name){"marker", 0}, .also_count = 1));
    ck_assert_answer(&answer, REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "the nodes' marker");
    scene_lock_and_release("redlock:marker");
}

/* The key is one of the library's own keys, although the name is not. */
TEST_ROWS(arguments, a_reserved_key_may_begin_in_the_prefix, 2)
{
    const char *name = _i ? "3" : "redlock:queue";
    scene.options.prefix = _i ? "stock:redlock:slot:" : "stock:";
    scene_attach();
    ck_assert_status(scene_acquire(&answer, name, NULL), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, _i ? "ends in ':redlock:slot:NUMBER'" : "ends in ':redlock:queue'");
    ck_assert_status(scene_acquire(&answer, "stock", SCENE_WITH(.also = &(redlock_name){name, 0}, .also_count = 1)),
                     REDLOCK_INVALID);
    ck_assert_status(scene_wait(scene_start_query(&answer, name)), REDLOCK_INVALID);
    ck_assert_status(scene_wait(scene_start_release_token(&answer, name, SCENE_OTHER)), REDLOCK_INVALID);
    ck_assert_uint_eq(scene_count_all(SENT_SET), 0);
    scene_lock_and_release("redlock:queue2");
}

/* And contain any byte, NUL included: in the key on the nodes, in the handle, in the results. */
TEST_ROWS(arguments, a_resource_may_be_as_long_as_allowed, 2)
{
    char name[REDLOCK_RESOURCE_MAX + 1];
    memset(name, 'x', sizeof name);
    for (size_t i = 0; i < REDLOCK_RESOURCE_MAX && _i; i++)
        name[i] = (char)(i + 'x');
    name[REDLOCK_RESOURCE_MAX] = '\0';
    size_t size;
    scene_attach();
    ck_assert_status(scene_acquire(&answer, name, SCENE_WITH(.resource_size = REDLOCK_RESOURCE_MAX)), REDLOCK_OK);
    ck_assert_mem_eq(redlock_lock_resource(answer.lock, &size), name,
                     sizeof name); /* the NUL after the name included */
    ck_assert_uint_eq(size, REDLOCK_RESOURCE_MAX);
    ck_assert(redlock_held_by_me(scene.client, name, size));
    scene_wait_for_sent(0, SENT_SET, 1);
    const struct resp_argument *key = &scene_sent(0, SENT_SET, NULL, 0, NULL)->command->argv[1];
    ck_assert_uint_eq(key->length, size);
    ck_assert_mem_eq(key->data, name, size);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}

/* --- The other API, another thread --- */

SCENE_CASE(thread_and_process, three_nodes);

TEST(thread_and_process, an_attached_client_has_no_blocking_functions)
{
    scene_attach();
    lock = scene_lock("stock");
    ck_assert_uint_eq(call_blocking(scene.client, "asynchronous client"), 0);
    ck_assert_status(redlock_close(&scene.client, NULL, &result), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(scene.client);
}

static void *call_all(void *unused)
{
    (void)unused;
    ck_assert_uint_eq(call_asynchronous(scene.client), 0);
    ck_assert_has(redlock_status_text(REDLOCK_INVALID), "only from the thread that attached it");
    ck_assert_status(redlock_close_async(&scene.client, NULL, scene_completed, NULL), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(scene.client);
    ck_assert_int_gt(redlock_validity_ms(lock), 0); /* what any thread may ask */
    ck_assert_int_gt(redlock_valid_until_ns(lock), 0);
    ck_assert_int_eq(redlock_lock_loss(lock), REDLOCK_NOT_LOST);
    return NULL;
}

TEST(thread_and_process, another_thread_may_not_call)
{
    scene_attach();
    lock = scene_lock("stock");
    scene_join(scene_thread(call_all, NULL));
    ck_assert_int_gt(redlock_validity_ms(lock), 0);
}

/* --- A forked child --- */

static struct test_allocator *allocator;

/* Each returns what was wrong in the child as bits. */
static unsigned in_child_asynchronous(void)
{
    unsigned wrong = call_asynchronous(scene.client);
    wrong |= (unsigned)(redlock_close_async(&scene.client, NULL, NULL, NULL) != REDLOCK_OK || scene.client) << 10;
    ev_loop_destroy(scene.loop);
    return wrong;
}

static unsigned in_child_blocking(void)
{
    unsigned wrong = call_asynchronous(scene.client) | call_blocking(scene.client, "forked");
    wrong |= (unsigned)(redlock_descriptor(scene.client) != REDLOCK_INVALID) << 10;
    wrong |= (unsigned)(redlock_nodes(scene.client) != 0) << 13;
    wrong |= (unsigned)(redlock_dispatch(scene.client) != REDLOCK_INVALID) << 11;
    return wrong | (unsigned)(redlock_close(&scene.client, NULL, &result) != REDLOCK_OK || scene.client) << 12;
}

static unsigned in_child_with_descriptor(void)
{
    return (unsigned)(redlock_close_async(&scene.client, NULL, scene_completed, NULL) != REDLOCK_OK || scene.client);
}

/* It goes on with a client of its own. */
static unsigned in_child_with_a_client_of_its_own(void)
{
    redlock_options options = scene.options;
    redlock_lock *none = NULL, *own = NULL;
    options.log = NULL;
    unsigned wrong = scene.connected ? in_child_blocking() : in_child_asynchronous();
    wrong |= (unsigned)(redlock_connect(scene_list(), &options, &scene.client, &result) != REDLOCK_OK) << 20;
    wrong |= (unsigned)(redlock_acquire(scene.client, "stock", NULL, &none, NULL) != REDLOCK_HELD) << 21;
    wrong |= (unsigned)(redlock_acquire(scene.client, "own", NULL, &own, NULL) != REDLOCK_OK) << 22;
    wrong |= (unsigned)(redlock_release(&own, NULL, NULL) != REDLOCK_OK) << 23;
    return wrong | (unsigned)(redlock_close(&scene.client, NULL, NULL) != REDLOCK_OK) << 24;
}

enum { WRONG = 1, AT_WORK = 2 };

/* A fork copies another thread's work half done. So in the child the client's thread must have been asleep. */
static bool was_at_work(void)
{
    const struct rl_loop_thread *thread = scene.client->loop_thread;
    return thread && atomic_load(&thread->awake) != (pthread_t)0;
}

static void run_in_child(unsigned (*child)(void))
{
    if (was_at_work())
        _exit(AT_WORK);
    unsigned valid = redlock_validity_ms(lock) != 0, wrong = child() | valid << 15;
    wrong |= (unsigned)(file_open_descriptors() > most_descriptors) << 16;
    if (wrong == 0 && test_allocator_live(allocator) == 0)
        _exit(0);
    fprintf(stderr, "wrong in the child: %#x, %zu blocks are left\n", wrong, test_allocator_live(allocator));
    _exit(WRONG); /* no cleanup: the fake nodes belong to the parent */
}

/* Those that the nodes have received from the parent and the child, without heartbeats. */
static unsigned requests(void)
{
    return scene_count_all(SENT_SET) + scene_count_all(SENT_EXTEND) + scene_count_all(SENT_QUERY) +
           scene_count_all(SENT_UNDO);
}

static void assert_child_is_right(unsigned (*child)(void))
{
    int status;
    do {
        pid_t pid = scene_fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0)
            run_in_child(child);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    } while (WIFEXITED(status) && WEXITSTATUS(status) == AT_WORK);
    ck_assert_msg(status == 0, "the child ended with status %#x", (unsigned)status);
}

/* quiet: no request of the parent is in flight, so every one that arrives is the child's. */
static void assert_child_is_harmless(unsigned (*child)(void), bool quiet)
{
    unsigned before = requests();
    assert_child_is_right(child);
    if (quiet)
        ck_assert_uint_eq(requests(), before);
    for (unsigned i = 0; i < scene.nodes; i++) {
        ck_assert_uint_eq(fake_server_open_connections(scene.node[i]), fake_server_accepted(scene.node[i]));
        ck_assert(scene_has_key(i, "stock"));
        ck_assert_ptr_null(scene_sent(i, SENT_UNDO, redlock_lock_token(lock), 0, NULL));
    }
}

/* A command that the parent had buffered must not be written by the child as well. */
static void assert_nothing_came_twice(void)
{
    const struct fake_record *set;
    for (unsigned i = 0; i < scene.nodes; i++)
        for (unsigned at = 0; (set = scene_sent(i, SENT_SET, NULL, at, NULL)); at++)
            ck_assert_ptr_null(scene_sent(i, SENT_SET, scene_token(set), 1, NULL));
}

/* The child keeps the loop, as after ev_loop_fork(3), and closes the client later. */
static unsigned in_child_on_the_loop(void)
{
    unsigned completed = scene.completed;
    ev_loop_fork(scene.loop);
    for (unsigned i = 0; i < 10; i++)
        ev_run(scene.loop, EVRUN_NOWAIT);
    return (unsigned)(scene.completed != completed) << 14 | in_child_asynchronous();
}

/* At the fork every kind of operation is in progress, or has ended and waits for its callback. */
TEST_ROWS(thread_and_process, a_forked_child_sends_nothing, 4)
{
    static struct answer others[4];
    allocator = scene_count_memory();
    scene_attach();
    lock = scene_lock("stock");
    scene_wait_for_sent_to(0, scene.nodes, SENT_SET, 1);
    if (_i > 0) {
        redlock_lock *released = scene_lock("released");
        scene_hold_on(0, scene.nodes, "held");
        scene_start_acquire(&answer, "held", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
        scene_wait_for_sent(0, SENT_WAIT, 1);
        scene_start_acquire(&others[0], "more", NULL);
        scene_start_extend(&others[1], lock, 0);
        scene_start_query(&others[2], "stock");
        scene_start_release(&others[3], &released);
    }
    if (_i > 1)
        ev_run(scene.loop, EVRUN_NOWAIT);
    assert_child_is_harmless(_i == 3 ? in_child_on_the_loop : in_child_asynchronous, _i == 0);
    for (unsigned i = 0; i < 4 && _i > 0; i++)
        ck_assert_status(scene_wait(&others[i]), REDLOCK_OK);
    scene_let_go_on(0, scene.nodes, "held");
    if (_i > 0)
        ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    assert_nothing_came_twice();
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK); /* the parent's lock still works */
    for (unsigned i = 0; i < scene.nodes; i++)                   /* no connection was broken and replaced */
        ck_assert_uint_eq(fake_server_open_connections(scene.node[i]), fake_server_accepted(scene.node[i]));
}

/* At the second fork an acquire waits for its lock, and a completion to be dispatched. */
TEST(thread_and_process, forked_child_of_a_client_with_a_thread_sends_nothing)
{
    struct answer waiting, more;
    allocator = scene_count_memory();
    scene_connect();
    lock = scene_lock("stock");
    scene_wait_for_sent_to(0, scene.nodes, SENT_SET, 1);
    assert_child_is_harmless(in_child_blocking, true);
    scene_hold_on(0, scene.nodes, "held");
    scene_start_acquire(&waiting, "held", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    scene_wait_for_sent(0, SENT_WAIT, 1);
    scene_start_query(&more, "stock");
    struct pollfd completions = {.fd = redlock_descriptor(scene.client), .events = POLLIN};
    ck_assert_int_eq(poll(&completions, 1, SCENE_SOON_MS), 1);
    assert_child_is_harmless(in_child_blocking, false);
    assert_child_is_harmless(in_child_with_descriptor, false);
    ck_assert_status(scene_wait(&more), REDLOCK_OK);
    scene_let_go_on(0, scene.nodes, "held");
    ck_assert_status(scene_wait(&waiting), REDLOCK_OK);
    assert_nothing_came_twice();
}

/* Each node has accepted one connection, and keeps it. */
TEST_ROWS(thread_and_process, a_forked_child_frees_the_client_and_makes_one_of_its_own, 2)
{
    allocator = scene_count_memory();
    most_descriptors = file_open_descriptors() + scene.nodes;
    _i ? scene_connect() : scene_attach();
    lock = scene_lock("stock");
    scene_wait_for_sent_to(0, scene.nodes, SENT_SET, 1);
    assert_child_is_right(in_child_with_a_client_of_its_own);
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK);
}

static pid_t forked;
static bool closes;

static void assert_ends_well(pid_t child)
{
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(status == 0, "the child ended with status %#x", (unsigned)status);
}

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
    static struct answer others[2];
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
        bool silent = !others[0].callbacks;
        if (!connects)
            ev_loop_fork(scene.loop);
        for (unsigned i = 0; !connects && i < 10; i++)
            ev_run(scene.loop, EVRUN_NOWAIT);
        if (!closes)
            redlock_close_async(&scene.client, NULL, scene_completed, NULL);
        _exit(silent && !others[1].callbacks && (connects || test_allocator_live(allocator) == 0) ? 0 : WRONG);
    }
    assert_ends_well(forked);
    ck_assert_status(scene_wait(&others[0]), REDLOCK_OK);
    ck_assert_status(scene_wait(&others[1]), REDLOCK_OK);
}

static void fork_and_wait(struct ev_loop *loop, ev_check *watcher, int events)
{
    (void)events;
    ev_check_stop(loop, watcher);
    forked = scene_fork();
    if (forked == 0)
        return;
    assert_ends_well(forked);
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

static void fork_in_the_first(redlock_lock *of, int event, int loss, int64_t validity_ms, void *arg)
{
    (void)of;
    (void)event;
    (void)loss;
    (void)validity_ms;
    (void)arg;
    if (events_seen++ == 0)
        forked = scene_fork();
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
                          SCENE_WITH(.owner = both, .event = fork_in_the_first, .notify_before_ms = i * 86400000)),
            REDLOCK_OK);
    while (!events_seen)
        ev_run(scene.loop, EVRUN_NOWAIT);
    if (forked == 0)
        _exit(events_seen == 1 ? 0 : WRONG);
    assert_ends_well(forked);
    ck_assert_uint_eq(events_seen, 2);
}

static atomic_int event_child;
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
    while (!atomic_load(&waits_for_child))
        sched_yield();
    pid_t child = scene_fork();
    if (child == 0)
        atexit(end_child);
    else
        atomic_store(&event_child, child);
}

/* The child has no other thread, and would share the parent's epoll and timer. _i: while the client's thread drives the
 * loop, or while a thread that waits for its call does. */
TEST_ROWS(thread_and_process, a_child_that_was_forked_in_an_event_on_the_clients_thread_ends, 2)
{
    int status = 0;
    redlock_lock *other = NULL;
    const redlock_acquire_options *options =
        SCENE_WITH(.event = fork_in_event, .notify_before_ms = _i ? 4500 : 4999, .ttl_ms = 5000);
    atomic_store(&event_child, 0);
    atomic_store(&waits_for_child, false);
    scene_connect();
    ck_assert_status(redlock_acquire(scene.connected, "stock", options, &lock, &result), REDLOCK_OK);
    uint64_t deadline = test_deadline_ns(SCENE_SOON_MS);
    atomic_store(&waits_for_child, true);
    while (!atomic_load(&event_child) && test_ms_left(deadline) > 0)
        if (_i == 0)
            poll(NULL, 0, 1);
        else
            redlock_wait_lost(lock, 100, NULL);
    ck_assert(atomic_load(&event_child));
    while (waitpid(event_child, &status, WNOHANG) == 0)
        ck_assert_msg(test_ms_left(deadline) > 0 && poll(NULL, 0, 1) == 0, "the child %d did not end",
                      (int)kill(event_child, SIGKILL));
    ck_assert_msg(status == 0, "the child ended with status %#x", (unsigned)status);
    ck_assert_status(redlock_acquire(scene.connected, "other", NULL, &other, &result), REDLOCK_OK);
    ck_assert_status(redlock_release(&other, NULL, &result), REDLOCK_OK);
    ck_assert_status(redlock_release(&lock, NULL, &result), REDLOCK_OK);
}

TEST_PROGRAM("misuse")
