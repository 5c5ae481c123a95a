/* A test program that ends by a failed check: its fixtures end, too. */
#define _GNU_SOURCE
#include "support/fixture.h"

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

TEST_PROGRAM("fixtures")
