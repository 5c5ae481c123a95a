/* redlock doctor and trust. Doctor finds and names each fault, and its remedy repairs it. Trust ends the quarantine
 * when the operator confirms. */
#define _GNU_SOURCE
#include "json.h"
#include "patience.h"
#include "real/published_rights.h"
#include "scene.h"
#include "words.h"

#include "support/file.h"
#include "support/fixture.h"
#include "support/server_program.h"
#include "support/temp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, WARNING = 1, CRITICAL = 2, NOT_CONFIRMED = 1, USAGE = 64, NO_QUORUM = 69, MISCONFIGURED = 78 };

static struct program *doctor(const struct program_options *options, int expected)
{
    struct program *program = program_run(options, "doctor", "--json", NULL);

    program_exits(program, expected);
    static const char *const verdicts[] = {"ok", "warning", "critical"};
    json_is(program, ".verdict", verdicts[expected]);
    return program;
}

/* The names of a node's findings, separated by spaces. */
#define FOUND(node) ".nodes[" #node "] | [.findings[].name] | join(\" \")"

static void has(struct program *program, const char *text)
{
    ck_assert_msg(strstr(program_output(program), text) != NULL, "'%s' is not in: %s", text, program_output(program));
}

/* --- Doctor --- */

START_TEST(five_healthy_nodes)
{
    struct program *program = doctor(&scene_on_nodes, OK);

    json_is(program, "[.working, .quorum, (.nodes | length), (.findings | length)] | join(\" \")", "5 3 5 0");
    json_is(program,
            "[.nodes[] | select(.works and .state == \"ready\" and .role == \"master\" and .round_trip_us > 0 and "
            ".marker.why == \"trusted\" and .marker.nodes == 5 and .quarantine_ms == 0 and .append_only == false and "
            ".maxmemory_policy == \"noeviction\" and .lacking == \"\" and (.run_id | length) == 40 and "
            ".clock_ahead_us.least < 1000000 and .findings == [])] | length",
            "5");
    program = program_run(&scene_on_nodes, "doctor", NULL);
    program_exits(program, OK);
    has(program, "ok: 5 of 5 nodes grant locks (3 needed); 2 more may fail\n");
    ck_assert_uint_eq(program_count(program, "  master "), 5);
    ck_assert_str_eq(program_errors(program), "");
}
END_TEST

START_TEST(nodes_that_fail_one_by_one)
{
    scene_on_nodes.environment = patience_short_environment();
    for (size_t down = 1; down <= 3; down++) {
        if (down == 2)
            deployment_stop(real_nodes, down);
        else
            deployment_kill(real_nodes, down);
        struct program *program = doctor(&scene_on_nodes, down < 3 ? WARNING : CRITICAL);
        json_is(program, FOUND(1), "unreachable");
        json_is(program, ".nodes[1].findings[0] | .text + \": \" + .remedy",
                "cannot connect: Connection refused: start the server, or correct the address in the list of nodes");
        json_is(program, FOUND(0), "");
    }
    struct program *program = program_run(&scene_on_nodes, "doctor", NULL);
    program_exits(program, CRITICAL);
    has(program, "critical: 2 of 5 nodes grant locks (3 needed); none can be acquired\n");
    has(program, "    unreachable: no reply to the handshake within");
    has(program, "      -> the server hangs, or the port is not a Redis server's");
    deployment_resume(real_nodes, 2);
}
END_TEST

static struct program_options options_for(struct cluster *cluster, const char *const *environment)
{
    return (struct program_options){.nodes = cluster_nodes_string(cluster),
                                    .environment = environment != NULL ? environment : patience_environment()};
}

START_TEST(what_is_wrong_with_servers_is_named)
{
    static const char *const evicting[] = {"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", NULL};
    struct cluster_node_options nodes[5] = {{.arguments = evicting}, {.password = "secret"}, {0}, {0}, {0}};
    struct cluster *cluster = real_cluster(5, &(struct cluster_options){.nodes = nodes});
    char port[8], list[512];

    snprintf(port, sizeof(port), "%u", cluster_port(cluster, 4));
    cluster_command(cluster, 2, NULL, 0, "REPLICAOF", "127.0.0.1", port, NULL);
    snprintf(list, sizeof(list), "%s,localhost:%s", cluster_nodes_string(cluster), port);
    struct program_options options = {.nodes = list, .environment = patience_environment()};
    program_exits(program_run(&options, "trust", "--yes", NULL), MISCONFIGURED); /* three of the nodes can be trusted */
    struct program *program = doctor(&options, CRITICAL);
    json_is(program, FOUND(0), "evicting");
    json_is(program, ".nodes[0].works", "true");
    json_is(program, ".nodes[0].findings[0].remedy", "set noeviction");
    json_is(program, ".nodes[0].server | IN(\"redis\", \"valkey\")", "true");
    json_is(program, FOUND(1), "unreachable");
    json_is(program, ".nodes[1].findings[0] | .text + \": \" + .remedy",
            "handshake: NOAUTH Authentication required.: set the password: REDLOCK_PASSWORD, REDLOCK_PASSWORD_FILE or "
            "password-file in the config file");
    json_is(program, ".nodes[2] | [.findings[].name] | index(\"replica\") != null", "true");
    json_is(program, "[.nodes[4,5] | .findings[].name] | index(\"same-server\") != null", "true");
    json_is(program, ".findings[0].name", "number"); /* six nodes */
}
END_TEST

/* The user in a node's address is the one without the rights, regardless of the settings. */
static void check_user_in_address(struct cluster *cluster)
{
    char list[512] = "REDLOCK_NODES=", *at = list + strlen(list);
    const char *const environment[] = {"REDLOCK_USER=another", "REDLOCK_PASSWORD=secret", list, patience_variable(),
                                       NULL};
    struct program_options options = {.environment = environment};

    for (size_t i = 0; i < 3; i++)
        at += snprintf(at, sizeof(list) - (size_t)(at - list), "%sredis://" PUBLISHED_USER ":" PUBLISHED_PASSWORD "@%s",
                       i > 0 ? "," : "", cluster_address(cluster, i));
    struct program *program = program_run(&options, "doctor", "--json", NULL);
    program_exits(program, CRITICAL);
    json_is(program, ".nodes[0].findings[] | select(.name == \"lacking-rights\") | .remedy[:31]",
            "on the node: ACL SETUSER " PUBLISHED_USER " ~");
}

/* The remedy is a command, and it works. */
START_TEST(a_user_who_lacks_rights_is_told_which_to_grant)
{
    const char *const environment[] = {"REDLOCK_USER=" PUBLISHED_USER, "REDLOCK_PASSWORD=" PUBLISHED_PASSWORD,
                                       patience_variable(), NULL};
    struct cluster_node_options nodes[3] = {{0}};
    char lines[8192], words[1024];

    snprintf(lines, sizeof(lines), "user default off\nuser %s\n", published_rights_without("+pexpire &redlock:*"));
    for (size_t i = 0; i < 3; i++)
        nodes[i].acl = lines;
    struct cluster *cluster = real_cluster(3, &(struct cluster_options){.nodes = nodes});
    struct program_options options = options_for(cluster, environment);
    program_exits(program_run(&options, "trust", "-y", NULL), 0);
    struct program *program = program_run(&options, "doctor", PUBLISHED_PREFIX "daily", "--json", NULL);
    program_exits(program, CRITICAL);
    json_is(program, ".nodes[0].lacking", "+pexpire &redlock:*");
    const char *remedy = json_get(program, ".nodes[0].findings[] | select(.name == \"lacking-rights\") | .remedy");
    ck_assert_str_eq(remedy, "on the node: ACL SETUSER lock +pexpire &redlock:*");
    for (size_t i = 0; i < 3; i++) {
        cluster_command(cluster, i, words, sizeof(words), "ACL", "SETUSER", "lock", "+pexpire", "&redlock:*", NULL);
        ck_assert_str_eq(words, "OK");
    }
    program_exits(program_run(&options, "doctor", PUBLISHED_PREFIX "daily", NULL), OK);
    program = program_run(&options, "doctor", NULL); /* this user has no rights for its key */
    program_exits(program, CRITICAL);
    has(program, "user lock lacks ~redlock-doctor");
    check_user_in_address(cluster);
}
END_TEST

START_TEST(one_node_alone_is_noted)
{
    struct program_options options = options_for(real_cluster(1, NULL), NULL);

    program_exits(program_run(&options, "trust", "-y", NULL), 0);
    json_is(doctor(&options, OK), ".findings[0].text", "a single node: if it fails, no lock can be acquired");
}
END_TEST

/* --- Trust --- */

static const char assertion[] = "Trust it only if no client holds a lock";

START_TEST(new_nodes_are_in_quarantine_until_they_are_trusted)
{
    struct program_options options = options_for(real_cluster(3, NULL), NULL);
    struct program *program = doctor(&options, CRITICAL);

    json_is(program, "[.nodes[].findings[].name] | unique | join(\" \")", "quarantine");
    json_is(program, ".nodes[0].findings[0].remedy", "wait; or, if no client holds a lock: redlock trust");
    json_is(program, ".recovers_ms | . > 20000 and . < 40000", "true");
    program = program_run(&options, "trust", NULL);
    program_exits(program, USAGE);
    has(program, assertion);
    ck_assert_ptr_nonnull(strstr(program_errors(program), "use --yes if no client holds a lock"));
    doctor(&options, CRITICAL);
    program = program_run(&options, "trust", "--yes", NULL);
    program_exits(program, 0);
    has(program, assertion);
    has(program, "trusted: 3 of 3 nodes\n");
    doctor(&options, OK);
    program = program_run(&options, "trust", NULL);
    program_exits(program, 0);
    has(program, "There is nothing to trust: no node is in quarantine.\n");
}
END_TEST

static struct program *answer(struct program_options options, const char *keys)
{
    options.terminal = true;
    struct program *program = program_start(&options, "trust", NULL);

    ck_assert(program_says(program, "[y/N] "));
    program_type(program, keys);
    program_wait(program);
    return program;
}

START_TEST(on_a_terminal_it_asks)
{
    struct program_options options = options_for(real_cluster(3, NULL), NULL);
    static const char *const refusals[] = {"n\n", "\n", "yesterday\n", "\004"};

    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct program *program = answer(options, refusals[i]);
        program_exits(program, NOT_CONFIRMED);
        has(program, "nothing was changed");
    }
    doctor(&options, CRITICAL);
    program_exits(answer(options, "y\n"), 0);
    doctor(&options, OK);
}
END_TEST

START_TEST(nodes_of_another_deployment_are_taken_over_by_name)
{
    struct cluster *cluster = real_cluster(3, NULL);
    struct program_options options = options_for(cluster, NULL);
    char first[64];

    program_exits(program_run(&options, "trust", "-y", NULL), 0);
    snprintf(first, sizeof(first), "%s", cluster_address(cluster, 0));
    options.nodes = first;
    struct program *program = doctor(&options, CRITICAL);
    json_is(program, FOUND(0), "other-deployment");
    json_is(program, ".nodes[0].findings[0].text",
            "its marker names deployment 'default' with 3 nodes; its vote does not count");
    program = program_run(&options, "trust", "-y", NULL);
    program_exits(program, 0);
    has(program, "belongs to deployment 'default' of 3 nodes, and will be taken from it");
    doctor(&options, OK);
}
END_TEST

START_TEST(too_few_nodes_to_trust)
{
    struct cluster *cluster = real_cluster(3, NULL);
    struct program_options options = options_for(cluster, NULL);

    cluster_kill(cluster, 0);
    cluster_kill(cluster, 1);
    struct program *program = program_run(&options, "trust", "--yes", NULL);
    program_exits(program, NO_QUORUM);
    has(program, "trusted: 1 of 3 nodes\n");
    ck_assert_ptr_nonnull(strstr(program_errors(program), "is not trusted: unreachable: cannot connect"));
    ck_assert_ptr_nonnull(strstr(program_errors(program), "too few nodes are trusted"));
}
END_TEST

START_TEST(without_a_guard_there_is_nothing_to_trust)
{
    struct cluster *cluster = real_cluster(1, NULL);
    static const char settings[] = "guard = no\n";
    char *config = fixture_text("%s/config", temp_dir_path(temp_dir_make()));
    char *variable = fixture_text("REDLOCK_CONFIG=%s", config);
    const char *const environment[] = {variable, NULL};
    struct program_options options = options_for(cluster, environment);

    real_note_descriptors();
    file_write(config, settings, sizeof(settings) - 1);
    struct program *program = program_run(&options, "trust", "--yes", NULL);
    program_exits(program, MISCONFIGURED);
    program_says_in_one_line(program, "the guard is off");
    program = doctor(&options, WARNING); /* the node loses everything in a restart */
    json_is(program, FOUND(0), "not-persistent");
    free(config);
    free(variable);
}
END_TEST

static const struct {
    const char *words[3];
    const char *says;
} bad_lines[] = {
    {{"doctor", "a", "b"}, "at most one resource"},
    {{"doctor", ""}, "has 0 bytes"},
    {{"trust", "a"}, "it takes no arguments"},
    {{"trust", "--maybe"}, "'--maybe' is not an option"},
};
enum { BAD_LINES = sizeof(bad_lines) / sizeof(bad_lines[0]) };

START_TEST(a_command_line_that_is_wrong_is_refused)
{
    const char *const *words = bad_lines[_i].words;
    struct program *program = program_run(&scene_on_nodes, words[0], words[1], words[2], NULL);

    program_exits(program, USAGE);
    program_says_in_one_line(program, bad_lines[_i].says);
}
END_TEST

static Suite *doctor_suite(void)
{
    Suite *suite = suite_create("cli_doctor");
    TCase *tcase = patient(scene_shared_case(suite, "nodes"));
    tcase_add_test(tcase, five_healthy_nodes);
    tcase_add_loop_test(tcase, a_command_line_that_is_wrong_is_refused, 0, BAD_LINES);

    tcase = patient(scene_own_case(suite, "faults"));
    tcase_add_test(tcase, nodes_that_fail_one_by_one);

    tcase = scene_bare_case(suite, "servers");
    tcase_add_test(tcase, what_is_wrong_with_servers_is_named);
    if (server_program_has(SERVER_CHANNEL_ACL))
        tcase_add_test(tcase, a_user_who_lacks_rights_is_told_which_to_grant);
    tcase_add_test(tcase, one_node_alone_is_noted);

    tcase = scene_bare_case(suite, "trust");
    tcase_add_test(tcase, new_nodes_are_in_quarantine_until_they_are_trusted);
    tcase_add_test(tcase, on_a_terminal_it_asks);
    tcase_add_test(tcase, nodes_of_another_deployment_are_taken_over_by_name);
    tcase_add_test(tcase, too_few_nodes_to_trust);
    tcase_add_test(tcase, without_a_guard_there_is_nothing_to_trust);
    return suite;
}

int main(void)
{
    patience_begin();
    return real_run(doctor_suite(), false);
}
