/* Waiting on real servers: nodes notify a waiter, so that it does not poll continuously; waiters acquire in turn; a
 * dead waiter delays the others only briefly; no key is left. */
#define _GNU_SOURCE
#include "real/real.h"

#include "support/clock.h"
#include "support/delay_proxy.h"
#include "support/fixture.h"
#include "support/server_program.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 3, MS = 1000000 };

#define KEY   real_key("waited-for")
#define QUEUE KEY ":redlock:queue"
#define ALIVE KEY ":redlock:alive"
#define FREE  KEY ":redlock:free"

static struct cluster *cluster;
static redlock_result result;

static redlock_options client_options(void)
{
    redlock_options options = face_options();
    options.node_timeout_ms = 2000; /* a busy machine delays a node for long */
    options.connect_timeout_ms = 1000;
    return options;
}

static bool all_are_ready(void *client)
{
    return redlock_ready(client, 0, &result) == REDLOCK_OK && result.granted == result.nodes;
}

/* Opens a client, and waits until all of its nodes are usable. */
static redlock_client *open_client(const char *nodes)
{
    redlock_options options = client_options();
    redlock_client *client;
    ck_assert_int_eq(redlock_connect(nodes, &options, &client, &result), REDLOCK_OK);
    ck_assert(wait_until(all_are_ready, client, REAL_SOON_MS));
    return client;
}

static redlock_client *open_here(void)
{
    return open_client(cluster_nodes_string(cluster));
}

static void close_client(redlock_client *client)
{
    redlock_close(&client, NULL);
}

static redlock_lock *take_it(redlock_client *client)
{
    redlock_lock *lock;
    real_status(redlock_acquire(client, KEY, REDLOCK_WAIT_MS(REAL_SOON_MS), &lock, &result), REDLOCK_OK, &result);
    return lock;
}

static uint64_t release_it(redlock_lock *lock)
{
    uint64_t released = test_now_ns();
    real_status(redlock_release(&lock, &result), REDLOCK_OK, &result);
    return released;
}

/* Repeats the scene until it takes less than the limit, at most RUNS times. A busy machine delays some of the runs,
 * a fault delays all of them. */
static uint64_t least_of_some(uint64_t (*scene)(int i), int i, uint64_t limit_ns)
{
    enum { RUNS = 5 };
    uint64_t least = UINT64_MAX;
    for (int run = 0; run < RUNS && least >= limit_ns; run++) {
        uint64_t took = scene(i);
        least = took < least ? took : least;
    }
    return least;
}

#define assert_takes_less(scene, i, limit_ms)                                                                          \
    ck_assert_uint_lt(least_of_some((scene), (i), (uint64_t)(limit_ms)*MS), (uint64_t)(limit_ms)*MS)

/* --- Waiters --- */

struct waiter {
    pthread_t thread;
    redlock_client *client;
    redlock_acquire_options options;
    redlock_lock *lock;
    int status;
    uint64_t told_ns; /* when the acquire returned */
    unsigned place;   /* in the order of acquiring, from 1 */
    bool keeps;       /* keeps the lock; otherwise releases it at once */
};

static atomic_uint places;

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;
    waiter->status = redlock_acquire(waiter->client, KEY, &waiter->options, &waiter->lock, NULL);
    waiter->told_ns = test_now_ns();
    if (waiter->status == REDLOCK_OK) {
        waiter->place = atomic_fetch_add(&places, 1) + 1;
        if (!waiter->keeps)
            redlock_release(&waiter->lock, NULL);
    }
    return NULL;
}

static void start(struct waiter *waiter, redlock_client *client, bool fair)
{
    redlock_cancellation *cancellation = waiter->options.cancellation;
    int64_t wait_ms = waiter->options.wait_ms;
    waiter->client = client;
    waiter->options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    waiter->options.wait_ms = wait_ms != 0 ? wait_ms : REAL_SOON_MS;
    waiter->options.cancellation = cancellation;
    waiter->options.fair = fair;
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_for_it, waiter), 0);
}

static void join(struct waiter *waiter)
{
    ck_assert_int_eq(pthread_join(waiter->thread, NULL), 0);
}

static void join_with_it(struct waiter *waiter)
{
    join(waiter);
    ck_assert_msg(waiter->status == REDLOCK_OK, "%s", redlock_status_name(waiter->status));
}

/* --- The state of the nodes --- */

static bool are_queued(void *count)
{
    for (size_t i = 0; i < cluster_size(cluster); i++)
        if (cluster_integer(cluster, i, "ZCARD", QUEUE, NULL) != *(long long *)count)
            return false;
    return true;
}

/* Waits until this many clients are queued on every node. */
static void await_queued(long long count)
{
    ck_assert_msg(wait_until(are_queued, &count, REAL_SOON_MS), "not %lld are queued everywhere", count);
}

/* An attempt ends with a majority's replies: the slowest node may not have executed it yet. */
static bool is_on_a_majority(void *arg)
{
    size_t found = 0;
    (void)arg;
    for (size_t i = 0; i < cluster_size(cluster); i++)
        found += cluster_integer(cluster, i, "ZCARD", QUEUE, NULL) == 1;
    return found > cluster_size(cluster) / 2;
}

/* This many clients are subscribed on every node. */
static bool are_listening(void *count)
{
    char reply[4096];
    for (size_t i = 0; i < cluster_size(cluster); i++) {
        int found = 0;
        cluster_command(cluster, i, reply, sizeof(reply), "PUBSUB", "CHANNELS", NULL);
        for (const char *at = reply; (at = strstr(at, "redlock:")) != NULL; at++)
            found++;
        if (found < *(int *)count)
            return false;
    }
    return true;
}

/* The servers have noticed that the other clients are gone. */
static bool is_one_listening(void *arg)
{
    char reply[4096];
    int found = 0;
    (void)arg;
    for (size_t i = 0; i < cluster_size(cluster); i++) {
        cluster_command(cluster, i, reply, sizeof(reply), "PUBSUB", "CHANNELS", NULL);
        for (const char *at = reply; (at = strstr(at, "redlock:")) != NULL; at++)
            found++;
    }
    return found == (int)cluster_size(cluster);
}

static void await_listening(int count)
{
    ck_assert_msg(wait_until(are_listening, &count, REAL_SOON_MS), "not %d listen everywhere", count);
}

/* None of the queue's keys is left; the lock's key may be. */
static bool is_queue_gone(void *arg)
{
    (void)arg;
    return cluster_keys_left(cluster, "*:redlock:*", NULL) == 0;
}

/* Nobody asks the nodes meanwhile, so the keys of a waiter that did not leave would stay until they expire, after 12 s. */
static void expect_no_queue(void)
{
    ck_assert_msg(wait_until(is_queue_gone, NULL, 6000), "left on the nodes: %s",
                  cluster_key_names(cluster, "*:redlock:*", NULL));
}

static void foreign_set(const char *ttl_ms)
{
    char reply[64];
    for (size_t i = 0; i < cluster_size(cluster); i++) {
        cluster_command(cluster, i, reply, sizeof(reply), "SET", KEY, "somebody", "NX", "PX", ttl_ms, NULL);
        ck_assert_str_eq(reply, "OK");
    }
}

static void foreign_delete(void)
{
    for (size_t i = 0; i < cluster_size(cluster); i++)
        cluster_integer(cluster, i, "DEL", KEY, NULL);
}

/* --- Notification instead of polling --- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

enum { HAND_OVERS = 21 };

static uint64_t median(uint64_t *took)
{
    qsort(took, HAND_OVERS, sizeof(*took), compare);
    return took[HAND_OVERS / 2];
}

struct medians {
    uint64_t hand_over; /* from the release until a waiter in another client has the lock */
    uint64_t control;   /* the same client acquires a free lock and releases it */
};

static struct medians measure_hand_overs(redlock_client *holder, redlock_client *other, bool fair)
{
    uint64_t took[HAND_OVERS], control[HAND_OVERS];
    for (int i = 0; i < HAND_OVERS; i++) {
        uint64_t begun = test_now_ns();
        release_it(take_it(other));
        control[i] = test_now_ns() - begun;
        struct waiter waiter = {0};
        redlock_lock *lock = take_it(holder);
        start(&waiter, other, fair);
        await_queued(1);
        await_listening(1);
        uint64_t released = release_it(lock);
        join_with_it(&waiter);
        took[i] = waiter.told_ns > released ? waiter.told_ns - released : 0;
    }
    return (struct medians){median(took), median(control)};
}

/* The limit allows for a busy machine, on which the control takes longer too. Without a notification a hand-over
 * takes up to 1 s. */
START_TEST(released_lock_is_handed_over_at_once)
{
    cluster = real_cluster(_i < 2 ? 1 : NODES, NULL);
    redlock_client *holder = open_here(), *other = open_here();
    struct medians medians = {UINT64_MAX, 0};
    for (int batch = 0; batch < 5 && medians.hand_over >= 5 * MS + 4 * medians.control; batch++)
        medians = measure_hand_overs(holder, other, _i % 2 == 1);
    ck_assert_uint_lt(medians.hand_over, 5 * MS + 4 * medians.control);
    close_client(holder);
    close_client(other);
}
END_TEST

/* Without renewal, so that all commands during the hold come from the waiter. */
static redlock_lock *take_it_for_long(redlock_client *client)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *lock;
    options.wait_ms = REAL_SOON_MS;
    options.ttl_ms = 30000;
    options.no_renewal = 1;
    real_status(redlock_acquire(client, KEY, &options, &lock, &result), REDLOCK_OK, &result);
    return lock;
}

/* Reads the value that a waiter on the node offers to be handed the lock with. */
static bool read_offer(size_t node, char *value, size_t size)
{
    static const char script[] =
        "for _, text in ipairs(redis.call('HVALS', KEYS[1])) do "
        "local value = string.match(text, '^(%x+) ') if value then return value end end return ''";
    return cluster_command(cluster, node, value, size, "EVAL", script, "1", ALIVE, NULL) && value[0] != '\0';
}

static bool is_offered_everywhere(void *value)
{
    for (size_t i = 0; i < NODES; i++)
        if (!read_offer(i, value, REDLOCK_TOKEN_SIZE))
            return false;
    return true;
}

static bool is_queue_forgotten(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < NODES; i++)
        if (cluster_integer(cluster, i, "EXISTS", QUEUE, ALIVE, FREE, NULL) != 0)
            return false;
    return true;
}

/* The waiter holds the lock under the value that it offered, so it made no attempt; and it was the last in the queue. A
 * busy machine may take longer for a release than an offer lasts. */
START_TEST(release_hands_the_lock_over)
{
    char value[REDLOCK_TOKEN_SIZE];
    bool handed = false;
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here(), *other = open_here();
    for (int run = 0; run < 20 && !handed; run++) {
        struct waiter waiter = {.keeps = true};
        redlock_lock *lock = take_it(holder);
        start(&waiter, other, _i);
        ck_assert(wait_until(is_offered_everywhere, value, REAL_SOON_MS));
        release_it(lock);
        join_with_it(&waiter);
        handed = strcmp(redlock_lock_token(waiter.lock), value) == 0 && wait_until(is_queue_forgotten, NULL, 200);
        ck_assert_int_gt(redlock_validity_ms(waiter.lock), 0);
        release_it(waiter.lock);
    }
    ck_assert(handed);
    close_client(holder);
    close_client(other);
}
END_TEST

static bool is_value_on_last_node(void *value)
{
    char holder[REDLOCK_TOKEN_SIZE];
    return cluster_command(cluster, NODES - 1, holder, sizeof(holder), "GET", KEY, NULL) && strcmp(holder, value) == 0;
}

/* The holder, which has been a waiter itself, has no key on one node; in half of the rows its client has another
 * waiter. A busy machine may take longer for a release than an offer lasts; the holder may lack more keys then. */
START_TEST(release_hands_the_lock_over_where_it_was_free)
{
    char offer[REDLOCK_TOKEN_SIZE];
    bool given = false;
    cluster = real_cluster(NODES, NULL);
    redlock_client *first = open_here(), *second = open_here();
    for (int run = 0; run < 20 && !given; run++) {
        struct waiter holder = {.keeps = true}, waiter = {.keeps = true}, own = {.keeps = false};
        redlock_lock *lock = take_it(first);
        start(&holder, second, _i % 2);
        ck_assert(wait_until(is_offered_everywhere, offer, REAL_SOON_MS));
        release_it(lock);
        join_with_it(&holder);
        start(&waiter, first, _i % 2);
        ck_assert(wait_until(is_offered_everywhere, offer, REAL_SOON_MS));
        if (_i / 2) {
            start(&own, second, _i % 2);
            await_queued(2);
        }
        cluster_integer(cluster, NODES - 1, "DEL", KEY, NULL);
        redlock_release(&holder.lock, NULL);
        join_with_it(&waiter);
        given = strcmp(redlock_lock_token(waiter.lock), offer) == 0 && wait_until(is_value_on_last_node, offer, 200);
        release_it(waiter.lock);
        if (_i / 2)
            join_with_it(&own);
    }
    ck_assert(given);
    close_client(first);
    close_client(second);
}
END_TEST

/* The nodes have given the waiter the lock, but their messages are lost. Its next poll shows it. */
START_TEST(lock_that_was_handed_over_without_a_message_is_found)
{
    static const char give[] =
        "redis.call('SET', KEYS[1], ARGV[1], 'PX', 30000) redis.call('DEL', KEYS[2], KEYS[3]) return 1";
    char value[REDLOCK_TOKEN_SIZE];
    struct waiter waiter = {.keeps = true};
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here(), *other = open_here();
    redlock_lock *lock = take_it_for_long(holder);
    start(&waiter, other, _i);
    ck_assert(wait_until(is_offered_everywhere, value, REAL_SOON_MS));
    for (size_t i = 0; i < NODES; i++)
        cluster_integer(cluster, i, "EVAL", give, "3", KEY, QUEUE, ALIVE, value, NULL);
    join_with_it(&waiter);
    ck_assert_str_ne(redlock_lock_token(waiter.lock), value);
    release_it(waiter.lock);
    redlock_release(&lock, NULL); /* it is lost */
    close_client(holder);
    close_client(other);
}
END_TEST

/* The waiter's process is dead, but its entry and its subscription's mark are not: no node may give it the lock. */
START_TEST(lock_is_not_handed_over_to_a_dead_waiter)
{
    char ends[32];
    const char *const offer = "00000000000000000000000000000000000000ff 10000 1 ";
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here();
    redlock_lock *lock = take_it(holder);
    for (size_t i = 0; i < NODES; i++) {
        cluster_integer(cluster, i, "ZADD", QUEUE, "1", "redlock:dead", NULL);
        snprintf(ends, sizeof(ends), "%lld.5", (long long)time(NULL) * 1000 + 60000);
        cluster_integer(cluster, i, "HSET", ALIVE, "redlock:dead", ends, "redlock:dead offer", offer, NULL);
        cluster_integer(cluster, i, "INCR", FREE, NULL); /* the release looks for waiters only if it exists */
    }
    release_it(lock);
    for (size_t i = 0; i < NODES; i++)
        ck_assert_int_eq(cluster_integer(cluster, i, "EXISTS", KEY, NULL), 0);
    lock = take_it(holder);
    release_it(lock);
    close_client(holder);
}
END_TEST

static long long calls(size_t node, const char *command)
{
    char reply[16384], name[64];
    snprintf(name, sizeof(name), "cmdstat_%s:calls=", command);
    ck_assert(cluster_command(cluster, node, reply, sizeof(reply), "INFO", "commandstats", NULL));
    const char *at = strstr(reply, name);
    return at != NULL ? atoll(at + strlen(name)) : 0;
}

/* All commands that the library sends while the lock is idle, except the heartbeats' INFO, which the test itself
 * uses. */
static long long sent(size_t node)
{
    return calls(node, "evalsha") + calls(node, "eval") + calls(node, "set") + calls(node, "subscribe") +
           calls(node, "publish");
}

struct looks {
    long long before[NODES];
    long long count;
};

static bool are_made(void *arg)
{
    const struct looks *looks = arg;
    for (size_t i = 0; i < NODES; i++)
        if (sent(i) < looks->before[i] + looks->count)
            return false;
    return true;
}

START_TEST(who_waits_asks_once_a_second)
{
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here(), *other = open_here();
    redlock_lock *lock = take_it_for_long(holder);
    struct looks looks = {.count = 4};
    struct waiter waiter = {0};
    start(&waiter, other, _i);
    await_queued(1);
    await_listening(1);
    uint64_t begun = test_now_ns();
    for (size_t i = 0; i < NODES; i++)
        looks.before[i] = sent(i);
    ck_assert(wait_until(are_made, &looks, REAL_SOON_MS));
    uint64_t took_ms = (test_now_ns() - begun) / MS;
    /* The first two looks may follow each other at once: the waiter looks again for a subscription that it learns of
     * later. Both may still be on their way when the measurement begins. */
    ck_assert_msg(took_ms >= 1800, "%lld looks in %llu ms", looks.count, (unsigned long long)took_ms);
    for (size_t i = 0; i < NODES; i++) {
        long long commands = sent(i) - looks.before[i];
        uint64_t seconds = (test_now_ns() - begun) / (1000 * MS) + 1;
        ck_assert_msg(commands <= (long long)seconds + 3, "node %zu: %lld commands in at most %llu s", i, commands,
                      (unsigned long long)seconds);
    }
    release_it(lock);
    join_with_it(&waiter);
    close_client(holder);
    close_client(other);
}
END_TEST

/* The nodes of a new deployment are in quarantine: they report the lock as free, and the client knows when they will
 * grant it. */
enum { TTL_MS = 1100, QUARANTINE_MS = TTL_MS + 13 + 1000 };

static uint64_t wait_for_the_end_of_a_quarantine(int i)
{
    enum { LITTLE = 12 };
    cluster = real_cluster(NODES, NULL);
    redlock_options options = client_options();
    redlock_client *client;
    struct waiter waiter = {0};
    uint64_t began = test_now_ns();
    options.guard = 1;
    options.max_ttl_ms = options.ttl_ms = TTL_MS;
    ck_assert_int_eq(redlock_connect(cluster_nodes_string(cluster), &options, &client, &result), REDLOCK_OK);
    start(&waiter, client, i);
    join_with_it(&waiter);
    uint64_t took_ms = (waiter.told_ns - began) / MS;
    ck_assert_uint_ge(took_ms, QUARANTINE_MS);
    for (size_t node = 0; node < NODES; node++)
        ck_assert_msg(calls(node, "evalsha") <= LITTLE + (long long)took_ms / 1000, "node %zu: %lld scripts", node,
                      calls(node, "evalsha"));
    expect_no_queue(); /* not even on the node whose quarantine ended last, which got no acquire */
    close_client(client);
    return waiter.told_ns - began;
}

START_TEST(a_quarantine_is_waited_out_without_asking)
{
    enum { BEFORE_NEXT_LOOK_MS = 700 }; /* the quarantine ends soon after a look, and the waiter looks once a second */
    assert_takes_less(wait_for_the_end_of_a_quarantine, _i, QUARANTINE_MS + BEFORE_NEXT_LOOK_MS);
}
END_TEST

/* --- In turn --- */

static bool are_pending(void *arg)
{
    const struct waiter *last = arg;
    redlock_statistics statistics;
    ck_assert_int_eq(redlock_statistics_get(last->client, &statistics), REDLOCK_OK);
    return statistics.operations_pending == last->place;
}

START_TEST(waiters_of_one_client_come_in_turn)
{
    enum { WAITERS = 6 };
    struct waiter waiters[WAITERS] = {0};
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here(), *other = open_here();
    redlock_lock *lock = take_it(holder);
    atomic_store(&places, 0);
    for (unsigned i = 0; i < WAITERS; i++) {
        struct waiter expected = {.client = other, .place = i + 1};
        start(&waiters[i], other, _i);
        ck_assert(wait_until(are_pending, &expected, REAL_SOON_MS));
        if (i == 0)
            await_queued(1); /* the later waiters then queue behind it at once */
    }
    await_queued(1); /* one entry for all of them */
    release_it(lock);
    for (unsigned i = 0; i < WAITERS; i++) {
        join_with_it(&waiters[i]);
        ck_assert_uint_eq(waiters[i].place, i + 1);
    }
    expect_no_queue();
    close_client(holder);
    close_client(other);
}
END_TEST

static bool has_text(size_t node, const char *text, const char *command, const char *key, const char *field)
{
    char reply[64];
    return cluster_command(cluster, node, reply, sizeof(reply), command, key, field, NULL) && strcmp(reply, text) == 0;
}

/* Gives the first waiter's ticket the time of a clock that is years ahead. */
static void put_tickets_ahead(void)
{
    char first[64];
    for (size_t i = 0; i < NODES; i++) {
        ck_assert(cluster_command(cluster, i, first, sizeof(first), "ZRANGE", QUEUE, "0", "0", NULL));
        cluster_integer(cluster, i, "ZADD", QUEUE, "XX", "2100000000000000", first, NULL);
        cluster_integer(cluster, i, "HSET", ALIVE, " seen", "2100000000000000", NULL);
        ck_assert(has_text(i, "2100000000000000", "ZSCORE", QUEUE, first));
    }
}

/* When the first waiter's entry expires, by the node's clock. */
static long long life_of_first(size_t node)
{
    char first[64], ends[64];
    ck_assert(cluster_command(cluster, node, first, sizeof(first), "ZRANGE", QUEUE, "0", "0", NULL));
    ck_assert(cluster_command(cluster, node, ends, sizeof(ends), "HGET", ALIVE, first, NULL));
    return atoll(ends);
}

/* The waiter has refreshed its entry on every node since the entry had these ends. */
static bool have_refreshed(void *arg)
{
    long long(*ends)[NODES] = arg;
    for (size_t i = 0; i < NODES; i++)
        if (life_of_first(i) <= (*ends)[i])
            return false;
    return true;
}

/* A node keeps the largest ticket it has seen, also when a waiter with a smaller one refreshes its entry. */
START_TEST(refresh_leaves_the_largest_ticket)
{
    struct waiter waiter = {0};
    long long ends[NODES];
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here(), *other = open_here();
    redlock_lock *lock = take_it(holder);
    start(&waiter, other, true);
    await_queued(1);
    put_tickets_ahead();
    for (size_t i = 0; i < NODES; i++)
        ends[i] = life_of_first(i);
    ck_assert(wait_until(have_refreshed, &ends, REAL_SOON_MS));
    for (size_t i = 0; i < NODES; i++)
        ck_assert(has_text(i, "2100000000000000", "HGET", ALIVE, " seen"));
    release_it(lock);
    join_with_it(&waiter);
    close_client(other);
    close_client(holder);
}
END_TEST

static bool is_later_everywhere(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < NODES; i++)
        if (cluster_integer(cluster, i, "ZCOUNT", QUEUE, "2100000000000000", "+inf", NULL) != 1)
            return false;
    return true;
}

/* Nodes move a waiter that leaves a free lock to the tail. When a majority has moved it, the waiter moves its entry
 * on all nodes. Otherwise two waiters could each stay first on some nodes, and each hold the nodes that the other
 * one lacks. A minority moves no waiter. */
START_TEST(place_that_a_majority_has_changed_is_changed_everywhere)
{
    const size_t moved = _i == 0 ? 1 : 2;
    struct waiter waiter = {0};
    long long ends[NODES];
    char name[64];
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here(), *other = open_here();
    redlock_lock *lock = take_it(holder);
    start(&waiter, other, true);
    await_queued(1);
    ck_assert(cluster_command(cluster, 0, name, sizeof(name), "ZRANGE", QUEUE, "0", "0", NULL));
    for (size_t i = 0; i < moved; i++)
        ck_assert_int_eq(cluster_integer(cluster, i, "ZADD", QUEUE, "XX", "CH", "2100000000000000", name, NULL), 1);
    for (unsigned look = 0; look < 2; look++) { /* with the replies to the first look, the waiter knows its places */
        for (size_t i = 0; i < NODES; i++)
            ends[i] = life_of_first(i);
        ck_assert(wait_until(have_refreshed, &ends, REAL_SOON_MS));
    }
    ck_assert(_i == 0 ? !is_later_everywhere(NULL) : wait_until(is_later_everywhere, NULL, REAL_SOON_MS));
    release_it(lock);
    join_with_it(&waiter);
    close_client(other);
    close_client(holder);
}
END_TEST

/* On every node, this many tickets are above the time that put_tickets_ahead() sets. */
static bool are_raised(void *count)
{
    for (size_t i = 0; i < NODES; i++)
        if (cluster_integer(cluster, i, "ZCOUNT", QUEUE, "2100000000000000", "+inf", NULL) != *(long long *)count)
            return false;
    return true;
}

START_TEST(fair_clients_come_in_turn_whatever_their_clocks)
{
    enum { WAITERS = 4 };
    struct waiter waiters[WAITERS] = {0};
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here();
    redlock_lock *lock = take_it(holder);
    atomic_store(&places, 0);
    for (unsigned i = 0; i < WAITERS; i++) {
        start(&waiters[i], open_here(), true);
        await_queued(i + 1);
        await_listening((int)i + 1);
        if (i == 0 && _i == 1)
            put_tickets_ahead();
        long long raised = i + 1;
        ck_assert(_i == 0 || wait_until(are_raised, &raised, REAL_SOON_MS));
    }
    release_it(lock);
    for (unsigned i = 0; i < WAITERS; i++) {
        join_with_it(&waiters[i]);
        ck_assert_msg(waiters[i].place == i + 1, "number %u came in place %u", i + 1, waiters[i].place);
        close_client(waiters[i].client);
    }
    close_client(holder);
}
END_TEST

/* --- Trying once --- */

/* Enters a waiter on this many nodes, either alive or with an expired entry. */
static void put_waiter(size_t nodes, bool lives)
{
    char ends[32];
    for (size_t i = 0; i < nodes; i++) {
        snprintf(ends, sizeof(ends), "%lld", (long long)time(NULL) * 1000 + (lives ? 30000 : -1000));
        cluster_integer(cluster, i, "ZADD", QUEUE, "1", "redlock:ghost", NULL);
        cluster_integer(cluster, i, "HSET", ALIVE, "redlock:ghost", ends, NULL);
    }
}

static void forget_waiters(void)
{
    for (size_t i = 0; i < NODES; i++)
        cluster_integer(cluster, i, "DEL", QUEUE, ALIVE, FREE, NULL);
}

static void try_once(struct face *face, bool fair, int expected)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *lock;
    options.fair = fair;
    real_status(face_acquire(face, KEY, &options, &lock, &result), expected, &result);
    ck_assert_uint_eq(result.attempts, 1);
    if (expected == REDLOCK_OK)
        real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
}

START_TEST(fair_try_leaves_a_free_lock_to_who_waits)
{
    redlock_options options = client_options();
    cluster = real_cluster(NODES, NULL);
    struct face *face = face_open_ready((enum face_kind)_i, cluster_nodes_string(cluster), &options);
    try_once(face, true, REDLOCK_OK);
    expect_no_queue(); /* the attempt leaves no key */
    put_waiter(NODES, true);
    try_once(face, true, REDLOCK_HELD);
    ck_assert_ptr_nonnull(strstr(redlock_result_text(&result), "fair waiters are ahead"));
    ck_assert_uint_ge(result.held, 2);
    for (size_t i = 0; i < NODES; i++)
        ck_assert_int_eq(cluster_integer(cluster, i, "ZCARD", QUEUE, NULL), 1); /* nor does it enter the queue */
    try_once(face, false, REDLOCK_OK);                                          /* plain attempts may overtake */
    forget_waiters();
    put_waiter(NODES, false);
    try_once(face, true, REDLOCK_OK); /* a dead waiter does not count */
    forget_waiters();
    put_waiter(1, true);
    try_once(face, true, REDLOCK_OK); /* an entry counts only on a majority */
    forget_waiters();
    foreign_set("60000");
    try_once(face, true, REDLOCK_HELD);
    ck_assert_ptr_null(strstr(redlock_result_text(&result), "fair waiters are ahead"));
    foreign_delete();
    face_close(&face, NULL);
}
END_TEST

/* Two threads of one client have one name on the nodes, although one of them waits and the other tries only once. If
 * the waiter finds the free lock by polling and acquires it before the other thread tries, the test repeats. */
START_TEST(fair_try_stands_behind_its_own_clients_waiters)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *lock;
    bool was_waiting = false;
    cluster = real_cluster(NODES, NULL);
    redlock_client *client = open_here();
    options.fair = 1;
    while (!was_waiting) {
        struct waiter waiter = {.keeps = true};
        foreign_set("60000");
        start(&waiter, client, true);
        await_queued(1);
        foreign_delete();
        real_status(redlock_acquire(client, KEY, &options, &lock, &result), REDLOCK_HELD, &result);
        was_waiting = strstr(redlock_result_text(&result), "fair waiters are ahead") != NULL;
        join_with_it(&waiter);
        release_it(waiter.lock);
    }
    close_client(client);
}
END_TEST

/* --- Holders that notify no waiter --- */

/* Returns the time from the moment when the lock became free until the waiter has it. */
static uint64_t find_foreign_lock_free(int i)
{
    bool deleted = i / 2, fair = i % 2;
    struct waiter waiter = {0};
    cluster = real_cluster(NODES, NULL);
    redlock_client *client = open_here();
    uint64_t begun = test_now_ns(), free = begun + 800ull * MS;
    foreign_set(deleted ? "60000" : "800");
    start(&waiter, client, fair);
    await_queued(1);
    if (deleted) {
        await_listening(1);
        foreign_delete();
        free = test_now_ns();
    }
    join_with_it(&waiter);
    if (!deleted)
        ck_assert_uint_ge(waiter.told_ns - begun, 790ull * MS);
    close_client(client);
    return waiter.told_ns > free ? waiter.told_ns - free : 0;
}

START_TEST(foreign_lock_is_found_free)
{
    assert_takes_less(find_foreign_lock_free, _i, _i / 2 ? 1500 : 700); /* until the next look; until a known expiry */
}
END_TEST

/* --- Waiters that are killed, close, or give up --- */

/* A child process that starts to wait when it reads a byte. */
struct victim {
    pid_t pid;
    int go;
};

_Noreturn static void wait_in_child(int go, bool fair)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_client *client;
    redlock_lock *lock;
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    options.wait_ms = REDLOCK_FOREVER;
    options.fair = fair;
    if (read(go, &byte, 1) == 1) {
        client = open_here();
        redlock_acquire(client, KEY, &options, &lock, NULL);
    }
    _exit(EXIT_FAILURE);
}

/* Must be called before the test starts threads, because it forks. */
static struct victim make_victim(bool fair)
{
    struct victim victim;
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    victim.pid = fork();
    ck_assert_int_ge(victim.pid, 0);
    if (victim.pid == 0) {
        close(ends[1]);
        wait_in_child(ends[0], fair);
    }
    close(ends[0]);
    victim.go = ends[1];
    return victim;
}

static void let_wait(const struct victim *victim)
{
    ck_assert_int_eq(write(victim->go, "", 1), 1);
    await_queued(1);
    await_listening(1);
}

static void kill_victim(const struct victim *victim)
{
    int status;
    close(victim->go);
    ck_assert_int_eq(kill(victim->pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(victim->pid, &status, 0), victim->pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* After a test with dead waiters no client is left to delete their keys. Each key expires 12 s after its last use,
 * four times the life of an entry. */
static void expect_dead_waiters_to_be_forgotten(void)
{
    static const char *const names[] = {QUEUE, ALIVE, FREE};
    for (size_t i = 0; i < NODES; i++)
        for (size_t name = 0; name < sizeof(names) / sizeof(names[0]); name++) {
            long long left_ms = cluster_integer(cluster, i, "PTTL", names[name], NULL);
            ck_assert_msg(left_ms == -2 || (left_ms >= 0 && left_ms <= 12000), "%s on node %zu: %lld ms", names[name],
                          i, left_ms);
        }
    forget_waiters();
}

/* Returns the time until the last of two waiters behind it has the lock. */
static uint64_t wait_behind_a_killed_waiter(int i)
{
    bool fair = i;
    struct waiter waiters[2] = {0};
    cluster = real_cluster(NODES, NULL);
    struct victim victim = make_victim(fair);
    redlock_client *holder = open_here();
    redlock_lock *lock = take_it(holder);
    let_wait(&victim);
    for (unsigned w = 0; w < 2; w++) {
        start(&waiters[w], open_here(), fair);
        await_queued(w + 2);
        await_listening((int)w + 2);
    }
    kill_victim(&victim);
    uint64_t released = release_it(lock), last = released;
    for (unsigned w = 0; w < 2; w++) {
        join_with_it(&waiters[w]);
        last = waiters[w].told_ns > last ? waiters[w].told_ns : last;
        close_client(waiters[w].client);
    }
    close_client(holder);
    expect_dead_waiters_to_be_forgotten();
    return last - released;
}

START_TEST(killed_waiter_at_the_head_does_not_block_the_others)
{
    /* Plain: the second waiter stands in, at its next look at the latest. Fair: after the one second that the first
     * waiter gets. */
    assert_takes_less(wait_behind_a_killed_waiter, _i, _i ? 1900 : 1500);
}
END_TEST

/* Returns the time until a fair waiter behind them has the lock. */
/* The entries show that this many waiters are subscribed. A node drops only such a waiter, and its entry shows it only
 * after one more poll. */
static bool are_marked(void *count)
{
    static const char script[] = "local marked = 0 for _, text in ipairs(redis.call('HVALS', KEYS[1])) do "
                                 "if string.find(text, '^%d+%.5$') then marked = marked + 1 end end return marked";
    for (size_t i = 0; i < cluster_size(cluster); i++)
        if (cluster_integer(cluster, i, "EVAL", script, "1", ALIVE, NULL) < *(long long *)count)
            return false;
    return true;
}

static uint64_t wait_behind_many_killed_waiters(int i)
{
    enum { KILLED = 9 };
    struct victim victims[KILLED];
    struct waiter waiter = {0};
    long long all = KILLED + 1;
    (void)i;
    cluster = real_cluster(NODES, NULL);
    for (int v = 0; v < KILLED; v++)
        victims[v] = make_victim(true);
    redlock_client *holder = open_here();
    redlock_lock *lock = take_it(holder);
    for (int v = 0; v < KILLED; v++) {
        ck_assert_int_eq(write(victims[v].go, "", 1), 1);
        await_queued(v + 1);
        await_listening(v + 1);
    }
    start(&waiter, open_here(), true);
    await_queued(KILLED + 1);
    await_listening(KILLED + 1);
    ck_assert(wait_until(are_marked, &all, REAL_SOON_MS));
    for (int v = 0; v < KILLED; v++)
        kill_victim(&victims[v]);
    ck_assert(wait_until(is_one_listening, NULL, REAL_SOON_MS));
    uint64_t released = release_it(lock);
    join_with_it(&waiter);
    close_client(waiter.client);
    close_client(holder);
    expect_dead_waiters_to_be_forgotten();
    return waiter.told_ns > released ? waiter.told_ns - released : 0;
}

START_TEST(killed_fair_waiters_cost_next_to_nothing)
{
    assert_takes_less(wait_behind_many_killed_waiters, _i, 50);
}
END_TEST

/* _i 0: the waiter was not subscribed when it refreshed its entry; 1: it was subscribed, and is dead. */
START_TEST(only_waiters_that_were_subscribed_are_dropped)
{
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here();
    redlock_lock *lock = take_it(holder);
    put_waiter(NODES, true);
    for (size_t i = 0; i < NODES && _i == 1; i++)
        cluster_integer(cluster, i, "HSET", ALIVE, "redlock:ghost", "9999999999999.5", NULL);
    for (size_t i = 0; i < NODES; i++)
        cluster_command(cluster, i, NULL, 0, "SET", FREE, "0", NULL); /* this key exists while clients wait */
    release_it(lock);
    await_queued(_i == 0);
    close_client(holder);
    forget_waiters();
}
END_TEST

/* The lock expires. So no release drops the dead waiter at the head, but the look of the waiter behind it does. */
static uint64_t wait_for_an_expiry_behind_a_dead_waiter(int i)
{
    enum { TTL = 700 };
    struct waiter waiter = {0};
    (void)i;
    cluster = real_cluster(NODES, NULL);
    redlock_client *client = open_here();
    uint64_t free = test_now_ns() + TTL * (uint64_t)MS;
    foreign_set("700");
    put_waiter(NODES, true);
    for (size_t node = 0; node < NODES; node++)
        cluster_integer(cluster, node, "HSET", ALIVE, "redlock:ghost", "9999999999999.5", NULL);
    start(&waiter, client, true);
    join_with_it(&waiter);
    close_client(client);
    return waiter.told_ns > free ? waiter.told_ns - free : 0;
}

START_TEST(dead_waiter_is_dropped_when_the_lock_has_expired)
{
    assert_takes_less(wait_for_an_expiry_behind_a_dead_waiter, _i, 250);
}
END_TEST

/* After faults the queues may differ, and the first waiters may each lack a majority. Such a first waiter is moved
 * to the tail, although no holder releases anything. */
START_TEST(head_that_leaves_a_lock_free_makes_way_though_nobody_releases)
{
    struct waiter waiter = {.options = {.wait_ms = 8000}};
    cluster = real_cluster(NODES, NULL);
    redlock_client *client = open_here();
    for (size_t i = 0; i < NODES; i++) {
        ck_assert(cluster_command(cluster, i, NULL, 0, "ZADD", QUEUE, "1", "another", NULL));
        ck_assert(cluster_command(cluster, i, NULL, 0, "HSET", ALIVE, "another", "9999999999999", NULL));
    }
    start(&waiter, client, _i);
    pthread_join(waiter.thread, NULL);
    ck_assert_msg(waiter.status == REDLOCK_OK, "%s", redlock_status_name(waiter.status));
    close_client(client);
    forget_waiters();
}
END_TEST

static uint64_t close_at_the_head(int i)
{
    bool fair = i;
    struct waiter first = {0}, second = {0};
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here();
    redlock_lock *lock = take_it(holder);
    start(&first, open_here(), fair);
    await_queued(1);
    start(&second, open_here(), fair);
    await_queued(2);
    await_listening(2);
    close_client(first.client);
    join(&first);
    ck_assert_int_eq(first.status, REDLOCK_CANCELLED);
    await_queued(1);
    uint64_t released = release_it(lock);
    join_with_it(&second);
    close_client(second.client);
    close_client(holder);
    return second.told_ns - released;
}

START_TEST(client_that_closes_at_the_head_makes_way)
{
    assert_takes_less(close_at_the_head, _i, 500);
}
END_TEST

START_TEST(who_gives_up_leaves_no_entry)
{
    bool fair = _i % 2, cancels = _i / 2;
    struct waiter waiter = {0};
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here(), *other = open_here();
    redlock_lock *lock = take_it(holder);
    ck_assert_int_eq(redlock_cancellation_create(other, &waiter.options.cancellation), REDLOCK_OK);
    waiter.options.wait_ms = cancels ? REDLOCK_FOREVER : 700;
    start(&waiter, other, fair);
    await_queued(1);
    if (cancels)
        redlock_cancel(waiter.options.cancellation);
    join(&waiter);
    ck_assert_int_eq(waiter.status, cancels ? REDLOCK_CANCELLED : REDLOCK_TIMED_OUT);
    expect_no_queue();
    redlock_cancellation_destroy(&waiter.options.cancellation);
    release_it(lock);
    close_client(other);
    close_client(holder);
}
END_TEST

static bool is_past(void *ns)
{
    return test_now_ns() > *(uint64_t *)ns;
}

static bool is_on_no_majority(void *arg)
{
    return !is_on_a_majority(arg);
}

/* i / 2: the last node learns of the release so late that it does not hand the lock over: it keeps the entry until the
 * winner releases the lock. */
START_TEST(who_has_got_it_waits_no_more)
{
    char value[REDLOCK_TOKEN_SIZE];
    struct waiter waiter = {.keeps = true};
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here(), *other = open_here();
    redlock_lock *lock = take_it(holder);
    start(&waiter, other, _i % 2);
    await_queued(1);
    if (_i / 2) {
        ck_assert(wait_until(is_offered_everywhere, value, REAL_SOON_MS));
        cluster_stop(cluster, NODES - 1);
    }
    release_it(lock);
    join_with_it(&waiter);
    uint64_t stale = waiter.told_ns + 300 * MS; /* RL_WAITER_FRESH_MS and more */
    ck_assert(wait_until(is_past, &stale, REAL_SOON_MS));
    cluster_resume_all(cluster);
    ck_assert_int_gt(redlock_validity_ms(waiter.lock), 0);
    ck_assert(wait_until(is_on_no_majority, NULL, REAL_SOON_MS));
    release_it(waiter.lock);
    expect_no_queue();
    close_client(other);
    close_client(holder);
}
END_TEST

/* --- Without notifications --- */

static uint64_t wait_without_channel_rights(int i)
{
    struct cluster_node_options nodes[NODES] = {0};
    redlock_client *clients[2];
    struct waiter waiter = {0};
    for (size_t node = 0; node < NODES; node++)
        nodes[node].acl = "user default on nopass ~* +@all resetchannels\n";
    cluster = real_cluster(NODES, &(struct cluster_options){.nodes = nodes});
    clients[0] = open_here();
    clients[1] = open_here();
    redlock_lock *lock = take_it(clients[0]);
    start(&waiter, clients[1], i);
    /* Its attempts enter the queue. So the release has a waiter to notify, but lacks the right to publish. */
    ck_assert(wait_until(is_on_a_majority, NULL, REAL_SOON_MS));
    uint64_t released = release_it(lock);
    ck_assert_uint_ge(result.granted, result.quorum);
    join_with_it(&waiter);
    close_client(clients[0]);
    close_client(clients[1]);
    return waiter.told_ns - released;
}

START_TEST(without_channel_rights_it_works_all_the_same)
{
    assert_takes_less(wait_without_channel_rights, _i, 5000);
}
END_TEST

static struct delay_proxy *proxy_to_cluster(void)
{
    uint16_t ports[NODES];
    for (size_t i = 0; i < NODES; i++)
        ports[i] = cluster_port(cluster, i);
    return delay_proxy_start(ports, NODES);
}

/* i 0: one node refuses subscriptions; otherwise all nodes do. */
static uint64_t wait_on_deaf_nodes(int i)
{
    size_t deaf = i == 0 ? 1 : NODES;
    struct waiter waiter = {0};
    cluster = real_cluster(NODES, NULL);
    struct delay_proxy *proxy = proxy_to_cluster();
    redlock_client *holder = open_here(), *other = open_client(delay_proxy_nodes_string(proxy));
    redlock_lock *lock = take_it(holder);
    for (size_t node = 0; node < deaf; node++)
        delay_proxy_refuse(proxy, node, true); /* the existing connection stays */
    start(&waiter, other, false);
    ck_assert(wait_until(is_on_a_majority, NULL, REAL_SOON_MS));
    uint64_t released = release_it(lock);
    join_with_it(&waiter);
    close_client(other);
    close_client(holder);
    delay_proxy_stop(proxy);
    return waiter.told_ns - released;
}

START_TEST(nodes_that_cannot_be_listened_to)
{
    assert_takes_less(wait_on_deaf_nodes, _i, 5000);
}
END_TEST

static uint64_t wait_with_a_minority_stopped(int i)
{
    struct waiter waiter = {0};
    cluster = real_cluster(NODES, NULL);
    redlock_client *holder = open_here(), *other = open_here();
    redlock_lock *lock = take_it(holder);
    start(&waiter, other, i);
    await_queued(1);
    await_listening(1);
    cluster_stop(cluster, 2);
    uint64_t released = release_it(lock);
    join_with_it(&waiter);
    cluster_resume_all(cluster);
    close_client(other);
    close_client(holder);
    return waiter.told_ns - released;
}

START_TEST(with_a_minority_stopped_it_is_called_still)
{
    assert_takes_less(wait_with_a_minority_stopped, _i, 3000);
}
END_TEST

/* The waiter knows when the lock expires, but no node can be reached then. */
START_TEST(servers_that_die_before_the_lock_ends_are_waited_for)
{
    struct waiter waiter = {0};
    cluster = real_cluster(NODES, NULL);
    redlock_client *client = open_here();
    struct timespec before, after;
    foreign_set("500");
    waiter.options.wait_ms = 2000;
    start(&waiter, client, _i);
    await_queued(1);
    for (size_t i = 0; i < NODES; i++)
        cluster_kill(cluster, i);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    join(&waiter);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    ck_assert_int_eq(waiter.status, REDLOCK_TIMED_OUT);
    ck_assert_int_lt((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / MS, 500);
    close_client(client);
}
END_TEST

/* --- Reserved names --- */

START_TEST(names_of_the_librarys_own_keys_are_refused)
{
    static const char *const names[] = {
        QUEUE, ALIVE, KEY ":redlock:fence", FREE, ":redlock:queue", ":redlock:alive", ":redlock:fence"};
    cluster = real_cluster(1, NULL);
    redlock_client *client = open_here();
    redlock_lock *lock;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        real_status(redlock_acquire(client, names[i], NULL, &lock, &result), REDLOCK_INVALID, &result);
        ck_assert_ptr_null(lock);
        ck_assert_ptr_nonnull(strstr(result.text, strstr(names[i], ":redlock:")));
    }
    real_status(redlock_acquire(client, KEY ":redlock:queue2", NULL, &lock, &result), REDLOCK_OK, &result);
    release_it(lock);
    close_client(client);
}
END_TEST

static Suite *waiting_suite(void)
{
    Suite *suite = suite_create("waiting");
    TCase *turns = real_bare_case(suite, "turns");
    TCase *ends = real_bare_case(suite, "ends");
    TCase *faults = real_bare_case(suite, "faults");
    tcase_add_loop_test(turns, released_lock_is_handed_over_at_once, 0, 4);
    tcase_add_loop_test(turns, release_hands_the_lock_over, 0, 2);
    tcase_add_loop_test(turns, release_hands_the_lock_over_where_it_was_free, 0, 4);
    tcase_add_test(turns, lock_is_not_handed_over_to_a_dead_waiter);
    tcase_add_loop_test(turns, lock_that_was_handed_over_without_a_message_is_found, 0, 2);
    tcase_add_loop_test(turns, who_waits_asks_once_a_second, 0, 2);
    TCase *heads = real_bare_case(suite, "heads");
    tcase_add_loop_test(heads, a_quarantine_is_waited_out_without_asking, 0, 2);
    tcase_add_loop_test(turns, waiters_of_one_client_come_in_turn, 0, 2);
    tcase_add_test(turns, refresh_leaves_the_largest_ticket);
    tcase_add_loop_test(turns, place_that_a_majority_has_changed_is_changed_everywhere, 0, 2);
    tcase_add_loop_test(turns, fair_clients_come_in_turn_whatever_their_clocks, 0, 2);
    tcase_add_loop_test(turns, fair_try_leaves_a_free_lock_to_who_waits, 0, FACES);
    tcase_add_test(turns, fair_try_stands_behind_its_own_clients_waiters);
    tcase_add_loop_test(turns, foreign_lock_is_found_free, 0, 4);
    tcase_add_test(turns, names_of_the_librarys_own_keys_are_refused);
    tcase_add_loop_test(ends, killed_waiter_at_the_head_does_not_block_the_others, 0, 2);
    tcase_add_test(ends, killed_fair_waiters_cost_next_to_nothing);
    tcase_add_loop_test(ends, only_waiters_that_were_subscribed_are_dropped, 0, 2);
    tcase_add_test(ends, dead_waiter_is_dropped_when_the_lock_has_expired);
    tcase_add_loop_test(ends, head_that_leaves_a_lock_free_makes_way_though_nobody_releases, 1, 2);
    tcase_add_loop_test(ends, client_that_closes_at_the_head_makes_way, 0, 2);
    tcase_add_loop_test(ends, who_gives_up_leaves_no_entry, 0, 4);
    tcase_add_loop_test(ends, who_has_got_it_waits_no_more, 0, 4);
    if (server_program_has(SERVER_CHANNEL_ACL))
        tcase_add_loop_test(faults, without_channel_rights_it_works_all_the_same, 0, 2);
    tcase_add_loop_test(faults, nodes_that_cannot_be_listened_to, 0, 2);
    tcase_add_loop_test(faults, with_a_minority_stopped_it_is_called_still, 0, 2);
    tcase_add_loop_test(faults, servers_that_die_before_the_lock_ends_are_waited_for, 0, 2);
    return suite;
}

int main(void)
{
    return real_run(waiting_suite(), false);
}
