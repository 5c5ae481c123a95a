/* Fencing tokens on real servers. Each acquisition gets a larger one, regardless of the clocks, usually in one round
 * trip. Every node receives the token. The test sets the clock from which the client proposes tokens. */
#include "real/clients.h"

#include "src/core/timer.h"
#include "src/core/wall.h"
#include "src/node/script.h"

#define KEY    real_key("fenced")
#define RECORD KEY ":redlock:fence"

enum { DAY_MS = 86400000 };

static const uint64_t second_us = 1000000;
static const int64_t hour_us = INT64_C(3600000000);

/* Replaces the library's function: this machine's time plus an offset that the test sets. */
static _Atomic int64_t ahead_us;

uint64_t rl_wall_us(void)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (uint64_t)((int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000 + atomic_load(&ahead_us));
}

static uint64_t true_us(void)
{
    return rl_wall_us() - (uint64_t)atomic_load(&ahead_us);
}

static void begin(void)
{
    atomic_store(&ahead_us, 0);
}

static redlock_lock *take(struct face *face)
{
    redlock_lock *lock = held_acquire(face, KEY, REAL_WITH(.fence = 1));
    ck_assert_uint_eq(result.fence, redlock_lock_fence(lock));
    ck_assert_uint_gt(result.fence, 0);
    return lock;
}

/* Acquires and releases the lock; returns its token. */
static uint64_t draw(struct face *face)
{
    redlock_lock *lock = take(face);
    uint64_t token = redlock_lock_fence(lock);
    held_release(face, &lock);
    return token;
}

static const char *text_of(uint64_t token)
{
    static char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)token);
    return number;
}

static void await_everywhere(struct face *face, uint64_t token)
{
    real_until(face, real_shows_everywhere(RECORD, text_of(token)));
}

/* --- Properties of a token --- */

REAL_CASE(token, real_common_case, begin);
REAL_CASE(clocks, real_common_case, begin);
REAL_CASE(life, real_common_case, begin);

TEST(token, every_node_keeps_the_token_for_fence_ttl)
{
    static const uint32_t lives[] = {DAY_MS, 0};
    redlock_options options = face_options();
    for (size_t life = 0; life < 2; life++) {
        options.fence_ttl_ms = lives[life];
        struct face *face = held_open_trusted(_i, NULL, &options);
        await_everywhere(face, draw(face));
        clients_await(face, "PTTL", RECORD, lives[life] ? DAY_MS - DAY_MS / 24 : -1, lives[life] ? DAY_MS : -1);
        held_close(face);
    }
}

/* --- Clocks --- */

/* It takes another round, in which the nodes learn the script. */
TEST(clocks, a_client_whose_clock_is_slow_raises_its_token)
{
    struct face *face = clients_open(_i);
    uint64_t before = draw(face);
    held_close(face);
    atomic_store(&ahead_us, -hour_us);
    ck_assert_uint_gt(draw(clients_open(_i)), before);
    ck_assert_uint_eq(result.attempts, 2);
}

/* _i 0: the clock is days ahead of the nodes', 1: behind a record. Once it is set right the client gets tokens again. */
TEST_ROWS(clocks, a_clock_that_is_days_off_gets_no_token_until_it_is_set_right, 2)
{
    struct face *face = clients_open(_i);
    if (_i == 1)
        draw(face);
    held_close(face);
    atomic_store(&ahead_us, (_i == 0 ? 48 : -48) * hour_us);
    face = clients_open(_i);
    /* Waiting does not help, so the error is returned at once. */
    held_refuse(face, KEY, REAL_WITH(.fence = 1, .wait_ms = REDLOCK_FOREVER), REDLOCK_CLOCK);
    ck_assert_uint_ge(result.refused, HELD_QUORUM);
    held_result_says("day");
    ck_assert(real_nothing_left(face));
    ck_assert(_i == 1 || real_all_reply(&(struct real_number){{"EXISTS", RECORD}, 0, 0}));
    atomic_store(&ahead_us, 0);
    ck_assert_uint_le(draw(face), true_us());
}

/* --- The token follows the lock --- */

TEST(life, extension_and_release_send_the_token_again)
{
    struct face *face = clients_open(_i);
    redlock_lock *lock = take(face);
    uint64_t token = redlock_lock_fence(lock);
    await_everywhere(face, token);
    for (size_t i = 0; i < 2; i++)
        cluster_integer(cluster, i, "DEL", RECORD, NULL);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
    await_everywhere(face, token);
    for (size_t i = 2; i < HELD_NODES; i++)
        cluster_integer(cluster, i, "DEL", RECORD, NULL);
    held_release(face, &lock);
    await_everywhere(face, token);
    lock = held_acquire(face, KEY, REAL_WITH(.fence = 1, .owner = &token));
    redlock_lock *again = held_acquire(face, KEY, REAL_WITH(.fence = 1, .owner = &token));
    ck_assert_uint_gt(redlock_lock_fence(lock), token);
    ck_assert_uint_eq(redlock_lock_fence(again), redlock_lock_fence(lock));
    held_release(face, &again);
    held_release(face, &lock);
}

static const struct {
    const char *command[5]; /* sets the key */
    const char *maxmemory;
    const char *keep, *heal; /* the scripts' answers */
    long long most_ms, least_ms;
} healings[] = {
    {{"ZADD", KEY, "9999999999999", "reader"}, "0", "-1", "0", 20000, 0}, /* readers hold the resource */
    {{"SET", KEY, "token"}, "0", "0", "1", 60000, 20001},                 /* healed already, after another renewal */
    {{"SET", KEY, "token"}, "1", "0", "1", 60000, 20001},                 /* a full node that has our key */
    {{"SET", KEY, "other"}, "1", "-1", "0", 20000, 0},
};

/* _i % 2: the script. */
TEST_ROWS(life, healing_prolongs_no_key_but_ours, 2 * ROWS(healings))
{
    char reply[64];
    const char *const *words = healings[_i / 2].command;
    cluster_command(cluster, 0, NULL, 0, words[0], words[1], words[2], words[3], NULL);
    cluster_integer(cluster, 0, "PEXPIRE", KEY, "20000", NULL);
    cluster_command(cluster, 0, NULL, 0, "CONFIG", "SET", "maxmemory", healings[_i / 2].maxmemory, NULL);
    if (_i % 2 == 0)
        cluster_command(cluster, 0, reply, sizeof reply, "EVAL", rl_scripts[RL_SCRIPT_KEEP].text, "2", KEY,
                        KEY ":redlock:fence", "heal", "1", "token", "60000", "0", "0", "exclusive", NULL);
    else
        cluster_command(cluster, 0, reply, sizeof reply, "EVAL", rl_scripts[RL_SCRIPT_HEAL].text, "1", KEY, "token",
                        "60000", NULL);
    ck_assert_str_eq(reply, _i % 2 == 0 ? healings[_i / 2].keep : healings[_i / 2].heal);
    long long left_ms = cluster_integer(cluster, 0, "PTTL", KEY, NULL);
    ck_assert(left_ms >= healings[_i / 2].least_ms && left_ms <= healings[_i / 2].most_ms);
    cluster_command(cluster, 0, NULL, 0, "CONFIG", "SET", "maxmemory", "0", NULL);
    cluster_integer(cluster, 0, "DEL", KEY, NULL);
}

/* An owner that acquired a lock without a token may request one later. This takes another round, but it is the same
 * lock. */
TEST(life, owner_may_request_a_token_later)
{
    struct face *face = clients_open(_i);
    uint64_t before = draw(face);
    redlock_lock *lock = held_acquire(face, KEY, REAL_WITH(.owner = &before));
    real_command(HELD_NODES, "SET", RECORD, text_of(before + 3600 * second_us), NULL);
    redlock_lock *again = held_acquire(face, KEY, REAL_WITH(.owner = &before, .fence = 1));
    ck_assert_uint_eq(result.attempts, 2);
    ck_assert_uint_gt(result.fence, before + 3600 * second_us);
    ck_assert_uint_eq(redlock_lock_fence(lock), result.fence);
    ck_assert_str_eq(redlock_lock_token(lock), redlock_lock_token(again));
    await_everywhere(face, result.fence);
    held_release(face, &again);
    held_release(face, &lock);
}

REAL_PROGRAM("fence")
