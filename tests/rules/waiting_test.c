/* The timing of a waiter: when it looks, when it tries, when it leaves the queue, and that it does no more than
 * necessary. */
#include "quorum/waiting.h"

#include "rules/random.h"
#include "support/suite.h"

#define MS QUORUM_MILLISECOND

static const quorum_time begin = 1000 * QUORUM_SECOND;

#define REFRESH  QUORUM_SECOND
#define STAND_IN (20 * MS)
#define SOON     (3 * STAND_IN)
#define WATCH    (20 * MS)
#define PATIENCE (50 * MS)
#define FAIR     1
#define PLAIN    2

static struct quorum_waiting waiting_with(unsigned nodes, unsigned width)
{
    const struct quorum_waiting_terms terms = {.nodes = nodes,
                                               .width = width,
                                               .refresh = REFRESH,
                                               .stand_in = STAND_IN,
                                               .watch = WATCH,
                                               .patience = PATIENCE,
                                               .last_attempt = QUORUM_NEVER};
    struct quorum_waiting waiting;
    quorum_waiting_init(&waiting, &terms);
    return waiting;
}

static struct quorum_waiting_actions step(struct quorum_waiting *waiting, enum quorum_waiting_event_type type,
                                          unsigned node, quorum_time now)
{
    const struct quorum_waiting_event event = {.type = type, .now = now, .node = node};
    return quorum_waiting_step(waiting, &event);
}

static struct quorum_waiting_actions wake(struct quorum_waiting *waiting, quorum_time now)
{
    return step(waiting, QUORUM_WAITING_WOKEN, 0, now);
}

static struct quorum_waiting_actions looked(struct quorum_waiting *waiting, quorum_time now)
{
    return step(waiting, QUORUM_WAITING_LOOKED, 0, now);
}

static struct quorum_waiting_actions tried(struct quorum_waiting *waiting, quorum_time now)
{
    return step(waiting, QUORUM_WAITING_TRIED, 0, now);
}

static struct quorum_waiting_actions called(struct quorum_waiting *waiting, unsigned node, unsigned ahead,
                                            quorum_time now)
{
    const struct quorum_waiting_event event = {
        .type = QUORUM_WAITING_NOTIFIED, .now = now, .node = node, .ahead = ahead};
    return quorum_waiting_step(waiting, &event);
}

static struct quorum_waiting_actions answered(struct quorum_waiting *waiting, unsigned node, quorum_duration remaining,
                                              unsigned ahead, quorum_time now)
{
    const struct quorum_waiting_event event = {
        .type = QUORUM_WAITING_ENQUEUED, .now = now, .node = node, .remaining = remaining, .ahead = ahead};
    return quorum_waiting_step(waiting, &event);
}

static struct quorum_waiting_actions held_by(struct quorum_waiting *waiting, unsigned node, uint64_t holder,
                                             quorum_time now)
{
    const struct quorum_waiting_event event = {
        .type = QUORUM_WAITING_ENQUEUED, .now = now, .node = node, .remaining = QUORUM_NEVER, .holder = holder};
    return quorum_waiting_step(waiting, &event);
}

static bool is_quiet(struct quorum_waiting_actions actions)
{
    return !actions.look && !actions.attempt && !actions.dequeue;
}

static bool is_look(struct quorum_waiting_actions actions)
{
    return actions.look && !actions.attempt && !actions.dequeue;
}

static bool is_attempt(struct quorum_waiting_actions actions)
{
    return actions.attempt && !actions.look && !actions.dequeue;
}

/* A waiter that is subscribed on all nodes and whose first look is in progress. */
static struct quorum_waiting looking_with(unsigned nodes, unsigned width)
{
    struct quorum_waiting waiting = waiting_with(nodes, width);
    for (unsigned i = 0; i < nodes; i++) {
        bool majority = i + 1 >= quorum_majority(nodes);
        struct quorum_waiting_actions actions = step(&waiting, QUORUM_WAITING_LISTENING, i, begin);
        ck_assert(i + 1 == quorum_majority(nodes) ? is_look(actions) : is_quiet(actions));
        ck_assert(majority == waiting.looking);
    }
    waiting.heard = waiting.listening; /* as if all subscriptions had been up when the look was sent */
    return waiting;
}

/* All nodes have replied: the key there expires after `remaining`, and one waiter is ahead of ours. */
static struct quorum_waiting queued(unsigned nodes, unsigned width, quorum_duration remaining)
{
    struct quorum_waiting waiting = looking_with(nodes, width);
    for (unsigned i = 0; i < nodes; i++)
        ck_assert(is_quiet(answered(&waiting, i, remaining, 1, begin)));
    ck_assert(is_quiet(looked(&waiting, begin)));
    ck_assert(quorum_waiting_can_be_notified(&waiting));
    return waiting;
}

/* ---------------------------------------------------------------------------------------------------------- looking */

START_TEST(it_looks_as_soon_as_a_majority_would_tell_it)
{
    looking_with((unsigned)_i, PLAIN);
}
END_TEST

START_TEST(without_a_majority_that_listens_it_does_not_look)
{
    struct quorum_waiting waiting = waiting_with(5, PLAIN);
    ck_assert(is_quiet(step(&waiting, QUORUM_WAITING_LISTENING, 0, begin)));
    ck_assert(is_quiet(step(&waiting, QUORUM_WAITING_LISTENING, 4, begin)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), QUORUM_NEVER);
    ck_assert(is_quiet(wake(&waiting, begin + 10 * REFRESH)));
    ck_assert(!quorum_waiting_can_be_notified(&waiting));
}
END_TEST

START_TEST(only_nodes_that_have_it_and_reach_it_can_call_it)
{
    struct quorum_waiting waiting = looking_with(5, PLAIN);
    for (unsigned i = 0; i < 3; i++)
        answered(&waiting, i, QUORUM_NEVER, 0, begin);
    looked(&waiting, begin);
    ck_assert(quorum_waiting_can_be_notified(&waiting));
    step(&waiting, QUORUM_WAITING_DEAF, 4, begin); /* node 4 did not have its entry */
    ck_assert(quorum_waiting_can_be_notified(&waiting));
    ck_assert(is_look(step(&waiting, QUORUM_WAITING_DEAF, 0, begin))); /* another may have been notified */
    ck_assert(!quorum_waiting_can_be_notified(&waiting));
}
END_TEST

/* While its subscriptions were down, the nodes may have dropped its entry. */
START_TEST(waiter_looks_when_its_subscriptions_are_up_again)
{
    struct quorum_waiting waiting = queued(3, FAIR, QUORUM_NEVER);
    ck_assert(is_quiet(step(&waiting, QUORUM_WAITING_DEAF, 0, begin)));
    ck_assert(is_quiet(step(&waiting, QUORUM_WAITING_DEAF, 1, begin)));
    ck_assert(is_look(step(&waiting, QUORUM_WAITING_LISTENING, 1, begin)));
}
END_TEST

/* A node drops the entry of a dead waiter only if the entry says that its client was subscribed. _i 0: the
 * subscription comes after the look; 1: before the replies to it. */
START_TEST(subscription_that_comes_after_a_look_is_reported_by_one_more)
{
    struct quorum_waiting waiting = looking_with(3, FAIR);
    quorum_time now = begin + MS;
    step(&waiting, QUORUM_WAITING_DEAF, 2, begin);
    if (_i == 1)
        step(&waiting, QUORUM_WAITING_LISTENING, 2, begin);
    for (unsigned i = 0; i < 3; i++)
        ck_assert(is_quiet(answered(&waiting, i, QUORUM_NEVER, 1, now)));
    ck_assert(is_quiet(looked(&waiting, now)));
    if (_i == 0)
        ck_assert(is_quiet(step(&waiting, QUORUM_WAITING_LISTENING, 2, now)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), now + STAND_IN);
    ck_assert(is_look(wake(&waiting, now + STAND_IN)));
    for (unsigned i = 0; i < 3; i++)
        answered(&waiting, i, QUORUM_NEVER, 1, now + STAND_IN);
    ck_assert(is_quiet(looked(&waiting, now + STAND_IN)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), now + STAND_IN + REFRESH);
}
END_TEST

START_TEST(it_looks_once_a_second)
{
    struct quorum_waiting waiting = queued(5, PLAIN, 3600 * QUORUM_SECOND);
    quorum_time now = begin;
    for (int looks = 0; looks < 10; looks++) {
        ck_assert_uint_eq(quorum_waiting_deadline(&waiting), now + REFRESH);
        ck_assert(is_quiet(wake(&waiting, now + REFRESH - 1)));
        now += REFRESH;
        ck_assert(is_look(wake(&waiting, now)));
        ck_assert_uint_eq(quorum_waiting_deadline(&waiting), QUORUM_NEVER); /* until the look ends */
        ck_assert(is_quiet(wake(&waiting, now + 10 * REFRESH)));
        now += 3 * MS;
        for (unsigned i = 0; i < 5; i++)
            ck_assert(is_quiet(answered(&waiting, i, 3600 * QUORUM_SECOND, 1, now)));
        ck_assert(is_quiet(looked(&waiting, now)));
    }
}
END_TEST

START_TEST(look_that_nobody_answers_is_repeated_after_a_second)
{
    struct quorum_waiting waiting = queued(3, PLAIN, QUORUM_NEVER);
    ck_assert(is_look(wake(&waiting, begin + REFRESH)));
    ck_assert(is_quiet(looked(&waiting, begin + REFRESH))); /* no node has its entry, so there is none to remove */
    ck_assert(!quorum_waiting_can_be_notified(&waiting));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + 2 * REFRESH);
}
END_TEST

/* ------------------------------------------------------------------------------------------------ leaving the queue */

START_TEST(with_too_few_nodes_it_signs_out)
{
    struct quorum_waiting waiting = looking_with(5, PLAIN);
    answered(&waiting, 0, QUORUM_NEVER, 0, begin);
    answered(&waiting, 1, QUORUM_NEVER, 0, begin);
    if (_i == 3)
        answered(&waiting, 2, QUORUM_NEVER, 0, begin);
    struct quorum_waiting_actions actions = looked(&waiting, begin);
    ck_assert(!actions.look && !actions.attempt);
    ck_assert_int_eq(actions.dequeue, _i == 2);
    ck_assert_uint_eq(waiting.enqueued, _i == 2 ? 0 : 7);
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + REFRESH); /* then it enters the queue again */
    ck_assert(is_quiet(wake(&waiting, begin + 1)));                        /* leaves only once */
}
END_TEST

/* A failed attempt that has entered the queues of a minority of the nodes leaves them: no look will follow. */
START_TEST(failed_attempt_leaves_the_queues_of_a_minority)
{
    for (unsigned entered = 2; entered <= 3; entered++) {
        struct quorum_waiting waiting = waiting_with(5, FAIR);
        waiting.trying = true;
        for (unsigned i = 0; i < entered; i++)
            ck_assert(is_quiet(answered(&waiting, i, QUORUM_NEVER, 0, begin)));
        struct quorum_waiting_actions actions = tried(&waiting, begin);
        ck_assert_int_eq(actions.dequeue, entered == 2);
        ck_assert(!actions.look && !actions.attempt);
        ck_assert_uint_eq(waiting.enqueued, entered == 2 ? 0 : 7);
    }
}
END_TEST

/* A node that is not usable gets neither looks nor attempts, and keeps the entry that it has. */
START_TEST(who_may_have_it_on_its_list_is_known_until_it_signs_out)
{
    struct quorum_waiting waiting = queued(5, PLAIN, QUORUM_NEVER);
    ck_assert(is_look(wake(&waiting, begin + REFRESH)));
    answered(&waiting, 4, QUORUM_NEVER, 0, begin + REFRESH);
    ck_assert_uint_eq(waiting.enqueued, 16);
    ck_assert_uint_eq(waiting.listed, 31);
    ck_assert(looked(&waiting, begin + REFRESH).dequeue);
    ck_assert_uint_eq(waiting.listed, 0);
}
END_TEST

/* ----------------------------------------------------------------------------------------------------------- trying */

START_TEST(it_tries_when_a_majority_calls_it)
{
    struct quorum_waiting waiting = queued(5, _i ? PLAIN : FAIR, QUORUM_NEVER);
    ck_assert(is_quiet(called(&waiting, 4, 0, begin + 1)));
    ck_assert(is_quiet(called(&waiting, 4, 0, begin + 2)));
    ck_assert(is_quiet(called(&waiting, 0, 0, begin + 3)));
    ck_assert(is_attempt(called(&waiting, 2, 0, begin + 4)));
    ck_assert(is_quiet(called(&waiting, 1, 0, begin + 5))); /* the attempt is already in progress */
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), QUORUM_NEVER);
    ck_assert(is_quiet(wake(&waiting, begin + 10 * REFRESH)));
}
END_TEST

START_TEST(look_does_not_begin_while_it_tries)
{
    struct quorum_waiting waiting = queued(3, PLAIN, 5 * MS);
    called(&waiting, 0, 0, begin);
    ck_assert(is_attempt(called(&waiting, 1, 0, begin)));
    ck_assert(is_quiet(step(&waiting, QUORUM_WAITING_DEAF, 2, begin)));
    ck_assert(is_quiet(step(&waiting, QUORUM_WAITING_LISTENING, 2, begin)));
    waiting.enqueued = 0; /* too few nodes would notify it */
    ck_assert(is_quiet(step(&waiting, QUORUM_WAITING_LISTENING, 2, begin)));
    ck_assert(is_quiet(wake(&waiting, begin + 10 * MS)));
    ck_assert(!waiting.looking);
    ck_assert(is_look(tried(&waiting, begin + 10 * MS))); /* the look follows at once */
}
END_TEST

START_TEST(lost_attempt_says_what_is_free)
{
    struct quorum_waiting waiting = queued(3, FAIR, QUORUM_NEVER);
    called(&waiting, 0, 0, begin);
    ck_assert(is_attempt(called(&waiting, 1, 0, begin)));
    answered(&waiting, 0, 50 * MS, 0, begin);
    answered(&waiting, 1, 50 * MS, 0, begin);
    answered(&waiting, 2, 50 * MS, 0, begin);
    ck_assert(is_quiet(tried(&waiting, begin)));
    ck_assert(is_quiet(called(&waiting, 0, 0, begin))); /* earlier messages do not count any more */
    ck_assert(is_attempt(called(&waiting, 2, 0, begin)));
}
END_TEST

/* Messages and replies come over two connections: a message may overtake a reply that was sent before it. */
START_TEST(answers_that_calls_have_overtaken_are_tried)
{
    for (unsigned calls = 0; calls <= 5; calls++) {
        struct quorum_waiting waiting = queued(5, PLAIN, 5 * QUORUM_SECOND);
        for (unsigned i = 0; i < 3; i++)
            called(&waiting, i, 0, begin);
        ck_assert(waiting.trying);
        for (unsigned i = 0; i < calls; i++)
            ck_assert(is_quiet(called(&waiting, i, 0, begin)));
        for (unsigned i = 0; i < 5; i++)
            ck_assert(is_quiet(answered(&waiting, i, QUORUM_SECOND, 0, begin)));
        struct quorum_waiting_actions actions = tried(&waiting, begin);
        ck_assert(calls >= 3 ? is_attempt(actions) : is_quiet(actions));
        for (unsigned i = 0; i < 5 && calls >= 3; i++)
            answered(&waiting, i, QUORUM_SECOND, 0, begin);
        if (calls >= 3)
            ck_assert(is_quiet(tried(&waiting, begin))); /* only once */
    }
}
END_TEST

START_TEST(place_is_the_least_that_a_majority_agrees_on)
{
    ck_assert_uint_eq(quorum_waiting_place((const uint64_t[]){7}, 1), 7);
    ck_assert_uint_eq(quorum_waiting_place((const uint64_t[]){0, 9}, 2), 9);
    ck_assert_uint_eq(quorum_waiting_place((const uint64_t[]){9, 0, 0}, 3), 0);
    ck_assert_uint_eq(quorum_waiting_place((const uint64_t[]){9, 0, 8}, 3), 8);
    ck_assert_uint_eq(quorum_waiting_place((const uint64_t[]){0, 9, 0, 8}, 4), 8);
    ck_assert_uint_eq(quorum_waiting_place((const uint64_t[]){0, 9, 0, 8, 0}, 5), 0);
    ck_assert_uint_eq(quorum_waiting_place((const uint64_t[]){5, 5, 5, UINT64_MAX, 6}, 5), 5);
    ck_assert_uint_eq(quorum_waiting_place((const uint64_t[]){UINT64_MAX, UINT64_MAX, 1}, 3), UINT64_MAX);
}
END_TEST

START_TEST(answer_takes_back_what_the_node_said_before)
{
    struct quorum_waiting waiting = queued(3, FAIR, QUORUM_NEVER);
    called(&waiting, 0, 0, begin);
    ck_assert(is_look(wake(&waiting, begin + REFRESH)));
    for (unsigned i = 0; i < 3; i++)
        answered(&waiting, i, QUORUM_NEVER, 0, begin + REFRESH);
    ck_assert(is_quiet(looked(&waiting, begin + REFRESH)));
    ck_assert(is_quiet(called(&waiting, 1, 0, begin + REFRESH)));
    ck_assert(is_attempt(called(&waiting, 2, 0, begin + REFRESH)));
}
END_TEST

START_TEST(free_for_others_is_not_free_for_us)
{
    struct quorum_waiting waiting = looking_with(3, _i ? PLAIN : FAIR);
    unsigned width = waiting.terms.width;
    for (unsigned i = 0; i < 3; i++)
        answered(&waiting, i, QUORUM_FREE, width, begin);
    ck_assert(is_quiet(looked(&waiting, begin)));
    for (unsigned i = 0; i < 3; i++)
        ck_assert(is_quiet(called(&waiting, i, width, begin)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + REFRESH);
    ck_assert(is_quiet(wake(&waiting, begin + STAND_IN)));
}
END_TEST

/* --------------------------------------------------------------------------------------------------------- stand-in */

START_TEST(second_stands_in_after_a_while)
{
    struct quorum_waiting waiting = queued(3, PLAIN, QUORUM_NEVER);
    ck_assert(is_quiet(called(&waiting, 0, 1, begin)));
    ck_assert(is_quiet(called(&waiting, 1, 1, begin + 1)));
    ck_assert(is_quiet(called(&waiting, 2, 1, begin + 2))); /* does not delay the stand-in */
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + 1 + STAND_IN);
    ck_assert(is_quiet(wake(&waiting, begin + STAND_IN)));
    ck_assert(is_attempt(wake(&waiting, begin + 1 + STAND_IN)));
}
END_TEST

START_TEST(first_here_and_second_there_stands_in)
{
    struct quorum_waiting waiting = queued(3, PLAIN, QUORUM_NEVER);
    called(&waiting, 0, 0, begin);
    ck_assert(is_quiet(called(&waiting, 1, 1, begin)));
    ck_assert(is_attempt(wake(&waiting, begin + STAND_IN)));
}
END_TEST

START_TEST(first_everywhere_need_not_wait_for_the_stand_in)
{
    struct quorum_waiting waiting = queued(3, PLAIN, QUORUM_NEVER);
    called(&waiting, 0, 1, begin);
    called(&waiting, 1, 1, begin);
    called(&waiting, 0, 0, begin);
    ck_assert(is_attempt(called(&waiting, 1, 0, begin)));
}
END_TEST

START_TEST(lost_stand_in_waits_for_new_words)
{
    struct quorum_waiting waiting = queued(3, PLAIN, QUORUM_NEVER);
    called(&waiting, 0, 1, begin);
    called(&waiting, 1, 1, begin);
    ck_assert(is_attempt(wake(&waiting, begin + STAND_IN)));
    for (unsigned i = 0; i < 3 && _i == 0; i++) /* _i 1: no reply arrived */
        answered(&waiting, i, QUORUM_NEVER, 1, begin + STAND_IN);
    ck_assert(_i == 0 ? is_quiet(tried(&waiting, begin + STAND_IN)) : is_look(tried(&waiting, begin + STAND_IN)));
    for (unsigned i = 0; i < 3 && _i == 1; i++)
        answered(&waiting, i, QUORUM_NEVER, 1, begin + STAND_IN);
    if (_i == 1)
        ck_assert(is_quiet(looked(&waiting, begin + STAND_IN)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + STAND_IN + REFRESH);
    ck_assert(is_quiet(called(&waiting, 0, 1, begin + 50 * MS)));
    ck_assert(is_quiet(called(&waiting, 1, 1, begin + 50 * MS))); /* the first waiter gets its time again */
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + 50 * MS + STAND_IN);
}
END_TEST

/* Whenever a waiter enters a queue behind others, the node notifies the first one again that the lock is free. */
START_TEST(known_word_is_no_reason_to_look_again)
{
    struct quorum_waiting waiting = queued(5, PLAIN, QUORUM_NEVER);
    called(&waiting, 0, 0, begin);
    ck_assert(is_look(wake(&waiting, begin + SOON)));
    answered(&waiting, 0, QUORUM_FREE, 0, begin + SOON);
    for (unsigned i = 1; i < 5; i++)
        answered(&waiting, i, QUORUM_NEVER, 0, begin + SOON);
    ck_assert(is_quiet(looked(&waiting, begin + SOON)));
    for (unsigned i = 0; i < 100; i++)
        ck_assert(is_quiet(called(&waiting, 0, 0, begin + SOON + i * MS)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + SOON + REFRESH);
    called(&waiting, 1, 1, begin + SOON + 100 * MS);
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + SOON + 100 * MS + SOON); /* this message is new */
}
END_TEST

/* The messages of a minority are not enough to stand in. They are a reason for one look, but not for repeated looks. */
START_TEST(minority_of_words_is_looked_after_once)
{
    struct quorum_waiting waiting = queued(5, PLAIN, QUORUM_NEVER);
    called(&waiting, 0, 1, begin);
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + SOON);
    ck_assert(is_look(wake(&waiting, begin + SOON)));
    answered(&waiting, 0, QUORUM_FREE, 1, begin + SOON);
    for (unsigned i = 1; i < 5; i++)
        answered(&waiting, i, QUORUM_NEVER, 1, begin + SOON);
    ck_assert(is_quiet(looked(&waiting, begin + SOON)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + SOON + REFRESH);
    called(&waiting, 1, 1, begin + 500 * MS);
    ck_assert(is_quiet(called(&waiting, 2, 1, begin + 500 * MS))); /* from then on the first waiter gets its time */
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + 500 * MS + STAND_IN);
    ck_assert(is_attempt(wake(&waiting, begin + 500 * MS + STAND_IN)));
}
END_TEST

START_TEST(stand_in_is_off_when_the_lock_has_been_taken)
{
    struct quorum_waiting waiting = queued(3, PLAIN, QUORUM_NEVER);
    quorum_time now = begin + REFRESH;
    called(&waiting, 0, 1, now - 1);
    called(&waiting, 1, 1, now - 1);
    ck_assert(is_look(wake(&waiting, now)));
    for (unsigned i = 0; i < 3; i++)
        answered(&waiting, i, QUORUM_NEVER, 1, now);
    ck_assert(is_quiet(looked(&waiting, now)));
    ck_assert(is_quiet(wake(&waiting, now + STAND_IN)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), now + REFRESH);
}
END_TEST

START_TEST(look_that_ends_during_an_attempt_does_not_sign_out)
{
    struct quorum_waiting waiting = looking_with(3, PLAIN);
    answered(&waiting, 0, QUORUM_NEVER, 1, begin);
    quorum_waiting_try(&waiting);
    answered(&waiting, 1, QUORUM_NEVER, 1, begin);
    ck_assert(is_quiet(looked(&waiting, begin)));
    answered(&waiting, 0, QUORUM_NEVER, 1, begin);
    ck_assert(is_quiet(tried(&waiting, begin)));
    ck_assert(quorum_waiting_can_be_notified(&waiting));
}
END_TEST

/* A node replied to the look before it notified the waiter, but the reply is read later. _i: the waiters ahead. */
START_TEST(older_reply_does_not_take_back_a_notification)
{
    struct quorum_waiting waiting = queued(3, PLAIN, QUORUM_NEVER);
    quorum_time now = begin + REFRESH;
    ck_assert(is_look(wake(&waiting, now)));
    called(&waiting, 0, (unsigned)_i, now);
    called(&waiting, 1, (unsigned)_i, now);
    for (unsigned i = 0; i < 3; i++)
        answered(&waiting, i, QUORUM_NEVER, (unsigned)_i, now);
    struct quorum_waiting_actions actions = looked(&waiting, now);
    ck_assert(_i == 0 ? is_attempt(actions) : is_quiet(actions) && is_attempt(wake(&waiting, now + STAND_IN)));
}
END_TEST

/* The nodes report that the lock is free, but too few of them grant it: the waiter must rest. _i 0: they report it
 * in the look after the attempt; 1: by a message; 2: by a message to the second waiter. */
START_TEST(lost_attempt_that_nobody_was_in_the_way_of_is_rested_after)
{
    const quorum_time later = begin + 300 * MS;
    struct quorum_waiting waiting = queued(5, PLAIN, QUORUM_NEVER);
    quorum_waiting_try(&waiting);
    const struct quorum_waiting_event event = {.type = QUORUM_WAITING_TRIED, .now = begin, .rest_until = later};
    ck_assert(is_look(quorum_waiting_step(&waiting, &event)));
    for (unsigned i = 0; i < 5; i++)
        ck_assert(is_quiet(answered(&waiting, i, _i == 0 ? QUORUM_FREE : QUORUM_NEVER, 0, begin)));
    ck_assert(is_quiet(looked(&waiting, begin)));
    for (unsigned i = 0; i < 5 && _i > 0; i++)
        ck_assert(is_quiet(called(&waiting, i, _i == 2, begin)));
    unsigned looks = 0;
    for (quorum_time now = quorum_waiting_deadline(&waiting); now < later; now = quorum_waiting_deadline(&waiting)) {
        struct quorum_waiting_actions actions = wake(&waiting, now);
        ck_assert(!actions.attempt);
        looks += actions.look;
        for (unsigned i = 0; i < 5 && actions.look; i++)
            ck_assert(is_quiet(answered(&waiting, i, QUORUM_FREE, _i == 2, now)));
        if (actions.look)
            ck_assert(is_quiet(looked(&waiting, now)));
    }
    ck_assert_uint_le(looks, 2);
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), later);
    ck_assert(is_attempt(wake(&waiting, later)));
    ck_assert(is_look(tried(&waiting, later)));
    for (unsigned i = 0; i < 5; i++) /* another client held the lock this time, so there is no rest */
        ck_assert(is_quiet(answered(&waiting, i, QUORUM_FREE, 0, later)));
    ck_assert(is_attempt(looked(&waiting, later)));
}
END_TEST

/* A majority notifies the waiter, and its attempt fails because another client is in the way. Returns whether it
 * tried at once. rest_until: the next attempt without a message. */
static bool tries_at_once(struct quorum_waiting *waiting, quorum_time now, quorum_time rest_until)
{
    called(waiting, 0, 0, now);
    if (!is_attempt(called(waiting, 1, 0, now)))
        return false;
    for (unsigned i = 0; i < 3; i++)
        answered(waiting, i, QUORUM_NEVER, 0, now);
    const struct quorum_waiting_event event = {
        .type = QUORUM_WAITING_TRIED, .now = now, .in_the_way = true, .rest_until = rest_until};
    ck_assert(is_quiet(quorum_waiting_step(waiting, &event)));
    return true;
}

/* Two waiters with some of the nodes each notify each other whenever one of them gives up. */
START_TEST(attempts_lost_many_times_on_end_are_rested_after)
{
    struct quorum_waiting waiting = queued(3, FAIR, QUORUM_NEVER);
    quorum_time now = begin;
    for (unsigned i = 0; i < 9; i++, now += MS)
        ck_assert_msg(tries_at_once(&waiting, now, now + 70 * MS), "after %u losses", i);
    ck_assert(!tries_at_once(&waiting, now, now + 70 * MS)); /* nine losses are too many */
    ck_assert(is_attempt(wake(&waiting, now - MS + 70 * MS)));
    for (unsigned i = 0; i < 3; i++)
        answered(&waiting, i, QUORUM_NEVER, 0, now);
    const struct quorum_waiting_event lost = {.type = QUORUM_WAITING_TRIED, .now = now, .in_the_way = true};
    quorum_waiting_step(&waiting, &lost);
    now += 5 * STAND_IN + MS;
    for (unsigned i = 0; i < 9; i++, now += MS) /* the next hand-over */
        ck_assert_msg(tries_at_once(&waiting, now, now + 70 * MS), "after %u losses", i);
}
END_TEST

/* An attempt enters the queue as a look does. A look follows unless the subscriptions were up when the attempt was sent,
 * and a majority has its entry, at the same place. */
static const struct {
    quorum_nodes before, lost, after; /* subscriptions: when it was sent, lost meanwhile, and up since */
    unsigned entered;
    bool misplaced, looks;
} lost_attempts[] = {
    {7, 0, 0, 3, false, false}, {0, 0, 7, 3, false, true}, {7, 6, 6, 3, false, true},
    {7, 0, 0, 1, false, true},  {7, 0, 0, 3, true, true},
};

START_TEST(failed_attempt_is_followed_by_a_look)
{
    struct quorum_waiting waiting = waiting_with(3, PLAIN);
    waiting.listening = lost_attempts[_i].before;
    quorum_waiting_try(&waiting);
    for (unsigned i = 0; i < 3; i++) {
        if (lost_attempts[_i].lost & quorum_node(i))
            step(&waiting, QUORUM_WAITING_DEAF, i, begin);
        if (lost_attempts[_i].after & quorum_node(i))
            step(&waiting, QUORUM_WAITING_LISTENING, i, begin);
    }
    for (unsigned i = 0; i < lost_attempts[_i].entered; i++)
        answered(&waiting, i, QUORUM_NEVER, 0, begin);
    const struct quorum_waiting_event event = {
        .type = QUORUM_WAITING_TRIED, .now = begin, .misplaced = lost_attempts[_i].misplaced};
    struct quorum_waiting_actions actions = quorum_waiting_step(&waiting, &event);
    if (lost_attempts[_i].looks) {
        ck_assert(is_look(actions));
    } else {
        ck_assert(is_quiet(actions) && quorum_waiting_can_be_notified(&waiting));
        ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + REFRESH);
    }
}
END_TEST

/* -------------------------------------------------------------------------------------------------- foreign holders */

/* The attempt that is due now fails: this foreign client holds the nodes up to `last`, and one of our clients the
 * others. */
static void probe(struct quorum_waiting *waiting, uint64_t holder, unsigned last, quorum_time now)
{
    const struct quorum_waiting_event lost = {
        .type = QUORUM_WAITING_TRIED, .now = now, .in_the_way = true, .rest_until = QUORUM_NEVER};
    ck_assert_uint_eq(quorum_waiting_deadline(waiting), now);
    ck_assert(is_quiet(wake(waiting, now - 1)));
    ck_assert(is_attempt(wake(waiting, now)));
    for (unsigned i = 0; i < waiting->terms.nodes; i++)
        ck_assert(is_quiet(held_by(waiting, i, i <= last ? holder : 0, now)));
    ck_assert(is_quiet(quorum_waiting_step(waiting, &lost)));
}

/* Five nodes; a foreign client holds the lock on the nodes up to `last`. */
static struct quorum_waiting behind_foreign_holder(unsigned last)
{
    struct quorum_waiting waiting = looking_with(5, PLAIN);
    for (unsigned i = 0; i < 5; i++)
        ck_assert(is_quiet(held_by(&waiting, i, i <= last ? 7 : 0, begin)));
    ck_assert(is_quiet(looked(&waiting, begin)));
    return waiting;
}

START_TEST(foreign_holder_is_tried_at_growing_intervals)
{
    static const unsigned pauses_ms[] = {20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000};
    struct quorum_waiting waiting = behind_foreign_holder(4);
    quorum_time now = begin;
    for (unsigned i = 0; i < sizeof pauses_ms / sizeof *pauses_ms; i++) {
        now += pauses_ms[i] * MS;
        probe(&waiting, 7, 4, now);
    }
    ck_assert_uint_eq(waiting.losses, 0); /* so the waiter does not rest */
}
END_TEST

START_TEST(next_foreign_holder_is_tried_soon)
{
    static const unsigned holders[] = {7, 7, 8, 9, 10, 10, 10};
    static const unsigned pauses_ms[] = {20, 40, 80, 20, 10, 10, 20};
    struct quorum_waiting waiting = behind_foreign_holder(2);
    quorum_time now = begin;
    for (unsigned i = 0; i < sizeof pauses_ms / sizeof *pauses_ms; i++) {
        now += pauses_ms[i] * MS;
        probe(&waiting, holders[i], 2, now);
    }
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), now + 40 * MS);
}
END_TEST

START_TEST(next_foreign_holder_on_a_minority_is_no_reason_to_hurry)
{
    struct quorum_waiting waiting = behind_foreign_holder(4);
    quorum_time now = begin + WATCH;
    const struct quorum_waiting_event lost = {.type = QUORUM_WAITING_TRIED, .now = now, .in_the_way = true};
    ck_assert(is_attempt(wake(&waiting, now)));
    for (unsigned i = 0; i < 5; i++)
        held_by(&waiting, i, i < 2 ? 8 : 7, now);
    ck_assert(is_quiet(quorum_waiting_step(&waiting, &lost)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), now + 2 * WATCH);
}
END_TEST

START_TEST(foreign_holder_of_a_minority_is_looked_at_once_a_second)
{
    struct quorum_waiting waiting = behind_foreign_holder(1);
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + REFRESH);
    ck_assert(is_look(wake(&waiting, begin + REFRESH)));
}
END_TEST

/* Nodes that have not replied do not count as nodes without a foreign holder. */
START_TEST(silent_nodes_do_not_hide_a_foreign_holder)
{
    struct quorum_waiting waiting = looking_with(5, PLAIN);
    for (unsigned i = 0; i < 3; i++)
        held_by(&waiting, i, i == 0 ? 7 : 0, begin);
    ck_assert(is_quiet(looked(&waiting, begin)));
    ck_assert_uint_lt(quorum_waiting_deadline(&waiting), begin + REFRESH);
}
END_TEST

START_TEST(holder_of_ours_after_a_foreign_one_is_looked_at_once_a_second)
{
    struct quorum_waiting waiting = behind_foreign_holder(4);
    probe(&waiting, 0, 4, begin + WATCH);
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + WATCH + REFRESH);
    ck_assert(is_look(wake(&waiting, begin + WATCH + REFRESH)));
}
END_TEST

/* ----------------------------------------------------------------------------------------------------- the deadline */

START_TEST(last_attempt_leaves_time_for_its_answers)
{
    static const struct {
        quorum_time deadline;
        quorum_duration timeout;
        quorum_time expected;
    } cases[] = {{begin + 900 * MS, 50 * MS, begin + 850 * MS},
                 {begin + 60 * MS, 50 * MS, begin + 30 * MS},
                 {begin, 50 * MS, begin},
                 {begin - MS, 50 * MS, begin - MS},
                 {QUORUM_NEVER, 50 * MS, QUORUM_NEVER}};
    ck_assert_uint_eq(quorum_waiting_last_attempt(begin, cases[_i].deadline, cases[_i].timeout), cases[_i].expected);
}
END_TEST

/* _i 0: behind a holder that notifies; 1: the waiter rests; 2: it has no subscription. */
START_TEST(waiter_tries_once_more_before_its_deadline)
{
    const quorum_time last = begin + 500 * MS;
    struct quorum_waiting waiting = queued(3, PLAIN, QUORUM_NEVER);
    waiting.terms.last_attempt = last;
    waiting.rest_until = _i == 1 ? begin + 10 * REFRESH : 0;
    waiting.listening = _i == 2 ? 0 : waiting.listening;
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), last);
    ck_assert(is_quiet(wake(&waiting, last - 1)));
    ck_assert(is_attempt(wake(&waiting, last)));
    for (unsigned i = 0; i < 3; i++)
        answered(&waiting, i, QUORUM_NEVER, 1, last);
    const struct quorum_waiting_event lost = {.type = QUORUM_WAITING_TRIED, .now = last, .in_the_way = true};
    ck_assert(!quorum_waiting_step(&waiting, &lost).attempt);
    ck_assert(!wake(&waiting, last + MS).attempt); /* only once */
}
END_TEST

/* Otherwise the waiter would miss a release after the last attempt. */
START_TEST(foreign_holder_is_tried_until_the_deadline)
{
    static const unsigned attempts_ms[] = {300, 450, 525, 562, 581, 590, 595};
    struct quorum_waiting waiting = behind_foreign_holder(4);
    waiting.look_at = begin + REFRESH;
    waiting.terms.last_attempt = begin + 300 * MS;
    waiting.terms.deadline = begin + 600 * MS;
    waiting.pause = REFRESH;
    for (unsigned i = 0; i < sizeof attempts_ms / sizeof *attempts_ms; i++) {
        quorum_time now = quorum_waiting_deadline(&waiting);
        ck_assert_uint_eq((now - begin) / MS, attempts_ms[i]);
        ck_assert(is_attempt(wake(&waiting, now)));
        for (unsigned node = 0; node < 5; node++)
            held_by(&waiting, node, 7, now);
        const struct quorum_waiting_event lost = {.type = QUORUM_WAITING_TRIED, .now = now, .in_the_way = true};
        ck_assert(is_quiet(quorum_waiting_step(&waiting, &lost)));
    }
    ck_assert_uint_gt(quorum_waiting_deadline(&waiting), begin + 600 * MS);
}
END_TEST

START_TEST(last_attempt_waits_for_the_end_of_a_look)
{
    struct quorum_waiting waiting = looking_with(3, PLAIN);
    waiting.terms.last_attempt = begin + MS;
    ck_assert(is_quiet(wake(&waiting, begin + MS)));
    for (unsigned i = 0; i < 3; i++)
        answered(&waiting, i, QUORUM_NEVER, 1, begin + 2 * MS);
    ck_assert(is_attempt(looked(&waiting, begin + 2 * MS)));
}
END_TEST

/* ----------------------------------------------------------------------------------------------------------- expiry */

START_TEST(expired_lock_is_asked_for_not_assumed)
{
    struct quorum_waiting waiting = queued(3, PLAIN, 300 * MS);
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + 300 * MS);
    ck_assert(is_quiet(wake(&waiting, begin + 300 * MS - 1)));
    ck_assert(is_look(wake(&waiting, begin + 300 * MS)));
    for (unsigned i = 0; i < 3; i++) /* the expiry had moved */
        answered(&waiting, i, 100 * MS, 0, begin + 301 * MS);
    ck_assert(is_quiet(looked(&waiting, begin + 301 * MS)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + 401 * MS);
    ck_assert(is_look(wake(&waiting, begin + 401 * MS)));
    answered(&waiting, 1, QUORUM_FREE, 0, begin + 402 * MS);
    answered(&waiting, 2, QUORUM_FREE, 0, begin + 402 * MS);
    ck_assert(is_attempt(looked(&waiting, begin + 402 * MS)));
}
END_TEST

START_TEST(majoritys_expiry_counts)
{
    struct quorum_waiting waiting = looking_with(5, FAIR);
    for (unsigned i = 0; i < 5; i++)
        answered(&waiting, i, (50 - 10 * i) * MS, 0, begin); /* 50, 40, 30, 20, 10 */
    looked(&waiting, begin);
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + 30 * MS);
    called(&waiting, 0, 0, begin);
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + 20 * MS); /* free on node 0, expires on 3 and 4 */
    ck_assert(is_quiet(wake(&waiting, begin + 10 * MS)));
    ck_assert(is_look(wake(&waiting, begin + 20 * MS)));
}
END_TEST

/* Strict order behind a dead waiter. From the release on, the nodes reserve the lock for it for one refresh
 * interval. The second waiter looks when that has passed. */
START_TEST(fair_second_asks_when_the_first_has_had_its_time)
{
    struct quorum_waiting waiting = looking_with(3, FAIR);
    quorum_time released = begin + 500 * MS, over = released + REFRESH + STAND_IN;
    for (unsigned node = 0; node < 3; node++)
        answered(&waiting, node, QUORUM_NEVER, 1, begin);
    ck_assert(is_quiet(looked(&waiting, begin)));
    for (unsigned node = 0; node < 3; node++)
        ck_assert(is_quiet(called(&waiting, node, 1, released)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + REFRESH);
    ck_assert(is_look(wake(&waiting, begin + REFRESH))); /* the regular look, which comes too early */
    for (unsigned node = 0; node < 3; node++)
        answered(&waiting, node, QUORUM_FREE, 1, begin + REFRESH);
    ck_assert(is_quiet(looked(&waiting, begin + REFRESH)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), over); /* not one more interval later */
    ck_assert(is_quiet(wake(&waiting, over - 1)));
    ck_assert(is_look(wake(&waiting, over)));
    if (_i == 0) { /* the nodes moved the first waiter to the tail: ours is now the first */
        answered(&waiting, 0, QUORUM_FREE, 0, over);
        answered(&waiting, 1, QUORUM_FREE, 0, over);
        ck_assert(is_attempt(looked(&waiting, over)));
    } else { /* the first waiter is alive and has acquired the lock */
        for (unsigned node = 0; node < 3; node++)
            answered(&waiting, node, QUORUM_NEVER, 0, over);
        ck_assert(is_quiet(looked(&waiting, over)));
        ck_assert_uint_eq(quorum_waiting_deadline(&waiting), over + REFRESH);
    }
}
END_TEST

/* When another client holds a majority, the key is missing on a minority. One look per second is enough then. */
START_TEST(free_on_a_minority_is_no_reason_to_ask_more_often)
{
    struct quorum_waiting waiting = looking_with(5, _i ? PLAIN : FAIR);
    unsigned width = waiting.terms.width;
    for (unsigned i = 0; i < 5; i++)
        answered(&waiting, i, i % 2 ? QUORUM_FREE : QUORUM_NEVER, width, begin);
    ck_assert(is_quiet(looked(&waiting, begin)));
    called(&waiting, 1, width, begin);
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + REFRESH);
}
END_TEST

/* No node notified the waiter, because the first waiter had just refreshed its entry. So it does not know since when
 * the lock has been free. */
START_TEST(fair_second_that_sees_it_free_asks_again_soon)
{
    struct quorum_waiting waiting = looking_with(3, FAIR);
    quorum_time now = begin;
    for (unsigned looks = 0; looks < 5; looks++) {
        for (unsigned node = 0; node < 3; node++)
            answered(&waiting, node, QUORUM_FREE, 1, now);
        ck_assert(is_quiet(looked(&waiting, now)));
        ck_assert_uint_eq(quorum_waiting_deadline(&waiting), now + REFRESH / 4);
        now += REFRESH / 4;
        ck_assert(is_look(wake(&waiting, now)));
    }
    answered(&waiting, 0, QUORUM_FREE, 0, now);
    answered(&waiting, 1, QUORUM_FREE, 0, now);
    ck_assert(is_attempt(looked(&waiting, now)));
}
END_TEST

START_TEST(word_that_it_is_free_ends_the_expiry)
{
    struct quorum_waiting waiting = queued(3, FAIR, 300 * MS);
    called(&waiting, 0, 1, begin); /* the lock is free, and another waiter is ahead of us */
    called(&waiting, 1, 1, begin);
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + REFRESH);
}
END_TEST

/* An expiry that a node reported before it fell silent causes one look, not one in each turn of the loop. */
START_TEST(expiry_on_a_node_that_is_gone_is_asked_once)
{
    struct quorum_waiting waiting = queued(3, FAIR, 300 * MS);
    quorum_time now = begin + 300 * MS;
    ck_assert(is_look(wake(&waiting, now)));
    if (_i == 0) { /* one node is free, one is held, one does not reply */
        answered(&waiting, 1, QUORUM_FREE, 0, now);
        answered(&waiting, 2, 10 * QUORUM_SECOND, 0, now);
        ck_assert(is_quiet(looked(&waiting, now)));
    } else { /* two nodes do not reply */
        answered(&waiting, 1, 10 * QUORUM_SECOND, 0, now);
        struct quorum_waiting_actions actions = looked(&waiting, now);
        ck_assert(actions.dequeue && !actions.look && !actions.attempt);
    }
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), now + REFRESH);
}
END_TEST

/* -------------------------------------------------------------------------------------------------------- at random */

struct run {
    struct quorum_waiting waiting;
    uint64_t seed;
    quorum_time now;
    bool looking;
    bool trying;
    quorum_nodes said_free; /* by messages and replies since the last attempt */
    quorum_nodes called;    /* since the last request */
    quorum_time rest_until;
    unsigned attempts;
};

static quorum_duration random_remaining(uint64_t *seed)
{
    uint64_t draw = next_random(seed) % 8;
    return draw < 2 ? QUORUM_FREE : draw == 2 ? QUORUM_NEVER : (next_random(seed) % 3000) * MS;
}

static struct quorum_waiting_event random_event(struct run *run)
{
    static const enum quorum_waiting_event_type types[] = {
        QUORUM_WAITING_LISTENING, QUORUM_WAITING_LISTENING, QUORUM_WAITING_DEAF,     QUORUM_WAITING_ENQUEUED,
        QUORUM_WAITING_ENQUEUED,  QUORUM_WAITING_ENQUEUED,  QUORUM_WAITING_NOTIFIED, QUORUM_WAITING_NOTIFIED,
        QUORUM_WAITING_LOOKED,    QUORUM_WAITING_TRIED,     QUORUM_WAITING_WOKEN,    QUORUM_WAITING_WOKEN};
    struct quorum_waiting_event event = {.type = types[next_random(&run->seed) % 12], .now = run->now};
    event.node = (unsigned)(next_random(&run->seed) % run->waiting.terms.nodes);
    event.remaining = random_remaining(&run->seed);
    event.ahead = (unsigned)(next_random(&run->seed) % 3);
    event.holder = next_random(&run->seed) % 4;
    event.in_the_way = next_random(&run->seed) % 2 == 0;
    event.rest_until = next_random(&run->seed) % 4 == 0 ? run->now + next_random(&run->seed) % QUORUM_SECOND : 0;
    if ((event.type == QUORUM_WAITING_LOOKED && !run->looking) || (event.type == QUORUM_WAITING_TRIED && !run->trying))
        event.type = QUORUM_WAITING_WOKEN;
    return event;
}

static void note_said(struct run *run, const struct quorum_waiting_event *event)
{
    bool told = event->type == QUORUM_WAITING_NOTIFIED;
    if (!told && event->type != QUORUM_WAITING_ENQUEUED)
        return;
    bool is_free = event->ahead < run->waiting.terms.width && (told || event->remaining == QUORUM_FREE);
    if (told)
        run->called |= quorum_node(event->node);
    if (is_free)
        run->said_free |= quorum_node(event->node);
    else if (!told && !(run->called & quorum_node(event->node)))
        run->said_free &= ~quorum_node(event->node);
}

/* A look and an attempt never overlap, no attempt is made without a majority of nodes that reported the lock free,
 * and the waiter sleeps when it has nothing to do. */
static bool is_sound(const struct run *run, struct quorum_waiting_actions actions)
{
    bool busy = run->looking || run->trying;
    bool tries_in_vain =
        actions.attempt && !run->waiting.probing &&
        (quorum_count(run->said_free) < quorum_majority(run->waiting.terms.nodes) || run->now < run->rest_until);
    return !(actions.look && actions.attempt) && !(busy && (actions.look || actions.attempt)) && !tries_in_vain &&
           (!actions.dequeue || run->waiting.enqueued == 0) && quorum_waiting_deadline(&run->waiting) > run->now;
}

static bool take_step(struct run *run)
{
    struct quorum_waiting_event event = random_event(run);
    note_said(run, &event);
    if (event.type == QUORUM_WAITING_TRIED)
        run->rest_until = event.in_the_way ? 0 : event.rest_until;
    run->looking = run->looking && event.type != QUORUM_WAITING_LOOKED;
    run->trying = run->trying && event.type != QUORUM_WAITING_TRIED;
    struct quorum_waiting_actions actions = quorum_waiting_step(&run->waiting, &event);
    bool sound = is_sound(run, actions);
    run->looking = run->looking || actions.look;
    run->trying = run->trying || actions.attempt;
    run->attempts += actions.attempt;
    if (actions.attempt || actions.look)
        run->called = 0;
    if (actions.attempt && run->waiting.terms.width == FAIR)
        run->said_free = 0;
    return sound;
}

START_TEST(waits_at_random)
{
    unsigned attempts = 0;
    for (uint64_t seed = 1; seed <= 5000; seed++) {
        struct run run = {.seed = seed, .now = begin};
        bool sound = true;
        run.waiting = waiting_with(1 + (unsigned)(seed % 7), 1 + (unsigned)(seed / 7 % 2));
        for (int i = 0; i < 200; i++) {
            quorum_time deadline = quorum_waiting_deadline(&run.waiting);
            bool sleeps = next_random(&run.seed) % 4 == 0 && deadline != QUORUM_NEVER;
            run.now = sleeps ? deadline : run.now + next_random(&run.seed) % (5 * MS);
            sound = sound && take_step(&run);
        }
        ck_assert_msg(sound, "seed %llu", (unsigned long long)seed);
        attempts += run.attempts;
    }
    ck_assert_uint_gt(attempts, 5000);
}
END_TEST

/* ------------------------------------------------------------------------------------------------------------ suite */

static void add_looking(Suite *suite)
{
    TCase *looking = tcase_create("looking");
    tcase_add_loop_test(looking, fair_second_asks_when_the_first_has_had_its_time, 0, 2);
    tcase_add_loop_test(looking, free_on_a_minority_is_no_reason_to_ask_more_often, 0, 2);
    tcase_add_test(looking, fair_second_that_sees_it_free_asks_again_soon);
    tcase_add_loop_test(looking, it_looks_as_soon_as_a_majority_would_tell_it, 1, QUORUM_NODES_MAX + 1);
    tcase_add_test(looking, without_a_majority_that_listens_it_does_not_look);
    tcase_add_test(looking, only_nodes_that_have_it_and_reach_it_can_call_it);
    tcase_add_test(looking, it_looks_once_a_second);
    tcase_add_test(looking, waiter_looks_when_its_subscriptions_are_up_again);
    tcase_add_loop_test(looking, subscription_that_comes_after_a_look_is_reported_by_one_more, 0, 2);
    tcase_add_test(looking, look_that_nobody_answers_is_repeated_after_a_second);
    tcase_add_loop_test(looking, with_too_few_nodes_it_signs_out, 2, 4);
    tcase_add_test(looking, who_may_have_it_on_its_list_is_known_until_it_signs_out);
    tcase_add_test(looking, failed_attempt_leaves_the_queues_of_a_minority);
    suite_add_tcase(suite, looking);
}

static void add_trying(Suite *suite)
{
    TCase *trying = tcase_create("trying");
    tcase_add_loop_test(trying, it_tries_when_a_majority_calls_it, 0, 2);
    tcase_add_test(trying, look_does_not_begin_while_it_tries);
    tcase_add_test(trying, lost_attempt_says_what_is_free);
    tcase_add_test(trying, answers_that_calls_have_overtaken_are_tried);
    tcase_add_test(trying, place_is_the_least_that_a_majority_agrees_on);
    tcase_add_test(trying, answer_takes_back_what_the_node_said_before);
    tcase_add_loop_test(trying, free_for_others_is_not_free_for_us, 0, 2);
    tcase_add_test(trying, look_that_ends_during_an_attempt_does_not_sign_out);
    tcase_add_loop_test(trying, older_reply_does_not_take_back_a_notification, 0, 2);
    tcase_add_loop_test(trying, failed_attempt_is_followed_by_a_look, 0, 5);
    tcase_add_test(trying, attempts_lost_many_times_on_end_are_rested_after);
    tcase_add_loop_test(trying, lost_attempt_that_nobody_was_in_the_way_of_is_rested_after, 0, 3);
    suite_add_tcase(suite, trying);
}

/* The first node's hand-over starts the time; a later one does not prolong it. */
START_TEST(hand_over_by_too_few_is_given_back)
{
    struct quorum_waiting waiting = queued(5, PLAIN, QUORUM_NEVER);
    ck_assert(is_quiet(step(&waiting, QUORUM_WAITING_HANDED, 2, begin)));
    ck_assert(is_quiet(step(&waiting, QUORUM_WAITING_HANDED, 3, begin + PATIENCE / 2)));
    ck_assert_uint_eq(quorum_waiting_deadline(&waiting), begin + PATIENCE);
    ck_assert(is_quiet(wake(&waiting, begin + PATIENCE - 1)));
    struct quorum_waiting_actions actions = wake(&waiting, begin + PATIENCE);
    ck_assert(actions.withdraw && is_attempt(actions));
    actions = tried(&waiting, begin + 2 * PATIENCE);
    ck_assert(!actions.withdraw && !actions.attempt);
    ck_assert(!wake(&waiting, begin + 3 * PATIENCE).withdraw);
}
END_TEST

/* It is given back after the attempt, and after the look that follows. */
START_TEST(hand_over_during_an_attempt_is_given_back_after_it)
{
    struct quorum_waiting waiting = queued(5, PLAIN, QUORUM_NEVER);
    quorum_waiting_try(&waiting);
    ck_assert(is_quiet(step(&waiting, QUORUM_WAITING_HANDED, 2, begin)));
    ck_assert(is_quiet(wake(&waiting, begin + PATIENCE)));
    ck_assert(is_look(tried(&waiting, begin + 2 * PATIENCE)));
    ck_assert(looked(&waiting, begin + 2 * PATIENCE).withdraw);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quorum/waiting");
    add_looking(suite);
    add_trying(suite);

    TCase *stand_in = tcase_create("stand-in");
    tcase_add_test(stand_in, second_stands_in_after_a_while);
    tcase_add_test(stand_in, first_here_and_second_there_stands_in);
    tcase_add_test(stand_in, first_everywhere_need_not_wait_for_the_stand_in);
    tcase_add_loop_test(stand_in, lost_stand_in_waits_for_new_words, 0, 2);
    tcase_add_test(stand_in, known_word_is_no_reason_to_look_again);
    tcase_add_test(stand_in, minority_of_words_is_looked_after_once);
    tcase_add_test(stand_in, stand_in_is_off_when_the_lock_has_been_taken);
    suite_add_tcase(suite, stand_in);

    TCase *handed = tcase_create("handed over");
    tcase_add_test(handed, hand_over_by_too_few_is_given_back);
    tcase_add_test(handed, hand_over_during_an_attempt_is_given_back_after_it);
    suite_add_tcase(suite, handed);

    TCase *foreign = tcase_create("foreign");
    tcase_add_test(foreign, foreign_holder_is_tried_at_growing_intervals);
    tcase_add_test(foreign, next_foreign_holder_is_tried_soon);
    tcase_add_test(foreign, next_foreign_holder_on_a_minority_is_no_reason_to_hurry);
    tcase_add_test(foreign, foreign_holder_of_a_minority_is_looked_at_once_a_second);
    tcase_add_test(foreign, silent_nodes_do_not_hide_a_foreign_holder);
    tcase_add_test(foreign, holder_of_ours_after_a_foreign_one_is_looked_at_once_a_second);
    tcase_add_loop_test(foreign, last_attempt_leaves_time_for_its_answers, 0, 5);
    tcase_add_loop_test(foreign, waiter_tries_once_more_before_its_deadline, 0, 3);
    tcase_add_test(foreign, foreign_holder_is_tried_until_the_deadline);
    tcase_add_test(foreign, last_attempt_waits_for_the_end_of_a_look);
    suite_add_tcase(suite, foreign);

    TCase *expiry = tcase_create("expiry");
    tcase_add_test(expiry, expired_lock_is_asked_for_not_assumed);
    tcase_add_test(expiry, majoritys_expiry_counts);
    tcase_add_test(expiry, word_that_it_is_free_ends_the_expiry);
    tcase_add_loop_test(expiry, expiry_on_a_node_that_is_gone_is_asked_once, 0, 2);
    tcase_add_test(expiry, waits_at_random);
    suite_add_tcase(suite, expiry);
    return run_suite(suite);
}
