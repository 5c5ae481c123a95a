/* The proof that a grant needs, over fake nodes with the guard on: overdue, lost and wrong proofs. Such a grant does
 * not count, and the client undoes it once. After a wrong proof the client counts the grant as unattested and reads the
 * node's marker again. */
#include "fake/scene.h"

#include "quorum/heartbeat.h"
#include "src/client/client.h"
#include "src/core/timer.h"
#include "src/core/wall.h"
#include "src/node/guard.h"
#include "src/node/witnesses.h"

enum { DECIDER = 4, ALL = (1 << 5) - 1, HOUR = 3600 };

#define MARKER   "redlock:marker"
#define EVIDENCE "master " FAKE_HISTORY " -\n"

static struct answer answer;

/* Nodes with a marker that an operator has trusted. */
static void five_marked_nodes(void)
{
    char run_id[16], marker[64];
    scene_begin(5);
    scene.options.guard = 1;
    scene.options.max_ttl_ms = scene.options.ttl_ms;
    for (unsigned i = 0; i < 5; i++) {
        snprintf(run_id, sizeof run_id, "run%u", i);
        snprintf(marker, sizeof marker, "2 %s 0 0 0 0 1 60000 5 trusted 1f default", run_id);
        fake_server_set_info(scene.node[i], "run_id", run_id);
        fake_server_set_key(scene.node[i], MARKER, marker, -1);
    }
}

static struct rl_node *decider(void)
{
    return &scene.client->nodes->node[DECIDER];
}

static void (*on_timer)(struct rl_timer *timer); /* that of each node which is not kept quiet */

static void do_nothing(struct rl_timer *timer)
{
    (void)timer;
}

/* The node is connected, and gets no heartbeat from now on, except by beat(): it would judge the marker again. */
static void keep_quiet(struct rl_node *node)
{
    scene_until(!node->heartbeat.in_flight);
    if (node->timer.fire != do_nothing)
        on_timer = node->timer.fire;
    node->timer.fire = do_nothing;
}

static void end_quiet(struct rl_node *node)
{
    if (node->timer.fire == do_nothing)
        node->timer.fire = on_timer;
    rl_timer_set(&scene.client->core.timers, &node->timer, rl_now());
}

static void beat(struct rl_node *node)
{
    void (*fire)(struct rl_timer * timer) = node->timer.fire;
    scene_until(!node->heartbeat.in_flight);
    if (fire == do_nothing)
        node->timer.fire = on_timer;
    unsigned long long requests = node->flight.statistics->requests;
    rl_node_beat(node);
    scene_until(node->flight.statistics->requests > requests && !node->heartbeat.in_flight);
    node->timer.fire = fire;
}

/* Until it succeeds: Sentinels that are late do not confirm the master. */
static void trust(void)
{
    do {
        scene_started(&answer, redlock_trust_async(scene.client, NULL, scene_completed, scene_cleared(&answer)));
    } while (scene_wait(&answer) != REDLOCK_OK);
}

/* --- The marker's node --- */

SCENE_CASE(marker, five_marked_nodes);

/* A replica, or a node whose key is taken, reports another start with each heartbeat. It has lost no further locks. */
TEST_ROWS(marker, a_node_that_cannot_write_its_marker_hastens_no_renewal, 2)
{
    fake_server_set_key(scene.node[0], MARKER, "another program's", -1);
    if (_i) {
        fake_server_delete_key(scene.node[0], MARKER);
        fake_server_set_info(scene.node[0], "role", "slave");
    }
    scene_attach_only();
    scene_until(scene_ready_nodes() == 4 && scene.client->nodes->node[0].state == RL_NODE_READY);
    redlock_lock *lock = scene_lock("stock");
    quorum_time renewal = lock->lease->timer.due;
    struct rl_node *other = &scene.client->nodes->node[1];
    keep_quiet(other);
    scene_wait_for_replies(1, 2);
    rl_timer_set(&scene.client->core.timers, &other->timer, rl_now() + HOUR * QUORUM_SECOND);
    for (unsigned i = 0; i < 3; i++)
        beat(scene.client->nodes->node);
    ck_assert_uint_gt(other->timer.due, rl_now()); /* it has nothing to learn */
    ck_assert_uint_eq(lock->lease->timer.due, renewal);
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK);
}

/* The script finds another marker than the client has judged: none. Overwriting it would be news to the other client. */
TEST(marker, a_marker_that_another_client_has_just_written_stays)
{
    char marker[80] = "", written[80];
    snprintf(written, sizeof written, "2 run%d 0 0 0 0 2 60000 5 trusted 2f default", DECIDER);
    fake_server_delete_key(scene.node[DECIDER], MARKER);
    unsigned held =
        fake_server_add_rule(scene.node[DECIDER], &(struct fake_rule){.command = "GETRANGE", .count = 1, .hold = true});
    scene_attach_only();
    scene_until(fake_server_rule_used(scene.node[DECIDER], held) == 1);
    fake_server_set_key(scene.node[DECIDER], MARKER, written, -1);
    fake_server_release(scene.node[DECIDER]);
    scene_until(scene.client->nodes->node[DECIDER].attest.rules.size > 0); /* it has judged a marker */
    ck_assert(fake_server_get_key(scene.node[DECIDER], MARKER, marker, sizeof marker));
    ck_assert_str_eq(marker, written);
}

/* The client has not seen it yet, so its request is sent. */
TEST(marker, an_operators_word_leaves_what_is_no_marker)
{
    char marker[80] = "";
    scene_attach();
    fake_server_set_key(scene.node[0], MARKER, "another program's", -1);
    trust();
    ck_assert_uint_eq(answer.result.granted, 4);
    ck_assert(fake_server_get_key(scene.node[0], MARKER, marker, sizeof marker));
    ck_assert_str_eq(marker, "another program's");
}

/* Whether the nodes that granted before the last one was connected may have lost a lock with the longer ttl. */
static const struct {
    int64_t started_ms; /* their markers, ago; 0: an operator has trusted them */
    int status;
} learnings[] = {{20000, REDLOCK_TOO_SLOW}, {0, REDLOCK_OK}};

/* Another client of the deployment has a larger max_ttl, which one node's marker has. */
TEST_ROWS(marker, max_ttl_learned_during_a_round_counts_for_its_grants, ROWS(learnings))
{
    char text[80];
    int64_t since_ms = learnings[_i].started_ms ? (int64_t)(rl_wall_us() / 1000) - learnings[_i].started_ms : 0;
    scene.options.max_ttl_ms = scene.options.ttl_ms = 10000;
    for (unsigned i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "2 run%u 0 0 0 %lld 1 %u 5 new 1f default", i,
                 i == DECIDER ? 0 : (long long)since_ms, i == DECIDER ? 60000 : 10000);
        fake_server_set_key(scene.node[i], MARKER, text, -1);
    }
    scene_hold_on(2, DECIDER, "stock");
    unsigned held =
        fake_server_add_rule(scene.node[DECIDER], &(struct fake_rule){.command = "GETRANGE", .count = 1, .hold = true});
    scene_attach_only();
    scene_until(scene_ready_nodes() == 4 && fake_server_rule_used(scene.node[DECIDER], held) == 1);
    scene_start_acquire(&answer, "stock", SCENE_WITH(.ttl_ms = 10000));
    for (unsigned i = 0; i < DECIDER; i++)
        scene_wait_for_sent(i, SENT_SET, 1);
    scene_wait_for_replies(0, DECIDER);
    ck_assert_uint_eq(answer.callbacks, 0);
    fake_server_release(scene.node[DECIDER]);
    ck_assert_status(scene_wait(&answer), learnings[_i].status);
    ck_assert_uint_eq(scene_count(DECIDER, SENT_SET), 1);
    scene_let_go_on(2, DECIDER, "stock");
    if (answer.lock)
        ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}

/* --- A node behind Sentinel --- */

enum { OLD, NEW, SENTINELS };

/* The Sentinels name this server, in a configuration of this epoch. */
static void name_master(unsigned server, unsigned epoch)
{
    char master[128], address[64], port[8];
    snprintf(port, sizeof port, "%u", fake_server_port(scene.node[server]));
    snprintf(address, sizeof address, "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port), port);
    snprintf(master, sizeof master,
             "*4\r\n$12\r\nconfig-epoch\r\n$1\r\n%u\r\n$19\r\nnum-other-sentinels\r\n$1\r\n2\r\n", epoch);
    for (unsigned i = SENTINELS; i < 5; i++) {
        char id[16];
        snprintf(id, sizeof id, "$1\r\n%u\r\n", i);
        fake_server_clear_rules(scene.node[i]);
        scene_add_rule(i, i + 1, &(struct fake_rule){.command = "SENTINEL", .argument = "MYID", .reply = id});
        scene_add_rule(i, i + 1, &(struct fake_rule){.command = "SENTINEL", .argument = "MASTER", .reply = master});
        scene_add_rule(i, i + 1, &(struct fake_rule){.command = "SENTINEL", .reply = address});
    }
}

static void attach_to_sentinels_only(void)
{
    char list[160], marker[128];
    snprintf(list, sizeof list, "sentinel://%s,%s,%s/m", fake_server_address(scene.node[SENTINELS]),
             fake_server_address(scene.node[SENTINELS + 1]), fake_server_address(scene.node[SENTINELS + 2]));
    for (unsigned i = OLD; i <= NEW; i++)
        fake_server_delete_key(scene.node[i], MARKER); /* of five nodes */
    name_master(OLD, 1);
    ck_assert_status(redlock_attach(scene.loop, list, &scene.options, &scene.client, &answer.result), REDLOCK_OK);
    scene_until(scene.client->nodes->node[0].state == RL_NODE_READY);
    ck_assert(fake_server_get_key(scene.node[OLD], MARKER, marker, sizeof marker));
    ck_assert_has(marker, " 60000 1 new ");
}

static void attach_to_sentinels(void)
{
    attach_to_sentinels_only();
    trust();
    ck_assert_uint_le(rl_guard_free_at(scene.client->nodes->node), rl_now()); /* at once, not with the next heartbeat */
}

static void wait_for_master(unsigned server)
{
    const struct rl_node *node = scene.client->nodes->node;
    scene_until(node->address->port == fake_server_port(scene.node[server]) && node->state == RL_NODE_READY);
    ck_assert_has(node->name, fake_server_address(scene.node[server]));
}

SCENE_CASE(promoted, five_marked_nodes);

/* Whether the master settles a second after the end of the lock's validity, or before it. */
static const struct {
    uint32_t at_least_ms;
    bool extends, settles_later, confirmed;
    int status;
} keepings[] = {
    {5000, false, false, true, REDLOCK_OK},
    {5000, false, true, true, REDLOCK_NO_QUORUM},
    {5000, false, false, false, REDLOCK_NO_QUORUM},
    {0, false, true, false, REDLOCK_OK},
    {0, true, false, true, REDLOCK_OK},
    {0, true, true, true, REDLOCK_NO_QUORUM},
    {0, true, false, false, REDLOCK_NO_QUORUM},
};

/* Another client may get the lock from the other master before the extension's end, or that of at_least_ms. */
TEST_ROWS(promoted, extension_and_kept_release_count_on_the_only_master, 7)
{
    attach_to_sentinels();
    struct rl_node *node = scene.client->nodes->node;
    for (unsigned i = 0; i < 3; i++) { /* the client hears no more of the Sentinels, however late they are */
        scene_until(node->witnesses->witness[i].state == RL_WITNESS_RESTING);
        node->witnesses->witness[i].timer.fire = do_nothing;
    }
    node->confirmed_until = rl_now() + HOUR * QUORUM_SECOND;
    keep_quiet(node);
    ck_assert_status(scene_acquire(&answer, "stock", SCENE_WITH(.at_least_ms = keepings[_i].at_least_ms)), REDLOCK_OK);
    redlock_lock *lock = answer.lock;
    quorum_time end = lock->lease->rules.validity_end;
    quorum_time settled = keepings[_i].extends ? 0 : end - QUORUM_SECOND;
    scene.client->nodes->guard->node[0].settled = keepings[_i].settles_later ? end + QUORUM_SECOND : settled;
    if (!keepings[_i].confirmed)
        node->confirmed_until = 0;
    if (keepings[_i].extends) {
        ck_assert_status(scene_wait(scene_start_extend(&answer, lock, 0)), keepings[_i].status);
        ck_assert_int_eq(lock->lease->rules.validity_end > end, keepings[_i].status == REDLOCK_OK);
        scene_release(&answer, &lock);
    } else {
        ck_assert_status(scene_release(&answer, &lock), keepings[_i].status);
    }
    scene.keys_may_stay = true;
}

/* They are asked in turn, so that a client that asks each as often as it must learns of a failover sooner. */
TEST(promoted, sentinels_are_asked_one_after_the_other)
{
    const quorum_duration every = QUORUM_CONFIRMED_LASTS / 2;
    attach_to_sentinels_only();
    const struct rl_witnesses *witnesses = scene.client->nodes->node[0].witnesses;
    for (unsigned i = 0; i < 3; i++) {
        const struct rl_witness *witness = &witnesses->witness[i];
        scene_until(witness->state == RL_WITNESS_RESTING);
        ck_assert_uint_le(witness->timer.due, witnesses->rules.witness[i].sent + every);
        ck_assert_uint_gt(witness->timer.due, witnesses->rules.witness[i].sent);
        ck_assert_uint_eq((witness->timer.due - witnesses->turns) % every, i * every / 3);
    }
}

/* They have accepted their next connections, too, and reply to nothing. */
TEST(promoted, no_acquire_waits_for_two_hung_sentinels_of_three)
{
    attach_to_sentinels();
    const struct rl_node *node = scene.client->nodes->node;
    scene_each(SENTINELS, SENTINELS + 2, fake_server_pause);
    for (unsigned i = 0; i < 2; i++) {
        struct rl_witness *witness = &node->witnesses->witness[i];
        scene_until(witness->state == RL_WITNESS_ASKED);
        witness->attempts.timeout = HOUR * QUORUM_SECOND;
        node->witnesses->rules.witness[i].sent = 1; /* long ago */
        rl_timer_set(&scene.client->core.timers, &witness->timer, rl_now());
        scene_until(witness->attempts.error[0] && witness->state == RL_WITNESS_ASKED);
        ck_assert_uint_eq(node->witnesses->rules.witness[i].sent, 0);
    }
    scene_until(node->findings & REDLOCK_FINDING_WITNESSES_SILENT);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_has(answer.result.node[0].text, "too few sentinels reply");
    fake_server_drop(scene.node[OLD], FAKE_CLOSE); /* it may not be the master any more */
    scene_until(node->state == RL_NODE_RESOLVING);
    scene_each(SENTINELS, SENTINELS + 2, fake_server_resume);
    scene_until(node->state == RL_NODE_READY && !(node->findings & REDLOCK_FINDING_WITNESSES_SILENT));
}

/* A failover by hand: the old master is a replica before the Sentinels name the new one. */
TEST(promoted, waiting_acquire_outlasts_an_old_master_that_is_still_named)
{
    struct answer ready, waits;
    attach_to_sentinels();
    fake_server_set_info(scene.node[OLD], "role", "slave");
    beat(scene.client->nodes->node);
    scene_until(scene.client->nodes->node[0].findings & REDLOCK_FINDING_REPLICA);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM); /* not misconfigured */
    scene_start_ready(&ready, 6 * SCENE_SOON_MS);
    scene_start_acquire(&waits, "stock", REDLOCK_WAIT_MS(6 * SCENE_SOON_MS));
    quorum_time promoted = rl_now();
    name_master(NEW, 2);
    wait_for_master(NEW);
    ck_assert_uint_ge(scene.client->nodes->guard->node[0].settled, promoted + QUORUM_SETTLING);
    trust(); /* otherwise they wait for the end of its quarantine */
    ck_assert_status(scene_wait(&waits), REDLOCK_OK);
    ck_assert_status(scene_wait(&ready), REDLOCK_OK);
    ck_assert_uint_eq(scene_count(OLD, SENT_SET), 0);
    ck_assert_status(scene_release(&waits, &waits.lock), REDLOCK_OK);
}

/* The Sentinels name the one server and the other in turn, in the same configuration and in later ones. */
TEST(promoted, sentinels_that_flap_are_followed_with_one_connection_each_time)
{
    enum { FLAPS = 6 };
    attach_to_sentinels_only();
    for (unsigned i = 1; i <= FLAPS; i++) {
        name_master(i % 2 ? NEW : OLD, i <= FLAPS / 2 ? 1 : i);
        wait_for_master(i % 2 ? NEW : OLD);
    }
    ck_assert_uint_eq(fake_server_accepted(scene.node[OLD]) + fake_server_accepted(scene.node[NEW]), 1 + FLAPS);
}

/* --- One node decides --- */

static void attach_quietly(void)
{
    scene_attach();
    keep_quiet(decider());
    fake_server_forget_records(scene.node[DECIDER]);
}

/* by_look: the next proof is a look at all the evidence. Otherwise it is the marker alone. */
static void let_prove(bool by_look)
{
    decider()->attest.rules.looked = decider()->attest.rules.wrote = by_look ? 0 : rl_now() + HOUR * QUORUM_SECOND;
}

static void let_others_disagree(void)
{
    scene_hold_on(2, DECIDER, "stock");
}

static uint64_t unattested(void)
{
    return scene.client->core.statistics.unattested;
}

/* The grant counts as unattested once, in the result and in the statistics. */
static void assert_unattested(unsigned before)
{
    ck_assert_answer(&answer, REDLOCK_HELD);
    ck_assert_uint_eq(unattested(), before + 1);
    ck_assert_uint_eq(answer.result.unattested, 1);
    ck_assert_int_eq(answer.result.node[DECIDER].outcome, REDLOCK_NODE_UNATTESTED);
    ck_assert_has(answer.result.node[DECIDER].text, "marker changed");
    ck_assert(scene_is_logged("its marker changed"));
}

static void assert_undos(unsigned undos)
{
    scene_wait_for_sent(DECIDER, SENT_UNDO, undos);
    ck_assert_status(scene_close(&answer), REDLOCK_OK); /* the nodes have answered all commands */
    ck_assert_uint_eq(scene_count(DECIDER, SENT_UNDO), undos);
}

static void assert_undone_once(void)
{
    scene_assert_undone_on(DECIDER, DECIDER + 1);
    assert_undos(1);
    ck_assert(!scene_has_key(DECIDER, "stock"));
}

/* The node counts again as soon as its marker has been read. */
static void assert_read_again(void)
{
    uint64_t before = unattested();
    end_quiet(decider());
    scene_until(decider()->attest.rules.size > 0);
    ck_assert_uint_eq(fake_server_count(scene.node[DECIDER], "GETRANGE"), 1);
    ck_assert_status(scene_acquire(&answer, "other", NULL), REDLOCK_OK);
    ck_assert_uint_eq(unattested(), before);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}

/* --- Wrong proofs --- */

static const char *const wrong[] = {
    "$-1\r\n", "$0\r\n\r\n",        "$1\r\nx\r\n",  ":1\r\n",    "+OK\r\n",
    "*0\r\n",  "*1\r\n$1\r\nx\r\n", FAKE_WRONGTYPE, FAKE_NOPERM, FAKE_LOADING,
};

SCENE_CASE(wrong, five_marked_nodes);

/* All of them as the marker alone and as a look's evidence, one as its marker. */
TEST(wrong, a_wrong_proof_does_not_attest)
{
    static const char *const commands[] = {"GET", "INFO", "GET"};
    attach_quietly();
    let_others_disagree();
    for (unsigned i = 0; i < 2 * ROWS(wrong) + 1; i++) {
        struct fake_rule lie = {
            .command = commands[i / ROWS(wrong)], .count = 1, .skip = true, .reply = wrong[i % ROWS(wrong)]};
        unsigned before = (unsigned)unattested(), rule = fake_server_add_rule(scene.node[DECIDER], &lie);
        keep_quiet(decider());
        let_prove(i >= ROWS(wrong));
        scene_acquire(&answer, "stock", NULL);
        assert_unattested(before);
        ck_assert_uint_eq(fake_server_rule_used(scene.node[DECIDER], rule), 1);
        assert_read_again();
        scene_wait_for_sent(DECIDER, SENT_UNDO, 2);
        scene_wait_for_replies(DECIDER, DECIDER + 1);
        scene_assert_undone_on(DECIDER, DECIDER + 1);
        ck_assert_uint_eq(scene_count(DECIDER, SENT_UNDO), 2);
        fake_server_forget_records(scene.node[DECIDER]);
    }
}

/* The node is flushed between the judgement and the grant. */
TEST(wrong, a_node_grants_nothing_until_its_marker_is_read_again)
{
    attach_quietly();
    fake_server_delete_key(scene.node[DECIDER], MARKER);
    fake_server_add_rule(scene.node[DECIDER], &(struct fake_rule){.command = "GETRANGE", .count = 1, .hold = true});
    let_others_disagree();
    scene_acquire(&answer, "stock", NULL);
    assert_unattested(0);
    scene_acquire(&answer, "stock", NULL);
    ck_assert_answer(&answer, REDLOCK_HELD);
    ck_assert_uint_eq(answer.result.refused, 1);
    ck_assert_has(answer.result.node[DECIDER].text, "reads it again");
    ck_assert_uint_eq(scene_count(DECIDER, SENT_SET), 1);
    end_quiet(decider());
    scene_until(fake_server_count(scene.node[DECIDER], "GETRANGE") >= 1);
    fake_server_release(scene.node[DECIDER]);
    assert_read_again();
}

/* --- Proofs that come late, or never --- */

SCENE_CASE(late, five_marked_nodes);

/* The decider has granted. Its server holds back the reply that carries the proof. */
static void acquire_with_held_proof(void)
{
    fake_server_add_rule(scene.node[DECIDER], &(struct fake_rule){.command = "GET", .count = 1, .hold = true});
    let_prove(false);
    scene_start_acquire(&answer, "stock", NULL);
    scene_until(decider()->attest.waiting.first);
    scene_until(fake_server_count(scene.node[DECIDER], "GET") >= 1);
}

/* The marker alone arrives too long after the last look at the evidence. The client looks again, and the second look
 * decides. */
TEST_ROWS(late, a_late_marker_is_followed_by_a_look, 2)
{
    bool same = _i;
    attach_quietly();
    let_others_disagree();
    acquire_with_held_proof();
    if (!same)
        fake_server_set_info(scene.node[DECIDER], "master_replid", "another history");
    let_prove(true);
    fake_server_release(scene.node[DECIDER]);
    scene_wait(&answer);
    ck_assert_uint_ge(fake_server_count(scene.node[DECIDER], "INFO"), 1);
    if (same) {
        ck_assert_answer(&answer, REDLOCK_OK);
        ck_assert_uint_eq(unattested(), 0);
        ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    } else {
        assert_unattested(0);
    }
    assert_undone_once();
}

/* The next acquire is then proven by the marker alone. On a node that is too far away for that, no look is sent. */
TEST_ROWS(late, a_release_renews_an_old_look, 3)
{
    static const struct {
        bool old, distant;
        unsigned looks;
    } rows[] = {{true, false, 1}, {false, false, 0}, {true, true, 0}};
    attach_quietly();
    scene_acquire(&answer, "stock", SCENE_WITH(.all_answers = true)); /* every node has proven its grant */
    fake_server_forget_records(scene.node[DECIDER]);
    let_prove(rows[_i].old);
    decider()->attest.rules.took = rows[_i].distant ? QUORUM_SECOND : 0;
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    ck_assert_status(scene_close(&answer), REDLOCK_OK); /* the nodes have answered all commands */
    ck_assert_uint_eq(fake_server_count(scene.node[DECIDER], "INFO"), rows[_i].looks);
}

/* A script may find a key that its own client has set, so it proves nothing about the time of its grant. Where the
 * marker comes too late, a look follows, which is another matter: one of many acquires is quick enough. */
TEST_ROWS(late, only_a_plain_grant_counts_as_a_write, 2)
{
    enum { TRIES = 20 };
    bool plain = _i, looked = true;
    quorum_time wrote = 0;
    attach_quietly();
    for (unsigned i = 0; i < TRIES && (looked || i < 2); i++) { /* the second finds a fencing record */
        size_t looks = fake_server_count(scene.node[DECIDER], "INFO");
        let_prove(false);
        wrote = decider()->attest.rules.wrote = rl_now();
        scene_acquire(&answer, "stock", SCENE_WITH(.all_answers = true, .fence = !plain));
        looked = fake_server_count(scene.node[DECIDER], "INFO") > looks;
        if (!looked)
            ck_assert_int_eq(decider()->attest.rules.wrote > wrote, plain);
        ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    }
}

/* The grant arrives in time, its proof does not: the node times out. The late proof does not change the result. */
TEST_ROWS(late, an_overdue_proof_is_a_timeout, 2)
{
    bool proven = _i;
    attach_quietly();
    let_others_disagree();
    acquire_with_held_proof();
    scene_time_out(DECIDER, DECIDER + 1);
    ck_assert_status(scene_wait(&answer), REDLOCK_HELD);
    ck_assert_uint_eq(answer.result.timed_out, 1);
    ck_assert_uint_eq(answer.result.unattested, 0);
    if (!proven)
        quorum_attest_forget(&decider()->attest.rules);
    fake_server_release(scene.node[DECIDER]);
    scene_until(unattested() == !proven);
    ck_assert(!scene_is_logged("its marker changed")); /* a doubt that is not new */
    assert_undone_once();
}

/* The connection ends between the grant and its proof. */
TEST(late, a_grant_whose_proof_is_lost_is_unreachable)
{
    attach_quietly();
    end_quiet(decider()); /* it connects again */
    let_others_disagree();
    fake_server_add_rule(scene.node[DECIDER],
                         &(struct fake_rule){.command = "GET", .count = 1, .silent = true, .ending = FAKE_CLOSE});
    let_prove(false);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_HELD);
    ck_assert_uint_eq(answer.result.unreachable, 1);
    ck_assert_uint_eq(answer.result.unattested, 0);
    scene_wait_for_ready();
    ck_assert_ptr_null(decider()->attest.waiting.first);
    assert_undos(1);
}

/* --- Idle clients --- */

SCENE_CASE(idle, five_marked_nodes);

/* The next heartbeat comes so long after a time in the past at least, and so long after now at most. */
static bool beats_within(const struct rl_node *node, quorum_time since, quorum_duration least, quorum_duration most)
{
    return node->heartbeat.interval == most && node->timer.due >= since + least && node->timer.due <= rl_now() + most;
}

/* The intervals grow, less a random part, until the client uses the node again. */
TEST(idle, heartbeats_of_a_client_grow_rare_while_it_holds_nothing)
{
    static const unsigned seconds[] = {4, 16, 60, 60};
    scene_attach();
    struct rl_node *node = scene.client->nodes->node;
    keep_quiet(node);
    node->heartbeat.interval = RL_NODE_HEARTBEAT; /* a client that is late has had heartbeats already */
    quorum_time since;
    for (unsigned i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        quorum_duration interval = seconds[i] * QUORUM_SECOND;
        since = rl_now();
        beat(node);
        ck_assert(beats_within(node, since, interval / 4 * 3, interval));
    }
    scene.client->nodes->phase = since = rl_now(); /* this node's next turn is a second away */
    redlock_lock *lock = scene_lock("stock");
    ck_assert(beats_within(node, since, QUORUM_SECOND, RL_NODE_HEARTBEAT));
    rl_timer_set(&scene.client->core.timers, &node->timer, rl_now() + HOUR * QUORUM_SECOND);
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK);
    scene_wait_for_replies(0, 1);
    since = rl_now();
    beat(node);
    ck_assert(beats_within(node, since, 3 * QUORUM_SECOND, 4 * QUORUM_SECOND));
    ck_assert_uint_eq(fake_server_count(scene.node[0], "GETRANGE"), 1); /* a heartbeat reads nothing anew */
}

static void lose_its_marker(void)
{
    fake_server_delete_key(scene.node[DECIDER], MARKER);
    beat(decider());
}

static void become_a_replica(void)
{
    fake_server_set_info(scene.node[DECIDER], "role", "slave");
    decider()->attest.rules.knows = 0; /* the next heartbeat looks */
}

static void owe_an_undo(void)
{
    keep_quiet(decider());
    fake_server_refuse(scene.node[DECIDER], "EVALSHA", 0, FAKE_LOADING);
    scene_lock_and_release("stock");
    scene_until(decider()->kept.first);
}

static void hold_for_shortly(void)
{
    scene_acquire(&answer, "short", SCENE_WITH(.ttl_ms = 2000)); /* it may take longer */
}

static void wait_for_another(void)
{
    scene_hold_on(0, 5, "another");
    scene_start_acquire(&answer, "another", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
}

static void lose_the_connection(void)
{
    keep_quiet(decider());
    rl_node_break(decider(), false, "broken by the test");
}

/* The client holds nothing, and something is to be done with the node; or it holds a lock, and all is well; or it waits as
 * well, or holds a short lock, too, or another node is not healthy. */
static const struct {
    void (*change)(void);
    bool holds;
    quorum_duration interval;
} plans[] = {
    {lose_its_marker, false, RL_NODE_HEARTBEAT},    {become_a_replica, false, RL_NODE_HEARTBEAT},
    {owe_an_undo, false, RL_NODE_HEARTBEAT},        {wait_for_another, false, RL_NODE_HEARTBEAT},
    {NULL, true, 3000 * QUORUM_MILLISECOND},        {wait_for_another, true, RL_NODE_HEARTBEAT},
    {hold_for_shortly, true, RL_NODE_HEARTBEAT},    {owe_an_undo, true, RL_NODE_HEARTBEAT},
    {lose_the_connection, true, RL_NODE_HEARTBEAT}, {lose_its_marker, true, RL_NODE_HEARTBEAT},
};

TEST_ROWS(idle, only_a_holder_hears_healthy_nodes_in_turn_and_what_is_due_prevents_both, ROWS(plans))
{
    scene_attach();
    if (plans[_i].holds)
        scene_lock("held");
    if (plans[_i].change)
        plans[_i].change();
    struct rl_node *node = plans[_i].holds ? &scene.client->nodes->node[1] : decider();
    beat(node); /* the next one is due at the node's turn */
    quorum_duration interval = plans[_i].interval;
    quorum_time now = rl_now(), turn = quorum_heartbeat_next(node->index, 5, interval, node->nodes->phase, now);
    ck_assert_uint_eq(node->timer.due % interval, turn % interval);
    ck_assert_uint_le(quorum_time_until(node->timer.due, now), interval);
    scene_calm(0, 5);
    end_quiet(decider());
    scene_until(rl_node_is_ready(decider()) && !decider()->kept.first);
}

/* The turns were planned for locks with longer ttls. */
TEST(idle, a_short_lock_brings_the_next_turns_forward)
{
    scene_attach();
    scene_lock("stock");
    for (unsigned i = 0; i < 5; i++) {
        beat(&scene.client->nodes->node[i]);
        rl_timer_set(&scene.client->core.timers, &scene.client->nodes->node[i].timer, rl_now() + HOUR * QUORUM_SECOND);
    }
    hold_for_shortly();
    for (unsigned i = 0; i < 5; i++)
        ck_assert(beats_within(&scene.client->nodes->node[i], 0, 0, RL_NODE_HEARTBEAT));
}

/* Many clients lose a node at the same time. */
TEST(idle, a_connection_that_broke_is_made_later_or_when_an_operation_needs_it)
{
    scene_attach();
    beat(decider());
    decider()->attempts.ready_since -= 2 * QUORUM_SECOND;
    rl_node_break(decider(), false, "broken by the test");
    ck_assert_int_eq(decider()->state, RL_NODE_BACKOFF);
    ck_assert_uint_le(quorum_time_until(decider()->timer.due, rl_now()), RL_NODE_SPREAD);
    rl_timer_set(&scene.client->core.timers, &decider()->timer, rl_now() + HOUR * QUORUM_SECOND);
    scene_turn();
    ck_assert_int_eq(decider()->state, RL_NODE_BACKOFF);
    scene_lock_and_release("stock");
    scene_until(rl_node_is_ready(decider()));
}

/* The first grant after idleness is judged by all that may have changed meanwhile, read behind it, without a further
 * round trip. _i 0: nothing has changed; 1: the marker is gone; 2, 3: a failover, an eviction; 4: the clock has jumped. */
TEST_ROWS(idle, a_grant_on_a_node_that_changed_while_no_client_looked_does_not_count, 5)
{
    static const char *const info[5][2] = {[2] = {"master_replid", "another history"}, [3] = {"evicted_keys", "7"}};
    attach_quietly();
    let_others_disagree();
    beat(decider());
    decider()->attest.rules.knows -=
        10 * QUORUM_SECOND; /* its last beat is this old; the node's clock may have drifted by 0.1 s */
    scene.client->nodes->clock_watch->node[DECIDER].at -= 10 * QUORUM_SECOND;
    if (_i == 1)
        fake_server_delete_key(scene.node[DECIDER], MARKER);
    else if (_i == 4)
        fake_server_set_clock_offset_us(scene.node[DECIDER], 5000000);
    else if (_i)
        fake_server_set_info(scene.node[DECIDER], info[_i][0], info[_i][1]);
    fake_server_forget_records(scene.node[DECIDER]);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), _i ? REDLOCK_HELD : REDLOCK_OK);
    ck_assert_uint_eq(answer.result.unattested, _i == 1 || _i == 2 || _i == 3);
    ck_assert_uint_eq(answer.result.refused, _i == 4);
    ck_assert_uint_eq(fake_server_count(scene.node[DECIDER], "SET"), 1);
    if (_i > 0)
        assert_undone_once();
    else
        ck_assert_uint_eq(fake_server_count(scene.node[DECIDER], "GET"), 1);
}

/* --- Hand-over --- */

SCENE_CASE(handed, five_marked_nodes);

static void wait_for_offers(void)
{
    struct scene_offer offer;
    for (unsigned i = 0; i < 5; i++)
        scene_until(scene_read_offer(i, &offer));
    scene_wait_for_replies(0, 5); /* no poll is on its way, which a node would answer after a change by the test */
}

/* The node hands the lock over with this evidence and its marker. Returns the value of the offer. */
static const char *hand_over(unsigned node, const char *evidence)
{
    static struct scene_offer offer;
    char marker[64], shown[128];
    ck_assert(fake_server_get_key(scene.node[node], MARKER, marker, sizeof marker));
    snprintf(shown, sizeof shown, "%s%s", evidence, marker);
    ck_assert(scene_read_offer(node, &offer));
    scene_hand_over(node, "stock", &offer, shown);
    return offer.value;
}

/* The proof is part of the node's message. _i 0: as judged; 1: another marker; 2: the marker without evidence. */
TEST_ROWS(handed, a_hand_over_counts_only_with_its_proof, 3)
{
    const char *evidence[] = {EVIDENCE, EVIDENCE "x", ""};
    attach_quietly();
    scene_hold_on(0, 5, "stock");
    scene_start_acquire(&answer, "stock", REDLOCK_WAIT_MS(SCENE_SOON_MS));
    wait_for_offers();
    hand_over(0, EVIDENCE);
    hand_over(1, EVIDENCE);
    const char *offered = hand_over(DECIDER, evidence[_i]);
    if (_i > 0)
        scene_until(unattested() == 1);
    scene_let_go_on(0, 5, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_int_eq(strcmp(redlock_lock_token(answer.lock), offered) == 0, _i == 0);
    ck_assert_uint_eq(unattested(), _i > 0);
}

/* --- Hot locks --- */

/* What the decider had received before the second waiter's attempt. */
static struct {
    unsigned proofs, attempts;
} before;

static struct answer second; /* of the second waiter; the close after the test may still answer it */

/* Of two waiters of one client the first is handed the lock, and the second makes its first attempt. It finds the lock
 * held on these nodes, and no marker on those in `lost`. */
static void hand_over_to_the_first(quorum_nodes held, quorum_nodes lost)
{
    scene.options.renewal_percent = 0; /* it would heal the nodes */
    attach_quietly();
    let_prove(false);
    scene_hold_on(0, 5, "stock");
    scene_start_acquire(&answer, "stock", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    wait_for_offers();
    scene_start_acquire(&second, "stock", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    for (unsigned i = 0; i < 5; i++) {
        hand_over(i, EVIDENCE);
        fake_server_delete_key(scene.node[i], "stock");
        if (held & quorum_node(i))
            scene_hold(i, "stock");
        if (lost & quorum_node(i))
            fake_server_delete_key(scene.node[i], MARKER);
    }
    before.proofs = (unsigned)fake_server_count(scene.node[DECIDER], "GET");
    before.attempts = scene_count(DECIDER, SENT_ATTEMPT);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    scene_until(scene_count(DECIDER, SENT_ATTEMPT) > before.attempts);
}

/* The one proof is that of the other lock. */
TEST(handed, an_attempt_that_finds_a_hot_lock_held_requests_no_proof)
{
    hand_over_to_the_first(ALL, 0);
    scene_lock("other");
    scene_until(fake_server_count(scene.node[DECIDER], "GET") >= before.proofs + 1);
    ck_assert_status(scene_close(&answer), REDLOCK_OK);
    ck_assert_uint_eq(fake_server_count(scene.node[DECIDER], "GET"), before.proofs + 1);
}

TEST(handed, a_hot_lock_that_is_free_is_acquired_with_proofs)
{
    hand_over_to_the_first(0, 0);
    ck_assert_status(scene_wait(&second), REDLOCK_OK);
    ck_assert_uint_eq(unattested(), 0);
}

TEST(handed, a_hot_lock_does_not_count_on_a_node_without_its_marker)
{
    hand_over_to_the_first(quorum_node(2) | quorum_node(3), quorum_node(DECIDER));
    scene_until(unattested() == 1);
    scene_wait_for_sent(DECIDER, SENT_UNDO, 1);
}

/* --- Cost --- */

SCENE_CASE(cost, five_marked_nodes);

TEST(cost, one_proof_serves_all_grants_of_a_write)
{
    struct answer others[3];
    static const char *const names[] = {"a", "b", "c"};
    attach_quietly();
    let_prove(false);
    for (unsigned i = 0; i < 3; i++)
        scene_start_acquire(&others[i], names[i], NULL);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_status(scene_wait(&others[i]), REDLOCK_OK);
    scene_wait_for_sent(DECIDER, SENT_SET, 3);
    scene_until(fake_server_count(scene.node[DECIDER], "GET") >= 1);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_status(scene_release(&answer, &others[i].lock), REDLOCK_OK);
    ck_assert_uint_eq(fake_server_count(scene.node[DECIDER], "GET"), 1);
}

TEST_PROGRAM("fake_proof")
