/* redlock bench: its numbers, its names, bounded time, failing nodes, interrupts. */
#include "scene.h"

#include "support/clock.h"

#include <signal.h>

#define BENCH "bench -p 3 --time 1s " real_key("bench")

/* No key is left: the case's teardown checks it. */
TEST(shared_nodes, numbers_are_consistent)
{
    uint64_t began = test_now_ns();
    struct program *program = program_exits(program_run(BENCH " --json"), 0);
    ck_assert_uint_ge(test_now_ns() - began, 1000000000);
    json_is(program, "[.quorum, (.nodes | length), .failed, .parallel.threads] | join(\" \")", "3 5 0 3");
    json_is(program, "[.nodes[] | select(.round_trip_us.count > 0 and .failures == 0 and .error == \"\")] | length",
            "5");
    json_is(program,
            "[.acquire_us, .release_us, .wait_us, .parallel.acquire_us, .nodes[].round_trip_us | "
            "select(.count > 0 and .p50 > 0 and .p50 <= .p90 and .p90 <= .p99 and .p99 <= .max)] | length",
            "9");
    json_is(program, ".acquire_us.count == .wait_us.count and .acquire_us.count == ([.nodes[].decided] | add)", "true");
    json_is(program, ".wait_us.p50 <= .acquire_us.p50 and .parallel.locks_per_second > 0", "true");
    json_is(program, ".dominated_by == (if .wait_percent >= 50 then \"nodes\" else \"client\" end)", "true");
}

TEST(shared_nodes, text_names_nodes_and_conclusion)
{
    static const char *const texts[] = {"  wait for replies ", "acquire, 3 at once ", " locks per second\n",
                                        " dominate"};
    struct program *program = program_exits(program_run(BENCH), 0);
    ck_assert_uint_eq(program_count(program, "127.0.0.1:"), 5 + program_count(program, "mostly of"));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        program_output_has(program, texts[i]);
    ck_assert_str_eq(program_errors(program), "");
}

/* A query goes to a stopped node until its replies are overdue. */
TEST(own_nodes, failing_nodes_are_named_and_the_time_is_bounded)
{
    program_setting.config = scene_file(SCENE_HASTE);
    cluster_kill(cluster, 0);
    cluster_stop(cluster, 1);
    struct program *program = program_exits(program_run(BENCH " --json"), 0);
    json_is(program, ".nodes[0] | .failures > 0 and .round_trip_us.count == 0 and .decided == 0", "true");
    json_is(program, ".nodes[0].error", "cannot connect: Connection refused");
    json_is(program, ".nodes[1] | .failures > 0 and .decided == 0", "true");
    json_is(program, ".acquire_us.count > 0 and .failed == 0", "true");
    cluster_kill(cluster, 2);
    program_refuses(program_run(BENCH), NO_QUORUM, "redlock doctor shows the remedy");
    cluster_repair(cluster);
}

static bool has_key(void *arg)
{
    (void)arg;
    return deployment_keys_left(real_nodes) > 0;
}

TEST(shared_nodes, interrupted_it_reports_and_leaves_no_key)
{
    struct program *program = program_start("bench -t 20s " real_key("bench"));
    ck_assert(wait_until(has_key, NULL, PROGRAM_SOON_MS)); /* it acquires */
    program_signal(program, SIGINT);
    program_exits(program, -SIGINT);
    ck_assert(real_nothing_left(NULL));
}

REAL_FAULTS_PROGRAM("cli_bench")
