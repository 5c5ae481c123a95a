/* Shared locks on real servers: what no other test sees. The simulator has readers and writers with different ttls, and
 * writers that become readers. */
#include "real/clients.h"

#include "support/fixture.h"

#define KEY real_key("book")

/* Each lock has another owner, so that none is acquired again by its own. */
static redlock_lock *enter(struct face *face, bool shared)
{
    static char owners[128];
    static size_t entered;
    const char *owner = &owners[entered++ % sizeof owners];
    return held_acquire(face, KEY, REAL_WITH(.shared = shared, .owner = owner));
}

static void refuse(struct face *face, bool shared)
{
    const char another_owner = 0;
    held_refuse(face, KEY, REAL_WITH(.shared = shared, .owner = &another_owner), REDLOCK_HELD);
}

/* Until the last attempt of a wait is in time to say what it found. */
static void wait_in_vain(struct face *face, const redlock_acquire_options *options, const char *words)
{
    uint64_t deadline = test_deadline_ns(REAL_SOON_MS);
    do
        held_refuse(face, KEY, options, REDLOCK_TIMED_OUT);
    while (!strstr(redlock_result_text(&result), words) && test_ms_left(deadline) > 0);
    held_result_says(words);
}

REAL_CASE(together, real_common_case, NULL);
REAL_CASE(waiting, real_common_case, NULL);
REAL_CASE(foreign, real_common_case, NULL);

/* The validity stays as it was, and the reader's place in the set with it. */
TEST(together, a_shorter_extension_keeps_a_readers_end)
{
    struct face *face = clients_open(_i);
    redlock_lock *reader = enter(face, true);
    char half[32];
    snprintf(half, sizeof half, "%lld", (long long)time(NULL) * 1000 + CLIENTS_TTL_MS / 2);
    clients_await(face, "ZCARD", KEY, 1, 1);
    real_status(face_extend(face, reader, 1000, &result), REDLOCK_OK, &result);
    ck_assert(real_all_reply(&(struct real_number){{"ZCOUNT", KEY, half, "+inf"}, 1, 1}));
    held_release(face, &reader);
}

/* As long as another reader stays, its token is in the set: nothing is left that could be kept. */
TEST(together, a_reader_whose_time_has_passed_is_not_kept)
{
    struct face *face = clients_open(BLOCKING_FACE);
    redlock_lock *other = enter(face, true);
    redlock_lock *reader = held_acquire(face, KEY, REAL_WITH(.shared = true, .owner = &reader, .at_least_ms = 10000));
    clients_await(face, "ZCARD", KEY, 2, 2);
    for (size_t node = 0; node < HELD_NODES; node++)
        ck_assert(cluster_command(cluster, node, NULL, 0, "ZADD", KEY, "1", redlock_lock_token(reader), NULL));
    real_status(face_release(face, &reader, &result), REDLOCK_LOST, &result);
    held_release(face, &other);
    ck_assert(real_nothing_left(face));
}

/* --- A writer becomes a reader --- */

/* Three nodes hand the lock over to a waiter, two have another holder: with the waiter's offer they would hand it over
 * later. A query's replies come behind those to the downgrade. */
TEST(waiting, a_downgrade_leaves_no_entry_of_the_writer)
{
    struct face *face = clients_open(BLOCKING_FACE), *other = clients_open(BLOCKING_FACE);
    redlock_lock *lock = enter(other, false);
    struct waiter writer;
    redlock_state state;
    held_everywhere(other, KEY, lock);
    waiter_start(&writer, face, KEY, *REAL_WITH(.shared = 0));
    clients_await_waiters(other, KEY, 1);
    for (size_t node = 3; node < HELD_NODES; node++)
        ck_assert(cluster_command(cluster, node, NULL, 0, "SET", KEY, "another", "PX", "60000", NULL));
    held_release(other, &lock);
    waiter_finish(&writer); /* on a busy machine after an attempt: then the entries have gone already */
    real_status(face_downgrade(face, writer.lock, &result), REDLOCK_OK, &result);
    real_status(face_query(face, KEY, &state, &result), REDLOCK_OK, &result);
    for (size_t node = 3; node < HELD_NODES; node++) {
        ck_assert_int_eq(cluster_integer(cluster, node, "ZCARD", KEY ":redlock:queue", NULL), 0);
        ck_assert_int_eq(cluster_integer(cluster, node, "DEL", KEY, NULL), 1);
    }
    waiter_release(&writer);
    ck_assert(real_nothing_left(face));
}

TEST(together, a_release_deletes_the_key_of_a_node_that_missed_the_downgrade)
{
    struct face *face = clients_open(BLOCKING_FACE);
    redlock_lock *lock = enter(face, false);
    real_status(face_downgrade(face, lock, &result), REDLOCK_OK, &result);
    const char *is_set = "return redis.call('TYPE', KEYS[1]).ok == 'zset' and 1 or 0";
    real_until(face, cluster_integer(cluster, 0, "EVAL", is_set, "1", KEY, NULL) == 1);
    ck_assert(cluster_command(cluster, 0, NULL, 0, "SET", KEY, redlock_lock_token(lock), "PX", "60000", NULL));
    held_release(face, &lock);
    ck_assert(real_nothing_left(face));
}

/* Somebody else may rely on a writer's lock, or there are no readers. */
static const struct {
    const char *why;
    uint32_t permits;
    bool again, read, adopted;
} others_rely[] = {
    {"a semaphore has no readers", .permits = 2},
    {"the owner holds the lock 2 times", .again = true},
    {"another process may rely on a writer's lock; release it", .read = true},
    {"another process may rely on a writer's lock; release it", .adopted = true},
};

TEST_ROWS(together, a_writer_that_others_rely_on_is_refused, ROWS(others_rely))
{
    struct face *face = clients_open(BLOCKING_FACE), *other = clients_open(BLOCKING_FACE);
    const redlock_acquire_options *wish = REAL_WITH(.permits = others_rely[_i].permits);
    redlock_lock *lock = held_acquire(face, KEY, wish), *second = NULL;
    if (others_rely[_i].again)
        second = held_acquire(face, KEY, wish);
    if (others_rely[_i].read)
        ck_assert_ptr_nonnull(redlock_lock_token(lock));
    if (others_rely[_i].adopted)
        real_status(redlock_adopt(face_client(other), KEY, wish, redlock_lock_token(lock), &second, &result),
                    REDLOCK_OK, &result);
    redlock_lock *asked = others_rely[_i].adopted ? second : lock;
    real_status(face_downgrade(others_rely[_i].adopted ? other : face, asked, &result), REDLOCK_INVALID, &result);
    ck_assert_msg(strstr(result.text, others_rely[_i].why), "%s", result.text);
    if (!others_rely[_i].permits)
        refuse(other, true);
    if (second)
        held_release(others_rely[_i].adopted ? other : face, &second);
    if (!others_rely[_i].adopted)
        held_release(face, &lock);
    else
        real_status(face_release(face, &lock, &result), REDLOCK_LOST, &result);
}

/* --- Waiting --- */

/* Whether it does: the entry of a writer that is late may end before it is refreshed. */
static bool holds_off_readers(struct face *face, struct face *writers, struct face *others)
{
    redlock_lock *reader = enter(face, true);
    struct waiter writer, newcomer, own;
    uint64_t begun = test_now_ns(), least = UINT64_C(8000000000);
    waiter_start(&writer, writers, KEY, *REAL_WITH(.shared = 0));
    clients_await_waiters(face, KEY, 1);
    waiter_start(&newcomer, others, KEY, *REAL_WITH(.shared = 1));
    waiter_start(&own, writers, KEY, *REAL_WITH(.shared = 1));
    waiter_finish(&newcomer);
    waiter_finish(&own);
    ck_assert(!atomic_load(&writer.ended));
    waiter_release(&newcomer);
    waiter_release(&own);
    held_release(face, &reader);
    waiter_finish_and_release(&writer);
    ck_assert(real_nothing_left(face)); /* also of the writer's time */
    return newcomer.got_ns - begun > least && own.got_ns - begun > least;
}

/* A reader never releases. The writer waits, but holds off new readers only for a limited time, also those of the
 * same client. */
TEST(waiting, a_waiting_writer_holds_off_new_readers_for_a_limited_time)
{
    struct face *face = clients_open(BLOCKING_FACE), *writers = clients_open(BLOCKING_FACE),
                *others = clients_open(BLOCKING_FACE);
    bool held_off = false;
    for (int run = 0; run < 4 && !held_off; run++)
        held_off = holds_off_readers(face, writers, others);
    ck_assert(held_off);
}

/* --- Keys of other programs --- */

#define TOKEN "0123456789abcdef0123456789abcdef01234567"

static const struct {
    const char *name;
    const char *key;
    const char *script; /* creates KEYS[1] */
    int status;
} foreign[] = {
    {"a sorted set without an expiry", KEY, "redis.call('ZADD', KEYS[1], 1, 'one', 2, 'two')", REDLOCK_HELD},
    {"one of tokens", KEY, "redis.call('ZADD', KEYS[1], 1, '" TOKEN "')", REDLOCK_HELD},
    {"one with a member that is no token", KEY,
     "redis.call('ZADD', KEYS[1], 1, '" TOKEN "', 2, '" TOKEN "x', 3, '" TOKEN "/a label') "
     "redis.call('PEXPIRE', KEYS[1], 60000)",
     REDLOCK_HELD},
    {"a set", KEY, "redis.call('SADD', KEYS[1], '" TOKEN "') redis.call('PEXPIRE', KEYS[1], 60000)", REDLOCK_HELD},
    {"a hash in place of the fencing record", KEY ":redlock:fence", "redis.call('HSET', KEYS[1], 'field', 'value')",
     REDLOCK_NO_QUORUM},
    {"a text in place of the fencing record", KEY ":redlock:fence", "redis.call('SET', KEYS[1], 'text')",
     REDLOCK_NO_QUORUM},
};

/* Of its content and of whether it expires. */
static char *digest_of(size_t node, const char *name)
{
    static const char script[] =
        "return redis.sha1hex(redis.call('DUMP', KEYS[1]) or '') .. math.min(redis.call('PTTL', KEYS[1]), 1)";
    char digest[64] = "";
    ck_assert(cluster_command(cluster, node, digest, sizeof digest, "EVAL", script, "1", name, NULL));
    return fixture_text("%s", digest);
}

/* No lock of any kind changes it, and no query takes it for a lock. */
TEST_ROWS(foreign, keys_of_other_programs_are_held_and_never_changed, ROWS(foreign))
{
    struct face *face = clients_open(_i);
    char *before[HELD_NODES];
    bool is_lock = strcmp(foreign[_i].key, KEY) == 0;
    for (size_t node = 0; node < HELD_NODES; node++) {
        cluster_command(cluster, node, NULL, 0, "EVAL", foreign[_i].script, "1", foreign[_i].key, NULL);
        before[node] = digest_of(node, foreign[_i].key);
    }
    held_refuse(face, KEY, REAL_WITH(.shared = is_lock, .fence = !is_lock), foreign[_i].status);
    wait_in_vain(face, REAL_WITH(.shared = is_lock, .fence = !is_lock, .wait_ms = 300),
                 is_lock ? "the last attempt: not a lock: its key holds other data; choose another name" : "");
    redlock_state state;
    real_status(face_query(face, KEY, &state, &result), REDLOCK_OK, &result);
    ck_assert_str_ne(state.holder.token, "(shared)");
    clients_await(face, "EXISTS", KEY ":redlock:queue", 0, 0);
    for (size_t node = 0; node < HELD_NODES; node++) {
        char *after = digest_of(node, foreign[_i].key);
        ck_assert_msg(strcmp(before[node], after) == 0, "%s: %s, then %s", foreign[_i].name, before[node], after);
        cluster_integer(cluster, node, "DEL", foreign[_i].key, NULL);
        free(before[node]);
        free(after);
    }
}

/* A fencing record that another program has changed meanwhile: the holder keeps and releases its lock. */
TEST(foreign, record_that_is_no_number_costs_no_lock)
{
    struct face *face = clients_open(_i);
    redlock_lock *lock = held_acquire(face, KEY, REAL_WITH(.fence = 1));
    for (size_t node = 0; node < HELD_NODES; node++)
        cluster_command(cluster, node, NULL, 0, "SET", KEY ":redlock:fence", "text", NULL);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
    held_release(face, &lock);
    clients_await(face, "EXISTS", KEY, 0, 0);
    for (size_t node = 0; node < HELD_NODES; node++) {
        char value[64] = "";
        ck_assert(cluster_command(cluster, node, value, sizeof value, "GET", KEY ":redlock:fence", NULL));
        ck_assert_str_eq(value, "text");
        cluster_integer(cluster, node, "DEL", KEY ":redlock:fence", NULL);
    }
}

REAL_PROGRAM("shared")
