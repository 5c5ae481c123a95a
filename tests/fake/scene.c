#include "fake/scene.h"

#include <poll.h>
#include <unistd.h>

#include "src/client/client.h"
#include "src/core/timer.h"
#include "src/node/script.h"
#include "support/cluster.h"
#include "support/file.h"

struct scene scene;

static size_t descriptors; /* number of open descriptors before the client was created */

/* --- The log --- */

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char lines[65536]; /* that were logged, those for debugging apart, except undos */

bool scene_is_logged(const char *text)
{
    pthread_mutex_lock(&log_mutex);
    bool is_there = strstr(lines, text) != NULL;
    pthread_mutex_unlock(&log_mutex);
    return is_there;
}

static void log_line(int level, const char *line, void *arg)
{
    (void)arg;
    ck_assert_int_le(level, REDLOCK_LOG_DEBUG);
    ck_assert_msg(!strstr(line, SCENE_SECRET), "logged: %s", line);
    for (const char *c = line; *c; c++) /* an assertion for each byte would take longer than the rest of a test */
        if ((unsigned char)*c < ' ' || *c == 127)
            ck_abort_msg("logged, with byte %d: %s", *c, line);
    if (getenv("SCENE_VERBOSE"))
        fprintf(stderr, "[%d] %s\n", level, line);
    if (level == REDLOCK_LOG_DEBUG && strncmp(line, "undo ", 5) != 0)
        return;
    pthread_mutex_lock(&log_mutex);
    snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s\n", line);
    pthread_mutex_unlock(&log_mutex);
}

/* --- Beginning --- */

/* Timeouts that a loaded machine does not reach. A test about a timeout sets its own. */
static redlock_options patient_options(void)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.ttl_ms = 60000;
    options.node_timeout_ms = 20000;
    options.connect_timeout_ms = 20000;
    options.silence_limit_ms = 10 * SCENE_SOON_MS; /* a connection that ends could bring what scene_until() waits for */
    options.backoff_max_ms = 20;
    options.guard = 0; /* a new deployment would be in quarantine for max_ttl */
    options.log = log_line;
    options.log_level = REDLOCK_LOG_DEBUG;
    return options;
}

void scene_begin(unsigned nodes)
{
    fixtures_begin();
    memset(&scene, 0, sizeof scene);
    lines[0] = '\0';
    scene.nodes = nodes;
    for (unsigned i = 0; i < nodes; i++)
        scene.node[i] = fake_server_start();
    scene.options = patient_options();
    descriptors = file_open_descriptors();
    scene.loop = ev_loop_new(EVFLAG_NOENV);
    ck_assert_ptr_nonnull(scene.loop);
}

void scene_one_node(void)
{
    scene_begin(1);
}

void scene_three_nodes(void)
{
    scene_begin(3);
}

void scene_five_nodes(void)
{
    scene_begin(5);
}

const char *scene_list(void)
{
    static char list[SCENE_NODES * 256];
    const char *prefix = scene.prefix ? scene.prefix : "redis://";
    size_t used = 0;
    for (unsigned i = 0; i < scene.nodes; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s%s%s", i ? "," : "", prefix,
                                 fake_server_address(scene.node[i]), scene.suffix[i] ? scene.suffix[i] : "");
    return list;
}

struct test_allocator *scene_count_memory(void)
{
    struct test_allocator *allocator = test_allocator_new();
    scene.options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
    return allocator;
}

void scene_attach_only(void)
{
    redlock_result result;
    int status = redlock_attach(scene.loop, scene_list(), &scene.options, &scene.client, &result);
    ck_assert_msg(status == REDLOCK_OK, "%s", redlock_result_text(&result));
    ck_assert(!strstr(result.text, SCENE_SECRET));
}

void scene_connect(void)
{
    redlock_result result;
    int status = redlock_connect(scene_list(), &scene.options, &scene.client, &result);
    ck_assert_msg(status == REDLOCK_OK, "%s", redlock_result_text(&result));
    scene.connected = scene.client;
    scene_until((redlock_ready(scene.client, 0, &result), result.granted == scene.nodes));
}

redlock_cancellation *scene_cancellation(void)
{
    ck_assert_status(redlock_cancellation_create(scene.client, &scene.cancellation), REDLOCK_OK);
    return scene.cancellation;
}

void scene_attach(void)
{
    scene_attach_only();
    scene_wait_for_ready();
}

unsigned scene_ready_nodes(void)
{
    struct answer answer;
    scene_wait(scene_start_ready(&answer, 0));
    return answer.result.granted;
}

void scene_wait_for_ready(void)
{
    scene_until(scene_ready_nodes() == scene.nodes);
}

redlock_statistics scene_statistics(void)
{
    redlock_statistics statistics;
    ck_assert_status(redlock_statistics_get(scene.client, &statistics), REDLOCK_OK);
    return statistics;
}

/* --- Turning the loop --- */

static void woken(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)timer;
    (void)events;
}

/* Turns the loop for a millisecond at most, because the actions of other threads do not wake it. */
void scene_turn(void)
{
    static ev_timer timer; /* not on the stack: a test that fails in a callback leaves it started */
    ev_timer_init(&timer, woken, 0.001, 0.);
    ev_now_update(scene.loop);
    ev_timer_start(scene.loop, &timer);
    ev_run(scene.loop, EVRUN_ONCE);
    ev_timer_stop(scene.loop, &timer);
}

void scene_idle(unsigned ms)
{
    uint64_t deadline = test_deadline_ns(ms);
    while (test_now_ns() < deadline)
        scene_turn();
}

/* --- Threads --- */

pthread_t scene_thread(void *(*run)(void *arg), void *arg)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run, arg), 0);
    return thread;
}

void *scene_join(pthread_t thread)
{
    void *returned;
    ck_assert_int_eq(pthread_join(thread, &returned), 0);
    return returned;
}

pid_t scene_fork(void)
{
    for (unsigned i = 0; i < scene.nodes; i++)
        fake_server_suspend(scene.node[i]);
    pid_t child = fork();
    for (unsigned i = 0; child != 0 && i < scene.nodes; i++)
        fake_server_continue(scene.node[i]);
    return child;
}

/* --- Operations --- */

void scene_completed(redlock_client *client, const redlock_result *result, void *arg)
{
    struct answer *answer = arg;
    (void)client;
    answer->callbacks++;
    answer->place = ++scene.completed;
    answer->result = *result;
    ck_assert(result->status == REDLOCK_OK || result->text[0]);
    for (unsigned i = 0; i < result->nodes; i++)
        ck_assert_ptr_nonnull(result->node[i].name);
    ck_assert_msg(!strstr(redlock_result_text(&answer->result), SCENE_SECRET), "%s", answer->result.text);
}

void scene_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    struct answer *answer = arg;
    ck_assert_int_eq(lock != NULL, result->status == REDLOCK_OK);
    answer->lock = lock;
    for (unsigned i = 0; i < result->nodes; i++)
        ck_assert_str_ne(result->node[i].name, "");
    scene_completed(client, result, arg);
}

void scene_queried(redlock_client *client, const redlock_state *state, const redlock_result *result, void *arg)
{
    struct answer *answer = arg;
    answer->state = *state;
    scene_completed(client, result, arg);
}

void scene_note_event(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    struct scene_events *events = arg;
    ck_assert_ptr_nonnull(lock);
    ck_assert(event != REDLOCK_EVENT_LOST || validity_ms == 0);
    if (events->count < 4) {
        events->event[events->count] = event;
        events->loss[events->count] = loss;
    }
    events->count++;
    events->lost += event == REDLOCK_EVENT_LOST;
}

struct answer *scene_cleared(struct answer *answer)
{
    memset(answer, 0, sizeof *answer);
    return answer;
}

struct answer *scene_started(struct answer *answer, int status)
{
    ck_assert_status(status, REDLOCK_OK);
    ck_assert_msg(answer->callbacks == 0, "called back from inside the call");
    scene.started++;
    return answer;
}

struct answer *scene_start_acquire_then(struct answer *answer, const char *resource,
                                        const redlock_acquire_options *options, redlock_acquire_callback callback)
{
    return scene_started(answer,
                         redlock_acquire_async(scene.client, resource, options, callback, scene_cleared(answer)));
}

struct answer *scene_start_acquire(struct answer *answer, const char *resource, const redlock_acquire_options *options)
{
    return scene_start_acquire_then(answer, resource, options, scene_acquired);
}

struct answer *scene_start_ready_then(struct answer *answer, int64_t wait_ms, redlock_callback callback)
{
    return scene_started(answer, redlock_ready_async(scene.client, wait_ms, callback, scene_cleared(answer)));
}

struct answer *scene_start_ready(struct answer *answer, int64_t wait_ms)
{
    return scene_start_ready_then(answer, wait_ms, scene_completed);
}

struct answer *scene_start_adopt(struct answer *answer, const char *resource, const redlock_acquire_options *options,
                                 const char *token)
{
    return scene_started(
        answer, redlock_adopt_async(scene.client, resource, options, token, scene_acquired, scene_cleared(answer)));
}

struct answer *scene_start_release_token(struct answer *answer, const char *resource, const char *token)
{
    return scene_started(answer, redlock_release_token_async(scene.client, resource, 0, token, NULL, scene_completed,
                                                             scene_cleared(answer)));
}

struct answer *scene_start_extend(struct answer *answer, redlock_lock *lock, uint32_t ttl_ms)
{
    return scene_started(answer, redlock_extend_async(lock, ttl_ms, NULL, scene_completed, scene_cleared(answer)));
}

struct answer *scene_start_release(struct answer *answer, redlock_lock **lock)
{
    redlock_lock *released = *lock; /* *lock may be part of the answer, which is cleared next */
    scene_started(answer, redlock_release_async(&released, NULL, scene_completed, scene_cleared(answer)));
    ck_assert_ptr_null(released);
    *lock = NULL;
    return answer;
}

struct answer *scene_start_query(struct answer *answer, const char *resource)
{
    return scene_started(answer,
                         redlock_query_async(scene.client, resource, 0, NULL, scene_queried, scene_cleared(answer)));
}

struct answer *scene_start_close(struct answer *answer)
{
    scene_started(answer, redlock_close_async(&scene.client, NULL, scene_completed, scene_cleared(answer)));
    ck_assert_ptr_null(scene.client);
    return answer;
}

static void dispatch(void)
{
    struct pollfd completions = {.fd = redlock_descriptor(scene.connected), .events = POLLIN};
    ck_assert_msg(poll(&completions, 1, 6 * SCENE_SOON_MS) == 1, "the descriptor does not become readable");
    ck_assert_status(redlock_dispatch(scene.connected), REDLOCK_OK);
}

int scene_wait(struct answer *answer)
{
    while (scene.connected && !answer->callbacks)
        dispatch();
    scene_until_or(answer->callbacks > 0, "no callback came");
    return answer->result.status;
}

int scene_acquire(struct answer *answer, const char *resource, const redlock_acquire_options *options)
{
    return scene_wait(scene_start_acquire(answer, resource, options));
}

const char *scene_name(unsigned i)
{
    static char name[16];
    snprintf(name, sizeof name, "lock-%u", i);
    return name;
}

void scene_start_acquires(struct answer *answers, unsigned count, const redlock_acquire_options *options)
{
    for (unsigned i = 0; i < count; i++)
        scene_start_acquire(&answers[i], scene_name(i), options);
}

int scene_release(struct answer *answer, redlock_lock **lock)
{
    return scene_wait(scene_start_release(answer, lock));
}

int scene_close(struct answer *answer)
{
    return scene_wait(scene_start_close(answer));
}

redlock_lock *scene_lock(const char *resource)
{
    struct answer answer;
    scene_acquire(&answer, resource, REDLOCK_WAIT_MS(SCENE_SOON_MS));
    ck_assert_answer(&answer, REDLOCK_OK);
    return answer.lock;
}

void scene_lock_and_release(const char *resource)
{
    struct answer answer;
    redlock_lock *lock = scene_lock(resource);
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK);
}

/* --- Commands that the nodes received --- */

static bool is_script(const struct resp_command *command, enum rl_script_id id)
{
    if (command->argc < 4)
        return false;
    return (resp_command_is(command, "EVALSHA") && resp_argument_is(&command->argv[1], rl_scripts[id].sha1)) ||
           (resp_command_is(command, "EVAL") && resp_argument_is(&command->argv[1], rl_scripts[id].text));
}

size_t scene_first_argument(const struct resp_command *command)
{
    return 3 + strtoul(command->argv[2].data, NULL, 10);
}

/* Is it a waiter's script that acquires the lock if it is free? */
static bool is_taking(const struct resp_command *command)
{
    if (!is_script(command, RL_SCRIPT_WAIT))
        return false;
    size_t first = scene_first_argument(command);
    return command->argc == first + 12 && resp_argument_is(&command->argv[first + 2], "take");
}

static bool is_sent(const struct resp_command *command, enum sent what)
{
    static const enum rl_script_id scripts[] = {[SENT_WAIT] = RL_SCRIPT_WAIT,
                                                [SENT_UNDO] = RL_SCRIPT_RELEASE,
                                                [SENT_FREE] = RL_SCRIPT_FREE,
                                                [SENT_EXTEND] = RL_SCRIPT_EXTEND,
                                                [SENT_QUERY] = RL_SCRIPT_QUERY};
    if (what == SENT_SET || what == SENT_ATTEMPT)
        return resp_command_is(command, "SET") || (what == SENT_ATTEMPT && is_taking(command));
    if (what == SENT_KILL)
        return resp_command_is(command, "CLIENT KILL");
    return what == SENT_ANY || is_script(command, scripts[what]);
}

const char *scene_token(const struct fake_record *record)
{
    const struct resp_command *command = record->command;
    if (resp_command_is(command, "SET"))
        return command->argv[2].data;
    size_t first = scene_first_argument(command);
    if (is_taking(command))
        return command->argv[first + 3].data;
    return first < command->argc ? command->argv[first].data : "";
}

/* The first such command from the place on, which it advances behind it. */
static const struct fake_record *next_sent(unsigned node, enum sent what, const char *token, unsigned *place)
{
    const struct fake_record *record;
    while ((record = fake_server_record(scene.node[node], NULL, (*place)++)) != NULL)
        if (is_sent(record->command, what) && (!token || strcmp(scene_token(record), token) == 0))
            break;
    return record;
}

const struct fake_record *scene_sent(unsigned node, enum sent what, const char *token, unsigned index, unsigned *place)
{
    const struct fake_record *record;
    unsigned at = 0;
    do
        record = next_sent(node, what, token, &at);
    while (record && index-- > 0);
    if (record && place)
        *place = at - 1;
    return record;
}

unsigned scene_count(unsigned node, enum sent what)
{
    unsigned count = 0, at = 0;
    while (next_sent(node, what, NULL, &at))
        count++;
    return count;
}

unsigned scene_count_all(enum sent what)
{
    unsigned count = 0;
    for (unsigned i = 0; i < scene.nodes; i++)
        count += scene_count(i, what);
    return count;
}

void scene_wait_for_accepted(unsigned node, unsigned count)
{
    scene_until_or(fake_server_accepted(scene.node[node]) >= count, "node %u has accepted %zu connections of %u", node,
                   fake_server_accepted(scene.node[node]), count);
}

void scene_wait_for_sent(unsigned node, enum sent what, unsigned count)
{
    scene_until_or(scene_count(node, what) >= count, "node %u was sent %u of %u", node, scene_count(node, what), count);
}

/* A release ends with a majority of the replies. This node may not have read its undo yet. */
static void assert_undone(unsigned node)
{
    const struct fake_record *set, *undo;
    unsigned set_at, undo_at;
    for (unsigned i = 0; (set = scene_sent(node, SENT_ATTEMPT, NULL, i, &set_at)); i++) {
        scene_until_or((undo = scene_sent(node, SENT_UNDO, scene_token(set), 0, &undo_at)) != NULL,
                       "node %u: the SET of token %s was not undone", node, scene_token(set));
        ck_assert_uint_gt(undo_at, set_at);
        ck_assert_uint_eq(undo->connection, set->connection);
    }
}

void scene_assert_undone_on(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        scene_wait_for_sent(i, SENT_UNDO, 1);
        assert_undone(i);
    }
}

/* --- Other holders --- */

static char held[8][64]; /* names of the keys that other holders have, or had */
static unsigned held_count;

void scene_hold(unsigned node, const char *key)
{
    unsigned i = 0;
    fake_server_set_key(scene.node[node], key, SCENE_OTHER, 600000);
    while (i < held_count && strcmp(held[i], key) != 0)
        i++;
    ck_assert_uint_lt(i, ROWS(held));
    snprintf(held[i], sizeof *held, "%s", key);
    held_count = i < held_count ? held_count : i + 1;
}

void scene_publish(unsigned node, const char *key, const char *message)
{
    const struct fake_record *record;
    unsigned at = 0;
    while ((record = next_sent(node, SENT_WAIT, NULL, &at))) {
        if (!resp_argument_is(&record->command->argv[3], key))
            continue;
        const char *name = record->command->argv[scene_first_argument(record->command)]
                               .data; /* the channel, and for some waiters another word */
        char *channel = fixture_text("%.*s", (int)strcspn(name, " "), name);
        fake_server_publish(scene.node[node], channel, message);
        free(channel);
        return;
    }
}

/* Notifies the waiters as a release does. */
void scene_call_waiters(unsigned node, const char *key)
{
    char *message = fixture_text("0%s", key);
    scene_publish(node, key, message);
    free(message);
}

bool scene_read_offer(unsigned node, struct scene_offer *offer)
{
    const struct fake_record *record;
    bool found = false;
    unsigned at = 0;
    while ((record = next_sent(node, SENT_WAIT, NULL, &at)))
        found = sscanf(record->command->argv[record->command->argc - 1].data, "%63s %llu %llu", offer->value,
                       &offer->ttl_ms, &offer->number) == 3;
    return found;
}

void scene_hand_over(unsigned node, const char *key, const struct scene_offer *offer, const char *shown)
{
    char *message = fixture_text("G%s %llu %zu %s%s", offer->value, offer->number, strlen(key), key, shown);
    fake_server_set_key(scene.node[node], key, offer->value, (int64_t)offer->ttl_ms);
    scene_publish(node, key, message);
    free(message);
}

bool scene_has_key(unsigned node, const char *key)
{
    return fake_server_pttl(scene.node[node], key) != -2;
}

/* --- Several nodes --- */

void scene_each(unsigned first, unsigned end, void (*act)(struct fake_server *node))
{
    for (unsigned i = first; i < end; i++)
        act(scene.node[i]);
}

void scene_add_rule(unsigned first, unsigned end, const struct fake_rule *rule)
{
    for (unsigned i = first; i < end; i++)
        fake_server_add_rule(scene.node[i], rule);
}

void scene_hold_replies(unsigned first, unsigned end, const char *command)
{
    scene_add_rule(first, end, &(struct fake_rule){.command = command, .hold = true});
}

void scene_calm(unsigned first, unsigned end)
{
    scene_each(first, end, fake_server_clear_rules);
    scene_each(first, end, fake_server_release);
    scene_each(first, end, fake_server_resume);
    scene_each(first, end, fake_server_listen);
}

void scene_hold_on(unsigned first, unsigned end, const char *key)
{
    for (unsigned i = first; i < end; i++)
        scene_hold(i, key);
}

void scene_let_go_on(unsigned first, unsigned end, const char *key)
{
    char value[64];
    for (unsigned i = first; i < end; i++)
        if (fake_server_get_key(scene.node[i], key, value, sizeof value) && strcmp(value, SCENE_OTHER) == 0) {
            fake_server_delete_key(scene.node[i], key);
            scene_call_waiters(i, key);
        }
}

void scene_time_out(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        struct rl_flight *flight = &scene.client->nodes->node[i].flight;
        struct quorum_patience patience = flight->patience;
        uint64_t before = flight->statistics->timeouts;
        flight->patience = (struct quorum_patience){.least = 1};
        rl_timer_set(&scene.client->core.timers, &flight->timer, rl_now());
        scene_until(flight->statistics->timeouts > before);
        flight->patience = patience;
    }
}

void scene_wait_for_replies(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++)
        scene_until(rl_flight_is_empty(&scene.client->nodes->node[i].flight));
}

void scene_refuse(unsigned first, unsigned end, const char *command, unsigned count, const char *error)
{
    for (unsigned i = first; i < end; i++)
        fake_server_refuse(scene.node[i], command, count, error);
}

void scene_cut_off(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        fake_server_stop_listening(scene.node[i]);
        fake_server_drop(scene.node[i], FAKE_CLOSE);
    }
    scene_until(scene_ready_nodes() == scene.nodes - (end - first));
    scene.was_cut_off = true;
}

void scene_assert_key(unsigned first, unsigned end, const char *key, bool is_there)
{
    for (unsigned i = first; i < end; i++)
        ck_assert_msg(scene_has_key(i, key) == is_there, "node %u: the key is %s", i, is_there ? "missing" : "there");
}

void scene_wait_for_no_key(unsigned first, unsigned end, const char *key)
{
    for (unsigned i = first; i < end; i++)
        scene_until_or(!scene_has_key(i, key), "node %u still has %s", i, key);
}

void scene_wait_for_sent_to(unsigned first, unsigned end, enum sent what, unsigned count)
{
    for (unsigned i = first; i < end; i++)
        scene_wait_for_sent(i, what, count);
}

/* --- End --- */

static bool has_no_connection(void *node)
{
    return fake_server_open_connections(node) == 0;
}

/* A node that was paused may accept and close a connection after the client has gone. */
static bool has_no_descriptor(void *unused)
{
    (void)unused;
    return file_open_descriptors() == descriptors;
}

static void assert_nothing_left(void)
{
    for (unsigned i = 0; i < scene.nodes; i++) {
        ck_assert_msg(wait_until(has_no_connection, scene.node[i], 6 * SCENE_SOON_MS), "node %u: a connection is open",
                      i);
        if (!scene.keys_may_stay)
            ck_assert_msg(fake_server_keys_left(scene.node[i], cluster_marks) == 0, "node %u: %zu keys are left", i,
                          fake_server_keys_left(scene.node[i], cluster_marks));
        ck_assert_uint_eq(fake_server_protocol_errors(scene.node[i]), 0);
    }
    ck_assert_msg(wait_until(has_no_descriptor, NULL, 6 * SCENE_SOON_MS), "%zu descriptors are open, and %zu before",
                  file_open_descriptors(), descriptors);
}

/* The nodes reply again. So the close waits for them, however short the timeout was that the test needed. */
static void close_client(void)
{
    struct answer closed;
    const quorum_duration patient = patient_options().node_timeout_ms * QUORUM_MILLISECOND;
    for (unsigned i = 0; i < scene.client->nodes->count; i++) {
        struct quorum_patience *patience = &scene.client->nodes->node[i].flight.patience;
        patience->least = patience->least > patient ? patience->least : patient;
        patience->most = patience->most > patient ? patience->most : patient;
    }
    if (scene.was_cut_off) /* a close does not wait for a node that has refused a connection */
        scene_wait_for_ready();
    scene_until(!ev_is_active(&scene.client->idle)); /* the loop sleeps */
    scene_close(&closed);
}

void scene_end(void)
{
    scene_calm(0, scene.nodes);
    if (scene.client && scene.client->loop_thread) /* runs the callbacks that wait, which no thread dispatches */
        ck_assert_status(redlock_close(&scene.client, NULL, NULL), REDLOCK_OK);
    else if (scene.client)
        close_client();
    redlock_cancellation_destroy(&scene.cancellation);
    ev_loop_destroy(scene.loop);
    for (unsigned i = 0; i < held_count; i++)
        scene_let_go_on(0, scene.nodes, held[i]);
    held_count = 0;
    ck_assert_uint_eq(scene.completed, scene.started);
    assert_nothing_left();
    fixtures_end();
}
