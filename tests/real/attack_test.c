/* Attacks on exclusion, against real servers: a client that was stopped or busy while nodes lost locks, flushes at
 * any time, a failover and back, swapped databases, a restart from an old snapshot, evicted keys. With the guard no
 * attack yields a second holder; without it the same attacks do. REDLOCK_ATTACKS is the number of trials of each attack,
 * and prints the counts; by default there are two, and without the guard the first second holder is enough. */
#define _GNU_SOURCE
#include "real/held.h"

#include "support/clock.h"
#include "support/fixture.h"

#include <ev.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A failover must be shorter than the ttl. Before Redis 7 a replica takes each of its steps only once a second. */
enum { TTL_MS = 2000, FAILOVER_TTL_MS = 8000, SPARE = HELD_NODES, DEFAULT_TRIALS = 2 };

static const char key[] = real_key("attacked");
static redlock_result result;
static bool is_guarded;

/* --- The thief: a client in a separate process, which can be stopped --- */

enum thief_kind { WAITS, HAS_BUSY_LOOP };

struct thief {
    pid_t pid;
    int orders;
    int reports;
};

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *given, void *arg)
{
    (void)client;
    (void)lock;
    *(int *)arg = given->status;
}

static bool are_usable(redlock_client *client)
{
    redlock_node_status status;
    uint32_t usable = 0;

    for (uint32_t i = 0; i < HELD_NODES; i++)
        usable += redlock_node_status_get(client, i, &status) == REDLOCK_OK && status.usable;
    return usable == HELD_NODES;
}

static int take_async(redlock_client *client, struct ev_loop *loop)
{
    int status = 1;

    if (redlock_acquire_async(client, key, NULL, on_acquired, &status) != REDLOCK_OK)
        return REDLOCK_INVALID;
    while (status == 1)
        ev_run(loop, EVRUN_ONCE);
    return status;
}

/* On the parent's order, tries repeatedly until it has the lock or its time has passed. */
static void steal(enum thief_kind kind, const char *nodes, const redlock_options *options, int orders, int reports)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    redlock_client *client;
    redlock_lock *lock;
    uint32_t patience_ms;
    int status = kind == WAITS ? redlock_connect(nodes, options, &client, NULL)
                               : redlock_attach(loop, nodes, options, &client, NULL);

    if (status != REDLOCK_OK)
        _exit(1);
    while (!are_usable(client)) {
        if (kind == HAS_BUSY_LOOP)
            ev_run(loop, EVRUN_NOWAIT);
        usleep(1000); /* between two looks: the blocking API reports no such event */
    }
    if (write(reports, "r", 1) != 1 || read(orders, &patience_ms, sizeof(patience_ms)) != sizeof(patience_ms))
        _exit(1);
    for (uint64_t deadline = test_deadline_ns(patience_ms); test_now_ns() < deadline;) {
        status = kind == WAITS ? redlock_acquire(client, key, NULL, &lock, NULL) : take_async(client, loop);
        if (status == REDLOCK_OK)
            break;
    }
    _exit(write(reports, &status, sizeof(status)) == sizeof(status) ? 0 : 1);
}

static bool hear(const struct thief *thief, void *report, size_t size)
{
    struct pollfd readable = {thief->reports, POLLIN, 0};

    return poll(&readable, 1, REAL_SOON_MS) == 1 && read(thief->reports, report, size) == (ssize_t)size;
}

static struct thief send_thief(enum thief_kind kind, const char *nodes, const redlock_options *options)
{
    int orders[2], reports[2];
    char ready;

    if (pipe(orders) != 0 || pipe(reports) != 0)
        fixture_fail("no pipe");
    struct thief thief = {fork(), orders[1], reports[0]};
    if (thief.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        steal(kind, nodes, options, orders[0], reports[1]);
    }
    close(orders[0]);
    close(reports[1]);
    ck_assert_msg(hear(&thief, &ready, 1), "the thief is not ready");
    return thief;
}

static void stop(const struct thief *thief)
{
    int status;

    kill(thief->pid, SIGSTOP);
    waitpid(thief->pid, &status, WUNTRACED);
}

/* Returns the thief's status, once it has the lock or has given up. */
static int end_thief(struct thief *thief)
{
    int status, ended;

    ck_assert_msg(hear(thief, &status, sizeof(status)), "the thief does not report");
    close(thief->orders);
    close(thief->reports);
    kill(thief->pid, SIGKILL);
    waitpid(thief->pid, &ended, 0);
    return status;
}

/* --- The attacks --- */

struct attack {
    const char *name;
    uint32_t ttl_ms;
    enum thief_kind thief;
    bool stopped; /* the thief is stopped while the nodes lose the lock */
    unsigned on;  /* how many nodes have the holder's lock; the thief finds the others free */
    void (*prepare)(struct cluster *cluster, struct face *holder); /* runs before the holder acquires; may be NULL */
    void (*strike)(struct cluster *cluster, unsigned i);
};

static void command(struct cluster *cluster, size_t node, const char *first, const char *second, const char *third)
{
    char reply[256] = "";

    cluster_command(cluster, node, reply, sizeof(reply), first, second, third, NULL);
    ck_assert_msg(strcmp(reply, "OK") == 0, "%s: %s", first, reply);
}

static void config(struct cluster *cluster, size_t node, const char *name, const char *value)
{
    char reply[256] = "";

    cluster_command(cluster, node, reply, sizeof(reply), "CONFIG", "SET", name, value, NULL);
    ck_assert_str_eq(reply, "OK");
}

static void flush_one(struct cluster *cluster, unsigned i)
{
    (void)i;
    cluster_flush(cluster, 2);
}

static void flush_one_or_two(struct cluster *cluster, unsigned i)
{
    for (size_t node = 2 - i % 2; node <= 2; node++)
        cluster_flush(cluster, node);
}

/* Flushes three, four or all five nodes, by trial. The lock is on all of them. */
static void flush_several(struct cluster *cluster, unsigned i)
{
    for (size_t node = 0; node < 3 + i % 3; node++)
        cluster_flush(cluster, node);
}

static bool is_synchronized(void *arg)
{
    char reply[4096];
    const struct {
        struct cluster *cluster;
        size_t node;
    } *replica = arg;

    return cluster_command(replica->cluster, replica->node, reply, sizeof(reply), "INFO", "replication", NULL) &&
           strstr(reply, "master_link_status:up") != NULL;
}

static void copy(struct cluster *cluster, size_t from, size_t to)
{
    struct {
        struct cluster *cluster;
        size_t node;
    } replica = {cluster, to};
    char *port = fixture_text("%u", cluster_port(cluster, from));

    command(cluster, to, "REPLICAOF", "127.0.0.1", port);
    ck_assert(wait_until(is_synchronized, &replica, REAL_SOON_MS));
    command(cluster, to, "REPLICAOF", "NO", "ONE");
    free(port);
}

static void copy_to_spare(struct cluster *cluster, struct face *holder)
{
    (void)holder;
    copy(cluster, 2, SPARE);
}

static void fail_over_and_back(struct cluster *cluster, unsigned i)
{
    (void)i;
    copy(cluster, SPARE, 2);
}

static void exchange_databases(struct cluster *cluster, unsigned i)
{
    (void)i;
    command(cluster, 2, "SWAPDB", "0", "1");
}

static void trust(struct face *holder)
{
    if (is_guarded)
        held_trust(holder);
}

/* The other database has its own marker, which the holder's client trusts. */
static void trust_other_database(struct cluster *cluster, struct face *holder)
{
    command(cluster, 2, "SWAPDB", "0", "1");
    trust(holder);
    command(cluster, 2, "SWAPDB", "0", "1");
}

static void save_snapshot(struct cluster *cluster, struct face *holder)
{
    (void)holder;
    command(cluster, 2, "SAVE", NULL, NULL);
}

static void restart_from_snapshot(struct cluster *cluster, unsigned i)
{
    (void)i;
    cluster_restart(cluster, 2);
}

static void let_evict(struct cluster *cluster, struct face *holder)
{
    (void)holder;
    config(cluster, 2, "maxmemory", "8mb");
    config(cluster, 2, "maxmemory-policy", "allkeys-lru");
}

/* Fills the memory with other keys until the server evicts the lock's key. */
static void evict_lock(struct cluster *cluster, unsigned i)
{
    enum { FILLER = 256 * 1024, MOST = 2000 };
    char *filler = fixture_allocate(FILLER), name[32];

    (void)i;
    memset(filler, 'x', FILLER - 1);
    for (unsigned n = 0; cluster_integer(cluster, 2, "EXISTS", key, NULL) != 0; n++) {
        ck_assert_msg(n < MOST, "the lock's key is never evicted");
        snprintf(name, sizeof(name), "filler:%u", n);
        command(cluster, 2, "SET", name, filler);
    }
    free(filler);
}

static const struct attack attacks[] = {
    {"a client stopped while a node it trusts is flushed", TTL_MS, WAITS, true, 3, NULL, flush_one},
    {"a client whose loop is busy while a node is flushed", TTL_MS, HAS_BUSY_LOOP, false, 3, NULL, flush_one},
    {"failover to a copy without the lock, and back", FAILOVER_TTL_MS, WAITS, false, 3, copy_to_spare,
     fail_over_and_back},
    {"failover and back while the client is stopped", FAILOVER_TTL_MS, WAITS, true, 3, copy_to_spare,
     fail_over_and_back},
    {"databases exchanged under the lock", TTL_MS, WAITS, false, 3, NULL, exchange_databases},
    {"databases exchanged, both with a trusted marker", TTL_MS, WAITS, false, 3, trust_other_database,
     exchange_databases},
    {"restart from a snapshot without the lock", TTL_MS, WAITS, false, 3, save_snapshot, restart_from_snapshot},
    {"the lock evicted under allkeys-lru", TTL_MS, WAITS, false, 3, let_evict, evict_lock},
    {"the lock evicted while the client is stopped", TTL_MS, WAITS, true, 3, let_evict, evict_lock},
    {"one node or two flushed", TTL_MS, WAITS, false, 3, NULL, flush_one_or_two},
    {"three nodes and more flushed", TTL_MS, WAITS, false, 5, NULL, flush_several},
};
enum { ATTACKS = sizeof(attacks) / sizeof(*attacks) };

static unsigned trials(void)
{
    const char *asked = getenv("REDLOCK_ATTACKS");

    return asked != NULL ? (unsigned)strtoul(asked, NULL, 10) : DEFAULT_TRIALS;
}

/* Acquires the lock on the first `on` nodes. The other nodes have another holder's key meanwhile. */
static redlock_lock *take(struct face *holder, struct cluster *cluster, unsigned on)
{
    redlock_acquire_options acquire = REDLOCK_ACQUIRE_OPTIONS_INIT;

    acquire.no_renewal = 1;
    acquire.wait_ms = REAL_SOON_MS; /* waits for a node that the previous trial restarted */
    for (size_t node = on; node < HELD_NODES; node++)
        cluster_command(cluster, node, NULL, 0, "SET", key, "theirs", NULL);
    redlock_lock *lock = held_acquire(holder, key, &acquire);
    for (size_t node = on; node < HELD_NODES; node++)
        cluster_integer(cluster, node, "DEL", key, NULL);
    return lock;
}

/* The thief strikes at any moment of the holder's time. */
static void pause_at_random(unsigned most_ms)
{
    usleep((useconds_t)(rand() % (int)(most_ms * 1000 + 1)));
}

/* Whether the thief gets the lock while the holder has it. */
static bool breaks(const struct attack *attack, struct cluster *cluster, struct face *holder, const char *nodes,
                   const redlock_options *options, unsigned i)
{
    const uint32_t patience_ms = TTL_MS;

    cluster_flush_all(cluster); /* the previous trial may have left keys and markers */
    trust(holder);
    if (attack->prepare != NULL)
        attack->prepare(cluster, holder);
    struct thief thief = send_thief(attack->thief, nodes, options);
    redlock_lock *lock = take(holder, cluster, attack->on);
    if (attack->stopped)
        stop(&thief);
    attack->strike(cluster, i);
    pause_at_random(attack->stopped || attack->thief == HAS_BUSY_LOOP ? TTL_MS * 2 / 3 : 200);
    ck_assert_int_eq(write(thief.orders, &patience_ms, sizeof(patience_ms)), sizeof(patience_ms));
    kill(thief.pid, SIGCONT);
    int status = end_thief(&thief);
    bool broken = status == REDLOCK_OK && redlock_validity_ms(lock) > 0;
    face_release(holder, &lock, &result);
    return broken;
}

static char *first_nodes(const struct cluster *cluster)
{
    return fixture_text("%s,%s,%s,%s,%s", cluster_address(cluster, 0), cluster_address(cluster, 1),
                        cluster_address(cluster, 2), cluster_address(cluster, 3), cluster_address(cluster, 4));
}

static unsigned count_broken(const struct attack *attack, uint32_t guard)
{
    struct cluster *cluster = real_cluster(HELD_NODES + 1, NULL);
    char *nodes = first_nodes(cluster);
    redlock_options options = held_options(attack->ttl_ms, guard);
    unsigned broken = 0;

    if (guard)
        options.max_ttl_ms = attack->ttl_ms;
    is_guarded = guard;
    struct face *holder = held_open(BLOCKING_FACE, nodes, &options);
    for (unsigned i = 0; i < trials() && (broken == 0 || getenv("REDLOCK_ATTACKS") != NULL); i++)
        broken += breaks(attack, cluster, holder, nodes, &options, i);
    if (getenv("REDLOCK_ATTACKS") != NULL)
        printf("%s, guard %s: %u of %u trials gave two holders\n", attack->name, guard ? "on" : "off", broken,
               trials());
    ck_assert(face_wait_all_ready(holder)); /* the client may have seen a replica, and may still have an undo for it */
    held_close(holder);
    cluster_flush_all(cluster);
    free(nodes);
    return broken;
}

START_TEST(no_attack_gives_a_second_holder)
{
    ck_assert_msg(count_broken(&attacks[_i], 1) == 0, "%s: two holders", attacks[_i].name);
}
END_TEST

START_TEST(each_attack_gives_a_second_holder_without_the_guard)
{
    ck_assert_msg(count_broken(&attacks[_i], 0) > 0, "%s: never two holders, so the attack shows nothing",
                  attacks[_i].name);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("real_attack");
    TCase *guarded = real_bare_case(suite, "guarded"), *unguarded = real_bare_case(suite, "unguarded");

    tcase_set_timeout(guarded, 3600);
    tcase_set_timeout(unguarded, 3600);
    real_add_long_test(guarded, no_attack_gives_a_second_holder, ATTACKS);
    real_add_long_test(unguarded, each_attack_gives_a_second_holder_without_the_guard, ATTACKS);
    return real_run(suite, false);
}
