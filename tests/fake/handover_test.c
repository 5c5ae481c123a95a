/* Hand-over, as the waiter sees it: nodes give it the lock, in time or late, too few of them, or a lock that it does not
 * want any more. */
#include "fake/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quorum/validity.h"
#include "src/client/client.h"
#include "src/core/clock.h"
#include "src/lock/queue_table.h"

/* Longer than a test waits: no key is gone because it has expired. */
enum { TTL_MS = 600000 };

static struct answer answer;
static redlock_acquire_options options;

static void five_nodes(void)
{
    scene_begin(5);
    options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = REDLOCK_FOREVER;
    options.ttl_ms = TTL_MS;
}

/* A waiter, and its offer on five nodes. */
static struct scene_offer wait_with_an_offer(void)
{
    struct scene_offer offer;
    scene_attach();
    scene_hold_on(0, 5, "stock");
    scene_start_acquire(&answer, "stock", &options);
    for (unsigned i = 5; i-- > 0;)
        scene_until(scene_read_offer(i, &offer));
    ck_assert_uint_eq(offer.ttl_ms, TTL_MS);
    return offer;
}

static void hand_over(unsigned first, unsigned end, const struct scene_offer *offer)
{
    for (unsigned i = first; i < end; i++)
        scene_hand_over(i, "stock", offer, "");
}

/* The waiter acquires the lock by an attempt, not by the offer. */
static void assert_acquired_without(const struct scene_offer *offer)
{
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_str_ne(redlock_lock_token(answer.lock), offer->value);
}

static void release_it(void)
{
    scene_let_go_on(0, 5, "stock");
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}

/* Waits until these nodes have been sent the undo of the offer. */
static void wait_for_undo(unsigned first, unsigned end, const char *token)
{
    for (unsigned i = first; i < end; i++)
        scene_until(scene_sent(i, SENT_UNDO, token, 0, NULL));
}

SCENE_CASE(given, five_nodes);

/* The fourth node's grant is one more copy of the key: it is not undone before the release. Behind its hand-over each
 * node sends one for a value that no waiter offered: when the client has undone that one, it has read both. */
TEST(given, lock_of_a_majority_is_acquired_and_a_late_one_kept_until_the_release)
{
    struct scene_offer offer = wait_with_an_offer();
    unsigned attempts = scene_count(0, SENT_ATTEMPT);
    hand_over(0, 4, &offer);
    for (unsigned i = 0; i < 4; i++)
        scene_publish(i, "stock", "Gx 1 5 stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.granted, 3);
    ck_assert_str_eq(redlock_lock_token(answer.lock), offer.value);
    wait_for_undo(0, 4, "x");
    for (unsigned i = 0; i < 4; i++)
        ck_assert_ptr_null(scene_sent(i, SENT_UNDO, offer.value, 0, NULL));
    ck_assert_uint_eq(scene_count(0, SENT_ATTEMPT), attempts);
    release_it();
    wait_for_undo(0, 4, offer.value);
}

/* The release is sent to the fourth node, which hands the lock over before it: the message of that comes late. The fifth
 * node had replied that it has no key, so the release is not sent to it, and it hands the lock over later. */
TEST(given, grant_behind_the_release_is_undone_only_where_the_release_was_not_sent)
{
    static const char *const queue_keys[] = {"stock:redlock:queue", "stock:redlock:alive", "stock:redlock:free"};
    char grant[128];
    struct scene_offer offer = wait_with_an_offer();
    const struct rl_names names = rl_names_of("stock", 5);
    hand_over(0, 3, &offer);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    struct rl_queue *queue = rl_queue_find(&scene.client->locks, &names, false);
    rl_timer_stop(&scene.client->core.timers, &queue->timer); /* it stays, however slow this machine is */
    rl_lease_note_absent(answer.lock->lease, 4);
    release_it();
    snprintf(grant, sizeof grant, "G%s %llu 5 stock", offer.value, offer.number);
    scene_publish(3, "stock", grant);
    scene_publish(3, "stock", "Gx 1 5 stock");
    wait_for_undo(3, 4, "x");
    ck_assert_ptr_null(scene_sent(3, SENT_UNDO, offer.value, 1, NULL));
    hand_over(4, 5, &offer);
    wait_for_undo(4, 5, offer.value);
    for (unsigned i = 0; i < 3; i++) /* a hand-over dequeues the waiter */
        fake_server_delete_key(scene.node[4], queue_keys[i]);
}

/* A node sets the key at an unknown time after the request with the offer's number left. */
TEST(given, validity_counts_from_the_oldest_offer)
{
    struct scene_offer offer = wait_with_an_offer(), older = offer;
    older.number -= 7 * QUORUM_SECOND;
    hand_over(0, 1, &offer);
    hand_over(1, 2, &older);
    hand_over(2, 3, &offer);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    quorum_time end = quorum_validity_end(older.number, TTL_MS * QUORUM_MILLISECOND,
                                          scene.client->core.options.drift_ppm),
                before = rl_now();
    ck_assert_int_le(redlock_validity_ms(answer.lock),
                     (int64_t)(quorum_time_until(end, before) / QUORUM_MILLISECOND) + 1);
    release_it();
}

SCENE_CASE(given_back, five_nodes);

/* What was given back counts no more. */
TEST(given_back, lock_that_a_minority_hands_over_is_given_back)
{
    struct scene_offer offer = wait_with_an_offer(), next;
    unsigned attempts = scene_count(0, SENT_ATTEMPT);
    hand_over(0, 2, &offer);
    wait_for_undo(0, 2, offer.value);
    scene_until(scene_count(0, SENT_ATTEMPT) > attempts);
    hand_over(2, 5, &offer);
    wait_for_undo(2, 5, offer.value); /* an attempt may have set the key again since */
    ck_assert(scene_read_offer(0, &next));
    ck_assert_str_ne(next.value, offer.value);
    for (unsigned i = 0; i < 5; i++)
        scene_call_waiters(i, "stock");
    assert_acquired_without(&offer);
    release_it();
}

/* A number from the future, which this client never sent. */
TEST(given_back, offer_from_the_future_does_not_count)
{
    struct scene_offer later = wait_with_an_offer();
    later.number += 3600 * QUORUM_SECOND;
    hand_over(0, 3, &later);
    wait_for_undo(0, 2, later.value);
    ck_assert_uint_eq(answer.callbacks, 0);
    scene_let_go_on(3, 5, "stock");
    assert_acquired_without(&later);
    release_it();
}

enum { OTHER_OFFER, RELEASED, MESSAGE_LOST };

/* The waiter has made another offer; or it has acquired the lock by an attempt, and released it; or the last node has
 * handed the lock over, and hangs, and its message is lost: an attempt on the other nodes wins. */
TEST_ROWS(given_back, lock_that_no_waiter_expects_is_given_back, MESSAGE_LOST + 1)
{
    char value[64];
    struct scene_offer offer = wait_with_an_offer();
    if (_i == OTHER_OFFER)
        snprintf(offer.value, sizeof offer.value, "%040d", 7);
    if (_i == MESSAGE_LOST) {
        fake_server_pause(scene.node[4]);
        fake_server_set_key(scene.node[4], "stock", offer.value, TTL_MS);
    }
    if (_i != OTHER_OFFER) {
        scene_let_go_on(0, 5, "stock");
        assert_acquired_without(&offer);
        ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    }
    if (_i == MESSAGE_LOST)
        fake_server_resume(scene.node[4]);
    else
        scene_hand_over(4, "stock", &offer, "");
    scene_until(!fake_server_get_key(scene.node[4], "stock", value, sizeof value) || strcmp(value, offer.value) != 0);
    if (_i != OTHER_OFFER)
        return;
    ck_assert_uint_eq(answer.callbacks, 0);
    scene_let_go_on(0, 4, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    release_it();
}

static const char *const broken[] = {"Gx -1 5 stock", "Gx 1 -5 stock",
                                     "Gx  5 stock",   "Gx 99999999999999999999 5 stock",
                                     "Gx 1 0 stock",  "Gx 1 99999999999999999999 stock"};

/* Also one with a name of more than 64 KiB, and one that is cut at each length. The last one is whole, and for a value
 * that no waiter offered. */
TEST(given_back, broken_messages_are_ignored)
{
    enum { LONGEST = 66000 };
    char cut[] = "Gx 1 5 stock";
    wait_with_an_offer();
    char *longest = fixture_text("Gx 1 %d %0*d", LONGEST, LONGEST, 0);
    scene_publish(4, "stock", longest);
    free(longest);
    for (unsigned i = 0; i < sizeof broken / sizeof *broken; i++)
        scene_publish(4, "stock", broken[i]);
    for (int length = 1; length < (int)sizeof cut; length++) {
        snprintf(cut, sizeof cut, "%.*s", length, "Gx 1 5 stock");
        scene_publish(4, "stock", cut);
    }
    wait_for_undo(4, 5, "x");
    ck_assert_ptr_null(scene_sent(4, SENT_UNDO, "x", 1, NULL));
    scene_let_go_on(0, 5, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
}

/* What a hand-over cannot give: a short ttl, most of the ttl, every node's answer. */
TEST_ROWS(given_back, some_locks_are_not_offered, 3)
{
    struct scene_offer offer;
    options.ttl_ms = _i == 0 ? 999 : TTL_MS;
    options.minimum_validity_ms = _i == 1 ? TTL_MS / 2 + 1 : 0;
    options.all_answers = _i == 2;
    scene_attach();
    scene_hold_on(0, 3, "stock");
    scene_start_acquire(&answer, "stock", &options);
    scene_wait_for_sent(0, SENT_WAIT, 2);
    ck_assert(!scene_read_offer(0, &offer));
    scene_let_go_on(0, 5, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
}

/* Each makes the client send an undo, and the node replies to none. The last message is one that the waiter needs. */
TEST(given_back, hand_overs_that_no_waiter_expects_fill_no_memory)
{
    enum { MESSAGES = 200 };
    char message[80];
    scene.options.pending_max = 16;
    scene.options.node_timeout_ms = 5000;
    struct scene_offer offer = wait_with_an_offer();
    scene_hold_replies(0, 1, "EVALSHA");
    for (unsigned i = 0; i < MESSAGES; i++) {
        snprintf(message, sizeof message, "G%040u 1 5 stock", i);
        scene_publish(0, "stock", message);
    }
    hand_over(0, 3, &offer);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_uint_le(scene.client->nodes->node[0].flight.sent.count, 20);
    scene_calm(0, 1);
    release_it();
}

TEST_PROGRAM("handover")
