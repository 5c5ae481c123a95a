/* TLS connections to real servers: which servers the client trusts, which it refuses, and the error texts. Those that an
 * operator sees, each with its remedy, are in tests/command/tls.txt. */
#include "real/clients.h"
#include "real/tls_certificates.h"
#include "support/allocator.h"
#include "support/sockets.h"

enum { NODES = 3, SOON_MS = 10000, YEAR = 365 };
static redlock_options options;
static struct face *face;

static void setup(void)
{
    certificates_begin();
    certificates_make("stranger", NULL, NULL, YEAR);
    options = (redlock_options)REDLOCK_OPTIONS_INIT;
    options.guard = 0;
    options.node_timeout_ms = options.connect_timeout_ms = SOON_MS;
    options.tls_ca_file = certificates_path("authority.pem");
    real_note_descriptors();
}

REAL_CASE(peers, real_bare_case, setup);
REAL_CASE(files, real_bare_case, setup);

/* --- The two sides --- */

enum peer_flag {
    STRANGE = 1,     /* the server's certificate is of an authority that the client does not know ... */
    EXPIRED = 2,     /* ... and has expired */
    ASKS = 4,        /* for a client certificate */
    IPV6 = 8,        /* the server listens on ::1 */
    OURS = 16,       /* the client has a certificate of the authority */
    UNVERIFIED = 32, /* the client does not verify the server */
    DIRECTORY = 64,  /* the client knows the authority by its directory ... */
    SYSTEM = 128     /* ... or as one of the system's */
};

struct peer {
    const char *name;
    size_t count;
    unsigned flags;
    const char *protocols;   /* NULL: both */
    const char *names;       /* NULL: those of loopback; "": none but its subject, CN=server */
    const char *host;        /* that the client connects to; NULL: 127.0.0.1 */
    const char *server_name; /* that it expects; NULL: the host */
    const char *words;       /* of the refusal; NULL: the peer is trusted */
};

static void start(const struct peer *peer)
{
    const char *names = peer->names ? peer->names : "IP:127.0.0.1,IP:::1,DNS:localhost";
    const char *protocols = peer->protocols ? peer->protocols : "TLSv1.2 TLSv1.3";
    struct cluster_tls tls = certificates_server("server", peer->flags & STRANGE ? "stranger" : "authority", names,
                                                 peer->flags & EXPIRED ? 0 : YEAR);
    tls.client_certificates = peer->flags & ASKS;
    const struct cluster_node_options nodes[NODES] = {{.tls = &tls}, {.tls = &tls}, {.tls = &tls}};
    real_cluster(peer->count,
                 &(struct cluster_options){.nodes = nodes,
                                           .ipv6 = peer->flags & IPV6,
                                           .arguments = (const char *const[]){"--tls-protocols", protocols, NULL}});
}

/* A certificate of our own. */
static void present(const char *certificate, const char *key)
{
    certificates_make("client", "authority", NULL, YEAR);
    certificates_make("foreign", "stranger", NULL, YEAR);
    options.tls_certificate_file = certificates_path(certificate);
    options.tls_key_file = certificates_path(key);
}

static void set_options(const struct peer *peer)
{
    if (peer->flags & (UNVERIFIED | DIRECTORY | SYSTEM))
        options.tls_ca_file = NULL;
    if (peer->flags & DIRECTORY) {
        certificates_run("mkdir authorities && cp authority.pem authorities && openssl rehash authorities");
        options.tls_ca_directory = certificates_path("authorities");
    }
    if (peer->flags & OURS)
        present("client.pem", "client.key");
    options.tls_no_verify = peer->flags & UNVERIFIED ? 1 : 0;
    options.tls_server_name = peer->server_name;
}

static void open_face(const char *nodes)
{
    face = face_open(BLOCKING_FACE, nodes, &options);
}

static void expect_works(const char *nodes)
{
    open_face(nodes);
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

static const struct peer peers[] = {
    {"TLS 1.2", NODES, .protocols = "TLSv1.2"},
    {"TLS 1.3, by name", NODES, .protocols = "TLSv1.3", .names = "DNS:localhost", .host = "localhost"},
    {"IPv6", 1, IPV6, .names = "IP:::1", .host = "[::1]"},
    {"an authority in a directory", 1, .flags = DIRECTORY},
    {"the system's authorities", 1, .flags = SYSTEM},
    {"the name to look for", NODES, .names = "DNS:redis.example", .server_name = "redis.example"},
    {"the address to look for", 1, .names = "IP:192.0.2.1", .server_name = "192.0.2.1"},
    {"our certificate, 1.2", 1, ASKS | OURS, .protocols = "TLSv1.2"},
    {"our certificate, 1.3", 1, ASKS | OURS, .protocols = "TLSv1.3"},
    {"not verified", 1, STRANGE | EXPIRED | UNVERIFIED, .names = "DNS:other.example"},

    {"not that name", 1, .names = "DNS:a.example", .server_name = "b.example", .words = NOT_FOR "b.example"},
    {"not that address", 1, .names = "IP:192.0.2.1", .server_name = "192.0.2.2", .words = NOT_FOR "192.0.2.2"},
    {"the name as the subject only", 1, .names = "", .server_name = "server", .words = NOT_FOR "server"},
    {"another's name", 1, .names = "IP:127.0.0.1", .host = "localhost", .words = NOT_FOR "localhost"},
    {"none of ours, 1.3", 1, ASKS, .protocols = "TLSv1.3", .words = "set tls_certificate_file and tls_key_file"},
};

TEST_ROWS(peers, a_peer_is_trusted_or_refused_in_words, ROWS(peers))
{
    const struct peer *peer = &peers[_i];
    fprintf(stderr, "%s\n", peer->name);
    if (peer->flags & IPV6 && !socket_ipv6_available())
        return;
    start(peer);
    set_options(peer);
    const char *nodes = certificates_nodes(peer->host ? peer->host : "127.0.0.1");
    if (peer->flags & SYSTEM) {
        expect_refused(nodes, UNTRUSTED);
        setenv("SSL_CERT_FILE", certificates_path("authority.pem"), 1);
    }
    if (peer->words == NULL)
        expect_works(nodes);
    else
        expect_refused(nodes, peer->words);
    unsetenv("SSL_CERT_FILE");
}

TEST(peers, a_waiter_is_notified_over_tls)
{
    struct waiter waiter;
    start(&(struct peer){.count = NODES});
    open_face(certificates_nodes("127.0.0.1"));
    redlock_lock *lock = held_acquire(face, "resource", NULL);
    waiter_start(&waiter, face, "resource", (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT);
    clients_await_waiters(face, "resource", 1);
    clients_await_subscribers(1, 1);
    held_release(face, &lock);
    waiter_finish(&waiter);
    ck_assert_uint_eq(held_statistics(face).hand_offs, 1);
    waiter_release(&waiter);
}

/* --- Unusable files and names: refused when the client is created --- */

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

static void expect_invalid(const char *words, const char *path)
{
    redlock_client *client;
    ck_assert_int_eq(redlock_connect("rediss://127.0.0.1:1", &options, &client, &result), REDLOCK_INVALID);
    ck_assert_ptr_null(client);
    ck_assert_msg(strstr(result.text, words) != NULL, "%s", result.text);
    ck_assert_msg(strstr(result.text, path) != NULL, "%s", result.text);
    ck_assert_int_eq(redlock_connect("rediss://127.0.0.1:1", &options, &client, NULL), REDLOCK_INVALID);
}

TEST(files, files_that_cannot_be_used)
{
    certificates_run("mkdir empty && echo rubbish >rubbish.pem && "
                     "openssl pkey -in authority.key -aes128 -passout pass:passphrase -out encrypted.key");
    present("client.pem", "client.key");
    const redlock_options usable = options;
    for (int i = 0; i < ROWS(bad_files); i++) {
        const char *path = bad_files[i].file ? certificates_path(bad_files[i].file) : NULL;
        options = usable;
        if (bad_files[i].option == OPTION(tls_ca_directory))
            options.tls_ca_file = NULL;
        *(const char **)(void *)((char *)&options + bad_files[i].option) = path;
        expect_invalid(bad_files[i].words, path ? path : "");
    }
}

TEST(files, bad_server_names)
{
    char name[300] = "";
    options.tls_server_name = name;
    expect_invalid("tls_server_name has 0 bytes", "");
    memset(name, 'a', sizeof name - 1);
    expect_invalid("tls_server_name has 299 bytes", "");
}

TEST(files, no_memory_while_a_client_is_made)
{
    int status = REDLOCK_NO_MEMORY;
    present("client.pem", "client.key");
    for (size_t k = 1; status != REDLOCK_OK; k++) {
        struct test_allocator *allocator = test_allocator_new();
        redlock_client *client;
        options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
        test_allocator_fail_at(allocator, k);
        status = redlock_connect("rediss://127.0.0.1:1", &options, &client, &result);
        ck_assert(status == REDLOCK_OK || status == REDLOCK_NO_MEMORY);
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

static void break_connections(void)
{
    real_command(NODES, "CLIENT", "KILL", "TYPE", "normal", NULL);
}

/* A client certificate is renewed while a lock is held. */
TEST(files, changed_files_are_read_at_the_next_connect)
{
    start(&(struct peer){.count = NODES, .flags = ASKS});
    present("used.pem", "used.key");
    certificates_run("cp client.pem used.pem && cp client.key used.key");
    options.log = note_unusable_files;
    options.backoff_max_ms = 50;
    atomic_store(&unusable, 0);
    open_face(certificates_nodes("127.0.0.1"));
    redlock_lock *lock = held_acquire(face, "resource", NULL);
    certificates_run("cp foreign.pem used.pem"); /* its key is not there yet: the certificate before stays in use */
    break_connections();
    real_until(face, atomic_load(&unusable) > 0);
    ck_assert(face_wait_all_ready(face));
    certificates_run("cp foreign.key used.key"); /* both, and the servers refuse them */
    break_connections();
    real_until(face, face_ready(face, 0, &result) == REDLOCK_MISCONFIGURED);
    certificates_run("cp client.pem used.pem && cp client.key used.key");
    ck_assert(face_wait_all_ready(face));
    held_release(face, &lock);
    held_close(face);
}

REAL_PROGRAM("tls")
