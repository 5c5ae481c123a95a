/* The timing of a held lock: its renewals, its warning, and its loss, which is reported exactly once in every
 * sequence of events. */
#include "quorum/lease.h"

#include "rules/random.h"
#include "support/suite.h"

#define MS QUORUM_MILLISECOND

static const quorum_time begin = 1000 * QUORUM_SECOND;

/* ttl 9 s, renewed after a third; valid for 8.9 s. */
static struct quorum_lease_terms usual(void)
{
    return (struct quorum_lease_terms){.ttl = 9000 * MS, .renewal_percent = 33, .cap = QUORUM_NEVER};
}

static const quorum_time first_end = begin + 8900 * MS;
#define THIRD (2970 * MS)

static struct quorum_lease_actions step(struct quorum_lease *lease, struct quorum_lease_event event)
{
    return quorum_lease_step(lease, &event);
}

static struct quorum_lease held(const struct quorum_lease_terms *terms, uint64_t random)
{
    struct quorum_lease lease;
    quorum_lease_init(&lease, terms);
    struct quorum_lease_actions actions =
        step(&lease, (struct quorum_lease_event){
                         .type = QUORUM_LEASE_GRANTED, .now = begin, .validity_end = first_end, .random = random});
    ck_assert(!actions.renew && !actions.failing && !actions.lost);
    return lease;
}

static struct quorum_lease held_as_usual(void)
{
    struct quorum_lease_terms terms = usual();
    return held(&terms, 0);
}

static struct quorum_lease_actions wake(struct quorum_lease *lease, quorum_time now)
{
    return step(lease, (struct quorum_lease_event){.type = QUORUM_LEASE_WOKEN, .now = now});
}

static struct quorum_lease_actions renewed(struct quorum_lease *lease, quorum_time now, enum quorum_verdict verdict,
                                           quorum_time validity_end)
{
    return step(lease, (struct quorum_lease_event){
                           .type = QUORUM_LEASE_RENEWED, .now = now, .verdict = verdict, .validity_end = validity_end});
}

static struct quorum_lease_actions extended(struct quorum_lease *lease, quorum_time now, quorum_time validity_end,
                                            quorum_duration ttl)
{
    return step(lease, (struct quorum_lease_event){
                           .type = QUORUM_LEASE_EXTENDED, .now = now, .validity_end = validity_end, .ttl = ttl});
}

static struct quorum_lease_actions hasten(struct quorum_lease *lease, quorum_time now, uint64_t random)
{
    return step(lease, (struct quorum_lease_event){
                           .type = QUORUM_LEASE_HASTEN, .now = now, .spread = QUORUM_SECOND, .random = random});
}

static bool is_quiet(struct quorum_lease_actions actions)
{
    return !actions.renew && !actions.failing && !actions.ending && !actions.lost;
}

/* ---------------------------------------------------------------------------------------------------------- renewal */

START_TEST(it_is_renewed_at_its_share_of_the_ttl)
{
    struct quorum_lease lease = held_as_usual();
    ck_assert_uint_eq(quorum_lease_deadline(&lease), begin + THIRD);
    ck_assert(is_quiet(wake(&lease, begin + THIRD - 1)));
    ck_assert_uint_eq(wake(&lease, begin + THIRD).renew, 9000 * MS);
    ck_assert(is_quiet(wake(&lease, begin + THIRD + 1))); /* the renewal is in progress */
    ck_assert_uint_eq(quorum_lease_deadline(&lease), first_end);
}
END_TEST

START_TEST(jitter_is_up_to_a_tenth_earlier)
{
    struct quorum_lease_terms terms = usual();
    quorum_duration earliest = THIRD;
    uint64_t seed = 1;
    for (int i = 0; i < 2000; i++) {
        struct quorum_lease lease = held(&terms, next_random(&seed));
        quorum_duration pause = quorum_lease_deadline(&lease) - begin;
        ck_assert_uint_le(pause, THIRD);
        ck_assert_uint_ge(pause, THIRD - THIRD / 10);
        if (pause < earliest)
            earliest = pause;
    }
    ck_assert_uint_lt(earliest, THIRD - THIRD / 11); /* the whole range is used */
}
END_TEST

static quorum_duration first_pause(quorum_duration spread, uint64_t random)
{
    struct quorum_lease_terms terms = usual();
    struct quorum_lease lease;
    quorum_lease_init(&lease, &terms);
    step(
        &lease,
        (struct quorum_lease_event){
            .type = QUORUM_LEASE_GRANTED, .now = begin, .validity_end = first_end, .spread = spread, .random = random});
    return quorum_lease_deadline(&lease) - begin;
}

/* The first renewal never comes before a quarter of its time, however many locks there are. */
START_TEST(the_first_renewals_of_very_many_are_spread)
{
    static const quorum_duration spreads[] = {THIRD / 10, THIRD / 2, THIRD - THIRD / 4};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(first_pause(spreads[i], 0), THIRD);
        ck_assert_uint_eq(first_pause(spreads[i], spreads[i]), THIRD - spreads[i]);
        ck_assert_uint_eq(first_pause(spreads[i], spreads[i] + 1), THIRD);
    }
    ck_assert_uint_eq(first_pause(0, THIRD / 10), THIRD - THIRD / 10);
    ck_assert_uint_eq(first_pause(0, THIRD / 10 + 1), THIRD);
    ck_assert_uint_eq(first_pause(QUORUM_NEVER, THIRD - THIRD / 4), THIRD / 4);
    ck_assert_uint_eq(first_pause(QUORUM_NEVER, THIRD - THIRD / 4 + 1), THIRD);
}
END_TEST

START_TEST(later_renewals_are_not_spread_anew)
{
    struct quorum_lease lease = held_as_usual();
    wake(&lease, begin + THIRD);
    step(&lease, (struct quorum_lease_event){.type = QUORUM_LEASE_RENEWED,
                                             .now = begin + THIRD,
                                             .verdict = QUORUM_WON,
                                             .validity_end = begin + THIRD + 8900 * MS,
                                             .spread = QUORUM_NEVER,
                                             .random = THIRD / 10 + 1});
    ck_assert_uint_eq(quorum_lease_deadline(&lease), begin + 2 * THIRD);
}
END_TEST

START_TEST(renewal_moves_the_end_and_plans_the_next)
{
    struct quorum_lease lease = held_as_usual();
    wake(&lease, begin + THIRD);
    quorum_time now = begin + THIRD + MS, end = begin + THIRD + 8900 * MS;
    ck_assert(is_quiet(renewed(&lease, now, QUORUM_WON, end)));
    ck_assert_uint_eq(lease.validity_end, end);
    ck_assert_uint_eq(quorum_lease_deadline(&lease), now + THIRD);
    ck_assert_uint_eq(wake(&lease, now + THIRD).renew, 9000 * MS);
}
END_TEST

START_TEST(failed_renewal_is_tried_again_sooner_and_told_once)
{
    struct quorum_lease lease = held_as_usual();
    quorum_time now = begin + THIRD;
    wake(&lease, now);
    ck_assert(renewed(&lease, now, QUORUM_LOST_NO_QUORUM, 0).failing);
    ck_assert_uint_eq(lease.validity_end, first_end);
    unsigned tries = 0;
    for (;; tries++) {
        now = quorum_lease_deadline(&lease);
        if (now == first_end)
            break;
        ck_assert_uint_eq(wake(&lease, now).renew, 9000 * MS);
        ck_assert(is_quiet(renewed(&lease, now, QUORUM_LOST_NO_QUORUM, 0)));
    }
    ck_assert_uint_ge(tries, 12);
    ck_assert_uint_le(tries, 40);
    ck_assert_int_eq(wake(&lease, now).lost, QUORUM_LOSS_EXPIRED);
}
END_TEST

static struct quorum_lease_actions confirmed(struct quorum_lease *lease, quorum_time now, quorum_time validity_end)
{
    return step(lease,
                (struct quorum_lease_event){.type = QUORUM_LEASE_CONFIRMED, .now = now, .validity_end = validity_end});
}

/* A renewal fails by timeouts. When a majority confirms it later, it still moves the end of validity. */
START_TEST(late_confirmation_moves_the_end_and_the_next_try)
{
    struct quorum_lease lease = held_as_usual();
    quorum_time sent = begin + THIRD, now = sent + 200 * MS;
    wake(&lease, sent);
    ck_assert(renewed(&lease, sent + 50 * MS, QUORUM_LOST_NO_QUORUM, 0).failing);
    ck_assert(is_quiet(confirmed(&lease, now, sent + 8900 * MS)));
    ck_assert_uint_eq(lease.validity_end, sent + 8900 * MS);
    ck_assert_uint_eq(quorum_lease_deadline(&lease), now + 8700 * MS / 8);
    ck_assert(!quorum_lease_may_heal(&lease));
    ck_assert_uint_gt(wake(&lease, now + 8700 * MS / 8).renew, 0);
}
END_TEST

START_TEST(late_confirmation_leaves_a_renewal_under_way_alone)
{
    struct quorum_lease lease = held_as_usual();
    wake(&lease, begin + THIRD);
    ck_assert(is_quiet(confirmed(&lease, begin + THIRD + MS, first_end + 1000 * MS)));
    ck_assert_uint_eq(quorum_lease_deadline(&lease), first_end + 1000 * MS);
}
END_TEST

START_TEST(late_confirmation_never_shortens)
{
    struct quorum_lease lease = held_as_usual();
    confirmed(&lease, begin + MS, first_end - MS);
    ck_assert_uint_eq(lease.validity_end, first_end);
    ck_assert_uint_eq(quorum_lease_deadline(&lease), begin + THIRD);
}
END_TEST

START_TEST(failing_is_told_again_after_a_success)
{
    struct quorum_lease lease = held_as_usual();
    wake(&lease, begin + THIRD);
    ck_assert(renewed(&lease, begin + THIRD, QUORUM_LOST_HELD, 0).failing);
    quorum_time now = quorum_lease_deadline(&lease);
    wake(&lease, now);
    ck_assert(is_quiet(renewed(&lease, now, QUORUM_WON, now + 8900 * MS)));
    now = quorum_lease_deadline(&lease);
    wake(&lease, now);
    ck_assert(renewed(&lease, now, QUORUM_LOST_NO_QUORUM, 0).failing);
}
END_TEST

START_TEST(without_renewal_it_lasts_until_its_end)
{
    struct quorum_lease_terms terms = usual();
    terms.renewal_percent = 0;
    struct quorum_lease lease = held(&terms, 7);
    ck_assert_uint_eq(quorum_lease_deadline(&lease), first_end);
    ck_assert(is_quiet(hasten(&lease, begin + MS, 0)));
    ck_assert(is_quiet(wake(&lease, first_end - 1)));
    ck_assert_int_eq(wake(&lease, first_end).lost, QUORUM_LOSS_EXPIRED);
}
END_TEST

START_TEST(forgetful_node_brings_the_renewal_forward)
{
    struct quorum_lease lease = held_as_usual();
    hasten(&lease, begin + MS, 300 * MS);
    ck_assert_uint_eq(quorum_lease_deadline(&lease), begin + 301 * MS);
    hasten(&lease, begin + 2 * MS, 900 * MS); /* never later than planned */
    ck_assert_uint_eq(quorum_lease_deadline(&lease), begin + 301 * MS);
    hasten(&lease, begin + 3 * MS, QUORUM_SECOND + 1 + 200 * MS); /* spread over one second */
    ck_assert_uint_eq(quorum_lease_deadline(&lease), begin + 203 * MS);
    ck_assert_uint_eq(hasten(&lease, begin + 4 * MS, 0).renew, 9000 * MS);
}
END_TEST

/* The node may have executed the renewal in progress before it lost its data: another renewal follows, at the
 * planned time or at once. */
START_TEST(renewal_under_way_is_followed_by_the_hastened_one)
{
    static const struct {
        quorum_duration answered;
        quorum_duration next;
    } rows[] = {{10 * MS, 300 * MS}, {400 * MS, 400 * MS}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int won = 0; won <= 1; won++) {
            struct quorum_lease lease = held_as_usual();
            wake(&lease, begin + THIRD);
            ck_assert(is_quiet(hasten(&lease, begin + THIRD, 300 * MS)));
            ck_assert_uint_eq(quorum_lease_deadline(&lease), first_end);
            enum quorum_verdict verdict = won ? QUORUM_WON : QUORUM_LOST_NO_QUORUM;
            quorum_duration renew = renewed(&lease, begin + THIRD + rows[i].answered, verdict, first_end + THIRD).renew;
            if (rows[i].next > rows[i].answered)
                ck_assert_uint_eq(quorum_lease_deadline(&lease), begin + THIRD + rows[i].next);
            else
                ck_assert_uint_eq(renew, 9000 * MS);
        }
}
END_TEST

/* -------------------------------------------------------------------------------------------------------------- cap */

START_TEST(nodes_are_asked_for_whole_milliseconds)
{
    struct quorum_lease_terms terms = usual();
    terms.cap = begin + 10000 * MS + 999999;
    struct quorum_lease lease = held(&terms, 0);
    ck_assert_uint_eq(wake(&lease, begin + THIRD).renew, 10000 * MS - THIRD);
}
END_TEST

/* The renewal was planned with a ttl of 5 s. */
START_TEST(renewal_that_is_sent_late_does_not_go_beyond_the_cap)
{
    static const struct {
        quorum_duration left, ttl;
    } rows[] = {{QUORUM_NEVER, 5000 * MS},
                {5000 * MS, 5000 * MS},
                {5000 * MS - 1, 4999 * MS},
                {7 * MS, 7 * MS},
                {2 * MS - 1, MS},
                {MS - 1, MS},
                {0, MS}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct quorum_lease_terms terms = usual();
        if (rows[i].left != QUORUM_NEVER)
            terms.cap = begin + rows[i].left;
        struct quorum_lease lease = held(&terms, 0);
        ck_assert_uint_eq(quorum_lease_ttl_at(&lease, 5000 * MS, begin), rows[i].ttl);
    }
}
END_TEST

START_TEST(at_the_cap_it_ends_by_itself)
{
    struct quorum_lease_terms terms = usual();
    terms.cap = first_end - MS;
    struct quorum_lease lease = held(&terms, 0);
    ck_assert(is_quiet(wake(&lease, begin + THIRD)));
    ck_assert_uint_eq(quorum_lease_deadline(&lease), first_end);
}
END_TEST

/* ---------------------------------------------------------------------------------------------------------- warning */

START_TEST(its_end_is_announced_once)
{
    struct quorum_lease_terms terms = usual();
    terms.renewal_percent = 0;
    terms.notify_before = 500 * MS;
    struct quorum_lease lease = held(&terms, 0);
    ck_assert_uint_eq(quorum_lease_deadline(&lease), first_end - 500 * MS);
    ck_assert(is_quiet(wake(&lease, first_end - 500 * MS - 1)));
    ck_assert(wake(&lease, first_end - 500 * MS).ending);
    ck_assert(is_quiet(wake(&lease, first_end - 500 * MS + 1)));
    ck_assert_uint_eq(quorum_lease_deadline(&lease), first_end);
}
END_TEST

START_TEST(after_an_extension_it_is_announced_again)
{
    struct quorum_lease_terms terms = usual();
    terms.renewal_percent = 0;
    terms.notify_before = 500 * MS;
    struct quorum_lease lease = held(&terms, 0);
    wake(&lease, first_end - 500 * MS);
    /* Less validity is left than the notice. */
    ck_assert(is_quiet(extended(&lease, first_end - MS, first_end + 100 * MS, 9000 * MS)));
    ck_assert(is_quiet(extended(&lease, first_end, first_end + 8000 * MS, 9000 * MS)));
    ck_assert_uint_eq(quorum_lease_deadline(&lease), first_end + 7500 * MS);
    ck_assert(wake(&lease, first_end + 7500 * MS).ending);
}
END_TEST

START_TEST(notice_longer_than_the_lock_is_given_at_once)
{
    struct quorum_lease_terms terms = usual();
    terms.notify_before = QUORUM_NEVER;
    struct quorum_lease lease;
    quorum_lease_init(&lease, &terms);
    ck_assert(
        step(&lease, (struct quorum_lease_event){.type = QUORUM_LEASE_GRANTED, .now = begin, .validity_end = first_end})
            .ending);
}
END_TEST

/* -------------------------------------------------------------------------------------------------------- extension */

/* The next renewal asks for the ttl of the longest extension, also of one that is confirmed late. */
START_TEST(extended_lock_is_renewed_by_its_longest_ttl)
{
    static const struct {
        enum quorum_lease_event_type type;
        quorum_duration end, ttl;
    } rows[] = {{QUORUM_LEASE_EXTENDED, 29000 * MS, 30000 * MS},
                {QUORUM_LEASE_CONFIRMED, 59000 * MS, 60000 * MS},
                {QUORUM_LEASE_EXTENDED, 900 * MS, 1000 * MS}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct quorum_lease lease = held_as_usual();
        ck_assert(is_quiet(step(&lease, (struct quorum_lease_event){.type = rows[i].type,
                                                                    .now = begin + MS,
                                                                    .validity_end = begin + rows[i].end,
                                                                    .ttl = rows[i].ttl})));
        bool longer = rows[i].ttl > 9000 * MS;
        ck_assert_uint_eq(lease.validity_end, longer ? begin + rows[i].end : first_end);
        ck_assert_uint_eq(wake(&lease, quorum_lease_deadline(&lease)).renew, longer ? rows[i].ttl : 9000 * MS);
    }
}
END_TEST

/* ------------------------------------------------------------------------------------------------------------- loss */

/* The lock has ended, and no later event revives it. */
START_TEST(nothing_that_comes_after_the_end_brings_it_back)
{
    for (enum quorum_lease_event_type type = QUORUM_LEASE_WOKEN; type <= QUORUM_LEASE_CLOSED; type++) {
        struct quorum_lease lease = held_as_usual();
        struct quorum_lease_actions actions = step(&lease, (struct quorum_lease_event){.type = type,
                                                                                       .now = first_end,
                                                                                       .verdict = QUORUM_WON,
                                                                                       .validity_end = QUORUM_NEVER,
                                                                                       .ttl = QUORUM_SECOND});
        ck_assert_int_eq(actions.lost, QUORUM_LOSS_EXPIRED);
        ck_assert_uint_eq(lease.validity_end, first_end);
    }
}
END_TEST

START_TEST(lock_is_lost_before_its_end)
{
    static const struct {
        struct quorum_lease_event event;
        enum quorum_loss loss;
    } rows[] = {{{.type = QUORUM_LEASE_RENEWED, .verdict = QUORUM_LOST_GONE}, QUORUM_LOSS_GONE},
                {{.type = QUORUM_LEASE_CLOCK}, QUORUM_LOSS_CLOCK},
                {{.type = QUORUM_LEASE_CLOSED}, QUORUM_LOSS_CLOSED}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct quorum_lease lease = held_as_usual();
        struct quorum_lease_event event = rows[i].event;
        wake(&lease, begin + THIRD);
        event.now = begin + THIRD + MS;
        ck_assert_int_eq(step(&lease, event).lost, rows[i].loss);
    }
}
END_TEST

START_TEST(loss_is_told_once_and_for_good)
{
    struct quorum_lease lease = held_as_usual();
    step(&lease, (struct quorum_lease_event){.type = QUORUM_LEASE_CLOCK, .now = begin + MS});
    for (enum quorum_lease_event_type type = QUORUM_LEASE_GRANTED; type <= QUORUM_LEASE_CLOSED; type++)
        ck_assert(is_quiet(step(&lease, (struct quorum_lease_event){.type = type,
                                                                    .now = begin + 2 * MS,
                                                                    .verdict = QUORUM_WON,
                                                                    .validity_end = QUORUM_NEVER,
                                                                    .ttl = QUORUM_SECOND})));
    ck_assert_int_eq(lease.loss, QUORUM_LOSS_CLOCK);
    ck_assert_uint_eq(quorum_lease_deadline(&lease), QUORUM_NEVER);
}
END_TEST

/* -------------------------------------------------------------------------------------------------------- at random */

/* A random run: a host that wakes the lease at its deadline or later, and renewals with any result. */
struct life {
    struct quorum_lease lease;
    struct quorum_lease_terms terms;
    quorum_time now;
    quorum_duration longest_ttl; /* of all requested ttls */
    unsigned renewals;           /* in progress */
    bool failing;                /* as last reported */
    bool lost;
};

static struct quorum_lease_terms random_terms(uint64_t *seed)
{
    struct quorum_lease_terms terms = {.ttl = (5 + random_below(seed, 20000)) * MS,
                                       .renewal_percent = random_below(seed, 4) ? 1 + random_below(seed, 99) : 0,
                                       .cap = QUORUM_NEVER};
    if (random_below(seed, 2))
        terms.notify_before = random_below(seed, 10000) * MS;
    if (random_below(seed, 2))
        terms.cap = begin + terms.ttl + next_random(seed) % (60 * QUORUM_SECOND);
    return terms;
}

static quorum_time random_end(const struct life *life, uint64_t *seed)
{
    return life->now + next_random(seed) % (2 * life->terms.ttl) - (random_below(seed, 2) ? life->terms.ttl / 2 : 0);
}

static struct quorum_lease_event random_event(const struct life *life, uint64_t *seed)
{
    static const enum quorum_verdict verdicts[] = {QUORUM_WON,       QUORUM_WON,      QUORUM_WON, QUORUM_LOST_NO_QUORUM,
                                                   QUORUM_LOST_HELD, QUORUM_LOST_GONE};
    struct quorum_lease_event event = {.type = QUORUM_LEASE_WOKEN,
                                       .now = life->now,
                                       .random = next_random(seed),
                                       .validity_end = random_end(life, seed),
                                       .ttl = (5 + random_below(seed, 20000)) * MS,
                                       .spread = QUORUM_SECOND,
                                       .verdict = verdicts[random_below(seed, 6)]};
    unsigned dice = random_below(seed, 100);
    if (life->renewals && dice < 60)
        event.type = QUORUM_LEASE_RENEWED;
    else if (dice < 65)
        event.type = QUORUM_LEASE_EXTENDED;
    else if (dice < 70)
        event.type = QUORUM_LEASE_HASTEN;
    else if (dice < 75)
        event.type = QUORUM_LEASE_CONFIRMED;
    else if (dice < 76)
        event.type = random_below(seed, 2) ? QUORUM_LEASE_CLOCK : QUORUM_LEASE_CLOSED;
    return event;
}

static void require(bool holds, const char *what, uint64_t seed)
{
    if (!holds)
        ck_abort_msg("%s (seed %lu)", what, (unsigned long)seed);
}

static void check_renewal(struct life *life, const struct quorum_lease_event *event,
                          const struct quorum_lease_actions *actions, uint64_t seed)
{
    if (event->type == QUORUM_LEASE_RENEWED && !life->lost)
        life->renewals--;
    if ((event->type == QUORUM_LEASE_EXTENDED || event->type == QUORUM_LEASE_CONFIRMED) &&
        event->ttl > life->longest_ttl)
        life->longest_ttl = event->ttl;
    if (!actions->renew)
        return;
    require(life->renewals++ == 0, "two renewals at a time", seed);
    require(actions->renew <= life->longest_ttl, "renewed for longer than any ttl", seed);
    require(actions->renew % MS == 0, "a ttl in parts of a millisecond", seed);
    require(life->now + actions->renew <= life->terms.cap, "renewed beyond the cap", seed);
    require(life->now + actions->renew > life->lease.validity_end, "renewed for nothing", seed);
    require(life->terms.renewal_percent > 0, "renewed though renewal is off", seed);
}

static void check_end(struct life *life, const struct quorum_lease *before, const struct quorum_lease_actions *actions,
                      uint64_t seed)
{
    bool late = life->now >= before->validity_end;
    require(life->lease.validity_end >= before->validity_end, "shortened", seed);
    require(!late || life->lease.validity_end == before->validity_end, "prolonged after its end", seed);
    require(!late || life->lease.loss != QUORUM_NOT_LOST, "alive after its end", seed);
    require(!late || life->lost || actions->lost == QUORUM_LOSS_EXPIRED, "its end went by untold", seed);
    require(!life->lost || is_quiet(*actions), "a dead lock speaks", seed);
    life->lost = life->lost || actions->lost;
    require(life->lost == (life->lease.loss != QUORUM_NOT_LOST), "lost without a word", seed);
    require(!actions->lost || (!actions->renew && !actions->ending && !actions->failing), "lost, and more", seed);
}

static void check_deadline(const struct life *life, uint64_t seed)
{
    quorum_time deadline = quorum_lease_deadline(&life->lease);
    require(life->lost == (deadline == QUORUM_NEVER), "when is it to be woken?", seed);
    require(deadline > life->now, "woken without a pause", seed);
    require(life->lost || deadline <= life->lease.validity_end, "woken after its end", seed);
    struct quorum_lease early = life->lease;
    if (!life->lost)
        require(is_quiet(wake(&early, deadline - 1)), "it does something before its deadline", seed);
}

/* Returns the number of steps for which the lock was held. */
static unsigned live(uint64_t seed)
{
    uint64_t state = seed;
    struct life life = {.terms = random_terms(&state), .now = begin};
    unsigned steps = 0;
    life.longest_ttl = life.terms.ttl;
    quorum_lease_init(&life.lease, &life.terms);
    struct quorum_lease_event event = {
        .type = QUORUM_LEASE_GRANTED, .now = begin, .validity_end = begin + life.terms.ttl / 2, .random = seed};
    for (; steps < 60; steps++) {
        struct quorum_lease before = life.lease;
        struct quorum_lease_actions actions = step(&life.lease, event);
        if (steps > 0)
            check_end(&life, &before, &actions, seed);
        check_renewal(&life, &event, &actions, seed);
        check_deadline(&life, seed);
        if (life.lost && random_below(&state, 4) == 0)
            break;
        quorum_duration pause = quorum_time_until(quorum_lease_deadline(&life.lease), life.now);
        life.now += life.lost ? MS : random_below(&state, 3) ? pause : next_random(&state) % (pause + pause / 50 + 1);
        event = random_event(&life, &state);
    }
    return steps;
}

START_TEST(lives_at_random)
{
    unsigned long long steps = 0;
    for (uint64_t seed = 1; seed <= 20000; seed++)
        steps += live(seed);
    ck_assert_uint_gt(steps, 20000 * 5); /* otherwise most locks ended before much could happen */
}
END_TEST

/* A renewal may take half of the remaining validity, and no time when the validity has ended. */
START_TEST(renewal_may_take_half_of_what_is_left)
{
    struct quorum_lease lease = held_as_usual();
    ck_assert_uint_eq(quorum_lease_patience(&lease, begin), 4450 * MS);
    ck_assert_uint_eq(quorum_lease_patience(&lease, first_end), 0);
    ck_assert_uint_eq(quorum_lease_patience(&lease, first_end + MS), 0);
}
END_TEST

/* Renewals overlap: a successful one may still be waiting for its last node when the next one fails. */
START_TEST(nothing_is_healed_once_a_renewal_has_failed)
{
    struct quorum_lease lease = held_as_usual();
    ck_assert(quorum_lease_may_heal(&lease));
    wake(&lease, begin + THIRD);
    renewed(&lease, begin + THIRD, QUORUM_LOST_NO_QUORUM, 0);
    ck_assert(!quorum_lease_may_heal(&lease));
    quorum_time now = quorum_lease_deadline(&lease);
    wake(&lease, now);
    renewed(&lease, now, QUORUM_WON, now + 8900 * MS);
    ck_assert(quorum_lease_may_heal(&lease));
    ck_assert_int_eq(wake(&lease, now + 8900 * MS).lost, QUORUM_LOSS_EXPIRED);
    ck_assert(!quorum_lease_may_heal(&lease));
}
END_TEST

static void add_renewal(Suite *suite)
{
    TCase *renewal = tcase_create("renewal");
    tcase_add_test(renewal, it_is_renewed_at_its_share_of_the_ttl);
    tcase_add_test(renewal, jitter_is_up_to_a_tenth_earlier);
    tcase_add_test(renewal, the_first_renewals_of_very_many_are_spread);
    tcase_add_test(renewal, later_renewals_are_not_spread_anew);
    tcase_add_test(renewal, renewal_moves_the_end_and_plans_the_next);
    tcase_add_test(renewal, renewal_may_take_half_of_what_is_left);
    tcase_add_test(renewal, nothing_is_healed_once_a_renewal_has_failed);
    tcase_add_test(renewal, failed_renewal_is_tried_again_sooner_and_told_once);
    tcase_add_test(renewal, failing_is_told_again_after_a_success);
    tcase_add_test(renewal, late_confirmation_moves_the_end_and_the_next_try);
    tcase_add_test(renewal, late_confirmation_leaves_a_renewal_under_way_alone);
    tcase_add_test(renewal, late_confirmation_never_shortens);
    tcase_add_test(renewal, without_renewal_it_lasts_until_its_end);
    tcase_add_test(renewal, forgetful_node_brings_the_renewal_forward);
    tcase_add_test(renewal, renewal_under_way_is_followed_by_the_hastened_one);
    tcase_add_test(renewal, nodes_are_asked_for_whole_milliseconds);
    tcase_add_test(renewal, renewal_that_is_sent_late_does_not_go_beyond_the_cap);
    tcase_add_test(renewal, at_the_cap_it_ends_by_itself);
    tcase_add_test(renewal, extended_lock_is_renewed_by_its_longest_ttl);
    suite_add_tcase(suite, renewal);
}

int main(void)
{
    Suite *suite = suite_create("quorum/lease");
    add_renewal(suite);

    TCase *warning = tcase_create("warning");
    tcase_add_test(warning, its_end_is_announced_once);
    tcase_add_test(warning, after_an_extension_it_is_announced_again);
    tcase_add_test(warning, notice_longer_than_the_lock_is_given_at_once);
    suite_add_tcase(suite, warning);

    TCase *loss = tcase_create("loss");
    tcase_add_test(loss, nothing_that_comes_after_the_end_brings_it_back);
    tcase_add_test(loss, lock_is_lost_before_its_end);
    tcase_add_test(loss, loss_is_told_once_and_for_good);
    tcase_add_test(loss, lives_at_random);
    suite_add_tcase(suite, loss);
    return run_suite(suite);
}
