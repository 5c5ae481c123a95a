/* A grant counts exactly if a later proof shows the judged marker, and the judged evidence too when a look is due. */
#include "quorum/attest.h"

#include <string.h>

#include "support/test.h"

#define MS       QUORUM_MILLISECOND
#define EVIDENCE "run master 0 0\n"
#define MARKER   "2 run 0 0 0 0 1 30000 5 trusted 1f here"

static const quorum_time noon = 5000 * QUORUM_SECOND;
static const char shown[] = EVIDENCE MARKER;

static struct quorum_attest attest;

/* A look that was sent at noon has been judged. */
static void setup(void)
{
    attest = (struct quorum_attest){0};
    quorum_attest_judged(&attest, shown, strlen(shown), strlen(EVIDENCE), noon);
}

static enum quorum_proof prove(bool look, const char *bytes, size_t size, quorum_time sent, quorum_time received)
{
    const struct quorum_shown proof = {look, false, sent, received, 0, bytes, size};
    return quorum_attest_prove(&attest, &proof);
}

static enum quorum_proof prove_marker(quorum_time received)
{
    return prove(false, MARKER, strlen(MARKER), received - MS / 10, received);
}

static enum quorum_proof prove_write(quorum_time wrote, quorum_time received)
{
    const struct quorum_shown proof = {false, false, wrote, received, wrote, MARKER, strlen(MARKER)};
    return quorum_attest_prove(&attest, &proof);
}

/* How long after this look or write the marker alone is proof. That proof itself vouches for nothing. */
static void check_reach(quorum_time from)
{
    ck_assert_int_eq(prove_marker(from + QUORUM_WRITES_APART), QUORUM_PROVEN);
    ck_assert_int_eq(prove_marker(from + QUORUM_WRITES_APART + 1), QUORUM_LOOK_AGAIN);
}

TEST_CASE(attest, setup, NULL);

TEST(attest, marker_alone_proves_while_the_look_lasts)
{
    check_reach(noon);
    attest.always_look = true;
    ck_assert_int_eq(prove_marker(noon), QUORUM_LOOK_AGAIN);
}

TEST(attest, look_proves_at_any_time_and_lets_the_marker_prove_again)
{
    quorum_time sent = noon + 40 * QUORUM_SECOND;
    ck_assert_int_eq(prove(true, shown, strlen(shown), sent, sent + QUORUM_SECOND), QUORUM_PROVEN);
    check_reach(sent);
    /* A look that was sent before the judged one and answered after it does not change the time. */
    ck_assert_int_eq(prove(true, shown, strlen(shown), noon - 5 * MS, sent), QUORUM_PROVEN);
    check_reach(sent);
}

/* Grants that are writes, and follow one another quickly, make a look last for longer. */
TEST(attest, writes_make_a_look_last)
{
    quorum_time last = noon;
    for (; last + QUORUM_WRITES_APART <= noon + QUORUM_LOOK_LASTS; last += QUORUM_WRITES_APART)
        ck_assert_int_eq(prove_write(last + QUORUM_WRITES_APART, last + QUORUM_WRITES_APART), QUORUM_PROVEN);
    ck_assert_uint_eq(last, noon + QUORUM_LOOK_LASTS);
    ck_assert_int_eq(prove_write(last, last + 1), QUORUM_LOOK_AGAIN);
}

TEST(attest, write_vouches_from_its_sending)
{
    ck_assert_int_eq(prove_write(noon + MS / 10, noon + MS / 2), QUORUM_PROVEN);
    check_reach(noon + MS / 10);
}

/* Neither one whose marker is different, nor one that comes too late itself. */
TEST(attest, write_without_proof_vouches_for_nothing)
{
    const struct quorum_shown other = {false,         false,    noon + MS / 2,   noon + MS / 2,
                                       noon + MS / 2, EVIDENCE, strlen(EVIDENCE)};
    ck_assert_int_eq(quorum_attest_prove(&attest, &other), QUORUM_NOT_PROVEN);
    ck_assert_int_eq(prove_write(noon + QUORUM_WRITES_APART, noon + QUORUM_WRITES_APART + 1), QUORUM_LOOK_AGAIN);
    ck_assert_int_eq(prove_marker(noon + QUORUM_WRITES_APART + 1), QUORUM_LOOK_AGAIN);
}

/* Every byte counts, and so does a missing or an additional byte: in a look, in a plain proof, and in a grant of a node
 * that hands a lock over, which reads its evidence and its marker in the same step. At once, and after idleness. */
TEST_ROWS(attest, any_other_byte_is_no_proof, 4)
{
    const bool look = _i % 2 == 0, fresh = _i < 2;
    const quorum_time sent = fresh ? noon : noon + 40 * QUORUM_SECOND;
    const char *right = look ? shown : MARKER;
    const size_t size = strlen(right);
    char other[128];
    strcpy(other, right);
    for (size_t at = 0; at < size; at++) {
        other[at] ^= 1;
        ck_assert_int_eq(prove(look, other, size, sent, sent + MS), QUORUM_NOT_PROVEN);
        ck_assert(!quorum_attest_shows(&attest, other, size));
        other[at] ^= 1;
        ck_assert_int_eq(prove(look, right, at, sent, sent + MS), QUORUM_NOT_PROVEN);
        ck_assert(!quorum_attest_shows(&attest, right, at));
    }
    ck_assert_int_eq(prove(look, right, size + 1, sent, sent + MS), QUORUM_NOT_PROVEN);
    ck_assert_int_eq(prove(look, right, size, sent, sent + MS), look || fresh ? QUORUM_PROVEN : QUORUM_LOOK_AGAIN);
    ck_assert_int_eq(quorum_attest_shows(&attest, right, size), look);
}

/* There was none, it was forgotten, or the node has no marker. */
TEST_ROWS(attest, without_a_judgement_nothing_is_proof, 3)
{
    static const char *const texts[] = {"", MARKER, EVIDENCE, shown};
    attest = _i == 0 ? (struct quorum_attest){0} : attest;
    if (_i == 1)
        quorum_attest_forget(&attest);
    if (_i == 2)
        quorum_attest_judged(&attest, EVIDENCE, strlen(EVIDENCE), strlen(EVIDENCE), noon);
    for (int i = 0; i < ROWS(texts); i++) {
        ck_assert_int_eq(prove(true, texts[i], strlen(texts[i]), noon, noon + MS), QUORUM_NOT_PROVEN);
        ck_assert_int_eq(prove(false, texts[i], strlen(texts[i]), noon, noon + MS), QUORUM_NOT_PROVEN);
        ck_assert(!quorum_attest_shows(&attest, texts[i], strlen(texts[i])));
    }
}

TEST(attest, what_is_too_long_to_remember_is_never_proof)
{
    char longest[QUORUM_SHOWN_MAX + 1];
    memset(longest, 'x', sizeof longest);
    quorum_attest_judged(&attest, longest, QUORUM_SHOWN_MAX, 1, noon);
    ck_assert_int_eq(prove(true, longest, QUORUM_SHOWN_MAX, noon, noon + MS), QUORUM_PROVEN);
    quorum_attest_judged(&attest, longest, sizeof longest, 1, noon);
    ck_assert_int_eq(prove(true, longest, sizeof longest, noon, noon + MS), QUORUM_NOT_PROVEN);
}

static bool needs_look(quorum_time now)
{
    return quorum_attest_needs(&attest, QUORUM_FOR_GRANT, now, now).look;
}

/* The rule avoids a proof that a look would have to follow, because that costs a round trip. */
TEST(attest, look_is_sent_where_the_marker_would_come_too_late)
{
    const quorum_duration took = QUORUM_WRITES_APART / 3;
    ck_assert(!needs_look(noon + QUORUM_WRITES_APART));
    ck_assert(needs_look(noon + QUORUM_WRITES_APART + 1));
    prove(false, MARKER, strlen(MARKER), noon, noon + took);
    ck_assert(!needs_look(noon + QUORUM_WRITES_APART - took));
    ck_assert(needs_look(noon + QUORUM_WRITES_APART - took + 1));
    attest.always_look = true;
    ck_assert(needs_look(noon));
    quorum_attest_forget(&attest);
    attest.always_look = false;
    ck_assert(needs_look(noon));
}

/* What a proof must show, by the age of the client's knowledge. L: the evidence, E: the number of evicted keys, T: the
 * clock. After idleness a grant's shows all of them. */
static const struct {
    enum quorum_attest_occasion occasion;
    quorum_duration after;
    bool always_look;
    const char *needs;
    quorum_duration sample; /* how old the last sample of the clock is */
} needs_rows[] = {
    {QUORUM_FOR_GRANT, MS, false, "---", 0},
    {QUORUM_FOR_GRANT, MS, true, "LE-", 0},
    {QUORUM_FOR_GRANT, MS, false, "---", QUORUM_SAMPLE_LASTS},
    {QUORUM_FOR_GRANT, MS, false, "--T", QUORUM_SAMPLE_LASTS + 1},
    {QUORUM_FOR_GRANT, MS, true, "LET", QUORUM_SAMPLE_LASTS + 1},
    {QUORUM_FOR_GRANT, QUORUM_KNOWLEDGE_LASTS, false, "L-T", QUORUM_KNOWLEDGE_LASTS},
    {QUORUM_FOR_GRANT, QUORUM_KNOWLEDGE_LASTS, false, "L--", 0},
    {QUORUM_FOR_GRANT, QUORUM_KNOWLEDGE_LASTS + 1, false, "LET", 0},
    {QUORUM_FOR_GRANT, QUORUM_KNOWLEDGE_LASTS + 1, true, "LET", 0},
    {QUORUM_FOR_LOOK, 0, false, "L--", 0},
    {QUORUM_FOR_LOOK, QUORUM_KNOWLEDGE_LASTS + 1, false, "LET", 0},
    {QUORUM_FOR_BEAT, 0, false, "--T", 0},
    {QUORUM_FOR_BEAT, 0, true, "LET", 0},
    {QUORUM_FOR_BEAT, QUORUM_BEATS_LOOK, false, "--T", 0},
    {QUORUM_FOR_BEAT, QUORUM_BEATS_LOOK + 1, false, "LET", 0},
};

static void check_needs(enum quorum_attest_occasion occasion, quorum_time sampled, quorum_time now,
                        const char *expected)
{
    const struct quorum_attest_needs needs = quorum_attest_needs(&attest, occasion, sampled, now);
    const char text[] = {needs.look ? 'L' : '-', needs.evicted ? 'E' : '-', needs.time ? 'T' : '-', '\0'};
    ck_assert_str_eq(text, expected);
}

TEST_ROWS(attest, after_idleness_a_proof_shows_all_that_can_change, ROWS(needs_rows))
{
    attest.always_look = needs_rows[_i].always_look;
    const quorum_time now = noon + needs_rows[_i].after;
    check_needs(needs_rows[_i].occasion, now - needs_rows[_i].sample, now, needs_rows[_i].needs);
}

/* Only a proven look that shows the evicted keys and the clock. */
TEST(attest, knowledge_is_renewed_by_a_whole_look_alone)
{
    const quorum_time old = noon + QUORUM_KNOWLEDGE_LASTS + 1;
    struct quorum_shown whole = {true, true, old, old + MS, 0, EVIDENCE, strlen(EVIDENCE)};
    prove(true, shown, strlen(shown), old, old + MS);
    check_needs(QUORUM_FOR_GRANT, old, old, "LET");
    ck_assert_int_eq(quorum_attest_prove(&attest, &whole), QUORUM_NOT_PROVEN);
    check_needs(QUORUM_FOR_GRANT, old, old, "LET");
    whole.bytes = shown;
    whole.size = strlen(shown);
    ck_assert_int_eq(quorum_attest_prove(&attest, &whole), QUORUM_PROVEN);
    check_needs(QUORUM_FOR_GRANT, old + QUORUM_KNOWLEDGE_LASTS, old + QUORUM_KNOWLEDGE_LASTS, "L--");
    check_needs(QUORUM_FOR_GRANT, old, old + QUORUM_KNOWLEDGE_LASTS + 1, "LET");
}

TEST(attest, look_is_renewed_if_a_later_proof_can_rely_on_it)
{
    const quorum_duration half = QUORUM_WRITES_APART / 2, took = QUORUM_WRITES_APART / 10;
    attest.took = took;
    ck_assert(!quorum_attest_is_aging(&attest, noon + QUORUM_WRITES_APART - 3 * took));
    ck_assert(quorum_attest_is_aging(&attest, noon + QUORUM_WRITES_APART - 3 * took + 1));
    attest.took = half;
    ck_assert(quorum_attest_is_aging(&attest, noon + QUORUM_SECOND));
    attest.took = half + 1; /* the next proof comes too late for it */
    ck_assert(!quorum_attest_is_aging(&attest, noon + QUORUM_SECOND));
    attest.took = 0;
    attest.always_look = true;
    ck_assert(!quorum_attest_is_aging(&attest, noon + QUORUM_SECOND));
    attest.always_look = false;
    quorum_attest_forget(&attest);
    ck_assert(!quorum_attest_is_aging(&attest, noon + QUORUM_SECOND));
}

TEST(attest, only_grants_need_proof)
{
    for (unsigned vote = QUORUM_PENDING; vote < QUORUM_VOTES; vote++)
        for (unsigned proof = QUORUM_PROVEN; proof <= QUORUM_LOOK_AGAIN; proof++) {
            bool voided = vote == QUORUM_GRANTED && proof != QUORUM_PROVEN;
            ck_assert_uint_eq(quorum_attest_vote((enum quorum_vote)vote, (enum quorum_proof)proof),
                              voided ? QUORUM_UNATTESTED : vote);
        }
}

TEST_PROGRAM("quorum/attest")
