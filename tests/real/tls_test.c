/* TLS connections to real servers: which servers the client trusts, which it refuses, and the error texts. */
#include "real/clients.h"
#include "real/tls_certificates.h"
#include "support/allocator.h"
#include "support/clock.h"
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/sockets.h"

#include <check.h>
#include <redlock/redlock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 3, SOON_MS = 10000, YEAR = 365 };
static redlock_options options;
static struct face *face;

static void setup(void)
{
    certificates_begin();
    certificates_make("authority", NULL, NULL, YEAR);
    certificates_make("stranger", NULL, NULL, YEAR);
    options = (redlock_options)REDLOCK_OPTIONS_INIT;
    options.guard = 0;
    options.node_timeout_ms = options.connect_timeout_ms = SOON_MS;
    options.tls_ca_file = certificates_path("authority.pem");
    real_note_descriptors();
}

REAL_CASE(peers, real_bare_case, setup);
REAL_CASE(links, real_bare_case, setup);
REAL_CASE(files, real_bare_case, setup);

/* --- Servers --- */

enum trust { THE_AUTHORITY, A_DIRECTORY, THE_SYSTEM, A_STRANGER, NO_VERIFICATION };
enum certificate { NO_CERTIFICATE, OUR_CERTIFICATE, FOREIGN_CERTIFICATE };

struct peer {
    const char *name;
    size_t count;      /* 0: one server */
    bool strange;      /* its certificate is of an authority that the client does not know */
    const char *names; /* NULL: the names of loopback; "": none but its subject, CN=server */
    bool expired;
    bool asks; /* for a client certificate */
    bool ipv6;
    const char *protocols; /* NULL: both */

    /* The client's side. */
    const char *host; /* NULL: 127.0.0.1 */
    const char *server_name;
    enum trust trust;
    enum certificate certificate;
    const char *words; /* of the refusal; NULL: the peer is trusted */
};

static void start(struct peer servers)
{
    const char *names = servers.names != NULL ? servers.names : "IP:127.0.0.1,IP:::1,DNS:localhost";
    const char *protocols = servers.protocols != NULL ? servers.protocols : "TLSv1.2 TLSv1.3";
    struct cluster_node_options nodes[NODES] = {{0}};
    size_t count = servers.count != 0 ? servers.count : 1;
    certificates_make("server", servers.strange ? "stranger" : "authority", names, servers.expired ? 0 : YEAR);
    const struct cluster_tls tls = {certificates_path("server.pem"), certificates_path("server.key"),
                                    certificates_path("authority.pem"), servers.asks};
    for (size_t i = 0; i < count; i++)
        nodes[i].tls = &tls;
    real_cluster(count,
                 &(struct cluster_options){.nodes = nodes,
                                           .ipv6 = servers.ipv6,
                                           .arguments = (const char *const[]){"--tls-protocols", protocols, NULL}});
}

/* --- The client --- */

static const char *nodes_at(const char *scheme, const char *host)
{
    static char text[512];
    size_t used = 0;
    for (size_t i = 0; i < cluster_size(cluster); i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s:%u", i > 0 ? "," : "", scheme, host,
                                 cluster_port(cluster, i));
    return text;
}

static void open_face(const char *nodes)
{
    face = face_open(BLOCKING_FACE, nodes, &options);
}

static void expect_works(const char *host)
{
    open_face(nodes_at("rediss://", host));
    redlock_lock *lock = held_acquire(face, "resource", NULL);
    real_status(face_extend(face, lock, 20000, &result), REDLOCK_OK, &result);
    ck_assert_uint_ge(cluster_keys_left(cluster, cluster_marks), cluster_size(cluster) / 2 + 1);
    held_release(face, &lock);
    held_close(face);
    ck_assert_msg(cluster_keys_left(cluster, cluster_marks) == 0, "%s", cluster_key_names(cluster, cluster_marks));
}

/* The nodes are misconfigured, so waiting does not help, and each node's text gives the reason. */
static void expect_refused(const char *nodes, const char *words)
{
    open_face(nodes);
    real_status(face_ready(face, SOON_MS, &result), REDLOCK_MISCONFIGURED, &result);
    ck_assert_uint_ge(result.unreachable, result.quorum);
    for (uint32_t i = 0; i < result.nodes; i++)
        ck_assert_msg(result.node[i].outcome == REDLOCK_NODE_PENDING || strstr(result.node[i].text, words) != NULL,
                      "%s", result.node[i].text);
    held_close(face);
}

/* --- Servers that are trusted, and servers that are refused --- */

#define UNTRUSTED "TLS: certificate not trusted: "
#define NOT_FOR   "TLS: the server's certificate is not for "
#define ALERT     "TLS: the server refused: tlsv1 alert unknown ca"
#define OTHERS    "DNS:other.example,IP:127.0.0.2"
#define SET_BOTH  "set tls_certificate_file and tls_key_file"

static const struct peer peers[] = {
    {.name = "any protocol", .count = NODES},
    {.name = "TLS 1.2", .count = NODES, .protocols = "TLSv1.2"},
    {.name = "TLS 1.3", .count = NODES, .protocols = "TLSv1.3"},
    {.name = "by name", .count = NODES, .names = "DNS:localhost", .host = "localhost"},
    {.name = "IPv6", .names = "IP:::1", .ipv6 = true, .host = "[::1]"},
    {.name = "an authority in a directory", .trust = A_DIRECTORY},
    {.name = "the system's authorities", .trust = THE_SYSTEM},
    {.name = "the name to look for", .count = NODES, .names = "DNS:redis.example", .server_name = "redis.example"},
    {.name = "the address to look for", .names = "IP:192.0.2.1", .server_name = "192.0.2.1"},
    {.name = "our certificate, 1.2", .asks = true, .protocols = "TLSv1.2", .certificate = OUR_CERTIFICATE},
    {.name = "our certificate, 1.3", .asks = true, .protocols = "TLSv1.3", .certificate = OUR_CERTIFICATE},
    {.name = "not verified", .strange = true, .names = "DNS:other.example", .expired = true, .trust = NO_VERIFICATION},

    {.name = "not that name", .names = "DNS:a.example", .server_name = "b.example", .words = NOT_FOR "b.example"},
    {.name = "not that address", .names = "IP:192.0.2.1", .server_name = "192.0.2.2", .words = NOT_FOR "192.0.2.2"},
    {.name = "the name as the subject only", .names = "", .server_name = "server", .words = NOT_FOR "server"},
    {.name = "an unknown authority", .trust = A_STRANGER, .words = UNTRUSTED},
    {.name = "another's address", .names = OTHERS, .words = NOT_FOR "127.0.0.1"},
    {.name = "another's name", .names = OTHERS, .host = "localhost", .words = NOT_FOR "localhost"},
    {.name = "expired", .expired = true, .words = UNTRUSTED "certificate has expired"},
    {.name = "none of ours, 1.2", .asks = true, .protocols = "TLSv1.2", .words = "without a client certificate"},
    {.name = "none of ours, 1.3", .asks = true, .protocols = "TLSv1.3", .words = SET_BOTH},
    {.name = "foreign, 1.2", .asks = true, .protocols = "TLSv1.2", .certificate = FOREIGN_CERTIFICATE, .words = ALERT},
    {.name = "foreign, 1.3", .asks = true, .protocols = "TLSv1.3", .certificate = FOREIGN_CERTIFICATE, .words = ALERT},
};

/* A certificate of our own. */
static void present(const char *certificate, const char *key)
{
    options.tls_certificate_file = certificates_path(certificate);
    options.tls_key_file = certificates_path(key);
}

static void make_client_certificates(void)
{
    certificates_make("client", "authority", NULL, YEAR);
    certificates_make("foreign", "stranger", NULL, YEAR);
}

static void trust(const struct peer *peer)
{
    if (peer->trust != THE_AUTHORITY)
        options.tls_ca_file = peer->trust == A_STRANGER ? certificates_path("stranger.pem") : NULL;
    if (peer->trust == A_DIRECTORY) {
        certificates_run("mkdir authorities && cp authority.pem authorities && openssl rehash authorities");
        options.tls_ca_directory = certificates_path("authorities");
    }
    if (peer->trust == THE_SYSTEM)
        setenv("SSL_CERT_FILE", certificates_path("authority.pem"), 1);
    options.tls_no_verify = peer->trust == NO_VERIFICATION;
    options.tls_server_name = peer->server_name;
    if (peer->certificate == NO_CERTIFICATE)
        return;
    make_client_certificates();
    if (peer->certificate == OUR_CERTIFICATE)
        present("client.pem", "client.key");
    else
        present("foreign.pem", "foreign.key");
}

TEST_ROWS(peers, a_peer_is_trusted_or_refused_in_words, ROWS(peers))
{
    const struct peer *peer = &peers[_i];
    const char *host = peer->host != NULL ? peer->host : "127.0.0.1";
    fprintf(stderr, "%s\n", peer->name);
    if (peer->ipv6 && !socket_ipv6_available())
        return;
    start(*peer);
    trust(peer);
    if (peer->words == NULL)
        expect_works(host);
    else
        expect_refused(nodes_at("rediss://", host), peer->words);
    if (peer->trust == THE_SYSTEM) {
        unsetenv("SSL_CERT_FILE");
        expect_refused(nodes_at("rediss://", host), UNTRUSTED);
    }
}

TEST(links, a_waiter_is_notified_over_tls)
{
    struct waiter waiter;
    start((struct peer){.count = NODES});
    open_face(nodes_at("rediss://", "127.0.0.1"));
    redlock_lock *lock = held_acquire(face, "resource", NULL);
    waiter_start(&waiter, face, "resource", (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT);
    clients_await_waiters(face, "resource", 1);
    clients_await_subscribers(1, 1);
    held_release(face, &lock);
    waiter_finish(&waiter);
    ck_assert_uint_eq(held_statistics(face).hand_offs, 1);
    waiter_release(&waiter);
}

/* --- Other servers --- */

/* A plain Redis reads the handshake as the beginning of a line, and waits for its end. If the random bytes of the
 * handshake contain a line end, it replies. */
TEST(links, a_plain_redis)
{
    redlock_lock *lock;
    real_cluster(1, NULL);
    options.connect_timeout_ms = 200;
    open_face(nodes_at("rediss://", "127.0.0.1"));
    int status = face_acquire(face, "resource", NULL, &lock, &result);
    const char *text = result.node[0].text;
    ck_assert_int_eq(status, strstr(text, "does not speak TLS") != NULL ? REDLOCK_MISCONFIGURED : REDLOCK_NO_QUORUM);
    ck_assert_msg(strstr(text, "TLS") != NULL, "%s", text);
    ck_assert_uint_lt(result.elapsed_us, SOON_MS * 1000);
}

TEST(links, a_server_that_replies_in_plain_text)
{
    struct fake_server *server = fake_server_start();
    char *node = fixture_text("rediss://%s", fake_server_address(server));
    fake_server_add_rule(server, &(struct fake_rule){.command = FAKE_ACCEPT, .reply = "-ERR who are you\r\n"});
    real_note_descriptors();
    expect_refused(node, "TLS: the server does not speak TLS on this port");
    free(node);
}

/* --- Unusable files and names: refused when the client is created --- */

static void expect_invalid(const char *words, const char *path)
{
    redlock_client *client;
    ck_assert_int_eq(redlock_connect("rediss://127.0.0.1:1", &options, &client, &result), REDLOCK_INVALID);
    ck_assert_ptr_null(client);
    ck_assert_msg(strstr(result.text, words) != NULL, "%s", result.text);
    ck_assert_msg(strstr(result.text, path) != NULL, "%s", result.text);
    ck_assert_int_eq(redlock_connect("rediss://127.0.0.1:1", &options, &client, NULL), REDLOCK_INVALID);
}

#define OPTION(name) offsetof(redlock_options, name)
static const struct {
    size_t option;    /* the one that is wrong */
    const char *file; /* NULL: the option is NULL */
    const char *words;
} bad_files[] = {
    {OPTION(tls_ca_file), "nowhere.pem", "tls_ca_file: cannot read"},
    {OPTION(tls_ca_file), "rubbish.pem", "must be a PEM file"},
    {OPTION(tls_ca_file), "", "tls_ca_file: '"},
    {OPTION(tls_ca_directory), "nowhere.pem", "tls_ca_directory: cannot read"},
    {OPTION(tls_ca_directory), "empty", "openssl rehash"},
    {OPTION(tls_certificate_file), "nowhere.pem", "tls_certificate_file: cannot read"},
    {OPTION(tls_certificate_file), "rubbish.pem", "tls_certificate_file: '"},
    {OPTION(tls_key_file), "nowhere.pem", "tls_key_file: cannot read"},
    {OPTION(tls_key_file), "rubbish.pem", "holds no private key"},
    {OPTION(tls_key_file), "foreign.key", "is not the key of"},
    {OPTION(tls_key_file), "encrypted.key", "is encrypted"}, /* OpenSSL does not prompt for the passphrase */
    {OPTION(tls_key_file), NULL, "tls_certificate_file and tls_key_file need each other"},
};

TEST_ROWS(files, files_that_cannot_be_used, ROWS(bad_files))
{
    const char *path = bad_files[_i].file ? certificates_path(bad_files[_i].file) : NULL;
    make_client_certificates();
    certificates_run("mkdir empty && echo rubbish >rubbish.pem && "
                     "openssl pkey -in authority.key -aes128 -passout pass:passphrase -out encrypted.key");
    if (bad_files[_i].option == OPTION(tls_ca_directory))
        options.tls_ca_file = NULL;
    present("client.pem", "client.key");
    *(const char **)(void *)((char *)&options + bad_files[_i].option) = path;
    expect_invalid(bad_files[_i].words, path ? path : "");
}

TEST(files, bad_server_names)
{
    char name[300];
    options.tls_server_name = "";
    expect_invalid("tls_server_name has 0 bytes", "");
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';
    options.tls_server_name = name;
    expect_invalid("tls_server_name has 299 bytes", "");
}

TEST(files, no_memory_while_a_client_is_made)
{
    bool failed = true;
    make_client_certificates();
    present("client.pem", "client.key");
    for (size_t k = 1; failed; k++) {
        struct test_allocator *allocator = test_allocator_new();
        options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
        test_allocator_fail_at(allocator, k);
        redlock_client *client;
        int status = redlock_connect("rediss://127.0.0.1:1", &options, &client, &result);
        failed = status != REDLOCK_OK;
        ck_assert_int_eq(status, failed ? REDLOCK_NO_MEMORY : REDLOCK_OK);
        redlock_close(&client, NULL, NULL);
        ck_assert_uint_eq(test_allocator_live(allocator), 0);
        test_allocator_free(allocator);
    }
}

TEST(files, options_of_tls_do_not_matter_without_it)
{
    options.tls_ca_file = "/nowhere.pem";
    open_face("127.0.0.1:1");
}

static atomic_uint unusable;

static void note_unusable_files(int level, const char *line, void *arg)
{
    (void)arg;
    if (level == REDLOCK_LOG_WARNING && strstr(line, "changed files cannot be used") && strstr(line, "tls_key_file"))
        atomic_fetch_add(&unusable, 1);
}

static bool is_reported(void *arg)
{
    (void)arg;
    return atomic_load(&unusable) > 0;
}

static bool is_refused(void *arg)
{
    (void)arg;
    return face_ready(face, 0, &result) == REDLOCK_MISCONFIGURED;
}

static void break_connections(void)
{
    for (size_t i = 0; i < cluster_size(cluster); i++)
        cluster_command(cluster, i, NULL, 0, "CLIENT", "KILL", "TYPE", "normal", NULL);
}

/* A client certificate is renewed while a lock is held. */
TEST(files, changed_files_are_read_at_the_next_connect)
{
    start((struct peer){.count = NODES, .asks = true});
    make_client_certificates();
    certificates_run("cp client.pem used.pem && cp client.key used.key");
    present("used.pem", "used.key");
    options.log = note_unusable_files;
    options.backoff_max_ms = 50;
    atomic_store(&unusable, 0);
    open_face(nodes_at("rediss://", "127.0.0.1"));
    redlock_lock *lock = held_acquire(face, "resource", NULL);
    certificates_run("cp foreign.pem used.pem"); /* its key is not there yet: the certificate before stays in use */
    break_connections();
    ck_assert(face_wait(face, is_reported, NULL, SOON_MS));
    ck_assert(face_wait_all_ready(face));
    certificates_run("cp foreign.key used.key"); /* both, and the servers refuse them */
    break_connections();
    ck_assert(face_wait(face, is_refused, NULL, SOON_MS));
    certificates_run("cp client.pem used.pem && cp client.key used.key");
    ck_assert(face_wait_all_ready(face));
    held_release(face, &lock);
    held_close(face);
}

REAL_PROGRAM("tls")
