/* redlock run on a terminal: the foreground, Ctrl-C, Ctrl-Z and fg under a shell, and the line that it shows while
 * it waits. */
#define _GNU_SOURCE
#include "scene.h"

#include "support/clock.h"
#include "support/fixture.h"
#include "support/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TTL_MS = 1500 };

static const char resource[] = real_key("terminal");

#define shows(program, text)                                                                                           \
    ck_assert_msg(program_says(program, text), "not shown: %s; but: %s", text, program_output(program))

static struct program_options on_terminal(void)
{
    struct program_options options = scene_on_nodes;

    options.terminal = true;
    return options;
}

static pid_t number_shown(struct program *program, const char *label)
{
    shows(program, label);
    return (pid_t)atoi(strstr(program_output(program), label) + strlen(label));
}

static struct program *start(const char *script)
{
    struct program_options options = on_terminal();

    return program_start(&options, "run", resource, "--", "sh", "-c", script, NULL);
}

/* An interactive shell with job control. The terminal echoes the typed text, so that must not contain the text that
 * the test searches in the output: hence be""gun. */
static struct program *start_shell(void)
{
    static const char *const environment[] = {"PS1=shell$ ", "ENV=", NULL};
    struct program_options options = on_terminal();
    char *argv[] = {fixture_text("sh"), fixture_text("-i"), NULL};

    options.environment = environment;
    struct program *shell = program_start_argv(&options, argv);
    shows(shell, "shell$ ");
    for (size_t i = 0; i < 2; i++)
        free(argv[i]);
    return shell;
}

static void type_run(struct program *shell, const char *script, const char *then)
{
    char *line = fixture_text("%s run --ttl 5s --grace 100ms --timeout 500ms %s -- sh -c '%s'%s\n", program_redlock,
                              resource, script, then);

    program_type(shell, line);
    free(line);
}

static bool is_gone(void *unused)
{
    size_t shown = 0;

    (void)unused;
    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        shown += deployment_integer(real_nodes, i, "EXISTS", resource, NULL) == 1;
    return shown <= deployment_size(real_nodes) / 2;
}

static void type_until_it_ends(struct program *shell)
{
    program_type(shell, "exit\n");
    (void)program_wait(shell);
}

/* Continues the job, which reads a line. */
static void goes_on_and_ends(struct program *shell)
{
    program_type(shell, "fg\n");
    program_type(shell, "hello\n");
    shows(shell, "line=hello");
    ck_assert(real_nothing_left(NULL));
}

/* --- Foreground --- */

START_TEST(its_command_has_the_foreground)
{
    struct program *program = start("echo group=$$; read line; echo \"line=$line\"");

    pid_t group = number_shown(program, "group=");
    ck_assert_int_eq(program_foreground(program), group);
    program_type(program, "hello\n");
    program_exits(program, 0);
    ck_assert_ptr_nonnull(strstr(program_output(program), "line=hello"));
}
END_TEST

/* A script without job control does not take the foreground back itself, so it could no longer read. */
START_TEST(a_command_that_cannot_be_run_gives_the_foreground_back)
{
    struct program_options options = on_terminal();
    char *script =
        fixture_text("%s run %s -- /nonexistent/program; read line; echo \"line=$line\"", program_redlock, resource);
    char *argv[] = {fixture_text("sh"), fixture_text("-c"), script, NULL};
    struct program *program = program_start_argv(&options, argv);

    for (size_t i = 0; i < 3; i++)
        free(argv[i]);
    shows(program, "No such file");
    program_type(program, "hello\n");
    program_exits(program, 0);
    shows(program, "line=hello");
}
END_TEST

START_TEST(an_interrupt_ends_both_and_the_lock)
{
    struct program *program = start("echo ready; exec sleep 60");

    shows(program, "ready");
    program_type(program, "\x03");
    program_exits(program, -SIGINT);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

START_TEST(an_interrupt_that_its_command_handles_is_its_own)
{
    struct program *program = start("trap \"echo got; exit 5\" INT; echo ready; while :; do sleep 0.02; done");

    shows(program, "ready");
    program_type(program, "\x03");
    program_exits(program, 5);
    ck_assert_ptr_nonnull(strstr(program_output(program), "got"));
}
END_TEST

START_TEST(an_interrupt_stops_the_shells_loop_too)
{
    struct program *shell = start_shell();

    program_type(shell, "for i in 1 2 3; do echo round $i; ");
    type_run(shell, "echo be\"\"gun; exec sleep 60", "; done; echo loop=$?");
    shows(shell, "begun");
    program_type(shell, "\x03");
    ck_assert(real_nothing_left(NULL));
    program_type(shell, "echo af''ter\n");
    shows(shell, "after");
    ck_assert_ptr_null(strstr(program_output(shell), "round 2"));
    type_until_it_ends(shell);
}
END_TEST

/* --- Jobs --- */

START_TEST(a_stopped_job_keeps_its_lock_and_goes_on)
{
    struct program *shell = start_shell();

    type_run(shell, "echo be\"\"gun; read line; echo \"line=$line\"; exit 4", "; echo status=$?");
    shows(shell, "begun");
    program_type(shell, "\x1a");
    shows(shell, "Stopped");
    program_type(shell, "echo me''anwhile\n");
    shows(shell, "meanwhile");
    ck_assert(!wait_until(is_gone, NULL, 3 * TTL_MS / 2)); /* this test is about time itself: longer than the ttl */
    goes_on_and_ends(shell);
    program_type(shell, "echo ba''ck\n");
    shows(shell, "back");
    type_until_it_ends(shell);
}
END_TEST

START_TEST(a_job_may_be_stopped_and_continued_many_times)
{
    struct program *shell = start_shell();
    char text[32];

    type_run(shell, "echo be\"\"gun; while read line; do echo \"line=$line\"; done", "");
    shows(shell, "begun");
    for (unsigned i = 1; i <= 5; i++) {
        unsigned before = program_count(shell, "Stopped");
        program_type(shell, "\x1a");
        ck_assert(program_says_again(shell, "Stopped", before));
        program_type(shell, "fg\n");
        snprintf(text, sizeof(text), "round %u\n", i);
        program_type(shell, text);
        snprintf(text, sizeof(text), "line=round %u", i);
        shows(shell, text);
    }
    program_type(shell, "\x04");
    ck_assert(real_nothing_left(NULL));
    type_until_it_ends(shell);
}
END_TEST

static bool is_stopped(void *program)
{
    return program_is_stopped(program);
}

/* The command is stopped by a process that knows its PID. There may be no shell that would continue the job. */
START_TEST(a_command_that_is_stopped_and_continued_by_itself_goes_on)
{
    struct program *program = start("echo pid=$$; while read line; do echo \"line=$line\"; done");
    char text[32];

    pid_t command = number_shown(program, "pid=");
    for (unsigned i = 1; i <= 5; i++) {
        kill(command, SIGSTOP);
        ck_assert(wait_until(is_stopped, program, PROGRAM_SOON_MS));
        kill(command, SIGCONT);
        snprintf(text, sizeof(text), "round %u\n", i);
        program_type(program, text);
        snprintf(text, sizeof(text), "line=round %u", i);
        shows(program, text);
    }
    program_type(program, "\x04");
    program_exits(program, 0);
}
END_TEST

START_TEST(a_command_that_is_killed_while_it_is_stopped_ends_the_job)
{
    struct program *program = start("echo pid=$$; read line");

    pid_t command = number_shown(program, "pid=");
    kill(command, SIGSTOP);
    ck_assert(wait_until(is_stopped, program, PROGRAM_SOON_MS));
    kill(command, SIGKILL);
    program_exits(program, 128 + SIGKILL);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

START_TEST(a_command_that_is_stopped_by_itself_is_a_stopped_job)
{
    struct program *shell = start_shell();

    type_run(shell, "echo p\"\"id=$$.; read line; echo \"line=$line\"", "");
    kill(number_shown(shell, "pid="), SIGSTOP);
    shows(shell, "Stopped");
    goes_on_and_ends(shell);
    type_until_it_ends(shell);
}
END_TEST

static bool is_running(void *arg)
{
    return !process_stopped(&(struct process){.pid = *(pid_t *)arg});
}

/* The second signal may overtake the effect of the first one. The shell may have taken the terminal. The pause between
 * the signals, longer in each round, is the subject. */
START_TEST(a_command_that_is_stopped_and_continued_at_once_is_no_stopped_job)
{
    enum { ROUNDS = 60, LONGER_NS = 15000 };
    struct program *shell = start_shell();

    type_run(shell, "echo p\"\"id=$$.; exec sleep 60", "");
    pid_t command = number_shown(shell, "pid=");
    pid_t front = program_child(program_pid(shell));
    for (long i = 0; i < ROUNDS; i++) {
        kill(command, SIGTSTP);
        nanosleep(&(struct timespec){.tv_nsec = i * LONGER_NS}, NULL);
        kill(command, SIGCONT);
        ck_assert_msg(wait_until(is_running, &front, REAL_SOON_MS), "round %ld", i);
    }
    kill(command, SIGKILL);
    ck_assert(real_nothing_left(NULL));
    program_type(shell, "exit\n"); /* a shell that saw the stop but not yet the end refuses; the next `exit` works */
    type_until_it_ends(shell);
}
END_TEST

START_TEST(a_job_in_the_background_does_not_take_the_terminal)
{
    struct program *shell = start_shell();

    type_run(shell, "echo be\"\"gun; read line; echo \"line=$line\"", " &");
    shows(shell, "begun");
    program_type(shell, "echo mi''ne\n");
    shows(shell, "mine");
    goes_on_and_ends(shell);
    type_until_it_ends(shell);
}
END_TEST

START_TEST(the_end_of_the_terminal_ends_its_command)
{
    struct program *shell = start_shell();

    type_run(shell, "echo be\"\"gun=$$; exec sleep 60", "");
    shows(shell, "begun=");
    ck_assert(!is_gone(NULL));
    program_hang_up(shell);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

/* --- Waiting --- */

START_TEST(a_line_shows_what_it_waits_for)
{
    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        ck_assert(real_foreign_set(i, resource, "another"));
    struct program *program = start("echo ran");
    shows(program, "held on 5 of 5 nodes");
    shows(program, "no limit");
    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        real_delete(i, resource);
    program_exits(program, 0);
    /* The line is removed before the command begins. */
    const char *ran = strstr(program_output(program), "ran");
    ck_assert_ptr_nonnull(ran);
    ck_assert_int_eq(strncmp(ran - 4, "\r\033[K", 4), 0);
}
END_TEST

START_TEST(a_wait_can_be_stopped_and_interrupted)
{
    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        ck_assert(real_foreign_set(i, resource, "another"));
    struct program *shell = start_shell();
    type_run(shell, "echo did\\ run", "");
    shows(shell, "held on 5 of 5 nodes");
    program_type(shell, "\x1a");
    shows(shell, "Stopped");
    unsigned before = program_count(shell, "held on 5 of 5 nodes");
    program_type(shell, "fg\n");
    ck_assert(
        program_says_again(shell, "held on 5 of 5 nodes", before)); /* an interrupt discards the input before it */
    program_type(shell, "\x03");
    program_type(shell, "echo af''ter\n");
    shows(shell, "after");
    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        real_delete(i, resource);
    ck_assert_ptr_null(strstr(program_output(shell), "did run"));
    type_until_it_ends(shell);
}
END_TEST

static Suite *terminal_suite(void)
{
    Suite *suite = suite_create("cli_terminal");
    TCase *tcase = scene_shared_case(suite, "terminal");

    tcase_add_test(tcase, its_command_has_the_foreground);
    tcase_add_test(tcase, a_command_that_cannot_be_run_gives_the_foreground_back);
    tcase_add_test(tcase, an_interrupt_ends_both_and_the_lock);
    tcase_add_test(tcase, an_interrupt_that_its_command_handles_is_its_own);
    tcase_add_test(tcase, an_interrupt_stops_the_shells_loop_too);
    tcase_add_test(tcase, a_stopped_job_keeps_its_lock_and_goes_on);
    tcase_add_test(tcase, a_job_may_be_stopped_and_continued_many_times);
    tcase_add_test(tcase, a_command_that_is_stopped_and_continued_by_itself_goes_on);
    tcase_add_test(tcase, a_command_that_is_killed_while_it_is_stopped_ends_the_job);
    tcase_add_test(tcase, a_command_that_is_stopped_by_itself_is_a_stopped_job);
    tcase_add_test(tcase, a_command_that_is_stopped_and_continued_at_once_is_no_stopped_job);
    tcase_add_test(tcase, a_job_in_the_background_does_not_take_the_terminal);
    tcase_add_test(tcase, the_end_of_the_terminal_ends_its_command);
    tcase_add_test(tcase, a_line_shows_what_it_waits_for);
    tcase_add_test(tcase, a_wait_can_be_stopped_and_interrupted);
    return suite;
}

int main(void)
{
    return real_run(terminal_suite(), false);
}
