#include "quorum/sentinel.h"

#include <assert.h>
#include <string.h>

void quorum_sentinels_init(struct quorum_sentinels *sentinels, unsigned count)
{
    assert(count >= 1 && count <= QUORUM_SENTINELS_MAX);
    memset(sentinels, 0, sizeof *sentinels);
    sentinels->count = count;
}

static bool is_same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static bool names(const struct quorum_sentinel *sentinel, const char *address)
{
    return sentinel->sent && !sentinel->unknown && *address && is_same(sentinel->named, address);
}

/* A sentinel that is not listed may have voted, too. */
static unsigned known(const struct quorum_sentinels *sentinels)
{
    unsigned most = sentinels->count;
    for (unsigned i = 0; i < sentinels->count; i++)
        if (sentinels->sentinel[i].sent && sentinels->sentinel[i].others + 1 > most)
            most = sentinels->sentinel[i].others + 1;
    return most;
}

static unsigned majority(const struct quorum_sentinels *sentinels)
{
    return known(sentinels) / 2 + 1;
}

/* When the client asked the sentinels that may have led a failover beyond the voter's configuration: none of them has
 * promoted a server or leads a failover. One that had not begun yet began after that. 0: one may. */
static quorum_time given_up(const struct quorum_sentinels *sentinels, const struct quorum_sentinel *voter)
{
    bool only_one = voter->vote_epoch == voter->config_epoch + 1 && voter->leader[0], asked = false;
    quorum_time earliest = QUORUM_NEVER;
    for (unsigned i = 0; i < sentinels->count; i++) {
        const struct quorum_sentinel *leader = &sentinels->sentinel[i];
        if (only_one && !is_same(leader->id, voter->leader))
            continue;
        if (!names(leader, voter->named) || leader->failing_over || leader->config_epoch != voter->config_epoch)
            return 0;
        earliest = leader->sent < earliest ? leader->sent : earliest;
        asked = true;
    }
    return asked && (only_one || known(sentinels) == sentinels->count) ? earliest : 0;
}

/* The request of which a reply confirms the address; 0: none does. */
static quorum_time confirms(const struct quorum_sentinels *sentinels, const struct quorum_sentinel *sentinel,
                            const char *address)
{
    if (!names(sentinel, address))
        return 0;
    if (sentinel->vote_epoch <= sentinel->config_epoch)
        return sentinel->sent;
    quorum_time leader = given_up(sentinels, sentinel);
    return leader < sentinel->sent ? leader : sentinel->sent;
}

quorum_time quorum_sentinels_confirmed_until(const struct quorum_sentinels *sentinels, const char *address)
{
    quorum_time latest[QUORUM_SENTINELS_MAX]; /* descending */
    unsigned count = 0, needed = majority(sentinels);
    for (unsigned i = 0; i < sentinels->count; i++) {
        quorum_time sent = confirms(sentinels, &sentinels->sentinel[i], address);
        unsigned at = count;
        if (!sent)
            continue;
        for (; at > 0 && latest[at - 1] < sent; at--)
            latest[at] = latest[at - 1];
        latest[at] = sent;
        count++;
    }
    return count < needed ? 0 : quorum_time_add(latest[needed - 1], QUORUM_CONFIRMED_LASTS);
}

bool quorum_sentinels_may_confirm(const struct quorum_sentinels *sentinels, const char *address, uint32_t pending,
                                  quorum_time now)
{
    unsigned count = 0;
    for (unsigned i = 0; i < sentinels->count; i++) {
        quorum_time sent = confirms(sentinels, &sentinels->sentinel[i], address);
        count += pending >> i & 1 || (sent && quorum_time_add(sent, QUORUM_CONFIRMED_LASTS) > now);
    }
    return count >= majority(sentinels);
}

const char *quorum_sentinels_confirmed(const struct quorum_sentinels *sentinels, quorum_time now)
{
    for (unsigned i = 0; i < sentinels->count; i++)
        if (quorum_sentinels_confirmed_until(sentinels, sentinels->sentinel[i].named) > now)
            return sentinels->sentinel[i].named;
    return NULL;
}

uint64_t quorum_sentinels_term(const struct quorum_sentinels *sentinels, const char *address)
{
    uint64_t term = 0;
    for (unsigned i = 0; i < sentinels->count; i++)
        if (names(&sentinels->sentinel[i], address) && sentinels->sentinel[i].config_epoch > term)
            term = sentinels->sentinel[i].config_epoch;
    return term;
}

/* Only a majority that voted for this very configuration shows that it was not made by hand. */
quorum_duration quorum_sentinels_longer(const struct quorum_sentinels *sentinels, const char *address)
{
    unsigned voted = 0;
    for (unsigned i = 0; i < sentinels->count; i++) {
        const struct quorum_sentinel *sentinel = &sentinels->sentinel[i];
        voted +=
            names(sentinel, address) && sentinel->config_epoch > 0 && sentinel->vote_epoch == sentinel->config_epoch;
    }
    return voted >= majority(sentinels) ? QUORUM_VOTED_LONGER : QUORUM_UNVOTED_LONGER;
}

static bool is_current(const struct quorum_sentinel *sentinel, quorum_time now)
{
    return sentinel->sent && quorum_time_add(sentinel->sent, QUORUM_CONFIRMED_LASTS) > now;
}

enum quorum_sentinels_state quorum_sentinels_state(const struct quorum_sentinels *sentinels, quorum_time now)
{
    unsigned reply = 0, know = 0, most = 0, needed = majority(sentinels);
    if (quorum_sentinels_confirmed(sentinels, now))
        return QUORUM_SENTINELS_CONFIRM;
    for (unsigned i = 0; i < sentinels->count; i++) {
        const struct quorum_sentinel *sentinel = &sentinels->sentinel[i];
        unsigned same = 0;
        if (!is_current(sentinel, now))
            continue;
        reply++;
        know += !sentinel->unknown;
        for (unsigned j = 0; j < sentinels->count; j++)
            same += is_current(&sentinels->sentinel[j], now) && names(&sentinels->sentinel[j], sentinel->named);
        most = same > most ? same : most;
    }
    if (reply < needed)
        return QUORUM_SENTINELS_SILENT;
    if (know < needed)
        return QUORUM_SENTINELS_UNKNOWN;
    return most < needed ? QUORUM_SENTINELS_DISAGREE : QUORUM_SENTINELS_FAILOVER;
}
