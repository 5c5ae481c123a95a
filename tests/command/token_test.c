/* redlock acquire, extend and release: a lock that is passed from one process to the next as the text of its token,
 * and a lock that a keeper keeps for a process. */
#define _GNU_SOURCE
#include "json.h"
#include "patience.h"
#include "scene.h"
#include "words.h"

#include "support/clock.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/server_program.h"
#include "support/temp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NODES = 5,
    QUORUM = 3,
    NOT_OBTAINED = 1,
    USAGE = 64,
    NO_QUORUM = 69,
    SYSTEM = 71,
    LOST = 75,
    MISCONFIGURED = 78,
    TTL_MS = 4000
};

#define TOKEN "0123456789abcdef0123456789abcdef01234567"

/* Options for the nodes with this environment. */
static struct program_options with(const char *const *environment)
{
    struct program_options options = scene_on_nodes;

    options.environment = environment;
    return options;
}

/* The output of acquire: the token and a newline, nothing more. */
static const char *token_of(struct program *program)
{
    static char token[REDLOCK_TOKEN_SIZE];

    program_exits(program, 0);
    const char *text = program_output(program);
    ck_assert_msg(strlen(text) == REDLOCK_TOKEN_SIZE && text[REDLOCK_TOKEN_SIZE - 1] == '\n' &&
                      strspn(text, "0123456789abcdef") == REDLOCK_TOKEN_SIZE - 1,
                  "not a token: %s", text);
    snprintf(token, sizeof(token), "%.40s", text);
    return token;
}

static struct program *run(const char *command, const char *resource, const char *word)
{
    return program_run(&scene_on_nodes, command, resource, word, NULL);
}

/* Runs a shell command line in which $R is redlock and $1 the resource. */
static struct program *run_shell(const char *line, const char *resource)
{
    char *program = fixture_text("R=%s", program_redlock);
    const char *const environment[] = {program, patience_variable(), NULL};
    struct program_options options = with(environment);
    struct program *shell = words_run(&options, "bash", "-c", line, "bash", resource, NULL);

    free(program);
    return shell;
}

/* --- Acquire, extend, release --- */

START_TEST(every_node_shows_the_token_that_is_written)
{
    const char *key = real_key("token");
    const char *token = token_of(run("acquire", key, NULL));

    ck_assert(real_shows_everywhere(key, token));
    program_exits(run("acquire", key, "-n"), NOT_OBTAINED);
    struct program *other = program_run(&scene_on_nodes, "acquire", key, "-w", "2s", "-E", "7", NULL);
    program_exits(other, 7);
    program_says_in_one_line(other, "held by another client");
    ck_assert_str_eq(program_output(other), "");
    program_exits(run("release", key, token), 0);
    ck_assert(real_shows_everywhere(key, "(nil)"));
    other = run("release", key, token);
    program_exits(other, LOST);
    program_says_in_one_line(other, "is not held by this token: 5 of 5 nodes do not have it");
}
END_TEST

static int64_t shortest_life(const char *key)
{
    long long shortest = INT64_MAX;

    for (size_t i = 0; i < NODES; i++) {
        long long left = deployment_integer(real_nodes, i, "PTTL", key, NULL);
        shortest = left < shortest ? left : shortest;
    }
    return shortest;
}

START_TEST(an_extension_lengthens_and_never_shortens)
{
    const char *key = real_key("extended");
    const char *token = token_of(program_run(&scene_on_nodes, "acquire", key, "--ttl", "9s", NULL));

    ck_assert_int_le(shortest_life(key), 9000);
    program_exits(program_run(&scene_on_nodes, "extend", key, token, "--ttl", "25s", NULL), 0);
    ck_assert_int_gt(shortest_life(key), 15000);
    struct program *program = program_run(&scene_on_nodes, "extend", key, token, "--json", "--ttl", "1s", NULL);
    program_exits(program, 0);
    json_is(program, ".token", token);
    json_is(program, ".validity_ms > 0 and .validity_ms <= 1000 and .granted >= 3", "true");
    ck_assert_int_gt(shortest_life(key), 15000);
    program_exits(run("release", key, token), 0);
    program = run("extend", key, token);
    program_exits(program, LOST);
    program_says_in_one_line(program, "the lock is no longer held");
}
END_TEST

/* A forced unlock: the holder notices it at its next renewal. */
START_TEST(a_lock_is_broken_by_the_token_that_status_shows)
{
    const char *key = real_key("broken");
    struct program *holder = program_start(&scene_on_nodes, "run", "--ttl", "5s", "--grace", "100ms", key, "--", "sh",
                                           "-c", "echo ready; exec sleep 60", NULL);

    ck_assert(program_says(holder, "ready"));
    const char *token = json_get(program_run(&scene_on_nodes, "status", key, "--json", NULL), ".resources[0].token");
    program_exits(run("release", key, token), 0);
    program_exits(holder, LOST);
    ck_assert_ptr_nonnull(strstr(program_errors(holder), "no longer has it"));
    ck_assert(real_nothing_left(NULL));
}
END_TEST

START_TEST(a_token_goes_through_a_pipe)
{
    program_exits(run_shell("\"$R\" acquire \"$1\" | \"$R\" release \"$1\" -", real_key("pipe")), 0);
    ck_assert(real_shows_everywhere(real_key("pipe"), "(nil)"));
    program_exits(
        run_shell("set -e; T=$(\"$R\" acquire \"$1\" --fence); \"$R\" extend \"$1\" - <<<$T; set -- \"$1\" $T; "
                  "test \"$3\" -gt 0; \"$R\" release \"$1\" \"$2\"",
                  real_key("pipe")),
        0);
}
END_TEST

/* A name may contain any byte except NUL. */
START_TEST(odd_bytes_in_a_name)
{
    static const char key[] = DEPLOYMENT_PREFIX "odd \xff\n\"\\ -- $(x)";
    struct program *program = program_run(&scene_on_nodes, "acquire", key, "--json", NULL);

    program_exits(program, 0);
    const char *token = json_get(program, ".token");
    ck_assert(real_shows_everywhere(key, token));
    json_is(program, ".resource", DEPLOYMENT_PREFIX "odd \\xff\\x0a\"\\ -- $(x)"); /* as status and messages show it */
    program_exits(run("extend", DEPLOYMENT_PREFIX "odd \\xff\\x0a\"\\ -- $(x)", token), 0);
    json_is(program, ".validity_ms > 5000 and .granted == 5 and .nodes == 5", "true");
    program = run("acquire", key, "-n");
    program_exits(program, NOT_OBTAINED);
    program_says_in_one_line(program, "odd \\xff\\x0a");
    program_exits(run("release", key, token), 0);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

/* Values that other libraries, or people, store in a key. */
static const char *const foreign_tokens[] = {
    "forever", "(shared)", "(empty)", "a b\tc", "\xff\x01", "back\\x41slash", "gr\xc3\xb6\xc3\x9ft", "$(x) 'y' \"z\"",
};

START_TEST(token_that_status_shows_is_taken_back)
{
    static const char *const commands[] = {"extend", "release"};
    const char *key = real_key("foreign");

    for (size_t i = 0; i < NODES; i++)
        ck_assert(real_foreign_set(i, key, foreign_tokens[_i]));
    struct program *program = program_run(&scene_on_nodes, "status", key, "--json", NULL);
    program_exits(program, 0);
    char *token = fixture_text("%s", json_get(program, ".resources[0].token"));
    ck_assert_ptr_nonnull(strstr(program_output(program_run(&scene_on_nodes, "status", key, NULL)), token));
    for (size_t i = 0; i < 2; i++) {
        ck_assert(real_shows_everywhere(key, foreign_tokens[_i]));
        program_exits(run(commands[i], key, token), 0);
    }
    ck_assert(real_shows_everywhere(key, "(nil)"));
    free(token);
}
END_TEST

/* A lock of another library may never expire. Extending it sets no expiry. */
START_TEST(extension_never_gives_an_end_to_a_lock_without_one)
{
    const char *key = real_key("endless");

    for (size_t i = 0; i < NODES; i++)
        ck_assert(deployment_command(real_nodes, i, NULL, 0, "SET", key, "forever", NULL));
    program_exits(run("extend", key, "forever"), 0);
    for (size_t i = 0; i < NODES; i++)
        ck_assert_int_eq(deployment_integer(real_nodes, i, "PTTL", key, NULL), -1);
    program_exits(run("release", key, "forever"), 0);
}
END_TEST

/* No process would have the token of such a lock, which would only be in the way. */
START_TEST(a_token_that_cannot_be_written_is_no_lock)
{
    struct program *program = run_shell("\"$R\" acquire \"$1\" >/dev/full", real_key("full"));

    program_exits(program, SYSTEM);
    program_says_in_one_line(program, "cannot write the token; the lock is released");
    ck_assert(real_nothing_left(NULL));
    program_exits(run_shell("\"$R\" acquire \"$1\" >&-", real_key("full")), SYSTEM);
    program_exits(run_shell("exec 3> >(:); wait $!; \"$R\" acquire \"$1\" >&3", real_key("full")), SYSTEM);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

/* The reader of the errors may have ended before the lock is granted. The operation still completes. */
START_TEST(what_nobody_reads_ends_nothing)
{
    struct program *program = run_shell("exec 3> >(:); wait $!; token=$(\"$R\" acquire -v \"$1\" 2>&3) &&"
                                        "  \"$R\" extend -v \"$1\" $token 2>&3 && \"$R\" release -v \"$1\" $token 2>&3",
                                        real_key("unread"));

    program_exits(program, 0);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

START_TEST(an_interrupt_ends_the_waiting_and_leaves_nothing)
{
    const char *key = real_key("interrupted");
    const char *token = token_of(run("acquire", key, NULL));
    struct program *waiter = program_start(&scene_on_nodes, "acquire", key, "-v", NULL);

    ck_assert(program_says(waiter, "first attempt: held by another client"));
    program_signal(waiter, SIGINT);
    program_exits(waiter, -SIGINT);
    ck_assert_str_eq(program_output(waiter), "");
    program_exits(run("release", key, token), 0);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

START_TEST(each_step_is_explained)
{
    const char *key = real_key("verbose");
    struct program *program = run("acquire", key, "-v");
    const char *token = token_of(program);

    ck_assert_ptr_nonnull(strstr(program_errors(program), "first attempt: done: 5 granted"));
    ck_assert_ptr_nonnull(strstr(program_errors(program), ": granted after "));
    program = program_run(&scene_on_nodes, "release", "--verbose", key, token, NULL);
    program_exits(program, 0);
    ck_assert_ptr_nonnull(strstr(program_errors(program), "release: done: 5 granted"));
}
END_TEST

static const struct {
    const char *words[6];
    const char *says;
} bad_lines[] = {
    {{"acquire"}, "a resource is needed"},
    {{"acquire", "a", "b"}, "one resource only: use redlock run for a lock on several"},
    {{"acquire", ""}, "has 0 bytes"},
    {{"acquire", "a", "--wait", "soon"}, "--wait 'soon' is not a duration"},
    {{"acquire", "a", "--ttl", "-1"}, "--ttl '-1' is not a duration"},
    {{"acquire", "a", "--for", "me"}, "--for 'me' is not a number"},
    {{"acquire", "a", "--cap", "1s"}, "--cap limits the renewal"},
    {{"acquire", "a", "--loss-signal", "TERM"}, "--loss-signal needs --for PID, the process that gets the signal"},
    {{"acquire", "a", "--loss-signal", "9"}, "--loss-signal '9' is not one of HUP, INT, "},
    {{"acquire", "a", "-E", "256"}, "is not a number from 0 to 255"},
    {{"extend", "a"}, "a resource and a token are needed"},
    {{"extend", "a", "(shared)"}, "'(shared)' is not a token"},
    {{"extend", "a", TOKEN TOKEN TOKEN TOKEN},
     "is not a token: use the output of acquire, or a token from status, of up to 128 bytes"},
    {{"acquire", "a\\x00b"}, "has a NUL byte"},
    {{"extend", "a", TOKEN, "--ttl", "x"}, "--ttl 'x' is not a duration"},
    {{"release", "a", TOKEN, "b"}, "a resource and a token are needed"},
    {{"release", "a", "-"}, "'' is not a token"},
    {{"release", "", TOKEN}, "has 0 bytes"},
};
enum { BAD_LINES = sizeof(bad_lines) / sizeof(bad_lines[0]) };

START_TEST(a_command_line_that_is_wrong_is_refused)
{
    const char *const *words = bad_lines[_i].words;
    struct program *program = program_run(&scene_on_nodes, words[0], words[1], words[2], words[3], words[4], NULL);

    program_exits(program, USAGE);
    program_says_in_one_line(program, bad_lines[_i].says);
    ck_assert_str_eq(program_output(program), "");
}
END_TEST

/* Whichever descriptor exceeds the limit, the message names the cause and the remedy. */
START_TEST(limit_of_open_files_is_named)
{
    struct program *program =
        run_shell("for limit in {8..28}; do (ulimit -n $limit; \"$R\" run \"$1\" -- true); done", real_key("limit"));
    const char *errors = program_errors(program);

    program_exits(program, 0);
    ck_assert_ptr_nonnull(strstr(errors, "descriptor"));
    for (const char *line = strtok((char *)(uintptr_t)errors, "\n"); line != NULL; line = strtok(NULL, "\n"))
        ck_assert_msg(strstr(line, "Too many open files; raise the limit of open files (ulimit -n)") != NULL ||
                          strstr(line, "cannot create a descriptor") == NULL,
                      "%s", line);
}
END_TEST

/* --- Failing nodes --- */

START_TEST(a_minority_that_hangs_or_is_down_does_no_harm)
{
    const char *key = real_key("minority");

    deployment_stop(real_nodes, 0);
    deployment_kill(real_nodes, 1);
    scene_on_nodes.environment = NULL; /* the default timeouts */
    struct program *program = program_run(&scene_on_nodes, "acquire", key, "--timeout", "500ms", NULL);
    const char *token = token_of(program);
    program_exits(run("extend", key, token), 0);
    program = run("release", key, token);
    program_exits(program, 0);
    deployment_resume(real_nodes, 0);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

START_TEST(without_a_majority_there_is_no_lock)
{
    const char *key = real_key("majority");

    for (size_t i = 0; i < QUORUM; i++)
        deployment_kill(real_nodes, i);
    struct program *program = run("acquire", key, "-n");
    program_exits(program, NO_QUORUM);
    program_says_in_one_line(program, "cannot connect: Connection refused");
    program = run("extend", key, TOKEN);
    program_exits(program, NO_QUORUM);
    program_says_in_one_line(program, "it may last until its old end");
    program = run("release", key, TOKEN);
    program_exits(program, NO_QUORUM);
    program_says_in_one_line(program, "no majority has confirmed the release");
    ck_assert_ptr_null(strstr(program_errors(program), "connected again")); /* no process is left that could do it */
    program = program_run(&scene_on_nodes, "release", "-v", key, TOKEN, NULL);
    program_exits(program, NO_QUORUM);
    ck_assert_ptr_nonnull(strstr(program_errors(program), "close: "));
    ck_assert_ptr_null(strstr(program_errors(program), "(null)"));
    ck_assert(real_nothing_left(NULL));
}
END_TEST

START_TEST(a_wrong_password_is_told_at_once)
{
    const char *const wrong[] = {"REDLOCK_PASSWORD=wrong-one", patience_variable(), NULL};
    const char *const right[] = {"REDLOCK_PASSWORD=right", patience_variable(), NULL};
    struct cluster_node_options nodes[3] = {{.password = "right"}, {.password = "right"}, {.password = "right"}};
    struct cluster *cluster = real_cluster(3, &(struct cluster_options){.nodes = nodes});
    struct program_options options = {.nodes = cluster_nodes_string(cluster), .environment = wrong};
    struct program *program = program_run(&options, "acquire", "x", NULL);

    program_exits(program, MISCONFIGURED);
    ck_assert_ptr_nonnull(strstr(program_errors(program), server_program_wrong_password()));
    ck_assert_ptr_null(strstr(program_errors(program), "wrong-one"));
    program_exits(program_run(&options, "release", "x", TOKEN, NULL), MISCONFIGURED);
    options.environment = right;
    program_exits(program_run(&options, "trust", "--yes", NULL), 0);
    program_exits(program_run(&options, "release", "x", token_of(program_run(&options, "acquire", "x", NULL)), NULL),
                  0);
}
END_TEST

/* New nodes grant nothing for a while. acquire says so, and waits until it is over. */
START_TEST(a_quarantine_is_shown_and_waited_out)
{
    char *config = fixture_text("%s/config", temp_dir_path(temp_dir_make()));
    char *variable = fixture_text("REDLOCK_CONFIG=%s", config);
    const char *const environment[] = {variable, NULL};
    struct program_options options = {.nodes = cluster_nodes_string(real_cluster(3, NULL)), .environment = environment};

    static const char settings[] = "timeout = 10s\nttl = 3s\nmax-ttl = 3s\n";
    file_write(config, settings, sizeof(settings) - 1);
    struct program *program = program_run(&options, "acquire", "x", "--no-wait", NULL);
    program_exits(program, NO_QUORUM);
    program_says_in_one_line(program, "in quarantine for");
    program_says_in_one_line(program, "; if no client holds a lock, redlock trust ends the quarantine");
    program = program_run(&options, "acquire", "x", NULL);
    token_of(program);
    ck_assert_ptr_nonnull(strstr(program_errors(program), "waiting: "));
    free(config);
    free(variable);
}
END_TEST

/* --- Keeper --- */

struct kept {
    struct program *process; /* the process for which the lock is kept */
    pid_t keeper;
    const char *token;
};

static struct kept keep(const char *key, const char *ttl)
{
    char pid[24];
    struct kept kept;

    prctl(PR_SET_CHILD_SUBREAPER, 1); /* a keeper whose parent has ended becomes a child of this process */
    kept.process = words_start(NULL, "sleep", "600", NULL);
    snprintf(pid, sizeof(pid), "%d", (int)program_pid(kept.process));
    struct program *program =
        program_run(&scene_on_nodes, "acquire", key, "--for", pid, "--ttl", ttl, "--json", "-n", NULL);
    program_exits(program, 0);
    kept.keeper = (pid_t)atol(json_get(program, ".keeper"));
    kept.token = json_get(program, ".token");
    ck_assert_int_gt(kept.keeper, 1);
    ck_assert(real_shows_everywhere(key, kept.token));
    return kept;
}

static bool has_ended(void *arg)
{
    const struct kept *kept = arg;
    int status;

    if (waitpid(kept->keeper, &status, WNOHANG) != kept->keeper)
        return false;
    ck_assert_int_eq(status, 0);
    return true;
}

static void check_that_it_ends(struct kept *kept)
{
    ck_assert_msg(wait_until(has_ended, kept, REAL_SOON_MS), "the keeper lives on");
    ck_assert(real_nothing_left(NULL));
}

static bool has_passed(void *deadline)
{
    return test_now_ns() > *(uint64_t *)deadline;
}

START_TEST(a_keeper_renews_until_its_process_ends)
{
    const char *key = real_key("kept");
    struct kept kept = keep(key, "4s");
    uint64_t deadline = test_deadline_ns(TTL_MS + TTL_MS / 4);

    ck_assert(wait_until(has_passed, &deadline, REAL_SOON_MS));
    ck_assert(real_shows_everywhere(key, kept.token));
    ck_assert_int_eq(kill(kept.keeper, 0), 0);
    program_signal(kept.process, SIGKILL);
    program_exits(kept.process, -SIGKILL);
    check_that_it_ends(&kept);
}
END_TEST

START_TEST(a_keeper_ends_when_it_is_asked_to)
{
    struct kept kept = keep(real_key("asked"), "30s");

    kill(kept.keeper, SIGTERM);
    check_that_it_ends(&kept);
    ck_assert(program_is_running(kept.process));
}
END_TEST

START_TEST(a_keeper_ends_when_its_lock_is_released)
{
    const char *key = real_key("released");
    struct kept kept = keep(key, "5s");

    program_exits(run("release", key, kept.token), 0);
    check_that_it_ends(&kept);
}
END_TEST

/* The lock is deleted by another client, or expires. */
START_TEST(a_loss_is_told_by_a_signal_that_was_asked_for)
{
    const char *key = real_key("told"), *signal = _i == 2 ? "SIGTERM" : "USR1";
    struct program *process =
        words_start(NULL, "sh", "-c", "trap 'echo lost; exit 7' USR1; echo ready; while :; do sleep 0.02; done", NULL);
    char pid[24];

    snprintf(pid, sizeof(pid), "%d", (int)program_pid(process));
    ck_assert(program_says(process, "ready"));
    struct program *acquire = _i == 0 ? program_run(&scene_on_nodes, "acquire", key, "--for", pid, "--ttl", "5s",
                                                    "--loss-signal", signal, NULL)
                                      : program_run(&scene_on_nodes, "acquire", key, "--for", pid, "--ttl", "3s",
                                                    "--cap", "4s", "--loss-signal", signal, NULL);
    program_exits(acquire, 0);
    if (_i == 0)
        for (size_t i = 0; i < NODES; i++)
            real_delete(i, key);
    program_exits(process, _i == 2 ? -SIGTERM : 7);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

static bool has_another_watchdog(void *arg)
{
    const pid_t *known = arg; /* the keeper and its first watchdog */
    pid_t child = program_child(known[0]);

    return child != 0 && child != known[1];
}

/* The keeper is killed; stopped; killed after its watchdog was killed. */
START_TEST(the_loss_is_signalled_when_the_keeper_is_killed_or_stopped)
{
    struct program *process =
        words_start(NULL, "sh", "-c", "trap 'echo lost; exit 7' USR1; echo ready; while :; do sleep 0.02; done", NULL);
    char pid[24];

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(pid, sizeof(pid), "%d", (int)program_pid(process));
    ck_assert(program_says(process, "ready"));
    struct program *acquire = program_run(&scene_on_nodes, "acquire", real_key("keeper"), "--for", pid, "--ttl",
                                          "900ms", "--loss-signal", "USR1", "--json", NULL);
    program_exits(acquire, 0);
    pid_t keeper = (pid_t)atol(json_get(acquire, ".keeper"));
    pid_t known[] = {keeper, program_child(keeper)};
    ck_assert_int_gt(known[1], 0);
    if (_i == 2) {
        kill(known[1], SIGKILL);
        ck_assert(wait_until(has_another_watchdog, known, PROGRAM_SOON_MS));
    }
    kill(keeper, _i == 1 ? SIGSTOP : SIGKILL);
    program_exits(process, 7);
    kill(keeper, SIGKILL);
    ck_assert(real_nothing_left(NULL)); /* after its ttl */
}
END_TEST

START_TEST(an_end_that_is_no_loss_is_not_told)
{
    struct program *process = words_start(NULL, "sleep", "600", NULL);
    char pid[24];

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(pid, sizeof(pid), "%d", (int)program_pid(process));
    struct program *program = program_run(&scene_on_nodes, "acquire", real_key("ended"), "--for", pid, "--loss-signal",
                                          "TERM", "--json", NULL);
    program_exits(program, 0);
    struct kept kept = {.process = process, .keeper = (pid_t)atol(json_get(program, ".keeper"))};
    kill(kept.keeper, SIGTERM);
    check_that_it_ends(&kept);
    ck_assert(program_is_running(process));
}
END_TEST

START_TEST(a_keeper_holds_no_longer_than_its_cap)
{
    struct program *process = words_start(NULL, "sleep", "600", NULL);
    char pid[24];

    snprintf(pid, sizeof(pid), "%d", (int)program_pid(process));
    program_exits(
        program_run(&scene_on_nodes, "acquire", real_key("cap"), "--for", pid, "--ttl", "3s", "--cap", "4s", NULL), 0);
    ck_assert(real_nothing_left(NULL));
    ck_assert(program_is_running(process));
}
END_TEST

static void check_link(pid_t pid, const char *name, const char *target)
{
    char path[64], to[512] = "";

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    ck_assert_int_gt(readlink(path, to, sizeof(to) - 1), 0);
    ck_assert_str_eq(to, target);
}

/* An inherited pipe would never end, and an inherited directory could not be unmounted. */
START_TEST(a_keeper_holds_nothing_of_who_started_it)
{
    static const char line[] = "sleep 600 & P=$!; \"$R\" acquire \"$1\" --for $P --json 9>&1 2>&1 | cat; kill $P";

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    struct program *shell = run_shell(line, real_key("nothing")); /* the pipe ends, so the shell does */
    program_exits(shell, 0);
    struct kept kept = {.keeper = (pid_t)atol(json_get(shell, ".keeper"))};
    check_that_it_ends(&kept);

    kept = keep(real_key("nothing"), "30s");
    check_link(kept.keeper, "cwd", "/");
    for (const char *name = "012"; *name != '\0'; name++) {
        char descriptor[8];
        snprintf(descriptor, sizeof(descriptor), "fd/%c", *name);
        check_link(kept.keeper, descriptor, "/dev/null");
    }
    ck_assert_int_eq(getsid(kept.keeper), kept.keeper);
    kill(kept.keeper, SIGTERM);
    check_that_it_ends(&kept);
}
END_TEST

START_TEST(a_process_that_is_not_there_gets_no_lock)
{
    struct program *gone = words_start(NULL, "true", NULL);
    char pid[24];

    snprintf(pid, sizeof(pid), "%d", (int)program_pid(gone));
    program_exits(gone, 0);
    struct program *program = program_run(&scene_on_nodes, "acquire", real_key("gone"), "--for", pid, NULL);
    program_exits(program, SYSTEM);
    program_says_in_one_line(program, "No such process");
    ck_assert(real_nothing_left(NULL));
}
END_TEST

START_TEST(a_keeper_of_a_lock_that_is_not_obtained_ends)
{
    const char *key = real_key("held");
    struct program *process = words_start(NULL, "sleep", "600", NULL);
    char pid[24];

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(pid, sizeof(pid), "%d", (int)program_pid(process));
    const char *token = token_of(run("acquire", key, NULL));
    program_exits(program_run(&scene_on_nodes, "acquire", key, "-n", "--for", pid, NULL), NOT_OBTAINED);
    int status;
    ck_assert_int_gt(waitpid(-1, &status, __WALL), 0); /* the sleeping process still runs, so this is the keeper */
    ck_assert(program_is_running(process));
    program_exits(run("release", key, token), 0);
}
END_TEST

static Suite *token_suite(void)
{
    Suite *suite = suite_create("cli_token");
    TCase *tcase = patient(scene_shared_case(suite, "tokens"));
    tcase_add_test(tcase, every_node_shows_the_token_that_is_written);
    tcase_add_test(tcase, an_extension_lengthens_and_never_shortens);
    tcase_add_test(tcase, a_lock_is_broken_by_the_token_that_status_shows);
    tcase_add_test(tcase, a_token_goes_through_a_pipe);
    tcase_add_test(tcase, odd_bytes_in_a_name);
    tcase_add_test(tcase, a_token_that_cannot_be_written_is_no_lock);
    tcase_add_test(tcase, limit_of_open_files_is_named);
    tcase_add_loop_test(tcase, token_that_status_shows_is_taken_back, 0,
                        (int)(sizeof(foreign_tokens) / sizeof(foreign_tokens[0])));
    tcase_add_test(tcase, extension_never_gives_an_end_to_a_lock_without_one);
    tcase_add_test(tcase, what_nobody_reads_ends_nothing);
    tcase_add_test(tcase, an_interrupt_ends_the_waiting_and_leaves_nothing);
    tcase_add_test(tcase, each_step_is_explained);
    tcase_add_loop_test(tcase, a_command_line_that_is_wrong_is_refused, 0, BAD_LINES);

    tcase = patient(scene_own_case(suite, "faults"));
    tcase_add_test(tcase, a_minority_that_hangs_or_is_down_does_no_harm);
    tcase_add_test(tcase, without_a_majority_there_is_no_lock);

    tcase = scene_bare_case(suite, "other nodes");
    tcase_add_test(tcase, a_wrong_password_is_told_at_once);
    tcase_add_test(tcase, a_quarantine_is_shown_and_waited_out);

    tcase = patient(scene_shared_case(suite, "keepers"));
    tcase_add_test(tcase, a_keeper_renews_until_its_process_ends);
    tcase_add_test(tcase, a_keeper_ends_when_it_is_asked_to);
    tcase_add_test(tcase, a_keeper_ends_when_its_lock_is_released);
    tcase_add_loop_test(tcase, the_loss_is_signalled_when_the_keeper_is_killed_or_stopped, 0, 3);
    tcase_add_test(tcase, a_keeper_holds_no_longer_than_its_cap);
    tcase_add_loop_test(tcase, a_loss_is_told_by_a_signal_that_was_asked_for, 0, 3);
    tcase_add_test(tcase, an_end_that_is_no_loss_is_not_told);
    tcase_add_test(tcase, a_keeper_holds_nothing_of_who_started_it);
    tcase_add_test(tcase, a_process_that_is_not_there_gets_no_lock);
    tcase_add_test(tcase, a_keeper_of_a_lock_that_is_not_obtained_ends);
    return suite;
}

int main(void)
{
    patience_begin();
    return real_run(token_suite(), false);
}
