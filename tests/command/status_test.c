/* redlock status and list, what status.txt cannot say. */
#include "story.h"

#include "support/server_program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 5 };

#define DIGITS "0123456789abcdef0123456789abcdef01234567"

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

/* The user needs a right that locks do not need. */
TEST(own_nodes, a_list_names_the_right_that_it_lacks)
{
    if (!server_program_has(SERVER_ACL))
        return;
    real_command(NODES, "ACL", "SETUSER", "default", "-scan", NULL);
    program_errors_have(program_exits(program_run("list"), MISCONFIGURED), "the user lacks +scan");
    real_command(NODES, "ACL", "SETUSER", "default", "+scan", NULL);
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
    cluster_remove_keys(cluster);
}

STORY_PROGRAM("status")
