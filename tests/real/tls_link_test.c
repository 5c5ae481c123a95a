/* TLS beyond transport: protocol messages, the thread's error queue, full sockets, and broken connections. */
#include "real/held.h"
#include "real/tls_certificates.h"
#include "real/tls_relay.h"
#include "support/clock.h"
#include "support/fake_server.h"

#include "src/client/client.h"
#include "src/core/core.h"
#include "src/link/link.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { SOON_MS = 10000, LONG_MS = 60000, YEAR = 365, MANY = 8000, KEY_UPDATE = 24 };

static const int protocols[] = {TLS1_2_VERSION, TLS1_3_VERSION};

static redlock_options options;
static struct face *face;

static atomic_uint links_broken_for_data;

static void log_line(int level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    if (strstr(line, "sent a reply to no request") != NULL)
        atomic_fetch_add(&links_broken_for_data, 1);
}

static void setup(void)
{
    certificates_begin();
    certificates_make("authority", NULL, NULL, YEAR);
    certificates_make("trusted", "authority", "IP:127.0.0.1", YEAR);
    certificates_make("untrusted", NULL, "IP:127.0.0.1", YEAR);
    options = (redlock_options)REDLOCK_OPTIONS_INIT;
    options.guard = 0;
    options.node_timeout_ms = options.connect_timeout_ms = options.silence_limit_ms = SOON_MS;
    options.tls_ca_file = certificates_path("authority.pem");
    options.log = log_line;
    atomic_store(&links_broken_for_data, 0);
    real_note_descriptors();
}

REAL_CASE(link, real_bare_case, setup);

static void open_face(enum face_kind kind, const char *nodes)
{
    face = face_open(kind, nodes, &options);
    real_status(face_ready(face, SOON_MS, &result), REDLOCK_OK, &result);
}

static void open_to(enum face_kind kind, const struct tls_relay *relay)
{
    char node[64];
    snprintf(node, sizeof node, "rediss://127.0.0.1:%u", tls_relay_port(relay));
    open_face(kind, node);
}

static void use(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        redlock_lock *lock = held_acquire(face, "resource", NULL);
        held_release(face, &lock);
    }
}

/* One real server behind a relay. */
static struct tls_relay *start_relay(int protocol)
{
    real_cluster(1, NULL);
    return tls_relay_start("trusted", protocol, cluster_port(cluster, 0));
}

/* --- Unexpected messages --- */

/* Unsolicited, and behind a reply; each with both protocols. */
static bool is_connected_again(void *server)
{
    return fake_server_accepted(server) >= 2;
}

TEST_ROWS(link, unsolicited_data_closes_the_link, 4)
{
    struct fake_server *server = fake_server_start();
    struct tls_relay *relay = tls_relay_start("trusted", protocols[_i % 2], fake_server_port(server));
    redlock_lock *lock;
    open_to(BLOCKING_FACE, relay);
    if (_i < 2) {
        fake_server_push(server, "+EXTRA\r\n+EXTRA\r\n", strlen("+EXTRA\r\n+EXTRA\r\n"));
    } else {
        fake_server_add_rule(server, &(struct fake_rule){.command = "SET", .count = 1, .extra = "+EXTRA\r\n"});
        face_acquire(face, "resource", NULL, &lock, &result);
    }
    ck_assert(wait_until(is_connected_again, server, SOON_MS));
    real_status(face_ready(face, SOON_MS, &result), REDLOCK_OK, &result);
    ck_assert_uint_eq(atomic_load(&links_broken_for_data), 1);
    face_close(&face, NULL);
}

/* --- OpenSSL's error queue is per thread, and hiredis attributes any error in it to its own connection. The thread of the
 * asynchronous API belongs to the host. --- */

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
    ev_prepare_start(face_loop(face), &before_sleep);
    ev_check_start(face_loop(face), &after_sleep);
}

/* TLS' own messages are not replies to requests, and some of them must be answered. */
TEST(link, errors_the_host_left_break_no_link_and_neither_do_key_changes)
{
    struct tls_relay *relay = start_relay(TLS1_3_VERSION);
    open_to(ASYNCHRONOUS_FACE, relay);
    leave_errors();
    use(20);
    tls_relay_change_keys(relay);
    real_until(face, tls_relay_key_changes(relay) > 0);
    use(1);
    ck_assert_uint_eq(tls_relay_handshakes(relay), 1);
    ck_assert_uint_eq(atomic_load(&links_broken_for_data), 0);
}

static unsigned failures_of_third(void)
{
    return face_client(face)->nodes->node[2].attempts.failures;
}

TEST_ROWS(link, a_failing_link_breaks_no_other_and_leaves_no_error, 2)
{
    real_cluster(2, NULL);
    const struct tls_relay *relays[] = {tls_relay_start("trusted", protocols[_i], cluster_port(cluster, 0)),
                                        tls_relay_start("trusted", protocols[_i], cluster_port(cluster, 1)),
                                        tls_relay_start("untrusted", protocols[_i], cluster_port(cluster, 0))};
    uint64_t deadline = test_deadline_ns(SOON_MS);
    char nodes[256];
    options.backoff_max_ms = 1;
    snprintf(nodes, sizeof nodes, "rediss://127.0.0.1:%u,rediss://127.0.0.1:%u,rediss://127.0.0.1:%u",
             tls_relay_port(relays[0]), tls_relay_port(relays[1]), tls_relay_port(relays[2]));
    open_face(ASYNCHRONOUS_FACE, nodes);
    while (failures_of_third() < 10 && test_ms_left(deadline) > 0) {
        use(1);
        ck_assert(ERR_peek_error() == 0);
    }
    ck_assert_uint_ge(failures_of_third(), 10);
    ck_assert_uint_eq(tls_relay_handshakes(relays[0]), 1);
    ck_assert_uint_eq(tls_relay_handshakes(relays[1]), 1);
    face_close(&face, NULL);
}

/* --- Full sockets --- */

static unsigned answers, granted;

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *given, void *arg)
{
    (void)client;
    (void)arg;
    result = *given;
    answers++;
    if (lock && redlock_release_async(&lock, NULL, NULL, NULL) == REDLOCK_OK)
        granted++;
}

static void start_acquire(const char *resource)
{
    ck_assert_int_eq(redlock_acquire_async(face_client(face), resource, NULL, on_acquired, NULL), REDLOCK_OK);
}

static void acquire_many(void)
{
    char resource[REDLOCK_RESOURCE_MAX + 1];
    memset(resource, 'r', REDLOCK_RESOURCE_MAX);
    resource[REDLOCK_RESOURCE_MAX] = '\0';
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(resource, 8, "%07u", i);
        resource[7] = 'r';
        start_acquire(resource);
    }
}

static struct rl_node *first_node(void)
{
    return &face_client(face)->nodes->node[0];
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

/* With TLS 1.3 a message without data is read first: hiredis then assumes that TLS must read before it can write. */
static void fill_the_socket(struct tls_relay *relay, int protocol)
{
    options.silence_limit_ms = options.node_timeout_ms = LONG_MS;
    options.pending_max = 10 * MANY;
    open_to(ASYNCHRONOUS_FACE, relay);
    tls_relay_hold(relay, true);
    leave_errors();
    answers = granted = 0;
    is_key_update_received = false;
    SSL_set_msg_callback(first_node()->link.session, watch_messages);
    start_acquire("first");
    if (protocol == TLS1_3_VERSION) {
        tls_relay_change_keys(relay);
        real_until(face, is_key_update_received);
    }
    first_node()->flight.window.limit = QUORUM_WINDOW_MOST; /* the socket is to be the limit */
    acquire_many();
    real_until(face, ev_is_active(&first_node()->link.writable));
}

TEST_ROWS(link, a_full_socket_is_written_to_when_there_is_room, 2)
{
    struct tls_relay *relay = start_relay(protocols[_i]);
    fill_the_socket(relay, protocols[_i]);
    tls_relay_hold(relay, false);
    real_until(face, answers == 1 + MANY);
    ck_assert_uint_eq(granted, 1 + MANY);
    ck_assert_uint_eq(tls_relay_handshakes(relay), 1);
    held_close(face);
    ck_assert_uint_eq(cluster_keys_left(cluster, cluster_marks), 0);
}

/* The program has the default disposition of SIGPIPE. */
TEST_ROWS(link, a_server_that_dies_while_it_is_written_to, 2)
{
    struct tls_relay *relay = start_relay(protocols[_i]);
    signal(SIGPIPE, SIG_DFL);
    fill_the_socket(relay, protocols[_i]);
    tls_relay_stop(relay);
    real_until(face, answers == 1 + MANY);
    ck_assert_uint_eq(granted, 0);
    ck_assert_int_eq(result.node[0].outcome, REDLOCK_NODE_UNREACHABLE);
    face_close(&face, NULL);
}

/* --- A link without its node --- */

static unsigned replies;

static void ignore(struct rl_link *link)
{
    (void)link;
}

static bool expect_any(const struct rl_link *link)
{
    (void)link;
    return true;
}

static void count_reply(struct rl_link *link, const redisReply *reply)
{
    (void)link;
    (void)reply;
    replies++;
}

static void fail_at_end(struct rl_link *link, const struct rl_link_end *why)
{
    (void)link;
    ck_abort_msg("%s", why->text);
}

static void ping(struct rl_link *link)
{
    static const char command[] = "PING\r\n";
    ck_assert(rl_link_append(link, command, sizeof command - 1));
    rl_link_release(link, sizeof command - 1);
}

static void open_link(struct rl_link *link, struct rl_tls *tls, uint16_t port)
{
    static const struct rl_link_type type = {.reply_max = RL_REPLY_MAX,
                                             .connected = ignore,
                                             .expects = expect_any,
                                             .replied = count_reply,
                                             .ended = fail_at_end};
    const struct rl_link_target target = {
        .path = "", .numeric = "127.0.0.1", .port = port, .host = "127.0.0.1", .tls = tls};
    struct rl_link_end why;
    ck_assert_msg(rl_link_open(link, &type, &target, &why), "%s", why.text);
}

/* The handshake is kept back, so the flush cannot complete it: the first command stays with TLS. The second command is
 * written by the read that completes the handshake. A link that stayed in the list would say that it is not written
 * yet. */
TEST_ROWS(link, a_link_that_a_read_has_written_is_not_to_be_flushed, 2)
{
    static const unsigned char owner = 1;
    struct tls_relay *relay = start_relay(protocols[_i]);
    struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);
    redlock_allocator allocator = rl_memory_allocator(&(redlock_allocator){NULL, NULL, NULL, NULL});
    struct rl_writes writes = {.loop = loop, .allocator = &allocator, .owner = &owner};
    struct rl_link link = {.type = NULL};
    struct rl_tls *tls;
    const struct rl_core core = {.allocator = allocator, .options = options};
    real_status(rl_tls_create(&core, &tls, &result), REDLOCK_OK, &result);
    ck_assert(rl_link_init(&link, &writes, RL_OUTPUT_BUSY));
    tls_relay_hold(relay, true);
    open_link(&link, tls, tls_relay_port(relay));
    while (!link.connected)
        ev_run(loop, EVRUN_ONCE);
    ping(&link);
    rl_links_flush(&writes);
    ck_assert(link.unwritten && !link.listed);
    ping(&link);
    ck_assert(link.listed);
    tls_relay_hold(relay, false);
    for (replies = 0; replies < 2;)
        ev_run(loop, EVRUN_ONCE);
    ck_assert(!link.listed && !writes.first);
    rl_link_close(&link);
    rl_link_free(&link);
    rl_tls_destroy(tls, &allocator);
    ev_loop_destroy(loop);
}

REAL_PROGRAM("tls_link")
