/* Bounds: descriptors, requests in flight to one node, undos kept for one node. */
#include "fake/scene.h"

#include <sys/resource.h>
#include <unistd.h>

#include "support/file.h"

static struct answer answer;

static int make(int face, redlock_result *result)
{
    return face ? redlock_connect(scene_list(), &scene.options, &scene.client, result)
                : redlock_attach(scene.loop, scene_list(), &scene.options, &scene.client, result);
}

SCENE_CASE(one_node, scene_one_node);

/* With any number of missing descriptors, the call returns a status with a text, and closes the descriptors that it has
 * opened. */
TEST_ROWS(one_node, without_descriptors_there_is_no_client, 2)
{
    enum { ENOUGH = 32 };
    struct rlimit limit, less;
    redlock_result result;
    const size_t open = file_open_descriptors();
    const int next = dup(STDIN_FILENO);
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
}

TEST(one_node, node_with_too_many_requests_gets_no_more)
{
    enum { MORE = 24 };
    static struct answer answers[MORE];
    unsigned asked = 0, refused = 0;
    scene.options.pending_max = 16;
    scene_attach();
    fake_server_pause(scene.node[0]);
    scene_start_acquires(answers, MORE, NULL);
    scene_turn();
    for (unsigned i = 0; i < MORE; i++) {
        if (!answers[i].callbacks)
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

SCENE_CASE(three_nodes, scene_three_nodes);

/* The client drops the oldest undo, because its key expires first. */
TEST(three_nodes, more_undos_than_allowed_are_not_kept)
{
    enum { LOCKS = 40 };
    redlock_lock *locks[LOCKS];
    scene.options.undos_max = 16;
    scene.keys_may_stay = true;
    scene_attach();
    for (unsigned i = 0; i < LOCKS; i++)
        locks[i] = scene_lock(scene_name(i));
    scene_wait_for_sent_to(0, 3, SENT_SET, LOCKS);
    scene_cut_off(0, 1);
    for (unsigned i = 0; i < LOCKS; i++)
        ck_assert_status(scene_release(&answer, &locks[i]), REDLOCK_OK);
    fake_server_listen(scene.node[0]);
    scene_wait_for_sent(0, SENT_UNDO, 16);
    scene_wait_for_ready();
    for (unsigned i = 0; i < LOCKS; i++) {
        scene_assert_key(0, 1, scene_name(i), i < LOCKS - 16);
        scene_assert_key(1, 3, scene_name(i), false);
    }
    ck_assert_uint_eq(scene_statistics().undos_dropped, LOCKS - 16);
    ck_assert_status(scene_close(&answer), REDLOCK_OK); /* it waits for none of them */
    ck_assert_uint_eq(answer.result.pending_undos, 0);
}

/* A node that is stopped for the whole test must not make memory grow. */
TEST(three_nodes, memory_is_bounded_while_a_node_is_silent)
{
    struct test_allocator *allocator = scene_count_memory();
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

TEST_PROGRAM("limits")
