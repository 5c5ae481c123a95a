/* The second round of an acquire with a fencing token. It raises the token above a fencing record that was ahead. The
 * tests cover its failures, and what each leaves on the nodes. Every node has granted the lock in the first round. */
#include "fake/scene.h"

#include "src/client/client.h"
#include "src/core/timer.h"
#include "src/node/limits.h"
#include "src/node/nodes.h"

enum { NODES = 5, HOUR_S = 3600 };

/* How a node responds to the raise. */
enum raise { RAISES, EXPIRED, TOO_FAR, REFUSES, BREAKS, KEEPS_SILENT, IS_LATE };

static unsigned rule[NODES]; /* the number of each node's rule */
static struct answer answer;
static redlock_acquire_options fenced;

/* Every node has a fencing record an hour ahead of the client's clock. */
static void five_nodes(void)
{
    char ahead[24];
    scene_begin(NODES);
    snprintf(ahead, sizeof ahead, "%lld", ((long long)time(NULL) + HOUR_S) * 1000000);
    for (unsigned i = 0; i < NODES; i++)
        fake_server_set_key(scene.node[i], "stock" RL_FENCE_SUFFIX, ahead, -1);
    fenced = *SCENE_WITH(.fence = 1, .no_renewal = 1);
}

static const struct fake_rule rules[] = {
    [EXPIRED] = {.argument = "keep", .skip = true, .reply = "*1\r\n:-1\r\n"},
    [TOO_FAR] = {.argument = "keep", .skip = true, .reply = "*1\r\n:-2\r\n"},
    [REFUSES] = {.argument = "keep", .skip = true, .reply = FAKE_OOM},
    [BREAKS] = {.argument = "keep", .ending = FAKE_CLOSE, .silent = true},
    [KEEPS_SILENT] = {.argument = "keep", .hold = true},
    [IS_LATE] = {.argument = "keep", .hold = true},
};

/* Makes the first count nodes respond in this way to the raise. The others execute it. */
static void let(unsigned count, enum raise raise)
{
    for (unsigned i = 0; i < count && raise != RAISES; i++)
        rule[i] = fake_server_add_rule(scene.node[i], &rules[raise]);
}

/* Turns the loop until the rules of these nodes have been applied. */
static void wait_for_raise(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++)
        scene_until(fake_server_rule_used(scene.node[i], rule[i]) > 0);
}

/* Waits for the acquire, which fails and leaves no key. */
static void assert_fails(int status)
{
    ck_assert_status(scene_wait(&answer), status);
    ck_assert_ptr_null(answer.lock);
    ck_assert_uint_eq(answer.result.fence, 0);
    ck_assert_int_eq(answer.result.validity_ms, 0);
    fake_server_release(scene.node[0]); /* of the grant that it may have held back */
    scene_wait_for_no_key(0, NODES, "stock");
}

SCENE_CASE(raise, five_nodes);

/* If a majority does not raise the record. While it is late, the acquire is cancelled. */
static const int statuses[] = {
    [RAISES] = REDLOCK_OK,         [EXPIRED] = REDLOCK_TOO_SLOW, [TOO_FAR] = REDLOCK_CLOCK,
    [REFUSES] = REDLOCK_NO_QUORUM, [BREAKS] = REDLOCK_NO_QUORUM, [KEEPS_SILENT] = REDLOCK_NO_QUORUM,
    [IS_LATE] = REDLOCK_CANCELLED};

TEST_ROWS(raise, a_token_that_no_majority_raises_is_no_lock_and_leaves_nothing, 2 * ROWS(statuses))
{
    int status = _i % 2 ? statuses[_i / 2] : REDLOCK_OK;
    enum raise raise = (enum raise)(_i / 2);
    let(_i % 2 ? 3 : 2, raise);
    scene_attach();
    fenced.cancellation = scene_cancellation();
    scene_start_acquire(&answer, "stock", &fenced);
    if (status != REDLOCK_OK) {
        if (raise == KEEPS_SILENT || raise == IS_LATE)
            wait_for_raise(0, 3);
        if (raise == KEEPS_SILENT)
            scene_time_out(0, 3);
        else if (raise == IS_LATE)
            redlock_cancel(scene.cancellation);
        assert_fails(status);
        return;
    }
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_uint_ge(answer.result.attempts, 2);
    ck_assert_uint_eq(answer.result.fence, redlock_lock_fence(answer.lock));
    ck_assert_int_gt(redlock_validity_ms(answer.lock), 30000);
}

TEST(raise, a_raise_that_takes_too_long_is_too_slow)
{
    enum { LEFT_MS = 300 };
    fenced.ttl_ms = 60000;
    fenced.minimum_validity_ms = fenced.ttl_ms - fenced.ttl_ms / 100 - 2 - LEFT_MS;
    scene_attach();
    scene_add_rule(0, NODES, &(struct fake_rule){.argument = "keep", .reply_delay_ms = LEFT_MS + 50});
    scene_start_acquire(&answer, "stock", &fenced);
    assert_fails(REDLOCK_TOO_SLOW);
}

/* The lock was granted before our clock stopped, and may have expired meanwhile. */
TEST(raise, lock_is_given_up_when_our_clock_stops_during_the_raise)
{
    scene_attach();
    for (unsigned i = 0; i < NODES; i++)
        scene_until(scene.client->nodes->clock_watch->node[i].known);
    rule[2] = fake_server_add_rule(scene.node[2], &rules[REFUSES]);
    for (unsigned i = 3; i < NODES; i++)
        rule[i] = fake_server_add_rule(scene.node[i], &(struct fake_rule){.argument = "keep", .hold = true});
    scene_start_acquire(&answer, "stock", &fenced);
    wait_for_raise(2, NODES);
    scene_wait_for_replies(0, 2);
    for (unsigned i = 0; i < 3; i++) { /* as if our clock had stopped for ten minutes */
        fake_server_set_clock_offset_us(scene.node[i], 600000000);
        rl_node_beat(&scene.client->nodes->node[i]);
    }
    scene_until(scene.client->nodes->clock_stopped != 0);
    fake_server_release(scene.node[4]);
    ck_assert_status(scene_wait(&answer), REDLOCK_TOO_SLOW);
    fake_server_release(scene.node[3]);
    assert_fails(REDLOCK_TOO_SLOW);
}

/* A majority grants in time. Because of all_answers the client waits for the last node, which times out after the
 * deadline. */
TEST(raise, token_is_not_raised_after_deadline)
{
    fenced.all_answers = 1;
    fenced.wait_ms = REDLOCK_FOREVER;
    scene_attach();
    scene_wait_for_replies(0, NODES);
    fake_server_pause(scene.node[0]);
    for (unsigned i = 0; i < NODES; i++)
        rule[i] = fake_server_add_rule(scene.node[i], &(struct fake_rule){.argument = "keep"});
    scene_start_acquire(&answer, "stock", &fenced);
    for (unsigned i = 1; i < NODES; i++)
        scene_until(scene_has_key(i, "stock"));
    scene_wait_for_replies(1, NODES);
    rl_timer_set(&scene.client->core.timers, &scene.client->operations.first->timer, rl_now());
    scene_idle(5);
    scene_time_out(0, 1);
    fake_server_resume(scene.node[0]);
    assert_fails(REDLOCK_TIMED_OUT);
    for (unsigned i = 0; i < NODES; i++)
        ck_assert_uint_eq(fake_server_rule_used(scene.node[i], rule[i]), 0);
}

SCENE_CASE(life, five_nodes);

/* Nodes whose clocks are more than a day behind the token refuse to record it, but still extend the lock. */
TEST(life, clocks_that_are_a_day_off_do_not_stop_extensions)
{
    scene_attach();
    ck_assert_status(scene_acquire(&answer, "stock", &fenced), REDLOCK_OK);
    let(NODES, TOO_FAR);
    ck_assert_status(scene_wait(scene_start_extend(&answer, answer.lock, 0)), REDLOCK_OK);
}

TEST_PROGRAM("fencing tokens, raised")
