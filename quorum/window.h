/*
 * How much may be in flight to one node, in bytes of requests: a command with many keys costs the node as much as many
 * small ones. A node executes its requests in order, so beyond what it answers within the node timeout each further
 * request only makes all of them late. The window follows the measured round trip, as TCP's congestion window does:
 *
 *     aim     = 2 * the shortest round trip + half the node timeout
 *     window *= aim / round trip, at least 1/4 and at most 2; it grows only if requests waited for it meanwhile
 *
 * Requests beyond the window wait in the client, in order. Acquires do not even start before a majority of the nodes
 * has room: they would wait for a majority in any case, and their validity would pass meanwhile. They do start if no
 * majority can have room, and fail.
 */
#ifndef QUORUM_WINDOW_H
#define QUORUM_WINDOW_H

#include <stdbool.h>

#include "quorum/time.h"

#define QUORUM_WINDOW_LEAST (8u * 1024)
#define QUORUM_WINDOW_FIRST (64u * 1024)
#define QUORUM_WINDOW_MOST  (8u * 1024 * 1024)

struct quorum_window {
    unsigned limit;           /* bytes */
    bool full;                /* a request had to wait since the last measurement */
    quorum_duration shortest; /* round trip on this connection; 0: none was measured */
};

/* For a new connection. */
void quorum_window_init(struct quorum_window *window);

/* Whether one more request, of any size, may leave while `in_flight` bytes are unanswered. */
bool quorum_window_admits(struct quorum_window *window, unsigned in_flight);

/* timeout: the configured node timeout. */
void quorum_window_measured(struct quorum_window *window, quorum_duration took, quorum_duration timeout);

/* Whether new acquires must wait, if `roomy` of the nodes have room, and `awaited` are full or being connected. */
bool quorum_window_crowded(unsigned roomy, unsigned awaited, unsigned nodes);

#endif
