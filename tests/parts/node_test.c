/* What the client reads from a node and from the options for it: the time, the hash tag of a cluster, and whether it can
 * be notified. */
#include "parts/replies.h"
#include "src/node/guard.h"
#include "src/node/handshake.h"
#include "src/node/listener.h"
#include "src/node/nodes.h"

TEST_CASE(node, NULL, NULL);

/* --- TIME --- */

static const struct {
    const char *words;
    uint64_t time_us; /* 0: it is no time */
} times[] = {
    {"*2 $1 7 $1 8 *2 $15 000000000000007 $15 000000000000008 ", 7000008},
    {"*2 $10 1700000000 $6 999999 ", 1700000000999999},
    {"*2 $10 9223372035 $1 0 ", 9223372035000000},
    {"*2 $10 9223372036 $1 0 ", 0}, /* in ns it passes 64 bits, with a sign */
    {"*2 $1 7 $7 1000000 *2 $16 0000000000000007 $1 8 *2 $1 7 $16 0000000000000008 *2 :7 $1 8 *2 $1 7 :8 ", 0},
    {"*2 $1 a $1 8 *2 $1 7 $1 b *1 $1 7 *3 $1 7 $1 8 $1 9 +OK ", 0},
};

TEST_ROWS(node, time_is_two_numbers, ROWS(times))
{
    redisReader *reader = reader_of(times[_i].words);
    for (redisReply *reply; (reply = next_reply(reader)); freeReplyObject(reply)) {
        uint64_t time_us = 0;
        ck_assert(rl_guard_parse_time(reply, &time_us) == (times[_i].time_us != 0));
        ck_assert_uint_eq(time_us, times[_i].time_us);
    }
}

/* --- The slot in a Redis Cluster --- */

static const struct {
    const char *prefix, *marker_key;
    const char *tag; /* NULL: the keys may be in different slots */
    bool without_guard;
} tags[] = {
    {"{a}:", "{a}:marker", "a", false},
    {"app:{lock}:", "app:{lock}:marker", "lock", false},
    {"app:{lock}:", "lock", "lock", false}, /* a key without a tag is hashed as a whole */
    {"{a}:", "{b}:marker", NULL, false},
    {"{a}:", "{ab}:marker", NULL, false},
    {"{a}:", "{b}:marker", "a", true},
    {"{}a:", "{}a:", NULL, false},
    {"a}{:", "a}{:", NULL, false},
    {"a}{b}:", "{b}", "b", false},
    {"{a:", "{a:", NULL, false},
    {"{a}{b}:", "{a}{c}:marker", "a", false},
    {"app:", "app:", NULL, false},
};

TEST_ROWS(node, tag_of_prefix_and_marker_is_the_same, ROWS(tags))
{
    const redlock_options options = {
        .prefix = tags[_i].prefix, .marker_key = tags[_i].marker_key, .guard = !tags[_i].without_guard};
    struct rl_text tag;
    ck_assert(rl_handshake_tag(&options, &tag) == (tags[_i].tag != NULL));
    if (tags[_i].tag) {
        ck_assert_uint_eq(tag.size, strlen(tags[_i].tag));
        ck_assert_mem_eq(tag.bytes, tags[_i].tag, tag.size);
    }
}

/* --- Subscriptions that fail --- */

static const struct {
    unsigned count;
    quorum_nodes failing;
    bool deaf;
} listening[] = {{1, 0x00, false}, {1, 0x01, true}, {3, 0x04, false}, {3, 0x06, true},
                 {4, 0x01, false}, {4, 0x03, true}, {5, 0x11, false}, {5, 0x13, true}};

/* tests/fake/memory_failure_test.c has clients without listeners. */
TEST_ROWS(node, client_is_deaf_if_no_majority_can_notify_it, ROWS(listening))
{
    static struct rl_listener listeners[5];
    struct rl_nodes *nodes = calloc(1, sizeof *nodes + 5 * sizeof nodes->node[0]);
    ck_assert_ptr_nonnull(nodes);
    nodes->count = listening[_i].count;
    for (unsigned i = 0; i < nodes->count; i++) {
        listeners[i].failures = listening[_i].failing & quorum_node(i) ? 2 : 0;
        nodes->node[i].listener = &listeners[i];
    }
    ck_assert(rl_listeners_are_deaf(nodes) == listening[_i].deaf);
    free(nodes);
}

TEST_PROGRAM("node")
