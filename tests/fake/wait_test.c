/* Waiting for a lock. A wait ends by success, deadline, cancellation or close, at every stage of an acquire. */
#include "fake/scene.h"

#include <signal.h>
#include <sys/resource.h>

#include "src/client/client.h"
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

static void let_go_of_majority(void)
{
    scene_let_go_on(0, 3, "stock");
}

static void start(void)
{
    scene_start_acquire(&answer, "stock", &options);
}

static void assert_acquired(void)
{
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
}

/* --- Success --- */

SCENE_CASE(success, five_nodes);

TEST(success, trying_once_does_not_wait_for_lost_nodes)
{
    scene.options.node_timeout_ms = 100;
    scene.options.connect_timeout_ms = 2 * SCENE_SOON_MS;
    scene.options.ttl_ms = 2 * SCENE_SOON_MS; /* a slow machine's timeouts grow to a quarter of it */
    scene_attach();
    scene_lose(0, 3);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.unreachable, 3);
    ck_assert_uint_lt(answer.result.elapsed_us, SCENE_SOON_MS * 1000);
}

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

TEST_ROWS(success, a_lock_that_becomes_free_is_acquired, 3)
{
    const struct fake_record *attempt;
    options.wait_ms = _i == 0 ? SCENE_SOON_MS : _i == 1 ? REDLOCK_FOREVER : INT64_MAX;
    scene_attach();
    hold_majority();
    start();
    scene_wait_for_sent(0, SENT_WAIT, 1);
    ck_assert_uint_eq(answer.callbacks, 0);
    let_go_of_majority();
    assert_acquired();
    ck_assert_uint_ge(answer.result.attempts, 2);
    ck_assert_int_eq(answer.result.cause, REDLOCK_OK);
    scene_wait_for_sent(0, SENT_ATTEMPT, 2);
    for (unsigned i = 0; (attempt = scene_sent(0, SENT_ATTEMPT, NULL, i, NULL)); i++) /* each has another token */
        ck_assert_ptr_null(scene_sent(0, SENT_ATTEMPT, scene_token(attempt), 1, NULL));
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}

/* Both wait behind another holder. */
TEST(success, the_second_of_two_waiting_acquires_of_one_owner_re_enters)
{
    static const char owner = 0;
    struct answer second;
    options.owner = &owner;
    scene_attach();
    hold_majority();
    start();
    scene_start_acquire(&second, "stock", &options);
    scene_wait_for_sent(0, SENT_WAIT, 1);
    let_go_of_majority();
    assert_acquired();
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
    start();
    scene_wait_for_sent_to(0, 3, SENT_WAIT, 1);
    let_go_of_majority();
    assert_acquired();
}

static struct rl_queue *queue_for_stock(void)
{
    const struct rl_names names = rl_names_of("stock", 5);
    return rl_queue_find(&scene.client->locks, &names, options.shared);
}

/* Between attempts and polls: the first nodes have replied to the last poll, and will notify the waiter. */
static bool rests(unsigned callers)
{
    const struct rl_queue *queue = queue_for_stock();
    const struct quorum_waiting *rules = queue ? &queue->rules : NULL;
    quorum_nodes nodes = quorum_node(callers) - 1;
    return rules && (rules->heard & rules->enqueued & nodes) == nodes && !rules->looking && !rules->trying;
}

static void rest_until_notified(void)
{
    scene_until(rests(scene.nodes));
}

/* Notifies the waiter while the lock is held, and again after a poll, whose replies may have cancelled the
 * notification. Its attempt fails. Returns the token of the attempt. */
static const char *call_to_a_lost_attempt(void)
{
    unsigned attempts = scene_count(0, SENT_ATTEMPT);
    while (scene_count(0, SENT_ATTEMPT) == attempts) {
        unsigned polls = scene_count(0, SENT_WAIT);
        for (unsigned i = 0; i < 3; i++)
            scene_call_waiters(i, "stock");
        scene_until(scene_count(0, SENT_ATTEMPT) > attempts || scene_count(0, SENT_WAIT) > polls);
        scene_until(rests(3));
    }
    return scene_token(scene_sent(0, SENT_ATTEMPT, NULL, attempts, NULL));
}

/* Have these nodes received the undo, or the withdrawal of the offer, with this token? */
static bool have_undone(unsigned first, const char *token)
{
    for (unsigned i = first; i < 5; i++)
        if (!scene_sent(i, SENT_UNDO, token, 0, NULL))
            return false;
    return true;
}

/* Two nodes do not reply to a lost attempt, and receive its undo during the wait. The undos would leave with the next
 * poll at the latest, but the test stops the poll's timer. */
TEST(success, silent_nodes_get_the_undo_before_the_next_poll)
{
    char token[REDLOCK_TOKEN_SIZE];
    scene_attach();
    scene_hold_on(0, 5, "stock");
    start();
    rest_until_notified();
    scene_hold_replies(3, 5, NULL);
    snprintf(token, sizeof token, "%s", call_to_a_lost_attempt());
    rl_timer_stop(&scene.client->core.timers, &queue_for_stock()->timer);
    scene_until(have_undone(3, token));
    ck_assert_uint_eq(answer.callbacks, 0);
    scene_calm(3, 5);
    scene_let_go_on(0, 5, "stock");
    assert_acquired();
}

/* Was the node sent the removal of a waiter? A release names a waiter that stays, too. */
static bool removes_waiter(unsigned node, enum sent what)
{
    const struct fake_record *sent;
    for (unsigned i = 0; (sent = scene_sent(node, what, NULL, i, NULL)) != NULL; i++) {
        const struct resp_command *command = sent->command;
        size_t name = scene_first_argument(command) + (what == SENT_FREE ? 4 : 1);
        if (command->argc > name && command->argv[name].length > 0 &&
            !resp_argument_is(&command->argv[command->argc - 1], "stays"))
            return true;
    }
    return false;
}

/* Two nodes refuse the attempt that the other three grant, and their replies come after the lock is won. With a fencing
 * token there is no offer, whose withdrawal would remove the waiter. */
TEST(success, winner_leaves_the_queue_where_the_reply_was_late)
{
    options.fence = true;
    scene_attach();
    scene_hold_on(0, 5, "stock");
    start();
    rest_until_notified();
    scene_hold_replies(3, 5, NULL);
    let_go_of_majority();
    assert_acquired();
    ck_assert(!removes_waiter(3, SENT_UNDO));
    scene_calm(3, 5);
    scene_until(removes_waiter(3, SENT_UNDO));
    ck_assert_int_gt(redlock_validity_ms(answer.lock), 0);
}

/* --- Each end at each stage --- */

enum stage {
    STAGE_BEGINNING,   /* nothing has been sent */
    STAGE_UNREACHABLE, /* no server listens */
    STAGE_CONNECTION,  /* handshakes of a majority in progress, nothing has been sent */
    STAGE_HANDSHAKE,   /* handshakes of a minority in progress, the other nodes have replied */
    STAGE_ROUND,       /* executed by all nodes, a minority has replied */
    STAGE_SILENCE,     /* sent to all nodes, executed by a minority */
    STAGE_PAUSE,       /* between attempts: the waiter is in the queue */
    STAGES
};

static void prepare(enum stage stage)
{
    if (stage == STAGE_UNREACHABLE)
        scene_each(0, 3, fake_server_stop_listening);
    if (stage == STAGE_CONNECTION)
        scene_hold_replies(0, 3, NULL);
    if (stage == STAGE_HANDSHAKE) {
        scene_hold_replies(0, 2, NULL);
        scene_hold_on(2, 3, "stock");
    }
    scene_attach_only();
    if (stage > STAGE_HANDSHAKE)
        scene_wait_for_ready();
    if (stage == STAGE_ROUND)
        scene_hold_replies(0, 3, "SET");
    if (stage == STAGE_SILENCE)
        scene_each(0, 3, fake_server_pause);
    if (stage == STAGE_PAUSE)
        hold_majority();
}

/* Or it has been there: on a busy machine the attempt may have timed out, and another one followed. */
static bool is_there(enum stage stage)
{
    switch (stage) {
    case STAGE_UNREACHABLE:
        return scene_ready_nodes() == 2;
    case STAGE_CONNECTION:
        return fake_server_count(scene.node[0], "INFO") > 0 && scene_ready_nodes() == 2;
    case STAGE_HANDSHAKE:
        return fake_server_count(scene.node[0], "INFO") > 0 && scene_count(4, SENT_SET) >= 1;
    case STAGE_ROUND:
        return scene_count_all(SENT_SET) >= 5;
    case STAGE_SILENCE:
        return scene_count_all(SENT_SET) >= 2;
    case STAGE_PAUSE:
        return scene_count(0, SENT_WAIT) >= 1;
    case STAGE_BEGINNING:
    case STAGES:
        break;
    }
    return true;
}

static void start_and_reach(enum stage stage)
{
    start();
    scene_until(answer.callbacks || is_there(stage)); /* the deadline may come first */
}

static void assert_ended(int status)
{
    ck_assert_status(scene_wait(&answer), status);
    ck_assert_ptr_null(answer.lock);
    ck_assert_uint_eq(answer.callbacks, 1);
    ck_assert_int_eq(answer.result.validity_ms, 0);
}

/* Every request that was sent is undone once the nodes reply. */
static void assert_nothing_stays(void)
{
    scene_calm(0, 3);
    let_go_of_majority();
    scene_wait_for_ready();
    scene_lock_and_release("stock");
}

SCENE_CASE(stages, five_nodes);

TEST_ROWS(stages, a_deadline_leaves_nothing, STAGES)
{
    options.wait_ms = 60;
    if (_i == STAGE_PAUSE || _i == STAGE_UNREACHABLE) { /* an attempt must end before, even on a busy machine */
        options.wait_ms = 1000;
        scene.options.node_timeout_ms = SCENE_SOON_MS;
    }
    prepare((enum stage)_i);
    start_and_reach((enum stage)_i);
    if (_i == STAGE_BEGINNING && scene_wait(&answer) == REDLOCK_OK) /* acquired before the deadline */
        return;
    assert_ended(REDLOCK_TIMED_OUT);
    ck_assert_uint_ge(answer.result.elapsed_us, (uint64_t)options.wait_ms * 1000);
    if (_i == STAGE_PAUSE)
        ck_assert_int_eq(answer.result.cause, REDLOCK_HELD);
    if (_i == STAGE_UNREACHABLE)
        ck_assert_int_eq(answer.result.cause, REDLOCK_NO_QUORUM);
    assert_nothing_stays();
}

/* The attempt in progress at the deadline has no votes yet: those of the attempt before it say why it timed out. */
TEST(stages, a_wait_that_timed_out_shows_the_last_attempt_that_finished)
{
    options.wait_ms = 1000;
    scene.options.node_timeout_ms = SCENE_SOON_MS;
    scene_attach();
    hold_majority();
    for (unsigned i = 0; i < 5; i++) /* so that it waits by attempts */
        fake_server_refuse(scene.node[i], "SUBSCRIBE", 0, FAKE_NOPERM);
    start();
    for (unsigned i = 0; i < 5; i++)
        scene_until(fake_server_count(scene.node[i], "EVALSHA") > 0); /* in the queue */
    scene_hold_replies(0, 5, "EVALSHA");
    ck_assert_status(scene_wait(&answer), REDLOCK_TIMED_OUT);
    ck_assert_int_eq(answer.result.cause, REDLOCK_HELD);
    ck_assert_uint_ge(answer.result.held, 3);
    ck_assert_has(redlock_result_text(&answer.result), " held (");
    scene_calm(0, 5);
    assert_nothing_stays();
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
    scene.options.node_timeout_ms = SCENE_SOON_MS;
    scene_attach();
    scene_hold_replies(0, 5, "SET");
    if (_i == 1)
        hold_majority();
    start();
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
    scene_calm(0, 5);
    ck_assert(wait_until(majority_has_replied, NULL, SCENE_SOON_MS));
    rl_timer_set(&scene.client->core.timers, &scene.client->operations.first->timer, 1);
    ck_assert_status(scene_wait(&answer), _i == 0 ? REDLOCK_OK : REDLOCK_TIMED_OUT);
    ck_assert_int_eq(answer.result.cause, _i == 0 ? REDLOCK_OK : REDLOCK_HELD);
}

/* --- Cancelled --- */

static void cancel(int signal)
{
    (void)signal;
    redlock_cancel(scene.cancellation);
}

/* In a signal handler, which is the most that is allowed. */
TEST_ROWS(stages, a_cancellation_leaves_nothing, STAGES)
{
    enum stage stage = (enum stage)_i;
    prepare(stage);
    options.cancellation = scene_cancellation();
    start_and_reach(stage);
    signal(SIGUSR2, cancel);
    raise(SIGUSR2);
    signal(SIGUSR2, SIG_DFL);
    assert_ended(REDLOCK_CANCELLED);
    if (stage == STAGE_PAUSE)
        ck_assert_int_eq(answer.result.cause, REDLOCK_HELD);
    assert_nothing_stays();
}

SCENE_CASE(ends, five_nodes);

/* An acquire that has ended keeps its lock. One that begins afterwards sends nothing. */
TEST(ends, cancellation_ends_neither_a_lock_nor_itself)
{
    scene_attach();
    options.cancellation = scene_cancellation();
    start();
    assert_acquired();
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
    redlock_cancel(scene.cancellation);
    scene_turn();
    ck_assert_int_gt(redlock_validity_ms(answer.lock), 0);
    ck_assert(redlock_held_by_me(scene.client, "stock", 0));
    ck_assert_status(scene_acquire(&answer, "other", &options), REDLOCK_CANCELLED);
    ck_assert_uint_eq(answer.result.attempts, 0);
    ck_assert_uint_eq(scene_count_all(SENT_SET), 5);
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

TEST(ends, a_cancellation_outlives_its_client)
{
    scene_attach();
    options.cancellation = scene_cancellation();
    ck_assert_status(scene_close(&answer), REDLOCK_OK);
    redlock_cancel(scene.cancellation);
    redlock_cancel(scene.cancellation);
    redlock_cancellation_destroy(&scene.cancellation);
    ck_assert_ptr_null(scene.cancellation);
    redlock_cancellation_destroy(&scene.cancellation);
    redlock_cancellation_destroy(NULL);
    redlock_cancel(NULL);
}

/* --- Dequeuing a waiter where the node refuses the withdrawal --- */

static char place[REDLOCK_TOKEN_SIZE]; /* the token of the offer, which is withdrawn when the waiter leaves */

static void wait_queued(void)
{
    scene_attach();
    options.cancellation = scene_cancellation();
    scene_hold_on(0, 5, "stock");
    start();
    rest_until_notified();
    snprintf(place, sizeof place, "%s", queue_for_stock()->offer->lease->token.bytes);
}

/* Waits until all nodes have replied to the earlier commands and received the later ones. Then checks that each was
 * sent two commands that withdraw the offer, or a few more, and whether the second one dequeues the waiter. */
static void expect_withdrawals(const char *command, bool dequeue, unsigned most)
{
    char token[REDLOCK_TOKEN_SIZE];
    ck_assert_status(scene_acquire(&answer, "other", SCENE_WITH(.all_answers = true)), REDLOCK_OK);
    snprintf(token, sizeof token, "%s", redlock_lock_token(answer.lock));
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    scene_until(have_undone(0, token));
    for (unsigned i = 0; i < 5; i++) {
        const struct fake_record *last = scene_sent(i, SENT_UNDO, place, 1, NULL);
        ck_assert_ptr_nonnull(last);
        ck_assert_ptr_null(scene_sent(i, SENT_UNDO, place, most, NULL));
        ck_assert(resp_command_is(last->command, command));
        size_t first = scene_first_argument(last->command);
        ck_assert_uint_eq(last->command->argc, first + (dequeue ? 3 : 4));
        ck_assert_str_eq(last->command->argv[first + 1].data, scene.client->nodes->channel);
        ck_assert_str_eq(last->command->argv[first + 2].data, "undo");
        ck_assert_str_eq(last->command->argv[last->command->argc - 1].data, dequeue ? "undo" : "stays");
    }
}

/* The client sends the script's text only once, even if the node replies NOSCRIPT again. */
TEST_ROWS(ends, a_place_is_given_up_where_the_script_is_forgotten, 2)
{
    wait_queued();
    scene_each(0, 5, fake_server_forget_scripts);
    const struct fake_rule again = {.command = "EVAL", .argument = place, .skip = true, .reply = FAKE_NOSCRIPT};
    if (_i == 1)
        scene_add_rule(0, 5, &again);
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    expect_withdrawals("EVAL", true, _i == 1 ? 4 : 2); /* a heartbeat repeats what was refused */
}

/* A command that is sent again, with the script's text or at a heartbeat, does not dequeue this client's next waiter,
 * which has the same name. */
TEST_ROWS(ends, a_place_is_kept_for_the_next_waiter, 2)
{
    struct answer second;
    const struct fake_rule busy = {.argument = place, .count = 1, .skip = true, .reply = FAKE_BUSY};
    wait_queued();
    if (_i == 0)
        scene_each(0, 5, fake_server_forget_scripts);
    else
        scene_add_rule(0, 5, &busy);
    options.cancellation = NULL;
    scene_start_acquire(&second, "stock", &options);
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    rest_until_notified();
    for (unsigned i = 0; i < 5; i++)
        scene_until(scene_sent(i, SENT_UNDO, place, 1, NULL));
    expect_withdrawals(_i == 0 ? "EVAL" : "EVALSHA", false, 2);
    scene_let_go_on(0, 5, "stock");
    ck_assert_status(scene_wait(&second), REDLOCK_OK);
}

/* The nodes name it in their replies to the poll, although it is another than at the attempt. */
TEST(ends, a_wait_in_the_queue_names_the_last_holder)
{
    static const char later[] = "later";
    scene_attach();
    options.cancellation = scene_cancellation();
    scene_hold_on(0, 5, "stock");
    start();
    scene_wait_for_sent_to(0, 5, SENT_WAIT, 1);
    for (unsigned i = 0; i < 5; i++)
        fake_server_set_key(scene.node[i], "stock", later, 60000);
    scene_wait_for_sent_to(0, 5, SENT_WAIT, 2);
    for (unsigned i = 0; i < 5; i++)
        scene_until(rl_flight_is_empty(&scene.client->nodes->node[i].flight));
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    ck_assert_str_eq(answer.result.holder.token, later);
    for (unsigned i = 0; i < 5; i++)
        fake_server_delete_key(scene.node[i], "stock");
}

/* Its entry would come behind the removal, and stay. */
TEST(ends, the_poll_of_a_waiter_that_has_left_is_not_sent_again)
{
    const struct fake_rule forgotten = {
        .argument = rl_scripts[RL_SCRIPT_WAIT].sha1, .count = 1, .skip = true, .reply = FAKE_NOSCRIPT, .hold = true};
    scene.options.node_timeout_ms = SCENE_SOON_MS;
    scene_attach();
    options.cancellation = scene_cancellation();
    scene_hold_on(0, 5, "stock");
    fake_server_add_rule(scene.node[0], &forgotten);
    start();
    scene_wait_for_sent(0, SENT_WAIT, 1);
    snprintf(place, sizeof place, "%s", queue_for_stock()->offer->lease->token.bytes);
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    scene_until(scene_sent(0, SENT_UNDO, place, 0, NULL)); /* the node executes it */
    fake_server_release(scene.node[0]);
    scene_until(rl_flight_is_empty(&scene.client->nodes->node[0].flight));
    ck_assert_uint_eq(fake_server_count(scene.node[0], "EVAL"), 0);
    scene_let_go_on(0, 5, "stock");
}

/* --- Closed --- */

TEST_ROWS(stages, a_close_leaves_nothing, STAGES)
{
    enum stage stage = (enum stage)_i;
    bool silent = stage == STAGE_SILENCE;
    struct answer closed;
    scene.keys_may_stay = silent; /* an undo that the window of a slow node holds back is not sent */
    scene.options.node_timeout_ms = SCENE_SOON_MS;
    for (unsigned i = 0; i < 3 && (silent || stage == STAGE_CONNECTION || stage == STAGE_HANDSHAKE); i++)
        scene.suffix[i] = "?timeout_ms=200"; /* so long the close waits for silent nodes */
    prepare(stage);
    start_and_reach(stage);
    scene_start_close(&closed);
    assert_ended(REDLOCK_CANCELLED);
    if (stage == STAGE_ROUND)
        scene_each(0, 3, fake_server_release);
    ck_assert_status(scene_wait(&closed), silent ? REDLOCK_NO_QUORUM : REDLOCK_OK);
    ck_assert_uint_gt(closed.place, answer.place); /* the close ends last */
    ck_assert_uint_eq(closed.result.pending_undos, silent ? 3 : 0);
}

/* --- Ready --- */

static int ready(int64_t wait_ms)
{
    return scene_wait(scene_start_ready(&answer, wait_ms));
}

TEST(ends, ready_returns_at_once_or_waits)
{
    scene_each(0, 3, fake_server_stop_listening);
    scene_attach_only();
    ck_assert_status(ready(0), REDLOCK_NO_QUORUM);
    ck_assert_status(ready(50), REDLOCK_TIMED_OUT);
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
    ck_assert_status(ready(INT64_MAX), REDLOCK_OK);
    ck_assert_status(ready(-2), REDLOCK_INVALID);
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
    start();
    scene_wait_for_sent(0, SENT_WAIT, 1);
    rl_queues_wake(&scene.client->locks, 0, key, sizeof key - 1);
    scene_let_go_on(0, 3, ":redlock:slot:stock");
    assert_acquired();
}

/* --- A crowd: the waiters of one client for one name --- */

SCENE_CASE(crowd, scene_three_nodes);

enum { MANY = 20000, AT_ONCE = 20, HEAD_START = 40, SMALL_STACK = 1 << 20 };

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

enum crowd_end { CANCELLED_TOGETHER, CANCELLED_NEWEST_FIRST, CANCELLED_OLDEST_FIRST, TIMED_OUT, CLOSED, MISCONFIGURED };
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

/* Readers are all in the first waiter's turn. */
static const struct {
    enum crowd_end how;
    bool shared;
} crowds[] = {
    {CANCELLED_TOGETHER, false},
    {CANCELLED_NEWEST_FIRST, false},
    {CANCELLED_OLDEST_FIRST, false},
    {TIMED_OUT, false},
    {CLOSED, false},
    {MISCONFIGURED, false},
    {CANCELLED_TOGETHER, true},
    {CANCELLED_OLDEST_FIRST, true},
    {MISCONFIGURED, true},
};

/* The end of each starts the attempt of the next one: any number
 * of these must not nest on the stack. */
TEST_LONG_ROWS(crowd, thousands_of_waiters_end_in_turns_that_are_short, ROWS(crowds))
{
    static redlock_cancellation *own[MANY];
    enum crowd_end how = crowds[_i].how;
    const int status = how == TIMED_OUT       ? REDLOCK_TIMED_OUT
                       : how == MISCONFIGURED ? REDLOCK_MISCONFIGURED
                                              : REDLOCK_CANCELLED;
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_STACK, &before), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_STACK, &(struct rlimit){SMALL_STACK, before.rlim_max}), 0);
    bool each = how == CANCELLED_NEWEST_FIRST || how == CANCELLED_OLDEST_FIRST;
    uint64_t longest = 0, begin = 0;
    options = *SCENE_WITH(.wait_ms = how == TIMED_OUT ? 3000 : REDLOCK_FOREVER, .shared = crowds[_i].shared);
    crowd_ended = 0;
    scene.options.log = NULL; /* it would have a line for each waiter and node */
    scene_attach();
    redlock_lock *other = scene_lock("other");
    scene_hold_on(0, 3, "stock");
    for (unsigned i = 0; i < MANY; i++) {
        if (each)
            redlock_cancellation_create(scene.client, &own[i]);
        options.cancellation = each                                  ? own[i]
                               : how == CANCELLED_TOGETHER && i == 0 ? scene_cancellation()
                                                                     : options.cancellation;
        ck_assert_status(redlock_acquire_async(scene.client, "stock", &options, count_end, (void *)(uintptr_t)&status),
                         REDLOCK_OK);
        scene.started++;
    }
    scene_wait_for_sent(0, SENT_WAIT, 1);
    if (how == CANCELLED_TOGETHER)
        redlock_cancel(scene.cancellation);
    else if (how == CLOSED)
        scene_start_close(&answer);
    for (unsigned i = 0; i < 3 && how == MISCONFIGURED; i++) {
        fake_server_set_password(scene.node[i], NULL, "changed");
        fake_server_drop(scene.node[i], FAKE_SHUTDOWN);
    }
    scene.keys_may_stay = how == MISCONFIGURED;
    for (unsigned i = 0; crowd_ended < MANY; i++) {
        for (unsigned k = AT_ONCE * i; each && k < AT_ONCE * (i + 1) && k < MANY; k++)
            redlock_cancel(own[how == CANCELLED_NEWEST_FIRST ? MANY - 1 - k : k]);
        begin = thread_ns();
        scene_turn();
        longest = thread_ns() - begin > longest ? thread_ns() - begin : longest;
        ck_assert(how == CLOSED || redlock_validity_ms(other) > 0);
    }
    ck_assert_int_eq(setrlimit(RLIMIT_STACK, &before), 0);
    if (how == CLOSED)
        ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    /* 100 ms, times what a sanitizer, valgrind or a busy machine takes more. */
    const char *slowdown = getenv("CK_TIMEOUT_MULTIPLIER");
    uint64_t most = 100000000u * (slowdown ? strtoull(slowdown, NULL, 10) : 1);
    ck_assert_msg(longest < most, "a turn of %u ms", (unsigned)(longest / 1000000u));
    for (unsigned i = 0; each && i < MANY; i++)
        redlock_cancellation_destroy(&own[i]);
}

/* --- Readers of one client --- */

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
    start();
    options.cancellation = scene_cancellation();
    scene_start_acquire(&other, "stock", &options);
    rest_until_notified();
    scene_wait_for_sent(0, SENT_ATTEMPT, 7);
    redlock_cancel(scene.cancellation);
    ck_assert_status(scene_wait(&other), REDLOCK_CANCELLED);
    ck_assert_uint_le(other.result.attempts, 2);
    for (unsigned i = 0; i < 3; i++)
        fake_server_delete_key(scene.node[i], "stock");
    assert_acquired();
    ck_assert_uint_ge(answer.result.attempts, 5);
}

/* A writer of the same client waits, and has a separate entry. */
TEST(readers, a_reader_that_acquired_leaves_the_queue_where_the_reply_was_late)
{
    struct answer writer;
    options = *SCENE_WITH(.wait_ms = REDLOCK_FOREVER, .shared = 1);
    scene_attach();
    scene_hold_on(0, 3, "stock");
    start();
    rest_until_notified();
    scene_hold_replies(2, 3, NULL);
    scene_let_go_on(0, 2, "stock");
    assert_acquired();
    unsigned before = scene_count(1, SENT_WAIT);
    scene_start_acquire(&writer, "stock", SCENE_WITH(.wait_ms = REDLOCK_FOREVER));
    scene_until(scene_count(1, SENT_WAIT) > before);
    ck_assert(!removes_waiter(2, SENT_FREE));
    scene_calm(2, 3);
    scene_until(removes_waiter(2, SENT_FREE));
    scene_let_go_on(2, 3, "stock");
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    ck_assert_status(scene_wait(&writer), REDLOCK_OK);
}

/* --- Any of several locks --- */

SCENE_CASE(any, five_nodes);

static const redlock_name two[] = {{"two", 3}};

static void start_any(void)
{
    options.any = 1;
    options.also = two;
    options.also_count = 1;
    scene_start_acquire(&answer, "one", &options);
}

static void hold_both(void)
{
    scene_hold_on(0, 3, "one");
    scene_hold_on(0, 3, "two");
}

static void let_go_of(const char *name)
{
    scene_let_go_on(0, 3, name);
    for (unsigned i = 0; i < 3; i++)
        scene_call_waiters(i, name);
}

static bool no_node_has(const char *key)
{
    bool has = false;
    for (unsigned i = 0; i < scene.nodes; i++)
        has = has || scene_has_key(i, key);
    return !has;
}

TEST_ROWS(any, the_first_that_is_free_ends_the_wait, 2)
{
    const char *freed = _i ? "one" : "two";
    struct scene_events events = {0};
    options.event = scene_note_event;
    options.event_arg = &events;
    scene_attach();
    hold_both();
    start_any();
    scene_wait_for_sent(0, SENT_WAIT, 2);
    ck_assert_uint_eq(answer.callbacks, 0);
    let_go_of(freed);
    assert_acquired();
    ck_assert_str_eq(redlock_lock_resource(answer.lock, NULL), freed);
    ck_assert_uint_eq(redlock_lock_resources(answer.lock), 1);
    ck_assert_int_gt(answer.result.validity_ms, 0);
    ck_assert_uint_ge(answer.result.granted, 3);
    scene_until(no_node_has(_i ? "two:redlock:queue" : "one:redlock:queue"));
    ck_assert_uint_eq(events.count, 0);
    static struct answer closed;
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
    start_any();
    scene_wait_for_sent_to(0, 5, SENT_SET, 2);
    scene_calm(0, 5);
    assert_acquired();
    bool is_one = strcmp(redlock_lock_resource(answer.lock, NULL), "one") == 0;
    scene_until(no_node_has(is_one ? "two" : "one"));
    scene_assert_key(0, 3, is_one ? "one" : "two", true);
    ck_assert_uint_eq(scene_statistics().acquires[0], 2);
    ck_assert_uint_eq(scene_statistics().locks_held, 1);
    scene.keys_may_stay = true; /* of the lock, for at_least_ms */
}

static void cancel_any(void)
{
    redlock_cancel(scene.cancellation);
}

static void close_any(void)
{
    static struct answer closed;
    ck_assert_status(scene_close(&closed), REDLOCK_OK);
}

static void let_time_pass(void)
{
}

static const struct {
    void (*end)(void);
    int64_t wait_ms;
    int status, cause;
} any_ends[] = {
    {cancel_any, REDLOCK_FOREVER, REDLOCK_CANCELLED, REDLOCK_CANCELLED},
    {close_any, REDLOCK_FOREVER, REDLOCK_CANCELLED, REDLOCK_CANCELLED},
    {let_time_pass, 200, REDLOCK_TIMED_OUT, REDLOCK_HELD},
};

TEST_ROWS(any, a_wait_that_ends_without_a_lock_leaves_nothing, ROWS(any_ends))
{
    scene_attach();
    hold_both();
    options.wait_ms = any_ends[_i].wait_ms;
    options.cancellation = scene_cancellation();
    start_any();
    if (any_ends[_i].wait_ms == REDLOCK_FOREVER)
        scene_wait_for_sent(0, SENT_WAIT, 2);
    any_ends[_i].end();
    ck_assert_status(scene_wait(&answer), any_ends[_i].status);
    ck_assert_int_eq(answer.result.cause, any_ends[_i].cause);
    ck_assert_ptr_null(answer.lock);
    scene_let_go_on(0, 3, "one");
    scene_let_go_on(0, 3, "two");
    scene_until(no_node_has("one:redlock:queue") && no_node_has("two:redlock:queue"));
}

TEST(any, what_can_never_be_granted_ends_the_wait_for_the_others)
{
    static struct answer reader;
    scene.options.operations_max = 3;
    scene_attach();
    options.owner = &options;
    ck_assert_status(scene_acquire(&reader, "one", SCENE_WITH(.owner = &options, .shared = 1)), REDLOCK_OK);
    start_any();
    ck_assert_status(scene_wait(&answer), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "' shared; release that first");
    scene_until(no_node_has("two"));
    scene.client->core.options.operations_max = 2; /* itself, and one more */
    start_any();
    ck_assert_status(scene_wait(&answer), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "operations_max");
    ck_assert_status(scene_release(&reader, &reader.lock), REDLOCK_OK);
}

TEST_PROGRAM("waiting")
