/* TLS connections to real servers: which servers the client trusts, which it refuses, and the error texts. */
#define _GNU_SOURCE
#include "real/tls_certificates.h"
#include "support/allocator.h"
#include "support/clock.h"
#include "support/cluster.h"
#include "support/fake_server.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/server_suite.h"
#include "support/sockets.h"
#include "support/temp_dir.h"

#include <check.h>
#include <pthread.h>
#include <redlock/redlock.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NODES = 3, SOON_MS = 10000, YEAR = 365 };
enum { PATH_SIZE = 256 };

/* The files that the tests write, all in one directory. */
static const struct identity *authority, *stranger;
static char authority_file[PATH_SIZE], stranger_file[PATH_SIZE];
static char client_certificate[PATH_SIZE], client_key[PATH_SIZE];
static char foreign_certificate[PATH_SIZE], foreign_key[PATH_SIZE];
static const char *directory;

static struct cluster *cluster;
static redlock_options options;
static redlock_client *client;
static redlock_result result;

/* --- Certificates --- */

static char *in_directory(char path[PATH_SIZE], const char *name)
{
    snprintf(path, PATH_SIZE, "%s/%s", directory, name);
    return path;
}

static void write_identity(const struct identity *identity, const char *name, char certificate[PATH_SIZE],
                           char key[PATH_SIZE])
{
    char file[64];

    snprintf(file, sizeof(file), "%s.pem", name);
    identity_write_certificate(identity, in_directory(certificate, file));
    snprintf(file, sizeof(file), "%s.key", name);
    identity_write_key(identity, in_directory(key, file), NULL);
}

static void setup(void)
{
    fixtures_begin();
    directory = temp_dir_path(temp_dir_make());
    authority = identity_make(NULL, "the authority", NULL, YEAR);
    stranger = identity_make(NULL, "a stranger", NULL, YEAR);
    identity_write_certificate(authority, in_directory(authority_file, "authority.pem"));
    identity_write_certificate(stranger, in_directory(stranger_file, "stranger.pem"));
    write_identity(identity_make(authority, "client", NULL, YEAR), "client", client_certificate, client_key);
    write_identity(identity_make(stranger, "foreign", NULL, YEAR), "foreign", foreign_certificate, foreign_key);
    options = (redlock_options)REDLOCK_OPTIONS_INIT;
    options.guard = 0;
    options.node_timeout_ms = options.connect_timeout_ms = SOON_MS;
    options.tls_ca_file = authority_file;
    client = NULL;
}

static void teardown(void)
{
    redlock_close(&client, NULL);
    fixtures_end();
}

/* --- Servers --- */

struct servers {
    size_t count;
    const struct identity *issuer; /* NULL: the authority */
    const char *names;             /* NULL: the names of loopback */
    int days;                      /* 0: a year */
    bool client_certificates;
    bool ipv6;
    const char *protocols; /* NULL: the server's default */
};

static void start(struct servers servers)
{
    char certificate[PATH_SIZE], key[PATH_SIZE];
    const char *names = servers.names != NULL ? servers.names : "IP:127.0.0.1,IP:::1,DNS:localhost";
    const char *protocols = servers.protocols != NULL ? servers.protocols : "TLSv1.2 TLSv1.3";
    const struct identity *issuer = servers.issuer != NULL ? servers.issuer : authority;
    struct cluster_node_options nodes[NODES] = {{0}};

    write_identity(identity_make(issuer, "server", names, servers.days != 0 ? servers.days : YEAR), "server",
                   certificate, key);
    const struct cluster_tls tls = {certificate, key, authority_file, servers.client_certificates};
    for (size_t i = 0; i < servers.count; i++)
        nodes[i].tls = &tls;
    cluster = cluster_create(servers.count, &(struct cluster_options){.nodes = nodes,
                                                                      .ipv6 = servers.ipv6,
                                                                      .arguments = (const char *const[]){
                                                                          "--tls-protocols", protocols, NULL}});
}

/* --- The client --- */

static const char *nodes_at(const char *scheme, const char *host)
{
    static char text[512];
    size_t used = 0;

    for (size_t i = 0; i < cluster_size(cluster); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s%s:%u", i > 0 ? "," : "", scheme, host,
                                 cluster_port(cluster, i));
    return text;
}

static void make_client(const char *nodes)
{
    ck_assert_msg(redlock_connect(nodes, &options, &client, &result) == REDLOCK_OK, "%s", redlock_result_text(&result));
}

static void expect_ready(void)
{
    ck_assert_msg(redlock_ready(client, SOON_MS, &result) == REDLOCK_OK, "%s", redlock_result_text(&result));
}

static void expect_works(const char *host)
{
    redlock_lock *lock;

    make_client(nodes_at("rediss://", host));
    ck_assert_msg(redlock_acquire(client, "resource", NULL, &lock, &result) == REDLOCK_OK, "%s",
                  redlock_result_text(&result));
    ck_assert_int_eq(redlock_extend(lock, 20000, &result), REDLOCK_OK);
    ck_assert_uint_ge(cluster_keys_left(cluster, "resource", NULL), cluster_size(cluster) / 2 + 1);
    ck_assert_int_eq(redlock_release(&lock, &result), REDLOCK_OK);
    ck_assert_int_eq(redlock_close(&client, &result), REDLOCK_OK);
    ck_assert_msg(cluster_keys_left(cluster, NULL, NULL) == 0, "%s", cluster_key_names(cluster, NULL, NULL));
}

/* The nodes are misconfigured, so waiting does not help, and each node's text gives the reason. */
static void expect_refused(const char *nodes, const char *words)
{
    make_client(nodes);
    ck_assert_int_eq(redlock_ready(client, SOON_MS, &result), REDLOCK_MISCONFIGURED);
    ck_assert_uint_ge(result.unreachable, result.quorum);
    for (uint32_t i = 0; i < result.nodes; i++)
        ck_assert_msg(result.node[i].outcome == REDLOCK_NODE_PENDING || strstr(result.node[i].text, words) != NULL,
                      "%s", result.node[i].text);
    ck_assert_int_eq(redlock_close(&client, NULL), REDLOCK_OK);
}

/* --- Trusted servers --- */

START_TEST(a_lock_over_tls)
{
    const char *const protocols[] = {NULL, "TLSv1.2", "TLSv1.3"};

    start((struct servers){.count = NODES, .protocols = protocols[_i]});
    expect_works("127.0.0.1");
}
END_TEST

struct waiter {
    pthread_t thread;
    redlock_lock *lock;
    redlock_result result;
    int status;
};

static void *wait_for_lock(void *data)
{
    struct waiter *waiter = data;
    redlock_acquire_options acquire = REDLOCK_ACQUIRE_OPTIONS_INIT;

    acquire.wait_ms = SOON_MS;
    waiter->status = redlock_acquire(client, "resource", &acquire, &waiter->lock, &waiter->result);
    return NULL;
}

/* Every node has a subscriber and the waiter's queue entry. */
static bool waiter_is_heard(void *data)
{
    char reply[256];

    (void)data;
    for (size_t i = 0; i < cluster_size(cluster); i++)
        if (!cluster_command(cluster, i, reply, sizeof(reply), "PUBSUB", "CHANNELS", "redlock:*", NULL) ||
            strstr(reply, "redlock:") == NULL ||
            !cluster_command(cluster, i, reply, sizeof(reply), "EXISTS", "resource:redlock:queue", NULL) ||
            strstr(reply, "1") == NULL)
            return false;
    return true;
}

START_TEST(a_waiter_is_called_over_tls)
{
    redlock_lock *lock;
    redlock_statistics statistics;
    struct waiter waiter = {.status = 1};

    start((struct servers){.count = NODES});
    make_client(nodes_at("rediss://", "127.0.0.1"));
    ck_assert_int_eq(redlock_acquire(client, "resource", NULL, &lock, &result), REDLOCK_OK);
    ck_assert_int_eq(pthread_create(&waiter.thread, NULL, wait_for_lock, &waiter), 0);
    ck_assert(wait_until(waiter_is_heard, NULL, SOON_MS));
    ck_assert_int_eq(redlock_release(&lock, &result), REDLOCK_OK);
    ck_assert_int_eq(pthread_join(waiter.thread, NULL), 0);
    ck_assert_msg(waiter.status == REDLOCK_OK, "%s", redlock_result_text(&waiter.result));
    ck_assert_int_eq(redlock_statistics_get(client, &statistics), REDLOCK_OK);
    ck_assert_uint_eq(statistics.hand_offs, 1);
    ck_assert_int_eq(redlock_release(&waiter.lock, &result), REDLOCK_OK);
}
END_TEST

START_TEST(by_name)
{
    start((struct servers){.count = NODES, .names = "DNS:localhost"});
    expect_works("localhost");
}
END_TEST

START_TEST(over_ipv6)
{
    if (!socket_ipv6_available())
        return;
    start((struct servers){.count = 1, .names = "IP:::1", .ipv6 = true});
    expect_works("[::1]");
}
END_TEST

START_TEST(an_authority_in_a_directory)
{
    char path[PATH_SIZE], file[PATH_SIZE + 32], name[16];

    ck_assert_int_eq(mkdir(in_directory(path, "authorities"), 0700), 0);
    identity_hashed_name(authority, name);
    snprintf(file, sizeof(file), "%s/%s", path, name);
    identity_write_certificate(authority, file);
    start((struct servers){.count = 1});
    options.tls_ca_file = NULL;
    options.tls_ca_directory = path;
    expect_works("127.0.0.1");
}
END_TEST

START_TEST(the_systems_authorities_are_trusted_when_none_is_named)
{
    start((struct servers){.count = 1});
    options.tls_ca_file = NULL;
    setenv("SSL_CERT_FILE", authority_file, 1);
    expect_works("127.0.0.1");
    unsetenv("SSL_CERT_FILE");
    expect_refused(nodes_at("rediss://", "127.0.0.1"), "TLS: certificate not trusted: ");
}
END_TEST

START_TEST(the_name_to_look_for_can_be_given)
{
    start((struct servers){.count = NODES, .names = "DNS:redis.example"});
    options.tls_server_name = "redis.example";
    expect_works("127.0.0.1");
    options.tls_server_name = "other.example";
    expect_refused(nodes_at("rediss://", "127.0.0.1"), "TLS: the server's certificate is not for other.example");
}
END_TEST

START_TEST(an_address_to_look_for_can_be_given)
{
    start((struct servers){.count = 1, .names = "IP:192.0.2.1"});
    options.tls_server_name = "192.0.2.1";
    expect_works("127.0.0.1");
    options.tls_server_name = "192.0.2.2";
    expect_refused(nodes_at("rediss://", "127.0.0.1"), "TLS: the server's certificate is not for 192.0.2.2");
}
END_TEST

START_TEST(the_client_shows_its_certificate)
{
    const char *const protocols[] = {"TLSv1.2", "TLSv1.3"};

    start((struct servers){.count = NODES, .client_certificates = true, .protocols = protocols[_i]});
    options.tls_certificate_file = client_certificate;
    options.tls_key_file = client_key;
    expect_works("127.0.0.1");
}
END_TEST

START_TEST(without_verification_anything_goes)
{
    start((struct servers){.count = NODES, .issuer = stranger, .names = "DNS:other.example", .days = -1});
    options.tls_no_verify = 1;
    options.tls_ca_file = NULL;
    expect_works("127.0.0.1");
}
END_TEST

START_TEST(a_server_that_is_restarted_is_met_again)
{
    redlock_lock *lock;

    start((struct servers){.count = 1});
    make_client(nodes_at("rediss://", "127.0.0.1"));
    expect_ready();
    cluster_kill(cluster, 0);
    ck_assert_int_eq(redlock_acquire(client, "resource", NULL, &lock, &result), REDLOCK_NO_QUORUM);
    ck_assert_str_ne(result.node[0].text, "");
    cluster_start(cluster, 0);
    expect_ready();
    ck_assert_int_eq(redlock_acquire(client, "resource", NULL, &lock, &result), REDLOCK_OK);
    ck_assert_int_eq(redlock_release(&lock, &result), REDLOCK_OK);
}
END_TEST

/* --- Refused servers --- */

START_TEST(an_unknown_authority)
{
    start((struct servers){.count = 1});
    options.tls_ca_file = stranger_file;
    expect_refused(nodes_at("rediss://", "127.0.0.1"), "TLS: certificate not trusted: ");
}
END_TEST

START_TEST(another_servers_certificate)
{
    start((struct servers){.count = 1, .names = "DNS:other.example,IP:127.0.0.2"});
    expect_refused(nodes_at("rediss://", "127.0.0.1"), "TLS: the server's certificate is not for 127.0.0.1");
    expect_refused(nodes_at("rediss://", "localhost"), "TLS: the server's certificate is not for localhost");
}
END_TEST

START_TEST(an_expired_certificate)
{
    start((struct servers){.count = 1, .days = -1});
    expect_refused(nodes_at("rediss://", "127.0.0.1"), "TLS: certificate not trusted: certificate has expired");
}
END_TEST

START_TEST(no_client_certificate_where_one_is_asked_for)
{
    const char *const protocols[] = {"TLSv1.2", "TLSv1.3"};
    const char *const words[] = {"without a client certificate", "set tls_certificate_file and tls_key_file"};

    start((struct servers){.count = 1, .client_certificates = true, .protocols = protocols[_i]});
    expect_refused(nodes_at("rediss://", "127.0.0.1"), words[_i]);
}
END_TEST

START_TEST(a_client_certificate_of_an_unknown_authority)
{
    const char *const protocols[] = {"TLSv1.2", "TLSv1.3"};

    start((struct servers){.count = 1, .client_certificates = true, .protocols = protocols[_i]});
    options.tls_certificate_file = foreign_certificate;
    options.tls_key_file = foreign_key;
    expect_refused(nodes_at("rediss://", "127.0.0.1"), "TLS: the server refused: tlsv1 alert unknown ca");
}
END_TEST

START_TEST(a_port_that_answers_something_else)
{
    struct fake_server *server = fake_server_start(FAKE_IPV4);
    char nodes[64];

    fake_server_add_rule(server, &(struct fake_rule){.command = FAKE_ACCEPT, .reply = "-ERR who are you\r\n"});
    snprintf(nodes, sizeof(nodes), "rediss://%s", fake_server_address(server));
    expect_refused(nodes, "TLS: the server does not speak TLS on this port");
}
END_TEST

/* A plain Redis reads the handshake as the beginning of a line, and waits for its end. If the random bytes of the
 * handshake contain a line end, it replies. */
START_TEST(a_plain_redis)
{
    redlock_lock *lock;

    cluster = cluster_create(1, NULL);
    options.connect_timeout_ms = 200;
    make_client(nodes_at("rediss://", "127.0.0.1"));
    int status = redlock_acquire(client, "resource", NULL, &lock, &result);
    const char *text = result.node[0].text;
    ck_assert_int_eq(status, strstr(text, "does not speak TLS") != NULL ? REDLOCK_MISCONFIGURED : REDLOCK_NO_QUORUM);
    ck_assert_msg(strstr(text, "TLS") != NULL, "%s", text);
    ck_assert_uint_lt(result.elapsed_us, SOON_MS * 1000);
}
END_TEST

START_TEST(a_server_with_tls_asked_without)
{
    redlock_lock *lock;

    start((struct servers){.count = 1});
    options.connect_timeout_ms = 200;
    make_client(nodes_at("", "127.0.0.1"));
    ck_assert_int_eq(redlock_acquire(client, "resource", NULL, &lock, &result), REDLOCK_NO_QUORUM);
    ck_assert_str_ne(result.node[0].text, "");
    ck_assert_uint_lt(result.elapsed_us, SOON_MS * 1000);
}
END_TEST

/* --- Secrets: no log line, result or status of a failed connection contains a password or a part of one --- */

#define PASSWORD "hush51v/Kx7mw@silent83z"
#define ENCODED  "hush51v%2FKx7mw%40silent83z"

static const char *const secrets[] = {"hush51v", "Kx7mw", "silent83z"};

static atomic_uint lines;         /* number of logged lines */
static atomic_bool line_is_shown; /* a logged line contains a secret */
static char shown_line[1024];     /* the first such line */

static const char *secret_in(const void *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
        if (memmem(bytes, size, secrets[i], strlen(secrets[i])) != NULL)
            return secrets[i];
    return NULL;
}

/* Runs on the client's thread, where Check's assertions must not be used. */
static void log_line(int level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    atomic_fetch_add(&lines, 1);
    if (secret_in(line, strlen(line)) == NULL || atomic_load(&line_is_shown))
        return;
    snprintf(shown_line, sizeof(shown_line), "%s", line);
    atomic_store(&line_is_shown, true);
}

static void has_no_secret(const char *what, const void *bytes, size_t size)
{
    const char *secret = secret_in(bytes, size);

    ck_assert_msg(secret == NULL, "%s shows '%s'", what, secret);
}

static int give_credentials(const char *node, char *user, char *password, size_t size, void *arg)
{
    (void)node;
    (void)arg;
    snprintf(user, size, "somebody");
    snprintf(password, size, "%s", PASSWORD);
    return 0;
}

enum way { BY_OPTION, BY_CALLBACK, BY_ADDRESS, WAYS };
enum failure { STRANGE_AUTHORITY, OTHER_NAME, WRONG_PASSWORD, PLAIN_PORT, PLAIN_CLIENT, FAILURES };

static void give(enum way way)
{
    options.log = log_line;
    options.log_level = REDLOCK_LOG_DEBUG;
    if (way == BY_OPTION) {
        options.user = "somebody";
        options.password = PASSWORD;
    } else if (way == BY_CALLBACK) {
        options.credentials = give_credentials;
    }
}

/* Returns the node's port. */
static unsigned prepare(enum failure failure)
{
    if (failure == PLAIN_PORT) {
        struct fake_server *server = fake_server_start(FAKE_IPV4);
        fake_server_add_rule(server, &(struct fake_rule){.command = FAKE_ACCEPT, .reply = "-ERR who are you\r\n"});
        return fake_server_port(server);
    }
    start((struct servers){.count = 1, .names = failure == OTHER_NAME ? "DNS:other.example" : NULL});
    if (failure == STRANGE_AUTHORITY)
        options.tls_ca_file = stranger_file;
    if (failure == PLAIN_CLIENT)
        options.connect_timeout_ms = 200;
    return cluster_port(cluster, 0);
}

static void look_at_all(void)
{
    redlock_node_status status;
    static char metrics[32768];

    ck_assert_int_eq(redlock_metrics(client, metrics, sizeof(metrics), NULL), REDLOCK_OK);
    has_no_secret("the statistics", metrics, strlen(metrics));
    ck_assert_int_eq(redlock_node_status_get(client, 0, &status), REDLOCK_OK);
    has_no_secret("the node's status", &status, sizeof(status));
    has_no_secret("the node's name", status.name, strlen(status.name));
    ck_assert_str_ne(status.error, "");
    has_no_secret("the result", &result, sizeof(result));
    has_no_secret("the result's text", redlock_result_text(&result), strlen(redlock_result_text(&result)));
    ck_assert_str_ne(result.node[0].text, "");
}

START_TEST(a_link_that_fails_shows_no_password)
{
    static const char *const words[FAILURES] = {"TLS: certificate not trusted",
                                                "TLS: the server's certificate is not for", "WRONGPASS",
                                                "does not speak TLS", ""};
    enum failure failure = (enum failure)(_i / WAYS);
    enum way way = (enum way)(_i % WAYS);
    unsigned port = prepare(failure);
    redlock_lock *lock;
    char node[256];

    atomic_store(&lines, 0);
    atomic_store(&line_is_shown, false);
    give(way);
    snprintf(node, sizeof(node), "%s://%s127.0.0.1:%u", failure == PLAIN_CLIENT ? "redis" : "rediss",
             way == BY_ADDRESS ? "somebody:" ENCODED "@" : "", port);
    make_client(node);
    ck_assert_int_ne(redlock_acquire(client, "resource", NULL, &lock, &result), REDLOCK_OK);
    ck_assert_msg(strstr(result.node[0].text, words[failure]) != NULL, "%s", result.node[0].text);
    look_at_all();
    ck_assert_int_ne(redlock_ready(client, 50, &result), REDLOCK_OK);
    look_at_all();
    redlock_close(&client, &result);
    has_no_secret("the result of closing", &result, sizeof(result));
    ck_assert_uint_gt(atomic_load(&lines), 0);
    ck_assert_msg(!atomic_load(&line_is_shown), "logged: %s", shown_line);
}
END_TEST

/* --- Unusable files and names: refused when the client is created --- */

static void expect_invalid(const char *words, const char *path)
{
    ck_assert_int_eq(redlock_connect("rediss://127.0.0.1:1", &options, &client, &result), REDLOCK_INVALID);
    ck_assert_ptr_null(client);
    ck_assert_msg(strstr(result.text, words) != NULL, "%s", result.text);
    ck_assert_msg(strstr(result.text, path) != NULL, "%s", result.text);
    ck_assert_int_eq(redlock_connect("rediss://127.0.0.1:1", &options, &client, NULL), REDLOCK_INVALID);
}

static char *nowhere(void)
{
    static char path[PATH_SIZE];

    return in_directory(path, "nowhere.pem");
}

static char *rubbish(void)
{
    static char path[PATH_SIZE];

    file_write(in_directory(path, "rubbish.pem"), "rubbish\n", strlen("rubbish\n"));
    return path;
}

START_TEST(bad_authorities)
{
    char path[PATH_SIZE];

    options.tls_ca_file = nowhere();
    expect_invalid("tls_ca_file: cannot read", nowhere());
    options.tls_ca_file = rubbish();
    expect_invalid("must be a PEM file", rubbish());
    options.tls_ca_file = directory;
    expect_invalid("tls_ca_file: '", directory);
    options.tls_ca_file = NULL;
    options.tls_ca_directory = nowhere();
    expect_invalid("tls_ca_directory: cannot read", nowhere());
    ck_assert_int_eq(mkdir(in_directory(path, "empty"), 0700), 0);
    options.tls_ca_directory = path;
    expect_invalid("openssl rehash", path);
}
END_TEST

START_TEST(bad_client_certificates)
{
    options.tls_certificate_file = nowhere();
    options.tls_key_file = client_key;
    expect_invalid("tls_certificate_file: cannot read", nowhere());
    options.tls_certificate_file = rubbish();
    expect_invalid("tls_certificate_file: '", rubbish());
    options.tls_certificate_file = client_certificate;
    options.tls_key_file = nowhere();
    expect_invalid("tls_key_file: cannot read", nowhere());
    options.tls_key_file = rubbish();
    expect_invalid("holds no private key", rubbish());
    options.tls_key_file = foreign_key;
    expect_invalid("is not the key of", foreign_key);
    options.tls_key_file = NULL;
    expect_invalid("tls_certificate_file and tls_key_file need each other", "");
}
END_TEST

/* OpenSSL does not prompt for the passphrase. */
START_TEST(an_encrypted_key)
{
    char path[PATH_SIZE];

    identity_write_key(authority, in_directory(path, "encrypted.key"), "passphrase");
    options.tls_certificate_file = authority_file;
    options.tls_key_file = path;
    expect_invalid("is encrypted", path);
}
END_TEST

START_TEST(bad_server_names)
{
    char name[300];

    options.tls_server_name = "";
    expect_invalid("tls_server_name has 0 bytes", "");
    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    options.tls_server_name = name;
    expect_invalid("tls_server_name has 299 bytes", "");
}
END_TEST

START_TEST(no_memory_while_a_client_is_made)
{
    bool failed = true;

    options.tls_certificate_file = client_certificate;
    options.tls_key_file = client_key;
    for (size_t k = 1; failed; k++) {
        struct test_allocator *allocator = test_allocator_new();
        options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
        test_allocator_fail_at(allocator, k);
        int status = redlock_connect("rediss://127.0.0.1:1", &options, &client, &result);
        failed = status != REDLOCK_OK;
        ck_assert_int_eq(status, failed ? REDLOCK_NO_MEMORY : REDLOCK_OK);
        redlock_close(&client, NULL);
        ck_assert_uint_eq(test_allocator_live(allocator), 0);
        test_allocator_free(allocator);
    }
}
END_TEST

START_TEST(options_of_tls_do_not_matter_without_it)
{
    options.tls_ca_file = nowhere();
    make_client("127.0.0.1:1");
}
END_TEST

static Suite *tls_suite(void)
{
    Suite *suite = suite_create("tls");
    TCase *trusted = tcase_create("trusted"), *refused = tcase_create("refused"), *files = tcase_create("files");

    tcase_add_checked_fixture(trusted, setup, teardown);
    tcase_set_timeout(trusted, 60);
    tcase_add_loop_test(trusted, a_lock_over_tls, 0, 3);
    tcase_add_test(trusted, a_waiter_is_called_over_tls);
    tcase_add_test(trusted, by_name);
    tcase_add_test(trusted, over_ipv6);
    tcase_add_test(trusted, an_authority_in_a_directory);
    tcase_add_test(trusted, the_systems_authorities_are_trusted_when_none_is_named);
    tcase_add_test(trusted, the_name_to_look_for_can_be_given);
    tcase_add_test(trusted, an_address_to_look_for_can_be_given);
    tcase_add_loop_test(trusted, the_client_shows_its_certificate, 0, 2);
    tcase_add_test(trusted, without_verification_anything_goes);
    tcase_add_test(trusted, a_server_that_is_restarted_is_met_again);
    suite_add_tcase(suite, trusted);

    tcase_add_checked_fixture(refused, setup, teardown);
    tcase_set_timeout(refused, 60);
    tcase_add_test(refused, an_unknown_authority);
    tcase_add_test(refused, another_servers_certificate);
    tcase_add_test(refused, an_expired_certificate);
    tcase_add_loop_test(refused, no_client_certificate_where_one_is_asked_for, 0, 2);
    tcase_add_loop_test(refused, a_client_certificate_of_an_unknown_authority, 0, 2);
    tcase_add_test(refused, a_port_that_answers_something_else);
    tcase_add_test(refused, a_plain_redis);
    tcase_add_test(refused, a_server_with_tls_asked_without);
    tcase_add_loop_test(refused, a_link_that_fails_shows_no_password, 0, (int)FAILURES * (int)WAYS);
    suite_add_tcase(suite, refused);

    tcase_add_checked_fixture(files, setup, teardown);
    tcase_add_test(files, bad_authorities);
    tcase_add_test(files, bad_client_certificates);
    tcase_add_test(files, an_encrypted_key);
    tcase_add_test(files, bad_server_names);
    tcase_add_test(files, no_memory_while_a_client_is_made);
    tcase_add_test(files, options_of_tls_do_not_matter_without_it);
    suite_add_tcase(suite, files);
    return suite;
}

int main(void)
{
    return run_server_suite(tls_suite());
}
