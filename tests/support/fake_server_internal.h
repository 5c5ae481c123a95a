/* Shared by the parts of the fake server: fake_server.c (functions for tests), fake_loop.c (its thread),
 * fake_connection.c (input and output), fake_rules.c, fake_session.c (commands about the connection itself). All of
 * it runs under server->lock. */
#ifndef TESTS_SUPPORT_FAKE_SERVER_INTERNAL_H
#define TESTS_SUPPORT_FAKE_SERVER_INTERNAL_H

#include "bytes.h"
#include "fake_server.h"
#include "temp_dir.h"

#include <pthread.h>

/* A reply, or its rest, that waits to be sent. Replies are sent in order. */
struct fake_segment {
    struct fake_segment *next;
    char *data;
    size_t length;
    size_t sent;
    uint64_t due_ns; /* not sent before this time */
    bool held;       /* not sent before fake_server_release() */
    enum fake_ending ending;
};

struct fake_channel {
    struct fake_channel *next;
    char *name;
};

enum fake_state {
    FAKE_STATE_OPEN,
    FAKE_STATE_STALLED,    /* nothing is read or sent */
    FAKE_STATE_DISCARDING, /* FIN sent; input is dropped until the peer closes */
    FAKE_STATE_CLOSED      /* descriptor closed; freed at the end of the turn */
};

struct fake_rule_entry {
    struct fake_rule_entry *next;
    struct fake_rule rule; /* owns its texts */
    unsigned number;
    unsigned seen; /* commands that matched */
    unsigned used; /* number of commands to which it was applied */
    bool removed;  /* still allocated, because a delayed command may point to it */
};

struct fake_connection {
    struct fake_connection *next;
    int fd;
    unsigned number;
    enum fake_state state;
    struct bytes input;
    struct fake_segment *first;
    struct fake_segment **last;
    const struct resp_command *delayed; /* read, not yet executed; owned by a record */
    const struct fake_rule *delayed_rule;
    uint64_t resume_ns; /* when the delayed command, or the next read, is due; 0: no delay */
    bool authenticated;
    unsigned database;
    char *name;
    struct fake_channel *channels;
};

/* A job that the server's thread executes for a test's thread. */
typedef void fake_job(struct fake_server *server, const void *arg);

struct fake_server {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals every change that a test may wait for */
    bool quit;
    bool paused;
    fake_job *job;
    const void *job_arg;
    uint64_t jobs_posted;
    uint64_t jobs_done;

    enum fake_transport transport;
    int wake;        /* eventfd */
    int reservation; /* keeps the TCP port reserved; -1 on a unix socket */
    int listener;    /* -1: not listening */
    uint16_t port;
    char *path;
    char *address;
    struct temp_dir *dir;

    struct fake_node *node;
    char *user;
    char *password;

    struct fake_connection *connections; /* in the order of accepting */
    size_t accepted;
    size_t protocol_errors;

    struct fake_record **records;
    size_t record_count;
    size_t first_record; /* earlier ones no longer count, but stay allocated */

    struct fake_rule_entry *rules;
    unsigned last_rule;
};

/* fake_loop.c */
void *fake_loop_run(void *server);

/* fake_connection.c */
/* Accepts every connection that the kernel has accepted already. */
void fake_connection_accept_all(struct fake_server *server);
void fake_connection_free(struct fake_connection *connection);
bool fake_connection_wants_input(const struct fake_connection *connection);
bool fake_connection_wants_output(const struct fake_connection *connection, uint64_t now_ns);
/* When the connection needs attention without an event; UINT64_MAX: never. */
uint64_t fake_connection_next_ns(const struct fake_connection *connection, uint64_t now_ns);
void fake_connection_read(struct fake_server *server, struct fake_connection *connection);
/* Executes a delayed command that is due, and the commands behind it. */
void fake_connection_resume(struct fake_server *server, struct fake_connection *connection, uint64_t now_ns);
void fake_connection_write(struct fake_connection *connection);
void fake_connection_send(struct fake_connection *connection, const void *data, size_t length);
void fake_connection_end(struct fake_connection *connection, enum fake_ending ending);

/* fake_rules.c. A NULL command means a new connection. */
const struct fake_rule *fake_rules_apply(struct fake_server *server, const struct fake_connection *connection,
                                         const struct resp_command *command);
void fake_rules_free(struct fake_server *server);

/* fake_session.c: writes the reply of a healthy node. */
void fake_session_execute(struct fake_server *server, struct fake_connection *connection,
                          const struct resp_command *command, struct bytes *reply);
size_t fake_session_publish(struct fake_server *server, const struct resp_argument *channel,
                            const struct resp_argument *message);
size_t fake_session_subscribers(const struct fake_server *server, const char *channel);
void fake_session_free(struct fake_connection *connection);

#endif
