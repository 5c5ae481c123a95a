/* Waiting on real servers: nodes notify a waiter, so that it does not poll continuously; waiters acquire in turn; a
 * dead waiter delays the others only briefly; no key is left. */
#include "real/clients.h"

#include "support/clock.h"

enum { NODES = HELD_NODES, MS = 1000000, MOST_RUNS = 20 };

#define KEY   real_key("waited-for")
#define QUEUE KEY ":redlock:queue"
#define ALIVE KEY ":redlock:alive"
#define FREE  KEY ":redlock:free"

/* A ticket by a clock that is years ahead. */
#define FAR_AHEAD "2100000000000000"

REAL_CASE(turns, real_common_case, NULL);
REAL_CASE(ends, real_common_case, NULL);

/* Before a scene is repeated: a process must not fork with the threads of clients. */
static void begin_again(void)
{
    held_close_all();
    cluster_remove_keys(cluster);
}

static redlock_options client_options(void)
{
    redlock_options options = face_options();
    options.node_timeout_ms = 2000; /* a busy machine delays a node for long */
    options.connect_timeout_ms = 1000;
    return options;
}

static struct face *open_here(void)
{
    redlock_options options = client_options();
    return held_open_trusted(BLOCKING_FACE, NULL, &options);
}

static redlock_lock *take_it(struct face *face)
{
    return held_acquire(face, KEY, REDLOCK_WAIT_MS(REAL_SOON_MS));
}

static uint64_t release_it(redlock_lock *lock)
{
    uint64_t released = test_now_ns();
    real_status(redlock_release(&lock, NULL, &result), REDLOCK_OK, &result);
    return released;
}

static void start(struct waiter *waiter, struct face *face)
{
    waiter_start(waiter, face, KEY, *REAL_WITH(.shared = 0));
}

/* --- The state of the nodes --- */

/* Waits until this many clients are queued on every node. */
static void await_queued(long long count)
{
    clients_await(NULL, "ZCARD", QUEUE, count, count);
}

/* Starts a waiter while there is no other, and waits until every node has its entry. */
static void start_queued(struct waiter *waiter, struct face *face)
{
    start(waiter, face);
    await_queued(1);
}

static void forget_waiters(void)
{
    real_command(NODES, "DEL", QUEUE, ALIVE, FREE, NULL);
}

/* --- Locks that are handed over --- */

/* Reads the value that a waiter on the node offers to be handed the lock with. */
static bool read_offer(size_t node, char *value, size_t size)
{
    static const char script[] =
        "for _, text in ipairs(redis.call('HVALS', KEYS[1])) do "
        "local value = string.match(text, '^%S+ (%x+%S*) ') if value then return value end end return ''";
    return cluster_command(cluster, node, value, size, "EVAL", script, "1", ALIVE, NULL) && value[0] != '\0';
}

static bool is_offered_everywhere(char *value)
{
    for (size_t i = 0; i < NODES; i++)
        if (!read_offer(i, value, REDLOCK_TOKEN_SIZE))
            return false;
    return true;
}

static bool is_value_on_last_node(void *value)
{
    char holder[REDLOCK_TOKEN_SIZE];
    return cluster_command(cluster, NODES - 1, holder, sizeof holder, "GET", KEY, NULL) && strcmp(holder, value) == 0;
}

static void start_offering(struct waiter *waiter, struct face *face, char *offer)
{
    start(waiter, face);
    real_until(NULL, is_offered_everywhere(offer));
}

/* Whether the waiter holds the lock under the value that it offered, so that it made no attempt. */
static bool is_handed_over(struct waiter *waiter, const char *offer)
{
    waiter_finish(waiter);
    ck_assert_int_gt(redlock_validity_ms(waiter->lock), 0);
    return strcmp(redlock_lock_token(waiter->lock), offer) == 0;
}

/* The last waiter in the queue is handed the lock, and the nodes forget the queue. Then it hands the lock over itself,
 * although it has lost its key on one node. */
static bool hand_over_twice(struct face *first, struct face *second, bool has_another_waiter)
{
    char offer[REDLOCK_TOKEN_SIZE];
    struct real_number forgotten = {{"EXISTS", QUEUE, ALIVE, FREE}, 0, 0};
    struct waiter holder, waiter, another;
    redlock_lock *lock = take_it(first);
    start_offering(&holder, second, offer);
    release_it(lock);
    bool handed = is_handed_over(&holder, offer) && wait_until(real_all_reply, &forgotten, 200);
    start_offering(&waiter, first, offer);
    if (has_another_waiter) {
        start(&another, second);
        await_queued(2);
    }
    cluster_integer(cluster, NODES - 1, "DEL", KEY, NULL);
    redlock_release(&holder.lock, NULL, NULL);
    handed = is_handed_over(&waiter, offer) && wait_until(is_value_on_last_node, offer, 200) && handed;
    release_it(waiter.lock);
    if (has_another_waiter)
        waiter_finish_and_release(&another);
    return handed;
}

/* On a busy machine a release may take longer than an offer lasts; the holder may lack more keys then. _i 1: the client
 * of the second holder has another waiter. */
TEST_ROWS(turns, release_hands_the_lock_over, 2)
{
    struct face *first = open_here(), *second = open_here();
    bool handed = false;
    for (int run = 0; run < MOST_RUNS && !handed; run++)
        handed = hand_over_twice(first, second, _i);
    ck_assert(handed);
}

/* It is the first in the queue, and its client's subscriptions have failed. A release that leaves the lock free waits for
 * it. */
TEST(turns, release_passes_over_a_waiter_that_hears_nothing)
{
    char offer[REDLOCK_TOKEN_SIZE];
    struct waiter waiter;
    struct face *first = open_here(), *second = open_here();
    bool handed = false;
    for (int run = 0; run < MOST_RUNS && !handed; run++) {
        redlock_lock *lock = take_it(first);
        start_offering(&waiter, second, offer);
        real_command(NODES, "ZADD", QUEUE, "1", "redlock:deaf", NULL);
        real_command(NODES, "HSET", ALIVE, "redlock:deaf", "9999999999999.0 -", NULL);
        release_it(lock);
        handed = is_handed_over(&waiter, offer);
        release_it(waiter.lock);
        forget_waiters();
    }
    ck_assert(handed);
}

/* Where a script may not call INFO, a server cannot show that it has kept its data, so it gives the lock to nobody. It tells
 * the waiter. */
TEST(turns, release_wakes_where_a_script_may_not_call_info)
{
    char offer[REDLOCK_TOKEN_SIZE];
    struct waiter waiter;
    redlock_options options = client_options();
    if (!server_program_has(SERVER_CHANNEL_ACL))
        return;
    real_cluster_of(NODES, (struct cluster_node_options){.acl = "user default on nopass ~* &* +@all\n"
                                                                "user holder on >holder ~* &* +@all\n"});
    options.guard = 1;
    options.ttl_ms = options.max_ttl_ms;
    struct face *other = held_open_trusted(BLOCKING_FACE, NULL, &options);
    options.user = options.password = "holder";
    redlock_lock *lock = take_it(held_open_trusted(BLOCKING_FACE, NULL, &options));
    start_offering(&waiter, other, offer);
    real_command(NODES, "ACL", "SETUSER", "holder", "-info", NULL);
    release_it(lock);
    ck_assert(!is_handed_over(&waiter, offer));
    unsigned published = 0;
    for (size_t i = 0; i < NODES; i++)
        published += real_calls(i, "publish") >= 1;
    ck_assert_uint_ge(published,
                      HELD_QUORUM); /* on a late node the waiter may have left the queue before the release */
    release_it(waiter.lock);
}

/* The waiter's process is dead, but its entry and its subscription's mark are not: no node may give it the lock. */
TEST(turns, lock_is_not_handed_over_to_a_dead_waiter)
{
    char entry[96];
    const char *const offer = "00000000000000000000000000000000000000ff 600000 1 "; /* kept for longer than is waited */
    struct face *holder = open_here();
    redlock_lock *lock = take_it(holder);
    snprintf(entry, sizeof entry, "%lld.5 %s", (long long)time(NULL) * 1000 + 60000, offer);
    real_command(NODES, "ZADD", QUEUE, "1", "redlock:dead", NULL);
    real_command(NODES, "HSET", ALIVE, "redlock:dead", entry, NULL);
    real_command(NODES, "INCR", FREE, NULL); /* the release looks for waiters only if it exists */
    release_it(lock);
    for (size_t i = 0; i < NODES; i++) /* the release of a late node may be on its way */
        real_until(holder, cluster_integer(cluster, i, "EXISTS", KEY, NULL) == 0);
    lock = take_it(holder);
    release_it(lock);
}

/* --- In turn --- */

static void read_first(size_t node, char name[64])
{
    ck_assert(cluster_command(cluster, node, name, 64, "ZRANGE", QUEUE, "0", "0", NULL));
}

/* Gives the first waiter's ticket the time of a clock that is years ahead. */
static void put_ticket_ahead(size_t node)
{
    char first[64];
    read_first(node, first);
    cluster_integer(cluster, node, "ZADD", QUEUE, "XX", FAR_AHEAD, first, NULL);
    ck_assert_int_eq(cluster_integer(cluster, node, "ZCOUNT", QUEUE, FAR_AHEAD, "+inf", NULL), 1);
}

/* When the first waiter's entry expires, by the node's clock. */
static long long life_of_first(size_t node)
{
    char first[64], ends[64];
    read_first(node, first);
    ck_assert(cluster_command(cluster, node, ends, sizeof ends, "HGET", ALIVE, first, NULL));
    return atoll(ends);
}

/* Waits until the first waiter has refreshed its entry on every node. */
static void await_refresh(void)
{
    for (size_t i = 0; i < NODES; i++) {
        long long before = life_of_first(i);
        real_until(NULL, life_of_first(i) > before);
    }
}

enum { TURNS = 4 };

/* Returns false if they came in another order, because a waiter left the lock free for a second. Otherwise such an
 * order is a failure. */
static bool came_in_turn(const struct waiter *waiters, unsigned count, uint64_t released)
{
    uint64_t last = waiters[0].got_ns;
    bool in_turn = true;
    for (unsigned i = 1; i < count; i++) {
        in_turn = in_turn && waiters[i].got_ns > waiters[i - 1].got_ns;
        last = waiters[i].got_ns > last ? waiters[i].got_ns : last;
    }
    ck_assert_msg(in_turn || last - released >= 1000ull * MS, "out of turn, though no waiter left the lock free");
    return in_turn;
}

/* A node keeps the largest ticket that it has seen, also when a waiter that has a smaller one refreshes its entry. Boards
 * without a battery start near 1970, until they have asked a time server. */
static bool wait_in_turn(bool near_1970)
{
    struct waiter waiters[TURNS];
    if (near_1970) {
        held_close_all();
        held_nodes_with_clocks();
    }
    for (size_t node = 0; near_1970 && node < NODES; node++)
        cluster_shift_clock(cluster, node, (int64_t)(3600 - time(NULL)) * 1000000);
    redlock_lock *lock = take_it(open_here());
    for (unsigned i = 0; i < TURNS; i++) {
        struct real_number raised = {{"ZCOUNT", QUEUE, FAR_AHEAD, "+inf"}, i + 1, i + 1};
        start(&waiters[i], open_here());
        await_queued(i + 1);
        clients_await_subscribers(i + 1, INT32_MAX);
        if (i == 0 && !near_1970) {
            for (size_t node = 0; node < NODES; node++)
                put_ticket_ahead(node);
            real_command(NODES, "HSET", ALIVE, " seen", FAR_AHEAD, NULL);
            await_refresh();
        }
        real_until(NULL, near_1970 || real_all_reply(&raised));
    }
    uint64_t released = release_it(lock);
    waiters_finish_and_release(waiters, TURNS);
    return came_in_turn(waiters, TURNS, released);
}

/* _i 0: a clock is years ahead. */
TEST_ROWS(turns, waiters_come_in_turn_whatever_the_clocks, 2)
{
    bool in_turn = wait_in_turn(_i);
    for (int run = 1; run < 10 && !in_turn; run++) {
        begin_again();
        in_turn = wait_in_turn(_i);
    }
    ck_assert_msg(in_turn, "in each of ten runs a waiter left the free lock for a second");
}

/* What somebody wrote into a queue: a waiter's ticket, and the largest one that the node has seen. */
static const struct {
    const char *ticket, *seen;
} impossible[] = {{"9007199254740992", "9007199254740992"}, {"inf", "garbage"}};

/* With such a ticket no waiter could be behind another one. The entry of the other one is never refreshed. */
static void put_impossible_tickets(int row)
{
    char first[64];
    for (size_t i = 0; i < NODES; i++) {
        read_first(i, first);
        cluster_integer(cluster, i, "ZADD", QUEUE, impossible[row].ticket, first, NULL);
    }
    real_command(NODES, "ZADD", QUEUE, impossible[row].ticket, "another", NULL);
    real_command(NODES, "HSET", ALIVE, "another", "9999999999999", " seen", impossible[row].seen, NULL);
}

TEST_ROWS(turns, impossible_tickets_stop_no_waiter_and_are_not_passed_on, ROWS(impossible))
{
    struct real_number others = {{"ZCOUNT", QUEUE, FAR_AHEAD, "+inf"}, 1, 1};
    struct waiter waiters[2];
    redlock_lock *lock = take_it(open_here());
    start_queued(&waiters[0], open_here());
    put_impossible_tickets(_i);
    start(&waiters[1], open_here());
    await_queued(3);
    real_until(NULL, real_all_reply(&others));
    release_it(lock);
    waiters_finish_and_release(waiters, 2);
    forget_waiters();
}

/* --- Attempts at a free lock --- */

/* Enters a waiter on this many nodes, which was not subscribed when it refreshed its entry. */
static void put_waiter(size_t nodes)
{
    char ends[32], since[32];
    snprintf(ends, sizeof ends, "%lld", (long long)time(NULL) * 1000 + 30000);
    snprintf(since, sizeof since, "%lld", (long long)time(NULL) * 1000);
    real_command(nodes, "ZADD", QUEUE, "1", "redlock:ghost", NULL);
    real_command(nodes, "HSET", ALIVE, "redlock:ghost", ends, " writer", since, NULL);
    real_command(nodes, "SET", FREE, "0", NULL); /* this key exists while clients wait */
}

static int try_once(struct face *face, redlock_acquire_options how)
{
    redlock_lock *lock;
    int status = face_acquire(face, KEY, &how, &lock, &result);
    if (status == REDLOCK_OK)
        real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
    return status;
}

/* A free lock goes to the waiters first. What does not wait may overtake them, and a plain lock's first attempt is a bare
 * SET. A reader that does not wait leaves the lock to a writer that waits. */
static const struct attempt {
    redlock_acquire_options how;
    bool has_writer, overtakes;
} attempts[] = {
    {{.wait_ms = 0}, true, true},
    {{.fence = 1}, true, true},
    {{.permits = 2}, true, true},
    {{.shared = 1}, true, false},
    {{.wait_ms = 100}, true, true},
    {{.wait_ms = 100, .fence = 1}, true, false},
    {{.wait_ms = 100, .permits = 2}, true, false},
    {{.wait_ms = 100, .shared = 1}, true, false},
    {{.wait_ms = 100, .fence = 1}, false, true},
    {{.wait_ms = 100, .permits = 2}, false, true},
    {{.wait_ms = 100, .shared = 1}, false, true},
};

TEST(turns, free_lock_is_left_to_waiters_by_what_waits)
{
    for (int row = 0; row < ROWS(attempts); row++) {
        const struct attempt *attempt = &attempts[row];
        redlock_acquire_options how = attempt->how;
        how.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options);
        put_waiter(attempt->has_writer ? NODES : 1); /* an entry counts only on a majority */
        int status = try_once(open_here(), how);     /* a client that has waited before would wait at once */
        ck_assert_msg((status == REDLOCK_OK) == attempt->overtakes, "attempt %d: %s", row, redlock_status_name(status));
        held_close_all();
        forget_waiters();
    }
}

/* --- Entries that stay --- */

/* Enters a waiter whose process is dead. It was subscribed when it refreshed its entry. */
static void put_dead_waiter(const char *name)
{
    real_command(NODES, "ZADD", QUEUE, "1", name, NULL);
    real_command(NODES, "HSET", ALIVE, name, "9999999999999.5", NULL);
    real_command(NODES, "SET", FREE, "0", NULL); /* as beside every entry */
}

/* A waiter whose entry shows that it is subscribed looks once a second. */
static bool is_marked_everywhere(void)
{
    static const char script[] = "for _, text in ipairs(redis.call('HVALS', KEYS[1])) do "
                                 "if string.find(text, '^%d+%.5 ') then return 1 end end return 0";
    for (size_t i = 0; i < NODES; i++)
        if (cluster_integer(cluster, i, "EVAL", script, "1", ALIVE, NULL) == 0)
            return false;
    return true;
}

/* Returns the time until a waiter behind them has the lock. A release looks at two waiters first. */
static uint64_t wait_behind_many_dead_waiters(void)
{
    static const char *const dead[] = {"redlock:1", "redlock:2", "redlock:3", "redlock:4"};
    struct waiter waiter;
    redlock_lock *lock = take_it(open_here());
    for (int k = 0; k < ROWS(dead); k++)
        put_dead_waiter(dead[k]);
    start(&waiter, open_here());
    real_until(NULL, is_marked_everywhere());
    await_queued(ROWS(dead) + 1);
    uint64_t released = release_it(lock);
    waiter_finish_and_release(&waiter);
    clients_assert_queue_expires(KEY);
    forget_waiters();
    return waiter.got_ns > released ? waiter.got_ns - released : 0;
}

/* The nodes learn the scripts first. A busy machine delays some of the runs, a fault delays all of them. */
TEST(ends, dead_waiters_delay_the_next_by_less_than_50_ms)
{
    enum { RUNS = 6, LIMIT = 50 * MS };
    uint64_t took = wait_behind_many_dead_waiters();
    for (int run = 1; run < RUNS && took >= LIMIT; run++) {
        begin_again();
        took = wait_behind_many_dead_waiters();
    }
    ck_assert_uint_lt(took, LIMIT);
}

TEST(ends, waiter_that_was_not_subscribed_is_not_dropped)
{
    redlock_lock *lock = take_it(open_here());
    put_waiter(NODES);
    release_it(lock);
    await_queued(1);
    forget_waiters();
}

/* After faults the queues may differ, and the first waiters may each lack a majority. Such a first waiter is moved
 * to the tail, although no holder releases anything. An impossible ticket there is removed: the next one would be, too. */
TEST_ROWS(ends, head_that_leaves_a_lock_free_makes_way_without_a_release, 2)
{
    struct waiter waiter;
    long long impossible_ones = 0;
    put_waiter(NODES);
    if (_i == 1)
        real_command(NODES, "ZADD", QUEUE, "inf", "nobody", NULL);
    waiter_start(&waiter, open_here(), KEY, *REAL_WITH(.wait_ms = 8000, .fence = 1));
    waiter_finish_and_release(&waiter);
    for (size_t i = 0; i < NODES; i++)
        impossible_ones += cluster_integer(cluster, i, "ZCOUNT", QUEUE, "1e16", "+inf", NULL);
    ck_assert_int_le(impossible_ones, NODES - HELD_QUORUM); /* nodes may be late */
    forget_waiters();
}

REAL_PROGRAM("waiting")
