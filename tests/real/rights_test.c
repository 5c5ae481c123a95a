/* Every kind of operation, as a user with exactly the rights that redlock(7) documents: no right is missing, and
 * none is unnecessary. */
#include "real/clients.h"
#include "real/published_rights.h"

/* Renewed early, but long enough for a busy machine. */
enum { NODES = 3, TTL_MS = 6000, RENEWAL_PERCENT = 10 };

#define RESOURCE real_key("rights")
#define KEY      PUBLISHED_PREFIX RESOURCE

static atomic_uint complaints;

static void on_log(int level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    if (strstr(line, "NOPERM") || strstr(line, "may not") || strstr(line, "permi"))
        atomic_fetch_add(&complaints, 1);
}

static redlock_options user_options(void)
{
    redlock_options options = published_options(TTL_MS);
    options.max_ttl_ms = TTL_MS;
    options.renewal_percent = RENEWAL_PERCENT;
    options.log = on_log;
    options.log_level = REDLOCK_LOG_DEBUG;
    return options;
}

static void make_cluster(const char *rights)
{
    char lines[8192];
    snprintf(lines, sizeof lines, "user default off\nuser friend on >friend ~* %s +@all\nuser %s\n",
             server_program_has(SERVER_CHANNEL_ACL) ? "&*" : "", rights);
    real_cluster_of(NODES, (struct cluster_node_options){.acl = lines});
    atomic_store(&complaints, 0);
}

static struct face *open_user(int i)
{
    redlock_options options = user_options();
    return held_open_trusted(i, NULL, &options);
}

/* Opens a client of a user who may do everything. */
static struct face *open_friend(void)
{
    redlock_options options = user_options();
    options.user = options.password = "friend";
    return held_open_trusted(BLOCKING_FACE, NULL, &options);
}

/* --- The operations --- */

/* The connection breaks while a reply is pending. CLIENT KILL ends the requests that the server may still execute;
 * then the client undoes them. */
static bool is_away(struct face *face)
{
    return strcmp(held_node_status(face, 0).state, "ready") != 0;
}

static void break_a_link(struct face *face)
{
    cluster_stop(cluster, 0);
    redlock_lock *lock = held_acquire(face, RESOURCE, NULL);
    real_until(face, is_away(face));
    cluster_resume(cluster, 0);
    real_until(face, !is_away(face));
    held_release(face, &lock);
    ck_assert(real_nothing_left(face));
}

/* A waiter is notified when the lock is released. */
static void hand_over(struct face *face, struct face *other, redlock_lock *lock, redlock_acquire_options options)
{
    struct waiter waiter;
    waiter_start(&waiter, other, RESOURCE, options);
    clients_await(face, "ZCARD", KEY ":redlock:queue", 1, 1);
    clients_await_subscribers(1, INT32_MAX);
    held_release(face, &lock);
    waiter_finish_and_release(&waiter);
    ck_assert(real_nothing_left(face));
}

static void hand_over_plain(struct face *face, struct face *other)
{
    redlock_lock *lock = held_acquire(face, RESOURCE, NULL);
    held_everywhere(face, KEY, lock); /* otherwise the waiter may be first on the slowest node */
    hand_over(face, other, lock, *REAL_WITH(.shared = 0));
}

/* A lock is extended, renewed and healed, and a client that it excludes waits for it. */
static void hold(struct face *face, struct face *other, redlock_acquire_options kind)
{
    struct held_story story = {0};
    redlock_state state;
    kind.event = held_event;
    kind.event_arg = &story;
    kind.wait_ms = REAL_SOON_MS;
    redlock_lock *lock = held_acquire(face, RESOURCE, &kind);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
    real_status(face_query(face, RESOURCE, &state, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(state.held_by_me, 1);
    held_await_more(face, HELD_COUNTER(renewed), 1);
    cluster_integer(cluster, 0, "DEL", KEY, KEY "-2", KEY ":redlock:slot:0", NULL);
    held_await_more(face, HELD_COUNTER(healed), 1);
    ck_assert_uint_eq(atomic_load(&story.lost), 0);
    if (!kind.permits)
        real_status(face_downgrade(face, lock, &result), REDLOCK_OK, &result);
    hand_over(face, other, lock, *REAL_WITH(.permits = kind.permits));
}

static void hold_each_kind(struct face *face, struct face *other)
{
    static const redlock_name second = {RESOURCE "-2", 0};
    const redlock_acquire_options kinds[] = {
        {.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options)},
        {.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options), .fence = 1},
        {.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options), .shared = 1},
        {.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options), .permits = 1},
        {.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options), .fence = 1, .also = &second, .also_count = 1},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        hold(face, other, kinds[i]);
}

/* The waiter times out, and leaves the queue. */
static void wait_in_vain(struct face *face, struct face *other)
{
    redlock_lock *lock = held_acquire(face, RESOURCE, NULL);
    held_refuse(other, RESOURCE, REDLOCK_WAIT_MS(300), REDLOCK_TIMED_OUT);
    held_release(face, &lock);
    ck_assert(real_nothing_left(face));
}

static void use_a_database(int i)
{
    redlock_options options = user_options();
    options.database = 3;
    struct face *face = held_open_trusted(i, NULL, &options);
    redlock_lock *lock = held_acquire(face, RESOURCE, NULL);
    held_release(face, &lock);
    held_close(face);
}

static void do_everything(int i)
{
    struct face *face = open_user(i), *other = open_user(BLOCKING_FACE);
    break_a_link(face);
    hand_over_plain(face, other);
    wait_in_vain(face, other);
    hold_each_kind(face, other);
    held_close(other);
    held_close(face);
}

/* --- The servers' statistics --- */

static void assert_nothing_was_denied(void)
{
    char reply[8192];
    for (size_t i = 0; i < NODES; i++) {
        ck_assert(cluster_command(cluster, i, reply, sizeof reply, "ACL", "LOG", NULL));
        ck_assert_msg(reply[0] == '\0', "denied by node %zu: %s", i, reply);
    }
    ck_assert_uint_eq(atomic_load(&complaints), 0);
}

static bool was_called(const char *statistics, const char *command)
{
    char subcommand[64], whole[64];
    size_t length = strcspn(command, "|");
    snprintf(subcommand, sizeof subcommand, "cmdstat_%s:", command);
    snprintf(whole, sizeof whole, "cmdstat_%.*s:", (int)length, command); /* before Redis 7 */
    return strstr(statistics, subcommand) || strstr(statistics, whole);
}

/* The documentation lists no right that is not needed. */
static void assert_every_right_was_used(void)
{
    char *line = strdup(published_rights()), *rest = line, *word, statistics[16384];
    ck_assert(cluster_command(cluster, 0, statistics, sizeof statistics, "INFO", "commandstats", NULL));
    while ((word = strsep(&rest, " ")) != NULL)
        ck_assert_msg(*word != '+' || was_called(statistics, word + 1), "nobody needs %s", word);
    free(line);
}

REAL_CASE(rights, real_bare_case, NULL);

TEST(rights, published_rights_are_enough_and_not_too_many)
{
    if (!server_program_has(SERVER_ACL))
        return;
    make_cluster(published_rights());
    do_everything(_i);
    use_a_database(_i);
    assert_nothing_was_denied();
    assert_every_right_was_used();
}

/* --- Missing rights --- */

static const char waiting_rights[] = "+zadd +zrem +zrange +zrangebyscore +zscore";

static bool have_findings(struct face *face, uint32_t findings)
{
    for (uint32_t i = 0; i < NODES; i++)
        if (held_node_status(face, i).findings != findings)
            return false;
    return true;
}

/* A user whose clients never wait needs no rights to the queue. Other clients may wait all the same, and this client
 * can still release. */
TEST(rights, a_release_works_without_the_rights_of_a_waiter)
{
    if (!server_program_has(SERVER_ACL))
        return;
    make_cluster(published_rights_without(waiting_rights));
    struct face *face = open_user(_i), *other = open_friend();
    uint64_t deadline = test_deadline_ns(3 * REAL_SOON_MS);
    do { /* the waiter finds the free lock by polling, and may have left a late node's queue before the release is there */
        hand_over_plain(face, other);
        for (uint32_t i = 0; i < NODES; i++)
            real_until(face, held_node_status(face, i).requests_pending == 0);
    } while (!have_findings(face, REDLOCK_FINDING_NO_PUBLISH) && test_now_ns() < deadline);
    ck_assert(have_findings(face, REDLOCK_FINDING_NO_PUBLISH));
    ck_assert(have_findings(other, 0));
}

/* Only a missing right is one: here the queue is another program's string. */
TEST(rights, release_that_cannot_notify_for_another_reason_blames_no_right)
{
    if (!server_program_has(SERVER_ACL))
        return;
    make_cluster(published_rights());
    struct face *face = open_user(_i);
    redlock_lock *lock = held_acquire(face, RESOURCE, NULL);
    held_everywhere(face, KEY, lock);
    real_command(NODES, "SET", KEY ":redlock:queue", "theirs", NULL);
    real_command(NODES, "SET", KEY ":redlock:free", "1", NULL);
    held_release(face, &lock);
    held_settle(face);
    for (uint32_t i = 0; i < NODES; i++)
        real_until(face, held_node_status(face, i).requests_pending == 0);
    ck_assert(have_findings(face, 0));
    real_command(NODES, "DEL", KEY ":redlock:queue", KEY ":redlock:free", NULL);
}

/* The user may create the queue, but not the entry beside it. Without ZREM it cannot dequeue either, like a killed
 * waiter. */
TEST(rights, waiter_without_hset_leaves_no_key_without_expiry)
{
    if (!server_program_has(SERVER_ACL))
        return;
    redlock_lock *none;
    make_cluster(published_rights_without("+hset +zrem"));
    struct face *face = open_friend(), *other = open_user(BLOCKING_FACE);
    redlock_lock *lock = held_acquire(face, RESOURCE, NULL);
    held_everywhere(face, KEY, lock);
    ck_assert_int_ne(face_acquire(other, RESOURCE, REDLOCK_WAIT_MS(REAL_SOON_MS), &none, &result), REDLOCK_OK);
    clients_assert_queue_expires(KEY);
    ck_assert_int_gt(cluster_integer(cluster, 0, "PTTL", KEY ":redlock:queue", NULL), 0);
    real_command(NODES, "DEL", KEY ":redlock:queue", KEY ":redlock:alive", KEY ":redlock:free", NULL);
    held_release(face, &lock);
}

REAL_PROGRAM("real_rights")
