/*
 * The second connection to a node, made when somebody first waits: it listens on the client's channel. hiredis' plain
 * context and reader, not its asynchronous one: that aborts the process on messages of a shape it does not expect.
 */
#ifndef RL_LISTENER_H
#define RL_LISTENER_H

#include <ev.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "quorum/tally.h"
#include "redlock/redlock.h"
#include "src/core/timer.h"
#include "src/link/limit.h"

struct rl_node;
struct rl_nodes;
struct ssl_st;

struct rl_listener {
    struct rl_node *node;
    redisContext *context;
    struct rl_limit limit;
    struct ssl_st *tls; /* of a link over TLS */
    bool unwritten;     /* something is still to be written */
    ev_io watcher;
    struct rl_timer timer; /* to be up by, or to try again */
    unsigned failures;
    unsigned replies_left; /* before the subscription's */
    bool wanted;
    bool up;
};

void rl_listener_init(struct rl_listener *listener, struct rl_node *node);

/* The node has become ready, or is not any more. */
void rl_listener_node_changed(struct rl_listener *listener);

void rl_listener_close(struct rl_listener *listener);

/* Somebody waits: listeners are made for all nodes, and kept. */
void rl_listeners_start(struct rl_nodes *nodes);

/* The nodes whose word reaches us. */
quorum_nodes rl_listeners_up(const struct rl_nodes *nodes);

#endif
