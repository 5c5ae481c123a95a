/* Real servers stopped, killed and restarted, with each way to call: every operation ends in time with the right error text,
 * and no key is left on a node that comes back. */
#include "real/held.h"

enum { NODES = 5, QUORUM = 3, NODE_TIMEOUT_MS = 200 };

static const char key[] = real_key("fault");

static redlock_lock *acquire_everywhere(struct face *face)
{
    redlock_lock *lock = held_acquire(face, key, NULL);
    ck_assert_uint_eq(result.attempts, 1);
    held_everywhere(face, key, lock);
    return lock;
}

static size_t unreachable(struct face *face)
{
    face_ready(face, 0, &result);
    return result.unreachable;
}

REAL_CASE(stopped, real_shared_case, NULL);
REAL_CASE(others, real_bare_case, NULL);

static void ends_with(int actual, int expected)
{
    real_status(actual, expected, &result);
    ck_assert_uint_lt(result.elapsed_us, REAL_SOON_MS * 1000u);
}

TEST(stopped, every_operation_ends_with_a_stopped_majority)
{
    size_t stopped = QUORUM + (size_t)_i; /* each majority has its way to call */
    redlock_options options = face_options();
    redlock_lock *none;
    redlock_state state;
    long long before = real_calls(0, "set");
    char names[NODES][128];
    options.node_timeout_ms = NODE_TIMEOUT_MS;
    options.silence_limit_ms = REAL_SOON_MS / 4;
    struct face *face = face_open_ready(face_of(_i), cluster_nodes_string(cluster), &options);
    redlock_lock *held = acquire_everywhere(face);
    held_release(face, &held); /* every node knows the script now: nothing will be there to send it */
    ck_assert(real_nothing_left(face));
    held = acquire_everywhere(face);
    for (size_t i = 0; i < NODES; i++)
        snprintf(names[i], sizeof names[i], "%s", result.node[i].name);
    for (size_t i = 0; i < stopped; i++)
        cluster_stop(cluster, i);
    ends_with(face_acquire(face, real_key("other"), NULL, &none, &result), REDLOCK_NO_QUORUM);
    ck_assert_uint_ge(result.timed_out, QUORUM);
    ends_with(face_extend(face, held, 0, &result), REDLOCK_NO_QUORUM);
    ck_assert_int_gt(redlock_validity_ms(held), 0);
    /* It waits for the silence limit, which breaks the connections. What follows sends nothing to the stopped nodes. */
    ends_with(face_release(face, &held, &result), REDLOCK_NO_QUORUM);
    ck_assert_uint_ge(result.timed_out + result.unreachable, QUORUM);
    ends_with(face_query(face, key, &state, &result), REDLOCK_NO_QUORUM);
    ends_with(face_acquire(face, real_key("other"), REDLOCK_WAIT_MS(NODE_TIMEOUT_MS), &none, &result),
              REDLOCK_TIMED_OUT);
    real_status(face_close(&face, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_uint_ge(result.pending_undos, QUORUM);
    const char *text = redlock_result_text(&result);
    for (size_t i = 0; i < stopped; i++)
        ck_assert_msg(strstr(text, names[i]), "%s is not named in: %s", names[i], text);
    cluster_repair(cluster);
    ck_assert(real_nothing_left(NULL));
    ck_assert_int_gt(real_calls(0, "set"), before + 1);
}

/* The restarted server has another run_id, but its old keys. The undo belongs to the node, not to the process. */
TEST(others, lock_that_a_node_kept_on_disk_is_undone_when_it_is_back)
{
    const struct cluster_node_options persistent[3] = {{.persistent = true}, {0}, {0}};
    real_cluster(3, &(struct cluster_options){.nodes = persistent});
    struct face *face = face_open_ready(face_of(_i), cluster_nodes_string(cluster), NULL);
    redlock_lock *lock = acquire_everywhere(face);
    cluster_kill(cluster, 0);
    held_release(face, &lock);
    real_until(face, unreachable(face) >= 1);
    cluster_start(cluster, 0);
    ck_assert(face_wait_all_ready(face));
    ck_assert(real_nothing_left(face));
}

REAL_FAULTS_PROGRAM("real_faults")
