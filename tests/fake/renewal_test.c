/* Renewals. The client renews many locks at once on one node after the other, so that most nodes are free for other
 * requests, but no lock expires because of that. */
#include "fake/scene.h"

#include "quorum/validity.h"
#include "src/client/client.h"
#include "src/core/timer.h"
#include "src/node/script.h"

enum {
    LOCKS = 100,
    MANY = 16,
    TTL_MS = 600000,
    PATIENCE_MS =
        30000 /* no reply takes longer on a busy machine; five times it is less than half of the ttl: one node after the other */
};

static struct answer answers[LOCKS], held, answer;

static void five_nodes(void)
{
    scene_begin(5);
    scene.options.ttl_ms = TTL_MS;
    scene.options.node_timeout_ms = PATIENCE_MS;
}

static struct rl_flight *flight_of(unsigned node)
{
    return &scene.client->nodes->node[node].flight;
}

static void hold_many(void)
{
    scene.keys_may_stay = true; /* a busy machine may not confirm so many undos in time */
    scene_attach();
    scene_start_acquires(answers, LOCKS, REDLOCK_WAIT_MS(SCENE_SOON_MS));
    for (unsigned i = 0; i < LOCKS; i++)
        ck_assert_status(scene_wait(&answers[i]), REDLOCK_OK);
    scene_wait_for_replies(0, 5);
}

/* Acquires "stock" on every node. NULL: the defaults. */
static void hold_one(const redlock_acquire_options *options)
{
    redlock_acquire_options waiting = options ? *options : *SCENE_WITH(.wait_ms = 0);
    waiting.wait_ms = SCENE_SOON_MS;
    scene_attach();
    ck_assert_status(scene_acquire(&held, "stock", &waiting), REDLOCK_OK);
    scene_wait_for_replies(0, 5);
}

/* By themselves the locks would be due minutes later. The nodes' timeouts are reset to the configured value, because a
 * busy machine has raised them. */
static void make_all_due(void)
{
    const struct quorum_lease_event now = {.type = QUORUM_LEASE_HASTEN, .now = rl_now()};
    for (unsigned i = 0; i < scene.nodes; i++)
        flight_of(i)->round_trip = (struct quorum_round_trip){0};
    for (struct rl_lease *lease = scene.client->locks.leases.first; lease; lease = lease->links.next)
        rl_lease_step(lease, &now);
}

/* --- Many locks --- */

/* Has the node received the command that renews this lock with others? */
static bool is_renewed_on(unsigned node, unsigned lock)
{
    const struct fake_record *record;
    for (unsigned at = 0; (record = scene_sent(node, SENT_EXTEND, NULL, at, NULL)) != NULL; at++)
        for (size_t i = 0; record->command->argc > 3 * (size_t)MANY && i < record->command->argc; i++)
            if (resp_argument_is(&record->command->argv[i], scene_name(lock)))
                return true;
    return false;
}

static unsigned renewing_nodes(unsigned lock)
{
    unsigned count = 0;
    for (unsigned node = 0; node < scene.nodes; node++)
        count += is_renewed_on(node, lock);
    return count;
}

static void assert_all_are_renewed(void)
{
    scene_until(scene_statistics().renewed >= LOCKS);
    for (unsigned i = 0; i < LOCKS; i++) /* they share wake-ups */
        scene_until(redlock_validity_ms(answers[i].lock) > 0 &&
                    answers[i].lock->lease->timer.due % (5 * QUORUM_MILLISECOND) == 0);
}

SCENE_CASE(in_turn, five_nodes);

/* Each answer of a node lets the next one get the renewal: a reply, a timeout, and the end of the connection. */
TEST(in_turn, node_is_renewed_when_the_one_before_has_answered)
{
    hold_many();
    scene_hold_replies(0, 5, "EVALSHA");
    scene.client->locks.renewal_turn = 0; /* the two commands begin on the first two nodes */
    make_all_due();
    scene_until(renewing_nodes(0) == 1);
    scene_idle(20);
    for (unsigned count = 1, node = is_renewed_on(1, 0); count < 5; count++, node = (node + 1) % 5) {
        ck_assert_uint_eq(renewing_nodes(0), count);
        if (count == 2)
            scene_time_out(node, node + 1);
        else if (count == 3)
            fake_server_drop(scene.node[node], FAKE_RESET);
        else
            fake_server_release(scene.node[node]);
        scene_until(renewing_nodes(0) > count);
    }
    scene_calm(0, 5);
    assert_all_are_renewed();
}

/* A timeout of a node's own, or the lock that ends soon. */
static const struct {
    const char *suffix;
    unsigned lock;
} urgencies[] = {{"?timeout_ms=300000", 0}, {NULL, 0}, {NULL, LOCKS / 4}, {NULL, LOCKS - 1}};

/* Five timeouts are more than half of the validity of one lock in the command. Its place there makes no difference. */
TEST_ROWS(in_turn, all_nodes_are_renewed_at_once_when_time_is_short, ROWS(urgencies))
{
    unsigned lock = urgencies[_i].lock;
    scene.suffix[0] = urgencies[_i].suffix;
    hold_many();
    if (!urgencies[_i].suffix)
        answers[lock].lock->lease->rules.validity_end = rl_now() + 3 * PATIENCE_MS * QUORUM_MILLISECOND;
    scene_hold_replies(0, 5, "EVALSHA");
    make_all_due();
    scene_until(renewing_nodes(lock) > 0);
    for (unsigned i = 0; i < 5; i++) /* no timeout lets another node have its turn */
        flight_of(i)->patience.least = TTL_MS * QUORUM_MILLISECOND;
    scene_until(renewing_nodes(lock) == 5);
    scene_calm(0, 5);
    assert_all_are_renewed();
}

/* Nodes whose user has lost the right to one key: all, which end its lock, or one, which refuses later than the others
 * have renewed it. */
static const struct {
    unsigned first, failed;
    unsigned reply_delay_ms;
} refusals[] = {{0, 1, 0}, {4, 0, 200}};

/* The nodes refuse whole commands, and the client renews each lock of them by itself; later only that one. */
TEST_ROWS(in_turn, key_without_permission_keeps_no_other_lock_apart, ROWS(refusals))
{
    hold_many();
    scene_add_rule(
        refusals[_i].first, 5,
        &(struct fake_rule){
            .argument = "lock-50", .skip = true, .reply = FAKE_NOPERM, .reply_delay_ms = refusals[_i].reply_delay_ms});
    make_all_due();
    scene_until(scene_statistics().renewed + scene_statistics().renewals_failed == LOCKS);
    ck_assert_uint_eq(scene_statistics().renewals_failed, refusals[_i].failed);
    scene_until(answers[50].lock->lease->renewal.apart);
    scene_wait_for_replies(0, 5);
    unsigned sent = scene_count(4, SENT_EXTEND);
    make_all_due();
    scene_until(scene_statistics().renewed + scene_statistics().renewals_failed >= 2 * LOCKS);
    scene_wait_for_replies(0, 5);
    ck_assert_uint_gt(scene_count(4, SENT_EXTEND), sent);
    ck_assert_uint_lt(scene_count(4, SENT_EXTEND), sent + LOCKS / 2); /* a busy machine sends more, of fewer locks */
}

enum { BACKLOGS = 2 };

/* As if the first nodes replied in every turn, to requests from before the renewal. */
static bool keep_replying(void)
{
    for (unsigned i = 0; i < BACKLOGS; i++)
        flight_of(i)->heard = rl_now();
    return true;
}

/* Those that are due until `then`. */
static void make_timers_due(quorum_time then)
{
    struct rl_timers *timers = &scene.client->core.timers;
    quorum_time now = rl_now();
    for (unsigned i = 0; i < RL_TIMER_LISTS; i++)
        for (struct rl_timer *next, *timer = timers->list[i]; timer; timer = next) {
            next = timer->next;
            rl_timer_set(timers, timer, timer->due <= then && timer->due > now ? now : timer->due);
        }
}

/* As long as a node keeps replying, its timeout does not pass: without a limit, the first node would hold up the
 * renewal until the locks have ended. The timers fire as if half of the validity had passed. */
TEST(in_turn, nodes_with_backlog_hold_up_renewal_for_half_of_validity_at_most)
{
    hold_many();
    scene_hold_replies(0, BACKLOGS, "EVALSHA");
    scene.client->locks.renewal_turn = 0;
    make_all_due();
    scene_until(keep_replying() && renewing_nodes(0) && renewing_nodes(LOCKS - 1));
    make_timers_due(rl_now() + TTL_MS / 2 * QUORUM_MILLISECOND);
    scene_until(keep_replying() && scene_statistics().renewed >= LOCKS);
    assert_all_are_renewed();
}

TEST(in_turn, close_stops_the_renewal_of_further_nodes)
{
    struct answer closed;
    struct test_allocator *allocator = scene_count_memory();
    hold_many();
    scene_hold_replies(0, 5, "EVALSHA");
    make_all_due();
    scene_until(renewing_nodes(0) == 1);
    scene_start_close(&closed);
    scene_calm(0, 5);
    scene_wait(&closed);
    ck_assert_uint_eq(renewing_nodes(0), 1);
    ck_assert_uint_eq(test_allocator_live(allocator), 0);
}

/* --- One lock --- */

SCENE_CASE(events, five_nodes);

static struct scene_events events; /* the close reports losses after the test, too */

/* The extension times out and is confirmed late. Its ttl counts, so re-entry with the same ttl sends no request. */
TEST(events, ttl_of_an_extension_that_is_confirmed_late_counts)
{
    hold_one(SCENE_WITH(.ttl_ms = TTL_MS / 2, .owner = &held));
    quorum_time end = held.lock->lease->rules.validity_end;
    scene_hold_replies(0, 5, "EVALSHA");
    scene_start_extend(&answer, held.lock, TTL_MS);
    scene_time_out(0, 5);
    ck_assert_status(scene_wait(&answer), REDLOCK_NO_QUORUM);
    scene_calm(0, 5);
    scene_until(held.lock->lease->rules.validity_end > end);
    ck_assert_status(scene_acquire(&answer, "stock", SCENE_WITH(.ttl_ms = TTL_MS, .owner = &held)), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.attempts, 0);
}

/* While a renewal is gathered, a node that lost its data asks for another. The first one fails as it begins. */
TEST(events, renewal_that_fails_at_once_is_followed_by_the_one_that_is_due)
{
    hold_one(NULL);
    make_all_due();
    make_all_due();
    for (unsigned i = 0; i < 5; i++)
        scene.client->nodes->node[i].findings |= REDLOCK_FINDING_REPLICA;
    scene_until(scene_statistics().renewals_failed >= 2);
    for (unsigned i = 0; i < 5; i++)
        scene.client->nodes->node[i].findings = 0;
}

/* While renewals are gathered, one lock is released, and the owner of another acquires that twice more, for longer. */
TEST(events, a_lock_that_is_released_holds_up_no_other_renewal)
{
    const char owner = 0;
    hold_one(SCENE_WITH(.owner = &owner, .cap_ms = 2 * TTL_MS));
    redlock_lock *released = scene_lock("released"); /* it is due first */
    make_all_due();
    redlock_release_async(&released, NULL, NULL, NULL);
    for (unsigned i = 0; i < 2; i++)
        scene_start_acquire(&answers[i], "stock", SCENE_WITH(.owner = &owner, .cap_ms = (3 + i) * TTL_MS));
    scene_until(scene_statistics().renewed == 1);
    redlock_release_async(&held.lock, NULL, NULL, NULL);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_status(scene_wait(&answers[i]), REDLOCK_OK);
        redlock_release_async(&answers[i].lock, NULL, NULL, NULL);
    }
}

/* The others have decided the renewal when this node's time is over. The cap is far away. */
TEST(events, node_without_the_key_is_healed_although_another_does_not_reply)
{
    hold_one(SCENE_WITH(.cap_ms = 2 * TTL_MS));
    fake_server_delete_key(scene.node[3], "stock");
    scene_hold_replies(4, 5, "EVALSHA");
    make_all_due();
    scene_until(scene_statistics().renewed == 1);
    scene_time_out(4, 5);
    scene_until(scene_has_key(3, "stock"));
    ck_assert_uint_eq(scene_statistics().renewed, 1);
    scene_calm(4, 5);
}

/* The heals of one turn share a command if they go to the same nodes. Each key is set again after the one renewal. */
TEST(events, locks_that_lack_on_different_nodes_are_healed_on_each)
{
    enum { HEALED = 4 };
    scene_attach();
    scene_start_acquires(answers, HEALED, REDLOCK_WAIT_MS(SCENE_SOON_MS));
    for (unsigned i = 0; i < HEALED; i++)
        ck_assert_status(scene_wait(&answers[i]), REDLOCK_OK);
    scene_wait_for_replies(0, 5);
    for (unsigned i = 0; i < HEALED; i++)
        fake_server_delete_key(scene.node[i], scene_name(i));
    make_all_due();
    for (unsigned i = 0; i < HEALED; i++)
        scene_until(scene_has_key(i, scene_name(i)));
    ck_assert_uint_eq(scene_statistics().renewed, HEALED);
}

TEST(events, heal_is_not_sent_again_behind_a_renewal_that_failed)
{
    const struct fake_rule rule = {
        .argument = rl_scripts[RL_SCRIPT_HEAL].sha1, .skip = true, .hold = true, .reply = FAKE_NOSCRIPT};
    hold_one(NULL);
    fake_server_delete_key(scene.node[4], "stock");
    unsigned used = fake_server_add_rule(scene.node[4], &rule);
    make_all_due();
    scene_until(fake_server_rule_used(scene.node[4], used) == 1);
    scene_refuse(0, 3, "EVALSHA", 0, FAKE_BUSY);
    make_all_due();
    scene_until(scene_statistics().renewals_failed > 0);
    fake_server_release(scene.node[4]);
    scene_until(rl_flight_is_empty(flight_of(4)));
    ck_assert(!scene_has_key(4, "stock"));
    scene_calm(0, 5);
}

/* Both happen in one turn. Only the LOST event carries the loss, the warning before it does not. */
TEST(events, warning_before_a_loss_carries_no_reason)
{
    const struct quorum_lease_event failed = {
        .type = QUORUM_LEASE_RENEWED, .now = rl_now(), .verdict = QUORUM_LOST_NO_QUORUM};
    const struct quorum_lease_event clock_stopped = {.type = QUORUM_LEASE_CLOCK, .now = rl_now()};
    events = (struct scene_events){0};
    hold_one(SCENE_WITH(.event = scene_note_event, .event_arg = &events));
    rl_lease_step(held.lock->lease, &failed);
    rl_lease_step(held.lock->lease, &clock_stopped);
    scene_until(events.count == 2);
    ck_assert_int_eq(events.event[0], REDLOCK_EVENT_RENEWAL_FAILING);
    ck_assert_int_eq(events.loss[0], REDLOCK_NOT_LOST);
    ck_assert_int_eq(events.event[1], REDLOCK_EVENT_LOST);
    ck_assert_int_eq(events.loss[1], REDLOCK_LOSS_CLOCK);
}

static redlock_result failure;

static int renewal_status(void)
{
    ck_assert_status(redlock_renewal_result(held.lock, &failure), REDLOCK_OK);
    return failure.status;
}

/* Each node of the majority fails for a different reason. */
TEST(events, failing_renewal_says_which_nodes_and_why)
{
    events = (struct scene_events){0};
    hold_one(SCENE_WITH(.event = scene_note_event, .event_arg = &events));
    ck_assert_status(renewal_status(), REDLOCK_OK); /* no renewal has failed */
    ck_assert_ptr_null(strstr(redlock_result_text(&failure), "pending"));
    scene_refuse(0, 1, "EVALSHA", 0, FAKE_LOADING);
    scene_hold_replies(1, 2, "EVALSHA");
    scene_refuse(2, 3, "EVALSHA", 0, "$1\r\n0\r\n");
    make_all_due();
    scene_wait_for_sent(1, SENT_EXTEND, 1);
    scene_time_out(1, 2);
    scene_until(events.count > 0);
    ck_assert_int_eq(events.event[0], REDLOCK_EVENT_RENEWAL_FAILING);
    ck_assert_status(renewal_status(), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(failure.attempts, 1);
    ck_assert_int_eq(failure.node[0].outcome, REDLOCK_NODE_REFUSED);
    ck_assert_has(failure.node[0].text, "LOADING");
    ck_assert_int_eq(failure.node[1].outcome, REDLOCK_NODE_TIMED_OUT);
    ck_assert_has(failure.node[1].text, "no reply within ");
    ck_assert_int_eq(failure.node[2].outcome, REDLOCK_NODE_ABSENT);
    ck_assert_has(failure.node[2].text, "the key is missing");
    ck_assert_uint_eq(failure.refused + failure.timed_out + failure.absent, 3);
    ck_assert_has(redlock_result_text(&failure), "1 absent (");
    scene_calm(0, 3);
    make_all_due();
    scene_until(renewal_status() == REDLOCK_OK);
    ck_assert_str_eq(failure.node[0].text, "");
}

/* The replies of the first renewal come after the second has failed. */
TEST(events, late_confirmation_of_older_renewal_leaves_failure_of_later_one)
{
    hold_one(NULL);
    const char *token = redlock_lock_token(held.lock);
    scene_add_rule(0, 3, &(struct fake_rule){.argument = token, .hold = true, .count = 1});
    scene_add_rule(0, 5, &(struct fake_rule){.argument = token, .first = 2, .skip = true, .reply = FAKE_LOADING});
    for (unsigned failed = 1; failed <= 2; failed++) {
        make_all_due();
        scene_wait_for_sent_to(0, 5, SENT_EXTEND, failed);
        scene_time_out(0, 3);
        scene_until(scene_statistics().renewals_failed >= failed);
    }
    scene_each(0, 3, fake_server_release);
    scene_until(scene_statistics().renewed == 1);
    ck_assert_status(renewal_status(), REDLOCK_NO_QUORUM);
    ck_assert_uint_ge(failure.refused, 2);
}

/* A round that a majority has decided sends no more requests. The key would be missing there for a third of the ttl:
 * on a node that the client connects to for the first time, and on one whose connection broke. */
TEST_ROWS(events, node_that_connects_after_the_acquire_gets_the_lock_early, 2)
{
    scene.options.ttl_ms = 10 * TTL_MS; /* the usual renewal follows too late for this test */
    if (_i == 0)
        fake_server_pause(scene.node[4]);
    (_i == 0 ? scene_attach_only : scene_attach)();
    if (_i == 1)
        scene_cut_off(4, 5);
    scene_lock("stock");
    scene_calm(4, 5);
    scene_until(scene_has_key(4, "stock"));
    ck_assert_uint_eq(scene_count(4, SENT_SET), 0);
}

/* What the fifth node does to the first command that would set the lock again there. */
static const struct {
    struct fake_rule rule;
    bool shared;
} ends_of_heals[] = {
    {{.skip = true, .silent = true, .ending = FAKE_RESET}, false},
    {{.skip = true, .silent = true, .ending = FAKE_RESET}, true},
    {{.skip = true, .hold = true}, false}, /* overdue before the connection breaks */
    {{.skip = true, .hold = true}, true},
    {{.skip = true, .reply = FAKE_LOADING}, false},
    {{.skip = true, .reply = FAKE_OOM}, true},
};

/* If the heal still counted as under way, the node would lack the lock from now on. */
TEST_ROWS(events, node_whose_heal_failed_is_healed_by_the_next_renewal, ROWS(ends_of_heals))
{
    struct fake_rule rule = ends_of_heals[_i].rule;
    hold_one(SCENE_WITH(.shared = ends_of_heals[_i].shared));
    fake_server_delete_key(scene.node[4], "stock");
    rule.argument = ends_of_heals[_i].shared ? "heal" : rl_scripts[RL_SCRIPT_HEAL].sha1;
    rule.count = 1;
    unsigned used = fake_server_add_rule(scene.node[4], &rule);
    make_all_due();
    scene_until(fake_server_rule_used(scene.node[4], used) == 1);
    if (rule.hold) {
        scene_time_out(4, 5);
        fake_server_drop(scene.node[4], FAKE_RESET);
    }
    if (!rule.reply)
        scene_wait_for_accepted(4, 2);
    scene_wait_for_ready();
    scene_wait_for_replies(0, 5);
    make_all_due();
    scene_until(scene_has_key(4, "stock"));
}

/* What the first nodes do to a downgrade, and how many of them. */
static const struct {
    struct fake_rule rule;
    unsigned nodes;
    int status;
} downgrades[] = {
    {{.skip = true, .reply = FAKE_LOADING}, 2, REDLOCK_OK},
    {{.skip = true, .reply = FAKE_LOADING}, 3, REDLOCK_NO_QUORUM},
    {{.skip = true, .silent = true, .ending = FAKE_RESET}, 3, REDLOCK_NO_QUORUM},
    {{.hold = true}, 3, REDLOCK_NO_QUORUM}, /* executed, and replied to late */
    {{.skip = true, .reply = "$1\r\n0\r\n"}, 3, REDLOCK_LOST},
};

/* The lock is a reader's from the call on, and the renewal makes it one on the nodes that missed the downgrade. No writer
 * gets in meanwhile. */
TEST_ROWS(events, a_renewal_makes_up_for_a_missed_downgrade, ROWS(downgrades))
{
    struct fake_rule rule = downgrades[_i].rule;
    const char writer = 0, reader = 0;
    hold_one(NULL);
    int64_t end = redlock_valid_until_ns(held.lock);
    rule.argument = rl_scripts[RL_SCRIPT_DOWNGRADE].sha1;
    scene_add_rule(0, downgrades[_i].nodes, &rule);
    scene_started(&answers[0], redlock_downgrade_async(held.lock, NULL, scene_completed, scene_cleared(&answers[0])));
    if (rule.hold)
        scene_time_out(0, 3);
    ck_assert_status(scene_wait(&answers[0]), downgrades[_i].status);
    if (downgrades[_i].status == REDLOCK_LOST)
        return; /* the close deletes the writer's keys */
    ck_assert_int_eq(redlock_valid_until_ns(held.lock), end);
    scene_calm(0, scene.nodes);
    scene_wait_for_ready();
    ck_assert_status(scene_acquire(&answers[1], "stock", SCENE_WITH(.owner = &writer)), REDLOCK_HELD);
    make_all_due();
    scene_until(redlock_valid_until_ns(held.lock) > end);
    ck_assert_status(
        scene_acquire(&answers[2], "stock", SCENE_WITH(.owner = &reader, .shared = 1, .wait_ms = SCENE_SOON_MS)),
        REDLOCK_OK);
    ck_assert_int_gt(redlock_validity_ms(held.lock), 0);
}

static const char owner_of_both = 0;

/* An extension finds the key of a reader on the nodes that execute it after the downgrade. A re-entry extends the
 * writer's lock first, which is a reader's when the nodes have replied. Of the two downgrades the second one finds a
 * reader's lock. */
TEST_ROWS(events, what_a_downgrade_overtook_neither_loses_nor_shares_the_lock, 2)
{
    bool reenters = _i;
    unsigned holding[3]; /* rules */
    const struct fake_rule rule = {.argument = rl_scripts[RL_SCRIPT_EXTEND].sha1,
                                   .count = 1,
                                   .hold = true,
                                   .skip = !reenters,
                                   .reply = reenters ? NULL : "$1\r\n0\r\n"};
    hold_one(SCENE_WITH(.owner = &owner_of_both));
    for (unsigned i = 0; i < ROWS(holding); i++)
        holding[i] = fake_server_add_rule(scene.node[i], &rule);
    if (reenters)
        scene_start_acquire(&answers[0], "stock", SCENE_WITH(.owner = &owner_of_both, .ttl_ms = 2 * TTL_MS));
    else
        scene_start_extend(&answers[0], held.lock, 0);
    for (unsigned i = 1; i <= 2; i++)
        scene_started(&answers[i],
                      redlock_downgrade_async(held.lock, NULL, scene_completed, scene_cleared(&answers[i])));
    for (unsigned i = 0; i < ROWS(holding); i++)
        scene_until(fake_server_rule_used(scene.node[i], holding[i]) == 1);
    scene_calm(0, scene.nodes);
    for (unsigned i = 1; i <= 2; i++)
        ck_assert_status(scene_wait(&answers[i]), REDLOCK_OK);
    ck_assert_status(scene_wait(&answers[0]), reenters ? REDLOCK_INVALID : REDLOCK_NO_QUORUM);
    if (reenters)
        ck_assert_has(answers[0].result.text, "holds 'stock' shared; release that first");
    ck_assert_int_gt(redlock_validity_ms(held.lock), 0);
}

static const struct {
    int64_t wait_ms;
    unsigned refusals; /* by each of a majority; 0: all */
    bool is_cancelled, is_released;
    int status, cause;
} reentries[] = {
    {0, 1, false, false, REDLOCK_NO_QUORUM, REDLOCK_NO_QUORUM},
    {SCENE_SOON_MS, 2, false, false, REDLOCK_OK, REDLOCK_OK},
    {REDLOCK_FOREVER, 0, true, false, REDLOCK_CANCELLED, REDLOCK_NO_QUORUM},
    {SCENE_SOON_MS, 0, false, true, REDLOCK_OK, REDLOCK_OK}, /* its owner does: the acquire takes the lock anew */
};

/* A majority is missing while the lock of its owner is extended. */
TEST_ROWS(events, a_reentry_that_waits_tries_again, ROWS(reentries))
{
    const struct fake_rule refusal = {.argument = rl_scripts[RL_SCRIPT_EXTEND].sha1,
                                      .count = reentries[_i].refusals,
                                      .skip = true,
                                      .reply = FAKE_BUSY};
    hold_one(SCENE_WITH(.owner = &owner_of_both));
    scene_add_rule(0, 3, &refusal);
    scene_start_acquire(&answers[0], "stock",
                        SCENE_WITH(.owner = &owner_of_both, .ttl_ms = 2 * TTL_MS, .wait_ms = reentries[_i].wait_ms,
                                   .cancellation = scene_cancellation()));
    if (refusal.count == 0)
        scene_wait_for_sent_to(0, 3, SENT_EXTEND, 2);
    if (reentries[_i].is_cancelled)
        redlock_cancel(scene.cancellation);
    if (reentries[_i].is_released)
        ck_assert_status(scene_release(&answers[1], &held.lock), REDLOCK_OK);
    ck_assert_status(scene_wait(&answers[0]), reentries[_i].status);
    ck_assert_int_eq(answers[0].result.cause, reentries[_i].cause);
    redlock_lock *lock = held.lock ? held.lock : answers[0].lock;
    ck_assert_uint_eq(redlock_hold_count(lock), held.lock && reentries[_i].status == REDLOCK_OK ? 2 : 1);
    ck_assert_int_gt(redlock_validity_ms(lock), 0);
}

/* --- On one node after the other, with the heartbeats --- */

static void put_off_turns(void)
{
    for (unsigned i = 0; i < scene.nodes; i++)
        if (rl_node_is_ready(&scene.client->nodes->node[i]))
            rl_timer_set(&scene.client->core.timers, &scene.client->nodes->node[i].timer,
                         rl_now() + 3600 * QUORUM_SECOND);
}

/* The node's turn comes now, and the locks are due there, as if a third of their ttl had passed. Returns when the node has
 * replied to the heartbeat. No other node has a turn. */
static void give_turn(unsigned index)
{
    struct rl_node *node = &scene.client->nodes->node[index];
    put_off_turns();
    for (struct rl_lease *lease = scene.client->locks.leases.first; lease; lease = lease->links.next)
        lease->rules.turns.round_end = 0;
    scene_until(!node->heartbeat.in_flight);
    uint64_t requests = node->statistics.requests;
    rl_node_beat(node);
    scene_until(node->statistics.requests > requests && !node->heartbeat.in_flight);
    put_off_turns();
}

static size_t scripts_sent(unsigned first, unsigned end)
{
    size_t count = 0;
    for (unsigned i = first; i < end; i++)
        count += fake_server_count(scene.node[i], "EVALSHA");
    return count;
}

SCENE_CASE(turns, five_nodes);

static const redlock_acquire_options *const kinds[] = {SCENE_WITH(.shared = 0), SCENE_WITH(.shared = 1),
                                                       SCENE_WITH(.fence = 1), SCENE_WITH(.permits = 2)};

/* The third node to confirm moves the end of validity, and no round is needed. What counts is when a node was sent its
 * renewal, not when it replied. */
TEST_ROWS(turns, lock_is_renewed_by_a_majority_of_turns, ROWS(kinds))
{
    unsigned commands = _i == 0 ? 1 : 2; /* locks of one kind share them */
    hold_one(kinds[_i]);
    scene_lock("plain");
    scene_wait_for_replies(0, 5);
    scene_each(0, 5, fake_server_forget_records);
    quorum_time end = held.lock->lease->rules.validity_end;
    scene_hold_replies(4, 5, "EVALSHA");
    give_turn(4);
    quorum_time sent_before = rl_now();
    give_turn(0);
    give_turn(2);
    scene_until(scripts_sent(0, 5) == 3 * commands);
    ck_assert_uint_eq(held.lock->lease->rules.validity_end, end);
    scene_calm(4, 5);
    scene_until(scene_statistics().renewed == 2);
    ck_assert_uint_gt(held.lock->lease->rules.validity_end, end);
    ck_assert_uint_le(
        held.lock->lease->rules.validity_end,
        quorum_validity_end(sent_before, TTL_MS * QUORUM_MILLISECOND, scene.client->core.options.drift_ppm));
    ck_assert(scripts_sent(0, 5) == 3 * commands && scripts_sent(1, 2) + scripts_sent(3, 4) == 0);
}

/* What a node does in its turn. The last one's master was replaced while the renewal was on its way: for a moment the old
 * one may grant the lock as well. */
static const struct fake_rule failures[] = {
    {.skip = true, .reply = FAKE_LOADING},
    {.skip = true, .reply = "$1\r\n0\r\n"},
    {.skip = true, .hold = true, .reply = FAKE_LOADING},
    {.skip = true, .silent = true, .ending = FAKE_RESET},
    {.hold = true},
};

/* All nodes are sent a renewal at once, and what the turns before have confirmed counts no longer. */
TEST_ROWS(turns, round_follows_a_turn_that_fails, ROWS(failures))
{
    struct fake_rule rule = failures[_i];
    scene.options.ttl_ms = 10 * TTL_MS; /* the usual round follows too late for this test */
    hold_one(NULL);
    rule.command = "EVALSHA";
    rule.count = 1;
    fake_server_add_rule(scene.node[2], &rule);
    give_turn(0);
    give_turn(1);
    if (rule.hold && !rule.skip) {
        struct quorum_guard_node *judged = &scene.client->nodes->guard->node[2];
        give_turn(2);
        judged->changes = true;
        judged->settled = QUORUM_NEVER;
        scene_calm(2, 3);
    } else {
        rl_node_beat(&scene.client->nodes->node[2]);
    }
    scene_wait_for_sent(2, SENT_EXTEND, 1);
    if (rule.hold && rule.skip)
        scene_time_out(2, 3);
    scene_until(scene_statistics().renewed == 1);
    scene_until(scene_count(3, SENT_EXTEND) >= 1);
    ck_assert_uint_eq(scene_statistics().renewals_failed, 0);
    scene_calm(2, 3);
}

TEST(turns, node_that_lost_the_key_is_healed)
{
    hold_one(NULL);
    fake_server_delete_key(scene.node[3], "stock");
    give_turn(3);
    scene_until(scene_statistics().healed == 1);
    ck_assert(scene_has_key(3, "stock"));
}

/* The client waits for a lock as well, or a node is not healthy, or one command does not take all locks. */
TEST_ROWS(turns, locks_are_renewed_by_rounds_alone, 3)
{
    if (_i == 2)
        hold_many();
    else
        hold_one(NULL);
    if (_i == 0) {
        scene_hold_on(0, 5, "another");
        scene_start_acquire(&answer, "another", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
        scene_wait_for_sent_to(0, 5, SENT_WAIT, 1);
    }
    if (_i == 1)
        scene_cut_off(4, 5);
    give_turn(0);
    ck_assert_uint_eq(scene_count(0, SENT_EXTEND), 0);
    scene_calm(4, 5);
}

TEST_PROGRAM("renewals of many locks")
