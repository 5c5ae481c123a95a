/*
 * Locks through redlock_dispatch() on a libuv loop, 100 in flight: the eventfds between the two threads are written and
 * read once per batch, not once per operation. $REDLOCK_OPERATIONS makes it longer. The program's write(2) and read(2)
 * are wrapped: see CMakeLists.txt.
 */
#include "real/real.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

enum { IN_FLIGHT = 100, OPERATIONS = 20000, PER_BATCH = 10 };

static redlock_client *client;
static redlock_result result;
static unsigned started, ended, operations;
static uv_poll_t completions;

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

/* --- The loop --- */

static void start_next(void);

static void on_released(redlock_client *unused, const redlock_result *given, void *arg)
{
    (void)unused;
    (void)arg;
    ck_assert_int_eq(given->status, REDLOCK_OK);
    ended += 2;
    start_next();
}

static void on_acquired(redlock_client *unused, redlock_lock *lock, const redlock_result *given, void *arg)
{
    (void)unused;
    (void)arg;
    ck_assert_int_eq(given->status, REDLOCK_OK);
    ck_assert_int_eq(redlock_release_async(&lock, on_released, NULL), REDLOCK_OK);
}

static void start_next(void)
{
    char name[64];
    if (started == operations)
        return;
    snprintf(name, sizeof name, "%s%u", real_key("batch"), started);
    started += 2;
    ck_assert_int_eq(redlock_acquire_async(client, name, NULL, on_acquired, NULL), REDLOCK_OK);
}

static void on_readable(uv_poll_t *watcher, int status, int events)
{
    (void)status;
    (void)events;
    ck_assert_int_eq(redlock_dispatch(client), REDLOCK_OK);
    if (ended == operations)
        uv_poll_stop(watcher);
}

REAL_CASE(batch, real_shared_case, NULL);

TEST(batch, operations_share_their_wake_ups)
{
    redlock_options options = face_options();
    uv_default_loop();
    real_note_descriptors(); /* libuv keeps a pipe for signals */
    operations = real_setting("REDLOCK_OPERATIONS", OPERATIONS) / 2 * 2;
    started = ended = 0;
    real_status(redlock_connect(deployment_nodes(real_nodes), &options, &client, &result), REDLOCK_OK, &result);
    real_status(redlock_ready(client, REAL_SOON_MS, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(uv_poll_init(uv_default_loop(), &completions, redlock_descriptor(client)), 0);
    ck_assert_int_eq(uv_poll_start(&completions, UV_READABLE, on_readable), 0);
    writes = reads = 0;
    for (unsigned i = 0; i < IN_FLIGHT; i++)
        start_next();
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    ck_assert_uint_eq(ended, operations);
    printf("%u operations: %u writes and %u reads of eventfds\n", operations, writes, reads);
    ck_assert_uint_gt(writes, 0); /* the wrappers count */
    ck_assert_uint_le(writes, operations / PER_BATCH);
    ck_assert_uint_le(reads, operations / PER_BATCH);
    uv_close((uv_handle_t *)&completions, NULL);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    uv_loop_close(uv_default_loop());
    real_status(redlock_close(&client, &result), REDLOCK_OK, &result);
}

REAL_PROGRAM("batch")
