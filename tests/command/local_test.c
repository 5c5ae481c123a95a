/* redlock local: temporary nodes that CMD finds in its environment. They end with CMD, however it ends. */
#include "scene.h"

#include "support/clock.h"
#include "support/server_program.h"
#include "support/temp_dir.h"

#include <signal.h>
#include <stdlib.h>

/* The servers' processes are siblings of CMD, which writes them as "SERVER=pid". */
static struct program *start(const char *count, const char *then)
{
    struct program *program =
        program_start("local -n %s -- sh -c 'for p in /proc/[0-9]*; do "
                      "read -r pid name state parent rest <$p/stat 2>/dev/null || continue; "
                      "[ \"$parent\" = $PPID ] && [ \"$pid\" != $$ ] && echo \"SERVER=$pid\"; done; echo READY; %s'",
                      count, then);
    program_shows(program, "READY\n");
    return program;
}

static void check_that_servers_end(struct program *program, unsigned count)
{
    ck_assert_uint_eq(program_count(program, "SERVER="), count);
    for (const char *line = program_output(program); (line = strstr(line, "SERVER=")) != NULL; line++) {
        pid_t pid = (pid_t)atoi(line + strlen("SERVER="));
        ck_assert_int_gt(pid, 1);
        ck_assert_msg(program_soon_gone(pid), "server %d lives on", (int)pid);
    }
}

TEST(no_nodes, its_nodes_can_be_locked_at_once)
{
    program_prints(program_shell("$R local -n 5 -- $R run --timeout 10s x -- echo ran"), "ran\n");
}

TEST(no_nodes, it_exits_as_its_command_does)
{
    struct program *program = start("2", "exit 7");
    program_exits(program, 7);
    check_that_servers_end(program, 2);
    program_exits(start("1", "kill -KILL $$"), 128 + SIGKILL);
    program_exits(program_run("local -n 1 -- /nonexistent/program"), 127);
    program_exits(program_run("local -n 1 -- /etc/passwd"), 126);
}

TEST_ROWS(no_nodes, its_servers_end_when_it_is_terminated_or_killed, 2)
{
    struct program *program = start("3", "exec sleep 60");
    program_signal(program, _i == 0 ? SIGTERM : SIGKILL);
    program_exits(program, _i == 0 ? 128 + SIGTERM : -SIGKILL);
    check_that_servers_end(program, 3);
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
    program_refuses(program_run("TMPDIR=/nonexistent/directory local -- true"), SYSTEM,
                    "in /nonexistent/directory: No such file");
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
    pid_t children[2];
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
