/* Node lists: every accepted form, every error, and that no error shows a password. */
#include "src/link/address.h"
#include "support/test.h"

static struct rl_address nodes[REDLOCK_NODES_MAX];
static char error[256];

static unsigned read_list(const char *list)
{
    snprintf(error, sizeof error, "(no error was written)");
    return rl_address_list(list, nodes, error, sizeof error);
}

#define ck_assert_read(list, count) ck_assert_msg(read_list(list) == (count), "'%s': %s", (list), error)

/* --- Accepted forms --- */

static const struct {
    const char *text, *host, *path, *name;
    unsigned port;
    bool tls;
} targets[] = {
    {"node1", "node1", "", "node1:6379", 6379, false},
    {"10.0.0.4", "10.0.0.4", "", "10.0.0.4:6379", 6379, false},
    {"node1:1", "node1", "", "node1:1", 1, false},
    {"node1:65535", "node1", "", "node1:65535", 65535, false},
    {"node-1.example.org:7000", "node-1.example.org", "", "node-1.example.org:7000", 7000, false},
    {"[::1]", "::1", "", "[::1]:6379", 6379, false},
    {"[::1]:7000", "::1", "", "[::1]:7000", 7000, false},
    {"[fe80::1%eth0]:7000", "fe80::1%eth0", "", "[fe80::1%eth0]:7000", 7000, false},
    {"/run/redis.sock", "", "/run/redis.sock", "/run/redis.sock", 0, false},
    {"redis://node1", "node1", "", "node1:6379", 6379, false},
    {"REDIS://node1", "node1", "", "node1:6379", 6379, false},
    {"redis://node1/", "node1", "", "node1:6379", 6379, false},
    {"redis://node1:7000", "node1", "", "node1:7000", 7000, false},
    {"redis://[2001:db8::7]:7000/3", "2001:db8::7", "", "[2001:db8::7]:7000", 7000, false},
    {"rediss://node1:7000", "node1", "", "node1:7000", 7000, true},
    {"unix:///run/redis.sock", "", "/run/redis.sock", "/run/redis.sock", 0, false},
    {"unix:///run/with%20space%2Csock", "", "/run/with space,sock", "/run/with space,sock", 0, false},
    {" \t node1:7000 \r\n", "node1", "", "node1:7000", 7000, false},
};

TEST_CASE(addresses, NULL, NULL);

TEST_ROWS(addresses, one_node_in_each_form, ROWS(targets))
{
    ck_assert_read(targets[_i].text, 1);
    ck_assert_str_eq(nodes[0].host, targets[_i].host);
    ck_assert_str_eq(nodes[0].path, targets[_i].path);
    ck_assert_str_eq(nodes[0].name, targets[_i].name);
    ck_assert_uint_eq(nodes[0].port, targets[_i].port);
    ck_assert_int_eq(nodes[0].tls, targets[_i].tls);
    ck_assert(!nodes[0].has_password);
    ck_assert_str_eq(nodes[0].user, "");
    ck_assert_str_eq(nodes[0].password, "");
}

static const struct {
    const char *text, *user, *password, *name;
} logins[] = {
    {"redis://lock:secret@node1", "lock", "secret", "node1:6379"},
    {"redis://:secret@node1:7000", "", "secret", "node1:7000"},
    {"rediss://lock:secret@[::1]:7000/1", "lock", "secret", "[::1]:7000"},
    {"redis://lo%3Ack:p%40ss%2Fw%3Frd%2c%25@node1", "lo:ck", "p@ss/w?rd,%", "node1:6379"},
    {"redis://lock:with:colons@node1", "lock", "with:colons", "node1:6379"},
    {"redis://lock:with@at@node1", "lock", "with@at", "node1:6379"},
    {"redis://lock:with/slash@node1/3", "lock", "with/slash", "node1:6379"},
    {"redis://lock:%C3%A4%01@node1", "lock", "\xc3\xa4\x01", "node1:6379"},
    {"unix://lock:secret@/run/redis.sock", "lock", "secret", "/run/redis.sock"},
    {"unix://:secret@/run/redis.sock?database=2", "", "secret", "/run/redis.sock"},
};

TEST_ROWS(addresses, user_and_password_in_each_form, ROWS(logins))
{
    ck_assert_read(logins[_i].text, 1);
    ck_assert(nodes[0].has_password);
    ck_assert_str_eq(nodes[0].user, logins[_i].user);
    ck_assert_str_eq(nodes[0].password, logins[_i].password);
    ck_assert_str_eq(nodes[0].name, logins[_i].name);
}

static const struct {
    const char *text;
    int64_t database;
    uint32_t timeout_ms, connect_timeout_ms;
} settings[] = {
    {"node1", -1, 0, 0},
    {"redis://node1/0", 0, 0, 0},
    {"redis://node1/15", 15, 0, 0},
    {"redis://node1/1000000", 1000000, 0, 0},
    {"redis://node1?timeout_ms=1", -1, 1, 0},
    {"redis://node1/3?timeout_ms=20&connect_timeout_ms=300", 3, 20, 300},
    {"redis://lock:secret@node1:7000/4?connect_timeout_ms=3600000&timeout_ms=3600000", 4, 3600000, 3600000},
    {"unix:///run/redis.sock?database=7&timeout_ms=5", 7, 5, 0},
    {"redis://node1?database=7", 7, 0, 0},
};

TEST_ROWS(addresses, settings_of_one_node, ROWS(settings))
{
    ck_assert_read(settings[_i].text, 1);
    ck_assert_int_eq(nodes[0].database, settings[_i].database);
    ck_assert_uint_eq(nodes[0].timeout_ms, settings[_i].timeout_ms);
    ck_assert_uint_eq(nodes[0].connect_timeout_ms, settings[_i].connect_timeout_ms);
}

TEST(addresses, forms_may_be_mixed_and_spaced)
{
    ck_assert_read("node1 , redis://u:p@node1:7000/2?timeout_ms=9,\tunix:///run/a,/run/b,\n[::1]", 5);
    ck_assert_str_eq(nodes[0].name, "node1:6379");
    ck_assert_str_eq(nodes[1].name, "node1:7000");
    ck_assert_str_eq(nodes[2].name, "/run/a");
    ck_assert_str_eq(nodes[3].name, "/run/b");
    ck_assert_str_eq(nodes[4].name, "[::1]:6379");
    ck_assert_str_eq(nodes[1].password, "p");
    ck_assert(!nodes[2].has_password && !nodes[4].has_password); /* settings do not carry over to the next node */
    ck_assert_int_eq(nodes[4].database, -1);
    ck_assert_uint_eq(nodes[4].timeout_ms, 0);
}

TEST(addresses, paths_differ_by_case_and_host_names_do_not)
{
    ck_assert_read("/run/redis-A.sock,/run/redis-a.sock", 2);
    ck_assert_read("node1,NODE1:6379", 0);
}

/* --- Sentinels --- */

static const struct {
    const char *text, *sentinels, *master, *name, *user, *password;
    int64_t database;
    bool tls;
} groups[] = {
    {"sentinel://s1,s2,s3/mymaster", "s1:26379 s2:26379 s3:26379 ", "mymaster", "mymaster (sentinel s1:26379)", "", "",
     -1, false},
    {" SENTINEL://s1:1 , s2:2,[::1]:3/a.b-c_1/3 ", "s1:1 s2:2 [::1]:3 ", "a.b-c_1", "a.b-c_1 (sentinel s1:1)", "", "",
     3, false},
    {"sentinels://lock:se/cr@t,x@s1,s2,s3/m?database=7", "s1:26379 s2:26379 s3:26379 ", "m", "m (sentinel s1:26379)",
     "lock", "se/cr@t,x", 7, true},
    {"sentinel://:pw@1,2,3,4,5,6,7,8,9/m", "1:26379 2:26379 3:26379 4:26379 5:26379 6:26379 7:26379 8:26379 9:26379 ",
     "m", "m (sentinel 1:26379)", "", "pw", -1, false},
};

TEST_ROWS(addresses, sentinels_of_a_master, ROWS(groups))
{
    struct rl_address sentinel;
    ck_assert_read(groups[_i].text, 1);
    ck_assert_str_eq(nodes[0].witnesses, groups[_i].sentinels);
    ck_assert_str_eq(nodes[0].master, groups[_i].master);
    ck_assert_str_eq(nodes[0].name, groups[_i].name);
    ck_assert_int_eq(nodes[0].database, groups[_i].database);
    ck_assert_str_eq(nodes[0].host, "");
    ck_assert(!nodes[0].has_password); /* they are the Sentinels' */
    const char *at = groups[_i].sentinels;
    for (unsigned i = 0; i < nodes[0].witness_count; i++, at = strchr(at, ' ') + 1) {
        rl_address_witness(&nodes[0], i, &sentinel);
        ck_assert_msg(strncmp(sentinel.name, at, strcspn(at, " ")) == 0, "%s", sentinel.name);
        ck_assert_str_eq(sentinel.user, groups[_i].user);
        ck_assert_str_eq(sentinel.password, groups[_i].password);
        ck_assert_int_eq(sentinel.has_password, groups[_i].password[0] != '\0');
        ck_assert_int_eq(sentinel.tls, groups[_i].tls);
    }
    ck_assert_str_eq(at, "");
}

TEST(addresses, groups_of_sentinels_beside_other_nodes)
{
    ck_assert_read("sentinel://:a@s1,s2,s3/m,node1:7000,redis://u:p@node2/1, sentinel://t1,t2,t3/m ,"
                   "sentinel://s1,s2,s3/n",
                   5);
    ck_assert_str_eq(nodes[0].master, "m");
    ck_assert_str_eq(nodes[1].name, "node1:7000");
    ck_assert_str_eq(nodes[1].master, "");
    ck_assert_str_eq(nodes[2].password, "p");
    ck_assert_str_eq(nodes[3].witnesses, "t1:26379 t2:26379 t3:26379 ");
    ck_assert_str_eq(nodes[3].password, "");
    ck_assert_str_eq(nodes[4].master, "n");
}

/* --- Clusters --- */

static const struct {
    const char *text, *witnesses, *name, *password;
    bool tls;
} clusters[] = {
    {"cluster://h1", "h1:6379 ", "cluster h1:6379", "", false},
    {" CLUSTER://h1:1 , h2,[::1]:3/ ", "h1:1 h2:6379 [::1]:3 ", "cluster h1:1", "", false},
    {"clusters://lock:se/cr@t,x@h1,h2/?timeout_ms=7", "h1:6379 h2:6379 ", "cluster h1:6379", "se/cr@t,x", true},
    {"cluster://:pw@h1,h2?timeout_ms=7", "h1:6379 h2:6379 ", "cluster h1:6379", "pw", false},
};

TEST_ROWS(addresses, servers_of_a_cluster, ROWS(clusters))
{
    struct rl_address witness;
    ck_assert_read(clusters[_i].text, 1);
    ck_assert(nodes[0].cluster);
    ck_assert_str_eq(nodes[0].witnesses, clusters[_i].witnesses);
    ck_assert_str_eq(nodes[0].name, clusters[_i].name);
    ck_assert_str_eq(nodes[0].password, clusters[_i].password);
    ck_assert_int_eq(nodes[0].has_password, clusters[_i].password[0] != '\0'); /* the master's as well */
    ck_assert_int_eq(nodes[0].timeout_ms, strchr(clusters[_i].text, '?') ? 7 : 0);
    rl_address_witness(&nodes[0], 0, &witness);
    ck_assert(strncmp(witness.name, clusters[_i].witnesses, strlen(witness.name)) == 0);
    ck_assert_int_eq(witness.tls, clusters[_i].tls);
    rl_address_tag(&nodes[0], "locks", 5);
    ck_assert_str_eq(nodes[0].master, "{locks}");
    ck_assert(strncmp(nodes[0].name, "{locks} (cluster h1:", 20) == 0);
    rl_address_tag(&nodes[0], "a tag that is longer than the name of a master of Sentinel may be", 65);
    ck_assert_uint_eq(strlen(nodes[0].master), RL_MASTER_SIZE - 1);
}

/* They end behind a '/' or a '?', and before a node with a scheme, or a path. */
TEST(addresses, clusters_beside_other_nodes)
{
    ck_assert_read("cluster://a1,a2,cluster://:x/y,z@b1,b2/,node1:7000, cluster://c1?timeout_ms=5 ,node2,"
                   "cluster://d1,d2,/run/redis.sock,redis://node3/1,cluster://e1,e2,sentinel://s1,s2,s3/m,node4",
                   11);
    static const char *const names[] = {"cluster a1:6379",       "cluster b1:6379", "node1:7000",
                                        "cluster c1:6379",       "node2:6379",      "cluster d1:6379",
                                        "/run/redis.sock",       "node3:6379",      "cluster e1:6379",
                                        "m (sentinel s1:26379)", "node4:6379"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_str_eq(nodes[i].name, names[i]);
    ck_assert_str_eq(nodes[0].witnesses, "a1:6379 a2:6379 ");
    ck_assert_str_eq(nodes[1].password, "x/y,z");
    ck_assert_str_eq(nodes[5].witnesses, "d1:6379 d2:6379 ");
    ck_assert_str_eq(nodes[8].witnesses, "e1:6379 e2:6379 ");
}

/* --- Numbers and lengths --- */

static const char *list_of(unsigned count)
{
    static char list[16 * (REDLOCK_NODES_MAX + 8)];
    size_t used = 0;
    for (unsigned i = 0; i < count; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%snode:%u", i ? "," : "", i + 1);
    return list;
}

TEST(addresses, up_to_32_nodes)
{
    ck_assert_read(list_of(REDLOCK_NODES_MAX), REDLOCK_NODES_MAX);
    ck_assert_str_eq(nodes[31].name, "node:32");
    ck_assert_read(list_of(REDLOCK_NODES_MAX + 1), 0);
    ck_assert_ptr_nonnull(strstr(error, "more than 32 nodes"));
}

/* The longest that is understood, 0: none, between these texts. */
static const struct {
    const char *before, *after;
    size_t most, wrong;
    const char *words;
} lengths[] = {
    {"", ":65535", RL_HOST_SIZE - 1, RL_HOST_SIZE, "host name is longer than 255 bytes"},
    {"/", "", RL_PATH_SIZE - 2, RL_PATH_SIZE - 1, "path is longer than 107 bytes"},
    {"redis://:", "@node1", RL_SECRET_SIZE - 1, RL_SECRET_SIZE, "password is longer than 511 bytes"},
    {"redis://", ":p@node1", RL_SECRET_SIZE - 1, RL_SECRET_SIZE, "user is longer than 511 bytes"},
    {"redis://", "", 0, 2048, "longer than 2048 bytes"},
    {"node1,", "", 0, 66000, "list is too long"},
};

TEST_ROWS(addresses, lengths_are_bounded, ROWS(lengths))
{
    static char filler[70000], text[70000];
    memset(filler, 'x', sizeof filler);
    snprintf(text, sizeof text, "%s%.*s%s", lengths[_i].before, (int)lengths[_i].most, filler, lengths[_i].after);
    if (lengths[_i].most) {
        ck_assert_read(text, 1);
        ck_assert_str_eq(nodes[0].name, lengths[_i].before[0] == 'r' ? "node1:6379" : text);
    }
    snprintf(text, sizeof text, "%s%.*s%s", lengths[_i].before, (int)lengths[_i].wrong, filler, lengths[_i].after);
    ck_assert_read(text, 0);
    ck_assert_ptr_nonnull(strstr(error, lengths[_i].words));
}

TEST(addresses, error_is_truncated_to_the_buffer)
{
    char small[24];
    memset(small, '!', sizeof small);
    ck_assert_uint_eq(rl_address_list("node1:0", nodes, small, 16), 0);
    ck_assert_uint_eq(strlen(small), 15);
    ck_assert_int_eq(small[16], '!');
}

/* --- Rejected lists --- */

static const struct {
    const char *text, *words;
} bad[] = {
    {NULL, "the node list is empty"},
    {"", "the node list is empty"},
    {"  \t\n", "the node list is empty"},
    {",", "node 1 of the list: it is empty"},
    {"node1,", "node 2 of the list: it is empty"},
    {"node1,,node2", "node 2 of the list: it is empty"},
    {"node1, ,node2", "node 2 of the list: it is empty"},
    {":6379", "'' is not a host name"},
    {"node1:", "port '' is not a number from 1 to 65535"},
    {"node1:0", "port '0' is not a number"},
    {"node1:65536", "port '65536' is not"},
    {"node1:-1", "port '-1' is not"},
    {"node1:6379x", "port '6379x' is not"},
    {"node1:99999999999999999999", "is not a number from 1 to 65535"},
    {"node1:6379:1", "in brackets"},
    {"::1", "in brackets"},
    {"[::1", "'[' without ']'"},
    {"[::1]6379", "after ']' is not a :port"},
    {"[]", "'' is not a host name"},
    {"no de", "separate nodes by commas, not by ';', '|' or spaces"},
    {"node1:1;node2:2", "separate nodes by commas, not by ';', '|' or spaces"},
    {"redis://node1|redis://node2", "separate nodes by commas, not by ';', '|' or spaces"},
    {"node\001", "is not a host name"},
    {"node\\1", "is not a host name"},
    {"node\"1", "is not a host name"},
    {"node1/3", "is not a host name"},
    {"http://node1", "scheme 'http' is unknown; known are redis, rediss, unix"},
    {"redis:///3", "'' is not a host name"},
    {"redis://node1/x", "database 'x' is not a number"},
    {"redis://node1/1000001", "is not a number"},
    {"redis://node1?", "name=value"},
    {"redis://node1?timeout_ms", "name=value"},
    {"redis://node1?timeout_ms=1&", "name=value"},
    {"redis://node1?timeout_ms=0", "timeout_ms '0' is not a number from 1 to 3600000"},
    {"redis://node1?timeout_ms=3600001", "timeout_ms '3600001' is not"},
    {"redis://node1?timeout_ms=5ms", "timeout_ms '5ms' is not"},
    {"redis://node1?connect_timeout_ms=0", "connect_timeout_ms '0' is not"},
    {"redis://node1?database=x", "database 'x' is not a number"},
    {"redis://node1?timeout=5", "parameter 'timeout' is unknown; known are timeout_ms"},
    {"redis://node1?Timeout_ms=5", "parameter 'Timeout_ms' is unknown"},
    {"sentinel://s1,s2,s3", "no name of a master; write sentinel://host:26379,host,host/NAME"},
    {"sentinel://s1,s2,s3/", "no name of a master"},
    {"sentinel://s1,s2,s3,redis://node1", "no name of a master"},
    {"sentinel://s1,s2/m", "it lists 2 of the Sentinels; list all that watch the master, at least 3"},
    {"sentinel://s1/m", "it lists 1 of the Sentinels"},
    {"sentinel://1,2,3,4,5,6,7,8,9,10/m", "more than 9 Sentinels"},
    {"sentinel://s1,s2,S1/m", "'S1:26379' is listed twice as a Sentinel"},
    {"sentinel://s1,,s3/m", "'' is not a host name"},
    {"sentinel://s1,s2:x,s3/m", "port 'x' is not"},
    {"sentinel://s1,s2,s3/m/x", "database 'x' is not a number"},
    {"sentinel://s1,s2,s3/m m", "has a character that Sentinels do not allow"},
    {"sentinel://s1,s2,s3/m,node1,sentinel://t1,s3,t2/m", "'m (sentinel t1:26379)' is node 1 already"},
    {"cluster://", "'' is not a host name"},
    {"cluster://h1,,h2", "'' is not a host name"},
    {"cluster://h1,h2/3", "database '3' cannot be chosen"},
    {"cluster://h1,h2?database=3", "database '3' cannot be chosen"},
    {"cluster://h1,h2,H1", "'H1:6379' is listed twice as a server"},
    {"cluster://1,2,3,4,5,6,7,8,9,10", "more than 9 servers; some of a cluster's suffice"},
    {"cluster://h1,h2,cluster://h3,h2", "'cluster h3:6379' is node 1 already"},
    {"cluster://hidden@h1", "a user without a password"},
    {"redis://hidden@node1", "a user without a password"},
    {"redis://lock:@node1", "an empty password"},
    {"redis://:@node1", "an empty password"},
    {"redis://:hid%hidden@node1", "a % in the password is not followed by two hexadecimal digits"},
    {"redis://:hidden%4@node1", "a % in the password is not"},
    {"redis://:hidden%@node1", "a % in the password is not"},
    {"redis://l%zz:hidden@node1", "a % in the user is not"},
    {"redis://:hidden%00@node1", "the password contains a NUL byte"},
    {"unix://run/redis.sock", "path must be absolute"},
    {"unix://", "path must be absolute"},
    {"unix:///", "path must be absolute"},
    {"/", "path must be absolute"},
    {"unix:///run/%0", "a % in the path is not"},
    {"node1,node2,node1", "node 3 of the list: 'node1:6379' is node 1 already"},
    {"node1,redis://lock:hidden@NODE1:6379/3", "'NODE1:6379' is node 1 already"},
    {"unix:///run/a,/run/a", "node 2 of the list: '/run/a' is node 1 already"},
    {"[::1]:7000,redis://[::1]:7000", "'[::1]:7000' is node 1 already"},
    /* "hidden" or 43210 is part of a password, or of text that was meant to be one. */
    {"redis://lock:hidden@", "node "},
    {"redis://lock:hidden@node1:99999", "node "},
    {"redis://lock:hidden@node1/x", "node "},
    {"redis://lock:hidden@node1?timeout_ms=0", "node "},
    {"redis://lock:hidden@no de", "node "},
    {"redis://lock:hidden@node1,node2:0", "node "},
    {"lock:hidden@node1:6379", "node "},
    {"hidden@node1", "node "},
    {"http://lock:hidden@node1", "node "},
    {"rediss://lock:hidden@node1:x", "node "},
    {"unix://lock:hidden@run", "node "},
    /* an unencoded '?' */
    {"redis://lock:x?hidden@node1", "node "},
    {"redis://lock:x?hidden=1@node1", "node "},
    {"redis://lock:x?timeout_ms=hidden@node1", "node "},
    {"redis://lock:x?timeout_ms=1&connect_timeout_ms=hidden@node1", "node "},
    {"redis://lock:x?database=hidden@node1", "node "},
    /* an unencoded ',' */
    {"redis://lock:hidden,x@node1", "node "},
    {"redis://lock:43210,x@node1", "node "},
    {"redis://:hidden,x@node1", "node "},
    {"redis://lock:x/hidden,x@node1", "node "},
    {"redis://lock:1,hid?hidden,x@node1", "node "},
    {"redis://lock:1,hidden://,x@node1", "node "},
    {"redis://lock:1,x:hidden,x@node1", "node "},
    {"redis://lock:1,[::1]hidden,x@node1", "node "},
    {"lock:hidden,x@node1", "node "},
    {"redis://lock:1,hidden,hidden,x@node1", "node "},
};

TEST_ROWS(addresses, each_mistake_is_named_and_no_password_is_shown, ROWS(bad))
{
    ck_assert_uint_eq(read_list(bad[_i].text), 0);
    ck_assert_msg(!strstr(error, "hidden") && !strstr(error, "43210"), "'%s' was answered by '%s'", bad[_i].text,
                  error);
    ck_assert_msg(strstr(error, bad[_i].words), "'%s' was answered by '%s', which lacks '%s'",
                  bad[_i].text ? bad[_i].text : "NULL", error, bad[_i].words);
}

TEST_PROGRAM("addresses")
