/* Nodes behind real Sentinels: failovers by votes and by hand, an old master that takes writes again beside a client that
 * is cut off from the Sentinels, and Sentinels that are silent, know no such name, or want a password. */
#include "real/held.h"

#include "support/allocator.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/process.h"
#include "support/raw_client.h"
#include "support/server_program.h"
#include "support/sockets.h"
#include "support/temp_dir.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SENTINELS = 3, GROUPS = 3, MAX_TTL_MS = 8000, SHORT_MAX_TTL_MS = 2000 };

static const char key[] = real_key("watched");

/* A node: the servers 2i (the first master) and 2i + 1 of the cluster, and their Sentinels. */
static struct group {
    uint16_t port[SENTINELS];
    int reservation[SENTINELS];
    struct process process[SENTINELS];
} groups[GROUPS];
static unsigned group_count;
static struct temp_dir *directory;

/* --- The Sentinels --- */

/* The elements of the reply, separated by spaces; "" while it does not listen yet. */
static const char *ask(uint16_t port, const char *password, const char *first, const char *second, const char *third)
{
    static char text[4096];
    const struct raw_client_place place = {.host = "127.0.0.1", .port = port, .password = password};
    const struct resp_argument words[] = {resp_argument_of(first), resp_argument_of(second), resp_argument_of(third)};
    struct bytes reply = {0}, elements = {0};
    if (raw_client_ask(&place, test_deadline_ns(REAL_SOON_MS), 3, words, &reply))
        resp_reply_text(reply.data, reply.length, &elements);
    snprintf(text, sizeof text, "%.*s", (int)elements.length, elements.length ? elements.data : "");
    for (char *at = text; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
    bytes_free(&reply);
    bytes_free(&elements);
    return text;
}

static const char *info(size_t server, const char *field)
{
    static char text[4096];
    char *found;
    ck_assert(cluster_command(cluster, server, text, sizeof text, "INFO", "replication", NULL));
    found = strstr(text, field);
    if (!found)
        return "";
    found[strcspn(found, "\r\n")] = '\0';
    return found + strlen(field);
}

static bool replica_is_online(size_t server)
{
    return strstr(info(server, "slave0:"), "state=online");
}

static void start_sentinel(struct group *group, unsigned i, size_t master, const char *password)
{
    char *path = fixture_text("%s/%u.conf", temp_dir_path(directory), group->port[i]);
    char *conf = fixture_text("port %u\nbind 127.0.0.1\ndir %s\nsentinel monitor m 127.0.0.1 %u 2\n"
                              "sentinel down-after-milliseconds m 1000\nsentinel failover-timeout m 5000\n%s%s%s%s",
                              group->port[i], temp_dir_path(directory), cluster_port(cluster, master),
                              password ? "requirepass " : "", password ? password : "",
                              password ? "\nsentinel sentinel-pass " : "", password ? password : "");
    file_write(path, conf, strlen(conf));
    char *program = fixture_text("%s", server_program()), mode[] = "--sentinel";
    char *const argv[] = {program, path, mode, NULL};
    ck_assert(process_start(&group->process[i], &(struct process_options){.argv = argv}));
    free(program);
    free(conf);
    free(path);
}

/* Each Sentinel knows the others and the replica, so that a failover can begin. */
static bool is_complete(const struct group *group, const char *password)
{
    for (unsigned i = 0; i < SENTINELS; i++) {
        const char *state = ask(group->port[i], password, "SENTINEL", "MASTER", "m");
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
    group_count = 0;
}

static void start_groups(unsigned count, const char *password)
{
    static const char *const arguments[] = {"--repl-diskless-sync-delay", "0", NULL};
    cluster = cluster_create(2 * count, &(struct cluster_options){.arguments = arguments});
    directory = temp_dir_make();
    memset(groups, 0, sizeof groups);
    group_count = count;
    fixture_register(groups, end_sentinels);
    for (unsigned g = 0; g < count; g++) {
        char *port = fixture_text("%u", cluster_port(cluster, 2 * g));
        ck_assert(cluster_command(cluster, 2 * g + 1, NULL, 0, "REPLICAOF", "127.0.0.1", port, NULL));
        free(port);
        for (unsigned i = 0; i < SENTINELS; i++)
            groups[g].reservation[i] = socket_reserve_port(false, &groups[g].port[i]);
    }
    for (unsigned g = 0; g < count; g++) {
        real_until(NULL, replica_is_online(2 * g));
        for (unsigned i = 0; i < SENTINELS; i++)
            start_sentinel(&groups[g], i, 2 * g, password);
    }
    for (unsigned g = 0; g < count; g++)
        real_until(NULL, is_complete(&groups[g], password));
    real_note_descriptors();
}

static const char *list_of(unsigned count, const char *credentials, const char *name)
{
    static char text[1024];
    size_t used = 0;
    for (unsigned g = 0; g < count; g++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%ssentinel://%s127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/%s", g ? "," : "", credentials,
                                 groups[g].port[0], groups[g].port[1], groups[g].port[2], name);
    return text;
}

/* A majority of the Sentinels names this server. */
static bool is_named(unsigned g, size_t server)
{
    unsigned named = 0;
    char *address = fixture_text("127.0.0.1 %u", cluster_port(cluster, server));
    for (unsigned i = 0; i < SENTINELS; i++)
        named += strcmp(ask(groups[g].port[i], NULL, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"), address) == 0;
    free(address);
    return named > SENTINELS / 2;
}

static bool is_led_by(struct face *face, uint32_t node, size_t server)
{
    char *name = fixture_text("m (127.0.0.1:%u)", cluster_port(cluster, server));
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

REAL_CASE(failover, real_bare_case, NULL);

static const struct {
    bool by_hand;
} failovers[] = {{false}, {true}};

/* The longer of the two quarantines, with its drift. */
enum { QUARANTINE_MS = (MAX_TTL_MS + 5000) / 100 * 101 + 2 + 1000 };

TEST_ROWS(failover, lock_survives_and_node_votes_again, ROWS(failovers))
{
    redlock_options options = options_of(MAX_TTL_MS);
    start_groups(1, NULL);
    struct face *face = held_open_trusted(_i, list_of(1, "", "m"), &options);
    struct face *other = held_open(_i + 1, list_of(1, "", "m"), &options);
    ck_assert(is_led_by(face, 0, 0));
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);
    redlock_lock *lock = held_acquire(face, key, &acquire);
    if (failovers[_i].by_hand)
        ask(groups[0].port[0], NULL, "SENTINEL", "FAILOVER", "m");
    else
        cluster_kill(cluster, 0);
    real_until(face, is_led_by(face, 0, 1));
    real_until(face, is_named(0, 1));
    redlock_node_status status = held_node_status(face, 0);
    ck_assert_int_le(status.quarantine_ms, QUARANTINE_MS);
    ck_assert_int_gt(status.quarantine_ms, 0);
    ck_assert_uint_eq(status.usable, 0);
    real_until(other, is_led_by(other, 0, 1));
    held_refuse(other, real_key("another"), NULL, REDLOCK_NO_QUORUM);
    real_until(face, held_all_usable(face)); /* by itself */
    real_until(other, held_all_usable(other));
    if (!held_is_lost(&story)) {
        ck_assert(held_is_on(1, key, lock));
        held_refuse(other, key, NULL, REDLOCK_HELD);
    } else {
        ck_assert_msg(getenv("REDLOCK_STRICT") == NULL, "the lock is lost"); /* a busy machine fails over slowly */
    }
    face_release(face, &lock, &result);
    redlock_lock *next = held_acquire(other, key, REDLOCK_WAIT_MS(REAL_SOON_MS));
    held_release(other, &next);
    if (!failovers[_i].by_hand)
        cluster_start(cluster, 0);
    real_until(NULL, strcmp(info(0, "role:"), "slave") == 0);
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

/* Two of three nodes are a majority. */
TEST(failover, killed_master_of_three_fails_no_acquire)
{
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    start_groups(3, NULL);
    struct face *face = held_open_trusted(_i, list_of(3, "", "m"), &options);
    cluster_kill(cluster, 2);
    for (unsigned i = 0; i < 20 || !is_led_by(face, 1, 3); i++) {
        ck_assert_uint_lt(i, 20000);
        redlock_lock *lock = held_acquire(face, key, NULL);
        held_release(face, &lock);
    }
    real_until(face, held_all_usable(face));
    cluster_start(cluster, 2);
    real_until(NULL, strcmp(info(2, "role:"), "slave") == 0);
}

/*
 * The old master hangs, is failed over, and goes on: for some seconds, until its Sentinels make it a replica, it takes
 * writes. One client is cut off from the Sentinels, and still connected to it, or can be. The other follows the failover
 * and gets the lock when the new master has left quarantine.
 */
TEST(failover, old_master_grants_nothing_to_a_client_that_is_cut_off)
{
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    options.silence_limit_ms = 60000; /* the connection stays */
    start_groups(1, NULL);
    struct delay_proxy *proxy = delay_proxy_start(groups[0].port, SENTINELS);
    real_note_descriptors();
    char *through = fixture_text("sentinel://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/m", delay_proxy_port(proxy, 0),
                                 delay_proxy_port(proxy, 1), delay_proxy_port(proxy, 2));
    struct face *with = held_open_trusted(_i, list_of(1, "", "m"), &options);
    struct face *without = held_open_trusted(_i + 1, through, &options);
    redlock_lock *lock = held_acquire(without, key, NULL), *second = NULL;
    held_release(without, &lock);
    cluster_stop(cluster, 0);
    for (unsigned i = 0; i < SENTINELS; i++)
        delay_proxy_hold(proxy, i, PROXY_BOTH);
    real_until(with, is_named(0, 1));
    cluster_resume(cluster, 0);
    uint64_t deadline = test_deadline_ns(REAL_SOON_MS);
    bool beside = false; /* the old master took writes while another had the lock */
    while (!second && test_ms_left(deadline) > 0) {
        face_acquire(with, key, REAL_WITH(.ttl_ms = SHORT_MAX_TTL_MS), &second, &result);
        ck_assert_int_ne(face_acquire(without, key, NULL, &lock, &result), REDLOCK_OK);
        real_turn(with);
    }
    ck_assert_ptr_nonnull(second);
    while (strcmp(info(0, "role:"), "master") == 0) {
        ck_assert_int_ne(face_acquire(without, key, NULL, &lock, &result), REDLOCK_OK);
        beside = beside || strstr(redlock_result_text(&result), "sentinel");
        real_turn(without);
        real_turn(with);
    }
    if (!beside)
        fprintf(stderr, "the old master was a replica before the new one left quarantine: nothing is shown\n");
    face_release(with, &second, &result); /* lost, if this machine was busy */
    for (unsigned i = 0; i < SENTINELS; i++)
        delay_proxy_let_go(proxy, i, PROXY_BOTH);
    real_until(without, is_led_by(without, 0, 1));
    lock = held_acquire(without, key, REDLOCK_WAIT_MS(REAL_SOON_MS));
    held_release(without, &lock);
    free(through);
}

/* --- Sentinels that are of no use --- */

REAL_CASE(useless, real_bare_case, NULL);

static bool has_finding(struct face *face, uint32_t finding)
{
    return held_node_status(face, 0).findings & finding;
}

TEST(useless, each_has_a_finding_that_names_it)
{
    redlock_options options = options_of(SHORT_MAX_TTL_MS);
    start_groups(1, "secret");
    struct face *face = face_open(face_of(_i), list_of(1, "", "m"), &options);
    real_until(face, has_finding(face, REDLOCK_FINDING_SENTINELS_SILENT));
    ck_assert_ptr_nonnull(strstr(held_node_status(face, 0).sentinels, "NOAUTH"));
    held_refuse(face, key, NULL, REDLOCK_NO_QUORUM);
    held_close(face);

    face = face_open(face_of(_i), list_of(1, ":secret@", "other"), &options);
    real_until(face, has_finding(face, REDLOCK_FINDING_MASTER_UNKNOWN));
    ck_assert_ptr_nonnull(strstr(held_node_status(face, 0).sentinels, "knows no such master"));
    real_until(face, strstr(held_node_status(face, 0).error, "no master of this name"));
    held_refuse(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS), REDLOCK_MISCONFIGURED);
    held_close(face);

    face = held_open_trusted(_i, list_of(1, ":secret@", "m"), &options);
    redlock_lock *lock = held_acquire(face, key, NULL);
    ck_assert_uint_eq(held_node_status(face, 0).findings, 0);
    for (unsigned i = 0; i < 2; i++)
        process_signal(&groups[0].process[i], SIGSTOP);
    real_until(face, !held_node_status(face, 0).usable); /* in a second */
    ck_assert(face_extend(face, lock, 0, &result) != REDLOCK_OK);
    real_until(face, has_finding(face, REDLOCK_FINDING_SENTINELS_SILENT));
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
