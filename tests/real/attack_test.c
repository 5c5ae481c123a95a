/* Attacks on exclusion, against real servers: a client that was stopped or busy while nodes lost locks, flushes at
 * any time, a failover and back, swapped databases, a restart from an old snapshot, evicted keys. With the guard no
 * attack yields a second holder; without it the same attacks do. REDLOCK_ATTACKS is the number of trials of each attack,
 * and prints the counts; by default there is one for each number of nodes that it strikes, or without the guard as many as
 * one second holder needs: a busy machine may need more time for an attack than the holder's lock lasts. */
#include "real/held.h"

#include "support/fixture.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A failover must be shorter than the ttl. Before Redis 7 a replica takes each of its steps only once a second. */
enum {
    TTL_MS = 2000,
    PATIENCE_MS = 1000, /* not longer than the lock can last after the strike */
    FAILOVER_TTL_MS = 8000,
    SPARE = HELD_NODES,
    UNGUARDED_TRIALS = 20
};

static const char key[] = real_key("attacked");
static bool is_guarded;

struct attack {
    const char *name;
    enum face_kind thief; /* an asynchronous one's loop is busy until the order */
    bool stopped;         /* the thief is stopped while the nodes lose the lock */
    bool busy;            /* the thief tries during the strike, and acquires another lock in between */
    bool slow;            /* needs a longer ttl */
    unsigned least,
        most; /* struck nodes, by trial; 0: one. The lock is on the first three, or on all if `most` is more */
    void (*prepare)(struct face *holder); /* runs before the holder acquires; may be NULL */
    void (*strike)(struct cluster *nodes, size_t node);
};

/* --- The thief: a client in a separate process, which can be stopped --- */

struct thief {
    pid_t pid;
    int line; /* for its orders and reports */
};

static void use_another(struct face *face)
{
    redlock_lock *lock;
    if (face_acquire(face, real_key("another"), NULL, &lock, &result) == REDLOCK_OK)
        face_release(face, &lock, &result);
}

/* On the parent's order, tries repeatedly until it has the lock or its time has passed. */
_Noreturn static void steal(const struct attack *attack, const char *nodes, const redlock_options *options, int line)
{
    struct face *face = face_open_ready(attack->thief, nodes, options);
    uint32_t patience_ms;
    redlock_lock *lock;
    int status = REDLOCK_HELD;
    if (write(line, "r", 1) != 1 || read(line, &patience_ms, sizeof patience_ms) != sizeof patience_ms)
        _exit(1);
    for (uint64_t deadline = test_deadline_ns(patience_ms); status != REDLOCK_OK && test_now_ns() < deadline;) {
        if (attack->busy)
            use_another(face);
        status = face_acquire(face, key, NULL, &lock, &result);
        poll(NULL, 0, attack->busy ? 1 : 5);
    }
    _exit(write(line, &status, sizeof status) == sizeof status ? 0 : 1);
}

static bool hear(const struct thief *thief, void *report, size_t size)
{
    struct pollfd readable = {thief->line, POLLIN, 0};
    return poll(&readable, 1, REAL_SOON_MS) == 1 && read(thief->line, report, size) == (ssize_t)size;
}

static struct thief send_thief(const struct attack *attack, const char *nodes, const redlock_options *options)
{
    int line[2];
    char ready;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, line) != 0)
        fixture_fail("no socketpair");
    struct thief thief = {fork(), line[0]};
    if (thief.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(line[0]);
        steal(attack, nodes, options, line[1]);
    }
    close(line[1]);
    ck_assert_msg(hear(&thief, &ready, 1), "the thief is not ready");
    return thief;
}

static void order(const struct thief *thief, uint32_t patience_ms)
{
    ck_assert_int_eq(write(thief->line, &patience_ms, sizeof patience_ms), sizeof patience_ms);
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
    ck_assert_msg(hear(thief, &status, sizeof status), "the thief does not report");
    close(thief->line);
    kill(thief->pid, SIGKILL);
    waitpid(thief->pid, &ended, 0);
    return status;
}

/* --- The attacks --- */

static void command(size_t node, const char *first, const char *second, const char *third, const char *fourth)
{
    char reply[256] = "";
    cluster_command(cluster, node, reply, sizeof reply, first, second, third, fourth, NULL);
    ck_assert_msg(strcmp(reply, "OK") == 0, "%s: %s", first, reply);
}

static bool is_synchronized(void *node)
{
    char reply[4096];
    return cluster_command(cluster, *(size_t *)node, reply, sizeof reply, "INFO", "replication", NULL) &&
           strstr(reply, "master_link_status:up") != NULL;
}

static void copy(size_t from, size_t to)
{
    char *port = fixture_text("%u", cluster_port(cluster, from));
    command(to, "REPLICAOF", "127.0.0.1", port, NULL);
    ck_assert(wait_until(is_synchronized, &to, REAL_SOON_MS));
    command(to, "REPLICAOF", "NO", "ONE", NULL);
    free(port);
}

static void copy_to_spare(struct face *holder)
{
    (void)holder;
    copy(2, SPARE);
}

static void fail_over_and_back(struct cluster *nodes, size_t node)
{
    (void)nodes;
    copy(SPARE, node);
}

static void exchange_databases(struct cluster *nodes, size_t node)
{
    (void)nodes;
    command(node, "SWAPDB", "0", "1", NULL);
}

static void trust(struct face *holder)
{
    if (is_guarded)
        held_trust(holder);
}

/* The other database has its own marker, which the holder's client trusts. */
static void trust_other_database(struct face *holder)
{
    command(2, "SWAPDB", "0", "1", NULL);
    trust(holder);
    command(2, "SWAPDB", "0", "1", NULL);
}

static void save_snapshot(struct face *holder)
{
    (void)holder;
    command(2, "SAVE", NULL, NULL, NULL);
}

static void let_evict(struct face *holder)
{
    (void)holder;
    command(2, "CONFIG", "SET", "maxmemory-policy", "volatile-lru");
}

/* Of the keys only the lock's may be evicted: it alone expires. */
static void evict_lock(struct cluster *nodes, size_t node)
{
    command(node, "CONFIG", "SET", "maxmemory", "1");
    real_until(NULL, cluster_integer(nodes, node, "EXISTS", key, NULL) == 0);
    command(node, "CONFIG", "SET", "maxmemory", "0");
}

static const struct attack attacks[] = {
    {"a client stopped while a node it trusts is flushed", .stopped = true, .strike = cluster_flush},
    {"a client whose loop is busy while a node is flushed", ASYNCHRONOUS_FACE, .strike = cluster_flush},
    {"failover to a copy without the lock, and back, while the client is stopped", .stopped = true, .slow = true,
     .prepare = copy_to_spare, .strike = fail_over_and_back},
    {"failover and back while the client acquires locks", .busy = true, .slow = true, .prepare = copy_to_spare,
     .strike = fail_over_and_back},
    {"databases exchanged under the lock, both with a trusted marker", .prepare = trust_other_database,
     .strike = exchange_databases},
    {"restart from a snapshot without the lock", .prepare = save_snapshot, .strike = cluster_restart},
    {"the lock evicted while the client is stopped", .stopped = true, .slow = true, .prepare = let_evict,
     .strike = evict_lock},
    {"one node or two flushed", .least = 1, .most = 2, .strike = cluster_flush},
    {"three nodes and more flushed", .least = 3, .most = HELD_NODES, .strike = cluster_flush},
};

/* Acquires the lock on the first `on` nodes. The other nodes have another holder's key meanwhile. */
static redlock_lock *take(struct face *holder, unsigned on)
{
    /* Waits for a node that the previous trial restarted. */
    const redlock_acquire_options *how = REAL_WITH(.no_renewal = 1, .wait_ms = REAL_SOON_MS);
    for (size_t node = on; node < HELD_NODES; node++)
        cluster_command(cluster, node, NULL, 0, "SET", key, "theirs", NULL);
    redlock_lock *lock = held_acquire(holder, key, how);
    for (size_t node = on; node < HELD_NODES; node++)
        cluster_integer(cluster, node, "DEL", key, NULL);
    return lock;
}

/* The last of the first three nodes, or more. */
static void strike(const struct attack *attack, unsigned i)
{
    size_t count = attack->most ? attack->least + i % (attack->most - attack->least + 1) : 1;
    for (size_t node = count < HELD_QUORUM ? HELD_QUORUM - count : 0; node < count || node < HELD_QUORUM; node++)
        attack->strike(cluster, node);
}

/* The thief strikes at any moment of the holder's time. */
static void pause_at_random(unsigned most_ms)
{
    usleep((useconds_t)(rand() % (int)(most_ms * 1000 + 1)));
}

/* The previous trial may have left keys, markers and limits. */
static void begin_trial(void)
{
    cluster_remove_keys(cluster);
    command(2, "CONFIG", "SET", "maxmemory", "0");
    command(2, "CONFIG", "SET", "maxmemory-policy", "noeviction");
}

/* Whether the thief gets the lock while the holder has it. */
static bool breaks(const struct attack *attack, struct face *holder, const char *nodes, const redlock_options *options,
                   unsigned i)
{
    begin_trial();
    trust(holder);
    if (attack->prepare)
        attack->prepare(holder);
    struct thief thief = send_thief(attack, nodes, options);
    redlock_lock *lock = take(holder, attack->most > HELD_QUORUM ? HELD_NODES : HELD_QUORUM);
    if (attack->stopped)
        stop(&thief);
    if (attack->busy)
        order(&thief, FAILOVER_TTL_MS / 2);
    strike(attack, i);
    if (!attack->busy) {
        pause_at_random(attack->stopped || attack->thief == ASYNCHRONOUS_FACE ? TTL_MS * 2 / 3 : 200);
        order(&thief, PATIENCE_MS);
    }
    kill(thief.pid, SIGCONT);
    int status = end_thief(&thief);
    bool broken = status == REDLOCK_OK && redlock_validity_ms(lock) > 0;
    face_release(holder, &lock, &result);
    return broken;
}

static unsigned count_broken(const struct attack *attack, uint32_t guard)
{
    const char *asked = getenv("REDLOCK_ATTACKS");
    unsigned guarded = attack->most - attack->least + 1;
    unsigned trials = real_setting("REDLOCK_ATTACKS", guard ? guarded : UNGUARDED_TRIALS), broken = 0;
    char *nodes = fixture_text("%s", cluster_nodes_string(cluster));
    redlock_options options = held_options(attack->slow ? FAILOVER_TTL_MS : TTL_MS, guard);
    *strrchr(nodes, ',') = '\0'; /* all but the spare */
    if (guard)
        options.max_ttl_ms = options.ttl_ms;
    is_guarded = guard;
    if (asked)
        srand((unsigned)test_now_ns()); /* each long run strikes at other moments */
    struct face *holder = held_open(BLOCKING_FACE, nodes, &options);
    for (unsigned i = 0; i < trials && (broken == 0 || asked); i++)
        broken += breaks(attack, holder, nodes, &options, i);
    if (asked)
        printf("%s, guard %s: %u of %u trials gave two holders\n", attack->name, guard ? "on" : "off", broken, trials);
    trust(holder);                          /* instead of a quarantine */
    ck_assert(face_wait_all_ready(holder)); /* the client may have seen a replica, and may still have an undo for it */
    held_close(holder);
    begin_trial();
    free(nodes);
    return broken;
}

REAL_LONG_CASE(guarded, real_bare_case, NULL);
REAL_LONG_CASE(unguarded, real_bare_case, NULL);

TEST(guarded, no_attack_gives_a_second_holder)
{
    real_cluster(HELD_NODES + 1, NULL);
    for (int i = 0; i < ROWS(attacks); i++)
        ck_assert_msg(count_broken(&attacks[i], 1) == 0, "%s: two holders", attacks[i].name);
}

TEST(unguarded, each_attack_gives_a_second_holder_without_the_guard)
{
    real_cluster(HELD_NODES + 1, NULL);
    for (int i = 0; i < ROWS(attacks); i++)
        ck_assert_msg(count_broken(&attacks[i], 0) > 0, "%s: never two holders, so the attack shows nothing",
                      attacks[i].name);
}

REAL_PROGRAM("real_attack")
