#define _GNU_SOURCE
#include "delay_proxy.h"

#include "clock.h"
#include "fixture.h"
#include "sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 65536, TO_SERVER = 0, TO_CLIENT = 1, DIRECTIONS = 2 };

/* Data in transit. An empty packet is the end of the stream. */
struct packet {
    struct packet *next;
    uint64_t due_ns;
    size_t length;
    size_t sent;
    char data[];
};

/* One direction of one connection. */
struct stream {
    struct packet *first;
    struct packet **last;
    bool at_end;   /* the sender has ended */
    bool finished; /* the end has been forwarded to the receiver */
};

struct link {
    struct link *next;
    struct route *route;
    struct watched end[DIRECTIONS]; /* the client's and the server's: each is read for the stream of its number */
    bool broken;                    /* freed at the end of the turn */
    struct stream streams[DIRECTIONS];
};

struct route {
    char server_host[16];
    uint16_t server_port;
    uint16_t port;
    int reservation;
    struct watched listener;
    uint64_t delay_ns[DIRECTIONS];
    bool held[DIRECTIONS];
};

struct delay_proxy {
    struct poller poller;
    struct route *routes;
    size_t route_count;
    struct link *links;
    struct bytes nodes_string;
    bool spreads;
    size_t accepted; /* since then */
};

/* --- One link --- */

static void break_link(struct delay_proxy *proxy, struct link *link, bool reset)
{
    for (int i = 0; i < DIRECTIONS && !link->broken; i++)
        poller_close(&proxy->poller, &link->end[i], reset);
    link->broken = true;
}

static void queue_packet(struct link *link, int direction, const void *data, size_t length)
{
    struct stream *stream = &link->streams[direction];
    struct packet *packet = fixture_allocate(sizeof *packet + length);
    packet->due_ns = test_now_ns() + link->route->delay_ns[direction];
    packet->length = length;
    memcpy(packet->data, data, length);
    *stream->last = packet;
    stream->last = &packet->next;
}

static void read_stream(struct delay_proxy *proxy, struct link *link, int direction)
{
    struct stream *stream = &link->streams[direction];
    char data[CHUNK];
    while (!link->broken && link->end[direction].readable && !stream->at_end) {
        ssize_t count = recv(link->end[direction].fd, data, sizeof data, 0);
        if (count >= 0) {
            stream->at_end = count == 0;
            queue_packet(link, direction, data, (size_t)count);
        } else if (errno == EAGAIN) {
            link->end[direction].readable = false;
        } else if (errno != EINTR) {
            break_link(proxy, link, true);
        }
    }
}

static void pop_packet(struct stream *stream)
{
    struct packet *packet = stream->first;
    stream->first = packet->next;
    if (!stream->first)
        stream->last = &stream->first;
    free(packet);
}

static bool may_write(const struct link *link, int direction)
{
    return !link->broken && link->end[!direction].writable && link->streams[direction].first &&
           !link->route->held[direction];
}

static void write_stream(struct delay_proxy *proxy, struct link *link, int direction)
{
    struct stream *stream = &link->streams[direction];
    struct watched *to = &link->end[!direction];
    while (may_write(link, direction) && stream->first->due_ns <= test_now_ns()) {
        struct packet *packet = stream->first;
        long sent = socket_send_some(to->fd, packet->data + packet->sent, packet->length - packet->sent);
        if (sent < 0) {
            break_link(proxy, link, true);
            return;
        }
        packet->sent += (size_t)sent;
        to->writable = packet->sent == packet->length;
        if (!to->writable)
            return;
        stream->finished = packet->length == 0;
        if (stream->finished)
            shutdown(to->fd, SHUT_WR);
        pop_packet(stream);
    }
}

static void serve_link(struct delay_proxy *proxy, struct link *link)
{
    for (int i = 0; i < DIRECTIONS; i++) {
        read_stream(proxy, link, i);
        write_stream(proxy, link, i);
    }
    if (link->streams[TO_SERVER].finished && link->streams[TO_CLIENT].finished)
        break_link(proxy, link, false);
}

/* Returns a socket that may still be connecting, or that the server has refused, as its events show. */
static int connect_to_server(const struct route *route)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(route->server_port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || inet_pton(AF_INET, route->server_host, &address.sin_addr) != 1)
        fixture_fail("no socket for %s: %s", route->server_host, strerror(errno));
    (void)connect(fd, (struct sockaddr *)&address, sizeof address);
    return fd;
}

/* Adds it in front. */
static void add_link(struct delay_proxy *proxy, struct route *route, int client)
{
    const struct route *to = proxy->spreads ? &proxy->routes[proxy->accepted++ % proxy->route_count] : route;
    struct link *link = fixture_allocate(sizeof *link);
    *link = (struct link){.next = proxy->links, .route = route};
    for (int i = 0; i < DIRECTIONS; i++) {
        link->streams[i].last = &link->streams[i].first;
        poller_watch(&proxy->poller, &link->end[i], i == 0 ? client : connect_to_server(to));
        socket_no_delay(link->end[i].fd);
    }
    proxy->links = link;
}

static void accept_links(struct delay_proxy *proxy, struct route *route)
{
    int client;
    while (route->listener.readable &&
           (client = accept4(route->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        add_link(proxy, route, client);
    route->listener.readable =
        route->listener.readable && errno != EAGAIN; /* without a free descriptor there is more */
}

static void free_broken(struct delay_proxy *proxy)
{
    struct link **place = &proxy->links;
    while (*place) {
        struct link *link = *place;
        if (!link->broken) {
            place = &link->next;
            continue;
        }
        *place = link->next;
        for (int i = 0; i < DIRECTIONS; i++)
            while (link->streams[i].first)
                pop_packet(&link->streams[i]);
        free(link);
    }
}

/* --- The thread --- */

/* The earliest time at which a packet becomes due. */
static uint64_t next_ns(const struct link *link)
{
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < DIRECTIONS; i++)
        if (may_write(link, i) && link->streams[i].first->due_ns < next)
            next = link->streams[i].first->due_ns;
    return next;
}

static void turn(void *arg)
{
    struct delay_proxy *proxy = arg;
    uint64_t next = UINT64_MAX;
    for (const struct link *link = proxy->links; link; link = link->next)
        next = next_ns(link) < next ? next_ns(link) : next;
    poller_wait(&proxy->poller, next);
    for (struct link *link = proxy->links; link; link = link->next)
        serve_link(proxy, link);
    for (size_t i = 0; i < proxy->route_count; i++)
        accept_links(proxy, &proxy->routes[i]);
    free_broken(proxy);
}

/* --- For tests --- */

static void prepare_route(struct delay_proxy *proxy, const char *host, uint16_t server_port)
{
    struct route *route = &proxy->routes[proxy->route_count++];
    snprintf(route->server_host, sizeof route->server_host, "%s", host);
    route->server_port = server_port;
    route->reservation = socket_reserve_port(false, &route->port);
    poller_watch(&proxy->poller, &route->listener, socket_listen(false, route->port));
    bytes_print(&proxy->nodes_string, "%s127.0.0.1:%u", proxy->route_count > 1 ? "," : "", route->port);
}

static void stop(void *object)
{
    struct delay_proxy *proxy = object;
    poller_enter(&proxy->poller);
    for (struct link *link = proxy->links; link; link = link->next)
        break_link(proxy, link, false);
    for (size_t i = 0; i < proxy->route_count; i++) {
        poller_close(&proxy->poller, &proxy->routes[i].listener, false);
        close(proxy->routes[i].reservation);
    }
    poller_leave(&proxy->poller);
    poller_stop(&proxy->poller);
    free_broken(proxy);
    free(proxy->routes);
    bytes_free(&proxy->nodes_string);
    free(proxy);
}

struct delay_proxy *delay_proxy_start(const char *const *hosts, const uint16_t *server_ports, size_t routes)
{
    struct delay_proxy *proxy = fixture_allocate(sizeof *proxy);
    proxy->routes = fixture_allocate(routes * sizeof *proxy->routes);
    poller_start(&proxy->poller, turn, proxy);
    poller_enter(&proxy->poller);
    for (size_t i = 0; i < routes; i++)
        prepare_route(proxy, hosts ? hosts[i] : "127.0.0.1", server_ports[i]);
    poller_leave(&proxy->poller);
    fixture_register(proxy, stop);
    return proxy;
}

static struct route *route_at(const struct delay_proxy *proxy, size_t route)
{
    if (route >= proxy->route_count)
        fixture_fail("route %zu asked of a proxy with %zu, numbered from 0", route, proxy->route_count);
    return &proxy->routes[route];
}

uint16_t delay_proxy_port(const struct delay_proxy *proxy, size_t route)
{
    return route_at(proxy, route)->port;
}

const char *delay_proxy_nodes_string(const struct delay_proxy *proxy)
{
    return proxy->nodes_string.data;
}

static bool includes(enum proxy_direction directions, int direction)
{
    return (unsigned)directions >> direction & 1;
}

void delay_proxy_spread(struct delay_proxy *proxy)
{
    poller_enter(&proxy->poller);
    proxy->spreads = true;
    poller_leave(&proxy->poller);
}

void delay_proxy_set_delay_us(struct delay_proxy *proxy, size_t route, enum proxy_direction direction,
                              uint32_t delay_us)
{
    poller_enter(&proxy->poller);
    for (int i = 0; i < DIRECTIONS; i++)
        if (includes(direction, i))
            route_at(proxy, route)->delay_ns[i] = (uint64_t)delay_us * 1000;
    poller_leave(&proxy->poller);
}

static void set_held(struct delay_proxy *proxy, size_t route, enum proxy_direction direction, bool held)
{
    poller_enter(&proxy->poller);
    for (int i = 0; i < DIRECTIONS; i++)
        if (includes(direction, i))
            route_at(proxy, route)->held[i] = held;
    poller_leave(&proxy->poller);
}

void delay_proxy_hold(struct delay_proxy *proxy, size_t route, enum proxy_direction direction)
{
    set_held(proxy, route, direction, true);
}

void delay_proxy_let_go(struct delay_proxy *proxy, size_t route, enum proxy_direction direction)
{
    set_held(proxy, route, direction, false);
}

void delay_proxy_drop(struct delay_proxy *proxy, size_t route, bool reset)
{
    poller_enter(&proxy->poller);
    for (struct link *link = proxy->links; link; link = link->next)
        if (link->route == route_at(proxy, route))
            break_link(proxy, link, reset);
    poller_leave(&proxy->poller);
}
