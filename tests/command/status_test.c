/* redlock status: how it presents the nodes' replies, for people, for programs and on a terminal. */
#define _GNU_SOURCE
#include "json.h"
#include "patience.h"
#include "scene.h"

#include "support/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { NODES = 5, QUORUM = 3, USAGE = 64, NO_QUORUM = 69, LOST = 75, MISCONFIGURED = 78 };

static struct program *status(const char *key, const char *option)
{
    struct program *program = program_run(&scene_on_nodes, "status", key, option, NULL);

    program_exits(program, 0);
    ck_assert_str_eq(program_errors(program), "");
    return program;
}

static struct program *acquire(const char *key, const char *token[1])
{
    struct program *program = program_run(&scene_on_nodes, "acquire", key, "--json", NULL);

    program_exits(program, 0);
    token[0] = json_get(program, ".token");
    return program;
}

static void has(struct program *program, const char *text)
{
    ck_assert_msg(strstr(program_output(program), text) != NULL, "'%s' is not in: %s", text, program_output(program));
}

START_TEST(a_free_lock)
{
    const char *key = real_key("free");

    has(status(key, NULL), "' free\n");
    struct program *program = status(key, "--json");
    json_is(program, ".resources[0].resource", real_key("free"));
    json_is(program, ".resources[0].state", "free");
    json_is(program, ".resources[0] | [.held_on, .free_on, .quorum, .waiters, (.nodes | length)] | join(\" \")",
            "0 5 3 0 5");
    json_is(program, "[.resources[0].nodes[] | select(.state == \"free\" and .waiters == 0)] | length", "5");
}
END_TEST

START_TEST(a_held_lock)
{
    const char *key = real_key("held"), *token[1];

    acquire(key, token);
    struct program *program = status(key, NULL);
    has(program, "' held on 5 of 5 nodes, for ");
    has(program, " s unless extended\n");
    ck_assert_uint_eq(program_count(program, token[0]), NODES);
    program = status(key, "--json");
    json_is(program, ".resources[0].state", "held");
    json_is(program, ".resources[0].token", token[0]);
    json_is(program, ".resources[0].remaining_ms | . > 5000 and . <= 10001", "true");
    json_is(program, "[.resources[0].nodes[] | select(.state == \"held\" and .remaining_ms > 5000)] | length", "5");
    program_exits(program_run(&scene_on_nodes, "release", key, token[0], NULL), 0);
}
END_TEST

/* Two nodes have another holder's key and one has none, so the holder has only two nodes. */
START_TEST(a_lock_that_nobody_has)
{
    const char *key = real_key("disputed"), *token[1];

    acquire(key, token);
    for (size_t i = 0; i < 3; i++)
        real_delete(i, key);
    ck_assert(real_foreign_set(0, key, "of\033another"));
    deployment_command(real_nodes, 1, NULL, 0, "SET", key, "for ever", NULL);
    struct program *program = status(key, NULL);
    has(program, "' disputed: free on 1 of 5 nodes, no client has a majority\n");
    has(program, "of\\x1banother");
    has(program, "no end");
    ck_assert_ptr_null(strchr(program_output(program), '\033'));
    program = status(key, "--json");
    json_is(program, ".resources[0] | [.state, .held_on, .free_on, .token] | join(\" \")", "disputed 2 1 ");
    json_is(program, ".resources[0].nodes[1] | [.state, .token, .remaining_ms] | join(\" \")", "held for\\x20ever ");
    for (size_t i = 0; i < NODES; i++)
        real_delete(i, key);
}
END_TEST

START_TEST(a_semaphore_with_a_permit_taken)
{
    const char *key = real_key("seats"), *slot = real_key("seats:redlock:slot:1");

    for (size_t i = 0; i < 3; i++)
        ck_assert(real_foreign_set(i, slot, "somebody"));
    has(status(key, NULL), "' semaphore, 1 permit taken\n");
    json_is(status(key, "--json"), ".resources[0] | [.state, .permits_taken] | join(\" \")", "semaphore 1");
    real_delete(0, slot);
    has(status(key, NULL), "' free\n"); /* a minority has the key */
    for (size_t i = 1; i < 3; i++)
        real_delete(i, slot);
}
END_TEST

static bool shows_a_waiter(struct program *watch)
{
    return program_says(watch, "; 1 waiting\n");
}

START_TEST(a_watch_shows_who_comes_to_wait_until_it_is_interrupted)
{
    const char *key = real_key("watched"), *token[1];

    acquire(key, token);
    struct program *watch = program_start(&scene_on_nodes, "status", key, "--watch", "--interval", "100ms", NULL);
    ck_assert(program_says(watch, "' held on 5 of 5"));
    struct program *waiter = program_start(&scene_on_nodes, "acquire", key, NULL);
    ck_assert(shows_a_waiter(watch));
    program_exits(program_run(&scene_on_nodes, "release", key, token[0], NULL), 0);
    program_exits(waiter, 0);
    ck_assert(program_count(watch, "' held on ") > 1);
    program_signal(watch, SIGINT);
    program_exits(watch, -SIGINT);
    ck_assert_ptr_null(strchr(program_output(watch), '\033')); /* the output is no terminal */
    for (size_t i = 0; i < NODES; i++)
        real_delete(i, key);
}
END_TEST

START_TEST(a_watch_for_programs_is_a_line_each_time)
{
    struct program *watch =
        program_start(&scene_on_nodes, "status", real_key("lines"), "--watch", "--json", "--interval", "50ms", NULL);

    ck_assert(program_says(watch, "}\n{"));
    program_signal(watch, SIGTERM);
    program_exits(watch, -SIGTERM);
    json_is(watch, "[.resources[0].state] | unique | join(\" \")", "free"); /* in the first line */
}
END_TEST

/* Kinds of locks that only redlock run creates. status shows them, and extend and release by token report which kind
 * it is. */
static struct program *run_with(const char *option, const char *value, const char *key)
{
    struct program *run = program_start(&scene_on_nodes, "run", option, value, key, "--", "sh", "-c",
                                        "echo $REDLOCK_TOKEN; exec sleep 60", NULL);

    ck_assert(program_says(run, "\n"));
    return run;
}

static void ends(struct program *run)
{
    program_signal(run, SIGTERM);
    program_exits(run, 128 + SIGTERM);
}

static void is_not_handed_on(struct program *run, const char *key, const char *says)
{
    char token[41];

    snprintf(token, sizeof(token), "%.40s", program_output(run));
    struct program *program = program_run(&scene_on_nodes, "release", key, token, NULL);
    program_exits(program, LOST);
    ck_assert_msg(strstr(program_errors(program), says) != NULL, "not '%s': %s", says, program_errors(program));
    program = program_run(&scene_on_nodes, "extend", key, token, NULL);
    program_exits(program, LOST);
    ck_assert_msg(strstr(program_errors(program), says) != NULL, "not '%s': %s", says, program_errors(program));
}

START_TEST(the_permits_of_a_semaphore_that_are_taken)
{
    const char *key = real_key("permits");
    struct program *first = run_with("--permits", "3", key), *second = run_with("--permits", "3", key);

    has(status(key, NULL), "' semaphore, 2 permits taken\n");
    is_not_handed_on(first, key, "is a semaphore: only its redlock run can extend or release a permit");
    ends(first);
    has(status(key, NULL), "' semaphore, 1 permit taken\n");
    ends(second);
    has(status(key, NULL), "' free\n");
}
END_TEST

START_TEST(the_lock_of_a_reader)
{
    const char *key = real_key("readers");
    struct program *run = run_with("--shared", "--fair", key);

    has(status(key, NULL), "' held on "); /* a majority suffices to begin */
    json_is(status(key, "--json"), ".resources[0] | [.state, .token] | join(\" \")", "held (shared)");
    is_not_handed_on(run, key, "is shared: only its redlock run can extend or release a reader's lock");
    ends(run);
    has(status(key, NULL), "' free\n");
}
END_TEST

START_TEST(a_terminal_gets_a_new_screen_and_colours)
{
    struct program_options terminal = scene_on_nodes;
    const char *const plain[] = {"NO_COLOR=1", "TERM=xterm", patience_variable(), NULL};
    const char *const colours[] = {"TERM=xterm", patience_variable(), NULL};

    terminal.terminal = true;
    terminal.environment = colours;
    struct program *watch = program_start(&terminal, "status", real_key("screen"), "--watch", NULL);
    ck_assert(program_says(watch, "\033[32mfree"));
    has(watch, "\033[H\033[2J");
    program_type(watch, "\003");
    program_exits(watch, -SIGINT);
    terminal.environment = plain;
    struct program *program = program_run(&terminal, "status", real_key("screen"), NULL);
    has(program, "' free");
    ck_assert_ptr_null(strchr(program_output(program), '\033'));
}
END_TEST

START_TEST(several_resources_one_of_them_odd)
{
    struct program *program =
        program_run(&scene_on_nodes, "status", "--json", "-v", real_key("a"), DEPLOYMENT_PREFIX "\xc3\xa4\n\"", NULL);

    program_exits(program, 0);
    json_is(program, ".resources | length", "2");
    json_is(program, ".resources[1] | .resource == \"test:\xc3\xa4\\\\x0a\\\"\"", "true");
    ck_assert_ptr_nonnull(strstr(program_errors(program), "5 granted")); /* -v */
}
END_TEST

START_TEST(nodes_that_do_not_answer_are_named)
{
    const char *key = real_key("down"), *token[1];

    acquire(key, token);
    deployment_kill(real_nodes, 0);
    deployment_stop(real_nodes, 1);
    scene_on_nodes.environment = NULL; /* the default timeouts */
    struct program *program = status(key, NULL);
    has(program, "' held on 3 of 5 nodes");
    has(program, "cannot connect: Connection refused");
    deployment_kill(real_nodes, 2);
    program = program_run(&scene_on_nodes, "status", "--json", key, NULL);
    program_exits(program, NO_QUORUM);
    json_is(program, ".resources[0].state", "unknown");
    json_is(program, "[.resources[0].nodes[] | select(.error)] | length", "3");
    has(program_run(&scene_on_nodes, "status", key, NULL), "' unknown: too few nodes reply, 2 of 5\n");
    deployment_resume(real_nodes, 1);
    for (size_t i = 0; i < NODES; i++)
        if (i != 0 && i != 2)
            real_delete(i, key);
}
END_TEST

/* True when the process has become redlock and catches interrupts, as it does before its first query. */
static bool catches_interrupts(void *arg)
{
    struct program *program = arg;
    char path[64], line[128];
    unsigned long long caught = 0;
    bool is_redlock = false;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)program_pid(program));
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strcmp(line, "Name:\tredlock\n") == 0)
            is_redlock = true;
        else if (sscanf(line, "SigCgt: %llx", &caught) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return is_redlock && (caught & 1ULL << (SIGINT - 1)) != 0;
}

/* Nodes that do not reply make the query long. The interrupt comes before the pause, which must then not begin. */
START_TEST(an_interrupt_during_a_look_is_not_slept_over)
{
    for (size_t i = 0; i < QUORUM; i++)
        deployment_stop(real_nodes, i);
    struct program *watch = program_start(&scene_on_nodes, "status", "--timeout", "1s", "--watch", "--interval", "1h",
                                          real_key("watched"), NULL);
    ck_assert(wait_until(catches_interrupts, watch, PROGRAM_SOON_MS));
    program_signal(watch, SIGINT);
    program_exits(watch, -SIGINT);
    for (size_t i = 0; i < QUORUM; i++)
        deployment_resume(real_nodes, i);
}
END_TEST

START_TEST(a_command_line_that_is_wrong_is_refused)
{
    static const struct {
        const char *words[3];
        const char *says;
    } lines[] = {
        {{NULL}, "at least one resource is needed"},
        {{""}, "has 0 bytes"},
        {{"a", "--interval", "1ms"}, "--interval must be at least 50 ms"},
        {{"a", "--interval", "often"}, "--interval 'often' is not a duration"},
    };
    struct program *program =
        program_run(&scene_on_nodes, "status", lines[_i].words[0], lines[_i].words[1], lines[_i].words[2], NULL);

    program_exits(program, USAGE);
    program_says_in_one_line(program, lines[_i].says);
}
END_TEST

START_TEST(without_nodes_it_says_how_to_name_them)
{
    struct program *program = program_run(NULL, "status", "a", NULL);

    program_exits(program, MISCONFIGURED);
    program_says_in_one_line(program, "no nodes are listed");
}
END_TEST

static Suite *status_suite(void)
{
    Suite *suite = suite_create("cli_status");
    TCase *tcase = patient(scene_shared_case(suite, "looks"));
    tcase_add_test(tcase, a_free_lock);
    tcase_add_test(tcase, a_held_lock);
    tcase_add_test(tcase, a_lock_that_nobody_has);
    tcase_add_test(tcase, a_semaphore_with_a_permit_taken);
    tcase_add_test(tcase, the_permits_of_a_semaphore_that_are_taken);
    tcase_add_test(tcase, the_lock_of_a_reader);
    tcase_add_test(tcase, a_watch_shows_who_comes_to_wait_until_it_is_interrupted);
    tcase_add_test(tcase, a_watch_for_programs_is_a_line_each_time);
    tcase_add_test(tcase, a_terminal_gets_a_new_screen_and_colours);
    tcase_add_test(tcase, several_resources_one_of_them_odd);
    tcase_add_loop_test(tcase, a_command_line_that_is_wrong_is_refused, 0, 4);
    tcase_add_test(tcase, without_nodes_it_says_how_to_name_them);

    tcase = patient(scene_own_case(suite, "faults"));
    tcase_add_test(tcase, an_interrupt_during_a_look_is_not_slept_over);
    tcase_add_test(tcase, nodes_that_do_not_answer_are_named);
    return suite;
}

int main(void)
{
    patience_begin();
    return real_run(status_suite(), false);
}
