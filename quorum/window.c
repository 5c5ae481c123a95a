#include "quorum/window.h"

#include <assert.h>

#include "quorum/tally.h"

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

static quorum_duration between(quorum_duration least, quorum_duration value, quorum_duration most)
{
    return value < least ? least : value < most ? value : most;
}

void quorum_window_measured(struct quorum_window *window, quorum_duration took, quorum_duration timeout)
{
    took = took ? took : 1;
    if (!window->shortest || took < window->shortest)
        window->shortest = took;
    quorum_duration aim = 2 * window->shortest + timeout / 2, limit = window->limit;
    if (took > aim || window->full)
        limit = between(limit / 4, limit * (aim / QUORUM_MICROSECOND) / (took / QUORUM_MICROSECOND + 1), 2 * limit);
    window->limit = (unsigned)between(QUORUM_WINDOW_LEAST, limit, QUORUM_WINDOW_MOST);
    window->full = false;
}

bool quorum_window_crowded(unsigned roomy, unsigned awaited, unsigned nodes)
{
    unsigned majority = quorum_majority(nodes);
    assert(roomy + awaited <= nodes);
    return roomy < majority && majority <= roomy + awaited;
}
