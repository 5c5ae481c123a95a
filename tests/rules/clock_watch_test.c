/* Finding the clock that jumped: a late reply or honest drift never counts as a jump, every real jump is found, and
 * the right clock is blamed. */
#include "quorum/clock_watch.h"

#include "quorum/validity.h"
#include "rules/random.h"
#include "support/suite.h"

#define MS          QUORUM_MILLISECOND
#define SECOND      QUORUM_SECOND
#define ONE_PERCENT 10000u

enum { NODES = 5 };

static const quorum_duration patience = 1000 * MS;
static const quorum_time begin = 5000 * SECOND;               /* by our clock */
static const int64_t wall = 1700000000 * INT64_C(1000000000); /* the nodes' clocks minus ours */

static struct quorum_clock_watch watch_of(unsigned nodes)
{
    struct quorum_clock_watch watch;
    quorum_clock_init(&watch, nodes, ONE_PERCENT, patience);
    return watch;
}

/* A reply to a TIME sent at `sent`, which took `took`. Half way through, the node's clock was ahead by `offset`.
 * `answering`: the nodes that are expected to reply. */
static struct quorum_clock_actions sample_among(struct quorum_clock_watch *watch, quorum_nodes answering, unsigned node,
                                                quorum_time sent, quorum_duration took, int64_t offset)
{
    const struct quorum_clock_sample taken = {node, sent, sent + took,
                                              (quorum_time)((int64_t)(sent + took / 2) + offset), answering};
    return quorum_clock_step(watch, &taken);
}

static struct quorum_clock_actions sample(struct quorum_clock_watch *watch, unsigned node, quorum_time sent,
                                          quorum_duration took, int64_t offset)
{
    return sample_among(watch, quorum_all(watch->nodes), node, sent, took, offset);
}

static bool is_quiet(struct quorum_clock_actions actions)
{
    return !actions.suspect && !actions.jumped && !actions.own;
}

/* At `begin`, the clocks of all nodes have been known for one second. */
static struct quorum_clock_watch known(unsigned nodes)
{
    struct quorum_clock_watch watch = watch_of(nodes);
    for (quorum_time sent = begin - SECOND; sent <= begin; sent += SECOND)
        for (unsigned i = 0; i < nodes; i++)
            ck_assert(is_quiet(sample(&watch, i, sent, MS, wall)));
    return watch;
}

/* ---------------------------------------------------------------------------------------------------------- no jump */

START_TEST(first_answer_says_nothing)
{
    struct quorum_clock_watch watch = watch_of(NODES);
    ck_assert(is_quiet(sample(&watch, 0, begin, MS, wall)));
    ck_assert(is_quiet(sample(&watch, 1, begin, MS, wall - 86400 * (int64_t)SECOND)));
    ck_assert(is_quiet(sample(&watch, 2, begin, MS, 0)));
    ck_assert(watch.node[0].known && !watch.node[3].known);
}
END_TEST

/* Drift also counts while the reply was on its way: 1 % of 7 ms. */
START_TEST(bounds_of_an_answer)
{
    struct quorum_clock_watch watch = watch_of(1);
    const struct quorum_clock_sample taken = {0, begin, begin + 7 * MS, begin + 100 * MS, quorum_all(1)};
    quorum_clock_step(&watch, &taken);
    ck_assert_int_eq(watch.node[0].offset.low, 93 * (int64_t)MS);
    ck_assert_int_eq(watch.node[0].offset.high, 100 * (int64_t)MS + 70000);
}
END_TEST

/* Between two samples a clock may gain the drift of the interval plus the uncertainty of both replies, 1 ms and 1 %
 * of it. The limit is exact to the nanosecond in both directions. */
START_TEST(drift_between_two_samples_is_no_jump)
{
    static const quorum_duration apart[] = {MS, 100 * MS, SECOND, 30 * SECOND, 3600 * SECOND};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        for (int way = -1; way <= 1; way += 2) {
            int64_t most = (int64_t)(quorum_drift(apart[i], ONE_PERCENT) + MS) + 10000;
            struct quorum_clock_watch watch = known(NODES);
            ck_assert(is_quiet(sample(&watch, 0, begin + apart[i], MS, wall + way * most)));
            watch = known(NODES);
            ck_assert(!is_quiet(sample(&watch, 0, begin + apart[i], MS, wall + way * (most + 1))));
        }
}
END_TEST

/* Steps that look like drift in two consecutive samples become visible over several samples. */
START_TEST(small_steps_add_up_to_a_jump)
{
    static const struct {
        quorum_duration apart;
        int64_t step;
    } rows[] = {{SECOND, 11500000}, {100 * MS, 2000000}, {10 * MS, 300000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int way = -1; way <= 1; way += 2) {
            struct quorum_clock_watch watch = known(NODES);
            unsigned samples = 1;
            while (is_quiet(
                sample(&watch, 0, begin + samples * rows[i].apart, MS, wall + way * (int64_t)samples * rows[i].step)))
                ck_assert_uint_lt(samples++, 20);
            ck_assert_uint_gt(samples, 1);
        }
}
END_TEST

/* A late reply gives a wide interval, not a wrong one: the true offset is always in it. */
START_TEST(late_answer_is_no_jump)
{
    for (quorum_duration took = MS; took < 20 * SECOND; took = took * 3 / 2) {
        struct quorum_clock_watch watch = known(NODES);
        const struct quorum_clock_sample early = {0, begin + SECOND, begin + SECOND + took,
                                                  (quorum_time)((int64_t)(begin + SECOND) + wall), quorum_all(NODES)};
        const struct quorum_clock_sample late = {1, begin + SECOND, begin + SECOND + took,
                                                 (quorum_time)((int64_t)(begin + SECOND + took) + wall),
                                                 quorum_all(NODES)};
        ck_assert(is_quiet(quorum_clock_step(&watch, &early)));
        ck_assert(is_quiet(quorum_clock_step(&watch, &late)));
    }
}
END_TEST

/* A small rate error adds up to a large offset. */
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

/* Honest clocks drift apart for as long as no client samples them. */
START_TEST(drift_since_the_last_answer_is_no_jump)
{
    static const quorum_duration apart[] = {SECOND, 30 * SECOND, 600 * SECOND, 86400 * SECOND};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        const int64_t drifted = (int64_t)(apart[i] / 1000 * 9), more = drifted * 3 / 2;
        struct quorum_clock_watch watch = known(NODES);
        ck_assert(is_quiet(sample(&watch, 0, begin + apart[i], MS, wall + drifted)));
        watch = known(NODES);
        ck_assert(is_quiet(sample(&watch, 0, begin + apart[i], MS, wall - drifted)));
        watch = known(NODES);
        ck_assert(!is_quiet(sample(&watch, 0, begin + apart[i], MS, wall + more)));
    }
}
END_TEST

/* A reply that took 10 s is imprecise, but does not widen the interval that a better reply gave. */
START_TEST(late_answer_does_not_hide_a_jump)
{
    const int64_t most = (int64_t)(quorum_drift(12 * SECOND, ONE_PERCENT) + MS) + 10000;
    for (int way = -1; way <= 1; way += 2)
        for (int beyond = 0; beyond <= 1; beyond++) {
            struct quorum_clock_watch watch = watch_of(NODES);
            sample(&watch, 0, begin, 10 * SECOND, wall);
            ck_assert(is_quiet(sample(&watch, 0, begin + 11 * SECOND, MS, wall)));
            ck_assert(is_quiet(sample(&watch, 0, begin + 12 * SECOND, 10 * SECOND, wall)));
            struct quorum_clock_actions actions =
                sample(&watch, 0, begin + 23 * SECOND, MS, wall + way * (most + beyond));
            ck_assert_int_eq(is_quiet(actions), !beyond);
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

/* A new server does not inherit the suspicion against the old one. */
START_TEST(another_server_is_not_suspect)
{
    struct quorum_clock_watch watch = known(NODES);
    ck_assert_uint_eq(sample(&watch, 2, begin + SECOND, MS, wall + 5 * (int64_t)SECOND).suspect, quorum_node(2));
    quorum_clock_forget(&watch, 2);
    ck_assert(is_quiet(sample(&watch, 1, begin + 10 * SECOND, MS, wall)));
}
END_TEST

/* --------------------------------------------------------------------------------------------------------- verdicts */

#define JUMP (5 * (int64_t)SECOND)
#define SEEN (begin + SECOND + MS) /* the time at which the first sample that shows a jump has been received */

/* Which clocks jump, which nodes reply afterwards, and the verdict after the last of these replies. */
struct verdict {
    const char *name;
    unsigned nodes;
    quorum_nodes ahead, back; /* clocks that jump by JUMP; these nodes reply first */
    quorum_nodes steady;      /* clocks that do not jump; these nodes reply then, one after the other */
    quorum_nodes answering;
    quorum_nodes jumped;
    bool own;
};

static const struct verdict verdicts[] = {
    {"one of two", 2, 1, 0, 2, 3, 1, false},
    {"one of three", 3, 4, 0, 3, 7, 4, false},
    {"one of four", 4, 1, 0, 6, 15, 1, false}, /* a majority of three jumped clocks is no longer possible */
    {"one of five", 5, 8, 0, 7, 31, 8, false},
    {"one of five, back", 5, 0, 8, 7, 31, 8, false},
    {"one of five, two are away", 5, 1, 0, 6, 7, 1, false},
    {"one of five, three are away", 5, 1, 0, 2, 3, 1, false},
    {"one of three, two are away", 3, 1, 0, 0, 1, 1, true}, /* no node vouches for our clock */
    {"two of five", 5, 3, 0, 28, 31, 3, false},
    {"two of five, two are away", 5, 3, 0, 4, 7, 3, true},
    {"one each way", 5, 1, 2, 28, 31, 3, false},
    {"two ahead and one back", 5, 3, 4, 24, 31, 7, false},
    {"three of five", 5, 7, 0, 0, 31, 0, true},
    {"three of five, back", 5, 0, 28, 0, 31, 0, true},
    {"two of two", 2, 3, 0, 0, 3, 0, true},
    {"the only one", 1, 1, 0, 0, 1, 1, true},
};
enum { VERDICTS = sizeof verdicts / sizeof *verdicts };

struct concluded {
    quorum_nodes jumped;
    bool own;
};

static void conclude(struct concluded *all, struct quorum_clock_actions actions)
{
    ck_assert(!(actions.jumped & actions.suspect));
    all->jumped |= actions.jumped;
    all->own |= actions.own;
}

static void hear(struct quorum_clock_watch *watch, const struct verdict *verdict, quorum_nodes nodes, quorum_time sent,
                 int64_t offset, struct concluded *all)
{
    for (; nodes; nodes &= nodes - 1) {
        ck_assert_msg(!all->jumped && !all->own, "%s: concluded before all is known", verdict->name);
        conclude(all, sample_among(watch, verdict->answering, (unsigned)__builtin_ctz(nodes), sent, MS, wall + offset));
    }
}

START_TEST(verdict_comes_with_the_last_answer_it_needs)
{
    const struct verdict *verdict = &verdicts[_i];
    struct quorum_clock_watch watch = known(verdict->nodes);
    struct concluded all = {0, false};
    hear(&watch, verdict, verdict->ahead, begin + SECOND, JUMP, &all);
    hear(&watch, verdict, verdict->back, begin + SECOND, -JUMP, &all);
    hear(&watch, verdict, verdict->steady, SEEN, 0, &all);
    ck_assert_msg(all.jumped == verdict->jumped, "%s: nodes %x", verdict->name, all.jumped);
    ck_assert_msg(all.own == verdict->own, "%s: %d", verdict->name, all.own);
    /* The verdict is reached once. The clocks continue from their offsets. If our own clock is to blame, nodes that
     * have not replied yet show the jump, too. */
    for (unsigned i = 0; i < verdict->nodes; i++) {
        int64_t offset = verdict->ahead & quorum_node(i)                       ? JUMP
                         : verdict->back & quorum_node(i)                      ? -JUMP
                         : !verdict->own || (verdict->steady & quorum_node(i)) ? 0
                         : verdict->ahead                                      ? JUMP
                                                                               : -JUMP;
        ck_assert_msg(is_quiet(sample(&watch, i, begin + 5 * SECOND, MS, wall + offset)), "%s: node %u", verdict->name,
                      i);
    }
}
END_TEST

/* The other nodes are sampled at once, and the suspect grants nothing until the verdict. */
START_TEST(jump_asks_the_other_nodes)
{
    struct quorum_clock_watch watch = known(NODES);
    struct quorum_clock_actions actions = sample(&watch, 3, begin + SECOND, MS, wall + JUMP);
    ck_assert_uint_eq(actions.ask, quorum_all(NODES) & ~quorum_node(3));
    ck_assert_uint_eq(actions.suspect, quorum_node(3));
    actions = sample(&watch, 0, SEEN, MS, wall);
    ck_assert_uint_eq(actions.ask, 0);
    ck_assert_uint_eq(actions.suspect, quorum_node(3));
    actions = sample(&watch, 3, SEEN, MS, wall + JUMP);
    ck_assert_uint_eq(actions.ask, 0);
    ck_assert_uint_eq(actions.suspect, quorum_node(3));
    /* When a second node becomes a suspect, the first suspect is not sampled again. */
    actions = sample(&watch, 1, SEEN, MS, wall - JUMP);
    ck_assert_uint_eq(actions.ask, quorum_node(0) | quorum_node(2) | quorum_node(4));
}
END_TEST

/* Whether this reply of a second node shows that our clock did not stop. If so, the reply of a third node settles
 * the verdict. */
static const struct {
    const char *name;
    quorum_time sent;
    quorum_duration took;
    int64_t gained;
    bool vouches;
} answers[] = {
    {"sent when the jump had been seen", SEEN, MS, 0, true},
    {"sent before", SEEN - 1, MS, 0, false},
    {"late, but narrower than half of the jump", SEEN, 4800 * MS, 0, true},
    {"wider", SEEN, 5000 * MS, 0, false},
    {"the clock drifted", SEEN, MS, 11 * (int64_t)MS, true},
};
enum { ANSWERS = sizeof answers / sizeof *answers };

START_TEST(answer_that_leaves_it_open_does_not_settle_it)
{
    for (int way = -1; way <= 1; way += 2) {
        struct quorum_clock_watch watch = known(3);
        sample(&watch, 0, begin + SECOND, MS, wall + way * JUMP);
        struct quorum_clock_actions actions =
            sample(&watch, 1, answers[_i].sent, answers[_i].took, wall + way * answers[_i].gained);
        ck_assert_msg(actions.suspect == quorum_node(0) && !actions.jumped && !actions.own, "%s", answers[_i].name);
        actions = sample(&watch, 2, SEEN, MS, wall);
        ck_assert_msg(actions.jumped == (answers[_i].vouches ? quorum_node(0) : 0), "%s", answers[_i].name);
        ck_assert(!actions.own);
    }
}
END_TEST

/* A node whose first sample came after the jump cannot vouch. Its clock can jump as well, so its reply is awaited. */
START_TEST(node_that_was_not_known_before_does_not_vouch)
{
    struct quorum_clock_watch watch = known(3);
    quorum_clock_forget(&watch, 1);
    sample(&watch, 1, begin + SECOND / 2, MS, wall);
    sample(&watch, 0, begin + SECOND, MS, wall + JUMP);
    if (_i == 0) {
        ck_assert_uint_eq(sample(&watch, 2, SEEN, MS, wall).suspect, quorum_node(0));
        ck_assert_uint_eq(sample(&watch, 1, SEEN, MS, wall).jumped, quorum_node(0));
    } else if (_i == 1) {
        ck_assert_uint_eq(sample(&watch, 1, SEEN, MS, wall).suspect, quorum_node(0));
        ck_assert_uint_eq(sample(&watch, 2, SEEN, MS, wall).jumped, quorum_node(0));
    } else {
        struct quorum_clock_actions actions = sample(&watch, 1, SEEN, MS, wall + JUMP);
        ck_assert(actions.own && !actions.jumped);
    }
}
END_TEST

/* A new client on a busy machine: each node's second reply was so late that the first one still gives the better bound.
 * But the second one alone shows the jump, so the nodes need to be known only since before that one. */
START_TEST(node_known_before_the_last_sample_vouches)
{
    for (int way = -1; way <= 1; way += 2) {
        struct quorum_clock_watch watch = watch_of(NODES);
        for (unsigned i = 0; i < NODES; i++)
            sample(&watch, i, begin + i * 100 * MS, MS, wall);
        for (unsigned i = 0; i < NODES; i++)
            sample(&watch, i, begin + SECOND + i * 100 * MS, 50 * MS, wall);
        sample(&watch, 0, begin + 2 * SECOND, MS, wall + way * JUMP);
        struct quorum_clock_actions actions;
        for (unsigned i = 2; i < NODES; i++)
            actions = sample(&watch, i, SEEN + SECOND, MS, wall);
        ck_assert(!actions.own);
        ck_assert_uint_eq(actions.jumped, quorum_node(0));
    }
}
END_TEST

/* The last reply took so long that it does not show the jump alone: the better bound does. The node that is known only
 * since that bound cannot vouch. */
START_TEST(jump_may_precede_a_last_sample_that_does_not_show_it)
{
    struct quorum_clock_watch watch = known(2);
    quorum_clock_forget(&watch, 1);
    sample(&watch, 1, begin + SECOND / 10, MS, wall);
    ck_assert(is_quiet(sample(&watch, 0, begin + SECOND / 5, 11 * SECOND, wall + 5 * (int64_t)SECOND)));
    ck_assert_uint_eq(sample(&watch, 0, begin + 12 * SECOND, MS, wall + JUMP).suspect, quorum_node(0));
    ck_assert(sample(&watch, 1, begin + 13 * SECOND, MS, wall).own);
}
END_TEST

/* The watch waits for connected nodes that do not reply, until a request that was sent after the patience has been
 * answered. If this process was stopped, the replies to earlier requests may have arrived unread. */
START_TEST(silent_nodes_are_waited_for_until_the_patience_is_over)
{
    for (unsigned vouching = 0; vouching <= 1; vouching++) {
        struct quorum_clock_watch watch = known(NODES);
        sample(&watch, 0, begin + SECOND, MS, wall + JUMP);
        if (vouching)
            ck_assert_uint_eq(sample(&watch, 1, SEEN, MS, wall).suspect, quorum_node(0));
        ck_assert_uint_eq(sample(&watch, 0, SEEN + patience - 1, 2 * SECOND, wall + JUMP).suspect, quorum_node(0));
        struct quorum_clock_actions actions = sample(&watch, 0, SEEN + patience, 2 * SECOND, wall + JUMP);
        ck_assert_uint_eq(actions.jumped, quorum_node(0));
        ck_assert_int_eq(actions.own, !vouching);
    }
}
END_TEST

/* The client and one node run on the same machine, which was paused; the other nodes show it. */
START_TEST(node_that_stopped_with_us_does_not_outvote_the_others)
{
    struct quorum_clock_watch watch = known(NODES);
    sample(&watch, 1, begin + SECOND, MS, wall + JUMP);
    sample(&watch, 0, SEEN, MS, wall);
    sample(&watch, 2, SEEN, MS, wall + JUMP);
    struct quorum_clock_actions actions = sample(&watch, 3, SEEN, MS, wall + JUMP);
    ck_assert(actions.own);
    ck_assert(!actions.jumped && !actions.suspect);
}
END_TEST

/* The verdict on our clock does not clear a node whose own clock had jumped before. */
START_TEST(node_that_jumped_the_other_way_is_still_blamed)
{
    struct quorum_clock_watch watch = known(NODES);
    struct quorum_clock_actions actions;
    sample(&watch, 4, begin + SECOND, MS, wall - 12 * JUMP);
    for (unsigned i = 0; i < 3; i++) {
        actions = sample(&watch, i, begin + 2 * SECOND, MS, wall + JUMP);
        ck_assert_int_eq(actions.own, i == 2);
    }
    ck_assert_uint_eq(actions.jumped, quorum_node(4));
}
END_TEST

/* ------------------------------------------------------------------------------------------------------- any number */

START_TEST(any_number_may_be_answered)
{
    static const quorum_time times[] = {0, 1, begin, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < 6; j++) {
            struct quorum_clock_watch watch = known(NODES);
            quorum_clock_forget(&watch, 0);
            const struct quorum_clock_sample first = {0, begin, begin + MS, times[i], quorum_all(NODES)};
            const struct quorum_clock_sample second = {0, begin + SECOND, begin + SECOND + MS, times[j],
                                                       quorum_all(NODES)};
            ck_assert(is_quiet(quorum_clock_step(&watch, &first)));
            struct quorum_clock_actions actions = quorum_clock_step(&watch, &second);
            /* The times are far out of range, or the clock stops, or it jumps. */
            quorum_nodes expected = i > 2 && j > 2 ? 0 : quorum_node(0);
            ck_assert_msg(actions.suspect == expected, "from %lu to %lu", times[i], times[j]);
        }
}
END_TEST

/* No interval is too long: the allowed drift is bounded before it is added. */
START_TEST(any_time_may_have_passed)
{
    struct quorum_clock_watch watch;
    quorum_clock_init(&watch, 1, 500000, patience);
    ck_assert(is_quiet(sample(&watch, 0, begin, MS, wall)));
    ck_assert(is_quiet(sample(&watch, 0, (quorum_time)INT64_MAX / 2, MS, wall)));
}
END_TEST

/* Random runs: clocks whose rates vary within the drift, up to 1 ms of noise, and replies that take up to seconds.
 * No jump is ever reported. */
START_TEST(honest_clocks_at_random)
{
    uint64_t seed = 1;
    for (int life = 0; life < 300; life++) {
        struct quorum_clock_watch watch = watch_of(NODES);
        int64_t gained[NODES] = {0};
        quorum_time last[NODES] = {begin, begin, begin, begin, begin};
        for (int i = 0; i < 400; i++) {
            unsigned node = random_below(&seed, NODES);
            int64_t ppm = (int64_t)random_below(&seed, 20001) - 10000;
            quorum_duration pause = random_below(&seed, 1000) * MS;
            quorum_duration took = next_random(&seed) % ((quorum_duration)MS << random_below(&seed, 11)) + 1;
            quorum_time sent = last[node] + pause, at = sent + next_random(&seed) % (took + 1);
            gained[node] += (int64_t)(at - last[node]) * ppm / 1000000;
            int64_t noise = (int64_t)random_below(&seed, 2000000) - 999999;
            const struct quorum_clock_sample taken = {
                node, sent, sent + took, (quorum_time)((int64_t)at + wall + gained[node] + noise), quorum_all(NODES)};
            if (!is_quiet(quorum_clock_step(&watch, &taken)))
                ck_abort_msg("life %d, sample %d: a jump of an honest clock", life, i);
            last[node] = sent + took;
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quorum/clock_watch");

    TCase *none = tcase_create("samples");
    tcase_add_test(none, first_answer_says_nothing);
    tcase_add_test(none, bounds_of_an_answer);
    tcase_add_test(none, drift_between_two_samples_is_no_jump);
    tcase_add_test(none, small_steps_add_up_to_a_jump);
    tcase_add_test(none, late_answer_is_no_jump);
    tcase_add_test(none, rate_within_the_drift_is_never_a_jump);
    tcase_add_test(none, drift_since_the_last_answer_is_no_jump);
    tcase_add_test(none, late_answer_does_not_hide_a_jump);
    tcase_add_test(none, another_server_has_another_clock);
    tcase_add_test(none, another_server_is_not_suspect);
    tcase_add_test(none, any_number_may_be_answered);
    tcase_add_test(none, any_time_may_have_passed);
    tcase_add_test(none, honest_clocks_at_random);
    suite_add_tcase(suite, none);

    TCase *whose = tcase_create("verdicts");
    tcase_add_loop_test(whose, verdict_comes_with_the_last_answer_it_needs, 0, VERDICTS);
    tcase_add_test(whose, jump_asks_the_other_nodes);
    tcase_add_loop_test(whose, answer_that_leaves_it_open_does_not_settle_it, 0, ANSWERS);
    tcase_add_loop_test(whose, node_that_was_not_known_before_does_not_vouch, 0, 3);
    tcase_add_test(whose, node_known_before_the_last_sample_vouches);
    tcase_add_test(whose, jump_may_precede_a_last_sample_that_does_not_show_it);
    tcase_add_test(whose, silent_nodes_are_waited_for_until_the_patience_is_over);
    tcase_add_test(whose, node_that_stopped_with_us_does_not_outvote_the_others);
    tcase_add_test(whose, node_that_jumped_the_other_way_is_still_blamed);
    suite_add_tcase(suite, whose);
    return run_suite(suite);
}
