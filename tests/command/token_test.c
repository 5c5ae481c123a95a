/* redlock acquire, extend and release: a lock that is passed from one process to the next as the text of its token. */
#include "scene.h"

#include "support/clock.h"
#include "support/server_program.h"

#include <signal.h>

enum { NODES = 5, QUORUM = 3 };

#define TOKEN "0123456789abcdef0123456789abcdef01234567"

/* The output of acquire: the token and a newline, nothing more. */
static const char *token_of(struct program *program)
{
    program_exits(program, 0);
    const char *text = program_output(program);
    ck_assert_msg(strspn(text, "0123456789abcdef") == 40 && text[40] == '/' && strcspn(text, " ") == strlen(text) &&
                      strchr(text, '\n') == text + strlen(text) - 1,
                  "not a token: %s", text);
    return program_text("%.*s", (int)strlen(text) - 1, text);
}

/* --- Acquire, extend, release --- */

TEST(shared_nodes, every_node_shows_the_token_that_is_written)
{
    const char *key = real_key("token");
    struct program *program = program_run("acquire -v %s --ttl 30s", key);
    const char *token = token_of(program);
    program_errors_have(program, "first attempt: done: 5 granted"); /* each step is explained */
    program_errors_have(program, ": granted after ");
    ck_assert(real_shows_everywhere(key, token));
    program_exits(program_run("acquire %s -n", key), NOT_OBTAINED);
    program = program_exits(program_run("acquire %s -w 2s -E 7", key), 7);
    program_errors_have(program, "held by ");
    program = program_exits(program_run("release --verbose %s %s", key, token), 0);
    program_errors_have(program, "release: done: 5 granted");
    ck_assert(real_shows_everywhere(key, "(nil)"));
    program_refuses(program_run("release %s %s", key, token), LOST,
                    "is not held by this token: 5 of 5 nodes do not have it");
}

/* Whether the key's remaining ttl on every node is from `least` to `most`. */
static bool lives_for(const char *key, long long least, long long most)
{
    return real_all_reply(&(struct real_number){{"PTTL", key}, least, most});
}

TEST(shared_nodes, an_extension_lengthens_and_never_shortens)
{
    const char *key = real_key("extended"), *token = token_of(program_run("acquire %s --ttl 15s", key));
    ck_assert(!lives_for(key, 15001, 30000));
    program_exits(program_run("extend %s %s --ttl 30s", key, token), 0);
    ck_assert(lives_for(key, 15001, 30000));
    struct program *program = program_exits(program_run("extend %s %s --json --ttl 1s", key, token), 0);
    json_is(program, ".token", token);
    json_is(program, ".validity_ms > 0 and .validity_ms <= 1000 and .granted >= 3", "true");
    ck_assert(lives_for(key, 15001, 30000));
    program_exits(program_run("release %s %s", key, token), 0);
    program_refuses(program_run("extend %s %s", key, token), LOST, "the lock is no longer held");
}

/* A forced unlock: the holder notices it at its next renewal. */
TEST(shared_nodes, a_lock_is_broken_by_the_token_that_status_shows)
{
    const char *key = real_key("broken");
    struct program *holder = program_start("run --ttl 5s --grace 100ms %s -- sh -c 'echo ready; exec sleep 60'", key);
    program_shows(holder, "ready");
    const char *token = scene_json(program_run("status %s --json", key), ".resources[0].token");
    program_exits(program_run("release %s %s", key, token), 0);
    program_exits(holder, LOST);
    program_errors_have(holder, "no longer has it");
    ck_assert(real_nothing_left(NULL));
}

/* Lines of a shell. $1 is the resource. */
static const struct {
    const char *line;
    int status;
    const char *says;
} shells[] = {
    {"$R acquire $1 | $R release $1 -", 0, ""},
    {"set -e; T=$($R acquire $1 --fence); $R extend $1 - <<<$T; set -- $1 $T; test $3 -gt 0; $R release $1 $2", 0, ""},
    /* No process would have the token of such a lock, which would only be in the way. */
    {"$R acquire $1 >/dev/full", SYSTEM, "redlock acquire: cannot write the token; the lock is released"},
    {"$R acquire $1 >&-", SYSTEM, "cannot write the token"},
    /* Otherwise a connection would be its standard input. */
    {"$R run $1 -- readlink /proc/self/fd/0 <&- >&2", 0, "/dev/null\n"},
    {"exec 3> >(:); wait $!; $R acquire $1 >&3", SYSTEM, "cannot write the token"},
    /* The reader of the errors may have ended before the lock is granted. The operation still completes. */
    {"exec 3> >(:); wait $!; T=$($R acquire -v $1 2>&3) && $R extend -v $1 $T 2>&3 && $R release -v $1 $T 2>&3", 0, ""},
};

TEST_ROWS(shared_nodes, in_a_shell_a_token_is_passed_on_or_the_lock_is_released, ROWS(shells))
{
    struct program *shell =
        program_exits(program_shell("set -- %s; %s", real_key("shell"), shells[_i].line), shells[_i].status);
    program_errors_have(shell, shells[_i].says);
    ck_assert(real_nothing_left(NULL));
}

/* A name may contain any byte except NUL. */
TEST(shared_nodes, odd_bytes_in_a_name)
{
    static const char key[] = real_key("odd \xff\n\"\\ -- $(x)"), shown[] = real_key("odd \\xff\\x0a\"\\ -- $(x)");
    struct program *program = program_exits(program_run("acquire '%s' --ttl 30s --json", key), 0);
    const char *token = scene_json(program, ".token");
    ck_assert(real_shows_everywhere(key, token));
    json_is(program, ".resource", shown); /* as status and messages show it */
    json_is(program, ".validity_ms > 5000 and .granted == 5 and .nodes == 5", "true");
    program_exits(program_run("extend '%s' %s", shown, token), 0);
    program_refuses(program_run("acquire '%s' -n", key), NOT_OBTAINED, "odd \\xff\\x0a");
    program_exits(program_run("release '%s' %s", key, token), 0);
    ck_assert(real_nothing_left(NULL));
}

/* Values that other libraries, or people, store in a key. */
static const char *const foreign_tokens[] = {
    "forever", "(shared)", "(empty)", "a b\tc", "\xff\x01", "back\\x41slash", "gr\xc3\xb6\xc3\x9ft", "$(x) 'y' \"z\"",
};

TEST_ROWS(shared_nodes, token_that_status_shows_is_taken_back, ROWS(foreign_tokens))
{
    static const char *const commands[] = {"extend", "release"};
    const char *key = real_key("foreign");
    for (size_t i = 0; i < NODES; i++)
        ck_assert(real_foreign_set(i, key, foreign_tokens[_i]));
    struct program *program = program_exits(program_run("status %s --json", key), 0);
    const char *token = scene_json(program, ".resources[0].token");
    program_output_has(program_run("status %s", key), token);
    for (size_t i = 0; i < 2; i++) {
        ck_assert(real_shows_everywhere(key, foreign_tokens[_i]));
        program_exits(program_shell("read -r T <<'TOKEN'\n%s\nTOKEN\n$R %s %s \"$T\"", token, commands[i], key), 0);
    }
    ck_assert(real_shows_everywhere(key, "(nil)"));
}

/* A lock of another library may never expire. Extending it sets no expiry. */
TEST(shared_nodes, extension_never_gives_an_end_to_a_lock_without_one)
{
    const char *key = real_key("endless");
    real_command(NODES, "SET", key, "forever", NULL);
    program_exits(program_run("extend %s forever", key), 0);
    ck_assert(lives_for(key, -1, -1));
    program_exits(program_run("release %s forever", key), 0);
}

static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};

TEST_ROWS(shared_nodes, an_interrupt_ends_the_waiting_and_leaves_nothing, ROWS(interrupts))
{
    const char *key = real_key("interrupted"), *queue = real_key("interrupted:redlock:queue");
    scene_hold(key);
    struct program *waiter = program_start("acquire %s -v", key);
    program_shows(waiter, "first attempt: held by ");
    ck_assert(wait_until(real_all_reply, &(struct real_number){{"ZCARD", queue}, 1, 1}, REAL_SOON_MS));
    program_signal(waiter, interrupts[_i]);
    program_exits(waiter, -interrupts[_i]);
    ck_assert(real_all_reply(&(struct real_number){{"ZCARD", queue}, 0, 0}));
    ck_assert_str_eq(program_output(waiter), "");
    scene_delete(key);
    ck_assert(real_nothing_left(NULL));
}

/* The signal may arrive before or after the last moment at which the lock is taken back; the round's number makes no
 * difference. */
TEST(shared_nodes, lock_whose_acquire_ends_by_a_signal_is_not_held)
{
    enum { ROUNDS = 20 };
    const char *key = real_key("handed-out");
    for (int i = 0; i < ROUNDS; i++) {
        struct program *shell = program_waited(
            program_shell("exec 3< <(exec $R acquire %s -n); read -r T <&3; kill $!; wait $!; echo \"$T $?\"", key));
        const char *output = program_output(shell);
        bool ended = strcmp(output + strcspn(output, " "), program_text(" %d\n", 128 + SIGTERM)) == 0;
        ck_assert_msg(ended || strcmp(output + strcspn(output, " "), " 0\n") == 0, "round %d: %s", i, output);
        ck_assert_msg(scene_held_on(key) == (ended ? 0 : NODES), "round %d: %s", i, output);
        scene_delete(key);
    }
}

/* Whichever descriptor exceeds the limit, the message names the cause and the remedy. */
TEST(shared_nodes, limit_of_open_files_is_named)
{
    unsigned named = 0;
    for (int limit = 8; limit <= 28; limit++) {
        struct program *program = program_waited(program_shell("ulimit -n %d; exec $R run test:limit -- true", limit));
        const char *errors = program_errors(program), *cause = strstr(errors, "cannot create a descriptor");
        ck_assert_msg(cause == NULL || strstr(cause, "Too many open files; raise the limit of open files (ulimit -n)"),
                      "%d: %s", limit, errors);
        ck_assert(cause == NULL || program_wait(program) == SYSTEM);
        named += strstr(errors, "descriptor") != NULL;
    }
    ck_assert_uint_gt(named, 0);
}

/* --- Failing nodes --- */

TEST(own_nodes, without_a_majority_there_is_no_lock)
{
    for (size_t i = 0; i < QUORUM; i++)
        cluster_kill(cluster, i);
    program_refuses(program_run("acquire test:x -n"), NO_QUORUM, "cannot connect: Connection refused");
    program_refuses(program_run("extend test:x " TOKEN), NO_QUORUM, "it may last until its old end");
    struct program *program = program_run("release test:x " TOKEN);
    program_refuses(program, NO_QUORUM, "no majority has confirmed the release");
    ck_assert_ptr_null(strstr(program_errors(program), "connected again")); /* no process is left that could do it */
    program = program_exits(program_run("release -v test:x " TOKEN), NO_QUORUM);
    program_errors_have(program, "close: ");
    ck_assert_ptr_null(strstr(program_errors(program), "(null)"));
    ck_assert(real_nothing_left(NULL));
}

TEST(no_nodes, wrong_password_is_reported_at_once)
{
    const char *says = server_program_has(SERVER_ACL) ? "WRONGPASS" : "invalid password";
    scene_cluster(3, &(struct cluster_node_options){.password = "right"});
    struct program *program = program_exits(program_run("REDLOCK_PASSWORD=wrong-one acquire x"), MISCONFIGURED);
    program_errors_have(program, says);
    program_exits(program_run("REDLOCK_PASSWORD=wrong-one release x " TOKEN), MISCONFIGURED);
    program_refuses(program_run("REDLOCK_PASSWORD=wrong-one run x -- echo ran"), MISCONFIGURED, says);
}

/* New nodes grant nothing for a while. acquire says so, and waits until it is over. */
TEST(no_nodes, a_quarantine_is_shown_and_waited_out)
{
    scene_cluster(3, NULL);
    program_setting.config = scene_file("timeout = 10s\nttl = 3s\nmax-ttl = 3s\n");
    struct program *program = program_run("acquire x --no-wait");
    program_refuses(program, NO_QUORUM, "in quarantine for");
    program_says_in_one_line(program, "; if no client holds a lock, redlock trust ends the quarantine");
    program = program_run("acquire x");
    token_of(program);
    program_errors_have(program, "waiting: ");
}

REAL_PROGRAM("cli_token")
