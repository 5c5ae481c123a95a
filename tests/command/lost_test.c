/* redlock run --on-lost: a command that runs after the loss of the lock, when no process of CMD is left. */
#include "scene.h"

#include "support/process.h"

#include <signal.h>

enum { MAJORITY = 3 };

#define NAME real_key("lost")

/* CMD writes its PID to $PIDS, ignores SIGTERM, and ends by SIGUSR1. */
static struct program *start(const char *cap, const char *on_lost)
{
    return program_start("PIDS=%s run --ttl 4s --grace 1s --cap %s --on-lost '%s' " NAME " -- sh -c '%s'",
                         scene_file(""), cap, on_lost,
                         "echo $$ >$PIDS; trap \"\" TERM; trap \"exit 0\" USR1; echo in; while :; do sleep 0.02; done");
}

/* The lock ends by one of these. `finish`: CMD exits before a renewal finds that the keys are gone: the release finds
 * it. */
static const struct {
    bool delete, finish;
    size_t stopped;              /* nodes */
    enum program_process killed; /* PROGRAM_FRONT: none */
    const char *cap;
    const char *why;
} losses[] = {
    {.delete = true, .cap = "1h", .why = "gone"},
    {.delete = true, .finish = true, .cap = "1h", .why = "gone"},
    {.stopped = MAJORITY, .cap = "1h", .why = "ended"},
    {.killed = PROGRAM_HOLDER, .cap = "1h", .why = "killed"},
    {.cap = "5s", .why = "ended"},
};

/* Where the machine is too busy to end CMD in time, the lock expires first. */
static bool shows_loss(struct program *program, const char *why)
{
    const char *output = program_output(program);
    return strcmp(output, program_text("in\nlost: %s " NAME "\n", why)) == 0 ||
           (strcmp(why, "ended") == 0 && strcmp(output, "in\nlost: expired " NAME "\n") == 0);
}

TEST_ROWS(own_nodes, command_runs_after_the_loss_when_no_process_is_left, ROWS(losses))
{
    struct program *program = start(losses[_i].cap, "kill -0 $(cat $PIDS) 2>/dev/null && echo alive; "
                                                    "echo \"lost: $REDLOCK_LOSS $REDLOCK_RESOURCE\"");
    program_shows(program, "in\n");
    if (losses[_i].delete)
        scene_delete(NAME);
    if (losses[_i].finish)
        program_signal(program, SIGUSR1);
    for (size_t i = 0; i < losses[_i].stopped; i++)
        cluster_stop(cluster, i);
    if (losses[_i].killed != PROGRAM_FRONT)
        ck_assert_int_eq(kill(program_process(program, losses[_i].killed), SIGKILL), 0);
    program_exits(program, LOST);
    ck_assert_msg(shows_loss(program, losses[_i].why), "%s", program_output(program));
    cluster_repair(cluster);
}

static bool has_exited(void *command)
{
    return process_has_ended(*(pid_t *)command);
}

/* The front ends CMD, which exits with 0. The holder, which goes on afterwards, knows why it has ended. */
TEST(shared_nodes, command_runs_though_the_holder_was_stopped_while_cmd_was_ended)
{
    struct program *program =
        program_start("run --ttl 4s --grace 1s --on-lost 'echo $REDLOCK_LOSS' " NAME
                      " -- sh -c 'trap \"exit 0\" TERM; echo pid=$$; while :; do sleep 0.02; done'");
    pid_t command = program_number(program, "pid="), holder = program_process(program, PROGRAM_HOLDER);
    ck_assert_int_eq(kill(holder, SIGSTOP), 0);
    ck_assert(wait_until(has_exited, &command, 60000));
    ck_assert_int_eq(kill(holder, SIGCONT), 0);
    program_exits(program, LOST);
    program_shows(program, "ended\n");
}

/* CMD's own 75 is no loss. */
TEST(shared_nodes, command_does_not_run_without_a_loss)
{
    static const int statuses[] = {0, 7, LOST};
    for (int i = 0; i < ROWS(statuses); i++) {
        struct program *program = program_run("run --on-lost 'echo lost' " NAME " -- sh -c 'exit %d'", statuses[i]);
        program_exits(program, statuses[i]);
        ck_assert_str_eq(program_output(program), "");
    }
    scene_hold(NAME);
    program_refuses(program_run("run -n --on-lost 'echo lost' " NAME " -- true"), NOT_OBTAINED, "not acquired");
    scene_delete(NAME);
}

TEST(shared_nodes, failure_of_the_command_is_reported_and_changes_no_exit_status)
{
    struct program *program = start("1h", "exit 3");
    program_shows(program, "in\n");
    scene_delete(NAME);
    program_exits(program, LOST);
    program_errors_have(program, "the command of --on-lost failed: exit status 3\n");
}

/* Also processes that the command has started. */
static const struct {
    const char *on_lost;
    int number;
} signals[] = {
    {"echo pid=$$; exec sleep 60", SIGTERM},
    {"sleep 60 & echo pid=$!; wait", SIGTERM},
    {"sleep 60 & echo pid=$!; wait", SIGHUP},
    {"(setsid sleep 60 & echo pid=$!); exec sleep 60", SIGUSR1},
};

TEST_ROWS(shared_nodes, signal_ends_redlock_and_the_command, ROWS(signals))
{
    struct program *program = start("1h", signals[_i].on_lost);
    program_shows(program, "in\n");
    scene_delete(NAME);
    pid_t command = program_number(program, "\npid=");
    program_signal(program, signals[_i].number);
    program_exits(program, -signals[_i].number);
    ck_assert(program_soon_gone(command));
}

TEST(shared_nodes, of_several_resources_the_command_knows_the_one_that_cmd_knew)
{
    struct program *program =
        program_exits(program_run("run --ttl 4s --grace 1s --cap 4s --on-lost 'echo $REDLOCK_RESOURCE' "
                                  "test:b test:a test:c -- sh -c 'echo $REDLOCK_RESOURCE; sleep 60'"),
                      LOST);
    ck_assert_str_eq(program_output(program), "test:a\ntest:a\n");
}

/* Every node's clock is ahead at once, so the machine was suspended: another client may hold the lock already. */
TEST(no_nodes, loss_by_the_clock_leaves_no_grace)
{
    scene_cluster(MAJORITY, &(struct cluster_node_options){.own_clock = true});
    scene_trust(cluster_nodes_string(cluster));
    struct program *program =
        program_start("run --ttl 30s --grace 10s --on-lost 'echo $REDLOCK_LOSS' " NAME " -- sh -c "
                      "'trap \"echo term\" TERM; echo in; while :; do sleep 0.02; done'");
    program_shows(program, "in\n");
    for (size_t i = 0; i < MAJORITY; i++)
        cluster_shift_clock(cluster, i, 5000000);
    program_exits(program, LOST);
    ck_assert_str_eq(program_output(program), "in\nclock\n");
    scene_delete(NAME); /* CMD may have passed the token on, so the lock is left to expire */
}

REAL_FAULTS_PROGRAM("cli_lost")
