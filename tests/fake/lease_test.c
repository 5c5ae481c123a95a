/* Extend and release of a held lock, with nodes that lost the key, refuse the request, or do not know the scripts. */
#include "fake/scene.h"

#include <string.h>
#include <time.h>

#include "src/client/client.h"
#include "src/core/clock.h"

static struct answer answer;
static redlock_lock *lock;

static void five_nodes(void)
{
    scene_begin(5);
    lock = NULL;
}

/* Attaches a client and acquires a lock whose key is on every node. */
static void hold_lock(void)
{
    scene_attach();
    lock = scene_lock("stock");
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
}

static int extend(uint32_t ttl_ms)
{
    scene_start_extend(&answer, lock, ttl_ms);
    return scene_wait(&answer);
}

static int release(void)
{
    return scene_release(&answer, &lock);
}

static void refuse(unsigned nodes, const char *command, const char *error)
{
    for (unsigned i = 0; i < nodes; i++)
        fake_server_refuse(scene.node[i], command, 0, error);
}

static void forget_key(unsigned nodes)
{
    for (unsigned i = 0; i < nodes; i++)
        fake_server_delete_key(scene.node[i], "stock");
}

/* --- Extend --- */

START_TEST(an_extension_without_a_ttl_takes_the_locks)
{
    hold_lock();
    ck_assert_status(extend(0), REDLOCK_OK);
    scene_wait_for_sent(0, SENT_EXTEND, 1);
    ck_assert_str_eq(scene_sent(0, SENT_EXTEND, NULL, 0, NULL)->command->argv[5].data, "60000");
}
END_TEST

START_TEST(extension_lengthens_on_every_node_and_never_shortens)
{
    hold_lock();
    ck_assert_status(extend(120000), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.attempts, 1);
    ck_assert_status(extend(1000), REDLOCK_OK);
    ck_assert_int_gt(redlock_validity_ms(lock), 110000);
    ck_assert_int_gt(answer.result.validity_ms, 110000);
    for (unsigned i = 0; i < 5; i++) {
        scene_wait_for_sent(i, SENT_EXTEND, 2);
        ck_assert_int_gt(fake_server_pttl(scene.node[i], "stock"), 110000);
    }
}
END_TEST

START_TEST(a_majority_that_forgot_is_a_loss)
{
    hold_lock();
    forget_key(3);
    ck_assert_status(extend(120000), REDLOCK_LOST);
    ck_assert_uint_eq(answer.result.absent, 3);
    ck_assert_int_eq(answer.result.validity_ms, 0);
    ck_assert_int_eq(redlock_validity_ms(lock), 0);
    ck_assert(!redlock_held_by_me(scene.client, "stock", 0));
    ck_assert_status(extend(120000), REDLOCK_LOST); /* the loss is final */
    ck_assert_status(release(), REDLOCK_LOST);
}
END_TEST

START_TEST(keys_of_another_holder_are_a_loss_and_stay)
{
    hold_lock();
    for (unsigned i = 0; i < 3; i++) {
        fake_server_delete_key(scene.node[i], "stock");
        scene_hold(i, "stock");
    }
    ck_assert_status(extend(120000), REDLOCK_LOST);
    ck_assert_status(release(), REDLOCK_LOST);
    for (unsigned i = 0; i < 3; i++)
        ck_assert(scene_has_key(i, "stock"));
}
END_TEST

/* The lock stays valid until its previous end. */
START_TEST(an_extension_that_fails_does_not_end_the_lock)
{
    hold_lock();
    refuse(3, "EVALSHA", _i ? FAKE_NOPERM : FAKE_OOM);
    ck_assert_status(extend(120000), _i ? REDLOCK_MISCONFIGURED : REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.refused, 3);
    ck_assert_int_gt(redlock_validity_ms(lock), 50000);
    ck_assert_int_lt(redlock_validity_ms(lock), 60000);
    scene_each(0, 3, fake_server_clear_rules);
    ck_assert_status(extend(120000), REDLOCK_OK);
}
END_TEST

START_TEST(a_ttl_that_cannot_be_is_refused_in_words)
{
    hold_lock();
    ck_assert_status(extend(2), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "ttl_ms is 2");
    ck_assert_status(extend(UINT32_MAX), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "must be from 1 to");
    ck_assert_int_gt(redlock_validity_ms(lock), 50000);
    ck_assert_uint_eq(scene_count(0, SENT_EXTEND), 0);
}
END_TEST

START_TEST(an_expired_lock_is_lost_and_nobody_is_asked)
{
    scene.options.ttl_ms = 60;
    scene_attach();
    scene_acquire(&answer, "stock",
                  &(redlock_acquire_options){.struct_size = sizeof(redlock_acquire_options), .wait_ms = SCENE_SOON_MS});
    lock = answer.lock;
    uint64_t deadline = test_deadline_ns(SCENE_SOON_MS);
    while (redlock_held_by_me(scene.client, "stock", 0) && test_now_ns() < deadline)
        ; /* the loop does not turn: only the clock ends the validity */
    ck_assert_int_eq(redlock_validity_ms(lock), 0);
    unsigned before = scene_count(0, SENT_EXTEND);
    ck_assert_status(extend(60000), REDLOCK_LOST);
    ck_assert_uint_eq(scene_count(0, SENT_EXTEND), before);
    ck_assert_status(release(), REDLOCK_LOST);
}
END_TEST

/* --- Release --- */

START_TEST(a_release_is_told_to_every_node_and_waits_for_a_majority)
{
    hold_lock();
    scene_add_rule(0, 2, &(struct fake_rule){.command = "EVALSHA", .hold = true});
    ck_assert_status(release(), REDLOCK_OK);
    ck_assert_uint_ge(answer.result.granted, 3);
    scene_wait_for_sent_to(0, 5, SENT_UNDO, 1);
}
END_TEST

START_TEST(a_release_of_what_a_majority_forgot_is_lost)
{
    hold_lock();
    forget_key(3);
    ck_assert_status(release(), REDLOCK_LOST);
    ck_assert_ptr_null(lock);
    ck_assert_uint_eq(answer.result.absent, 3);
}
END_TEST

START_TEST(only_the_own_token_is_deleted)
{
    hold_lock();
    for (unsigned i = 0; i < 2; i++) {
        fake_server_delete_key(scene.node[i], "stock");
        scene_hold(i, "stock");
    }
    ck_assert_status(release(), REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++) {
        scene_wait_for_sent(i, SENT_UNDO, 1);
        ck_assert_int_eq(scene_has_key(i, "stock"), i < 2);
    }
}
END_TEST

/* READONLY is temporary too: a replica may become a master again. */
static const struct {
    const char *error;
    int status;
} refusals[] = {{FAKE_BUSY, REDLOCK_NO_QUORUM}, {FAKE_OOM, REDLOCK_NO_QUORUM}, {FAKE_READONLY, REDLOCK_MISCONFIGURED}};
enum { REFUSALS = sizeof refusals / sizeof *refusals };

/* No caller waits for it any more, but the client repeats the undo until the node executes it. */
START_TEST(a_release_that_was_refused_for_now_is_repeated)
{
    hold_lock();
    for (unsigned i = 0; i < 3; i++)
        fake_server_refuse(scene.node[i], "EVALSHA", 1, refusals[_i].error);
    ck_assert_status(release(), refusals[_i].status);
    ck_assert_uint_eq(answer.result.refused, 3);
    for (unsigned i = 0; i < 3; i++) {
        scene_wait_for_sent(i, SENT_UNDO, 2);
        ck_assert(!scene_has_key(i, "stock"));
    }
}
END_TEST

/* The reply to each heartbeat makes the client send the kept undos again. */
static bool owes_no_undo(void *arg)
{
    struct rl_node *node = scene.client->nodes->node;
    (void)arg;
    rl_node_beat(node);
    return rl_node_unconfirmed_undos(node) == 0;
}

START_TEST(an_undo_that_is_refused_is_given_up_when_the_key_has_ended)
{
    scene.options.ttl_ms = 300;
    scene.options.renewal_percent = 0;
    hold_lock();
    quorum_time held = rl_now();
    fake_server_refuse(scene.node[0], "EVALSHA", 0, refusals[_i].error);
    scene_start_release(&answer, &lock);
    scene_wait_for_sent(0, SENT_UNDO, 1);
    ck_assert(scene_run(owes_no_undo, NULL));
    ck_assert_uint_ge(quorum_time_since(held, rl_now()), 300 * QUORUM_MILLISECOND);
    ck_assert_uint_eq(answer.told, 1);
    ck_assert_status(scene_close(&answer), REDLOCK_OK);
}
END_TEST

START_TEST(what_a_node_says_to_a_release_is_not_put_in_other_words)
{
    hold_lock();
    fake_server_refuse(scene.node[0], "EVALSHA", 1, FAKE_BUSY);
    scene_add_rule(1, 5, &(struct fake_rule){.command = "EVALSHA", .count = 1, .hold = true});
    scene_start_release(&answer, &lock);
    scene_wait_for_sent(0, SENT_UNDO, 2); /* the client has received the refusal */
    scene_each(1, 5, fake_server_release);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_has(answer.result.node[0].text, "BUSY");
}
END_TEST

/* As release.lua is told it. */
static bool hands_over(unsigned node)
{
    const struct resp_command *command = scene_sent(node, SENT_UNDO, NULL, 0, NULL)->command;
    return strcmp(command->argv[command->argc - 1].data, "undo") != 0;
}

/* Nor do they hand the lock over then: the other nodes have served its waiters. */
START_TEST(nodes_that_are_away_are_told_when_they_are_back)
{
    hold_lock();
    for (unsigned i = 0; i < 3; i++) {
        fake_server_stop_listening(scene.node[i]);
        fake_server_drop(scene.node[i], FAKE_CLOSE);
    }
    while (scene_ready_nodes() != 2)
        ;
    ck_assert_status(release(), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.unreachable, 3);
    ck_assert_uint_eq(answer.result.kept_releases, 3);
    ck_assert_has(redlock_result_text(&answer.result), "; 3 nodes get the release when connected again");
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(scene_has_key(i, "stock"));
        fake_server_listen(scene.node[i]);
        scene_wait_for_sent(i, SENT_UNDO, 1);
        ck_assert(!scene_has_key(i, "stock"));
    }
    for (unsigned i = 0; i < 5; i++) {
        scene_wait_for_sent(i, SENT_UNDO, 1);
        ck_assert_int_eq(hands_over(i), i >= 3);
    }
}
END_TEST

static void pause_majority(void)
{
    for (unsigned i = 0; i < 3; i++)
        scene.suffix[i] = "?timeout_ms=30";
    hold_lock();
    scene_each(0, 3, fake_server_pause);
}

static bool are_overdue(void *arg)
{
    (void)arg;
    return scene.client->nodes->node[0].statistics.timeouts && scene.client->nodes->node[1].statistics.timeouts &&
           scene.client->nodes->node[2].statistics.timeouts;
}

/* A request that is on its way is not lost. */
START_TEST(a_release_waits_for_nodes_that_are_late)
{
    pause_majority();
    scene_start_release(&answer, &lock);
    ck_assert(scene_run(are_overdue, NULL));
    ck_assert_uint_eq(answer.told, 0);
    scene_each(0, 3, fake_server_resume);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++) {
        scene_wait_for_sent(i, SENT_UNDO, 1);
        ck_assert_uint_eq(fake_server_accepted(scene.node[i]), 1);
    }
}
END_TEST

START_TEST(a_release_does_not_wait_for_a_late_minority)
{
    scene.suffix[0] = "?timeout_ms=30";
    hold_lock();
    fake_server_pause(scene.node[0]);
    scene_start_release_token(&answer, "other", redlock_lock_token(lock));
    ck_assert_status(scene_wait(&answer), REDLOCK_LOST);
    ck_assert_int_eq(answer.result.node[0].outcome, REDLOCK_NODE_TIMED_OUT);
    fake_server_resume(scene.node[0]);
    ck_assert_status(release(), REDLOCK_OK);
}
END_TEST

/* The host blocks the loop: the library's timers expire meanwhile, and nothing runs that could be awaited. */
static void stall_loop(unsigned ms)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000L};
    nanosleep(&pause, NULL);
}

/* Also if the loop was blocked, and the node's timeout and the silence limit expire in one turn. */
START_TEST(a_release_gives_up_silent_nodes_and_is_sent_again_on_the_next_connection)
{
    scene.options.silence_limit_ms = 200;
    pause_majority();
    scene_start_release(&answer, &lock);
    scene_turn();
    stall_loop(_i ? 300 : 0);
    ck_assert_status(scene_wait(&answer), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.timed_out, 3);
    for (unsigned i = 0; i < 3; i++) {
        fake_server_resume(scene.node[i]);
        scene_wait_for_sent(i, SENT_UNDO, 1);
        ck_assert(!scene_has_key(i, "stock"));
    }
}
END_TEST

/* The key has expired by then, so no confirmation is needed. */
START_TEST(a_release_waits_no_longer_than_the_key_lives)
{
    scene.options.ttl_ms = 300;
    scene.options.renewal_percent = 0;
    scene.options.silence_limit_ms = 60000;
    pause_majority();
    ck_assert_status(release(), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.timed_out, 3);
    scene_each(0, 3, fake_server_resume);
}
END_TEST

START_TEST(a_release_needs_no_callback)
{
    hold_lock();
    ck_assert_status(redlock_release_async(&lock, NULL, NULL), REDLOCK_OK);
    ck_assert_ptr_null(lock);
    for (unsigned i = 0; i < 5; i++) {
        scene_wait_for_sent(i, SENT_UNDO, 1);
        ck_assert(!scene_has_key(i, "stock"));
    }
}
END_TEST

/* The reply to the extension arrives after the release has ended the handle. */
START_TEST(extend_and_release_at_once)
{
    struct answer extended;
    hold_lock();
    scene_start_extend(&extended, lock, 120000);
    scene_start_release(&answer, &lock);
    scene_wait(&extended);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++) {
        unsigned extend_at, undo_at;
        scene_wait_for_sent(i, SENT_UNDO, 1);
        ck_assert_ptr_nonnull(scene_sent(i, SENT_EXTEND, NULL, 0, &extend_at));
        scene_sent(i, SENT_UNDO, NULL, 0, &undo_at);
        ck_assert_uint_lt(extend_at, undo_at);
    }
}
END_TEST

/* The inner acquire waits for an extension while the outer handle is released. No lock is left that they could
 * share. */
START_TEST(taken_again_and_released_at_once)
{
    struct answer again;
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.owner = &answer;
    scene_attach();
    ck_assert_status(scene_acquire(&answer, "stock", &options), REDLOCK_OK);
    options.ttl_ms = 120000;
    scene_start_acquire(&again, "stock", &options);
    scene_start_release(&answer, &answer.lock);
    ck_assert_status(scene_wait(&again), REDLOCK_LOST);
    ck_assert_ptr_null(again.lock);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
}
END_TEST

/* --- Nodes that do not know the scripts --- */

static void forget_scripts(void)
{
    for (unsigned i = 0; i < 5; i++)
        fake_server_forget_scripts(scene.node[i]);
}

static void assert_asked_twice(unsigned node, enum sent what)
{
    scene_wait_for_sent(node, what, 2);
    ck_assert_str_eq(scene_sent(node, what, NULL, 0, NULL)->command->argv[0].data, "EVALSHA");
    ck_assert_str_eq(scene_sent(node, what, NULL, 1, NULL)->command->argv[0].data, "EVAL");
}

START_TEST(a_release_falls_back_to_the_whole_script)
{
    hold_lock();
    forget_scripts();
    ck_assert_status(release(), REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++) {
        assert_asked_twice(i, SENT_UNDO);
        ck_assert(!scene_has_key(i, "stock"));
    }
}
END_TEST

START_TEST(an_extension_falls_back_to_the_whole_script)
{
    hold_lock();
    forget_scripts();
    ck_assert_status(extend(120000), REDLOCK_OK);
    unsigned extended = 0;
    for (unsigned i = 0; i < 5; i++) {
        if (scene_count(i, SENT_EXTEND) < 2)
            continue; /* it replied when the extension was decided; a decided extension is not sent again */
        assert_asked_twice(i, SENT_EXTEND);
        ck_assert_int_gt(fake_server_pttl(scene.node[i], "stock"), 110000);
        extended++;
    }
    ck_assert_uint_ge(extended, 3);
}
END_TEST

START_TEST(a_query_falls_back_to_the_whole_script)
{
    hold_lock();
    forget_scripts();
    scene_start_query(&answer, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_uint_eq(answer.state.locked_nodes, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_asked_twice(i, SENT_QUERY);
}
END_TEST

/* A script whose text is sent again goes behind everything sent meanwhile. Its undo goes behind that. */
START_TEST(the_fallback_of_an_undo_stays_the_last_word)
{
    struct answer extended;
    hold_lock();
    forget_scripts();
    scene_start_extend(&extended, lock, 120000);
    scene_start_release(&answer, &lock);
    scene_wait(&extended);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++) {
        unsigned extend_at = 0, undo_at;
        assert_asked_twice(i, SENT_UNDO);
        scene_sent(i, SENT_EXTEND, NULL, 1, &extend_at); /* absent if the extension was decided by then */
        scene_sent(i, SENT_UNDO, NULL, 1, &undo_at);
        ck_assert_uint_gt(undo_at, extend_at);
        ck_assert(!scene_has_key(i, "stock"));
    }
}
END_TEST

START_TEST(the_undo_of_a_lost_attempt_falls_back_too)
{
    scene_attach();
    forget_scripts();
    refuse(3, "SET", FAKE_LOADING);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    for (unsigned i = 3; i < 5; i++) {
        assert_asked_twice(i, SENT_UNDO);
        scene_assert_undone(i);
        ck_assert(!scene_has_key(i, "stock"));
    }
}
END_TEST

/* A node that replies NOSCRIPT even to EVAL must not be sent the request indefinitely. */
START_TEST(a_node_that_never_knows_a_script_has_refused)
{
    hold_lock();
    for (unsigned i = 0; i < 3; i++) {
        fake_server_refuse(scene.node[i], "EVALSHA", 0, FAKE_NOSCRIPT);
        fake_server_refuse(scene.node[i], "EVAL", 0, FAKE_NOSCRIPT);
    }
    ck_assert_status(extend(120000), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.refused, 3);
    ck_assert_uint_eq(scene_count(0, SENT_EXTEND), 2);
    ck_assert_status(release(), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.refused, 3);
    ck_assert_uint_le(scene_count(0, SENT_UNDO), 4); /* two for the release, and up to two at a heartbeat */
}
END_TEST

static void add_extend(TCase *tcase)
{
    tcase_add_test(tcase, an_extension_without_a_ttl_takes_the_locks);
    tcase_add_test(tcase, extension_lengthens_on_every_node_and_never_shortens);
    tcase_add_test(tcase, a_majority_that_forgot_is_a_loss);
    tcase_add_test(tcase, keys_of_another_holder_are_a_loss_and_stay);
    tcase_add_loop_test(tcase, an_extension_that_fails_does_not_end_the_lock, 0, 2);
    tcase_add_test(tcase, a_ttl_that_cannot_be_is_refused_in_words);
    tcase_add_test(tcase, an_expired_lock_is_lost_and_nobody_is_asked);
}

static void add_release(TCase *tcase)
{
    tcase_add_test(tcase, a_release_is_told_to_every_node_and_waits_for_a_majority);
    tcase_add_test(tcase, a_release_of_what_a_majority_forgot_is_lost);
    tcase_add_test(tcase, only_the_own_token_is_deleted);
    tcase_add_loop_test(tcase, a_release_that_was_refused_for_now_is_repeated, 0, REFUSALS);
    tcase_add_loop_test(tcase, an_undo_that_is_refused_is_given_up_when_the_key_has_ended, 0, REFUSALS);
    tcase_add_test(tcase, what_a_node_says_to_a_release_is_not_put_in_other_words);
    tcase_add_test(tcase, nodes_that_are_away_are_told_when_they_are_back);
    tcase_add_test(tcase, a_release_waits_for_nodes_that_are_late);
    tcase_add_test(tcase, a_release_does_not_wait_for_a_late_minority);
    tcase_add_loop_test(tcase, a_release_gives_up_silent_nodes_and_is_sent_again_on_the_next_connection, 0, 2);
    tcase_add_test(tcase, a_release_waits_no_longer_than_the_key_lives);
    tcase_add_test(tcase, a_release_needs_no_callback);
    tcase_add_test(tcase, extend_and_release_at_once);
    tcase_add_test(tcase, taken_again_and_released_at_once);
}

static void add_noscript(TCase *tcase)
{
    tcase_add_test(tcase, a_release_falls_back_to_the_whole_script);
    tcase_add_test(tcase, an_extension_falls_back_to_the_whole_script);
    tcase_add_test(tcase, a_query_falls_back_to_the_whole_script);
    tcase_add_test(tcase, the_fallback_of_an_undo_stays_the_last_word);
    tcase_add_test(tcase, the_undo_of_a_lost_attempt_falls_back_too);
    tcase_add_test(tcase, a_node_that_never_knows_a_script_has_refused);
}

int main(void)
{
    Suite *suite = suite_create("locks that are held");
    add_extend(scene_case(suite, "extend", five_nodes));
    add_release(scene_case(suite, "release", five_nodes));
    add_noscript(scene_case(suite, "noscript", five_nodes));
    return run_suite(suite);
}
