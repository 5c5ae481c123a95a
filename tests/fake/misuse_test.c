/* Invalid calls: NULL, wrong arguments, another thread, a forked child, repeated calls. Each returns a status with a
 * text and has no effect. */
#include "fake/scene.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/client/client.h"
#include "src/client/loop_thread.h"

static struct answer answer;
static redlock_result result;
static redlock_lock *lock;

static void three_nodes(void)
{
    scene_begin(3);
    lock = NULL;
}

/* --- NULL --- */

START_TEST(null_arguments_of_the_asynchronous_face)
{
    redlock_client *client = (redlock_client *)&result;
    redlock_cancellation *cancellation = NULL;
    ck_assert_status(redlock_attach(NULL, scene_list(), NULL, &client, &result), REDLOCK_INVALID);
    ck_assert_has(result.text, "loop is NULL");
    ck_assert_ptr_null(client);
    ck_assert_status(redlock_attach(scene.loop, scene_list(), NULL, NULL, &result), REDLOCK_INVALID);
    ck_assert_has(result.text, "client is NULL");
    ck_assert_status(redlock_attach(scene.loop, NULL, NULL, &client, &result), REDLOCK_INVALID);
    ck_assert_has(result.text, "node list is empty");
    ck_assert_status(redlock_attach(scene.loop, NULL, NULL, &client, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_ready_async(NULL, 0, scene_told, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_acquire_async(NULL, "stock", NULL, scene_acquired, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_extend_async(NULL, 0, scene_told, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_release_async(NULL, scene_told, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_release_async(&lock, scene_told, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_query_async(NULL, "stock", 0, scene_queried, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_close_async(NULL, scene_told, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_close_async(&client, scene_told, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_cancellation_create(NULL, &cancellation), REDLOCK_INVALID);
    scene_attach();
    ck_assert_status(redlock_cancellation_create(scene.client, NULL), REDLOCK_INVALID);
    lock = scene_lock("stock");
    ck_assert_status(redlock_ready_async(scene.client, 0, NULL, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_acquire_async(scene.client, "stock", NULL, NULL, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_extend_async(lock, 0, NULL, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_query_async(scene.client, "stock", 0, NULL, NULL), REDLOCK_INVALID);
}
END_TEST

START_TEST(null_arguments_of_the_blocking_face)
{
    redlock_client *client = (redlock_client *)&result;
    ck_assert_status(redlock_connect(NULL, NULL, &client, &result), REDLOCK_INVALID);
    ck_assert_ptr_null(client);
    ck_assert_status(redlock_connect(scene_list(), NULL, NULL, &result), REDLOCK_INVALID);
    ck_assert_has(result.text, "client is NULL");
    ck_assert_status(redlock_ready(NULL, 0, &result), REDLOCK_INVALID);
    ck_assert_has(result.text, "the client is NULL");
    ck_assert_status(redlock_acquire(NULL, "stock", NULL, &lock, &result), REDLOCK_INVALID);
    ck_assert_status(redlock_acquire(NULL, "stock", NULL, NULL, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_extend(NULL, 0, &result), REDLOCK_INVALID);
    ck_assert_has(result.text, "the lock is NULL");
    ck_assert_status(redlock_release(NULL, &result), REDLOCK_INVALID);
    ck_assert_status(redlock_release(&lock, &result), REDLOCK_INVALID);
    ck_assert_has(result.text, "released already");
    ck_assert_status(redlock_query(NULL, "stock", 0, NULL, &result), REDLOCK_INVALID);
    ck_assert_status(redlock_close(NULL, &result), REDLOCK_INVALID);
    ck_assert_status(redlock_close(&client, &result), REDLOCK_INVALID);
    ck_assert_has(result.text, "closed already");
}
END_TEST

START_TEST(null_handles_have_no_validity)
{
    size_t size = 99;
    ck_assert_int_eq(redlock_validity_ms(NULL), 0);
    ck_assert_str_eq(redlock_lock_token(NULL), "");
    ck_assert_str_eq(redlock_lock_resource(NULL, &size), "");
    ck_assert_uint_eq(size, 0);
    ck_assert(!redlock_held_by_me(NULL, "stock", 0));
    scene_attach();
    ck_assert(!redlock_held_by_me(scene.client, NULL, 0));
    ck_assert(!redlock_held_by_me(scene.client, "", 0));
    ck_assert(!redlock_held_by_me(scene.client, "stock", 100000));
}
END_TEST

/* --- Arguments --- */

START_TEST(a_bad_list_or_option_makes_no_client)
{
    redlock_client *client = NULL;
    redlock_options half = scene.options;
    half.allocator.allocate = test_allocate;
    half.allocator.user = test_allocator_new();
    for (int face = 0; face < 2; face++) {
#define MAKE(list, options)                                                                                            \
    (face ? redlock_connect(list, options, &client, &result)                                                           \
          : redlock_attach(scene.loop, list, options, &client, &result))
        ck_assert_status(MAKE("a,,b", &scene.options), REDLOCK_INVALID);
        ck_assert_has(result.text, "node 2 of the list");
        ck_assert_status(MAKE(scene_list(), &half), REDLOCK_INVALID);
        ck_assert_has(result.text, "the allocator needs all of");
        redlock_options wrong = scene.options;
        wrong.ttl_ms = 0;
        ck_assert_status(MAKE(scene_list(), &wrong), REDLOCK_INVALID);
        ck_assert_has(result.text, "ttl_ms is 0");
        wrong.struct_size = 3;
        ck_assert_status(MAKE(scene_list(), &wrong), REDLOCK_INVALID);
        ck_assert_has(result.text, "struct_size is 3");
        ck_assert_ptr_null(client);
#undef MAKE
    }
}
END_TEST

static char long_name[REDLOCK_RESOURCE_MAX + 2];

static const struct {
    const char *resource;
    const char *words;
    redlock_acquire_options options;
} bad[] = {
    {NULL, "the resource is NULL", REDLOCK_ACQUIRE_OPTIONS_INIT},
    {"", "name is empty", REDLOCK_ACQUIRE_OPTIONS_INIT},
    {long_name, "longer than 512 bytes", REDLOCK_ACQUIRE_OPTIONS_INIT},
    {"stock",
     "longer than 512 bytes",
     {.struct_size = sizeof(redlock_acquire_options), .resource_size = REDLOCK_RESOURCE_MAX + 1}},
    {"stock", "longer than 512 bytes", {.struct_size = sizeof(redlock_acquire_options), .resource_size = SIZE_MAX}},
    {"stock:redlock:queue", "ends in ':redlock:queue'", REDLOCK_ACQUIRE_OPTIONS_INIT},
    {"stock:redlock:slot:31", "ends in ':redlock:slot:' and a number", REDLOCK_ACQUIRE_OPTIONS_INIT},
    {"redlock:marker", "key is the nodes' marker, 'redlock:marker'", REDLOCK_ACQUIRE_OPTIONS_INIT},
    {"stock", "wait_ms is -7", {.struct_size = sizeof(redlock_acquire_options), .wait_ms = -7}},
    {"stock", "ttl_ms is 3", {.struct_size = sizeof(redlock_acquire_options), .ttl_ms = 3}},
    {"stock", "ttl_ms is 60000", {.struct_size = sizeof(redlock_acquire_options), .minimum_validity_ms = 60000}},
    {"stock", "struct_size is 1000", {.struct_size = 1000}},
};
enum { BADS = sizeof bad / sizeof *bad };

START_TEST(a_bad_argument_is_told_by_the_callback_in_words)
{
    memset(long_name, 'x', sizeof long_name - 1);
    scene_attach();
    ck_assert_status(scene_acquire(&answer, bad[_i].resource, &bad[_i].options), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, bad[_i].words);
    ck_assert_uint_eq(answer.result.attempts, 0);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(scene_count(i, SENT_SET), 0);
}
END_TEST

/* The key is the marker's key, although the name is not. */
START_TEST(a_resource_may_have_the_markers_name_behind_a_prefix)
{
    const redlock_name marker = {"marker", 0};
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.also = &marker;
    options.also_count = 1;
    scene.options.prefix = "redlock:";
    scene_attach();
    ck_assert_status(scene_acquire(&answer, "stock", &options), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "the nodes' marker");
    redlock_lock *other = scene_lock("redlock:marker");
    ck_assert_status(scene_release(&answer, &other), REDLOCK_OK);
}
END_TEST

START_TEST(the_blocking_face_tells_the_same)
{
    memset(long_name, 'x', sizeof long_name - 1);
    scene_connect();
    ck_assert_status(redlock_acquire(scene.client, bad[_i].resource, &bad[_i].options, &lock, &result),
                     REDLOCK_INVALID);
    ck_assert_ptr_null(lock);
    ck_assert_has(result.text, bad[_i].words);
    ck_assert_status(redlock_close(&scene.client, &result), REDLOCK_OK);
}
END_TEST

/* The name may contain any byte, NUL included: in the key on the nodes, in the handle, in the results. */
START_TEST(a_resource_may_hold_any_byte)
{
    static const char name[] = "a\0b\r\n$5\r\n\xff\x01 *";
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    size_t size;
    options.resource_size = sizeof name - 1;
    scene.options.prefix = "p:";
    scene_attach();
    ck_assert_status(scene_acquire(&answer, name, &options), REDLOCK_OK);
    const char *resource = redlock_lock_resource(answer.lock, &size);
    ck_assert_uint_eq(size, sizeof name - 1);
    ck_assert_mem_eq(resource, name, sizeof name); /* the NUL after the name included */
    ck_assert(redlock_held_by_me(scene.client, name, sizeof name - 1));
    ck_assert(!redlock_held_by_me(scene.client, name, 0)); /* "a" */
    for (unsigned i = 0; i < 3; i++) {
        scene_wait_for_sent(i, SENT_SET, 1);
        const struct resp_argument *key = &scene_sent(i, SENT_SET, NULL, 0, NULL)->command->argv[1];
        ck_assert_uint_eq(key->length, 2 + sizeof name - 1);
        ck_assert_mem_eq(key->data + 2, name, sizeof name - 1);
    }
    struct answer other;
    memset(&other, 0, sizeof other);
    scene.started += 2;
    ck_assert_status(redlock_release_token_async(scene.client, name, sizeof name - 1, redlock_lock_token(answer.lock),
                                                 scene_told, &other),
                     REDLOCK_OK);
    ck_assert_status(scene_wait(&other), REDLOCK_INVALID);
    ck_assert_has(other.result.text, "this client holds that lock");
    memset(&other, 0, sizeof other);
    ck_assert_status(redlock_query_async(scene.client, name, sizeof name - 1, scene_queried, &other), REDLOCK_OK);
    ck_assert_status(scene_wait(&other), REDLOCK_OK);
    ck_assert_int_eq(other.state.held_by_me, 1);
    ck_assert_status(scene_acquire(&other, name, NULL), REDLOCK_OK); /* a C string: "a", which is another resource */
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    ck_assert_status(scene_release(&other, &other.lock), REDLOCK_OK);
}
END_TEST

START_TEST(a_resource_may_be_as_long_as_allowed)
{
    char name[REDLOCK_RESOURCE_MAX + 1];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    scene_attach();
    lock = scene_lock(name);
    ck_assert_str_eq(redlock_lock_resource(lock, NULL), name);
    ck_assert(redlock_held_by_me(scene.client, name, 0));
}
END_TEST

/* --- The other API, another thread --- */

START_TEST(an_attached_client_has_no_blocking_functions)
{
    scene_attach();
    lock = scene_lock("stock");
    ck_assert_status(redlock_ready(scene.client, 0, &result), REDLOCK_INVALID);
    ck_assert_has(result.text, "asynchronous client");
    redlock_lock *other;
    ck_assert_status(redlock_acquire(scene.client, "stock", NULL, &other, &result), REDLOCK_INVALID);
    ck_assert_status(redlock_extend(lock, 0, &result), REDLOCK_INVALID);
    ck_assert_status(redlock_release(&lock, &result), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(lock);
    ck_assert_status(redlock_query(scene.client, "stock", 0, NULL, &result), REDLOCK_INVALID);
    ck_assert_status(redlock_close(&scene.client, &result), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(scene.client);
}
END_TEST

static void *call_all(void *unused)
{
    redlock_cancellation *cancellation;
    (void)unused;
    ck_assert_status(redlock_ready_async(scene.client, 0, scene_told, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_acquire_async(scene.client, "stock", NULL, scene_acquired, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_extend_async(lock, 0, scene_told, NULL), REDLOCK_INVALID);
    ck_assert_has(redlock_status_text(REDLOCK_INVALID), "only from the thread that attached it");
    ck_assert_status(redlock_release_async(&lock, scene_told, NULL), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(lock);
    ck_assert_status(redlock_query_async(scene.client, "stock", 0, scene_queried, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_cancellation_create(scene.client, &cancellation), REDLOCK_INVALID);
    ck_assert(!redlock_held_by_me(scene.client, "stock", 0));
    ck_assert_status(redlock_close_async(&scene.client, scene_told, NULL), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(scene.client);
    return NULL;
}

START_TEST(another_thread_may_not_call)
{
    pthread_t thread;
    scene_attach();
    lock = scene_lock("stock");
    ck_assert_int_eq(pthread_create(&thread, NULL, call_all, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_gt(redlock_validity_ms(lock), 0);
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK);
}
END_TEST

/* --- A forked child --- */

static unsigned records(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < scene.nodes; i++)
        count += (unsigned)fake_server_count(scene.node[i], NULL);
    return count;
}

static struct test_allocator *allocator;

static void count_memory(void)
{
    allocator = test_allocator_new();
    scene.options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
}

/* Returns the wrong results in the child as bits; 0 if all are as expected. */
static int in_child_asynchronous(void)
{
    redlock_cancellation *cancellation;
    redlock_lock *same = lock;
    int wrong = 0;
    wrong |= (redlock_ready_async(scene.client, 0, scene_told, NULL) != REDLOCK_INVALID) << 0;
    wrong |= (redlock_acquire_async(scene.client, "more", NULL, scene_acquired, NULL) != REDLOCK_INVALID) << 1;
    wrong |= (redlock_extend_async(lock, 0, scene_told, NULL) != REDLOCK_INVALID) << 2;
    wrong |= (redlock_release_async(&same, NULL, NULL) != REDLOCK_INVALID) << 3;
    wrong |= (redlock_query_async(scene.client, "stock", 0, scene_queried, NULL) != REDLOCK_INVALID) << 4;
    wrong |= (redlock_validity_ms(lock) != 0 || redlock_held_by_me(scene.client, "stock", 0)) << 5;
    wrong |= (redlock_cancellation_create(scene.client, &cancellation) != REDLOCK_INVALID) << 6;
    wrong |= (redlock_close_async(&scene.client, NULL, NULL) != REDLOCK_OK || scene.client) << 7;
    ev_loop_destroy(scene.loop);
    return wrong ? wrong : test_allocator_live(allocator) > 0;
}

static int in_child_blocking(void)
{
    redlock_lock *same = lock;
    int wrong = 0;
    wrong |= (redlock_ready(scene.client, 0, &result) != REDLOCK_INVALID) << 0;
    wrong |= (strstr(result.text, "forked") == NULL) << 1;
    wrong |= (redlock_acquire(scene.client, "more", NULL, &same, NULL) != REDLOCK_INVALID || same) << 2;
    same = lock;
    wrong |= (redlock_extend(lock, 0, &result) != REDLOCK_INVALID) << 3;
    wrong |= (redlock_release(&same, &result) != REDLOCK_INVALID || !same) << 4;
    wrong |= (redlock_query(scene.client, "stock", 0, NULL, &result) != REDLOCK_INVALID) << 5;
    wrong |= (redlock_validity_ms(lock) != 0 || redlock_held_by_me(scene.client, "stock", 0)) << 6;
    wrong |= (redlock_close(&scene.client, &result) != REDLOCK_OK || scene.client) << 7;
    return wrong ? wrong : test_allocator_live(allocator) > 0;
}

/* At the fork an acquire waits for its lock, and a completion to be dispatched. */
static int in_child_with_descriptor(void)
{
    redlock_lock *same = lock;
    int wrong = 0;
    wrong |= (redlock_descriptor(scene.client) != REDLOCK_INVALID) << 0;
    wrong |= (redlock_dispatch(scene.client) != REDLOCK_INVALID) << 1;
    wrong |= (redlock_acquire_async(scene.client, "more", NULL, scene_acquired, NULL) != REDLOCK_INVALID) << 2;
    wrong |= (redlock_release_async(&same, NULL, NULL) != REDLOCK_INVALID || !same) << 3;
    wrong |= (redlock_validity_ms(lock) != 0) << 4;
    wrong |= (redlock_close_async(&scene.client, scene_told, NULL) != REDLOCK_OK || scene.client) << 5;
    return wrong ? wrong : (test_allocator_live(allocator) > 0) << 6;
}

enum { AT_WORK = 1 << 8 }; /* no bit of a wrong result */

/* A fork copies another thread's work half done. So in the child the client's thread must have been asleep. */
static bool was_at_work(void)
{
    const struct rl_loop_thread *thread = scene.client->loop_thread;
    return thread && atomic_load(&thread->worker) != (pthread_t)0;
}

/* Forks, runs the function in the child, and returns what it returned, or AT_WORK. */
static unsigned in_child(int (*child)(void))
{
    int status, ends[2];
    unsigned wrong = 0;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        wrong = was_at_work() ? AT_WORK : (unsigned)child();
        ssize_t written = write(ends[1], &wrong, sizeof wrong);
        (void)written;
        raise(SIGKILL); /* no cleanup: the fake nodes belong to the parent */
    }
    close(ends[1]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child ended with status %#x",
                  (unsigned)status);
    ck_assert_int_eq(read(ends[0], &wrong, sizeof wrong), sizeof wrong);
    close(ends[0]);
    return wrong;
}

/* quiet: no traffic of the parent is in flight, so every byte that arrives is the child's. */
static void assert_child_is_harmless(int (*child)(void), bool quiet)
{
    unsigned before = records(), wrong;
    do
        wrong = in_child(child);
    while (wrong == AT_WORK);
    ck_assert_msg(wrong == 0, "wrong in the child: %#x", wrong);
    if (quiet)
        ck_assert_uint_eq(records(), before);
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

/* At the fork every kind of operation is in progress, or has ended and waits for its callback. */
START_TEST(a_forked_child_sends_nothing)
{
    static struct answer others[4];
    count_memory();
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
    assert_child_is_harmless(in_child_asynchronous, _i == 0);
    for (unsigned i = 0; i < 4 && _i > 0; i++)
        ck_assert_status(scene_wait(&others[i]), REDLOCK_OK);
    for (unsigned i = 0; i < scene.nodes && _i > 0; i++)
        scene_let_go(i, "held");
    if (_i > 0)
        ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    assert_nothing_came_twice();
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK); /* the parent's lock still works */
    for (unsigned i = 0; i < scene.nodes; i++)                   /* no connection was broken and replaced */
        ck_assert_uint_eq(fake_server_open_connections(scene.node[i]), fake_server_accepted(scene.node[i]));
}
END_TEST

START_TEST(a_forked_child_of_the_blocking_face_sends_nothing)
{
    count_memory();
    scene_connect();
    ck_assert_status(redlock_acquire(scene.client, "stock", REDLOCK_WAIT_MS(SCENE_SOON_MS), &lock, &result),
                     REDLOCK_OK);
    for (unsigned i = 0; i < scene.nodes; i++)
        ck_assert(fake_server_wait_for(scene.node[i], "SET", 1, SCENE_SOON_MS));
    assert_child_is_harmless(in_child_blocking, true);
    ck_assert_status(redlock_release(&lock, &result), REDLOCK_OK);
    ck_assert_status(redlock_close(&scene.client, &result), REDLOCK_OK);
}
END_TEST

static void poll_and_dispatch(struct answer *awaited)
{
    struct pollfd completions = {.fd = redlock_descriptor(scene.client), .events = POLLIN};
    while (!awaited->told) {
        ck_assert_int_eq(poll(&completions, 1, SCENE_SOON_MS), 1);
        ck_assert_status(redlock_dispatch(scene.client), REDLOCK_OK);
    }
}

START_TEST(a_forked_child_of_a_client_with_a_descriptor_sends_nothing)
{
    struct answer waiting, more;
    count_memory();
    scene_connect();
    scene_start_acquire(&answer, "stock", NULL);
    poll_and_dispatch(&answer);
    lock = answer.lock;
    for (unsigned i = 0; i < scene.nodes; i++) {
        ck_assert(fake_server_wait_for(scene.node[i], "SET", 1, SCENE_SOON_MS));
        scene_hold(i, "held");
    }
    scene_start_acquire(&waiting, "held", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    ck_assert(fake_server_wait_for(scene.node[0], "EVALSHA", 1, SCENE_SOON_MS));
    scene_start_query(&more, "stock");
    struct pollfd completions = {.fd = redlock_descriptor(scene.client), .events = POLLIN};
    ck_assert_int_eq(poll(&completions, 1, SCENE_SOON_MS), 1);
    assert_child_is_harmless(in_child_with_descriptor, false);
    poll_and_dispatch(&more);
    ck_assert_status(more.result.status, REDLOCK_OK);
    scene_let_go_on(0, scene.nodes, "held");
    poll_and_dispatch(&waiting);
    ck_assert_status(waiting.result.status, REDLOCK_OK);
    assert_nothing_came_twice();
    scene_start_release(&answer, &lock);
    poll_and_dispatch(&answer);
    ck_assert_status(answer.result.status, REDLOCK_OK);
    ck_assert_status(redlock_close(&scene.client, &result), REDLOCK_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("misuse");
    TCase *arguments = scene_case(suite, "arguments", three_nodes),
          *places = scene_case(suite, "thread and process", three_nodes);
    tcase_add_test(arguments, null_arguments_of_the_asynchronous_face);
    tcase_add_test(arguments, null_arguments_of_the_blocking_face);
    tcase_add_test(arguments, null_handles_have_no_validity);
    tcase_add_test(arguments, a_bad_list_or_option_makes_no_client);
    tcase_add_loop_test(arguments, a_bad_argument_is_told_by_the_callback_in_words, 0, BADS);
    tcase_add_loop_test(arguments, the_blocking_face_tells_the_same, 0, BADS);
    tcase_add_test(arguments, a_resource_may_have_the_markers_name_behind_a_prefix);
    tcase_add_test(arguments, a_resource_may_hold_any_byte);
    tcase_add_test(arguments, a_resource_may_be_as_long_as_allowed);
    tcase_add_test(places, an_attached_client_has_no_blocking_functions);
    tcase_add_test(places, another_thread_may_not_call);
    tcase_add_loop_test(places, a_forked_child_sends_nothing, 0, 3);
    tcase_add_test(places, a_forked_child_of_the_blocking_face_sends_nothing);
    tcase_add_test(places, a_forked_child_of_a_client_with_a_descriptor_sends_nothing);
    return run_suite(suite);
}
