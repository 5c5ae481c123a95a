/* redlock run --on-lost: a command that runs after the loss of the lock, when no process of CMD is left. */
#define _GNU_SOURCE
#include "patience.h"
#include "scene.h"

#include "support/clock.h"
#include "support/fixture.h"
#include "support/temp_dir.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_OBTAINED = 1, LOST = 75, MAJORITY = 3 };

static const char resource[] = real_key("lost");

#define SHORT_TTL "--ttl", "4s", "--grace", "1s"

/* Prints why; and "alive" if the process of CMD, which ignores SIGTERM, lives. */
static const char report[] =
    "kill -0 $(cat \"$PIDS\") 2>/dev/null && echo alive; echo \"lost: $REDLOCK_LOSS $REDLOCK_RESOURCE\"";
static const char stubborn[] = "echo $$ >\"$PIDS\"; trap '' TERM; echo in; while :; do sleep 0.02; done";
static const char finishing[] = "echo $$ >\"$PIDS\"; trap 'exit 0' USR1; echo in; while :; do sleep 0.02; done";

static char *pids; /* "PIDS=...": a file */

static void delete_keys(struct program *program)
{
    (void)program;
    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        real_delete(i, resource);
}

static void stop_majority(struct program *program)
{
    (void)program;
    for (size_t i = 0; i < MAJORITY; i++)
        deployment_stop(real_nodes, i);
}

static void kill_holder(struct program *program)
{
    ck_assert_int_eq(kill(program_process(program, PROGRAM_HOLDER), SIGKILL), 0);
}

static void kill_watchdog(struct program *program)
{
    ck_assert_int_eq(kill(program_process(program, PROGRAM_WATCHDOG), SIGKILL), 0);
}

/* CMD exits before a renewal finds that the keys are gone: the release finds it. */
static void delete_keys_and_finish(struct program *program)
{
    delete_keys(program);
    program_signal(program, SIGUSR1);
}

static void do_nothing(struct program *program)
{
    (void)program;
}

static const struct {
    void (*end)(struct program *program); /* ends the lock */
    const char *cap;
    const char *script;
    const char *why;
} losses[] = {{delete_keys, "1h", stubborn, "gone"},   {stop_majority, "1h", stubborn, "ended"},
              {kill_holder, "1h", stubborn, "killed"}, {kill_watchdog, "1h", stubborn, "ended"},
              {do_nothing, "5s", stubborn, "ended"},   {delete_keys_and_finish, "1h", finishing, "gone"}};
enum { LOSSES = sizeof(losses) / sizeof(losses[0]) };

static struct program *start(const char *cap, const char *on_lost, const char *script)
{
    static const char *environment[3];
    struct program_options options = scene_on_nodes;

    environment[0] = pids = fixture_text("PIDS=%s/pids", temp_dir_path(temp_dir_make()));
    environment[1] = patience_variable();
    options.environment = environment;
    real_note_descriptors();
    return program_start(&options, "run", SHORT_TTL, "--cap", cap, "--on-lost", on_lost, resource, "--", "sh", "-c",
                         script, NULL);
}

START_TEST(command_runs_after_the_loss_when_no_process_is_left)
{
    struct program *program = start(losses[_i].cap, report, losses[_i].script);
    char *expected = fixture_text("in\nlost: %s %s\n", losses[_i].why, resource);

    ck_assert(program_says(program, "in\n"));
    losses[_i].end(program);
    program_exits(program, LOST);
    ck_assert_str_eq(program_output(program), expected);
    deployment_repair(real_nodes);
    free(expected);
    free(pids);
}
END_TEST

/* CMD's own 75 is no loss. */
START_TEST(command_does_not_run_without_a_loss)
{
    static const int statuses[] = {0, 7, LOST};

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        char *script = fixture_text("exit %d", statuses[i]);
        struct program *program =
            program_run(&scene_on_nodes, "run", "--on-lost", "echo lost", resource, "--", "sh", "-c", script, NULL);
        program_exits(program, statuses[i]);
        ck_assert_str_eq(program_output(program), "");
        free(script);
    }
    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        ck_assert(real_foreign_set(i, resource, "another"));
    struct program *program =
        program_run(&scene_on_nodes, "run", "-n", "--on-lost", "echo lost", resource, "--", "true", NULL);
    program_exits(program, NOT_OBTAINED);
    ck_assert_str_eq(program_output(program), "");
    delete_keys(NULL);
}
END_TEST

START_TEST(failure_of_the_command_is_reported_and_changes_no_exit_status)
{
    struct program *program = start("1h", "exit 3", stubborn);

    ck_assert(program_says(program, "in\n"));
    delete_keys(program);
    program_exits(program, LOST);
    ck_assert_ptr_nonnull(strstr(program_errors(program), "the command of --on-lost failed: exit status 3\n"));
    free(pids);
}
END_TEST

static bool is_gone(void *pid)
{
    return kill(*(pid_t *)pid, 0) != 0 && errno == ESRCH;
}

START_TEST(signal_ends_redlock_and_the_command)
{
    struct program *program = start("1h", "echo pid=$$; exec sleep 60", stubborn);
    int pid = 0;

    ck_assert(program_says(program, "in\n"));
    delete_keys(program);
    ck_assert(program_says(program, "pid="));
    ck_assert(program_says(program, "\npid="));
    ck_assert_int_eq(sscanf(strstr(program_output(program), "pid="), "pid=%d", &pid), 1);
    program_signal(program, SIGTERM);
    program_exits(program, -SIGTERM);
    ck_assert(wait_until(is_gone, &(pid_t){pid}, PROGRAM_SOON_MS));
    free(pids);
}
END_TEST

START_TEST(of_several_resources_the_command_knows_the_one_that_cmd_knew)
{
    struct program *program = program_start(&scene_on_nodes, "run", SHORT_TTL, "--cap", "4s", "--on-lost",
                                            "echo $REDLOCK_RESOURCE", real_key("b"), real_key("a"), real_key("c"), "--",
                                            "sh", "-c", "echo $REDLOCK_RESOURCE; sleep 60", NULL);

    program_exits(program, LOST);
    ck_assert_str_eq(program_output(program), real_key("a") "\n" real_key("a") "\n");
}
END_TEST

static Suite *lost_suite(void)
{
    Suite *suite = suite_create("cli_lost");
    TCase *tcase = patient(scene_own_case(suite, "losses"));

    tcase_add_loop_test(tcase, command_runs_after_the_loss_when_no_process_is_left, 0, LOSSES);

    tcase = patient(scene_shared_case(suite, "the command"));
    tcase_add_test(tcase, command_does_not_run_without_a_loss);
    tcase_add_test(tcase, failure_of_the_command_is_reported_and_changes_no_exit_status);
    tcase_add_test(tcase, signal_ends_redlock_and_the_command);
    tcase_add_test(tcase, of_several_resources_the_command_knows_the_one_that_cmd_knew);
    return suite;
}

int main(void)
{
    patience_begin();
    return real_run(lost_suite(), true);
}
