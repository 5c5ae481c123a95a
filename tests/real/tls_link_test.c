/* TLS beyond transport: protocol messages, the thread's error queue, full sockets, and broken connections. */
#include "real/held.h"
#include "real/tls_certificates.h"
#include "real/tls_relay.h"
#include "support/clock.h"
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/temp_dir.h"

#include "src/client/client.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOON_MS = 10000, LONG_MS = 60000, YEAR = 365, MANY = 8000, KEY_UPDATE = 24 };

static const int protocols[] = {TLS1_2_VERSION, TLS1_3_VERSION};

static const struct identity *trusted, *untrusted; /* server certificates */
static redlock_options options;
static redlock_client *client; /* the client of the blocking API */
static struct ev_loop *loop;
static char nodes[256];

static atomic_uint links_broken_for_data;

static void log_line(int level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    if (strstr(line, "sent a reply to no request") != NULL)
        atomic_fetch_add(&links_broken_for_data, 1);
}

static void destroy_loop(void *object)
{
    ev_loop_destroy(object);
}

static void setup(void)
{
    struct temp_dir *directory = temp_dir_make();
    char *path = fixture_text("%s/authority.pem", temp_dir_path(directory));
    static char authority_file[256];
    const struct identity *authority = identity_make(NULL, "authority", NULL, YEAR);
    trusted = identity_make(authority, "server", "IP:127.0.0.1", YEAR);
    untrusted = identity_make(NULL, "nobody", "IP:127.0.0.1", YEAR);
    identity_write_certificate(authority, path);
    snprintf(authority_file, sizeof authority_file, "%s", path);
    free(path);
    options = (redlock_options)REDLOCK_OPTIONS_INIT;
    options.guard = 0;
    options.node_timeout_ms = options.connect_timeout_ms = options.silence_limit_ms = SOON_MS;
    options.tls_ca_file = authority_file;
    options.log = log_line;
    client = NULL;
    loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    fixture_register(loop, destroy_loop);
    atomic_store(&links_broken_for_data, 0);
    real_note_descriptors();
}

static void teardown(void)
{
    redlock_close(&client, NULL);
}

REAL_CASE_WITH(link, real_bare_case, setup, teardown, 0);

static void make_client(const struct tls_relay *relay)
{
    snprintf(nodes, sizeof nodes, "rediss://127.0.0.1:%u", tls_relay_port(relay));
    real_status(redlock_connect(nodes, &options, &client, &result), REDLOCK_OK, &result);
}

static void expect_ready(void)
{
    real_status(redlock_ready(client, SOON_MS, &result), REDLOCK_OK, &result);
}

static void acquire_and_release(void)
{
    redlock_lock *lock;
    real_status(redlock_acquire(client, "resource", NULL, &lock, &result), REDLOCK_OK, &result);
    real_status(redlock_release(&lock, &result), REDLOCK_OK, &result);
}

/* One real server behind a relay. */
static struct tls_relay *start_relay(int protocol)
{
    real_cluster(1, NULL);
    return tls_relay_start(trusted, protocol, cluster_port(cluster, 0));
}

static struct fake_server *start_fake_server(void)
{
    struct fake_server *server = fake_server_start(FAKE_IPV4);
    return server;
}

/* --- Unexpected messages --- */

static bool has_changed_keys(void *relay)
{
    return tls_relay_key_changes(relay) > 0;
}

/* TLS' own messages are not replies to requests, and some of them must be answered. */
TEST(link, keys_are_changed_on_an_idle_link)
{
    struct tls_relay *relay = start_relay(TLS1_3_VERSION);
    make_client(relay);
    expect_ready();
    tls_relay_change_keys(relay);
    ck_assert(wait_until(has_changed_keys, relay, SOON_MS));
    acquire_and_release();
    ck_assert_uint_eq(tls_relay_handshakes(relay), 1);
    ck_assert_uint_eq(atomic_load(&links_broken_for_data), 0);
}

/* Unsolicited, and behind a reply; each with both protocols. */
TEST_ROWS(link, unsolicited_data_closes_the_link, 4)
{
    struct fake_server *server = start_fake_server();
    struct tls_relay *relay = tls_relay_start(trusted, protocols[_i % 2], fake_server_port(server));
    redlock_lock *lock;
    make_client(relay);
    expect_ready();
    if (_i < 2) {
        fake_server_push(server, "+EXTRA\r\n+EXTRA\r\n", strlen("+EXTRA\r\n+EXTRA\r\n"));
    } else {
        fake_server_add_rule(server, &(struct fake_rule){.command = "SET", .count = 1, .extra = "+EXTRA\r\n"});
        redlock_acquire(client, "resource", NULL, &lock, &result);
    }
    ck_assert(fake_server_wait_for_accepted(server, 2, SOON_MS));
    expect_ready();
    ck_assert_uint_eq(atomic_load(&links_broken_for_data), 1);
}

/* --- Broken connections --- */

TEST_ROWS(link, handshakes_that_break_are_tried_again, 2)
{
    struct tls_relay *relay = start_relay(protocols[_i]);
    tls_relay_break_handshakes(relay, 3);
    make_client(relay);
    expect_ready();
    acquire_and_release();
}

/* --- The asynchronous API, whose thread belongs to the host --- */

static redlock_client *attached;
static unsigned answers, granted;

static void run_until(unsigned wanted)
{
    uint64_t deadline = test_deadline_ns(LONG_MS);
    while (answers < wanted && test_ms_left(deadline) > 0)
        ev_run(loop, EVRUN_ONCE);
    ck_assert_uint_eq(answers, wanted);
}

/* The callback may run just before the loop sleeps, so it must end ev_run(). */
static void answered(void)
{
    answers++;
    ev_break(loop, EVBREAK_ONE);
}

static void on_ready(redlock_client *from, const redlock_result *given, void *arg)
{
    (void)from;
    (void)arg;
    result = *given;
    answered();
}

static void on_acquired(redlock_client *from, redlock_lock *lock, const redlock_result *given, void *arg)
{
    (void)from;
    (void)arg;
    result = *given;
    answered();
    if (lock != NULL && redlock_release_async(&lock, NULL, NULL) == REDLOCK_OK)
        granted++;
}

static void attach(void)
{
    answers = granted = 0;
    real_status(redlock_attach(loop, nodes, &options, &attached, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(redlock_ready_async(attached, SOON_MS, on_ready, NULL), REDLOCK_OK);
    run_until(1);
    real_status(result.status, REDLOCK_OK, &result);
}

static void acquire_in_turn(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        ck_assert_int_eq(redlock_acquire_async(attached, "resource", NULL, on_acquired, NULL), REDLOCK_OK);
        run_until(answers + 1);
        real_status(result.status, REDLOCK_OK, &result);
    }
}

static void detach(void)
{
    answers = 0;
    ck_assert_int_eq(redlock_close_async(&attached, on_ready, NULL), REDLOCK_OK);
    run_until(1);
}

/* --- OpenSSL's error queue is per thread, and hiredis attributes any error in it to its own connection --- */

static ev_prepare before_sleep;
static ev_check after_sleep;

static void leave_an_error(void)
{
    BIO *nothing = BIO_new_mem_buf("nothing", -1);
    ck_assert_ptr_null(PEM_read_bio_X509(nothing, NULL, NULL, NULL));
    BIO_free(nothing);
    ck_assert(ERR_peek_error() != 0);
}

static void on_prepare(struct ev_loop *in, ev_prepare *watcher, int events)
{
    (void)in;
    (void)watcher;
    (void)events;
    leave_an_error();
}

static void on_check(struct ev_loop *in, ev_check *watcher, int events)
{
    (void)in;
    (void)watcher;
    (void)events;
    leave_an_error();
}

/* From now on the host leaves an error in the queue at each point after which the library may run. */
static void leave_errors(void)
{
    ev_prepare_init(&before_sleep, on_prepare);
    ev_check_init(&after_sleep, on_check);
    ev_set_priority(&before_sleep, EV_MAXPRI);
    ev_set_priority(&after_sleep, EV_MAXPRI);
    ev_prepare_start(loop, &before_sleep);
    ev_check_start(loop, &after_sleep);
}

TEST(link, errors_the_host_left_break_no_link)
{
    struct tls_relay *relay = start_relay(TLS1_3_VERSION);
    uint64_t deadline = test_deadline_ns(SOON_MS);
    leave_errors();
    snprintf(nodes, sizeof nodes, "rediss://127.0.0.1:%u", tls_relay_port(relay));
    attach();
    acquire_in_turn(20);
    tls_relay_change_keys(relay);
    while (!has_changed_keys(relay) && test_ms_left(deadline) > 0)
        ev_run(loop, EVRUN_ONCE);
    acquire_in_turn(1);
    ck_assert_uint_eq(tls_relay_handshakes(relay), 1);
    detach();
}

TEST_ROWS(link, a_failing_link_breaks_no_other_and_leaves_no_error, 2)
{
    real_cluster(2, NULL);
    const struct tls_relay *relays[] = {tls_relay_start(trusted, protocols[_i], cluster_port(cluster, 0)),
                                        tls_relay_start(trusted, protocols[_i], cluster_port(cluster, 1)),
                                        tls_relay_start(untrusted, protocols[_i], cluster_port(cluster, 0))};
    uint64_t deadline = test_deadline_ns(SOON_MS);
    options.backoff_max_ms = 1;
    snprintf(nodes, sizeof nodes, "rediss://127.0.0.1:%u,rediss://127.0.0.1:%u,rediss://127.0.0.1:%u",
             tls_relay_port(relays[0]), tls_relay_port(relays[1]), tls_relay_port(relays[2]));
    attach();
    while (attached->nodes->node[2].attempts.failures < 10 && test_ms_left(deadline) > 0) {
        acquire_in_turn(1);
        ck_assert(ERR_peek_error() == 0);
    }
    ck_assert_uint_ge(attached->nodes->node[2].attempts.failures, 10);
    ck_assert_uint_eq(tls_relay_handshakes(relays[0]), 1);
    ck_assert_uint_eq(tls_relay_handshakes(relays[1]), 1);
    detach();
}

/* --- Full sockets --- */

static void acquire_many(void)
{
    char resource[REDLOCK_RESOURCE_MAX + 1];
    memset(resource, 'r', REDLOCK_RESOURCE_MAX);
    resource[REDLOCK_RESOURCE_MAX] = '\0';
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(resource, 8, "%07u", i);
        resource[7] = 'r';
        ck_assert_int_eq(redlock_acquire_async(attached, resource, NULL, on_acquired, NULL), REDLOCK_OK);
    }
}

static bool is_full(void)
{
    return ev_is_active(&attached->nodes->node[0].link.writable);
}

static bool is_key_update_received;

static void watch_messages(int is_write, int version, int content_type, const void *data, size_t length, SSL *ssl,
                           void *arg)
{
    (void)version;
    (void)ssl;
    (void)arg;
    if (is_write == 0 && content_type == SSL3_RT_HANDSHAKE && length > 0 && *(const unsigned char *)data == KEY_UPDATE)
        is_key_update_received = true;
}

/* hiredis then assumes that TLS must read before it can write. */
static void read_a_message_without_data(struct tls_relay *relay)
{
    uint64_t deadline = test_deadline_ns(SOON_MS);
    is_key_update_received = false;
    SSL_set_msg_callback(attached->nodes->node[0].link.session, watch_messages);
    ck_assert_int_eq(redlock_acquire_async(attached, "first", NULL, on_acquired, NULL), REDLOCK_OK);
    tls_relay_change_keys(relay);
    while (!is_key_update_received && test_ms_left(deadline) > 0)
        ev_run(loop, EVRUN_ONCE);
    ck_assert(is_key_update_received);
}

static void fill_the_socket(struct tls_relay *relay, int protocol)
{
    uint64_t deadline = test_deadline_ns(SOON_MS);
    options.silence_limit_ms = options.node_timeout_ms = LONG_MS;
    options.pending_max = 10 * MANY;
    snprintf(nodes, sizeof nodes, "rediss://127.0.0.1:%u", tls_relay_port(relay));
    attach();
    tls_relay_hold(relay, true);
    leave_errors();
    answers = 0;
    if (protocol == TLS1_3_VERSION)
        read_a_message_without_data(relay);
    else
        ck_assert_int_eq(redlock_acquire_async(attached, "first", NULL, on_acquired, NULL), REDLOCK_OK);
    attached->nodes->node[0].flight.window.limit = QUORUM_WINDOW_MOST; /* the socket is to be the limit */
    acquire_many();
    while (!is_full() && test_ms_left(deadline) > 0)
        ev_run(loop, EVRUN_ONCE);
    ck_assert(is_full());
}

TEST_ROWS(link, a_full_socket_is_written_to_when_there_is_room, 2)
{
    struct tls_relay *relay = start_relay(protocols[_i]);
    fill_the_socket(relay, protocols[_i]);
    tls_relay_hold(relay, false);
    run_until(1 + MANY);
    ck_assert_uint_eq(granted, 1 + MANY);
    ck_assert_uint_eq(tls_relay_handshakes(relay), 1);
    detach();
    ck_assert_uint_eq(cluster_keys_left(cluster, NULL, NULL), 0);
}

/* The program has the default disposition of SIGPIPE. */
TEST_ROWS(link, a_server_that_dies_while_it_is_written_to, 2)
{
    struct tls_relay *relay = start_relay(protocols[_i]);
    signal(SIGPIPE, SIG_DFL);
    fill_the_socket(relay, protocols[_i]);
    tls_relay_stop(relay);
    run_until(1 + MANY);
    ck_assert_uint_eq(granted, 0);
    ck_assert_int_eq(result.node[0].outcome, REDLOCK_NODE_UNREACHABLE);
    detach();
}

REAL_PROGRAM("tls_link")
