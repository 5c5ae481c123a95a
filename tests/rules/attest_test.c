/* A grant counts exactly if a later proof shows the judged marker, and the judged evidence too when a look is due. */
#include "quorum/attest.h"

#include <stdlib.h>
#include <string.h>

#include "rules/story.h"
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

/* What a proof must show. L: the evidence, E: the number of evicted keys, T: the clock. */
static const char *needs_of(enum quorum_attest_occasion occasion, quorum_time sampled, quorum_time now)
{
    static char text[4];
    const struct quorum_attest_needs needs = quorum_attest_needs(&attest, occasion, sampled, now);
    snprintf(text, sizeof text, "%c%c%c", needs.look ? 'L' : '-', needs.evicted ? 'E' : '-', needs.time ? 'T' : '-');
    return text;
}

/*
 * Stories: a letter and times, in microseconds since noon; + is a nanosecond later. Proofs, with the times when the request
 * left and, if later, when the reply came:
 *   m1000  the marker    w100:500  the marker behind a grant that is a write    l40000:41000  a look    o9000  a whole look
 *   Behind it: ? the client must look again, x other bytes come, which prove nothing. Otherwise it is proven.
 * Then:
 *   n1000:LET  what a grant then needs, with a fresh sample    R800  the look is to be renewed    r700  it is not
 *   t500  the last proof took so long    A, a  the node may evict keys, or not    F  the judgement is forgotten
 */
static const char *const stories[] = {
    /* The marker alone proves while the look lasts. */
    "m1000 m1000+? A m0?",
    /* A look proves at any time, and lets the marker prove again, from its sending; an older one that comes late does not. */
    "l40000:1040000 m41000 m41000+? l-5000:40000 m41000 m41000+?",
    /* Grants that are writes, and follow one another quickly, make a look last for longer. */
    "w1000 w2000 w3000 w4000 w5000 w5000:5000+?",
    "w100:500 m1100 m1100+?",
    /* But not one whose marker is different, nor one that comes too late itself. */
    "w500x w1000:1000+? m1000+?",
    /* The rule avoids a proof that a look would have to follow, because that costs a round trip. */
    "n1000:--- n1000+:L-- m0:300 n700:--- n700+:L-- A n0:LE- a F n0:L--",
    /* Knowledge is renewed by a whole look alone. */
    "l2000000 n2000000:LET o2000000x n2000000:LET o2000000 n3500000:L-- n3500000+:LET",
    /* A look is renewed if a later proof can rely on it. */
    "t100 r700 R700+ t500 R1000000 t500+ r1000000 t0 A r1000000 a F r1000000",
};

static quorum_time moment(const char *text, const char **rest)
{
    char *end;
    int64_t us = strtoll(text, &end, 10);
    *rest = end + (*end == '+');
    return noon + (quorum_time)(us * (int64_t)QUORUM_MICROSECOND) + (*end == '+');
}

static bool proves(const char *word)
{
    const char *rest;
    const bool look = *word == 'l' || *word == 'o';
    quorum_time sent = moment(word + 1, &rest), received = *rest == ':' ? moment(rest + 1, &rest) : sent;
    const char *bytes = *rest == 'x' ? EVIDENCE : look ? shown : MARKER;
    const struct quorum_shown proof = {look,  *word == 'o', sent, received, *word == 'w' ? sent : 0,
                                       bytes, strlen(bytes)};
    return quorum_attest_prove(&attest, &proof) == (*rest == '?'   ? QUORUM_LOOK_AGAIN
                                                    : *rest == 'x' ? QUORUM_NOT_PROVEN
                                                                   : QUORUM_PROVEN);
}

static bool holds(const char *word)
{
    const char *rest;
    const quorum_time at = moment(word + 1, &rest);
    switch (*word) {
    case 'A':
    case 'a':
        attest.always_look = *word == 'A';
        return true;
    case 'F':
        quorum_attest_forget(&attest);
        return true;
    case 't':
        attest.took = at - noon;
        return true;
    case 'n':
        return strcmp(needs_of(QUORUM_FOR_GRANT, at, at), rest + 1) == 0;
    case 'R':
    case 'r':
        return quorum_attest_is_aging(&attest, at) == (*word == 'R');
    default:
        return proves(word);
    }
}

TEST_CASE(attest, setup, NULL);

TEST_ROWS(attest, proofs_follow_story, ROWS(stories))
{
    char word[WORD_SIZE];
    for (const char *events = stories[_i]; next_word(&events, word);)
        ck_assert_msg(holds(word), "%s: %s", stories[_i], word);
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

/* By the age of the client's knowledge. After idleness a grant's proof shows all. */
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

TEST_ROWS(attest, after_idleness_a_proof_shows_all_that_can_change, ROWS(needs_rows))
{
    attest.always_look = needs_rows[_i].always_look;
    const quorum_time now = noon + needs_rows[_i].after;
    ck_assert_str_eq(needs_of(needs_rows[_i].occasion, now - needs_rows[_i].sample, now), needs_rows[_i].needs);
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
