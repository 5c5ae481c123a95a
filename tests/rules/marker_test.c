/* The marker's text, and what its facts say about the server: when it is right, when it must be written anew, and since
 * when the server can be relied on then. */
#include "quorum/marker.h"

#include <string.h>

#include "support/test.h"

#define TIME UINT64_C(1700000000000000) /* us by the node's clock */
#define GOOD "2 ab cd 7 3 1600000000000 1600000000000000 30000 5 new 1f here"

static const struct {
    const char *name;
    const char *text;
    struct quorum_marker_facts facts;
    uint64_t max_ttl;
    const char *seen_nonce;
    uint64_t seen;
    bool jumped;
    enum quorum_marker_verdict verdict;
    const char *why; /* "": since stays */
} rows[] = {
    {"as it was", GOOD, {"ab", "cd", false, 7, 3, 0}, 30000, "1f", TIME, false, QUORUM_MARKER_KEEP, ""},
    {"none", "", {"ab", "cd", false, 7, 3, 0}, 30000, "1f", TIME, false, QUORUM_MARKER_WRITE, "new"},
    {"restart", GOOD, {"ac", "cd", false, 7, 3, 0}, 30000, "1f", TIME, false, QUORUM_MARKER_WRITE, "restarted"},
    {"replica", GOOD, {"ab", "ce", false, 7, 3, 0}, 30000, "1f", TIME, false, QUORUM_MARKER_WRITE, "copied"},
    {"history freed", GOOD, {"ab", "0", false, 7, 3, 0}, 30000, "1f", TIME, false, QUORUM_MARKER_KEEP, ""},
    {"evicted", GOOD, {"ab", "cd", false, 8, 3, 0}, 30000, "1f", TIME, false, QUORUM_MARKER_WRITE, "evicted"},
    {"swapped", GOOD, {"ab", "cd", false, 7, 4, 0}, 30000, "1f", TIME, false, QUORUM_MARKER_WRITE, "replaced"},
    {"may evict now", GOOD, {"ab", "cd", true, 7, 3, 0}, 30000, "1f", TIME, false, QUORUM_MARKER_WRITE, ""},
    {"older copy", GOOD, {"ab", "cd", false, 7, 3, 0}, 30000, "2f", TIME, false, QUORUM_MARKER_WRITE, "replaced"},
    {"another client's",
     GOOD,
     {"ab", "cd", false, 7, 3, 0},
     30000,
     "2f",
     UINT64_C(1600000001000000),
     false,
     QUORUM_MARKER_KEEP,
     ""},
    {"clock jumped", GOOD, {"ab", "cd", false, 7, 3, 0}, 30000, "1f", TIME, true, QUORUM_MARKER_WRITE, "jumped"},
    {"promoted again", GOOD, {"ab", "cd", false, 7, 3, 2}, 30000, "1f", TIME, false, QUORUM_MARKER_WRITE, "promoted"},
    {"promoted before",
     "2 ab cd 7 2000000003 1600000000000 1600000000000000 30000 5 new 1f here",
     {"ab", "cd", false, 7, 3, 1},
     30000,
     "1f",
     TIME,
     false,
     QUORUM_MARKER_KEEP,
     ""},
    {"larger max_ttl", GOOD, {"ab", "cd", false, 7, 3, 0}, 40000, "1f", TIME, false, QUORUM_MARKER_WRITE, ""},
    {"smaller max_ttl", GOOD, {"ab", "cd", false, 7, 3, 0}, 3000, "1f", TIME, false, QUORUM_MARKER_KEEP, ""},
    {"from the future",
     "2 ab cd 7 3 1700000000001 1 30000 5 new 1f here",
     {"ab", "cd", false, 7, 3, 0},
     30000,
     "1f",
     TIME,
     false,
     QUORUM_MARKER_WRITE,
     "restarted"},
    {"other deployment",
     "2 ab cd 7 3 1 1 30000 5 new 1f there",
     {"ab", "cd", false, 7, 3, 0},
     30000,
     "1f",
     TIME,
     false,
     QUORUM_MARKER_OTHER,
     ""},
    {"other N",
     "2 ab cd 7 3 1 1 30000 3 new 1f here",
     {"ab", "cd", false, 7, 3, 0},
     30000,
     "1f",
     TIME,
     false,
     QUORUM_MARKER_OTHER,
     ""},
    {"other format",
     "3 ab cd 7 3 1 1 30000 5 new 1f here",
     {"ab", "cd", false, 7, 3, 0},
     30000,
     "1f",
     TIME,
     false,
     QUORUM_MARKER_TAKEN,
     ""},
};

TEST_CASE(marker, NULL, NULL);

TEST_ROWS(marker, facts_that_differ_start_it_anew, ROWS(rows))
{
    struct quorum_marker marker;
    const struct quorum_marker_view view = {
        &rows[_i].facts, TIME, rows[_i].seen_nonce, rows[_i].seen, rows[_i].jumped, rows[_i].max_ttl, 5, "here"};
    enum quorum_marker_verdict verdict = quorum_marker_judge(&view, rows[_i].text, strlen(rows[_i].text), &marker);
    ck_assert_msg(verdict == rows[_i].verdict, "%s: %d", rows[_i].name, verdict);
    if (verdict == QUORUM_MARKER_OTHER || verdict == QUORUM_MARKER_TAKEN)
        return;
    ck_assert_int_eq(marker.since == QUORUM_MARKER_NOW, rows[_i].why[0] != '\0');
    ck_assert_str_eq(marker.why, rows[_i].why[0] ? rows[_i].why : "new");
    ck_assert_uint_eq(marker.max_ttl, rows[_i].max_ttl > 30000 || !rows[_i].text[0] ? rows[_i].max_ttl : 30000);
    ck_assert_str_eq(marker.facts.run_id, rows[_i].facts.run_id);
    ck_assert_str_eq(marker.facts.history, rows[_i].facts.history[0] == '0' ? "cd" : rows[_i].facts.history);
}

static const char *const no_markers[] = {
    "2",
    GOOD " ",
    " " GOOD,
    GOOD " more",
    GOOD "\n",
    "2 ab cd 7 3 1 1 30000 5 new 1f",
    "2 ab  cd 7 3 1 1 30000 5 new 1f here",
    "2 ab xy 7 3 1 1 30000 5 new 1f here",
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
