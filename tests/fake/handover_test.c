/* Hand-over, as the waiter sees it: nodes give it the lock, in time or late, too few of them, or a lock that it does not
 * want any more. */
#include "fake/scene.h"

#include <stdio.h>
#include <string.h>

#include "quorum/validity.h"
#include "src/client/client.h"
#include "src/core/clock.h"

enum { TTL_MS = 20000 };

static struct answer answer;
static redlock_acquire_options options;

static bool all_offered(void *arg)
{
    struct scene_offer offer;
    (void)arg;
    for (unsigned i = 0; i < 5; i++)
        if (!scene_read_offer(i, &offer))
            return false;
    return true;
}

/* A waiter, and its offer on five nodes. */
static struct scene_offer wait_with_an_offer(void)
{
    struct scene_offer offer;
    options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = REDLOCK_FOREVER;
    options.ttl_ms = TTL_MS;
    scene_attach();
    scene_hold_on(0, 5, "stock");
    scene_start_acquire(&answer, "stock", &options);
    ck_assert(scene_run(all_offered, NULL));
    ck_assert(scene_read_offer(0, &offer));
    ck_assert_uint_eq(offer.ttl_ms, TTL_MS);
    return offer;
}

static void five_nodes(void)
{
    scene_begin(5);
}

static void release_it(void)
{
    scene_let_go_on(0, 5, "stock");
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}

START_TEST(lock_is_acquired_when_a_majority_has_handed_it_over)
{
    struct scene_offer offer = wait_with_an_offer();
    unsigned attempts = scene_count(0, SENT_ATTEMPT);
    for (unsigned i = 0; i < 3; i++)
        scene_hand_over(i, "stock", &offer, "");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.granted, 3);
    ck_assert_str_eq(redlock_lock_token(answer.lock), offer.value);
    ck_assert_uint_eq(scene_count(0, SENT_ATTEMPT), attempts);
    release_it();
}
END_TEST

static bool fourth_has_undone(void *token)
{
    return scene_sent(3, SENT_UNDO, token, 0, NULL);
}

/* The fourth node's grant is one more copy of the key: it is not undone before the release. */
START_TEST(late_hand_over_is_kept_until_the_release)
{
    struct scene_offer offer = wait_with_an_offer();
    for (unsigned i = 0; i < 4; i++)
        scene_hand_over(i, "stock", &offer, "");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    scene_lock("other");
    ck_assert(!fourth_has_undone(offer.value));
    release_it();
    ck_assert(scene_run(fourth_has_undone, offer.value));
}
END_TEST

/* A node sets the key at an unknown time after the request with the offer's number left. */
START_TEST(validity_counts_from_the_oldest_offer)
{
    struct scene_offer offer = wait_with_an_offer(), older = offer;
    quorum_duration ttl = TTL_MS * QUORUM_MILLISECOND;
    older.number -= 7 * QUORUM_SECOND;
    scene_hand_over(0, "stock", &offer, "");
    scene_hand_over(1, "stock", &older, "");
    scene_hand_over(2, "stock", &offer, "");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    quorum_time end = quorum_validity_end(older.number, ttl, scene.client->core.options.drift_ppm), before = rl_now();
    ck_assert_int_le(redlock_validity_ms(answer.lock),
                     (int64_t)(quorum_time_until(end, before) / QUORUM_MILLISECOND) + 1);
    release_it();
}
END_TEST

static bool first_two_have_undone(void *token)
{
    return scene_sent(0, SENT_UNDO, token, 0, NULL) && scene_sent(1, SENT_UNDO, token, 0, NULL);
}

static bool others_have_undone(void *token)
{
    bool undone = true;
    for (unsigned i = 2; i < 5; i++)
        undone = undone && scene_sent(i, SENT_UNDO, token, 0, NULL);
    return undone;
}

static bool has_tried_again(void *arg)
{
    return scene_count(0, SENT_ATTEMPT) > *(const unsigned *)arg;
}

/* What was given back counts no more. */
START_TEST(lock_that_a_minority_hands_over_is_given_back)
{
    struct scene_offer offer = wait_with_an_offer(), next;
    unsigned attempts = scene_count(0, SENT_ATTEMPT);
    for (unsigned i = 0; i < 2; i++)
        scene_hand_over(i, "stock", &offer, "");
    ck_assert(scene_run(first_two_have_undone, offer.value));
    ck_assert(scene_run(has_tried_again, &attempts));
    for (unsigned i = 2; i < 5; i++)
        scene_hand_over(i, "stock", &offer, "");
    ck_assert(scene_run(others_have_undone, offer.value)); /* an attempt may have set the key again since */
    ck_assert(scene_read_offer(0, &next));
    ck_assert_str_ne(next.value, offer.value);
    for (unsigned i = 0; i < 5; i++)
        scene_call_waiters(i, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_str_ne(redlock_lock_token(answer.lock), offer.value);
    release_it();
}
END_TEST

/* A number from the future, which this client never sent. */
START_TEST(offer_from_the_future_does_not_count)
{
    struct scene_offer offer = wait_with_an_offer(), later = offer;
    later.number += 3600 * QUORUM_SECOND;
    for (unsigned i = 0; i < 3; i++)
        scene_hand_over(i, "stock", &later, "");
    ck_assert(scene_run(first_two_have_undone, offer.value));
    ck_assert_uint_eq(answer.told, 0);
    scene_let_go_on(3, 5, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_str_ne(redlock_lock_token(answer.lock), offer.value);
    release_it();
}
END_TEST

static bool last_has_undone(void *token)
{
    return scene_sent(4, SENT_UNDO, token, 0, NULL);
}

static bool last_has_given_back(void *token)
{
    char value[64];
    return !fake_server_get_key(scene.node[4], "stock", value, sizeof value) || strcmp(value, token) != 0;
}

/* _i 0: the waiter has made another offer; 1: it has acquired the lock by an attempt, and released it. */
START_TEST(lock_that_no_waiter_expects_is_given_back)
{
    struct scene_offer offer = wait_with_an_offer();
    if (_i == 0)
        snprintf(offer.value, sizeof offer.value, "%040d", 7);
    for (unsigned i = 0; i < 5 && _i == 1; i++)
        scene_let_go(i, "stock");
    if (_i == 1)
        ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    if (_i == 1)
        ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    scene_hand_over(4, "stock", &offer, "");
    ck_assert(scene_run(last_has_given_back, offer.value));
    ck_assert_uint_eq(answer.told, (unsigned)_i);
    if (_i == 1)
        return;
    scene_let_go_on(0, 4, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    release_it();
}
END_TEST

/* The last node hands the lock over, and hangs; the message is lost. An attempt on the other nodes wins. */
START_TEST(lock_whose_message_is_lost_is_given_back)
{
    struct scene_offer offer = wait_with_an_offer();
    fake_server_pause(scene.node[4]);
    fake_server_set_key(scene.node[4], "stock", offer.value, TTL_MS);
    for (unsigned i = 0; i < 4; i++)
        scene_let_go(i, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_str_ne(redlock_lock_token(answer.lock), offer.value);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    fake_server_resume(scene.node[4]);
    ck_assert(scene_run(last_has_given_back, offer.value));
}
END_TEST

static const char *const broken[] = {"G",
                                     "Gx",
                                     "Gx ",
                                     "Gx 1",
                                     "Gx 1 ",
                                     "Gx 1 5",
                                     "Gx 1 5 stoc",
                                     "Gx -1 5 stock",
                                     "Gx 1 -5 stock",
                                     "Gx  5 stock",
                                     "Gx 99999999999999999999 5 stock",
                                     "Gx 1 99999999999999999999 stock",
                                     "Gx 1 0 stock",
                                     "Gx 1 5 stock"};

/* The last one is whole, and for a value that no waiter offered. Before it comes one with a name of more than 64 KiB. */
START_TEST(broken_messages_are_ignored)
{
    enum { LONGEST = 66000 };
    unsigned count = sizeof broken / sizeof *broken;
    char value[] = "x";
    wait_with_an_offer();
    char *longest = fixture_text("Gx 1 %d %0*d", LONGEST, LONGEST, 0);
    scene_publish(4, "stock", longest);
    free(longest);
    for (unsigned i = 0; i < count; i++)
        scene_publish(4, "stock", broken[i]);
    ck_assert(scene_run(last_has_undone, value));
    ck_assert_ptr_null(scene_sent(4, SENT_UNDO, value, 1, NULL));
    scene_let_go_on(0, 5, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}
END_TEST

/* What a hand-over cannot give: a short ttl, most of the ttl, every node's answer. */
START_TEST(some_locks_are_not_offered)
{
    struct scene_offer offer;
    options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = REDLOCK_FOREVER;
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
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handover");
    TCase *given = scene_case(suite, "given", five_nodes);
    tcase_add_test(given, lock_is_acquired_when_a_majority_has_handed_it_over);
    tcase_add_test(given, late_hand_over_is_kept_until_the_release);
    tcase_add_test(given, validity_counts_from_the_oldest_offer);
    TCase *back = scene_case(suite, "given back", five_nodes);
    tcase_add_test(back, lock_that_a_minority_hands_over_is_given_back);
    tcase_add_test(back, offer_from_the_future_does_not_count);
    tcase_add_loop_test(back, lock_that_no_waiter_expects_is_given_back, 0, 2);
    tcase_add_test(back, lock_whose_message_is_lost_is_given_back);
    tcase_add_test(back, broken_messages_are_ignored);
    tcase_add_loop_test(back, some_locks_are_not_offered, 0, 3);
    return run_suite(suite);
}
