/* Renewals of many locks at once. The client sends to one node after the other, so that most nodes are free for other
 * requests, but no lock expires because of that. */
#include "fake/scene.h"

#include <stdio.h>
#include <string.h>

#include "src/client/client.h"
#include "src/core/clock.h"

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
static redlock_lock *locks[LOCKS];

static void five_nodes(void)
{
    scene_begin(5);
    scene.options.ttl_ms = TTL_MS;
    scene.options.node_timeout_ms = TIMEOUT_MS;
}

static void hold_many(void)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    char name[16];
    options.wait_ms = SCENE_SOON_MS;
    scene_attach();
    for (unsigned i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "lock%u", i);
        scene_start_acquire(&answers[i], name, &options);
    }
    for (unsigned i = 0; i < LOCKS; i++) {
        ck_assert_status(scene_wait(&answers[i]), REDLOCK_OK);
        locks[i] = answers[i].lock;
    }
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

static bool renews_many(const struct fake_record *record)
{
    return record->command->argc >= 3 + 3 * (size_t)MANY;
}

/* The first command with many keys that any node received; NULL: none yet. */
static const struct fake_record *first_renewal(void)
{
    const struct fake_record *first = NULL, *record;
    for (unsigned node = 0; node < 5; node++)
        for (size_t i = 0; (record = fake_server_record(scene.node[node], "EVALSHA", i)) != NULL; i++)
            if (renews_many(record) && (!first || record->received_ns < first->received_ns))
                first = record;
    return first;
}

/* The same command on this node, identified by its first key. */
static const struct fake_record *renewal(unsigned node)
{
    const struct fake_record *first = first_renewal(), *record;
    for (size_t i = 0; first && (record = fake_server_record(scene.node[node], "EVALSHA", i)) != NULL; i++)
        if (renews_many(record) && strcmp(record->command->argv[3].data, first->command->argv[3].data) == 0)
            return record;
    return NULL;
}

static unsigned renewing_nodes(void)
{
    unsigned count = 0;
    for (unsigned node = 0; node < 5; node++)
        count += renewal(node) != NULL;
    return count;
}

static bool are_renewing(void *nodes)
{
    return renewing_nodes() >= *(unsigned *)nodes;
}

static void wait_for_renewal(unsigned nodes)
{
    ck_assert_msg(scene_run(are_renewing, &nodes), "%u nodes are asked to renew", renewing_nodes());
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

static bool all_are_renewed(void *arg)
{
    redlock_statistics statistics;
    (void)arg;
    redlock_statistics_get(scene.client, &statistics);
    return statistics.renewed >= LOCKS;
}

/* With these short timeouts a busy machine may not confirm every release. The keys are deleted anyway; scene_end()
 * checks it. */
static void release_all(void)
{
    for (unsigned i = 0; i < LOCKS; i++) {
        ck_assert_int_gt(redlock_validity_ms(locks[i]), 0);
        scene_start_release(&answers[i], &locks[i]);
    }
    for (unsigned i = 0; i < LOCKS; i++)
        if (scene_wait(&answers[i]) != REDLOCK_NO_QUORUM)
            ck_assert_answer(&answers[i], REDLOCK_OK);
}

static void add_rule(unsigned nodes, const struct fake_rule *rule)
{
    scene_add_rule(0, nodes, rule);
}

static void answer_again(unsigned nodes)
{
    for (unsigned i = 0; i < nodes; i++) {
        fake_server_clear_rules(scene.node[i]);
        fake_server_release(scene.node[i]);
    }
}

START_TEST(a_node_is_asked_when_the_one_before_has_answered)
{
    enum { DELAY_MS = 20 };
    const struct fake_rule late = {.command = "EVALSHA", .reply_delay_ms = DELAY_MS};
    scene.options.node_timeout_ms = PATIENCE_MS;
    hold_many();
    add_rule(5, &late);
    make_all_due();
    wait_for_renewal(5);
    ck_assert_double_ge(least_ms_between_turns(), DELAY_MS);
    ck_assert(scene_run(all_are_renewed, NULL));
    answer_again(5);
    release_all();
}
END_TEST

static const struct fake_rule silent = {.command = "EVALSHA", .hold = true};

START_TEST(a_node_is_asked_when_the_time_of_the_one_before_is_over)
{
    scene.options.node_timeout_ms = LONG_TIMEOUT_MS;
    hold_many();
    add_rule(5, &silent);
    make_all_due();
    wait_for_renewal(4); /* the last node may be left out: the held heartbeat is an overdue EVALSHA, too */
    ck_assert_double_ge(least_ms_between_turns(), LONG_TIMEOUT_MS / 2); /* a command may have been read late */
    answer_again(5);
    ck_assert(scene_run(all_are_renewed, NULL));
    release_all();
}
END_TEST

static void renew_beside_silent_nodes(void)
{
    scene.options.node_timeout_ms = LONG_TIMEOUT_MS;
    hold_many();
    add_rule(2, &silent);
    make_all_due();
    ck_assert(scene_run(all_are_renewed, NULL));
    answer_again(2);
    release_all();
}

START_TEST(silent_nodes_keep_nothing_from_being_renewed)
{
    renew_beside_silent_nodes();
}
END_TEST

/* A node's own timeout may be much longer than the client's. */
START_TEST(silent_nodes_with_time_of_their_own_keep_nothing_from_being_renewed)
{
    scene.suffix[0] = scene.suffix[1] = "?timeout_ms=20000";
    renew_beside_silent_nodes();
}
END_TEST

START_TEST(nodes_that_never_know_the_script_keep_nothing_from_being_renewed)
{
    hold_many();
    for (unsigned i = 0; i < 2; i++) {
        fake_server_refuse(scene.node[i], "EVALSHA", 0, FAKE_NOSCRIPT);
        fake_server_refuse(scene.node[i], "EVAL", 0, FAKE_NOSCRIPT);
    }
    make_all_due();
    ck_assert(scene_run(all_are_renewed, NULL));
    scene_each(0, 2, fake_server_clear_rules);
    release_all();
}
END_TEST

START_TEST(broken_links_pass_it_on)
{
    const struct fake_rule breaks = {.command = "EVALSHA", .ending = FAKE_RESET};
    hold_many();
    add_rule(2, &breaks);
    make_all_due();
    ck_assert(scene_run(all_are_renewed, NULL));
    answer_again(2);
    release_all();
}
END_TEST

START_TEST(nodes_that_have_forgotten_the_script_are_told_it)
{
    hold_many();
    for (unsigned i = 0; i < 5; i++)
        fake_server_forget_scripts(scene.node[i]);
    make_all_due();
    wait_for_renewal(5);
    ck_assert(scene_run(all_are_renewed, NULL));
    release_all();
}
END_TEST

/* Five timeouts of 15 s are more than half of the remaining validity. */
START_TEST(all_are_asked_at_once_when_time_is_short)
{
    scene.options.node_timeout_ms = MOST_TIMEOUT_MS;
    hold_many();
    add_rule(5, &silent);
    make_all_due();
    wait_for_renewal(5);
    ck_assert_double_lt(least_ms_between_turns(), MOST_TIMEOUT_MS - 5);
    answer_again(5);
    ck_assert(scene_run(all_are_renewed, NULL));
    release_all();
}
END_TEST

enum { BACKLOGS = 3, BACKLOG_TTL_MS = 8000 };

static void seven_nodes(void)
{
    scene_begin(7);
    scene.options.ttl_ms = BACKLOG_TTL_MS;
    scene.options.silence_limit_ms = BACKLOG_TTL_MS / 4;
    scene.options.node_timeout_ms = TIMEOUT_MS;
}

/* Simulates that these nodes reply to requests from before the renewal. */
static bool all_are_renewed_beside_backlogs(void *arg)
{
    for (unsigned i = 0; i < BACKLOGS; i++)
        scene.client->nodes->node[i].flight.heard = rl_now();
    return all_are_renewed(arg);
}

/* As long as a node keeps replying, its timeout does not pass: without a limit, the first node would hold up the
 * renewal until the locks have ended. */
START_TEST(nodes_with_backlog_hold_up_renewal_for_half_of_validity_at_most)
{
    hold_many();
    add_rule(BACKLOGS, &silent);
    for (unsigned i = 0; i < BACKLOGS; i++)
        scene.client->nodes->node[i].flight.patience.most = 2 * BACKLOG_TTL_MS * QUORUM_MILLISECOND;
    scene.client->locks.renewal_turn = 0;
    make_all_due();
    ck_assert(scene_run(all_are_renewed_beside_backlogs, NULL));
    answer_again(BACKLOGS);
    release_all();
}
END_TEST

START_TEST(a_close_meanwhile_asks_no_further)
{
    struct answer closed;
    scene.options.node_timeout_ms = SCENE_SOON_MS / 2; /* the close waits for each node this long, too */
    hold_many();
    add_rule(5, &silent);
    make_all_due();
    wait_for_renewal(1);
    scene_start_close(&closed);
    answer_again(5);
    scene_wait(&closed);
    ck_assert_uint_eq(renewing_nodes(), 1);
}
END_TEST

static bool is_valid_beyond(void *end)
{
    return answers[0].lock->lease->rules.validity_end > *(quorum_time *)end;
}

/* Every reply arrives after the node's timeout. The renewal fails, and its late confirmations count. */
START_TEST(confirmations_that_come_after_the_timeout_keep_the_lock)
{
    const struct fake_rule late = {.command = "EVALSHA", .reply_delay_ms = 60};
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_statistics statistics;
    quorum_time end;
    options.wait_ms = SCENE_SOON_MS;
    scene_attach();
    ck_assert_status(scene_acquire(&answers[0], "stock", &options), REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++)
        scene.client->nodes->node[i].flight.patience = (struct quorum_patience){.least = 10 * QUORUM_MILLISECOND};
    end = answers[0].lock->lease->rules.validity_end;
    add_rule(5, &late);
    make_all_due();
    ck_assert(scene_run(is_valid_beyond, &end));
    redlock_statistics_get(scene.client, &statistics);
    ck_assert_uint_gt(statistics.renewals_failed, 0);
    answer_again(5);
    ck_assert_status(scene_release(&answers[1], &answers[0].lock), REDLOCK_OK);
}
END_TEST

/* The extension times out and is confirmed late. Its ttl counts, so re-entry with the same ttl sends no request. */
START_TEST(ttl_of_an_extension_that_is_confirmed_late_counts)
{
    const struct fake_rule late = {.command = "EVALSHA", .reply_delay_ms = 60};
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    quorum_time end;
    options.wait_ms = SCENE_SOON_MS;
    options.ttl_ms = TTL_MS / 2;
    options.owner = &end;
    scene_attach();
    ck_assert_status(scene_acquire(&answers[0], "stock", &options), REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++) {
        scene_wait_for_sent(i, SENT_SET, 1);
        scene.client->nodes->node[i].flight.patience = (struct quorum_patience){.least = 10 * QUORUM_MILLISECOND};
        scene.client->nodes->node[i].flight.round_trip = (struct quorum_round_trip){0};
    }
    end = answers[0].lock->lease->rules.validity_end;
    add_rule(5, &late);
    scene_start_extend(&answers[1], answers[0].lock, TTL_MS);
    ck_assert_status(scene_wait(&answers[1]), REDLOCK_NO_QUORUM);
    ck_assert(scene_run(is_valid_beyond, &end));
    answer_again(5);
    options.ttl_ms = TTL_MS;
    ck_assert_status(scene_acquire(&answers[1], "stock", &options), REDLOCK_OK);
    ck_assert_uint_eq(answers[1].result.attempts, 0);
    ck_assert_status(scene_release(&answers[2], &answers[1].lock), REDLOCK_OK);
    ck_assert_status(scene_release(&answers[2], &answers[0].lock), REDLOCK_OK);
}
END_TEST

static struct {
    int event, loss;
} told[3];
static unsigned told_count;

static void note_event(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    (void)lock;
    (void)arg;
    ck_assert_int_eq(validity_ms, 0);
    ck_assert_uint_lt(told_count, 2);
    told[told_count].event = event;
    told[told_count++].loss = loss;
}

static bool have_told(void *count)
{
    return told_count >= *(unsigned *)count;
}

/* Both happen in one turn. Only the LOST event carries the loss, the warning before it does not. */
START_TEST(a_warning_that_the_loss_has_overtaken_tells_no_loss)
{
    const struct quorum_lease_event failed = {
        .type = QUORUM_LEASE_RENEWED, .now = rl_now(), .verdict = QUORUM_LOST_NO_QUORUM};
    const struct quorum_lease_event clock_stopped = {.type = QUORUM_LEASE_CLOCK, .now = rl_now()};
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    struct answer held;
    told_count = 0;
    options.wait_ms = SCENE_SOON_MS;
    options.event = note_event;
    scene_attach();
    ck_assert_status(scene_acquire(&held, "stock", &options), REDLOCK_OK);
    rl_lease_step(held.lock->lease, &failed);
    rl_lease_step(held.lock->lease, &clock_stopped);
    ck_assert(scene_run(have_told, &(unsigned){2}));
    ck_assert_int_eq(told[0].event, REDLOCK_EVENT_RENEWAL_FAILING);
    ck_assert_int_eq(told[0].loss, REDLOCK_NOT_LOST);
    ck_assert_int_eq(told[1].event, REDLOCK_EVENT_LOST);
    ck_assert_int_eq(told[1].loss, REDLOCK_LOSS_CLOCK);
    ck_assert_status(scene_release(&answers[0], &held.lock), REDLOCK_LOST);
}
END_TEST

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

static bool is_counted(void *count)
{
    return *(unsigned *)count > 0;
}

static bool is_renewed(void *lock)
{
    redlock_result now;
    return redlock_renewal_result(lock, &now) == REDLOCK_OK && now.status == REDLOCK_OK;
}

/* Each node of the majority fails for a different reason. */
START_TEST(failing_renewal_says_which_nodes_and_why)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    const char *const silent_list = "?timeout_ms=50";
    struct answer held;
    unsigned failing = 0;
    scene.options.ttl_ms = 3000;
    options.wait_ms = SCENE_SOON_MS;
    options.event = note_renewal;
    options.event_arg = &failing;
    scene.suffix[1] = silent_list;
    scene_attach();
    ck_assert_status(scene_acquire(&held, "stock", &options), REDLOCK_OK);
    ck_assert_status(redlock_renewal_result(held.lock, &failure), REDLOCK_OK);
    ck_assert_status(failure.status, REDLOCK_OK); /* no renewal has failed */
    ck_assert_ptr_null(strstr(redlock_result_text(&failure), "pending"));
    scene_wait_for_sent(4, SENT_SET, 1);
    fake_server_add_rule(scene.node[0], &(struct fake_rule){.command = "EVALSHA", .skip = true, .reply = FAKE_LOADING});
    fake_server_add_rule(scene.node[1], &(struct fake_rule){.command = "EVALSHA", .hold = true});
    fake_server_add_rule(scene.node[2],
                         &(struct fake_rule){.command = "EVALSHA", .skip = true, .reply = "$1\r\n0\r\n"});
    ck_assert(scene_run(is_counted, &failing));
    ck_assert_status(failure.status, REDLOCK_NO_QUORUM);
    ck_assert_int_eq(failure.node[0].outcome, REDLOCK_NODE_REFUSED);
    ck_assert_has(failure.node[0].text, "LOADING");
    ck_assert_int_eq(failure.node[1].outcome, REDLOCK_NODE_TIMED_OUT);
    ck_assert_has(failure.node[1].text, "no reply within ");
    ck_assert_int_eq(failure.node[2].outcome, REDLOCK_NODE_ABSENT);
    ck_assert_uint_eq(failure.refused + failure.timed_out + failure.absent, 3);
    ck_assert_has(redlock_result_text(&failure), "1 absent (");
    fake_server_clear_rules(scene.node[0]);
    fake_server_clear_rules(scene.node[2]);
    ck_assert(scene_run(is_renewed, held.lock));
    scene_release(&answers[0], &held.lock);
}
END_TEST

static bool have_failed(void *count)
{
    redlock_statistics statistics;
    redlock_statistics_get(scene.client, &statistics);
    return statistics.renewals_failed >= *(unsigned *)count;
}

static bool is_one_renewed(void *arg)
{
    redlock_statistics statistics;
    (void)arg;
    redlock_statistics_get(scene.client, &statistics);
    return statistics.renewed == 1;
}

/* The replies of the first renewal come after the second has failed. */
START_TEST(late_confirmation_of_older_renewal_leaves_failure_of_later_one)
{
    struct answer held;
    scene_attach();
    ck_assert_status(scene_acquire(&held, "stock", REDLOCK_WAIT_MS(SCENE_SOON_MS)), REDLOCK_OK);
    const char *token = redlock_lock_token(held.lock);
    add_rule(3, &(struct fake_rule){.command = "EVALSHA", .argument = token, .hold = true, .count = 1});
    add_rule(5, &(struct fake_rule){
                    .command = "EVALSHA", .argument = token, .first = 2, .skip = true, .reply = FAKE_LOADING});
    for (unsigned failed = 1; failed <= 2; failed++) {
        make_all_due();
        ck_assert(scene_run(have_failed, &failed));
    }
    scene_each(0, 3, fake_server_release);
    ck_assert(scene_run(is_one_renewed, NULL));
    ck_assert_status(redlock_renewal_result(held.lock, &failure), REDLOCK_OK);
    ck_assert_status(failure.status, REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(failure.refused, 2);
    answer_again(5);
    ck_assert_status(scene_release(&answers[0], &held.lock), REDLOCK_OK);
}
END_TEST

static bool has_lock(void *node)
{
    return scene_has_key(*(unsigned *)node, "stock");
}

static bool is_away(void *ready)
{
    return scene_ready_nodes() == *(unsigned *)ready;
}

/* A round that a majority has decided sends no more requests. The key would be missing there for a third of the ttl:
 * on a node that the client connects to for the first time, and on one whose connection broke. */
START_TEST(node_that_connects_after_the_acquire_gets_the_lock_early)
{
    unsigned late = 4, ready = 4;
    bool broke = _i == 1;
    scene.options.ttl_ms = 10 * TTL_MS; /* the usual renewal follows too late for this test */
    if (broke) {
        scene_attach();
        fake_server_stop_listening(scene.node[late]);
        fake_server_drop(scene.node[late], FAKE_RESET);
        ck_assert(scene_run(is_away, &ready));
    } else {
        fake_server_pause(scene.node[late]);
        scene_attach_only();
    }
    scene_lock("stock");
    if (broke)
        fake_server_listen(scene.node[late]);
    else
        fake_server_resume(scene.node[late]);
    ck_assert(scene_run(has_lock, &late));
    ck_assert_uint_eq(scene_count(late, SENT_SET), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("renewals of many locks");
    TCase *tcase = scene_case(suite, "in turn", five_nodes);
    tcase_add_test(tcase, a_node_is_asked_when_the_one_before_has_answered);
    tcase_add_test(tcase, a_node_is_asked_when_the_time_of_the_one_before_is_over);
    tcase_add_test(tcase, silent_nodes_keep_nothing_from_being_renewed);
    tcase_add_test(tcase, silent_nodes_with_time_of_their_own_keep_nothing_from_being_renewed);
    tcase_add_test(tcase, nodes_that_never_know_the_script_keep_nothing_from_being_renewed);
    tcase_add_test(tcase, broken_links_pass_it_on);
    tcase_add_test(tcase, nodes_that_have_forgotten_the_script_are_told_it);
    tcase_add_test(tcase, all_are_asked_at_once_when_time_is_short);
    tcase_add_test(tcase, a_close_meanwhile_asks_no_further);
    tcase_add_test(tcase, confirmations_that_come_after_the_timeout_keep_the_lock);
    TCase *backlog = scene_case(suite, "backlog", seven_nodes);
    tcase_add_test(backlog, nodes_with_backlog_hold_up_renewal_for_half_of_validity_at_most);
    TCase *events = scene_case(suite, "events", five_nodes);
    tcase_add_loop_test(events, node_that_connects_after_the_acquire_gets_the_lock_early, 0, 2);
    tcase_add_test(events, ttl_of_an_extension_that_is_confirmed_late_counts);
    tcase_add_test(events, failing_renewal_says_which_nodes_and_why);
    tcase_add_test(events, late_confirmation_of_older_renewal_leaves_failure_of_later_one);
    tcase_add_test(events, a_warning_that_the_loss_has_overtaken_tells_no_loss);
    return run_suite(suite);
}
