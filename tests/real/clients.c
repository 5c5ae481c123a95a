#include "real/clients.h"

#include <poll.h>

struct face *clients_open_with(int i, uint32_t ttl_ms, uint32_t renewal_percent)
{
    redlock_options options = face_options();
    options.ttl_ms = ttl_ms;
    options.renewal_percent = renewal_percent;
    return held_open_trusted(i, NULL, &options);
}

struct face *clients_open(int i)
{
    return clients_open_with(i, CLIENTS_TTL_MS, 0);
}

/* --- Nodes --- */

void clients_await(struct face *face, const char *command, const char *key, long long least, long long most)
{
    real_until(face, real_all_reply(&(struct real_number){{command, key}, least, most}));
}

void clients_await_waiters(struct face *face, const char *resource, int least)
{
    char queue[256];
    snprintf(queue, sizeof queue, "%s:redlock:queue", resource);
    clients_await(face, "ZCARD", queue, least, INT32_MAX);
}

void clients_assert_queue_expires(const char *resource)
{
    static const char *const suffixes[] = {"queue", "alive", "free"};
    char key[256];
    for (size_t node = 0; node < cluster_size(cluster); node++)
        for (int i = 0; i < ROWS(suffixes); i++) {
            snprintf(key, sizeof key, "%s:redlock:%s", resource, suffixes[i]);
            long long left_ms = cluster_integer(cluster, node, "PTTL", key, NULL);
            ck_assert_msg(left_ms == -2 || (left_ms >= 0 && left_ms <= 12000), "%s on node %zu: %lld ms", key, node,
                          left_ms);
        }
}

static long long subscribers(size_t node)
{
    char reply[4096];
    long long found = 0;
    ck_assert(cluster_command(cluster, node, reply, sizeof reply, "PUBSUB", "CHANNELS", NULL));
    for (const char *at = reply; (at = strstr(at, "redlock:")) != NULL; at++)
        found++;
    return found;
}

void clients_await_subscribers(long long least, long long most)
{
    for (size_t i = 0; i < cluster_size(cluster); i++)
        real_until(NULL, subscribers(i) >= least && subscribers(i) <= most);
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

void waiter_start(struct waiter *waiter, struct face *face, const char *resource, redlock_acquire_options options)
{
    memset(waiter, 0, sizeof *waiter);
    waiter->client = face_client(face);
    waiter->resource = resource;
    waiter->options = options;
    if (options.wait_ms == 0)
        waiter->options.wait_ms = REDLOCK_FOREVER;
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_for_it, waiter), 0);
}

int waiter_join(struct waiter *waiter)
{
    ck_assert_int_eq(pthread_join(waiter->thread, NULL), 0);
    return waiter->result.status;
}

void waiter_finish(struct waiter *waiter)
{
    real_status(waiter_join(waiter), REDLOCK_OK, &waiter->result);
}

void waiter_release(struct waiter *waiter)
{
    waiter->released_ns = test_now_ns();
    real_status(redlock_release(&waiter->lock, NULL, &waiter->result), REDLOCK_OK, &waiter->result);
}

void waiter_finish_and_release(struct waiter *waiter)
{
    waiter_finish(waiter);
    waiter_release(waiter);
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
