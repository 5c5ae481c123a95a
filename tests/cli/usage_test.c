/* What redlock(1) makes of a command line, an environment and a config file that are wrong: one line that names the input and the remedy, and a documented exit
 * status. */
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

/* --- The command line --- */

static const struct {
    const char *words[8];
    const char *says;
} bad_lines[] = {
    {{NULL}, "a command is needed"},
    {{"loca"}, "there is no command 'loca'"},
    {{"--frob"}, "'--frob' is not an option"},
    {{"-x", "local"}, "'-x' is not an option"},
    {{"--nodes"}, "'--nodes' wants a value"},
    {{"local", "--frob"}, "'--frob' is not an option"},
    {{"local", "-n"}, "'-n' wants a value"},
    {{"local", "--count"}, "'--count' wants a value"},
    {{"local", "--verbose=3"}, "'--verbose=3' is not an option"},
    {{"local", "-n", "0"}, "--count '0' is not a number from 1 to 32"},
    {{"local", "-n", "33"}, "--count '33' is not a number from 1 to 32"},
    {{"local", "-n", "five"}, "--count 'five' is not a number"},
    {{"local", "true"}, "must follow --"},
    {{"local", "--"}, "no command after --"},
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

START_TEST(a_full_disk_is_noticed)
{
    char *argv[] = {fixture_text("/bin/sh"), fixture_text("-c"), fixture_text("%s --help >/dev/full", program_redlock),
                    NULL};
    struct program *program = program_start_argv(NULL, argv);

    program_exits(program, 71);
    program_says_in_one_line(program, "cannot write to standard output");
    for (size_t i = 0; i < 3; i++)
        free(argv[i]);
}
END_TEST

static Suite *usage_suite(void)
{
    Suite *suite = suite_create("cli_usage");
    TCase *line = scene_bare_case(suite, "command line");

    tcase_add_loop_test(line, a_command_line_that_is_wrong_is_refused, 0, BAD_LINES);
    tcase_add_test(line, help_goes_to_standard_output);
    tcase_add_test(line, a_full_disk_is_noticed);
    return suite;
}

int main(void)
{
    return real_run(usage_suite(), false);
}
