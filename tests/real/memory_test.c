/* Memory stays bounded while a real server hangs: the requests and undos that the client keeps for it are limited, and
 * so are the buffers of hiredis and of the C library. tests/fake/limits_test.c has the bounds themselves. */
#include "real/real.h"

#include "support/allocator.h"
#include "support/file.h"

enum { WARM_UP = 500, LOCKS = 1500, BOUND = 256 };

/* The most that the C library's heap may grow meanwhile. A SET and its undo for each of the LOCKS are more. */
static const size_t most_resident = 256 * 1024;

static redlock_result result;

static void take_locks(struct face *face, int count)
{
    redlock_lock *lock;
    for (int i = 0; i < count; i++) {
        real_status(face_acquire(face, real_key("memory"), REDLOCK_WAIT_MS(REAL_SOON_MS), &lock, &result), REDLOCK_OK,
                    &result);
        real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
    }
}

static bool is_given_up(void *face)
{
    return face_ready(face, 0, &result) == REDLOCK_OK && result.granted < result.nodes;
}

REAL_CASE(memory, real_shared_case, NULL);

/* _i 1: the client has closed the connection, and keeps only the undos for the node. */
TEST_ROWS(memory, a_node_that_hangs_costs_a_bounded_amount, 2)
{
    struct test_allocator *allocator = test_allocator_new();
    redlock_options options = face_options();
    options.pending_max = BOUND;
    options.undos_max = BOUND;
    options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
    options.silence_limit_ms = options.connect_timeout_ms = _i == 1 ? 3000 : 60000;
    struct face *face = face_open_ready(face_of(_i), deployment_nodes(real_nodes), &options);
    deployment_stop(real_nodes, 0);
    if (_i == 1)
        ck_assert(face_wait(face, is_given_up, face, REAL_SOON_MS));
    take_locks(face, WARM_UP);
    size_t peak = test_allocator_peak_bytes(allocator), resident = file_resident_bytes();
    take_locks(face, LOCKS);
    ck_assert_uint_le(test_allocator_peak_bytes(allocator), 2 * peak);
    ck_assert_uint_le(file_resident_bytes(), resident + most_resident);
    deployment_resume(real_nodes, 0);
    ck_assert(face_wait_all_ready(face)); /* the client reconnects to the node and sends the undos */
    face_close(&face, NULL);
    ck_assert_uint_eq(test_allocator_live(allocator), 0);
}

REAL_FAULTS_PROGRAM("real_memory")
