/* The libev adapter for hiredis: commands are written at the flush and not before, write interest is on only while a
 * socket is full, and SIGPIPE does not reach the process. */
#include "src/link/adapter.h"
#include "src/link/sigpipe.h"
#include "support/suite.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/sigpipe.h"

enum { LINKS = 3, SOON_MS = 10000 };

static struct ev_loop *loop;
static struct fake_server *server;
static struct rl_writes writes;
static struct rl_adapter adapters[LINKS];
static unsigned replies;

static bool always_readable(struct rl_adapter *adapter)
{
    (void)adapter;
    return true;
}

static void on_connect(const redisAsyncContext *context, int status)
{
    ck_assert_int_eq(status, REDIS_OK);
    struct rl_adapter *adapter = context->data;
    adapter->connected = true;
}

static void on_disconnect(const redisAsyncContext *context, int status)
{
    (void)context;
    (void)status;
}

static void on_reply(redisAsyncContext *context, void *reply, void *data)
{
    (void)context;
    (void)data;
    replies += reply != NULL;
}

static void woken(struct ev_loop *turning, ev_timer *timer, int events)
{
    (void)turning;
    (void)timer;
    (void)events;
}

static void turn(void)
{
    static ev_timer timer;
    ev_timer_init(&timer, woken, 0.001, 0.);
    ev_now_update(loop);
    ev_timer_start(loop, &timer);
    ev_run(loop, EVRUN_ONCE);
    ev_timer_stop(loop, &timer);
}

static bool run_until(bool (*happened)(void))
{
    uint64_t deadline = test_deadline_ns(SOON_MS);
    while (!happened() && test_now_ns() < deadline)
        turn();
    return happened();
}

static void connect_link(struct rl_adapter *adapter)
{
    redisAsyncContext *context = redisAsyncConnect("127.0.0.1", fake_server_port(server));
    ck_assert_ptr_nonnull(context);
    ck_assert_int_eq(context->err, 0);
    adapter->readable = always_readable;
    rl_adapter_attach(adapter, context, &writes);
    context->data = adapter;
    redisAsyncSetConnectCallback(context, on_connect);
    redisAsyncSetDisconnectCallback(context, on_disconnect);
}

static bool all_connected(void)
{
    bool all = true;
    for (unsigned i = 0; i < LINKS; i++)
        all = all && adapters[i].connected;
    return all;
}

static void setup(void)
{
    fixtures_begin();
    server = fake_server_start(FAKE_IPV4);
    loop = ev_loop_new(EVFLAG_NOENV);
    writes = (struct rl_writes){.loop = loop};
    memset(adapters, 0, sizeof adapters);
    replies = 0;
    for (unsigned i = 0; i < LINKS; i++)
        connect_link(&adapters[i]);
    ck_assert(run_until(all_connected));
}

static void teardown(void)
{
    for (unsigned i = 0; i < LINKS; i++)
        if (adapters[i].context)
            redisAsyncFree(adapters[i].context);
    ev_loop_destroy(loop);
    fixtures_end();
}

static void say(unsigned link, const char *word)
{
    ck_assert_int_eq(redisAsyncCommand(adapters[link].context, on_reply, NULL, "PING %s", word), REDIS_OK);
}

static unsigned expected_replies;

static bool all_replied(void)
{
    return replies >= expected_replies;
}

static bool is_waiting(unsigned link)
{
    for (struct rl_adapter *at = writes.first; at; at = at->next)
        if (at == &adapters[link])
            return true;
    return false;
}

/* --- Gathering --- */

START_TEST(nothing_leaves_before_the_flush)
{
    for (unsigned i = 0; i < 5; i++)
        say(0, "word");
    for (unsigned i = 0; i < 5; i++)
        turn();
    ck_assert_uint_eq(fake_server_count(server, "PING"), 0);
    ck_assert(!ev_is_active(&adapters[0].writer));
    rl_adapter_flush(&writes);
    expected_replies = 5;
    ck_assert(run_until(all_replied));
    ck_assert_ptr_null(writes.first);
}
END_TEST

START_TEST(links_are_flushed_once_each_and_in_their_order)
{
    static const unsigned order[] = {2, 0, 2, 1, 0};
    for (unsigned i = 0; i < 5; i++)
        say(order[i], "word");
    ck_assert_ptr_eq(writes.first, &adapters[2]);
    ck_assert_ptr_eq(writes.first->next, &adapters[0]);
    ck_assert_ptr_eq(writes.last, &adapters[1]);
    rl_adapter_flush(&writes);
    ck_assert_ptr_null(writes.first);
    expected_replies = 5;
    ck_assert(run_until(all_replied));
    for (unsigned i = 0; i < LINKS; i++)
        ck_assert(!ev_is_active(&adapters[i].writer));
}
END_TEST

START_TEST(a_link_that_ends_leaves_the_list)
{
    for (unsigned i = 0; i < LINKS; i++)
        say(i, "word");
    redisAsyncFree(adapters[_i].context);
    ck_assert_ptr_null(adapters[_i].context);
    for (unsigned i = 0; i < LINKS; i++)
        ck_assert_int_eq(is_waiting(i), (int)i != _i);
    rl_adapter_flush(&writes);
    expected_replies = LINKS - 1;
    ck_assert(run_until(all_replied));
    connect_link(&adapters[_i]); /* the adapter can be used again */
    ck_assert(run_until(all_connected));
    say((unsigned)_i, "again");
    rl_adapter_flush(&writes);
    expected_replies++;
    ck_assert(run_until(all_replied));
}
END_TEST

START_TEST(a_flush_of_nothing_does_nothing)
{
    rl_adapter_flush(&writes);
    ck_assert_ptr_null(writes.first);
    ck_assert(!writes.broken);
}
END_TEST

/* --- A full socket --- */

START_TEST(write_interest_is_for_a_full_socket_only)
{
    enum { WORDS = 40, SIZE = 65536 };
    const int small = 65536;
    ck_assert_int_eq(setsockopt(adapters[0].context->c.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    char *word = fixture_allocate(SIZE);
    memset(word, 'w', SIZE - 1);
    word[SIZE - 1] = '\0';
    fake_server_pause(server);
    for (unsigned i = 0; i < WORDS; i++)
        say(0, word);
    rl_adapter_flush(&writes);
    ck_assert(ev_is_active(&adapters[0].writer));
    say(0, "behind"); /* a later command waits for the socket, not on the list */
    ck_assert(!is_waiting(0));
    fake_server_resume(server);
    expected_replies = WORDS + 1;
    ck_assert(run_until(all_replied));
    ck_assert(!ev_is_active(&adapters[0].writer));
    say(0, "afterwards");
    ck_assert(is_waiting(0));
    rl_adapter_flush(&writes);
    expected_replies++;
    ck_assert(run_until(all_replied));
    free(word);
}
END_TEST

/* --- SIGPIPE --- */

static int broken_pipe(void)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[1]);
    return ends[0];
}

static void write_guarded(void)
{
    struct rl_sigpipe guard;
    int fd = broken_pipe();
    rl_sigpipe_block(&guard);
    ck_assert_int_eq(write(fd, "x", 1), -1);
    ck_assert_int_eq(write(fd, "x", 1), -1);
    ck_assert(sigpipe_is_pending());
    rl_sigpipe_restore(&guard, true);
    close(fd);
}

START_TEST(an_unguarded_write_ends_the_process)
{
    int fd = broken_pipe();
    ssize_t written = write(fd, "x", 1);
    ck_abort_msg("write returned %zd", written);
}
END_TEST

START_TEST(a_guarded_write_leaves_no_signal)
{
    write_guarded();
    ck_assert(!sigpipe_is_pending());
    ck_assert(!sigpipe_is_blocked());
}
END_TEST

START_TEST(a_mask_that_blocks_it_stays)
{
    sigpipe_mask(SIG_BLOCK);
    write_guarded();
    ck_assert(sigpipe_is_blocked());
    ck_assert(!sigpipe_is_pending());
    sigpipe_mask(SIG_UNBLOCK);
}
END_TEST

static unsigned caught;

static void catch (int signal)
{
    (void)signal;
    caught++;
}

START_TEST(one_of_the_hosts_stays_pending_once)
{
    struct sigaction action = {.sa_handler = catch}, before;
    caught = 0;
    sigaction(SIGPIPE, &action, &before);
    sigpipe_mask(SIG_BLOCK);
    raise(SIGPIPE);
    write_guarded();
    ck_assert(sigpipe_is_pending());
    sigpipe_mask(SIG_UNBLOCK);
    ck_assert_uint_eq(caught, 1);
    sigaction(SIGPIPE, &before, NULL);
}
END_TEST

/* If no write failed, the guard does not look for a signal: the two mask changes are its only system calls. */
START_TEST(a_good_write_costs_nothing)
{
    struct rl_sigpipe guard;
    sigpipe_mask(SIG_BLOCK);
    rl_sigpipe_block(&guard);
    raise(SIGPIPE); /* raised meanwhile by other code of the process */
    rl_sigpipe_restore(&guard, false);
    sigpipe_take();
    sigpipe_mask(SIG_UNBLOCK);
}
END_TEST

static bool forks(void)
{
    const char *mode = getenv("CK_FORK");
    return !mode || strcmp(mode, "no") != 0;
}

int main(void)
{
    Suite *suite = suite_create("adapter");
    TCase *flush = tcase_create("flush"), *sigpipe = tcase_create("sigpipe");
    suite_add_tcase(suite, flush);
    tcase_add_checked_fixture(flush, setup, teardown);
    tcase_set_timeout(flush, 30);
    tcase_add_test(flush, nothing_leaves_before_the_flush);
    tcase_add_test(flush, links_are_flushed_once_each_and_in_their_order);
    tcase_add_loop_test(flush, a_link_that_ends_leaves_the_list, 0, LINKS);
    tcase_add_test(flush, a_flush_of_nothing_does_nothing);
    tcase_add_test(flush, write_interest_is_for_a_full_socket_only);
    suite_add_tcase(suite, sigpipe);
    tcase_add_test(sigpipe, a_guarded_write_leaves_no_signal);
    tcase_add_test(sigpipe, a_mask_that_blocks_it_stays);
    tcase_add_test(sigpipe, one_of_the_hosts_stays_pending_once);
    tcase_add_test(sigpipe, a_good_write_costs_nothing);
    if (forks())
        tcase_add_test_raise_signal(sigpipe, an_unguarded_write_ends_the_process, SIGPIPE);
    return run_suite(suite);
}
