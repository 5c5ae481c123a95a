/* redlock run: exit statuses, environment, signals, pipes, waiting, competition, and nodes that fail while CMD runs. */
#define _GNU_SOURCE
#include "patience.h"
#include "real/published_rights.h"
#include "scene.h"

#include "support/clock.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/server_program.h"
#include "support/temp_dir.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOT_OBTAINED = 1, USAGE = 64, NO_QUORUM = 69, LOST = 75, MISCONFIGURED = 78 };
enum { MAJORITY = 3 };

/* Long enough for nodes to reply, even on a loaded machine. */
#define SHORT_TTL "--ttl", "2s", "--grace", "500ms", "--timeout", "500ms"

/* An attempt ends within this time, even on a loaded machine. */
#define A_WHILE "2s"

static const char resource[] = real_key("run");

static struct program *run_shell(const char *script)
{
    return program_start(&scene_on_nodes, "run", resource, "--", "sh", "-c", script, NULL);
}

static void hold_by_another(void)
{
    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        ck_assert(real_foreign_set(i, resource, "another"));
}

static void release_by_another(void)
{
    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        real_delete(i, resource);
}

/* --- Exit statuses --- */

START_TEST(it_exits_as_its_command_does)
{
    program_exits(run_shell("exit 0"), 0);
    program_exits(run_shell("exit 7"), 7);
    program_exits(run_shell("kill -KILL $$"), 128 + SIGKILL);
    program_exits(run_shell("kill -INT $$"), 128 + SIGINT);
}
END_TEST

START_TEST(a_command_that_cannot_be_run_is_told_in_a_line)
{
    struct program *program = program_run(&scene_on_nodes, "run", resource, "--", "/nonexistent/program", NULL);

    program_exits(program, 127);
    program_says_in_one_line(program, "'/nonexistent/program': No such file");
    program = program_run(&scene_on_nodes, "run", resource, "--", "/etc/passwd", NULL);
    program_exits(program, 126);
    program_says_in_one_line(program, "'/etc/passwd': Permission denied");
}
END_TEST

START_TEST(a_lock_that_is_held_is_not_obtained)
{
    hold_by_another();
    struct program *program = program_run(&scene_on_nodes, "run", "-n", resource, "--", "echo", "ran", NULL);
    program_exits(program, NOT_OBTAINED);
    program_says_in_one_line(program, "held by another client");
    ck_assert_str_eq(program_output(program), "");
    program_exits(program_run(&scene_on_nodes, "run", "--no-wait", "-E", "42", resource, "--", "true", NULL), 42);
    program = program_run(&scene_on_nodes, "run", "--wait", A_WHILE, "-E", "0", resource, "--", "echo", "ran", NULL);
    program_exits(program, 0);
    ck_assert_str_eq(program_output(program), "");
    release_by_another();
}
END_TEST

START_TEST(nodes_that_cannot_be_reached_are_no_quorum)
{
    struct program_options options = {.nodes = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"};
    struct program *program = program_run(&options, "run", resource, "--", "echo", "ran", NULL);

    program_exits(program, NO_QUORUM);
    program_says_in_one_line(program, "127.0.0.1:2 cannot connect: Connection refused");
    ck_assert_str_eq(program_output(program), "");
    program_exits(program_run(&options, "run", "--wait", "200ms", resource, "--", "echo", "ran", NULL), NO_QUORUM);
}
END_TEST

START_TEST(a_wrong_password_is_misconfigured)
{
    const struct cluster_node_options node = {.password = "right"};
    const struct cluster_options protected = {.nodes = &node};
    const char *const environment[] = {"REDLOCK_PASSWORD=wrong", NULL};
    struct program_options options = {.nodes = cluster_nodes_string(real_cluster(1, &protected)),
                                      .environment = environment};
    struct program *program = program_run(&options, "run", resource, "--", "true", NULL);

    program_exits(program, MISCONFIGURED);
    program_says_in_one_line(program, server_program_wrong_password());
    ck_assert_ptr_null(strstr(program_errors(program), "=wrong"));
}
END_TEST

/* The published rights except one. The guard's script needs this right; without the guard, the acquisition's script
 * does. */
static const struct {
    const char *right;
    const char *guard;
} missing[] = {{"+info", "yes"}, {"+time", "yes"},  {"+getrange", "yes"}, {"+time", "no"},
               {"+get", "no"},   {"+exists", "no"}, {"+mget", "no"},      {"+pttl", "no"}};
enum { MISSING = sizeof(missing) / sizeof(missing[0]) };

START_TEST(missing_right_is_misconfigured_and_ends_the_wait)
{
    struct temp_dir *directory = temp_dir_make();
    char *config = fixture_text("%s/config", temp_dir_path(directory));
    char *variable = fixture_text("REDLOCK_CONFIG=%s", config);
    char *settings = fixture_text("guard = %s\ntimeout = 10s\nconnect-timeout = 10s\n", missing[_i].guard);
    char *acl = fixture_text("user default off\nuser %s\n", published_rights_without(missing[_i].right));
    const struct cluster_node_options node = {.acl = acl}, nodes[] = {node, node, node};
    struct cluster *cluster = real_cluster(3, &(struct cluster_options){.nodes = nodes});
    const char *const environment[] = {variable, "REDLOCK_USER=" PUBLISHED_USER, "REDLOCK_PASSWORD=" PUBLISHED_PASSWORD,
                                       NULL};
    struct program_options options = {.nodes = cluster_nodes_string(cluster), .environment = environment};

    file_write(config, settings, strlen(settings));
    struct program *program =
        program_run(&options, "run", "--fair", "--fence", PUBLISHED_PREFIX "run", "--", "echo", "ran", NULL);
    program_exits(program, MISCONFIGURED);
    ck_assert_str_eq(program_output(program), "");
    temp_dir_remove(directory);
    free(config);
    free(variable);
    free(settings);
    free(acl);
}
END_TEST

/* The holder publishes nothing when it deletes its keys. On a busy machine some of the tries may be too late. */
START_TEST(a_wait_shorter_than_a_second_is_enough_behind_a_foreign_holder)
{
    int status = -1;

    for (int i = 0; i < 10 && status != 0; i++) {
        hold_by_another();
        struct program *program =
            program_start(&scene_on_nodes, "run", "-v", "--wait", "900ms", resource, "--", "echo", "ran", NULL);
        ck_assert(program_says(program, "first attempt"));
        poll(NULL, 0, 20);
        release_by_another();
        status = program_wait(program);
        ck_assert_str_eq(program_output(program), status == 0 ? "ran\n" : "");
    }
    ck_assert_int_eq(status, 0);
}
END_TEST

/* --- Environment of CMD --- */

START_TEST(its_command_knows_the_lock)
{
    struct program *program =
        run_shell("echo \"$REDLOCK_RESOURCE $REDLOCK_VALIDITY_MS $REDLOCK_TOKEN\"; exec sleep 60");
    char name[64];
    char token[64];
    int validity_ms;

    ck_assert(program_says(program, "\n"));
    ck_assert_int_eq(sscanf(program_output(program), "%63s %d %63s", name, &validity_ms, token), 3);
    ck_assert_str_eq(name, resource);
    ck_assert_int_gt(validity_ms, 5000);
    ck_assert_int_lt(validity_ms, 10000);
    ck_assert(real_soon_everywhere(resource, token));
    program_signal(program, SIGTERM);
    program_exits(program, 128 + SIGTERM);
}
END_TEST

START_TEST(with_fence_it_knows_a_token_that_grows)
{
    unsigned long long last = 0;

    for (int i = 0; i < 3; i++) {
        struct program *program =
            program_run(&scene_on_nodes, "run", "--fence", resource, "--", "printenv", "REDLOCK_FENCE", NULL);
        program_exits(program, 0);
        unsigned long long fence = strtoull(program_output(program), NULL, 10);
        ck_assert_uint_gt(fence, last);
        last = fence;
    }
    program_exits(program_run(&scene_on_nodes, "run", resource, "--", "printenv", "REDLOCK_FENCE", NULL), 1);
    deployment_remove_keys(real_nodes); /* the nodes still have the previous one */
}
END_TEST

static const char *lasting = "echo in; exec sleep 30";

START_TEST(several_resources_are_held_or_none)
{
    char second[128];

    snprintf(second, sizeof(second), "%s-2", resource);
    struct program *holder = program_start(&scene_on_nodes, "run", resource, second, "--", "sh", "-c", lasting, NULL);
    ck_assert(program_says(holder, "in"));
    program_exits(program_run(&scene_on_nodes, "run", "-n", second, "--", "true", NULL), 1);
    struct program *other = program_run(&scene_on_nodes, "run", "-n", "test:other", second, "--", "true", NULL);
    program_exits(other, 1); /* the message does not blame the resource that is free */
    program_says_in_one_line(other, "'test:other' and '");
    program_says_in_one_line(other, "-2' is not free");
    other = program_run(&scene_on_nodes, "run", "-w", A_WHILE, "test:a", "test:b", second, "--", "true", NULL);
    program_exits(other, 1);
    program_says_in_one_line(other, "'test:a' and 2 more not acquired");
    program_says_in_one_line(other, "-2' is not free");
    program_exits(program_run(&scene_on_nodes, "run", "-n", "test:other", "--", "true", NULL), 0);
    program_signal(holder, SIGTERM);
    program_exits(holder, 128 + SIGTERM);
}
END_TEST

START_TEST(readers_run_together)
{
    struct program *reader =
        program_start(&scene_on_nodes, "run", "--shared", resource, "--", "sh", "-c", lasting, NULL);
    ck_assert(program_says(reader, "in"));
    program_exits(program_run(&scene_on_nodes, "run", "-n", "--shared", resource, "--", "true", NULL), 0);
    program_exits(program_run(&scene_on_nodes, "run", "-n", resource, "--", "true", NULL), 1);
    program_signal(reader, SIGTERM);
    program_exits(reader, 128 + SIGTERM);
}
END_TEST

START_TEST(as_many_run_as_there_are_permits)
{
    struct program *holders[2];

    for (int i = 0; i < 2; i++) {
        holders[i] = program_start(&scene_on_nodes, "run", "--permits", "2", resource, "--", "sh", "-c", lasting, NULL);
        ck_assert(program_says(holders[i], "in"));
    }
    program_exits(program_run(&scene_on_nodes, "run", "-n", "--permits", "2", resource, "--", "true", NULL), 1);
    program_signal(holders[0], SIGTERM);
    program_exits(holders[0], 128 + SIGTERM);
    program_exits(program_run(&scene_on_nodes, "run", "--permits", "2", resource, "--", "true", NULL), 0);
    program_signal(holders[1], SIGTERM);
    program_exits(holders[1], 128 + SIGTERM);
    program_exits(program_run(&scene_on_nodes, "run", "--permits", "2", "--shared", resource, "--", "true", NULL), 64);
}
END_TEST

START_TEST(each_round_is_explained_node_by_node)
{
    hold_by_another();
    struct program *program = program_run(&scene_on_nodes, "run", "-v", "-n", resource, "--", "true", NULL);
    program_exits(program, NOT_OBTAINED);
    char *line = fixture_text("redlock run: acquire %s: REDLOCK_HELD\n", resource);
    ck_assert_msg(strstr(program_errors(program), line) != NULL, "%s", program_errors(program));
    ck_assert_ptr_nonnull(strstr(program_errors(program), ": held after "));
    free(line);
    release_by_another();
}
END_TEST

/* 32 and 33: posix_spawn(3) leaves them ignored in its child, and no program can change that. */
static const unsigned long long of_libc = 3ULL << 31;

static unsigned long long signals_of(struct program *program, const char *name)
{
    const char *found = strstr(program_output(program), name);

    ck_assert_ptr_nonnull(found);
    return strtoull(found + strlen(name), NULL, 16);
}

/* Descriptors that are open in the test are open in CMD too, so the test compares CMD with the same command without
 * redlock. */
START_TEST(its_command_has_signals_and_descriptors_as_usual)
{
    static const char script[] = "grep -E 'SigBlk|SigIgn' /proc/self/status; ls /proc/self/fd";
    char *argv[] = {fixture_text("sh"), fixture_text("-c"), fixture_text("%s", script), NULL};
    struct program *program = run_shell(script);
    struct program *alone = program_start_argv(NULL, argv);

    program_exits(program, 0);
    program_exits(alone, 0);
    ck_assert_str_eq(program_output(program), program_output(alone));
    ck_assert_uint_eq(signals_of(program, "SigBlk:"), 0);
    ck_assert_uint_eq(signals_of(program, "SigIgn:") & ~of_libc, 0);
    for (size_t i = 0; i < 3; i++)
        free(argv[i]);
}
END_TEST

START_TEST(its_command_has_a_process_group_of_its_own)
{
    struct program *program =
        run_shell("read -r pid name state parent group rest </proc/self/stat; echo $(($group - $$))");

    program_exits(program, 0);
    ck_assert_str_eq(program_output(program), "0\n");
}
END_TEST

START_TEST(pipes_go_through)
{
    char *script = fixture_text("echo some words | %s run %s -- cat | tr a-z A-Z", program_redlock, resource);
    char *argv[] = {fixture_text("sh"), fixture_text("-c"), script, NULL};
    struct program *program = program_start_argv(&scene_on_nodes, argv);

    program_exits(program, 0);
    ck_assert_str_eq(program_output(program), "SOME WORDS\n");
    for (size_t i = 0; i < 3; i++)
        free(argv[i]);
}
END_TEST

/* --- Signals --- */

static const struct {
    int number;
    const char *name;
} forwarded[] = {{SIGTERM, "TERM"}, {SIGINT, "INT"},   {SIGHUP, "HUP"},
                 {SIGQUIT, "QUIT"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}};
enum { FORWARDED = sizeof(forwarded) / sizeof(forwarded[0]) };

START_TEST(signals_are_forwarded)
{
    char *script =
        fixture_text("trap 'echo got; exit 3' %s; echo ready; while :; do sleep 0.02; done", forwarded[_i].name);
    struct program *program = run_shell(script);

    ck_assert(program_says(program, "ready"));
    program_signal(program, forwarded[_i].number);
    program_exits(program, 3);
    ck_assert_str_eq(program_output(program), "ready\ngot\n");
    free(script);
}
END_TEST

/* As under a supervisor that ignores SIGCHLD, or under nohup(1). */
static struct program *run_ignoring(const char *name, const char *command)
{
    char *line =
        fixture_text("exec env --ignore-signal=%s %s run -v %s -- %s", name, program_redlock, resource, command);
    char *argv[] = {fixture_text("sh"), fixture_text("-c"), line, NULL};
    struct program *program = program_start_argv(&scene_on_nodes, argv);

    for (size_t i = 0; i < 3; i++)
        free(argv[i]);
    return program;
}

START_TEST(without_word_of_its_children_it_still_learns_of_them)
{
    program_exits(run_ignoring("CHLD", "sh -c 'exit 7'"), 7);
    struct program *program = run_ignoring("CHLD", "cat /proc/self/status");
    program_exits(program, 0);
    ck_assert_uint_ne(signals_of(program, "SigIgn:") & 1ULL << (SIGCHLD - 1), 0);
}
END_TEST

START_TEST(what_is_ignored_does_not_end_the_waiting)
{
    hold_by_another();
    struct program *program = run_ignoring("HUP", "echo ran");
    ck_assert(program_says(program, "first attempt"));
    program_signal(program, SIGHUP);
    release_by_another();
    program_exits(program, 0);
    ck_assert_str_eq(program_output(program), "ran\n");
}
END_TEST

/* An idle virtual CPU may wake too late to keep this promise. At least one of several tries must keep it. */
START_TEST(interrupted_while_waiting_it_is_gone_at_once)
{
    uint64_t least_ns = UINT64_MAX;

    hold_by_another();
    for (int i = 0; i < 20 && least_ns > 100000000; i++) {
        struct program *program = program_start(&scene_on_nodes, "run", "-v", resource, "--", "echo", "ran", NULL);
        ck_assert(program_says(program, "first attempt"));
        uint64_t began = test_now_ns();
        program_signal(program, SIGINT);
        program_exits(program, -SIGINT);
        uint64_t took = test_now_ns() - began;
        least_ns = took < least_ns ? took : least_ns;
        ck_assert_str_eq(program_output(program), "");
    }
    ck_assert_msg(least_ns <= 100000000, "%.1f ms", (double)least_ns / 1e6);
    release_by_another(); /* each test's teardown checks that no other key is left */
}
END_TEST

START_TEST(killed_while_waiting_it_leaves_nothing)
{
    hold_by_another();
    struct program *program = program_start(&scene_on_nodes, "run", "-v", resource, "--", "echo", "ran", NULL);
    ck_assert(program_says(program, "first attempt"));
    program_signal(program, SIGKILL);
    program_exits(program, -SIGKILL);
    release_by_another();
    ck_assert(real_nothing_left(NULL));
    ck_assert_str_eq(program_output(program), "");
}
END_TEST

/* --- Waiting and competition --- */

START_TEST(it_waits_for_its_turn)
{
    hold_by_another();
    struct program *program = program_start(&scene_on_nodes, "run", "-v", resource, "--", "echo", "ran", NULL);
    ck_assert(program_says(program, "first attempt"));
    ck_assert_str_eq(program_output(program), "");
    release_by_another();
    program_exits(program, 0);
    ck_assert_str_eq(program_output(program), "ran\n");
}
END_TEST

START_TEST(not_on_a_terminal_it_waits_without_a_word)
{
    hold_by_another();
    struct program *program = program_run(&scene_on_nodes, "run", "--wait", "1500ms", resource, "--", "true", NULL);
    program_exits(program, NOT_OBTAINED);
    program_says_in_one_line(program, "not acquired");
    release_by_another();
}
END_TEST

/* The command itself detects whether another host works at the same time. */
START_TEST(of_several_hosts_one_works_at_a_time)
{
    enum { HOSTS = 4 };
    char *loop =
        fixture_text("for i in 1 2 3 4 5; do %s run %s -- sh -c 'mkdir \"$0\" || exit 99; sleep 0.01; rmdir \"$0\"' "
                     "/tmp/redlock-test-%d || exit $?; done",
                     program_redlock, resource, (int)getpid());
    char *argv[] = {fixture_text("sh"), fixture_text("-c"), loop, NULL};
    struct program *host[HOSTS];

    for (size_t i = 0; i < HOSTS; i++)
        host[i] = program_start_argv(&scene_on_nodes, argv);
    for (size_t i = 0; i < HOSTS; i++)
        program_exits(host[i], 0);
    for (size_t i = 0; i < 3; i++)
        free(argv[i]);
}
END_TEST

/* --- Processes that CMD leaves behind --- */

static bool group_is_gone(void *arg)
{
    return kill(-*(pid_t *)arg, 0) != 0;
}

static bool shown_by_a_majority(void)
{
    size_t shown = 0;

    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        shown += deployment_integer(real_nodes, i, "EXISTS", resource, NULL) == 1;
    return shown >= MAJORITY;
}

START_TEST(what_its_command_leaves_behind_ends_before_the_lock_does)
{
    struct program *program = run_shell("sleep 60 & echo $$; exit 0");

    program_exits(program, 0);
    pid_t group = (pid_t)atoi(program_output(program));
    ck_assert_int_gt(group, 1);
    ck_assert(group_is_gone(&group));
}
END_TEST

START_TEST(the_lock_is_kept_until_they_have_ended)
{
    struct program *program = program_start(&scene_on_nodes, "run", "--grace", "400ms", resource, "--", "sh", "-c",
                                            "(trap '' TERM; while :; do sleep 0.02; done) & echo $$; exit 0", NULL);

    ck_assert(program_says(program, "\n"));
    pid_t group = (pid_t)atoi(program_output(program));
    uint64_t deadline = test_deadline_ns(PROGRAM_SOON_MS);
    while (!group_is_gone(&group)) {
        ck_assert(test_now_ns() < deadline);
        bool held = shown_by_a_majority();
        ck_assert_msg(held || group_is_gone(&group), "processes work on without the lock");
    }
    program_exits(program, 0);
}
END_TEST

/* Each starts the script $0 outside CMD's process group. $1 is redlock. */
static const char *const escapes[] = {
    "timeout 60 sh -c \"$0\"",           "bash -c 'set -m; sh -c \"$0\" & wait' \"$0\"", "setsid --wait sh -c \"$0\"",
    "(setsid sh -c \"$0\" &); sleep 60", "\"$1\" run test:inner -- sh -c \"$0\"",
};
enum { ESCAPES = sizeof(escapes) / sizeof(escapes[0]) };
static const char stubborn[] = "trap '' TERM; echo pid=$$; for i in $(seq 1000); do sleep 0.02; done";

static pid_t pid_told(struct program *program)
{
    int pid;

    ck_assert(program_says(program, "\n"));
    ck_assert_int_eq(sscanf(program_output(program), "pid=%d", &pid), 1);
    return (pid_t)pid;
}

static bool process_is_gone(pid_t pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

START_TEST(a_process_that_left_the_group_ends_with_the_lock)
{
    struct program *program = program_start(&scene_on_nodes, "run", SHORT_TTL, resource, "--", "sh", "-c", escapes[_i],
                                            stubborn, program_redlock, NULL);
    pid_t escaped = pid_told(program);

    release_by_another(); /* the outer lock: the nodes no longer have it */
    program_exits(program, LOST);
    ck_assert(process_is_gone(escaped));
    ck_assert(real_nothing_left(NULL)); /* the inner lock ends with its ttl */
}
END_TEST

START_TEST(a_process_that_left_the_session_is_ended_when_its_command_ends)
{
    static const char script[] = "read line < <(setsid sh -c \"$0\"); echo \"$line\"; exit 3";
    struct program *program =
        program_start(&scene_on_nodes, "run", "--grace", "400ms", resource, "--", "bash", "-c", script, stubborn, NULL);
    pid_t escaped = pid_told(program);

    program_exits(program, 3);
    ck_assert(process_is_gone(escaped));
}
END_TEST

/* A child of the shell that executes redlock. */
START_TEST(a_child_that_is_not_redlocks_lives_on)
{
    char *line =
        fixture_text("sleep 60 & echo pid=$!; exec %s run %s -- sh -c 'sleep 60 & exit 3'", program_redlock, resource);
    char *argv[] = {fixture_text("sh"), fixture_text("-c"), line, NULL};
    struct program *program = program_start_argv(&scene_on_nodes, argv);
    pid_t other = pid_told(program);

    program_exits(program, 3);
    ck_assert_int_eq(kill(other, SIGKILL), 0);
    for (size_t i = 0; i < 3; i++)
        free(argv[i]);
}
END_TEST

/* --- Processes of redlock run --- */

/* Sets of processes. The ones that remain end CMD as if the lock could not be renewed. */
static const unsigned victims[] = {1U << PROGRAM_FRONT,
                                   1U << PROGRAM_WATCHDOG,
                                   1U << PROGRAM_HOLDER,
                                   1U << PROGRAM_FRONT | 1U << PROGRAM_WATCHDOG,
                                   1U << PROGRAM_FRONT | 1U << PROGRAM_HOLDER,
                                   1U << PROGRAM_WATCHDOG | 1U << PROGRAM_HOLDER};
enum { VICTIMS = sizeof(victims) / sizeof(victims[0]) };

static void kill_processes(const struct program *program, unsigned set)
{
    pid_t process[PROGRAM_PROCESSES];

    for (unsigned i = PROGRAM_FRONT; i < PROGRAM_PROCESSES; i++)
        process[i] = program_process(program, (enum program_process)i);
    for (unsigned i = PROGRAM_FRONT; i < PROGRAM_PROCESSES; i++)
        if (set & 1U << i)
            ck_assert_int_eq(kill(process[i], SIGKILL), 0);
}

static bool pid_is_gone(void *pid)
{
    return process_is_gone(*(pid_t *)pid);
}

/* The command needs a while to end, on a busy machine much longer, and leaves a process that does not end by itself. */
START_TEST(when_redlock_is_killed_its_command_has_the_grace)
{
    struct program *program = program_start(&scene_on_nodes, "run", "--ttl", "5s", "--grace", "2s", "--timeout",
                                            "500ms", resource, "--", "sh", "-c",
                                            "trap 'sleep 0.2; echo told; exit 0' TERM; setsid sh -c \"$0\" & "
                                            "while :; do sleep 0.02; done",
                                            stubborn, NULL);
    pid_t escaped = pid_told(program);

    kill_processes(program, victims[_i]);
    program_exits(program, victims[_i] & 1U << PROGRAM_FRONT ? -SIGKILL : LOST);
    ck_assert(wait_until(pid_is_gone, &escaped, PROGRAM_SOON_MS));
    ck_assert_ptr_nonnull(strstr(program_output(program), "told\n"));
    ck_assert(real_nothing_left(NULL));
}
END_TEST

/* pkill(1) searches the command line (-f), or the name, for a text. */
START_TEST(the_watchdog_is_not_killed_by_redlocks_name)
{
    static const char *const files[] = {"cmdline", "comm"};
    struct program *program = run_shell("echo in; exec sleep 60");

    ck_assert(program_says(program, "in"));
    for (size_t i = 0; i < 2; i++) {
        char text[256] = "";
        char *path = fixture_text("/proc/%d/%s", (int)program_process(program, PROGRAM_WATCHDOG), files[i]);
        FILE *file = fopen(path, "re");
        ck_assert_ptr_nonnull(file);
        ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, file), 0);
        fclose(file);
        free(path);
        ck_assert_int_eq(strncmp(text, "lock-watchdog", 13), 0);
        for (size_t j = 14; j < sizeof(text); j++)
            ck_assert_int_eq(text[j], 0);
    }
    program_signal(program, SIGTERM);
    program_exits(program, 128 + SIGTERM);
}
END_TEST

START_TEST(when_a_process_of_redlock_is_killed_while_it_waits_nothing_runs)
{
    enum program_process victim = _i == 0 ? PROGRAM_WATCHDOG : PROGRAM_HOLDER;

    hold_by_another();
    struct program *program = program_start(&scene_on_nodes, "run", "-v", resource, "--", "echo", "ran", NULL);
    ck_assert(program_says(program, "first attempt"));
    kill_processes(program, 1U << victim);
    program_exits(program, 71);
    ck_assert_ptr_nonnull(strstr(program_errors(program), "was killed by signal 9"));
    release_by_another();
    ck_assert_str_eq(program_output(program), "");
}
END_TEST

/* CMD writes the PIDs of the holder and of CMD's child. */
static const char family[] = "sleep 30 & echo $PPID $!; trap 'exit 5' USR1; while :; do sleep 0.02; done";

static void read_family(struct program *program, pid_t *holder, pid_t *child)
{
    int numbers[2];

    ck_assert(program_says(program, "\n"));
    ck_assert_int_eq(sscanf(program_output(program), "%d %d", &numbers[0], &numbers[1]), 2);
    *holder = (pid_t)numbers[0];
    *child = (pid_t)numbers[1];
}

/* Limits the link of these two processes to few messages, as if each sent many, by changing the holder's socket from
 * outside. */
static void narrow_link(pid_t holder)
{
    int process = (int)syscall(SYS_pidfd_open, holder, 0);
    int type = 0;
    int least = 1;

    ck_assert_int_ge(process, 0);
    for (int number = 3; number < 32; number++) {
        int copy = (int)syscall(SYS_pidfd_getfd, process, number, 0);
        socklen_t size = sizeof(type);
        if (copy >= 0 && getsockopt(copy, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET)
            ck_assert_int_eq(setsockopt(copy, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
        if (copy >= 0)
            close(copy);
    }
    close(process);
}

struct renewals {
    long long left_ms; /* at the last check */
    unsigned seen;
};

/* The remaining ttl of the key increases with each renewal. */
static bool is_renewed_often(void *arg)
{
    enum { OFTEN = 12 }; /* the limited link holds eight messages */
    struct renewals *renewals = arg;
    long long left_ms = deployment_integer(real_nodes, 0, "PTTL", resource, NULL);

    renewals->seen += left_ms > renewals->left_ms;
    renewals->left_ms = left_ms;
    return renewals->seen >= OFTEN;
}

/* As after a long Ctrl-Z: meanwhile more ends of validity pass than the link holds messages. */
START_TEST(stopped_for_long_it_knows_how_long_the_lock_is_valid)
{
    struct program *program = program_start(&scene_on_nodes, "run", "--ttl", "2s", "--grace", "0", "--timeout", "300ms",
                                            resource, "--", "sh", "-c", family, NULL);
    pid_t holder, child;

    read_family(program, &holder, &child);
    narrow_link(holder);
    program_signal(program, SIGSTOP);
    ck_assert(wait_until(is_renewed_often, &(struct renewals){0}, PROGRAM_SOON_MS));
    program_signal(program, SIGCONT);
    program_signal(program, SIGUSR1);
    program_exits(program, 5);
}
END_TEST

static bool is_gone(void *arg)
{
    const pid_t *process = arg;

    return kill(*process, 0) != 0;
}

START_TEST(that_nobody_reads_its_errors_does_not_keep_it_from_ending_the_group)
{
    char *line = fixture_text("{ %s run %s -- sh -c \"$0\" 2>&1 >&3 3>&- | true; } 3>&1", program_redlock, resource);
    char *argv[] = {fixture_text("sh"), fixture_text("-c"), line, fixture_text("%s", family), NULL};
    struct program *program = program_start_argv(&scene_on_nodes, argv);
    pid_t holder, child;

    read_family(program, &holder, &child);
    ck_assert_int_eq(kill(holder, SIGKILL), 0);
    ck_assert(wait_until(is_gone, &child, REAL_SOON_MS));
    program_exits(program, 0);          /* the exit status of true(1) */
    ck_assert(real_nothing_left(NULL)); /* after its ttl */
    for (size_t i = 0; i < 4; i++)
        free(argv[i]);
}
END_TEST

struct forking {
    pid_t parent, child;
};

/* ptrace(2) stops both processes at the fork. */
static bool has_forked(void *arg)
{
    struct forking *forking = arg;
    unsigned long child;
    int status;

    if (waitpid(forking->parent, &status, __WALL | WNOHANG) != forking->parent)
        return false;
    ck_assert_int_eq(status >> 8, SIGTRAP | PTRACE_EVENT_FORK << 8);
    ck_assert_int_eq(ptrace(PTRACE_GETEVENTMSG, forking->parent, NULL, &child), 0);
    forking->child = (pid_t)child;
    return true;
}

static void let_child_go_on(const struct forking *forking)
{
    ck_assert_int_eq(waitpid(forking->child, NULL, __WALL), forking->child);
    ck_assert_int_eq(ptrace(PTRACE_DETACH, forking->child, NULL, NULL), 0);
}

static void kill_parent(const struct forking *forking)
{
    kill(forking->parent, SIGKILL);
    ck_assert_int_eq(waitpid(forking->parent, NULL, __WALL), forking->parent);
}

static bool tells_a_number(void *program)
{
    return strchr(program_output(program), '\n') != NULL;
}

/* The holder is killed right after its fork, and CMD is faster. Processes that CMD has started before are ended all
 * the same. */
START_TEST(killed_as_its_command_begins_the_holder_is_missed)
{
    hold_by_another();
    struct program *program =
        program_start(&scene_on_nodes, "run", "-v", resource, "--", "sh", "-c", "sleep 30 & echo $!; wait", NULL);
    pid_t left;

    ck_assert(program_says(program, "first attempt"));
    struct forking forking = {.parent = program_process(program, PROGRAM_HOLDER)};
    ck_assert_int_eq(ptrace(PTRACE_SEIZE, forking.parent, NULL, PTRACE_O_TRACEFORK), 0);
    release_by_another();
    ck_assert(wait_until(has_forked, &forking, PROGRAM_SOON_MS));
    let_child_go_on(&forking);
    ck_assert(wait_until(tells_a_number, program, PROGRAM_SOON_MS));
    ck_assert_int_eq(sscanf(program_output(program), "%d", &left), 1);
    kill_parent(&forking);
    program_exits(program, LOST);
    ck_assert(wait_until(is_gone, &left, PROGRAM_SOON_MS));
    release_by_another();
}
END_TEST

/* --- Failing nodes --- */

static bool is_held_everywhere(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        if (deployment_integer(real_nodes, i, "EXISTS", resource, NULL) != 1)
            return false;
    return true;
}

/* A node that was still connecting gets the lock only with the next renewal. */
static void await_command(struct program *program)
{
    ck_assert(program_says(program, "ready"));
    ck_assert(wait_until(is_held_everywhere, NULL, REAL_SOON_MS));
}

START_TEST(a_minority_that_fails_does_not_matter)
{
    struct program *program = program_start(&scene_on_nodes, "run", SHORT_TTL, resource, "--", "sh", "-c",
                                            "echo ready; sleep 3; echo done", NULL);

    await_command(program);
    deployment_stop(real_nodes, 0);
    deployment_stop(real_nodes, 1);
    program_exits(program, 0);
    ck_assert_str_eq(program_output(program), "ready\ndone\n");
}
END_TEST

static void stop_node(size_t node)
{
    deployment_stop(real_nodes, node);
}

static void delete_key(size_t node)
{
    real_delete(node, resource);
}

static const struct {
    void (*strike)(size_t node);
    const char *says;
} losses[] = {
    {stop_node, "renewal failed"},
    {delete_key, "a majority of the nodes no longer has it"},
};

START_TEST(a_lost_lock_ends_its_command)
{
    struct program *program =
        program_start(&scene_on_nodes, "run", SHORT_TTL, resource, "--", "sh", "-c",
                      "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.02; done", NULL);

    await_command(program);
    for (size_t i = 0; i < MAJORITY; i++)
        losses[_i].strike(i);
    program_exits(program, LOST);
    ck_assert_str_eq(program_output(program), "ready\ntold\n");
    ck_assert_ptr_nonnull(strstr(program_errors(program), losses[_i].says));
}
END_TEST

START_TEST(a_cap_ends_its_command)
{
    struct program *program =
        program_run(&scene_on_nodes, "run", SHORT_TTL, "--cap", "2s", resource, "--", "sleep", "60", NULL);

    program_exits(program, LOST);
}
END_TEST

/* --- Names, times --- */

START_TEST(any_bytes_are_a_name)
{
    struct program *program = program_run(&scene_on_nodes, "run", real_key(" \n\x01\xff'$(date)"), "--", "printenv",
                                          "REDLOCK_RESOURCE", NULL);

    program_exits(program, 0);
    ck_assert_str_eq(program_output(program), real_key(" \n\x01\xff'$(date)") "\n");
}
END_TEST

static char too_long[515];
static const struct {
    const char *words[10];
    const char *says;
} refused[] = {
    {{"run"}, "a resource is needed"},
    {{"run", "x"}, "the command must follow --"},
    {{"run", "x", "true"}, "the command must follow --"},
    {{"run", "x", "--"}, "there is no command after --"},
    {{"run", "", "--", "true"}, "has 0 bytes"},
    {{"run", too_long, "--", "true"}, "has 513 bytes"},
    {{"run", "--wait", "5x", "x", "--", "true"}, "--wait '5x' is not a duration"},
    {{"run", "--wait", "-1s", "x", "--", "true"}, "--wait '-1s' is not a duration"},
    {{"run", "--wait", "1s", "-n", "x", "--", "true"}, "contradict"},
    {{"run", "--ttl", "2s", "--grace", "1s", "x", "--", "true"}, "2 x grace + 1 s"},
    {{"run", "--ttl", "500ms", "x", "--", "true"}, "2 x grace + 1 s"},
    {{"run", "--ttl", "60s", "x", "--", "true"}, "max-ttl"},
    {{"run", "--cap", "1s", "x", "--", "true"}, "--cap must be at least the ttl"},
    {{"run", "-E", "256", "x", "--", "true"}, "'256' is not a number from 0 to 255"},
    {{"run", "--nodes", "redis://me:secret@127.0.0.1:1", "x", "--", "true"}, "--nodes contains a password"},
    {{"run", "--nodes", "redis://me:sec/ret@127.0.0.1:1", "x", "--", "true"}, "--nodes contains a password"},
};
enum { REFUSED = sizeof(refused) / sizeof(refused[0]) };

START_TEST(what_does_not_make_sense_is_refused)
{
    char *argv[12] = {fixture_text("%s", program_redlock)};
    size_t count = 1;

    memset(too_long, 'x', 513);
    for (size_t i = 0; refused[_i].words[i] != NULL; i++)
        argv[count++] = fixture_text("%s", refused[_i].words[i]);
    struct program *program = program_start_argv(&scene_on_nodes, argv);
    program_exits(program, USAGE);
    program_says_in_one_line(program, refused[_i].says);
    while (count > 0)
        free(argv[--count]);
}
END_TEST

static Suite *run_suite(void)
{
    Suite *suite = suite_create("cli_run");
    TCase *usual = patient(scene_shared_case(suite, "usual"));
    TCase *faults = scene_shared_case(suite, "faults");
    TCase *access = scene_bare_case(suite, "access");

    tcase_add_test(usual, it_exits_as_its_command_does);
    tcase_add_test(usual, a_command_that_cannot_be_run_is_told_in_a_line);
    tcase_add_test(usual, a_lock_that_is_held_is_not_obtained);
    tcase_add_test(usual, a_wait_shorter_than_a_second_is_enough_behind_a_foreign_holder);
    tcase_add_test(usual, nodes_that_cannot_be_reached_are_no_quorum);
    tcase_add_test(usual, its_command_knows_the_lock);
    tcase_add_test(usual, with_fence_it_knows_a_token_that_grows);
    tcase_add_test(usual, several_resources_are_held_or_none);
    tcase_add_test(usual, readers_run_together);
    tcase_add_test(usual, as_many_run_as_there_are_permits);
    tcase_add_test(usual, each_round_is_explained_node_by_node);
    tcase_add_test(usual, its_command_has_signals_and_descriptors_as_usual);
    tcase_add_test(usual, its_command_has_a_process_group_of_its_own);
    tcase_add_test(usual, pipes_go_through);
    tcase_add_loop_test(usual, signals_are_forwarded, 0, FORWARDED);
    tcase_add_test(usual, without_word_of_its_children_it_still_learns_of_them);
    tcase_add_test(usual, what_is_ignored_does_not_end_the_waiting);
    tcase_add_test(usual, interrupted_while_waiting_it_is_gone_at_once);
    tcase_add_test(usual, killed_while_waiting_it_leaves_nothing);
    tcase_add_test(usual, it_waits_for_its_turn);
    tcase_add_test(usual, not_on_a_terminal_it_waits_without_a_word);
    tcase_add_test(usual, of_several_hosts_one_works_at_a_time);
    tcase_add_test(usual, what_its_command_leaves_behind_ends_before_the_lock_does);
    tcase_add_test(usual, the_lock_is_kept_until_they_have_ended);
    tcase_add_loop_test(usual, a_process_that_left_the_group_ends_with_the_lock, 0, ESCAPES);
    tcase_add_test(usual, a_process_that_left_the_session_is_ended_when_its_command_ends);
    tcase_add_test(usual, a_child_that_is_not_redlocks_lives_on);
    tcase_add_loop_test(usual, when_redlock_is_killed_its_command_has_the_grace, 0, VICTIMS);
    tcase_add_test(usual, the_watchdog_is_not_killed_by_redlocks_name);
    tcase_add_loop_test(usual, when_a_process_of_redlock_is_killed_while_it_waits_nothing_runs, 0, 2);
    tcase_add_test(usual, stopped_for_long_it_knows_how_long_the_lock_is_valid);
    tcase_add_test(usual, that_nobody_reads_its_errors_does_not_keep_it_from_ending_the_group);
    tcase_add_test(usual, killed_as_its_command_begins_the_holder_is_missed);
    tcase_add_test(usual, any_bytes_are_a_name);
    tcase_add_loop_test(usual, what_does_not_make_sense_is_refused, 0, REFUSED);
    tcase_add_test(faults, a_minority_that_fails_does_not_matter);
    tcase_add_loop_test(faults, a_lost_lock_ends_its_command, 0, sizeof losses / sizeof losses[0]);
    tcase_add_test(faults, a_cap_ends_its_command);
    tcase_add_test(access, a_wrong_password_is_misconfigured);
    if (server_program_has(SERVER_ACL))
        tcase_add_loop_test(access, missing_right_is_misconfigured_and_ends_the_wait, 0, MISSING);
    return suite;
}

int main(void)
{
    patience_begin();
    return real_run(run_suite(), true);
}
