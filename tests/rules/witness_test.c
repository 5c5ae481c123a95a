/* Which configuration the witnesses of a node confirm, and until when; and the slot of a tag. */
#include "quorum/witness.h"

#include "rules/story.h"
#include "support/test.h"

#define MS       QUORUM_MILLISECOND
#define LASTS_MS (unsigned)(QUORUM_CONFIRMED_LASTS / MS)
#define OLD      "10.0.0.1 6379"
#define NEW      "10.0.0.2 6379"

static const quorum_time now = 100 * QUORUM_SECOND;

/* A word is a witness: . it has not replied; O10:3 it replied 10 ms ago and named OLD with epoch 3. N names NEW, ? no name
 * that it knows, _ none. L and K in place of the time: QUORUM_CONFIRMED_LASTS, and 1 ms less. /2: it knows 2 others; * is no
 * witness itself; =a: its id. */
static void fill(struct quorum_witnesses *witnesses, const char *words, unsigned least)
{
    char word[WORD_SIZE];
    unsigned count = 0;
    for (const char *at = words; next_word(&at, word);)
        count++;
    quorum_witnesses_init(witnesses, count, least);
    witnesses->witness[count] = (struct quorum_witness){now, false, false, 99, 9, "a", NEW}; /* none of them */
    for (struct quorum_witness *witness = witnesses->witness; next_word(&words, word); witness++) {
        char *rest = word + 1;
        witness->unknown = *word == '?' || *word == '.';
        if (*word == '.')
            continue;
        snprintf(witness->named, sizeof witness->named, "%s", *word == 'O' ? OLD : *word == 'N' ? NEW : "");
        unsigned long ago_ms = *rest == 'L' ? LASTS_MS : *rest == 'K' ? LASTS_MS - 1 : strtoul(rest, &rest, 10);
        witness->sent = now - ago_ms * MS;
        witness->epoch = strtoul(strchr(word, ':') + 1, &rest, 10);
        witness->others = *rest == '/' ? (unsigned)strtoul(rest + 1, &rest, 10) : 0;
        witness->observes = *rest == '*';
        snprintf(witness->id, sizeof witness->id, "%s", *rest == '=' ? rest + 1 : "");
    }
}

static const struct {
    const char *words;
    unsigned least;
    const char *confirmed; /* NULL: none */
    unsigned age_ms;       /* of the majority's oldest reply */
    enum quorum_witnesses_state state;
} rows[] = {
    /* All of one mind; the majority's oldest reply decides. */
    {"O100:0 O300:0 O400:0", 3, OLD, 300, QUORUM_WITNESSES_CONFIRM},
    {"O100:3 OK:3 .", 3, OLD, LASTS_MS - 1, QUORUM_WITNESSES_CONFIRM},
    {"O100:3 OL:3 .", 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {"O100:3 . .", 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {"O100:0", 1, OLD, 100, QUORUM_WITNESSES_CONFIRM},
    {"O100:0 O200:0", 2, OLD, 200, QUORUM_WITNESSES_CONFIRM},
    {"O100:0 N200:1", 2, NULL, 0, QUORUM_WITNESSES_DISAGREE},
    {"O5:0 O4:0 O3:0 N2:1 N1:1", 5, OLD, 5, QUORUM_WITNESSES_CONFIRM},
    {"O5:0 O4:0 . N2:1 N1:1", 5, NULL, 0, QUORUM_WITNESSES_DISAGREE},
    /* A failover: one after the other hears of it. */
    {"O1:0 O1:0 N1:1", 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    {"N9:1 O1:0 N1:1", 3, NEW, 9, QUORUM_WITNESSES_CONFIRM},
    /* There and back: one has heard of neither. */
    {"O1:2 O1:0 N1:1", 3, NULL, 0, QUORUM_WITNESSES_FAILOVER},
    {"O1:2 O1:2 O1:0", 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    /* Those that are not listed may say otherwise. */
    {"O1:0/4 O1:0 .", 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {"O1:0/4 O1:0 O1:0", 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    {"O1:0/2 O1:0 .", 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    {"O1:0/3 O1:0 .", 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {"O1:0 . .", 5, NULL, 0, QUORUM_WITNESSES_SILENT},
    /* One by two names: the later reply counts. */
    {"O1:0=a O1:0=a .", 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {"O1:0=a O1:0=a O1:0=b", 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    {"O9:0=a N1:1=a O1:0=b", 3, NULL, 0, QUORUM_WITNESSES_DISAGREE},
    /* A cluster's master is no witness of its own slot, nor is a replica. */
    {"O1:1/2* O1:1/2 O2:1/2", 3, OLD, 2, QUORUM_WITNESSES_CONFIRM},
    {"O1:1/2* O1:1/2 .", 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {"O1:1/2* O1:1/2* O2:1/2", 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {"O1:1/4* O1:1/4 O1:1/4", 3, NULL, 0, QUORUM_WITNESSES_SILENT},
    {"O1:1/4* O1:1/4 O1:1/4 O1:1/4", 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    /* The name. */
    {"?1:0 ?1:0 ?1:0", 3, NULL, 0, QUORUM_WITNESSES_UNKNOWN},
    {"?1:0 O1:0 O1:0", 3, OLD, 1, QUORUM_WITNESSES_CONFIRM},
    {"?1:0 ?1:0 O1:0", 3, NULL, 0, QUORUM_WITNESSES_UNKNOWN},
    {"_1:0 _1:0 _1:0", 3, NULL, 0, QUORUM_WITNESSES_DISAGREE},
};

TEST_CASE(witness, NULL, NULL);

TEST_ROWS(witness, majority_confirms_a_configuration_for_a_while, ROWS(rows))
{
    struct quorum_witnesses witnesses;
    fill(&witnesses, rows[_i].words, rows[_i].least);
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
    const char *words;
    uint32_t pending;
    bool may;
} stale[] = {
    {"O5000:0 O5000:0 O5000:0", 0, false}, {"O5000:0 O5000:0 O5000:0", 3, true},
    {"O5000:0 O5000:0 O5000:0", 4, false}, {"O1:0 O5000:0 O5000:0", 4, true},
    {"N1:1 O5000:0 O5000:0", 4, false},    {"O1:0/2* O5000:0/2* O1:0/2", 2, false},
};

TEST_ROWS(witness, replies_on_the_way_may_confirm_an_address, ROWS(stale))
{
    struct quorum_witnesses witnesses;
    fill(&witnesses, stale[_i].words, 3);
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
