/* The handshake of a new connection: its requests, the meaning of the replies, and its cost of one round trip. */
#include "fake/scene.h"

#include "src/client/client.h"
#include "src/core/timer.h"
#include "src/node/guard.h"

static struct answer answer;

/* The first node has received the command, with these words behind it; first NULL: it has not received it. */
static void assert_sent(const char *command, const char *first, const char *second)
{
    const struct fake_record *record = fake_server_record(scene.node[0], command, 0);
    unsigned words = strchr(command, ' ') ? 2 : 1;
    ck_assert_msg((record != NULL) == (first != NULL), "%s was %s", command, record ? "sent" : "not sent");
    if (!record)
        return;
    ck_assert_uint_eq(record->command->argc, words + (second ? 2 : 1));
    ck_assert_str_eq(record->command->argv[words].data, first);
    if (second)
        ck_assert_str_eq(record->command->argv[words + 1].data, second);
}

static void wait_for_handshake(unsigned nodes)
{
    for (unsigned i = 0; i < nodes; i++)
        scene_until(fake_server_count(scene.node[i], "INFO") >= 5);
}

/* --- Round trips --- */

SCENE_CASE(steps, scene_one_node);

/* A request that was queued before the node is ready is sent when the last reply of the handshake arrives: the first lock
 * takes two round trips after connecting. */
TEST(steps, handshake_is_sent_before_the_first_reply_and_a_request_behind_it)
{
    unsigned set_at;
    scene.options.password = SCENE_SECRET;
    scene.options.database = 3;
    fake_server_set_password(scene.node[0], NULL, SCENE_SECRET);
    fake_server_add_rule(scene.node[0], &(struct fake_rule){.count = 1, .hold = true});
    scene_attach_only();
    wait_for_handshake(1);
    ck_assert_uint_eq(scene_ready_nodes(), 0);
    scene_start_acquire(&answer, "stock", NULL);
    size_t sent = fake_server_count(scene.node[0], NULL);
    static const char *const order[] = {"AUTH", "SELECT", "CLIENT SETNAME", "CLIENT ID", "INFO"};
    for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
        ck_assert(resp_command_is(fake_server_record(scene.node[0], NULL, i)->command, order[i]));
    fake_server_release(scene.node[0]);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.attempts, 1);
    ck_assert(scene_sent(0, SENT_SET, NULL, 0, &set_at) && set_at == sent);
}

SCENE_CASE(three_nodes, scene_three_nodes);

/* --- Name and database --- */

/* The options, the end of the URI, and what is sent. */
static const struct {
    const char *name;
    uint32_t database;
    const char *suffix, *name_sent, *database_sent;
} places[] = {
    {"redlock", 0, NULL, "redlock", NULL}, /* the default */
    {"billing-3", 3, NULL, "billing-3", "3"},  {"", 0, "/5", NULL, "5"}, {NULL, 0, "?database=6", NULL, "6"},
    {"billing-3", 3, "/0", "billing-3", NULL}, /* the URI says more than the options */
};

TEST_ROWS(steps, the_connection_has_its_name_and_database, ROWS(places))
{
    ck_assert_str_eq(scene.options.client_name, places[0].name);
    scene.options.client_name = places[_i].name;
    scene.options.database = places[_i].database;
    scene.suffix[0] = places[_i].suffix;
    scene_attach();
    assert_sent("CLIENT SETNAME", places[_i].name_sent, NULL);
    assert_sent("SELECT", places[_i].database_sent, NULL);
    scene_lock_and_release("stock");
}

/* --- Server and version --- */

static const struct {
    const char *info[3][2];
    const char *server, *version;
    bool gets; /* SET with NX and GET; of a fork it is not known */
} servers[] = {
    {{{"redis_version", "7.0.15"}}, "redis", "7.0.15", true},
    {{{"redis_version", "5.0.0"}, {"aof_enabled", "1"}}, "redis", "5.0.0", false},
    {{{"redis_version", "255.255.255"}}, "redis", "255.255.255", true}, /* of a development build */
    {{{"redis_version", "7.2.4"}, {"server_name", "valkey"}, {"valkey_version", "8.1.1"}}, "valkey", "8.1.1", true},
    {{{"redis_version", "4.0.0"}, {"server_name", "valkey"}, {"valkey_version", "12.0.0"}}, "valkey", "12.0.0", true},
    {{{"redis_version", "7.2.4"}, {"redict_version", "7.3.0"}}, "redict", "7.3.0", false},
    {{{"redis_version", "6.2.0"}, {"server_name", "a-name-of-a-fork-that-is-long"}}, "a-name-of-a-for", "6.2.0", false},
};

static redlock_node_status status_of_node_0(void)
{
    redlock_node_status status;
    ck_assert_int_eq(redlock_node_status_get(scene.client, 0, &status), REDLOCK_OK);
    return status;
}

TEST_ROWS(steps, server_is_named_with_its_own_version, ROWS(servers))
{
    char ready[64];
    for (unsigned i = 0; i < 3 && servers[_i].info[i][0]; i++)
        fake_server_set_info(scene.node[0], servers[_i].info[i][0], servers[_i].info[i][1]);
    scene_attach_only();
    ck_assert_int_eq(status_of_node_0().snapshots, -1);
    scene_wait_for_ready();
    bool appends = servers[_i].info[1][0] && strcmp(servers[_i].info[1][0], "aof_enabled") == 0;
    ck_assert_int_eq(status_of_node_0().append_only, appends);
    ck_assert_uint_eq(status_of_node_0().findings, appends ? 0 : REDLOCK_FINDING_NOT_PERSISTENT);
    ck_assert_str_eq(status_of_node_0().server, servers[_i].server);
    ck_assert_str_eq(status_of_node_0().version, servers[_i].version);
    ck_assert_int_eq(scene.client->nodes->node->server.gets, servers[_i].gets);
    snprintf(ready, sizeof ready, ": ready, %s %s", servers[_i].server, servers[_i].version);
    ck_assert(scene_is_logged(ready));
    scene_lock_and_release("stock");
}

/* --- AUTH --- */

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

#define ODD_SECRET SCENE_SECRET "@/,"

/* Where the node's user and password come from: the options, the callback and the URI. The callback is not asked for a
 * node whose URI has them. */
static const struct {
    const char *option_user, *option_password;
    const char *callback_user, *callback_password; /* NULL: no callback */
    const char *uri;
    const char *user, *password; /* those of the server, and what is sent */
} logins[] = {
    {NULL, SCENE_SECRET, NULL, NULL, "redis://", NULL, SCENE_SECRET},
    {"lock", SCENE_SECRET, NULL, NULL, "redis://", "lock", SCENE_SECRET},
    {NULL, "x", NULL, NULL, "redis://", NULL, "x"},
    {"else", "else", NULL, NULL, "redis://:" SCENE_SECRET "%40%2F%2C@", NULL, ODD_SECRET},
    {"else", "else", NULL, NULL, "redis://lo%3Ack:" SCENE_SECRET "%40%2F%2C@", "lo:ck", ODD_SECRET},
    {"else", "else", "lock", SCENE_SECRET, "redis://", "lock", SCENE_SECRET},
    {NULL, NULL, "", SCENE_SECRET, "redis://", NULL, SCENE_SECRET},
    {NULL, NULL, "", "", "redis://", NULL, NULL},
    {NULL, NULL, "else", "else", "redis://:" SCENE_SECRET "@", NULL, SCENE_SECRET},
};

SCENE_CASE(auth, scene_one_node);

TEST_ROWS(auth, a_node_gets_its_own_user_and_password, ROWS(logins))
{
    const char *user = logins[_i].user, *password = logins[_i].password;
    vault.asked = 0;
    if (logins[_i].callback_user)
        use_vault(logins[_i].callback_user, logins[_i].callback_password);
    scene.options.user = logins[_i].option_user;
    scene.options.password = logins[_i].option_password;
    fake_server_set_password(scene.node[0], user, password);
    scene.prefix = logins[_i].uri;
    scene_attach();
    assert_sent("AUTH", user ? user : password, user ? password : NULL);
    ck_assert_uint_eq(vault.asked, logins[_i].callback_user && !strchr(logins[_i].uri, '@'));
    scene_lock_and_release("stock");
}

/* Also if it had none. */
TEST(auth, credentials_callback_is_called_at_each_connect)
{
    use_vault("lock", SCENE_SECRET);
    vault.empty = 2;
    fake_server_set_password(scene.node[0], "lock", SCENE_SECRET);
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_str_eq(answer.result.node[0].text, "the credentials callback returned an error");
    scene_wait_for_ready();
    unsigned asked = vault.asked;
    ck_assert_uint_ge(asked, 3);
    ck_assert_str_eq(vault.node, fake_server_address(scene.node[0]));
    fake_server_set_password(scene.node[0], "lock", SCENE_SECRET "2");
    vault.password = SCENE_SECRET "2";
    fake_server_drop(scene.node[0], FAKE_CLOSE);
    scene_until(vault.asked > asked);
    scene_wait_for_ready();
    scene_lock_and_release("stock");
}

/* What the server requires, the options, what the server does, and the text of the result. One server has the setting
 * rename-command AUTH "", and quotes the password. Others refuse the connection at accept, or while they are busy, or are
 * behind a proxy that knows no SELECT. */
static const struct {
    const char *server_user, *server_password, *user, *password;
    uint32_t database;
    const char *command, *reply;
    int status;
    const char *words;
} mistakes[] = {
    {NULL, SCENE_SECRET, NULL, NULL, 0, NULL, NULL, REDLOCK_MISCONFIGURED, "NOAUTH"},
    {"lock", "another", "lock", SCENE_SECRET, 0, NULL, NULL, REDLOCK_MISCONFIGURED, "WRONGPASS"},
    {NULL, NULL, "lock", SCENE_SECRET, 0, "AUTH",
     "-ERR unknown command `AUTH`, with args beginning with: `lock`, `" SCENE_SECRET "`, \r\n", REDLOCK_MISCONFIGURED,
     "unknown command `AUTH`"},
    {NULL, NULL, NULL, NULL, 0, FAKE_ACCEPT, FAKE_MAXCLIENTS, REDLOCK_NO_QUORUM, "max number of clients"},
    {NULL, NULL, NULL, NULL, 0, FAKE_ACCEPT, FAKE_DENIED, REDLOCK_MISCONFIGURED, "protected mode"},
    {NULL, NULL, NULL, NULL, 3, "SELECT", FAKE_BUSY, REDLOCK_NO_QUORUM, "BUSY"},
    {NULL, NULL, NULL, NULL, 0, "INFO", FAKE_BUSY, REDLOCK_NO_QUORUM, "BUSY"},
    {NULL, NULL, NULL, NULL, 3, "SELECT", "-ERR unsupported\r\n", REDLOCK_MISCONFIGURED,
     "no SELECT; use database 0: ERR unsupported"},
};

/* A misconfiguration ends an acquire at once, however long it may wait. The node is tried again: the lock is granted when
 * the server's settings are right. */
TEST_ROWS(auth, node_that_refuses_the_handshake_is_named_shows_no_password_and_is_tried_again, ROWS(mistakes))
{
    bool misconfigured = mistakes[_i].status == REDLOCK_MISCONFIGURED;
    bool at_accept = mistakes[_i].command && strcmp(mistakes[_i].command, FAKE_ACCEPT) == 0;
    scene.options.user = mistakes[_i].user;
    scene.options.password = mistakes[_i].password;
    scene.options.database = mistakes[_i].database;
    fake_server_set_password(scene.node[0], mistakes[_i].server_user, mistakes[_i].server_password);
    if (mistakes[_i].command)
        fake_server_add_rule(scene.node[0], &(struct fake_rule){.command = mistakes[_i].command,
                                                                .skip = true,
                                                                .reply = mistakes[_i].reply,
                                                                .ending = at_accept ? FAKE_SHUTDOWN : FAKE_GO_ON});
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", SCENE_WITH(.wait_ms = misconfigured ? REDLOCK_FOREVER : 0)),
                     mistakes[_i].status);
    ck_assert_has(answer.result.node[0].text, mistakes[_i].words);
    ck_assert(!misconfigured || strstr(redlock_result_text(&answer.result), "misconfigured"));
    ck_assert(!strstr(answer.result.node[0].text, SCENE_SECRET)); /* nor has the whole text: scene_completed() */
    fake_server_clear_rules(scene.node[0]);
    fake_server_set_password(scene.node[0], mistakes[_i].user, mistakes[_i].password);
    scene_wait_for_ready();
    scene_lock_and_release("stock");
}

/* The status follows from the last connection attempt, not from an earlier one. */
TEST(auth, misconfiguration_that_was_mended_is_cleared)
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

/* --- Identity of a server --- */

/* Waits until exactly one of the first two nodes is ready. The other one is refused as a duplicate server. Returns the
 * number of the one that has the vote. */
static unsigned assert_one_vote(void)
{
    const redlock_result *result = &answer.result;
    scene_until((scene_wait(scene_start_ready(&answer, 0)), result->granted + result->refused == scene.nodes));
    ck_assert_uint_eq(result->granted, 2);
    ck_assert_uint_eq(result->refused, 1);
    unsigned voter = result->node[0].outcome == REDLOCK_NODE_GRANTED ? 0 : 1;
    ck_assert_has(result->node[1 - voter].text, "it is the same server as another node");
    return voter;
}

/* Also when both nodes have reported the run_id before either is ready. */
TEST_ROWS(three_nodes, one_server_under_two_names_has_one_vote, 2)
{
    for (unsigned i = 0; i < 2; i++)
        fake_server_set_info(scene.node[i], "run_id", "0123456789abcdef0123456789abcdef01234567");
    if (_i)
        scene_add_rule(0, 2, &(struct fake_rule){.command = "INFO", .argument = "memory", .count = 1, .hold = true});
    scene_attach_only();
    if (_i) {
        wait_for_handshake(3);
        scene_idle(20); /* until the replies to INFO have arrived */
        scene_each(0, 2, fake_server_release);
    }
    unsigned voter = assert_one_vote();
    fake_server_refuse(scene.node[2], "SET", 1, FAKE_OOM);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.refused, 2);
    scene_lock_and_release("stock");
    ck_assert_uint_eq(scene_count(1 - voter, SENT_SET), 0);
    /* When the node with the vote reconnects, the other one, a duplicate, has none: they are not both refused. */
    fake_server_drop(scene.node[voter], FAKE_CLOSE);
    scene_wait_for_accepted(voter, 2);
    assert_one_vote();
}

/* The node's next reading shows this run_id. */
static void show_run_id(struct rl_node *node, const char *run_id)
{
    char info[64];
    quorum_time now = rl_now();
    redisReply reply = {.type = REDIS_REPLY_STRING, .str = info};
    reply.len = (size_t)snprintf(info, sizeof info, "run_id:%s\r\n", run_id);
    rl_guard_begin(node);
    ck_assert(rl_guard_take_fact(node, RL_STEP_SERVER, &reply, now, now));
    ck_assert_int_eq(rl_guard_judge_facts(node), RL_GUARD_DONE);
}

static const char new_run_id[] = "0123456789012345678901234567890123456789";

/* A time by the previous server's clock must not be compared with the marker of another server. */
TEST(three_nodes, markers_of_a_new_server_are_not_compared_with_those_of_the_one_before)
{
    scene_attach();
    struct rl_node *node = scene.client->nodes->node;
    strcpy(node->marker.nonce, "1f");
    node->marker.seen_us = 1;
    show_run_id(node, node->server.run_id);
    ck_assert_str_eq(node->marker.nonce, "1f");
    show_run_id(node, new_run_id);
    ck_assert_str_eq(node->marker.nonce, "");
    ck_assert_uint_eq(node->marker.seen_us, 0);
}

/* Replies to the guard's script that have no time, or no marker. */
static const char *const unwritten[] = {"*2\r\n:-1\r\n$1\r\nx\r\n", "*2\r\n:9223372036854775807\r\n$1\r\nx\r\n",
                                        "*2\r\n:1\r\n:1\r\n"};

/* The connection ends. The next one writes the marker a second after the node's clock was read: its start is no later than
 * the time that the client knows of the node. */
TEST_ROWS(steps, marker_is_written_with_the_time_of_the_reply, ROWS(unwritten))
{
    scene.options.guard = 1;
    scene.options.max_ttl_ms = scene.options.ttl_ms;
    fake_server_add_rule(scene.node[0],
                         &(struct fake_rule){.command = "EVAL", .count = 1, .skip = true, .reply = unwritten[_i]});
    unsigned held =
        fake_server_add_rule(scene.node[0], &(struct fake_rule){.command = "TIME", .connection = 2, .hold = true});
    scene_attach_only();
    scene_until(fake_server_rule_used(scene.node[0], held));
    fake_server_set_clock_offset_us(scene.node[0], 1000000);
    scene_calm(0, 1);
    const struct rl_node *node = scene.client->nodes->node;
    scene_until(rl_node_is_ready(node));
    ck_assert_uint_ge(node->marker.seen_us, node->facts.marker.since * 1000);
    ck_assert_uint_eq(fake_server_accepted(scene.node[0]), 2);
}

/* The first node's name leads to another server, with another clock, from now on. */
static void lead_to(const char *run_id, int64_t clock_offset_us)
{
    fake_server_stop_listening(scene.node[0]);
    fake_server_drop(scene.node[0], FAKE_CLOSE);
    fake_server_set_info(scene.node[0], "run_id", run_id);
    fake_server_set_clock_offset_us(scene.node[0], clock_offset_us);
    fake_server_listen(scene.node[0]);
}

/* A handshake that reads the clock and then gets no reply to the script that writes the marker. The name leads to
 * another server then: to one that the client has not reached before, or to the one that was ready before. */
TEST_ROWS(three_nodes, clock_of_a_server_that_was_never_ready_is_not_compared_with_another_ones, 2)
{
    char run_id[RL_RUN_ID_SIZE] = "89abcdef0123456789abcdef0123456789abcdef";
    const struct fake_rule silent = {.command = "EVAL", .skip = true, .silent = true};
    scene.options.guard = 1;
    scene.options.max_ttl_ms = scene.options.ttl_ms;
    if (_i == 0)
        fake_server_add_rule(scene.node[0], &silent);
    scene_attach_only();
    const struct rl_node *node = scene.client->nodes->node;
    if (_i == 1) {
        scene_until(rl_node_is_ready(node));
        memcpy(run_id, node->server.run_id, sizeof run_id);
        fake_server_forget_records(scene.node[0]);
        fake_server_add_rule(scene.node[0], &silent);
        lead_to(new_run_id, -3600000000);
    }
    scene_until(fake_server_count(scene.node[0], "EVAL") > 0);
    fake_server_clear_rules(scene.node[0]);
    lead_to(run_id, _i == 0 ? 3600000000 : 0);
    scene_until(rl_node_is_ready(node) && strcmp(node->server.run_id, run_id) == 0);
    ck_assert(!node->suspect);
    ck_assert_uint_eq(scene.client->core.statistics.node_clock_jumps, 0);
    ck_assert_uint_eq(scene.client->nodes->clock_stopped, 0);
}

/* A proxy redirects two names to one server, on connections that stay open, and then the one or the other elsewhere. */
TEST(three_nodes, a_server_that_takes_another_names_place_has_one_vote)
{
    scene_attach();
    struct rl_node *nodes = scene.client->nodes->node;
    char run_id[RL_RUN_ID_SIZE];
    memcpy(run_id, nodes[1].server.run_id, sizeof run_id);
    for (unsigned i = 0; i < 2; i++) {
        show_run_id(&nodes[0], run_id);
        ck_assert_uint_eq(nodes[0].findings & REDLOCK_FINDING_SAME_SERVER, REDLOCK_FINDING_SAME_SERVER);
        ck_assert_ptr_nonnull(rl_guard_unfit(&nodes[0]));
        show_run_id(&nodes[1], i ? new_run_id : run_id);
        ck_assert_ptr_null(rl_guard_unfit(&nodes[1]));
        show_run_id(&nodes[0], i ? run_id : new_run_id);
        ck_assert_ptr_null(rl_guard_unfit(&nodes[0]));
    }
}

/* The connection's ID came from the server before, and may be another client's on this one. */
TEST(three_nodes, no_kill_is_sent_to_a_server_that_takes_anothers_place_on_an_open_connection)
{
    scene_attach();
    show_run_id(scene.client->nodes->node, new_run_id);
    fake_server_set_info(scene.node[0], "run_id", new_run_id);
    fake_server_add_rule(scene.node[0],
                         &(struct fake_rule){.command = "SET", .count = 1, .silent = true, .ending = FAKE_RESET});
    scene_start_acquire(&answer, "stock", NULL);
    scene_wait_for_accepted(0, 2);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    scene_wait_for_ready();
    scene_lock_and_release("other");
    ck_assert_uint_eq(scene_count(0, SENT_KILL), 0);
}

/* --- Missing replies --- */

TEST_ROWS(three_nodes, node_may_refuse_these_steps, 7)
{
    static const char *const commands[] = {"CLIENT SETNAME", "CLIENT ID", "INFO"};
    static const char *const errors[] = {FAKE_NOPERM, FAKE_LOADING, "-ERR unknown command\r\n", ":-1\r\n",
                                         "$-1\r\n",   "*0\r\n",     "-ERR \033[2J\t\177\r\n"};
    for (unsigned i = 0; i < 3; i++)
        fake_server_refuse(scene.node[i], commands[i], 0, errors[_i]);
    scene_attach();
    scene_lock_and_release("stock");
}

#define UNDETERMINED                                                                                                   \
    "-ERR Error running script (call to f_62491a): @user_script:36: @user_script: 36: Write commands not allowed "     \
    "after non deterministic commands.\r\n"
#define TOO_OLD   "redis 4.0.14 is too old: redlock needs Redis 5.0 or later, or Valkey"
#define NO_RIGHT  "may not run a command"
#define NO_SELECT "-ERR unknown command 'SELECT', with args beginning with: '3' \r\n"

/* A server that redlock does not work with, though its own replies do not say so: an old one, where the scripts fail, and
 * a Sentinel, which knows no SELECT and refuses a password. Or a node in cluster mode, where the keys of a lock have no
 * common tag (tests/parts/node_test.c has the tags). Or a node that hides a fact from the guard. Its field of INFO,
 * and its reply to a command (argument NULL: with any argument; reply NULL: 1 MiB of zeros). */
static const struct {
    const char *field, *value;
    const char *command, *argument, *reply;
    unsigned guard, finding;
    const char *text;
} unfit[] = {
    {"redis_version", "4.0.14", "EVAL", NULL, UNDETERMINED, 1, REDLOCK_FINDING_TOO_OLD, TOO_OLD},
    {"cluster_enabled", "1", "EVAL", NULL, "-CROSSSLOT Keys in request don't hash to the same slot\r\n", 1,
     REDLOCK_FINDING_CLUSTER, "it is in cluster mode"},
    {"redis_version", "4.0.14", "EVALSHA", NULL, UNDETERMINED, 0, REDLOCK_FINDING_TOO_OLD, TOO_OLD},
    {"redis_mode", "sentinel", "SELECT", NULL, NO_SELECT, 0, 0, "it is a Sentinel"},
    {"server_mode", "sentinel", "AUTH", NULL, "-ERR AUTH <password> called without any password configured\r\n", 0, 0,
     "it is a Sentinel"}, /* Valkey 9 */
    {"redict_mode", "sentinel", "SELECT", NULL, NO_SELECT, 0, 0, "it is a Sentinel"},
    {"role", "master", "INFO", "server", "$22\r\nredis_version:7.0.15\r\n\r\n", 1, REDLOCK_FINDING_HIDDEN, "run_id"},
    {"role", "master", "INFO", "replication", "$0\r\n\r\n", 1, REDLOCK_FINDING_HIDDEN, "role"},
    {"role", "master", "INFO", NULL, "*0\r\n", 1, REDLOCK_FINDING_HIDDEN, "run_id"},
    {"role", "master", "INFO", NULL, "-ERR INFO is disabled\r\n", 1, REDLOCK_FINDING_HIDDEN, "run_id"},
    {"role", "master", "INFO", NULL, FAKE_NOPERM, 1, REDLOCK_FINDING_NOT_PERMITTED, NO_RIGHT},
    {"role", "master", "INFO", "memory", FAKE_NOPERM, 1, REDLOCK_FINDING_NOT_PERMITTED, NO_RIGHT},
    {"role", "master", "TIME", NULL, FAKE_NOPERM, 1, REDLOCK_FINDING_NOT_PERMITTED, NO_RIGHT},
    {"role", "master", "TIME", NULL, "-ERR TIME is disabled\r\n", 1, REDLOCK_FINDING_HIDDEN, "TIME"},
    {"role", "master", "TIME", NULL, "*2\r\n$1\r\nx\r\n$1\r\n0\r\n", 1, REDLOCK_FINDING_HIDDEN, "TIME"},
    {"role", "master", "INFO", NULL, NULL, 1, REDLOCK_FINDING_HIDDEN, "run_id"},
    {"role", "master", "EVAL", NULL, "-ERR unknown command 'EVAL'\r\n", 1, REDLOCK_FINDING_NOT_PERMITTED, NO_RIGHT},
};

TEST_ROWS(steps, node_that_is_unfit_is_named_and_has_no_vote, ROWS(unfit))
{
    enum { SIZE = 1024 * 1024 };
    char *long_reply = fixture_text("$%d\r\n%0*d\r\n", SIZE, SIZE, 0);
    const char *reply = unfit[_i].reply ? unfit[_i].reply : long_reply;
    scene.options.guard = unfit[_i].guard;
    scene.options.max_ttl_ms = scene.options.ttl_ms;
    scene.options.database = strcmp(unfit[_i].command, "SELECT") == 0 ? 3 : 0;
    scene.options.password = strcmp(unfit[_i].command, "AUTH") == 0 ? SCENE_SECRET : NULL;
    if (strstr(unfit[_i].field, "_mode"))
        fake_server_set_info(scene.node[0], "redis_mode", "");
    fake_server_set_info(scene.node[0], unfit[_i].field, unfit[_i].value);
    fake_server_add_rule(
        scene.node[0], &(struct fake_rule){
                           .command = unfit[_i].command, .argument = unfit[_i].argument, .skip = true, .reply = reply});
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", REDLOCK_WAIT_MS(REDLOCK_FOREVER)), REDLOCK_MISCONFIGURED);
    ck_assert_has(answer.result.node[0].text, unfit[_i].text);
    redlock_node_status status = status_of_node_0();
    ck_assert_uint_eq(status.findings & (REDLOCK_FINDING_HIDDEN | REDLOCK_FINDING_NOT_PERMITTED |
                                         REDLOCK_FINDING_TOO_OLD | REDLOCK_FINDING_CLUSTER),
                      unfit[_i].finding);
    ck_assert_uint_eq(scene_count(0, SENT_SET), 0);
    free(long_reply);
}

TEST_PROGRAM("handshakes")
