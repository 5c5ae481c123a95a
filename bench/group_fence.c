/* Locks with fencing tokens: beside a floor that sends the same scripts, and by two clients that take turns, whose
 * clocks differ. */
#include "groups.h"
#include "report.h"

enum { NODES = 5, CLIENTS = 2, TURNS = 2000, TURN_US = 5000000 };

static void add(struct measurement *sum, const struct measurement *part)
{
    sum->operations += part->operations;
    sum->failed += part->failed;
    sum->again += part->again;
}

/* The share of all locks: a median over blocks would hide the blocks with retries. */
static struct estimate one_round_share(const struct measurement *sum)
{
    return estimate_exact(1 - (double)sum->again / (double)sum->operations);
}

static void add_turn(const struct process *process, struct measurement *sum)
{
    struct process copy = *process;
    const struct entrant entrant = {.label = "a client that takes turns", .in_flight = 1, .process = &copy};
    struct measurement turn;
    entrant_block(&entrant, TURN_US, 1, &turn);
    add(sum, &turn);
}

/* The clients take turns with one lock each on the same names. This includes the first locks, when neither client
 * knows the lead of the other's clock. */
static void take_turns(const char *const programs[CLIENTS], const char *nodes, struct measurement *sum)
{
    struct process clients[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++)
        contender_start(&clients[i], NULL, programs[i], nodes);
    for (unsigned i = 0; i < TURNS * CLIENTS; i++)
        add_turn(&clients[i % CLIENTS], sum);
    for (unsigned i = 0; i < CLIENTS; i++)
        if (process_finish(&clients[i]) != 0)
            die("%s did not end well", programs[i]);
}

/* The number of turns is the same with --quick: a client learns the lead once, which would weigh more in fewer
 * turns. */
static void judge_turns(const char *nodes)
{
    static const char *const one[] = {"bench-redlock-async turns-1", "bench-redlock-ahead turns-1"};
    static const char *const many[] = {"bench-redlock-async turns-16", "bench-redlock-ahead turns-16"};
    struct measurement on_one = {0}, on_many = {0};
    take_turns(one, nodes, &on_one);
    take_turns(many, nodes, &on_many);
    report_figure("in turn, clocks 500 ms apart", "acquired in one round, one name", one_round_share(&on_one), "");
    report_figure("in turn, clocks 500 ms apart", "acquired in one round, 16 names", one_round_share(&on_many), "");
    target_at_least("fenced-one-round-share/in-turn", one_round_share(&on_one), 0.99);
    target_at_most("fenced-failed/in-turn", estimate_exact((double)(on_one.failed + on_many.failed)), 0);
}

static void compare(const struct stage *stage, const struct entrant *async, const struct entrant *floor)
{
    struct measurement sum = {0};
    for (unsigned round = 0; round < stage->round_count; round++)
        add(&sum, &async->rounds[round]);
    struct estimate share = one_round_share(&sum);
    report_figure("redlock, asynchronous", "acquire + release p50 to the floor's",
                  entrant_ratio(stage, async, floor, both_p50), "");
    report_figure("redlock, asynchronous", "acquired in one round", share, "");
    target_at_most("fenced-acquire-p50/async/floor", entrant_ratio(stage, async, floor, acquire_p50), 1.10);
    target_at_least("fenced-one-round-share/async", share, 0.99);
}

void group_fence(struct stage *stage)
{
    stage_open(stage, NODES);
    struct entrant *floor = stage_enter(stage, "floor B with the same scripts", "bench-floor-fence", stage->nodes, 1);
    struct entrant *async = stage_enter(stage, "redlock, asynchronous", "bench-redlock-async fence", stage->nodes, 1);
    stage_enter(stage, "redlock, asynchronous, no fencing token", "bench-redlock-async", stage->nodes, 1);
    stage_play(stage, 80, 100);
    report_table(stage, floor);
    compare(stage, async, floor);
    judge_turns(stage->nodes);
}
