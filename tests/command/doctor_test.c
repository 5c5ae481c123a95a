/* redlock doctor, what doctor.txt cannot say: it names the fault, and its remedy repairs it. */
#include "real/published_rights.h"
#include "story.h"

#include "support/delay_proxy.h"
#include "support/fake_server.h"
#include "support/server_program.h"

enum { OK = 0, WARNING = 1, CRITICAL = 2 };

static struct program *doctor(int expected)
{
    static const char *const verdicts[] = {"ok", "warning", "critical"};
    struct program *program = program_exits(program_run("doctor --json"), expected);
    json_is(program, ".verdict", verdicts[expected]);
    return program;
}

/* The names of a node's findings, separated by spaces. */
#define FOUND(node) ".nodes[" #node "] | [.findings[].name] | join(\" \")"

TEST(no_nodes, clocks_that_are_ahead_or_behind_are_named)
{
    struct cluster_node_options nodes[3] = {{.own_clock = true}, {.own_clock = true}, {0}};
    real_cluster(3, &(struct cluster_options){.nodes = nodes});
    program_setting.config = scene_file(SCENE_PATIENCE);
    program_setting.nodes = cluster_nodes_string(cluster);
    for (size_t i = 0; i < 2; i++)
        cluster_shift_clock(cluster, i, (i == 0 ? 60 : -60) * INT64_C(1000000));
    program_exits(program_run("trust --yes"), 0);
    json_is(doctor(WARNING),
            "[.nodes[].findings[] | select(.name == \"clock\").text | sub(\"(59|60)[.][0-9]\"; \"60\")] | join(\", \")",
            "its clock is 60 s ahead of this machine's, its clock is 60 s behind this machine's");
}

TEST(no_nodes, what_is_wrong_with_servers_is_named)
{
    static const char *const evicting[] = {"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", NULL};
    struct cluster_node_options nodes[5] = {{.arguments = evicting}, {.password = "secret"}, {0}, {0}, {0}};
    real_cluster(5, &(struct cluster_options){.nodes = nodes});
    program_setting.config = scene_file(SCENE_PATIENCE);
    const char *port = program_text("%u", cluster_port(cluster, 4));
    cluster_command(cluster, 2, NULL, 0, "REPLICAOF", "127.0.0.1", port, NULL);
    program_setting.nodes = program_text("%s,localhost:%s", cluster_nodes_string(cluster), port);
    program_exits(program_run("trust --yes"), MISCONFIGURED); /* three of the nodes can be trusted */
    struct program *program = doctor(CRITICAL);
    json_is(program, FOUND(0), "evicting");
    json_is(program, ".nodes[0].works", "true");
    json_is(program, ".nodes[0].findings[0].remedy", "set noeviction");
    json_is(program, ".nodes[0].server | IN(\"redis\", \"valkey\", \"redict\")", "true");
    json_is(program, FOUND(1), "unreachable");
    json_is(program, ".nodes[1].findings[0] | .text + \": \" + .remedy",
            "handshake: NOAUTH Authentication required.: set the password: REDLOCK_PASSWORD, REDLOCK_PASSWORD_FILE or "
            "password-file in the config file");
    json_is(program, FOUND(2), "replica"); /* it grants no lock after a quarantine either, so there is no */
    json_is(program, ".recovers_ms", "null");
    json_is(program, "[.nodes[4,5] | .findings[].name] | index(\"same-server\") != null", "true");
    json_is(program, ".findings[0].name", "number"); /* six nodes */
    program = program_run("acquire x -n");
    program_exits(program, MISCONFIGURED);
    program_errors_have(program, "; redlock doctor shows the remedy");
}

/* What is not the server that the user meant: how it answers, or what its INFO has, and the text and the remedy. */
static const struct {
    struct fake_rule rule;
    const char *field, *value, *text, *remedy;
    bool selects; /* the list names a database */
} strangers[] = {
    {.rule = {.command = "CLIENT SETNAME", .skip = true, .silent = true, .ending = FAKE_RESET},
     .text = "; does this port speak TLS?",
     .remedy = "if it does, write rediss:// in front of the node; otherwise see the server's log"},
    {.rule = {.command = "CLIENT SETNAME", .skip = true, .reply = "\025\003\001", .ending = FAKE_SHUTDOWN},
     .text = "; does this port speak TLS?",
     .remedy = "if it does, write rediss:// in front of the node; otherwise see the server's log"},
    {.rule = {.command = "CLIENT SETNAME", .skip = true, .reply = "SSH-2.0-server\r\n", .ending = FAKE_SHUTDOWN},
     .text = "the connection broke: Protocol error, got \\\"S\\\" as reply type byte\"",
     .remedy = "no Redis server is on this port: correct the address in the list of nodes"},
    {.rule = {.command = "CLIENT SETNAME",
              .skip = true,
              .reply = "-DENIED Redis is running in protected mode\r\n",
              .ending = FAKE_SHUTDOWN},
     .text = "DENIED Redis is running in protected mode",
     .remedy = "set a password (requirepass) or users on the server: without one it accepts only its own machine"},
    {.field = "redis_mode",
     .value = "sentinel",
     .text = "it is a Sentinel, which keeps no locks",
     .remedy = "write sentinel:// with all Sentinels and the name of the master, or list the servers that it watches"},
    {.rule = {.command = "EVAL", .skip = true, .reply = "-MOVED 15495 10.0.0.9:6379\r\n"},
     .text = "MOVED 15495 10.0.0.9:6379",
     .remedy = "another server of its cluster has the slot of the lock's keys: list the cluster, as cluster://HOST"},
    {.rule = {.command = "SELECT", .skip = true, .reply = "-NOPERM User me has no permissions to run 'select'\r\n"},
     .text = "handshake: NOPERM",
     .remedy = "grant the user the rights that redlock(7) lists",
     .selects = true},
};

TEST_ROWS(no_nodes, strangers_are_recognised, ROWS(strangers))
{
    struct fake_server *server = fake_server_start(FAKE_IPV4);
    real_note_descriptors();
    if (strangers[_i].field != NULL)
        fake_server_set_info(server, strangers[_i].field, strangers[_i].value);
    else
        fake_server_add_rule(server, &strangers[_i].rule);
    program_setting.nodes =
        program_text("redis://%s%s", fake_server_address(server), strangers[_i].selects ? "/1" : "");
    struct program *program = doctor(CRITICAL);
    json_is(program, FOUND(0), "unreachable");
    json_is(program, ".nodes[0].findings[0].remedy", strangers[_i].remedy);
    program_output_has(program, strangers[_i].text);
}

/* What is listed as Sentinels, or as a cluster. %s: a server that is neither. */
#define OTHERS ",127.0.0.2:1,127.0.0.3:1/m" /* where no server is */
#define START  "start the server, or correct the address in the list of nodes"
static const struct {
    const char *nodes;
    const char *reply; /* to SENTINEL; NULL: the server's own */
    const char *remedy;
} witnesses[] = {
    {"sentinel://127.0.0.1:1" OTHERS, NULL, START},
    {"sentinel://%s" OTHERS, NULL,
     "list Sentinels, whose usual port is 26379; list a server itself without sentinel://; " START},
    {"sentinel://%s" OTHERS, "-NOAUTH Authentication required.\r\n",
     "set their password: in the list for Sentinels, as sentinel://:PASSWORD@HOST, and as for a node for a cluster; " START},
    {"cluster://%s", NULL, "list the server itself, without cluster://"},
};

TEST_ROWS(no_nodes, witnesses_that_are_of_no_use_have_the_remedy_for_their_errors, ROWS(witnesses))
{
    struct fake_server *server = fake_server_start(FAKE_IPV4);
    real_note_descriptors();
    if (witnesses[_i].reply != NULL)
        fake_server_add_rule(server,
                             &(struct fake_rule){.command = "SENTINEL", .skip = true, .reply = witnesses[_i].reply});
    const char *nodes = witnesses[_i].nodes, *place = strstr(nodes, "%s");
    program_setting.nodes =
        place == NULL ? nodes
                      : program_text("%.*s%s%s", (int)(place - nodes), nodes, fake_server_address(server), place + 2);
    program_setting.config = scene_file("connect-timeout = 2s\nprefix = {tag}:\nmarker-key = {tag}:marker\n");
    struct program *program = doctor(CRITICAL);
    json_is(program, FOUND(0), "witnesses-silent");
    json_is(program, ".nodes[0].findings[0].remedy", witnesses[_i].remedy);
}

/* Three Sentinels name a master, or two in turn: at each reply, with epochs that differ, or from their second connection on. */
static const struct {
    enum { AT_EACH_REPLY, ON_LATER_CONNECTIONS, NEVER } other;
    const char *role; /* of the first master; NULL: it is down */
    const char *found, *text, *remedy;
} masters[] = {
    {AT_EACH_REPLY, "master", "failover", "have not all heard of its last failover", "repair the network between them"},
    {ON_LATER_CONNECTIONS, "master", "several-servers", "different masters are named in turn: m (",
     "let them all watch the same servers, of which one is a master"},
    {NEVER, "slave", "replica", "it is a replica, not a master",
     "let them all watch the same servers, of which one is a master"},
    {NEVER, NULL, "unreachable", "cannot connect: Connection refused",
     "start the server that they name, or wait until they name another master"},
};

static void name_master(struct fake_server *sentinel, const struct fake_server *master, struct fake_rule rule)
{
    const char *port = program_text("%u", fake_server_port(master));
    rule.command = "SENTINEL";
    rule.argument = "GET-MASTER-ADDR-BY-NAME";
    rule.reply = program_text("*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port), port);
    fake_server_add_rule(sentinel, &rule);
}

static struct fake_server *start_sentinel(unsigned i, unsigned epoch)
{
    struct fake_server *sentinel = fake_server_start(FAKE_IPV4);
    const char *id = program_text("$1\r\n%u\r\n", i);
    const char *state =
        program_text("*4\r\n$12\r\nconfig-epoch\r\n$1\r\n%u\r\n$19\r\nnum-other-sentinels\r\n$1\r\n2\r\n", epoch);
    fake_server_add_rule(sentinel, &(struct fake_rule){.command = "SENTINEL", .argument = "MYID", .reply = id});
    fake_server_add_rule(sentinel, &(struct fake_rule){.command = "SENTINEL", .argument = "MASTER", .reply = state});
    return sentinel;
}

/* Returns what they say, as a regular expression. */
static const char *start_sentinels(int row, struct fake_server **sentinel, const struct fake_server *first,
                                   const struct fake_server *other)
{
    enum { REPLIES = 60 };
    bool at_each = masters[row].other == AT_EACH_REPLY;
    const char *says = "";
    for (unsigned i = 0; i < 3; i++) {
        unsigned epoch = at_each ? i + 1 : 1;
        sentinel[i] = start_sentinel(i, epoch);
        for (unsigned k = 1; at_each && k < REPLIES; k++)
            name_master(sentinel[i], k % 2 ? first : other, (struct fake_rule){.first = k, .count = 1});
        if (masters[row].other == ON_LATER_CONNECTIONS)
            name_master(sentinel[i], first, (struct fake_rule){.connection = 1});
        name_master(sentinel[i], masters[row].other == NEVER ? first : other, (struct fake_rule){0});
        says = program_text("%s%s%s: (%s%s%s), epoch %u", says, i ? "; " : "", fake_server_address(sentinel[i]),
                            fake_server_address(first), at_each ? "|" : "", at_each ? fake_server_address(other) : "",
                            epoch);
    }
    return says;
}

/* A Sentinel's reply took long on a busy machine, or two had named a master that is down before the third replied. The doctor has
 * three clients, each with one connection. */
static bool is_disturbed(struct fake_server *const *sentinel, struct program *program)
{
    bool again = false;
    for (unsigned i = 0; i < 3; i++)
        again = again || fake_server_accepted(sentinel[i]) > 3;
    return again || strstr(program_output(program), "no reply");
}

TEST_ROWS(no_nodes, sentinels_that_flap_or_name_no_master_are_quoted, ROWS(masters))
{
    struct fake_server *first, *other, *sentinel[3];
    struct program *program = NULL;
    const char *says = "";
    program_setting.config = scene_file(SCENE_PATIENCE);
    for (unsigned i = 0; i < 5 && (i == 0 || is_disturbed(sentinel, program)); i++) {
        first = fake_server_start(FAKE_IPV4);
        other = fake_server_start(FAKE_IPV4);
        if (masters[_i].role)
            fake_server_set_info(first, "role", masters[_i].role);
        else
            fake_server_stop_listening(first);
        says = start_sentinels(_i, sentinel, first, other);
        real_note_descriptors();
        program_setting.nodes = program_text("sentinel://%s,%s,%s/m", fake_server_address(sentinel[0]),
                                             fake_server_address(sentinel[1]), fake_server_address(sentinel[2]));
        program = doctor(CRITICAL);
    }
    json_is(program, ".nodes[0].findings[0].name", masters[_i].found);
    json_is(program, program_text(".nodes[0].witnesses | test(\"^%s$\")", says), "true");
    program_output_has(program, masters[_i].text);
    if (masters[_i].other == ON_LATER_CONNECTIONS)
        program_output_has(
            program, program_text("m (%s), and then m (%s)", fake_server_address(first), fake_server_address(other)));
    program_output_has(program, masters[_i].remedy);
}

/* A balancer leads each connection to another server: none has restarted. */
TEST(no_nodes, proxy_that_spreads_connections_is_recognised)
{
    scene_cluster(4, NULL);
    const uint16_t ports[] = {cluster_port(cluster, 0), cluster_port(cluster, 1)};
    struct delay_proxy *proxy = delay_proxy_start(ports, 2);
    real_note_descriptors();
    delay_proxy_spread(proxy);
    program_setting.nodes = program_text("127.0.0.1:%u,%s,%s", delay_proxy_port(proxy, 0), cluster_address(cluster, 2),
                                         cluster_address(cluster, 3));
    struct program *program = doctor(CRITICAL);
    json_is(program, FOUND(0), "several-servers");
    json_is(program, FOUND(1), "quarantine");
    program_output_has(program, "list the servers themselves: no proxy that spreads connections");
}

#define AS_USER "REDLOCK_USER=" PUBLISHED_USER " REDLOCK_PASSWORD=" PUBLISHED_PASSWORD " "

/* The remedy is a command, and it works. */
TEST(no_nodes, remedy_for_missing_rights_is_the_command_that_grants_them)
{
    if (!server_program_has(SERVER_CHANNEL_ACL))
        return;
    const char *acl = program_text("user default off\nuser %s\n", published_rights_without("+pexpire &redlock:*"));
    scene_cluster(3, &(struct cluster_node_options){.acl = acl});
    char words[1024];
    program_exits(program_run(AS_USER "trust -y"), 0);
    struct program *program = program_exits(program_run(AS_USER "doctor " PUBLISHED_PREFIX "daily --json"), CRITICAL);
    json_is(program, ".nodes[0].lacking", "+pexpire &redlock:*");
    json_is(program, ".nodes[0].findings[] | select(.name == \"lacking-rights\") | .remedy",
            "on the node: ACL SETUSER lock +pexpire &redlock:*");
    for (size_t i = 0; i < 3; i++) {
        cluster_command(cluster, i, words, sizeof words, "ACL", "SETUSER", "lock", "+pexpire", "&redlock:*", NULL);
        ck_assert_str_eq(words, "OK");
    }
    program_exits(program_run(AS_USER "doctor " PUBLISHED_PREFIX "daily"), OK);
    program = program_run(AS_USER "doctor"); /* this user has no rights for its key */
    program_exits(program, CRITICAL);
    program_output_has(program, "user lock lacks ~*\n");

    /* The user in a node's address is the one without the rights, regardless of the settings. */
    static const char uri[] = "redis://" PUBLISHED_USER ":" PUBLISHED_PASSWORD "@";
    program_setting.nodes = program_text("%s%s,%s%s,%s%s", uri, cluster_address(cluster, 0), uri,
                                         cluster_address(cluster, 1), uri, cluster_address(cluster, 2));
    program = program_exits(program_run("REDLOCK_USER=another REDLOCK_PASSWORD=secret doctor --json"), CRITICAL);
    json_is(program, ".nodes[0].findings[] | select(.name == \"lacking-rights\") | .remedy[:31]",
            "on the node: ACL SETUSER " PUBLISHED_USER " ~");
}

STORY_PROGRAM("doctor")
