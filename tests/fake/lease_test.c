/* Extend and release of a held lock, with nodes that lost the key, refuse the request, or do not know the scripts. */
#include "fake/scene.h"

#include "src/client/client.h"
#include "src/core/timer.h"
#include "src/node/script.h"

static struct answer answer;
static redlock_lock *lock;

/* Attaches a client and acquires a lock whose key is on every node. */
static void hold_lock(void)
{
    scene_attach();
    lock = scene_lock("stock");
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
}

/* The first three nodes lose the key. */
static void lose_majority(bool to_another_holder)
{
    for (unsigned i = 0; i < 3; i++) {
        fake_server_delete_key(scene.node[i], "stock");
        if (to_another_holder)
            scene_hold(i, "stock");
    }
}

/* The undos that the client keeps for the first node. Has a heartbeat sent there, whose reply makes the client send them
 * again. */
static unsigned owed_undos(void)
{
    rl_node_beat(scene.client->nodes->node);
    return rl_node_unconfirmed_undos(scene.client->nodes->node);
}

/* Each node has received the undo, and has no key. */
static void assert_released(unsigned first, unsigned end)
{
    scene_wait_for_sent_to(first, end, SENT_UNDO, 1);
    scene_wait_for_no_key(first, end, "stock");
}

/* --- Extend --- */

SCENE_CASE(extend, scene_five_nodes);

/* An extension without a ttl takes the lock's, which is that of the longest before. */
TEST(extend, extension_lengthens_on_every_node_and_never_shortens)
{
    static const uint32_t ttls[] = {0, 120000, 1000, 0};
    static const char *const sent[] = {"60000", "120000", "1000", "120000"};
    hold_lock();
    for (unsigned i = 0; i < ROWS(ttls); i++) {
        ck_assert_status(scene_wait(scene_start_extend(&answer, lock, ttls[i])), REDLOCK_OK);
        ck_assert_uint_eq(answer.result.attempts, 1);
        ck_assert_int_gt(redlock_validity_ms(lock), i ? 110000 : 50000);
        ck_assert_int_eq(answer.result.validity_ms > 110000, i > 0);
        scene_wait_for_sent_to(0, 5, SENT_EXTEND, i + 1);
        ck_assert_str_eq(scene_sent(0, SENT_EXTEND, NULL, i, NULL)->command->argv[5].data, sent[i]);
        for (unsigned node = 0; node < 5 && i > 0; node++)
            ck_assert_int_gt(fake_server_pttl(scene.node[node], "stock"), 110000);
    }
}

enum { FREE, ANOTHER_HAS_IT, PASSED_ON };

/* Where the token was read, another process may have adopted the lock, and may still hold it. */
TEST_ROWS(extend, majority_without_the_key_is_a_loss_and_undone_unless_the_token_was_passed_on, PASSED_ON + 1)
{
    hold_lock();
    if (_i == PASSED_ON)
        ck_assert_uint_eq(strcspn(redlock_lock_token(lock), "/"), 40);
    lose_majority(_i == ANOTHER_HAS_IT);
    ck_assert_status(scene_wait(scene_start_extend(&answer, lock, 120000)), REDLOCK_LOST);
    ck_assert_uint_eq(answer.result.absent, 3);
    ck_assert_int_eq(answer.result.validity_ms, 0);
    ck_assert_int_eq(redlock_validity_ms(lock), 0);
    ck_assert(scene_is_logged("lock on stock lost: ") && !redlock_held_by_me(scene.client, "stock", 0));
    ck_assert_status(scene_wait(scene_start_extend(&answer, lock, 120000)), REDLOCK_LOST); /* the loss is final */
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_LOST);
    scene_assert_key(0, 3, "stock", _i == ANOTHER_HAS_IT); /* another holder's key stays */
    if (_i != PASSED_ON) {
        assert_released(3, 5);
        return;
    }
    scene_start_query(&answer, "stock"); /* an undo would have been sent before */
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    scene_wait_for_sent_to(0, 5, SENT_QUERY, 1);
    ck_assert_uint_eq(scene_count_all(SENT_UNDO), 0);
    scene_assert_key(3, 5, "stock", true);
    scene_each(3, 5, fake_server_forget_keys);
}

enum { HEALED, HEALED_AND_CONFIRMED };

/* Another process releases the lock by its token. Its requests reach two nodes before the holder's renewal, which heals
 * them, and the others after it. A lock that was confirmed since is a lock on nodes that forgot: its keys stay. */
TEST_ROWS(extend, nodes_that_are_healed_while_the_lock_is_released_by_its_token_are_undone, HEALED_AND_CONFIRMED + 1)
{
    hold_lock();
    ck_assert_uint_eq(strcspn(redlock_lock_token(lock), "/"), 40);
    scene_each(3, 5, fake_server_forget_keys);
    ck_assert_status(scene_wait(scene_start_extend(&answer, lock, 0)), REDLOCK_OK);
    scene_until(scene_has_key(3, "stock") && scene_has_key(4, "stock"));
    scene_until(scene_statistics().healed == 2);
    if (_i == HEALED_AND_CONFIRMED)
        ck_assert_status(scene_wait(scene_start_extend(&answer, lock, 0)), REDLOCK_OK);
    lose_majority(false);
    ck_assert_status(scene_wait(scene_start_extend(&answer, lock, 0)), REDLOCK_LOST);
    if (_i == HEALED) {
        assert_released(3, 5);
    } else {
        ck_assert_status(scene_wait(scene_start_query(&answer, "stock")), REDLOCK_OK);
        scene_wait_for_sent_to(3, 5, SENT_QUERY, 1);
        scene_assert_key(3, 5, "stock", true);
        scene_each(3, 5, fake_server_forget_keys);
    }
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_LOST);
    ck_assert_uint_eq(scene_count(3, SENT_UNDO) + scene_count(4, SENT_UNDO), _i == HEALED ? 2 : 0);
}

/* The loop has not turned since: only the clock has ended the validity. */
TEST(extend, extension_of_an_expired_lock_sends_no_request)
{
    hold_lock();
    lock->lease->rules.validity_end = rl_now();
    lock->lease->validity_end = lock->lease->rules.validity_end;
    ck_assert_int_eq(redlock_validity_ms(lock), 0);
    ck_assert(!redlock_held_by_me(scene.client, "stock", 0));
    ck_assert_status(scene_wait(scene_start_extend(&answer, lock, 60000)), REDLOCK_LOST);
    ck_assert_uint_eq(scene_count_all(SENT_EXTEND), 0);
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_LOST);
}

/* --- Release --- */

SCENE_CASE(release, scene_five_nodes);

/* READONLY is temporary too: a replica may become a master again. */
static const struct {
    const char *error, *word;
    int status;
} refusals[] = {{FAKE_BUSY, "BUSY", REDLOCK_NO_QUORUM},
                {FAKE_OOM, "OOM", REDLOCK_NO_QUORUM},
                {FAKE_READONLY, "READONLY", REDLOCK_MISCONFIGURED}};

/* No caller waits for it any more, but the client repeats the undo until the node executes it. */
TEST_ROWS(release, release_that_met_a_passing_error_is_repeated, ROWS(refusals))
{
    hold_lock();
    scene_refuse(0, 3, "EVALSHA", 1, refusals[_i].error);
    ck_assert_status(scene_release(&answer, &lock), refusals[_i].status);
    ck_assert_uint_eq(answer.result.refused, 3);
    ck_assert_has(answer.result.node[0].text, refusals[_i].word);
    scene_wait_for_sent_to(0, 3, SENT_UNDO, 2);
    ck_assert_str_eq(scene_sent(0, SENT_UNDO, NULL, 1, NULL)->command->argv[2].data,
                     "4"); /* keys, those of waiters too */
    assert_released(0, 5);
}

TEST_ROWS(release, an_undo_that_is_refused_is_given_up_when_the_key_has_ended, ROWS(refusals))
{
    scene.keys_may_stay = true; /* the key itself has a longer ttl */
    hold_lock();
    lock->lease->ttl_ms = 300;
    quorum_time held = rl_now();
    scene_refuse(0, 1, "EVALSHA", 0, refusals[_i].error);
    scene_start_release(&answer, &lock);
    scene_wait_for_sent(0, SENT_UNDO, 1);
    scene_until(owed_undos() == 0);
    ck_assert_uint_ge(quorum_time_since(held, rl_now()), 300 * QUORUM_MILLISECOND);
    scene_until(answer.callbacks == 1);
    ck_assert_status(scene_close(&answer), REDLOCK_OK);
}

enum { EXTENDED_IN_VAIN, ADOPTED, BY_TOKEN };

/* The key's ttl may be that of an extension that failed, or that another process has set: any up to max_ttl. */
TEST_ROWS(release, an_undo_is_repeated_for_as_long_as_the_key_may_exist, BY_TOKEN + 1)
{
    scene.options.max_ttl_ms = 60000;
    scene.options.ttl_ms = _i == BY_TOKEN ? 300 : 20000;
    scene.options.renewal_percent = 0;
    if (_i == EXTENDED_IN_VAIN) {
        hold_lock();
        lock->lease->ttl_ms = 300;
        scene_refuse(1, 4, "EVALSHA", 1, FAKE_BUSY);
        ck_assert_status(scene_wait(scene_start_extend(&answer, lock, 60000)), REDLOCK_NO_QUORUM);
    } else {
        scene_attach();
        scene_hold_on(0, 5, "stock");
    }
    if (_i == ADOPTED) {
        ck_assert_status(scene_wait(scene_start_adopt(&answer, "stock", NULL, SCENE_OTHER)), REDLOCK_OK);
        lock = answer.lock;
        ck_assert_uint_eq(lock->lease->ttl_ms, 60000);
    }
    scene_refuse(0, 1, "EVALSHA", 0, FAKE_BUSY);
    if (_i == BY_TOKEN)
        scene_start_release_token(&answer, "stock", SCENE_OTHER);
    else
        scene_start_release(&answer, &lock);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    quorum_time end = rl_now() + 500 * QUORUM_MILLISECOND;
    scene_until(owed_undos() == 0 || rl_now() > end);
    scene_calm(0, 1);
    scene_until(owed_undos() == 0);
    scene_assert_key(0, 5, "stock", false);
}

/* Nor do they hand the lock over then: the other nodes have served its waiters. One has been restarted meanwhile, with its
 * data: the undo belongs to the node, not to the process. */
TEST(release, release_reaches_nodes_that_come_back)
{
    hold_lock();
    scene_cut_off(0, 3);
    fake_server_set_info(scene.node[0], "run_id", "another");
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.unreachable, 3);
    ck_assert_str_ne(answer.result.node[0].text, "not connected"); /* but why */
    ck_assert_uint_eq(answer.result.kept_releases, 3);
    ck_assert_has(redlock_result_text(&answer.result), "; 3 nodes get the release when connected again");
    scene_assert_key(0, 3, "stock", true);
    scene_each(0, 3, fake_server_listen);
    assert_released(0, 5);
    for (unsigned i = 0; i < 3; i++) {
        const struct resp_command *undo = scene_sent(i, SENT_UNDO, NULL, 0, NULL)->command;
        ck_assert_str_eq(undo->argv[undo->argc - 1].data, "undo");
    }
}

/* Some locks are at a higher address than later ones: they take more memory, or a later one that of an earlier one. */
TEST(release, each_of_many_locks_is_found_until_its_release)
{
    enum { LARGE = 40, LOCKS = 100 };
    static struct answer answers[LOCKS];
    char longer[512];
    const redlock_name also = {longer, 0};
    scene_attach();
    for (unsigned i = 0; i < LOCKS; i++) {
        snprintf(longer, sizeof longer, "%0*u", 500, i);
        scene_acquire(&answers[i], scene_name(i), SCENE_WITH(.also = &also, .also_count = i > 0 && i < LARGE));
        ck_assert(i < LARGE || scene.client->locks.leases.bucket_count > 64); /* it grows with their resources */
        if (i >= LARGE && i < 2 * LARGE)
            ck_assert_status(scene_release(&answer, &answers[i - LARGE].lock), REDLOCK_OK);
    }
    for (unsigned i = LARGE; i < LOCKS; i++)
        ck_assert(redlock_held_by_me(scene.client, scene_name(i), 0));
}

/* The first three nodes hang, and the release is sent. */
static void release_while_a_majority_hangs(void)
{
    hold_lock();
    scene_wait_for_replies(0, 5);
    scene_each(0, 3, fake_server_pause);
    scene_start_release(&answer, &lock);
}

/* Also if the loop was blocked, and the node's timeout and the silence limit expire in one turn. */
TEST_ROWS(release, a_release_gives_up_silent_nodes_and_is_sent_again_on_the_next_connection, 2)
{
    release_while_a_majority_hangs();
    scene_turn();
    if (_i == 0)
        scene_time_out(0, 3);
    for (unsigned i = 0; i < 3; i++) { /* as if the nodes had been silent since the machine started */
        struct rl_flight *flight = &scene.client->nodes->node[i].flight;
        flight->heard = flight->sent.first->sent = 0;
        rl_timer_set(&scene.client->core.timers, &flight->timer, rl_now());
    }
    ck_assert_status(scene_wait(&answer), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.timed_out, 3);
    scene_each(0, 3, fake_server_resume);
    assert_released(0, 3);
}

/* The key has expired by then, so no confirmation is needed. */
TEST(release, a_release_waits_no_longer_than_the_key_lives)
{
    release_while_a_majority_hangs();
    scene_time_out(0, 3);
    struct rl_timer *timer = &scene.client->operations.first->timer;
    ck_assert(timer->set && timer->due <= rl_now() + 61 * QUORUM_SECOND);
    rl_timer_set(&scene.client->core.timers, timer, rl_now()); /* as if it had been a minute */
    ck_assert_status(scene_wait(&answer), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.timed_out, 3);
}

/* --- Nodes that do not know the scripts --- */

SCENE_CASE(noscript, scene_five_nodes);

/* Behind the release its text would prolong what the release leaves until the end of at_least_ms. */
TEST(noscript, extension_is_not_sent_again_behind_a_release_that_keeps_the_lock)
{
    enum { AT_LEAST_MS = 20000 };
    struct answer extended;
    scene_attach();
    ck_assert_status(scene_acquire(&answer, "stock", SCENE_WITH(.at_least_ms = AT_LEAST_MS)), REDLOCK_OK);
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
    const struct fake_rule rule = {
        .command = "EVALSHA", .argument = rl_scripts[RL_SCRIPT_EXTEND].sha1, .skip = true, .reply = FAKE_NOSCRIPT};
    scene_add_rule(0, 5, &rule);
    scene_start_extend(&extended, answer.lock, 120000);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    double rest_s = 0;
    const char *text = strstr(answer.result.text, "no other client gets the lock for another ");
    ck_assert_msg(text && sscanf(text, "%*[^0-9]%lf s (at_least_ms)", &rest_s) == 1, "%s", answer.result.text);
    ck_assert(rest_s > 0 && rest_s * 1000 <= AT_LEAST_MS + 1000); /* and its drift */
    scene_wait(&extended);
    for (unsigned i = 0; i < 2; i++) { /* each node's reply to the extension comes before the first query's */
        ck_assert_status(scene_wait(scene_start_query(&answer, "stock")), REDLOCK_OK);
        ck_assert_uint_eq(answer.state.locked_nodes, 5);
    }
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_uint_eq(scene_count(i, SENT_EXTEND), 1);
        ck_assert_int_le(fake_server_pttl(scene.node[i], "stock"), AT_LEAST_MS + 1000); /* and its drift */
    }
    scene.keys_may_stay = true;
}

TEST(noscript, acquire_is_not_sent_again_behind_its_undo)
{
    const struct fake_rule rule = {.command = "EVALSHA",
                                   .argument = rl_scripts[RL_SCRIPT_GRANT].sha1,
                                   .skip = true,
                                   .hold = true,
                                   .reply = FAKE_NOSCRIPT};
    unsigned used = 0;
    scene_attach();
    for (unsigned i = 0; i < 5; i++)
        used = fake_server_add_rule(scene.node[i], &rule);
    scene_start_acquire(&answer, "stock", SCENE_WITH(.fence = 1, .cancellation = scene_cancellation()));
    for (unsigned i = 0; i < 5; i++)
        scene_until(fake_server_rule_used(scene.node[i], used) == 1);
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    scene_each(0, 5, fake_server_release);
    assert_released(0, 5);
    for (unsigned i = 0; i < 2; i++) { /* each node's reply to the acquire comes before the first query's */
        ck_assert_status(scene_wait(scene_start_query(&answer, "stock")), REDLOCK_OK);
        ck_assert_uint_eq(answer.state.locked_nodes, 0);
    }
    ck_assert(scene_is_logged("undo stock\n") && !scene_is_logged("undo stock\nundo stock"));
}

/* A node that replies NOSCRIPT even to EVAL must not be sent the request indefinitely. */
TEST(noscript, a_node_that_never_knows_a_script_has_refused)
{
    hold_lock();
    scene_refuse(0, 3, "EVALSHA", 0, FAKE_NOSCRIPT);
    scene_refuse(0, 3, "EVAL", 0, FAKE_NOSCRIPT);
    ck_assert_status(scene_wait(scene_start_extend(&answer, lock, 120000)), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.refused, 3);
    ck_assert_uint_eq(scene_count(0, SENT_EXTEND), 2);
    quorum_time start = rl_now();
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.refused, 3);
    quorum_time heartbeats = 1 + quorum_time_since(start, rl_now()) / QUORUM_SECOND;
    ck_assert_uint_le(scene_count(0, SENT_UNDO), 2 + 2 * heartbeats); /* two for the release, two at each heartbeat */
}

TEST_PROGRAM("locks that are held")
