/*
 * Locks through redlock_dispatch(), 100 in flight: the eventfds between the two threads are written and read once per batch,
 * not once per operation. $REDLOCK_OPERATIONS makes it longer. The program's write(2) and read(2) are wrapped: see
 * CMakeLists.txt.
 */
#include "real/held.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { IN_FLIGHT = 100, OPERATIONS = 20000, PER_BATCH = 10, PATIENCE_MS = 600000 };

static struct face *face;
static unsigned started, ended, operations;

/* --- Counting --- */

ssize_t __real_write(int descriptor, const void *bytes, size_t size);
ssize_t __wrap_write(int descriptor, const void *bytes, size_t size);
ssize_t __real_read(int descriptor, void *bytes, size_t size);
ssize_t __wrap_read(int descriptor, void *bytes, size_t size);

static atomic_uint writes, reads;

static bool is_eventfd(int descriptor)
{
    char path[64], target[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return readlink(path, target, sizeof target - 1) > 0 && strstr(target, "[eventfd]");
}

ssize_t __wrap_write(int descriptor, const void *bytes, size_t size)
{
    if (size == sizeof(uint64_t) && is_eventfd(descriptor))
        atomic_fetch_add(&writes, 1);
    return __real_write(descriptor, bytes, size);
}

ssize_t __wrap_read(int descriptor, void *bytes, size_t size)
{
    if (size == sizeof(uint64_t) && is_eventfd(descriptor))
        atomic_fetch_add(&reads, 1);
    return __real_read(descriptor, bytes, size);
}

/* --- The operations --- */

static void start_next(void);

static void on_released(redlock_client *client, const redlock_result *given, void *unused)
{
    (void)client;
    (void)unused;
    ck_assert_int_eq(given->status, REDLOCK_OK);
    ended += 2;
    start_next();
}

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *given, void *unused)
{
    (void)client;
    (void)unused;
    ck_assert_int_eq(given->status, REDLOCK_OK);
    ck_assert_int_eq(redlock_release_async(&lock, NULL, on_released, NULL), REDLOCK_OK);
}

static void start_next(void)
{
    char name[64];
    if (started == operations)
        return;
    snprintf(name, sizeof name, "%s%u", real_key("batch"), started);
    started += 2;
    ck_assert_int_eq(redlock_acquire_async(face_client(face), name, NULL, on_acquired, NULL), REDLOCK_OK);
}

static bool have_ended(void *unused)
{
    (void)unused;
    return ended == operations;
}

REAL_LONG_CASE(batch, real_shared_case, NULL);

TEST(batch, operations_share_their_wake_ups)
{
    operations = real_setting("REDLOCK_OPERATIONS", OPERATIONS) / 2 * 2;
    started = ended = 0;
    face = real_open(DESCRIPTOR_FACE);
    writes = reads = 0;
    for (unsigned i = 0; i < IN_FLIGHT; i++)
        start_next();
    ck_assert(face_wait(face, have_ended, NULL, PATIENCE_MS));
    printf("%u operations: %u writes and %u reads of eventfds\n", operations, writes, reads);
    ck_assert_uint_gt(writes, 0); /* the wrappers count */
    ck_assert_uint_le(writes, operations / PER_BATCH);
    ck_assert_uint_le(reads, operations / PER_BATCH);
}

REAL_PROGRAM("batch")
