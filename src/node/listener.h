/*
 * The second connection to a node, opened for the client's first waiter. It is subscribed to the client's channel. It
 * uses hiredis' plain context and reader, because the asynchronous one aborts the process on an unexpected message.
 */
#ifndef RL_LISTENER_H
#define RL_LISTENER_H

#include <ev.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "quorum/tally.h"
#include "redlock/redlock.h"
#include "src/core/timer.h"
#include "src/link/link.h"
#include "src/link/reader.h"

struct rl_node;
struct rl_nodes;
struct ssl_st;

struct rl_listener {
    struct rl_node *node;
    redisContext *context;
    struct rl_reader reader;
    struct ssl_st *tls; /* of a connection with TLS */
    bool unwritten;     /* data is left to write */
    ev_io watcher;
    struct rl_timer timer; /* deadline to be up, or the next attempt */
    unsigned failures;
    unsigned replies_left; /* to commands before SUBSCRIBE */
    bool wanted;
    bool up;
    char error[RL_LINK_TEXT_SIZE]; /* the last one in reply to a command; "": it was up since */
};

void rl_listener_init(struct rl_listener *listener, struct rl_node *node);

/* The node has become ready, or is no longer. */
void rl_listener_node_changed(struct rl_listener *listener);

void rl_listener_close(struct rl_listener *listener);

/* Opens the listeners of all nodes, which stay open. */
void rl_listeners_start(struct rl_nodes *nodes);

/* The nodes whose messages reach this client. */
quorum_nodes rl_listeners_up(const struct rl_nodes *nodes);

#endif
