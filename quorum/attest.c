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
    attest->looked = sent;
}

void quorum_attest_forget(struct quorum_attest *attest)
{
    attest->size = attest->evidence = 0;
    attest->looked = 0;
}

bool quorum_attest_needs_look(const struct quorum_attest *attest, quorum_time now)
{
    quorum_time answered = quorum_time_add(now, attest->took);
    return attest->always_look || answered > quorum_time_add(attest->looked, QUORUM_LOOK_LASTS);
}

/* The next proof would come after this release and the next acquire: three trips, to be on the safe side. */
bool quorum_attest_is_aging(const struct quorum_attest *attest, quorum_time now)
{
    if (!attest->size || attest->always_look || attest->took > QUORUM_LOOK_LASTS / 2)
        return false; /* no proof would rely on it */
    quorum_time next_proof = quorum_time_add(now, 3 * attest->took);
    return next_proof > quorum_time_add(attest->looked, QUORUM_LOOK_LASTS);
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

enum quorum_proof quorum_attest_prove(struct quorum_attest *attest, const struct quorum_shown *shown)
{
    attest->took = quorum_time_until(shown->received, shown->sent);
    if (!is_same(attest, shown))
        return QUORUM_NOT_PROVEN;
    if (shown->look) {
        attest->looked = attest->looked > shown->sent ? attest->looked : shown->sent;
        return QUORUM_PROVEN;
    }
    bool old = attest->always_look || shown->received > quorum_time_add(attest->looked, QUORUM_LOOK_LASTS);
    return old ? QUORUM_LOOK_AGAIN : QUORUM_PROVEN;
}
