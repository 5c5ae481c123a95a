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

/* A node and its settings, and behind each '<' a witness. The login of Sentinels is theirs alone. */
static size_t describe(const struct rl_address *node, char *text, size_t size)
{
    struct rl_address witness;
    size_t used = (size_t)snprintf(text, size, "%s", node->name);
    ck_assert(node->witness_count || node->has_password || (!node->user[0] && !node->password[0]));
    used += (size_t)snprintf(text + used, size - used, "%s", node->tls ? " tls" : "");
    if (node->has_password)
        used += (size_t)snprintf(text + used, size - used, " %s:%s", node->user, node->password);
    if (node->database >= 0)
        used += (size_t)snprintf(text + used, size - used, " db %d", (int)node->database);
    if (node->timeout_ms || node->connect_timeout_ms)
        used += (size_t)snprintf(text + used, size - used, " ms %u %u", node->timeout_ms, node->connect_timeout_ms);
    for (unsigned i = 0; i < node->witness_count; i++) {
        used += (size_t)snprintf(text + used, size - used, " < ");
        rl_address_witness(node, i, &witness);
        witness.database = -1; /* it has none */
        used += describe(&witness, text + used, size - used);
    }
    return used;
}

static const struct {
    const char *list;
    const char *nodes; /* a comma behind each */
} good[] = {
    {"node1,node1:1,node1:65535,node-1.example.org:7000,[::1],[fe80::1%eth0]:7000,/run/redis-A.sock,/run/redis-a.sock",
     "node1:6379,node1:1,node1:65535,node-1.example.org:7000,[::1]:6379,[fe80::1%eth0]:7000,/run/redis-A.sock,"
     "/run/redis-a.sock,"},
    {" \t REDIS://node1 \r\n", "node1:6379,"},
    {"redis://node1/,redis://[2001:db8::7]:7000/3,rediss://node1:7000,unix:///run/with%20space%2Csock",
     "node1:6379,[2001:db8::7]:7000 db 3,node1:7000 tls,/run/with space,sock,"},
    /* Settings do not carry over to the next node. */
    {"node1 , redis://u:p@node1:7000/2?timeout_ms=9,\tunix:///run/a,/run/b,\n[::1]",
     "node1:6379,node1:7000 u:p db 2 ms 9 0,/run/a,/run/b,[::1]:6379,"},

    {"redis://:secret@node1:7000,rediss://lock:secret@[::1]:7000/1,redis://lo%3Ack:p%40ss%2Fw%3Frd%2c%25@node1",
     "node1:7000 :secret,[::1]:7000 tls lock:secret db 1,node1:6379 lo:ck:p@ss/w?rd,%,"},
    {"redis://lock:with:colons@a,redis://lock:with@at@b,redis://lock:with/slash@c/3,redis://lock:%C3%A4%01@d",
     "a:6379 lock:with:colons,b:6379 lock:with@at,c:6379 lock:with/slash db 3,d:6379 lock:\xc3\xa4\x01,"},
    {"unix://:secret@/run/redis.sock?database=2", "/run/redis.sock :secret db 2,"},

    {"redis://a/0,redis://b/1000000,redis://c?timeout_ms=1,redis://d/3?timeout_ms=20&connect_timeout_ms=300",
     "a:6379 db 0,b:6379 db 1000000,c:6379 ms 1 0,d:6379 db 3 ms 20 300,"},
    {"redis://u:p@node1:7000/4?connect_timeout_ms=3600000&timeout_ms=3600000",
     "node1:7000 u:p db 4 ms 3600000 3600000,"},

    {"sentinel://s1,s2,s3/mymaster", "mymaster (sentinel s1:26379) < s1:26379 < s2:26379 < s3:26379,"},
    {" SENTINEL://s1:1 , s2:2,[::1]:3/a.b-c_1/3 ", "a.b-c_1 (sentinel s1:1) db 3 < s1:1 < s2:2 < [::1]:3,"},
    {"sentinels://u:se/cr@t,x@s1,s2,s3/m?database=7",
     "m (sentinel s1:26379) tls db 7 < s1:26379 tls u:se/cr@t,x < s2:26379 tls u:se/cr@t,x < s3:26379 tls u:se/cr@t,x,"},
    {"sentinel://:p@1,2,3,4,5,6,7,8,9/m",
     "m (sentinel 1:26379) < 1:26379 :p < 2:26379 :p < 3:26379 :p < 4:26379 :p < 5:26379 :p < 6:26379 :p < 7:26379 :p "
     "< 8:26379 :p < 9:26379 :p,"},
    {"sentinel://:a@s,t,u/m,node1:7000,redis://u:p@node2/1, sentinel://x,y,z/m ,sentinel://s,t,u/n",
     "m (sentinel s:26379) < s:26379 :a < t:26379 :a < u:26379 :a,node1:7000,node2:6379 u:p db 1,"
     "m (sentinel x:26379) < x:26379 < y:26379 < z:26379,n (sentinel s:26379) < s:26379 < t:26379 < u:26379,"},

    {" CLUSTER://h1:1 , h2,[::1]:3/ ", "cluster h1:1 < h1:1 < h2:6379 < [::1]:3,"},
    {"clusters://u:se/cr@t,x@h1,h2/?timeout_ms=7",
     "cluster h1:6379 tls u:se/cr@t,x ms 7 0 < h1:6379 tls < h2:6379 tls,"},
    {"cluster://:pw@h1,h2?timeout_ms=7", "cluster h1:6379 :pw ms 7 0 < h1:6379 < h2:6379,"},
    /* They end behind a '/' or a '?', and before a node with a scheme, or a path. */
    {"cluster://a1,a2,cluster://:x/y,z@b1,b2/,node1:7000, cluster://c1?timeout_ms=5 ,node2,cluster://d1,d2,/run/a",
     "cluster a1:6379 < a1:6379 < a2:6379,cluster b1:6379 :x/y,z < b1:6379 < b2:6379,node1:7000,"
     "cluster c1:6379 ms 5 0 < c1:6379,node2:6379,cluster d1:6379 < d1:6379 < d2:6379,/run/a,"},
    {"redis://node3/1,cluster://e1,e2,sentinel://s,t,u/m,node4",
     "node3:6379 db 1,cluster e1:6379 < e1:6379 < e2:6379,m (sentinel s:26379) < s:26379 < t:26379 < u:26379,"
     "node4:6379,"},
};

TEST_CASE(addresses, NULL, NULL);

TEST_ROWS(addresses, each_form_is_read, ROWS(good))
{
    char text[1024] = "(none)";
    unsigned count = read_list(good[_i].list);
    ck_assert_msg(count, "'%s': %s", good[_i].list, error);
    for (size_t i = 0, used = 0; i < count; i++) {
        used += describe(&nodes[i], text + used, sizeof text - used);
        used += (size_t)snprintf(text + used, sizeof text - used, ",");
    }
    ck_assert_str_eq(text, good[_i].nodes);
}

TEST(addresses, tag_of_a_cluster_is_its_name)
{
    ck_assert_read("cluster://h1", 1);
    rl_address_tag(&nodes[0], "locks", 5);
    ck_assert_str_eq(nodes[0].master, "{locks}");
    ck_assert_str_eq(nodes[0].name, "{locks} (cluster h1:6379)");
    rl_address_tag(&nodes[0], "a tag that is longer than the name of a master of Sentinel may be", 65);
    ck_assert_uint_eq(strlen(nodes[0].master), RL_MASTER_SIZE - 1);
}

/* --- Numbers and lengths --- */

TEST(addresses, up_to_32_nodes)
{
    char list[16 * (REDLOCK_NODES_MAX + 1)];
    size_t used = 0;
    for (unsigned i = 1; i <= REDLOCK_NODES_MAX + 1; i++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%snode:%u", used ? "," : "", i);
        ck_assert_read(list, i <= REDLOCK_NODES_MAX ? i : 0);
    }
    ck_assert_str_eq(nodes[31].name, "node:32");
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
    {"node1:", "", 0, 300, "port 'xxx"}, /* no more of it than fits */
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

/* --- Rejected lists --- */

static const struct {
    const char *text, *words;
} bad[] = {
    {NULL, "the node list is empty"},
    {"", "the node list is empty"},
    {"node1,", "node 2 of the list: it is empty"},
    {"node1, ,node2", "node 2 of the list: it is empty"},
    {":6379", "'' is not a host name"},
    {"node1:0", "port '0' is not a number"},
    {"node1:65536", "port '65536' is not"},
    {"node1:6379x", "port '6379x' is not"},
    {"node1:99999999999999999999", "is not a number from 1 to 65535"},
    {"node1:6379:1", "in brackets"},
    {"::1", "in brackets"},
    {"[::1", "'[' without ']'"},
    {"[::1]6379", "after ']' is not a :port"},
    {"[]", "'' is not a host name"},
    {"node1:1;node2:2", "separate nodes by commas, not by ';', '|' or spaces"},
    {"redis://node1|redis://node2", "separate nodes by commas, not by ';', '|' or spaces"},
    {"node\001", "is not a host name"},
    {"node\"1", "is not a host name"},
    {"node1/3", "is not a host name"},
    {"http://node1", "scheme 'http' is unknown; known are redis, rediss, unix"},
    {"redis://node1/x", "database 'x' is not a number"},
    {"redis://node1/1000001", "is not a number"},
    {"redis://node1?", "name=value"},
    {"redis://node1?timeout_ms=1&", "name=value"},
    {"redis://node1?timeout_ms=0", "timeout_ms '0' is not a number from 1 to 3600000"},
    {"redis://node1?connect_timeout_ms=3600001", "connect_timeout_ms '3600001' is not"},
    {"redis://node1?timeout=5", "parameter 'timeout' is unknown; known are timeout_ms"},
    {"sentinel://s1,s2,s3", "no name of a master; write sentinel://host:26379,host,host/NAME"},
    {"sentinel://s1,s2,s3/", "no name of a master"},
    {"sentinel://s1,s2,s3,redis://node1", "no name of a master"},
    {"sentinel://s1,s2/m", "it lists 2 of the Sentinels; list all that watch the master, at least 3"},
    {"sentinel://1,2,3,4,5,6,7,8,9,10/m", "more than 9 Sentinels"},
    {"sentinel://s1,s2,S1/m", "'S1' is listed twice as a Sentinel"},
    {"sentinel://s1,hidden,hidden/m,redis://:x@node1", "'...' is listed twice as a Sentinel"},
    {"sentinel://s1,s2,s3/m/x", "database 'x' is not a number"},
    {"sentinel://s1,s2,s3/m m", "has a character that Sentinels do not allow"},
    {"sentinel://s1,s2,s3/m,node1,sentinel://t1,s3,t2/m", "'m (sentinel t1:26379)' is node 1 already"},
    {"cluster://", "'' is not a host name"},
    {"cluster://h1,h2/3", "database '3' cannot be chosen"},
    {"cluster://h1,h2?database=43210", "a database cannot be chosen"},
    {"cluster://h1,h2,H1", "'H1' is listed twice as a server"},
    {"cluster://hidden,hidden,redis://:x@node1", "'...' is listed twice as a server"},
    {"cluster://1,2,3,4,5,6,7,8,9,10", "more than 9 servers; some of a cluster's suffice"},
    {"cluster://h1,h2,cluster://h3,h2", "'cluster h3:6379' is node 1 already"},
    {"cluster://hidden@h1", "a user without a password"},
    {"redis://hidden@node1", "a user without a password"},
    {"redis://lock:43210,x@node1", "node "},
    {"redis://lock:@node1", "an empty password"},
    {"redis://:hid%hidden@node1", "a % in the password is not followed by two hexadecimal digits"},
    {"redis://l%zz:hidden@node1", "a % in the user is not"},
    {"redis://:hidden%00@node1", "the password contains a NUL byte"},
    {"unix://run/redis.sock", "path must be absolute"},
    {"unix:///", "path must be absolute"},
    {"unix:///run/%0", "a % in the path is not"},
    {"unix:///run/a,/run/a", "node 2 of the list: '/run/a' is node 1 already"},
    {"node1,redis://lock:hidden@NODE1:6379/3", "'NODE1:6379' is node 1 already"},
    {"[::1]:7000,redis://[::1]:7000", "'[::1]:7000' is node 1 already"},
};

/* "hidden" or 43210 is part of a password; tests/fuzz/corpus/addresses has more lists with one. */
TEST_ROWS(addresses, each_mistake_is_named_and_no_password_is_shown, ROWS(bad))
{
    ck_assert_uint_eq(read_list(bad[_i].text), 0);
    ck_assert_msg(!strstr(error, "hidden") && !strstr(error, "43210") && strstr(error, bad[_i].words),
                  "'%s' was answered by '%s', not by '%s'", bad[_i].text ? bad[_i].text : "NULL", error, bad[_i].words);
}

TEST_PROGRAM("addresses")
