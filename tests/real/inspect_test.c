/* The report of an inspection on real servers: the missing rights by name. tests/command/doctor.txt has missing commands. */
#include "real/held.h"
#include "real/published_rights.h"

#include "support/fixture.h"

#define RESOURCE real_key("looked-at")
#define KEY      PUBLISHED_PREFIX RESOURCE

static struct face *face;
static redlock_node_status status;

/* --- Rights --- */

/* Opens a face for a user with these rights. */
static void begin_with(int i, const char *rights, redlock_options options)
{
    char *lines = fixture_text("user default off\nuser %s\n", rights);
    real_cluster_of(1, (struct cluster_node_options){.acl = lines});
    free(lines);
    face = face_open(face_of(i), cluster_nodes_string(cluster), &options);
}

static void begin(int i, const char *rights)
{
    begin_with(i, rights, published_options(900));
}

static const char *lacking_for(const char *resource, int expected)
{
    real_status(face_inspect(face, resource, &result), expected, &result);
    status = held_node_status(face, 0);
    return status.lacking;
}

static const char *lacking(int expected)
{
    return lacking_for(RESOURCE, expected);
}

static void change(const char *rule)
{
    char reply[256];
    cluster_command(cluster, 0, reply, sizeof reply, "ACL", "SETUSER", PUBLISHED_USER, rule, NULL);
    ck_assert_msg(strcmp(reply, "OK") == 0, "ACL SETUSER %s: %s", rule, reply);
}

/* Whether the test removes this right. A server admits AUTH in any case. A missing SUBSCRIBE is found only when the client
 * subscribes. */
static bool is_tried(const char *word)
{
    return word[0] == '+' && strcmp(word, "+auth") != 0 && strcmp(word, "+select") != 0 &&
           strcmp(word, "+subscribe") != 0;
}

static void assert_named_without(const char *word)
{
    char rule[64];
    snprintf(rule, sizeof rule, "-%s", word + 1);
    change(rule);
    const char *names = lacking(REDLOCK_MISCONFIGURED);
    ck_assert_msg(strcmp(names, word) == 0, "without %s: lacks %s", word, names);
    ck_assert_int_eq(result.node[0].outcome, REDLOCK_NODE_REFUSED);
    ck_assert_ptr_nonnull(strstr(result.node[0].text, word));
    change(word);
}

REAL_CASE(rights, real_bare_case, NULL);

#define QUEUE KEY ":redlock:queue"
#define ALIVE KEY ":redlock:alive"

static void read_keys(char *digest, size_t size)
{
    static const char script[] =
        "local all = '' for _, key in ipairs(KEYS) do all = all .. redis.call('DUMP', key) end "
        "return redis.sha1hex(all)";
    cluster_command(cluster, 0, digest, size, "EVAL", script, "3", KEY, QUEUE, ALIVE, NULL);
    ck_assert_uint_eq(strlen(digest), 40);
}

/* The inspections change no key. */
TEST(rights, each_missing_right_is_named)
{
    if (!server_program_has(SERVER_SUBCOMMAND_ACL))
        return;
    char *copy = strdup(published_rights()), *rest = copy, *word, before[256], after[256];
    unsigned tried = 0;
    begin(_i, published_rights());
    face_ready(face, REAL_SOON_MS, &result);
    cluster_command(cluster, 0, NULL, 0, "SET", KEY, "theirs", "PX", "600000", NULL);
    cluster_command(cluster, 0, NULL, 0, "ZADD", QUEUE, "7", "somebody", NULL);
    cluster_command(cluster, 0, NULL, 0, "HSET", ALIVE, "somebody", "7", NULL);
    read_keys(before, sizeof before);
    ck_assert_str_eq(lacking(REDLOCK_OK), "");
    ck_assert_int_eq(result.node[0].outcome, REDLOCK_NODE_GRANTED);
    ck_assert_uint_gt(result.node[0].latency_us, 0);
    ck_assert_uint_eq(result.granted, 1);
    ck_assert_uint_eq(status.findings, 0);
    ck_assert_uint_eq(status.clock_known, 1);
    while ((word = strsep(&rest, " ")) != NULL)
        if (is_tried(word)) {
            assert_named_without(word);
            tried++;
        }
    ck_assert_uint_gt(tried, 20);
    ck_assert_str_eq(lacking(REDLOCK_OK), "");
    free(copy);
    real_status(face_inspect(face, "", &result), REDLOCK_INVALID, &result);
    held_result_says("empty");
    read_keys(after, sizeof after);
    ck_assert_str_eq(after, before);
    ck_assert_int_gt(cluster_integer(cluster, 0, "PTTL", KEY, NULL), 300000);
    cluster_integer(cluster, 0, "DEL", KEY, QUEUE, ALIVE, NULL);
}

static const struct {
    const char *without;
    const char *more;
    const char *lacking;
} patterns[] = {
    {"~jobs:*", "~other", "~jobs:*"},
    {"~jobs:*", "~" KEY, "~jobs:*:redlock:*"},
    {"~redlock:marker", "~other", "~redlock:marker"},
    {"&redlock:*", "&other", "&redlock:*"},
    {"+subscribe", "+ping", "+subscribe"},
};

TEST_ROWS(rights, missing_keys_and_channels_are_named, ROWS(patterns))
{
    if (!server_program_has(SERVER_SUBCOMMAND_ACL))
        return;
    char rights[4096];
    snprintf(rights, sizeof rights, "%s %s", published_rights_without(patterns[_i].without), patterns[_i].more);
    begin(_i, rights);
    ck_assert_str_eq(lacking(REDLOCK_MISCONFIGURED), patterns[_i].lacking);
}

/* The rule is the pattern of all keys with the prefix, and grants the rights. */
static const struct {
    const char *prefix, *lacking;
} prefixes[] = {
    {"jobs:", "~jobs:*"},
    {"", "~*"},
    {"a*?[b]\\c", "~a\\*\\?\\[b\\]\\\\c*"},
    {"\"a 'b\xff", "~?a??b?*"},
};

TEST_ROWS(rights, rules_are_for_all_resources_with_the_prefix, ROWS(prefixes))
{
    if (!server_program_has(SERVER_CHANNEL_ACL))
        return;
    redlock_options options = published_options(900);
    options.prefix = prefixes[_i].prefix;
    begin_with(_i, published_rights_without("~jobs:*"), options);
    char *rule = fixture_text("%s", lacking(REDLOCK_MISCONFIGURED));
    ck_assert_str_eq(rule, prefixes[_i].lacking);
    change(rule);
    free(rule);
    ck_assert_str_eq(lacking(REDLOCK_OK), "");
    ck_assert_str_eq(lacking_for(RESOURCE "-2", REDLOCK_OK), "");
}

REAL_PROGRAM("real_inspect")
