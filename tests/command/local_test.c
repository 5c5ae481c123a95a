/* redlock local: temporary nodes that CMD finds in its environment. They end with CMD, however it ends. */
#include "scene.h"

#include "support/bytes.h"
#include "support/clock.h"
#include "support/raw_client.h"
#include "support/resp.h"
#include "support/server_program.h"
#include "support/temp_dir.h"

#include <signal.h>
#include <unistd.h>

static pid_t command, children[8]; /* CMD; all processes that redlock has started, CMD among them */

/* CMD does `then` when it gets SIGUSR1. others: processes that redlock starts before it. */
static struct program *start(const char *directory, const char *options, size_t others, const char *then)
{
    struct program *program =
        program_start("TMPDIR=%s local %s -- sh -c 'trap \"%s\" USR1; echo pid=$$.; while :; do sleep 0.02; done'",
                      directory, options, then);
    command = program_number(program, "pid=");
    ck_assert_uint_eq(program_children(program_pid(program), children, ROWS(children)), others + 1);
    return program;
}

static void check_that_servers_end(void)
{
    for (size_t i = 0; children[i] != 0; i++)
        ck_assert_msg(children[i] == command || program_soon_gone(children[i]), "server %d lives on", (int)children[i]);
}

TEST(no_nodes, its_nodes_can_be_locked_at_once)
{
    program_prints(program_shell("$R local -n 5 -- $R run --timeout 10s x -- echo ran"), "ran\n");
}

static const struct {
    const char *option, *nodes, *descriptor;
} kinds[] = {{"--sentinel", "sentinel://*/m1,sentinel://*/m2", "sentinel.conf"},
             {"--cluster", "cluster://*,cluster://*", "redlock-......$"}}; /* as mkdtemp(3) names it */

/* The Sentinels know the nodes' masters; a cluster needs a tag. CMD does not inherit what the servers are configured by. */
TEST_ROWS(no_nodes, its_nodes_can_be_groups, ROWS(kinds))
{
    program_prints(
        program_shell("$R local -n 2 %s -- sh -c 'case $REDLOCK_NODES in %s) \"$0\" run --timeout 10s x -- echo ran;"
                      " esac; ! ls -l /proc/self/fd | grep -e %s' $R",
                      kinds[_i].option, kinds[_i].nodes, kinds[_i].descriptor),
        "ran\n");
    program_refuses(program_run("local --sentinel --cluster -- true"), USAGE, "exclude each other");
}

/* What the Sentinel on this port replies has the words. */
static bool says(uint16_t port, const char *subcommand, const char *words)
{
    const struct raw_client_place place = {.host = "127.0.0.1", .port = port};
    const struct resp_argument argv[] = {resp_argument_of("SENTINEL"), resp_argument_of(subcommand),
                                         resp_argument_of("m1")};
    struct bytes reply = {0};
    bool replied = raw_client_ask(&place, test_deadline_ns(PROGRAM_SOON_MS), 3, argv, &reply);
    bytes_append(&reply, "", 1);
    bool found = replied && strstr(reply.data, words);
    bytes_free(&reply);
    return found;
}

/* Of its processes the first is the master. */
TEST(no_nodes, its_sentinels_fail_over_a_master_that_is_killed_at_once)
{
    struct program *program = program_start(
        "local -n 1 --sentinel -- sh -c 'IFS=:,/; set -- $REDLOCK_NODES; echo a=$5. b=$7. c=$9.; sleep 600'");
    const int port[] = {program_number(program, "a="), program_number(program, "b="), program_number(program, "c=")};
    ck_assert_uint_eq(program_children(program_pid(program), children, ROWS(children)), 6);
    for (size_t i = 0; i < ROWS(port); i++) {
        ck_assert(says((uint16_t)port[i], "MASTER", "num-slaves\r\n$1\r\n1\r"));
        ck_assert(says((uint16_t)port[i], "MASTER", "num-other-sentinels\r\n$1\r\n2\r"));
    }
    kill(children[0], SIGKILL);
    real_until(NULL, says((uint16_t)port[0], "MASTER", "config-epoch\r\n$1\r\n1\r"));
    program_terminates(program);
    check_that_servers_end();
}

TEST(no_nodes, it_exits_as_its_command_does)
{
    struct program *program = start("/tmp", "-n 2", 2, "exit 7");
    ck_assert_int_eq(kill(command, SIGUSR1), 0);
    program_exits(program, 7);
    check_that_servers_end();
    program_exits(program_run("local -n 1 -- sh -c 'kill -KILL $$'"), 128 + SIGKILL);
    program_exits(program_run("local -n 1 -- /nonexistent/program"), 127);
    program_exits(program_run("local -n 1 -- /etc/passwd"), 126);
}

static const struct {
    const char *options;
    size_t others; /* four servers of a cluster, and the process that removes their directory */
    int number;
} ends[] = {{"-n 3", 3, SIGTERM}, {"-n 3", 3, SIGKILL}, {"-n 1 --cluster", 5, SIGTERM}, {"-n 1 --cluster", 5, SIGKILL}};

TEST_ROWS(no_nodes, nothing_is_left_when_it_is_terminated_or_killed, ROWS(ends))
{
    const char *directory = temp_dir_path(temp_dir_make());
    real_note_descriptors();
    struct program *program = start(directory, ends[_i].options, ends[_i].others, "");
    program_signal(program, ends[_i].number);
    program_exits(program, ends[_i].number == SIGTERM ? 128 + SIGTERM : -SIGKILL);
    check_that_servers_end();
    kill(command, SIGKILL); /* of no redlock that could end it */
    ck_assert_msg(rmdir(directory) == 0, "%s is not empty", directory);
}

TEST(no_nodes, the_users_own_settings_do_not_reach_in)
{
    struct program *program =
        program_exits(program_run("REDLOCK_PASSWORD=secret REDLOCK_USER=me local -n 1 -- env"), 0);
    ck_assert_ptr_null(strstr(program_output(program), "secret"));
    ck_assert_ptr_null(strstr(program_output(program), "REDLOCK_USER"));
    program_output_has(program, "REDLOCK_CONFIG=/dev/null");
}

TEST(no_nodes, without_a_server_it_says_so)
{
    struct program *program = program_run("REDLOCK_SERVER_PROGRAM=/nonexistent/redis-server local -- true");
    program_refuses(program, SYSTEM, "/nonexistent/redis-server: No such file");
    program_says_in_one_line(program, "; install it, or choose another with --server");
    program_refuses(program_run("local --server /bin/true -- true"), SYSTEM,
                    "/bin/true did not start: it ended without a message");
    program_refuses(program_run("TMPDIR=/nonexistent/directory local -- true"), SYSTEM,
                    "in /nonexistent/directory: No such file");
}

/* With this umask its own directory is closed to it; also to root, without these capabilities. */
TEST(no_nodes, directory_that_cannot_be_opened_is_removed)
{
    const char *directory = temp_dir_path(temp_dir_make());
    real_note_descriptors();
    program_refuses(program_shell("umask 777 && TMPDIR=%s exec %s $R local -n 1 -- true", directory,
                                  geteuid() == 0 ? "setpriv --bounding-set=-dac_override,-dac_read_search" : "env"),
                    SYSTEM, "Permission denied; set TMPDIR");
    ck_assert_msg(rmdir(directory) == 0, "%s is not empty", directory);
}

TEST_ROWS(no_nodes, server_is_chosen_by_option_or_variable, 3)
{
    static const char *const commands[] = {
        "env REDLOCK_SERVER_PROGRAM=./here $R local -n 1 -- echo ran",
        "env REDLOCK_SERVER_PROGRAM=/nonexistent $R local -n 1 --server ./here -- echo ran",
        "env -u REDLOCK_SERVER_PROGRAM \"PATH=$PWD/bin\" $R local -n 1 -- /bin/echo ran", /* only valkey-server */
    };
    const char *directory = temp_dir_path(temp_dir_make());
    real_note_descriptors();
    /* In this directory are links to the server, whose names are relative to it. */
    program_prints(program_shell("cd %s && server=$(command -v '%s') && ln -s \"$server\" here && mkdir bin && "
                                 "ln -s \"$server\" bin/valkey-server && exec %s",
                                 directory, server_program(), commands[_i]),
                   "ran\n");
}

/* CMD's process and the server's process exist, before or after exec. */
static bool has_two_children(void *program)
{
    return program_children(program_pid(program), children, 2) == 2;
}

TEST(no_nodes, signal_at_the_start_of_the_command_is_not_lost)
{
    for (int i = 0; i < 5; i++) {
        struct program *program = program_start("local -n 1 -- sleep 60");
        ck_assert(wait_until(has_two_children, program, PROGRAM_SOON_MS));
        program_terminates(program);
    }
}

REAL_PROGRAM("cli_local")
