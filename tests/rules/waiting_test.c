/* The timing of a waiter: when it looks, when it tries, when it leaves the queue, and that it does no more than
 * necessary. */
#include "quorum/waiting.h"

#include <ctype.h>
#include <string.h>

#include "rules/story.h"
#include "support/test.h"

#define MS QUORUM_MILLISECOND

static const quorum_time begin = 1000 * QUORUM_SECOND;

/* It looks once in 1000 ms, 60 ms after a message that others do not confirm, and 20 ms after a subscription. A hand-over
 * by too few is given back after 50 ms. */
static struct quorum_waiting waiting_with(unsigned nodes)
{
    static struct quorum_polling polling;
    polling.spent_until = 0;
    const struct quorum_waiting_terms terms = {.nodes = nodes,
                                               .polling = &polling,
                                               .refresh = QUORUM_SECOND,
                                               .margin = 20 * MS,
                                               .watch = 20 * MS,
                                               .patience = 50 * MS,
                                               .last_attempt = QUORUM_NEVER};
    struct quorum_waiting waiting;
    quorum_waiting_init(&waiting, &terms);
    return waiting;
}

/*
 * Stories: words of a letter, the nodes that it is about, and details. Events:
 *   l  the nodes' messages reach it from now on        d  they do not any more
 *   r  the nodes have replied: the key there does not expire; .300: it does in 300 ms; .0: there is none;
 *      /1: a waiter is ahead; #7: foreign holder 7 has it; ~7: a holder whose token has the form of ours
 *   n  the nodes notify it                             h  they have handed the lock over; p: by a poll
 *   L  its look is over    t  an attempt starts that it has not requested    w  it is woken
 *   T  its attempt failed, another client was in the way, and if it rests then for 70 ms; m: it was misplaced;
 *      :300: nobody was in the way, and it is to rest until 300 ms
 * After an event: ? it looks, ! it tries, - it leaves the queues, < it gives the hand-over back, and s: subscribes
 * anew somewhere. Otherwise it does nothing.
 *   @500  500 ms since the begin       =500  it is to be woken then, =~ never
 *   W500  it is to be woken then, has nothing to do a nanosecond earlier, and is woken
 *   A500  its last attempt is then     D500  its deadline is then
 *   S500  its client's waiters have spent their allowance until then
 *   Y     a majority can notify it     N     it cannot
 *   C     it sees the holder change    c     it does not
 */
/* How a story begins: LOOKING: subscribed on all nodes, the first look is under way. QUEUED: it is over, one waiter is
 * ahead on each node. */
enum start { NEW, LOOKING, QUEUED };

#define LOST_AT_ONCE "n01! r012 T "

static const struct story {
    const char *name;
    unsigned nodes;
    enum start start;
    const char *events;
} stories[] = {
    {"without a majority that listens it does not look", 5, NEW, "l04 =~ @10000 w N"},
    {"only nodes that have it and reach it can notify it", 5, LOOKING, "r012 L Y d4 Y d0? N"},
    /* While its subscriptions were down, the nodes may have dropped its entry. */
    {"it looks when its subscriptions are up again", 3, QUEUED, "d01 l1?"},
    /* A node drops the entry of a dead waiter only if the entry says that its client was subscribed. */
    {"subscription after a look is reported by one more", 3, LOOKING, "d2 @1 r012/1 L l2 W21? r012/1 L =1021"},
    {"subscription before the replies to a look is reported by one more", 3, LOOKING,
     "d2 l2 @1 r012/1 L W21? r012/1 L =1021"},
    {"subscription shortly before the next look is reported by that one", 3, LOOKING, "d2 @1 r012/1 L @990 l2 W1001?"},
    {"it looks once a second", 5, LOOKING,
     "r01234/1.9000000 L W1000? =~ @9000 w @9003 r01234/1.9000000 L W10003? @10006 r01234/1 L =11006"},
    {"look that nobody answers is repeated after a second", 3, QUEUED, "W1000? L N =2000"},

    {"with too few nodes it leaves the queues once, and enters them again", 5, LOOKING, "r01 L- @1 w W1000?"},
    {"with a majority it stays", 5, LOOKING, "r012 L =1000"},
    {"failed attempt leaves the queues of a minority", 5, NEW, "t r01 T-"},
    {"failed attempt stays in the queues of a majority", 5, NEW, "t r012 T"},
    /* A node that is not usable gets neither looks nor attempts, and keeps the entry that it has. */
    {"nodes that an earlier look reached are left too", 5, QUEUED, "W1000? r4 L-"},

    {"it tries when a majority notifies it", 5, QUEUED, "@1 n4 @2 n4 @3 n0 @4 n2! @5 n1 =~ @10000 w"},
    {"no look begins while it tries, one follows at once", 3, LOOKING, "r012/1.5 L n01! d2 l2 @10 w T?"},
    {"lost attempt reports what is free, earlier messages do not", 3, QUEUED, "n01! r012.50 T n0 n2!"},
    {"lost attempt without replies leaves nothing free", 3, QUEUED, "n01! T? r2 L- n1"},
    /* Messages and replies come over two connections: a message may overtake a reply that was sent before it. */
    {"replies that messages have overtaken are tried once", 5, LOOKING,
     "r01234/1.5000 L n012! n012 r01234.1000 T! r01234.1000 T"},
    {"replies that too few messages have overtaken are not", 5, LOOKING, "r01234/1.5000 L n012! n01 r01234.1000 T"},
    {"reply takes back what the node said before", 3, QUEUED, "n0 @1000 w? r012 L n1 n2!"},
    {"look that ends during an attempt does not leave the queues", 3, LOOKING, "r0/1 t r1/1 L r0/1 T Y"},
    /* A node replied to the look before it notified the waiter, but the reply is read later. */
    {"older reply does not take back a notification", 3, QUEUED, "W1000? n01 r012 L!"},

    /* An attempt enters the queue as a look does. A look follows unless the subscriptions were up when the attempt was
     * sent, and a majority has its entry, at the same place. */
    {"failed attempt needs no look", 3, LOOKING, "L t r012 T Y =1000"},
    {"subscribed since the attempt was sent: look", 3, NEW, "t l012 r012 T?"},
    {"subscribed again since the attempt was sent: look", 3, LOOKING, "L t d12 l12 r012 T?"},
    {"failed attempt entered too few queues: look", 3, LOOKING, "L t r0 T?"},
    {"and the first attempt behind a foreign holder is as early", 5, LOOKING, "L t r0#7 T? r01234#7 L =20"},
    {"failed attempt entered at another place: look", 3, LOOKING, "L t r012 Tm?"},

    /* The nodes report that the lock is free, but too few of them grant it: the waiter must rest. Then another client
     * holds it, and there is no rest. */
    {"rest after a look that shows it free", 5, QUEUED, "t T:300? r01234.0 L W250? r01234.0 L W300! T? r01234.0 L!"},
    {"rest after messages", 5, QUEUED, "t T:300? r01234 L n01234 W60? r01234.0 L W300! T? r01234.0 L!"},
    /* Two waiters with some of the nodes each notify each other whenever one of them gives up. */
    {"rest after nine losses in quick succession, until the next hand-over", 3, QUEUED,
     LOST_AT_ONCE "@1 " LOST_AT_ONCE "@2 " LOST_AT_ONCE "@3 " LOST_AT_ONCE "@4 " LOST_AT_ONCE "@5 " LOST_AT_ONCE
                  "@6 " LOST_AT_ONCE "@7 " LOST_AT_ONCE "@106 " LOST_AT_ONCE
                  "@107 n01 W167? r012.0 L W176! r012 T @276 " LOST_AT_ONCE "@277 " LOST_AT_ONCE "@278 n01!"},

    /* Whenever a waiter enters a queue behind others, the node notifies the first one again that the lock is free. */
    {"known message is no reason to look again", 5, QUEUED,
     "n0 W60? r0.0 r1234 L n0 @61 n0 @110 n0 @159 n0 =1060 @160 n1/1 =220"},

    {"hand-over by too few is given back after the patience since the first", 5, QUEUED,
     "h2 @25 h3 W50<! @100 T? @150 L =1150"},
    {"hand-over without a message makes it subscribe anew", 5, QUEUED, "h2p @25 h34 W50<s! @100 T? @150 L =1150"},
    {"not if the message comes behind the poll's reply", 5, QUEUED, "h23p @25 h32 W50<!"},
    {"hand-over during an attempt is given back after it and its look", 5, QUEUED, "t h2 @50 w @100 T? L<!"},

    {"waiter that polls sees the holder change", 3, NEW, "c t r012~7 T c t r012~7 T c t r01~7 r2~8 T C t r012 T c"},

    {"foreign holder is tried at growing intervals", 5, LOOKING,
     "r01234#7 L W20! r01234#7 T W60! r01234#7 T W140! r01234#7 T W300! r01234#7 T W620! r01234#7 T "
     "W1260! r01234#7 T W2260! r01234#7 T W3260!"},
    {"lost attempt behind a foreign holder needs no rest", 5, LOOKING, "r01234#7 L W20! r01234#7 T @21 n012!"},
    {"next foreign holder is tried soon", 5, LOOKING, "r012#7 r34 L W20! r012#7 r34 T W60! r012#8 r34 T =80"},
    /* The holder changes every 80 ms. Attempts are frequent from 60 to 120 ms after a change. */
    {"foreign holder is tried often when it is likely to change", 5, LOOKING,
     "r01234#7 L W20! r01234#7 T W60! r01234#7 T @80 t r01234#8 T W100! r01234#8 T W140! r01234#8 T W145! r01234#8 T "
     "W150! r01234#8 T W155! r01234#8 T W160! r01234#9 T =180"},
    {"foreign holder that stays longer than the one before is tried at growing intervals again", 5, LOOKING,
     "r01234#7 L W20! r01234#8 T W35! r01234#8 T W40! r01234#8 T W45! r01234#8 T W50! r01234#8 T W90! r01234#8 T =170"},
    /* Another client of ours would have notified the first waiter. */
    {"holder of our form that follows another one without a message is foreign", 5, LOOKING,
     "r01234~7 L W1000? r01234~8 L W1020! r01234~8 T W1060! r01234~9 T =1080"},
    {"holder of our form on a minority is not", 5, LOOKING, "r01234~7 L W1000? r01~8 r234~7 L =2000"},
    {"nor is one that follows none", 3, LOOKING, "r012 L W1000? r012~8 L =2000"},
    {"nor is one that follows a message", 3, LOOKING, "r012~7 L n01! r012~8 T =1000"},
    {"nor is one that follows a hand-over", 5, LOOKING, "r01234~7 L h01234 W50<! r01234~8 T =1050"},
    {"nor is one behind which others are first", 3, LOOKING, "r012~7/1 L W1000? r012~8/1 L =2000"},
    {"nor is one behind which another waiter is first by now", 3, LOOKING, "r012~7 L W1000? r012~8/1 L =2000"},
    {"nor is one on nodes whose messages do not arrive", 5, LOOKING, "r01234~7 L d01 W1000? r012~8 r34~7 L =2000"},
    {"message takes back that a holder was foreign", 3, LOOKING,
     "r012~7 L W1000? r012~8 L W1020! n01 r012~9 T! r012~9 T =2020"},
    {"next foreign holder on a minority is no reason to hurry", 5, LOOKING, "r01234#7 L W20! r12#8 r034#7 T =60"},
    {"node that its foreign holder has left has no next one", 5, LOOKING, "r01234#7 L W20! r01 r2#8 r34#7 T =60"},
    {"many attempts behind foreign holders need no rest", 5, LOOKING,
     "r01234#1 L W20! r01234#2 T @24 t r01234#3 T @28 t r01234#4 T W33! r01234#5 T W38! r01234#6 T W43! r01234#7 T "
     "W48! r01234#8 T W53! r01234#9 T W58! r01234#1 T n012!"},
    /* Each poll spends 8 ms, and a second may be spent in advance. */
    {"waiter whose client has spent its allowance polls foreign holders later", 5, LOOKING,
     "S1016 r01234#7 L W24! r01234#8 T W42! S1100 r01234#9 T =108"},
    {"but still once a second", 5, LOOKING, "S9000 r01234#7 L W1000!"},
    {"foreign holder of a minority is looked at once a second", 5, LOOKING, "r01#7 r234 L W1000?"},
    {"nodes that have not replied do not hide a foreign holder", 5, LOOKING, "r0#7 r12 L =20"},
    {"holder of ours after a foreign one is looked at once a second", 5, LOOKING, "r01234#7 L W20! r01234 T W1020?"},

    {"it tries once more before its deadline", 3, QUEUED, "A500 D800 W500! r012/1 T =1500"},
    {"it does so while it rests", 3, QUEUED, "A500 t T:10000? r012/1 L W500! r012/1 T @501 w"},
    {"it does so without a subscription", 3, QUEUED, "A500 d012 W500! r012/1 T @501 w"},
    /* Otherwise it would miss a release after the last attempt. */
    {"foreign holder is tried until the deadline", 5, LOOKING,
     "A604 D860 r01234#7 L W20! r01234#7 T W60! r01234#7 T W140! r01234#7 T W300! r01234#7 T W604! r01234#7 T "
     "W732! r01234#7 T W796! r01234#7 T W828! r01234#7 T W844! r01234#7 T W852! r01234#7 T W856! r01234#7 T =1856"},
    {"last attempt waits for the end of a look", 3, LOOKING, "A1 @1 w @2 r012/1 L!"},

    {"expired lock is looked at, not assumed", 3, LOOKING,
     "r01/1.300 r2/1 L W300? @301 r012.100 L W401? @402 r12.0 L!"},
    {"expiry on a majority counts", 5, LOOKING, "r0.30 r1.40 r2.50 r3.20 r4.10 L =30 n0 =20 @10 w W20?"},
    {"expiry is remembered when nobody answers a look", 3, LOOKING, "r012/1.1500 L W1000? L =1500"},
    {"node that never replied has no expiry", 3, NEW, "t r1.300 r2 T =~"},
    {"message that it is free ends the expiry", 3, LOOKING, "r012/1.300 L n01! T? L =1000"},
    {"expiry on a node that is gone is looked at once", 3, LOOKING, "r012/1.300 L W300? r1.0 r2.10000 L =1300"},
    {"expiry on nodes that are gone is looked at once", 5, LOOKING, "r01234/1.300 L W300? r1.10000 L- =1300"},

    {"it does so no more when the lock has been taken", 3, LOOKING, "r012.0/1 L W250? r012/1 L =1250"},
    {"nor after an attempt", 3, LOOKING, "r012.0/1 L @100 t r012 T =1100"},
    /* Strict order behind a stopped waiter. From the release on, the nodes reserve the lock for it for a second. The
     * second waiter does not know since when the lock has been free. */
    {"second that sees it free looks again soon", 3, LOOKING,
     "r012.0/1 L W250? r012.0/1 L W500? r012.0/1 L W750? r01.0 L!"},
    {"look in between does not put the next one off", 3, LOOKING, "r012.0/1 L @100 d2 l2 W120? r012.0/1 L =250"},
    /* When another client holds a majority, the key is missing on a minority. */
    {"free on a minority is no reason to look again soon", 5, LOOKING, "r024/1 r13.0/1 L =1000"},
};

struct run {
    const struct story *story;
    struct quorum_waiting waiting;
    quorum_time now;
    quorum_nodes listed, enqueued; /* who may have its entry, and who has it as of the last request */
};

static void check(const struct run *run, bool holds, const char *word)
{
    ck_assert_msg(holds, "%s: %s at %g ms", run->story->name, word, (double)(run->now - begin) / (double)MS);
}

/* Without its node. */
static struct quorum_waiting_event event_of(const char *word, quorum_time now)
{
    static const char letters[] = "ldrLnhTw"; /* in the order of the types */
    struct quorum_waiting_event event = {.type = (enum quorum_waiting_event_type)(strchr(letters, *word) - letters),
                                         .now = now,
                                         .remaining = QUORUM_NEVER,
                                         .in_the_way = true,
                                         .rest_until = now + 70 * MS};
    for (const char *at = strpbrk(word, "./#~:mp"); at; at = strpbrk(at + 1, "./#~:mp")) {
        uint64_t number = strtoull(at + 1, NULL, 10);
        if (*at == '.')
            event.remaining = number * MS;
        else if (*at == '/')
            event.behind = number > 0;
        else if (*at == '#' || *at == '~')
            event.holder = number, event.is_ours = *at == '~';
        else if (*at == 'm')
            event.misplaced = true;
        else if (*at == 'p')
            event.polled = true;
        else
            event.in_the_way = false, event.rest_until = begin + number * MS;
    }
    return event;
}

static void happen(struct run *run, const struct quorum_waiting_event *event, const char *word, const char *actions)
{
    struct quorum_waiting_actions done = quorum_waiting_step(&run->waiting, event);
    char shown[8];
    snprintf(shown, sizeof shown, "%s%s%s%s%s", done.look ? "?" : "", done.withdraw ? "<" : "", done.silent ? "s" : "",
             done.attempt ? "!" : "", done.dequeue ? "-" : "");
    check(run, strcmp(shown, actions) == 0, word);
    if (event->type == QUORUM_WAITING_ENQUEUED) {
        run->listed |= quorum_node(event->node);
        run->enqueued |= quorum_node(event->node);
    }
    if (*shown)
        run->enqueued = 0;
    if (done.dequeue)
        run->listed = 0;
    check(run, run->waiting.listed == run->listed && run->waiting.enqueued == run->enqueued, word);
}

/* The event for each of its nodes. Before the last one it does nothing. */
static void happen_on_nodes(struct run *run, const char *word, const char *actions)
{
    struct quorum_waiting_event event = event_of(word, run->now);
    bool last = false;
    for (const char *node = word + 1; !last; node++) {
        last = !isdigit((unsigned char)node[0]) || !isdigit((unsigned char)node[1]);
        event.node = isdigit((unsigned char)node[0]) ? (unsigned)(node[0] - '0') : 0;
        happen(run, &event, word, last ? actions : "");
    }
}

static void wake(struct run *run, quorum_time now, const char *word, const char *actions)
{
    const struct quorum_waiting_event event = {.type = QUORUM_WAITING_WOKEN, .now = run->now = now};
    happen(run, &event, word, actions);
}

static void play(struct run *run, const char *word)
{
    struct quorum_waiting *waiting = &run->waiting;
    const char *actions = word + strcspn(word, "?<!-");
    quorum_time moment = word[1] == '~' ? QUORUM_NEVER : begin + strtoull(word + 1, NULL, 10) * MS;
    if (*word == '=' || *word == 'W')
        check(run, quorum_waiting_deadline(waiting) == moment, word);
    switch (*word) {
    case '@':
        run->now = moment;
        break;
    case '=':
        break;
    case 'W':
        wake(run, moment - 1, word, "");
        wake(run, moment, word, actions);
        break;
    case 'A':
        waiting->terms.last_attempt = moment;
        break;
    case 'D':
        waiting->terms.deadline = moment;
        break;
    case 'S':
        waiting->terms.polling->spent_until = moment;
        break;
    case 'Y':
    case 'N':
        check(run, quorum_waiting_can_be_notified(waiting) == (*word == 'Y'), word);
        break;
    case 'C':
    case 'c':
        check(run, quorum_waiting_sees_changes(waiting) == (*word == 'C'), word);
        break;
    case 't':
        quorum_waiting_try(waiting);
        run->enqueued = 0;
        break;
    default:
        happen_on_nodes(run, word, actions);
    }
}

/* It looks as soon as a majority would notify it. */
static struct quorum_waiting looking_with(unsigned nodes)
{
    struct quorum_waiting waiting = waiting_with(nodes);
    for (unsigned i = 0; i < nodes; i++) {
        const struct quorum_waiting_event event = {.type = QUORUM_WAITING_LISTENING, .now = begin, .node = i};
        struct quorum_waiting_actions actions = quorum_waiting_step(&waiting, &event);
        ck_assert_int_eq(actions.look, i + 1 == quorum_majority(nodes));
        ck_assert(!actions.attempt && !actions.dequeue);
    }
    waiting.heard = waiting.listening; /* as if all subscriptions had been up when the look was sent */
    return waiting;
}

TEST_CASE(waiting, NULL, NULL);

TEST_ROWS(waiting, waiter_looks_when_a_majority_would_notify_it, QUORUM_NODES_MAX)
{
    looking_with((unsigned)_i + 1);
}

TEST_ROWS(waiting, waiter_follows_story, ROWS(stories))
{
    const struct story *story = &stories[_i];
    struct run run = {.story = story, .now = begin};
    char word[WORD_SIZE];
    run.waiting = story->start == NEW ? waiting_with(story->nodes) : looking_with(story->nodes);
    if (story->start == QUEUED) {
        play(&run, story->nodes == 3 ? "r012/1" : "r01234/1");
        play(&run, "L");
    }
    for (const char *events = story->events; next_word(&events, word);)
        play(&run, word);
}

TEST(waiting, last_attempt_leaves_time_for_its_replies)
{
    static const struct {
        quorum_time deadline, expected;
    } rows[] = {{begin + 900 * MS, begin + 850 * MS},
                {begin + 60 * MS, begin + 30 * MS},
                {begin, begin},
                {begin - MS, begin - MS},
                {QUORUM_NEVER, QUORUM_NEVER}};
    for (int i = 0; i < ROWS(rows); i++)
        ck_assert_uint_eq(quorum_waiting_last_attempt(begin, rows[i].deadline, 50 * MS), rows[i].expected);
}

/* Nodes that are slower than their timeout are not waited for; nor are the usual ones for as long as a slow one. */
TEST(waiting, hand_over_by_a_few_is_kept_for_some_round_trips)
{
    static const struct {
        quorum_duration round_trip, expected;
    } rows[] = {{MS, 24 * MS}, {7 * MS, 48 * MS}, {8 * MS, 50 * MS}, {QUORUM_SECOND, 50 * MS}};
    for (int i = 0; i < ROWS(rows); i++)
        ck_assert_uint_eq(quorum_waiting_patience(rows[i].round_trip, 20 * MS, 50 * MS), rows[i].expected);
}

TEST(waiting, least_is_not_below_the_values_of_a_majority)
{
    static const struct {
        uint64_t values[5];
        unsigned nodes;
        uint64_t least;
    } rows[] = {{{7}, 1, 7},
                {{0, 9}, 2, 9},
                {{9, 0, 0}, 3, 0},
                {{9, 0, 8}, 3, 8},
                {{0, 9, 0, 8}, 4, 8},
                {{0, 9, 0, 8, 0}, 5, 0},
                {{5, 5, 5, UINT64_MAX, 6}, 5, 5},
                {{UINT64_MAX, UINT64_MAX, 1}, 3, UINT64_MAX}};
    for (int i = 0; i < ROWS(rows); i++)
        ck_assert_uint_eq(quorum_waiting_least(rows[i].values, rows[i].nodes), rows[i].least);
}

/* Of random numbers that are evenly spread, as many say so as one in 64 round trips needs. */
TEST(waiting, one_release_in_64_round_trips_leaves_the_lock_free)
{
    static const struct {
        quorum_duration held, round_trip;
        unsigned expected; /* of 6400 */
    } rows[] = {{0, MS, 100},
                {MS, MS, 200},
                {9 * MS, MS, 1000},
                {63 * MS, MS, 6400},
                {9 * MS, MS / 1000, 6400},
                {0, QUORUM_SECOND, 100},
                {QUORUM_NEVER, MS, 6400}};
    for (int i = 0; i < ROWS(rows); i++) {
        unsigned leaves = 0;
        for (uint64_t n = 64000; n < 70400; n++)
            leaves += quorum_waiting_leaves_free(rows[i].held, rows[i].round_trip, n * (rows[i].round_trip / 100));
        ck_assert_uint_eq(leaves, rows[i].expected);
    }
}

TEST_PROGRAM("quorum/waiting")
