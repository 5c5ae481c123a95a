/*
 * A node's messages: a second link, opened for the client's first waiter, that is subscribed to the client's channel. It
 * follows the first link, whose heartbeats notice that the server hangs. Connections that break in one direction alone
 * are noticed by a waiter that was handed a lock without a message.
 */
#ifndef RL_LISTENER_H
#define RL_LISTENER_H

#include <stdbool.h>

#include "quorum/tally.h"
#include "redlock/redlock.h"
#include "src/core/timer.h"
#include "src/link/link.h"

struct rl_node;
struct rl_nodes;

/* The largest message: a hand-over of the longest key, with the largest proof. */
#define RL_MESSAGE_MAX     4096
#define RL_LISTENER_OUTPUT 512 /* bytes of the link's buffer at first */

struct rl_listener {
    struct rl_node *node;
    struct rl_link link;
    struct rl_timer timer; /* deadline to be up, or the next attempt */
    unsigned failures;     /* since it was up; a connection that is up, but silent, counts as one */
    unsigned replies_left; /* to commands before SUBSCRIBE */
    bool up;
    char error[RL_LINK_TEXT_SIZE]; /* the last one in reply to a command; "": it was up since */
};

/* listener: of these functions, may be NULL. The node has become ready, or is no longer. */
void rl_listener_node_changed(struct rl_listener *listener);

void rl_listener_close(struct rl_listener *listener);
void rl_listener_free(struct rl_listener *listener);

/* Subscribes anew on these nodes, whose messages do not arrive although the connection is up. */
void rl_listeners_renew(struct rl_nodes *nodes, quorum_nodes silent);

/* Opens the listeners of all nodes, which stay open. false: some nodes have none, because there is no memory; the next
 * call tries again. */
bool rl_listeners_start(struct rl_nodes *nodes);

/* No majority can notify this client, and this will not change at once: subscriptions failed, or their connections are
 * silent. */
bool rl_listeners_are_deaf(const struct rl_nodes *nodes);

/* The nodes whose messages reach this client. */
quorum_nodes rl_listeners_up(const struct rl_nodes *nodes);

#endif
