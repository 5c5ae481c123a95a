/* redlock local: temporary nodes that CMD finds in its environment. They end with CMD, however it ends. */
#define _GNU_SOURCE
#include "scene.h"

#include "support/clock.h"
#include "support/server_program.h"
#include "support/temp_dir.h"

#include <redlock/redlock.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* CMD writes "NODES=...". The servers' processes are its siblings, which it writes as "SERVER=pid". */
static struct program *start(const char *count, const char *then)
{
    struct program *program =
        program_start("local -n %s -- sh -c 'echo \"NODES=$REDLOCK_NODES\"; for p in /proc/[0-9]*; do "
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

START_TEST(its_nodes_can_be_locked_at_once)
{
    struct program *program = start("5", "sleep 60");
    char nodes[1024];
    redlock_client *client;
    redlock_lock *lock;
    redlock_result result;

    ck_assert_int_eq(sscanf(strstr(program_output(program), "NODES="), "NODES=%1023s", nodes), 1);
    ck_assert_int_eq(redlock_connect(nodes, NULL, &client, &result), REDLOCK_OK);
    real_status(redlock_acquire(client, "x", NULL, &lock, &result), REDLOCK_OK, &result);
    redlock_close(&client, NULL);
    program_signal(program, SIGTERM);
    program_exits(program, 128 + SIGTERM);
    check_that_servers_end(program, 5);
}
END_TEST

START_TEST(it_exits_as_its_command_does)
{
    struct program *program = start("2", "exit 7");

    program_exits(program, 7);
    check_that_servers_end(program, 2);
    program_exits(start("1", "kill -KILL $$"), 128 + SIGKILL);
    program_exits(program_run("local -n 1 -- /nonexistent/program"), 127);
    program_exits(program_run("local -n 1 -- /etc/passwd"), 126);
}
END_TEST

START_TEST(its_servers_end_when_it_is_killed)
{
    struct program *program = start("3", "exec sleep 60");

    program_signal(program, SIGKILL);
    program_exits(program, -SIGKILL);
    check_that_servers_end(program, 3);
}
END_TEST

START_TEST(the_users_own_settings_do_not_reach_in)
{
    struct program *program =
        program_exits(program_run("REDLOCK_PASSWORD=secret REDLOCK_USER=me local -n 1 -- env"), 0);
    ck_assert_ptr_null(strstr(program_output(program), "secret"));
    ck_assert_ptr_null(strstr(program_output(program), "REDLOCK_USER"));
    program_output_has(program, "REDLOCK_CONFIG=/dev/null");
}
END_TEST

START_TEST(without_a_server_it_says_so)
{
    struct program *program = program_run("REDLOCK_SERVER_PROGRAM=/nonexistent/redis-server local -- true");

    program_refuses(program, SYSTEM, "/nonexistent/redis-server: No such file");
    program_says_in_one_line(program, "; install it, or choose another with --server");
    program_refuses(program_run("TMPDIR=/nonexistent/directory local -- true"), SYSTEM,
                    "in /nonexistent/directory: No such file");
}
END_TEST

START_TEST(server_is_chosen_by_option_or_variable)
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
END_TEST

/* CMD's process and the server's process exist, before or after exec. */
static bool has_two_children(void *arg)
{
    struct program *program = arg;
    char path[64], line[128] = "";
    int pid = (int)program_pid(program);

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    (void)!fgets(line, sizeof(line), file);
    fclose(file);
    return sscanf(line, "%*d %d", &pid) == 1;
}

START_TEST(a_signal_as_its_command_begins_is_not_lost)
{
    for (int i = 0; i < 5; i++) {
        struct program *program = program_start("local -n 1 -- sleep 60");
        ck_assert(wait_until(has_two_children, program, PROGRAM_SOON_MS));
        program_signal(program, SIGTERM);
        program_exits(program, 128 + SIGTERM);
    }
}
END_TEST

static Suite *local_suite(void)
{
    Suite *suite = suite_create("cli_local");
    TCase *nodes = scene_bare_case(suite, "local");

    tcase_add_test(nodes, its_nodes_can_be_locked_at_once);
    tcase_add_test(nodes, it_exits_as_its_command_does);
    tcase_add_test(nodes, its_servers_end_when_it_is_killed);
    tcase_add_test(nodes, the_users_own_settings_do_not_reach_in);
    tcase_add_test(nodes, without_a_server_it_says_so);
    tcase_add_test(nodes, a_signal_as_its_command_begins_is_not_lost);
    tcase_add_loop_test(nodes, server_is_chosen_by_option_or_variable, 0, 3);
    return suite;
}

int main(void)
{
    return real_run(local_suite(), false);
}
