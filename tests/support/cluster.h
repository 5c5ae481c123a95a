/* N real, independent Redis masters for a test. They start in parallel. Each has its own directory below one that is
 * removed at the end, and no persistence. The cluster owns its ports for its whole life, also while a
 * server is down, so that no other process can take them.
 *
 *   static struct cluster *cluster;
 *   static void setup(void)    { fixtures_begin(); cluster = cluster_create(5, NULL); }
 *   static void teardown(void) { fixtures_end(); }
 *
 * If an unchecked fixture starts the servers, they serve all tests of a case. Tests that Check runs in a forked
 * child may then stop, resume and flush them and send commands, but not kill or start them. The servers die with the
 * thread that started them.
 *
 * A failure of the fixture itself ends the test with a message. */
#ifndef TESTS_SUPPORT_CLUSTER_H
#define TESTS_SUPPORT_CLUSTER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cluster;

struct cluster_tls {
    const char *certificate; /* PEM files */
    const char *key;
    const char *authority;
    bool client_certificates; /* request certificates from clients */
};

/* Options of one node. A zeroed struct is an ordinary node. The options are copied. */
struct cluster_node_options {
    const char *const *arguments;  /* extra arguments of the server, ended by NULL: "--maxmemory", "10mb", NULL */
    const char *password;          /* of the default user */
    const char *acl;               /* lines of an ACL file: "user default off\nuser lock on >secret ~lock:* +set\n" */
    const struct cluster_tls *tls; /* its port accepts only TLS */
    bool own_clock;                /* its wall clock can be shifted and stopped: see cluster_shift_clock() */
    const char *host;              /* listens on this address instead of loopback; its unix socket does not change */
    pid_t network;                 /* 0, or a process whose network namespace it uses; needs root */
    bool cluster_mode;             /* the only server of a Redis Cluster, with all slots; Redis 7.0 and later */
};

struct cluster_options {
    const char *const *arguments;             /* extra arguments of every server, ended by NULL; NULL: none */
    const struct cluster_node_options *nodes; /* one per node; NULL: all are ordinary */
    bool unix_sockets;                        /* cluster_nodes_string() lists the sockets instead of the ports */
    bool ipv6;                                /* ::1 instead of 127.0.0.1 */
    /* The servers, all in cluster_mode, are one Redis Cluster: the first ones share the slots, and node i of the others is
     * a replica of node i % masters. 0: they are not. */
    size_t masters;
};

/* options NULL: ordinary nodes on 127.0.0.1. The cluster registers itself for fixtures_end(). */
struct cluster *cluster_create(size_t nodes, const struct cluster_options *options);
/* The same for servers that run already: "host:port,host:port". $REDLOCK_NODE_CONTROL is a command that takes an action
 * (kill, start, pause, unpause) and a node's number, counted from 1; without it no faults are possible. Only the
 * functions for sizes, addresses, faults of processes, keys and requests are for such a cluster, and only the keys under
 * CLUSTER_PREFIX are counted and removed. */
#define CLUSTER_PREFIX "test:" /* of every key of a test */
struct cluster *cluster_adopt(const char *nodes);
void cluster_destroy(struct cluster *cluster);

/* --- Addresses, valid until destroy --- */

size_t cluster_size(const struct cluster *cluster);
/* "127.0.0.1:4711,127.0.0.1:4712" */
const char *cluster_nodes_string(const struct cluster *cluster);
/* "127.0.0.1:4711", "[::1]:4711" or "unix:///tmp/…/0/redis.sock" */
const char *cluster_address(const struct cluster *cluster, size_t node);
uint16_t cluster_port(const struct cluster *cluster, size_t node);
const char *cluster_socket_path(const struct cluster *cluster, size_t node);

/* --- Faults; each has taken effect when the function returns --- */

/* SIGKILL. The port refuses connections until the server is started again. */
void cluster_kill(struct cluster *cluster, size_t node);
/* Starts the server on the same port, with the same directory. It replies to PING when the function returns. */
void cluster_start(struct cluster *cluster, size_t node);
/* Kills and starts the server. It is then empty, unless it has saved a snapshot, and has a new run_id. */
void cluster_restart(struct cluster *cluster, size_t node);
/* SIGSTOP and SIGCONT. A stopped server still accepts connections and bytes, and executes them when it resumes. */
void cluster_stop(struct cluster *cluster, size_t node);
void cluster_resume(struct cluster *cluster, size_t node);
void cluster_resume_all(struct cluster *cluster);
/* Resumes stopped nodes and starts killed ones. */
void cluster_repair(struct cluster *cluster);
/* Shifts its wall clock against the machine's from now on (negative: into the past). Its monotonic clocks do not
 * change. Only with own_clock. */
void cluster_shift_clock(struct cluster *cluster, size_t node, int64_t shift_us);
/* Stops its wall clock at this time, in microseconds since 1970, until the clock is stopped at another time or
 * shifted. Only with own_clock. */
void cluster_hold_clock(struct cluster *cluster, size_t node, int64_t time_us);
/* CONFIG SET requirepass, so that the password is not in the arguments of a process. */
void cluster_set_password(struct cluster *cluster, size_t node, const char *password);
/* FLUSHALL. */
void cluster_flush(struct cluster *cluster, size_t node);

/* --- Requests to a node ---
 * The fixture uses a separate connection with a timeout of 5 s, and the user "fixture", which has all rights. On a
 * server without ACL it uses the default user. */

/* Sends a command of words ended by NULL: cluster_command(cluster, 0, reply, sizeof(reply), "PTTL", key, NULL).
 * Returns the reply as text (see raw_client_ask()), truncated and NUL-terminated; reply may be NULL. Returns false if
 * the node did not reply; the reply then contains the reason. */
bool cluster_command(struct cluster *cluster, size_t node, char *reply, size_t size, ...) __attribute__((sentinel));
bool cluster_vcommand(struct cluster *cluster, size_t node, char *reply, size_t size, va_list words);
/* The same for an integer reply. Any other reply ends the test. */
long long cluster_integer(struct cluster *cluster, size_t node, ...) __attribute__((sentinel));

/* Patterns of the keys that the library keeps on a node permanently; ended by NULL. */
extern const char *const cluster_marks[];
/* Number of keys that match none of the patterns (a list ended by NULL), on all running nodes, without stopped ones. */
size_t cluster_keys_left(struct cluster *cluster, const char *const *except);
/* Their names for a message, "1: lock:a lock:b"; valid until the next call for this cluster. */
const char *cluster_key_names(struct cluster *cluster, const char *const *except);
/* Removes all keys from the running nodes. */
void cluster_remove_keys(struct cluster *cluster);

/* --- The program of the servers: $REDLOCK_SERVER_PROGRAM, otherwise redis-server, or valkey-server if only that is
 * installed --- */

/* Features of a server, by its version. Valkey counts as Redis 7.2, of which it is a fork. */
enum server_feature {
    SERVER_ACL = 600,            /* users and their rights */
    SERVER_CHANNEL_ACL = 602,    /* rights on channels: "&pattern" */
    SERVER_SUBCOMMAND_ACL = 700, /* a single subcommand can be revoked: "-client|id" */
    SERVER_CLUSTER_PORT = 700,   /* the port of the cluster bus can be chosen */
    SERVER_SET_NX_GET = 700,     /* SET with both NX and GET */
    SERVER_AS_MODELLED = 700     /* replies as the model of a node in tests/simulation does */
};

/* Its name or path. */
const char *server_program(void);

/* False when it cannot be run. */
bool server_program_available(void);

bool server_program_has(enum server_feature feature);

/* Why a test is skipped, and how to install a server. */
const char *server_program_missing(void);

#endif
