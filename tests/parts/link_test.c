/* One connection: released bytes are written at the flush and not before, write interest is on only while a socket is
 * full, replies need no allocation, and SIGPIPE does not reach the process. */
#include "src/core/core.h"
#include "src/core/process.h"
#include "src/link/link.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/allocator.h"
#include "support/clock.h"
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/test.h"

enum { LINKS = 3, SOON_MS = 60000 }; /* no test passes because this time is over */

static struct ev_loop *loop;
static struct fake_server *server;
static redlock_allocator allocator;
static struct rl_writes writes;
static struct rl_link links[LINKS];
static unsigned replies, awaited[LINKS], ended;
static redisReply last;
static char last_text[RL_REPLY_SHORT];

static void on_connected(struct rl_link *link)
{
    (void)link;
}

static bool expects(const struct rl_link *link)
{
    return awaited[link - links] > 0;
}

static void on_replied(struct rl_link *link, const redisReply *reply)
{
    replies++;
    awaited[link - links]--;
    last = *reply;
    snprintf(last_text, sizeof last_text, "%s", reply->str ? reply->str : "");
}

static void on_ended(struct rl_link *link, const struct rl_link_end *end)
{
    ck_assert(!rl_link_is_open(link));
    ended++;
    (void)end;
}

static void turn(void)
{
    ev_sleep(0.001);
    ev_run(loop, EVRUN_NOWAIT);
}

#define until(condition)                                                                                               \
    do {                                                                                                               \
        uint64_t deadline_ = test_deadline_ns(SOON_MS);                                                                \
        while (!(condition)) {                                                                                         \
            ck_assert_msg(test_now_ns() < deadline_, "waited in vain until: %s", #condition);                          \
            turn();                                                                                                    \
        }                                                                                                              \
    } while (0)

enum { SHORT_MAX = 4096 };

/* The last link takes short replies only. */
static void connect_link(struct rl_link *link)
{
    static const struct rl_link_type types[] = {
        {RL_REPLY_MAX, on_connected, expects, on_replied, on_ended},
        {SHORT_MAX, on_connected, expects, on_replied, on_ended},
    };
    const struct rl_link_target target = {
        .path = "", .numeric = "127.0.0.1", .port = fake_server_port(server), .host = "127.0.0.1"};
    struct rl_link_end end;
    awaited[link - links] = 0;
    ck_assert_msg(rl_link_open(link, &types[link == &links[LINKS - 1]], &target, &end), "%s", end.text);
}

static void setup(void)
{
    fixtures_begin();
    server = fake_server_start();
    loop = ev_loop_new(EVFLAG_NOENV);
    allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, test_allocator_new()};
    static const unsigned char owner = 1;
    writes = (struct rl_writes){.loop = loop, .allocator = &allocator, .owner = &owner};
    memset(links, 0, sizeof links);
    replies = ended = 0;
    for (unsigned i = 0; i < LINKS; i++) {
        ck_assert(rl_link_init(&links[i], &writes, RL_OUTPUT_LEAST));
        connect_link(&links[i]);
    }
    for (unsigned i = 0; i < LINKS; i++)
        until(links[i].connected);
}

static void teardown(void)
{
    for (unsigned i = 0; i < LINKS; i++) {
        rl_link_close(&links[i]);
        rl_link_free(&links[i]);
    }
    ck_assert_uint_eq(test_allocator_live(allocator.user), 0);
    ev_loop_destroy(loop);
    fixtures_end();
}

static size_t put(unsigned link, const char *word, bool (*into)(struct rl_link *link, const char *bytes, size_t size))
{
    char *command;
    int size = redisFormatCommand(&command, "PING %s", word);
    ck_assert(into(&links[link], command, (size_t)size));
    redisFreeCommand(command);
    awaited[link]++;
    return (size_t)size;
}

static void say(unsigned link, const char *word)
{
    rl_link_release(&links[link], put(link, word, rl_link_append));
}

/* Flushes, and waits until there have been this many replies. */
static void flush_until(unsigned expected)
{
    rl_links_flush(&writes);
    until(replies >= expected);
}

/* --- Gathering --- */

TEST_CASE(flush, setup, teardown);

TEST(flush, bytes_leave_in_order_as_they_are_released)
{
    size_t size[3];
    for (unsigned i = 0; i < 3; i++)
        size[i] = put(0, i == 2 ? "last" : "word", rl_link_append);
    rl_link_release(&links[0], size[0]);
    flush_until(1);
    ck_assert_ptr_null(writes.first); /* nothing else may go */
    rl_link_release(&links[0], put(0, "urgent", rl_link_insert));
    flush_until(2);
    ck_assert_str_eq(last_text, "urgent");
    rl_link_release(&links[0], size[1] + size[2]);
    flush_until(4);
    ck_assert_str_eq(last_text, "last");
    ck_assert_uint_eq(fake_server_count(server, "PING"), 4);
}

/* It grows to a busy link's at once if that is needed, and keeps the bytes that wait. */
TEST(flush, a_link_that_rests_has_a_small_buffer)
{
    const struct rl_output *output = &links[0].output;
    ck_assert_uint_eq(output->size, RL_OUTPUT_LEAST);
    rl_link_rest(&links[0], false);
    ck_assert_uint_eq(output->size, RL_OUTPUT_BUSY);
    rl_link_rest(&links[0], true);
    ck_assert_uint_eq(output->size, RL_OUTPUT_LEAST);
    unsigned words = 0;
    for (; output->size == RL_OUTPUT_LEAST; words++)
        say(0, "word");
    ck_assert_uint_eq(output->size, RL_OUTPUT_BUSY);
    rl_link_rest(&links[0], true);
    flush_until(words);
    rl_link_rest(&links[0], true);
    ck_assert_uint_eq(output->size, RL_OUTPUT_LEAST);
}

/* The allocator looks into what is freed; the first bytes of a buffer that stays are never overwritten otherwise. */
/* The test's allocator refuses memory with a password that is freed. */
TEST(flush, buffer_keeps_no_bytes_of_a_password)
{
    /* The bytes move to a larger buffer, and, once most of them are written, to its beginning. */
    const struct rl_output *output = &links[0].output;
    say(0, TEST_SECRET);
    while (output->used < RL_OUTPUT_BUSY / 2)
        say(0, "word");
    size_t left = put(0, "word", rl_link_append);
    rl_links_flush(&writes);
    while (output->size - output->used > 100)
        left += put(0, "word", rl_link_append);
    left += put(0, TEST_SECRET, rl_link_append);
    while (output->written > 0)
        left += put(0, "word", rl_link_append);
    ck_assert_uint_eq(output->size, RL_OUTPUT_BUSY);
    rl_link_release(&links[0], left);
    flush_until(replies + awaited[0]);
    rl_link_close(&links[0]);
    /* What has been written is longer than what is left to write. */
    say(1, TEST_SECRET);
    say(1, TEST_SECRET);
    flush_until(replies + 2);
    say(1, TEST_SECRET);
    rl_link_close(&links[1]);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_ptr_null(memmem(links[i].output.bytes, links[i].output.size, TEST_SECRET, strlen(TEST_SECRET)));
}

/* --- Replies --- */

static const struct {
    const char *bytes, *text;
    long long integer;
    int type;
} scalars[] = {
    {"+OK\r\n", "OK", 0, REDIS_REPLY_STATUS},
    {":-12\r\n", "", -12, REDIS_REPLY_INTEGER},
    {"$-1\r\n", "", 0, REDIS_REPLY_NIL},
    {"$5\r\nshort\r\n", "short", 0, REDIS_REPLY_STRING},
    {"-ERR no\r\n", "ERR no", 0, REDIS_REPLY_ERROR},
    {"*1\r\n:7\r\n", "", 0, REDIS_REPLY_ARRAY},
};

static void say_answered(const char *bytes)
{
    fake_server_add_rule(server, &(struct fake_rule){.command = "PING", .count = 1, .skip = true, .reply = bytes});
    say(0, "word");
}

static void answer_in_two(const char *bytes, int cut)
{
    char first[512];
    unsigned before = replies;
    struct pollfd readable = {.fd = links[0].context->c.fd, .events = POLLIN};
    snprintf(first, sizeof first, "%.*s", cut, bytes);
    say_answered(first);
    rl_links_flush(&writes);
    ck_assert_int_eq(poll(&readable, 1, SOON_MS), 1);
    while (poll(&readable, 1, 0) > 0)
        turn();
    ck_assert_uint_eq(replies, before);
    say_answered(bytes + cut);
    flush_until(before + 1);
}

/* Also on a link that rests, and frees its buffers whenever all replies have been read. */
TEST_ROWS(flush, reply_that_comes_in_two_parts_is_read, ROWS(scalars))
{
    for (int rests = 0; rests < 2; rests++)
        for (int cut = 1; scalars[_i].bytes[cut]; cut++) {
            rl_link_rest(&links[0], rests);
            answer_in_two(scalars[_i].bytes, cut);
            ck_assert_int_eq(last.type, scalars[_i].type);
            ck_assert_str_eq(last_text, scalars[_i].text);
        }
    ck_assert_uint_eq(ended, 0);
}

/* 255 bytes fit into the reader's memory, 256 do not. */
TEST_ROWS(flush, long_string_is_read_as_well, 3)
{
    char bytes[512];
    snprintf(bytes, sizeof bytes, "$%d\r\n%0*d\r\n", 254 + _i, 254 + _i, 1);
    answer_in_two(bytes, 1);
    ck_assert_uint_eq(last.len, 254 + (unsigned)_i);
}

/* The rest of it never comes. */
TEST(flush, beginning_of_a_reply_that_is_too_long_ends_the_link)
{
    char beginning[2 * SHORT_MAX + 1];
    memset(beginning, 'x', sizeof beginning - 1);
    memcpy(beginning, "$100000\r\n", strlen("$100000\r\n"));
    beginning[sizeof beginning - 1] = '\0';
    fake_server_add_rule(server, &(struct fake_rule){.command = "PING", .skip = true, .reply = beginning});
    say(LINKS - 1, "long");
    rl_links_flush(&writes);
    until(ended == 1);
    ck_assert_uint_eq(replies, 0);
}

static int unread_bytes(const struct rl_link *link)
{
    int count = 0;
    ck_assert_int_eq(ioctl(link->context->c.fd, FIONREAD, &count), 0);
    return count;
}

/* A node that sends faster than the client reads delays neither its timers nor the other nodes. */
TEST_ROWS(flush, a_turn_reads_a_part_of_what_has_come, 2)
{
    enum { MANY = 30000, PART = 64 * 1024 };
    struct bytes flood = {0};
    for (unsigned i = 0; i < MANY; i++)
        bytes_append(&flood, "+OK\r\n", 5);
    bytes_append(&flood, "", 1);
    rl_link_rest(&links[0], _i == 0);
    awaited[0] = MANY - 1;
    say_answered(flood.data);
    bytes_free(&flood);
    rl_links_flush(&writes);
    uint64_t deadline = test_deadline_ns(SOON_MS);
    while (unread_bytes(&links[0]) < PART && test_ms_left(deadline) > 0)
        ev_sleep(0.001);
    for (unsigned before = replies, turns = 0; turns < 2; before = replies, turns++) {
        turn();
        ck_assert(replies > before && replies - before < PART / 5 / 2);
    }
    until(replies == MANY);
}

/* recv(2) would consume the error of a connection that is refused. */
TEST(flush, link_is_not_read_before_it_is_connected)
{
    fake_server_add_rule(server, &(struct fake_rule){.command = FAKE_ACCEPT, .reply = "+early\r\n"});
    rl_link_close(&links[0]);
    connect_link(&links[0]);
    struct pollfd readable = {.fd = links[0].context->c.fd, .events = POLLIN};
    ck_assert_int_eq(poll(&readable, 1, SOON_MS), 1);
    ck_assert(!rl_link_has_unread(&links[0]));
    until(ended > 0);
}

/* --- A full socket --- */

TEST(flush, write_interest_is_for_a_full_socket_only)
{
    enum { WORDS = 40, SIZE = 65536 };
    const int small = 65536;
    ck_assert_int_eq(setsockopt(links[0].context->c.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    char *word = fixture_allocate(SIZE);
    memset(word, 'w', SIZE - 1);
    word[SIZE - 1] = '\0';
    fake_server_pause(server);
    for (unsigned i = 0; i < WORDS; i++)
        say(0, word);
    rl_links_flush(&writes);
    ck_assert(ev_is_active(&links[0].writable));
    say(0, "behind"); /* a later command waits for the socket, not on the list */
    ck_assert_ptr_null(writes.first);
    fake_server_resume(server);
    until(replies >= WORDS + 1);
    ck_assert(!ev_is_active(&links[0].writable));
    say(0, "afterwards");
    ck_assert_ptr_eq(writes.first, &links[0]);
    flush_until(replies + 1);
    free(word);
}

/* --- SIGPIPE --- */

static const struct {
    bool is_blocked, is_pending; /* before the guard */
    bool breaks;                 /* two guarded writes fail; otherwise other code of the process raises the signal */
    bool stays;                  /* it is pending afterwards */
} signals[] = {
    {false, false, true, false},
    {true, false, true, false},
    {true, true, true, true},
    /* If no write failed, the guard does not look for a signal: the two mask changes are its only system calls. */
    {true, false, false, true},
};

TEST_CASE(sigpipe, NULL, NULL);

TEST_ROWS(sigpipe, guard_leaves_the_mask_and_the_pending_signals_of_the_host, ROWS(signals))
{
    struct rl_sigpipe guard;
    sigset_t only, now;
    int ends[2];
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[1]);
    pthread_sigmask(signals[_i].is_blocked ? SIG_BLOCK : SIG_UNBLOCK, &only, NULL);
    if (signals[_i].is_pending)
        raise(SIGPIPE);
    rl_sigpipe_block(&guard);
    for (unsigned i = 0; i < 2 && signals[_i].breaks; i++)
        ck_assert_int_eq(write(ends[0], "x", 1), -1);
    if (!signals[_i].breaks)
        raise(SIGPIPE);
    sigpending(&now);
    ck_assert_int_eq(sigismember(&now, SIGPIPE), 1);
    rl_sigpipe_restore(&guard, signals[_i].breaks);
    sigpending(&now);
    ck_assert_int_eq(sigismember(&now, SIGPIPE), signals[_i].stays);
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    ck_assert_int_eq(sigismember(&now, SIGPIPE), signals[_i].is_blocked);
    signal(SIGPIPE, SIG_IGN); /* consumes it */
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    signal(SIGPIPE, SIG_DFL);
    close(ends[0]);
}

TEST_PROGRAM("link")
