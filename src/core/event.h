/* The events of a lock. A new event is one line here, beside its value in the public header. */
#ifndef RL_EVENT_H
#define RL_EVENT_H

#include <stdbool.h>

#include "redlock/redlock.h"

/* In the order in which they are reported, which is that of their values; and whether the callback gets the loss. */
#define RL_EVENTS(X)                                                                                                   \
    X(RENEWAL_FAILING, false)                                                                                          \
    X(ENDING, false)                                                                                                   \
    X(LOST, true)

enum rl_event_index {
#define INDEX(name, has_loss) RL_EVENT_##name,
    RL_EVENTS(INDEX)
#undef INDEX
        RL_EVENT_COUNT
};

struct rl_event {
    int value;     /* enum redlock_event */
    unsigned bit;  /* in a set of events */
    bool has_loss; /* a warning is reported without one, even if the lock has been lost since */
};

extern const struct rl_event rl_events[RL_EVENT_COUNT];

/* The bit of an enum redlock_event. */
unsigned rl_event_bit(int event);

#endif
