/* Which holder a result names, after what the nodes have named in turn. */
#include "src/core/core.h"
#include "src/core/timer.h"
#include "src/lock/held_by.h"
#include "support/test.h"

#define LAST     (QUORUM_NODES_MAX - 1)
#define TOO_LONG "too long" /* stands for REDLOCK_TOKEN_MAX + 1 bytes */
#define LONGEST  "longest"  /* stands for REDLOCK_TOKEN_MAX bytes */

static struct rl_core core;
static struct rl_held_by *held_by;
static redlock_result result;

static void setup(void)
{
    core.allocator = rl_memory_allocator(&(redlock_allocator){.allocate = NULL});
    held_by = NULL;
    result = (redlock_result){.remaining_ms = 0};
}

static void teardown(void)
{
    rl_free(&core.allocator, held_by);
}

TEST_CASE(held_by, setup, teardown);

static struct rl_text token_of(const char *name)
{
    static char bytes[REDLOCK_TOKEN_MAX + 1];
    memset(bytes, 'l', sizeof bytes);
    if (strcmp(name, TOO_LONG) == 0)
        return (struct rl_text){bytes, sizeof bytes};
    if (strcmp(name, LONGEST) == 0)
        return (struct rl_text){bytes, sizeof bytes - 1};
    return (struct rl_text){name, strlen(name)};
}

static const struct {
    const char *says;
    struct {
        unsigned node;
        const char *token, *remark;
    } notes[5];
    const char *shown;
} histories[] = {
    {"no node names one", {{0, "", NULL}}, ""},
    {"the last node names one", {{LAST, "a", NULL}}, "a"},
    {"two nodes agree", {{0, "a", NULL}, {LAST, "a", NULL}}, "a"},
    {"two nodes differ", {{0, "a", NULL}, {1, "b", NULL}}, ""},
    {"two of three, the other one first", {{0, "b", NULL}, {1, "a", NULL}, {2, "a", NULL}}, "a"},
    {"two of three, the other one last", {{0, "a", NULL}, {1, "a", NULL}, {2, "b", NULL}}, "a"},
    {"three of five", {{0, "a", NULL}, {1, "b", NULL}, {2, "a", NULL}, {3, "c", NULL}, {4, "a", NULL}}, "a"},
    {"two of five", {{0, "a", NULL}, {1, "b", NULL}, {2, "a", NULL}, {3, "c", NULL}, {4, "d", NULL}}, ""},
    {"two of four", {{0, "a", NULL}, {1, "a", NULL}, {2, "b", NULL}, {3, "b", NULL}}, ""},
    {"a node names another", {{0, "a", NULL}, {0, "b", NULL}}, "b"},
    {"a node no longer names one", {{0, "a", NULL}, {1, "b", NULL}, {0, "", NULL}}, "b"},
    {"no node names one any more", {{0, "a", NULL}, {0, "", NULL}}, ""},
    {"no one else's token is as long", {{0, LONGEST, NULL}}, LONGEST},
    {"a longer one takes the node's back", {{0, "a", NULL}, {0, TOO_LONG, NULL}}, ""},
    {"a remark in place of the token", {{0, "a", "(readers)"}}, "(readers)"},
    {"a remark is not the token", {{0, "a", "(readers)"}, {1, "a", NULL}}, ""},
    {"a token after a remark", {{0, "a", "(readers)"}, {0, "a", NULL}}, "a"},
};

TEST_ROWS(held_by, the_holder_is_the_one_that_most_nodes_name, ROWS(histories))
{
    for (size_t i = 0; i < ROWS(histories[_i].notes) && histories[_i].notes[i].token; i++)
        rl_held_by_note(&core, &held_by, histories[_i].notes[i].node, token_of(histories[_i].notes[i].token),
                        histories[_i].notes[i].remark, 0);
    rl_held_by_fill(held_by, &result);
    struct rl_text shown = token_of(histories[_i].shown);
    ck_assert_msg(strlen(result.holder.token) == shown.size &&
                      memcmp(result.holder.token, shown.bytes, shown.size) == 0,
                  "%s: the result names '%s'", histories[_i].says, result.holder.token);
    ck_assert_int_eq(result.remaining_ms, 0);
}

TEST(held_by, the_remaining_time_is_that_of_the_holder_shown)
{
    rl_held_by_note(&core, &held_by, 0, token_of("a"), NULL, QUORUM_NEVER);
    rl_held_by_fill(held_by, &result);
    ck_assert_int_eq(result.remaining_ms, REDLOCK_STATE_NO_EXPIRY);

    rl_held_by_note(&core, &held_by, 1, token_of("a"), NULL, rl_now() + 3600 * QUORUM_SECOND);
    rl_held_by_note(&core, &held_by, 2, token_of("b"), NULL, rl_now());
    rl_held_by_fill(held_by, &result);
    ck_assert_int_gt(result.remaining_ms, 1800 * 1000);
    ck_assert_int_le(result.remaining_ms, 3600 * 1000);
}

TEST_PROGRAM("holder named by the nodes")
