#include "real/tls_relay.h"

#include "real/real.h"
#include "real/tls_certificates.h"

#include "support/clock.h"
#include "support/fixture.h"
#include "support/poller.h"
#include "support/sockets.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 5000, CHUNK = 16384, KEY_UPDATE = 24 };
enum { WAKE, LISTENER, CLIENT, SERVER, WATCHED };

struct tls_relay {
    struct poller poller;
    SSL_CTX *context;
    uint16_t port;
    uint16_t server_port;
    int reservation;
    int listener;
    SSL *client; /* NULL: no client, and no connection to the server */
    int client_fd;
    int server_fd;
    bool held;
    atomic_uint handshakes;
    atomic_uint key_changes; /* key changes made by the client */
};

/* --- The relay's thread --- */

static void hang_up(struct tls_relay *relay)
{
    if (relay->client == NULL)
        return;
    SSL_free(relay->client);
    relay->client = NULL;
    close(relay->client_fd);
    close(relay->server_fd);
}

static void make_blocking(int fd)
{
    const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    socket_no_delay(fd);
}

static void watch_messages(int is_write, int version, int content_type, const void *data, size_t length, SSL *ssl,
                           void *arg)
{
    struct tls_relay *relay = arg;
    (void)version;
    (void)ssl;
    if (is_write == 0 && content_type == SSL3_RT_HANDSHAKE && length > 0 && *(const unsigned char *)data == KEY_UPDATE)
        atomic_fetch_add(&relay->key_changes, 1);
}

static void take_client(struct tls_relay *relay)
{
    int fd = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    hang_up(relay);
    relay->client_fd = fd;
    relay->server_fd = socket_connect_to("127.0.0.1", relay->server_port, test_deadline_ns(PATIENCE_MS));
    make_blocking(relay->client_fd);
    relay->client = SSL_new(relay->context);
    SSL_set_fd(relay->client, fd);
    SSL_set_msg_callback(relay->client, watch_messages);
    SSL_set_msg_callback_arg(relay->client, relay);
    if (SSL_accept(relay->client) == 1)
        atomic_fetch_add(&relay->handshakes, 1);
    else
        hang_up(relay);
}

/* The readable data may be only TLS' own messages, so the read must not block. */
static void from_client(struct tls_relay *relay)
{
    char data[CHUNK];
    fcntl(relay->client_fd, F_SETFL, O_NONBLOCK);
    int length = SSL_read(relay->client, data, sizeof data);
    int error = SSL_get_error(relay->client, length);
    make_blocking(relay->client_fd);
    if (length > 0 ? !socket_send_all(relay->server_fd, data, (size_t)length) : error != SSL_ERROR_WANT_READ)
        hang_up(relay);
}

static void from_server(struct tls_relay *relay)
{
    char data[CHUNK];
    ssize_t length = read(relay->server_fd, data, sizeof data);
    if (length <= 0 || SSL_write(relay->client, data, (int)length) != length)
        hang_up(relay);
}

static void turn(void *owner)
{
    struct tls_relay *relay = owner;
    bool linked = relay->client != NULL;
    struct pollfd watched[WATCHED] = {
        [LISTENER] = {.fd = relay->held ? -1 : relay->listener, .events = POLLIN},
        [CLIENT] = {.fd = linked && !relay->held ? relay->client_fd : -1, .events = POLLIN},
        [SERVER] = {.fd = linked ? relay->server_fd : -1, .events = POLLIN}};
    poller_wait(&relay->poller, watched, WATCHED, UINT64_MAX);
    ERR_clear_error();
    if (watched[CLIENT].revents != 0 && relay->client != NULL && !relay->held)
        from_client(relay);
    if (watched[SERVER].revents != 0 && relay->client != NULL)
        from_server(relay);
    if (watched[LISTENER].revents != 0 && !relay->held)
        take_client(relay);
}

/* --- The test's thread --- */

static void stop(void *object)
{
    struct tls_relay *relay = object;
    poller_stop(&relay->poller);
    hang_up(relay);
    close(relay->listener);
    close(relay->reservation);
    SSL_CTX_free(relay->context);
    free(relay);
}

static SSL_CTX *make_context(const char *name, int protocol)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    char file[64];
    snprintf(file, sizeof file, "%s.pem", name);
    bool usable = context && SSL_CTX_use_certificate_file(context, certificates_path(file), SSL_FILETYPE_PEM) == 1;
    snprintf(file, sizeof file, "%s.key", name);
    usable = usable && SSL_CTX_use_PrivateKey_file(context, certificates_path(file), SSL_FILETYPE_PEM) == 1;
    if (!usable || SSL_CTX_set_min_proto_version(context, protocol) != 1 ||
        SSL_CTX_set_max_proto_version(context, protocol) != 1)
        fixture_fail("TLS relay: cannot make a context");
    return context;
}

struct tls_relay *tls_relay_start(const char *name, int protocol, uint16_t server_port)
{
    struct tls_relay *relay = fixture_allocate(sizeof *relay);
    relay->context = make_context(name, protocol);
    relay->server_port = server_port;
    relay->reservation = socket_reserve_port(false, &relay->port);
    relay->listener = socket_listen(false, relay->port);
    poller_start(&relay->poller, turn, relay);
    fixture_register(relay, stop);
    real_note_descriptors();
    return relay;
}

void tls_relay_stop(struct tls_relay *relay)
{
    fixture_unregister(relay);
    stop(relay);
}

uint16_t tls_relay_port(const struct tls_relay *relay)
{
    return relay->port;
}

unsigned tls_relay_handshakes(const struct tls_relay *relay)
{
    return atomic_load(&relay->handshakes);
}

void tls_relay_change_keys(struct tls_relay *relay)
{
    poller_enter(&relay->poller);
    if (relay->client == NULL || SSL_key_update(relay->client, SSL_KEY_UPDATE_REQUESTED) != 1 ||
        SSL_do_handshake(relay->client) != 1)
        fixture_fail("TLS relay: cannot change the keys");
    poller_leave(&relay->poller);
}

unsigned tls_relay_key_changes(const struct tls_relay *relay)
{
    return atomic_load(&relay->key_changes);
}

void tls_relay_hold(struct tls_relay *relay, bool held)
{
    poller_enter(&relay->poller);
    relay->held = held;
    poller_leave(&relay->poller);
}
