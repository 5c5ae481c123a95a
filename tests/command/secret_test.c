/*
 * Passwords. Whatever way redlock(1) gets a password, and however the nodes treat it, no other user sees it: not in the
 * output of the command, with or without -v, and not in the process list.
 */
#include "story.h"

#include "support/bytes.h"
#include "support/fake_server.h"
#include "support/file.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>

/* An address contains it percent-encoded. Neither form may be shown. */
#define PASSWORD "hush51v/Kx7mw@silent83z"
#define ENCODED  "hush51v%2FKx7mw%40silent83z"

static void shows_nothing(const char *what, const char *text)
{
    static const char *const secrets[] = {"hush51v", "Kx7mw", "silent83z"};
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
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

/* Writes the config file. Returns the variables for the command line. */
static const char *give(enum way way, const char *scheme, const char *address, const char *user)
{
    const char *file = scene_file(PASSWORD "\n"),
               *nodes = program_text(SCENE_PATIENCE "nodes = %s%s\n", scheme, address);
    const char *uri = program_text("%s%s:%s@%s", *scheme != '\0' ? scheme : "redis://", user, ENCODED, address);
    const char *who = *user != '\0' ? program_text("REDLOCK_USER=%s", user) : "";
    program_setting.config = scene_file(way == CONFIG         ? program_text("%spassword = " PASSWORD "\n", nodes)
                                        : way == CONFIG_FILE  ? program_text("%spassword-file = %s\n", nodes, file)
                                        : way == CONFIG_NODES ? program_text(SCENE_PATIENCE "nodes = %s\n", uri)
                                                              : nodes);
    return way == VARIABLE         ? program_text("REDLOCK_PASSWORD=" PASSWORD " %s", who)
           : way == VARIABLE_FILE  ? program_text("REDLOCK_PASSWORD_FILE=%s %s", file, who)
           : way == VARIABLE_NODES ? program_text("REDLOCK_NODES=%s", uri)
           : way == CONFIG_NODES   ? ""
                                   : who;
}

/* Each way with one of the commands, which take turns from way to way, and from one treatment by the nodes to the next. */
static void try_all_ways(unsigned treatment, const char *scheme, const char *address, const char *user)
{
    static const char *const commands[] = {"-v doctor", "doctor --json", "-v status x", "-v run -n x -- echo run"};
    for (enum way way = 0; way < WAYS; way++)
        is_silent(program_run("%s %s", give(way, scheme, address, user), commands[(way + treatment) % 4]),
                  way_names[way]);
}

/* --- Treatment by the nodes --- */

/* A Redis with a renamed AUTH quotes the arguments of the unknown command in its error. */
static const char *const renamed[] = {"--rename-command", "AUTH", "AUTHENTICATE", NULL};

static const struct {
    const char *password, *user;
    const char *const *arguments; /* of the server */
    bool down;
} treatments[] = {
    {PASSWORD, "", NULL, false},        {"another", "", NULL, false},
    {"another", "nobody", NULL, false}, {"", "", NULL, false}, /* no password is needed */
    {"", "", renamed, false},           {"", "", NULL, true},
};

TEST_ROWS(no_nodes, password_is_not_shown_however_a_node_treats_it, ROWS(treatments))
{
    real_cluster_of(1, (struct cluster_node_options){.arguments = treatments[_i].arguments});
    if (*treatments[_i].password != '\0')
        cluster_set_password(cluster, 0, treatments[_i].password);
    if (treatments[_i].down)
        cluster_kill(cluster, 0);
    try_all_ways((unsigned)_i, "", cluster_address(cluster, 0), treatments[_i].user);
}

/* The port replies to a TLS handshake with other bytes. Without TLS in the library the address is rejected. */
TEST_ROWS(no_nodes, port_does_not_speak_tls, 2)
{
    struct fake_server *server = fake_server_start(FAKE_IPV4);
    fake_server_add_rule(server, &(struct fake_rule){.command = FAKE_ACCEPT, .reply = "-ERR who are you\r\n"});
    try_all_ways((unsigned)_i, "rediss://", fake_server_address(server), _i ? "somebody" : "");
}

/* --- Process list --- */

/* Whether a process is redlock(1)'s. One that has ended meanwhile is not. */
static bool look_at_process(const char *what, const char *pid)
{
    struct bytes words = {0};
    bool is_ours = false;
    if (file_read(program_text("/proc/%s/cmdline", pid), &words)) {
        for (size_t i = 0; i < words.length; i++)
            words.data[i] = words.data[i] == '\0' ? ' ' : words.data[i];
        shows_nothing(what, words.data);
        is_ours = strstr(words.data, program_redlock()) != NULL;
    }
    bytes_free(&words);
    return is_ours;
}

/* Checks all processes. Returns the number that are redlock(1)'s. */
static unsigned look_at_processes(const char *what)
{
    DIR *all = opendir("/proc");
    unsigned ours = 0;
    ck_assert_ptr_nonnull(all);
    for (const struct dirent *entry; (entry = readdir(all)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]))
            ours += look_at_process(what, entry->d_name);
    closedir(all);
    return ours;
}

TEST_ROWS(no_nodes, process_list_shows_no_password, WAYS)
{
    real_cluster(1, NULL);
    cluster_set_password(cluster, 0, PASSWORD);
    const char *variables = give((enum way)_i, "", cluster_address(cluster, 0), "");
    program_exits(program_run("%s trust --yes", variables), 0);
    struct program *program = program_start("%s run listed -- sh -c 'echo holding; exec sleep 60'", variables);
    program_shows(program, "holding");
    ck_assert_uint_ge(look_at_processes(way_names[_i]), 1);
    program_signal(program, SIGTERM);
    program_wait(program);
}

STORY_PROGRAM("secret")
