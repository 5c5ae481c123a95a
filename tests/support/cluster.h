/* N real, independent Redis masters for a test: started in parallel, each with a directory of its own under one that is
 * removed at the end, without persistence unless asked for. The ports belong to the cluster for its whole life, also while
 * a server is down, so nobody else can answer there.
 *
 *     static struct cluster *cluster;
 *     static void setup(void)    { fixtures_begin(); cluster = cluster_create(5, NULL); }
 *     static void teardown(void) { fixtures_end(); }
 *
 * Started by an unchecked fixture the servers serve all tests of a case; tests that Check runs in a forked child may then
 * stop, resume, flush and ask them, but not kill or start them. The servers die with the thread that started them.
 *
 * A failure of the fixture itself ends the test with a message. */
#ifndef TESTS_SUPPORT_CLUSTER_H
#define TESTS_SUPPORT_CLUSTER_H

#include "bytes.h"
#include "resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cluster;

struct cluster_tls {
    const char *certificate; /* files in PEM */
    const char *key;
    const char *authority;
    bool client_certificates; /* ask for them */
};

/* How one node differs; all zero is an ordinary one. Copied. */
struct cluster_node_options {
    const char *const *arguments;  /* of the server, ended by NULL: "--maxmemory", "10mb", NULL */
    const char *password;          /* of the default user */
    const char *acl;               /* lines of an ACL file: "user default off\nuser lock on >secret ~lock:* +set\n" */
    const struct cluster_tls *tls; /* its port speaks TLS only */
    bool own_clock;                /* its wall clock can be shifted and held: see cluster_shift_clock() */
    const char *host; /* listens there, not on loopback; its socket and commands by the fixture are as ever */
    pid_t network;    /* 0, or a process in whose network namespace it runs; needs root */
    bool persistent;  /* append-only file, fsync at every write: a restart keeps the keys */
};

struct cluster_options {
    const char *const *arguments;             /* of every server, ended by NULL; NULL: none */
    const struct cluster_node_options *nodes; /* as many as there are nodes; NULL: all ordinary */
    bool unix_sockets;                        /* cluster_nodes_string() names these instead of ports */
    bool ipv6;                                /* ::1 instead of 127.0.0.1 */
};

/* options NULL: ordinary nodes on 127.0.0.1. Registers itself for fixtures_end(). */
struct cluster *cluster_create(size_t nodes, const struct cluster_options *options);
/* NULL does nothing. */
void cluster_destroy(struct cluster *cluster);

/* --- Where they are; all valid until destroy --- */

size_t cluster_size(const struct cluster *cluster);
/* "127.0.0.1:4711,127.0.0.1:4712" */
const char *cluster_nodes_string(const struct cluster *cluster);
/* "127.0.0.1:4711", "[::1]:4711" or "unix:///tmp/…/0/redis.sock" */
const char *cluster_address(const struct cluster *cluster, size_t node);
uint16_t cluster_port(const struct cluster *cluster, size_t node);
const char *cluster_socket_path(const struct cluster *cluster, size_t node);
const char *cluster_directory(const struct cluster *cluster, size_t node);
pid_t cluster_pid(const struct cluster *cluster, size_t node);

/* --- Faults; each has taken effect when the function returns --- */

/* SIGKILL. Connections are refused until it is started again. */
void cluster_kill(struct cluster *cluster, size_t node);
/* On the same port, with the same directory; answers PING when it returns. */
void cluster_start(struct cluster *cluster, size_t node);
/* Kill and start: without persistence an empty server under a new run_id. */
void cluster_restart(struct cluster *cluster, size_t node);
/* SIGSTOP and SIGCONT. A stopped server still accepts connections and bytes, and executes them when it resumes. */
void cluster_stop(struct cluster *cluster, size_t node);
void cluster_resume(struct cluster *cluster, size_t node);
void cluster_resume_all(struct cluster *cluster);
/* Its wall clock is so far ahead of the machine's from now on, negative: behind; its monotonic clocks go on. Only with
 * own_clock. */
void cluster_shift_clock(struct cluster *cluster, size_t node, int64_t shift_us);
/* Its wall clock stands still at that time, microseconds since 1970, until it is held at another or shifted. Only with
 * own_clock. */
void cluster_hold_clock(struct cluster *cluster, size_t node, int64_t time_us);
/* CONFIG SET requirepass: it is in no process's arguments. */
void cluster_set_password(struct cluster *cluster, size_t node, const char *password);
/* FLUSHALL. */
void cluster_flush(struct cluster *cluster, size_t node);
void cluster_flush_all(struct cluster *cluster);
bool cluster_running(const struct cluster *cluster, size_t node);

/* --- Asking a node, by a connection of the fixture's own that never waits longer than 5 s; user "fixture", who may do
 * anything; on a server without ACL the default user --- */

/* A command of words ended by NULL: cluster_command(cluster, 0, reply, sizeof(reply), "PTTL", key, NULL). The reply as
 * text (resp_reply_text()), cut and NUL-terminated; reply may be NULL. False when the node did not answer: the reply then
 * says why. */
bool cluster_command(struct cluster *cluster, size_t node, char *reply, size_t size, ...) __attribute__((sentinel));
/* Binary safe, the whole reply. */
bool cluster_command_argv(struct cluster *cluster, size_t node, struct bytes *reply, size_t argc,
                          const struct resp_argument *argv);
/* The same for an integer reply; anything else ends the test. */
long long cluster_integer(struct cluster *cluster, size_t node, ...) __attribute__((sentinel));

/* How many keys match the pattern (glob, NULL: all) and none of the patterns in `except` (a list ended by NULL, or NULL).
 * The node must be running. */
size_t cluster_keys(struct cluster *cluster, size_t node, const char *pattern, const char *const *except);
/* On all nodes that run, stopped ones left out. */
size_t cluster_keys_left(struct cluster *cluster, const char *pattern, const char *const *except);
/* Their names for a message, "1: lock:a lock:b"; valid until the next call for this cluster. */
const char *cluster_key_names(struct cluster *cluster, const char *pattern, const char *const *except);

#endif
