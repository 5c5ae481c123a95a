/* The rules of a round, one by one, by their main cases. round_exhaustive_test.c tests all cases and combinations. */
#include "quorum/round.h"

#include <string.h>

#include "rules/story.h"
#include "support/test.h"

#define MS QUORUM_MILLISECOND

static const quorum_time begin = 1000 * QUORUM_SECOND;

/* ttl 1 s, drift 1 % + 2 ms: valid for 988 ms from the first send. A lock that is extended is valid for 500 ms more. */
static const quorum_duration validity = 988 * MS;
static const quorum_duration left = 500 * MS;

static struct quorum_terms terms_for(enum quorum_kind kind, unsigned nodes)
{
    return (struct quorum_terms){.kind = kind,
                                 .nodes = nodes,
                                 .ttl = QUORUM_SECOND,
                                 .drift_ppm = 10000,
                                 .minimum_validity = 1,
                                 .validity_end = kind == QUORUM_ACQUIRE || kind == QUORUM_ADOPT ? 0 : begin + left};
}

/* ----------------------------------------------------------------------------------------------------------- rounds */

/* The events of a round, a millisecond apart: a letter and the node. S: the start. u: the node is usable from now on.
 * O: its timeout has passed. X: the round is cancelled. The votes: G granted, H held, h held and nothing of ours left,
 * A absent, T timed out, U unreachable, R refused, P refused permanently, C refused because of a clock, N granted
 * without proof.
 * After an event: | the round is decided, ~ it has a majority and waits for the other replies, + it is confirmed. */
struct story {
    const char *name;
    enum quorum_kind kind;
    unsigned nodes;
    quorum_nodes coming; /* at the start; the others are usable, unless they have voted */
    const char *events;
    enum quorum_verdict verdict;
    quorum_nodes undo;
    quorum_nodes unasked;
    quorum_nodes clock;
    quorum_nodes timed_out; /* looked at where it is not 0 */
    bool all_answers;
};

static const struct story stories[] = {
    {"the third grant of five wins", QUORUM_ACQUIRE, 5, 0, "S G4 G0 G2|", .verdict = QUORUM_WON},
    {"undo is sent to nodes that did not reply", QUORUM_ACQUIRE, 5, 0, "S G0 T1 U2 R3|",
     .verdict = QUORUM_LOST_NO_QUORUM, .undo = 0x1f},
    {"no undo where nothing of ours is left", QUORUM_ACQUIRE, 5, 0, "S h0 H1 h2|", .verdict = QUORUM_LOST_HELD,
     .undo = 0x1a},
    {"late reply counts for the undo, not as a vote", QUORUM_ACQUIRE, 5, 0, "S T0 h0 T1 G1 T2|",
     .verdict = QUORUM_LOST_NO_QUORUM, .undo = 0x1e, .timed_out = 0x7},
    {"held: without the holder a majority could grant", QUORUM_ACQUIRE, 5, 0, "S U0 T1 h2|",
     .verdict = QUORUM_LOST_HELD, .undo = 0x1b},
    {"grant without proof does not count, and is undone", QUORUM_ACQUIRE, 3, 0, "S N0 N1|",
     .verdict = QUORUM_LOST_NO_QUORUM, .undo = 0x7},
    {"misconfigured: a majority refuses permanently", QUORUM_ACQUIRE, 5, 0, "S P0 P1 P2|",
     .verdict = QUORUM_LOST_MISCONFIGURED, .undo = 0x1f},
    {"not misconfigured: one may recover", QUORUM_ACQUIRE, 5, 0, "S P0 P1 R2|", .verdict = QUORUM_LOST_NO_QUORUM,
     .undo = 0x1f},
    {"clock: refusals because of clocks", QUORUM_ACQUIRE, 5, 0, "S G4 C0 C1 C2| C0 C4", .verdict = QUORUM_LOST_CLOCK,
     .undo = 0x1f, .clock = 0x7},
    {"clock: together with permanent refusals", QUORUM_ACQUIRE, 5, 0, "S G4 C0 P1 P2| C0 C4",
     .verdict = QUORUM_LOST_CLOCK, .undo = 0x1f, .clock = 0x1},

    {"validity counts from the first send", QUORUM_ACQUIRE, 3, 0x7, "S u1 u2 G1 G2|", .verdict = QUORUM_WON,
     .unasked = 0x1},
    {"no undo on nodes that got no request", QUORUM_ACQUIRE, 3, 0x6, "S T1 U2|", .verdict = QUORUM_LOST_NO_QUORUM,
     .undo = 0x1, .unasked = 0x6},
    /* A batch renews many locks with one request, so a round may get a reply from a node that it did not send to. */
    {"grant of a node that got no request", QUORUM_EXTEND, 3, 0, "A0 S G0 G1", .verdict = QUORUM_UNDECIDED,
     .unasked = 0x1},
    {"release is sent after its decision", QUORUM_RELEASE, 5, 0x10, "U0 U1 U2| S u4 u4",
     .verdict = QUORUM_LOST_NO_QUORUM, .unasked = 0x7},

    /* Node timeouts decide the round, but an extension that a node has executed stays executed. */
    {"late grants confirm an extension", QUORUM_EXTEND, 5, 0, "S T0 T1 T2| G0 G3 G1+ G2",
     .verdict = QUORUM_LOST_NO_QUORUM},
    {"late grant does not confirm an acquire", QUORUM_ACQUIRE, 1, 0, "S T0| G0", .verdict = QUORUM_LOST_NO_QUORUM,
     .undo = 0x1},
    {"late grant does not confirm what was cancelled", QUORUM_EXTEND, 1, 0, "S X| G0",
     .verdict = QUORUM_LOST_CANCELLED},
    {"gone: too many nodes do not have our key", QUORUM_EXTEND, 5, 0, "S A0 H1 A2|", .verdict = QUORUM_LOST_GONE},
    {"not gone: the silent node may have it", QUORUM_EXTEND, 5, 0, "S A0 H1 T2|", .verdict = QUORUM_LOST_NO_QUORUM},
    {"adoption undoes nothing", QUORUM_ADOPT, 3, 0, "S A0 H1|", .verdict = QUORUM_LOST_GONE},

    {"won for all answers waits for each", QUORUM_ACQUIRE, 3, 0, "S G0 G1~ T2|", .verdict = QUORUM_WON,
     .all_answers = true},
    {"lost release waits for all answers", QUORUM_RELEASE, 3, 0, "S A0 A1 G2|", .verdict = QUORUM_LOST_GONE,
     .all_answers = true},
    {"late node does not delay a clear release", QUORUM_RELEASE, 3, 0, "S G0 G1~ O2|", .verdict = QUORUM_WON,
     .all_answers = true},
    {"release waits for late nodes until a majority", QUORUM_RELEASE, 3, 0, "S O0 O1 O2 G0 G1|", .verdict = QUORUM_WON,
     .timed_out = 0x4},
    {"overdue acquire", QUORUM_ACQUIRE, 1, 0, "S O0|", .verdict = QUORUM_LOST_NO_QUORUM, .undo = 0x1, .timed_out = 0x1},
    {"look waits for every node", QUORUM_LOOK, 3, 0, "S G0 G1 T2|", .verdict = QUORUM_WON},

    {"cancelled acquire is undone where it was sent", QUORUM_ACQUIRE, 3, 0, "S h1 X|", .verdict = QUORUM_LOST_CANCELLED,
     .undo = 0x5},
};

/* A story, and the round that follows it. */
struct run {
    const struct story *story;
    struct quorum_round round;
    quorum_time now, decided_at, sent_at;
    quorum_nodes sent;
    bool confirmed;
};

static struct quorum_event event_of(const struct run *run, const char *text)
{
    static const char votes[] = "GHhATURPCN";
    static const enum quorum_vote vote[] = {QUORUM_GRANTED,   QUORUM_HELD,        QUORUM_HELD,    QUORUM_ABSENT,
                                            QUORUM_TIMED_OUT, QUORUM_UNREACHABLE, QUORUM_REFUSED, QUORUM_REFUSED,
                                            QUORUM_REFUSED,   QUORUM_UNATTESTED};
    struct quorum_event event = {.type = QUORUM_VOTED, .now = run->now, .node = (unsigned)(text[1] - '0') % 8};
    const struct story *story = run->story;
    switch (*text) {
    case 'S':
        event.type = QUORUM_START;
        event.coming = story->coming;
        event.usable = run->round.tally.voted[QUORUM_PENDING] & ~story->coming;
        break;
    case 'X':
        event.type = QUORUM_CANCEL;
        break;
    case 'u':
        event.type = QUORUM_USABLE;
        break;
    case 'O':
        event.type = QUORUM_OVERDUE;
        break;
    default:
        event.vote = vote[strchr(votes, *text) - votes];
        event.left_nothing = *text == 'h';
        event.permanent = *text == 'P';
        event.clock = *text == 'C';
    }
    return event;
}

/* Steps the round, and checks its actions. */
static void step_run(struct run *run, const char *text)
{
    const char mark = text[strlen(text) - 1];
    const struct quorum_event event = event_of(run, text);
    struct quorum_actions actions = quorum_round_step(&run->round, &event);
    const char *name = run->story->name;
    ck_assert_msg(actions.decided == (mark == '|'), "%s: %s", name, text);
    ck_assert_msg(actions.confirmed == (mark == '+'), "%s: %s", name, text);
    ck_assert_msg(quorum_round_is_settling(&run->round) == (mark == '~'), "%s: %s", name, text);
    ck_assert_msg(actions.undo == (actions.decided ? run->story->undo : 0), "%s: undo %x", name, actions.undo);
    ck_assert_msg(!(run->sent & actions.send), "%s: sent twice: %x", name, actions.send);
    if (actions.send && !run->sent)
        run->sent_at = run->now;
    if (actions.decided)
        run->decided_at = run->now;
    run->sent |= actions.send;
    run->confirmed |= actions.confirmed;
    run->now += MS;
}

TEST_CASE(round, NULL, NULL);

TEST_ROWS(round, round_follows_story, ROWS(stories))
{
    const struct story *story = &stories[_i];
    struct quorum_terms terms = terms_for(story->kind, story->nodes);
    struct run run = {.story = story, .now = begin, .sent_at = QUORUM_NEVER};
    char word[WORD_SIZE];
    terms.all_answers = story->all_answers;
    quorum_round_init(&run.round, &terms);
    for (const char *events = story->events; next_word(&events, word);)
        step_run(&run, word);
    const struct quorum_round *round = &run.round;
    bool is_valid =
        story->kind != QUORUM_RELEASE && story->kind != QUORUM_LOOK && (story->verdict == QUORUM_WON || run.confirmed);
    ck_assert_msg((int)round->verdict == (int)story->verdict, "%s: verdict %d", story->name, (int)round->verdict);
    ck_assert_msg(run.sent == (quorum_all(story->nodes) & ~story->unasked), "%s: %x", story->name, run.sent);
    ck_assert_uint_eq(round->sent, run.sent_at);
    ck_assert_uint_eq(round->decided_at, run.decided_at);
    ck_assert_uint_eq(round->validity_end, is_valid ? run.sent_at + validity : 0);
    ck_assert_uint_eq(round->clock, story->clock);
    if (story->timed_out)
        ck_assert_uint_eq(round->tally.voted[QUORUM_TIMED_OUT], story->timed_out);
}

/* ------------------------------------------------------------------------------------------------------------- time */

static struct quorum_actions vote(struct quorum_round *round, unsigned node, enum quorum_vote vote, quorum_time now,
                                  quorum_time stopped)
{
    const struct quorum_event event = {
        .type = QUORUM_VOTED, .now = now, .node = node, .vote = vote, .stopped = stopped};
    return quorum_round_step(round, &event);
}

static struct quorum_round begun(const struct quorum_terms *terms)
{
    const struct quorum_event event = {.type = QUORUM_START, .now = begin, .usable = quorum_all(terms->nodes)};
    struct quorum_round round;
    quorum_round_init(&round, terms);
    quorum_round_step(&round, &event);
    return round;
}

/* One node grants at this time; when the client learned that its clock had stopped; and the end of validity, 0 if the
 * grant was too late. */
static const struct {
    enum quorum_kind kind;
    quorum_duration ttl, minimum_validity, granted;
    quorum_time stopped;
    quorum_duration end;
    enum quorum_verdict verdict;
} moments[] = {
    {QUORUM_ACQUIRE, QUORUM_SECOND, 700 * MS, 288 * MS, 0, 988 * MS, QUORUM_WON},
    {QUORUM_ACQUIRE, QUORUM_SECOND, 700 * MS, 288 * MS + 1, 0, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_ADOPT, QUORUM_SECOND, 1, 988 * MS - 1, 0, 988 * MS, QUORUM_WON},
    {QUORUM_ADOPT, QUORUM_SECOND, 1, 988 * MS, 0, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 500 * MS - 1, 0, 988 * MS, QUORUM_WON},
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 500 * MS, 0, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_EXTEND, 100 * MS, 1, MS, 0, 500 * MS, QUORUM_WON}, /* an extension never shortens */
    /* The nodes may have let the lock expire while our clock stopped. A round that began afterwards is not affected. */
    {QUORUM_ACQUIRE, QUORUM_SECOND, 1, 2 * MS, begin - 1, 988 * MS, QUORUM_WON},
    {QUORUM_ACQUIRE, QUORUM_SECOND, 1, 2 * MS, begin, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 2 * MS, begin - 1, 988 * MS, QUORUM_WON},
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 2 * MS, begin, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_ADOPT, QUORUM_SECOND, 1, 2 * MS, begin - 1, 988 * MS, QUORUM_WON},
    {QUORUM_ADOPT, QUORUM_SECOND, 1, 2 * MS, begin, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_RELEASE, QUORUM_SECOND, 1, 2 * MS, begin, 0, QUORUM_WON},
};

TEST_ROWS(round, grant_counts_until_its_last_moment, ROWS(moments))
{
    struct quorum_terms terms = terms_for(moments[_i].kind, 1);
    terms.ttl = moments[_i].ttl;
    terms.minimum_validity = moments[_i].minimum_validity;
    struct quorum_round round = begun(&terms);
    struct quorum_actions actions = vote(&round, 0, QUORUM_GRANTED, begin + moments[_i].granted, moments[_i].stopped);
    bool undoes = terms.kind == QUORUM_ACQUIRE && moments[_i].verdict != QUORUM_WON;
    ck_assert(actions.decided);
    ck_assert_uint_eq(actions.undo, undoes);
    ck_assert_int_eq(round.verdict, moments[_i].verdict);
    ck_assert_uint_eq(round.validity_end, moments[_i].end ? begin + moments[_i].end : 0);
}

TEST(round, late_confirmation_counts_while_its_validity_is_ahead)
{
    static const struct {
        quorum_duration granted;
        quorum_time stopped;
        bool confirmed;
    } rows[] = {{988 * MS - 1, 0, true}, {988 * MS, 0, false}, {60 * MS, begin - 1, true}, {60 * MS, begin, false}};
    for (int i = 0; i < ROWS(rows); i++) {
        struct quorum_terms terms = terms_for(QUORUM_EXTEND, 1);
        struct quorum_round round = begun(&terms);
        vote(&round, 0, QUORUM_TIMED_OUT, begin + 50 * MS, 0);
        ck_assert_int_eq(vote(&round, 0, QUORUM_GRANTED, begin + rows[i].granted, rows[i].stopped).confirmed,
                         rows[i].confirmed);
    }
}

/* ------------------------------------------------------------------------------------------------------- hand-overs */

static struct quorum_actions hand_over(struct quorum_round *round, unsigned node, quorum_time since,
                                       quorum_time stopped)
{
    const struct quorum_event event = {
        .type = QUORUM_HANDED, .now = begin + 300 * MS, .node = node, .since = since, .stopped = stopped};
    return quorum_round_step(round, &event);
}

/* Since when nodes 4, 1 and 2 have handed the lock over. */
TEST(round, handed_over_lock_is_valid_from_the_earliest_grant)
{
    static const struct {
        quorum_time since[3], stopped;
        enum quorum_verdict verdict;
    } rows[] = {{{begin + 100 * MS, begin, begin + 200 * MS}, begin - 1, QUORUM_WON},
                {{begin, begin - QUORUM_SECOND, begin}, begin - 2 * QUORUM_SECOND, QUORUM_LOST_TOO_SLOW},
                {{begin, begin, begin}, begin + MS, QUORUM_LOST_TOO_SLOW}};
    static const unsigned nodes[] = {4, 1, 2};
    for (int i = 0; i < ROWS(rows); i++) {
        struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 5);
        struct quorum_round round;
        quorum_round_init(&round, &terms);
        bool won = rows[i].verdict == QUORUM_WON;
        for (unsigned j = 0; j < 3; j++) {
            struct quorum_actions actions = hand_over(&round, nodes[j], rows[i].since[j], rows[i].stopped);
            ck_assert_int_eq(actions.decided, j == 2);
            ck_assert_uint_eq(actions.undo, j == 2 && !won ? 0x16 : 0);
        }
        ck_assert_int_eq(round.verdict, rows[i].verdict);
        struct quorum_actions late = hand_over(&round, 3, begin - 100 * MS, rows[i].stopped);
        ck_assert(!late.decided && !late.undo);
        ck_assert_uint_eq(round.validity_end, won ? begin + validity : 0);
    }
}

TEST(round, node_hands_over_once)
{
    struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 5);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    for (unsigned i = 0; i < 4; i++)
        ck_assert(!hand_over(&round, i % 2, begin, 0).decided);
}

TEST_PROGRAM("quorum/round")
