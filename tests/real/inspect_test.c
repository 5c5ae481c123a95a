/* The report of an inspection on real servers, with each way to call: the missing rights by name, and the servers'
 * persistence and eviction settings. */
#define _GNU_SOURCE
#include "real/held.h"
#include "real/published_rights.h"

#include "support/fixture.h"
#include "support/server_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESOURCE real_key("looked-at")
#define KEY      PUBLISHED_PREFIX RESOURCE

static struct cluster *cluster;
static redlock_result result;
static redlock_node_status status;

static redlock_options user_options(void)
{
    redlock_options options = held_options(900, 1);

    options.prefix = PUBLISHED_PREFIX;
    options.user = PUBLISHED_USER;
    options.password = PUBLISHED_PASSWORD;
    return options;
}

static void make_cluster(const char *rights)
{
    static char lines[8192];
    struct cluster_node_options node = {.acl = lines};

    snprintf(lines, sizeof(lines), "user default off\nuser %s\n", rights);
    cluster = real_cluster(1, &(struct cluster_options){.nodes = &node});
}

static struct face *open_face(int kind)
{
    redlock_options options = user_options();

    return face_open(face_of(kind), cluster_nodes_string(cluster), &options);
}

static const char *lacking(struct face *face, int expected)
{
    real_status(face_inspect(face, RESOURCE, &result), expected, &result);
    status = held_node_status(face, 0);
    return status.lacking;
}

START_TEST(the_published_rights_lack_nothing)
{
    make_cluster(published_rights());
    struct face *face = open_face(_i);

    ck_assert_str_eq(lacking(face, REDLOCK_OK), "");
    ck_assert_int_eq(result.node[0].outcome, REDLOCK_NODE_GRANTED);
    ck_assert_uint_gt(result.node[0].latency_us, 0);
    ck_assert_uint_eq(result.granted, 1);
    ck_assert_uint_eq(status.findings, 0);
    ck_assert_uint_eq(status.clock_known, 1);
    face_close(&face, NULL);
}
END_TEST

static void change(const char *rule)
{
    char reply[256];

    cluster_command(cluster, 0, reply, sizeof(reply), "ACL", "SETUSER", PUBLISHED_USER, rule, NULL);
    ck_assert_msg(strcmp(reply, "OK") == 0, "ACL SETUSER %s: %s", rule, reply);
}

/* Whether the test removes this right. AUTH and SELECT are needed for the connection itself; a missing SUBSCRIBE is
 * found only when the client subscribes. */
static bool is_tried(const char *word)
{
    return word[0] == '+' && strcmp(word, "+auth") != 0 && strcmp(word, "+select") != 0 &&
           strcmp(word, "+subscribe") != 0;
}

static void take_away(struct face *face, const char *word)
{
    char rule[64];

    snprintf(rule, sizeof(rule), "-%s", word + 1);
    change(rule);
    const char *names = lacking(face, REDLOCK_MISCONFIGURED);
    ck_assert_msg(strcmp(names, word) == 0, "without %s: lacks %s", word, names);
    ck_assert_int_eq(result.node[0].outcome, REDLOCK_NODE_REFUSED);
    ck_assert_ptr_nonnull(strstr(result.node[0].text, word));
    change(word);
}

START_TEST(each_right_that_is_lacking_is_named)
{
    unsigned tried = 0;

    make_cluster(published_rights());
    struct face *face = open_face(_i);
    char *copy = strdup(published_rights()), *rest = copy, *word;
    lacking(face, REDLOCK_OK);
    while ((word = strsep(&rest, " ")) != NULL)
        if (is_tried(word)) {
            take_away(face, word);
            tried++;
        }
    ck_assert_uint_gt(tried, 20);
    ck_assert_str_eq(lacking(face, REDLOCK_OK), "");
    free(copy);
    face_close(&face, NULL);
}
END_TEST

static const struct {
    const char *without;
    const char *more;
    const char *lacking;
} patterns[] = {
    {"~jobs:*", "~other", "~" KEY " ~" KEY ":redlock:*"},
    {"~jobs:*", "~" KEY, "~" KEY ":redlock:*"},
    {"~redlock:marker", "~other", "~redlock:marker"},
    {"&redlock:*", "&other", "&redlock:*"},
    {"+subscribe", "+ping", "+subscribe"},
};

START_TEST(keys_and_channels_that_are_lacking_are_named)
{
    char rights[4096];

    snprintf(rights, sizeof(rights), "%s %s", published_rights_without(patterns[_i].without), patterns[_i].more);
    make_cluster(rights);
    struct face *face = open_face(_i);
    ck_assert_str_eq(lacking(face, REDLOCK_MISCONFIGURED), patterns[_i].lacking);
    face_close(&face, NULL);
}
END_TEST

START_TEST(an_inspection_has_no_effect)
{
    char before[256], after[256];

    make_cluster(published_rights());
    struct face *face = open_face(_i);
    face_ready(face, REAL_SOON_MS, &result);
    cluster_command(cluster, 0, NULL, 0, "SET", KEY, "theirs", "PX", "60000", NULL);
    cluster_command(cluster, 0, NULL, 0, "ZADD", KEY ":redlock:queue", "7", "somebody", NULL);
    cluster_command(cluster, 0, NULL, 0, "HSET", KEY ":redlock:alive", "somebody", "7", NULL);
    cluster_command(cluster, 0, before, sizeof(before), "DEBUG", "DIGEST", NULL);
    long long keys = cluster_integer(cluster, 0, "DBSIZE", NULL);
    for (unsigned i = 0; i < 3; i++)
        lacking(face, REDLOCK_OK);
    cluster_command(cluster, 0, after, sizeof(after), "DEBUG", "DIGEST", NULL);
    ck_assert_str_eq(after, before);
    ck_assert_int_eq(cluster_integer(cluster, 0, "DBSIZE", NULL), keys);
    ck_assert_int_gt(cluster_integer(cluster, 0, "PTTL", KEY, NULL), 30000);
    cluster_integer(cluster, 0, "DEL", KEY, KEY ":redlock:queue", KEY ":redlock:alive", NULL);
    face_close(&face, NULL);
}
END_TEST

/* --- What a server is like --- */

/* With long timeouts, so that a busy machine does not make the client give up nodes. */
static redlock_options patient_options(void)
{
    redlock_options options = held_options(4 * REAL_SOON_MS, 1);

    options.node_timeout_ms = options.silence_limit_ms = options.connect_timeout_ms = REAL_SOON_MS;
    options.max_ttl_ms = options.ttl_ms;
    return options;
}

START_TEST(how_servers_keep_what_they_have)
{
    static const char *const saving[] = {"--save",      "3600 1", "--maxmemory", "100mb", "--maxmemory-policy",
                                         "allkeys-lru", NULL};
    struct cluster_node_options nodes[3] = {{.persistent = true}, {.arguments = saving}, {0}};
    redlock_options options = patient_options();

    cluster = real_cluster(3, &(struct cluster_options){.nodes = nodes});
    struct face *face = face_open((enum face_kind)_i, cluster_nodes_string(cluster), &options);
    real_status(face_inspect(face, RESOURCE, &result), REDLOCK_OK, &result);
    static const int append_only[] = {1, 0, 0}, snapshots[] = {0, 1, 0};
    static const char *const fsync[] = {"always", "everysec", "everysec"};
    static const char *const policy[] = {"noeviction", "allkeys-lru", "noeviction"};
    for (uint32_t i = 0; i < 3; i++) {
        status = held_node_status(face, i);
        ck_assert_int_eq(status.append_only, append_only[i]);
        ck_assert_int_eq(status.snapshots, snapshots[i]);
        ck_assert_str_eq(status.append_fsync, fsync[i]);
        ck_assert_str_eq(status.maxmemory_policy, policy[i]);
        ck_assert_uint_eq(!!(status.findings & REDLOCK_FINDING_EVICTING), i == 1);
        ck_assert_str_eq(status.marker_why, "new");
        ck_assert_str_eq(status.marker_deployment, "default");
        ck_assert_uint_eq(status.marker_nodes, 3);
        ck_assert_uint_eq(status.marker_max_ttl_ms, options.max_ttl_ms);
    }
    face_close(&face, NULL);
}
END_TEST

START_TEST(a_node_that_is_down_or_hangs_is_counted_out)
{
    redlock_options options = patient_options();

    cluster = real_cluster(3, NULL);
    cluster_kill(cluster, 0);
    cluster_stop(cluster, 1);
    char *nodes = fixture_text("%s,redis://%s?connect_timeout_ms=100,%s", cluster_address(cluster, 0),
                               cluster_address(cluster, 1), cluster_address(cluster, 2));
    struct face *face = face_open((enum face_kind)_i, nodes, &options);
    free(nodes);
    real_status(face_inspect(face, RESOURCE, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_uint_eq(result.granted, 1);
    ck_assert_uint_eq(result.unreachable, 2);
    ck_assert_ptr_nonnull(strstr(result.node[0].text, "refused"));
    ck_assert_ptr_nonnull(strstr(result.node[1].text, "no reply to the handshake"));
    cluster_resume(cluster, 1);
    face_close(&face, NULL);
}
END_TEST

START_TEST(a_bad_resource_is_told_in_words)
{
    cluster = real_cluster(1, NULL);
    struct face *face = face_open((enum face_kind)_i, cluster_nodes_string(cluster), NULL);

    real_status(face_inspect(face, "", &result), REDLOCK_INVALID, &result);
    ck_assert_ptr_nonnull(strstr(result.text, "empty"));
    face_close(&face, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("real_inspect");
    TCase *tcase = real_bare_case(suite, "rights");

    if (server_program_has(SERVER_SUBCOMMAND_ACL)) {
        real_add_test(tcase, the_published_rights_lack_nothing);
        real_add_test(tcase, each_right_that_is_lacking_is_named);
        tcase_add_loop_test(tcase, keys_and_channels_that_are_lacking_are_named, 0,
                            sizeof(patterns) / sizeof(patterns[0]));
        real_add_test(tcase, an_inspection_has_no_effect);
    }
    tcase = real_bare_case(suite, "servers");
    if (server_program_has(SERVER_REPEATED_SAVE))
        real_add_test(tcase, how_servers_keep_what_they_have);
    real_add_test(tcase, a_node_that_is_down_or_hangs_is_counted_out);
    real_add_test(tcase, a_bad_resource_is_told_in_words);
    return real_run(suite, false);
}
