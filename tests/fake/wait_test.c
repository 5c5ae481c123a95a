/* Waiting for a lock. A wait ends by success, deadline, cancellation or close, at every stage of an acquire. */
#include "fake/scene.h"

#include <sys/resource.h>

#include "src/client/client.h"
#include "src/core/escape.h"
#include "src/core/wakeup.h"
#include "src/lock/queue_table.h"
#include "src/node/script.h"

static struct answer answer;
static redlock_acquire_options options; /* of a waiter without a deadline */

static void five_nodes(void)
{
    scene_begin(5);
    options = *SCENE_WITH(.wait_ms = REDLOCK_FOREVER);
}

static void hold_majority(void)
{
    scene_hold_on(0, 3, "stock");
}

SCENE_CASE(success, five_nodes);

/* The handshake of a majority takes longer than the nodes' timeout. */
TEST(success, trying_once_with_a_new_client_waits_for_its_connections)
{
    scene.options.node_timeout_ms = 20;
    scene_hold_replies(0, 3, "INFO");
    scene_attach_only();
    scene_start_acquire(&answer, "stock", NULL);
    scene_idle(100);
    ck_assert_uint_eq(answer.callbacks, 0);
    scene_calm(0, 3);
    scene_wait(&answer); /* on a busy machine the nodes may be too slow for a lock */
}

/* Both wait behind another holder, without a deadline or with one that is as good as none. */
TEST(success, the_second_of_two_waiting_acquires_of_one_owner_re_enters)
{
    static const char owner = 0;
    const struct fake_record *attempt;
    struct answer second;
    options.owner = &owner;
    scene_attach();
    hold_majority();
    scene_start_acquire(&answer, "stock", &options);
    options.wait_ms = INT64_MAX;
    scene_start_acquire(&second, "stock", &options);
    scene_wait_for_sent(0, SENT_WAIT, 1);
    ck_assert_uint_eq(answer.callbacks, 0);
    scene_let_go_on(0, 3, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_uint_ge(answer.result.attempts, 2);
    ck_assert_int_eq(answer.result.cause, REDLOCK_OK);
    scene_wait_for_sent(0, SENT_ATTEMPT, 2);
    for (unsigned i = 0; (attempt = scene_sent(0, SENT_ATTEMPT, NULL, i, NULL)); i++) /* each has another token */
        ck_assert_ptr_null(scene_sent(0, SENT_ATTEMPT, scene_token(attempt), 1, NULL));
    ck_assert_status(scene_wait(&second), REDLOCK_OK);
    ck_assert_uint_eq(redlock_hold_count(answer.lock), 2);
    ck_assert_uint_eq(scene_statistics().reentered, 1);
    ck_assert_uint_eq(scene_statistics().hand_offs, 1);
    ck_assert_status(scene_release(&second, &second.lock), REDLOCK_OK);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}

/* Two nodes hang while they are being connected. */
TEST(success, a_majority_that_is_connected_makes_a_queue)
{
    scene.options.connect_timeout_ms = 10 * SCENE_SOON_MS;
    scene_each(3, 5, fake_server_pause);
    scene_attach_only();
    hold_majority();
    scene_start_acquire(&answer, "stock", &options);
    scene_wait_for_sent_to(0, 3, SENT_WAIT, 1);
    scene_let_go_on(0, 3, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
}

static struct rl_queue *queue_for_stock(void)
{
    const struct rl_names names = rl_names_of("stock", 5);
    return rl_queue_find(&scene.client->locks, &names, options.shared);
}

/* Between attempts and polls: the nodes have replied to the last poll, and will notify the waiter. */
static void rest_until_notified(void)
{
    const struct rl_queue *queue;
    scene_until((queue = queue_for_stock()) && !queue->rules.looking && !queue->rules.trying &&
                (queue->rules.heard & queue->rules.enqueued & quorum_all(scene.nodes)) == quorum_all(scene.nodes));
}

/* Two nodes refuse the attempt that the other three grant, and their replies come after the lock is won. With a fencing
 * token there is no offer, whose withdrawal would remove the waiter. */
TEST(success, winner_leaves_the_queue_where_the_reply_was_late)
{
    options.fence = 1;
    scene_attach();
    scene_hold_on(0, 5, "stock");
    scene_start_acquire(&answer, "stock", &options);
    rest_until_notified();
    scene_hold_replies(3, 5, NULL);
    scene_let_go_on(0, 3, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    scene_calm(3, 5);
    scene_wait_for_replies(3, 5);
    scene_assert_key(3, 5, "stock:redlock:queue", false);
    ck_assert_int_gt(redlock_validity_ms(answer.lock), 0);
}

/* However long it holds the lock: other clients may wait behind it. */
TEST(success, a_holder_that_has_waited_queues_when_it_acquires_again)
{
    struct answer released;
    scene_attach();
    scene_hold_on(0, 5, "stock");
    scene_start_acquire(&answer, "stock", &options);
    rest_until_notified();
    scene_let_go_on(0, 5, "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    unsigned attempts = scene_count_all(SENT_SET);
    struct rl_timer *forgets = &queue_for_stock()->timer;
    forgets->fire(forgets);
    quorum_time before = rl_now();
    rl_queue_expect(answer.lock->lease); /* as a reply to the release will */
    ck_assert_uint_gt(forgets->due, before);
    scene_start_release(&released, &answer.lock);
    scene_start_acquire(&answer, "stock", &options); /* at once: the client forgets waiters a second after a release */
    ck_assert_status(scene_wait(&released), REDLOCK_OK);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_uint_eq(scene_count_all(SENT_SET), attempts);
}

#define SLOT_0 "stock:redlock:slot:0"

/* Again it begins with the slot that it had. Nodes that grant none, though they report each as free, are not asked forever. */
TEST(success, each_slot_of_a_semaphore_is_tried_once)
{
    scene_attach();
    scene_hold_on(0, 5, SLOT_0);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_status(scene_acquire(&answer, "stock", SCENE_WITH(.permits = 2)), REDLOCK_OK);
        ck_assert_uint_le(answer.result.attempts, i == 0 ? 2 : 1);
        ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    }
    scene_add_rule(0, 5, &(struct fake_rule){.argument = "exclusive", .skip = true, .reply = ":-8\r\n"});
    ck_assert_status(scene_acquire(&answer, "stock", SCENE_WITH(.permits = 3)), REDLOCK_HELD);
    ck_assert_uint_eq(answer.result.attempts, 3);
}

TEST(success, an_acquire_of_a_permit_queues_behind_the_clients_waiter)
{
    struct answer second, closed;
    options.permits = 1;
    scene_attach();
    scene_hold_on(0, 5, SLOT_0);
    scene_start_acquire(&answer, "stock", &options);
    rest_until_notified();
    scene_start_acquire(&second, "stock", &options);
    ck_assert_ptr_ne(queue_for_stock()->last, queue_for_stock()->first);
    ck_assert_status(scene_close(&closed), REDLOCK_OK);
}

/* Only the message says which permit is free. */
TEST(success, a_permit_that_was_freed_is_tried_next)
{
    options.permits = 8;
    scene_attach();
    for (char name[] = "stock:redlock:slot:7"; strcmp(name, SLOT_0) >= 0; name[sizeof name - 2]--)
        scene_hold_on(0, 5, name);
    scene_start_acquire(&answer, "stock", &options);
    rest_until_notified();
    ck_assert_ptr_null(scene.client->locks.queues.buckets[RL_QUEUE_BUCKETS]); /* of queues for several resources */
    quorum_time due = queue_for_stock()->timer.due;
    rl_queue_expect(queue_for_stock()->lease); /* as after a release of a permit: the waiter's timer stays */
    ck_assert_uint_eq(queue_for_stock()->timer.due, due);
    unsigned attempts = scene_count(0, SENT_ATTEMPT);
    for (unsigned i = 0; i < 3; i++)
        rl_queues_wake(&scene.client->locks, i, SLOT_0, sizeof SLOT_0 - 1);
    scene_wait_for_sent(0, SENT_ATTEMPT, attempts + 1);
    const struct resp_command *attempt = scene_sent(0, SENT_ATTEMPT, NULL, attempts, NULL)->command;
    ck_assert(resp_argument_is(&attempt->argv[scene_first_argument(attempt) + 9], "0"));
}

/* --- Each stage --- */

static void refuse_connections(void)
{
    scene_each(0, 3, fake_server_stop_listening);
}

static void hold_handshakes(void)
{
    scene_hold_replies(0, 3, NULL);
}

static const redlock_name two[] = {{"two, of which three bytes count", 3}};

/* "two" as well as "stock", and the first of them that is free will do. */
static void want_any(void)
{
    options.any = 1;
    options.also = two;
    options.also_count = 1;
}

static void hold_any(void)
{
    scene_hold_on(0, 3, "stock");
    scene_hold_on(0, 3, "two");
    want_any();
}

enum end { BY_DEADLINE, BY_CANCELLATION, BY_CLOSE, BY_REFUSAL };

/* Why a wait ends in vain: the change of the nodes, before they are connected or afterwards. The simulator ends waits at every
 * stage, and finds what they leave. */
static const struct {
    void (*before)(void), (*then)(void);
    enum sent sent;
    unsigned count;
    enum end end;
    int cause;
} ends[] = {
    {refuse_connections, NULL, SENT_ANY, 1, BY_DEADLINE, REDLOCK_NO_QUORUM},
    {hold_handshakes, NULL, SENT_ANY, 3, BY_DEADLINE, REDLOCK_TIMED_OUT},
    {hold_handshakes, NULL, SENT_ANY, 3, BY_CANCELLATION, REDLOCK_CANCELLED},
    {NULL, hold_majority, SENT_WAIT, 1, BY_DEADLINE, REDLOCK_HELD},
    {NULL, hold_majority, SENT_WAIT, 1, BY_CANCELLATION, REDLOCK_HELD},
    {NULL, hold_any, SENT_WAIT, 10, BY_DEADLINE, REDLOCK_HELD},
    {NULL, hold_any, SENT_WAIT, 10, BY_CANCELLATION, REDLOCK_CANCELLED},
    {NULL, hold_any, SENT_WAIT, 10, BY_CLOSE, REDLOCK_CANCELLED},
};

/* As if the deadline had come. */
static void let_deadline_come(void)
{
    for (struct rl_operation *operation = scene.client->operations.first; operation; operation = operation->next)
        if (operation->lease) /* that of the lock: a wait for any ends with its locks' */
            rl_timer_set(&scene.client->core.timers, &operation->timer, 1);
}

/* Has an attempt failed, if the wait is to end with its votes? */
static bool has_cause(int cause)
{
    return (cause != REDLOCK_HELD && cause != REDLOCK_NO_QUORUM) || scene.client->operations.first->finished;
}

SCENE_CASE(stages, five_nodes);

TEST_ROWS(stages, a_wait_that_ends_says_why_and_leaves_nothing, ROWS(ends))
{
    enum end end = ends[_i].end;
    struct answer closed;
    if (ends[_i].before)
        ends[_i].before();
    (ends[_i].before ? scene_attach_only : scene_attach)();
    if (ends[_i].then)
        ends[_i].then();
    options.cancellation = scene_cancellation();
    scene_start_acquire(&answer, "stock", &options);
    scene_until(scene_count_all(ends[_i].sent) >= ends[_i].count && has_cause(ends[_i].cause));
    if (end == BY_CANCELLATION)
        redlock_cancel(scene.cancellation);
    else if (end == BY_CLOSE)
        ck_assert_status(scene_close(&closed), REDLOCK_OK);
    else
        let_deadline_come();
    ck_assert_status(scene_wait(&answer), end == BY_DEADLINE ? REDLOCK_TIMED_OUT : REDLOCK_CANCELLED);
    ck_assert_int_eq(answer.result.cause, ends[_i].cause);
    ck_assert_ptr_null(answer.lock);
    ck_assert_int_eq(answer.result.validity_ms, 0);
    scene_calm(0, 3);
    scene_let_go_on(0, 3, "stock");
    scene_let_go_on(0, 3, "two");
    scene_wait_for_no_key(0, 5, "stock:redlock:queue");
    scene_wait_for_no_key(0, 5, "two:redlock:queue");
    if (end == BY_CLOSE)
        return;
    scene_wait_for_ready();
    scene_lock_and_release("stock");
}

/* The attempt in progress at the deadline has no votes yet: those of the attempt before it say why it timed out. */
TEST(stages, a_wait_that_timed_out_shows_the_last_attempt_that_finished)
{
    scene_attach();
    hold_majority();
    scene_refuse(0, 5, "SUBSCRIBE", 0, FAKE_NOPERM); /* so that it waits by attempts */
    scene_start_acquire(&answer, "stock", &options);
    scene_wait_for_sent_to(0, 5, SENT_WAIT, 1);
    scene_until(has_cause(REDLOCK_HELD));
    unsigned before = scene_count(0, SENT_ATTEMPT);
    scene_hold_replies(0, 5, "EVALSHA");
    scene_wait_for_sent(0, SENT_ATTEMPT, before + 1);
    let_deadline_come();
    ck_assert_status(scene_wait(&answer), REDLOCK_TIMED_OUT);
    ck_assert_int_eq(answer.result.cause, REDLOCK_HELD);
    ck_assert_uint_ge(answer.result.held, 3);
    ck_assert_has(redlock_result_text(&answer.result), " held (");
    scene_calm(0, 5);
    scene_let_go_on(0, 3, "stock");
    scene_lock_and_release("stock");
}

static bool majority_has_replied(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 3; i++)
        if (!rl_node_has_unread_replies(&scene.client->nodes->node[i]))
            return false;
    return true;
}

/* The replies have arrived, but the loop was blocked until after the deadline. */
TEST_ROWS(stages, a_reply_that_has_arrived_counts_though_the_loop_is_late, 2)
{
    scene_attach();
    scene_hold_replies(0, 5, "SET");
    if (_i == 1)
        hold_majority();
    scene_start_acquire(&answer, "stock", &options);
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
    scene_calm(0, 5);
    ck_assert(wait_until(majority_has_replied, NULL, SCENE_SOON_MS));
    let_deadline_come();
    ck_assert_status(scene_wait(&answer), _i == 0 ? REDLOCK_OK : REDLOCK_TIMED_OUT);
    ck_assert_int_eq(answer.result.cause, _i == 0 ? REDLOCK_OK : REDLOCK_HELD);
}

SCENE_CASE(ends, five_nodes);

/* An acquire that has ended keeps its lock. One that begins afterwards sends nothing. The cancellation outlives its
 * client. */
TEST(ends, cancellation_ends_neither_a_lock_nor_itself)
{
    scene_attach();
    options.cancellation = scene_cancellation();
    scene_start_acquire(&answer, "stock", &options);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
    redlock_cancel(scene.cancellation);
    scene_turn();
    ck_assert_int_gt(redlock_validity_ms(answer.lock), 0);
    ck_assert(redlock_held_by_me(scene.client, "stock", 0));
    ck_assert_status(scene_acquire(&answer, "other", &options), REDLOCK_CANCELLED);
    ck_assert_uint_eq(answer.result.attempts, 0);
    ck_assert_uint_eq(scene_count_all(SENT_SET), 5);
    ck_assert_status(scene_close(&answer), REDLOCK_OK);
    redlock_cancel(scene.cancellation);
    redlock_cancellation_destroy(&scene.cancellation);
    ck_assert_ptr_null(scene.cancellation);
    redlock_cancellation_destroy(&scene.cancellation);
    redlock_cancellation_destroy(NULL);
    redlock_cancel(NULL);
}

TEST(ends, a_cancellation_of_another_client_is_refused)
{
    redlock_client *other;
    scene_attach();
    ck_assert_status(redlock_attach(scene.loop, scene_list(), &scene.options, &other, NULL), REDLOCK_OK);
    ck_assert_status(redlock_cancellation_create(other, &scene.cancellation), REDLOCK_OK);
    options.cancellation = scene.cancellation;
    ck_assert_status(scene_acquire(&answer, "stock", &options), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "to another client");
    scene_start_adopt(&answer, "stock", &options, "0123456789abcdef0123456789abcdef01234567");
    ck_assert_status(scene_wait(&answer), REDLOCK_INVALID);
    scene_started(&answer, redlock_close_async(&other, NULL, scene_completed, scene_cleared(&answer)));
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
}

/* --- Dequeuing a waiter where the node refuses the withdrawal --- */

static char place[REDLOCK_TOKEN_SIZE]; /* the token of the offer, which is withdrawn when the waiter leaves */

/* The nodes have forgotten the script, so each is sent a second command that withdraws the offer, which dequeues the waiter
 * unless another one of this client follows, with the same name: it keeps the place. */
TEST_ROWS(ends, a_place_is_given_up_or_kept_for_the_next_waiter, 2)
{
    char token[REDLOCK_TOKEN_SIZE];
    struct answer second = {.callbacks = 0};
    bool next = _i;
    scene_attach();
    options.cancellation = scene_cancellation();
    scene_hold_on(0, 5, "stock");
    scene_start_acquire(&answer, "stock", &options);
    rest_until_notified();
    snprintf(place, sizeof place, "%s", queue_for_stock()->offer->lease->token.bytes);
    scene_each(0, 5, fake_server_forget_scripts);
    options.cancellation = NULL;
    if (next)
        scene_start_acquire(&second, "stock", &options);
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    if (next)
        rest_until_notified();
    scene_wait_for_sent_to(0, 5, SENT_UNDO, 2);
    /* The nodes receive everything that the client sends before this. */
    ck_assert_status(scene_acquire(&answer, "other", SCENE_WITH(.all_answers = true)), REDLOCK_OK);
    snprintf(token, sizeof token, "%s", redlock_lock_token(answer.lock));
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++) {
        scene_until(scene_sent(i, SENT_UNDO, token, 0, NULL));
        const struct resp_command *last = scene_sent(i, SENT_UNDO, place, 1, NULL)->command;
        ck_assert_ptr_null(scene_sent(i, SENT_UNDO, place, 2, NULL));
        ck_assert(resp_command_is(last, "EVAL"));
        size_t first = scene_first_argument(last);
        ck_assert_uint_eq(last->argc, first + (next ? 4 : 3));
        ck_assert_str_eq(last->argv[first + 1].data, scene.client->nodes->channel);
        ck_assert_str_eq(last->argv[first + 2].data, "undo");
        ck_assert_str_eq(last->argv[last->argc - 1].data, next ? "stays" : "undo");
    }
    scene_let_go_on(0, 5, "stock");
    if (next)
        ck_assert_status(scene_wait(&second), REDLOCK_OK);
}

/* The client sees it afterwards. The cancellation serves again. */
TEST(ends, a_cancellation_that_is_reset_at_once_ends_the_wait)
{
    scene_attach();
    options.cancellation = scene_cancellation();
    hold_majority();
    scene_start_acquire(&answer, "stock", &options);
    for (unsigned i = 0; i < 2; i++)
        redlock_cancel(scene.cancellation);
    for (unsigned i = 0; i < 2; i++)
        redlock_cancellation_reset(scene.cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    options.wait_ms = 20;
    ck_assert_status(scene_acquire(&answer, "stock", &options), REDLOCK_TIMED_OUT);
    redlock_cancellation_reset(NULL);
}

/* With many operations that would take long. */
TEST(ends, a_wake_up_that_is_no_cancellation_looks_at_no_operation)
{
    scene_attach();
    options.cancellation = scene_cancellation();
    hold_majority();
    scene_start_acquire(&answer, "stock", &options);
    atomic_fetch_add(&scene.cancellation->changes, 1); /* half of redlock_cancel() */
    rl_wakeup_signal(scene.client->core.wakeup);
    scene_turn();
    scene_turn();
    ck_assert_uint_eq(answer.callbacks, 0);
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
}

/* Neither its entry behind the removal, nor the removal behind the entry of the next waiter, which has the same name. */
TEST_ROWS(ends, nothing_is_sent_again_of_a_waiter_that_has_left, 2)
{
    struct fake_rule forgotten = {.count = 1, .skip = true, .reply = FAKE_NOSCRIPT, .hold = true};
    struct answer next;
    forgotten.argument = rl_scripts[_i ? RL_SCRIPT_RELEASE : RL_SCRIPT_WAIT].sha1;
    scene_attach();
    options.cancellation = scene_cancellation();
    options.fence = _i == 1; /* without an offer, whose withdrawal removes the waiter */
    scene_hold_on(0, 5, "stock");
    unsigned used = _i ? 0 : fake_server_add_rule(scene.node[0], &forgotten);
    scene_start_acquire(&answer, "stock", &options);
    scene_wait_for_sent(0, SENT_WAIT, 1);
    if (_i) { /* the undos of its attempts have been sent */
        rest_until_notified();
        used = fake_server_add_rule(scene.node[0], &forgotten);
    }
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    options.cancellation = NULL;
    scene_start_acquire(&next, "stock", &options);
    scene_until(queue_for_stock()->first);
    scene_until(fake_server_rule_used(scene.node[0], used) == 1);
    fake_server_release(scene.node[0]);
    scene_wait_for_replies(0, 1);
    ck_assert_uint_eq(fake_server_count(scene.node[0], "EVAL"), 0);
    scene_let_go_on(0, 5, "stock");
    ck_assert_status(scene_wait(&next), REDLOCK_OK);
}

/* What the replies to polls say, and the scripts that the waiter calls: e to enqueue, t to take the lock, too. */
static const struct {
    int taken, record; /* record: of the first reply; of the next ones twice that */
    long long seen;
    const char *calls, *ticket;
} polls[] = {
    {0, 0, 4000000000000000, "ee", "4000000000000001"},
    {0, 0, -4000000000000000, "ee", "4000000000000000"},
    {RL_WAIT_HANDED, 0, 0, "et", NULL},
    {0, -1, 0, "eet", NULL}, /* one holder has followed another without a message */
};

TEST_ROWS(ends, a_waiter_follows_the_replies_to_its_polls, ROWS(polls))
{
    char reply[96];
    struct fake_rule rule = {.argument = rl_scripts[RL_SCRIPT_WAIT].sha1, .count = 1, .skip = true, .reply = reply};
    scene_attach();
    rl_listeners_start(scene.client->nodes);
    scene_until(rl_listeners_up(scene.client->nodes) == quorum_all(5));
    scene_hold_on(0, 5, "stock");
    for (int i = 1; i <= 2; i++, rule.count = 0) {
        snprintf(reply, sizeof reply, "*6\r\n:%d\r\n:600000\r\n:0\r\n:%lld\r\n:%d\r\n$0\r\n\r\n", polls[_i].taken,
                 polls[_i].seen, i * polls[_i].record);
        scene_add_rule(0, 5, &rule);
    }
    options.cancellation = scene_cancellation();
    scene_start_acquire(&answer, "stock", &options);
    for (unsigned i = 0; polls[_i].calls[i]; i++) {
        scene_wait_for_sent(0, SENT_WAIT, i + 1);
        const struct resp_command *poll = scene_sent(0, SENT_WAIT, NULL, i, NULL)->command;
        const struct resp_argument *argument = &poll->argv[scene_first_argument(poll)];
        ck_assert_int_eq(argument[2].data[0], polls[_i].calls[i]);
        ck_assert(!polls[_i].ticket || i == 0 || resp_argument_is(&argument[1], polls[_i].ticket));
    }
    uint64_t ticket = queue_for_stock()->ticket;
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    ck_assert_int_eq(strcmp(answer.result.holder.token, RL_REMARK_SHARED) == 0, polls[_i].taken == 0);
    redlock_cancellation_reset(scene.cancellation);
    scene_start_acquire(&answer, "stock", &options);
    scene_until(queue_for_stock() && queue_for_stock()->standing);
    ck_assert_uint_gt(queue_for_stock()->ticket, ticket);
}

/* --- Ready --- */

TEST(ends, ready_returns_at_once_or_waits)
{
    scene_each(0, 3, fake_server_stop_listening);
    scene_attach_only();
    ck_assert_status(scene_wait(scene_start_ready(&answer, 0)), REDLOCK_NO_QUORUM);
    ck_assert_status(scene_wait(scene_start_ready(&answer, 50)), REDLOCK_TIMED_OUT);
    ck_assert_int_eq(answer.result.cause, REDLOCK_NO_QUORUM);
    ck_assert_uint_le(answer.result.granted, 2);
    ck_assert_int_eq(answer.result.node[0].outcome, REDLOCK_NODE_UNREACHABLE);
    ck_assert_has(answer.result.node[0].text, "Connection refused");
    scene_start_ready(&answer, REDLOCK_FOREVER);
    scene_turn();
    ck_assert_uint_eq(answer.callbacks, 0);
    scene_each(0, 3, fake_server_listen);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_uint_ge(answer.result.granted, 3);
    ck_assert_status(scene_wait(scene_start_ready(&answer, INT64_MAX)), REDLOCK_OK);
    ck_assert_status(scene_wait(scene_start_ready(&answer, -2)), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "wait_ms is -2");
}

/* No lock has this key, but a message may: a slot of a semaphore whose name ends within the prefix, so its resource would
 * have a negative size. */
TEST(ends, a_message_may_name_a_slot_that_begins_in_the_prefix)
{
    static const char key[] = ":redlock:slot:7";
    scene.options.prefix = ":redlock:slot:";
    scene_attach();
    scene_hold_on(0, 3, ":redlock:slot:stock");
    scene_start_acquire(&answer, "stock", &options);
    scene_wait_for_sent(0, SENT_WAIT, 1);
    rl_queues_wake(&scene.client->locks, 0, key, sizeof key - 1);
    scene_let_go_on(0, 3, ":redlock:slot:stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
}

/* --- A crowd: the waiters of one client for one name --- */

SCENE_CASE(crowd, scene_three_nodes);

enum { MANY = 10000, AT_ONCE = 100, HEAD_START = 40, SMALL_STACK = 1 << 20 };

/* One request per node for each name, whether they start at once or behind each other. They acquire the locks in turn, and
 * those of both names have their turns together. */
TEST(crowd, acquires_of_a_new_name_send_one_request)
{
    static struct answer answers[HEAD_START];
    options = *SCENE_WITH(.wait_ms = REDLOCK_FOREVER);
    scene_attach();
    scene_hold_replies(0, 3, "SET");
    for (unsigned i = 0; i < HEAD_START; i++)
        scene_start_acquire(&answers[i], scene_name(i % 2), &options);
    scene_wait_for_sent_to(0, 3, SENT_ATTEMPT, 2);
    scene_idle(20);
    ck_assert_uint_eq(scene_count(0, SENT_ATTEMPT) + scene_count(0, SENT_WAIT), 2);
    scene_calm(0, 3);
    for (unsigned i = 0; i < HEAD_START; i++) {
        ck_assert_status(scene_wait(&answers[i]), REDLOCK_OK);
        for (unsigned later = i + 2; later < HEAD_START; later += 2)
            ck_assert_uint_eq(answers[later].callbacks, 0);
        ck_assert_status(redlock_release_async(&answers[i].lock, NULL, NULL, NULL), REDLOCK_OK);
    }
}

static unsigned crowd_ended;

static void count_end(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *expected)
{
    (void)client;
    ck_assert_ptr_null(lock);
    ck_assert_int_eq(result->status, *(const int *)expected);
    crowd_ended++;
    scene.completed++;
}

/* The CPU time that the loop's turns take, without the nodes' threads. */
static uint64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Each waiter has a cancellation, and this many are cancelled in a turn, the oldest or the newest first. Readers are all in
 * the first waiter's turn. */
static const struct {
    enum end end;
    unsigned at_once;
    bool newest_first, shared;
    int status;
} crowds[] = {
    {BY_CANCELLATION, MANY, false, false, REDLOCK_CANCELLED},
    {BY_CANCELLATION, AT_ONCE, true, false, REDLOCK_CANCELLED},
    {BY_DEADLINE, 0, false, false, REDLOCK_TIMED_OUT},
    {BY_CLOSE, 0, false, false, REDLOCK_CANCELLED},
    {BY_REFUSAL, 0, false, false, REDLOCK_MISCONFIGURED},
    {BY_CANCELLATION, AT_ONCE, false, true, REDLOCK_CANCELLED},
};

/* The end of each starts the attempt of the next one: any number of these must not nest on the stack. */
TEST_LONG_ROWS(crowd, thousands_of_waiters_end_in_turns_that_are_short, ROWS(crowds))
{
    static redlock_cancellation *own[MANY];
    enum end end = crowds[_i].end;
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_STACK, &before), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_STACK, &(struct rlimit){SMALL_STACK, before.rlim_max}), 0);
    uint64_t longest = 0, begin;
    options = *SCENE_WITH(.wait_ms = end == BY_DEADLINE ? 3000 : REDLOCK_FOREVER, .shared = crowds[_i].shared);
    crowd_ended = 0;
    scene.options.log = NULL; /* it would have a line for each waiter and node */
    scene_attach();
    redlock_lock *other = scene_lock("other");
    scene_hold_on(0, 3, "stock");
    for (unsigned i = 0; i < MANY; i++) {
        if (end == BY_CANCELLATION)
            redlock_cancellation_create(scene.client, &own[i]);
        options.cancellation = own[i];
        ck_assert_status(
            redlock_acquire_async(scene.client, "stock", &options, count_end, (void *)(uintptr_t)&crowds[_i].status),
            REDLOCK_OK);
        scene.started++;
    }
    scene_until(crowd_ended || scene_count(0, SENT_WAIT)); /* the deadline may come first */
    if (end == BY_CLOSE)
        scene_start_close(&answer);
    for (unsigned i = 0; i < 3 && end == BY_REFUSAL; i++) {
        fake_server_set_password(scene.node[i], NULL, "changed");
        fake_server_drop(scene.node[i], FAKE_SHUTDOWN);
    }
    scene.keys_may_stay = end == BY_REFUSAL;
    for (unsigned cancelled = 0; crowd_ended < MANY;) {
        for (unsigned i = 0; i < crowds[_i].at_once && cancelled < MANY; i++, cancelled++)
            redlock_cancel(own[crowds[_i].newest_first ? MANY - 1 - cancelled : cancelled]);
        begin = thread_ns();
        scene_turn();
        longest = thread_ns() - begin > longest ? thread_ns() - begin : longest;
        ck_assert(end == BY_CLOSE || redlock_validity_ms(other) > 0);
    }
    ck_assert_int_eq(setrlimit(RLIMIT_STACK, &before), 0);
    if (end == BY_CLOSE)
        ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    /* 100 ms, times what a sanitizer, valgrind or a busy machine takes more. */
    const char *slowdown = getenv("CK_TIMEOUT_MULTIPLIER");
    uint64_t most = 100000000u * (slowdown ? strtoull(slowdown, NULL, 10) : 1);
    ck_assert_msg(longest < most, "a turn of %u ms", (unsigned)(longest / 1000000u));
    for (unsigned i = 0; i < MANY; i++)
        redlock_cancellation_destroy(&own[i]);
}

SCENE_CASE(readers, scene_three_nodes);

/* They have one entry on each node, and have tried together when the first is cancelled. */
TEST(readers, a_cancelled_reader_leaves_its_entry_to_the_next)
{
    struct answer next;
    options = *SCENE_WITH(.wait_ms = REDLOCK_FOREVER, .shared = 1);
    scene_attach();
    scene_hold_on(0, 3, "stock");
    redlock_acquire_options cancelled = options;
    cancelled.cancellation = scene_cancellation();
    scene_start_acquire(&answer, "stock", &cancelled);
    scene_start_acquire(&next, "stock", &options);
    rest_until_notified();
    scene_hold_replies(0, 3, "EVALSHA");
    unsigned before = scene_count(0, SENT_ATTEMPT);
    for (unsigned i = 0; i < 3; i++)
        scene_call_waiters(i, "stock");
    scene_until(scene_count(0, SENT_ATTEMPT) >= before + 2);
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    scene_calm(0, 3);
    rest_until_notified();
    scene_assert_key(0, 3, "stock:redlock:queue", true);
    scene_let_go_on(0, 3, "stock");
    ck_assert_status(scene_wait(&next), REDLOCK_OK);
}

/* The holder is a client of another library, which wakes none of them. */
TEST(readers, one_reader_polls_for_all)
{
    struct answer other;
    options = *SCENE_WITH(.wait_ms = REDLOCK_FOREVER, .shared = 1);
    scene_attach();
    for (unsigned i = 0; i < 3; i++)
        fake_server_set_key(scene.node[i], "stock", "foreign", 600000);
    scene_start_acquire(&answer, "stock", &options);
    options.cancellation = scene_cancellation();
    scene_start_acquire(&other, "stock", &options);
    rest_until_notified();
    scene_wait_for_sent(0, SENT_ATTEMPT, 7);
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&other), REDLOCK_CANCELLED);
    ck_assert_uint_le(other.result.attempts, 2);
    for (unsigned i = 0; i < 3; i++)
        fake_server_delete_key(scene.node[i], "stock");
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_uint_ge(answer.result.attempts, 5);
}

SCENE_CASE(any, five_nodes);

TEST_ROWS(any, the_first_that_is_free_ends_the_wait, 2)
{
    const char *freed = _i ? "stock" : "two";
    struct scene_events events = {0};
    struct answer closed;
    options.event = scene_note_event;
    options.event_arg = &events;
    scene_attach();
    hold_any();
    scene_start_acquire(&answer, "stock", &options);
    scene_wait_for_sent(0, SENT_WAIT, 2);
    ck_assert_uint_eq(answer.callbacks, 0);
    scene_let_go_on(0, 3, freed);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_str_eq(redlock_lock_resource(answer.lock, NULL), freed);
    ck_assert_uint_eq(redlock_lock_resources(answer.lock), 1);
    ck_assert_int_gt(answer.result.validity_ms, 0);
    ck_assert_uint_ge(answer.result.granted, 3);
    scene_wait_for_no_key(0, 5, _i ? "two:redlock:queue" : "stock:redlock:queue");
    ck_assert_uint_eq(events.count, 0);
    ck_assert_status(scene_close(&closed), REDLOCK_OK);
    ck_assert_uint_eq(events.lost, 1);
    ck_assert_int_eq(events.loss[0], REDLOCK_LOSS_CLOSED);
}

/* Both majorities grant in one turn of the loop. at_least_ms is for the lock that the caller has. */
TEST(any, a_second_lock_is_given_up)
{
    options.at_least_ms = 20000;
    scene_attach();
    scene_hold_replies(0, 5, "SET");
    want_any();
    scene_start_acquire(&answer, "stock", &options);
    scene_wait_for_sent_to(0, 5, SENT_SET, 2);
    scene_calm(0, 5);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    bool is_stock = strcmp(redlock_lock_resource(answer.lock, NULL), "stock") == 0;
    scene_wait_for_no_key(0, 5, is_stock ? "two" : "stock");
    scene_assert_key(0, 3, is_stock ? "stock" : "two", true);
    ck_assert_uint_eq(scene_statistics().acquires[0], 2);
    ck_assert_uint_eq(scene_statistics().locks_held, 1);
    scene.keys_may_stay = true; /* of the lock, for at_least_ms */
}

TEST(any, what_can_never_be_granted_ends_the_wait_for_the_others)
{
    struct answer reader;
    scene.options.operations_max = 3;
    scene_attach();
    options.owner = &options;
    ck_assert_status(scene_acquire(&reader, "stock", SCENE_WITH(.owner = &options, .shared = 1)), REDLOCK_OK);
    want_any();
    scene_start_acquire(&answer, "stock", &options);
    ck_assert_status(scene_wait(&answer), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "' shared; release that first");
    scene_wait_for_no_key(0, 5, "two");
    scene.client->core.options.operations_max = 2; /* itself, and one more */
    scene_start_acquire(&answer, "stock", &options);
    ck_assert_status(scene_wait(&answer), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "operations_max");
}

TEST_PROGRAM("waiting")
