/* redlock status: how it presents the nodes' replies, for people, for programs and on a terminal. */
#include "scene.h"

#include "support/clock.h"
#include "support/server_program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 5, QUORUM = 3 };

static struct program *status(const char *key, const char *option)
{
    struct program *program = program_exits(program_run("status %s %s", key, option), 0);
    ck_assert_str_eq(program_errors(program), "");
    return program;
}

static const char *acquire(const char *key)
{
    struct program *program = program_exits(program_run("acquire %s --ttl 30s --json", key), 0);
    return scene_json(program, ".token");
}

TEST(shared_nodes, a_free_lock)
{
    const char *key = real_key("free");
    program_output_has(status(key, ""), "' free\n");
    struct program *program = status(key, "--json");
    json_is(
        program,
        ".resources[0] | [.resource, .state, .held_on, .free_on, .quorum, .waiters, (.nodes | length)] | join(\" \")",
        real_key("free free 0 5 3 0 5"));
    json_is(program, "[.resources[0].nodes[] | select(.state == \"free\" and .waiters == 0)] | length", "5");
}

TEST(shared_nodes, a_held_lock)
{
    const char *key = real_key("held"), *token = acquire(key);
    struct program *program = status(key, "");
    program_output_has(program, "' held by ");
    program_output_has(program, " on 5 of 5 nodes, for ");
    program_output_has(program, " s unless extended\n");
    ck_assert_uint_eq(program_count(program, token), NODES);
    program = status(key, "--json");
    json_is(program, ".resources[0] | [.state, .token] | join(\" \")", program_text("held %s", token));
    json_is(program, ".resources[0].remaining_ms | . > 5000 and . <= 30001", "true");
    json_is(program, "[.resources[0].nodes[] | select(.state == \"held\" and .remaining_ms > 5000)] | length", "5");
    scene_delete(key);
}

/* Two nodes have another holder's key and one has none, so the holder has only two nodes. */
TEST(shared_nodes, lock_without_a_majority_is_disputed)
{
    const char *key = real_key("disputed");
    acquire(key);
    for (size_t i = 0; i < 3; i++)
        real_delete(i, key);
    ck_assert(real_foreign_set(0, key, "of\033another"));
    cluster_command(cluster, 1, NULL, 0, "SET", key, "for ever", NULL);
    struct program *program = status(key, "");
    program_output_has(program, "' disputed: free on 1 of 5 nodes, no client has a majority\n");
    program_output_has(program, "of\\x1banother");
    program_output_has(program, "no end");
    ck_assert_ptr_null(strchr(program_output(program), '\033'));
    program = status(key, "--json");
    json_is(program, ".resources[0] | [.state, .held_on, .free_on, .token] | join(\" \")", "disputed 2 1 ");
    json_is(program, ".resources[0].nodes[1] | [.state, .token, .remaining_ms] | join(\" \")", "held for\\x20ever ");
    scene_delete(key);
}

TEST(shared_nodes, a_watch_shows_who_comes_to_wait_until_it_is_interrupted)
{
    const char *key = real_key("watched"), *token = acquire(key);
    struct program *watch = program_start("status %s --watch --interval 100ms", key);
    program_shows(watch, " on 5 of 5");
    struct program *waiter = program_start("acquire %s", key);
    program_shows(watch, "; 1 waiting\n");
    program_exits(program_run("release %s %s", key, token), 0);
    program_exits(waiter, 0);
    ck_assert(program_count(watch, "' held by ") > 1);
    program_signal(watch, SIGINT);
    program_exits(watch, -SIGINT);
    ck_assert_ptr_null(strchr(program_output(watch), '\033')); /* the output is no terminal */
    scene_delete(key);
}

/* A leader is observed without campaigning: its label, and each change. */
TEST(shared_nodes, a_watch_for_programs_is_a_line_for_each_change)
{
    struct program *watch = program_start("status test:lines --watch --json --interval 50ms");
    program_shows(watch, "\"free\"");
    struct program *leader = program_start("run --label a test:lines -- sh -c 'echo leads; exec sleep 60'");
    program_shows(watch, "\"label\":\"a\"");
    program_shows(leader, "leads"); /* a signal that comes earlier ends the wait */
    program_terminates(leader);
    leader = program_start("run --label b test:lines -- sh -c 'echo leads; exec sleep 60'");
    program_shows(watch, "\"label\":\"b\"");
    program_shows(leader, "leads");
    uint64_t began = test_now_ns();
    struct program *other = program_start("status test:lines --watch --interval 50ms");
    ck_assert(program_says_again(other, "' held by b ", 2));
    unsigned lines = program_count(watch, "\n");
    ck_assert_uint_ge(lines, 3);
    ck_assert(program_says_again(other, "' held by b ", 20)); /* renewals are no changes */
    ck_assert_uint_ge(test_now_ns() - began, 19 * 50 * UINT64_C(1000000));
    ck_assert_uint_eq(program_count(watch, "\n"), lines);
    program_signal(other, SIGTERM);
    program_exits(other, -SIGTERM);
    program_signal(watch, SIGTERM);
    program_exits(watch, -SIGTERM);
    program_terminates(leader);
}

/* Kinds of locks that only redlock run creates. status shows them, and extend and release by token report which kind
 * it is. */
static struct program *run_with(const char *options, const char *key)
{
    struct program *run = program_start("run %s %s -- sh -c 'echo $REDLOCK_TOKEN; exec sleep 60'", options, key);
    program_shows(run, "\n");
    return run;
}

static void is_not_handed_on(struct program *run, const char *key, const char *says)
{
    static const char *const commands[] = {"release", "extend"};
    for (size_t i = 0; i < 2; i++) {
        struct program *program = program_exits(
            program_run("%s %s %.*s", commands[i], key, (int)strcspn(program_output(run), "\n"), program_output(run)),
            LOST);
        program_errors_have(program, says);
    }
}

TEST(shared_nodes, the_permits_of_a_semaphore_that_are_taken)
{
    const char *key = real_key("permits"), *slot = real_key("permits:redlock:slot:1");
    struct program *first = run_with("--permits 3 --take 2", key), *second = run_with("--permits 3", key);
    struct program *taken = status(key, "");
    program_output_has(taken, "' semaphore, 3 permits taken\n");
    program_output_has(taken, "  replied\n");
    json_is(status(key, "--json"), ".resources[0] | [.state, .permits_taken] | join(\" \")", "semaphore 3");
    is_not_handed_on(first, key, "is a semaphore: only its redlock run can extend or release a permit");
    program_terminates(first);
    program_output_has(status(key, ""), "' semaphore, 1 permit taken\n");
    program_terminates(second);
    ck_assert(real_foreign_set(0, slot, "somebody"));
    program_output_has(status(key, ""), "' free\n"); /* a minority has the key */
    real_delete(0, slot);
}

TEST(shared_nodes, the_lock_of_a_reader)
{
    const char *key = real_key("readers");
    struct program *run = run_with("--shared", key);
    program_output_has(status(key, ""), "' held on "); /* a majority suffices to begin */
    json_is(status(key, "--json"), ".resources[0] | [.state, .token] | join(\" \")", "held (shared)");
    is_not_handed_on(run, key, "is shared: only its redlock run can extend or release a reader's lock");
    program_terminates(run);
    program_output_has(status(key, ""), "' free\n");
}

TEST(shared_nodes, key_that_is_no_lock_is_called_so)
{
    const char *key = real_key("other");
    real_command(5, "HSET", key, "field", "value", NULL);
    program_output_has(status(key, ""), "(not a string)");
    struct program *program = program_run("run -n %s -- true", key);
    program_refuses(program, NOT_OBTAINED, "is not a lock: its key holds other data");
    scene_delete(key);
}

/* --- list --- */

static void set_everywhere(const char *key, const char *value)
{
    for (size_t i = 0; i < NODES; i++)
        ck_assert(real_foreign_set(i, key, value));
}

#define DIGITS "0123456789abcdef0123456789abcdef01234567"

TEST(shared_nodes, every_lock_reader_and_permit_that_a_majority_has_is_listed)
{
    struct program *held = run_with("--label deploy@web-3:4711", "'test:listed/a b'");
    struct program *first = run_with("--shared", "test:listed/read"),
                   *second = run_with("--shared", "test:listed/read");
    struct program *permits = run_with("--permits 3 --take 2", "test:listed/pool");
    set_everywhere("test:listed/value", "of another program");
    set_everywhere("test:listed/bare", DIGITS);
    set_everywhere("test:listed/bell", DIGITS "/1/\033[2J");   /* like our token, with a control byte */
    ck_assert(real_foreign_set(0, "test:listed/few", DIGITS)); /* a minority */
    ck_assert(real_foreign_set(1, "test:listed/few", DIGITS));
    struct program *list = program_exits(program_run("list 'test:listed/*' --json"), 0);
    ck_assert_str_eq(program_errors(list), "");
    json_is(list, "[.locks[] | .resource + \" \" + .kind] | join(\",\")",
            "test:listed/a b lock,test:listed/bare lock,test:listed/bell lock,test:listed/pool permit,"
            "test:listed/pool permit,test:listed/read reader,test:listed/read reader");
    json_is(list, ".locks[0] | [.label, .held_on >= 3, .waiters] | join(\" \")", "deploy@web-3:4711 true 0");
    json_is(list, "[.nodes_read, .quorum] | join(\" \")", "5 3");
    json_is(list, "[.locks[] | select(.remaining_ms > 0)] | length", "7");
    json_is(list, "[.locks[] | select(.kind == \"permit\").token] | unique | length", "1");
    list = program_exits(program_run("list 'test:listed/a?b'"), 0);
    program_output_has(list, "'test:listed/a b' held by deploy@web-3:4711 since ");
    ck_assert_uint_eq(program_count(list, "\n"), 1);
    list = program_exits(program_run("list test:listed/bell"), 0);
    program_output_has(list, "by token " DIGITS "/1/\\x1b[2J, for ");
    program_output_has(program_exits(program_run("list test:listed/pool"), 0), "' permit ");
    program_terminates(held);
    program_terminates(first);
    program_terminates(second);
    program_terminates(permits);
    ck_assert_str_eq(program_output(program_exits(program_run("list test:listed/read"), 0)), "");
    scene_delete("test:listed/value");
    scene_delete("test:listed/bare");
    scene_delete("test:listed/bell");
    scene_delete("test:listed/few");
}

/* The rows of the terminal, and how many of four free locks are shown, with their five nodes or without. */
static const struct {
    int rows;
    unsigned locks, nodes;
    const char *hint;
} low[] = {{40, 4, 20, NULL}, {26, 4, 20, NULL}, {25, 4, 0, NULL}, {6, 4, 0, NULL}, {5, 2, 0, "2 more do not fit"}};

TEST_ROWS(shared_nodes, a_watch_fits_into_a_low_terminal, ROWS(low))
{
    program_setting.terminal = true;
    struct program *watch =
        program_shell("stty rows %d; NO_COLOR=1 exec $R status -w test:a test:b test:c test:d", low[_i].rows);
    program_shows(watch, "\033[?7h");
    program_signal(watch, SIGINT);
    program_exits(watch, -SIGINT);
    char *frame = strstr(program_output(watch), "\033[2J");
    *strstr(frame, "\033[?7h") = '\0';
    unsigned locks = 0, nodes = 0, lines = 0;
    for (const char *at = frame; (at = strstr(at, "' free")) != NULL; at++)
        locks++;
    for (const char *at = frame; (at = strstr(at, "  free")) != NULL; at++)
        nodes++;
    for (const char *at = frame; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    ck_assert_msg(locks == low[_i].locks && nodes == low[_i].nodes && lines < (unsigned)low[_i].rows, "%s", frame);
    ck_assert(low[_i].hint == NULL || strstr(frame, low[_i].hint) != NULL);
}

TEST(shared_nodes, a_terminal_gets_a_new_screen_and_colours)
{
    program_setting.terminal = true;
    struct program *watch = program_start("TERM=xterm status test:screen --watch");
    program_shows(watch, "\033[32mfree");
    program_output_has(watch, "\033[H\033[2J");
    program_type(watch, "\003");
    program_exits(watch, -SIGINT);
    struct program *program = program_run("TERM=xterm NO_COLOR=1 status test:screen");
    program_output_has(program, "' free");
    ck_assert_ptr_null(strchr(program_output(program), '\033'));
}

TEST(own_nodes, nodes_that_do_not_answer_are_named)
{
    const char *key = real_key("down");
    acquire(key);
    cluster_kill(cluster, 0);
    cluster_stop(cluster, 1);
    program_setting.config = NULL; /* the default timeouts */
    struct program *program = status(key, "");
    program_output_has(program, " on 3 of 5 nodes");
    program_output_has(program, "cannot connect: Connection refused");
    cluster_kill(cluster, 2);
    program = program_exits(program_run("status --json %s", key), NO_QUORUM);
    json_is(program, ".resources[0].state", "unknown");
    json_is(program, "[.resources[0].nodes[] | select(.error)] | length", "3");
    program_output_has(program_run("status %s", key), "' unknown: too few nodes reply, 2 of 5\n");
    cluster_repair(cluster);
    scene_delete(key);
}

/* Nodes that do not reply make the query long. The interrupt comes before the pause, which must then not begin. */
TEST(own_nodes, interrupt_during_a_query_prevents_the_pause)
{
    for (size_t i = 0; i < QUORUM; i++)
        cluster_stop(cluster, i);
    struct program *watch = program_start("status -v --timeout 1s --watch --interval 1h test:watched");
    program_shows(watch, ": ready"); /* the other nodes */
    program_signal(watch, SIGINT);
    program_exits(watch, -SIGINT);
    cluster_repair(cluster);
}

/* A majority suffices. The user needs a right that locks do not need. */
TEST(own_nodes, a_list_names_nodes_and_rights_that_it_lacks)
{
    acquire("test:listed");
    if (server_program_has(SERVER_ACL)) {
        real_command(NODES, "ACL", "SETUSER", "default", "-scan", NULL);
        program_errors_have(program_exits(program_run("list"), MISCONFIGURED), "the user lacks +scan");
        real_command(NODES, "ACL", "SETUSER", "default", "+scan", NULL);
    }
    cluster_kill(cluster, 0);
    struct program *list = program_exits(program_run("list"), 0);
    program_errors_have(list, " is not read: ");
    program_output_has(list, "'test:listed' held by ");
    cluster_repair(cluster);
    scene_delete("test:listed");
}

/* SHORT_US: the most that a command of a list may take on a node, and so delay other clients there. */
enum { LISTED = 10000, PAGE_MOST = 100, BATCH_MOST = 50, SHORT_US = 5000 };

/* The number after a field of a command in INFO commandstats, summed up over commands that begin with the name. */
static double spent_on(size_t node, const char *command, const char *field)
{
    char text[16384], line[64], word[32];
    double sum = 0;
    snprintf(line, sizeof line, "cmdstat_%s", command);
    snprintf(word, sizeof word, "%s=", field);
    ck_assert(cluster_command(cluster, node, text, sizeof text, "INFO", "commandstats", NULL));
    for (const char *at = text; (at = strstr(at, line)) != NULL; at++)
        sum += strtod(strstr(at, word) + strlen(word), NULL);
    return sum;
}

/* What a list costs other clients, by the nodes' own count: it sends many short commands, one after the other. Their mean
 * time is compared, because a busy machine may interrupt the server in any of them. LISTED_LOCKS=100000 for more. */
TEST(own_nodes, a_list_of_many_locks_sends_short_commands)
{
    const char *more = getenv("LISTED_LOCKS");
    long locks = more ? strtol(more, NULL, 10) : LISTED;
    char number[24];
    snprintf(number, sizeof number, "%ld", locks);
    real_command(NODES, "EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'test:many' .. i, ARGV[2], 'PX', 600000) end",
                 "0", number, DIGITS, NULL);
    real_command(NODES, "CONFIG", "RESETSTAT", NULL);
    struct program *list = program_exits(program_shell("$R list 'test:many*' | wc -l"), 0);
    ck_assert_int_eq(strtol(program_output(list), NULL, 10), locks);
    for (size_t i = 0; i < NODES; i++) {
        double pages = spent_on(i, "scan", "calls"), reads = spent_on(i, "eval", "calls");
        double page_us = spent_on(i, "scan", "usec") / pages, read_us = spent_on(i, "eval", "usec") / reads;
        if (more)
            printf("node %zu: %.0f SCAN of %.0f us, %.0f scripts of %.0f us\n", i, pages, page_us, reads, read_us);
        ck_assert_msg(pages * 2 * PAGE_MOST >= (double)locks && reads * BATCH_MOST >= (double)locks,
                      "%.0f pages and %.0f scripts for %ld locks", pages, reads, locks);
        ck_assert_msg(page_us < SHORT_US && read_us < SHORT_US, "%.0f us for a page, %.0f us for a script", page_us,
                      read_us);
    }
    cluster_flush_all(cluster);
}

REAL_PROGRAM("cli_status")
