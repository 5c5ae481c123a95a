/*
 * Tests that the simulator's node is a true model. The commands that clients send to a node in simulated worlds, some of
 * them with a word that was replaced or left out, go to the model and to a real server whose wall clock is held at the
 * model's time. Every reply, every published message and, at the end of a world, every key must be equal, to the
 * millisecond.
 */
#include "rules/random.h"
#include "src/node/reply.h"
#include "src/node/script.h"
#include "support/clock.h"
#include "support/cluster.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/node_model.h"
#include "support/process.h"
#include "support/raw_client.h"
#include "support/test.h"

enum { PUBLISHED = 64, ID_SIZE = 40, RECORD_WORDS = 128, RARE = 100 };

static struct cluster *cluster;
static struct raw_client *real;
static struct raw_client *listener; /* receives the messages that the real server publishes */
static struct sim_server model;
static struct sim_session session;
static struct bytes published[PUBLISHED]; /* the messages of the last command, in RESP */
static size_t published_count;
static int64_t now_us;
static unsigned step;

/* The command that both execute. */
static size_t count;
static struct resp_argument *words;

static const char *command_text(void)
{
    static char text[1024];
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof text; i++) {
        struct resp_argument word = i < 2 ? sim_script_name(words[i]) : words[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "'%.*s' ", (int)word.length, word.data);
    }
    return text;
}

/* ------------------------------------------------------------------------------------------------------- both reply */

/* File scope, because a failing test does not return to the code that would free them. */
static struct bytes answer, a, b, records;

/* Appends a reply with the types of its parts. Of an error only the kind: its first word, or that of the error inside a
 * script's error, before which a server older than Redis 7 puts its own word. */
static void describe(struct bytes *out, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        char text[256];
        rl_reply_text(reply, text, sizeof text);
        size_t word = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        bytes_print(out, "error %.*s\n", word > 1 ? (int)word : 3, word > 1 ? text : "ERR");
        return;
    }
    bytes_print(out, "type %d: %lld, ", reply->type, reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0);
    bytes_append(out, reply->str, reply->len);
    bytes_print(out, " %zu\n", reply->elements);
    for (size_t i = 0; i < reply->elements; i++)
        describe(out, reply->element[i]);
}

static void require_same(const char *what, const redisReply *expected, const struct bytes *got)
{
    void *reply = NULL;
    redisReader *reader = redisReaderCreate();
    redisReaderFeed(reader, got->data, got->length);
    ck_assert_msg(redisReaderGetReply(reader, &reply) == REDIS_OK && reply && reader->pos == reader->len,
                  "step %u, %s%s: no reply: %s", step, command_text(), what, got->data);
    ck_assert_ptr_nonnull(expected);
    a.length = b.length = 0;
    describe(&a, expected);
    describe(&b, reply);
    ck_assert_msg(a.length == b.length && memcmp(a.data, b.data, a.length) == 0,
                  "step %u, %s%s\nredis-server says\n%.*s\nand the model\n%.*s", step, command_text(), what,
                  (int)a.length, a.data, (int)b.length, b.data);
    freeReplyObject(reply);
    redisReaderFree(reader);
}

static long long publish(struct sim_server *server, struct resp_argument channel, struct resp_argument text)
{
    (void)server;
    ck_assert_uint_lt(published_count, PUBLISHED);
    struct bytes *message = &published[published_count++];
    message->length = 0;
    bytes_print(message, "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$%zu\r\n", channel.length);
    bytes_append(message, channel.data, channel.length);
    bytes_print(message, "\r\n$%zu\r\n", text.length);
    bytes_append(message, text.data, text.length);
    bytes_append(message, "\r\n", 2);
    return 1;
}

static const struct sim_server_hooks hooks = {.publish = publish};

static void require_same_publications(void)
{
    for (size_t i = 0; i < published_count; i++)
        require_same(": what is published", raw_client_read(listener), &published[i]);
    ck_assert_uint_eq(raw_client_unread(listener), 0);
}

/* Executes the command in `words` on both. Returns true if the reply was no error. */
static bool execute(void)
{
    ck_assert(raw_client_send(real, count, words));
    answer.length = published_count = 0;
    sim_server_execute(&model, &session, count, words, now_us, &answer);
    *bytes_room(&answer, 1) = '\0';
    const redisReply *expected = raw_client_read(real);
    require_same("", expected, &answer);
    bool succeeded = expected->type != REDIS_REPLY_ERROR;
    require_same_publications();
    return succeeded;
}

/* ----------------------------------------------------------------------------------------------- by hand, and the keys */

static void set_time(int64_t microseconds)
{
    now_us = microseconds;
    cluster_hold_clock(cluster, 0, now_us);
}

static const char *run(const char *first, ...) __attribute__((sentinel));

/* The model's reply, which is that of the server too. */
static const char *run(const char *first, ...)
{
    static struct resp_argument all[RESP_MOST_WORDS + 1];
    va_list arguments;
    va_start(arguments, first);
    count = 1 + resp_words(all + 1, arguments);
    va_end(arguments);
    all[0] = resp_argument_of(first);
    words = all;
    execute();
    return answer.data;
}

static struct {
    char name[128], member[128];
} seen[512];
static size_t seen_count;

static void note_key(const struct sim_key *key, void *arg)
{
    (void)arg;
    ck_assert_uint_lt(seen_count, sizeof seen / sizeof *seen);
    snprintf(seen[seen_count].name, sizeof seen->name, "%.*s", (int)key->name.length, key->name.data);
    snprintf(seen[seen_count++].member, sizeof seen->member, "%.*s", (int)key->value.length, key->value.data);
}

/* Expired keys disappear when both have received a command for them. Then both have the same number of keys, and
 * these are the keys that the model has. Compares the key's end to the millisecond, and its contents, those of a hash one
 * field after the other, because a server returns them in no particular order. Errors must be equal too: they show the
 * type. */
static void compare_keys(void)
{
    seen_count = 0;
    sim_keyspace_each(&model.keys, note_key, NULL);
    for (size_t i = 0; i < seen_count; i++) {
        run("PTTL", seen[i].name, NULL);
        run("GET", seen[i].name, NULL);
        run("HLEN", seen[i].name, NULL);
        run("HGET", seen[i].name, seen[i].member, NULL);
        run("ZRANGE", seen[i].name, "0", "-1", "WITHSCORES", NULL);
    }
    run("DBSIZE", NULL);
}

/* --------------------------------------------------------------------------------------------------- simulated clients */

/* Redis 8 accepts neither blanks before a float nor a hexadecimal float, and prints floats beyond 2^53 with all digits. The
 * model follows Redis 7.0 where all of them agree. No large numbers, because a script would count up to them. */
static const char *const odd[] = {
    "",       "0",    "1", "-1", "100", "007", "+3", "1.5", "soon", "(1", "a", "g", "a:redlock:queue",
    "shared", "w1 r", "-", "NX", "undo"};
static uint64_t random_state = 1;

static unsigned draw(unsigned below)
{
    return random_below(&random_state, below);
}

/* Replaces a word of a script's, or leaves one out. */
static void spoil(void)
{
    unsigned at = 2 + draw((unsigned)count - 2);
    if (draw(3)) {
        words[at] = resp_argument_of(odd[draw(sizeof odd / sizeof *odd)]);
        return;
    }
    count--;
    memmove(&words[at], &words[at + 1], (count - at) * sizeof *words);
}

static void begin_world(void)
{
    compare_keys();
    run("EVAL", rl_scripts[RL_SCRIPT_LIST].text, "6", "a", "a:redlock:queue", "a:redlock:alive", "b", "b:redlock:queue",
        "b:redlock:alive", NULL); /* no simulated client uses it */
    cluster_flush(cluster, 0);
    sim_keyspace_clear(&model.keys);
}

/* Commands about the connection, and INFO, have other tests. */
static bool is_compared(struct resp_argument name)
{
    return !sim_text_is(name, "CLIENT") && !sim_text_is(name, "INFO") && !sim_text_is(name, "SUBSCRIBE") &&
           !sim_text_is(name, "UNSUBSCRIBE") && !sim_text_is(name, "PING");
}

/* Of scripts that the worlds rarely run there are more spoilt copies. */
static void execute_script(struct resp_command *record, unsigned *done)
{
    struct resp_argument copy[RECORD_WORDS];
    ck_assert_uint_le(record->argc, RECORD_WORDS);
    for (unsigned copies = *done < RARE ? 10 : draw(8) == 0; copies > 0; copies--) {
        memcpy(copy, record->argv, sizeof *copy * record->argc);
        words = copy + 1;
        count = record->argc - 1;
        spoil();
        execute();
    }
    words = record->argv + 1;
    count = record->argc - 1;
    *done += execute();
}

static void execute_record(struct resp_command *record, unsigned *done)
{
    long long microseconds;
    ck_assert(resp_argument_integer(record->argv[0], &microseconds));
    if (record->argc == 1) {
        begin_world();
        return;
    }
    words = record->argv + 1;
    count = record->argc - 1;
    bool reads = sim_text_is(words[0], "GET") || sim_text_is(words[0], "GETRANGE") || sim_text_is(words[0], "TIME");
    if (!is_compared(words[0]) || (reads && draw(16))) /* reads outside scripts are half of all, and much alike */
        return;
    set_time(microseconds);
    step++;
    for (int i = 0; count > 2 && i < RL_SCRIPTS; i++)
        if (sim_text_is(sim_script_name(words[1]), rl_scripts[i].name)) {
            execute_script(record, &done[i]);
            return;
        }
    execute();
}

/* --------------------------------------------------------------------------------------------------------- the tests */

static void learn_id(const char *section, const char *field, char id[ID_SIZE + 1])
{
    raw_client_say(real, "INFO", section, NULL);
    const char *line = strstr(raw_client_reply(real), field);
    ck_assert_ptr_nonnull(line);
    snprintf(id, ID_SIZE + 1, "%.40s", line + strlen(field));
}

static void setup(void)
{
    static const char *const arguments[] = {"--enable-debug-command", "yes", NULL};
    const struct cluster_node_options node = {.own_clock = true, .arguments = arguments};
    char reply[64];
    fixtures_begin();
    cluster = cluster_create(1, &(struct cluster_options){.nodes = &node});
    /* With a stopped clock, Redis 8.0.2 deletes expired keys in the background that a command would still find. */
    ck_assert(cluster_command(cluster, 0, reply, sizeof reply, "DEBUG", "SET-ACTIVE-EXPIRE", "0", NULL));
    ck_assert_str_eq(reply, "OK");
    real = raw_client_connect(cluster_socket_path(cluster, 0));
    listener = raw_client_connect(cluster_socket_path(cluster, 0));
    raw_client_say(listener, "PSUBSCRIBE", "*", NULL);
    raw_client_reply(listener);
    model = (struct sim_server){.hooks = &hooks};
    session = (struct sim_session){.id = 0};
    learn_id("server", "run_id:", model.run_id);
    learn_id("replication", "master_replid:", model.replid);
    set_time(INT64_C(1700000000000000));
}

static void teardown(void)
{
    sim_keyspace_clear(&model.keys);
    sim_scripts_close();
    bytes_free(&answer);
    bytes_free(&a);
    bytes_free(&b);
    bytes_free(&records);
    for (size_t i = 0; i < PUBLISHED; i++)
        bytes_free(&published[i]);
    fixtures_end();
}

TEST_CASE_WITHIN(model, setup, teardown, 120);
TEST_CASE_WITHIN(queue, setup, teardown, 120); /* scripts that are run by hand: they need no world */

/* Worlds in which each script runs several times. No fault changes the keys of the node, except that it may be flushed. */
static void record_worlds(void)
{
    char *path = fixture_text("%s/commands", temp_dir_path(temp_dir_make()));
    char *command =
        fixture_text("'%s' --seed 28 --operations 1500 --commands '%s' --identity %s%s >/dev/null --without "
                     "restart,promote,failover,swap,evict,foreign,jump,elect",
                     SIMULATOR, path, model.run_id, model.replid);
    ck_assert_msg(system(command) == 0 && file_read(path, &records), "%s", command);
    free(command);
    free(path);
}

TEST(model, the_model_answers_as_redis_does)
{
    struct resp_command *record;
    unsigned done[RL_SCRIPTS] = {0};
    record_worlds();
    for (size_t at = 0, size; at < records.length; at += size) {
        ck_assert_int_eq(resp_parse_command(records.data + at, records.length - at, &size, &record), RESP_WHOLE);
        execute_record(record, done);
        free(record);
    }
    compare_keys();
    for (int i = 0; i < RL_SCRIPTS; i++)
        ck_assert_msg(i == RL_SCRIPT_LIST || done[i] > 0, "%s never ran without an error", rl_scripts[i].name);
}

static void enqueue(const char *waiter, const char *ticket, const char *offer)
{
    run("EVAL", rl_scripts[RL_SCRIPT_WAIT].text, "5", "lock", "lock:redlock:free", "lock:redlock:queue",
        "lock:redlock:alive", "lock:redlock:fence", waiter, ticket, "enqueue", "ac", "30000", "0", "0", "exclusive",
        "0", "-1", "1", offer, NULL);
}

static const struct {
    const char *offer, *undo;
    bool ends;
} offers[] = {{"aa 30000 7 ", "", true}, {"aa 30000 7 ", "undo", true}, {"ab 30000 7 ", "", false}, {"", "", true}};

/* The client holds the lock without a key on this node, where its waiter stays for another acquire. */
TEST_ROWS(queue, release_ends_the_offer_of_its_token, ROWS(offers))
{
    run("SET", "lock", "token-1", NULL);
    enqueue("w1", "1", offers[_i].offer);
    ck_assert_str_eq(run("EVAL", rl_scripts[RL_SCRIPT_RELEASE].text, "4", "lock", "lock:redlock:free",
                         "lock:redlock:queue", "lock:redlock:alive", "aa", "w1", offers[_i].undo, "stays", NULL),
                     ":0\r\n");
    const char *entry = run("HGET", "lock:redlock:alive", "w1", NULL);
    ck_assert_int_eq(strcmp(entry, "$16\r\n1700000003000.5 \r\n") == 0, offers[_i].ends);
    ck_assert_str_eq(run("ZSCORE", "lock:redlock:queue", "w1", NULL), "$1\r\n1\r\n");
}

/* The key's value, the waiter's offer, and the first fields of the reply. The fifth is a number for the holder, below 0 if
 * its token has the form of ours. A waiter that was handed the lock is not enqueued. */
static const struct {
    const char *holder, *offer, *reply;
    bool enqueued;
} holders[] = {
    {"aa", "aa 30000 7 ", "*6\r\n:2\r\n:-1\r\n:0\r\n:0\r\n:0\r\n", false},
    {"a", "", "*6\r\n:0\r\n:-1\r\n:0\r\n:0\r\n:128\r\n", true},
    {"0000000b00000000000000000000000000000000", "", "*6\r\n:0\r\n:-1\r\n:0\r\n:0\r\n:-12\r\n", true},
};

TEST_ROWS(queue, waiter_learns_who_holds_the_lock, ROWS(holders))
{
    run("SET", "lock", holders[_i].holder, NULL);
    enqueue("w1", "1", holders[_i].offer);
    ck_assert_msg(strncmp(answer.data, holders[_i].reply, strlen(holders[_i].reply)) == 0, "%s", answer.data);
    ck_assert_str_eq(run("EXISTS", "lock:redlock:queue", NULL), holders[_i].enqueued ? ":1\r\n" : ":0\r\n");
}

/* Without the message the waiter would rely on the end that the lock had before its release. */
TEST(queue, first_waiter_is_notified_of_a_lock_that_is_kept)
{
    run("SET", "lock", "aa", NULL);
    enqueue("w1", "1", "");
    ck_assert_str_eq(run("EVAL", rl_scripts[RL_SCRIPT_RELEASE].text, "4", "lock", "lock:redlock:free",
                         "lock:redlock:queue", "lock:redlock:alive", "aa", "", "20000", NULL),
                     ":3\r\n");
    ck_assert_uint_eq(published_count, 1);
}

/* They have not refreshed their entries: the page of two with which a release begins, and those of eight that follow. */
TEST(queue, release_removes_all_waiters_that_are_dead)
{
    run("SET", "lock", "aa", NULL);
    for (unsigned i = 11; i < 22; i++) {
        char *waiter = fixture_text("w%u", i);
        enqueue(waiter, waiter + 1, "");
        free(waiter);
    }
    set_time(now_us + 4000000);
    ck_assert_str_eq(run("EVAL", rl_scripts[RL_SCRIPT_RELEASE].text, "4", "lock", "lock:redlock:free",
                         "lock:redlock:queue", "lock:redlock:alive", "aa", "", NULL),
                     ":3\r\n");
    ck_assert_str_eq(run("EXISTS", "lock:redlock:queue", NULL), ":0\r\n");
}

/* The writer was enqueued here, and granted the lock by a majority without this node. */
TEST(queue, downgrade_dequeues_its_waiter_where_another_client_holds_the_lock)
{
    run("SET", "lock", "ab", NULL);
    enqueue("w1", "1", "");
    ck_assert_str_eq(run("EVAL", rl_scripts[RL_SCRIPT_DOWNGRADE].text, "5", "lock", "lock:redlock:free",
                         "lock:redlock:queue", "lock:redlock:alive", "lock:redlock:fence", "aa", "30000", "w1", "",
                         NULL),
                     "$1\r\n0\r\n");
    ck_assert_str_eq(run("EXISTS", "lock:redlock:queue", NULL), ":0\r\n");
}

/* A busy queue does not set its keys' expiries for each waiter, but all keys have one, and it never comes near. The
 * queue is a new key if it was empty, also where its last waiter left without a trace. */
TEST(queue, keys_of_a_queue_live_on_with_its_waiters)
{
    static const struct {
        const char *waiter;
        int64_t later_us;
        bool leaves; /* the last waiter, before */
        long long left_ms;
    } turns[] = {{"1", 0, false, 12000},
                 {"2", 499000, false, 11501},
                 {"1", 1000, false, 12000},
                 {"3", 0, true, 12000},
                 {"3", 100000, false, 11900}};
    static const char *const keys[] = {"lock:redlock:queue", "lock:redlock:alive", "lock:redlock:free"};
    run("SET", "lock", "token-1", NULL);
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        set_time(now_us + turns[i].later_us);
        if (turns[i].leaves)
            run("DEL", "lock:redlock:queue", NULL);
        enqueue(turns[i].waiter, turns[i].waiter, "");
        for (size_t k = 0; k < 3; k++)
            ck_assert_int_eq(strtoll(run("PTTL", keys[k], NULL) + 1, NULL, 10), turns[i].left_ms);
    }
}

/* The lines of INFO that the library reads. */
TEST(model, the_model_describes_itself_as_redis_does)
{
    static const char *const sections[] = {"server", "cluster", "replication", "memory", "stats", "persistence"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const struct resp_argument info[] = {resp_argument_of("INFO"), resp_argument_of(sections[i])};
        answer.length = 0;
        sim_server_execute(&model, &session, 2, info, now_us, &answer);
        bytes_append(&answer, "", 1);
        raw_client_say(real, "INFO", sections[i], NULL);
        const char *expected = raw_client_reply(real);
        for (char *line = strtok(strchr(answer.data, '\n') + 1, "\r\n"); line; line = strtok(NULL, "\r\n")) {
            const char *field = strncmp(line, "redis_mode:", 11) == 0 ? line + 5 : line; /* Valkey's server_mode */
            ck_assert_msg(strncmp(line, "redis_version:", 14) == 0 || strstr(expected, field), "%s: '%s' is not in\n%s",
                          sections[i], field, expected);
        }
    }
}

int main(void)
{
    enum { EXIT_SKIPPED = 77 };
    Suite *suite = registered_suite("model of a node");
    if (server_program_has(SERVER_AS_MODELLED))
        return run_suite(suite);
    fputs("skipped: the model is of Redis 7.0 and later\n", stderr);
    srunner_free(srunner_create(suite));
    return EXIT_SKIPPED;
}
