/* Shared by the parts of the fake server: fake_server.c (functions for tests, rules, the node), fake_connection.c (its
 * thread: input and output). All of it runs under the poller's lock. */
#ifndef TESTS_SUPPORT_FAKE_SERVER_INTERNAL_H
#define TESTS_SUPPORT_FAKE_SERVER_INTERNAL_H

#include "fake_server.h"
#include "fixture.h"
#include "node_model.h"
#include "sockets.h"

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
    FAKE_STATE_CLOSED      /* descriptor closed */
};

enum { FAKE_RULES_MOST = 1024 };

struct fake_rule_entry {
    struct fake_rule rule;
    size_t seen;  /* commands that matched */
    size_t used;  /* number of commands to which it was applied */
    bool removed; /* still counted by fake_server_rule_used() */
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

struct fake_server {
    struct sim_server model; /* the first member: its hooks get it */
    struct poller poller;
    bool paused;

    int reservation; /* keeps the port reserved */
    int listener;    /* -1: not listening */
    uint16_t port;
    char address[32];

    struct sim_field lies[16];
    int64_t clock_offset_us;
    const char *user, *password;

    struct fake_connection *connections; /* in the order of accepting */
    size_t accepted;
    size_t protocol_errors;

    struct fake_record **records;
    size_t record_count;
    size_t first_record; /* earlier ones no longer count, but stay allocated */

    struct fake_rule_entry rules[FAKE_RULES_MOST]; /* a rule's number is its place, from 1 */
    unsigned rule_count;

    struct bytes kept; /* pointers to blocks that are freed with the server */
};

/* fake_connection.c */
/* One turn of the server's thread. */
void fake_connection_turn(void *server);
/* Accepts every connection that the kernel has accepted already. */
void fake_connection_accept_all(struct fake_server *server);
void fake_connection_write(struct fake_connection *connection);
void fake_connection_send(struct fake_connection *connection, const void *data, size_t length);
void fake_connection_end(struct fake_connection *connection, enum fake_ending ending);

/* fake_server.c */
/* The block is freed with the server. */
void *fake_server_keep(struct fake_server *server, void *block);
/* The rule for a command; NULL: for a new connection. */
const struct fake_rule *fake_server_rule_for(struct fake_server *server, const struct fake_connection *connection,
                                             const struct resp_command *command);
/* The node executes a command and writes its reply. */
void fake_server_execute(struct fake_server *server, struct fake_connection *connection,
                         const struct resp_command *command, struct bytes *reply);

#endif
