/* Small fixtures: clean-up, failed checks, the failing allocator. */
#define _GNU_SOURCE
#include "support/fixture.h"

#include "support/allocator.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/process.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SOON_MS = 20000 };

TEST_CASE(fixtures, fixtures_begin, fixtures_end);

/* --- Clean-up --- */

static char destroyed[8];

static void note(void *name)
{
    strncat(destroyed, name, 1);
}

TEST(fixtures, fixtures_end_newest_first_and_only_those_of_the_test)
{
    static char names[] = "abc";
    destroyed[0] = '\0';
    fixture_register(&names[0], note);
    fixtures_begin();
    fixture_register(&names[1], note);
    fixture_register(&names[2], note);
    fixtures_end();
    ck_assert_str_eq(destroyed, "cb");
    fixture_unregister(&names[0]);
}

/* --- A test program that ends by a failed check --- */

/* The program runs this case in another process, where FIXTURE_FAILS is set. */
TEST_CASE(failing, NULL, NULL);

TEST_ROWS(failing, fails, 2)
{
    char program[] = "sleep", seconds[] = "1000", *argv[] = {program, seconds, NULL};
    struct process process;
    if (_i == 0 || !getenv("FIXTURE_FAILS"))
        return;
    process_start(&process, argv, NULL);
    fprintf(stderr, "made %d %s\n", (int)process.pid, temp_dir_path(temp_dir_make()));
    ck_assert_msg(_i == 0, "%d is not %d", 1, 2);
}

/* What it has made. */
struct made {
    int process;
    char directory[256];
};

/* The process may stay a zombie: the first process of a container may never reap it. */
static bool is_gone(void *made)
{
    const struct made *gone = made;
    return process_has_ended(gone->process) && access(gone->directory, F_OK) != 0;
}

TEST(fixtures, a_failure_without_forks_is_printed_at_once_and_leaves_nothing)
{
    char program[512] = "", output[8192];
    struct made made;
    ck_assert_int_gt(readlink("/proc/self/exe", program, sizeof program - 1), 0);
    char *command = fixture_text("FIXTURE_FAILS=1 TEST_ONLY=fails CK_FORK=no '%s' 2>&1", program);
    FILE *run = popen(command, "re");
    ck_assert_ptr_nonnull(run);
    output[fread(output, 1, sizeof output - 1, run)] = '\0';
    ck_assert_int_ne(pclose(run), 0);
    ck_assert_msg(strstr(output, ": fails (row 1) failed: 1 is not 2\n"), "%s", output);
    ck_assert_int_eq(sscanf(strstr(output, "made "), "made %d %255s", &made.process, made.directory), 2);
    ck_assert(wait_until(is_gone, &made, SOON_MS));
    free(command);
}

/* --- The failing allocator --- */

TEST_ROWS(fixtures, the_kth_allocation_fails_alone_or_with_all_after_it, 2)
{
    struct test_allocator *allocator = test_allocator_new();
    void *blocks[6];
    blocks[0] = test_allocate(100, allocator);
    (_i == 0 ? test_allocator_fail_at : test_allocator_fail_from)(allocator, 3);
    for (int k = 1; k <= 5; k++) {
        blocks[k] = test_allocate(10, allocator);
        ck_assert_int_eq(blocks[k] == NULL, _i == 0 ? k == 3 : k >= 3);
    }
    ck_assert_uint_eq(test_allocator_failures(allocator), _i == 0 ? 1 : 3);
    ck_assert_uint_eq(test_allocator_live(allocator), _i == 0 ? 5 : 3);
    ck_assert_uint_eq(test_allocator_live_bytes(allocator), _i == 0 ? 140 : 120);
    for (int k = 0; k <= 5; k++)
        test_release(blocks[k], allocator);
    test_allocator_free(allocator);
}

TEST_PROGRAM("fixtures")
