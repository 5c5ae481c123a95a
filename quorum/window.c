#include "quorum/window.h"

void quorum_window_init(struct quorum_window *window)
{
    *window = (struct quorum_window){.limit = QUORUM_WINDOW_FIRST};
}

bool quorum_window_admits(struct quorum_window *window, unsigned in_flight)
{
    if (in_flight < window->limit)
        return true;
    window->full = true;
    return false;
}

void quorum_window_measured(struct quorum_window *window, quorum_duration took, quorum_duration timeout)
{
    if (!window->shortest || took < window->shortest)
        window->shortest = took ? took : 1;
    if (took > 2 * window->shortest + timeout / 2) {
        window->limit -= window->limit / 4;
        if (window->limit < QUORUM_WINDOW_LEAST)
            window->limit = QUORUM_WINDOW_LEAST;
    } else if (window->full && window->limit < QUORUM_WINDOW_MOST) {
        window->limit *= 2;
        if (window->limit > QUORUM_WINDOW_MOST)
            window->limit = QUORUM_WINDOW_MOST;
    }
    window->full = false;
}
