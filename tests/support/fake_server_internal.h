/* Shared by the parts of the fake server: fake_server.c (what tests call), fake_loop.c (its thread), fake_connection.c
 * (bytes in and out), fake_rules.c, fake_session.c (commands about the connection itself). All of it runs under
 * server->lock. */
#ifndef TESTS_SUPPORT_FAKE_SERVER_INTERNAL_H
#define TESTS_SUPPORT_FAKE_SERVER_INTERNAL_H

#include "bytes.h"
#include "fake_server.h"
#include "temp_dir.h"

#include <pthread.h>

/* A reply, or what is left of it, on its way out; replies leave in order. */
struct fake_segment {
    struct fake_segment *next;
    char *data;
    size_t length;
    size_t sent;
    uint64_t due_ns; /* not before */
    bool held;       /* not before fake_server_release() */
    enum fake_ending ending;
};

struct fake_channel {
    struct fake_channel *next;
    char *name;
};

enum fake_state {
    FAKE_STATE_OPEN,
    FAKE_STATE_STALLED,    /* nothing is read or sent */
    FAKE_STATE_DISCARDING, /* FIN sent; input is thrown away until the peer closes */
    FAKE_STATE_CLOSED      /* descriptor closed; freed at the end of the turn */
};

struct fake_rule_entry {
    struct fake_rule_entry *next;
    struct fake_rule rule; /* its texts are this entry's own */
    unsigned number;
    unsigned seen; /* commands that matched */
    unsigned used; /* of these, how many it was applied to */
    bool removed;  /* kept, because a delayed command may still point here */
};

struct fake_connection {
    struct fake_connection *next;
    int fd;
    unsigned number;
    enum fake_state state;
    struct bytes input;
    struct fake_segment *first;
    struct fake_segment **last;
    const struct resp_command *delayed; /* read, not yet executed; a record's */
    const struct fake_rule *delayed_rule;
    uint64_t resume_ns; /* when the delayed command, or reading on, is due; 0: no delay */
    bool authenticated;
    unsigned database;
    char *name;
    struct fake_channel *channels;
};

/* Something done by the server's thread for a test's. */
typedef void fake_job(struct fake_server *server, const void *arg);

struct fake_server {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything a test may wait for */
    bool quit;
    bool paused;
    fake_job *job;
    const void *job_arg;
    uint64_t jobs_posted;
    uint64_t jobs_done;

    enum fake_transport transport;
    int wake;        /* eventfd */
    int reservation; /* of the TCP port; -1 on a unix socket */
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
    size_t first_record; /* earlier ones are forgotten, but kept */

    struct fake_rule_entry *rules;
    unsigned last_rule;
};

/* fake_loop.c */
void *fake_loop_run(void *server);

/* fake_connection.c */
/* What the kernel has accepted already. */
void fake_connection_accept_all(struct fake_server *server);
void fake_connection_free(struct fake_connection *connection);
bool fake_connection_wants_input(const struct fake_connection *connection);
bool fake_connection_wants_output(const struct fake_connection *connection, uint64_t now_ns);
/* When it has to be looked at again without any event; UINT64_MAX: never. */
uint64_t fake_connection_next_ns(const struct fake_connection *connection, uint64_t now_ns);
void fake_connection_read(struct fake_server *server, struct fake_connection *connection);
/* Executes a delayed command that is due, and what stands behind it. */
void fake_connection_resume(struct fake_server *server, struct fake_connection *connection, uint64_t now_ns);
void fake_connection_write(struct fake_connection *connection);
void fake_connection_send(struct fake_connection *connection, const void *data, size_t length);
void fake_connection_end(struct fake_connection *connection, enum fake_ending ending);

/* fake_rules.c; NULL for accept stands for a new connection. */
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
