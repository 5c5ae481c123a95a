#include "story.h"

#include "real/published_rights.h"
#include "support/fake_server.h"
#include "support/file.h"

#include <redlock/redlock.h>

#include <ctype.h>
#include <sys/stat.h>

enum { REDIS_WORDS = 8, REPLY_SIZE = 4096, FAKES = 32, ODD_MOST = 60 };

/* A config without TLS or passwords. */
static const char patience[] = "timeout = 10s\nconnect-timeout = 10s\n";

static struct fake {
    const char *name;
    struct fake_server *server;
} fakes[FAKES];
static size_t fakes_count;

/* --- Nodes --- */

/* Ends the quarantine of the nodes. */
static void trust(void)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    redlock_client *client;
    redlock_result trusted;
    options.node_timeout_ms = 1000;
    ck_assert_int_eq(redlock_connect(program_setting.nodes, &options, &client, &trusted), REDLOCK_OK);
    STORY_SOON(redlock_trust(client, NULL, &trusted) == REDLOCK_OK && trusted.granted == trusted.nodes, "trust: %s",
               redlock_result_text(&trusted));
    redlock_close(&client, NULL, NULL);
}

const char *scene_file(const char *text)
{
    const char *path = program_text("%s/file", temp_dir_path(temp_dir_make()));
    file_write(path, text, strlen(text));
    ck_assert_int_eq(chmod(path, 0600), 0);
    real_note_descriptors();
    return path;
}

/* This story's own nodes, which are not trusted yet. */
static void make_cluster(size_t nodes, char *rest)
{
    struct cluster_node_options each = {0};
    struct cluster_tls tls = {0};
    const char *arguments[5 * REDIS_WORDS] = {NULL};
    for (size_t i = 0; *rest != '\0';) {
        STORY_REQUIRE(i < ROWS(arguments) - 1, "too many words for servers");
        if (begins(rest, "acl=")) {
            each.acl = story_unescape(rest + 4);
            break;
        }
        const char *word = story_take_word(&rest);
        if (is(word, "clocks"))
            each.own_clock = true;
        else if (begins(word, "password="))
            each.password = word + 9;
        else if (begins(word, "tls="))
            tls = (struct cluster_tls){program_text("%s/server.pem", word + 4), program_text("%s/server.key", word + 4),
                                       program_text("%s/authority.pem", word + 4), false};
        else if (is(word, "verify"))
            tls.client_certificates = true;
        else
            arguments[i++] = is(word, "''") ? "" : word;
    }
    each.tls = tls.key ? &tls : NULL;
    each.arguments = arguments;
    real_cluster_of(nodes, each);
    program_setting.nodes = cluster_nodes_string(cluster);
    program_setting.config = scene_file(patience);
}

size_t scene_copies(const char *key)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster_size(cluster); i++)
        count += cluster_integer(cluster, i, "EXISTS", key, NULL) == 1;
    return count;
}

static bool is_renewed(const char *key, long long *left_ms)
{
    long long before_ms = *left_ms;
    *left_ms = cluster_integer(cluster, 0, "PTTL", key, NULL);
    return *left_ms > before_ms;
}

static void await_renewals(unsigned count, const char *key)
{
    long long left_ms = cluster_integer(cluster, 0, "PTTL", key, NULL);
    for (; count > 0; count--)
        STORY_SOON(is_renewed(key, &left_ms), "%u are missing", count);
}

/* The bits of the numbers in front; of all nodes if there are none. */
static unsigned take_nodes(char **text)
{
    unsigned nodes = 0;
    while (isdigit((unsigned char)**text))
        nodes |= 1u << (atoi(story_take_word(text)) - 1);
    return nodes ? nodes : ~0u;
}

static void on_nodes(void (*act)(struct cluster *, size_t), char *list)
{
    while (*list != '\0')
        act(cluster, (size_t)story_number(story_take_word(&list)) - 1);
}

static bool node_replies(size_t node, const char *const *word, const char *expected, char reply[static REPLY_SIZE])
{
    STORY_REQUIRE(cluster_command(cluster, node, reply, REPLY_SIZE, word[0], word[1], word[2], word[3], word[4],
                                  word[5], word[6], word[7], NULL),
                  "node %zu does not reply", node + 1);
    return expected == NULL || is(reply, expected);
}

/* A command has its lock as soon as a majority has granted it: the other nodes may execute their request later, so the reply
 * is awaited. A script, to the end of the line, is executed once: the time that it reads goes on. */
static void redis(char *rest, bool is_script)
{
    const char *word[REDIS_WORDS] = {NULL}, *expected = story_split_off(rest, " => ");
    char reply[REPLY_SIZE];
    unsigned nodes = take_nodes(&rest);
    if (is_script)
        word[0] = "EVAL", word[1] = rest, word[2] = "0";
    for (size_t i = 0; !is_script && i < REDIS_WORDS && *rest != '\0'; i++)
        word[i] = story_unescape(story_take_word(&rest));
    for (size_t i = 0; i < cluster_size(cluster); i++)
        if (nodes & 1u << i && is_script)
            STORY_REQUIRE(node_replies(i, word, expected, reply), "node %zu replies %s", i + 1, reply);
        else if (nodes & 1u << i)
            STORY_SOON(node_replies(i, word, expected, reply), "node %zu replies %s", i + 1, reply);
}

static bool take_node_step(const char *verb, char *rest)
{
    if (is(verb, "cluster")) {
        size_t nodes = (size_t)story_number(story_take_word(&rest));
        make_cluster(nodes, rest);
    } else if (is(verb, "on")) {
        size_t number = (size_t)story_number(story_take_word(&rest));
        STORY_SOON(scene_copies(rest) == number, "on %zu nodes", scene_copies(rest));
    } else if (is(verb, "renewals")) {
        unsigned number = (unsigned)story_number(story_take_word(&rest));
        await_renewals(number, rest);
    } else if (is(verb, "shift")) {
        int64_t us = 1000 * (int64_t)story_number(story_take_word(&rest));
        unsigned nodes = take_nodes(&rest);
        for (size_t i = 0; i < cluster_size(cluster); i++)
            if (nodes & 1u << i)
                cluster_shift_clock(cluster, i, us);
    } else if (is(verb, "password")) {
        size_t node = (size_t)story_number(story_take_word(&rest)) - 1;
        cluster_set_password(cluster, node, rest);
    } else if (is(verb, "hold")) {
        for (size_t i = 0; i < cluster_size(cluster); i++)
            ck_assert(real_foreign_set(i, rest, "another"));
    } else if (is(verb, "delete")) {
        real_command(cluster_size(cluster), "DEL", rest, NULL);
    } else if (is(verb, "nothing-left")) {
        STORY_REQUIRE(real_nothing_left(NULL), "there is");
    } else if (is(verb, "redis") || is(verb, "script")) {
        redis(rest, is(verb, "script"));
    } else if (is(verb, "kill-node")) {
        on_nodes(cluster_kill, rest);
    } else if (is(verb, "stop-node")) {
        on_nodes(cluster_stop, rest);
    } else if (is(verb, "repair")) {
        cluster_repair(cluster);
    } else {
        return false;
    }
    return true;
}

/* --- Fake nodes, and a proxy --- */

static void start_fake(const char *name)
{
    STORY_REQUIRE(fakes_count < FAKES, "too many fake nodes");
    fakes[fakes_count++] = (struct fake){name, fake_server_start()};
    real_note_descriptors();
}

static struct fake_server *fake_of(const char *name)
{
    for (size_t i = fakes_count; i-- > 0;)
        if (is(fakes[i].name, name))
            return fakes[i].server;
    story_fail("there is no fake node '%s'", name);
}

const char *scene_value(const char *name, size_t length)
{
    char *object = program_text("%.*s", (int)length, name), *property = strchr(object, '.');
    unsigned node;
    char more;
    if (property != NULL)
        *property++ = '\0';
    for (size_t i = fakes_count; i-- > 0;)
        if (is(fakes[i].name, object))
            return property == NULL       ? fake_server_address(fakes[i].server)
                   : is(property, "port") ? program_text("%u", fake_server_port(fakes[i].server))
                                          : program_text("%zu", fake_server_accepted(fakes[i].server));
    if (cluster != NULL && sscanf(object, "node%u%c", &node, &more) == 1 && node - 1 < cluster_size(cluster))
        return cluster_address(cluster, node - 1);
    return is(object, "nodes") && cluster != NULL ? cluster_nodes_string(cluster)
           : is(object, "server")                 ? server_program()
           : is(object, "rights")                 ? published_rights()
           : is(object, "patience")               ? patience
                                                  : NULL;
}

static void add_rule(struct fake_server *server, char *rest)
{
    char *reply = story_split_off(rest, " => ");
    struct fake_rule rule = {.skip = true, .reply = reply ? story_unescape(reply) : ""};
    bool odd = begins(rest, "odd ");
    if (odd)
        story_take_word(&rest);
    while (strcspn(rest, "=") < strcspn(rest, " ")) {
        char *word = story_take_word(&rest), *value = strchr(word, '=') + 1;
        if (begins(word, "argument="))
            rule.argument = value;
        else if (begins(word, "connection="))
            rule.connection = (unsigned)story_number(value);
        else
            rule.ending = is(value, "reset") ? FAKE_RESET : FAKE_SHUTDOWN;
    }
    rule.command = rest;
    rule.silent = *rule.reply == '\0';
    rule.count = odd;
    for (rule.first = 1; rule.first < (odd ? ODD_MOST : 2); rule.first += 2)
        fake_server_add_rule(server, &rule);
}

static bool take_fake_step(const char *verb, char *rest)
{
    if (is(verb, "fake")) {
        start_fake(rest);
    } else if (is(verb, "rule")) {
        struct fake_server *server = fake_of(story_take_word(&rest));
        add_rule(server, rest);
    } else if (is(verb, "info")) {
        struct fake_server *server = fake_of(story_take_word(&rest));
        const char *field = story_take_word(&rest);
        fake_server_set_info(server, field, rest);
    } else if (is(verb, "deaf")) {
        fake_server_stop_listening(fake_of(rest));
    } else if (is(verb, "proxy")) {
        const uint16_t ports[] = {cluster_port(cluster, 0), cluster_port(cluster, 1)};
        struct delay_proxy *proxy = delay_proxy_start(NULL, ports, ROWS(ports));
        delay_proxy_spread(proxy);
        story_set_value(rest, program_text("127.0.0.1:%u", delay_proxy_port(proxy, 0)));
        real_note_descriptors();
    } else {
        return false;
    }
    return true;
}

/* --- Surroundings --- */

static bool take_setting_step(const char *verb, char *rest)
{
    if (is(verb, "nodes"))
        program_setting.nodes = *rest == '\0' ? NULL : rest;
    else if (is(verb, "config"))
        program_setting.config = *rest == '\0' ? NULL : scene_file(story_unescape(rest));
    else if (is(verb, "terminal"))
        program_setting.terminal = !is(rest, "off");
    else if (is(verb, "older"))
        program_setting.newest_call = story_number(rest) - 1;
    else
        return false;
    return true;
}

bool scene_take_step(const char *verb, char *rest)
{
    return take_node_step(verb, rest) || take_fake_step(verb, rest) || take_setting_step(verb, rest);
}

/* --- Cases --- */

static void prepare_bare(void)
{
    fakes_count = 0;
    program_setting = (struct program_setting){0};
    story_begin();
}

static void prepare(void)
{
    prepare_bare();
    program_setting.nodes = cluster_nodes_string(cluster);
    trust();
    program_setting.config = scene_file(patience);
}

struct test_case case_no_nodes = {"no_nodes", prepare_bare, programs_end, 0, real_bare_case, real_add_test, NULL};
struct test_case case_shared_nodes = {"shared_nodes", prepare, programs_end, 0, real_shared_case, real_add_test, NULL};
struct test_case case_own_nodes = {"own_nodes", prepare, programs_end, 0, real_own_case, real_add_test, NULL};
