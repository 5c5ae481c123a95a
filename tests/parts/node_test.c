/* What the client takes from a node and from the options for it: the hash tag of a cluster, and whether it can be notified. */
#include "src/node/handshake.h"
#include "src/node/listener.h"
#include "src/node/nodes.h"
#include "support/test.h"

TEST_CASE(node, NULL, NULL);

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
