/* The texts of results: names of statuses, losses, outcomes and findings, and the log line. */
#include "src/core/result.h"
#include "support/test.h"

#include <errno.h>
#include <limits.h>

#include "redlock/redlock.h"

static redlock_result result;

static void setup(void)
{
    memset(&result, 0xEE, sizeof result);
}

/* --- Names --- */

#define STATUS_NAMES                                                                                                   \
    "REDLOCK_OK", "REDLOCK_HELD", "REDLOCK_NO_QUORUM", "REDLOCK_MISCONFIGURED", "REDLOCK_TOO_SLOW",                    \
        "REDLOCK_TIMED_OUT", "REDLOCK_CANCELLED", "REDLOCK_LOST", "REDLOCK_INVALID", "REDLOCK_NO_MEMORY",              \
        "REDLOCK_SYSTEM", "REDLOCK_CLOCK"
#define LOSS_NAMES    "", "expired", "gone", "clock", "closed"
#define OUTCOME_NAMES "pending", "granted", "held", "absent", "refused", "unreachable", "timed out", "unattested"

/* Texts of the numbers from 0 in steps. names[0] NULL: a sentence of its own. */
static const struct {
    const char *(*text)(int);
    int step, count;
    const char *names[REDLOCK_STATUSES];
} kinds[] = {
    {redlock_status_name, -1, REDLOCK_STATUSES, {STATUS_NAMES}},
    {redlock_status_text, -1, REDLOCK_STATUSES, {NULL}},
    {redlock_loss_name, 1, 5, {LOSS_NAMES}},
    {redlock_loss_text, 1, 5, {NULL}},
    {redlock_outcome_name, 1, 8, {OUTCOME_NAMES}},
};

TEST_CASE(results, setup, NULL);

TEST_ROWS(results, every_number_has_its_own_text, ROWS(kinds))
{
    for (int i = 0; i < kinds[_i].count; i++) {
        const char *text = kinds[_i].text(i * kinds[_i].step);
        ck_assert_str_ne(text, "unknown");
        if (kinds[_i].names[0])
            ck_assert_str_eq(text, kinds[_i].names[i]);
        for (int other = 0; other < i; other++)
            ck_assert_str_ne(text, kinds[_i].text(other * kinds[_i].step));
    }
    ck_assert_str_eq(kinds[_i].text(kinds[_i].count * kinds[_i].step), "unknown");
    ck_assert_str_eq(kinds[_i].text(-kinds[_i].step), "unknown");
}

TEST(results, every_finding_has_its_own_name)
{
    const uint32_t none[] = {0, (uint32_t)REDLOCK_FINDING_FAILOVER << 1, 3};
    for (int i = 0; i < ROWS(none); i++)
        ck_assert_str_eq(redlock_finding_name(none[i]), "unknown");
    for (uint32_t finding = 1; finding <= REDLOCK_FINDING_FAILOVER; finding <<= 1) {
        ck_assert_str_ne(redlock_finding_name(finding), "unknown");
        for (uint32_t other = 1; other < finding; other <<= 1)
            ck_assert_str_ne(redlock_finding_name(finding), redlock_finding_name(other));
    }
}

/* Only success has the errno 0. */
TEST(results, every_status_has_its_own_errno)
{
    static const int no_statuses[] = {1, -REDLOCK_STATUSES, INT_MIN, INT_MAX};
    for (int i = 0; i < ROWS(no_statuses); i++)
        ck_assert_int_eq(redlock_status_errno(no_statuses[i]), EINVAL);
    ck_assert_int_eq(redlock_status_errno(REDLOCK_OK), 0);
    for (int i = 0; i < REDLOCK_STATUSES; i++)
        for (int other = 0; other < i; other++)
            ck_assert_int_ne(redlock_status_errno(-i), redlock_status_errno(-other));
    /* tests/fake has the statuses of the other verdicts. */
    ck_assert_int_eq(rl_result_status(QUORUM_LOST_CANCELLED), REDLOCK_CANCELLED);
}

/* --- The log line --- */

/* The nodes' outcomes and texts, by letter. */
static const struct {
    char letter;
    int outcome;
    const char *text;
} replies[] = {
    {'G', REDLOCK_NODE_GRANTED, ""},
    {'H', REDLOCK_NODE_HELD, ""},
    {'P', REDLOCK_NODE_PENDING, ""},
    {'R', REDLOCK_NODE_REFUSED, "LOADING Redis is loading"},
    {'T', REDLOCK_NODE_TIMED_OUT, "no reply within 50 ms"},
    {'U', REDLOCK_NODE_UNREACHABLE, "cannot connect: Connection refused"},
};

static const struct {
    const char *nodes, *line;
    int status, cause;
    unsigned kept_releases, pending_undos;
} lines[] = {
    {"GHRTU",
     "no majority of the nodes can be reached: 1 granted, 1 held (b:1), 1 refused (c:1 LOADING Redis is loading), "
     "1 unreachable (e:1 cannot connect: Connection refused), 1 timed out (d:1 no reply within 50 ms)",
     REDLOCK_NO_QUORUM, REDLOCK_NO_QUORUM, 0, 0},
    {"GHHHP", "held by another client: 1 granted, 3 held (b:1; c:1; d:1), 1 pending", REDLOCK_HELD, REDLOCK_HELD, 0, 0},
    {"H", "timed out; the last attempt: held by another client: 1 held (a:1)", REDLOCK_TIMED_OUT, REDLOCK_HELD, 0, 0},
    {"T",
     "no majority of the nodes can be reached: 1 timed out (a:1 no reply within 50 ms); 1 node gets the release when "
     "connected again",
     REDLOCK_NO_QUORUM, REDLOCK_NO_QUORUM, 1, 0},
    {"", "closed, with 3 undos not confirmed (the keys expire)", REDLOCK_NO_QUORUM, REDLOCK_NO_QUORUM, 0, 3},
    {"", "closed, with 1 undo not confirmed (the keys expire)", REDLOCK_NO_QUORUM, REDLOCK_NO_QUORUM, 0, 1},
};

static void set_node(unsigned i, const char *name, int outcome, const char *text)
{
    result.node[i].name = name;
    result.node[i].outcome = outcome;
    snprintf(result.node[i].text, sizeof result.node[i].text, "%s", text);
}

TEST_ROWS(results, line_counts_classes_and_names_nodes, ROWS(lines))
{
    static const char *const names[] = {"a:1", "b:1", "c:1", "d:1", "e:1"};
    unsigned nodes = (unsigned)strlen(lines[_i].nodes);
    rl_result_clear(&result, nodes);
    ck_assert_uint_eq(result.nodes, nodes);
    ck_assert_uint_eq(result.quorum, (nodes + 1) / 2);
    result.status = lines[_i].status;
    result.cause = lines[_i].cause;
    result.kept_releases = lines[_i].kept_releases;
    result.pending_undos = lines[_i].pending_undos;
    for (unsigned i = 0; i < nodes; i++)
        for (int j = 0; j < ROWS(replies); j++)
            if (replies[j].letter == lines[_i].nodes[i])
                set_node(i, names[i], replies[j].outcome, replies[j].text);
    ck_assert_str_eq(redlock_result_text(&result), lines[_i].line);
}

TEST(results, the_line_fits_whatever_the_nodes_say)
{
    char word[96];
    memset(word, 'w', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    rl_result_clear(&result, REDLOCK_NODES_MAX);
    result.status = result.cause = REDLOCK_NO_QUORUM;
    for (unsigned i = 0; i < REDLOCK_NODES_MAX; i++)
        set_node(i, word, REDLOCK_NODE_REFUSED, word);
    ck_assert_uint_eq(strlen(redlock_result_text(&result)), sizeof result.text - 1);
    ck_assert_str_eq(redlock_result_text(NULL), "");
}

TEST_PROGRAM("results")
