/* Nodes behind real Sentinels, and in real Redis Clusters: failovers by votes and by hand, a slot that moves, an old master
 * that takes writes again beside a client that is cut off from the Sentinels, and witnesses that are silent, know no such
 * name or slot, or want a password. */
#include "real/held.h"
#include "real/tls_certificates.h"

#include "support/allocator.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/network.h"
#include "support/process.h"
#include "support/raw_client.h"
#include "support/sockets.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* A killed master is replaced after two to three seconds, which a lock must outlast. */
enum { KILLED_MAX_TTL_MS = 8000, MAX_TTL_MS = 4000, SHORT_MAX_TTL_MS = 2000 };
enum { SENTINELS = 3, GROUPS = 3, MASTERS = 3, SERVERS_MOST = 2 * GROUPS };

static const char key[] = real_key("watched");

/* The deployment of a test. */
struct setting {
    unsigned groups; /* each is a node behind Sentinels; 0: one node in a Redis Cluster */
    unsigned apart;  /* this number of Sentinels is in the first master's network */
    bool tls;        /* of all connections */
    bool secret;     /* the Sentinels, or the servers of the cluster, have the password "secret" */
};

/* A node: the servers 2i (the first master) and 2i + 1 of the cluster, and their Sentinels. */
static struct group {
    uint16_t port[SENTINELS];
    int reservation[SENTINELS];
    struct process process[SENTINELS];
} groups[GROUPS];
static struct setting setting;
static struct cluster_tls certificates;
static struct temp_dir *directory; /* of the Sentinels */

/* --- The servers and their Sentinels --- */

/* The elements of the reply to the words, ended by NULL, one a line; "" while it does not listen yet. */
static __attribute__((sentinel)) const char *ask(unsigned port, ...)
{
    static char text[4096];
    char *path = fixture_text("%s/%u.sock", temp_dir_path(directory), port); /* its port may speak TLS */
    const struct raw_client_place place = {.path = path, .password = setting.secret ? "secret" : NULL};
    struct resp_argument words[RESP_MOST_WORDS];
    struct bytes elements = {0};
    va_list arguments;
    va_start(arguments, port);
    size_t count = resp_words(words, arguments);
    va_end(arguments);
    bool replied = raw_client_ask(&place, test_deadline_ns(REAL_SOON_MS), count, words, &elements);
    snprintf(text, sizeof text, "%.*s", replied ? (int)elements.length : 0, elements.data);
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

static bool is_replica(size_t server)
{
    return strcmp(info(server, "role:"), "slave") == 0;
}

static bool replica_is_online(size_t master)
{
    return strstr(info(master, "slave0:"), "state=online");
}

/* Where there is a network, the first server is in a namespace of its own, and all others are in that of the clients. */
static const char *host_of(size_t server)
{
    return server == 0 ? network_host(0) : network_clients(0);
}

static const char *sentinel_host(unsigned i)
{
    return i < setting.apart ? network_host(0) : network_clients(0);
}

static void start_sentinel(struct group *group, unsigned i, size_t master)
{
    const char *place = temp_dir_path(directory);
    char *path = fixture_text("%s/%u.conf", place, group->port[i]);
    char *tls = NULL;
    if (setting.tls)
        tls = fixture_text("port 0\ntls-replication yes\ntls-auth-clients no\ntls-cert-file %s\ntls-key-file %s\n"
                           "tls-ca-cert-file %s\ntls-",
                           certificates.certificate, certificates.key, certificates.authority);
    char *conf = fixture_text("%sport %u\nunixsocket %s/%u.sock\nbind %s\ndir %s\nsentinel monitor m %s %u 2\n"
                              "sentinel down-after-milliseconds m 1000\nsentinel failover-timeout m 5000\n%s",
                              tls ? tls : "", group->port[i], place, group->port[i], sentinel_host(i), place,
                              host_of(master), cluster_port(cluster, master),
                              setting.secret ? "requirepass secret\nsentinel sentinel-pass secret\n" : "");
    file_write(path, conf, strlen(conf));
    char *program = fixture_text("%s", server_program()), mode[] = "--sentinel";
    char *const argv[] = {program, path, mode, NULL};
    if (i < setting.apart)
        network_enter(0);
    process_start(&group->process[i], argv, NULL);
    if (i < setting.apart)
        network_enter(NETWORK_CLIENTS);
    free(program);
    free(conf);
    free(tls);
    free(path);
}

/* Each Sentinel knows the others and the replica, so that a failover can begin. */
static bool is_complete(const struct group *group)
{
    for (unsigned i = 0; i < SENTINELS; i++) {
        const char *state = ask(group->port[i], "SENTINEL", "MASTER", "m", NULL);
        if (!strstr(state, "num-slaves\n1") || !strstr(state, "num-other-sentinels\n2"))
            return false;
    }
    return true;
}

static void end_sentinels(void *unused)
{
    (void)unused;
    fixture_unregister(groups);
    for (unsigned i = 0; i < setting.groups * SENTINELS; i++) {
        process_kill(&groups[i / SENTINELS].process[i % SENTINELS]);
        close(groups[i / SENTINELS].reservation[i % SENTINELS]);
    }
    setting.groups = 0;
}

static void start_sentinels(void)
{
    directory = temp_dir_make();
    memset(groups, 0, sizeof groups);
    fixture_register(groups, end_sentinels);
    for (unsigned g = 0; g < setting.groups; g++) {
        char *port = fixture_text("%u", cluster_port(cluster, 2 * g));
        ck_assert(cluster_command(cluster, 2 * g + 1, NULL, 0, "REPLICAOF", host_of(2 * g), port, NULL));
        free(port);
        for (unsigned i = 0; i < SENTINELS; i++)
            groups[g].reservation[i] = socket_reserve_port(false, &groups[g].port[i]);
    }
    for (unsigned g = 0; g < setting.groups; g++) {
        real_until(NULL, replica_is_online(2 * g));
        for (unsigned i = 0; i < SENTINELS; i++)
            start_sentinel(&groups[g], i, 2 * g);
    }
    for (unsigned g = 0; g < setting.groups; g++)
        real_until(NULL, is_complete(&groups[g]));
}

/* In a Redis Cluster the first of three masters has a replica, which is the last server. */
static void start(struct setting wanted)
{
    bool in_cluster = wanted.groups == 0;
    const char *password = in_cluster && wanted.secret ? "secret" : NULL;
    const char *const arguments[] = {"--cluster-node-timeout", /* the others ignore it */
                                     "2000",
                                     wanted.tls ? "--tls-cluster"
                                     : password ? "--masterauth"
                                                : NULL,
                                     wanted.tls ? "yes" : password,
                                     wanted.tls ? "--tls-replication" : NULL,
                                     "yes",
                                     NULL};
    struct cluster_node_options nodes[SERVERS_MOST] = {{0}};
    setting = wanted;
    certificates = (struct cluster_tls){0};
    if (wanted.tls) {
        certificates_begin();
        certificates = certificates_server("server", "authority", "IP:127.0.0.1", 365);
    }
    for (unsigned i = 0; i < SERVERS_MOST; i++)
        nodes[i] = (struct cluster_node_options){.tls = wanted.tls ? &certificates : NULL,
                                                 .password = password,
                                                 .host = host_of(i),
                                                 .network = i == 0 ? network_owner(0) : 0};
    cluster = cluster_create(
        in_cluster ? MASTERS + 1 : 2 * wanted.groups,
        &(struct cluster_options){.arguments = arguments, .nodes = nodes, .masters = in_cluster ? MASTERS : 0});
    if (!in_cluster)
        start_sentinels();
    real_note_descriptors();
}

/* The nodes for redlock_connect(), valid until the next call. name: of the masters behind Sentinel. */
static const char *list_of(const char *credentials, const char *name)
{
    static char text[1024];
    const char *tls = setting.tls ? "s" : "";
    size_t used = 0;
    if (!setting.groups) /* the last server names the others */
        snprintf(text, sizeof text, "cluster%s://%s%s", tls, credentials, cluster_address(cluster, MASTERS));
    for (unsigned g = 0; g < setting.groups; g++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%ssentinel%s://%s%s:%u,%s:%u,%s:%u/%s", g ? "," : "",
                                 tls, credentials, sentinel_host(0), groups[g].port[0], sentinel_host(1),
                                 groups[g].port[1], sentinel_host(2), groups[g].port[2], name);
    return text;
}

static redlock_options options_of(uint32_t max_ttl_ms)
{
    redlock_options options = held_options(max_ttl_ms, 1);
    options.max_ttl_ms = max_ttl_ms;
    options.tls_ca_file = certificates.authority;
    if (!setting.groups) {
        options.prefix = "{redlock}:";
        options.marker_key = "{redlock}:marker";
    }
    return options;
}

/* The lock's key on a server. */
static const char *key_there(void)
{
    return setting.groups ? key : "{redlock}:" real_key("watched");
}

/* So many Sentinels of the first group name this server. */
static unsigned naming(size_t server)
{
    unsigned named = 0;
    char *address = fixture_text("%s\n%u", host_of(server), cluster_port(cluster, server));
    for (unsigned i = 0; i < SENTINELS; i++)
        named += strcmp(ask(groups[0].port[i], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m", NULL), address) == 0;
    free(address);
    return named;
}

static bool is_led_by(struct face *face, uint32_t node, size_t server)
{
    char *name = fixture_text("%s (%s)", setting.groups ? "m" : "{redlock}", cluster_address(cluster, server));
    redlock_node_status status = held_node_status(face, node);
    bool led =
        strcmp(status.name, name) == 0 && strcmp(status.state, "ready") == 0 && strcmp(status.role, "master") == 0;
    free(name);
    return led;
}

/* --- Failovers, and slots that move --- */

REAL_LONG_CASE(failover, real_bare_case, NULL);
REAL_LONG_CASE(slot, real_bare_case, NULL);

/* Of the tag {redlock}: it is of the first master. */
#define SLOT "2639"

/* How a node's master changes. */
enum way { KILLED, BY_HAND, TAKEN_OVER, SLOT_MOVED };

struct change {
    const char *name;
    enum way way;
    struct setting setting;
};

static void set_slot(size_t server, const char *state, size_t other)
{
    char id[64], reply[256];
    ck_assert(cluster_command(cluster, other, id, sizeof id, "CLUSTER", "MYID", NULL));
    ck_assert(cluster_command(cluster, server, reply, sizeof reply, "CLUSTER", "SETSLOT", SLOT, state, id, NULL));
    ck_assert_str_eq(reply, "OK");
}

static void migrate_slot(size_t from, size_t to)
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

/* Every Sentinel, or the cluster, would promote the replica. */
static bool can_be_promoted(size_t from, size_t to)
{
    char state[4096];
    bool is_good = is_replica(to) && replica_is_online(from);
    for (unsigned i = 0; i < SENTINELS && is_good && setting.groups; i++) {
        const char *replicas = ask(groups[0].port[i], "SENTINEL", "REPLICAS", "m", NULL);
        is_good = strstr(replicas, "flags\nslave\n") && strstr(replicas, "master-link-status\nok");
    }
    for (size_t i = 0; i <= MASTERS && is_good && !setting.groups; i++)
        is_good = cluster_command(cluster, i, state, sizeof state, "CLUSTER", "NODES", NULL) && !strstr(state, "fail");
    return is_good;
}

/* false: it may be refused, or given up, for a while. */
static bool begin(enum way way, size_t from, size_t to)
{
    if (way == KILLED)
        cluster_kill(cluster, from);
    else if (way == SLOT_MOVED)
        migrate_slot(from, to);
    else if (is_replica(to) && setting.groups)
        ask(groups[0].port[0], "SENTINEL", "FAILOVER", "m", NULL);
    else if (is_replica(to))
        cluster_command(cluster, to, NULL, 0, "CLUSTER", "FAILOVER", way == TAKEN_OVER ? "TAKEOVER" : NULL, NULL);
    return way == KILLED || way == SLOT_MOVED;
}

/* No write of the master, as of the first call, is missing on its replica. */
static bool has_all(size_t replica, size_t master, long long *written)
{
    if (*written == 0)
        *written = atoll(info(master, "master_repl_offset:"));
    return *written > 0 && atoll(info(replica, "slave_repl_offset:")) >= *written;
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

/* What the changes of a kind did to the lock of one client, which another tries to get. */
struct outcome {
    const struct change *change;
    uint32_t max_ttl_ms;
    struct face *face, *other;
    unsigned doubles, lost;
};

/* A lock on one node, whose master is the server `from` before the change, and `to` after it. false: the machine was so
 * busy that the master changed by itself before. */
static bool follow(struct outcome *outcome, size_t from, size_t to)
{
    const enum way way = outcome->change->way;
    struct face *face = outcome->face, *other = outcome->other;
    bool is_moved = false;
    uint64_t again = 0, deadline = test_deadline_ns(4 * REAL_SOON_MS);
    long long written = 0;
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);
    real_until(face, way == SLOT_MOVED || can_be_promoted(from, to) || is_led_by(face, 0, to));
    redlock_lock *lock = held_acquire(face, key, &acquire);
    if (way != SLOT_MOVED) /* otherwise the failover loses the lock */
        real_until(face, has_all(to, from, &written) || is_led_by(face, 0, to));
    if (is_led_by(face, 0, to)) {
        face_release(face, &lock, &result);
        real_until(other, is_led_by(other, 0, to));
        return false;
    }
    while (!is_led_by(face, 0, to)) {
        if (!is_moved && test_ms_left(again) == 0) {
            is_moved = begin(way, from, to);
            again = test_deadline_ns(8000);
        }
        redlock_node_status now = held_node_status(face, 0);
        ck_assert_msg(test_ms_left(deadline) > 0, "%s, %s: %s; %s", now.name, now.state, now.error, now.witnesses);
        outcome->doubles += is_double(other, lock);
        real_turn(face);
    }
    redlock_node_status status = held_node_status(face, 0);
    ck_assert_int_le(status.quarantine_ms, outcome->max_ttl_ms * 101 / 100 + 2 + 1000); /* with the drift */
    ck_assert_int_gt(status.quarantine_ms, 0);
    ck_assert_uint_eq(status.usable, 0);
    real_until(other, is_led_by(other, 0, to));
    held_refuse(other, real_key("another"), NULL, REDLOCK_NO_QUORUM);
    real_until(face, held_all_usable(face)); /* by itself */
    real_until(other, held_all_usable(other));
    outcome->doubles += is_double(other, lock);
    if (!held_is_lost(&story)) {
        ck_assert(held_is_on(to, key_there(), lock));
        held_refuse(other, key, NULL, REDLOCK_HELD);
    } else {
        outcome->lost++; /* a busy machine fails over slowly */
        printf("%s: lost: %s\n", outcome->change->name, redlock_loss_name(atomic_load(&story.loss)));
    }
    face_release(face, &lock, &result);
    redlock_lock *second = held_acquire(other, key, REDLOCK_WAIT_MS(REAL_SOON_MS));
    held_release(other, &second);
    if (way == KILLED)
        cluster_start(cluster, from);
    return true;
}

/* $REDLOCK_FAILOVERS of them: over, back, and over again. */
static void change_masters(int i, const struct change *change)
{
    unsigned trials = real_setting("REDLOCK_FAILOVERS", 1);
    start(change->setting);
    const size_t next = setting.groups || change->way == SLOT_MOVED ? 1 : MASTERS;
    const char *list = list_of(setting.secret ? ":secret@" : "", "m");
    struct outcome outcome = {.change = change, .max_ttl_ms = change->way == KILLED ? KILLED_MAX_TTL_MS : MAX_TTL_MS};
    redlock_options options = options_of(outcome.max_ttl_ms);
    outcome.face = held_open_trusted(i, list, &options);
    outcome.other = held_open(i + 1, list, &options);
    ck_assert(is_led_by(outcome.face, 0, 0));
    for (unsigned trial = 0, turn = 0; trial < trials; turn++)
        trial += follow(&outcome, turn % 2 ? next : 0, turn % 2 ? 0 : next);
    if (getenv("REDLOCK_FAILOVERS"))
        printf("%s: %u of %u gave two holders, %u locks were lost\n", change->name, outcome.doubles, trials,
               outcome.lost);
    ck_assert_msg(outcome.doubles == 0, "%s: two holders", change->name);
}

static const struct change failovers[] = {
    {"Sentinel, master killed", KILLED, {.groups = 1}},
    {"Sentinel, by hand", BY_HAND, {.groups = 1, .tls = TLS_IS_BUILT}}, /* where the library has it */
};

TEST_ROWS(failover, lock_survives_and_node_votes_again, ROWS(failovers))
{
    change_masters(_i, &failovers[_i]);
}

static const struct change moves[] = {
    {"cluster, master killed", KILLED, {.groups = 0}},
    {"cluster, by hand", BY_HAND, {.tls = TLS_IS_BUILT}},
    {"cluster, taken over", TAKEN_OVER, {.secret = true}},
    {"cluster, slot moved", SLOT_MOVED, {.groups = 0}},
};

TEST_ROWS(slot, lock_survives_its_move, ROWS(moves))
{
    if (server_program_has(SERVER_CLUSTER_PORT))
        change_masters(_i, &moves[_i]);
}

/* What the Sentinels said before is too old, and their next replies are waited for. */
TEST(failover, client_that_stood_still_acquires_at_once)
{
    start((struct setting){.groups = 1});
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    struct face *face = held_open_trusted(1, list_of("", "m"), &options); /* its loop runs in its calls */
    for (unsigned i = 0; i < 2; i++) {
        poll(NULL, 0, 1500);
        redlock_lock *lock = held_acquire(face, key, NULL);
        held_release(face, &lock);
    }
}

static bool is_late(uint32_t node)
{
    return result.node[node].outcome == REDLOCK_NODE_TIMED_OUT || strstr(result.node[node].text, "sentinels");
}

/* Two of three nodes are a majority. */
TEST(failover, killed_master_of_three_fails_no_acquire)
{
    start((struct setting){.groups = 3});
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    struct face *face = held_open_trusted(_i, list_of("", "m"), &options);
    cluster_kill(cluster, 2);
    uint64_t deadline = test_deadline_ns(4 * REAL_SOON_MS); /* a Sentinel that was held up does nothing for 30 s */
    for (unsigned i = 0; i < 20 || !is_led_by(face, 1, 3); i++) {
        ck_assert_int_gt(test_ms_left(deadline), 0);
        redlock_lock *lock = NULL;
        int status = face_acquire(face, key, NULL, &lock, &result);
        /* Unless another master or its Sentinels took half a second to reply, because the machine is busy. */
        if (!is_late(0) && !is_late(2))
            real_status(status, REDLOCK_OK, &result);
        if (lock)
            held_release(face, &lock);
        real_turn(face);
    }
    real_until(face, held_all_usable(face));
    cluster_start(cluster, 2);
    real_until(NULL, is_replica(2));
}

/* Waits until the node has the finding, and fails unless its witnesses are described in these words. */
static void await_finding(struct face *face, uint32_t finding, const char *words)
{
    real_until(face, held_node_status(face, 0).findings & finding);
    ck_assert_ptr_nonnull(strstr(held_node_status(face, 0).witnesses, words));
}

TEST(slot, each_obstacle_has_a_finding_that_names_it)
{
    if (!server_program_has(SERVER_CLUSTER_PORT))
        return;
    redlock_client *client;
    start((struct setting){.groups = 0});
    const char *list = list_of("", "m");
    redlock_options options = options_of(SHORT_MAX_TTL_MS), untagged = options;
    untagged.marker_key = "{lock}:marker";
    real_status(redlock_connect(list, &untagged, &client, &result), REDLOCK_INVALID, &result);
    held_result_says("prefix '{redlock}:' and marker_key '{lock}:marker' have no common {tag}");

    struct face *face = held_open_trusted(_i, list, &options);
    redlock_lock *lock = held_acquire(face, key, NULL);
    cluster_stop(cluster, 1); /* two other masters are a majority, and one is not */
    real_until(face, !held_node_status(face, 0).usable);
    await_finding(face, REDLOCK_FINDING_WITNESSES_SILENT, "");
    ck_assert(face_extend(face, lock, 0, &result) != REDLOCK_OK);
    cluster_resume(cluster, 1);
    real_until(face, held_all_usable(face));
    ck_assert_uint_eq(held_node_status(face, 0).findings, 0);
    face_release(face, &lock, &result);

    for (size_t i = 0; i < MASTERS; i++)
        cluster_command(cluster, i, NULL, 0, "CLUSTER", "DELSLOTS", SLOT, NULL);
    await_finding(face, REDLOCK_FINDING_MASTER_UNKNOWN, "knows no master of the slot");
    held_refuse(face, key, NULL, REDLOCK_NO_QUORUM);
    held_close(face);
    cluster_destroy(cluster);

    cluster = cluster_create(2, &(struct cluster_options){.nodes = (const struct cluster_node_options[]){
                                                              {.cluster_mode = false}, {.cluster_mode = true}}});
    for (unsigned i = 0; i < 2; i++) {
        char *alone = fixture_text("cluster://127.0.0.1:%u", cluster_port(cluster, i));
        face = face_open(face_of(_i), alone, &options);
        await_finding(face, REDLOCK_FINDING_WITNESSES_SILENT,
                      i ? "its cluster has 1 masters with slots; 3 to 16 are needed" : "it is not in cluster mode");
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

/* A master that a busy machine holds up is not replaced. */
static void end_failovers(unsigned sentinels)
{
    for (unsigned i = 0; i < sentinels; i++)
        ask(groups[0].port[i], "SENTINEL", "SET", "m", "down-after-milliseconds", "600000", NULL);
}

/* Until `promoted` is the master instead. */
static void cut_off(struct delay_proxy *proxy, struct face *with, size_t promoted)
{
    if (!proxy)
        network_cut(0, NETWORK_TO_NODE | NETWORK_FROM_NODE);
    else
        cluster_stop(cluster, 0);
    for (unsigned i = 0; i < SENTINELS && proxy; i++)
        delay_proxy_hold(proxy, i, PROXY_BOTH);
    real_until(with, strcmp(info(promoted, "role:"), "master") == 0);
    real_until(with, !setting.groups || naming(promoted) > SENTINELS / 2);
    end_failovers(setting.groups * SENTINELS);
    if (proxy)
        cluster_resume(cluster, 0);
}

static bool make_network(void)
{
    const char *why;
    bool is_made = network_make(1, &why);
    if (!is_made)
        fprintf(stderr, "not tried: %s\n", why);
    return is_made;
}

/* A client in the first master's network. */
static struct face *open_apart(const redlock_options *options)
{
    network_enter(0);
    struct face *face = held_open_trusted(BLOCKING_FACE, list_of("", "m"), options);
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
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);
    if ((scene->cluster && !server_program_has(SERVER_CLUSTER_PORT)) || (scene->network && !make_network()))
        return;
    start((struct setting){.groups = !scene->cluster});
    if (scene
            ->cluster) /* usually it refuses writes when it has been cut off for as long as makes the others replace it */
        cluster_command(cluster, 0, NULL, 0, "CONFIG", "SET", "cluster-node-timeout", "600000", NULL);
    struct delay_proxy *proxy = scene->network ? NULL : delay_proxy_start(NULL, groups[0].port, SENTINELS);
    char *behind = proxy ? fixture_text("sentinel://%s/m", delay_proxy_nodes_string(proxy)) : NULL;
    real_note_descriptors();
    redlock_options options = options_of(max_ttl_ms);
    options.silence_limit_ms = 60000; /* the connection stays */
    struct face *with = held_open_trusted(_i, list_of("", "m"), &options);
    struct face *without = proxy ? held_open_trusted(_i + 1, behind, &options) : open_apart(&options);
    free(behind);

    struct face *holder = scene->holds == FOLLOWING ? with : without;
    redlock_lock *before = held_acquire(holder, key, &acquire), *after = NULL;
    if (scene->holds == NO_CLIENT)
        held_release(holder, &before);
    long long written = 0;
    real_until(holder, has_all(promoted, 0, &written));
    cut_off(proxy, with, promoted);
    uint64_t deadline = test_deadline_ns(3 * REAL_SOON_MS);
    while (scene->holds == FOLLOWING ? cluster_integer(cluster, 0, "EXISTS", key_there(), NULL) == 1 : !after) {
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
        ck_assert(held_is_on(promoted, key_there(), before));
    ck_assert(scene->holds != CUT_OFF || held_is_lost(&story));

    if (before)
        face_release(holder, &before, &result);
    if (after)
        face_release(with, &after, &result);
    if (!proxy)
        network_cut(0, 0);
    for (unsigned i = 0; i < SENTINELS && proxy; i++)
        delay_proxy_let_go(proxy, i, PROXY_BOTH);
    real_until(without, is_led_by(without, 0, promoted));
    redlock_lock *lock = held_acquire(without, key, REDLOCK_WAIT_MS(REAL_SOON_MS));
    held_release(without, &lock);
}

/* The Sentinel has voted for a failover; this request votes for none. */
static bool has_voted(unsigned i)
{
    char *port = fixture_text("%u", cluster_port(cluster, 0));
    const char *reply = ask(groups[0].port[i], "SENTINEL", "IS-MASTER-DOWN-BY-ADDR", host_of(0), port, "0",
                            "0123456789012345678901234567890123456789", NULL);
    const char *epoch = strrchr(reply, '\n');
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
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);
    if (!make_network())
        return;
    start((struct setting){.groups = 1, .apart = 2});
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    struct face *with = held_open_trusted(_i, list_of("", "m"), &options), *without = open_apart(&options);
    redlock_lock *before = held_acquire(without, key, &acquire), *after = NULL;
    long long written = 0;
    real_until(without, has_all(1, 0, &written));
    end_failovers(setting.apart);
    ask(groups[0].port[2], "SENTINEL", "SET", "m", "quorum", "1", "failover-timeout", "60000", NULL);
    allow_promotion(false); /* the leader waits for it meanwhile */
    network_cut_port(0, cluster_port(cluster, 0));
    real_until(with, has_voted(0) && has_voted(1));
    network_cut(0, NETWORK_TO_NODE | NETWORK_FROM_NODE);
    allow_promotion(true);
    ck_assert(cluster_command(cluster, 1, NULL, 0, "REPLICAOF", "NO", "ONE", NULL));
    real_until(with, naming(1) == 1);
    end_failovers(SENTINELS);

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

/* --- Sentinels that refuse the client --- */

REAL_CASE(useless, real_bare_case, NULL);

TEST(useless, each_has_a_finding_that_names_it)
{
    start((struct setting){.groups = 1, .secret = true});
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    struct face *face = face_open(face_of(_i), list_of("", "m"), &options);
    await_finding(face, REDLOCK_FINDING_WITNESSES_SILENT, "NOAUTH");
    held_refuse(face, key, NULL, REDLOCK_NO_QUORUM);
    held_close(face);

    face = face_open(face_of(_i), list_of(":secret@", "other"), &options);
    await_finding(face, REDLOCK_FINDING_MASTER_UNKNOWN, "knows no such master");
    real_until(face, strstr(held_node_status(face, 0).error, "no master of this name"));
    held_refuse(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS), REDLOCK_MISCONFIGURED);
    held_close(face);

    face = held_open_trusted(_i, list_of(":secret@", "m"), &options);
    redlock_lock *lock = held_acquire(face, key, NULL);
    ck_assert_uint_eq(held_node_status(face, 0).findings, 0);
    held_release(face, &lock);
}

TEST(useless, no_allocation_that_fails_leaks_or_aborts)
{
    start((struct setting){.groups = 1});
    const char *list = list_of("", "m");
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    size_t k = 0;
    held_open_trusted(BLOCKING_FACE, list, &options);
    for (bool failed = true; failed && k < 1000;) {
        redlock_client *client;
        redlock_lock *lock = NULL;
        struct test_allocator *allocator = test_allocator_new();
        options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
        test_allocator_fail_at(allocator, ++k);
        int status = redlock_connect(list, &options, &client, &result);
        if (status == REDLOCK_OK)
            status = redlock_acquire(client, key, REDLOCK_WAIT_MS(REAL_SOON_MS), &lock, &result);
        if (lock)
            redlock_release(&lock, NULL, NULL);
        test_allocator_fail_at(allocator, 0);
        redlock_close(&client, NULL, NULL);
        failed = test_allocator_failures(allocator) > 0;
        ck_assert_msg(status == REDLOCK_OK || (status == REDLOCK_NO_MEMORY && failed), "allocation %zu failed: %s", k,
                      redlock_status_name(status));
        ck_assert_msg(test_allocator_live(allocator) == 0, "allocation %zu failed, and memory leaked", k);
        test_allocator_free(allocator);
    }
    ck_assert_uint_gt(k, 20); /* so allocations did fail */
    ck_assert_uint_lt(k, 1000);
}

REAL_PROGRAM("real/sentinel")
