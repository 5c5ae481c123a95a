/* The rules of a round, one by one. quorum_round_exhaustive_test.c tests all of their combinations. */
#include "quorum/round.h"
#include "quorum/validity.h"

#include "support/suite.h"

#define MS QUORUM_MILLISECOND

static const quorum_time begin = 1000 * QUORUM_SECOND;

/* ttl 1 s, drift 1 % + 2 ms: valid until `begin` + 988 ms. */
static struct quorum_terms terms_for(enum quorum_kind kind, unsigned nodes)
{
    return (struct quorum_terms){.kind = kind,
                                 .nodes = nodes,
                                 .ttl = QUORUM_SECOND,
                                 .drift_ppm = 10000,
                                 .minimum_validity = 1,
                                 .validity_end = kind == QUORUM_ACQUIRE || kind == QUORUM_ADOPT ? 0 : begin + 500 * MS};
}

static struct quorum_actions start(struct quorum_round *round, quorum_nodes usable, quorum_nodes coming,
                                   quorum_time now)
{
    const struct quorum_event event = {.type = QUORUM_START, .now = now, .usable = usable, .coming = coming};
    return quorum_round_step(round, &event);
}

static struct quorum_actions usable(struct quorum_round *round, unsigned node, quorum_time now)
{
    const struct quorum_event event = {.type = QUORUM_USABLE, .now = now, .node = node};
    return quorum_round_step(round, &event);
}

static struct quorum_actions vote(struct quorum_round *round, unsigned node, enum quorum_vote vote, quorum_time now)
{
    const struct quorum_event event = {.type = QUORUM_VOTED, .now = now, .node = node, .vote = vote};
    return quorum_round_step(round, &event);
}

/* A reply which shows that the node has nothing of ours. */
static struct quorum_actions held_cleanly(struct quorum_round *round, unsigned node, quorum_time now)
{
    const struct quorum_event event = {
        .type = QUORUM_VOTED, .now = now, .node = node, .vote = QUORUM_HELD, .left_nothing = true};
    return quorum_round_step(round, &event);
}

static struct quorum_actions refuse_for_good(struct quorum_round *round, unsigned node)
{
    const struct quorum_event event = {
        .type = QUORUM_VOTED, .now = begin, .node = node, .vote = QUORUM_REFUSED, .permanent = true};
    return quorum_round_step(round, &event);
}

static struct quorum_actions cancel(struct quorum_round *round, quorum_time now)
{
    const struct quorum_event event = {.type = QUORUM_CANCEL, .now = now};
    return quorum_round_step(round, &event);
}

static struct quorum_round begun(enum quorum_kind kind, unsigned nodes)
{
    struct quorum_terms terms = terms_for(kind, nodes);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    start(&round, quorum_all(nodes), 0, begin);
    return round;
}

/* ---------------------------------------------------------------------------------------------------------- acquire */

START_TEST(all_usable_nodes_are_asked_at_once)
{
    struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 5);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    struct quorum_actions actions = start(&round, 0x1f, 0, begin);
    ck_assert_uint_eq(actions.send, 0x1f);
    ck_assert_uint_eq(actions.undo, 0);
    ck_assert(!actions.decided);
}
END_TEST

START_TEST(third_grant_of_five_wins)
{
    struct quorum_round round = begun(QUORUM_ACQUIRE, 5);
    ck_assert(!vote(&round, 4, QUORUM_GRANTED, begin + MS).decided);
    ck_assert(!vote(&round, 0, QUORUM_GRANTED, begin + 2 * MS).decided);
    struct quorum_actions actions = vote(&round, 2, QUORUM_GRANTED, begin + 3 * MS);
    ck_assert(actions.decided);
    ck_assert_uint_eq(actions.undo, 0);
    ck_assert_int_eq(round.verdict, QUORUM_WON);
    ck_assert_uint_eq(round.decided_at, begin + 3 * MS);
    ck_assert_uint_eq(round.validity_end, begin + 988 * MS);
}
END_TEST

START_TEST(half_of_an_even_number_is_no_majority)
{
    struct quorum_round round = begun(QUORUM_ACQUIRE, 4);
    vote(&round, 0, QUORUM_GRANTED, begin);
    ck_assert(!vote(&round, 1, QUORUM_GRANTED, begin).decided);
    ck_assert(!held_cleanly(&round, 2, begin).decided);
    struct quorum_actions actions = held_cleanly(&round, 3, begin);
    ck_assert(actions.decided);
    ck_assert_uint_eq(actions.undo, 0x3);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_HELD);
}
END_TEST

START_TEST(lost_as_soon_as_no_majority_is_left)
{
    struct quorum_round round = begun(QUORUM_ACQUIRE, 5);
    held_cleanly(&round, 0, begin);
    ck_assert(!held_cleanly(&round, 1, begin).decided);
    ck_assert(held_cleanly(&round, 2, begin).decided);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_HELD);
}
END_TEST

START_TEST(undo_goes_to_all_that_were_asked_answered_or_not)
{
    struct quorum_round round = begun(QUORUM_ACQUIRE, 5);
    vote(&round, 0, QUORUM_GRANTED, begin);
    vote(&round, 1, QUORUM_TIMED_OUT, begin);
    vote(&round, 2, QUORUM_UNREACHABLE, begin);
    ck_assert_uint_eq(vote(&round, 3, QUORUM_REFUSED, begin).undo, 0x1f);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_NO_QUORUM);
}
END_TEST

START_TEST(undo_leaves_out_who_said_that_nothing_of_ours_is_there)
{
    struct quorum_round round = begun(QUORUM_ACQUIRE, 5);
    held_cleanly(&round, 0, begin);
    vote(&round, 1, QUORUM_HELD, begin);
    ck_assert_uint_eq(held_cleanly(&round, 2, begin).undo, 0x1a);
}
END_TEST

/* A node that was counted as timed out replies after all. */
START_TEST(late_answer_counts_for_the_undo_and_not_as_a_vote)
{
    struct quorum_round round = begun(QUORUM_ACQUIRE, 5);
    vote(&round, 0, QUORUM_TIMED_OUT, begin);
    held_cleanly(&round, 0, begin + MS);
    vote(&round, 1, QUORUM_TIMED_OUT, begin);
    vote(&round, 1, QUORUM_GRANTED, begin + MS);
    ck_assert_uint_eq(vote(&round, 2, QUORUM_TIMED_OUT, begin + MS).undo, 0x1e);
    ck_assert_uint_eq(quorum_tally_count(&round.tally, QUORUM_TIMED_OUT), 3);
}
END_TEST

START_TEST(grant_after_the_round_was_won_adds_nothing)
{
    struct quorum_round round = begun(QUORUM_ACQUIRE, 3);
    vote(&round, 0, QUORUM_GRANTED, begin);
    vote(&round, 1, QUORUM_GRANTED, begin + MS);
    quorum_time end = round.validity_end;
    struct quorum_actions actions = vote(&round, 2, QUORUM_GRANTED, begin + 10 * MS);
    ck_assert(!actions.decided);
    ck_assert_uint_eq(actions.send | actions.undo, 0);
    ck_assert_uint_eq(round.validity_end, end);
    ck_assert_uint_eq(round.decided_at, begin + MS);
}
END_TEST

START_TEST(least_validity_must_be_left)
{
    for (quorum_duration late = 0; late < 2; late++) {
        struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 1);
        struct quorum_round round;
        terms.minimum_validity = 700 * MS;
        quorum_round_init(&round, &terms);
        start(&round, 1, 0, begin);
        struct quorum_actions actions = vote(&round, 0, QUORUM_GRANTED, begin + 288 * MS + late);
        ck_assert(actions.decided);
        ck_assert_int_eq(round.verdict, late ? QUORUM_LOST_TOO_SLOW : QUORUM_WON);
        ck_assert_uint_eq(actions.undo, late);
        ck_assert_uint_eq(round.validity_end, late ? 0 : begin + 988 * MS);
    }
}
END_TEST

START_TEST(validity_counts_from_the_first_send)
{
    struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 3);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    ck_assert_uint_eq(start(&round, 0, 0x7, begin).send, 0);
    ck_assert_uint_eq(usable(&round, 1, begin + 10 * MS).send, 0x2);
    ck_assert_uint_eq(usable(&round, 2, begin + 90 * MS).send, 0x4);
    vote(&round, 1, QUORUM_GRANTED, begin + 95 * MS);
    vote(&round, 2, QUORUM_GRANTED, begin + 95 * MS);
    ck_assert_uint_eq(round.sent, begin + 10 * MS);
    ck_assert_uint_eq(round.validity_end, begin + (10 + 988) * MS);
}
END_TEST

START_TEST(node_that_comes_too_late_is_not_asked)
{
    struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 3);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    start(&round, 0x3, 0x4, begin);
    vote(&round, 0, QUORUM_GRANTED, begin);
    vote(&round, 1, QUORUM_GRANTED, begin);
    ck_assert_uint_eq(usable(&round, 2, begin).send, 0);
    ck_assert_uint_eq(round.may_hold, 0x3);
}
END_TEST

START_TEST(node_that_never_came_has_nothing_to_undo)
{
    struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 3);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    start(&round, 0x1, 0x6, begin);
    vote(&round, 1, QUORUM_TIMED_OUT, begin);
    ck_assert_uint_eq(vote(&round, 2, QUORUM_UNREACHABLE, begin).undo, 0x1);
}
END_TEST

START_TEST(nobody_is_asked_when_too_many_are_down_beforehand)
{
    struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 3);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    vote(&round, 0, QUORUM_UNREACHABLE, begin);
    ck_assert(vote(&round, 1, QUORUM_UNREACHABLE, begin).decided);
    struct quorum_actions actions = start(&round, 0x4, 0, begin);
    ck_assert(!actions.decided);
    ck_assert_uint_eq(actions.send, 0);
    ck_assert_uint_eq(round.sent, QUORUM_NEVER);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_NO_QUORUM);
}
END_TEST

START_TEST(held_is_said_when_others_alone_prevent_a_majority)
{
    struct quorum_round round = begun(QUORUM_ACQUIRE, 5);
    vote(&round, 0, QUORUM_UNREACHABLE, begin);
    vote(&round, 1, QUORUM_TIMED_OUT, begin);
    held_cleanly(&round, 2, begin);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_HELD); /* without the other holder, three nodes could still grant it */
}
END_TEST

/* A batch renews many locks with one request, so a round may get a reply from a node that it did not send to. */
START_TEST(grant_of_a_node_that_was_counted_out_is_no_grant)
{
    struct quorum_terms terms = terms_for(QUORUM_EXTEND, 3);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    vote(&round, 0, QUORUM_ABSENT, begin);
    start(&round, 0x6, 0, begin);
    ck_assert(!vote(&round, 0, QUORUM_GRANTED, begin).decided);
    ck_assert(!vote(&round, 1, QUORUM_GRANTED, begin).decided);
    ck_assert_uint_eq(quorum_tally_count(&round.tally, QUORUM_ABSENT), 1);
}
END_TEST

START_TEST(misconfigured_is_said_when_waiting_would_not_help)
{
    struct quorum_round round = begun(QUORUM_ACQUIRE, 5);
    refuse_for_good(&round, 0);
    refuse_for_good(&round, 1);
    struct quorum_round other = round;
    ck_assert(refuse_for_good(&round, 2).decided);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_MISCONFIGURED);
    ck_assert(vote(&other, 2, QUORUM_REFUSED, begin).decided);
    ck_assert_int_eq(other.verdict, QUORUM_LOST_NO_QUORUM);
}
END_TEST

static struct quorum_actions refuse_by_clock(struct quorum_round *round, unsigned node)
{
    const struct quorum_event event = {
        .type = QUORUM_VOTED, .now = begin, .node = node, .vote = QUORUM_REFUSED, .clock = true};
    return quorum_round_step(round, &event);
}

/* Clock refusals alone, or together with other permanent refusals. The round undoes the grant. */
START_TEST(too_many_clocks_too_far_off_is_its_own_loss)
{
    for (unsigned by_clock = 0; by_clock <= 3; by_clock++) {
        struct quorum_round round = begun(QUORUM_ACQUIRE, 5);
        struct quorum_actions actions = vote(&round, 4, QUORUM_GRANTED, begin);
        for (unsigned i = 0; i < 3; i++)
            actions = i < by_clock ? refuse_by_clock(&round, i) : refuse_for_good(&round, i);
        ck_assert(actions.decided);
        ck_assert_uint_eq(actions.undo, 0x1f);
        ck_assert_int_eq(round.verdict, by_clock ? QUORUM_LOST_CLOCK : QUORUM_LOST_MISCONFIGURED);
        refuse_by_clock(&round, 0); /* a second vote of the same node does not count */
        refuse_by_clock(&round, 4);
        ck_assert_uint_eq(round.clock, quorum_node(by_clock) - 1);
    }
}
END_TEST

/* -------------------------------------------------------------------------------------------------- extend, release */

START_TEST(extension_moves_the_end)
{
    struct quorum_round round = begun(QUORUM_EXTEND, 3);
    vote(&round, 0, QUORUM_GRANTED, begin + MS);
    ck_assert(vote(&round, 1, QUORUM_GRANTED, begin + MS).decided);
    ck_assert_int_eq(round.verdict, QUORUM_WON);
    ck_assert_uint_eq(round.validity_end, begin + 988 * MS);
}
END_TEST

START_TEST(extension_never_shortens)
{
    struct quorum_terms terms = terms_for(QUORUM_EXTEND, 1);
    struct quorum_round round;
    terms.ttl = 100 * MS;
    quorum_round_init(&round, &terms);
    start(&round, 1, 0, begin);
    vote(&round, 0, QUORUM_GRANTED, begin + MS);
    ck_assert_int_eq(round.verdict, QUORUM_WON);
    ck_assert_uint_eq(round.validity_end, begin + 500 * MS);
}
END_TEST

START_TEST(extension_after_the_end_is_too_late)
{
    for (quorum_duration late = 0; late < 2; late++) {
        struct quorum_round round = begun(QUORUM_EXTEND, 1);
        vote(&round, 0, QUORUM_GRANTED, begin + 500 * MS - 1 + late);
        ck_assert_int_eq(round.verdict, late ? QUORUM_LOST_TOO_SLOW : QUORUM_WON);
    }
}
END_TEST

/* Node timeouts decide the round, but an extension that a node has executed stays executed. */
START_TEST(extension_lost_by_timeouts_is_confirmed_by_late_grants)
{
    struct quorum_round round = begun(QUORUM_EXTEND, 5);
    for (unsigned i = 0; i < 3; i++)
        vote(&round, i, QUORUM_TIMED_OUT, begin + 50 * MS);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_NO_QUORUM);
    ck_assert(!vote(&round, 0, QUORUM_GRANTED, begin + 60 * MS).confirmed);
    ck_assert(!vote(&round, 3, QUORUM_GRANTED, begin + 60 * MS).confirmed);
    struct quorum_actions last = vote(&round, 1, QUORUM_GRANTED, begin + 120 * MS);
    ck_assert(last.confirmed && !last.decided);
    ck_assert_uint_eq(round.validity_end, quorum_validity_end(begin, round.terms.ttl, round.terms.drift_ppm));
    ck_assert(!vote(&round, 2, QUORUM_GRANTED, begin + 130 * MS).confirmed);
}
END_TEST

START_TEST(late_grant_wins_an_extension_that_is_still_open)
{
    struct quorum_round round = begun(QUORUM_EXTEND, 3);
    vote(&round, 0, QUORUM_TIMED_OUT, begin + 50 * MS);
    vote(&round, 0, QUORUM_GRANTED, begin + 60 * MS);
    ck_assert(vote(&round, 1, QUORUM_GRANTED, begin + 61 * MS).decided);
    ck_assert_int_eq(round.verdict, QUORUM_WON);
}
END_TEST

START_TEST(late_confirmation_counts_while_its_validity_is_ahead)
{
    struct quorum_round first = begun(QUORUM_EXTEND, 1), round = first;
    quorum_time end = quorum_validity_end(begin, first.terms.ttl, first.terms.drift_ppm);
    vote(&round, 0, QUORUM_TIMED_OUT, begin + 50 * MS);
    ck_assert(vote(&round, 0, QUORUM_GRANTED, end - 1).confirmed);
    round = first;
    vote(&round, 0, QUORUM_TIMED_OUT, begin + 50 * MS);
    ck_assert(!vote(&round, 0, QUORUM_GRANTED, end).confirmed);
}
END_TEST

static struct quorum_round late_with(enum quorum_kind kind, enum quorum_vote late)
{
    struct quorum_round round = begun(kind, 1);
    vote(&round, 0, QUORUM_TIMED_OUT, begin + 50 * MS);
    ck_assert(!vote(&round, 0, late, begin + 60 * MS).confirmed);
    return round;
}

START_TEST(only_a_late_grant_of_an_extension_confirms)
{
    ck_assert_uint_eq(late_with(QUORUM_EXTEND, QUORUM_ABSENT).validity_end, 0);
    ck_assert_uint_eq(late_with(QUORUM_ACQUIRE, QUORUM_GRANTED).validity_end, 0);
    ck_assert_uint_eq(late_with(QUORUM_ADOPT, QUORUM_GRANTED).validity_end, 0);
}
END_TEST

START_TEST(extension_is_not_confirmed_late_when_the_clock_has_stopped_since)
{
    struct quorum_round round = begun(QUORUM_EXTEND, 1);
    struct quorum_event late = {.type = QUORUM_VOTED, .vote = QUORUM_GRANTED, .now = begin + 60 * MS, .stopped = begin};
    vote(&round, 0, QUORUM_TIMED_OUT, begin + 50 * MS);
    ck_assert(!quorum_round_step(&round, &late).confirmed);
    late.stopped = begin - 1;
    ck_assert(quorum_round_step(&round, &late).confirmed);
}
END_TEST

START_TEST(cancelled_extension_is_not_confirmed_late)
{
    struct quorum_round round = begun(QUORUM_EXTEND, 1);
    cancel(&round, begin + 50 * MS);
    ck_assert(!vote(&round, 0, QUORUM_GRANTED, begin + 60 * MS).confirmed);
}
END_TEST

START_TEST(lock_is_gone_when_too_many_do_not_have_it)
{
    struct quorum_round round = begun(QUORUM_EXTEND, 5);
    vote(&round, 0, QUORUM_ABSENT, begin);
    vote(&round, 1, QUORUM_HELD, begin); /* another holder's key: not ours either */
    struct quorum_round other = round;
    ck_assert_uint_eq(vote(&round, 2, QUORUM_ABSENT, begin).undo, 0);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_GONE);
    vote(&other, 2, QUORUM_TIMED_OUT, begin); /* node 2 may still have it */
    ck_assert_int_eq(other.verdict, QUORUM_LOST_NO_QUORUM);
}
END_TEST

START_TEST(adopted_lock_is_valid_from_the_first_send)
{
    struct quorum_round round = begun(QUORUM_ADOPT, 3);
    vote(&round, 0, QUORUM_GRANTED, begin + 100 * MS);
    ck_assert_uint_eq(vote(&round, 1, QUORUM_GRANTED, begin + 200 * MS).undo, 0);
    ck_assert_int_eq(round.verdict, QUORUM_WON);
    ck_assert_uint_eq(round.validity_end, begin + 988 * MS);
}
END_TEST

START_TEST(adoption_has_no_end_but_its_own_and_undoes_nothing)
{
    for (quorum_duration late = 0; late < 2; late++) {
        struct quorum_round round = begun(QUORUM_ADOPT, 1);
        ck_assert_uint_eq(vote(&round, 0, QUORUM_GRANTED, begin + 988 * MS - 1 + late).undo, 0);
        ck_assert_int_eq(round.verdict, late ? QUORUM_LOST_TOO_SLOW : QUORUM_WON);
    }
    struct quorum_round gone = begun(QUORUM_ADOPT, 3);
    vote(&gone, 0, QUORUM_ABSENT, begin);
    ck_assert_uint_eq(vote(&gone, 1, QUORUM_HELD, begin).undo, 0);
    ck_assert_int_eq(gone.verdict, QUORUM_LOST_GONE);
}
END_TEST

static struct quorum_round begun_for_all(enum quorum_kind kind, unsigned nodes)
{
    struct quorum_terms terms = terms_for(kind, nodes);
    struct quorum_round round;
    terms.all_answers = true;
    quorum_round_init(&round, &terms);
    start(&round, quorum_all(nodes), 0, begin);
    return round;
}

/* The client learns that its clock stopped while the last reply is on its way: the nodes may have let earlier grants
 * expire. A round that began after the stop is not affected. _i: the kind. */
START_TEST(stopped_clock_voids_what_was_asked_before)
{
    static const struct {
        enum quorum_kind kind;
        bool voids;
    } rows[] = {{QUORUM_ACQUIRE, true}, {QUORUM_EXTEND, true}, {QUORUM_ADOPT, true}, {QUORUM_RELEASE, false}};
    for (quorum_time stopped = begin - 1; stopped <= begin; stopped++) {
        struct quorum_round round = begun(rows[_i].kind, 5);
        vote(&round, 0, QUORUM_GRANTED, begin + MS);
        vote(&round, 1, QUORUM_GRANTED, begin + MS);
        const struct quorum_event last = {
            .type = QUORUM_VOTED, .now = begin + 2 * MS, .node = 2, .vote = QUORUM_GRANTED, .stopped = stopped};
        struct quorum_actions actions = quorum_round_step(&round, &last);
        bool voided = rows[_i].voids && stopped == begin;
        ck_assert(actions.decided);
        ck_assert_int_eq(round.verdict, voided ? QUORUM_LOST_TOO_SLOW : QUORUM_WON);
        ck_assert_uint_eq(actions.undo, voided && rows[_i].kind == QUORUM_ACQUIRE ? 0x1f : 0);
    }
}
END_TEST

START_TEST(won_for_all_answers_waits_for_each)
{
    struct quorum_round round = begun_for_all(QUORUM_ACQUIRE, 3);
    vote(&round, 0, QUORUM_GRANTED, begin);
    ck_assert(!vote(&round, 1, QUORUM_GRANTED, begin).decided);
    ck_assert(vote(&round, 2, QUORUM_TIMED_OUT, begin + 50 * MS).decided);
    ck_assert_int_eq(round.verdict, QUORUM_WON);
    ck_assert_uint_eq(round.validity_end, begin + 988 * MS);
    ck_assert_uint_eq(round.decided_at, begin + 50 * MS);
}
END_TEST

START_TEST(settling_is_between_the_majority_and_the_last_answer)
{
    struct quorum_round round = begun_for_all(QUORUM_ACQUIRE, 3);
    vote(&round, 0, QUORUM_GRANTED, begin);
    ck_assert(!quorum_round_is_settling(&round));
    vote(&round, 1, QUORUM_GRANTED, begin);
    ck_assert(quorum_round_is_settling(&round));
    vote(&round, 2, QUORUM_GRANTED, begin);
    ck_assert(!quorum_round_is_settling(&round));
    struct quorum_round look = begun(QUORUM_LOOK, 3); /* a look has nothing to settle, with any number of replies */
    vote(&look, 0, QUORUM_GRANTED, begin);
    vote(&look, 1, QUORUM_GRANTED, begin);
    ck_assert(!quorum_round_over(&look));
    ck_assert(!quorum_round_is_settling(&look));
}
END_TEST

START_TEST(lost_for_all_answers_is_lost_at_once)
{
    struct quorum_round round = begun_for_all(QUORUM_ACQUIRE, 3);
    vote(&round, 0, QUORUM_HELD, begin);
    struct quorum_actions actions = vote(&round, 1, QUORUM_HELD, begin);
    ck_assert(actions.decided);
    ck_assert_uint_eq(actions.undo, 0x7);
}
END_TEST

START_TEST(release_for_all_answers_waits_though_it_is_lost)
{
    struct quorum_round round = begun_for_all(QUORUM_RELEASE, 3);
    vote(&round, 0, QUORUM_ABSENT, begin);
    ck_assert(!vote(&round, 1, QUORUM_ABSENT, begin).decided);
    ck_assert(vote(&round, 2, QUORUM_GRANTED, begin).decided);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_GONE);
}
END_TEST

START_TEST(release_is_said_to_all_though_it_is_decided)
{
    struct quorum_terms terms = terms_for(QUORUM_RELEASE, 5);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    vote(&round, 0, QUORUM_UNREACHABLE, begin);
    vote(&round, 1, QUORUM_UNREACHABLE, begin);
    ck_assert(vote(&round, 2, QUORUM_UNREACHABLE, begin).decided);
    ck_assert_uint_eq(start(&round, 0x8, 0x10, begin).send, 0x8);
    ck_assert_uint_eq(usable(&round, 4, begin).send, 0x10);
    ck_assert_uint_eq(usable(&round, 4, begin).send, 0);
}
END_TEST

static struct quorum_actions overdue(struct quorum_round *round, unsigned node)
{
    const struct quorum_event event = {.type = QUORUM_OVERDUE, .now = begin + 50 * MS, .node = node};
    return quorum_round_step(round, &event);
}

START_TEST(release_waits_for_late_nodes_until_a_majority_has_confirmed)
{
    struct quorum_round round = begun(QUORUM_RELEASE, 3);
    for (unsigned i = 0; i < 3; i++)
        ck_assert(!overdue(&round, i).decided);
    vote(&round, 0, QUORUM_GRANTED, begin + 300 * MS);
    ck_assert(vote(&round, 1, QUORUM_GRANTED, begin + 300 * MS).decided);
    ck_assert_int_eq(round.verdict, QUORUM_WON);
    ck_assert_uint_eq(round.tally.voted[QUORUM_TIMED_OUT], quorum_node(2));
}
END_TEST

START_TEST(release_for_all_answers_waits_for_no_late_node_once_it_is_clear)
{
    for (int vote_of_most = QUORUM_GRANTED; vote_of_most <= QUORUM_ABSENT;
         vote_of_most += QUORUM_ABSENT - QUORUM_GRANTED) {
        struct quorum_terms terms = terms_for(QUORUM_RELEASE, 3);
        struct quorum_round round;
        terms.all_answers = true;
        quorum_round_init(&round, &terms);
        start(&round, quorum_all(3), 0, begin);
        vote(&round, 0, (enum quorum_vote)vote_of_most, begin + MS);
        ck_assert(!vote(&round, 1, (enum quorum_vote)vote_of_most, begin + MS).decided);
        ck_assert(overdue(&round, 2).decided);
    }
}
END_TEST

START_TEST(only_a_release_waits_for_late_nodes)
{
    static const enum quorum_kind kinds[] = {QUORUM_ACQUIRE, QUORUM_EXTEND, QUORUM_ADOPT, QUORUM_LOOK};
    for (unsigned i = 0; i < 4; i++) {
        struct quorum_round round = begun(kinds[i], 1);
        ck_assert(overdue(&round, 0).decided);
        ck_assert_uint_eq(round.tally.voted[QUORUM_TIMED_OUT], quorum_node(0));
    }
}
END_TEST

START_TEST(look_waits_for_every_node)
{
    struct quorum_round round = begun(QUORUM_LOOK, 3);
    vote(&round, 0, QUORUM_GRANTED, begin);
    ck_assert(!vote(&round, 1, QUORUM_GRANTED, begin).decided);
    ck_assert(vote(&round, 2, QUORUM_TIMED_OUT, begin).decided);
    ck_assert_int_eq(round.verdict, QUORUM_WON);
}
END_TEST

/* ----------------------------------------------------------------------------------------------------------- cancel */

START_TEST(cancelled_acquire_is_undone_where_it_was_asked)
{
    struct quorum_round round = begun(QUORUM_ACQUIRE, 3);
    held_cleanly(&round, 1, begin);
    struct quorum_actions actions = cancel(&round, begin + MS);
    ck_assert(actions.decided);
    ck_assert_uint_eq(actions.undo, 0x5);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_CANCELLED);
    ck_assert_uint_eq(round.decided_at, begin + MS);
}
END_TEST

START_TEST(cancelled_before_the_start_it_asks_nobody)
{
    struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 3);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    ck_assert(cancel(&round, begin).decided);
    ck_assert_uint_eq(start(&round, 0x3, 0x4, begin).send, 0);
    ck_assert_uint_eq(usable(&round, 2, begin).send, 0);
}
END_TEST

START_TEST(what_is_decided_cannot_be_cancelled)
{
    struct quorum_round round = begun(QUORUM_ACQUIRE, 1);
    vote(&round, 0, QUORUM_GRANTED, begin);
    struct quorum_actions actions = cancel(&round, begin + MS);
    ck_assert(!actions.decided);
    ck_assert_uint_eq(actions.undo, 0);
    ck_assert_int_eq(round.verdict, QUORUM_WON);
}
END_TEST

static void add_acquire(Suite *suite)
{
    TCase *acquire = tcase_create("acquire");
    tcase_add_test(acquire, all_usable_nodes_are_asked_at_once);
    tcase_add_test(acquire, third_grant_of_five_wins);
    tcase_add_test(acquire, too_many_clocks_too_far_off_is_its_own_loss);
    tcase_add_test(acquire, half_of_an_even_number_is_no_majority);
    tcase_add_test(acquire, lost_as_soon_as_no_majority_is_left);
    tcase_add_test(acquire, undo_goes_to_all_that_were_asked_answered_or_not);
    tcase_add_test(acquire, undo_leaves_out_who_said_that_nothing_of_ours_is_there);
    tcase_add_test(acquire, late_answer_counts_for_the_undo_and_not_as_a_vote);
    tcase_add_test(acquire, grant_after_the_round_was_won_adds_nothing);
    tcase_add_test(acquire, least_validity_must_be_left);
    tcase_add_test(acquire, validity_counts_from_the_first_send);
    tcase_add_test(acquire, node_that_comes_too_late_is_not_asked);
    tcase_add_test(acquire, node_that_never_came_has_nothing_to_undo);
    tcase_add_test(acquire, nobody_is_asked_when_too_many_are_down_beforehand);
    tcase_add_test(acquire, held_is_said_when_others_alone_prevent_a_majority);
    tcase_add_test(acquire, grant_of_a_node_that_was_counted_out_is_no_grant);
    tcase_add_test(acquire, misconfigured_is_said_when_waiting_would_not_help);
    suite_add_tcase(suite, acquire);
}

static struct quorum_round offered(void)
{
    struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 5);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    return round;
}

static struct quorum_actions handed(struct quorum_round *round, unsigned node, quorum_time since, quorum_time now)
{
    const struct quorum_event event = {
        .type = QUORUM_HANDED, .now = now, .node = node, .since = since, .stopped = begin - QUORUM_SECOND};
    return quorum_round_step(round, &event);
}

START_TEST(majority_that_hands_over_wins_from_the_oldest_of_its_times)
{
    struct quorum_round round = offered();
    ck_assert(!handed(&round, 4, begin + 100 * MS, begin + 300 * MS).decided);
    ck_assert(!handed(&round, 1, begin, begin + 300 * MS).decided);
    ck_assert(handed(&round, 2, begin + 200 * MS, begin + 300 * MS).decided);
    ck_assert_int_eq(round.verdict, QUORUM_WON);
    ck_assert_uint_eq(round.validity_end, begin + 988 * MS);
    struct quorum_actions late = handed(&round, 3, begin - 100 * MS, begin + 400 * MS);
    ck_assert(!late.decided && !late.undo);
    ck_assert_uint_eq(round.validity_end, begin + 988 * MS);
}
END_TEST

START_TEST(node_hands_over_once)
{
    struct quorum_round round = offered();
    for (unsigned i = 0; i < 4; i++)
        ck_assert(!handed(&round, i % 2, begin, begin + MS).decided);
}
END_TEST

START_TEST(stale_hand_over_is_too_slow_and_is_undone)
{
    struct quorum_round round = offered();
    handed(&round, 0, begin, begin + MS);
    handed(&round, 1, begin - QUORUM_SECOND, begin + MS);
    struct quorum_actions actions = handed(&round, 2, begin, begin + MS);
    ck_assert(actions.decided);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_TOO_SLOW);
    ck_assert_uint_eq(actions.undo, 7);
}
END_TEST

START_TEST(hand_over_from_before_the_clock_stopped_is_too_slow)
{
    struct quorum_round round = offered();
    for (unsigned i = 0; i < 2; i++)
        handed(&round, i, begin, begin + MS);
    const struct quorum_event event = {
        .type = QUORUM_HANDED, .now = begin + 2 * MS, .node = 2, .since = begin, .stopped = begin + MS};
    quorum_round_step(&round, &event);
    ck_assert_int_eq(round.verdict, QUORUM_LOST_TOO_SLOW);
}
END_TEST

static Suite *round_suite(void)
{
    Suite *suite = suite_create("quorum/round");
    add_acquire(suite);

    TCase *handed = tcase_create("handed over");
    tcase_add_test(handed, majority_that_hands_over_wins_from_the_oldest_of_its_times);
    tcase_add_test(handed, node_hands_over_once);
    tcase_add_test(handed, stale_hand_over_is_too_slow_and_is_undone);
    tcase_add_test(handed, hand_over_from_before_the_clock_stopped_is_too_slow);
    suite_add_tcase(suite, handed);

    TCase *held = tcase_create("extend, release and look");
    tcase_add_test(held, extension_moves_the_end);
    tcase_add_test(held, extension_never_shortens);
    tcase_add_test(held, extension_after_the_end_is_too_late);
    tcase_add_test(held, extension_lost_by_timeouts_is_confirmed_by_late_grants);
    tcase_add_test(held, late_grant_wins_an_extension_that_is_still_open);
    tcase_add_test(held, late_confirmation_counts_while_its_validity_is_ahead);
    tcase_add_test(held, only_a_late_grant_of_an_extension_confirms);
    tcase_add_test(held, cancelled_extension_is_not_confirmed_late);
    tcase_add_test(held, extension_is_not_confirmed_late_when_the_clock_has_stopped_since);
    tcase_add_test(held, lock_is_gone_when_too_many_do_not_have_it);
    tcase_add_test(held, adopted_lock_is_valid_from_the_first_send);
    tcase_add_test(held, adoption_has_no_end_but_its_own_and_undoes_nothing);
    tcase_add_test(held, won_for_all_answers_waits_for_each);
    tcase_add_test(held, settling_is_between_the_majority_and_the_last_answer);
    tcase_add_loop_test(held, stopped_clock_voids_what_was_asked_before, 0, 4);
    tcase_add_test(held, lost_for_all_answers_is_lost_at_once);
    tcase_add_test(held, release_for_all_answers_waits_though_it_is_lost);
    tcase_add_test(held, release_is_said_to_all_though_it_is_decided);
    tcase_add_test(held, look_waits_for_every_node);
    tcase_add_test(held, release_waits_for_late_nodes_until_a_majority_has_confirmed);
    tcase_add_test(held, release_for_all_answers_waits_for_no_late_node_once_it_is_clear);
    tcase_add_test(held, only_a_release_waits_for_late_nodes);
    suite_add_tcase(suite, held);

    TCase *cancelled = tcase_create("cancel");
    tcase_add_test(cancelled, cancelled_acquire_is_undone_where_it_was_asked);
    tcase_add_test(cancelled, cancelled_before_the_start_it_asks_nobody);
    tcase_add_test(cancelled, what_is_decided_cannot_be_cancelled);
    suite_add_tcase(suite, cancelled);
    return suite;
}

int main(void)
{
    return run_suite(round_suite());
}
