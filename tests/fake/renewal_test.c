/* Renewals of many locks at once. The client sends to one node after the other, so that most nodes are free for other
 * requests, but no lock expires because of that. */
#include "fake/scene.h"

#include "quorum/validity.h"
#include "src/client/client.h"
#include "src/core/timer.h"
#include "src/node/script.h"

enum {
    LOCKS = 100,
    MANY = 16,
    TTL_MS = 60000,
    TIMEOUT_MS = 250,
    LONG_TIMEOUT_MS = 1000, /* a reply that is ready arrives within it, on a busy machine too */
    PATIENCE_MS = 5000,     /* five times it is less than half of the ttl: still one node after the other */
    MOST_TIMEOUT_MS = 15000
};

static struct answer answers[LOCKS];

static void five_nodes(void)
{
    scene_begin(5);
    scene.options.ttl_ms = TTL_MS;
    scene.options.node_timeout_ms = TIMEOUT_MS;
}

static void hold_many(void)
{
    scene.keys_may_stay = true; /* a busy machine may not confirm so many undos within these short timeouts */
    scene_attach();
    scene_start_acquires(answers, LOCKS, REDLOCK_WAIT_MS(SCENE_SOON_MS));
    for (unsigned i = 0; i < LOCKS; i++)
        ck_assert_status(scene_wait(&answers[i]), REDLOCK_OK);
    scene_wait_for_sent_to(0, scene.nodes, SENT_SET, LOCKS);
}

/* By themselves the locks would be due seconds later. The nodes' timeouts are reset to the configured value, because a
 * busy machine has raised them. */
static void make_all_due(void)
{
    const struct quorum_lease_event now = {.type = QUORUM_LEASE_HASTEN, .now = rl_now()};
    for (unsigned i = 0; i < scene.nodes; i++)
        scene.client->nodes->node[i].flight.round_trip = (struct quorum_round_trip){0};
    for (struct rl_lease *lease = scene.client->locks.leases.first; lease; lease = lease->links.next)
        rl_lease_step(lease, &now);
}

/* The node's next command that renews many locks. */
static const struct fake_record *next_batch(unsigned node, size_t *at)
{
    const struct fake_record *record;
    do
        record = fake_server_record(scene.node[node], NULL, (*at)++);
    while (record && (!resp_command_is(record->command, "EVALSHA") || record->command->argc < 3 + 3 * (size_t)MANY));
    return record;
}

/* The first such command that any node received, on this node: it is identified by its first key. */
static const struct fake_record *renewal(unsigned node)
{
    const struct fake_record *first = NULL, *record;
    size_t at = 0;
    for (unsigned i = 0; i < 5; i++, at = 0) {
        record = next_batch(i, &at);
        first = record && (!first || record->received_ns < first->received_ns) ? record : first;
    }
    do
        record = first ? next_batch(node, &at) : NULL;
    while (record && strcmp(record->command->argv[3].data, first->command->argv[3].data) != 0);
    return record;
}

static unsigned renewing_nodes(void)
{
    unsigned count = 0;
    for (unsigned node = 0; node < 5; node++)
        count += renewal(node) != NULL;
    return count;
}

static void wait_for_renewal(unsigned nodes)
{
    scene_until(renewing_nodes() >= nodes);
}

static double least_ms_between_turns(void)
{
    double least = 1e9;
    for (unsigned a = 0; a < 5; a++) {
        for (unsigned b = 0; b < 5; b++) {
            const struct fake_record *first = renewal(a), *second = renewal(b);
            if (a == b || !first || !second || first->received_ns > second->received_ns)
                continue;
            double between_ms = (double)(second->received_ns - first->received_ns) / 1e6;
            least = between_ms < least ? between_ms : least;
        }
    }
    return least;
}

static void assert_all_are_renewed(void)
{
    scene_until(scene_statistics().renewed >= LOCKS);
    for (unsigned i = 0; i < LOCKS; i++)
        ck_assert_int_gt(redlock_validity_ms(answers[i].lock), 0);
}

SCENE_CASE(in_turn, five_nodes);

TEST(in_turn, node_is_renewed_when_the_one_before_has_replied)
{
    enum { DELAY_MS = 20 };
    scene.options.node_timeout_ms = PATIENCE_MS;
    hold_many();
    scene_add_rule(0, 5, &(struct fake_rule){.command = "EVALSHA", .reply_delay_ms = DELAY_MS});
    make_all_due();
    wait_for_renewal(5);
    ck_assert_double_ge(least_ms_between_turns(), DELAY_MS);
    assert_all_are_renewed();
    ck_assert_uint_eq(scene_statistics().renewals_failed, 0);
}

TEST(in_turn, node_is_renewed_when_the_one_before_has_timed_out)
{
    scene.options.node_timeout_ms = LONG_TIMEOUT_MS;
    hold_many();
    scene_hold_replies(0, 5, "EVALSHA");
    make_all_due();
    wait_for_renewal(4); /* the last node may be left out: the held heartbeat is an overdue EVALSHA, too */
    ck_assert_double_ge(least_ms_between_turns(), LONG_TIMEOUT_MS / 2); /* a command may have been read late */
    scene_calm(0, 5);
    assert_all_are_renewed();
}

/* The nodes' users have lost the right to one key. The nodes refuse whole commands, and the client renews each lock of
 * them by itself; later only that one: a busy machine sends more commands of fewer locks, but not one for each lock. */
TEST(in_turn, key_without_permission_ends_no_other_lock)
{
    scene.options.node_timeout_ms = MOST_TIMEOUT_MS;
    hold_many();
    scene_add_rule(0, 5, &(struct fake_rule){.argument = "lock-50", .skip = true, .reply = FAKE_NOPERM});
    make_all_due();
    scene_until(scene_statistics().renewed + scene_statistics().renewals_failed == LOCKS);
    ck_assert_uint_eq(scene_statistics().renewals_failed, 1);
    unsigned alone = scene_count(0, SENT_EXTEND) + scene_count(1, SENT_EXTEND);
    make_all_due();
    scene_until(scene_statistics().renewed + scene_statistics().renewals_failed >= 2 * LOCKS);
    ck_assert_uint_ge(scene_statistics().renewals_failed, 2);
    ck_assert_uint_lt(scene_count(0, SENT_EXTEND) + scene_count(1, SENT_EXTEND), alone + 2 * (LOCKS - 1));
}

/* One node refuses, later than the others have renewed the locks. Its next command has all locks but one, too. */
TEST(in_turn, late_refusal_of_one_key_splits_only_one_command)
{
    scene.options.node_timeout_ms = MOST_TIMEOUT_MS;
    hold_many();
    scene_add_rule(
        4, 5, &(struct fake_rule){.argument = "lock-50", .skip = true, .reply = FAKE_NOPERM, .reply_delay_ms = 200});
    make_all_due();
    scene_until(scene_statistics().renewed == LOCKS);
    scene_until(answers[50].lock->lease->renewal.apart);
    unsigned sent = scene_count(4, SENT_EXTEND);
    make_all_due();
    scene_until(scene_statistics().renewed == 2 * LOCKS);
    scene_until(scene_count(4, SENT_EXTEND) >= sent + LOCKS / MANY &&
                rl_flight_is_empty(&scene.client->nodes->node[4].flight));
    ck_assert_uint_lt(scene_count(4, SENT_EXTEND), sent + RL_CARRIER_MOST);
}

/* What two nodes do to the renewal, and for how long the client waits for them. */
static const struct {
    struct fake_rule rule;
    uint32_t timeout_ms;
    const char *suffix;
} obstacles[] = {
    {{.hold = true}, LONG_TIMEOUT_MS, NULL},
    {{.hold = true}, LONG_TIMEOUT_MS, "?timeout_ms=20000"}, /* the node's own may be much longer than the client's */
    {{.skip = true, .reply = FAKE_NOSCRIPT}, TIMEOUT_MS, NULL},
    {{.ending = FAKE_RESET}, TIMEOUT_MS, NULL},
};

TEST_ROWS(in_turn, two_failing_nodes_do_not_prevent_renewal, ROWS(obstacles))
{
    struct fake_rule rule = obstacles[_i].rule;
    scene.suffix[0] = scene.suffix[1] = obstacles[_i].suffix;
    scene.options.node_timeout_ms = obstacles[_i].timeout_ms;
    hold_many();
    rule.command = "EVALSHA";
    scene_add_rule(0, 2, &rule);
    rule.command = "EVAL";
    scene_add_rule(0, 2, &rule);
    make_all_due();
    assert_all_are_renewed();
}

/* Five timeouts of 15 s are more than half of the remaining validity. */
TEST(in_turn, all_nodes_are_renewed_at_once_when_time_is_short)
{
    scene.options.node_timeout_ms = MOST_TIMEOUT_MS;
    hold_many();
    scene_hold_replies(0, 5, "EVALSHA");
    make_all_due();
    wait_for_renewal(5);
    ck_assert_double_lt(least_ms_between_turns(), MOST_TIMEOUT_MS - 5);
    scene_calm(0, 5);
    assert_all_are_renewed();
}

/* When this node received the command that renews this lock with others; 0: not yet. */
static uint64_t renewed_at(unsigned node, const char *token)
{
    const struct fake_record *record;
    size_t at = 0;
    while ((record = next_batch(node, &at)) != NULL)
        for (size_t k = 0; k < record->command->argc; k++)
            if (resp_argument_is(&record->command->argv[k], token))
                return record->received_ns;
    return 0;
}

/* Five timeouts are less than half of the others' validity, not of the one's. Its place in the command makes no
 * difference. */
TEST_ROWS(in_turn, lock_that_ends_soon_has_its_whole_command_sent_to_all_nodes_at_once, 3)
{
    const unsigned places[] = {0, LOCKS / 4, LOCKS - 1};
    uint64_t first = UINT64_MAX, last = 0;
    scene.options.node_timeout_ms = PATIENCE_MS;
    hold_many();
    struct rl_lease *soon = answers[places[_i]].lock->lease;
    soon->rules.validity_end = rl_now() + 3 * PATIENCE_MS * QUORUM_MILLISECOND;
    scene_hold_replies(0, 5, "EVALSHA");
    make_all_due();
    for (unsigned node = 0; node < 5; node++) {
        scene_until_or(renewed_at(node, soon->token.bytes), "node %u", node);
        uint64_t at = renewed_at(node, soon->token.bytes);
        first = at < first ? at : first;
        last = at > last ? at : last;
    }
    ck_assert_uint_lt(last - first, PATIENCE_MS * UINT64_C(1000000));
    scene_calm(0, 5);
    assert_all_are_renewed();
}

enum { BACKLOGS = 3 };

static void seven_nodes(void)
{
    scene_begin(7);
    scene.options.ttl_ms = TTL_MS;
    scene.options.node_timeout_ms = LONG_TIMEOUT_MS;
}

SCENE_CASE(backlog, seven_nodes);

/* As if the first nodes replied in every turn, to requests from before the renewal. */
static bool keep_replying(void)
{
    for (unsigned i = 0; i < BACKLOGS; i++)
        scene.client->nodes->node[i].flight.heard = rl_now();
    return true;
}

/* As long as a node keeps replying, its timeout does not pass: without a limit, the first node would hold up the
 * renewal until the locks have ended. The timers fire as if half of the validity had passed. */
TEST(backlog, nodes_with_backlog_hold_up_renewal_for_half_of_validity_at_most)
{
    hold_many();
    scene_hold_replies(0, BACKLOGS, "EVALSHA");
    scene.client->locks.renewal_turn = 0;
    make_all_due();
    scene_until(keep_replying() && next_batch(0, &(size_t){0}) &&
                next_batch(1, &(size_t){0})); /* the two batches, each at its first node */
    rl_timers_fire(&scene.client->core.timers, rl_now() + TTL_MS / 2 * QUORUM_MILLISECOND);
    scene_until(keep_replying() && scene_statistics().renewed >= LOCKS);
    assert_all_are_renewed();
}

TEST(in_turn, close_stops_the_renewal_of_further_nodes)
{
    struct answer closed;
    scene.options.node_timeout_ms = SCENE_SOON_MS / 2; /* the close waits for each node this long, too */
    hold_many();
    scene_hold_replies(0, 5, "EVALSHA");
    make_all_due();
    wait_for_renewal(1);
    scene_start_close(&closed);
    scene_calm(0, 5);
    scene_wait(&closed);
    ck_assert_uint_eq(renewing_nodes(), 1);
}

/* --- One lock --- */

static struct answer held, answer;

static void hold_one(const redlock_acquire_options *options)
{
    ck_assert_status(scene_acquire(&held, "stock", options), REDLOCK_OK);
    scene_wait_for_sent_to(0, scene.nodes, SENT_SET, 1);
}

static quorum_time end_of_validity(void)
{
    return held.lock->lease->rules.validity_end;
}

/* Every reply arrives after the node's timeout. */
static void answer_too_late(void)
{
    for (unsigned i = 0; i < 5; i++) {
        scene.client->nodes->node[i].flight.patience = (struct quorum_patience){.least = 10 * QUORUM_MILLISECOND};
        scene.client->nodes->node[i].flight.round_trip = (struct quorum_round_trip){0};
    }
    scene_add_rule(0, 5, &(struct fake_rule){.command = "EVALSHA", .reply_delay_ms = 60});
}

SCENE_CASE(events, five_nodes);

/* The extension times out and is confirmed late. Its ttl counts, so re-entry with the same ttl sends no request. */
TEST(events, ttl_of_an_extension_that_is_confirmed_late_counts)
{
    redlock_acquire_options options = *SCENE_WITH(.wait_ms = SCENE_SOON_MS, .ttl_ms = TTL_MS / 2, .owner = &held);
    scene_attach();
    hold_one(&options);
    quorum_time end = end_of_validity();
    answer_too_late();
    ck_assert_status(scene_wait(scene_start_extend(&answer, held.lock, TTL_MS)), REDLOCK_NO_QUORUM);
    scene_until(end_of_validity() > end);
    scene_calm(0, 5);
    options.ttl_ms = TTL_MS;
    ck_assert_status(scene_acquire(&answer, "stock", &options), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.attempts, 0);
}

/* While a renewal is gathered, a node that lost its data asks for another. The first one fails as it begins. */
TEST(events, renewal_that_fails_at_once_is_followed_by_the_one_that_is_due)
{
    const struct quorum_lease_event hasten = {.type = QUORUM_LEASE_HASTEN, .now = rl_now()};
    scene_attach();
    hold_one(SCENE_WITH(.wait_ms = SCENE_SOON_MS));
    rl_lease_step(held.lock->lease, &hasten);
    rl_lease_step(held.lock->lease, &hasten);
    for (unsigned i = 0; i < 5; i++)
        scene.client->nodes->node[i].findings |= REDLOCK_FINDING_REPLICA;
    scene_until(scene_statistics().renewals_failed == 2);
    for (unsigned i = 0; i < 5; i++)
        scene.client->nodes->node[i].findings = 0;
}

/* The others have decided the renewal before this node's time is over. The cap is far away. */
TEST(events, node_without_the_key_is_healed_although_another_does_not_reply)
{
    scene_attach();
    hold_one(SCENE_WITH(.wait_ms = SCENE_SOON_MS, .cap_ms = 2 * TTL_MS));
    fake_server_delete_key(scene.node[3], "stock");
    scene_hold_replies(4, 5, "EVALSHA");
    make_all_due();
    scene_until(scene_has_key(3, "stock"));
    ck_assert_uint_eq(scene_statistics().renewed, 1);
    scene_calm(4, 5);
}

/* The heals of one turn share a command if they go to the same nodes. Each key is set again after the one renewal. */
TEST(events, locks_that_lack_on_different_nodes_are_healed_on_each)
{
    static const char *const names[] = {"heal-0", "heal-1", "heal-2", "heal-3"};
    scene_attach();
    for (unsigned i = 0; i < ROWS(names); i++) {
        ck_assert_status(scene_acquire(&answers[i], names[i], REDLOCK_WAIT_MS(SCENE_SOON_MS)), REDLOCK_OK);
        scene_wait_for_sent_to(0, 5, SENT_SET, 1 + i);
        fake_server_delete_key(scene.node[i], names[i]);
    }
    make_all_due();
    for (unsigned i = 0; i < ROWS(names); i++)
        scene_until(scene_has_key(i, names[i]));
    ck_assert_uint_eq(scene_statistics().renewed, ROWS(names));
    for (unsigned i = 0; i < ROWS(names); i++)
        ck_assert_status(scene_release(&answer, &answers[i].lock), REDLOCK_OK);
}

TEST(events, heal_is_not_sent_again_behind_a_renewal_that_failed)
{
    const struct fake_rule rule = {.command = "EVALSHA",
                                   .argument = rl_scripts[RL_SCRIPT_HEAL].sha1,
                                   .skip = true,
                                   .hold = true,
                                   .reply = FAKE_NOSCRIPT};
    scene.options.node_timeout_ms = LONG_TIMEOUT_MS;
    scene_attach();
    hold_one(SCENE_WITH(.wait_ms = SCENE_SOON_MS));
    fake_server_delete_key(scene.node[4], "stock");
    unsigned used = fake_server_add_rule(scene.node[4], &rule);
    make_all_due();
    scene_until(fake_server_rule_used(scene.node[4], used) == 1);
    scene_refuse(0, 3, "EVALSHA", 0, FAKE_BUSY);
    make_all_due();
    scene_until(scene_statistics().renewals_failed > 0);
    fake_server_release(scene.node[4]);
    for (unsigned i = 0; i < 2; i++) /* the reply to the heal comes before that to the first */
        scene_wait(scene_start_query(&answer, "stock"));
    ck_assert(!scene_has_key(4, "stock"));
    scene_calm(0, 5);
}

/* Both happen in one turn. Only the LOST event carries the loss, the warning before it does not. */
TEST(events, warning_before_a_loss_carries_no_reason)
{
    const struct quorum_lease_event failed = {
        .type = QUORUM_LEASE_RENEWED, .now = rl_now(), .verdict = QUORUM_LOST_NO_QUORUM};
    const struct quorum_lease_event clock_stopped = {.type = QUORUM_LEASE_CLOCK, .now = rl_now()};
    struct scene_events events = {0};
    scene_attach();
    hold_one(SCENE_WITH(.wait_ms = SCENE_SOON_MS, .event = scene_note_event, .event_arg = &events));
    rl_lease_step(held.lock->lease, &failed);
    rl_lease_step(held.lock->lease, &clock_stopped);
    scene_until(events.count == 2);
    ck_assert_int_eq(events.event[0], REDLOCK_EVENT_RENEWAL_FAILING);
    ck_assert_int_eq(events.loss[0], REDLOCK_NOT_LOST);
    ck_assert_int_eq(events.event[1], REDLOCK_EVENT_LOST);
    ck_assert_int_eq(events.loss[1], REDLOCK_LOSS_CLOCK);
    ck_assert_status(scene_release(&answer, &held.lock), REDLOCK_LOST);
}

static redlock_result failure;

static void note_renewal(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    (void)loss;
    (void)validity_ms;
    if (event != REDLOCK_EVENT_RENEWAL_FAILING)
        return;
    ck_assert_status(redlock_renewal_result(lock, &failure), REDLOCK_OK);
    ++*(unsigned *)arg;
}

static int renewal_status(void)
{
    ck_assert_status(redlock_renewal_result(held.lock, &failure), REDLOCK_OK);
    return failure.status;
}

/* Each node of the majority fails for a different reason. */
TEST(events, failing_renewal_says_which_nodes_and_why)
{
    unsigned failing = 0;
    scene.options.ttl_ms = 3000;
    scene.suffix[1] = "?timeout_ms=50";
    scene_attach();
    hold_one(SCENE_WITH(.wait_ms = SCENE_SOON_MS, .event = note_renewal, .event_arg = &failing));
    ck_assert_status(renewal_status(), REDLOCK_OK); /* no renewal has failed */
    ck_assert_ptr_null(strstr(redlock_result_text(&failure), "pending"));
    scene_add_rule(0, 1, &(struct fake_rule){.command = "EVALSHA", .skip = true, .reply = FAKE_LOADING});
    scene_hold_replies(1, 2, "EVALSHA");
    scene_add_rule(2, 3, &(struct fake_rule){.command = "EVALSHA", .skip = true, .reply = "$1\r\n0\r\n"});
    scene_until(failing > 0);
    ck_assert_status(failure.status, REDLOCK_NO_QUORUM);
    ck_assert_int_eq(failure.node[0].outcome, REDLOCK_NODE_REFUSED);
    ck_assert_has(failure.node[0].text, "LOADING");
    ck_assert_int_eq(failure.node[1].outcome, REDLOCK_NODE_TIMED_OUT);
    ck_assert_has(failure.node[1].text, "no reply within ");
    ck_assert_int_eq(failure.node[2].outcome, REDLOCK_NODE_ABSENT);
    ck_assert_has(failure.node[2].text, "the key is missing");
    ck_assert_uint_eq(failure.refused + failure.timed_out + failure.absent, 3);
    ck_assert_has(redlock_result_text(&failure), "1 absent (");
    scene_each(0, 1, fake_server_clear_rules);
    scene_each(2, 3, fake_server_clear_rules);
    scene_until(renewal_status() == REDLOCK_OK);
}

/* The replies of the first renewal come after the second has failed. */
TEST(events, late_confirmation_of_older_renewal_leaves_failure_of_later_one)
{
    scene_attach();
    hold_one(REDLOCK_WAIT_MS(SCENE_SOON_MS));
    const char *token = redlock_lock_token(held.lock);
    make_all_due();
    scene_until(scene_statistics().renewed == 1);
    scene_add_rule(0, 3, &(struct fake_rule){.command = "EVALSHA", .argument = token, .hold = true, .count = 1});
    scene_add_rule(
        0, 5,
        &(struct fake_rule){.command = "EVALSHA", .argument = token, .first = 2, .skip = true, .reply = FAKE_LOADING});
    for (unsigned failed = 1; failed <= 2; failed++) {
        make_all_due();
        scene_until(scene_statistics().renewals_failed >= failed);
    }
    scene_each(0, 3, fake_server_release);
    scene_until(scene_statistics().renewed == 2);
    ck_assert_status(renewal_status(), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(failure.refused, 2);
}

/* A round that a majority has decided sends no more requests. The key would be missing there for a third of the ttl:
 * on a node that the client connects to for the first time, and on one whose connection broke. */
TEST_ROWS(events, node_that_connects_after_the_acquire_gets_the_lock_early, 2)
{
    scene.options.ttl_ms = 10 * TTL_MS; /* the usual renewal follows too late for this test */
    scene.options.node_timeout_ms =
        PATIENCE_MS; /* behind a renewal that failed the node has to wait for the usual one */
    if (_i == 0) {
        fake_server_pause(scene.node[4]);
        scene_attach_only();
    } else {
        scene_attach();
        fake_server_stop_listening(scene.node[4]);
        fake_server_drop(scene.node[4], FAKE_RESET);
        scene_until(scene_ready_nodes() == 4);
    }
    scene_lock("stock");
    scene_calm(4, 5);
    scene_until(scene_has_key(4, "stock"));
    ck_assert_uint_eq(scene_count(4, SENT_SET), 0);
}

/* What the fifth node does to the first command that would set the lock again there. */
static const struct {
    struct fake_rule rule;
    bool breaks, shared;
} ends_of_heals[] = {
    {{.skip = true, .silent = true, .ending = FAKE_RESET}, true, false},
    {{.skip = true, .silent = true, .ending = FAKE_RESET}, true, true},
    {{.skip = true, .hold = true}, true, false}, /* overdue before the connection breaks */
    {{.skip = true, .hold = true}, true, true},
    {{.skip = true, .reply = FAKE_LOADING}, false, false},
    {{.skip = true, .reply = FAKE_OOM}, false, true},
};

/* If the heal still counted as under way, the node would lack the lock from now on. */
TEST_ROWS(events, node_whose_heal_failed_is_healed_by_the_next_renewal, ROWS(ends_of_heals))
{
    struct fake_rule rule = ends_of_heals[_i].rule;
    bool shared = ends_of_heals[_i].shared;
    scene.suffix[4] = "?timeout_ms=100";
    scene_attach();
    ck_assert_status(scene_acquire(&held, "stock", SCENE_WITH(.wait_ms = SCENE_SOON_MS, .shared = shared)), REDLOCK_OK);
    scene_until(scene_has_key(4, "stock"));
    fake_server_delete_key(scene.node[4], "stock");
    rule.command = "EVALSHA";
    rule.argument = shared ? "heal" : rl_scripts[RL_SCRIPT_HEAL].sha1;
    rule.count = 1;
    unsigned used = fake_server_add_rule(scene.node[4], &rule);
    make_all_due();
    scene_until(fake_server_rule_used(scene.node[4], used) == 1);
    if (rule.hold) {
        scene_idle(300);
        fake_server_drop(scene.node[4], FAKE_RESET);
    }
    if (ends_of_heals[_i].breaks)
        scene_wait_for_accepted(4, 2);
    scene_wait_for_ready();
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
    scene.options.node_timeout_ms = LONG_TIMEOUT_MS;
    scene_attach();
    ck_assert_status(scene_acquire(&held, "stock", SCENE_WITH(.wait_ms = SCENE_SOON_MS)), REDLOCK_OK);
    for (unsigned i = 0; i < scene.nodes; i++)
        scene_until(scene_has_key(i, "stock"));
    int64_t end = redlock_valid_until_ns(held.lock);
    rule.command = "EVALSHA";
    rule.argument = rl_scripts[RL_SCRIPT_DOWNGRADE].sha1;
    scene_add_rule(0, downgrades[_i].nodes, &rule);
    scene_started(&answers[0], redlock_downgrade_async(held.lock, NULL, scene_completed, scene_cleared(&answers[0])));
    int status = scene_wait(&answers[0]);
    if (downgrades[_i].status == REDLOCK_LOST) {
        ck_assert_status(status, REDLOCK_LOST);
        return;
    }
    ck_assert_status(status, downgrades[_i].status);
    ck_assert_int_eq(redlock_valid_until_ns(held.lock), end);
    scene_calm(0, scene.nodes);
    scene_wait_for_ready();
    ck_assert_status(scene_acquire(&answers[1], "stock", SCENE_WITH(.owner = &writer)), REDLOCK_HELD);
    make_all_due();
    scene_until(scene_statistics().renewed >= 1);
    scene_until(redlock_valid_until_ns(held.lock) > end);
    ck_assert_status(
        scene_acquire(&answers[2], "stock", SCENE_WITH(.owner = &reader, .shared = 1, .wait_ms = SCENE_SOON_MS)),
        REDLOCK_OK);
    ck_assert_int_gt(redlock_validity_ms(held.lock), 0);
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

static const struct {
    uint8_t shared, fence;
    uint32_t permits;
} kinds[] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 2}};

/* The third node to confirm moves the end of validity, and no round is needed. What counts is when a node was sent its
 * renewal, not when it replied. */
TEST_ROWS(turns, lock_is_renewed_by_a_majority_of_turns, ROWS(kinds))
{
    scene.options.node_timeout_ms = PATIENCE_MS;
    scene_attach();
    const redlock_acquire_options *options = SCENE_WITH(.wait_ms = SCENE_SOON_MS, .shared = kinds[_i].shared,
                                                        .fence = kinds[_i].fence, .permits = kinds[_i].permits);
    ck_assert_status(scene_acquire(&held, "stock", options), REDLOCK_OK);
    for (unsigned i = 0; i < scene.nodes; i++)
        scene_until(rl_flight_is_empty(&scene.client->nodes->node[i].flight));
    scene_each(0, 5, fake_server_forget_records);
    quorum_time end = end_of_validity();
    scene_hold_replies(4, 5, "EVALSHA");
    give_turn(4);
    quorum_time sent_before = rl_now();
    give_turn(0);
    give_turn(2);
    scene_until(scripts_sent(0, 5) == 3);
    ck_assert_uint_eq(end_of_validity(), end);
    scene_calm(4, 5);
    scene_until(end_of_validity() > end);
    ck_assert_uint_le(end_of_validity(), quorum_validity_end(sent_before, TTL_MS * QUORUM_MILLISECOND,
                                                             scene.client->core.options.drift_ppm));
    ck_assert_uint_eq(scene_statistics().renewed, 1);
    ck_assert_uint_eq(scripts_sent(1, 2) + scripts_sent(3, 4), 0);
    ck_assert_uint_eq(scripts_sent(0, 5), 3);
}

/* What a node does in its turn. */
static const struct fake_rule failures[] = {
    {.skip = true, .reply = FAKE_LOADING},
    {.skip = true, .reply = "$1\r\n0\r\n"},
    {.skip = true, .hold = true},
    {.skip = true, .silent = true, .ending = FAKE_RESET},
};

/* All nodes are sent a renewal at once, and what the turns before have confirmed counts no longer. */
TEST_ROWS(turns, round_follows_a_turn_that_fails, ROWS(failures))
{
    struct fake_rule rule = failures[_i];
    scene.options.ttl_ms = 10 * TTL_MS; /* the usual round follows too late for this test */
    scene.options.node_timeout_ms = rule.hold ? TIMEOUT_MS : PATIENCE_MS;
    scene_attach();
    hold_one(REDLOCK_WAIT_MS(SCENE_SOON_MS));
    rule.command = "EVALSHA";
    rule.count = 1;
    fake_server_add_rule(scene.node[2], &rule);
    give_turn(0);
    give_turn(1);
    rl_node_beat(&scene.client->nodes->node[2]);
    scene_until(scene_statistics().renewed == 1);
    scene_until(scene_count(3, SENT_EXTEND) >= 1);
    ck_assert_uint_eq(scene_statistics().renewals_failed, 0);
    scene_calm(2, 3);
}

/* The node's master was replaced while the renewal was on its way: for a moment the old one may grant the lock as well. */
TEST(turns, master_that_has_not_settled_confirms_nothing)
{
    struct quorum_guard_node *judged;
    scene.options.ttl_ms = 10 * TTL_MS;
    scene.options.node_timeout_ms = PATIENCE_MS;
    scene_attach();
    hold_one(REDLOCK_WAIT_MS(SCENE_SOON_MS));
    scene_hold_replies(2, 3, "EVALSHA");
    give_turn(0);
    give_turn(1);
    give_turn(2);
    judged = &scene.client->nodes->guard->node[2];
    judged->changes = true;
    judged->settled = QUORUM_NEVER;
    scene_calm(2, 3);
    scene_until(scene_count(3, SENT_EXTEND) >= 1); /* of the round that follows */
    scene_until(scene_statistics().renewed == 1);
}

TEST(turns, node_that_lost_the_key_is_healed)
{
    scene_attach();
    hold_one(REDLOCK_WAIT_MS(SCENE_SOON_MS));
    fake_server_delete_key(scene.node[3], "stock");
    give_turn(3);
    scene_until(scene_has_key(3, "stock"));
    ck_assert_uint_eq(scene_statistics().healed, 1);
}

/* The client waits for a lock as well, or a node is not healthy, or one command does not take all locks. */
TEST_ROWS(turns, locks_are_renewed_by_rounds_alone, 3)
{
    if (_i == 2) {
        hold_many();
    } else {
        scene_attach();
        hold_one(REDLOCK_WAIT_MS(SCENE_SOON_MS));
    }
    if (_i == 0) {
        scene_hold_on(0, 5, "another");
        scene_start_acquire(&answer, "another", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
        scene_wait_for_sent_to(0, 5, SENT_WAIT, 1);
    }
    if (_i == 1) {
        fake_server_stop_listening(scene.node[4]);
        fake_server_drop(scene.node[4], FAKE_RESET);
        scene_until(scene_ready_nodes() == 4);
    }
    give_turn(0);
    ck_assert_uint_eq(scene_count(0, SENT_EXTEND), 0);
    scene_calm(4, 5);
}

static unsigned holding[3]; /* rules */

static void hold_replies_to_extend(const char *reply)
{
    const struct fake_rule rule = {.command = "EVALSHA",
                                   .argument = rl_scripts[RL_SCRIPT_EXTEND].sha1,
                                   .count = 1,
                                   .hold = true,
                                   .skip = reply != NULL,
                                   .reply = reply};
    for (unsigned i = 0; i < ROWS(holding); i++)
        holding[i] = fake_server_add_rule(scene.node[i], &rule);
}

static const char owner_of_both = 0;

/* The second one finds a reader's lock. */
static void downgrade_and_go_on(void)
{
    for (unsigned i = 1; i <= 2; i++)
        scene_started(&answers[i],
                      redlock_downgrade_async(held.lock, NULL, scene_completed, scene_cleared(&answers[i])));
    for (unsigned i = 0; i < ROWS(holding); i++)
        scene_until(fake_server_rule_used(scene.node[i], holding[i]) == 1);
    scene_calm(0, scene.nodes);
    for (unsigned i = 1; i <= 2; i++)
        ck_assert_status(scene_wait(&answers[i]), REDLOCK_OK);
}

/* Its request finds the key of a reader on the nodes that execute it after the downgrade. */
TEST(events, an_extension_that_a_downgrade_overtook_does_not_lose_the_lock)
{
    scene.options.node_timeout_ms = MOST_TIMEOUT_MS;
    scene_attach();
    hold_one(SCENE_WITH(.owner = &owner_of_both, .wait_ms = SCENE_SOON_MS));
    hold_replies_to_extend("$1\r\n0\r\n");
    scene_started(&answers[0], redlock_extend_async(held.lock, 0, NULL, scene_completed, scene_cleared(&answers[0])));
    downgrade_and_go_on();
    ck_assert_status(scene_wait(&answers[0]), REDLOCK_NO_QUORUM);
    ck_assert_int_gt(redlock_validity_ms(held.lock), 0);
}

/* It extends the writer's lock first, which is a reader's when the nodes have replied. */
TEST(events, a_reentry_that_a_downgrade_overtook_is_refused)
{
    scene.options.node_timeout_ms = MOST_TIMEOUT_MS;
    scene_attach();
    hold_one(SCENE_WITH(.owner = &owner_of_both, .wait_ms = SCENE_SOON_MS));
    hold_replies_to_extend(NULL);
    scene_start_acquire(&answers[0], "stock", SCENE_WITH(.owner = &owner_of_both, .ttl_ms = 2 * TTL_MS));
    downgrade_and_go_on();
    ck_assert_status(scene_wait(&answers[0]), REDLOCK_INVALID);
    ck_assert_has(answers[0].result.text, "holds 'stock' shared; release that first");
}

static const struct {
    int64_t wait_ms;
    unsigned refusals; /* by each of a majority; 0: all */
    int status, cause;
} reentries[] = {
    {0, 1, REDLOCK_NO_QUORUM, REDLOCK_NO_QUORUM},
    {SCENE_SOON_MS, 2, REDLOCK_OK, REDLOCK_OK},
    {1000, 0, REDLOCK_TIMED_OUT, REDLOCK_NO_QUORUM}, /* a busy machine ends an attempt by then, too */
};

/* A majority is missing while the lock of its owner is extended. */
TEST_ROWS(events, a_reentry_that_waits_tries_again, ROWS(reentries))
{
    int64_t wait_ms = reentries[_i].wait_ms;
    scene.options.node_timeout_ms = MOST_TIMEOUT_MS;
    scene_attach();
    hold_one(SCENE_WITH(.owner = &owner_of_both, .wait_ms = SCENE_SOON_MS));
    scene_refuse(0, 3, "EVALSHA", reentries[_i].refusals, FAKE_BUSY);
    ck_assert_status(scene_acquire(&answers[0], "stock",
                                   SCENE_WITH(.owner = &owner_of_both, .ttl_ms = 2 * TTL_MS, .wait_ms = wait_ms)),
                     reentries[_i].status);
    ck_assert_int_eq(answers[0].result.cause, reentries[_i].cause);
    ck_assert_uint_eq(redlock_hold_count(held.lock), reentries[_i].status == REDLOCK_OK ? 2 : 1);
    ck_assert_int_gt(redlock_validity_ms(held.lock), 0);
    scene_calm(0, 3);
}

/* Its owner releases the lock while the acquire waits to extend it: the acquire takes it anew. */
TEST(events, a_reentry_that_waits_acquires_a_lock_that_was_released_meanwhile)
{
    scene.options.node_timeout_ms = MOST_TIMEOUT_MS;
    scene_attach();
    hold_one(SCENE_WITH(.owner = &owner_of_both, .wait_ms = SCENE_SOON_MS));
    const struct fake_rule refusal = {
        .command = "EVALSHA", .argument = rl_scripts[RL_SCRIPT_EXTEND].sha1, .skip = true, .reply = FAKE_BUSY};
    scene_add_rule(0, 3, &refusal);
    scene_start_acquire(&answers[0], "stock",
                        SCENE_WITH(.owner = &owner_of_both, .ttl_ms = 2 * TTL_MS, .wait_ms = SCENE_SOON_MS));
    scene_wait_for_sent_to(0, 3, SENT_EXTEND, 2);
    scene_start_release(&answers[1], &held.lock);
    ck_assert_status(scene_wait(&answers[1]), REDLOCK_OK);
    ck_assert_status(scene_wait(&answers[0]), REDLOCK_OK);
    ck_assert_uint_eq(redlock_hold_count(answers[0].lock), 1);
}

TEST_PROGRAM("renewals of many locks")
