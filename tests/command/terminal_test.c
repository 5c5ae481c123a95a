/* redlock run on a terminal: the foreground, Ctrl-C, Ctrl-Z and fg under a shell, and the line that it shows while
 * it waits. */
#include "scene.h"

#include "support/clock.h"
#include "support/process.h"

#include <signal.h>
#include <time.h>

#define NAME real_key("terminal")

static void use_terminal(void)
{
    program_setting.terminal = true;
}

static struct program *start(const char *script)
{
    return program_start("run " NAME " -- sh -c '%s'", script);
}

/* An interactive shell with job control. The terminal echoes the typed text, so that must not contain the text that
 * the test searches in the output: hence be""gun. */
static struct program *start_shell(void)
{
    struct program *shell = program_shell("PS1='shell$ ' ENV= exec sh -i");
    program_shows(shell, "shell$ ");
    return shell;
}

static void type_run(struct program *shell, const char *script, const char *then)
{
    program_type(shell, program_text("%s run --ttl 5s --grace 100ms --timeout 500ms " NAME " -- sh -c '%s'%s\n",
                                     program_redlock(), script, then));
}

/* Continues the job, which reads a line. */
static void goes_on_and_ends(struct program *shell)
{
    program_type(shell, "fg\n");
    program_type(shell, "hello\n");
    program_shows(shell, "line=hello");
    ck_assert(real_nothing_left(NULL));
}

/* --- Foreground --- */

REAL_CASE(terminal, scene_shared_nodes, use_terminal);

TEST(terminal, its_command_has_the_foreground)
{
    struct program *program = start("echo group=$$; read line; echo \"line=$line\"");
    pid_t group = program_number(program, "group=");
    ck_assert_int_eq(program_foreground(program), group);
    program_type(program, "hello\n");
    program_exits(program, 0);
    program_output_has(program, "line=hello");
}

/* A script without job control does not take the foreground back itself, so it could no longer read. */
TEST(terminal, a_command_that_cannot_be_run_gives_the_foreground_back)
{
    struct program *program = program_shell("$R run " NAME " -- /nonexistent/program; read line; echo \"line=$line\"");
    program_shows(program, "No such file");
    program_type(program, "hello\n");
    program_exits(program, 0);
    program_shows(program, "line=hello");
}

/* If its command handles the interrupt, that is up to it. */
TEST_ROWS(terminal, an_interrupt_ends_both_and_the_lock, 2)
{
    static const char *const scripts[] = {"echo ready; exec sleep 60",
                                          "trap \"exit 5\" INT; echo ready; while :; do sleep 0.02; done"};
    struct program *program = start(scripts[_i]);
    program_shows(program, "ready");
    program_type(program, "\x03");
    program_exits(program, _i == 0 ? -SIGINT : 5);
    ck_assert(real_nothing_left(NULL));
}

TEST(terminal, an_interrupt_stops_the_shells_loop_too)
{
    struct program *shell = start_shell();
    program_type(shell, "for i in 1 2 3; do echo round $i; ");
    type_run(shell, "echo be\"\"gun; exec sleep 60", "; done; echo loop=$?");
    program_shows(shell, "begun");
    program_type(shell, "\x03");
    ck_assert(real_nothing_left(NULL));
    program_type(shell, "echo af''ter\n");
    program_shows(shell, "after");
    ck_assert_ptr_null(strstr(program_output(shell), "round 2"));
}

/* In a pipeline the command gets the foreground only when it reads the terminal. */
static const struct {
    const char *script, *then;
} pipelines[] = {
    {"while echo x; do sleep 0.02; done", " | sh -c 'read x; echo re\"\"ady; read line </dev/tty; echo line=$line'"},
    {"echo re\"\"ady >&2; read line </dev/tty; echo line=$line", " | cat"},
};

TEST_ROWS(terminal, each_program_of_a_pipeline_can_read_the_terminal, ROWS(pipelines))
{
    struct program *shell = start_shell();
    type_run(shell, pipelines[_i].script, pipelines[_i].then);
    program_shows(shell, "ready");
    program_type(shell, "hello\n");
    program_shows(shell, "line=hello");
    ck_assert(real_nothing_left(NULL));
}

/* --- Jobs --- */

TEST(terminal, a_job_may_be_stopped_and_continued_many_times_and_keeps_its_lock)
{
    struct program *shell = start_shell();
    type_run(shell, "echo be\"\"gun; while read line; do echo \"line=$line\"; done", "");
    program_shows(shell, "begun");
    for (unsigned i = 1; i <= 5; i++) {
        unsigned before = program_count(shell, "Stopped");
        program_type(shell, "\x1a");
        ck_assert(program_says_again(shell, "Stopped", before));
        program_type(shell, program_text("echo me''anwhile %u\n", i));
        program_shows(shell, program_text("meanwhile %u", i));
        if (i == 1)
            scene_await_renewals(NAME, 2);
        program_type(shell, program_text("fg\nround %u\n", i));
        program_shows(shell, program_text("line=round %u", i));
    }
    program_type(shell, "\x04");
    ck_assert(real_nothing_left(NULL));
}

/* The command is stopped by a process that knows its PID. There may be no shell that would continue the job. */
TEST(terminal, a_command_that_is_stopped_and_continued_by_itself_goes_on)
{
    struct program *program = start("echo pid=$$; while read line; do echo \"line=$line\"; done");
    pid_t command = program_number(program, "pid=");
    for (unsigned i = 1; i <= 5; i++) {
        kill(command, SIGSTOP);
        ck_assert(wait_until(program_is_stopped, program, PROGRAM_SOON_MS));
        kill(command, SIGCONT);
        program_type(program, program_text("round %u\n", i));
        program_shows(program, program_text("line=round %u", i));
    }
    program_type(program, "\x04");
    program_exits(program, 0);
}

TEST(terminal, a_command_that_is_killed_while_it_is_stopped_ends_the_job)
{
    struct program *program = start("echo pid=$$; read line");
    pid_t command = program_number(program, "pid=");
    kill(command, SIGSTOP);
    ck_assert(wait_until(program_is_stopped, program, PROGRAM_SOON_MS));
    kill(command, SIGKILL);
    program_exits(program, 128 + SIGKILL);
    ck_assert(real_nothing_left(NULL));
}

TEST(terminal, a_command_that_is_stopped_by_itself_is_a_stopped_job)
{
    struct program *shell = start_shell();
    type_run(shell, "echo p\"\"id=$$.; read line; echo \"line=$line\"", "");
    kill(program_number(shell, "pid="), SIGSTOP);
    program_shows(shell, "Stopped");
    goes_on_and_ends(shell);
}

static bool is_running(void *arg)
{
    return !process_stopped(&(struct process){.pid = *(pid_t *)arg});
}

/* The second signal may overtake the effect of the first one. The shell may have taken the terminal. The pause between
 * the signals, longer in each round, is the subject. */
TEST(terminal, a_command_that_is_stopped_and_continued_at_once_is_no_stopped_job)
{
    enum { ROUNDS = 60, LONGER_NS = 15000 };
    struct program *shell = start_shell();
    type_run(shell, "echo p\"\"id=$$.; exec sleep 60", "");
    pid_t command = program_number(shell, "pid=");
    pid_t front = program_child(program_pid(shell));
    for (long i = 0; i < ROUNDS; i++) {
        kill(command, SIGTSTP);
        nanosleep(&(struct timespec){.tv_nsec = i * LONGER_NS}, NULL);
        kill(command, SIGCONT);
        ck_assert_msg(wait_until(is_running, &front, REAL_SOON_MS), "round %ld", i);
    }
    kill(command, SIGKILL);
    ck_assert(real_nothing_left(NULL));
}

TEST(terminal, a_job_in_the_background_does_not_take_the_terminal)
{
    struct program *shell = start_shell();
    type_run(shell, "echo be\"\"gun; read line; echo \"line=$line\"", " &");
    program_shows(shell, "begun");
    program_type(shell, "echo mi''ne\n");
    program_shows(shell, "mine");
    goes_on_and_ends(shell);
}

static bool has_foreground(void *shell)
{
    return program_foreground(shell) == program_child(program_pid(shell)); /* redlock leads the job's group */
}

/* bash(1) sends no SIGCONT to such a job, so redlock learns of its foreground by the key. */
static const struct {
    const char *key, *shows;
} keys[] = {{"\x1a", "Stopped"}, {"\x03", "after"}};

TEST_ROWS(terminal, a_job_that_is_brought_to_the_foreground_while_it_runs_gets_the_terminals_keys, ROWS(keys))
{
    struct program *shell = program_shell("PS1='shell$ ' exec bash --norc --noediting -i");
    program_shows(shell, "shell$ ");
    /* Not a loop: a shell whose child is stopped between vfork(2) and exec(2) can never be stopped itself. */
    type_run(shell, "echo be\"\"gun; exec sleep 60", " &");
    program_shows(shell, "begun");
    program_type(shell, "fg; echo st''atus=$?\n");
    ck_assert(wait_until(has_foreground, shell, PROGRAM_SOON_MS));
    program_type(shell, keys[_i].key);
    if (_i == 1)
        ck_assert(real_nothing_left(NULL));
    program_type(shell, "echo af''ter\n");
    program_shows(shell, keys[_i].shows);
    program_shows(shell, "after");
    if (_i == 1) /* the interrupt has ended the shell's line, too */
        ck_assert_ptr_null(strstr(program_output(shell), "status="));
    else
        program_type(shell, "kill %1; fg\n");
    ck_assert(real_nothing_left(NULL));
}

TEST(terminal, the_end_of_the_terminal_ends_its_command)
{
    struct program *shell = start_shell();
    type_run(shell, "echo be\"\"gun=$$; exec sleep 60", "");
    program_shows(shell, "begun=");
    ck_assert_uint_gt(deployment_keys_left(real_nodes), 0);
    program_hang_up(shell);
    ck_assert(real_nothing_left(NULL));
}

/* --- Waiting --- */

TEST(terminal, a_line_shows_what_it_waits_for)
{
    scene_hold(NAME);
    struct program *program = start("echo ran");
    program_shows(program, "held on 5 of 5 nodes");
    program_shows(program, "no limit");
    scene_delete(NAME);
    program_exits(program, 0);
    /* The line is removed before the command begins. */
    const char *output = program_output(program);
    ck_assert_msg(strstr(output, "\r\033[Kredlock run: '" NAME "' acquired after ") || strstr(output, "\r\033[Kran"),
                  "%s", output);
}

/* Ctrl-Z stops redlock run while it waits for a lock that another client holds. */
static struct program *shell_with_stopped_wait(void)
{
    scene_hold(NAME);
    struct program *shell = start_shell();
    type_run(shell, "echo did\\ run", "");
    program_shows(shell, "held on 5 of 5 nodes");
    program_type(shell, "\x1a");
    program_shows(shell, "Stopped");
    return shell;
}

TEST(terminal, a_wait_can_be_stopped_and_interrupted)
{
    struct program *shell = shell_with_stopped_wait();
    unsigned before = program_count(shell, "held on 5 of 5 nodes");
    program_type(shell, "fg\n");
    ck_assert(
        program_says_again(shell, "held on 5 of 5 nodes", before)); /* an interrupt discards the input before it */
    program_type(shell, "\x03");
    program_type(shell, "echo af''ter\n");
    program_shows(shell, "after");
    scene_delete(NAME);
    ck_assert_ptr_null(strstr(program_output(shell), "did run"));
}

TEST(terminal, a_wait_that_is_killed_while_it_is_stopped_leaves_no_process)
{
    struct program *shell = shell_with_stopped_wait();
    pid_t front = program_child(program_pid(shell)), holder = program_child(front);
    ck_assert_int_gt(holder, 0);
    ck_assert_int_eq(kill(front, SIGKILL), 0);
    ck_assert(program_soon_gone(holder));
    scene_delete(NAME);
}

REAL_PROGRAM("cli_terminal")
