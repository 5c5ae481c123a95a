/* Which configuration the witnesses of a node confirm, and until when; and the slot of a tag. */
#include "quorum/witness.h"

#include <stdio.h>
#include <string.h>

#include "support/test.h"

#define MS       QUORUM_MILLISECOND
#define LASTS_MS (unsigned)(QUORUM_CONFIRMED_LASTS / MS)
#define OLD      "10.0.0.1 6379"
#define NEW      "10.0.0.2 6379"

static const quorum_time now = 100 * QUORUM_SECOND;

/* One witness: its address, epoch and how long ago it was asked (0: no reply). */
struct word {
    const char *named;
    unsigned ago_ms;
    unsigned epoch;
    unsigned others;
    bool observes;
    const char *id;
};

static void fill(struct quorum_witnesses *witnesses, const struct word *words, unsigned count, unsigned least)
{
    quorum_witnesses_init(witnesses, count, least);
    witnesses->witness[count] = (struct quorum_witness){now, false, false, 99, 9, "a", NEW}; /* none of them */
    for (unsigned i = 0; i < count; i++) {
        struct quorum_witness *witness = &witnesses->witness[i];
        witness->sent = words[i].ago_ms ? now - words[i].ago_ms * MS : 0;
        witness->unknown = !words[i].named;
        witness->epoch = words[i].epoch;
        witness->others = words[i].others;
        witness->observes = words[i].observes;
        snprintf(witness->named, sizeof witness->named, "%s", words[i].named ? words[i].named : "");
        snprintf(witness->id, sizeof witness->id, "%s", words[i].id ? words[i].id : "");
    }
}

/* clang-format off */
#define SAYS(named, ago, epoch)          {named, ago, epoch, 0, false, NULL}
#define KNOWS(named, ago, epoch, others) {named, ago, epoch, others, false, NULL}
#define SEES(named, ago, epoch, others)  {named, ago, epoch, others, true, NULL}
#define IS(id, named, ago, epoch)        {named, ago, epoch, 0, false, id}
#define SILENT                           {NULL, 0, 0, 0, false, NULL}

static const struct {
    struct word words[5];
    unsigned count, least;
    const char *confirmed; /* NULL: none */
    unsigned age_ms;       /* of the majority's oldest reply */
    enum quorum_witnesses_state state;
} rows[] = {
    /* All of one mind; the majority's oldest reply decides. */
    {{SAYS(OLD, 100, 0), SAYS(OLD, 300, 0), SAYS(OLD, 400, 0)}, 3, 3, OLD, 300, QUORUM_WITNESSES_CONFIRM},
    {{SAYS(OLD, 100, 3), SAYS(OLD, LASTS_MS - 1, 3), SILENT}, 3, 3, OLD, LASTS_MS - 1, QUORUM_WITNESSES_CONFIRM},
    {{SAYS(OLD, 100, 3), SAYS(OLD, LASTS_MS, 3), SILENT}, 3, 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {{SAYS(OLD, 100, 3), SILENT, SILENT}, 3, 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {{SAYS(OLD, 100, 0)}, 1, 1, OLD, 100, QUORUM_WITNESSES_CONFIRM},
    {{SAYS(OLD, 100, 0), SAYS(OLD, 200, 0)}, 2, 2, OLD, 200, QUORUM_WITNESSES_CONFIRM},
    {{SAYS(OLD, 100, 0), SAYS(NEW, 200, 1)}, 2, 2, NULL, 0, QUORUM_WITNESSES_DISAGREE},
    {{SAYS(OLD, 5, 0), SAYS(OLD, 4, 0), SAYS(OLD, 3, 0), SAYS(NEW, 2, 1), SAYS(NEW, 1, 1)}, 5, 5, OLD, 5, QUORUM_WITNESSES_CONFIRM},
    {{SAYS(OLD, 5, 0), SAYS(OLD, 4, 0), SILENT, SAYS(NEW, 2, 1), SAYS(NEW, 1, 1)}, 5, 5, NULL, 0, QUORUM_WITNESSES_DISAGREE},
    /* A failover: one after the other hears of it. */
    {{SAYS(OLD, 1, 0), SAYS(OLD, 1, 0), SAYS(NEW, 1, 1)}, 3, 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    {{SAYS(NEW, 9, 1), SAYS(OLD, 1, 0), SAYS(NEW, 1, 1)}, 3, 3, NEW, 9, QUORUM_WITNESSES_CONFIRM},
    /* There and back: one has heard of neither. */
    {{SAYS(OLD, 1, 2), SAYS(OLD, 1, 0), SAYS(NEW, 1, 1)}, 3, 3, NULL, 0, QUORUM_WITNESSES_FAILOVER},
    {{SAYS(OLD, 1, 2), SAYS(OLD, 1, 2), SAYS(OLD, 1, 0)}, 3, 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    /* Those that are not listed may say otherwise. */
    {{KNOWS(OLD, 1, 0, 4), SAYS(OLD, 1, 0), SILENT}, 3, 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {{KNOWS(OLD, 1, 0, 4), SAYS(OLD, 1, 0), SAYS(OLD, 1, 0)}, 3, 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    {{KNOWS(OLD, 1, 0, 2), SAYS(OLD, 1, 0), SILENT}, 3, 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    {{SAYS(OLD, 1, 0), SILENT, SILENT}, 3, 5, NULL, 0, QUORUM_WITNESSES_SILENT},
    /* One by two names: the later reply counts. */
    {{IS("a", OLD, 1, 0), IS("a", OLD, 1, 0), SILENT}, 3, 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {{IS("a", OLD, 1, 0), IS("a", OLD, 1, 0), IS("b", OLD, 1, 0)}, 3, 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    {{IS("a", OLD, 9, 0), IS("a", NEW, 1, 1), IS("b", OLD, 1, 0)}, 3, 3, NULL, 0, QUORUM_WITNESSES_DISAGREE},
    /* A cluster's master is no witness of its own slot, nor is a replica. */
    {{SEES(OLD, 1, 1, 2), KNOWS(OLD, 1, 1, 2), KNOWS(OLD, 2, 1, 2)}, 3, 3, OLD, 2, QUORUM_WITNESSES_CONFIRM},
    {{SEES(OLD, 1, 1, 2), KNOWS(OLD, 1, 1, 2), SILENT}, 3, 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {{SEES(OLD, 1, 1, 2), SEES(OLD, 1, 1, 2), KNOWS(OLD, 2, 1, 2)}, 3, 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {{SEES(OLD, 1, 1, 4), KNOWS(OLD, 1, 1, 4), KNOWS(OLD, 1, 1, 4)}, 3, 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {{SEES(OLD, 1, 1, 4), KNOWS(OLD, 1, 1, 4), KNOWS(OLD, 1, 1, 4), KNOWS(OLD, 1, 1, 4)}, 4, 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    /* The name. */
    {{SAYS(NULL, 1, 0), SAYS(NULL, 1, 0), SAYS(NULL, 1, 0)}, 3, 3, NULL, 0, QUORUM_WITNESSES_UNKNOWN},
    {{SAYS(NULL, 1, 0), SAYS(OLD, 1, 0), SAYS(OLD, 1, 0)}, 3, 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    {{SAYS(NULL, 1, 0), SAYS(NULL, 1, 0), SAYS(OLD, 1, 0)}, 3, 3, NULL, 0, QUORUM_WITNESSES_UNKNOWN},
    {{SAYS("", 1, 0), SAYS("", 1, 0), SAYS("", 1, 0)}, 3, 3, NULL, 0, QUORUM_WITNESSES_DISAGREE},
};
/* clang-format on */

TEST_CASE(witness, NULL, NULL);

TEST_ROWS(witness, majority_confirms_a_configuration_for_a_while, ROWS(rows))
{
    struct quorum_witnesses witnesses;
    fill(&witnesses, rows[_i].words, rows[_i].count, rows[_i].least);
    struct quorum_confirmation confirmation = quorum_witnesses_confirmation(&witnesses);
    ck_assert_int_eq(quorum_witnesses_state(&witnesses, now), rows[_i].state);
    if (!rows[_i].confirmed) {
        ck_assert_uint_le(confirmation.until, now);
        return;
    }
    ck_assert_str_eq(confirmation.address, rows[_i].confirmed);
    ck_assert_uint_eq(confirmation.until, now + (LASTS_MS - rows[_i].age_ms) * MS);
    ck_assert_int_eq(quorum_witnesses_state(&witnesses, confirmation.until - 1), QUORUM_WITNESSES_CONFIRM);
    ck_assert_int_ne(quorum_witnesses_state(&witnesses, confirmation.until), QUORUM_WITNESSES_CONFIRM);
}

static const struct {
    struct word words[3];
    uint32_t pending;
    bool may;
} stale[] = {
    {{SAYS(OLD, 5000, 0), SAYS(OLD, 5000, 0), SAYS(OLD, 5000, 0)}, 0, false},
    {{SAYS(OLD, 5000, 0), SAYS(OLD, 5000, 0), SAYS(OLD, 5000, 0)}, 3, true},
    {{SAYS(OLD, 5000, 0), SAYS(OLD, 5000, 0), SAYS(OLD, 5000, 0)}, 4, false},
    {{SAYS(OLD, 1, 0), SAYS(OLD, 5000, 0), SAYS(OLD, 5000, 0)}, 4, true},
    {{SAYS(NEW, 1, 1), SAYS(OLD, 5000, 0), SAYS(OLD, 5000, 0)}, 4, false},
    {{SEES(OLD, 1, 0, 2), SEES(OLD, 5000, 0, 2), KNOWS(OLD, 1, 0, 2)}, 2, false},
};

TEST_ROWS(witness, replies_on_the_way_may_confirm_an_address, ROWS(stale))
{
    struct quorum_witnesses witnesses;
    fill(&witnesses, stale[_i].words, 3, 3);
    ck_assert_int_eq(quorum_witnesses_may_confirm(&witnesses, OLD, stale[_i].pending, now), stale[_i].may);
}

static const struct {
    const char *tag;
    unsigned slot;
} slots[] = {{"", 0}, {"123456789", 0x31c3}, {"foo", 12182}, {"redlock", 2639}, {"\xff\x80", 4727}};

TEST_ROWS(witness, slot_is_that_of_redis_cluster, ROWS(slots))
{
    ck_assert_uint_eq(quorum_slot(slots[_i].tag, strlen(slots[_i].tag)), slots[_i].slot);
}

TEST_PROGRAM("quorum/witness")
