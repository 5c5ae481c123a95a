/* Whose clock jumped: nothing that a late answer or honest drift can bring about is taken for a jump, every real one is
 * found, and the right one is blamed. */
#include "quorum/clock_watch.h"

#include "quorum/validity.h"
#include "quorum_random.h"
#include "quorum_suite.h"

#define MS          QUORUM_MILLISECOND
#define SECOND      QUORUM_SECOND
#define ONE_PERCENT 10000u

enum { NODES = 5 };

static const quorum_duration max_ttl = 30 * SECOND, patience = 2500 * MS;
static const quorum_time begin = 5000 * SECOND;               /* of our clock */
static const int64_t wall = 1700000000 * INT64_C(1000000000); /* the nodes' clocks less ours */

/* Clocks may differ by so much within one max_ttl before one is said to have jumped. */
static int64_t tolerance(void)
{
    return (int64_t)quorum_drift(max_ttl, ONE_PERCENT);
}

static struct quorum_clock_watch watch_of(unsigned nodes)
{
    struct quorum_clock_watch watch;
    quorum_clock_init(&watch, nodes, max_ttl, ONE_PERCENT, patience);
    return watch;
}

/* An answer to a TIME sent at `sent`, which took `took`, of a clock that was ahead by `offset` half way. */
static struct quorum_clock_actions sample(struct quorum_clock_watch *watch, unsigned node, quorum_time sent,
                                          quorum_duration took, int64_t offset)
{
    const struct quorum_clock_sample taken = {node, sent, sent + took,
                                              (quorum_time)((int64_t)(sent + took / 2) + offset)};
    return quorum_clock_step(watch, &taken);
}

static bool is_quiet(struct quorum_clock_actions actions)
{
    return !actions.suspect && !actions.jumped && !actions.own;
}

/* All nodes' clocks known, at `begin`. */
static struct quorum_clock_watch known(unsigned nodes)
{
    struct quorum_clock_watch watch = watch_of(nodes);
    for (unsigned i = 0; i < nodes; i++)
        ck_assert(is_quiet(sample(&watch, i, begin, MS, wall)));
    return watch;
}

/* ------------------------------------------------------------------------------------------------------------- no jump */

START_TEST(first_answer_says_nothing)
{
    struct quorum_clock_watch watch = watch_of(NODES);
    ck_assert(is_quiet(sample(&watch, 0, begin, MS, wall)));
    ck_assert(is_quiet(sample(&watch, 1, begin, MS, wall - 86400 * (int64_t)SECOND)));
    ck_assert(is_quiet(sample(&watch, 2, begin, MS, 0)));
    ck_assert(watch.node[0].known && !watch.node[3].known);
}
END_TEST

START_TEST(bounds_of_an_answer)
{
    struct quorum_clock_watch watch = watch_of(1);
    const struct quorum_clock_sample taken = {0, begin, begin + 7 * MS, begin + 100 * MS};
    quorum_clock_step(&watch, &taken);
    ck_assert_int_eq(watch.node[0].offset.low, 93 * (int64_t)MS);
    ck_assert_int_eq(watch.node[0].offset.high, 100 * (int64_t)MS);
}
END_TEST

/* To the nanosecond, in both directions. */
START_TEST(drift_is_no_jump)
{
    for (int way = -1; way <= 1; way += 2) {
        struct quorum_clock_watch watch = known(NODES);
        ck_assert(is_quiet(sample(&watch, 0, begin + SECOND, MS, wall + way * (tolerance() + (int64_t)MS))));
        watch = known(NODES);
        ck_assert(!is_quiet(sample(&watch, 0, begin + SECOND, MS, wall + way * (tolerance() + (int64_t)MS + 1))));
    }
}
END_TEST

/* It is wide, not wrong: however late, the truth is in it. */
START_TEST(late_answer_is_no_jump)
{
    for (quorum_duration took = MS; took < 20 * SECOND; took = took * 3 / 2) {
        struct quorum_clock_watch watch = known(NODES);
        const struct quorum_clock_sample early = {0, begin + SECOND, begin + SECOND + took,
                                                  (quorum_time)((int64_t)(begin + SECOND) + wall)};
        const struct quorum_clock_sample late = {1, begin + SECOND, begin + SECOND + took,
                                                 (quorum_time)((int64_t)(begin + SECOND + took) + wall)};
        ck_assert(is_quiet(quorum_clock_step(&watch, &early)));
        ck_assert(is_quiet(quorum_clock_step(&watch, &late)));
    }
}
END_TEST

/* Slowly, but in the end far: every max_ttl the bounds are taken anew. */
START_TEST(rate_within_the_drift_is_never_a_jump)
{
    for (int way = -1; way <= 1; way += 2) {
        struct quorum_clock_watch watch = watch_of(NODES);
        for (unsigned second = 0; second < 600; second++) {
            int64_t offset = wall + way * (int64_t)second * 9900000; /* 0.99 % */
            for (unsigned node = 0; node < NODES; node++)
                ck_assert(is_quiet(sample(&watch, node, begin + second * SECOND, MS, node ? wall : offset)));
        }
    }
}
END_TEST

/* An answer that took 10 s says little. The next says more, and what it excludes stays so: but for the drift, before
 * and since. */
/* A node that was away for long, or clients whose max_ttl is shorter than a heartbeat: honest clocks drift apart for as
 * long as nobody looks. */
START_TEST(drift_since_the_last_answer_is_no_jump)
{
    static const quorum_duration apart[] = {30 * SECOND, 31 * SECOND, 600 * SECOND, 86400 * SECOND};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        const int64_t drifted = (int64_t)(apart[i] / 1000 * 9);
        struct quorum_clock_watch watch = known(NODES);
        ck_assert(is_quiet(sample(&watch, 0, begin + apart[i], MS, wall + drifted)));
        watch = known(NODES);
        ck_assert(is_quiet(sample(&watch, 0, begin + apart[i], MS, wall - drifted)));
        watch = known(NODES);
        ck_assert(!is_quiet(sample(&watch, 0, begin + apart[i], MS, wall + 2 * drifted)));
    }
}
END_TEST

START_TEST(better_answer_narrows_the_bounds)
{
    for (int way = -1; way <= 1; way += 2) {
        int64_t most = 2 * tolerance() + (int64_t)MS;
        for (int beyond = 0; beyond <= 1; beyond++) {
            struct quorum_clock_watch watch = watch_of(NODES);
            sample(&watch, 0, begin, 10 * SECOND, wall);
            ck_assert(is_quiet(sample(&watch, 0, begin + 11 * SECOND, MS, wall)));
            ck_assert(is_quiet(sample(&watch, 0, begin + 12 * SECOND, 10 * SECOND, wall))); /* takes nothing back */
            struct quorum_clock_actions actions =
                sample(&watch, 0, begin + 23 * SECOND, MS, wall + way * (most + beyond));
            ck_assert_int_eq(is_quiet(actions), !beyond);
        }
    }
}
END_TEST

START_TEST(another_server_has_another_clock)
{
    struct quorum_clock_watch watch = known(NODES);
    quorum_clock_forget(&watch, 2);
    ck_assert(is_quiet(sample(&watch, 2, begin + SECOND, MS, wall + 3600 * (int64_t)SECOND)));
    ck_assert(is_quiet(sample(&watch, 1, begin + SECOND, MS, wall)));
}
END_TEST

/* Nor does what the old one was suspected of stay with the new one. */
START_TEST(another_server_is_not_suspect)
{
    struct quorum_clock_watch watch = known(NODES);
    ck_assert_uint_eq(sample(&watch, 2, begin + SECOND, MS, wall + 5 * (int64_t)SECOND).suspect, quorum_node(2));
    quorum_clock_forget(&watch, 2);
    ck_assert(is_quiet(sample(&watch, 1, begin + 10 * SECOND, MS, wall)));
}
END_TEST

/* ------------------------------------------------------------------------------------------------------------ one node */

START_TEST(one_node_is_suspect_at_once_and_judged_in_time)
{
    for (int way = -1; way <= 1; way += 2) {
        struct quorum_clock_watch watch = known(NODES);
        quorum_time jumped = begin + SECOND + MS; /* received */
        struct quorum_clock_actions actions = sample(&watch, 3, begin + SECOND, MS, wall + way * 5 * (int64_t)SECOND);
        ck_assert_uint_eq(actions.suspect, quorum_node(3));
        ck_assert(!actions.jumped && !actions.own);
        actions = sample(&watch, 0, jumped + patience - MS - 1, MS, wall);
        ck_assert_uint_eq(actions.suspect, quorum_node(3));
        ck_assert(!actions.jumped && !actions.own);
        actions = sample(&watch, 1, jumped + patience - MS, MS, wall);
        ck_assert_uint_eq(actions.jumped, quorum_node(3));
        ck_assert(!actions.suspect && !actions.own);
        ck_assert(is_quiet(sample(&watch, 2, jumped + patience, MS, wall))); /* once */
        ck_assert(is_quiet(sample(&watch, 3, jumped + patience, MS, wall + way * 5 * (int64_t)SECOND)));
    }
}
END_TEST

/* Two of five that jump together, or in opposite directions: still the nodes. */
START_TEST(minority_is_to_blame_itself)
{
    for (int way = -1; way <= 1; way += 2) {
        struct quorum_clock_watch watch = known(NODES);
        sample(&watch, 0, begin + SECOND, MS, wall + 5 * (int64_t)SECOND);
        sample(&watch, 1, begin + SECOND, MS, wall + way * 5 * (int64_t)SECOND);
        struct quorum_clock_actions actions = sample(&watch, 2, begin + SECOND + patience, MS, wall);
        ck_assert_uint_eq(actions.jumped, quorum_node(0) | quorum_node(1));
        ck_assert(!actions.own);
    }
}
END_TEST

/* Three of five off, but not the same way: no clock of ours does that. */
START_TEST(majority_in_two_directions_is_not_us)
{
    struct quorum_clock_watch watch = known(NODES);
    sample(&watch, 0, begin + SECOND, MS, wall + 5 * (int64_t)SECOND);
    sample(&watch, 1, begin + SECOND, MS, wall + 5 * (int64_t)SECOND);
    ck_assert(!sample(&watch, 2, begin + SECOND, MS, wall - 5 * (int64_t)SECOND).own);
    struct quorum_clock_actions actions = sample(&watch, 3, begin + SECOND + patience, MS, wall);
    ck_assert_uint_eq(actions.jumped, quorum_node(0) | quorum_node(1) | quorum_node(2));
    ck_assert(!actions.own);
}
END_TEST

/* ------------------------------------------------------------------------------------------------------------ ourselves */

/* Our clock stood still for 5 s: every node is ahead. As soon as a majority says so, and nobody else is blamed, then or
 * later. */
START_TEST(majority_the_same_way_is_us)
{
    for (unsigned nodes = 2; nodes <= 7; nodes++)
        for (int way = -1; way <= 1; way += 2) {
            struct quorum_clock_watch watch = known(nodes);
            unsigned majority = quorum_majority(nodes);
            for (unsigned i = 0; i < nodes; i++) {
                struct quorum_clock_actions actions =
                    sample(&watch, i, begin + SECOND, MS, wall + way * 5 * (int64_t)SECOND);
                ck_assert_int_eq(actions.own, i + 1 == majority);
                ck_assert(!actions.jumped);
            }
            /* Those that answered after the verdict are the rest of it, not jumps of their own. */
            for (unsigned i = 0; i < nodes; i++) {
                struct quorum_clock_actions actions =
                    sample(&watch, i, begin + SECOND + patience, MS, wall + way * 5 * (int64_t)SECOND);
                ck_assert_msg(!actions.jumped, "node %u of %u is blamed for our own clock", i, nodes);
            }
        }
}
END_TEST

/* What a node did by itself before is not forgotten over that. */
START_TEST(node_that_jumped_the_other_way_is_still_blamed)
{
    struct quorum_clock_watch watch = known(NODES);
    sample(&watch, 4, begin + SECOND, MS, wall - 60 * (int64_t)SECOND);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(sample(&watch, i, begin + 2 * SECOND, MS, wall + 5 * (int64_t)SECOND).own, i == 2);
    struct quorum_clock_actions actions = sample(&watch, 0, begin + SECOND + patience, MS, wall + 5 * (int64_t)SECOND);
    ck_assert_uint_eq(actions.jumped, quorum_node(4));
}
END_TEST

START_TEST(with_one_node_both_are_assumed)
{
    struct quorum_clock_watch watch = known(1);
    struct quorum_clock_actions actions = sample(&watch, 0, begin + SECOND, MS, wall + 5 * (int64_t)SECOND);
    ck_assert(actions.own);
    ck_assert_uint_eq(actions.jumped, quorum_node(0));
    ck_assert(!actions.suspect);
    ck_assert(is_quiet(sample(&watch, 0, begin + 2 * SECOND, MS, wall + 5 * (int64_t)SECOND)));
}
END_TEST

/* ----------------------------------------------------------------------------------------------------------- any number */

START_TEST(any_number_may_be_answered)
{
    static const quorum_time times[] = {0, 1, begin, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < 6; j++) {
            struct quorum_clock_watch watch = watch_of(NODES);
            const struct quorum_clock_sample first = {0, begin, begin + MS, times[i]};
            const struct quorum_clock_sample second = {0, begin + SECOND, begin + SECOND + MS, times[j]};
            ck_assert(is_quiet(quorum_clock_step(&watch, &first)));
            struct quorum_clock_actions actions = quorum_clock_step(&watch, &second);
            quorum_nodes expected =
                i > 2 && j > 2 ? 0 : quorum_node(0); /* beyond all measure, or it stands still, or jumps */
            ck_assert_msg(actions.suspect == expected, "from %lu to %lu", times[i], times[j]);
        }
}
END_TEST

/* Clocks with a rate of their own within the drift, answers that take up to seconds: at random, and never a jump. */
START_TEST(honest_clocks_at_random)
{
    uint64_t seed = 1;
    for (int life = 0; life < 300; life++) {
        struct quorum_clock_watch watch = watch_of(NODES);
        int64_t rate[NODES];
        for (unsigned i = 0; i < NODES; i++)
            rate[i] = (int64_t)random_below(&seed, 19601) - 9800; /* ppm */
        quorum_time last[NODES] = {begin, begin, begin, begin, begin};
        for (int i = 0; i < 400; i++) {
            unsigned node = random_below(&seed, NODES);
            quorum_time sent = last[node] + random_below(&seed, 1000) * MS;
            quorum_duration took = next_random(&seed) % ((quorum_duration)MS << random_below(&seed, 11)) + 1;
            quorum_time at = sent + next_random(&seed) % (took + 1);
            int64_t gained = (int64_t)(at - begin) / 1000000 * rate[node];
            const struct quorum_clock_sample taken = {node, sent, sent + took,
                                                      (quorum_time)((int64_t)at + wall + gained)};
            if (!is_quiet(quorum_clock_step(&watch, &taken)))
                ck_abort_msg("life %d, sample %d: a jump of an honest clock", life, i);
            last[node] = sent + took;
        }
    }
}
END_TEST

static Suite *clock_watch_suite(void)
{
    Suite *suite = suite_create("quorum/clock_watch");

    TCase *none = tcase_create("no jump");
    tcase_add_test(none, first_answer_says_nothing);
    tcase_add_test(none, bounds_of_an_answer);
    tcase_add_test(none, drift_is_no_jump);
    tcase_add_test(none, late_answer_is_no_jump);
    tcase_add_test(none, rate_within_the_drift_is_never_a_jump);
    tcase_add_test(none, drift_since_the_last_answer_is_no_jump);
    tcase_add_test(none, better_answer_narrows_the_bounds);
    tcase_add_test(none, another_server_has_another_clock);
    tcase_add_test(none, another_server_is_not_suspect);
    tcase_add_test(none, any_number_may_be_answered);
    tcase_add_test(none, honest_clocks_at_random);
    suite_add_tcase(suite, none);

    TCase *node = tcase_create("a node");
    tcase_add_test(node, one_node_is_suspect_at_once_and_judged_in_time);
    tcase_add_test(node, minority_is_to_blame_itself);
    tcase_add_test(node, majority_in_two_directions_is_not_us);
    suite_add_tcase(suite, node);

    TCase *own = tcase_create("ours");
    tcase_add_test(own, majority_the_same_way_is_us);
    tcase_add_test(own, node_that_jumped_the_other_way_is_still_blamed);
    tcase_add_test(own, with_one_node_both_are_assumed);
    suite_add_tcase(suite, own);
    return suite;
}

int main(void)
{
    return run_suite(clock_watch_suite());
}
