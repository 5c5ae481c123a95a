#define _GNU_SOURCE
#include "real/clients.h"

#include "support/clock.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { CLIENTS_MOST = 16 };

struct cluster *cluster;
redlock_result result;

static struct face *faces[CLIENTS_MOST];
static size_t opened;

static void begin(void)
{
    cluster = NULL;
    opened = 0;
}

static void close_all(void)
{
    while (opened > 0)
        held_close(faces[--opened]);
}

TCase *clients_case(Suite *suite, const char *name)
{
    TCase *tcase = real_bare_case(suite, name);
    tcase_add_checked_fixture(tcase, begin, close_all);
    return tcase;
}

struct face *clients_open_with(int i, uint32_t ttl_ms, uint32_t renewal_percent)
{
    if (cluster == NULL)
        cluster = real_cluster(HELD_NODES, NULL);
    ck_assert_uint_lt(opened, CLIENTS_MOST);
    faces[opened] = held_open_patient(i, cluster, ttl_ms, renewal_percent);
    return faces[opened++];
}

struct face *clients_open(int i)
{
    return clients_open_with(i, CLIENTS_TTL_MS, 0);
}

struct face *clients_open_renewing(int i)
{
    return clients_open_with(i, CLIENTS_SHORT_MS, 33);
}

/* --- Nodes --- */

struct expected {
    const char *command, *key;
    long long least, most;
};

static bool is_as_expected(void *arg)
{
    const struct expected *expected = arg;
    for (size_t i = 0; i < cluster_size(cluster); i++) {
        long long number = cluster_integer(cluster, i, expected->command, expected->key, NULL);
        if (number < expected->least || number > expected->most)
            return false;
    }
    return true;
}

void clients_await(struct face *face, const char *command, const char *key, long long least, long long most)
{
    struct expected expected = {command, key, least, most};
    ck_assert_msg(face_wait(face, is_as_expected, &expected, REAL_SOON_MS), "%s %s: not %lld to %lld on every node",
                  command, key, least, most);
}

void clients_await_waiters(struct face *face, const char *resource, int least)
{
    char queue[256];
    snprintf(queue, sizeof(queue), "%s:redlock:queue", resource);
    clients_await(face, "ZCARD", queue, least, INT32_MAX);
}

/* --- Waiters --- */

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;
    redlock_acquire(waiter->client, waiter->resource, &waiter->options, &waiter->lock, &waiter->result);
    waiter->got_ns = test_now_ns();
    atomic_store(&waiter->ended, true);
    return NULL;
}

void waiter_start(struct waiter *waiter, redlock_client *client, const char *resource, redlock_acquire_options options)
{
    memset(waiter, 0, sizeof(*waiter));
    waiter->client = client;
    waiter->resource = resource;
    waiter->options = options;
    if (options.wait_ms == 0)
        waiter->options.wait_ms = REAL_SOON_MS;
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_for_it, waiter), 0);
}

void waiter_finish(struct waiter *waiter)
{
    ck_assert_int_eq(pthread_join(waiter->thread, NULL), 0);
    real_status(waiter->result.status, REDLOCK_OK, &waiter->result);
}

void waiter_finish_and_release(struct waiter *waiter)
{
    waiter_finish(waiter);
    real_status(redlock_release(&waiter->lock, &waiter->result), REDLOCK_OK, &waiter->result);
}

void waiters_finish_and_release(struct waiter *waiters, size_t count)
{
    for (size_t left = count; left > 0; poll(NULL, 0, 1))
        for (size_t i = 0; i < count; i++)
            if (atomic_exchange(&waiters[i].ended, false)) {
                waiter_finish_and_release(&waiters[i]);
                left--;
            }
}
