/* A grant counts exactly if a later proof shows the judged marker, and the judged evidence too when a look is due. */
#include "quorum/attest.h"

#include <stdio.h>
#include <string.h>

#include "support/suite.h"

#define MS QUORUM_MILLISECOND

static const quorum_time noon = 5000 * QUORUM_SECOND;
static const char evidence[] = "run master 0 0\n", marker[] = "2 run 0 0 0 0 1 30000 5 trusted 1f here";

static struct quorum_attest judged_at(quorum_time sent)
{
    struct quorum_attest attest = {0};
    char shown[128];
    size_t size = (size_t)snprintf(shown, sizeof shown, "%s%s", evidence, marker);
    quorum_attest_judged(&attest, shown, size, strlen(evidence), sent);
    return attest;
}

static enum quorum_proof prove(struct quorum_attest *attest, bool look, const char *bytes, size_t size,
                               quorum_time sent, quorum_time received)
{
    const struct quorum_shown shown = {look, sent, received, bytes, size};
    return quorum_attest_prove(attest, &shown);
}

static enum quorum_proof prove_text(struct quorum_attest *attest, bool look, const char *text, quorum_time received)
{
    return prove(attest, look, text, strlen(text), received - MS, received);
}

/* Time from the judged look to a plain proof that relies on it, and whether the look is still fresh enough. */
static const struct {
    quorum_duration after;
    bool fresh;
} moments[] = {{MS / 10, true},
               {QUORUM_LOOK_LASTS - 1, true},
               {QUORUM_LOOK_LASTS, true},
               {QUORUM_LOOK_LASTS + 1, false},
               {40 * QUORUM_SECOND, false}};

START_TEST(marker_alone_proves_while_the_look_lasts)
{
    for (int evicts = 0; evicts < 2; evicts++) {
        struct quorum_attest attest = judged_at(noon);
        attest.always_look = evicts;
        bool proven = moments[_i].fresh && !evicts;
        ck_assert_int_eq(prove_text(&attest, false, marker, noon + moments[_i].after),
                         proven ? QUORUM_PROVEN : QUORUM_LOOK_AGAIN);
    }
}
END_TEST

START_TEST(look_proves_at_any_time_and_lets_the_marker_prove_again)
{
    struct quorum_attest attest = judged_at(noon);
    char shown[128];
    quorum_time sent = noon + moments[_i].after;
    snprintf(shown, sizeof shown, "%s%s", evidence, marker);
    ck_assert_int_eq(prove(&attest, true, shown, strlen(shown), sent, sent + QUORUM_SECOND), QUORUM_PROVEN);
    ck_assert_int_eq(prove_text(&attest, false, marker, sent + QUORUM_LOOK_LASTS), QUORUM_PROVEN);
    ck_assert_int_eq(prove_text(&attest, false, marker, sent + QUORUM_LOOK_LASTS + 1), QUORUM_LOOK_AGAIN);
}
END_TEST

/* A look that was sent before the judged one and answered after it does not extend the time. */
START_TEST(older_look_does_not_replace_a_newer_one)
{
    struct quorum_attest attest = judged_at(noon);
    char shown[128];
    snprintf(shown, sizeof shown, "%s%s", evidence, marker);
    ck_assert_int_eq(prove(&attest, true, shown, strlen(shown), noon - 5 * MS, noon + MS), QUORUM_PROVEN);
    ck_assert_int_eq(prove_text(&attest, false, marker, noon + QUORUM_LOOK_LASTS), QUORUM_PROVEN);
}
END_TEST

/* Every byte counts, and so does a missing or an additional byte, in both kinds of proof. */
START_TEST(any_other_byte_is_no_proof)
{
    char shown[128], other[130];
    size_t size = (size_t)snprintf(shown, sizeof shown, "%s%s", evidence, marker);
    for (int look = 0; look < 2; look++) {
        const char *right = look ? shown : marker;
        size_t length = look ? size : strlen(marker);
        for (size_t at = 0; at < length; at++) {
            struct quorum_attest attest = judged_at(noon);
            memcpy(other, right, length);
            other[at] ^= 1;
            ck_assert_int_eq(prove(&attest, look, other, length, noon, noon + MS), QUORUM_NOT_PROVEN);
            ck_assert_int_eq(prove(&attest, look, right, at, noon, noon + MS), QUORUM_NOT_PROVEN);
        }
        memcpy(other, right, length + 1);
        struct quorum_attest attest = judged_at(noon);
        ck_assert_int_eq(prove(&attest, look, other, length + 1, noon, noon + MS), QUORUM_NOT_PROVEN);
        ck_assert_int_eq(prove(&attest, look, right, length, noon, noon + MS), QUORUM_PROVEN);
    }
}
END_TEST

/* A node that hands a lock over reads its evidence and its marker in the same step. */
START_TEST(grant_that_came_with_its_look_needs_every_byte)
{
    char shown[128];
    struct quorum_attest attest = judged_at(noon), none = {0};
    size_t size = (size_t)snprintf(shown, sizeof shown, "%s%s", evidence, marker);
    ck_assert(quorum_attest_shows(&attest, shown, size));
    ck_assert(!quorum_attest_shows(&attest, marker, strlen(marker)));
    ck_assert(!quorum_attest_shows(&attest, shown, size - 1));
    ck_assert(!quorum_attest_shows(&attest, shown, 0));
    ck_assert(!quorum_attest_shows(&none, shown, 0));
    for (size_t i = 0; i < size; i++) {
        shown[i] ^= 1;
        ck_assert(!quorum_attest_shows(&attest, shown, size));
        shown[i] ^= 1;
    }
}
END_TEST

START_TEST(without_a_judgement_nothing_is_proof)
{
    struct quorum_attest never = {0}, forgotten = judged_at(noon), unmarked = {0};
    quorum_attest_forget(&forgotten);
    quorum_attest_judged(&unmarked, evidence, strlen(evidence), strlen(evidence), noon);
    struct quorum_attest *each[] = {&never, &forgotten, &unmarked};
    for (size_t i = 0; i < 3; i++)
        for (int look = 0; look < 2; look++) {
            ck_assert_int_eq(prove(each[i], look, "", 0, noon, noon + MS), QUORUM_NOT_PROVEN);
            ck_assert_int_eq(prove_text(each[i], look, marker, noon + MS), QUORUM_NOT_PROVEN);
            ck_assert_int_eq(prove_text(each[i], look, evidence, noon + MS), QUORUM_NOT_PROVEN);
        }
}
END_TEST

START_TEST(what_is_too_long_to_remember_is_never_proof)
{
    struct quorum_attest attest = judged_at(noon);
    char longest[QUORUM_SHOWN_MAX + 1];
    memset(longest, 'x', sizeof longest);
    quorum_attest_judged(&attest, longest, QUORUM_SHOWN_MAX, 1, noon);
    ck_assert_int_eq(prove(&attest, true, longest, QUORUM_SHOWN_MAX, noon, noon + MS), QUORUM_PROVEN);
    quorum_attest_judged(&attest, longest, sizeof longest, 1, noon);
    ck_assert_int_eq(prove(&attest, true, longest, sizeof longest, noon, noon + MS), QUORUM_NOT_PROVEN);
}
END_TEST

/* The rule avoids a proof that a look would have to follow, because that costs a round trip. */
START_TEST(look_is_sent_where_the_marker_would_come_too_late)
{
    const quorum_duration took = QUORUM_LOOK_LASTS / 3;
    struct quorum_attest attest = judged_at(noon);
    ck_assert(!quorum_attest_needs_look(&attest, noon + QUORUM_LOOK_LASTS));
    ck_assert(quorum_attest_needs_look(&attest, noon + QUORUM_LOOK_LASTS + 1));
    prove(&attest, false, marker, strlen(marker), noon, noon + took);
    ck_assert(!quorum_attest_needs_look(&attest, noon + QUORUM_LOOK_LASTS - took));
    ck_assert(quorum_attest_needs_look(&attest, noon + QUORUM_LOOK_LASTS - took + 1));
    attest.always_look = true;
    ck_assert(quorum_attest_needs_look(&attest, noon));
    quorum_attest_forget(&attest);
    attest.always_look = false;
    ck_assert(quorum_attest_needs_look(&attest, noon));
}
END_TEST

START_TEST(look_is_renewed_if_a_later_proof_can_rely_on_it)
{
    const quorum_duration half = QUORUM_LOOK_LASTS / 2;
    struct quorum_attest attest = judged_at(noon);
    ck_assert(!quorum_attest_is_aging(&attest, noon + half));
    ck_assert(quorum_attest_is_aging(&attest, noon + half + 1));
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
END_TEST

START_TEST(only_grants_need_proof)
{
    for (unsigned vote = QUORUM_PENDING; vote < QUORUM_VOTES; vote++)
        for (unsigned proof = QUORUM_PROVEN; proof <= QUORUM_LOOK_AGAIN; proof++) {
            bool voided = vote == QUORUM_GRANTED && proof != QUORUM_PROVEN;
            ck_assert_uint_eq(quorum_attest_vote((enum quorum_vote)vote, (enum quorum_proof)proof),
                              voided ? QUORUM_UNATTESTED : vote);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quorum/attest");
    TCase *proof = tcase_create("proof");
    int count = sizeof moments / sizeof *moments;
    tcase_add_loop_test(proof, marker_alone_proves_while_the_look_lasts, 0, count);
    tcase_add_loop_test(proof, look_proves_at_any_time_and_lets_the_marker_prove_again, 0, count);
    tcase_add_test(proof, older_look_does_not_replace_a_newer_one);
    tcase_add_test(proof, any_other_byte_is_no_proof);
    tcase_add_test(proof, grant_that_came_with_its_look_needs_every_byte);
    tcase_add_test(proof, without_a_judgement_nothing_is_proof);
    tcase_add_test(proof, what_is_too_long_to_remember_is_never_proof);
    tcase_add_test(proof, look_is_sent_where_the_marker_would_come_too_late);
    tcase_add_test(proof, look_is_renewed_if_a_later_proof_can_rely_on_it);
    tcase_add_test(proof, only_grants_need_proof);
    suite_add_tcase(suite, proof);
    return run_suite(suite);
}
