/*
 * How many requests may be in flight to one node. A node executes its requests in order, so beyond what it answers
 * within the node timeout each further request only makes all of them late. The window follows the measured round trip,
 * as TCP's congestion window does:
 *
 *     a round trip above  2 * the shortest one + half the node timeout   shrinks it by a quarter
 *     any other one, if requests waited for the window meanwhile         doubles it
 *
 * Requests beyond the window wait in the client, in order.
 */
#ifndef QUORUM_WINDOW_H
#define QUORUM_WINDOW_H

#include <stdbool.h>

#include "quorum/time.h"

#define QUORUM_WINDOW_LEAST 64
#define QUORUM_WINDOW_FIRST 512
#define QUORUM_WINDOW_MOST  65536

struct quorum_window {
    unsigned limit;
    bool full;                /* a request had to wait since the last measurement */
    quorum_duration shortest; /* round trip on this connection; 0: none was measured */
};

/* For a new connection. */
void quorum_window_init(struct quorum_window *window);

/* Whether one more request may leave while `in_flight` are unanswered. */
bool quorum_window_admits(struct quorum_window *window, unsigned in_flight);

/* timeout: the configured node timeout. */
void quorum_window_measured(struct quorum_window *window, quorum_duration took, quorum_duration timeout);

#endif
