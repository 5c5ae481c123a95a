/* The cluster of real servers: what it says about keys, and that it leaves no process, descriptor or file behind. */
#define _GNU_SOURCE

#include "support/clock.h"
#include "support/cluster.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/server_suite.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 3, SOON_MS = 20000 };

static struct cluster *cluster;
static char reply[512];

static void setup(void)
{
    fixtures_begin();
    cluster = cluster_create(NODES, NULL);
}

static const char *ask(size_t node, const char *command, const char *argument)
{
    cluster_command(cluster, node, reply, sizeof reply, command, argument, NULL);
    return reply;
}

static void set_everywhere(const char *key)
{
    for (size_t i = 0; i < cluster_size(cluster); i++) {
        ck_assert(cluster_command(cluster, i, reply, sizeof reply, "SET", key, "token", NULL));
        ck_assert_str_eq(reply, "OK");
    }
}

START_TEST(keys_are_counted_and_named)
{
    const char *const markers[] = {"marker:*", NULL};
    set_everywhere("marker:one");
    ck_assert_uint_eq(cluster_keys_left(cluster, NULL, markers), 0);
    ck_assert_str_eq(cluster_key_names(cluster, NULL, markers), "");
    cluster_command(cluster, 2, NULL, 0, "SET", "lock:a", "token", NULL);
    ck_assert_uint_eq(cluster_keys_left(cluster, NULL, markers), 1);
    ck_assert_uint_eq(cluster_keys(cluster, 2, NULL, NULL), 2);
    ck_assert_uint_eq(cluster_keys(cluster, 2, "lock:*", NULL), 1);
    ck_assert_str_eq(cluster_key_names(cluster, NULL, markers), "2: lock:a");
    cluster_flush_all(cluster);
    ck_assert_uint_eq(cluster_keys_left(cluster, NULL, NULL), 0);
}
END_TEST

/* --- A test program that dies --- */

/* The server and directory that a child of this process created. The child writes this to a pipe before it dies. */
struct made {
    pid_t server;
    char directory[256];
};

static void make_and_die(int out, int how)
{
    struct made made = {0};
    cluster = cluster_create(1, NULL);
    made.server = cluster_pid(cluster, 0);
    snprintf(made.directory, sizeof made.directory, "%s", cluster_directory(cluster, 0));
    ck_assert_int_eq(write(out, &made, sizeof made), (int)sizeof made);
    if (how == 0)
        _exit(1);
    if (how == 1)
        raise(SIGKILL);
    exit(0);
}

/* Also true of a zombie: the first process of a container may never reap it. */
static bool has_ended(pid_t pid)
{
    struct bytes command_line = {0};
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    bool ended = !file_read(path, &command_line) || command_line.length == 0;
    bytes_free(&command_line);
    return ended;
}

static bool is_gone(void *made)
{
    const struct made *gone = made;
    return has_ended(gone->server) && access(gone->directory, F_OK) != 0;
}

START_TEST(a_test_that_dies_leaves_nothing)
{
    struct made made;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        make_and_die(ends[1], _i);
    ck_assert_int_eq(read(ends[0], &made, sizeof made), (int)sizeof made);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert(wait_until(is_gone, &made, SOON_MS));
    close(ends[0]);
    close(ends[1]);
    ck_assert_str_eq(ask(0, "PING", NULL), "PONG");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster");
    TCase *tcase = tcase_create("cluster");
    tcase_add_checked_fixture(tcase, setup, fixtures_end);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, keys_are_counted_and_named);
    tcase_add_loop_test(tcase, a_test_that_dies_leaves_nothing, 0, 3);
    suite_add_tcase(suite, tcase);
    return run_server_suite(suite);
}
