/* Shared by the parts of the fake server: fake_server.c (functions for tests, rules), fake_connection.c (its thread:
 * input and output), fake_node.c (the node). All of it runs under the poller's lock. */
#ifndef TESTS_SUPPORT_FAKE_SERVER_INTERNAL_H
#define TESTS_SUPPORT_FAKE_SERVER_INTERNAL_H

#include "bytes.h"
#include "fake_server.h"
#include "node_model.h"
#include "poller.h"

/* A reply, or its rest, that waits to be sent. Replies are sent in order. */
struct fake_segment {
    struct fake_segment *next;
    struct bytes unsent;
    uint64_t due_ns; /* not sent before this time */
    bool held;       /* not sent before fake_server_release() */
    enum fake_ending ending;
};

enum fake_state {
    FAKE_STATE_OPEN,
    FAKE_STATE_STALLED,    /* nothing is read or sent */
    FAKE_STATE_DISCARDING, /* FIN sent; input is dropped until the peer closes */
    FAKE_STATE_CLOSED      /* descriptor closed; freed at the end of the turn */
};

struct fake_rule_entry {
    struct fake_rule_entry *next;
    struct fake_rule rule;
    char *copies[4]; /* of the rule's texts */
    unsigned number;
    unsigned seen; /* commands that matched */
    unsigned used; /* number of commands to which it was applied */
    bool removed;  /* still counted by fake_server_rule_used() */
};

struct fake_connection {
    struct fake_connection *next;
    int fd;
    struct sim_session session; /* its id: numbered from 1 in the order of accepting */
    enum fake_state state;
    struct bytes input;
    struct fake_segment *first;
    struct fake_segment **last;
    bool authenticated;
    bool executing; /* a command, which may kill other connections only */
};

struct fake_node {
    struct sim_server model; /* the first member: its hooks get it */
    struct fake_server *server;
    struct fake_field *fields; /* of INFO */
    size_t field_count;
    int64_t clock_offset_us;
};

struct fake_server {
    struct poller poller;
    bool paused;

    int reservation; /* keeps the port reserved */
    int listener;    /* -1: not listening */
    uint16_t port;
    char *address;

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

/* fake_node.c */
extern pthread_mutex_t fake_model_lock; /* all models share one Lua interpreter; taken after a poller's lock */
struct fake_node *fake_node_new(struct fake_server *server);
void fake_node_free(struct fake_node *node);
void fake_node_new_run_id(struct fake_node *node);
void fake_node_set_info(struct fake_node *node, const char *field, const char *value);
int64_t fake_node_clock_us(const struct fake_node *node);
/* Writes the reply. */
void fake_node_execute(struct fake_node *node, struct fake_connection *connection, const struct resp_command *command,
                       struct bytes *reply);

/* fake_connection.c */
/* One turn of the server's thread. */
void fake_connection_turn(void *server);
/* Accepts every connection that the kernel has accepted already. */
void fake_connection_accept_all(struct fake_server *server);
void fake_connection_write(struct fake_connection *connection);
void fake_connection_send(struct fake_connection *connection, const void *data, size_t length);
void fake_connection_end(struct fake_connection *connection, enum fake_ending ending);
/* Returns the number of receivers. */
size_t fake_connection_publish(struct fake_server *server, struct resp_argument channel, struct resp_argument text);
/* Frees the closed ones. */
void fake_connection_free_closed(struct fake_server *server);

/* fake_server.c. A NULL command means a new connection. */
const struct fake_rule *fake_rules_apply(struct fake_server *server, const struct fake_connection *connection,
                                         const struct resp_command *command);

#endif
