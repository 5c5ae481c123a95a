/* redlock run on a terminal, what terminal.txt cannot say. */
#include "story.h"

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

REAL_CASE(terminal, scene_shared_nodes, use_terminal);

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

STORY_PROGRAM("terminal")
