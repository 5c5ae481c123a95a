#include "src/core/event.h"

#include <assert.h>

#define BIT(value) (1u << (value))

const struct rl_event rl_events[RL_EVENT_COUNT] = {
#define ROW(name, has_loss) {REDLOCK_EVENT_##name, BIT(REDLOCK_EVENT_##name), has_loss},
    RL_EVENTS(ROW)
#undef ROW
};
#define CHECK(name, has_loss)                                                                                          \
    _Static_assert((int)REDLOCK_EVENT_##name == (int)RL_EVENT_##name + 1, "events are reported in order");
RL_EVENTS(CHECK)
#undef CHECK
_Static_assert(RL_EVENT_COUNT < sizeof(unsigned) * 8, "a set of events fits an unsigned");

unsigned rl_event_bit(int event)
{
    assert(event > 0 && event <= (int)RL_EVENT_COUNT);
    return rl_events[event - 1].bit;
}
