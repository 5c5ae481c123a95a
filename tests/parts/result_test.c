/* The texts of results: names of statuses and outcomes, and the log line. */
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

static const struct {
    int value;
    const char *name;
} statuses[] = {
    {REDLOCK_OK, "REDLOCK_OK"},
    {REDLOCK_HELD, "REDLOCK_HELD"},
    {REDLOCK_NO_QUORUM, "REDLOCK_NO_QUORUM"},
    {REDLOCK_MISCONFIGURED, "REDLOCK_MISCONFIGURED"},
    {REDLOCK_TOO_SLOW, "REDLOCK_TOO_SLOW"},
    {REDLOCK_TIMED_OUT, "REDLOCK_TIMED_OUT"},
    {REDLOCK_CANCELLED, "REDLOCK_CANCELLED"},
    {REDLOCK_LOST, "REDLOCK_LOST"},
    {REDLOCK_INVALID, "REDLOCK_INVALID"},
    {REDLOCK_NO_MEMORY, "REDLOCK_NO_MEMORY"},
    {REDLOCK_SYSTEM, "REDLOCK_SYSTEM"},
    {REDLOCK_CLOCK, "REDLOCK_CLOCK"},
};

TEST_CASE(results, setup, NULL);

/* Only success has the errno 0. */
TEST_ROWS(results, every_status_has_its_name_and_its_own_sentence_and_errno, ROWS(statuses))
{
    const int status = statuses[_i].value;
    ck_assert_str_eq(redlock_status_name(status), statuses[_i].name);
    ck_assert_int_eq(redlock_status_errno(status) == 0, status == REDLOCK_OK);
    for (int other = 0; other < _i; other++) {
        ck_assert_str_ne(redlock_status_text(status), redlock_status_text(statuses[other].value));
        ck_assert_int_ne(redlock_status_errno(status), redlock_status_errno(statuses[other].value));
    }
}

static const char *const losses[] = {"", "expired", "gone", "clock", "closed"};

TEST_ROWS(results, every_loss_has_its_name_and_its_own_sentence, ROWS(losses))
{
    ck_assert_str_eq(redlock_loss_name(_i), losses[_i]);
    for (int other = 0; other < _i; other++)
        ck_assert_str_ne(redlock_loss_text(_i), redlock_loss_text(other));
}

static const char *const outcomes[] = {"pending", "granted",     "held",      "absent",
                                       "refused", "unreachable", "timed out", "unattested"};

TEST_ROWS(results, every_outcome_has_its_name, ROWS(outcomes))
{
    ck_assert_str_eq(redlock_outcome_name(_i), outcomes[_i]);
}

TEST(results, other_numbers_are_unknown)
{
    static const int no_statuses[] = {1, -REDLOCK_STATUSES, INT_MIN, INT_MAX};
    for (int i = 0; i < ROWS(no_statuses); i++)
        ck_assert_int_eq(redlock_status_errno(no_statuses[i]), EINVAL);
    ck_assert_str_eq(redlock_status_name(1), "unknown");
    ck_assert_str_eq(redlock_status_text(INT32_MIN), "unknown");
    ck_assert_str_eq(redlock_loss_name(ROWS(losses)), "unknown");
    ck_assert_str_eq(redlock_loss_text(-1), "unknown");
    ck_assert_str_eq(redlock_outcome_name(ROWS(outcomes)), "unknown");
    ck_assert_str_eq(redlock_outcome_name(-1), "unknown");
}

static const struct {
    enum quorum_verdict verdict;
    int status;
} verdicts[] = {
    {QUORUM_WON, REDLOCK_OK},
    {QUORUM_LOST_HELD, REDLOCK_HELD},
    {QUORUM_LOST_NO_QUORUM, REDLOCK_NO_QUORUM},
    {QUORUM_LOST_MISCONFIGURED, REDLOCK_MISCONFIGURED},
    {QUORUM_LOST_TOO_SLOW, REDLOCK_TOO_SLOW},
    {QUORUM_LOST_GONE, REDLOCK_LOST},
    {QUORUM_LOST_CANCELLED, REDLOCK_CANCELLED},
    {QUORUM_LOST_CLOCK, REDLOCK_CLOCK},
};

TEST_ROWS(results, every_verdict_has_its_status, ROWS(verdicts))
{
    ck_assert_int_eq(rl_result_status(verdicts[_i].verdict), verdicts[_i].status);
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
    ck_assert_ptr_eq(redlock_result_text(&result), result.text);
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

TEST(results, failure_has_the_given_text)
{
    ck_assert_int_eq(rl_result_fail(&result, REDLOCK_INVALID, "ttl_ms is %d", 0), REDLOCK_INVALID);
    ck_assert_str_eq(redlock_result_text(&result), "ttl_ms is 0");
    ck_assert_int_eq(result.status, REDLOCK_INVALID);
    ck_assert_int_eq(result.cause, REDLOCK_INVALID);
    ck_assert_uint_eq(result.nodes, 0);
    ck_assert_uint_eq(result.attempts, 0);
    ck_assert_int_eq(rl_result_fail(NULL, REDLOCK_NO_MEMORY, "%s", "nowhere to write"), REDLOCK_NO_MEMORY);
}

TEST_PROGRAM("results")
