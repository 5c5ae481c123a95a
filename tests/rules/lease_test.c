/* The timing of a held lock: its renewals, its warning, and its loss, which is reported exactly once in every
 * sequence of events. */
#include "quorum/lease.h"

#include <string.h>

#include "rules/story.h"
#include "support/test.h"

#define MS QUORUM_MILLISECOND

static const quorum_time begin = 1000 * QUORUM_SECOND;

/* The ttl is 9000 ms, and 8900 ms are valid. It is renewed after a third. */
#define TTL   (9000 * MS)
#define VALID (8900 * MS)
#define THIRD (2970 * MS)

/*
 * Stories: events, a letter and numbers, all in milliseconds since the grant. The lock is granted first, or by the
 * word g.
 *   w  it is woken        k11870  a renewal has succeeded, valid until then    f  failed    G  the lock is gone
 *   c11870:9000  a failed request with this ttl is confirmed late    e11870:9000  the holder has extended it
 *   t2:1000  in turn, node 2 confirms a request that was sent at 1000: it keeps the key until 9900    T2:1000  it does not
 *   B  the turns begin anew    j33:9500:600  its owner acquires it once more, with renewal at this percentage, cap (0: none) and notice
 *   h300  a node has lost it: renew within a second, the random number says within 300 ms    C  our clock stopped
 * After an event: >9000 it is renewed with this ttl, ! the failure is reported, ~ the end is announced, x:gone the
 * loss is reported. Otherwise it does nothing.
 *   @500  500 ms since the grant       =500  it is to be woken then      E500  its validity ends then
 *   W500  it is to be woken then, has nothing to do a nanosecond earlier, and is woken
 *   R2:3000:9000  node 2 is to be sent a renewal in turn with this ttl if its turns are 3000 ms apart; 0: none
 *   H     it may be healed             N     it may not                  P500  a renewal may take so long
 */
static const struct story {
    const char *name;
    const char *events;
    quorum_duration cap, notice;
    bool no_renewal;
} stories[] = {
    {"it is renewed at its share of the ttl", .events = "W2970>9000 @2971 w =8900"},
    {"renewal moves the end and plans the next", .events = "W2970>9000 @2971 k11870 E11870 W5941>9000"},
    {"failed renewal is tried again after an eighth of what is left, and reported once",
     .events = "W2970>9000 @2980 f! E8900 W3720>9000 @3740 f W4385>9000 @8780 f W8800>9000 @8890 f W8900x:expired"},
    {"failure is reported again after a success", .events = "W2970>9000 @2980 f! W3720>9000 k12620 W6690>9000 f!"},
    {"renewal may take half of what is left", .events = "P4450 @8900 P0 @8901 P0"},
    {"without renewal it lasts until its end", .events = "=8900 @1 h0 W8900x:expired", .no_renewal = true},
    /* Renewals overlap: a successful one may still be waiting for its last node when the next one fails. */
    {"nothing is healed once a renewal has failed",
     .events = "H W2970>9000 @2980 f! N W3720>9000 k12620 H @12620 wx:expired N"},

    /* A renewal fails by timeouts. When a majority confirms it later, it still moves the end of validity. */
    {"late confirmation moves the end and the next try",
     .events = "W2970>9000 @3020 f! @3190 c11870:0 E11870 N W4275>9000"},
    {"late confirmation leaves a renewal under way alone", .events = "W2970>9000 @2971 c9900:0 =9900"},
    {"late confirmation leaves a renewal under way alone that follows a failed one",
     .events = "W2970>9000 @2980 f! W3720>9000 @3730 c9900:0 =9900"},
    {"late confirmation never shortens", .events = "@1 c8899:0 E8900 =2970"},
    {"late confirmation renews nothing if renewal is off", .events = "@1 c9900:0 =9900", .no_renewal = true},

    {"late confirmation plans no renewal beyond the cap",
     .events = "W2970>5931 @2980 f! @2981 c8901:0 W3721 c8902:0 =8902", .cap = 8901 * MS},
    {"node that lost it brings the renewal forward, never back",
     .events = "@1 h300 =301 @2 h900 =301 @3 h200 =203 @4 h0>9000 @5 k11870 =2975"},
    /* The node may have executed the renewal in progress before it lost its data. */
    {"renewal under way is followed by the hastened one", .events = "W2970>9000 h300 =8900 @2980 k11870 W3270>9000"},
    {"failed renewal is followed by the hastened one", .events = "W2970>9000 h300 =8900 @2980 f! W3270>9000"},
    {"late renewal is followed by the hastened one at once", .events = "W2970>9000 h300 @3370 k11870>9000"},
    {"late failed renewal is followed by the hastened one at once", .events = "W2970>9000 h300 @3370 f>9000!"},

    {"nodes are sent whole milliseconds", .events = "W2970>7030", .cap = 10000 * MS + 999999},
    {"at the cap it ends by itself", .events = "W2970 =8900", .cap = VALID - MS},
    {"longer ttl of an extension is renewed", .events = "@1 e29000:30000 E29000 W2970>30000"},
    {"longer ttl of a late confirmation is renewed", .events = "@1 c59000:60000 E59000 W2970>60000"},
    {"shorter ttl of an extension is not", .events = "@1 e900:1000 E8900 W2970>9000"},

    {"joining holder gets its renewal", .events = "@100 j33:0:0>9000 k11870 W3070>9000", .no_renewal = true},
    {"joining holder without renewal changes nothing", .events = "@100 j0:0:0 =2970", .cap = 10000 * MS},
    {"later cap of a joining holder counts", .events = "W2970 @3000 j33:20000:0>9000", .cap = VALID - MS},
    {"later cap of a joining holder counts for the next renewal", .events = "j33:20000:0 W2970>9000",
     .cap = VALID - MS},
    {"earlier cap of a joining holder does not", .events = "@100 j33:9500:0 W2970>7030", .cap = 10000 * MS},
    {"cap of a joining holder counts where nothing was renewed", .events = "@100 j33:10000:0>9000 k9100 W3070>6930",
     .no_renewal = true},
    {"longer notice of a joining holder counts", .events = "@100 j0:0:600 W8300~ =8900", .notice = 500 * MS,
     .no_renewal = true},
    {"shorter notice of a joining holder does not", .events = "@100 j0:0:400 W8400~ =8900", .notice = 500 * MS,
     .no_renewal = true},
    {"end is announced again only for a longer notice", .events = "W8400~ @8401 j0:0:500 j0:0:600~ =8900",
     .notice = 500 * MS, .no_renewal = true},

    {"its end is announced once", .events = "W8400~ @8401 w =8900", .notice = 500 * MS, .no_renewal = true},
    {"its end is announced while a renewal is under way", .events = "W2970>9000 W8400~ =8900", .notice = 500 * MS},
    {"its end is announced again after an extension that lasts longer than the notice",
     .events = "W8400~ @8899 e9000:9000 @8900 e16900:9000 W16400~", .notice = 500 * MS, .no_renewal = true},
    {"lost lock does not announce its end", .events = "@8400 Cx:clock", .notice = 500 * MS, .no_renewal = true},
    {"notice longer than the lock is given at once", .events = "g~ =2970", .notice = QUORUM_NEVER},

    /* In turn. Five nodes; the next round is due as long before the end as the first one was, 5930 ms. */
    {"third node to confirm in turn moves the end, and the next round with it",
     .events = "@2300 t0:2100 E8900 @2400 t1:2200 E8900 =2970 @2500 t2:2300 E11000 =5070 W5070>9000"},
    {"each later turn moves the end to what the third latest one supports",
     .events = "@500 t0:100 t1:200 t2:300 E9000 t3:400 E9100 t4:450 E9200 t0:460 E9300 =3370"},
    {"one node's turns count once", .events = "@500 t0:100 t0:200 t0:300 t1:400 E8900 =2970"},
    {"turns in any order have the same end", .events = "@500 t4:450 t0:100 t2:300 E9000 t1:200 E9100 t3:400 E9200"},
    {"round is due at once where a node fails in its turn",
     .events = "@500 t0:100 t1:200 T2:300>9000 @501 k9401 E9401"},
    {"node that fails in its turn counts no longer",
     .events = "@500 t0:100 t1:200 T1:300>9000 t2:400 E8900 t3:450 E9000 =9000"},
    {"node that fails in its turn takes nothing back", .events = "@500 t0:100 t1:200 t2:300 E9000 T0:400>9000 E9000"},
    {"turn that fails during a round leaves the round alone", .events = "W2970>9000 @2971 T0:2960 =8900 k11870 E11870"},
    {"turn during a round moves the end", .events = "@2960 t0:2900 t1:2910 W2970>9000 t2:2920 E11800 =11800"},
    {"turns from before a round do not count, nor do they fail",
     .events = "@100 t0:50 t1:60 W2970>9000 @2980 k11870 t2:2980 t3:2980 t4:2980 T4:2980 E11870 =5950"},
    {"turns from before an extension do not count",
     .events = "@100 t0:50 t1:60 t2:70 E8950 @200 e9050:9000 t3:190 t4:200 t0:190 E9050"},
    {"turns from before a heal do not count",
     .events = "@100 t0:50 t1:60 B @110 t2:100 t3:101 E8900 t4:102 E8900 t0:103 E9001"},
    {"turn after the end moves nothing", .events = "@8890 t0:8800 t1:8800 @8900 t2:8800x:expired E8900",
     .no_renewal = true},
    {"node is due in its turn if the next one would come too late",
     .events = "R0:1000:0 @1969 R0:1000:0 @1971 R0:1000:9000 R0:999:0"},
    {"node that confirmed in its turn is due later",
     .events = "@2000 t0:1971 R0:1000:0 R1:1000:9000 @2500 t1:2000 t2:2300 E10871 @3940 R0:1000:0 @3942 R0:1000:9000"},
    {"node that failed in its turn is due",
     .events = "@2000 t0:1990 W2970>9000 @2980 k11870 R0:1000:0 @4951 R0:1000:9000"},
    {"nothing is due in turn while a round is under way", .events = "W2970>9000 R0:1000:0"},
    {"nothing is due in turn after a round that failed", .events = "W2970>9000 @2980 f! R0:1000:0"},
    {"nothing is due in turn if renewal is off", .events = "@8000 R0:1000:0", .no_renewal = true},
    {"nothing is due in turn if turns are rare", .events = "@2900 R0:3712:9000 R0:3713:0"},
    {"renewal in turn does not go beyond the cap", .events = "@2900 R0:1000:7100", .cap = 10000 * MS},
    {"lost lock is not renewed in turn", .events = "@2900 Cx:clock R0:1000:0"},

    {"it is lost when a majority does not have it", .events = "W2970>9000 @2971 Gx:gone"},
    {"it is lost when our clock stopped", .events = "W2970>9000 @2971 Cx:clock"},
    {"it is lost when it is closed", .events = "W2970>9000 @2971 Xx:closed"},
};

enum { NODES = 5 };

struct run {
    const struct story *story;
    struct quorum_lease lease;
    quorum_time kept[NODES];
    quorum_time now;
};

static void check(const struct run *run, bool holds, const char *word)
{
    ck_assert_msg(holds, "%s: %s at %g ms", run->story->name, word, (double)(run->now - begin) / (double)MS);
}

static void happen(struct run *run, struct quorum_lease_event event, const char *word, const char *actions)
{
    static const char *const losses[] = {"", "x:expired", "x:gone", "x:clock", "x:closed"};
    char shown[64] = "";
    event.now = run->now;
    struct quorum_lease_actions done = quorum_lease_step(&run->lease, &event);
    check(run, done.renew % MS == 0, word);
    if (done.renew)
        snprintf(shown, sizeof shown, ">%g", (double)done.renew / (double)MS);
    snprintf(shown + strlen(shown), 32, "%s%s%s", done.failing ? "!" : "", done.ending ? "~" : "", losses[done.lost]);
    check(run, strcmp(shown, actions) == 0, word);
}

static const struct quorum_lease_terms *joined_of(const char *word)
{
    static struct quorum_lease_terms terms;
    unsigned long long cap, notice;
    ck_assert_int_eq(sscanf(word, "j%u:%llu:%llu", &terms.renewal_percent, &cap, &notice), 3);
    terms.cap = cap ? begin + cap * MS : QUORUM_NEVER;
    terms.notify_before = notice * MS;
    return &terms;
}

static struct quorum_lease_event event_of(const char *word)
{
    static const char letters[] = "gwktcejhCXfG"; /* in the order of the types; a failed renewal is one more renewal */
    char *rest;
    size_t type = (size_t)(strchr(letters, *word) - letters);
    uint64_t number = strtoull(word + 1, &rest, 10);
    bool ends = rest > word + 1; /* otherwise the event has no end of validity, and what it says must not count */
    struct quorum_lease_event event = {.type = type <= QUORUM_LEASE_CLOSED ? (enum quorum_lease_event_type)type
                                                                           : QUORUM_LEASE_RENEWED,
                                       .validity_end = *word == 'g' ? begin + VALID
                                                       : ends       ? begin + number * MS
                                                                    : QUORUM_NEVER,
                                       .verdict = *word == 'f'   ? QUORUM_LOST_NO_QUORUM
                                                  : *word == 'G' ? QUORUM_LOST_GONE
                                                                 : QUORUM_WON};
    if (*rest == ':')
        event.ttl = strtoull(rest + 1, NULL, 10) * MS;
    if (*word == 'j')
        event.joined = joined_of(word);
    if (*word == 'k') { /* the next renewal comes without jitter, and is not spread as the first one is */
        event.spread = QUORUM_NEVER;
        event.random = THIRD / 10 + 1;
    }
    if (*word == 'h') { /* the random number is taken modulo the spread */
        event.spread = QUORUM_SECOND;
        event.random = QUORUM_SECOND + 1 + number * MS;
    }
    return event;
}

static struct quorum_lease_event turn_of(const char *word)
{
    unsigned node;
    unsigned long long sent;
    ck_assert_int_eq(sscanf(word + 1, "%u:%llu", &node, &sent), 2);
    return (struct quorum_lease_event){.type = QUORUM_LEASE_IN_TURN,
                                       .node = node,
                                       .granted = *word == 't',
                                       .sent = begin + sent * MS,
                                       .validity_end = begin + sent * MS + VALID};
}

static void check_turn(struct run *run, const char *word)
{
    unsigned node;
    unsigned long long interval, ttl;
    ck_assert_int_eq(sscanf(word, "R%u:%llu:%llu", &node, &interval, &ttl), 3);
    check(run, quorum_lease_in_turn(&run->lease, node, interval * MS, run->now) == ttl * MS, word);
}

static void wake(struct run *run, quorum_time now, const char *word, const char *actions)
{
    run->now = now;
    happen(run, (struct quorum_lease_event){.type = QUORUM_LEASE_WOKEN}, word, actions);
}

static void play(struct run *run, const char *word)
{
    const char *actions = word + strcspn(word, ">!~x");
    quorum_duration number = strtoull(word + 1, NULL, 10) * MS;
    switch (*word) {
    case '@':
        run->now = begin + number;
        break;
    case '=':
        check(run, quorum_lease_deadline(&run->lease) == begin + number, word);
        break;
    case 'W':
        check(run, quorum_lease_deadline(&run->lease) == begin + number, word);
        wake(run, begin + number - 1, word, "");
        wake(run, begin + number, word, actions);
        break;
    case 'E':
        check(run, run->lease.validity_end == begin + number, word);
        break;
    case 'P':
        check(run, quorum_lease_patience(&run->lease, run->now) == number, word);
        break;
    case 't':
    case 'T':
        happen(run, turn_of(word), word, actions);
        break;
    case 'B':
        quorum_lease_begin_turns(&run->lease, run->now);
        break;
    case 'R':
        check_turn(run, word);
        break;
    case 'H':
    case 'N':
        check(run, quorum_lease_may_heal(&run->lease) == (*word == 'H'), word);
        break;
    default:
        happen(run, event_of(word), word, actions);
    }
}

static void start(struct run *run, const struct story *story)
{
    *run = (struct run){.story = story, .now = begin};
    const struct quorum_lease_terms terms = {.ttl = TTL,
                                             .renewal_percent = story->no_renewal ? 0 : 33,
                                             .cap = story->cap ? begin + story->cap : QUORUM_NEVER,
                                             .notify_before = story->notice};
    memset(&run->lease, 0xee, sizeof run->lease);
    quorum_lease_init(&run->lease, &terms, run->kept, NODES);
    if (*story->events != 'g')
        play(run, "g");
}

TEST_CASE(lease, NULL, NULL);

TEST_ROWS(lease, lease_follows_story, ROWS(stories))
{
    struct run run;
    start(&run, &stories[_i]);
    char word[WORD_SIZE];
    for (const char *events = run.story->events; next_word(&events, word);)
        play(&run, word);
}

/* Up to a tenth earlier. Of very many locks the first renewals are spread further, but never come before a quarter of
 * their time. */
TEST(lease, first_renewals_are_spread)
{
    static const struct story none = {.events = "g"};
    const quorum_duration tenth = THIRD / 10, most = THIRD - THIRD / 4;
    const quorum_duration spreads[] = {0,        tenth - 1, tenth,    tenth + 1,   THIRD / 2,
                                       most - 1, most,      most + 1, QUORUM_NEVER};
    for (int i = 0; i < ROWS(spreads); i++) {
        const quorum_duration window = spreads[i] < tenth ? tenth : spreads[i] < most ? spreads[i] : most;
        const uint64_t randoms[] = {0, 1, window, window + 1, UINT64_MAX};
        for (int j = 0; j < ROWS(randoms); j++) {
            struct run run;
            start(&run, &none);
            struct quorum_lease_event event = event_of("g");
            event.spread = spreads[i];
            event.random = randoms[j];
            happen(&run, event, "g", "");
            ck_assert_uint_eq(quorum_lease_deadline(&run.lease), begin + THIRD - randoms[j] % (window + 1));
        }
    }
}

/* The renewal was planned with a ttl of 5 s. */
TEST(lease, renewal_that_is_sent_late_does_not_go_beyond_the_cap)
{
    static const struct {
        quorum_duration left, ttl;
    } rows[] = {
        {0, 5000 * MS}, /* no cap */
        {5000 * MS, 5000 * MS}, {5000 * MS - 1, 4999 * MS}, {7 * MS, 7 * MS}, {2 * MS - 1, MS}, {MS - 1, MS}, {1, MS}};
    for (int i = 0; i < ROWS(rows); i++) {
        const struct story capped = {.events = "", .cap = rows[i].left};
        struct run run;
        start(&run, &capped);
        ck_assert_uint_eq(quorum_lease_ttl_at(&run.lease, 5000 * MS, begin), rows[i].ttl);
    }
}

/* With a drift of 1 % + 2 ms. */
TEST(lease, release_keeps_the_keys_for_the_rest_of_the_least_time)
{
    static const struct {
        quorum_time least;
        quorum_duration most, rest;
    } rows[] = {
        {0, QUORUM_NEVER, 0},
        {begin, QUORUM_NEVER, 0},
        {begin - 1, QUORUM_NEVER, 0},
        {begin + 1, QUORUM_NEVER, 3 * MS}, /* rounded up */
        {begin + 97 * MS, QUORUM_NEVER, 100 * MS},
        {begin + 97 * MS + 1, QUORUM_NEVER, 101 * MS},
        {begin + 9898 * MS, 10000 * MS, 10000 * MS},
        {begin + 10000 * MS, 10000 * MS, 10000 * MS},
        {QUORUM_NEVER, 10000 * MS, 10000 * MS},
    };
    for (int i = 0; i < ROWS(rows); i++)
        ck_assert_uint_eq(quorum_lease_rest(rows[i].least, begin, 10000, rows[i].most), rows[i].rest);
}

TEST(lease, latest_least_time_of_all_holders_counts)
{
    static const struct story held = {.name = "least", .events = "", .no_renewal = true};
    struct run run;
    start(&run, &held);
    static const quorum_time joined[] = {0, 7, 3}, least[] = {0, 7, 7};
    ck_assert_uint_eq(run.lease.terms.least, 0);
    for (int i = 0; i < ROWS(joined); i++) {
        const struct quorum_lease_terms terms = {.ttl = TTL, .least = joined[i]};
        happen(&run, (struct quorum_lease_event){.type = QUORUM_LEASE_JOINED, .joined = &terms}, "j", "");
        ck_assert_uint_eq(run.lease.terms.least, least[i]);
    }
}

/* Every later event, after a loss that was reported, and when the end has come: nothing brings the lock back. */
TEST(lease, loss_is_reported_once_and_for_good)
{
    static const struct story held = {.name = "lost", .events = ""};
    for (enum quorum_lease_event_type type = QUORUM_LEASE_WOKEN; type <= QUORUM_LEASE_CLOSED; type++) {
        const struct quorum_lease_event event = {
            .type = type, .verdict = QUORUM_WON, .validity_end = QUORUM_NEVER, .ttl = QUORUM_SECOND};
        struct run stopped, ended;
        start(&stopped, &held);
        start(&ended, &held);
        play(&stopped, "@1");
        play(&stopped, "Cx:clock");
        happen(&stopped, event, "after the loss", "");
        ck_assert_int_eq(stopped.lease.loss, QUORUM_LOSS_CLOCK);
        ck_assert_uint_eq(quorum_lease_deadline(&stopped.lease), QUORUM_NEVER);
        play(&ended, "@8900");
        happen(&ended, event, "at its end", "x:expired");
        play(&ended, "E8900");
        happen(&ended, event, "after its end", "");
    }
}

TEST_PROGRAM("quorum/lease")
