/* Tests how redlock(1) reports an invalid command line, environment and config file: one line that names the input
 * and the remedy, and a documented exit status. */
#define _GNU_SOURCE
#include "scene.h"

#include "support/file.h"
#include "support/fixture.h"
#include "support/temp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { USAGE = 64, MISCONFIGURED = 78 };

/* --- Command line --- */

static const struct {
    const char *words[8];
    const char *says;
} bad_lines[] = {
    {{NULL}, "a command is needed"},
    {{"loca"}, "there is no command 'loca'"},
    {{"--frob"}, "'--frob' is not an option"},
    {{"-x", "local"}, "'-x' is not an option"},
    {{"--nodes"}, "'--nodes' needs a value"},
    {{"local", "--frob"}, "'--frob' is not an option"},
    {{"local", "-n"}, "'-n' needs a value"},
    {{"local", "--count"}, "'--count' needs a value"},
    {{"local", "--verbose=3"}, "'--verbose=3': this option takes no value"},
    {{"run", "--fair=1", "x"}, "'--fair=1': this option takes no value"},
    {{"--permits", "3", "run", "x"}, "'--permits' is an option of redlock run: write it after that"},
    {{"acquire", "--shared", "x"}, "'--shared' is not an option of redlock acquire, but of redlock run"},
    {{"acquire", "--permits=3", "x"}, "'--permits=3' is not an option of redlock acquire, but of redlock run"},
    {{"release", "-n", "x"}, "'-n' is not an option of redlock release, but of redlock run"},
    {{"acquire", "x", "y"}, "one resource only: use redlock run for a lock on several"},
    {{"acquire", "-n", "-w", "1", "x"}, "--wait and --no-wait contradict each other"},
    {{"acquire", "--cap", "0", "x"}, "--cap limits the renewal"},
    {{"run", "-w", "400d", "x"},
     "--wait '400d' is not a duration: a number and ms, s, m, h or d (seconds without a unit), 366d at most"},
    {{"local", "-n", "0"}, "--count '0' is not a number from 1 to 32"},
    {{"local", "-n", "33"}, "--count '33' is not a number from 1 to 32"},
    {{"local", "-n", "five"}, "--count 'five' is not a number"},
    {{"local", "true"}, "must follow --"},
    {{"local", "--"}, "no command after --"},
    {{"\x9b"
      "31m \xc2\x9b"
      "31m"},
     "there is no command '\\x9b31m \\xc2\\x9b31m'"},
    {{"\xc3\xa4\xe6\x97\xa5\xc2\xa0"}, "there is no command '\xc3\xa4\xe6\x97\xa5\xc2\xa0'"},
    {{"\xc3\xa4\x9b"
      "\xff"},
     "there is no command '\xc3\xa4\\x9b\\xff'"},
    {{"\x1b[31m"}, "there is no command '\\x1b[31m'"},
};
enum { BAD_LINES = sizeof(bad_lines) / sizeof(bad_lines[0]) };

START_TEST(a_command_line_that_is_wrong_is_refused)
{
    char *argv[10] = {fixture_text("%s", program_redlock)};
    size_t count = 1;

    for (size_t i = 0; bad_lines[_i].words[i] != NULL; i++)
        argv[count++] = fixture_text("%s", bad_lines[_i].words[i]);
    struct program *program = program_start_argv(NULL, argv);
    program_exits(program, USAGE);
    program_says_in_one_line(program, bad_lines[_i].says);
    ck_assert_str_eq(program_output(program), "");
    while (count > 0)
        free(argv[--count]);
}
END_TEST

/* --- Help --- */

START_TEST(help_goes_to_standard_output)
{
    struct program *program = program_run(NULL, "--help", NULL);

    program_exits(program, 0);
    ck_assert_ptr_nonnull(strstr(program_output(program), "usage: redlock"));
    ck_assert_str_eq(program_errors(program), "");
    program = program_run(NULL, "local", "--help", NULL);
    program_exits(program, 0);
    ck_assert_ptr_nonnull(strstr(program_output(program), "usage: redlock local"));
    program = program_run(NULL, "--version", NULL);
    program_exits(program, 0);
    ck_assert_str_eq(program_output(program), "redlock 0.1.0\n");
}
END_TEST

/* With unreachable nodes: each of these fails before it sends a request. */
static const struct {
    const char *words[10];
    const char *says;
} bad_times[] = {
    {{"acquire", "--ttl", "0", "x"}, "a ttl of 0 ms is not from 10 ms to 30.0 s"},
    {{"extend", "--ttl", "5ms", "x", "0123456789abcdef0123456789abcdef01234567"},
     "a ttl of 5 ms is not from 10 ms to 30.0 s"},
    {{"acquire", "--ttl", "40s", "x"}, "a ttl of 40.0 s is above max-ttl, 30.0 s, the longest ttl in the deployment"},
    {{"extend", "--ttl", "1h", "x", "0123456789abcdef0123456789abcdef01234567"}, "is above max-ttl, 30.0 s"},
    {{"run", "--ttl", "40s", "x", "--", "true"}, "is above max-ttl, 30.0 s"},
    {{"run", "--ttl", "0", "x", "--", "true"}, "a ttl of 0 ms is not from 10 ms to 30.0 s"},
    {{"acquire", "--ttl", "30001ms", "x"}, "a ttl of 30.001 s is above max-ttl, 30.0 s"},
    {{"acquire", "--ttl", "110s", "x"}, "a ttl of 110.0 s is above max-ttl, 30.0 s"},
    {{"run", "--ttl", "4001ms", "--grace", "2s", "x", "--", "true"}, "a ttl of 4.001 s is too short for this grace"},
    {{"run", "--cap", "9s", "--ttl", "10999ms", "x", "--", "true"}, "at least the ttl, that is 10.999 s"},
    {{"run", "--cap", "0", "x", "--", "true"}, "--cap must be at least the ttl, that is 10.0 s"},
    {{"acquire", "--for", "1", "--cap", "3s", "x"}, "--cap must be at least the ttl, that is 10.0 s"},
    {{"status", "--timeout", "0", "x"}, "--timeout '0' is not from 1 ms to 1 h"},
    {{"status", "--timeout", "2h", "x"}, "--timeout '2h' is not from 1 ms to 1 h"},
    {{"status", "--timeout", "soon", "x"}, "--timeout 'soon' is not a duration"},
};
enum { BAD_TIMES = sizeof(bad_times) / sizeof(bad_times[0]) };

/* The message uses the names of the command line, not those of the library. */
START_TEST(a_time_that_cannot_be_is_refused)
{
    const struct program_options nowhere = {.nodes = "127.0.0.1:1"};
    char *argv[12] = {fixture_text("%s", program_redlock)};
    size_t count = 1;

    for (size_t i = 0; bad_times[_i].words[i] != NULL; i++)
        argv[count++] = fixture_text("%s", bad_times[_i].words[i]);
    struct program *program = program_start_argv(&nowhere, argv);
    program_exits(program, USAGE);
    program_says_in_one_line(program, bad_times[_i].says);
    ck_assert_ptr_null(strstr(program_errors(program), "_ms"));
    while (count > 0)
        free(argv[--count]);
}
END_TEST

START_TEST(a_full_disk_is_noticed)
{
    char *argv[] = {fixture_text("/bin/sh"), fixture_text("-c"), fixture_text("%s --help >/dev/full", program_redlock),
                    NULL};
    struct program *program = program_start_argv(NULL, argv);

    program_exits(program, 71);
    program_says_in_one_line(program, "cannot write to standard output: No space left on device");
    for (size_t i = 0; i < 3; i++)
        free(argv[i]);
}
END_TEST

static Suite *usage_suite(void)
{
    Suite *suite = suite_create("cli_usage");
    TCase *line = scene_bare_case(suite, "command line");

    tcase_add_loop_test(line, a_command_line_that_is_wrong_is_refused, 0, BAD_LINES);
    tcase_add_loop_test(line, a_time_that_cannot_be_is_refused, 0, BAD_TIMES);
    tcase_add_test(line, help_goes_to_standard_output);
    tcase_add_test(line, a_full_disk_is_noticed);
    return suite;
}

int main(void)
{
    return real_run(usage_suite(), false);
}
