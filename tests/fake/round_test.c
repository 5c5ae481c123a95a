/* One round over fake nodes: the vote that each misbehaviour counts as. No key may stay on a node. */
#include "fake/scene.h"

#include "src/client/client.h"
#include "src/core/timer.h"

static struct answer answer;

/* --- Granted --- */

SCENE_CASE(votes, scene_five_nodes);

/* The published command, which clients in other languages send, too: SET key token NX PX ttl. Since Redis 7.0 its reply
 * names the holder. A label follows the token's digits. */
static const struct {
    const char *version, *label;
    unsigned words;
    const char *word[7]; /* NULL: the token */
} published[] = {
    {"6.2.14", "", 6, {"SET", "lock:stock", NULL, "NX", "PX", "60000"}},
    {"6.2.14", "web-3", 6, {"SET", "lock:stock", NULL, "NX", "PX", "60000"}},
    {"7.0.15", "a/b", 7, {"SET", "lock:stock", NULL, "NX", "GET", "PX", "60000"}},
};

TEST_ROWS(votes, a_free_lock_is_granted_by_the_published_command_and_released, ROWS(published))
{
    const char *label = published[_i].label;
    redlock_holder holder;
    scene.options.label = label;
    for (unsigned i = 0; i < 5; i++)
        fake_server_set_info(scene.node[i], "redis_version", published[_i].version);
    scene.options.prefix = "lock:";
    scene_attach();
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.nodes, 5);
    ck_assert_uint_eq(answer.result.quorum, 3);
    ck_assert_uint_ge(answer.result.granted, 3);
    ck_assert_uint_eq(answer.result.attempts, 1);
    ck_assert_int_gt(answer.result.validity_ms, 50000);
    ck_assert_int_le(answer.result.validity_ms, 60000 - 602);
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
    const char *token = redlock_lock_token(answer.lock);
    const struct resp_command *set = scene_sent(0, SENT_SET, NULL, 0, NULL)->command;
    ck_assert_uint_eq(strcspn(token, "/"), 40);
    ck_assert_int_eq(token[40] == '/', *label != '\0');
    redlock_holder_read(token, &holder);
    ck_assert_str_eq(holder.label, label);
    ck_assert(*label == '\0' || (holder.since_s <= time(NULL) && holder.since_s > time(NULL) - 600));
    ck_assert_uint_eq(set->argc, published[_i].words);
    for (unsigned i = 0; i < published[_i].words; i++)
        ck_assert_str_eq(set->argv[i].data, published[_i].word[i] ? published[_i].word[i] : token);
    ck_assert_str_eq(redlock_lock_resource(answer.lock, NULL), "stock");
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    ck_assert(!redlock_held_by_me(scene.client, "stock", 0));
    scene_assert_undone_on(0, 5);
}

/* A grant that arrives after the round was won adds a node to the lock. The release deletes the key there, too. */
TEST(votes, late_grants_of_a_won_round_are_kept_and_released)
{
    scene_attach();
    scene_hold_replies(3, 5, "SET");
    quorum_time begin = rl_now();
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_OK);
    ck_assert_uint_gt(answer.result.node[0].latency_us, 0);
    ck_assert_uint_le(answer.result.node[0].latency_us, (rl_now() - begin) / QUORUM_MICROSECOND + 1);
    ck_assert_uint_le(answer.result.elapsed_us, (rl_now() - begin) / QUORUM_MICROSECOND);
    ck_assert_int_eq(answer.result.node[4].outcome, REDLOCK_NODE_PENDING);
    ck_assert_uint_eq(answer.result.node[4].latency_us, 0);
    scene_wait_for_sent_to(3, 5, SENT_SET, 1);
    ck_assert_uint_eq(scene_count(4, SENT_UNDO), 0);
    fake_server_release(scene.node[3]);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.timed_out, 0); /* a majority has confirmed it */
    fake_server_release(scene.node[4]);
    scene_assert_undone_on(3, 5);
}

/* All votes have arrived except the deciding one. */
static bool two_have_granted(void)
{
    const struct quorum_tally *tally = &scene.client->operations.first->round->rules.tally;
    return quorum_tally_count(tally, QUORUM_GRANTED) == 2 && quorum_tally_count(tally, QUORUM_HELD) == 2;
}

/* Two of five nodes grant the lock, two reply that it is held. The fifth becomes unfit while its grant is in flight. */
TEST(votes, a_grant_of_a_node_that_has_turned_out_unfit_does_not_count)
{
    scene_attach();
    scene_hold_on(0, 2, "stock");
    scene_hold_replies(4, 5, "SET");
    scene_start_acquire(&answer, "stock", NULL);
    scene_wait_for_sent(4, SENT_SET, 1);
    scene_until(two_have_granted());
    scene.client->nodes->node[4].findings |= REDLOCK_FINDING_REPLICA;
    fake_server_release(scene.node[4]);
    ck_assert_status(scene_wait(&answer), REDLOCK_HELD);
    ck_assert_uint_eq(answer.result.granted, 2);
    ck_assert_uint_eq(answer.result.refused, 1);
    ck_assert_str_eq(answer.result.node[4].text, "it is a replica, not a master");
    scene_assert_undone_on(4, 5);
    scene.client->nodes->node[4].findings = 0;
}

/* Replies to requests that were sent before the jump was detected do not show whether other clocks jumped. The client
 * sends further requests at once, and their replies decide. */
TEST(votes, jump_of_a_node_has_the_other_nodes_sampled_at_once)
{
    scene_attach();
    struct rl_nodes *nodes = scene.client->nodes;
    for (unsigned i = 0; i < 5; i++)
        scene_until(scene.client->nodes->clock_watch->node[i].known);
    for (unsigned i = 0; i < 5; i++) {
        rl_node_beat(&nodes->node[i]);
        scene_until(nodes->clock_watch->node[i].at > nodes->clock_watch->node[i].since);
    }
    for (unsigned i = 0; i < 5; i++) {
        scene_until(!nodes->node[i].heartbeat.in_flight);
        if (i == 1)
            continue;
        scene_hold_replies(i, i + 1, "TIME");
        rl_node_beat(&nodes->node[i]);
        scene_until(nodes->node[i].heartbeat.in_flight);
    }
    fake_server_set_clock_offset_us(scene.node[1], 3600000000); /* far more than a busy machine is late */
    rl_node_beat(&nodes->node[1]);
    scene_until(nodes->node[1].suspect);
    for (unsigned i = 0; i < 5; i++)
        ck_assert_uint_eq(nodes->node[i].heartbeat.again, i != 1);
    scene_calm(0, 5);
    scene_until(scene.client->core.statistics.node_clock_jumps == 1);
    ck_assert_uint_eq(nodes->clock_stopped, 0);
}

/* --- Held --- */

#define WEB_3 "0123456789abcdef0123456789abcdef01234563/1764153727/deploy@web-3:4711"

/* The holder that the nodes name, for every kind of acquire; tests/parts/held_by_test.c has nodes that differ. */
static const struct named {
    const char *version, *value;
    bool fence, waits;
    const char *text, *label;
} named[] = {
    {"7.0.15", WEB_3, false, false, "held by deploy@web-3:4711 since 2025-11-26 ", "deploy@web-3:4711"},
    {"7.0.15", "theirs", false, false, "held by another client: 3 held", ""},
    {"6.2.14", WEB_3, false, false, "held by another client: 3 held", ""},
    {"6.2.14", WEB_3, true, false, "held by deploy@web-3:4711 since 2025-11-26 ", "deploy@web-3:4711"},
    {"6.2.14", WEB_3, false, true, "the last attempt: held by deploy@web-3:4711 since 2025", "deploy@web-3:4711"},
};

/* Three votes decide. A node that replied "held" does not have our key, so there is nothing to undo. A silent node may
 * have it. */
TEST_ROWS(votes, held_lock_is_reported_at_once_with_its_holder_and_undone_on_the_other_nodes, ROWS(named))
{
    const struct named *row = &named[_i];
    for (unsigned i = 0; i < 5; i++)
        fake_server_set_info(scene.node[i], "redis_version", row->version);
    scene_attach();
    for (unsigned i = 0; i < 3; i++)
        fake_server_set_key(scene.node[i], "stock", row->value, 60000);
    scene_add_rule(3, 5, &(struct fake_rule){.argument = "stock", .hold = true});
    scene_start_acquire(&answer, "stock", SCENE_WITH(.fence = row->fence, .wait_ms = row->waits ? REDLOCK_FOREVER : 0));
    if (row->waits) { /* it times out after its first poll */
        scene_wait_for_sent_to(0, 3, SENT_WAIT, 1);
        scene_wait_for_replies(0, 3);
        rl_timer_set(&scene.client->core.timers, &scene.client->operations.first->timer, rl_now());
    }
    ck_assert_status(scene_wait(&answer), row->waits ? REDLOCK_TIMED_OUT : REDLOCK_HELD);
    ck_assert_has(redlock_result_text(&answer.result), row->text);
    ck_assert_str_eq(answer.result.holder.label, row->label);
    ck_assert_int_eq(answer.result.holder.since_s, *row->label ? 1764153727 : 0);
    ck_assert_int_eq(answer.result.remaining_ms > 0, row->waits);
    ck_assert_int_eq(answer.result.cause, REDLOCK_HELD);
    ck_assert_int_eq(answer.result.validity_ms, 0);
    if (!row->waits) {
        ck_assert_uint_eq(answer.result.held, 3);
        ck_assert_uint_eq(answer.result.attempts, 1);
        scene_assert_undone_on(3, 5);
        scene_calm(3, 5);
        ck_assert_status(scene_close(&answer), REDLOCK_OK);
    }
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(row->waits || scene_count(i, SENT_UNDO) == 0);
        fake_server_delete_key(scene.node[i], "stock");
    }
}

/* --- Refused --- */

/* tests/parts/reply_test.c has all of them. */
static const struct {
    const char *error;
    int status;
    const char *node, *remedy; /* in the texts */
} refusals[] = {
    {FAKE_LOADING, REDLOCK_NO_QUORUM, "LOADING", "3 refused (127.0.0.1:"},
    {FAKE_NOPERM, REDLOCK_MISCONFIGURED, "NOPERM this user has no permissions to run the 'set' command",
     "; redlock doctor names the rights to grant"},
    {"-NOPERM No permissions to access a key\r\n", REDLOCK_MISCONFIGURED, "SET: NOPERM No permissions to access a key",
     "; redlock doctor names the rights to grant"},
    {"-ERR unknown command 'SET'\r\n", REDLOCK_MISCONFIGURED, "ERR unknown command 'SET'", "3 refused (127.0.0.1:"},
};

/* The connections outlive it. */
TEST_ROWS(votes, refusing_majority_is_reported_with_the_nodes_errors, ROWS(refusals))
{
    scene_attach();
    scene_add_rule(0, 3, &(struct fake_rule){.command = "SET", .skip = true, .reply = refusals[_i].error});
    ck_assert_status(scene_acquire(&answer, "stock", NULL), refusals[_i].status);
    ck_assert_uint_eq(answer.result.refused, 3);
    ck_assert_ptr_eq(strstr(answer.result.node[0].text, refusals[_i].node), answer.result.node[0].text);
    ck_assert_int_eq(answer.result.node[0].outcome, REDLOCK_NODE_REFUSED);
    ck_assert_has(redlock_result_text(&answer.result), refusals[_i].remedy);
    scene_assert_undone_on(3, 5);
    scene_calm(0, 3);
    scene_lock_and_release("stock");
    for (unsigned i = 0; i < 5; i++)
        ck_assert_uint_eq(fake_server_accepted(scene.node[i]), 1);
}

/* --- Late replies --- */

SCENE_CASE(time, scene_five_nodes);

/* The nodes set the key, but their replies are late (_i 0), or they execute the SET late (_i 1). The connections are
 * kept, and the undo follows on them. A node that owes replies for long gets no other request. */
TEST_ROWS(time, a_late_grant_counts_as_timed_out_and_is_undone_on_its_link, 2)
{
    scene_attach();
    scene_wait_for_replies(0, 5);
    if (_i == 0)
        scene_add_rule(0, 3, &(struct fake_rule){.command = "SET", .count = 1, .hold = true});
    else
        scene_each(0, 3, fake_server_pause);
    scene_start_acquire(&answer, "stock", NULL);
    scene_time_out(0, 3);
    ck_assert_status(scene_wait(&answer), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.timed_out, 3);
    ck_assert_has(answer.result.node[0].text, "no reply within ");
    ck_assert_int_eq(answer.result.node[0].outcome, REDLOCK_NODE_TIMED_OUT);
    for (unsigned i = 0; i < 3; i++) /* as if they had been sent long ago, when the machine started */
        scene.client->nodes->node[i].flight.sent.first->sent = 0;
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_has(answer.result.node[0].text, "not sent: the node owes replies to earlier requests");
    ck_assert_int_eq(answer.result.node[0].outcome, REDLOCK_NODE_TIMED_OUT);
    scene_each(0, 3, fake_server_resume);
    scene_assert_undone_on(0, 5);
    for (unsigned i = 0; i < 5; i++)
        scene_until(fake_server_keys_left(scene.node[i], NULL) == 0);
    scene_each(0, 3, fake_server_release);
    scene_wait_for_ready();
    scene_lock("stock");
    for (unsigned i = 0; i < 5; i++)
        ck_assert_uint_eq(fake_server_accepted(scene.node[i]), 1);
}

SCENE_CASE(one_node, scene_one_node);

/* A server that is silent for the limit hangs, or the path to it is broken. A new connection may work. */
TEST_ROWS(one_node, a_silent_link_is_made_anew_after_the_limit, 2)
{
    scene.options.silence_limit_ms = 200;
    scene.options.node_timeout_ms = _i ? 2 * SCENE_SOON_MS : 30; /* the limit may be shorter */
    scene_attach();
    fake_server_add_rule(scene.node[0],
                         &(struct fake_rule){.command = "SET", .count = 1, .silent = true, .ending = FAKE_STALL});
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    scene_wait_for_accepted(0, 2);
    scene_wait_for_ready();
    scene_wait_for_sent(0, SENT_UNDO, 1); /* the undo of the first attempt, on the second connection */
    scene_lock("stock");
}

/* --- Rounds that wait for a node to become usable --- */

static struct rl_round *other_round;

static void leave_both(struct rl_round *round)
{
    rl_round_leave(other_round);
    rl_round_leave(round);
}

static struct rl_round *start_waiting_round(struct rl_lease *lease)
{
    const struct quorum_terms terms = {.kind = QUORUM_LOOK};
    struct rl_round *round = rl_round_create(lease, RL_COMMAND_QUERY, terms);
    ck_assert_ptr_nonnull(round);
    rl_round_begin(round);
    ck_assert(round->list);
    return round;
}

/* This happens when a waiter's attempt ends while its poll is still in progress. */
TEST(one_node, a_round_that_another_ends_when_a_node_fails_is_not_touched_again)
{
    int status;
    scene_attach_only();
    redlock_client *client = scene.client;
    struct rl_lease *lease = rl_lease_create_one(&client->locks, "stock", 5, &status);
    other_round = start_waiting_round(lease);
    start_waiting_round(lease)->decided = leave_both;
    client->nodes->node[0].attempts.failures = 1;
    client->nodes->events->node_changed(client->nodes->locks, &client->nodes->node[0]);
    ck_assert_ptr_null(client->locks.coming.first);
    ck_assert_uint_eq(lease->references, 1); /* each round had one */
    rl_lease_unref(lease);
}

TEST_PROGRAM("rounds over fake nodes")
