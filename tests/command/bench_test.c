/* redlock bench: its numbers, its names, bounded time, failing nodes, interrupts. */
#define _GNU_SOURCE
#include "json.h"
#include "patience.h"
#include "scene.h"

#include "support/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { NO_QUORUM = 69, USAGE = 64 };

static const char prefix[] = real_key("bench");

static struct program *bench(const char *time, const char *option)
{
    return program_run(&scene_on_nodes, "bench", "-p", "3", "--time", time, prefix, option, NULL);
}

static void has(struct program *program, const char *text)
{
    ck_assert_msg(strstr(program_output(program), text) != NULL, "'%s' is not in: %s", text, program_output(program));
}

/* No key is left: the case's teardown checks it. */
START_TEST(numbers_are_consistent)
{
    uint64_t began = test_now_ns();
    struct program *program = bench("1s", "--json");

    program_exits(program, 0);
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
END_TEST

START_TEST(text_names_nodes_and_conclusion)
{
    struct program *program = bench("1s", NULL);

    program_exits(program, 0);
    ck_assert_uint_eq(program_count(program, "127.0.0.1:"), 5 + program_count(program, "mostly of"));
    has(program, "  wait for replies ");
    has(program, "acquire, 3 at once ");
    has(program, " locks per second\n");
    has(program, " dominate");
    ck_assert_str_eq(program_errors(program), "");
}
END_TEST

/* A query goes to a stopped node until its replies are overdue. */
START_TEST(failing_nodes_are_named_and_the_time_is_bounded)
{
    deployment_kill(real_nodes, 0);
    deployment_stop(real_nodes, 1);
    scene_on_nodes.environment = patience_short_environment();
    struct program *program = bench("1s", "--json");
    program_exits(program, 0);
    json_is(program, ".nodes[0] | .failures > 0 and .round_trip_us.count == 0 and .decided == 0", "true");
    json_is(program, ".nodes[0].error", "cannot connect: Connection refused");
    json_is(program, ".nodes[1] | .failures > 0 and .decided == 0", "true");
    json_is(program, ".acquire_us.count > 0 and .failed == 0", "true");
    deployment_kill(real_nodes, 2);
    program = bench("1s", NULL);
    program_exits(program, NO_QUORUM);
    ck_assert_ptr_nonnull(strstr(program_errors(program), "redlock doctor shows the remedy"));
    ck_assert_str_eq(program_output(program), "");
    deployment_repair(real_nodes);
}
END_TEST

static bool has_key(void *arg)
{
    (void)arg;
    return deployment_keys_left(real_nodes) > 0;
}

START_TEST(interrupted_it_reports_and_leaves_no_key)
{
    struct program *program = program_start(&scene_on_nodes, "bench", "-t", "20s", prefix, NULL);

    ck_assert(wait_until(has_key, NULL, PROGRAM_SOON_MS)); /* it acquires */
    program_signal(program, SIGINT);
    program_exits(program, -SIGINT);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

static const struct {
    const char *words[3];
    const char *says;
} bad_lines[] = {
    {{"-t", "61s"}, "--time must be from 1 s to 1 min"},
    {{"--time=900ms"}, "--time must be from 1 s to 1 min"},
    {{"-p", "0"}, "--parallel '0' is not a number from 1 to 256"},
    {{"a", "b"}, "at most one resource"},
    {{""}, "has 0 bytes"},
};
enum { BAD_LINES = sizeof(bad_lines) / sizeof(bad_lines[0]) };

START_TEST(wrong_command_line_is_refused)
{
    const char *const *words = bad_lines[_i].words;
    struct program *program = program_run(&scene_on_nodes, "bench", words[0], words[1], NULL);

    program_exits(program, USAGE);
    program_says_in_one_line(program, bad_lines[_i].says);
}
END_TEST

static Suite *bench_suite(void)
{
    Suite *suite = suite_create("cli_bench");
    TCase *tcase = patient(scene_shared_case(suite, "nodes"));

    tcase_add_test(tcase, numbers_are_consistent);
    tcase_add_test(tcase, text_names_nodes_and_conclusion);
    tcase_add_test(tcase, interrupted_it_reports_and_leaves_no_key);
    tcase_add_loop_test(tcase, wrong_command_line_is_refused, 0, BAD_LINES);

    tcase = patient(scene_own_case(suite, "faults"));
    tcase_add_test(tcase, failing_nodes_are_named_and_the_time_is_bounded);
    return suite;
}

int main(void)
{
    patience_begin();
    return real_run(bench_suite(), true);
}
