/* The cost of redlock run: time and memory of a command that does nothing, on five healthy nodes. Only an optimized
 * build without sanitizers is measured; others are skipped. The minimum of many runs counts, because delays by the
 * machine are not redlock's. */
#define _GNU_SOURCE
#include "scene.h"

#include "support/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define MEASURED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEASURED 0
#endif
#endif
#ifndef MEASURED
#define MEASURED 1
#endif

enum { RUNS = 30, MOST_MS = 15, MOST_KIB = 8 * 1024, SKIPPED = 77 };

/* The memory of the largest process that was waited for. */
static long most_kib(void)
{
    struct rusage usage;

    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &usage), 0);
    return usage.ru_maxrss;
}

START_TEST(a_command_that_does_nothing_is_cheap)
{
    uint64_t least_ns = UINT64_MAX;

    for (int i = 0; i < RUNS; i++) {
        uint64_t began = test_now_ns();
        program_exits(program_run("run " real_key("cost") " -- true"), 0);
        uint64_t took = test_now_ns() - began;
        least_ns = took < least_ns ? took : least_ns;
    }
    ck_assert_msg(least_ns <= MOST_MS * 1000000ULL, "%.1f ms", (double)least_ns / 1e6);
    ck_assert_msg(most_kib() <= MOST_KIB, "%ld KiB", most_kib());
}
END_TEST

static Suite *cost_suite(void)
{
    Suite *suite = suite_create("cli_cost");
    TCase *tcase = scene_shared_case(suite, "cost");

    tcase_add_test(tcase, a_command_that_does_nothing_is_cheap);
    return suite;
}

int main(void)
{
    if (MEASURED)
        return real_run(cost_suite(), false);
    fputs("skipped: measured in an optimised build without sanitizers only\n", stderr);
    return SKIPPED;
}
