/* Hand-over, as the waiter sees it: nodes give it the lock, in time or late, too few of them, or a lock that it does not
 * want any more. */
#include "fake/scene.h"

#include "quorum/validity.h"
#include "src/client/client.h"
#include "src/core/timer.h"
#include "src/lock/queue_table.h"

#define KEY "a:stock"
/* Longer than a test waits: no key is gone because it has expired. */
enum { TTL_MS = 600000 };

static struct answer answer;
static redlock_acquire_options options;

static void five_nodes(void)
{
    scene_begin(5);
    scene.options.prefix = "a:";
    options = *SCENE_WITH(.wait_ms = REDLOCK_FOREVER, .ttl_ms = TTL_MS);
}

/* A waiter, and its offer on five nodes. No poll is on its way, which some nodes would answer before a change by the
 * test, and others after it. */
static struct scene_offer wait_with_an_offer(void)
{
    struct scene_offer offer;
    scene_attach();
    scene_hold_on(0, 5, KEY);
    scene_start_acquire(&answer, "stock", &options);
    for (unsigned i = 5; i-- > 0;)
        scene_until(scene_read_offer(i, &offer));
    ck_assert_uint_eq(offer.ttl_ms, TTL_MS);
    scene_wait_for_replies(0, 5);
    return offer;
}

static void hand_over(unsigned first, unsigned end, const struct scene_offer *offer)
{
    for (unsigned i = first; i < end; i++)
        scene_hand_over(i, KEY, offer, "");
}

/* The waiter acquires the lock by an attempt, not by the offer. */
static void assert_acquired_without(const struct scene_offer *offer)
{
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_str_ne(redlock_lock_token(answer.lock), offer->value);
}

static void release_it(void)
{
    scene_let_go_on(0, 5, KEY);
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
 * node sends one for a value that no waiter offered: when the client has dropped that one, it has read both. */
TEST(given, lock_of_a_majority_is_acquired_and_a_late_one_kept_until_the_release)
{
    struct scene_offer offer = wait_with_an_offer();
    unsigned attempts = scene_count(0, SENT_ATTEMPT);
    hand_over(0, 4, &offer);
    for (unsigned i = 0; i < 4; i++)
        scene_publish(i, KEY, "Gx 1 7 " KEY);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.granted, 3);
    ck_assert_str_eq(redlock_lock_token(answer.lock), offer.value);
    scene_until(scene_statistics().messages_dropped == 4);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_ptr_null(scene_sent(i, SENT_UNDO, offer.value, 0, NULL));
    ck_assert_uint_eq(scene_count(0, SENT_ATTEMPT), attempts);
    release_it();
    wait_for_undo(0, 4, offer.value);
}

/* The fifth node had replied that it has no key, but it has the offer, and could hand the lock over later. */
TEST(given, release_reaches_every_node_that_has_the_offer)
{
    struct scene_offer offer = wait_with_an_offer();
    hand_over(0, 3, &offer);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    rl_lease_note_absent(answer.lock->lease, 4);
    release_it();
    wait_for_undo(0, 5, offer.value);
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

/* An attempt has two of the nodes, and is not decided. Its undo does not wait for the others' replies. */
TEST(given, an_attempt_in_progress_is_undone)
{
    scene.options.node_timeout_ms = 10 * SCENE_SOON_MS;
    struct scene_offer offer = wait_with_an_offer();
    unsigned attempts = scene_count(4, SENT_ATTEMPT);
    scene_hold_replies(0, 3, "EVALSHA");
    scene_let_go_on(3, 5, KEY);
    for (unsigned i = 0; i < 3; i++)
        scene_call_waiters(i, KEY);
    scene_wait_for_sent_to(3, 5, SENT_ATTEMPT, attempts + 1);
    hand_over(0, 3, &offer);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    wait_for_undo(3, 5, scene_token(scene_sent(4, SENT_ATTEMPT, NULL, attempts, NULL)));
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
    wait_for_undo(2, 5, offer.value);                          /* also where no message came from */
    ck_assert_uint_eq(fake_server_accepted(scene.node[0]), 2); /* its messages arrive */
    ck_assert(scene_read_offer(0, &next));
    ck_assert_str_ne(next.value, offer.value);
    scene_let_go_on(2, 5, KEY);
    for (unsigned i = 0; i < 5; i++)
        scene_call_waiters(i, KEY);
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
    scene_let_go_on(3, 5, KEY);
    assert_acquired_without(&later);
    release_it();
}

/* The last node has handed the lock over, and hangs, and its message is lost: an attempt on the other nodes wins. */
TEST(given_back, lock_without_a_message_is_given_back)
{
    char value[64];
    struct scene_offer offer = wait_with_an_offer();
    fake_server_pause(scene.node[4]);
    fake_server_set_key(scene.node[4], KEY, offer.value, TTL_MS);
    scene_let_go_on(0, 5, KEY);
    assert_acquired_without(&offer);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    fake_server_resume(scene.node[4]);
    scene_until(!fake_server_get_key(scene.node[4], KEY, value, sizeof value) || strcmp(value, offer.value) != 0);
}

/* The nodes' messages are lost on their way, and only a poll says that the lock was handed over. The client gives it back,
 * makes its next attempt without an offer, and subscribes anew. */
TEST(given_back, hand_over_without_a_message_makes_the_client_subscribe_anew)
{
    struct scene_offer offer = wait_with_an_offer();
    unsigned attempts = scene_count(0, SENT_ATTEMPT);
    for (unsigned i = 0; i < 5; i++)
        fake_server_set_key(scene.node[i], KEY, offer.value, TTL_MS);
    assert_acquired_without(&offer);
    scene_until(scene_sent(0, SENT_ATTEMPT, NULL, attempts, NULL)); /* the majority may be the other nodes */
    const struct resp_command *attempt = scene_sent(0, SENT_ATTEMPT, NULL, attempts, NULL)->command;
    ck_assert(resp_argument_is(&attempt->argv[attempt->argc - 2], "0")); /* not subscribed */
    wait_for_undo(0, 5, offer.value);
    release_it();
    for (unsigned i = 0; i < 5; i++)
        scene_wait_for_accepted(i, 3);
    scene_until(rl_listeners_up(scene.client->nodes) == quorum_all(5));
}

SCENE_CASE(forged, five_nodes);

/* Any user who may publish can send them: for values that are easy to guess, of this and of other keys, and without a
 * waiter. The client does not touch the keys with its own rights. */
TEST(forged, a_message_that_answers_no_offer_is_dropped)
{
    static const char *const keys[] = {"counter", "flag", "record"}, *const values[] = {"0", "1", SCENE_OTHER};
    char message[128];
    wait_with_an_offer();
    for (unsigned i = 0; i < 3; i++) {
        fake_server_set_key(scene.node[4], keys[i], values[i], TTL_MS);
        snprintf(message, sizeof message, "G%s 1 %zu %s", values[i], strlen(keys[i]), keys[i]);
        scene_publish(4, KEY, message);
        snprintf(message, sizeof message, "G%s 1 7 " KEY, values[i]);
        scene_publish(4, KEY, message);
    }
    scene_until(scene_statistics().messages_dropped == 6);
    ck_assert_uint_eq(answer.callbacks, 0);
    scene_let_go_on(0, 5, KEY);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++) {
        scene_assert_key(4, 5, keys[i], true);
        ck_assert_ptr_null(scene_sent(4, SENT_UNDO, values[i], 0, NULL));
        fake_server_delete_key(scene.node[4], keys[i]);
    }
}

/* A message of more bytes than a hand-over can have ends the subscription, and the client subscribes anew. It keeps none
 * of them, however fast they come. */
TEST(forged, messages_that_are_too_long_fill_no_memory)
{
    enum { SIZE = 900 * 1024, MESSAGES = 8 };
    struct test_allocator *allocator = scene_count_memory();
    struct scene_offer offer = wait_with_an_offer();
    char *longest = fixture_text("G%040d 1 %d %0*d", 7, SIZE, SIZE, 0);
    size_t before = test_allocator_live_bytes(allocator);
    for (unsigned i = 0; i < MESSAGES; i++) {
        const struct rl_listener *listener = scene.client->nodes->node[4].listener;
        scene_publish(4, KEY, longest);
        scene_until(!listener->up);
        ck_assert_uint_lt(test_allocator_live_bytes(allocator), before + before / 4);
        scene_until(listener->up);
    }
    free(longest);
    ck_assert_uint_eq(scene_statistics().messages_dropped, 0);
    hand_over(0, 3, &offer);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    release_it();
}

/* What a hand-over cannot give: a short ttl, most of the ttl, every node's answer. */
TEST_ROWS(given_back, some_locks_are_not_offered, 3)
{
    struct scene_offer offer;
    options.ttl_ms = _i == 0 ? 999 : TTL_MS;
    options.minimum_validity_ms = _i == 1 ? TTL_MS / 2 + 1 : 0;
    options.all_answers = _i == 2;
    scene_attach();
    scene_hold_on(0, 3, KEY);
    scene_start_acquire(&answer, "stock", &options);
    scene_wait_for_sent(0, SENT_WAIT, 2);
    ck_assert(!scene_read_offer(0, &offer));
    scene_let_go_on(0, 5, KEY);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
}

TEST_PROGRAM("handover")
