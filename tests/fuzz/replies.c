/*
 * A client among nodes that send anything at any time, through the real reply path: sockets, hiredis, handshake, guard,
 * rounds, renewal, queue, listeners. The input is a program: the bytes that the nodes send, and the calls of the
 * client's user. The test advances the clock.
 *
 * Whatever the nodes send: the client does not crash, its memory is bounded, it reports every operation once and by its
 * deadline, it closes, it acquires a lock only if a majority has granted it, and no text contains a control character
 * from a node.
 *
 * The nodes run in the client's thread, on unix sockets. The test determines from the bytes on the wire which tokens a node
 * has granted, with hiredis' reader but without the library, and compares the grants with the client's results.
 */
#include "fuzz.h"

#include "src/client/client.h"
#include "src/core/timer.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/node_model.h"
#include "support/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static quorum_time now;
static uint64_t seed;

/* --- The world: linked in place of the real ones (--wrap) --- */

quorum_time __wrap_rl_now(void);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);

quorum_time __wrap_rl_now(void)
{
    return now;
}

/* The same bytes in every run of an input. */
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < size; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ((unsigned char *)bytes)[i] = (unsigned char)(seed >> 56);
    }
    return (ssize_t)size;
}

/* --- The nodes --- */

enum { NODES = 3, CONNECTIONS = 64, TOKEN = 40 };

struct connection {
    int fd;
    unsigned node;
    struct sim_session session;
    struct bytes in;               /* from the client, not parsed yet */
    redisReader *replies;          /* of what was sent: an incomplete reply, or bytes that are none */
    struct bytes out;              /* all bytes since the beginning of the first reply that it has not read */
    struct resp_command **pending; /* requests without a complete reply, the oldest first */
    size_t pending_count;
};

static int listeners[NODES];
static char *paths[NODES];
static struct connection connections[CONNECTIONS];
static size_t connection_count;
static struct sim_server servers[NODES]; /* they know what a healthy node would reply */
static bool clocks_running;

/* Tokens that a node has granted; of the running input. */
static struct grant {
    unsigned node;
    char token[TOKEN + 1];
} grants[4096];
static size_t grant_count;

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, CONNECTIONS) != 0)
        fixture_fail("cannot listen at %s: %s", path, strerror(errno));
    return fd;
}

static void listen_all(void)
{
    const char *directory = temp_dir_path(temp_dir_make());
    for (unsigned i = 0; i < NODES; i++) {
        paths[i] = fixture_text("%s/%u", directory, i);
        listeners[i] = listen_at(paths[i]);
    }
}

/* "unix:///tmp/.../0,..." with the login before each path and the parameters after it. */
static const char *list_nodes(const char *login, const char *parameters)
{
    static char list[2048];
    size_t used = 0;
    for (unsigned i = 0; i < NODES; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%sunix://%s%s%s", i ? "," : "", login, paths[i],
                                 parameters);
    return list;
}

/* --- The grants, as the bytes on the wire show them --- */

/* The random digits of a token, alone or with a time and a label behind them. */
static bool is_token(const struct resp_argument *argument)
{
    return argument->length >= TOKEN && strspn(argument->data, "0123456789abcdef") == TOKEN &&
           (argument->length == TOKEN || argument->data[TOKEN] == '/');
}

static bool is_script(const struct resp_command *command, const char *name)
{
    bool evaluates = resp_command_is(command, "EVAL") || resp_command_is(command, "EVALSHA");
    return evaluates && command->argc > 2 && (!name || sim_text_is(sim_script_name(command->argv[1]), name));
}

/* Any reply that could count as a grant counts as one. */
static bool may_be_grant(const struct resp_command *command, const char *reply, size_t length)
{
    if (resp_command_is(command, "SET")) {
        bool gets = command->argc > 4 && sim_text_is(command->argv[4], "GET"); /* nil: there was no key */
        return length == 5 && memcmp(reply, gets ? "$-1\r\n" : "+OK\r\n", 5) == 0;
    }
    if (!is_script(command, NULL) || is_script(command, "release") || is_script(command, "query"))
        return false;
    if (is_script(command, "wait"))
        return length > 8 && memcmp(reply, "*6\r\n:", 5) == 0 && memcmp(reply, "*6\r\n:0\r\n", 8) != 0;
    return reply[0] != '-' && memcmp(reply, "$-1", 3) != 0 && memcmp(reply, ":0\r\n", 4) != 0;
}

static void note_grants(unsigned node, const struct resp_command *command)
{
    for (size_t i = 1; i < command->argc; i++) {
        if (!is_token(&command->argv[i]) || grant_count == sizeof grants / sizeof *grants)
            continue;
        struct grant *grant = &grants[grant_count++];
        grant->node = node;
        memcpy(grant->token, command->argv[i].data, TOKEN);
    }
}

static unsigned count_granted(const char *token)
{
    unsigned nodes = 0;
    for (size_t i = 0; i < grant_count; i++)
        if (strncmp(grants[i].token, token, TOKEN) == 0)
            nodes |= 1u << grants[i].node;
    return (unsigned)__builtin_popcount(nodes);
}

static void drop_oldest(struct connection *connection)
{
    free(connection->pending[0]);
    connection->pending_count--;
    memmove(connection->pending, connection->pending + 1, connection->pending_count * sizeof *connection->pending);
}

/* Assigns complete replies to the requests, in order. */
static void match_replies(struct connection *connection)
{
    struct bytes *out = &connection->out;
    void *complete;
    while (connection->pending_count && redisReaderGetReply(connection->replies, &complete) == REDIS_OK && complete) {
        size_t length = out->length - (connection->replies->len - connection->replies->pos);
        if (may_be_grant(connection->pending[0], out->data, length))
            note_grants(connection->node, connection->pending[0]);
        drop_oldest(connection);
        bytes_consume(out, length);
    }
}

/* --- The nodes' connections --- */

static void accept_all(unsigned node, bool *news)
{
    int fd;
    while (connection_count < CONNECTIONS &&
           (fd = accept4(listeners[node], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        connections[connection_count++] =
            (struct connection){.fd = fd,
                                .node = node,
                                .session.id = ++servers[node].last_id,
                                .replies = redisReaderCreateWithFunctions(NULL)}; /* finds the ends of replies only */
        *news = true;
    }
}

static void forget(size_t index)
{
    struct connection *connection = &connections[index];
    close(connection->fd);
    while (connection->pending_count)
        drop_oldest(connection);
    free(connection->pending);
    redisReaderFree(connection->replies);
    bytes_free(&connection->in);
    bytes_free(&connection->out);
    connections[index] = connections[--connection_count];
}

static void parse_commands(struct connection *connection)
{
    size_t used;
    struct resp_command *command;
    while (resp_parse_command(connection->in.data, connection->in.length, &used, &command) == RESP_WHOLE) {
        connection->pending =
            fixture_reallocate(connection->pending, (connection->pending_count + 1) * sizeof *connection->pending);
        connection->pending[connection->pending_count++] = command;
        match_replies(connection); /* bytes sent before the request count as its reply, for the client too */
        bytes_consume(&connection->in, used);
        if (connection->in.length == 0)
            return;
    }
}

/* Returns false if the connection has ended. */
static bool read_all(struct connection *connection, bool *news)
{
    while (true) {
        ssize_t got = recv(connection->fd, bytes_room(&connection->in, 65536), 65536, 0);
        if (got < 0)
            return errno == EAGAIN;
        *news = true;
        if (got == 0)
            return false;
        connection->in.length += (size_t)got;
        parse_commands(connection);
    }
}

/* Processes new connections, commands and ends of connections. Returns true if there were any. */
static bool take_all(void)
{
    bool news = false;
    for (unsigned i = 0; i < NODES; i++)
        accept_all(i, &news);
    for (size_t i = connection_count; i-- > 0;)
        if (!read_all(&connections[i], &news))
            forget(i);
    return news;
}

/* Without keys except the marker of a node that an operator vouches for. */
static void restart(unsigned node)
{
    struct sim_server *server = &servers[node];
    char marker[128];
    sim_keyspace_clear(&server->keys);
    *server = (struct sim_server){.last_id = 0};
    snprintf(server->run_id, sizeof server->run_id, "%040u", node);
    snprintf(server->replid, sizeof server->replid, "%040u", node);
    snprintf(marker, sizeof marker, "2 %s 0 0 0 0 0 3000 %d trusted 0123456789abcdef default", server->run_id, NODES);
    const struct resp_argument words[] = {resp_argument_of("SET"), resp_argument_of("redlock:marker"),
                                          resp_argument_of(marker)};
    struct bytes reply = {0};
    sim_keyspace_execute(&server->keys, sizeof words / sizeof *words, words, 0, &reply);
    bytes_free(&reply);
}

/* --- What the nodes send --- */

static void say(size_t index, const void *bytes, size_t size)
{
    struct connection *connection = &connections[index];
    bytes_append(&connection->out, bytes, size);
    redisReaderFeed(connection->replies, bytes, size);
    match_replies(connection);
    socket_send_some(connection->fd, bytes, size); /* if the client has closed the connection, they do not matter */
}

/* Executes the next request as a healthy node, and sends the reply, cut to `cut` bytes, with the byte at `at` replaced
 * (at < 0: no byte). */
static void answer(size_t index, size_t cut, long at, uint8_t byte)
{
    struct connection *connection = &connections[index];
    struct bytes reply = {0};
    if (connection->pending_count == 0)
        return;
    const struct resp_command *command = connection->pending[0];
    sim_server_execute(&servers[connection->node], &connection->session, command->argc, command->argv,
                       clocks_running ? (int64_t)(now / QUORUM_MICROSECOND) : 1000000000, &reply);
    if (at >= 0)
        reply.data[(size_t)at % reply.length] = (char)byte;
    say(index, reply.data, cut < reply.length ? cut : reply.length);
    bytes_free(&reply);
}

/* --- The client --- */

enum { LOCKS = 4, TTL_MS = 2000, MAX_TTL_MS = 3000, STEPS_MAX = 200 };

static struct ev_loop *loop;
static redlock_client *client;
static redlock_lock *locks[LOCKS];
static redlock_cancellation *cancellation;
static unsigned started, told;
static bool closed;

/* --- What the callbacks check --- */

static void check_result(const redlock_result *result)
{
    redlock_result copy = *result;
    fuzz_require(fuzz_is_printable(redlock_result_text(&copy)), "a control character in a result");
    fuzz_require(result->nodes <= NODES, "%u nodes", result->nodes);
    unsigned votes =
        result->granted + result->held + result->absent + result->refused + result->unreachable + result->timed_out;
    fuzz_require(votes <= result->nodes || result->nodes == 0, "%u votes of %u nodes", votes, result->nodes);
    for (unsigned i = 0; i < result->nodes; i++)
        fuzz_require(fuzz_is_printable(result->node[i].text), "a control character in node %u's text", i);
}

static void check_lock(const redlock_lock *lock)
{
    int64_t validity = redlock_validity_ms(lock);
    fuzz_require(validity <= TTL_MS, "valid for %lld ms", (long long)validity);
    unsigned granted = count_granted(redlock_lock_token(lock));
    fuzz_require(granted >= NODES / 2 + 1, "won with the grants of %u nodes", granted);
}

static void on_acquired(redlock_client *owner, redlock_lock *lock, const redlock_result *result, void *arg)
{
    redlock_lock **place = arg;
    (void)owner;
    told++;
    check_result(result);
    fuzz_require((result->status == REDLOCK_OK) == (lock != NULL), "status %d", result->status);
    if (!lock)
        return;
    check_lock(lock);
    if (*place)
        redlock_release_async(&lock, NULL, NULL, NULL);
    else
        *place = lock;
}

static void on_told(redlock_client *owner, const redlock_result *result, void *arg)
{
    (void)owner;
    (void)arg;
    told++;
    check_result(result);
}

static void on_queried(redlock_client *owner, const redlock_state *state, const redlock_result *result, void *arg)
{
    (void)owner;
    (void)arg;
    told++;
    check_result(result);
    for (unsigned i = 0; i < NODES; i++)
        fuzz_require(fuzz_is_printable(state->node[i].token), "a control character in a token");
}

static void on_closed(redlock_client *owner, const redlock_result *result, void *arg)
{
    (void)owner;
    (void)arg;
    closed = true;
    check_result(result);
}

static void on_event(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    (void)arg;
    (void)event;
    fuzz_require(validity_ms >= 0 && validity_ms <= TTL_MS, "validity %lld", (long long)validity_ms);
    fuzz_require((event == REDLOCK_EVENT_LOST) == (loss != REDLOCK_NOT_LOST), "event %d, loss %d", event, loss);
    fuzz_require(event != REDLOCK_EVENT_LOST || redlock_validity_ms(lock) == 0, "lost, and valid");
}

static void on_log(int level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    fuzz_require(fuzz_is_printable(line), "a control character in the log: %s", line);
}

/* --- The loop --- */

static void turn(void)
{
    if (!closed && client)
        rl_timers_fire(&client->core.timers, now);
    ev_run(loop, EVRUN_NOWAIT);
}

/* Turns the loop until neither the client nor a node has anything to send. */
static void settle(void)
{
    for (unsigned quiet = 0, turns = 0; quiet < 2 && turns < 50; turns++) {
        turn();
        quiet = take_all() ? 0 : quiet + 1;
    }
}

static void answer_all(void)
{
    for (unsigned rounds = 0; rounds < 4; rounds++) {
        settle();
        for (size_t i = 0; i < connection_count; i++)
            for (size_t left = connections[i].pending_count; left; left--)
                answer(i, SIZE_MAX, -1, 0);
    }
    settle();
}

static void pass_ms(unsigned ms)
{
    now += ms * QUORUM_MILLISECOND;
    settle();
}

/* --- Steps of the nodes --- */

static void step_answer(struct fuzz_input *input, size_t connection)
{
    unsigned count = fuzz_byte(input) % 32 + 1;
    for (unsigned i = 0; i < count; i++)
        answer(connection, SIZE_MAX, -1, 0);
}

static void step_cut(struct fuzz_input *input, size_t connection)
{
    answer(connection, fuzz_byte(input), -1, 0);
}

static void step_change(struct fuzz_input *input, size_t connection)
{
    long at = fuzz_word(input);
    answer(connection, SIZE_MAX, at, fuzz_byte(input));
}

static void step_say(struct fuzz_input *input, size_t connection)
{
    size_t size;
    size_t wanted = fuzz_byte(input);
    const uint8_t *bytes = fuzz_bytes(input, wanted, &size);
    say(connection, bytes, size);
}

/* Sends typical replies of servers, and bytes of services that are no servers. */
static void step_canned(struct fuzz_input *input, size_t connection)
{
    static const char *const words[] = {
        "+OK\r\n",
        "$-1\r\n",
        ":1\r\n",
        ":0\r\n",
        ":2\r\n",
        ":-1\r\n",
        "*0\r\n",
        "*-1\r\n",
        "$0\r\n\r\n",
        "-NOSCRIPT No matching script. Please use EVAL.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-NOAUTH Authentication required.\r\n",
        "-NOPERM this user has no permissions\r\n",
        "-ERR max number of clients reached\r\n",
        "-\r\n",
        "-ERR\001\033[2J\r\n",
        "*4\r\n:1\r\n:2000\r\n:0\r\n:0\r\n",
        "*4\r\n:0\r\n:-1\r\n:9\r\n:9223372036854775807\r\n",
        "*4\r\n:0\r\n:0\r\n:-5\r\n:-1\r\n",
        "*2\r\n$-1\r\n:-2\r\n",
        "*2\r\n$3\r\na\nb\r\n:9223372036854775807\r\n",
        "*2000000000\r\n",
        "*-2\r\n",
        "$2147483647\r\n",
        "$-2\r\n",
        ":99999999999999999999\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "\r\n",
        "%1\r\n",
        "*8\r\n$1\r\nr\r\n$6\r\nmaster\r\n:9223372036854775\r\n:9223372036853\r\n:9223372036853\r\n:3\r\n$4\r\na\tb\n\r\n$7\r\ndefault\r\n",
        "*8\r\n$1\r\nr\r\n$5\r\nslave\r\n:1\r\n:1\r\n:3000\r\n:3\r\n$3\r\nnew\r\n$7\r\ndefault\r\n",
        "*8\r\n$1\r\nr\r\n$6\r\nmaster\r\n:1\r\n:1\r\n:3000\r\n:5\r\n$9\r\nrestarted\r\n$5\r\nother\r\n",
        "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n0a\r\n",
        "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$3\r\n1ab\r\n",
        "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$-1\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
        "*3\r\n$-1\r\n:1\r\n*0\r\n",
        "$1\r\n1\r\n",
        "$1\r\n0\r\n",
        "$2\r\n11\r\n",
        "$2\r\n12\r\n",
        "$13\r\nrun_id:\001\002\r\n\r\n\r\n",
        "$25\r\nrole:slave\r\naof_enabled:0\r\n\r\n"};
    const char *word = words[fuzz_byte(input) % (sizeof words / sizeof *words)];
    say(connection, word, strlen(word));
}

/* The messages and replies that a text may end: those without a size end with their line. */
static const struct {
    const char *head;
    bool sized;
} frames[] = {
    {"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n", true},
    {"", true}, /* a value, a reading, another holder's token */
    {"-ERR ", false},
    {"-NOPERM ", false},
    {"+", false},
    {"*1\r\n", true},
    {"*6\r\n:0\r\n:2000\r\n:1\r\n:1\r\n:0\r\n", true}, /* what a waiter sees: the holder's token */
};

/* Sends a text of any size, up to more than a reply may have, whole or cut: a hand-over, a wake-up, or a reply. */
static void step_text(struct fuzz_input *input, size_t connection)
{
    enum { MOST = 1200 * 1024 };
    static char text[MOST + 256], bytes[MOST + 512];
    static const char *const keys[] = {"a", "stock", "stock:redlock:slot:3", ""};
    unsigned kind = fuzz_byte(input);
    unsigned frame = kind & 64 ? fuzz_byte(input) % (sizeof frames / sizeof *frames) : 0;
    const char *key = keys[kind >> 1 & 3];
    size_t used, filler = kind & 8 ? (size_t)fuzz_word(input) * (kind & 16 ? 18 : 1) : kind >> 4;
    if (frame)
        used = (size_t)snprintf(text, 256, "%s", kind & 1 ? "run_id:" : "");
    else if (kind & 1)
        used = (size_t)snprintf(text, 256, "G%040x %u %u %s", (unsigned)fuzz_word(input), (unsigned)fuzz_number(input),
                                (unsigned)(strlen(key) + (kind & 128 ? filler : 0)), key);
    else
        used = (size_t)snprintf(text, 256, "0%s", key);
    memset(text + used, 'x', filler);
    used += filler;
    size_t size = (size_t)snprintf(bytes, 128, "%s", frames[frame].head);
    if (frames[frame].sized)
        size += (size_t)snprintf(bytes + size, 128, "$%zu\r\n", used);
    memcpy(bytes + size, text, used);
    memcpy(bytes + size + used, "\r\n", 2);
    say(connection, bytes, size + used + 2 - (kind & 32 ? fuzz_byte(input) % (used + 2) : 0));
}

/* Sends the same bytes repeatedly, as an endless stream. */
static void step_flood(struct fuzz_input *input, size_t connection)
{
    enum { TIMES = 512, MOST = 32 };
    static uint8_t chunk[TIMES * MOST];
    size_t size, filled = 0;
    unsigned chunks = fuzz_byte(input) % 128;
    const uint8_t *bytes = fuzz_bytes(input, fuzz_byte(input) % MOST, &size);
    for (unsigned i = 0; i < TIMES; i++, filled += size)
        memcpy(chunk + filled, bytes, size);
    for (unsigned i = 0; i < chunks && filled && connection < connection_count; i++) {
        say(connection, chunk, filled);
        turn();
        take_all();
    }
}

static void step_hang_up(struct fuzz_input *input, size_t connection)
{
    (void)input;
    forget(connection);
}

static void step_answer_all(struct fuzz_input *input)
{
    (void)input;
    answer_all();
}

static void step_time(struct fuzz_input *input)
{
    unsigned how = fuzz_byte(input);
    pass_ms(how < 200 ? how : (how - 199) * 100);
}

/* --- Steps of the user --- */

static const char *const resources[] = {"a", "ab", "b", "stock"};

static void step_acquire(struct fuzz_input *input)
{
    unsigned how = fuzz_byte(input);
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = how & 1 ? 500 : 0;
    options.no_renewal = how >> 2 & 1;
    options.keep_waiting = how >> 3 & 1;
    options.notify_before_ms = how & 16 ? 300 : 0;
    options.cancellation = how & 32 ? cancellation : NULL;
    options.owner = how & 64 ? &options : NULL;
    options.event = on_event;
    unsigned place = fuzz_byte(input) % LOCKS;
    started += redlock_acquire_async(client, resources[place], &options, on_acquired, &locks[place]) == REDLOCK_OK;
}

static void step_release(struct fuzz_input *input)
{
    redlock_lock **lock = &locks[fuzz_byte(input) % LOCKS];
    if (*lock)
        started += redlock_release_async(lock, NULL, on_told, NULL) == REDLOCK_OK;
}

static void step_extend(struct fuzz_input *input)
{
    redlock_lock *lock = locks[fuzz_byte(input) % LOCKS];
    if (lock)
        started += redlock_extend_async(lock, TTL_MS, NULL, on_told, NULL) == REDLOCK_OK;
}

static void step_ask(struct fuzz_input *input)
{
    switch (fuzz_byte(input) % 4) {
    case 0:
        started +=
            redlock_query_async(client, resources[fuzz_byte(input) % LOCKS], 0, NULL, on_queried, NULL) == REDLOCK_OK;
        break;
    case 1:
        started += redlock_trust_async(client, NULL, on_told, NULL) == REDLOCK_OK;
        break;
    case 2:
        started += redlock_ready_async(client, fuzz_byte(input) * 4, on_told, NULL) == REDLOCK_OK;
        break;
    default:
        redlock_cancel(cancellation);
        break;
    }
}

/* --- One input --- */

static const struct {
    void (*run)(struct fuzz_input *input);
    void (*run_on)(struct fuzz_input *input, size_t connection); /* any one of them */
} steps[] = {{step_answer_all, NULL}, {NULL, step_answer},  {NULL, step_answer}, {NULL, step_cut},
             {NULL, step_change},     {NULL, step_say},     {NULL, step_canned}, {NULL, step_text},
             {NULL, step_flood},      {NULL, step_hang_up}, {step_time, NULL},   {step_time, NULL},
             {step_acquire, NULL},    {step_release, NULL}, {step_extend, NULL}, {step_ask, NULL}};

static void run_steps(struct fuzz_input *input)
{
    for (unsigned i = 0; i < STEPS_MAX && input->left; i++) {
        unsigned step = fuzz_byte(input), index = step % (sizeof steps / sizeof *steps);
        size_t open = connection_count;
        if (steps[index].run)
            steps[index].run(input);
        else if (open)
            steps[index].run_on(input, fuzz_byte(input) % open);
        if (step < 128)
            settle();
    }
}

static void begin(unsigned how)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.ttl_ms = TTL_MS;
    options.max_ttl_ms = MAX_TTL_MS;
    options.log = on_log;
    options.log_level = REDLOCK_LOG_DEBUG;
    options.guard = how >> 1 & 1;
    options.label = how & 4 ? "fuzz" : ""; /* the same bytes in every run */
    now = 1000 * QUORUM_SECOND;
    seed = how;
    started = told = 0;
    closed = false;
    clocks_running = how >> 3 & 1;
    for (unsigned i = 0; i < NODES; i++)
        restart(i);
    const char *login = how & 4 ? "lock:word@" : "";
    redlock_result result;
    int status = redlock_attach(loop, list_nodes(login, "?timeout_ms=50"), &options, &client, &result);
    fuzz_require(status == REDLOCK_OK, "%s", redlock_result_text(&result));
    status = redlock_cancellation_create(client, &cancellation);
    fuzz_require(status == REDLOCK_OK, "%d", status);
}

static void look_at_everything(void)
{
    static char text[1 << 16];
    for (unsigned i = 0; i < NODES; i++) {
        redlock_node_status node;
        fuzz_require(redlock_node_status_get(client, i, &node) == REDLOCK_OK, "node %u", i);
        fuzz_require(fuzz_is_printable(node.role) && fuzz_is_printable(node.version) &&
                         fuzz_is_printable(node.run_id) && fuzz_is_printable(node.error) &&
                         fuzz_is_printable(node.objection),
                     "a control character in the state of node %u", i);
    }
    fuzz_require(redlock_metrics(client, text, sizeof text, NULL) == REDLOCK_OK, "metrics");
}

/* All deadlines pass, and no node sends another byte. */
static void end(void)
{
    for (unsigned i = 0; i < 8; i++)
        pass_ms(500);
    fuzz_require(told == started, "%u operations, %u told four seconds later", started, told);
    look_at_everything();
    redlock_close_async(&client, NULL, on_closed, NULL);
}

static void wait_for_close(redlock_client *closing)
{
    client = closing;
    for (unsigned i = 0; i < 20 && !closed; i++) {
        now += 500 * QUORUM_MILLISECOND;
        settle();
    }
    fuzz_require(closed, "not closed after ten seconds");
    client = NULL;
    redlock_cancellation_destroy(&cancellation);
    memset(locks, 0, sizeof locks);
    while (connection_count)
        forget(connection_count - 1);
    grant_count = 0;
}

static void initialize(void)
{
    listen_all();
    loop = ev_loop_new(EVFLAG_AUTO);
    fuzz_require(loop, "no loop");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    if (!loop)
        initialize();
    unsigned how = fuzz_byte(&input);
    begin(how);
    if (how & 1)
        answer_all();
    run_steps(&input);
    redlock_client *closing = client;
    end();
    wait_for_close(closing);
    return 0;
}
