/* Which address the sentinels of a node confirm, until when, and how much longer its quarantine is. */
#include "quorum/sentinel.h"

#include <stdio.h>
#include <string.h>

#include "rules/random.h"
#include "support/test.h"

#define MS  QUORUM_MILLISECOND
#define OLD "10.0.0.1 6379"
#define NEW "10.0.0.2 6379"

static const quorum_time now = 100 * QUORUM_SECOND;

/* One sentinel: its address, config epoch, vote epoch and elected leader; how long ago it was asked (0: no reply). */
struct word {
    const char *named;
    unsigned ago_ms;
    unsigned config, vote;
    unsigned leader; /* the number of a sentinel, from 1; 0: none */
    bool failing_over;
    unsigned others;
};

static void fill(struct quorum_sentinels *sentinels, const struct word *words, unsigned count)
{
    quorum_sentinels_init(sentinels, count);
    for (unsigned i = 0; i < count; i++) {
        struct quorum_sentinel *sentinel = &sentinels->sentinel[i];
        sentinel->sent = words[i].ago_ms ? now - words[i].ago_ms * MS : 0;
        sentinel->unknown = !words[i].named;
        sentinel->config_epoch = words[i].config;
        sentinel->vote_epoch = words[i].vote;
        sentinel->failing_over = words[i].failing_over;
        sentinel->others = words[i].others;
        snprintf(sentinel->named, sizeof sentinel->named, "%s", words[i].named ? words[i].named : "");
        snprintf(sentinel->id, sizeof sentinel->id, "id-%u", i + 1);
        if (words[i].leader)
            snprintf(sentinel->leader, sizeof sentinel->leader, "id-%u", words[i].leader);
    }
}

#define SAYS(named, ago, config, vote, leader)                                                                         \
    {                                                                                                                  \
        named, ago, config, vote, leader, false, 0                                                                     \
    }
#define LEADS(named, ago, config, vote, leader)                                                                        \
    {                                                                                                                  \
        named, ago, config, vote, leader, true, 0                                                                      \
    }
#define KNOWS(named, ago, config, vote, leader, others)                                                                \
    {                                                                                                                  \
        named, ago, config, vote, leader, false, others                                                                \
    }
#define SILENT                                                                                                         \
    {                                                                                                                  \
        0                                                                                                              \
    }

static const struct {
    struct word words[5];
    unsigned count;
    const char *confirmed; /* NULL: none */
    unsigned left_ms;      /* until it is no longer */
    enum quorum_sentinels_state state;
} rows[] = {
    /* All of one mind; the majority's oldest reply decides. */
    {{SAYS(OLD, 100, 0, 0, 0), SAYS(OLD, 300, 0, 0, 0), SAYS(OLD, 900, 0, 0, 0)},
     3,
     OLD,
     700,
     QUORUM_SENTINELS_CONFIRM},
    {{SAYS(OLD, 100, 3, 3, 1), SAYS(OLD, 999, 3, 3, 1), SILENT}, 3, OLD, 1, QUORUM_SENTINELS_CONFIRM},
    {{SAYS(OLD, 100, 3, 3, 1), SAYS(OLD, 1000, 3, 3, 1), SILENT}, 3, NULL, 0, QUORUM_SENTINELS_SILENT},
    {{SAYS(OLD, 100, 3, 3, 1), SILENT, SILENT}, 3, NULL, 0, QUORUM_SENTINELS_SILENT},
    {{SAYS(OLD, 100, 0, 0, 0)}, 1, OLD, 900, QUORUM_SENTINELS_CONFIRM},
    {{SAYS(OLD, 100, 0, 0, 0), SAYS(OLD, 200, 0, 0, 0)}, 2, OLD, 800, QUORUM_SENTINELS_CONFIRM},
    {{SAYS(OLD, 100, 0, 0, 0), SAYS(NEW, 200, 1, 1, 1)}, 2, NULL, 0, QUORUM_SENTINELS_DISAGREE},
    /* A failover: votes before the promotion, then the new address. */
    {{SAYS(OLD, 1, 0, 1, 3), SAYS(OLD, 1, 0, 0, 0), LEADS(OLD, 1, 0, 1, 3)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    {{SAYS(OLD, 1, 0, 1, 3), SAYS(OLD, 1, 0, 1, 3), SILENT}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    {{SAYS(OLD, 1, 0, 1, 3), SAYS(OLD, 1, 0, 0, 0), LEADS(NEW, 1, 1, 1, 3)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    {{SAYS(NEW, 9, 1, 1, 3), SAYS(OLD, 1, 0, 0, 0), LEADS(NEW, 1, 1, 1, 3)}, 3, NEW, 991, QUORUM_SENTINELS_CONFIRM},
    {{SAYS(NEW, 9, 2, 1, 3), SAYS(NEW, 1, 2, 0, 0), SAYS(OLD, 1, 0, 0, 0)}, 3, NEW, 991, QUORUM_SENTINELS_CONFIRM},
    /* The leader itself has voted, and counts as little. */
    {{LEADS(OLD, 1, 0, 1, 1), SAYS(OLD, 1, 0, 0, 0), SAYS(NEW, 1, 0, 0, 0)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    /* Given up: the leader says so, in time, with the same configuration. */
    {{SAYS(OLD, 1, 0, 1, 3), SAYS(OLD, 1, 0, 1, 3), SAYS(OLD, 400, 0, 1, 3)}, 3, OLD, 600, QUORUM_SENTINELS_CONFIRM},
    {{SAYS(OLD, 1, 0, 1, 3), SAYS(OLD, 1, 0, 1, 3), SAYS(OLD, 1000, 0, 1, 3)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    {{SAYS(OLD, 1, 0, 1, 3), SAYS(OLD, 1, 0, 1, 3), SAYS(OLD, 1, 1, 1, 3)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    {{SAYS(OLD, 1, 0, 1, 3), SAYS(OLD, 1, 0, 1, 3), SAYS(NEW, 1, 0, 1, 3)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    {{SAYS(OLD, 1, 0, 1, 3), SAYS(OLD, 1, 0, 1, 3), LEADS(OLD, 1, 0, 1, 3)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    {{SAYS(OLD, 1, 0, 1, 9), SAYS(OLD, 1, 0, 1, 9), SAYS(OLD, 1, 0, 0, 0)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    {{SAYS(OLD, 1, 0, 1, 0), SAYS(OLD, 1, 0, 1, 0), SAYS(OLD, 1, 0, 0, 0)}, 3, OLD, 999, QUORUM_SENTINELS_CONFIRM},
    /* It may have voted twice: then every sentinel must say so. */
    {{SAYS(OLD, 1, 0, 2, 3), SAYS(OLD, 1, 0, 2, 3), SAYS(OLD, 400, 0, 2, 3)}, 3, OLD, 600, QUORUM_SENTINELS_CONFIRM},
    {{SAYS(OLD, 1, 0, 2, 3), SILENT, SAYS(OLD, 1, 0, 2, 3)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    {{SAYS(OLD, 1, 0, 2, 3), LEADS(OLD, 1, 0, 1, 2), SAYS(OLD, 1, 0, 2, 3)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    {{SAYS(OLD, 1, 0, 2, 3), SAYS(NEW, 1, 1, 1, 2), SAYS(OLD, 1, 0, 2, 3)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    {{SAYS(OLD, 1, 0, 2, 3), KNOWS(OLD, 1, 0, 2, 3, 3), SAYS(OLD, 1, 0, 2, 3)}, 3, NULL, 0, QUORUM_SENTINELS_FAILOVER},
    /* Sentinels that are not listed may have voted. */
    {{KNOWS(OLD, 1, 0, 0, 0, 4), SAYS(OLD, 1, 0, 0, 0), SILENT}, 3, NULL, 0, QUORUM_SENTINELS_SILENT},
    {{KNOWS(OLD, 1, 0, 0, 0, 4), SAYS(OLD, 1, 0, 0, 0), SAYS(OLD, 1, 0, 0, 0)}, 3, OLD, 999, QUORUM_SENTINELS_CONFIRM},
    {{KNOWS(OLD, 1, 0, 0, 0, 2), SAYS(OLD, 1, 0, 0, 0), SILENT}, 3, OLD, 999, QUORUM_SENTINELS_CONFIRM},
    /* The name. */
    {{SAYS(NULL, 1, 0, 0, 0), SAYS(NULL, 1, 0, 0, 0), SAYS(NULL, 1, 0, 0, 0)}, 3, NULL, 0, QUORUM_SENTINELS_UNKNOWN},
    {{SAYS(NULL, 1, 0, 0, 0), SAYS(OLD, 1, 0, 0, 0), SAYS(OLD, 1, 0, 0, 0)}, 3, OLD, 999, QUORUM_SENTINELS_CONFIRM},
    {{SAYS(NULL, 1, 0, 0, 0), SAYS(NULL, 1, 0, 0, 0), SAYS(OLD, 1, 0, 0, 0)}, 3, NULL, 0, QUORUM_SENTINELS_UNKNOWN},
    {{SAYS("", 1, 0, 0, 0), SAYS("", 1, 0, 0, 0), SAYS("", 1, 0, 0, 0)}, 3, NULL, 0, QUORUM_SENTINELS_DISAGREE},
    /* Five. */
    {{SAYS(OLD, 5, 0, 0, 0), SAYS(OLD, 4, 0, 0, 0), SAYS(OLD, 3, 0, 1, 1), SAYS(OLD, 2, 0, 0, 0),
      SAYS(OLD, 1, 0, 1, 1)},
     5,
     OLD,
     995,
     QUORUM_SENTINELS_CONFIRM},
    {{LEADS(OLD, 5, 0, 0, 0), SAYS(OLD, 4, 0, 0, 0), SAYS(OLD, 3, 0, 1, 1), SAYS(OLD, 2, 0, 1, 1),
      SAYS(OLD, 1, 0, 1, 1)},
     5,
     NULL,
     0,
     QUORUM_SENTINELS_FAILOVER},
};

TEST_CASE(sentinel, NULL, NULL);

TEST_ROWS(sentinel, majority_confirms_an_address_for_a_second, ROWS(rows))
{
    struct quorum_sentinels sentinels;
    fill(&sentinels, rows[_i].words, rows[_i].count);
    const char *confirmed = quorum_sentinels_confirmed(&sentinels, now);
    ck_assert_pstr_eq(confirmed, rows[_i].confirmed);
    ck_assert_int_eq(quorum_sentinels_state(&sentinels, now), rows[_i].state);
    if (!confirmed)
        return;
    quorum_time until = now + rows[_i].left_ms * MS;
    ck_assert_uint_eq(quorum_sentinels_confirmed_until(&sentinels, confirmed), until);
    ck_assert_ptr_nonnull(quorum_sentinels_confirmed(&sentinels, until - 1));
    ck_assert_ptr_null(quorum_sentinels_confirmed(&sentinels, until));
    ck_assert_uint_eq(quorum_sentinels_confirmed_until(&sentinels, "10.0.0.9 6379"), 0);
}

static const struct {
    struct word words[3];
    uint32_t pending;
    bool may;
} stale[] = {
    {{SAYS(OLD, 5000, 0, 0, 0), SAYS(OLD, 5000, 0, 0, 0), SAYS(OLD, 5000, 0, 0, 0)}, 0, false},
    {{SAYS(OLD, 5000, 0, 0, 0), SAYS(OLD, 5000, 0, 0, 0), SAYS(OLD, 5000, 0, 0, 0)}, 3, true},
    {{SAYS(OLD, 5000, 0, 0, 0), SAYS(OLD, 5000, 0, 0, 0), SAYS(OLD, 5000, 0, 0, 0)}, 4, false},
    {{SAYS(OLD, 1, 0, 0, 0), SAYS(OLD, 5000, 0, 0, 0), SAYS(OLD, 5000, 0, 0, 0)}, 4, true},
    {{SAYS(OLD, 1, 0, 1, 2), SAYS(NEW, 1, 1, 1, 2), SAYS(OLD, 5000, 0, 0, 0)}, 4, false},
};

TEST_ROWS(sentinel, replies_on_the_way_may_confirm_an_address, ROWS(stale))
{
    struct quorum_sentinels sentinels;
    fill(&sentinels, stale[_i].words, 3);
    ck_assert_int_eq(quorum_sentinels_may_confirm(&sentinels, OLD, stale[_i].pending, now), stale[_i].may);
}

static const struct {
    struct word words[3];
    quorum_duration longer;
} promotions[] = {
    {{SAYS(NEW, 1, 4, 4, 1), SAYS(NEW, 1, 4, 4, 1), SAYS(OLD, 1, 3, 3, 1)}, QUORUM_VOTED_LONGER},
    {{SAYS(NEW, 1, 4, 4, 1), SAYS(NEW, 1, 4, 3, 1), SAYS(NEW, 1, 4, 3, 1)}, QUORUM_UNVOTED_LONGER}, /* by hand */
    {{SAYS(NEW, 1, 4, 5, 1), SAYS(NEW, 1, 4, 5, 1), SAYS(NEW, 1, 4, 5, 1)}, QUORUM_UNVOTED_LONGER}, /* given up since */
    {{SAYS(NEW, 1, 0, 0, 0), SAYS(NEW, 1, 0, 0, 0), SAYS(NEW, 1, 0, 0, 0)}, QUORUM_UNVOTED_LONGER}, /* configured */
    {{SAYS(NEW, 1, 4, 4, 1), SAYS(OLD, 1, 4, 4, 1), SILENT}, QUORUM_UNVOTED_LONGER},
};

TEST_ROWS(sentinel, quarantine_is_longer_after_a_failover_by_hand, ROWS(promotions))
{
    struct quorum_sentinels sentinels;
    fill(&sentinels, promotions[_i].words, 3);
    ck_assert_uint_eq(quorum_sentinels_longer(&sentinels, NEW), promotions[_i].longer);
}

/*
 * Histories of a group whose failovers are voted for: no address is confirmed by replies to requests that left after the
 * promotion of another one began. Each reading is of one sentinel at one moment.
 */
struct group {
    struct {
        unsigned config, vote, leader;
        bool failing_over;
        unsigned address;
    } sentinel[5];
    unsigned count, epoch, address;
};

static void vote(struct group *group, uint64_t *seed)
{
    unsigned leader = random_below(seed, group->count), votes = 0;
    unsigned epoch = ++group->epoch;
    group->sentinel[leader].failing_over = true;
    for (unsigned i = 0; i < group->count; i++) {
        if (i != leader && random_below(seed, 3) == 0)
            continue;
        group->sentinel[i].vote = epoch;
        group->sentinel[i].leader = leader + 1;
        votes++;
    }
    if (votes <= group->count / 2 || random_below(seed, 4) == 0) {
        group->sentinel[leader].failing_over = false;
        return;
    }
    group->address++;
    group->sentinel[leader].config = epoch;
    group->sentinel[leader].address = group->address;
}

static void hear(struct group *group, uint64_t *seed)
{
    unsigned from = random_below(seed, group->count), to = random_below(seed, group->count);
    group->sentinel[from].failing_over = false;
    if (group->sentinel[from].config <= group->sentinel[to].config)
        return;
    group->sentinel[to].config = group->sentinel[from].config;
    group->sentinel[to].address = group->sentinel[from].address;
    group->sentinel[to].failing_over = false;
}

static void read_one(const struct group *group, struct quorum_sentinels *sentinels, unsigned i, quorum_time sent)
{
    struct quorum_sentinel *sentinel = &sentinels->sentinel[i];
    sentinel->sent = sent;
    sentinel->config_epoch = group->sentinel[i].config;
    sentinel->vote_epoch = group->sentinel[i].vote;
    sentinel->failing_over = group->sentinel[i].failing_over;
    snprintf(sentinel->named, sizeof sentinel->named, "master-%u 6379", group->sentinel[i].address);
    snprintf(sentinel->id, sizeof sentinel->id, "id-%u", i + 1);
    sentinel->leader[0] = '\0';
    if (group->sentinel[i].leader)
        snprintf(sentinel->leader, sizeof sentinel->leader, "id-%u", group->sentinel[i].leader);
}

TEST(sentinel, old_master_is_not_confirmed_by_requests_after_a_promotion)
{
    uint64_t seed = 7;
    unsigned confirmed = 0;
    for (unsigned history = 0; history < 10000; history++) {
        struct group group = {.count = 1 + 2 * random_below(&seed, 3)};
        struct quorum_sentinels sentinels;
        quorum_sentinels_init(&sentinels, group.count);
        quorum_time at = now, promoted = 0;
        for (unsigned step = 0; step < 60; step++, at += random_below(&seed, 100) * MS) {
            unsigned event = random_below(&seed, 12), before = group.address;
            if (event == 0)
                vote(&group, &seed);
            else if (event < 3)
                hear(&group, &seed);
            else
                read_one(&group, &sentinels, random_below(&seed, group.count), at);
            promoted = group.address != before ? at : promoted;
            const char *address = quorum_sentinels_confirmed(&sentinels, at);
            char newest[QUORUM_MASTER_SIZE];
            snprintf(newest, sizeof newest, "master-%u 6379", group.address);
            if (!address)
                continue;
            confirmed++;
            if (strcmp(address, newest) != 0)
                ck_assert_uint_le(quorum_sentinels_confirmed_until(&sentinels, address),
                                  promoted + QUORUM_CONFIRMED_LASTS);
        }
    }
    ck_assert_uint_gt(confirmed, 50000);
}

TEST_PROGRAM("quorum/sentinel")
