/*
 * Fencing tokens. First the rules alone, step by step; then a random simulation of all faults: clocks that show any
 * time, lost replies, locks that end at any moment, and holders that send their token only to some nodes. No two
 * holders ever have the same token, and a holder's token is larger than that of every lock acquired before its attempt
 * began.
 */
#include "quorum/fence.h"

#include <stddef.h>
#include <string.h>

#include "rules/random.h"
#include "support/suite.h"

enum { N = 5, Q = 3 };

static struct quorum_fence fence;

static enum quorum_fence_action answer(unsigned node, uint64_t record)
{
    const struct quorum_fence_event event = {QUORUM_FENCE_ANSWERED, node, record};
    return quorum_fence_step(&fence, &event);
}

static enum quorum_fence_action confirm(void)
{
    const struct quorum_fence_event event = {.type = QUORUM_FENCE_CONFIRMED};
    return quorum_fence_step(&fence, &event);
}

/* Starts an acquisition with this proposal. */
static void begin_at(unsigned nodes, uint64_t proposal)
{
    struct quorum_fence_clock clock = {0};
    quorum_fence_init(&fence, nodes, &clock, proposal, 0);
    ck_assert_uint_eq(fence.token, proposal);
}

/* --- One acquisition --- */

START_TEST(a_proposal_above_a_majority_is_the_token)
{
    begin_at(N, 100);
    for (unsigned i = 0; i < Q; i++)
        ck_assert_int_eq(answer(i, 99 - i), QUORUM_FENCE_NOTHING);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_SETTLED);
    ck_assert_uint_eq(fence.token, 100);
    ck_assert_uint_eq(fence.raises, 0);
}
END_TEST

START_TEST(a_node_that_knows_the_number_does_not_count)
{
    begin_at(N, 100);
    answer(0, 0);
    answer(1, 0);
    answer(2, 100);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_RAISE);
    ck_assert_uint_eq(fence.token, 101);
    for (unsigned i = 0; i < Q; i++)
        answer(i, 100);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_SETTLED);
    ck_assert_uint_eq(fence.raises, 1);
}
END_TEST

START_TEST(a_larger_record_beside_a_majority_is_no_matter)
{
    begin_at(N, 100);
    answer(4, 500);
    for (unsigned i = 0; i < Q; i++)
        answer(i, 7);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_SETTLED);
    ck_assert_uint_eq(fence.token, 100);
}
END_TEST

START_TEST(it_is_raised_above_the_largest_again_and_again)
{
    begin_at(N, 100);
    answer(0, 300);
    answer(1, 200);
    answer(2, 0);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_RAISE);
    ck_assert_uint_eq(fence.token, 301);
    answer(0, 300);
    answer(1, 301); /* another client was as fast */
    answer(2, 400);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_RAISE);
    ck_assert_uint_eq(fence.token, 401);
    for (unsigned i = 0; i < Q; i++)
        answer(i, 301 + i);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_SETTLED);
    ck_assert_uint_eq(fence.token, 401);
    ck_assert_uint_eq(fence.raises, 2);
}
END_TEST

START_TEST(what_counted_for_a_smaller_token_does_not_count_for_a_larger_one)
{
    begin_at(N, 100);
    answer(0, 1);
    answer(1, 1);
    answer(2, 900);
    confirm();
    answer(3, 2);
    answer(4, 2);
    answer(2, 901);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_RAISE); /* nodes 0 and 1 have stored 100, not 901 */
    ck_assert_uint_eq(fence.token, 902);
}
END_TEST

START_TEST(a_settled_token_stays)
{
    begin_at(1, 100);
    answer(0, 0);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_SETTLED);
    ck_assert_int_eq(answer(0, 5000), QUORUM_FENCE_NOTHING);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_NOTHING);
    ck_assert_uint_eq(fence.token, 100);
}
END_TEST

/* --- Proposals --- */

static uint64_t propose(struct quorum_fence_clock *clock, uint64_t wall_us, uint64_t steady_us)
{
    quorum_fence_init(&fence, 1, clock, wall_us, steady_us * QUORUM_MICROSECOND);
    return fence.token;
}

START_TEST(proposals_follow_the_wall_clock_and_never_go_back)
{
    struct quorum_fence_clock clock = {0};
    ck_assert_uint_eq(propose(&clock, 1000, 0), 1000);
    ck_assert_uint_eq(propose(&clock, 1000, 9000), 1001);
    ck_assert_uint_eq(propose(&clock, 400, 9000), 1002);
    ck_assert_uint_eq(propose(&clock, 5000, 9000), 5000);
}
END_TEST

START_TEST(a_slow_clock_learns_how_far_it_is_behind)
{
    struct quorum_fence_clock clock = {0};
    propose(&clock, 1000, 10);
    answer(0, 1499);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_RAISE);
    quorum_fence_learn(&clock, &fence);
    ck_assert_uint_eq(clock.lead, 1490);
    ck_assert_uint_eq(propose(&clock, 1100, 110), 1600);
    answer(0, 1599);
    ck_assert_int_eq(confirm(), QUORUM_FENCE_SETTLED);
    quorum_fence_learn(&clock, &fence); /* one round was enough */
    ck_assert_uint_eq(clock.lead, 1490);
}
END_TEST

/* Setting the wall clock forward or back does not add to the learned lead. */
START_TEST(a_wall_clock_that_is_set_is_not_added_to_the_lead)
{
    struct quorum_fence_clock clock = {.lead = 5000};
    ck_assert_uint_eq(propose(&clock, 4000, 10), 5010);
    ck_assert_uint_eq(propose(&clock, 9000, 20), 9000);
    ck_assert_uint_eq(propose(&clock, 1000, 30), 9001);
    ck_assert_uint_eq(propose(&clock, 1000, 5000), 10000);
}
END_TEST

START_TEST(a_lead_never_shrinks_nor_runs_below_the_steady_clock)
{
    struct quorum_fence_clock clock = {.lead = 5000};
    propose(&clock, 1000, 100);
    answer(0, 5100);
    confirm();
    fence.token = 4000; /* as if a larger token were known to be stored */
    quorum_fence_learn(&clock, &fence);
    ck_assert_uint_eq(clock.lead, 5000);
    fence.token = 50;
    clock.lead = 0;
    quorum_fence_learn(&clock, &fence);
    ck_assert_uint_eq(clock.lead, 0);
}
END_TEST

START_TEST(records_beyond_a_day_are_too_far)
{
    ck_assert(quorum_fence_is_near(1000, 0));
    ck_assert(quorum_fence_is_near(1000, 1000));
    ck_assert(quorum_fence_is_near(1000, 1000 + QUORUM_FENCE_FAR));
    ck_assert(!quorum_fence_is_near(1000, 1001 + QUORUM_FENCE_FAR));
}
END_TEST

/* Two clients take turns, and the clock of one is half a second behind. Nearly every acquisition must need only one
 * round trip. */
START_TEST(clients_with_different_clocks_soon_need_one_round)
{
    enum { TURNS = 10000 };
    struct quorum_fence_clock clock[2] = {{0, 0}, {0, 0}};
    uint64_t random = 7, time = UINT64_C(1700000000000000), record = 0;
    unsigned rounds = 0;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        time += 200 + random_below(&random, 2000);
        uint64_t wall = turn % 2 ? time : time - 500000;
        quorum_fence_init(&fence, 1, &clock[turn % 2], wall, (time - 1000000) * QUORUM_MICROSECOND);
        do {
            answer(0, record);
            record = fence.token > record ? fence.token : record;
            rounds++;
        } while (confirm() == QUORUM_FENCE_RAISE);
        quorum_fence_learn(&clock[turn % 2], &fence);
    }
    ck_assert_uint_le(rounds, TURNS + TURNS / 100);
}
END_TEST

/* --- The simulation --- */

enum { CLIENTS = 4, KEEP = 3 };

struct node {
    unsigned holder; /* the attempt that holds the node's lock; 0: none */
    uint64_t record;
};

/* A client's attempt; once it holds the lock, the token that it may still send. */
struct attempt {
    unsigned id; /* 0: none */
    uint64_t begun;
    struct quorum_fence fence;
    quorum_nodes asked;   /* in the current round, answered or not */
    quorum_nodes granted; /* in any round */
    unsigned answers;     /* in the current round */
    bool held;
};

struct world {
    uint64_t random, now;
    struct node node[N];
    struct quorum_fence_clock clock[CLIENTS];
    struct attempt attempt[CLIENTS];
    unsigned ids, holders;
    uint64_t largest;      /* the largest token that any holder had */
    uint64_t tokens[2000]; /* the tokens of all holders */
};

/* Deliberate violations of the rule, which the simulation must detect. */
enum fault { NONE, COUNTS_EQUAL, NO_RAISE, TAKES_MAXIMUM, FAULTS };

static bool draw(struct world *world, unsigned of_hundred)
{
    return random_below(&world->random, 100) < of_hundred;
}

/* Clocks may show any time, but mostly agree; otherwise tokens would never collide. */
static uint64_t wall(struct world *world)
{
    return 1000 + world->now / 4 + random_below(&world->random, draw(world, 10) ? 100 : 4);
}

static uint64_t tell(struct node *node, uint64_t token)
{
    uint64_t before = node->record;
    if (token > before)
        node->record = token;
    return before;
}

static void begin(struct world *world, unsigned client)
{
    struct attempt *attempt = &world->attempt[client];
    memset(attempt, 0, sizeof *attempt);
    attempt->id = ++world->ids;
    attempt->begun = world->largest;
    quorum_fence_init(&attempt->fence, N, &world->clock[client], wall(world), world->now * QUORUM_MICROSECOND);
}

/* true: the attempt now holds the lock. */
static bool settle(struct world *world, unsigned client, enum fault fault)
{
    struct attempt *attempt = &world->attempt[client];
    const struct quorum_fence_event event = {.type = QUORUM_FENCE_CONFIRMED};
    enum quorum_fence_action action;
    if (fault == TAKES_MAXIMUM || fault == NO_RAISE) {
        uint64_t seen = attempt->fence.seen;
        attempt->fence.token = fault == TAKES_MAXIMUM && seen >= attempt->fence.token ? seen + 1 : attempt->fence.token;
        action = QUORUM_FENCE_SETTLED;
    } else {
        action = quorum_fence_step(&attempt->fence, &event);
    }
    quorum_fence_learn(&world->clock[client], &attempt->fence);
    attempt->asked = 0;
    attempt->answers = 0;
    return action == QUORUM_FENCE_SETTLED;
}

/* Sends the request to a random node, which may hold another attempt's lock, and whose reply may be lost. */
static void ask(struct world *world, unsigned client, enum fault fault)
{
    struct attempt *attempt = &world->attempt[client];
    unsigned at = random_below(&world->random, N);
    struct node *node = &world->node[at];
    if (attempt->asked & quorum_node(at))
        return;
    attempt->asked |= quorum_node(at);
    bool first_round = attempt->fence.raises == 0;
    if (node->holder != attempt->id && !(first_round && node->holder == 0))
        return; /* another attempt's lock, or ours has expired */
    node->holder = attempt->id;
    uint64_t before = tell(node, attempt->fence.token);
    if (fault == COUNTS_EQUAL && before == attempt->fence.token)
        before--;
    if (draw(world, 10))
        return; /* the reply is lost */
    const struct quorum_fence_event event = {QUORUM_FENCE_ANSWERED, at, before};
    quorum_fence_step(&attempt->fence, &event);
    attempt->granted |= quorum_node(at);
    attempt->answers++;
}

/* false: a guarantee was broken. */
static bool hold(struct world *world, struct attempt *attempt)
{
    uint64_t token = attempt->fence.token;
    bool kept = token > attempt->begun;
    for (unsigned i = 0; i < world->holders; i++)
        kept = kept && world->tokens[i] != token;
    world->tokens[world->holders++] = token;
    if (token > world->largest)
        world->largest = token;
    attempt->held = true;
    return kept;
}

/* The lock is released or abandoned: some nodes lose it now, others when it expires. */
static void end(struct world *world, struct attempt *attempt)
{
    for (unsigned i = 0; i < N; i++)
        if (world->node[i].holder == attempt->id && draw(world, 60))
            world->node[i].holder = 0;
    attempt->id = 0;
}

static bool act(struct world *world, unsigned client, enum fault fault)
{
    struct attempt *attempt = &world->attempt[client];
    if (!attempt->id) {
        begin(world, client);
    } else if (attempt->held) {
        if (draw(world, 50))
            tell(&world->node[random_below(&world->random, N)], attempt->fence.token); /* a renewal, heal or release */
        if (draw(world, 30))
            end(world, attempt);
    } else if (attempt->answers >= Q) {
        return !settle(world, client, fault) || hold(world, attempt);
    } else if (attempt->asked == quorum_all(N) || draw(world, 2)) {
        end(world, attempt);
    } else {
        ask(world, client, fault);
    }
    return true;
}

/* Returns the number of steps until a guarantee was broken; `steps` if none was. */
static unsigned live(uint64_t seed, unsigned steps, enum fault fault)
{
    static struct world world;
    memset(&world, 0, offsetof(struct world, tokens));
    world.random = seed;
    for (unsigned step = 0; step < steps; step++) {
        world.now++;
        if (draw(&world, 3))
            world.node[random_below(&world.random, N)].holder = 0; /* expired */
        if (!act(&world, random_below(&world.random, CLIENTS), fault))
            return step;
    }
    return steps;
}

START_TEST(in_any_world_tokens_are_unique_and_grow)
{
    enum { SEEDS = 400, STEPS = 2000 };
    unsigned held = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        unsigned lasted = live(seed, STEPS, NONE);
        ck_assert_msg(lasted == STEPS, "seed %u: broken at step %u", (unsigned)seed, lasted);
        held++;
    }
    ck_assert_uint_eq(held, SEEDS);
}
END_TEST

START_TEST(the_world_notices_when_they_are_not)
{
    unsigned broken = 0;
    for (uint64_t seed = 1; seed <= 400; seed++)
        broken += live(seed, 2000, (enum fault)_i) < 2000;
    ck_assert_msg(broken > 0, "fault %d goes unnoticed", _i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence");
    TCase *one = tcase_create("one acquisition");
    tcase_add_test(one, a_proposal_above_a_majority_is_the_token);
    tcase_add_test(one, a_node_that_knows_the_number_does_not_count);
    tcase_add_test(one, a_larger_record_beside_a_majority_is_no_matter);
    tcase_add_test(one, it_is_raised_above_the_largest_again_and_again);
    tcase_add_test(one, what_counted_for_a_smaller_token_does_not_count_for_a_larger_one);
    tcase_add_test(one, a_settled_token_stays);
    suite_add_tcase(suite, one);
    TCase *proposals = tcase_create("proposals");
    tcase_add_test(proposals, proposals_follow_the_wall_clock_and_never_go_back);
    tcase_add_test(proposals, a_slow_clock_learns_how_far_it_is_behind);
    tcase_add_test(proposals, a_wall_clock_that_is_set_is_not_added_to_the_lead);
    tcase_add_test(proposals, a_lead_never_shrinks_nor_runs_below_the_steady_clock);
    tcase_add_test(proposals, records_beyond_a_day_are_too_far);
    tcase_add_test(proposals, clients_with_different_clocks_soon_need_one_round);
    suite_add_tcase(suite, proposals);
    TCase *world = tcase_create("world");
    tcase_set_timeout(world, 30);
    tcase_add_test(world, in_any_world_tokens_are_unique_and_grow);
    tcase_add_loop_test(world, the_world_notices_when_they_are_not, COUNTS_EQUAL, FAULTS);
    suite_add_tcase(suite, world);
    return run_suite(suite);
}
