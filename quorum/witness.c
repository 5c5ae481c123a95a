#include "quorum/witness.h"

#include <assert.h>
#include <string.h>

void quorum_witnesses_init(struct quorum_witnesses *witnesses, unsigned count, unsigned least)
{
    assert(count <= QUORUM_WITNESSES_MAX && least >= 1);
    memset(witnesses, 0, sizeof *witnesses);
    witnesses->count = count;
    witnesses->least = least;
}

static bool is_same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* One witness may be reached by two names: its later reply counts. */
static bool is_repeated(const struct quorum_witnesses *witnesses, unsigned i)
{
    const struct quorum_witness *witness = &witnesses->witness[i];
    for (unsigned j = 0; j < witnesses->count && witness->id[0]; j++) {
        const struct quorum_witness *other = &witnesses->witness[j];
        if (j != i && is_same(other->id, witness->id) &&
            (other->sent > witness->sent || (other->sent == witness->sent && j < i)))
            return true;
    }
    return false;
}

/* Its word counts. */
static bool speaks(const struct quorum_witnesses *witnesses, unsigned i)
{
    const struct quorum_witness *witness = &witnesses->witness[i];
    return witness->sent && !witness->observes && !is_repeated(witnesses, i);
}

static bool names(const struct quorum_witnesses *witnesses, unsigned i, const char *address)
{
    const struct quorum_witness *witness = &witnesses->witness[i];
    return speaks(witnesses, i) && !witness->unknown && *address && is_same(witness->named, address);
}

/* One that is not listed may say otherwise, too. */
static unsigned majority(const struct quorum_witnesses *witnesses)
{
    unsigned known = witnesses->least;
    for (unsigned i = 0; i < witnesses->count; i++)
        if (witnesses->witness[i].sent && witnesses->witness[i].others + 1 > known)
            known = witnesses->witness[i].others + 1;
    return known / 2 + 1;
}

/* When the oldest request of the latest majority was sent; 0: this configuration has none. */
static quorum_time agreed(const struct quorum_witnesses *witnesses, const char *address, uint64_t epoch)
{
    quorum_time latest[QUORUM_WITNESSES_MAX]; /* descending */
    unsigned count = 0, needed = majority(witnesses);
    for (unsigned i = 0; i < witnesses->count; i++) {
        quorum_time sent = witnesses->witness[i].sent;
        unsigned at = count;
        if (!names(witnesses, i, address) || witnesses->witness[i].epoch != epoch)
            continue;
        for (; at > 0 && latest[at - 1] < sent; at--)
            latest[at] = latest[at - 1];
        latest[at] = sent;
        count++;
    }
    return count < needed ? 0 : latest[needed - 1];
}

struct quorum_confirmation quorum_witnesses_confirmation(const struct quorum_witnesses *witnesses)
{
    for (unsigned i = 0; i < witnesses->count; i++) {
        const struct quorum_witness *witness = &witnesses->witness[i];
        quorum_time sent = agreed(witnesses, witness->named, witness->epoch);
        if (sent)
            return (struct quorum_confirmation){witness->named, witness->epoch,
                                                quorum_time_add(sent, QUORUM_CONFIRMED_LASTS)};
    }
    return (struct quorum_confirmation){NULL, 0, 0};
}

static bool is_current(const struct quorum_witness *witness, quorum_time now)
{
    return witness->sent && quorum_time_add(witness->sent, QUORUM_CONFIRMED_LASTS) > now;
}

bool quorum_witnesses_may_confirm(const struct quorum_witnesses *witnesses, const char *address, uint32_t pending,
                                  quorum_time now)
{
    unsigned count = 0;
    for (unsigned i = 0; i < witnesses->count; i++)
        count += !witnesses->witness[i].observes &&
                 (pending >> i & 1 || (is_current(&witnesses->witness[i], now) && names(witnesses, i, address)));
    return count >= majority(witnesses);
}

enum quorum_witnesses_state quorum_witnesses_state(const struct quorum_witnesses *witnesses, quorum_time now)
{
    unsigned reply = 0, know = 0, most = 0, needed = majority(witnesses);
    if (quorum_witnesses_confirmation(witnesses).until > now)
        return QUORUM_WITNESSES_CONFIRM;
    for (unsigned i = 0; i < witnesses->count; i++) {
        const struct quorum_witness *witness = &witnesses->witness[i];
        unsigned same = 0;
        if (!is_current(witness, now) || !speaks(witnesses, i))
            continue;
        reply++;
        know += !witness->unknown;
        for (unsigned j = 0; j < witnesses->count; j++)
            same += is_current(&witnesses->witness[j], now) && names(witnesses, j, witness->named);
        most = same > most ? same : most;
    }
    if (reply < needed)
        return QUORUM_WITNESSES_SILENT;
    if (know < needed)
        return QUORUM_WITNESSES_UNKNOWN;
    return most < needed ? QUORUM_WITNESSES_DISAGREE : QUORUM_WITNESSES_FAILOVER;
}

/* CRC-16/XMODEM, as Redis Cluster hashes keys. */
unsigned quorum_slot(const char *tag, size_t size)
{
    unsigned crc = 0;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned)(unsigned char)tag[i] << 8;
        for (unsigned bit = 0; bit < 8; bit++)
            crc = (crc << 1 ^ (crc & 0x8000 ? 0x1021u : 0)) & 0xffff;
    }
    return crc % QUORUM_SLOTS;
}
