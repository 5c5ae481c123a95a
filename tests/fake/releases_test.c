/* Releases of one turn of the loop: several leave as one command, and each ends as if it had been sent alone. */
#include "fake/scene.h"

#include "src/client/client.h"
#include "src/lock/undo.h"
#include "src/node/script.h"

enum { MANY = 2 * RL_RELEASES_MOST + 1, SOME = 6, TTL_MS = 600000 };

static struct answer acquired[MANY], released[MANY], late;

/* Releases of several locks that the node has received. */
static unsigned count_carriers(unsigned node)
{
    unsigned count = 0;
    const struct fake_record *record;
    for (unsigned at = 0; (record = fake_server_record(scene.node[node], NULL, at)); at++)
        if (record->command->argc > 1)
            count += resp_argument_is(&record->command->argv[1], rl_scripts[RL_SCRIPT_RELEASES].sha1) ||
                     resp_argument_is(&record->command->argv[1], rl_scripts[RL_SCRIPT_RELEASES].text);
    return count;
}

/* Attaches the client, unless it is there, and acquires the locks on every node. */
static void hold(unsigned count)
{
    if (!scene.client)
        scene_attach();
    scene_start_acquires(acquired, count, NULL);
    for (unsigned i = 0; i < count; i++)
        ck_assert_status(scene_wait(&acquired[i]), REDLOCK_OK);
    scene_wait_for_sent_to(0, scene.nodes, SENT_SET, count);
}

/* With the first nodes: the acquires were to succeed on a busy machine. */
static void shorten_patience(unsigned nodes)
{
    for (unsigned i = 0; i < nodes; i++)
        scene.client->nodes->node[i].flight.patience = (struct quorum_patience){.least = 50 * QUORUM_MILLISECOND};
}

static void start_releases(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        scene_start_release(&released[i], &acquired[i].lock);
}

static void expect(unsigned count, int status)
{
    for (unsigned i = 0; i < count; i++)
        if (scene_wait(&released[i]) != status)
            ck_assert_answer(&released[i], status);
}

static void expect_no_key(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        scene_wait_for_no_key(0, scene.nodes, scene_name(i));
}

/* Releases the locks in one turn. Afterwards no node has a key: the undo of each is sent again where it may have failed. */
static void release_all(unsigned count, int status)
{
    start_releases(count);
    expect(count, status);
    expect_no_key(count);
}

static void three_nodes(void)
{
    scene_begin(3);
    scene.options.ttl_ms = TTL_MS;
    scene.options.renewal_percent = 0;
}

SCENE_CASE(releases, three_nodes);

static const struct {
    unsigned locks, carriers, alone;
} sizes[] = {{1, 0, 1}, {2, 1, 0}, {RL_RELEASES_MOST, 1, 0}, {RL_RELEASES_MOST + 1, 1, 1}, {MANY, 2, 1}};

TEST_ROWS(releases, releases_of_one_turn_share_commands, ROWS(sizes))
{
    hold(sizes[_i].locks);
    release_all(sizes[_i].locks, REDLOCK_OK);
    for (unsigned node = 0; node < scene.nodes; node++) {
        ck_assert_uint_eq(count_carriers(node), sizes[_i].carriers);
        ck_assert_uint_eq(scene_count(node, SENT_UNDO), sizes[_i].alone);
    }
}

/* Otherwise the acquire would find the lock held by the handle that the caller has just released. */
TEST(releases, request_for_a_key_goes_behind_its_release)
{
    hold(SOME);
    start_releases(SOME - 1);
    scene_start_acquire(&late, scene_name(1), NULL);
    scene_start_release(&released[SOME - 1], &acquired[SOME - 1].lock);
    ck_assert_status(scene_wait(&late), REDLOCK_OK);
    expect(SOME, REDLOCK_OK);
    for (unsigned node = 0; node < scene.nodes; node++) {
        scene_wait_for_sent(node, SENT_UNDO, 1);
        ck_assert_uint_eq(count_carriers(node), 1);
    }
    ck_assert_status(scene_release(&late, &late.lock), REDLOCK_OK);
}

TEST(releases, release_goes_to_every_node_of_its_lock)
{
    scene_attach();
    scene_cut_off(2, 3);
    ck_assert_status(scene_acquire(&late, "on two nodes", NULL), REDLOCK_OK);
    scene_calm(0, 3);
    scene_wait_for_ready();
    hold(SOME);
    start_releases(SOME);
    scene_start_release(&late, &late.lock);
    expect(SOME, REDLOCK_OK);
    ck_assert_status(scene_wait(&late), REDLOCK_OK);
    ck_assert_int_eq(late.result.node[2].outcome, REDLOCK_NODE_ABSENT);
    ck_assert_str_eq(late.result.node[2].text, "it never had the key");
    expect_no_key(SOME);
}

/* What a node does to the command of all; `first` nodes do it. */
static const struct {
    struct fake_rule rule;
    unsigned nodes, timed_out;
    int status;
} faults[] = {
    {{.skip = true, .reply = FAKE_LOADING}, 1, 0, REDLOCK_OK},
    {{.skip = true, .reply = FAKE_LOADING}, 2, 0, REDLOCK_NO_QUORUM},
    {{.skip = true, .reply = "$2\r\n11\r\n"}, 2, 0, REDLOCK_NO_QUORUM},
    {{.skip = true, .reply = "$6\r\n11x111\r\n"}, 2, 0, REDLOCK_NO_QUORUM},
    {{.skip = true, .reply = "$7\r\n1111111\r\n"}, 2, 0, REDLOCK_NO_QUORUM},
    {{.skip = true, .reply = ":6\r\n"}, 2, 0, REDLOCK_NO_QUORUM},
    {{.silent = true, .ending = FAKE_RESET}, 2, 0, REDLOCK_NO_QUORUM},
    {{.skip = true, .ending = FAKE_RESET, .silent = true}, 2, 0, REDLOCK_NO_QUORUM},
    {{.reply_delay_ms = 200}, 2, 0, REDLOCK_OK},
};

TEST_ROWS(releases, every_release_ends_by_its_own_votes, ROWS(faults))
{
    hold(SOME);
    shorten_patience(3);
    struct fake_rule rule = faults[_i].rule;
    rule.command = "EVALSHA";
    rule.argument = rl_scripts[RL_SCRIPT_RELEASES].sha1;
    scene_add_rule(0, faults[_i].nodes, &rule);
    release_all(SOME, faults[_i].status);
}

/* One lock's key is another holder's on a majority, and a node lacks all scripts. */
TEST(releases, foreign_key_ends_only_its_own_release)
{
    hold(SOME);
    scene_hold_on(0, 2, scene_name(2));
    fake_server_forget_scripts(scene.node[2]);
    start_releases(SOME);
    for (unsigned i = 0; i < SOME; i++)
        ck_assert_status(scene_wait(&released[i]), i == 2 ? REDLOCK_LOST : REDLOCK_OK);
    ck_assert_uint_eq(released[2].result.held + released[2].result.absent, 2);
    scene_let_go_on(0, 2, scene_name(2));
    expect_no_key(SOME);
}

/* Two leases with one token would release each other's keys: both could be handed over at once. */
TEST(releases, second_of_two_adoptions_at_once_gets_no_handle)
{
    scene_attach();
    scene_hold_on(0, 3, "adopted");
    for (unsigned i = 0; i < 2; i++)
        scene_start_adopt(&acquired[i], "adopted", NULL, SCENE_OTHER);
    ck_assert_status(scene_wait(&acquired[0]), REDLOCK_OK);
    ck_assert_status(scene_wait(&acquired[1]), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(strstr(acquired[1].result.text, "use its handle"));
    ck_assert_status(scene_wait(scene_start_release(&released[0], &acquired[0].lock)), REDLOCK_OK);
}

TEST(releases, releases_without_memory_for_a_command_leave_alone)
{
    struct test_allocator *allocator = scene_count_memory();
    hold(SOME);
    start_releases(SOME);
    test_allocator_fail_from(allocator, 1);
    scene_turn();
    test_allocator_fail_from(allocator, 0);
    expect(SOME, REDLOCK_OK);
    for (unsigned node = 0; node < scene.nodes; node++) {
        scene_wait_for_sent(node, SENT_UNDO, SOME);
        ck_assert_uint_eq(count_carriers(node), 0);
    }
}

TEST(releases, close_counts_each_lock_that_a_node_has_not_confirmed)
{
    hold(SOME);
    scene_hold_replies(0, 1, "EVALSHA");
    start_releases(SOME);
    expect(SOME, REDLOCK_OK);
    shorten_patience(1);
    scene_start_close(&late);
    scene_wait(&late);
    ck_assert_uint_eq(late.result.pending_undos, SOME);
    ck_assert_has(late.result.node[0].text, "6 undos not confirmed");
}

/* The user has no right to one of the keys on one node, as while the nodes' users are changed one by one: that of a lock, or
 * that of its waiters. */
TEST_ROWS(releases, key_without_permission_keeps_no_other_on_its_node, 2)
{
    char token[SOME][REDLOCK_TOKEN_SIZE];
    scene_attach();
    scene_add_rule(
        2, 3,
        &(struct fake_rule){.argument = _i ? "lock-2:redlock:free" : "lock-2", .skip = true, .reply = FAKE_NOPERM});
    hold(SOME);
    for (unsigned i = 0; i < SOME; i++)
        snprintf(token[i], sizeof token[i], "%s", redlock_lock_token(acquired[i].lock));
    release_all(SOME, REDLOCK_OK);
    for (unsigned i = 0; i < SOME; i++)
        ck_assert_ptr_nonnull(scene_sent(2, SENT_UNDO, token[i], 0, NULL)); /* its own request */
}

/* A server that is new knows no script; what it is sent once it knows. */
TEST(releases, node_learns_the_script_of_all_from_its_first_command)
{
    scene_attach();
    for (unsigned node = 0; node < scene.nodes; node++)
        fake_server_forget_scripts(scene.node[node]);
    for (unsigned round = 0; round < 2; round++) {
        hold(SOME);
        release_all(SOME, REDLOCK_OK);
        for (unsigned node = 0; node < scene.nodes; node++) {
            scene_until(count_carriers(node) >= 2 + round); /* a majority has ended the releases */
            ck_assert_uint_eq(count_carriers(node), 2 + round);
            ck_assert_uint_eq(scene_count(node, SENT_UNDO), 0);
        }
    }
}

/* Their release needs the keys of the waiters, which the command of all does not name. */
TEST(releases, lock_that_clients_wait_for_is_released_by_its_own_command)
{
    char token[REDLOCK_TOKEN_SIZE];
    hold(SOME);
    scene_hold_on(0, 3, "lock-2:redlock:free");
    snprintf(token, sizeof token, "%s", redlock_lock_token(acquired[2].lock));
    release_all(SOME, REDLOCK_OK);
    for (unsigned node = 0; node < scene.nodes; node++) {
        scene_until(scene_sent(node, SENT_UNDO, token, 0, NULL) != NULL);
        ck_assert_uint_eq(scene_count(node, SENT_UNDO), 1);
    }
}

TEST(releases, release_by_token_goes_behind_the_release_of_its_handle)
{
    hold(SOME);
    char token[REDLOCK_TOKEN_SIZE];
    snprintf(token, sizeof token, "%s", redlock_lock_token(acquired[1].lock));
    start_releases(SOME);
    scene_start_release_token(&late, scene_name(1), token);
    expect(SOME, REDLOCK_OK);
    ck_assert_status(scene_wait(&late), REDLOCK_LOST);
}

/* --- Locks that are kept after their release --- */

enum { AT_LEAST_MS = 20000 };

TEST(releases, releases_that_keep_their_locks_leave_alone_and_reach_a_node_that_comes_back)
{
    scene_attach();
    scene_start_acquires(acquired, SOME, SCENE_WITH(.at_least_ms = AT_LEAST_MS));
    for (unsigned i = 0; i < SOME; i++)
        ck_assert_status(scene_wait(&acquired[i]), REDLOCK_OK);
    scene_wait_for_sent_to(0, scene.nodes, SENT_SET, SOME);
    scene_cut_off(2, 3);
    start_releases(SOME);
    expect(SOME, REDLOCK_OK);
    ck_assert_has(redlock_result_text(&released[0].result), "(at_least_ms)");
    scene_calm(2, 3);
    scene_wait_for_sent_to(0, scene.nodes, SENT_UNDO, SOME);
    for (unsigned node = 0; node < scene.nodes; node++)
        ck_assert_uint_eq(count_carriers(node), 0);
    scene_wait_for_ready();
    for (unsigned i = 0; i < SOME; i++) /* the keys end with the time, and its drift, not with the ttl */
        for (unsigned node = 0; node < scene.nodes; node++) {
            scene_until(fake_server_pttl(scene.node[node], scene_name(i)) <= AT_LEAST_MS + 1000);
            scene_assert_key(node, node + 1, scene_name(i), true);
        }
    scene.keys_may_stay = true;
}

TEST_PROGRAM("releases of one turn")
