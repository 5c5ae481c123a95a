/* The second round of an acquire with a fencing token. It raises the token above a fencing record that was ahead. The
 * tests cover its failures, and what each leaves on the nodes. Every node has granted the lock in the first round. */
#include "fake/scene.h"

#include <stdlib.h>
#include <string.h>

enum { NODES = 5, HOUR_S = 3600 };

/* How a node responds to the raise. */
enum raise { RAISES, EXPIRED, TOO_FAR, KNOWS_IT, REFUSES, BREAKS, KEEPS_SILENT };

static struct node {
    enum raise raise;
    unsigned asked;
    unsigned rule; /* the number of its rule */
} nodes[NODES];
static struct answer answer;
static redlock_acquire_options fenced;

static unsigned long long number(const struct fake_script_call *call, size_t argument)
{
    ck_assert_uint_lt(argument, call->argument_count);
    return strtoull(call->arguments[argument].data, NULL, 10);
}

/* Grants the lock and returns a fencing record that is an hour ahead of the token. */
static void grant(const struct fake_script_call *call)
{
    fake_node_set(call->node, call->database, &call->keys[0], call->arguments[0].data, call->arguments[0].length,
                  (int64_t)number(call, 1));
    resp_write_integer(call->reply, (long long)(number(call, 2) + HOUR_S * 1000000ULL));
}

static void keep(const struct fake_script_call *call, struct node *node)
{
    long long token = (long long)number(call, 4);
    bool first = node->asked++ == 0;

    resp_write_array(call->reply, 1);
    if (node->raise == EXPIRED)
        resp_write_integer(call->reply, -1);
    else if (node->raise == TOO_FAR)
        resp_write_integer(call->reply, -2);
    else
        resp_write_integer(call->reply, node->raise == KNOWS_IT && first ? token : token - 1);
}

static bool begins(const struct fake_script_call *call, const char *words)
{
    return strncmp(call->script, words, strlen(words)) == 0;
}

static void run_script(const struct fake_script_call *call)
{
    if (begins(call, "-- Grants a lock"))
        grant(call);
    else if (begins(call, "-- Extends locks"))
        keep(call, call->arg);
    else
        fake_script_compare_and_delete(call);
}

static void five_nodes(void)
{
    scene_begin(NODES);
    memset(nodes, 0, sizeof nodes);
    for (unsigned i = 0; i < NODES; i++)
        fake_server_set_script_handler(scene.node[i], run_script, &nodes[i]);
    fenced = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    fenced.fence = 1;
    fenced.no_renewal = 1;
    scene.options.node_timeout_ms = 500; /* for the silent nodes */
}

/* Makes the first count nodes respond in this way to the raise. The others execute it. */
static void let(unsigned count, enum raise raise)
{
    static const struct fake_rule refuses = {.argument = "keep", .skip = true, .reply = FAKE_OOM};
    static const struct fake_rule breaks = {.argument = "keep", .ending = FAKE_CLOSE, .silent = true};
    static const struct fake_rule silent = {.argument = "keep", .silent = true};
    for (unsigned i = 0; i < count; i++) {
        nodes[i].raise = raise;
        if (raise >= REFUSES)
            nodes[i].rule = fake_server_add_rule(scene.node[i], raise == REFUSES  ? &refuses
                                                                : raise == BREAKS ? &breaks
                                                                                  : &silent);
    }
}

static unsigned showing(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NODES; i++)
        count += scene_has_key(i, "stock");
    return count;
}

static bool is_gone(void *arg)
{
    (void)arg;
    return showing() == 0;
}

static bool is_being_raised(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < NODES; i++)
        if (fake_server_rule_used(scene.node[i], nodes[i].rule) == 0)
            return false;
    return true;
}

static bool is_held_up(void *arg)
{
    (void)arg;
    return fake_server_rule_used(scene.node[3], nodes[3].rule) && fake_server_rule_used(scene.node[4], nodes[4].rule);
}

/* --- A majority raises the record --- */

START_TEST(a_minority_that_does_not_raise_it_is_no_matter)
{
    scene_attach();
    let(2, (enum raise)_i);
    ck_assert_status(scene_acquire(&answer, "stock", &fenced), REDLOCK_OK);
    ck_assert_uint_ge(answer.result.attempts, 2);
    ck_assert_uint_eq(answer.result.fence, redlock_lock_fence(answer.lock));
    ck_assert_int_gt(redlock_validity_ms(answer.lock), 30000);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    ck_assert(scene_run(is_gone, NULL));
}
END_TEST

/* Another client may have drawn the same token in this case, so the client must draw a larger one. */
START_TEST(a_majority_that_knows_the_number_already_makes_it_go_beyond)
{
    scene_attach();
    let(3, KNOWS_IT);
    ck_assert_status(scene_acquire(&answer, "stock", &fenced), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.attempts, 3);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    ck_assert(scene_run(is_gone, NULL));
}
END_TEST

/* --- A majority does not raise the record --- */

static const struct {
    enum raise raise;
    int status;
} majorities[] = {
    {EXPIRED, REDLOCK_TOO_SLOW}, {TOO_FAR, REDLOCK_CLOCK},          {REFUSES, REDLOCK_NO_QUORUM},
    {BREAKS, REDLOCK_NO_QUORUM}, {KEEPS_SILENT, REDLOCK_NO_QUORUM},
};
enum { MAJORITIES = sizeof majorities / sizeof *majorities };

START_TEST(a_token_that_no_majority_raises_is_no_lock_and_leaves_nothing)
{
    scene_attach();
    let(3, majorities[_i].raise);
    ck_assert_status(scene_acquire(&answer, "stock", &fenced), majorities[_i].status);
    ck_assert_ptr_null(answer.lock);
    ck_assert_uint_eq(answer.result.fence, 0);
    ck_assert_int_eq(answer.result.validity_ms, 0);
    ck_assert(scene_run(is_gone, NULL));
}
END_TEST

START_TEST(a_raise_that_takes_too_long_is_too_slow)
{
    enum { LEFT_MS = 300 };
    fenced.ttl_ms = 10000;
    fenced.minimum_validity_ms = fenced.ttl_ms - fenced.ttl_ms / 100 - 2 - LEFT_MS;
    scene_attach();
    scene_add_rule(0, NODES, &(struct fake_rule){.argument = "keep", .reply_delay_ms = LEFT_MS + 50});
    ck_assert_status(scene_acquire(&answer, "stock", &fenced), REDLOCK_TOO_SLOW);
    ck_assert_ptr_null(answer.lock);
    ck_assert(scene_run(is_gone, NULL));
}
END_TEST

/* The lock was granted before our clock stopped, and may have expired meanwhile. */
START_TEST(lock_is_given_up_when_our_clock_stops_during_the_raise)
{
    static const struct fake_rule refuses = {.argument = "keep", .skip = true, .reply = FAKE_OOM};
    static const struct fake_rule held = {.argument = "keep", .hold = true};
    scene.options.node_timeout_ms = SCENE_SOON_MS;
    scene_attach();
    scene_know_clocks();
    fake_server_add_rule(scene.node[2], &refuses);
    for (unsigned i = 3; i < NODES; i++)
        nodes[i].rule = fake_server_add_rule(scene.node[i], &held);
    scene_start_acquire(&answer, "stock", &fenced);
    ck_assert(scene_run(is_held_up, NULL));
    scene_stop_our_clock();
    fake_server_release(scene.node[4]);
    ck_assert_status(scene_wait(&answer), REDLOCK_TOO_SLOW);
    ck_assert_ptr_null(answer.lock);
    fake_server_release(scene.node[3]);
    ck_assert(scene_run(is_gone, NULL));
}
END_TEST

/* A majority grants in time. Because of all_answers the client waits for the last node, which times out after the
 * deadline. */
START_TEST(token_is_not_raised_after_deadline)
{
    static const struct fake_rule held = {.command = "EVALSHA", .hold = true, .count = 1};
    unsigned raises[NODES];
    fenced.all_answers = 1;
    fenced.wait_ms = 200; /* less than the node timeout */
    scene_attach();
    fake_server_add_rule(scene.node[0], &held);
    for (unsigned i = 0; i < NODES; i++)
        raises[i] = fake_server_add_rule(scene.node[i], &(struct fake_rule){.argument = "keep"});
    ck_assert_status(scene_acquire(&answer, "stock", &fenced), REDLOCK_TIMED_OUT);
    ck_assert_ptr_null(answer.lock);
    for (unsigned i = 0; i < NODES; i++)
        ck_assert_uint_eq(fake_server_rule_used(scene.node[i], raises[i]), 0);
    fake_server_release(scene.node[0]);
    ck_assert(scene_run(is_gone, NULL));
}
END_TEST

START_TEST(cancelled_while_it_is_raised_it_leaves_nothing)
{
    redlock_cancellation *cancellation;
    scene_attach();
    let(NODES, KEEPS_SILENT);
    ck_assert_status(redlock_cancellation_create(scene.client, &cancellation), REDLOCK_OK);
    fenced.cancellation = cancellation;
    scene_start_acquire(&answer, "stock", &fenced);
    ck_assert(scene_run(is_being_raised, NULL));
    ck_assert_uint_eq(showing(), NODES);
    redlock_cancel(cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    ck_assert_ptr_null(answer.lock);
    ck_assert(scene_run(is_gone, NULL));
    redlock_cancellation_destroy(&cancellation);
}
END_TEST

/* --- After the raise --- */

static bool is_renewed(void *arg)
{
    redlock_statistics statistics;
    (void)arg;
    redlock_statistics_get(scene.client, &statistics);
    return statistics.renewed > 0;
}

/* Nodes whose clocks are more than a day behind the token refuse to record it, but still extend the lock. */
START_TEST(clocks_that_are_a_day_off_do_not_stop_renewals)
{
    fenced.no_renewal = 0;
    fenced.ttl_ms = 3000;
    scene_attach();
    ck_assert_status(scene_acquire(&answer, "stock", &fenced), REDLOCK_OK);
    redlock_lock *lock = answer.lock;
    let(NODES, TOO_FAR);
    ck_assert(scene_run(is_renewed, NULL));
    scene_start_extend(&answer, lock, 0);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fencing tokens, raised");
    TCase *raise = scene_case(suite, "raise", five_nodes);
    tcase_add_loop_test(raise, a_minority_that_does_not_raise_it_is_no_matter, RAISES, KEEPS_SILENT + 1);
    tcase_add_test(raise, a_majority_that_knows_the_number_already_makes_it_go_beyond);
    tcase_add_loop_test(raise, a_token_that_no_majority_raises_is_no_lock_and_leaves_nothing, 0, MAJORITIES);
    tcase_add_test(raise, a_raise_that_takes_too_long_is_too_slow);
    tcase_add_test(raise, lock_is_given_up_when_our_clock_stops_during_the_raise);
    tcase_add_test(raise, token_is_not_raised_after_deadline);
    tcase_add_test(raise, cancelled_while_it_is_raised_it_leaves_nothing);
    TCase *life = scene_case(suite, "life", five_nodes);
    tcase_add_test(life, clocks_that_are_a_day_off_do_not_stop_renewals);
    return run_suite(suite);
}
