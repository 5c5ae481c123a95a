/*
 * Passwords. Whatever way redlock(1) gets a password, and however the nodes treat it, no other user sees it: not in the
 * output of the command, with or without -v, and not in the process list.
 */
#define _GNU_SOURCE
#include "patience.h"
#include "program.h"
#include "scene.h"

#include "support/cluster.h"
#include "support/fake_server.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/temp_dir.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* An address contains it percent-encoded. Neither form may be shown. */
#define PASSWORD "hush51v/Kx7mw@silent83z"
#define ENCODED  "hush51v%2FKx7mw%40silent83z"

#define TLS      "rediss://"

static const char *const secrets[] = {"hush51v", "Kx7mw", "silent83z"};

static void shows_nothing(const char *what, const char *text)
{
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
        ck_assert_msg(strstr(text, secrets[i]) == NULL, "%s: '%s' is shown: %s", what, secrets[i], text);
}

static void is_silent(struct program *program, const char *what)
{
    program_wait(program);
    ck_assert_msg(*program_output(program) != '\0' || *program_errors(program) != '\0', "%s: it says nothing", what);
    shows_nothing(what, program_output(program));
    shows_nothing(what, program_errors(program));
}

/* --- Ways to pass a password --- */

enum way { VARIABLE, VARIABLE_FILE, VARIABLE_NODES, CONFIG, CONFIG_FILE, CONFIG_NODES, WAYS };

static const char *const way_names[WAYS] = {"REDLOCK_PASSWORD", "REDLOCK_PASSWORD_FILE", "REDLOCK_NODES",
                                            "password",         "password-file",         "nodes"};

/* Writes a file in a separate directory. Returns its path. */
static char *write_file(const char *text)
{
    char *path = fixture_text("%s/file", temp_dir_path(temp_dir_make()));

    file_write(path, text, strlen(text));
    ck_assert_int_eq(chmod(path, 0600), 0);
    real_note_descriptors();
    return path;
}

/* The environment of the program: up to three variables. */
struct given {
    char *text[3];
    const char *environment[4];
    struct program_options options;
};

/* An address without a scheme means no TLS. */
static struct given give(enum way way, const char *address, const char *user)
{
    struct given given = {0};
    char *file = write_file(PASSWORD "\n");
    bool tls = strncmp(address, TLS, strlen(TLS)) == 0;
    char *uri =
        fixture_text("%s%s:%s@%s", tls ? TLS : "redis://", user, ENCODED, tls ? address + strlen(TLS) : address);
    char *lines = way == CONFIG        ? fixture_text("nodes = %s\npassword = " PASSWORD "\n", address)
                  : way == CONFIG_FILE ? fixture_text("nodes = %s\npassword-file = %s\n", address, file)
                                       : fixture_text("nodes = %s\n", way == CONFIG_NODES ? uri : address);
    char *config = write_file(lines);

    given.text[0] = fixture_text("REDLOCK_CONFIG=%s", config);
    given.text[1] = way == VARIABLE        ? fixture_text("REDLOCK_PASSWORD=" PASSWORD)
                    : way == VARIABLE_FILE ? fixture_text("REDLOCK_PASSWORD_FILE=%s", file)
                                           : NULL;
    if (way == VARIABLE_NODES)
        given.text[1] = fixture_text("REDLOCK_NODES=%s", uri);
    if (*user != '\0' && way != VARIABLE_NODES && way != CONFIG_NODES)
        given.text[2] = fixture_text("REDLOCK_USER=%s", user);
    for (size_t i = 0, used = 0; i < 3; i++)
        if (given.text[i] != NULL)
            given.environment[used++] = given.text[i];
    free(file);
    free(uri);
    free(lines);
    free(config);
    return given;
}

static void forget(struct given *given)
{
    for (size_t i = 0; i < 3; i++)
        free(given->text[i]);
}

/* --- Treatment by the nodes --- */

static void speaks(struct given *given, const char *what)
{
    given->options.environment = given->environment;
    is_silent(program_run(&given->options, "-v", "doctor", NULL), what);
    is_silent(program_run(&given->options, "doctor", "--json", NULL), what);
    is_silent(program_run(&given->options, "-v", "status", "x", NULL), what);
    is_silent(program_run(&given->options, "-v", "run", "-n", "x", "--", "echo", "run", NULL), what);
}

static void try_all_ways(const char *what, const char *address, const char *user)
{
    for (enum way way = 0; way < WAYS; way++) {
        char *text = fixture_text("%s, by %s", what, way_names[way]);
        struct given given = give(way, address, user);
        speaks(&given, text);
        forget(&given);
        free(text);
    }
}

static const char *protected_node(const char *password)
{
    struct cluster *cluster = real_cluster(1, NULL);

    cluster_set_password(cluster, 0, password);
    return cluster_address(cluster, 0);
}

START_TEST(it_is_right)
{
    try_all_ways("right", protected_node(PASSWORD), "");
}
END_TEST

START_TEST(it_is_wrong)
{
    const char *address = protected_node("another");

    try_all_ways("wrong", address, "");
    try_all_ways("wrong user", address, "nobody");
}
END_TEST

START_TEST(none_is_needed)
{
    try_all_ways("none needed", cluster_address(real_cluster(1, NULL), 0), "");
}
END_TEST

START_TEST(nobody_listens)
{
    struct cluster *cluster = real_cluster(1, NULL);

    cluster_kill(cluster, 0);
    try_all_ways("refused", cluster_address(cluster, 0), "");
}
END_TEST

/* A Redis with a renamed AUTH quotes the arguments of the unknown command in its error. */
START_TEST(the_server_quotes_it)
{
    static const char *const renamed[] = {"--rename-command", "AUTH", "AUTHENTICATE", NULL};
    struct cluster_node_options node = {.arguments = renamed};
    struct cluster *cluster = real_cluster(1, &(struct cluster_options){.nodes = &node});

    try_all_ways("renamed AUTH", cluster_address(cluster, 0), "");
}
END_TEST

/* The port replies to a TLS handshake with other bytes. Without TLS in the library the address is rejected. */
START_TEST(the_port_does_not_speak_tls)
{
    struct fake_server *server = fake_server_start(FAKE_IPV4);
    char *address = fixture_text(TLS "%s", fake_server_address(server));

    fake_server_add_rule(server, &(struct fake_rule){.command = FAKE_ACCEPT, .reply = "-ERR who are you\r\n"});
    try_all_ways("no TLS", address, "");
    try_all_ways("no TLS, with a user", address, "somebody");
    free(address);
}
END_TEST

/* --- Malformed addresses with a password --- */

static const char *const malformed[] = {
    "redis://:" ENCODED "@127.0.0.1:99999",
    "redis://:" ENCODED "@127.0.0.1:port",
    "redis://:" ENCODED "@",
    "redis://:" ENCODED "@[::1",
    "redis://:" ENCODED "%zz@127.0.0.1:1",
    "redis://:" ENCODED "@127.0.0.1:1/database",
    "redis://:" ENCODED "@127.0.0.1:1?bogus=1",
    "redis://:" ENCODED "@127.0.0.1:1?timeout_ms=soon",
    "redis://:" ENCODED "@127.0.0.1:1,redis://:" ENCODED "@127.0.0.1:1",
    "redis://:" PASSWORD "@127.0.0.1:1",
    "rediss://:" ENCODED "@127.0.0.1:1:2",
    "unix://:" ENCODED "@",
    "http://:" ENCODED "@127.0.0.1:1",
    "redis:/:" ENCODED "@127.0.0.1:1",
    "me:" ENCODED "@127.0.0.1:1",
    ":" ENCODED "@127.0.0.1:1",
};
enum { MALFORMED = sizeof(malformed) / sizeof(malformed[0]) };

START_TEST(an_address_that_is_wrong_is_refused_without_it)
{
    char *variable = fixture_text("REDLOCK_NODES=%s", malformed[_i]);
    const char *const environment[] = {variable, NULL};
    char *lines = fixture_text("nodes = %s\n", malformed[_i]);
    char *config = write_file(lines);

    is_silent(
        program_run(&(struct program_options){.environment = environment}, "-v", "run", "-n", "x", "--", "true", NULL),
        malformed[_i]);
    is_silent(program_run(NULL, "-v", "--config", config, "doctor", NULL), malformed[_i]);
    free(variable);
    free(lines);
    free(config);
}
END_TEST

/* --- Lines of a config file --- */

static const char *const wrong_lines[] = {
    "password " PASSWORD "\n",
    "passwd = " PASSWORD "\n",
    "nodes = 127.0.0.1:1\nnode-password = " PASSWORD "\n",
    "nodes = 127.0.0.1:1\npassword = " PASSWORD "\nttl = soon\n",
    "nodes = 127.0.0.1:1\n[redlock] password = " PASSWORD "\n",
    PASSWORD "\n",
};
enum { WRONG_LINES = sizeof(wrong_lines) / sizeof(wrong_lines[0]) };

START_TEST(a_line_that_is_wrong_is_refused_without_it)
{
    char *config = write_file(wrong_lines[_i]);

    is_silent(program_run(NULL, "-v", "--config", config, "run", "-n", "x", "--", "true", NULL), wrong_lines[_i]);
    free(config);
}
END_TEST

/* --- Process list --- */

static void read_command_line(const char *pid, char *text, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(text, 1, size - 1, file) : 0;
    for (size_t i = 0; i < length; i++)
        text[i] = text[i] == '\0' ? ' ' : text[i];
    text[length] = '\0';
    if (file != NULL)
        fclose(file);
}

/* Checks all processes. Returns the number that are redlock(1)'s. */
static unsigned look_at_processes(const char *what)
{
    DIR *all = opendir("/proc");
    unsigned ours = 0;
    char text[8192];

    ck_assert_ptr_nonnull(all);
    for (const struct dirent *entry; (entry = readdir(all)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        read_command_line(entry->d_name, text, sizeof(text));
        shows_nothing(what, text);
        ours += strstr(text, program_redlock) != NULL;
    }
    closedir(all);
    return ours;
}

START_TEST(the_list_of_processes_does_not_have_it)
{
    const char *address = protected_node(PASSWORD);
    struct given given = give((enum way)_i, address, "");

    given.options.environment = given.environment;
    program_exits(program_run(&given.options, "trust", "--yes", NULL), 0);
    struct program *program =
        program_start(&given.options, "run", "listed", "--", "sh", "-c", "echo holding; exec sleep 60", NULL);
    ck_assert(program_says(program, "holding"));
    ck_assert_uint_ge(look_at_processes(way_names[_i]), 1);
    program_signal(program, SIGTERM);
    program_wait(program);
    forget(&given);
}
END_TEST

static Suite *secret_suite(void)
{
    Suite *suite = suite_create("cli_secret");
    TCase *nodes = scene_bare_case(suite, "nodes");
    TCase *words = scene_bare_case(suite, "words");

    tcase_add_test(nodes, it_is_right);
    tcase_add_test(nodes, it_is_wrong);
    tcase_add_test(nodes, none_is_needed);
    tcase_add_test(nodes, nobody_listens);
    tcase_add_test(nodes, the_server_quotes_it);
    tcase_add_test(nodes, the_port_does_not_speak_tls);
    tcase_add_loop_test(nodes, the_list_of_processes_does_not_have_it, 0, WAYS);
    tcase_add_loop_test(words, an_address_that_is_wrong_is_refused_without_it, 0, MALFORMED);
    tcase_add_loop_test(words, a_line_that_is_wrong_is_refused_without_it, 0, WRONG_LINES);
    return suite;
}

int main(void)
{
    return real_run(secret_suite(), false);
}
