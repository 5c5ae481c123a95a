/* The marker's text, and what its facts say about the server: when it is right, when it must be written anew, and since
 * when the server can be relied on then. */
#include "quorum/marker.h"

#include <string.h>

#include "support/test.h"

#define TIME UINT64_C(1700000000000000) /* us by the node's clock */
#define GOOD "2 ab cd 7 3 1600000000000 1600000000000000 30000 5 new 1f here"
#define SAME                                                                                                           \
    {                                                                                                                  \
        "ab", "cd", false, 7, 3, 0                                                                                     \
    }

/* A client that last saw this marker at TIME, with its max_ttl, judges it. A row says what else is so. */
static const struct {
    const char *name;
    const char *text;
    struct quorum_marker_facts facts;
    enum quorum_marker_verdict verdict;
    const char *why;        /* NULL: since stays */
    uint64_t max_ttl;       /* 0: 30000 */
    const char *seen_nonce; /* NULL: 1f */
    uint64_t seen;          /* 0: TIME */
    bool jumped;
} rows[] = {
    {"as it was", GOOD, SAME, .verdict = QUORUM_MARKER_KEEP},
    {"capitals",
     "2 AZaz09 AFaf09 7 3 1600000000000 1600000000000000 30000 5 new 1f here",
     {"AZaz09", "AFaf09", false, 7, 3, 0},
     .verdict = QUORUM_MARKER_KEEP},
    {"none", "", SAME, .verdict = QUORUM_MARKER_WRITE, .why = "new"},
    {"none, and the clock jumped", "", SAME, .verdict = QUORUM_MARKER_WRITE, .why = "jumped", .jumped = true},
    {"restart, history freed", GOOD, {"ac", "0", false, 7, 3, 0}, .verdict = QUORUM_MARKER_WRITE, .why = "restarted"},
    {"restart", GOOD, {"ac", "cd", false, 7, 3, 0}, .verdict = QUORUM_MARKER_WRITE, .why = "restarted"},
    {"replica", GOOD, {"ab", "ce", false, 7, 3, 0}, .verdict = QUORUM_MARKER_WRITE, .why = "copied"},
    {"history freed", GOOD, {"ab", "0", false, 7, 3, 0}, .verdict = QUORUM_MARKER_KEEP},
    {"evicted", GOOD, {"ab", "cd", false, 8, 3, 0}, .verdict = QUORUM_MARKER_WRITE, .why = "evicted"},
    {"statistics reset", GOOD, {"ab", "cd", false, 0, 3, 0}, .verdict = QUORUM_MARKER_WRITE, .why = "evicted"},
    {"swapped", GOOD, {"ab", "cd", false, 7, 4, 0}, .verdict = QUORUM_MARKER_WRITE, .why = "replaced"},
    {"may evict now", GOOD, {"ab", "cd", true, 7, 3, 0}, .verdict = QUORUM_MARKER_WRITE},
    {"older copy", GOOD, SAME, .verdict = QUORUM_MARKER_WRITE, .why = "replaced", .seen_nonce = "2f"},
    {"another client's", GOOD, SAME, .verdict = QUORUM_MARKER_KEEP, .seen_nonce = "2f",
     .seen = UINT64_C(1600000001000000)},
    {"another client's, written later", GOOD, SAME, .verdict = QUORUM_MARKER_KEEP, .seen_nonce = "2f", .seen = 1},
    {"clock jumped", GOOD, SAME, .verdict = QUORUM_MARKER_WRITE, .why = "jumped", .jumped = true},
    {"promoted again", GOOD, {"ab", "cd", false, 7, 3, 2}, .verdict = QUORUM_MARKER_WRITE, .why = "promoted"},
    {"promoted before",
     "2 ab cd 7 2000000003 1600000000000 1600000000000000 30000 5 new 1f here",
     {"ab", "cd", false, 7, 3, 1},
     .verdict = QUORUM_MARKER_KEEP},
    {"larger max_ttl", GOOD, SAME, .verdict = QUORUM_MARKER_WRITE, .max_ttl = 40000},
    {"smaller max_ttl", GOOD, SAME, .verdict = QUORUM_MARKER_KEEP, .max_ttl = 3000},
    {"from this millisecond", "2 ab cd 7 3 1700000000000 1 30000 5 new 1f here", SAME, .verdict = QUORUM_MARKER_KEEP},
    {"from the future", "2 ab cd 7 3 1700000000001 1 30000 5 new 1f here", SAME, .verdict = QUORUM_MARKER_WRITE,
     .why = "restarted"},
    {"other deployment", "2 ab cd 7 3 1 1 30000 5 new 1f there", SAME, .verdict = QUORUM_MARKER_OTHER},
    {"other N", "2 ab cd 7 3 1 1 30000 3 new 1f here", SAME, .verdict = QUORUM_MARKER_OTHER},
    {"other format", "3 ab cd 7 3 1 1 30000 5 new 1f here", SAME, .verdict = QUORUM_MARKER_TAKEN},
};

TEST_CASE(marker, NULL, NULL);

TEST_ROWS(marker, facts_that_differ_start_it_anew, ROWS(rows))
{
    const char *nonce = rows[_i].seen_nonce ? rows[_i].seen_nonce : "1f";
    const uint64_t seen = rows[_i].seen ? rows[_i].seen : TIME, max_ttl = rows[_i].max_ttl ? rows[_i].max_ttl : 30000;
    const struct quorum_marker_view view = {&rows[_i].facts, TIME, nonce, seen, rows[_i].jumped, max_ttl, 5, "here"};
    struct quorum_marker marker;
    enum quorum_marker_verdict verdict = quorum_marker_judge(&view, rows[_i].text, strlen(rows[_i].text), &marker);
    ck_assert_msg(verdict == rows[_i].verdict, "%s: %d", rows[_i].name, verdict);
    if (verdict == QUORUM_MARKER_OTHER || verdict == QUORUM_MARKER_TAKEN)
        return;
    ck_assert_int_eq(marker.since == QUORUM_MARKER_NOW, rows[_i].why != NULL);
    ck_assert_str_eq(marker.why, rows[_i].why ? rows[_i].why : "new");
    ck_assert_uint_eq(marker.max_ttl, max_ttl > 30000 ? max_ttl : 30000);
    ck_assert_str_eq(marker.deployment, "here");
    ck_assert_uint_eq(marker.nodes, 5);
    ck_assert_str_eq(marker.facts.run_id, rows[_i].facts.run_id);
    bool freed = rows[_i].facts.history[0] == '0' && !rows[_i].why;
    ck_assert_str_eq(marker.facts.history, freed ? "cd" : rows[_i].facts.history);
}

static const char *const no_markers[] = {
    "2",
    GOOD " ",
    " " GOOD,
    GOOD " more",
    GOOD "\n",
    "2 ab cd 7 3 1 1 30000 5 new 1f",
    "2 ab  cd 7 3 1 1 30000 5 new 1f here",
    "2 a-b cd 7 3 1 1 30000 5 new 1f here",
    "2 a{b cd 7 3 1 1 30000 5 new 1f here",
    "2 ab xy 7 3 1 1 30000 5 new 1f here",
    "2 ab c- 7 3 1 1 30000 5 new 1f here",
    "2 ab cG 7 3 1 1 30000 5 new 1f here",
    "2 ab cd -7 3 1 1 30000 5 new 1f here",
    "2 ab cd ee7 3 1 1 30000 5 new 1f here",
    "2 ab cd 7 3 9000000000001 1 30000 5 new 1f here",
    "2 ab cd 7 3 1 1 4294967296 5 new 1f here",
    "2 ab cd 7 3 1 1 30000 4294967296 new 1f here",
    "2 ab cd 7 3 1 99999999999999999999 30000 5 new 1f here",
    "2 ab cd 7 3 1 1 30000 5 new 1f he\x7fre",
    "2 ab cd 7 3 1 1 30000 5 a_reason_too_long 1f here",
    "2 0123456789012345678901234567890123456789x cd 7 3 1 1 30000 5 new 1f here",
};

TEST_ROWS(marker, text_of_another_form_is_no_marker, ROWS(no_markers))
{
    struct quorum_marker marker;
    ck_assert_msg(!quorum_marker_parse(&marker, no_markers[_i], strlen(no_markers[_i])), "%s", no_markers[_i]);
    for (size_t size = 0; size < strlen(GOOD) - 3; size++) /* "h" is a deployment's name, too */
        ck_assert(!quorum_marker_parse(&marker, GOOD, size));
}

TEST_PROGRAM("quorum/marker")
