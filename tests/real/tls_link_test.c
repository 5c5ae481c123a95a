/* TLS beyond transport: unsolicited data, the thread's error queue, full sockets, and broken connections. */
#include "real/held.h"
#include "real/tls_certificates.h"
#include "support/fixture.h"

#include "src/client/client.h"
#include "src/core/core.h"
#include "src/link/link.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

enum { SOON_MS = 10000, LONG_MS = 60000, MANY = 1000 };

static const char *const protocols[] = {"TLSv1.2", "TLSv1.3"};

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
    options = (redlock_options)REDLOCK_OPTIONS_INIT;
    options.guard = 0;
    options.node_timeout_ms = options.connect_timeout_ms = options.silence_limit_ms = SOON_MS;
    options.tls_ca_file = certificates_path("authority.pem");
    options.log = log_line;
    atomic_store(&links_broken_for_data, 0);
    real_note_descriptors();
}

REAL_CASE(link, real_bare_case, setup);

/* Starts up to three servers. The client does not trust the third. */
static void start(size_t count, const char *protocol)
{
    const struct cluster_tls trusted = certificates_server("trusted", "authority", "IP:127.0.0.1", 365);
    const struct cluster_tls untrusted = certificates_server("untrusted", NULL, "IP:127.0.0.1", 365);
    const struct cluster_node_options nodes[] = {{.tls = &trusted}, {.tls = &trusted}, {.tls = &untrusted}};
    real_cluster(count, &(struct cluster_options){
                            .nodes = nodes, .arguments = (const char *const[]){"--tls-protocols", protocol, NULL}});
}

/* An asynchronous client of these servers. */
static void open_face(void)
{
    face = face_open(ASYNCHRONOUS_FACE, certificates_nodes("127.0.0.1"), &options);
    real_status(face_ready(face, SOON_MS, &result), REDLOCK_OK, &result);
}

static struct rl_node *node(unsigned i)
{
    return &face_client(face)->nodes->node[i];
}

/* The server's number of the connection. */
static int64_t connection(unsigned i)
{
    return node(i)->server.client_id;
}

static void use(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        redlock_lock *lock = held_acquire(face, "resource", NULL);
        held_release(face, &lock);
    }
}

/* --- Unexpected data --- */

TEST_ROWS(link, unsolicited_data_closes_the_link, ROWS(protocols))
{
    start(1, protocols[_i]);
    open_face();
    int64_t before = connection(0);
    ck_assert_int_eq(SSL_write(node(0)->link.session, "PING\r\n", 6), 6);
    real_until(face, atomic_load(&links_broken_for_data) == 1);
    ck_assert(face_wait_all_ready(face));
    ck_assert(connection(0) != before);
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

TEST(link, errors_the_host_left_break_no_link)
{
    start(1, "TLSv1.3");
    open_face();
    int64_t before = connection(0);
    leave_errors();
    use(20);
    ck_assert_int_eq(connection(0), before);
}

TEST_ROWS(link, a_failing_link_breaks_no_other_and_leaves_no_error, ROWS(protocols))
{
    start(3, protocols[_i]);
    options.backoff_max_ms = 1;
    open_face();
    int64_t first = connection(0), second = connection(1);
    uint64_t deadline = test_deadline_ns(LONG_MS);
    while (node(2)->attempts.failures < 10 && test_ms_left(deadline) > 0) {
        use(1);
        ck_assert(ERR_peek_error() == 0);
    }
    ck_assert_uint_ge(node(2)->attempts.failures, 10);
    ck_assert(connection(0) == first && connection(1) == second);
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

/* The server reads nothing, and the socket's buffer is small. */
static void fill_the_socket(void)
{
    char resource[REDLOCK_RESOURCE_MAX + 1];
    memset(resource, 'r', REDLOCK_RESOURCE_MAX);
    resource[REDLOCK_RESOURCE_MAX] = '\0';
    options.silence_limit_ms = options.node_timeout_ms = LONG_MS;
    options.pending_max = 10 * MANY;
    open_face();
    struct rl_link *link = &node(0)->link;
    ck_assert_int_eq(setsockopt(link->context->c.fd, SOL_SOCKET, SO_SNDBUF, &(int){16 * 1024}, sizeof(int)), 0);
    cluster_stop(cluster, 0);
    leave_errors();
    node(0)->flight.window.limit = QUORUM_WINDOW_MOST; /* the socket is to be the limit */
    answers = granted = 0;
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(resource, 8, "%07u", i);
        resource[7] = 'r';
        ck_assert_int_eq(redlock_acquire_async(face_client(face), resource, NULL, on_acquired, NULL), REDLOCK_OK);
    }
    real_until(face, ev_is_active(&link->writable));
}

TEST_ROWS(link, a_full_socket_is_written_to_when_there_is_room, ROWS(protocols))
{
    start(1, protocols[_i]);
    fill_the_socket();
    int64_t before = connection(0);
    cluster_resume(cluster, 0);
    real_until(face, answers == MANY);
    ck_assert_uint_eq(granted, MANY);
    ck_assert_int_eq(connection(0), before);
    held_close(face);
    ck_assert_uint_eq(cluster_keys_left(cluster, cluster_marks), 0);
}

/* The program has the default disposition of SIGPIPE. */
TEST_ROWS(link, a_server_that_dies_while_it_is_written_to, ROWS(protocols))
{
    start(1, protocols[_i]);
    signal(SIGPIPE, SIG_DFL);
    fill_the_socket();
    cluster_kill(cluster, 0);
    real_until(face, answers == MANY);
    ck_assert_uint_eq(granted, 0);
    ck_assert_int_eq(result.node[0].outcome, REDLOCK_NODE_UNREACHABLE);
    face_close(&face, NULL);
}

REAL_PROGRAM("tls_link")
