/* redlock run: exit statuses, environment, signals, pipes, waiting, competition, and nodes that fail while CMD runs. */
#include "scene.h"

#include "support/clock.h"
#include "support/process.h"
#include "support/temp_dir.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum { MAJORITY = 3 };

#define NAME real_key("run")
/* Long enough for nodes to reply, even on a loaded machine. */
#define SHORT_TTL "--ttl 2s --grace 500ms --timeout 500ms"

/* A script may not contain single quotes. */
static struct program *run_script(const char *options, const char *script)
{
    return program_start("run %s " NAME " -- sh -c '%s'", options, script);
}

/* Another client holds the lock, and this program waits for it. */
static struct program *start_waiting(const char *script)
{
    scene_hold(NAME);
    struct program *program = run_script("-v", script);
    program_shows(program, "first attempt");
    ck_assert_str_eq(program_output(program), "");
    return program;
}

/* Again while the machine is so late that the wait ends before the nodes have replied. */
static struct program *run_in_time(const char *line)
{
    uint64_t deadline = test_deadline_ns(PROGRAM_SOON_MS);
    struct program *program;
    do
        program = program_run("%s", line);
    while (program_wait(program) == NO_QUORUM && test_now_ns() < deadline);
    return program;
}

/* --- Exit statuses --- */

static const struct {
    const char *line;
    int status;
    const char *says; /* NULL: anything */
} ends[] = {
    {"run " NAME " -- sh -c 'exit 0'", 0, NULL},
    {"run " NAME " -- sh -c 'exit 7'", 7, NULL},
    {"run " NAME " -- sh -c 'kill -KILL $$'", 128 + SIGKILL, NULL},
    {"run " NAME " -- sh -c 'kill -INT $$'", 128 + SIGINT, NULL},
    {"run " NAME " -- /nonexistent/program", 127, "'/nonexistent/program': No such file"},
    {"run " NAME " -- /etc/passwd/program", 127, "'/etc/passwd/program': Not a directory"},
    {"run " NAME " -- /etc/passwd", 126, "'/etc/passwd': Permission denied"},
    {"run " NAME " -- /$(printf %0300d 0)", 126, "File name too long"},
    {"run -n --nodes 127.0.0.1:1,127.0.0.1:2,127.0.0.1:3 x -- echo ran", NO_QUORUM,
     "127.0.0.1:2 cannot connect: Connection refused"},
    {"run -q -n -E 0 --nodes 127.0.0.1:1 x -- echo ran", NO_QUORUM, "cannot connect"}, /* not a skip */
    {"run --wait 200ms --nodes 127.0.0.1:1 x -- echo ran", NO_QUORUM, NULL},
    {"run " SHORT_TTL " --cap 2s " NAME " -- sleep 60", LOST, ""},
};

TEST_ROWS(shared_nodes, exit_status_is_that_of_its_command_or_says_why_it_did_not_run, ROWS(ends))
{
    struct program *program = program_exits(program_run("%s", ends[_i].line), ends[_i].status);
    if (ends[_i].says != NULL)
        program_refuses(program, ends[_i].status, ends[_i].says);
}

/* As in a crontab: a line on standard error would be mailed by every machine that skips the job. */
static const char *const silent[] = {"run -n -E 0 " NAME " -- echo ran", "run --wait 1500ms -E 0 " NAME " -- echo ran",
                                     "run -q -w 1s " NAME " -- echo ran", "acquire -n -E 0 " NAME};

TEST(shared_nodes, a_lock_that_is_held_is_not_obtained)
{
    scene_hold(NAME);
    program_refuses(program_run("run -n " NAME " -- echo ran"), NOT_OBTAINED, "held by ");
    program_exits(program_run("run --no-wait -E 42 " NAME " -- true"), 42);
    program_refuses(run_in_time("run -w 100ms " NAME " -- true"), NOT_OBTAINED, "not acquired");
    for (int i = 0; i < ROWS(silent); i++) {
        struct program *skipped = run_in_time(silent[i]);
        program_exits(skipped, strstr(silent[i], "-E 0") ? 0 : NOT_OBTAINED);
        ck_assert_str_eq(program_output(skipped), "");
        ck_assert_str_eq(program_errors(skipped), "");
    }
    struct program *program = program_run("run -v -n " NAME " -- true"); /* each round is explained, node by node */
    program_exits(program, NOT_OBTAINED);
    program_errors_have(program, "redlock run: acquire " NAME ": REDLOCK_HELD\n");
    program_errors_have(program, ": held after ");
    program = program_exits(run_in_time("run -v -w 1s " NAME " -- true"), NOT_OBTAINED);
    program_errors_have(program, "redlock run: undo " NAME "\n"); /* it finds nothing, which is no loss */
    ck_assert_ptr_null(strstr(program_errors(program), "REDLOCK_LOST"));
    scene_delete(NAME);
}

/* redlock exits before the time has passed, and no process keeps the lock. */
TEST(shared_nodes, a_short_job_keeps_its_lock_for_at_least_this_long)
{
    uint64_t began = test_now_ns();
    program_exits(program_run("run --at-least 5s " NAME " -- sh -c 'exit 7'"), 7);
    uint64_t took_ms = (test_now_ns() - began) / 1000000;
    ck_assert_uint_lt(took_ms, 4000);
    program_exits(program_run("run -n " NAME " -- true"), NOT_OBTAINED);
    ck_assert_int_gt(atoi(scene_json(program_run("status --json " NAME), ".resources[0].remaining_ms")), 0);
    program_exits(program_run("run -w 20s " NAME " -- true"), 0);
    ck_assert_uint_ge((test_now_ns() - began) / 1000000, 5000);
    ck_assert(real_nothing_left(NULL));
}

TEST_ROWS(shared_nodes, a_wait_says_when_it_begins_and_when_it_ends, 2)
{
    scene_hold(NAME);
    struct program *program = program_start("run --timeout 10s %s " NAME " -- true", _i == 0 ? "" : "-w 1h");
    program_shows(program, "waiting for '" NAME "': held on 5 of 5 nodes");
    program_shows(program, _i == 0 ? "; no limit\n" : " left to wait\n");
    scene_delete(NAME);
    program_exits(program, 0);
    program_errors_have(program, "'" NAME "' acquired after ");
    ck_assert_int_eq(strstr(program_errors(program), "--wait limits the wait") != NULL, _i == 0);
}

/* The inner one would wait for the outer one, which waits for its end. A token of the environment that is
 * not the holder's, of a process that has outlived its lock, is no obstacle. */
static const struct {
    const char *line;
    int status;
    const char *says;
} nested[] = {
    {"run " NAME " -- $R run -q " NAME " -- echo ran", USAGE, "is held by the redlock run that started this command"},
    {"run test:a test:b -- $R run -w 1h test:b -- echo ran", USAGE, "leave out this inner redlock, or use another"},
    {"run --shared " NAME " -- $R run " NAME " -- echo ran", USAGE, "is held by the redlock run"},
    {"run --permits 1 " NAME " -- $R run --permits 1 " NAME " -- echo ran", USAGE, "is held by the redlock run"},
    {"run " NAME " -- $R acquire " NAME, USAGE, "is held by the redlock run"},
    {"run " NAME " -- $R run -n " NAME " -- echo ran", NOT_OBTAINED, "held by "},
    {"run --shared " NAME " -- $R run --shared " NAME " -- true", 0, NULL},
    {"REDLOCK_RESOURCE=" NAME " REDLOCK_TOKEN=0 run test:a -- $R run " NAME " -- true", 0, NULL},
};

TEST_ROWS(shared_nodes, a_nested_run_of_the_same_lock_is_refused, ROWS(nested))
{
    struct program *program = program_exits(program_run("%s", nested[_i].line), nested[_i].status);
    if (nested[_i].says)
        program_refuses(program, nested[_i].status, nested[_i].says);
}

/* --- Environment of CMD --- */

TEST(shared_nodes, command_has_the_lock_in_its_environment)
{
    struct program *program = program_start("run '" NAME " \n\x01\xff$(date)' -- sh -c '%s'",
                                            "echo \"$REDLOCK_VALIDITY_MS $REDLOCK_TOKEN $REDLOCK_RESOURCE.\"; "
                                            "exec sleep 60");
    char token[REDLOCK_TOKEN_SIZE];
    int validity_ms;
    program_shows(program, " " NAME " \n\x01\xff$(date).\n"); /* any bytes are a name */
    ck_assert_int_eq(sscanf(program_output(program), "%d %119s", &validity_ms, token), 2);
    ck_assert_int_gt(validity_ms, 5000);
    ck_assert_int_lt(validity_ms, 10000);
    ck_assert(real_soon_shows(NULL, NAME " \n\x01\xff$(date)", token));
    program_terminates(program);
}

TEST(shared_nodes, command_has_a_fencing_token_that_increases)
{
    unsigned long long fence[2];
    for (size_t i = 0; i < 2; i++) {
        struct program *program = program_exits(program_run("run --fence " NAME " -- printenv REDLOCK_FENCE"), 0);
        fence[i] = strtoull(program_output(program), NULL, 10);
    }
    ck_assert(0 < fence[0] && fence[0] < fence[1]);
    program_exits(program_run("run " NAME " -- printenv REDLOCK_FENCE"), 1);
    deployment_remove_keys(real_nodes); /* the nodes still have the previous one */
}

#define SEVERAL "run " real_key("1") " " real_key("2")
static const struct {
    int holders;
    const char *holder; /* holds the lock */
    const char *other;  /* comes to it meanwhile */
    int status;
    const char *says;
} kinds[] = {
    {1, SEVERAL, "run -n " real_key("2"), NOT_OBTAINED, ""},
    {1, SEVERAL, "run -n test:other " real_key("2"), NOT_OBTAINED, "'test:other' and '" real_key("2") "' not acquired"},
    {1, SEVERAL, "run -n test:other " real_key("2"), NOT_OBTAINED, "; '" real_key("2") "' is not free"},
    {1, SEVERAL, "run -w 300ms test:a test:b " real_key("2"), NOT_OBTAINED, "'test:a' and 2 more not acquired"},
    {1, SEVERAL, "run -n test:other", 0, ""},
    {1, "run --shared " NAME, "run -n --shared " NAME, 0, ""},
    {1, "run --shared " NAME, "run -n " NAME, NOT_OBTAINED, ""},
    {1, "run --permits 2 " NAME, "run -n --permits 2 " NAME, 0, ""},
    {2, "run --permits 2 " NAME, "run -n --permits 2 " NAME, NOT_OBTAINED, ""},
    {1, "run --permits 3 --take 2 " NAME, "run -n --permits 3 " NAME, 0, ""},
    {1, "run --permits 3 --take 2 " NAME, "run -n --permits 3 --take 2 " NAME, NOT_OBTAINED, ""},
};

TEST_ROWS(shared_nodes, beside_a_holder_another_runs_if_the_kind_of_lock_permits_it, ROWS(kinds))
{
    struct program *holders[2];
    for (int i = 0; i < kinds[_i].holders; i++) {
        holders[i] = program_start("%s -- sh -c 'echo in; exec sleep 30'", kinds[_i].holder);
        program_shows(holders[i], "in");
    }
    struct program *other = run_in_time(program_text("%s -- echo ran", kinds[_i].other));
    if (kinds[_i].status == 0)
        program_prints(other, "ran\n");
    else
        program_refuses(other, kinds[_i].status, kinds[_i].says);
    for (int i = 0; i < kinds[_i].holders; i++)
        program_terminates(holders[i]);
}

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
TEST(shared_nodes, its_command_has_signals_and_descriptors_as_usual)
{
    static const char script[] = "grep -E \"SigBlk|SigIgn\" /proc/self/status; ls /proc/self/fd";
    struct program *program = run_script("", script);
    struct program *alone = program_exits(program_shell("exec sh -c '%s'", script), 0);
    program_prints(program, program_output(alone));
    ck_assert_uint_eq(signals_of(program, "SigBlk:"), 0);
    ck_assert_uint_eq(signals_of(program, "SigIgn:") & ~of_libc, 0);
}

static const struct {
    const char *line;
    const char *output;
} shells[] = {
    {"$R run " NAME " -- sh -c 'read -r pid name state parent group rest </proc/self/stat; echo $(($group - $$))'",
     "0\n"},
    {"echo some words | $R run " NAME " -- cat | tr a-z A-Z", "SOME WORDS\n"},
};

TEST_ROWS(shared_nodes, command_has_a_process_group_and_the_pipes_of_the_shell, ROWS(shells))
{
    program_prints(program_shell("%s", shells[_i].line), shells[_i].output);
}

/* --- Signals --- */

static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

TEST_ROWS(shared_nodes, signals_are_forwarded, ROWS(forwarded))
{
    struct program *program =
        program_start("run " NAME " -- sh -c 'trap \"echo got; exit 3\" %d; echo ready; while :; do sleep 0.02; done'",
                      forwarded[_i]);
    program_shows(program, "ready");
    program_signal(program, forwarded[_i]);
    program_exits(program, 3);
    ck_assert_str_eq(program_output(program), "ready\ngot\n");
}

/* As under a supervisor that ignores SIGCHLD. */
TEST(shared_nodes, command_is_waited_for_though_sigchld_is_ignored)
{
    program_exits(program_shell("exec env --ignore-signal=CHLD $R run " NAME " -- sh -c 'exit 7'"), 7);
    struct program *program =
        program_exits(program_shell("exec env --ignore-signal=CHLD $R run " NAME " -- cat /proc/self/status"), 0);
    ck_assert_uint_ne(signals_of(program, "SigIgn:") & 1ULL << (SIGCHLD - 1), 0);
}

/* As under nohup(1). */
TEST(shared_nodes, ignored_signal_does_not_end_the_wait)
{
    scene_hold(NAME);
    struct program *program = program_shell("exec env --ignore-signal=HUP $R run -v " NAME " -- echo ran");
    program_shows(program, "first attempt");
    program_signal(program, SIGHUP);
    scene_delete(NAME);
    program_prints(program, "ran\n");
}

static const struct {
    enum program_process process;
    int number; /* of the signal that it gets */
    int status;
    const char *says;
} ends_of_the_wait[] = {
    {PROGRAM_FRONT, SIGINT, -SIGINT, ""},
    {PROGRAM_FRONT, SIGKILL, -SIGKILL, ""},
    {PROGRAM_HOLDER, SIGKILL, SYSTEM, "was killed by signal 9"},
};

TEST_ROWS(shared_nodes, after_a_signal_while_it_waits_nothing_runs, ROWS(ends_of_the_wait))
{
    struct program *program = start_waiting("echo ran");
    pid_t holder = program_process(program, PROGRAM_HOLDER);
    ck_assert_int_eq(kill(program_process(program, ends_of_the_wait[_i].process), ends_of_the_wait[_i].number), 0);
    program_exits(program, ends_of_the_wait[_i].status);
    program_errors_have(program, ends_of_the_wait[_i].says);
    scene_delete(NAME);
    real_until(NULL, process_has_ended(holder));
    ck_assert(real_nothing_left(NULL));
    ck_assert_str_eq(program_output(program), "");
}

/* --- Processes that CMD leaves behind --- */

TEST(shared_nodes, the_lock_is_kept_until_what_its_command_leaves_behind_has_ended)
{
    struct program *program =
        run_script("--grace 400ms", "(trap \"\" TERM; while :; do sleep 0.02; done) & echo group=$$; exit 0");
    pid_t group = program_number(program, "group=");
    uint64_t deadline = test_deadline_ns(PROGRAM_SOON_MS);
    while (!program_is_gone(-group)) {
        ck_assert(test_now_ns() < deadline);
        bool held = scene_held_on(NAME) >= MAJORITY;
        ck_assert_msg(held || program_is_gone(-group), "processes work on without the lock");
    }
    program_exits(program, 0);
}

/* As a daemon. Its process is named, or left to run without the lock. */
static const struct {
    const char *options;
    bool lives;
    bool named;
} daemons[] = {{"", false, true}, {"-q", false, false}, {"--leave", true, false}};

TEST_ROWS(shared_nodes, what_a_command_leaves_is_named_and_ended_or_left, ROWS(daemons))
{
    struct program *program =
        program_exits(program_run("run %s " NAME " -- sh -c '(setsid sleep 60 >/dev/null 2>&1 & echo pid=$!); exit 0'",
                                  daemons[_i].options),
                      0);
    pid_t daemon = program_number(program, "pid=");
    if (daemons[_i].named)
        program_says_in_one_line(program, program_text("(PID %d): ended with its lock", (int)daemon));
    else
        ck_assert_str_eq(program_errors(program), "");
    ck_assert_int_eq(program_is_gone(daemon), !daemons[_i].lives);
    kill(daemon, SIGKILL);
    ck_assert(real_nothing_left(NULL));
}

/* The lock is lost while CMD runs: then nothing is left. */
TEST(shared_nodes, leave_does_not_let_a_process_outlive_a_lost_lock)
{
    struct program *program = run_script(
        "--leave " SHORT_TTL, "(setsid sleep 60 & echo pid=$!); trap \"exit 0\" TERM; while :; do sleep 0.02; done");
    pid_t daemon = program_number(program, "pid=");
    scene_delete(NAME);
    program_exits(program, LOST);
    ck_assert(program_is_gone(daemon));
}

/* As after unshare(1) without a /proc of its own: it shows other processes with our PIDs. */
TEST_ROWS(shared_nodes, without_a_proc_of_its_own_the_commands_group_gets_the_signals, 2)
{
    if (geteuid() != 0)
        return; /* a namespace needs root */
    struct program *program = program_shell("unshare --pid --fork $R run " SHORT_TTL " " NAME
                                            " -- sh -c 'trap \"exit 4\" USR1; echo in; while :; do sleep 0.02; done'");
    program_shows(program, "in");
    if (_i == 0)
        kill(program_child(program_pid(program)), SIGUSR1);
    else
        scene_delete(NAME);
    program_exits(program, _i == 0 ? 4 : LOST);
}

/* All of redlock and its command, as by `docker pause`, until the lock has ended. */
TEST(shared_nodes, lock_that_ends_while_redlock_is_stopped_has_expired)
{
    struct program *program = program_start("run " SHORT_TTL " --on-lost 'echo loss=$REDLOCK_LOSS' " NAME
                                            " -- sh -c 'echo pid=$$.; exec sleep 60'");
    pid_t stopped[] = {program_number(program, "pid="), program_process(program, PROGRAM_HOLDER), program_pid(program)};
    for (int i = 0; i < ROWS(stopped); i++)
        ck_assert_int_eq(kill(stopped[i], SIGSTOP), 0);
    ck_assert(real_nothing_left(NULL));
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 200000000},
              NULL); /* the front waits for the holder, which continues a little later, by this much */
    for (int i = ROWS(stopped) - 1; i >= 0; i--)
        kill(stopped[i], SIGCONT); /* the front may have killed the command already */
    program_exits(program, LOST);
    program_output_has(program, "loss=expired\n");
    program_errors_have(program, "while redlock was stopped");
    ck_assert_ptr_null(strstr(program_errors(program), "was killed"));
}

/* The holder is stopped until the front has ended the command. */
TEST(shared_nodes, a_holder_that_stays_stopped_is_named)
{
    struct program *program = run_script(SHORT_TTL, "echo in; exec sleep 60");
    program_shows(program, "in");
    ck_assert_int_eq(kill(program_process(program, PROGRAM_HOLDER), SIGSTOP), 0);
    program_exits(program, LOST);
    program_errors_have(program, "the process with the lock was stopped until the lock had ended");
    ck_assert(real_nothing_left(NULL));
}

/* A process of another user: for root, without the capability to signal it, one that has changed its user. */
TEST(shared_nodes, processes_that_cannot_be_signalled_are_named)
{
    if (geteuid() != 0)
        return; /* an ordinary user has sudo(8) */
    struct program *program = program_shell(
        "exec setpriv --bounding-set=-kill --inh-caps=-kill $R run " SHORT_TTL " " NAME
        " -- setpriv --reuid=65534 sh -c 'trap \"\" TERM; echo pid=$$.; for i in $(seq 200); do sleep 0.02; done; exit 3'");
    pid_t other = program_number(program, "pid=");
    scene_delete(NAME);
    program_exits(program, LOST);
    program_errors_have(program, program_text("sh (PID %d)", (int)other));
    program_errors_have(program, "cannot be signalled by this user");
    ck_assert_ptr_null(strstr(program_errors(program), "was killed"));
}

/* In a control group that is delegated, as systemd marks it. Returns "" where there is none of version 2, or no right. */
static const char *make_delegated_group(void)
{
    static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    for (int i = 0; i < ROWS(roots); i++) {
        const char *path = program_text("%s/redlock-test-%d", roots[i], (int)getpid());
        if (mkdir(path, 0755) != 0)
            continue;
        if (access(program_text("%s/cgroup.kill", path), W_OK) == 0 &&
            setxattr(path, "trusted.delegate", "1", 1, 0) == 0)
            return path;
        rmdir(path);
    }
    return "";
}

/* Signals to processes of another user need a right that redlock does not have here. */
TEST(shared_nodes, a_delegated_control_group_ends_with_the_lock)
{
    const char *group = make_delegated_group();
    if (*group == '\0')
        return;
    struct program *program = program_shell(
        "echo $$ >%s/cgroup.procs && exec setpriv --bounding-set=-kill --inh-caps=-kill $R run " SHORT_TTL " " NAME
        " -- setpriv --reuid=65534 sh -c 'cat /proc/self/cgroup; trap \"\" TERM; echo pid=$$.; while :; do sleep 0.02; done'",
        group);
    pid_t other = program_number(program, "pid=");
    program_output_has(program,
                       program_text("/redlock-test-%d/redlock-%d\n", (int)getpid(), (int)program_pid(program)));
    scene_delete(NAME);
    program_exits(program, LOST);
    ck_assert(program_is_gone(other));
    ck_assert_msg(rmdir(group) == 0, "the command's group is left");
}

/* A directory in the place of the control groups: a delegated group without cgroup.kill, as before Linux 5.14. NULL:
 * this system has no groups of version 2, or the user no right to mark it. */
static char *make_older_group(const char *root)
{
    char line[256];
    char *own = NULL;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (own == NULL && file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "0::", 3) == 0)
            own = program_text("%s%.*s", root, (int)strcspn(line + 3, "\n"), line + 3);
    if (file != NULL)
        fclose(file);
    if (own == NULL)
        return NULL;
    program_exits(program_shell("mkdir -p '%s'", own), 0);
    return setxattr(own, "trusted.delegate", "1", 1, 0) == 0 ? own : NULL;
}

TEST(shared_nodes, on_an_older_kernel_too_the_command_ends_with_the_lock)
{
    const char *root = temp_dir_path(temp_dir_make());
    real_note_descriptors();
    const char *group = make_older_group(root);
    program_setting.newest_call = SYS_pidfd_send_signal - 1;
    struct program *program = program_shell(
        "export STUBBORN='trap \"\" TERM; echo pid=$$; for i in $(seq 1000); do sleep 0.02; done'\n"
        "set -- $R run " SHORT_TTL " " NAME " -- bash -c 'setsid --wait sh -c \"$STUBBORN\"'\n%s exec \"$@\"",
        group == NULL
            ? ""
            : program_text("set -- unshare --mount sh -c 'mount --bind %s /sys/fs/cgroup && exec \"$@\"' sh \"$@\"\n",
                           root));
    pid_t escaped = program_number(program, "pid=");
    scene_delete(NAME);
    program_exits(program, LOST);
    ck_assert(program_is_gone(escaped));
    ck_assert_msg(group == NULL || rmdir(group) == 0, "the command's group is left");
}

static const char stubborn[] =
    "STUBBORN='trap \"\" TERM; echo pid=$$; for i in $(seq 1000); do sleep 0.02; done' run %s " NAME " -- bash -c '%s'";

/* Each starts $STUBBORN outside CMD's process group; trial_test.c has more ways. */
static const struct {
    const char *options;
    const char *script;
    int status; /* LOST: of a lock that another client deletes */
} escapes[] = {
    {SHORT_TTL, "(setsid sh -c \"$STUBBORN\" &); sleep 60", LOST},
    {SHORT_TTL, "$R run --ttl 2s test:inner -- sh -c \"$STUBBORN\"", LOST},
    {"--grace 400ms", "read line < <(setsid sh -c \"$STUBBORN\"); echo \"$line\"; exit 3", 3},
    {"", "sleep 60 & echo pid=$!; exit 0", 0},
};

TEST_ROWS(shared_nodes, process_that_the_command_left_behind_ends_with_the_lock, ROWS(escapes))
{
    struct program *program = program_start(stubborn, escapes[_i].options, escapes[_i].script);
    pid_t escaped = program_number(program, "pid=");
    if (escapes[_i].status == LOST)
        scene_delete(NAME);
    program_exits(program, escapes[_i].status);
    ck_assert(program_is_gone(escaped));
    ck_assert(real_nothing_left(NULL)); /* an inner lock ends with its ttl */
}

/* A child of the shell that executes redlock. */
TEST(shared_nodes, a_child_that_is_not_redlocks_lives_on)
{
    struct program *program =
        program_shell("sleep 60 & echo pid=$!; exec $R run " NAME " -- sh -c 'sleep 60 & exit 3'");
    pid_t other = program_number(program, "pid=");
    program_exits(program, 3);
    ck_assert_int_eq(kill(other, SIGKILL), 0);
}

/* --- Processes of redlock run --- */

/* The other one ends CMD as if the lock could not be renewed. The command needs a while to end, on a busy machine much
 * longer, and leaves a process that does not end by itself. */
TEST_ROWS(shared_nodes, when_redlock_is_killed_its_command_has_the_grace, PROGRAM_PROCESSES)
{
    struct program *program = program_start(stubborn, "--ttl 5s --grace 2s --timeout 500ms",
                                            "trap \"sleep 0.2; echo ended; exit 0\" TERM; setsid sh -c \"$STUBBORN\" & "
                                            "while :; do sleep 0.02; done");
    pid_t escaped = program_number(program, "pid=");
    ck_assert_int_eq(kill(program_process(program, (enum program_process)_i), SIGKILL), 0);
    program_exits(program, _i == PROGRAM_FRONT ? -SIGKILL : LOST);
    ck_assert(program_soon_gone(escaped));
    program_output_has(program, "ended\n");
    ck_assert(real_nothing_left(NULL));
}

/* pkill(1) searches the command line (-f), or the name, for a text. */
TEST(shared_nodes, the_holder_is_not_killed_by_redlocks_name)
{
    struct program *program = run_script("", "echo in; exec sleep 60");
    program_shows(program, "in");
    struct program *names = program_exits(program_shell("cd /proc/%d && tr '\\0' ' ' <cmdline && echo && cat comm",
                                                        (int)program_process(program, PROGRAM_HOLDER)),
                                          0);
    char cmdline[64] = "", comm[64] = "", more[2] = "";
    ck_assert_int_eq(sscanf(program_output(names), "%63s %63s %1s", cmdline, comm, more), 2);
    ck_assert_str_eq(cmdline, "lock-holder");
    ck_assert_str_eq(comm, "lock-holder");
    program_terminates(program);
}

/* CMD writes the PIDs of the holder and of CMD's child. */
static const char family[] =
    "sleep 30 & echo holder=$PPID child=$!; trap \"exit 5\" USR1; while :; do sleep 0.02; done";

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
        socklen_t size = sizeof type;
        if (copy >= 0 && getsockopt(copy, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET)
            ck_assert_int_eq(setsockopt(copy, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
        if (copy >= 0)
            close(copy);
    }
    close(process);
}

/* As after a long Ctrl-Z: meanwhile more ends of validity pass than the link holds messages. */
TEST(shared_nodes, front_that_was_stopped_for_long_knows_the_end_of_validity)
{
    struct program *program = run_script("--ttl 2s --grace 0 --timeout 300ms", family);
    narrow_link(program_number(program, "holder="));
    program_signal(program, SIGSTOP);
    scene_await_renewals(NAME, 12); /* the limited link holds eight messages */
    program_signal(program, SIGCONT);
    program_signal(program, SIGUSR1);
    program_exits(program, 5);
}

TEST(shared_nodes, closed_standard_error_does_not_keep_it_from_ending_the_group)
{
    struct program *program = program_shell("{ $R run --ttl 3s " NAME " -- sh -c '%s' 2>&1 >&3 3>&- | true; } 3>&1", family);
    pid_t child = program_number(program, "child=");
    ck_assert_int_eq(kill(program_number(program, "holder="), SIGKILL), 0);
    ck_assert(program_soon_gone(child));
    program_exits(program, 0);          /* the exit status of true(1) */
    ck_assert(real_nothing_left(NULL)); /* after its ttl */
}

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

/* The holder is killed right after its fork, and CMD is faster. Processes that CMD has started before are ended all
 * the same. */
TEST(shared_nodes, holder_killed_right_after_its_fork_is_noticed)
{
    struct program *program = start_waiting("sleep 30 & echo left=$!; wait");
    struct forking forking = {.parent = program_process(program, PROGRAM_HOLDER)};
    ck_assert_int_eq(ptrace(PTRACE_SEIZE, forking.parent, NULL, PTRACE_O_TRACEFORK), 0);
    scene_delete(NAME);
    ck_assert(wait_until(has_forked, &forking, PROGRAM_SOON_MS));
    ck_assert_int_eq(waitpid(forking.child, NULL, __WALL), forking.child);
    ck_assert_int_eq(ptrace(PTRACE_DETACH, forking.child, NULL, NULL), 0); /* the child goes on */
    pid_t left = program_number(program, "left=");
    kill(forking.parent, SIGKILL);
    ck_assert_int_eq(waitpid(forking.parent, NULL, __WALL), forking.parent);
    program_exits(program, LOST);
    ck_assert(program_soon_gone(left));
    scene_delete(NAME);
}

/* The kernel may take seconds to reap it. */
TEST(shared_nodes, a_killed_holder_is_not_reaped_before_its_tree_has_ended)
{
    struct program *program = run_script("--grace 10s --ttl 25s", "trap \"\" TERM; echo pid=$$; exec sleep 300");
    pid_t command = program_number(program, "pid="), holder = program_process(program, PROGRAM_HOLDER);
    ck_assert_int_eq(kill(holder, SIGKILL), 0);
    ck_assert(program_says(program, "was killed by signal 9"));
    ck_assert(!program_is_gone(holder));
    ck_assert_int_eq(kill(command, SIGKILL), 0);
    program_exits(program, LOST);
    ck_assert(program_is_gone(holder));
    scene_delete(NAME);
}

/* --- Failing nodes --- */

static bool is_held_everywhere(void *arg)
{
    (void)arg;
    return scene_held_on(NAME) == cluster_size(cluster);
}

static const struct {
    size_t stopped, deleted; /* on this many nodes */
    int status;
    const char *output;
    const char *says;
} strikes[] = {
    {2, 0, 0, "ready\ndone\n", ""},
    {MAJORITY, 0, LOST, "ready\nended\n", "renewal failed"},
    {0, MAJORITY, LOST, "ready\nended\n", "a majority of the nodes no longer has it"},
};

TEST_ROWS(shared_nodes, loss_of_a_majority_ends_the_command_and_of_a_minority_does_not, ROWS(strikes))
{
    struct program *program =
        run_script("--ttl 5s --grace 2s --timeout 1s", /* the traps run on a busy machine, too */
                   "trap \"echo ended; exit 0\" TERM; trap \"echo done; exit 0\" USR1; echo ready; "
                   "while :; do sleep 0.02; done");
    program_shows(program, "ready");
    /* A node that was still connecting gets the lock only with the next renewal. */
    ck_assert(wait_until(is_held_everywhere, NULL, REAL_SOON_MS));
    for (size_t i = 0; i < strikes[_i].stopped; i++)
        cluster_stop(cluster, cluster_size(cluster) - 1 - i);
    for (size_t i = 0; i < strikes[_i].deleted; i++)
        real_delete(i, NAME);
    if (strikes[_i].status == 0) {
        scene_await_renewals(NAME, 4); /* longer than its ttl */
        program_signal(program, SIGUSR1);
    }
    program_exits(program, strikes[_i].status);
    ck_assert_str_eq(program_output(program), strikes[_i].output);
    program_errors_have(program, strikes[_i].says);
}

/* Either the user ignores SIGTERM, which ends the holder, or the holder is stopped. */
TEST_ROWS(shared_nodes, a_wait_ends_though_sigterm_is_ignored_or_the_holder_is_stopped, 3)
{
    int number = _i == 1 ? SIGKILL : SIGINT;
    scene_hold(NAME);
    struct program *program =
        program_shell("exec env %s $R run -v " NAME " -- echo ran", _i < 2 ? "--ignore-signal=TERM" : "");
    program_shows(program, "first attempt");
    pid_t holder = program_process(program, PROGRAM_HOLDER);
    if (_i >= 2)
        ck_assert_int_eq(kill(holder, SIGSTOP), 0);
    program_signal(program, number);
    program_exits(program, -number);
    ck_assert(program_soon_gone(holder));
    scene_delete(NAME);
}

REAL_FAULTS_PROGRAM("cli_run")
