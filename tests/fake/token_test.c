/* Locks that are known only by their token: adopting and releasing them. An acquire with all_answers, whose lock is
 * passed on, waits for every reply. */
#include "fake/scene.h"

#include "src/client/client.h"
#include "src/core/timer.h"

#define TOKEN "0123456789abcdef0123456789abcdef01234567"

static struct answer answer;
static redlock_acquire_options all;

static void five_nodes(void)
{
    scene_begin(5);
    all = *SCENE_WITH(.all_answers = 1);
}

static void attached_nodes(void)
{
    five_nodes();
    scene_attach();
}

/* Puts another process's lock with this ttl on the first nodes. */
static void show(unsigned nodes, int64_t ttl_ms)
{
    for (unsigned i = 0; i < nodes; i++)
        fake_server_set_key(scene.node[i], "stock", TOKEN, ttl_ms);
}

static unsigned showing(void)
{
    char value[64];
    unsigned count = 0;
    for (unsigned i = 0; i < scene.nodes; i++)
        count += fake_server_get_key(scene.node[i], "stock", value, sizeof value) && strcmp(value, TOKEN) == 0;
    return count;
}

SCENE_CASE(all_answers, five_nodes);

/* By an acquire, an adoption and a release by token. */
TEST_ROWS(all_answers, nodes_that_are_being_connected_are_waited_for, 3)
{
    for (unsigned i = 0; i < 5; i++)
        fake_server_add_rule(scene.node[i], &(struct fake_rule){.command = "INFO", .reply_delay_ms = 10 * i});
    show(5, 600000);
    scene_attach_only();
    if (_i == 0)
        scene_acquire(&answer, "free", &all);
    else if (_i == 1)
        scene_wait(scene_start_adopt(&answer, "stock", &all, TOKEN));
    else
        scene_wait(scene_start_release_token(&answer, "stock", TOKEN));
    ck_assert_answer(&answer, REDLOCK_OK);
    ck_assert_uint_eq(answer.result.granted, 5);
    scene.keys_may_stay = true;
}

SCENE_CASE(adopt, attached_nodes);

/* A failure deletes nothing: the guard keeps nodes that forgot the lock of another holder from granting it, and the keys
 * on the minority keep the others. Nor is the lock of another client, which the other nodes have, deleted by its release. */
TEST_ROWS(adopt, a_majority_that_holds_the_token_is_needed, 6)
{
    scene_hold_on(0, 5, "stock");
    show((unsigned)_i, 600000);
    ck_assert_status(scene_wait(scene_start_adopt(&answer, "stock", NULL, TOKEN)), _i < 3 ? REDLOCK_LOST : REDLOCK_OK);
    ck_assert_uint_eq(showing(), (unsigned)_i);
    ck_assert_uint_eq(scene_count_all(SENT_UNDO), 0);
    scene_assert_key(0, 5, "stock", true);
    if (_i == 0) {
        ck_assert_status(scene_wait(scene_start_release_token(&answer, "stock", TOKEN)), REDLOCK_LOST);
        scene_assert_key(0, 5, "stock", true);
    }
    scene.keys_may_stay = true;
}

/* The client cannot know whether the lock is lost, so it deletes nothing. */
static const struct {
    struct fake_rule rule;
    uint32_t ttl_ms, minimum_validity_ms;
    int status;
} failures[] = {
    {{.command = "EVALSHA", .skip = true, .reply = FAKE_OOM}, 0, 0, REDLOCK_NO_QUORUM},
    {{.command = "EVALSHA", .skip = true, .reply = FAKE_NOPERM}, 0, 0, REDLOCK_MISCONFIGURED},
    {{.command = "EVALSHA", .count = 1, .reply_delay_ms = 60}, 5000, 4900, REDLOCK_TOO_SLOW},
};

TEST_ROWS(adopt, failed_adoption_leaves_the_keys, ROWS(failures))
{
    show(5, 600000);
    scene_add_rule(0, 3, &failures[_i].rule);
    scene_wait(scene_start_adopt(
        &answer, "stock",
        SCENE_WITH(.ttl_ms = failures[_i].ttl_ms, .minimum_validity_ms = failures[_i].minimum_validity_ms), TOKEN));
    ck_assert_answer(&answer, failures[_i].status);
    scene_wait_for_replies(0, 5);
    ck_assert_uint_eq(showing(), 5);
    scene.keys_may_stay = true;
}

/* Each byte of its token is four characters of its text. */
TEST(adopt, a_lock_of_the_longest_token_is_adopted)
{
    char token[REDLOCK_TOKEN_MAX + 1] = "", text[REDLOCK_TOKEN_TEXT_SIZE];
    memset(token, '\x01', sizeof token - 1);
    for (size_t i = 0; i < REDLOCK_TOKEN_MAX; i++)
        memcpy(text + 4 * i, "\\x01", 5);
    for (unsigned i = 0; i < scene.nodes; i++)
        fake_server_set_key(scene.node[i], "stock", token, 20000);
    ck_assert_status(scene_wait(scene_start_adopt(&answer, "stock", NULL, text)), REDLOCK_OK);
    ck_assert_str_eq(redlock_lock_token(answer.lock), text);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    scene_wait_for_sent_to(0, scene.nodes, SENT_UNDO, 1);
}

/* A lock that is more than a key and a token cannot be adopted. The call sends no request. */
TEST(adopt, only_a_plain_lock_can_be_adopted)
{
    static const redlock_name second = {"other", 0};
    const struct {
        const char *says;
        const redlock_acquire_options *options;
    } rows[] = {
        {"has no fencing token", SCENE_WITH(.fence = 1)},
        {"several resources cannot be adopted", SCENE_WITH(.also = &second, .also_count = 1)},
        {"a permit of a semaphore", SCENE_WITH(.permits = 1)},
        {"a shared lock", SCENE_WITH(.shared = 1)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_status(scene_wait(scene_start_adopt(&answer, "stock", rows[i].options, TOKEN)), REDLOCK_INVALID);
        ck_assert_has(answer.result.text, rows[i].says);
    }
    ck_assert_uint_eq(scene_count_all(SENT_EXTEND), 0);
}

TEST(adopt, a_client_has_one_handle_of_a_token)
{
    redlock_lock *lock = scene_lock("stock");
    ck_assert_status(scene_wait(scene_start_adopt(&answer, "stock", NULL, redlock_lock_token(lock))), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "this client holds that lock");
    ck_assert_status(scene_wait(scene_start_release_token(&answer, "stock", redlock_lock_token(lock))),
                     REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "this client holds that lock");
    ck_assert_int_gt(redlock_validity_ms(lock), 0);
    ck_assert_status(scene_wait(scene_start_adopt(&answer, NULL, NULL, TOKEN)), REDLOCK_INVALID);
    ck_assert_status(scene_wait(scene_start_release_token(&answer, NULL, TOKEN)), REDLOCK_INVALID);
}

SCENE_CASE(release, five_nodes);

TEST_ROWS(release, a_release_by_token_waits_for_every_answer, 2)
{
    scene_attach();
    show(_i ? 5 : 1, 600000); /* also if a majority replies at once that it does not have the token */
    fake_server_add_rule(scene.node[4], &(struct fake_rule){.command = "EVALSHA", .count = 1, .hold = true});
    scene_start_release_token(&answer, "stock", TOKEN);
    scene_wait_for_sent(4, SENT_UNDO, 1);
    scene_wait_for_replies(0, 4);
    ck_assert_uint_eq(answer.callbacks, 0);
    fake_server_release(scene.node[4]);
    ck_assert_status(scene_wait(&answer), _i ? REDLOCK_OK : REDLOCK_LOST);
    ck_assert_uint_eq(answer.result.granted, _i ? 5 : 1);
    ck_assert_uint_eq(answer.result.absent, _i ? 0 : 4);
    ck_assert_uint_eq(showing(), 0);
}

/* The client waits for every node. The end of wait_ms does not revoke the majority's grants. If the validity is
 * too short then, the client does not try again, because wait_ms has passed. */
TEST_ROWS(all_answers, a_silent_node_is_waited_for_until_its_timeout, 4)
{
    enum { TTL_MS = 20000, PAUSE_MS = 500 };
    static const int statuses[] = {REDLOCK_OK, REDLOCK_OK, REDLOCK_TOO_SLOW, REDLOCK_TIMED_OUT};
    bool waits = _i % 2, too_late = _i >= 2;
    all.ttl_ms = TTL_MS;
    all.minimum_validity_ms = too_late ? TTL_MS - PAUSE_MS : 0;
    all.wait_ms = waits ? REDLOCK_FOREVER : 0;
    scene_attach();
    scene_wait_for_replies(4, 5);
    fake_server_pause(scene.node[4]);
    scene_start_acquire(&answer, "stock", &all);
    scene_wait_for_sent_to(0, 4, SENT_SET, 1);
    scene_wait_for_replies(0, 4);
    if (waits)
        rl_timer_set(&scene.client->core.timers, &scene.client->operations.first->timer, rl_now());
    scene_idle(too_late ? PAUSE_MS : 5);
    ck_assert_uint_eq(answer.callbacks, 0);
    scene_time_out(4, 5);
    ck_assert_status(scene_wait(&answer), statuses[_i]);
    ck_assert_uint_eq(answer.result.granted, 4);
    ck_assert_int_eq(answer.result.node[4].outcome, REDLOCK_NODE_TIMED_OUT);
    ck_assert_uint_eq(answer.result.attempts, 1);
    if (!answer.lock)
        ck_assert_int_eq(answer.result.cause, REDLOCK_TOO_SLOW);
}

TEST_PROGRAM("tokens")
