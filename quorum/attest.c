#include "quorum/attest.h"

#include <assert.h>
#include <string.h>

void quorum_attest_judged(struct quorum_attest *attest, const char *shown, size_t size, size_t evidence,
                          quorum_time sent)
{
    assert(evidence <= size);
    if (size > sizeof attest->shown) {
        quorum_attest_forget(attest);
        return;
    }
    memcpy(attest->shown, shown, size);
    attest->size = (uint16_t)size;
    attest->evidence = (uint16_t)evidence;
    attest->looked = attest->wrote = attest->knows = sent;
}

void quorum_attest_forget(struct quorum_attest *attest)
{
    attest->size = attest->evidence = 0;
    attest->looked = attest->wrote = 0;
}

/* Whether a marker that is received then proves nothing without another look. */
static bool is_too_late(const struct quorum_attest *attest, quorum_time received)
{
    return attest->always_look || received > quorum_time_add(attest->wrote, QUORUM_WRITES_APART) ||
           received > quorum_time_add(attest->looked, QUORUM_LOOK_LASTS);
}

struct quorum_attest_needs quorum_attest_needs(const struct quorum_attest *attest, enum quorum_attest_occasion occasion,
                                               quorum_time sampled, quorum_time now)
{
    bool beats = occasion == QUORUM_FOR_BEAT;
    bool old = quorum_time_since(attest->knows, now) > (beats ? QUORUM_BEATS_LOOK : QUORUM_KNOWLEDGE_LASTS);
    bool late = occasion == QUORUM_FOR_GRANT && is_too_late(attest, quorum_time_add(now, attest->took));
    return (struct quorum_attest_needs){.look = old || late || attest->always_look || occasion == QUORUM_FOR_LOOK,
                                        .evicted = old || attest->always_look,
                                        .time = old || beats || quorum_time_since(sampled, now) > QUORUM_SAMPLE_LASTS};
}

/* The next proof would come after this release and the next acquire: three trips, to be on the safe side. */
bool quorum_attest_is_aging(const struct quorum_attest *attest, quorum_time now)
{
    if (!attest->size || attest->always_look || attest->took > QUORUM_WRITES_APART / 2)
        return false; /* no proof would rely on it */
    return is_too_late(attest, quorum_time_add(now, 3 * attest->took));
}

static bool is_same(const struct quorum_attest *attest, const struct quorum_shown *shown)
{
    size_t from = shown->look ? 0 : attest->evidence;
    return attest->size > attest->evidence && shown->size == attest->size - from &&
           memcmp(shown->bytes, attest->shown + from, shown->size) == 0;
}

bool quorum_attest_shows(const struct quorum_attest *attest, const char *shown, size_t size)
{
    const struct quorum_shown look = {.look = true, .bytes = shown, .size = size};
    return is_same(attest, &look);
}

bool quorum_attest_is_marker(const struct quorum_attest *attest, const char *marker, size_t size)
{
    const struct quorum_shown shown = {.look = false, .bytes = marker, .size = size};
    return is_same(attest, &shown);
}

static quorum_time later(quorum_time one, quorum_time other)
{
    return one > other ? one : other;
}

enum quorum_proof quorum_attest_prove(struct quorum_attest *attest, const struct quorum_shown *shown)
{
    attest->took = quorum_time_until(shown->received, shown->sent);
    if (!is_same(attest, shown))
        return QUORUM_NOT_PROVEN;
    if (!shown->look && is_too_late(attest, shown->received))
        return QUORUM_LOOK_AGAIN;
    if (shown->look)
        attest->looked = later(attest->looked, shown->sent);
    if (shown->look && shown->whole)
        attest->knows = later(attest->knows, shown->sent);
    attest->wrote = later(attest->wrote, shown->look ? shown->sent : shown->wrote);
    return QUORUM_PROVEN;
}
