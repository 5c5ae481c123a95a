/* Bounds: operations in progress, requests in flight to one node, undos kept for one node. */
#include "fake/scene.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/file.h"

static struct answer answer;

static void one_node(void)
{
    scene_begin(1);
}

static void three_nodes(void)
{
    scene_begin(3);
}

/* --- Descriptors --- */

static int make(int face, redlock_result *result)
{
    return face ? redlock_connect(scene_list(), &scene.options, &scene.client, result)
                : redlock_attach(scene.loop, scene_list(), &scene.options, &scene.client, result);
}

/* With any number of missing descriptors, the call returns a status with a text, and closes the descriptors that it has
 * opened. */
START_TEST(without_descriptors_there_is_no_client)
{
    enum { ENOUGH = 32 };
    struct rlimit limit, less;
    redlock_result result;
    const size_t open = file_open_descriptors();
    const int next = dup(STDIN_FILENO);
    ck_assert_int_ge(next, 0);
    close(next);
    int refused = 0, status = REDLOCK_SYSTEM;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (rlim_t more = 0; more < ENOUGH && status != REDLOCK_OK; more++) {
        less = (struct rlimit){.rlim_cur = (rlim_t)next + more, .rlim_max = limit.rlim_max};
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &less), 0);
        status = make(_i, &result);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        if (status == REDLOCK_OK)
            break;
        ck_assert_status(status, REDLOCK_SYSTEM);
        ck_assert_has(redlock_result_text(&result), "limit of open files");
        ck_assert_ptr_null(scene.client);
        ck_assert_uint_eq(file_open_descriptors(), open);
        refused++;
    }
    ck_assert_status(status, REDLOCK_OK);
    ck_assert_int_ge(refused, 2);
    if (_i)
        ck_assert_status(redlock_close(&scene.client, NULL), REDLOCK_OK);
}
END_TEST

/* --- operations_max --- */

START_TEST(more_operations_than_allowed_are_refused)
{
    static struct answer first, second;
    scene.options.operations_max = 2;
    scene_attach();
    scene_hold(0, "stock");
    scene_start_acquire(&first, "stock", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    scene_start_acquire(&second, "other", NULL);
    ck_assert_status(redlock_acquire_async(scene.client, "third", NULL, scene_acquired, &answer), REDLOCK_INVALID);
    ck_assert_status(redlock_ready_async(scene.client, 0, scene_told, &answer), REDLOCK_INVALID);
    ck_assert_status(redlock_query_async(scene.client, "third", 0, scene_queried, &answer), REDLOCK_INVALID);
    ck_assert_status(scene_wait(&second), REDLOCK_OK);
    ck_assert_status(scene_acquire(&answer, "third", NULL), REDLOCK_OK); /* one operation has ended */
}
END_TEST

/* A release ends a lock, so the limit must not refuse it. */
START_TEST(a_release_is_never_refused)
{
    static struct answer waiting;
    scene.options.operations_max = 1;
    scene_attach();
    redlock_lock *lock = scene_lock("stock");
    scene_hold(0, "held");
    scene_start_acquire(&waiting, "held", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK);
    ck_assert(!scene_has_key(0, "stock"));
    scene_let_go(0, "held");
    ck_assert_status(scene_wait(&waiting), REDLOCK_OK);
}
END_TEST

/* --- pending_max --- */

START_TEST(a_node_with_too_many_requests_is_not_asked)
{
    enum { MORE = 24 };
    static struct answer answers[MORE];
    char name[16];
    unsigned asked = 0, refused = 0;
    scene.options.pending_max = 16;
    scene_attach();
    fake_server_pause(scene.node[0]);
    for (unsigned i = 0; i < MORE; i++) {
        snprintf(name, sizeof name, "lock-%u", i);
        scene_start_acquire(&answers[i], name, NULL);
    }
    scene_turn();
    for (unsigned i = 0; i < MORE; i++) {
        if (!answers[i].told)
            continue;
        ck_assert_answer(&answers[i], REDLOCK_NO_QUORUM);
        ck_assert_str_eq(answers[i].result.node[0].text, "not sent: pending_max requests wait for the node");
        refused++;
    }
    ck_assert_uint_eq(refused, MORE - 16);
    fake_server_resume(scene.node[0]);
    for (unsigned i = 0; i < MORE; i++)
        asked += scene_wait(&answers[i]) == REDLOCK_OK;
    ck_assert_uint_eq(asked, 16);
    ck_assert_uint_eq(scene_count(0, SENT_SET), 16);
}
END_TEST

/* --- undos_max --- */

/* The client drops the oldest undo, because its key expires first. */
START_TEST(more_undos_than_allowed_are_not_kept)
{
    enum { LOCKS = 40 };
    redlock_lock *locks[LOCKS];
    char name[16];
    scene.options.undos_max = 16;
    scene.keys_may_stay = true;
    scene_attach();
    for (unsigned i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "lock-%u", i);
        locks[i] = scene_lock(name);
    }
    scene_wait_for_sent_to(0, 3, SENT_SET, LOCKS);
    fake_server_stop_listening(scene.node[0]);
    fake_server_drop(scene.node[0], FAKE_CLOSE);
    while (scene_ready_nodes() != 2)
        scene_turn();
    for (unsigned i = 0; i < LOCKS; i++)
        ck_assert_status(scene_release(&answer, &locks[i]), REDLOCK_OK);
    fake_server_listen(scene.node[0]);
    scene_wait_for_sent(0, SENT_UNDO, 16);
    scene_wait_for_ready();
    for (unsigned i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "lock-%u", i);
        ck_assert_int_eq(scene_has_key(0, name), i < LOCKS - 16);
        ck_assert(!scene_has_key(1, name) && !scene_has_key(2, name));
    }
    ck_assert_status(scene_close(&answer), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.pending_undos, LOCKS - 16);
}
END_TEST

/* A node that is stopped for the whole test must not make memory grow. */
START_TEST(memory_is_bounded_while_a_node_is_silent)
{
    struct test_allocator *allocator = test_allocator_new();
    scene.options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
    scene.options.silence_limit_ms = 100;
    scene.options.connect_timeout_ms = 100;
    scene.options.undos_max = 16;
    scene.options.pending_max = 16;
    scene_attach();
    size_t early = 0;
    fake_server_pause(scene.node[0]);
    for (unsigned i = 0; i < 150; i++) {
        redlock_lock *lock = scene_lock("stock");
        scene_release(&answer, &lock); /* may fail: on a busy machine other nodes may be silent for 100 ms, too */
        if (i == 50)
            early = test_allocator_live_bytes(allocator);
    }
    ck_assert_uint_le(test_allocator_live_bytes(allocator), early + early / 4);
    fake_server_resume(scene.node[0]);
    scene_wait_for_ready();
    scene_close(&answer);
    ck_assert_uint_eq(test_allocator_live(allocator), 0);
    fake_server_forget_keys(scene.node[0]); /* keys whose undos were dropped */
}
END_TEST

/* --- Late replies, after all handles are gone --- */

START_TEST(answers_may_come_when_nobody_waits)
{
    enum { LOCKS = 50 };
    static struct answer answers[LOCKS];
    redlock_cancellation *cancellation;
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    char name[16];
    scene_attach();
    ck_assert_status(redlock_cancellation_create(scene.client, &cancellation), REDLOCK_OK);
    options.cancellation = cancellation;
    scene_each(0, 2, fake_server_pause);
    for (unsigned i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "lock-%u", i);
        scene_start_acquire(&answers[i], name, &options);
    }
    scene_wait_for_sent(2, SENT_SET, LOCKS);
    redlock_cancel(cancellation);
    for (unsigned i = 0; i < LOCKS; i++)
        ck_assert_status(scene_wait(&answers[i]), REDLOCK_CANCELLED);
    redlock_cancellation_destroy(&cancellation);
    scene_each(0, 2, fake_server_resume);
    for (unsigned i = 0; i < 3; i++) {
        scene_wait_for_sent(i, SENT_UNDO, LOCKS);
        scene_assert_undone(i);
        ck_assert_uint_eq(fake_server_keys_left(scene.node[i], NULL), 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limits");
    TCase *one = scene_case(suite, "one node", one_node), *three = scene_case(suite, "three nodes", three_nodes);
    tcase_add_test(one, more_operations_than_allowed_are_refused);
    tcase_add_test(one, a_release_is_never_refused);
    tcase_add_loop_test(one, without_descriptors_there_is_no_client, 0, 2);
    tcase_add_test(one, a_node_with_too_many_requests_is_not_asked);
    tcase_add_test(three, more_undos_than_allowed_are_not_kept);
    tcase_add_test(three, memory_is_bounded_while_a_node_is_silent);
    tcase_add_test(three, answers_may_come_when_nobody_waits);
    return run_suite(suite);
}
