/* Nodes behind real Sentinels, and in real Redis Clusters: failovers by votes and by hand, a slot that moves, an old master
 * that takes writes again beside a client that is cut off from the Sentinels, and witnesses that are silent, know no such
 * name or slot, or want a password. */
#include "real/held.h"
#include "real/tls_certificates.h"

#include "support/allocator.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/network.h"
#include "support/process.h"
#include "support/raw_client.h"
#include "support/server_program.h"
#include "support/sockets.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A killed master is replaced after two to three seconds, which a lock must outlast. */
enum { SENTINELS = 3, GROUPS = 3, KILLED_MAX_TTL_MS = 8000, MAX_TTL_MS = 4000, SHORT_MAX_TTL_MS = 2000 };

static const char key[] = real_key("watched");

/* A node: the servers 2i (the first master) and 2i + 1 of the cluster, and their Sentinels. */
static struct group {
    uint16_t port[SENTINELS];
    int reservation[SENTINELS];
    struct process process[SENTINELS];
} groups[GROUPS];
static unsigned apart; /* this number of Sentinels is in the first master's network */
static unsigned group_count;
static struct temp_dir *directory;

/* --- The Sentinels --- */

/* The elements of the reply to the words, ended by NULL, separated by spaces; "" while it does not listen yet. */
static __attribute__((sentinel)) const char *ask(uint16_t port, const char *password, ...)
{
    static char text[4096];
    char *path = fixture_text("%s/%u.sock", temp_dir_path(directory), port); /* its port may speak TLS */
    const struct raw_client_place place = {.path = path, .password = password};
    struct resp_argument words[RESP_MOST_WORDS];
    struct bytes elements = {0};
    va_list arguments;
    va_start(arguments, password);
    size_t count = resp_words(words, arguments);
    va_end(arguments);
    bool replied = raw_client_ask(&place, test_deadline_ns(REAL_SOON_MS), count, words, &elements);
    snprintf(text, sizeof text, "%.*s", replied ? (int)elements.length : 0, elements.data);
    for (char *at = text; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
    bytes_free(&elements);
    free(path);
    return text;
}

static const char *info(size_t server, const char *field)
{
    static char text[4096];
    bool replied = cluster_command(cluster, server, text, sizeof text, "INFO", "replication", NULL);
    char *found = replied ? strstr(text, field) : NULL; /* not while the machine is busy */
    if (!found)
        return "";
    found[strcspn(found, "\r\n")] = '\0';
    return found + strlen(field);
}

/* Where there is a network, the first server is in a namespace of its own, and all others are in that of the clients. */
static const char *host_of(size_t server)
{
    return server == 0 ? network_host(0) : network_clients(0);
}

static const char *sentinel_host(unsigned i)
{
    return i < apart ? network_host(0) : network_clients(0);
}

static struct cluster_node_options placed(size_t server, const struct cluster_tls *tls)
{
    struct cluster_node_options options = {.tls = tls};
    if (network_is_made()) {
        options.host = host_of(server);
        options.network = server == 0 ? network_owner(0) : 0;
    }
    return options;
}

static bool replica_is_online(size_t server)
{
    return strstr(info(server, "slave0:"), "state=online");
}

/* Certificates of one authority. */
static struct cluster_tls make_certificates(void)
{
    certificates_begin();
    return certificates_server("server", "authority", "IP:127.0.0.1", 365);
}

/* Its lines of a Sentinel's file. */
static char *port_lines(uint16_t port, const struct cluster_tls *tls)
{
    if (!tls)
        return fixture_text("port %u\n", port);
    return fixture_text("port 0\ntls-port %u\ntls-replication yes\ntls-auth-clients no\ntls-cert-file %s\n"
                        "tls-key-file %s\ntls-ca-cert-file %s\n",
                        port, tls->certificate, tls->key, tls->authority);
}

static void start_sentinel(struct group *group, unsigned i, size_t master, const char *password,
                           const struct cluster_tls *tls)
{
    char *path = fixture_text("%s/%u.conf", temp_dir_path(directory), group->port[i]);
    char *port = port_lines(group->port[i], tls);
    char *conf =
        fixture_text("%sunixsocket %s/%u.sock\nbind %s\ndir %s\nsentinel monitor m %s %u 2\n"
                     "sentinel down-after-milliseconds m 1000\nsentinel failover-timeout m 5000\n%s%s%s%s",
                     port, temp_dir_path(directory), group->port[i], sentinel_host(i), temp_dir_path(directory),
                     host_of(master), cluster_port(cluster, master), password ? "requirepass " : "",
                     password ? password : "", password ? "\nsentinel sentinel-pass " : "", password ? password : "");
    file_write(path, conf, strlen(conf));
    char *program = fixture_text("%s", server_program()), mode[] = "--sentinel";
    char *const argv[] = {program, path, mode, NULL};
    if (i < apart)
        network_enter(0);
    process_start(&group->process[i], &(struct process_options){.argv = argv});
    if (i < apart)
        network_enter(NETWORK_CLIENTS);
    free(program);
    free(conf);
    free(port);
    free(path);
}

/* Each Sentinel knows the others and the replica, so that a failover can begin. */
static bool is_complete(const struct group *group, const char *password)
{
    for (unsigned i = 0; i < SENTINELS; i++) {
        const char *state = ask(group->port[i], password, "SENTINEL", "MASTER", "m", NULL);
        if (!strstr(state, "num-slaves 1") || !strstr(state, "num-other-sentinels 2"))
            return false;
    }
    return true;
}

static void end_sentinels(void *unused)
{
    (void)unused;
    fixture_unregister(groups);
    for (unsigned g = 0; g < group_count; g++)
        for (unsigned i = 0; i < SENTINELS; i++) {
            process_kill(&groups[g].process[i]);
            close(groups[g].reservation[i]);
        }
    group_count = apart = 0;
}

static void start_groups_with(unsigned count, const char *password, const struct cluster_tls *tls)
{
    static const char *const arguments[] = {"--tls-replication", "yes", NULL};
    struct cluster_node_options nodes[2 * GROUPS] = {{0}};
    for (unsigned i = 0; i < 2 * count; i++) {
        nodes[i] = placed(i, tls);
        nodes[i].arguments = tls ? arguments : NULL;
    }
    cluster = cluster_create(2 * count, &(struct cluster_options){.nodes = nodes});
    directory = temp_dir_make();
    memset(groups, 0, sizeof groups);
    group_count = count;
    fixture_register(groups, end_sentinels);
    for (unsigned g = 0; g < count; g++) {
        char *port = fixture_text("%u", cluster_port(cluster, 2 * g));
        ck_assert(cluster_command(cluster, 2 * g + 1, NULL, 0, "REPLICAOF", host_of(2 * g), port, NULL));
        free(port);
        for (unsigned i = 0; i < SENTINELS; i++)
            groups[g].reservation[i] = socket_reserve_port(false, &groups[g].port[i]);
    }
    for (unsigned g = 0; g < count; g++) {
        real_until(NULL, replica_is_online(2 * g));
        for (unsigned i = 0; i < SENTINELS; i++)
            start_sentinel(&groups[g], i, 2 * g, password, tls);
    }
    for (unsigned g = 0; g < count; g++)
        real_until(NULL, is_complete(&groups[g], password));
    real_note_descriptors();
}

static void start_groups(unsigned count, const char *password)
{
    start_groups_with(count, password, NULL);
}

static const char *list_of(unsigned count, const char *credentials, const char *name)
{
    static char text[1024];
    size_t used = 0;
    for (unsigned g = 0; g < count; g++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%ssentinel://%s%s:%u,%s:%u,%s:%u/%s", g ? "," : "",
                                 credentials, sentinel_host(0), groups[g].port[0], sentinel_host(1), groups[g].port[1],
                                 sentinel_host(2), groups[g].port[2], name);
    return text;
}

/* So many Sentinels of the first group name this server. */
static unsigned naming(size_t server)
{
    unsigned named = 0;
    char *address = fixture_text("%s %u", host_of(server), cluster_port(cluster, server));
    for (unsigned i = 0; i < SENTINELS; i++)
        named += strcmp(ask(groups[0].port[i], NULL, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m", NULL), address) == 0;
    free(address);
    return named;
}

static bool is_led_by(struct face *face, uint32_t node, size_t server)
{
    char *name = fixture_text("%s (%s)", group_count ? "m" : "{redlock}", cluster_address(cluster, server));
    redlock_node_status status = held_node_status(face, node);
    bool led =
        strcmp(status.name, name) == 0 && strcmp(status.state, "ready") == 0 && strcmp(status.role, "master") == 0;
    free(name);
    return led;
}

static redlock_options options_of(uint32_t max_ttl_ms)
{
    redlock_options options = held_options(max_ttl_ms, 1);
    options.max_ttl_ms = max_ttl_ms;
    return options;
}

/* --- Failovers --- */

REAL_LONG_CASE(failover, real_bare_case, NULL);

/* How a node's master changes, and what $REDLOCK_FAILOVERS of them did to a held lock. */
struct change {
    const char *name;
    bool (*begin)(size_t from, size_t to); /* false: it may be refused, or given up, for a while */
    bool (*is_possible)(size_t from, size_t to);
    size_t next;     /* the server that follows server 0, and is followed by it */
    bool is_replica; /* of the master */
    bool killed;     /* the old master has to be started */
    const char *on;  /* the lock's key */
    uint32_t max_ttl_ms;
    bool tls; /* where the library has it */
    const char *password;
};

struct outcome {
    unsigned doubles, lost;
    int64_t followed_ms,
        voted_ms; /* the longest: from the promotion until the client followed, and had the node's vote */
};

/* No write of the master, as of the first call, is missing on its replica. */
static bool has_all(size_t replica, size_t master, long long *written)
{
    if (*written == 0)
        *written = atoll(info(master, "master_repl_offset:"));
    return *written > 0 && atoll(info(replica, "slave_repl_offset:")) >= *written;
}

static int64_t note_longest(int64_t *longest_ms, uint64_t from_ns)
{
    int64_t ms = (int64_t)((test_now_ns() - from_ns) / 1000000);
    *longest_ms = ms > *longest_ms ? ms : *longest_ms;
    return ms;
}

/* The other client has the lock, too. */
static bool is_double(struct face *other, redlock_lock *lock)
{
    redlock_lock *second = NULL;
    bool has = face_acquire(other, key, NULL, &second, &result) == REDLOCK_OK;
    bool both = has && redlock_validity_ms(lock) > 0;
    if (has)
        held_release(other, &second);
    return both;
}

/* A lock on one node, whose master is the server `from` before the change, and `to` after it. false: the machine was so
 * busy that the master changed by itself before. */
static bool follow(const struct change *change, struct face *face, struct face *other, size_t from, size_t to,
                   struct outcome *outcome)
{
    bool is_moved = false;
    uint64_t again = 0, deadline = test_deadline_ns(4 * REAL_SOON_MS), began = 0, promoted = 0; /* not before */
    int64_t validity_ms = 0;                                                                    /* when it began */
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);
    real_until(face, change->is_possible(from, to) || is_led_by(face, 0, to));
    redlock_lock *lock = held_acquire(face, key, &acquire);
    long long written = 0;
    if (change->is_replica) /* otherwise the failover loses the lock */
        real_until(face, has_all(to, from, &written) || is_led_by(face, 0, to));
    if (is_led_by(face, 0, to)) {
        face_release(face, &lock, &result);
        real_until(other, is_led_by(other, 0, to));
        return false;
    }
    while (!is_led_by(face, 0, to)) {
        uint64_t asked = test_now_ns();
        if (change->is_replica ? strcmp(info(to, "role:"), "slave") == 0 : !is_moved)
            promoted = asked;
        if (!is_moved && test_ms_left(again) == 0) {
            began = test_now_ns();
            validity_ms = redlock_validity_ms(lock);
            is_moved = change->begin(from, to);
            again = test_deadline_ns(8000);
        }
        redlock_node_status now = held_node_status(face, 0);
        ck_assert_msg(test_ms_left(deadline) > 0, "%s, %s: %s; %s", now.name, now.state, now.error, now.witnesses);
        outcome->doubles += is_double(other, lock);
        real_turn(face);
    }
    uint64_t followed = test_now_ns();
    bool has_key = held_is_on(to, change->on, lock);
    int64_t followed_ms = note_longest(&outcome->followed_ms, promoted);
    redlock_node_status status = held_node_status(face, 0);
    ck_assert_int_le(status.quarantine_ms, change->max_ttl_ms * 101 / 100 + 2 + 1000); /* with the drift */
    ck_assert_int_gt(status.quarantine_ms, 0);
    ck_assert_uint_eq(status.usable, 0);
    real_until(other, is_led_by(other, 0, to));
    held_refuse(other, real_key("another"), NULL, REDLOCK_NO_QUORUM);
    real_until(face, held_all_usable(face)); /* by itself */
    int64_t voted_ms = note_longest(&outcome->voted_ms, promoted);
    if (getenv("REDLOCK_FAILOVERS"))
        printf("%s: followed after %lld ms, voted after %lld ms\n", change->name, (long long)followed_ms,
               (long long)voted_ms);
    real_until(other, held_all_usable(other));
    outcome->doubles += is_double(other, lock);
    if (!held_is_lost(&story)) {
        ck_assert(held_is_on(to, change->on, lock));
        held_refuse(other, key, NULL, REDLOCK_HELD);
    } else {
        outcome->lost++; /* a busy machine fails over slowly */
        printf("%s: lost %lld ms after the change began, when the lock had %lld ms; promoted after %lld ms, followed "
               "after %lld ms; the new master %s: %s\n",
               change->name, (long long)(atomic_load(&story.lost_ns) - (long long)began) / 1000000,
               (long long)validity_ms, (long long)(promoted - began) / 1000000, (long long)(followed - began) / 1000000,
               has_key ? "had its key" : "lacked its key", redlock_loss_name(atomic_load(&story.loss)));
    }
    face_release(face, &lock, &result);
    redlock_lock *second = held_acquire(other, key, REDLOCK_WAIT_MS(REAL_SOON_MS));
    held_release(other, &second);
    if (change->killed)
        cluster_start(cluster, from);
    return true;
}

/* Over, back, and over again. */
static void change_masters(int i, const struct change *change, const char *list, const redlock_options *options)
{
    struct outcome outcome = {0};
    unsigned trials = real_setting("REDLOCK_FAILOVERS", 1);
    struct face *face = held_open_trusted(i, list, options);
    struct face *other = held_open(i + 1, list, options);
    ck_assert(is_led_by(face, 0, 0));
    for (unsigned trial = 0, turn = 0; trial < trials; turn++)
        trial += follow(change, face, other, turn % 2 ? change->next : 0, turn % 2 ? 0 : change->next, &outcome);
    if (getenv("REDLOCK_FAILOVERS"))
        printf("%s: %u of %u gave two holders, %u locks were lost, the node was followed at most %lld ms and voted at "
               "most %lld ms after its promotion, with a max_ttl of %u ms\n",
               change->name, outcome.doubles, trials, outcome.lost, (long long)outcome.followed_ms,
               (long long)outcome.voted_ms, change->max_ttl_ms);
    ck_assert_msg(outcome.doubles == 0, "%s: two holders", change->name);
}

static bool kill_master(size_t from, size_t to)
{
    (void)to;
    cluster_kill(cluster, from);
    return true;
}

static bool order_failover(size_t from, size_t to)
{
    (void)from;
    if (strcmp(info(to, "role:"), "slave") == 0)
        ask(groups[0].port[0], NULL, "SENTINEL", "FAILOVER", "m", NULL);
    return false;
}

/* Every Sentinel would promote the replica. */
static bool is_good_for_sentinels(size_t from, size_t to)
{
    bool is_good = strcmp(info(to, "role:"), "slave") == 0 && replica_is_online(from);
    for (unsigned i = 0; i < SENTINELS && is_good; i++) {
        const char *replicas = ask(groups[0].port[i], NULL, "SENTINEL", "REPLICAS", "m", NULL);
        is_good = strstr(replicas, "flags slave ") && strstr(replicas, "master-link-status ok");
    }
    return is_good;
}

static const struct change failovers[] = {
    {"Sentinel, master killed", kill_master, is_good_for_sentinels, 1, true, .killed = true, key, KILLED_MAX_TTL_MS},
    {"Sentinel, by hand", order_failover, is_good_for_sentinels, 1, true, .killed = false, key, MAX_TTL_MS,
     .tls = TLS_IS_BUILT},
};

TEST_ROWS(failover, lock_survives_and_node_votes_again, ROWS(failovers))
{
    redlock_options options = options_of(failovers[_i].max_ttl_ms);
    const struct cluster_tls certificates = failovers[_i].tls ? make_certificates() : (struct cluster_tls){0};
    char *list;
    start_groups_with(1, NULL, failovers[_i].tls ? &certificates : NULL);
    list = fixture_text(failovers[_i].tls ? "sentinels%s" : "sentinel%s", list_of(1, "", "m") + strlen("sentinel"));
    options.tls_ca_file = certificates.authority;
    change_masters(_i, &failovers[_i], list, &options);
    free(list);
}

/* What the Sentinels said before is too old, and their next replies are waited for. */
TEST(failover, client_that_stood_still_acquires_at_once)
{
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    start_groups(1, NULL);
    struct face *face = held_open_trusted(1, list_of(1, "", "m"), &options); /* its loop runs in its calls */
    for (unsigned i = 0; i < 2; i++) {
        poll(NULL, 0, 1500);
        redlock_lock *lock = held_acquire(face, key, NULL);
        held_release(face, &lock);
    }
}

static bool is_late(uint32_t node)
{
    return result.node[node].outcome == REDLOCK_NODE_TIMED_OUT || strstr(result.node[node].text, "of its sentinels");
}

/* Two of three nodes are a majority. */
TEST(failover, killed_master_of_three_fails_no_acquire)
{
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    start_groups(3, NULL);
    struct face *face = held_open_trusted(_i, list_of(3, "", "m"), &options);
    cluster_kill(cluster, 2);
    for (unsigned i = 0; i < 20 || !is_led_by(face, 1, 3); i++) {
        ck_assert_uint_lt(i, 20000);
        redlock_lock *lock = NULL;
        int status = face_acquire(face, key, NULL, &lock, &result);
        /* Unless another master or its Sentinels took half a second to reply, because the machine is busy. */
        if (!is_late(0) && !is_late(2))
            real_status(status, REDLOCK_OK, &result);
        if (lock)
            held_release(face, &lock);
    }
    real_until(face, held_all_usable(face));
    cluster_start(cluster, 2);
    real_until(NULL, strcmp(info(2, "role:"), "slave") == 0);
}

/* --- Slots of a cluster --- */

REAL_LONG_CASE(slot, real_bare_case, NULL);

/* Of the tag {redlock}: it is of the first master. */
#define SLOT "2639"

enum { MASTERS = 3 };

/* The first master has a replica. */
/* With tls, or with a password, or with neither. */
static const char *start_cluster(const struct cluster_tls *tls, const char *password)
{
    static char list[96];
    const char *const arguments[] = {"--cluster-node-timeout",
                                     "2000",
                                     tls        ? "--tls-cluster"
                                     : password ? "--masterauth"
                                                : NULL,
                                     tls ? "yes" : password,
                                     tls ? "--tls-replication" : NULL,
                                     "yes",
                                     NULL};
    struct cluster_node_options nodes[MASTERS + 1] = {{0}};
    for (unsigned i = 0; i <= MASTERS; i++) {
        nodes[i] = placed(i, tls);
        nodes[i].password = password;
    }
    cluster = cluster_create(MASTERS + 1,
                             &(struct cluster_options){.arguments = arguments, .nodes = nodes, .masters = MASTERS});
    real_note_descriptors();
    snprintf(list, sizeof list, "cluster%s://%s%s%s%s", tls ? "s" : "", password ? ":" : "", password ? password : "",
             password ? "@" : "", cluster_address(cluster, MASTERS)); /* it names the others */
    return list;
}

static redlock_options tagged_options(uint32_t max_ttl_ms)
{
    redlock_options options = options_of(max_ttl_ms);
    options.prefix = "{redlock}:";
    options.marker_key = "{redlock}:marker";
    return options;
}

static void set_slot(size_t server, const char *state, size_t other)
{
    char id[64], reply[256];
    ck_assert(cluster_command(cluster, other, id, sizeof id, "CLUSTER", "MYID", NULL));
    ck_assert(cluster_command(cluster, server, reply, sizeof reply, "CLUSTER", "SETSLOT", SLOT, state, id, NULL));
    ck_assert_str_eq(reply, "OK");
}

static void migrate(size_t from, size_t to)
{
    char found[1024], *port = fixture_text("%u", cluster_port(cluster, to));
    set_slot(to, "IMPORTING", from);
    set_slot(from, "MIGRATING", to);
    while (cluster_command(cluster, from, found, sizeof found, "CLUSTER", "GETKEYSINSLOT", SLOT, "1", NULL) && found[0])
        cluster_command(cluster, from, NULL, 0, "MIGRATE", "127.0.0.1", port, found, "0", "5000", NULL);
    set_slot(to, "NODE", to);
    for (size_t i = 0; i < MASTERS; i++)
        set_slot(i, "NODE", to);
    free(port);
}

static bool migrate_slot(size_t from, size_t to)
{
    migrate(from, to);
    return true;
}

static bool fail_over_cluster(size_t from, size_t to)
{
    (void)from;
    if (strcmp(info(to, "role:"), "slave") == 0)
        cluster_command(cluster, to, NULL, 0, "CLUSTER", "FAILOVER", NULL);
    return false;
}

static bool take_over(size_t from, size_t to)
{
    (void)from;
    if (strcmp(info(to, "role:"), "slave") == 0)
        cluster_command(cluster, to, NULL, 0, "CLUSTER", "FAILOVER", "TAKEOVER", NULL);
    return false;
}

static bool is_good_for_cluster(size_t from, size_t to)
{
    char state[4096];
    bool is_good = strcmp(info(to, "role:"), "slave") == 0 && replica_is_online(from);
    for (size_t i = 0; i <= MASTERS && is_good; i++)
        is_good = cluster_command(cluster, i, state, sizeof state, "CLUSTER", "NODES", NULL) && !strstr(state, "fail");
    return is_good;
}

static bool is_always_possible(size_t from, size_t to)
{
    return from != to;
}

#define TAGGED_KEY "{redlock}:" real_key("watched")

static const struct change moves[] = {
    {"cluster, master killed", kill_master, is_good_for_cluster, MASTERS, true, .killed = true, TAGGED_KEY,
     KILLED_MAX_TTL_MS},
    {"cluster, by hand", fail_over_cluster, is_good_for_cluster, MASTERS, true, .killed = false, TAGGED_KEY, MAX_TTL_MS,
     .tls = TLS_IS_BUILT},
    {"cluster, taken over", take_over, is_good_for_cluster, MASTERS, true, .killed = false, TAGGED_KEY, MAX_TTL_MS,
     .password = "of-the-cluster"},
    {"cluster, slot moved", migrate_slot, is_always_possible, 1, false, .killed = false, TAGGED_KEY, MAX_TTL_MS},
};

TEST_ROWS(slot, lock_survives_its_move, ROWS(moves))
{
    if (!server_program_has(SERVER_CLUSTER_PORT))
        return;
    const struct cluster_tls certificates = moves[_i].tls ? make_certificates() : (struct cluster_tls){0};
    const char *list = start_cluster(moves[_i].tls ? &certificates : NULL, moves[_i].password);
    redlock_options options = tagged_options(moves[_i].max_ttl_ms);
    options.tls_ca_file = certificates.authority;
    change_masters(_i, &moves[_i], list, &options);
}

static bool has_finding(struct face *face, uint32_t finding)
{
    return held_node_status(face, 0).findings & finding;
}

TEST(slot, each_obstacle_has_a_finding_that_names_it)
{
    if (!server_program_has(SERVER_CLUSTER_PORT))
        return;
    redlock_client *client;
    const char *list = start_cluster(NULL, NULL);
    redlock_options options = tagged_options(SHORT_MAX_TTL_MS), untagged = options;
    untagged.marker_key = "{lock}:marker";
    real_status(redlock_connect(list, &untagged, &client, &result), REDLOCK_INVALID, &result);
    held_result_says("prefix '{redlock}:' and marker_key '{lock}:marker' have no common {tag}");

    struct face *face = held_open_trusted(_i, list, &options);
    redlock_lock *lock = held_acquire(face, key, NULL);
    cluster_stop(cluster, 1); /* two other masters are a majority, and one is not */
    real_until(face, !held_node_status(face, 0).usable);
    real_until(face, has_finding(face, REDLOCK_FINDING_WITNESSES_SILENT));
    ck_assert(face_extend(face, lock, 0, &result) != REDLOCK_OK);
    cluster_resume(cluster, 1);
    real_until(face, held_all_usable(face));
    ck_assert_uint_eq(held_node_status(face, 0).findings, 0);
    face_release(face, &lock, &result);

    for (size_t i = 0; i < MASTERS; i++)
        cluster_command(cluster, i, NULL, 0, "CLUSTER", "DELSLOTS", SLOT, NULL);
    real_until(face, has_finding(face, REDLOCK_FINDING_MASTER_UNKNOWN));
    ck_assert_ptr_nonnull(strstr(held_node_status(face, 0).witnesses, "knows no master of the slot"));
    held_refuse(face, key, NULL, REDLOCK_NO_QUORUM);
    held_close(face);
    cluster_destroy(cluster);

    cluster = cluster_create(2, &(struct cluster_options){.nodes = (const struct cluster_node_options[]){
                                                              {.cluster_mode = false}, {.cluster_mode = true}}});
    for (unsigned i = 0; i < 2; i++) {
        char *alone = fixture_text("cluster://127.0.0.1:%u", cluster_port(cluster, i));
        face = face_open(face_of(_i), alone, &options);
        real_until(face, has_finding(face, REDLOCK_FINDING_WITNESSES_SILENT));
        ck_assert_ptr_nonnull(
            strstr(held_node_status(face, 0).witnesses,
                   i ? "its cluster has 1 masters with slots; 3 to 16 are needed" : "it is not in cluster mode"));
        held_close(face);
        free(alone);
    }
}

/* --- An old master that takes writes, beside a client that is cut off with it --- */

REAL_CASE(cut, real_bare_case, NULL);
REAL_CASE(voted, real_bare_case, NULL);

enum who { NO_CLIENT, CUT_OFF, FOLLOWING };

/*
 * Either the old master and a client are in a network namespace, which is cut off: nobody there hears of the failover. Or
 * the old master hangs, and goes on after the failover: for some seconds, until its Sentinels make it a replica, it takes
 * writes, and the client, whose connections to the Sentinels hang, may still be connected to it. The other client
 * follows the failover and gets the lock when the new master has left quarantine, or keeps it.
 */
static const struct scene {
    bool network; /* needs root */
    bool cluster;
    enum who holds; /* the lock before */
} scenes[] = {
    {false, false, NO_CLIENT}, {true, false, CUT_OFF},  {true, false, FOLLOWING},
    {true, true, CUT_OFF},     {true, true, FOLLOWING},
};

static bool takes_writes(size_t server)
{
    char reply[256];
    return cluster_command(cluster, server, reply, sizeof reply, "SET", "{redlock}:" real_key("probe"), "", NULL) &&
           strcmp(reply, "OK") == 0;
}

/* The servers, and the list of the client that is to be cut off, and of the other. */
static void start_scene(const struct scene *scene, struct delay_proxy **proxy, char **lists)
{
    const char *list = scene->cluster ? start_cluster(NULL, NULL) : NULL;
    if (scene
            ->cluster) /* usually it refuses writes when it has been cut off for as long as makes the others replace it */
        cluster_command(cluster, 0, NULL, 0, "CONFIG", "SET", "cluster-node-timeout", "600000", NULL);
    else
        start_groups(1, NULL);
    lists[1] = fixture_text("%s", list ? list : list_of(1, "", "m"));
    if (scene->network) {
        lists[0] = fixture_text("%s", lists[1]);
        return;
    }
    *proxy = delay_proxy_start(groups[0].port, SENTINELS);
    lists[0] = fixture_text("sentinel://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/m", delay_proxy_port(*proxy, 0),
                            delay_proxy_port(*proxy, 1), delay_proxy_port(*proxy, 2));
    real_note_descriptors();
}

/* A master that a busy machine holds up is not replaced. */
static void end_failovers(void)
{
    for (unsigned i = 0; i < SENTINELS && group_count; i++)
        ask(groups[0].port[i], NULL, "SENTINEL", "SET", "m", "down-after-milliseconds", "600000", NULL);
}

static void cut_off(struct delay_proxy *proxy, struct face *with, size_t promoted)
{
    if (!proxy) {
        network_cut(0, NETWORK_TO_NODE | NETWORK_FROM_NODE);
        real_until(with, strcmp(info(promoted, "role:"), "master") == 0);
        real_until(with, !group_count || naming(promoted) > SENTINELS / 2);
        end_failovers();
        return;
    }
    cluster_stop(cluster, 0);
    for (unsigned i = 0; i < SENTINELS; i++)
        delay_proxy_hold(proxy, i, PROXY_BOTH);
    real_until(with, naming(promoted) > SENTINELS / 2);
    end_failovers();
    cluster_resume(cluster, 0);
}

static void heal(struct delay_proxy *proxy)
{
    if (!proxy)
        network_cut(0, 0);
    for (unsigned i = 0; i < SENTINELS && proxy; i++)
        delay_proxy_let_go(proxy, i, PROXY_BOTH);
}

/* A client in the first master's network. */
static struct face *open_apart(const char *list, const redlock_options *options)
{
    network_enter(0);
    struct face *face = held_open_trusted(BLOCKING_FACE, list, options);
    network_enter(NETWORK_CLIENTS);
    return face;
}

/* It may still hold the lock. */
static void refuse_cut_off(struct face *without, redlock_lock *held)
{
    redlock_lock *lock = NULL;
    if (!held || redlock_validity_ms(held) == 0)
        ck_assert_int_ne(face_acquire(without, key, NULL, &lock, &result), REDLOCK_OK);
}

TEST_ROWS(cut, old_master_grants_nothing_to_the_client, ROWS(scenes))
{
    const struct scene *scene = &scenes[_i];
    const uint32_t max_ttl_ms = scene->holds == FOLLOWING ? 6000 : SHORT_MAX_TTL_MS;
    const size_t promoted = scene->cluster ? MASTERS : 1;
    const char *name = scene->cluster ? TAGGED_KEY : key;
    const char *why;
    char *lists[2];
    struct delay_proxy *proxy = NULL;
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);
    if (scene->cluster && !server_program_has(SERVER_CLUSTER_PORT))
        return;
    if (scene->network && !network_make(1, &why)) {
        fprintf(stderr, "not tried: %s\n", why);
        return;
    }
    start_scene(scene, &proxy, lists);
    redlock_options options = scene->cluster ? tagged_options(max_ttl_ms) : options_of(max_ttl_ms);
    options.silence_limit_ms = 60000; /* the connection stays */
    struct face *with = held_open_trusted(_i, lists[1], &options);
    struct face *without =
        scene->network ? open_apart(lists[0], &options) : held_open_trusted(_i + 1, lists[0], &options);

    struct face *holder = scene->holds == FOLLOWING ? with : without;
    redlock_lock *before = held_acquire(holder, key, &acquire), *after = NULL;
    if (scene->holds == NO_CLIENT)
        held_release(holder, &before);
    long long written = 0;
    real_until(holder, has_all(promoted, 0, &written));
    cut_off(proxy, with, promoted);
    uint64_t deadline = test_deadline_ns(3 * REAL_SOON_MS);
    while (scene->holds == FOLLOWING ? cluster_integer(cluster, 0, "EXISTS", name, NULL) == 1 : !after) {
        ck_assert_int_gt(test_ms_left(deadline), 0);
        if (scene->holds != FOLLOWING && face_acquire(with, key, NULL, &after, &result) == REDLOCK_OK)
            ck_assert(!before || redlock_validity_ms(before) == 0);
        refuse_cut_off(without, scene->holds == CUT_OFF ? before : NULL);
        real_turn(with);
    }
    bool beside = takes_writes(0); /* and it has not the key any more */
    for (deadline = test_deadline_ns(SHORT_MAX_TTL_MS); test_ms_left(deadline) > 0;) {
        refuse_cut_off(without, NULL);
        beside = beside || takes_writes(0);
        real_turn(with);
    }
    ck_assert(beside || !scene->network);
    if (!beside)
        fprintf(stderr, "the old master was a replica before the new one left quarantine: nothing is shown\n");
    if (scene->holds == FOLLOWING && !held_is_lost(&story)) /* a busy machine fails over slowly */
        ck_assert(held_is_on(promoted, name, before));
    ck_assert(scene->holds != CUT_OFF || held_is_lost(&story));

    if (before)
        face_release(holder, &before, &result);
    if (after)
        face_release(with, &after, &result);
    heal(proxy);
    real_until(without, is_led_by(without, 0, promoted));
    redlock_lock *lock = held_acquire(without, key, REDLOCK_WAIT_MS(REAL_SOON_MS));
    held_release(without, &lock);
    free(lists[0]);
    free(lists[1]);
}

/* The Sentinel has voted for a failover; this request votes for none. */
static bool has_voted(unsigned i)
{
    char *port = fixture_text("%u", cluster_port(cluster, 0));
    const char *reply = ask(groups[0].port[i], NULL, "SENTINEL", "IS-MASTER-DOWN-BY-ADDR", host_of(0), port, "0",
                            "0123456789012345678901234567890123456789", NULL);
    const char *epoch = strrchr(reply, ' ');
    free(port);
    return epoch && atoi(epoch) > 0;
}

static void allow_promotion(bool allows)
{
    cluster_command(cluster, 1, NULL, 0, "ACL", "SETUSER", "default", allows ? "+slaveof" : "-slaveof",
                    allows ? "+replicaof" : "-replicaof", NULL);
}

/*
 * Two of three Sentinels vote for a failover, and are cut off, with the old master and a client, before they hear how it
 * went. They still confirm the old master, so that client keeps its lock. The one that leads the failover has promoted the
 * replica, and names it alone: no client uses the new master before a majority has heard of it.
 */
TEST(voted, majority_keeps_the_old_master)
{
    const char *why;
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    if (!network_make(1, &why)) {
        fprintf(stderr, "not tried: %s\n", why);
        return;
    }
    apart = 2;
    start_groups(1, NULL);
    struct face *with = held_open_trusted(_i, list_of(1, "", "m"), &options);
    struct face *without = open_apart(list_of(1, "", "m"), &options);
    redlock_lock *before = held_acquire(without, key, &acquire), *after = NULL;
    long long written = 0;
    real_until(without, has_all(1, 0, &written));
    for (unsigned i = 0; i < apart; i++)
        ask(groups[0].port[i], NULL, "SENTINEL", "SET", "m", "down-after-milliseconds", "600000", NULL);
    ask(groups[0].port[2], NULL, "SENTINEL", "SET", "m", "quorum", "1", "failover-timeout", "60000", NULL);
    allow_promotion(false); /* the leader waits for it meanwhile */
    network_cut_port(0, cluster_port(cluster, 0));
    real_until(with, has_voted(0) && has_voted(1));
    network_cut(0, NETWORK_TO_NODE | NETWORK_FROM_NODE);
    allow_promotion(true);
    ck_assert(cluster_command(cluster, 1, NULL, 0, "REPLICAOF", "NO", "ONE", NULL));
    real_until(with, naming(1) == 1);
    end_failovers();

    /* For longer than the quarantine of a master that is followed. */
    for (uint64_t deadline = test_deadline_ns(SHORT_MAX_TTL_MS + 4000); test_ms_left(deadline) > 0;) {
        ck_assert_int_ne(face_acquire(with, key, NULL, &after, &result), REDLOCK_OK);
        real_turn(with);
    }
    ck_assert_uint_eq(naming(0), 2);
    real_until(without, held_all_usable(without)); /* on a busy machine its lock may have ended */
    network_cut(0, 0);
    while (!after) {
        if (face_acquire(with, key, NULL, &after, &result) == REDLOCK_OK)
            ck_assert_int_eq(redlock_validity_ms(before), 0);
        refuse_cut_off(without, before);
        real_turn(with);
    }
    real_until(without, held_is_lost(&story) && is_led_by(without, 0, 1));
    face_release(without, &before, &result);
    held_release(with, &after);
}

/* --- Sentinels that are of no use --- */

REAL_CASE(useless, real_bare_case, NULL);

TEST(useless, each_has_a_finding_that_names_it)
{
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    start_groups(1, "secret");
    struct face *face = face_open(face_of(_i), list_of(1, "", "m"), &options);
    real_until(face, has_finding(face, REDLOCK_FINDING_WITNESSES_SILENT));
    ck_assert_ptr_nonnull(strstr(held_node_status(face, 0).witnesses, "NOAUTH"));
    held_refuse(face, key, NULL, REDLOCK_NO_QUORUM);
    held_close(face);

    face = face_open(face_of(_i), list_of(1, ":secret@", "other"), &options);
    real_until(face, has_finding(face, REDLOCK_FINDING_MASTER_UNKNOWN));
    ck_assert_ptr_nonnull(strstr(held_node_status(face, 0).witnesses, "knows no such master"));
    real_until(face, strstr(held_node_status(face, 0).error, "no master of this name"));
    held_refuse(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS), REDLOCK_MISCONFIGURED);
    held_close(face);

    face = held_open_trusted(_i, list_of(1, ":secret@", "m"), &options);
    redlock_lock *lock = held_acquire(face, key, NULL);
    ck_assert_uint_eq(held_node_status(face, 0).findings, 0);
    for (unsigned i = 0; i < 2; i++)
        process_signal(&groups[0].process[i], SIGSTOP);
    real_until(face, !held_node_status(face, 0).usable); /* their last replies are too old */
    ck_assert(face_extend(face, lock, 0, &result) != REDLOCK_OK);
    real_until(face, has_finding(face, REDLOCK_FINDING_WITNESSES_SILENT));
    for (unsigned i = 0; i < 2; i++)
        process_signal(&groups[0].process[i], SIGCONT);
    real_until(face, held_all_usable(face));
    ck_assert_uint_eq(held_node_status(face, 0).findings, 0);
    face_release(face, &lock, &result);
    held_close(face);
}

/* true: no allocation failed in this run, so k has passed the last one. */
static bool live(size_t k)
{
    redlock_client *client = NULL;
    redlock_lock *lock;
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    struct test_allocator *allocator = test_allocator_new();
    options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
    test_allocator_fail_at(allocator, k);
    int status = redlock_connect(list_of(1, "", "m"), &options, &client, &result);
    if (status == REDLOCK_OK) {
        status = redlock_acquire(client, key, REDLOCK_WAIT_MS(REAL_SOON_MS), &lock, &result);
        if (status == REDLOCK_OK)
            redlock_release(&lock, NULL, NULL);
        test_allocator_fail_at(allocator, 0);
        redlock_close(&client, NULL, NULL);
    }
    bool flawless = test_allocator_failures(allocator) == 0;
    ck_assert_msg(status == REDLOCK_OK || (status == REDLOCK_NO_MEMORY && !flawless), "allocation %zu failed: %s", k,
                  redlock_status_name(status));
    if (test_allocator_live(allocator) > 0)
        test_allocator_list(allocator, stderr);
    ck_assert_msg(test_allocator_live(allocator) == 0, "allocation %zu failed, and memory leaked", k);
    test_allocator_free(allocator);
    return flawless;
}

TEST(useless, no_allocation_that_fails_leaks_or_aborts)
{
    size_t k = 1;
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    start_groups(1, NULL);
    held_open_trusted(BLOCKING_FACE, list_of(1, "", "m"), &options);
    while (k < 1000 && !live(k))
        k++;
    ck_assert_uint_gt(k, 20); /* so allocations did fail */
    ck_assert_uint_lt(k, 1000);
}

TEST(useless, node_needs_the_guard)
{
    redlock_client *client;
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    options.guard = 0;
    real_status(redlock_connect("sentinel://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/m", &options, &client, &result),
                REDLOCK_INVALID, &result);
    held_result_says("needs the guard");
}

REAL_FAULTS_PROGRAM("real/sentinel")
