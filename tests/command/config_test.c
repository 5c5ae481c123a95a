/* The sources of redlock(1)'s settings: command line, environment, config file. Tests their precedence, and that a
 * message about a config file names the line. */
#define _GNU_SOURCE
#include "scene.h"

#include "support/file.h"
#include "support/fixture.h"
#include "support/temp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USAGE = 64, NO_QUORUM = 69, MISCONFIGURED = 78 };

static const char resource[] = real_key("config");
static const char nowhere[] = "127.0.0.1:1";

/* Writes a file in a directory of the test. Only its owner can read it. */
static const char *write_config(const char *name, const char *text)
{
    static char path[512];
    static struct temp_dir *directory;

    directory = temp_dir_make();
    snprintf(path, sizeof(path), "%s/redlock", temp_dir_path(directory));
    ck_assert_int_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/redlock/%s", temp_dir_path(directory), name);
    file_write(path, text, strlen(text));
    ck_assert_int_eq(chmod(path, 0600), 0);
    real_note_descriptors();
    return path;
}

/* Executes `redlock run` with this text as its config file and `true` as the command. */
static struct program *run_with(const char *text)
{
    return program_run(NULL, "--config", write_config("config", text), "run", resource, "--", "true", NULL);
}

/* --- Invalid files --- */

static const struct {
    const char *text;
    const char *says;
} wrong[] = {
    {"[redlock]\nnodes = a\nttl 10s\n", "config:3: neither 'key = value'"},
    {"nodes = a\ncolour = red\n", "config:2: there is no key 'colour'"},
    {"nodes = a\n[other]\nttl = 1s\n", "config:3: there is no section [other]"},
    {"; first\n\nttl = 10x\n", "config:3: ttl: '10x' is not a duration"},
    {"ttl =\n", "config:1: ttl: '' is not a duration"},
    {"nodes =\n", "config:1: nodes: the list is empty"},
    {"guard = maybe\n", "config:1: guard: 'maybe' is neither yes nor no"},
    {"database = -1\n", "config:1: database: '-1' is not a number"},
    {"password-file = /nonexistent/password\n", "cannot read a password from /nonexistent/password"},
    {"nodes = 127.0.0.1:99999\n", "port '99999' is not a number"},
    {"nodes = a\nttl = 60s\n", "a ttl of 60.0 s is above max-ttl, 30.0 s"},
    {"nodes = a\nttl = 0\n", "config:2: ttl: '0' is not from 1 ms to 24.0 h"},
    {"max-ttl = 99d\n", "config:1: max-ttl: '99d' is not from 1 ms to 24.0 h"},
    {"timeout = 0\n", "config:1: timeout: '0' is not from 1 ms to 60 min"},
    {"connect-timeout = 61m\n", "config:1: connect-timeout: '61m' is not from 1 ms to 60 min"},
    {"drift-ppm = 600000\n", "config:1: drift-ppm: '600000' is not a number from 0 to 500000"},
};
enum { WRONG = sizeof(wrong) / sizeof(wrong[0]) };

START_TEST(a_file_that_is_wrong_is_told_with_its_line)
{
    struct program *program = run_with(wrong[_i].text);

    program_exits(program, MISCONFIGURED);
    ck_assert_msg(strstr(program_errors(program), wrong[_i].says) != NULL, "not '%s': %s", wrong[_i].says,
                  program_errors(program));
}
END_TEST

START_TEST(a_line_that_is_too_long_is_refused)
{
    char text[512] = "ttl = 10s\nnodes = ";

    memset(text + strlen(text), 'x', 400);
    struct program *program = run_with(text);
    program_exits(program, MISCONFIGURED);
    program_says_in_one_line(program, "config:2: this line is longer than");
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_told)
{
    struct program *program = program_run(NULL, "--config", "/nonexistent/file", "run", "x", "--", "true", NULL);

    program_exits(program, MISCONFIGURED);
    program_says_in_one_line(program, "cannot read /nonexistent/file: No such file");
    program = program_run(NULL, "--config", "/etc", "run", "x", "--", "true", NULL);
    program_exits(program, MISCONFIGURED);
    program_says_in_one_line(program, "cannot read /etc: Is a directory");
}
END_TEST

START_TEST(without_nodes_it_says_where_they_can_be_named)
{
    struct program *program = program_run(NULL, "run", "x", "--", "true", NULL);

    program_exits(program, MISCONFIGURED);
    program_says_in_one_line(program, "no nodes are listed; use --nodes LIST, REDLOCK_NODES, or");
}
END_TEST

START_TEST(a_password_that_all_may_read_is_warned_of)
{
    const char *path = write_config("config", "nodes = 127.0.0.1:1\npassword = secret\n");

    ck_assert_int_eq(chmod(path, 0644), 0);
    struct program *program = program_run(NULL, "--config", path, "run", resource, "--", "true", NULL);
    program_exits(program, NO_QUORUM);
    ck_assert_ptr_nonnull(strstr(program_errors(program), "every user can read it"));
    ck_assert_ptr_null(strstr(program_errors(program), "secret"));
}
END_TEST

static struct program *run_with_readable(const char *text)
{
    const char *path = write_config("config", text);

    ck_assert_int_eq(chmod(path, 0644), 0);
    struct program *program = program_run(NULL, "--config", path, "run", resource, "--", "true", NULL);
    program_exits(program, NO_QUORUM);
    return program;
}

/* A file that only names a password file holds no secret. */
START_TEST(a_warning_is_for_the_file_that_has_the_password)
{
    char *password = fixture_text("%s", write_config("password", "secret\n"));
    char *text = fixture_text("nodes = 127.0.0.1:1\npassword-file = %s\n", password);

    ck_assert_ptr_null(strstr(program_errors(run_with_readable(text)), "every user can read it"));
    struct program *program = run_with_readable("nodes = 127.0.0.1:2\nnodes = redis://me:sec/ret@127.0.0.1:1\n");
    ck_assert_ptr_nonnull(strstr(program_errors(program), "every user can read it"));
    free(password);
    free(text);
}
END_TEST

START_TEST(a_password_file_without_an_end_is_refused)
{
    const char *const environment[] = {"REDLOCK_PASSWORD_FILE=/dev/zero", NULL};
    const struct program_options options = {.nodes = nowhere, .environment = environment};
    struct program *program = program_run(&options, "run", resource, "--", "true", NULL);

    program_exits(program, MISCONFIGURED);
    program_says_in_one_line(program, "/dev/zero: its first line is longer than");
}
END_TEST

/* --- Precedence --- */

static void works(struct program *program)
{
    program_exits(program, 0);
}

static char *nodes_line(const char *nodes)
{
    return fixture_text("# by hand\n[redlock]\nnodes = %s   ; of this test\nttl = 8s\n", nodes);
}

START_TEST(the_file_names_the_nodes)
{
    char *text = nodes_line(deployment_nodes(real_nodes));

    works(run_with(text));
    free(text);
}
END_TEST

START_TEST(nodes_may_stand_in_several_lines)
{
    char *nodes = fixture_text("%s", deployment_nodes(real_nodes));
    char *rest = nodes;
    const char *first = strsep(&rest, ",");
    char *text = fixture_text("nodes = %s\nnodes = %s\n", first, rest);
    char *indented = fixture_text("nodes = %s\n   %s\n", first, rest);

    works(run_with(text));
    works(run_with(indented));
    free(nodes);
    free(text);
    free(indented);
}
END_TEST

START_TEST(the_usual_file_is_found)
{
    char *text = nodes_line(deployment_nodes(real_nodes));
    char *path = fixture_text("%s", write_config("config", text));

    *strstr(path, "/redlock/config") = '\0';
    char *base = fixture_text("XDG_CONFIG_HOME=%s", path);
    const char *const environment[] = {base, "REDLOCK_CONFIG=", NULL};
    struct program_options options = {.environment = environment};
    works(program_run(&options, "run", resource, "--", "true", NULL));
    free(base);
    free(path);
    free(text);
}
END_TEST

START_TEST(the_environment_wins_over_the_file)
{
    char *text = nodes_line(nowhere);
    const char *path = write_config("config", text);

    struct program *program = program_run(NULL, "--config", path, "run", resource, "--", "true", NULL);
    program_exits(program, NO_QUORUM);
    program_says_in_one_line(program, "; redlock doctor shows the remedy");
    works(program_run(&scene_on_nodes, "--config", path, "run", resource, "--", "true", NULL));
    free(text);
}
END_TEST

START_TEST(the_command_line_wins_over_all)
{
    char *text = nodes_line(nowhere);
    const char *path = write_config("config", text);
    struct program_options options = {.nodes = nowhere};

    program_exits(program_run(&options, "--config", path, "run", resource, "--", "true", NULL), NO_QUORUM);
    works(program_run(&options, "--config", path, "--nodes", deployment_nodes(real_nodes), "run", resource, "--",
                      "true", NULL));
    works(program_run(&options, "run", "--nodes", deployment_nodes(real_nodes), resource, "--", "true", NULL));
    free(text);
}
END_TEST

START_TEST(passwords_come_from_the_environment_or_files)
{
    const struct cluster_node_options node = {.password = "the secret"};
    const struct cluster_options protected = {.nodes = &node};
    const char *nodes = cluster_nodes_string(real_cluster(1, &protected));
    const char *const by_value[] = {"REDLOCK_PASSWORD=the secret", NULL};
    struct program_options options = {.nodes = nodes, .environment = by_value};
    /* with one new node, which is in quarantine: its reply shows that it accepted the login */
    struct program *program = program_run(&options, "run", "-n", resource, "--", "true", NULL);
    program_exits(program, NO_QUORUM);
    ck_assert_ptr_nonnull(strstr(program_errors(program), "quarantine"));

    char *path = fixture_text("REDLOCK_PASSWORD_FILE=%s", write_config("password", "the secret\n"));
    const char *const by_file[] = {path, NULL};
    options.environment = by_file;
    program = program_run(&options, "run", "-n", resource, "--", "true", NULL);
    program_exits(program, NO_QUORUM);
    free(path);

    char *text = fixture_text("nodes = %s\npassword = the secret\n", nodes);
    program = program_run(NULL, "--config", write_config("config", text), "run", "-n", resource, "--", "true", NULL);
    program_exits(program, NO_QUORUM);
    ck_assert_ptr_nonnull(strstr(program_errors(program), "quarantine"));
    free(text);
}
END_TEST

static Suite *config_suite(void)
{
    Suite *suite = suite_create("cli_config");
    TCase *files = scene_bare_case(suite, "files");
    TCase *precedence = scene_shared_case(suite, "precedence");

    tcase_add_loop_test(files, a_file_that_is_wrong_is_told_with_its_line, 0, WRONG);
    tcase_add_test(files, a_line_that_is_too_long_is_refused);
    tcase_add_test(files, a_file_that_cannot_be_read_is_told);
    tcase_add_test(files, without_nodes_it_says_where_they_can_be_named);
    tcase_add_test(files, a_password_that_all_may_read_is_warned_of);
    tcase_add_test(files, a_warning_is_for_the_file_that_has_the_password);
    tcase_add_test(files, a_password_file_without_an_end_is_refused);
    tcase_add_test(files, passwords_come_from_the_environment_or_files);
    tcase_add_test(precedence, the_file_names_the_nodes);
    tcase_add_test(precedence, nodes_may_stand_in_several_lines);
    tcase_add_test(precedence, the_usual_file_is_found);
    tcase_add_test(precedence, the_environment_wins_over_the_file);
    tcase_add_test(precedence, the_command_line_wins_over_all);
    return suite;
}

int main(void)
{
    return real_run(config_suite(), false);
}
