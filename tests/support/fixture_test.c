/* Small fixtures: clean-up, failed checks, the failing allocator. */
#define _GNU_SOURCE
#include "support/fixture.h"

#include "support/allocator.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/process.h"
#include "support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

/* --- A test program that dies --- */

/* What a child of this process has made. It writes this to a pipe before it dies. */
struct made {
    pid_t process;
    char directory[256];
};

_Noreturn static void make_and_die(int out, int how)
{
    char program[] = "sleep", seconds[] = "1000";
    char *argv[] = {program, seconds, NULL};
    struct process process;
    struct made made = {0};
    snprintf(made.directory, sizeof made.directory, "%s", temp_dir_path(temp_dir_make()));
    process_start(&process, &(struct process_options){.argv = argv});
    made.process = process.pid;
    ck_assert_int_eq(write(out, &made, sizeof made), (int)sizeof made);
    if (how == 0)
        _exit(1);
    if (how == 1)
        raise(SIGKILL);
    exit(0);
}

/* The process may stay a zombie: the first process of a container may never reap it. */
static bool is_gone(void *made)
{
    const struct made *gone = made;
    return process_has_ended(gone->process) && access(gone->directory, F_OK) != 0;
}

TEST_ROWS(fixtures, a_test_that_dies_leaves_nothing, 3)
{
    struct made made;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        make_and_die(ends[1], _i);
    ck_assert_int_eq(read(ends[0], &made, sizeof made), (int)sizeof made);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert(wait_until(is_gone, &made, SOON_MS));
    close(ends[0]);
    close(ends[1]);
}

/* --- Failed checks --- */

/* The program runs this case in another process, where FIXTURE_FAILS is set. */
TEST_CASE(failing, NULL, NULL);

TEST_ROWS(failing, fails, 2)
{
    ck_assert_msg(_i == 0 || !getenv("FIXTURE_FAILS"), "%d is not %d", 1, 2);
}

TEST(fixtures, a_failure_without_forks_is_printed_at_once_and_ends_the_program)
{
    char program[512] = "", output[8192];
    ck_assert_int_gt(readlink("/proc/self/exe", program, sizeof program - 1), 0);
    char *command = fixture_text("FIXTURE_FAILS=1 TEST_ONLY=fails CK_FORK=no '%s' 2>&1", program);
    FILE *run = popen(command, "re");
    ck_assert_ptr_nonnull(run);
    output[fread(output, 1, sizeof output - 1, run)] = '\0';
    ck_assert_int_ne(pclose(run), 0);
    ck_assert_msg(strstr(output, ": fails (row 1) failed: 1 is not 2\n"), "%s", output);
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
