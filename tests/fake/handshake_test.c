/* The handshake of a new connection: its requests, the meaning of the replies, and its cost of one round trip. */
#include "fake/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/client/client.h"
#include "src/core/clock.h"
#include "src/node/guard.h"

static struct answer answer;

static void one_node(void)
{
    scene_begin(1);
}

static void three_nodes(void)
{
    scene_begin(3);
}

static void lock_and_release(void)
{
    redlock_lock *lock = scene_lock("stock");
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK);
}

static const struct fake_record *record_of(unsigned node, const char *command)
{
    const struct fake_record *record = fake_server_record(scene.node[node], command, 0);
    ck_assert_msg(record, "node %u was not sent %s", node, command);
    return record;
}

static void assert_words(const struct resp_command *command, const char *first, const char *second, const char *third)
{
    ck_assert_uint_eq(command->argc, third ? 3 : 2);
    ck_assert_str_eq(command->argv[0].data, first);
    ck_assert_str_eq(command->argv[1].data, second);
    if (third)
        ck_assert_str_eq(command->argv[2].data, third);
}

/* --- Round trips --- */

static bool has_whole_handshake(void *arg)
{
    (void)arg;
    return fake_server_count(scene.node[0], "SCRIPT LOAD") >= 3;
}

START_TEST(all_of_it_leaves_before_the_first_answer)
{
    scene.options.password = SCENE_SECRET;
    scene.options.database = 3;
    fake_server_set_password(scene.node[0], NULL, SCENE_SECRET);
    fake_server_add_rule(scene.node[0], &(struct fake_rule){.count = 1, .hold = true});
    scene_attach_only();
    ck_assert(scene_run(has_whole_handshake, NULL));
    ck_assert_uint_eq(scene_ready_nodes(), 0);
    static const char *const order[] = {"AUTH", "SELECT", "CLIENT SETNAME", "CLIENT ID", "INFO"};
    for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
        ck_assert(resp_command_is(fake_server_record(scene.node[0], NULL, i)->command, order[i]));
    fake_server_release(scene.node[0]);
    scene_wait_for_ready();
}
END_TEST

static bool is_of_handshake(const struct resp_command *command)
{
    return resp_command_is(command, "CLIENT") || resp_command_is(command, "INFO") ||
           resp_command_is(command, "SCRIPT LOAD");
}

/* Connect, handshake, SET. A request that was queued before the nodes are ready is sent when the last reply of the
 * handshake arrives. */
START_TEST(the_first_lock_takes_two_round_trips_after_connecting)
{
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.attempts, 1);
    unsigned asked = 0;
    for (unsigned i = 0; i < 3; i++) {
        unsigned set_at;
        if (!scene_sent(i, SENT_SET, NULL, 0, &set_at))
            continue;
        asked++;
        /* the only round trip before the SET is the handshake, which is sent as a whole: see the test above */
        for (unsigned at = 0; at < set_at; at++)
            ck_assert(is_of_handshake(fake_server_record(scene.node[i], NULL, at)->command));
    }
    ck_assert_uint_ge(asked, 2);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}
END_TEST

START_TEST(a_handshake_that_takes_too_long_is_given_up)
{
    scene.suffix[0] = "?connect_timeout_ms=50";
    unsigned rule = fake_server_add_rule(scene.node[0], &(struct fake_rule){.command = "INFO", .silent = true});
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_str_eq(answer.result.node[0].text, "no reply to the handshake within 50 ms");
    fake_server_remove_rule(scene.node[0], rule);
    scene.suffix[0] = NULL;
    lock_and_release();
}
END_TEST

/* --- Name and database --- */

START_TEST(the_connection_has_the_name_of_the_options)
{
    static const char *const names[] = {"redlock", "billing-3", "", NULL};
    if (_i > 0)
        scene.options.client_name = names[_i];
    scene_attach();
    if (names[_i] && names[_i][0])
        assert_words(record_of(0, "CLIENT SETNAME")->command, "CLIENT", "SETNAME", names[_i]);
    else
        ck_assert_uint_eq(fake_server_count(scene.node[0], "CLIENT SETNAME"), 0);
}
END_TEST

START_TEST(a_database_is_selected)
{
    scene.options.database = _i == 0 ? 3 : 0;
    scene.suffix[0] = _i == 0 ? NULL : _i == 1 ? "/5" : "?database=6";
    scene_attach();
    assert_words(record_of(0, "SELECT")->command, "SELECT", _i == 0 ? "3" : _i == 1 ? "5" : "6", NULL);
    lock_and_release();
}
END_TEST

START_TEST(a_uri_says_more_than_the_options)
{
    scene.options.database = 3;
    scene.suffix[0] = "/0";
    scene_attach();
    ck_assert_uint_eq(fake_server_count(scene.node[0], "SELECT"), 0);
}
END_TEST

START_TEST(a_database_that_is_not_there_is_a_misconfiguration)
{
    scene.options.database = 99;
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", REDLOCK_WAIT_MS(SCENE_SOON_MS)), REDLOCK_MISCONFIGURED);
    ck_assert_has(answer.result.node[0].text, "DB index is out of range");
}
END_TEST

/* --- Server and version --- */

static const struct {
    const char *info[3][2];
    const char *server, *version;
} servers[] = {
    {{{"redis_version", "7.0.15"}}, "redis", "7.0.15"},
    {{{"redis_version", "5.0.0"}}, "redis", "5.0.0"},
    {{{"redis_version", "255.255.255"}}, "redis", "255.255.255"}, /* of a development build */
    {{{"redis_version", "7.2.4"}, {"server_name", "valkey"}, {"valkey_version", "8.1.1"}}, "valkey", "8.1.1"},
    {{{"redis_version", "4.0.0"}, {"server_name", "valkey"}, {"valkey_version", "12.0.0"}}, "valkey", "12.0.0"},
    {{{"redis_version", "6.2.0"}, {"server_name", "a-name-of-a-fork-that-is-long"}}, "a-name-of-a-for", "6.2.0"},
};
enum { SERVERS = sizeof servers / sizeof *servers };

static redlock_node_status status_of_node_0(void)
{
    redlock_node_status status;
    ck_assert_int_eq(redlock_node_status_get(scene.client, 0, &status), REDLOCK_OK);
    return status;
}

START_TEST(server_is_named_with_its_own_version)
{
    for (unsigned i = 0; i < 3 && servers[_i].info[i][0]; i++)
        fake_server_set_info(scene.node[0], servers[_i].info[i][0], servers[_i].info[i][1]);
    scene_attach();
    ck_assert_str_eq(status_of_node_0().server, servers[_i].server);
    ck_assert_str_eq(status_of_node_0().version, servers[_i].version);
    ck_assert_uint_eq(status_of_node_0().findings & REDLOCK_FINDING_TOO_OLD, 0);
    lock_and_release();
}
END_TEST

static const char *const old_versions[] = {"2.8.24", "3.2.12", "4.0.14"};
enum { OLD_VERSIONS = sizeof old_versions / sizeof *old_versions };

static bool has_beaten(void *arg)
{
    (void)arg;
    return fake_server_count(scene.node[0], scene.options.guard ? "EVALSHA" : "TIME") > 0;
}

/* On an old server the scripts fail, in the handshake and at each heartbeat, with an error that does not name the
 * cause. */
START_TEST(old_server_is_refused_by_name_and_version)
{
    static const char failure[] =
        "-ERR Error running script (call to f_62491a): @user_script:36: @user_script: 36: Write "
        "commands not allowed after non deterministic commands.\r\n";
    char text[128];
    scene.options.guard = _i % 2 == 0;
    scene.options.max_ttl_ms = scene.options.ttl_ms;
    fake_server_set_info(scene.node[0], "redis_version", old_versions[_i / 2]);
    for (unsigned i = 0; i < 2; i++)
        fake_server_add_rule(scene.node[0],
                             &(struct fake_rule){.command = i ? "EVALSHA" : "EVAL", .skip = true, .reply = failure});
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", REDLOCK_WAIT_MS(REDLOCK_FOREVER)), REDLOCK_MISCONFIGURED);
    snprintf(text, sizeof text, "redis %s is too old: redlock needs Redis 5.0 or later, or Valkey",
             old_versions[_i / 2]);
    ck_assert_str_eq(answer.result.node[0].text, text);
    ck_assert_str_eq(status_of_node_0().objection, text);
    ck_assert_uint_ne(status_of_node_0().findings & REDLOCK_FINDING_TOO_OLD, 0);
    ck_assert(scene_run(has_beaten, NULL));
    ck_assert_str_eq(status_of_node_0().state, "ready");
    ck_assert_uint_eq(fake_server_count(scene.node[0], "CLIENT ID"), 1); /* the client does not reconnect */
}
END_TEST

/* --- AUTH --- */

START_TEST(a_password_of_the_options)
{
    scene.options.password = SCENE_SECRET;
    fake_server_set_password(scene.node[0], NULL, SCENE_SECRET);
    scene_attach();
    assert_words(record_of(0, "AUTH")->command, "AUTH", SCENE_SECRET, NULL);
    lock_and_release();
}
END_TEST

START_TEST(a_user_and_password_of_the_options)
{
    scene.options.user = "lock";
    scene.options.password = SCENE_SECRET;
    fake_server_set_password(scene.node[0], "lock", SCENE_SECRET);
    scene_attach();
    assert_words(record_of(0, "AUTH")->command, "AUTH", "lock", SCENE_SECRET);
    lock_and_release();
}
END_TEST

/* Attaches a client whose only node is node 0, with this text before its address. */
static void attach_uri(const char *scheme_and_login)
{
    char list[256];
    redlock_result result;
    snprintf(list, sizeof list, "%s%s", scheme_and_login, fake_server_address(scene.node[0]));
    int status = redlock_attach(scene.loop, list, &scene.options, &scene.client, &result);
    ck_assert_msg(status == REDLOCK_OK, "%s", redlock_result_text(&result));
    ck_assert(!strstr(redlock_result_text(&result), SCENE_SECRET));
}

/* The server has the setting: rename-command AUTH "" */
START_TEST(an_error_that_quotes_the_password_is_cut)
{
    redlock_result result;
    scene.options.user = "lock";
    scene.options.password = SCENE_SECRET;
    fake_server_refuse(scene.node[0], "AUTH", 0,
                       "-ERR unknown command `AUTH`, with args beginning with: `lock`, `" SCENE_SECRET "`, \r\n");
    attach_uri("redis://");
    ck_assert_status(scene_acquire(&answer, "stock", REDLOCK_WAIT_MS(SCENE_SOON_MS)), REDLOCK_MISCONFIGURED);
    result = answer.result;
    ck_assert_has(result.node[0].text, "unknown command `AUTH`");
    ck_assert_ptr_null(strstr(result.node[0].text, SCENE_SECRET));
    ck_assert_ptr_null(strstr(redlock_result_text(&result), SCENE_SECRET));
}
END_TEST

START_TEST(a_password_of_the_uri_comes_before_the_options)
{
    scene.options.user = "somebody";
    scene.options.password = "else";
    fake_server_set_password(scene.node[0], _i ? "lo:ck" : NULL, SCENE_SECRET "@/,");
    attach_uri(_i ? "redis://lo%3Ack:" SCENE_SECRET "%40%2F%2C@" : "redis://:" SCENE_SECRET "%40%2F%2C@");
    scene_wait_for_ready();
    if (_i)
        assert_words(record_of(0, "AUTH")->command, "AUTH", "lo:ck", SCENE_SECRET "@/,");
    else
        assert_words(record_of(0, "AUTH")->command, "AUTH", SCENE_SECRET "@/,", NULL);
    lock_and_release();
}
END_TEST

static struct vault {
    unsigned asked;
    unsigned empty; /* number of times that it has no credentials */
    const char *user, *password;
    char node[64];
} vault;

static int give(const char *node, char *user, char *password, size_t size, void *arg)
{
    struct vault *from = arg;
    from->asked++;
    snprintf(from->node, sizeof from->node, "%s", node);
    ck_assert_uint_ge(size, 256);
    ck_assert_str_eq(user, "");
    ck_assert_str_eq(password, "");
    if (from->empty > 0 && from->empty-- > 0)
        return 1;
    snprintf(user, size, "%s", from->user);
    snprintf(password, size, "%s", from->password);
    return 0;
}

static void use_vault(const char *user, const char *password)
{
    vault = (struct vault){.user = user, .password = password};
    scene.options.credentials = give;
    scene.options.credentials_arg = &vault;
}

START_TEST(a_callback_is_asked_at_each_connect)
{
    use_vault("lock", SCENE_SECRET);
    scene.options.user = "not";
    scene.options.password = "asked";
    fake_server_set_password(scene.node[0], "lock", SCENE_SECRET);
    scene_attach();
    ck_assert_uint_eq(vault.asked, 1);
    ck_assert_str_eq(vault.node, fake_server_address(scene.node[0]));
    fake_server_set_password(scene.node[0], "lock", SCENE_SECRET "2");
    vault.password = SCENE_SECRET "2";
    fake_server_drop(scene.node[0], FAKE_CLOSE);
    scene_wait_for_accepted(0, 2);
    scene_wait_for_ready();
    ck_assert_uint_eq(vault.asked, 2);
    lock_and_release();
}
END_TEST

START_TEST(a_callback_without_a_user_or_without_anything)
{
    use_vault("", _i ? "" : SCENE_SECRET);
    fake_server_set_password(scene.node[0], NULL, _i ? NULL : SCENE_SECRET);
    scene_attach();
    ck_assert_uint_eq(fake_server_count(scene.node[0], "AUTH"), _i ? 0 : 1);
    lock_and_release();
}
END_TEST

START_TEST(a_callback_that_has_none_now_is_asked_again)
{
    use_vault("lock", SCENE_SECRET);
    vault.empty = 2;
    fake_server_set_password(scene.node[0], "lock", SCENE_SECRET);
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_str_eq(answer.result.node[0].text, "the credentials callback returned an error");
    lock_and_release();
    ck_assert_uint_ge(vault.asked, 3);
}
END_TEST

START_TEST(a_callback_is_not_asked_for_a_node_with_its_own)
{
    use_vault("not", "asked");
    fake_server_set_password(scene.node[0], NULL, SCENE_SECRET);
    attach_uri("redis://:" SCENE_SECRET "@");
    scene_wait_for_ready();
    ck_assert_uint_eq(vault.asked, 0);
}
END_TEST

START_TEST(a_wrong_password_is_a_misconfiguration_and_not_shown)
{
    scene.options.user = _i ? "lock" : NULL;
    scene.options.password = SCENE_SECRET;
    fake_server_set_password(scene.node[0], _i ? "lock" : NULL, "another");
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", REDLOCK_WAIT_MS(REDLOCK_FOREVER)), REDLOCK_MISCONFIGURED);
    ck_assert_has(answer.result.node[0].text, "WRONGPASS");
    ck_assert_has(redlock_result_text(&answer.result), "misconfigured");
    ck_assert(!strstr(redlock_result_text(&answer.result), SCENE_SECRET));
    fake_server_set_password(scene.node[0], _i ? "lock" : NULL, SCENE_SECRET);
    scene_wait_for_ready();
    lock_and_release();
}
END_TEST

START_TEST(a_password_that_is_missing_is_a_misconfiguration)
{
    fake_server_set_password(scene.node[0], NULL, SCENE_SECRET);
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", REDLOCK_WAIT_MS(REDLOCK_FOREVER)), REDLOCK_MISCONFIGURED);
    ck_assert_has(answer.result.node[0].text, "NOAUTH");
}
END_TEST

/* The status follows from the last connection attempt, not from an earlier one. */
START_TEST(a_misconfiguration_that_has_passed_is_forgotten)
{
    fake_server_set_password(scene.node[0], NULL, SCENE_SECRET);
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_MISCONFIGURED);
    fake_server_set_password(scene.node[0], NULL, NULL);
    fake_server_add_rule(scene.node[0], &(struct fake_rule){.command = FAKE_ACCEPT, .ending = FAKE_SHUTDOWN});
    scene_wait_for_accepted(0, (unsigned)fake_server_accepted(scene.node[0]) + 3);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert(!strstr(answer.result.node[0].text, "NOAUTH"));
}
END_TEST

/* --- Identity of a server --- */

static bool three_answered(void *arg)
{
    (void)arg;
    scene_ready_nodes();
    for (unsigned i = 0; i < 3; i++)
        if (fake_server_count(scene.node[i], "SCRIPT LOAD") < 3)
            return false;
    return true;
}

static void same_server_twice(void)
{
    for (unsigned i = 0; i < 2; i++)
        fake_server_set_info(scene.node[i], "run_id", "0123456789abcdef0123456789abcdef01234567");
}

/* Waits until exactly one of the two nodes is ready. The other one is refused as a duplicate server. */
static void assert_one_vote(void)
{
    redlock_result *result = &answer.result;
    for (unsigned tries = 0; tries < 1000; tries++) {
        memset(&answer, 0, sizeof answer);
        scene.started++;
        ck_assert_int_eq(redlock_ready_async(scene.client, 0, scene_told, &answer), REDLOCK_OK);
        scene_wait(&answer);
        if (result->granted + result->refused == 3)
            break;
        scene_turn();
    }
    ck_assert_uint_eq(result->granted, 2);
    ck_assert_uint_eq(result->refused, 1);
    const redlock_node_result *twin = &result->node[result->node[0].outcome == REDLOCK_NODE_REFUSED ? 0 : 1];
    ck_assert_has(twin->text, "it is the same server as another node");
}

START_TEST(one_server_under_two_names_has_one_vote)
{
    same_server_twice();
    scene_attach_only();
    assert_one_vote();
    fake_server_refuse(scene.node[2], "SET", 1, FAKE_OOM);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.refused, 2);
    lock_and_release();
    ck_assert_uint_eq(scene_count(0, SENT_SET) == 0, scene_count(1, SENT_SET) != 0);
}
END_TEST

/* The node that has the vote reconnects. The client must not refuse both nodes then: the other one, a duplicate, has no
 * vote. */
START_TEST(the_vote_survives_its_link)
{
    same_server_twice();
    scene_attach_only();
    assert_one_vote();
    unsigned voter = answer.result.node[0].outcome == REDLOCK_NODE_GRANTED ? 0 : 1;
    fake_server_drop(scene.node[voter], FAKE_CLOSE);
    scene_wait_for_accepted(voter, 2);
    assert_one_vote();
}
END_TEST

/* Passes to the guard the reply that a node with this run_id and marker would send. */
static void tell_guard_shown(struct rl_node *node, const char *run_id, const char *shown)
{
    redisReply field[RL_GUARD_ELEMENTS], *element[RL_GUARD_ELEMENTS];
    redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = RL_GUARD_ELEMENTS, .element = element};
    const char *texts[RL_GUARD_ELEMENTS] = {run_id,    "master",  NULL,         NULL, NULL, NULL,
                                            "trusted", "default", "noeviction", "1f", shown};
    const long long numbers[RL_GUARD_ELEMENTS] = {
        [RL_GUARD_TIME] = 1, [RL_GUARD_MAX_TTL] = 30000, [RL_GUARD_NODES] = scene.nodes};
    for (unsigned i = 0; i < RL_GUARD_ELEMENTS; i++) {
        memset(&field[i], 0, sizeof field[i]);
        element[i] = &field[i];
        field[i].type = texts[i] ? REDIS_REPLY_STRING : REDIS_REPLY_INTEGER;
        field[i].integer = numbers[i];
        if (!texts[i])
            continue;
        char text[64];
        snprintf(text, sizeof text, "%s", texts[i]);
        field[i].len = strlen(text);
        field[i].str = strdup(text);
    }
    quorum_time now = rl_now();
    ck_assert(rl_guard_take_reply(node, &reply, now, now));
    for (unsigned i = 0; i < RL_GUARD_ELEMENTS; i++)
        free(field[i].str);
}

static void tell_guard(struct rl_node *node, const char *run_id)
{
    tell_guard_shown(node, run_id, "evidence\nmarker");
}

/* A time by the previous server's clock must not be compared with the marker of another server. */
START_TEST(markers_of_a_new_server_are_not_compared_with_those_of_the_one_before)
{
    scene_attach();
    struct rl_node *node = scene.client->nodes->node;
    tell_guard(node, node->server.run_id);
    ck_assert_str_eq(node->marker.nonce, "1f");
    ck_assert_uint_eq(node->marker.seen_us, 1);
    tell_guard_shown(node, "0123456789012345678901234567890123456789", "");
    ck_assert_str_eq(node->marker.nonce, "");
    ck_assert_uint_eq(node->marker.seen_us, 0);
}
END_TEST

/* A proxy redirects two names to one server, on connections that stay open. */
START_TEST(a_server_that_takes_another_names_place_has_one_vote)
{
    scene_attach();
    struct rl_node *nodes = scene.client->nodes->node;
    tell_guard(&nodes[0], nodes[1].server.run_id);
    ck_assert_uint_eq(nodes[0].findings & REDLOCK_FINDING_SAME_SERVER, REDLOCK_FINDING_SAME_SERVER);
    ck_assert_ptr_nonnull(nodes[0].unfit);
    tell_guard(&nodes[1], nodes[1].server.run_id);
    ck_assert_ptr_null(nodes[1].unfit);
    tell_guard(&nodes[0], "0123456789012345678901234567890123456789");
    ck_assert_ptr_null(nodes[0].unfit);
}
END_TEST

/* Both nodes have reported the run_id before either is ready. */
START_TEST(not_even_when_both_shake_hands_at_once)
{
    same_server_twice();
    scene_add_rule(0, 2, &(struct fake_rule){.command = "SCRIPT LOAD", .count = 1, .hold = true});
    scene_attach_only();
    ck_assert(scene_run(three_answered, NULL));
    scene_idle(20); /* until the replies to INFO have arrived */
    fake_server_release(scene.node[0]);
    fake_server_release(scene.node[1]);
    assert_one_vote();
}
END_TEST

START_TEST(a_replica_has_no_vote)
{
    fake_server_set_info(scene.node[0], "role", "slave");
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", REDLOCK_WAIT_MS(SCENE_SOON_MS)), REDLOCK_OK);
    while (fake_server_count(scene.node[0], "SCRIPT LOAD") < 3)
        scene_turn();
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    ck_assert_uint_eq(scene_count(0, SENT_SET), 0);
}
END_TEST

START_TEST(a_majority_of_replicas_is_a_misconfiguration)
{
    for (unsigned i = 0; i < 2; i++)
        fake_server_set_info(scene.node[i], "role", "slave");
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", REDLOCK_WAIT_MS(REDLOCK_FOREVER)), REDLOCK_MISCONFIGURED);
    ck_assert_has(redlock_result_text(&answer.result), "a replica, not a master");
    for (unsigned i = 0; i < 2; i++)
        ck_assert_uint_eq(scene_count(i, SENT_SET), 0);
}
END_TEST

/* --- Missing replies --- */

START_TEST(a_node_can_do_without_these_steps)
{
    static const char *const commands[] = {"CLIENT SETNAME", "CLIENT ID", "INFO", "SCRIPT LOAD"};
    static const char *const errors[] = {FAKE_NOPERM, FAKE_LOADING, "-ERR unknown command\r\n", ":-1\r\n",
                                         "$-1\r\n",   "*0\r\n",     "-ERR \033[2J\t\177\r\n"};
    fake_server_refuse(scene.node[0], commands[_i % 4], 0, errors[_i / 4]);
    scene_attach();
    lock_and_release();
}
END_TEST

static void add_one_node(TCase *tcase)
{
    tcase_add_test(tcase, all_of_it_leaves_before_the_first_answer);
    tcase_add_test(tcase, a_handshake_that_takes_too_long_is_given_up);
    tcase_add_loop_test(tcase, the_connection_has_the_name_of_the_options, 0, 4);
    tcase_add_loop_test(tcase, a_database_is_selected, 0, 3);
    tcase_add_test(tcase, a_uri_says_more_than_the_options);
    tcase_add_test(tcase, a_database_that_is_not_there_is_a_misconfiguration);
    tcase_add_loop_test(tcase, server_is_named_with_its_own_version, 0, SERVERS);
    tcase_add_loop_test(tcase, old_server_is_refused_by_name_and_version, 0, 2 * OLD_VERSIONS);
    tcase_add_loop_test(tcase, a_node_can_do_without_these_steps, 0, 28);
}

static void add_auth(TCase *tcase)
{
    tcase_add_test(tcase, a_password_of_the_options);
    tcase_add_test(tcase, a_user_and_password_of_the_options);
    tcase_add_test(tcase, an_error_that_quotes_the_password_is_cut);
    tcase_add_loop_test(tcase, a_password_of_the_uri_comes_before_the_options, 0, 2);
    tcase_add_test(tcase, a_callback_is_asked_at_each_connect);
    tcase_add_loop_test(tcase, a_callback_without_a_user_or_without_anything, 0, 2);
    tcase_add_test(tcase, a_callback_that_has_none_now_is_asked_again);
    tcase_add_test(tcase, a_callback_is_not_asked_for_a_node_with_its_own);
    tcase_add_loop_test(tcase, a_wrong_password_is_a_misconfiguration_and_not_shown, 0, 2);
    tcase_add_test(tcase, a_password_that_is_missing_is_a_misconfiguration);
    tcase_add_test(tcase, a_misconfiguration_that_has_passed_is_forgotten);
}

static void add_three_nodes(TCase *tcase)
{
    tcase_add_test(tcase, the_first_lock_takes_two_round_trips_after_connecting);
    tcase_add_test(tcase, one_server_under_two_names_has_one_vote);
    tcase_add_test(tcase, the_vote_survives_its_link);
    tcase_add_test(tcase, not_even_when_both_shake_hands_at_once);
    tcase_add_test(tcase, markers_of_a_new_server_are_not_compared_with_those_of_the_one_before);
    tcase_add_test(tcase, a_server_that_takes_another_names_place_has_one_vote);
    tcase_add_test(tcase, a_replica_has_no_vote);
    tcase_add_test(tcase, a_majority_of_replicas_is_a_misconfiguration);
}

int main(void)
{
    Suite *suite = suite_create("handshakes");
    add_one_node(scene_case(suite, "steps", one_node));
    add_auth(scene_case(suite, "auth", one_node));
    add_three_nodes(scene_case(suite, "three nodes", three_nodes));
    return run_suite(suite);
}
