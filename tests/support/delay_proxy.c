#define _GNU_SOURCE
#include "delay_proxy.h"

#include "bytes.h"
#include "clock.h"
#include "fixture.h"
#include "sockets.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CHUNK = 65536,
    MOST_QUEUED = 1 << 20, /* bytes in transit in one direction; beyond this the sender has to wait, as on a network */
    TO_SERVER = 0,
    TO_CLIENT = 1,
    DIRECTIONS = 2
};

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
    int from;
    int to;
    struct packet *first;
    struct packet **last;
    uint64_t last_due_ns;
    size_t queued;
    bool blocked;  /* `to` is full */
    bool at_end;   /* `from` has ended */
    bool finished; /* the end has been forwarded to `to` */
};

/* The action that a test requests for a connection. The proxy's thread executes it, because only that thread may
 * close the descriptors that it polls. */
enum wish { LIVE, END_BY_FIN, END_BY_RST };

/* One socket of a link, as registered with epoll. */
struct end {
    int descriptor;
    uint32_t interest; /* 0: not registered */
    uint32_t ready;    /* in this turn */
};

struct link {
    struct link *next;
    size_t route;
    int epoll;
    struct end ends[DIRECTIONS]; /* the client's, which is read for TO_SERVER, and the server's */
    bool connecting;             /* to the server */
    enum wish wish;
    bool broken; /* freed at the end of the turn */
    struct stream streams[DIRECTIONS];
};

struct route {
    char server_host[16];
    uint16_t server_port;
    uint16_t port;
    int reservation;
    int listener;
    bool refused; /* a test requests it; the thread closes the listener */
    char *address;
    uint64_t delay_ns[DIRECTIONS];
    bool held[DIRECTIONS];
    uint64_t bytes[DIRECTIONS];
};

struct delay_proxy {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    uint64_t asked; /* number of turns of the thread that were requested */
    uint64_t done;
    bool quit;
    int wake;
    int epoll; /* has the links */
    struct route *routes;
    size_t route_count;
    struct link *links;
    char *nodes_string;
};

/* --- One link --- */

static void free_packets(struct stream *stream)
{
    while (stream->first != NULL) {
        struct packet *packet = stream->first;
        stream->first = packet->next;
        free(packet);
    }
    stream->last = &stream->first;
}

/* A socket without interest is not registered, because epoll reports its end all the same, in every turn. */
static void watch(struct link *link, struct end *end, uint32_t interest)
{
    struct epoll_event event = {.events = interest, .data.ptr = end};
    int change = !end->interest ? EPOLL_CTL_ADD : interest ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

    if (end->interest == interest)
        return;
    if (epoll_ctl(link->epoll, change, end->descriptor, &event) != 0)
        fixture_fail("epoll_ctl in the delay proxy failed: errno %d", errno);
    end->interest = interest;
}

/* A child process may have the sockets, too, so closing them does not end their registration. */
static void break_link(struct link *link, bool reset)
{
    if (link->broken)
        return;
    link->broken = true;
    for (int i = 0; i < DIRECTIONS; i++) {
        watch(link, &link->ends[i], 0);
        if (reset)
            socket_close_with_reset(link->ends[i].descriptor);
        else
            close(link->ends[i].descriptor);
    }
}

static void queue_packet(const struct route *route, struct stream *stream, int direction, const char *data,
                         size_t length)
{
    struct packet *packet = fixture_allocate(sizeof(*packet) + length);
    uint64_t due = test_now_ns() + route->delay_ns[direction];

    /* If the delay becomes shorter, later bytes must not overtake earlier ones. */
    stream->last_due_ns = due > stream->last_due_ns ? due : stream->last_due_ns;
    packet->due_ns = stream->last_due_ns;
    packet->length = length;
    if (length > 0)
        memcpy(packet->data, data, length);
    *stream->last = packet;
    stream->last = &packet->next;
    stream->queued += length;
}

static void read_stream(struct route *route, struct link *link, int direction)
{
    struct stream *stream = &link->streams[direction];
    char data[CHUNK];
    ssize_t count = recv(stream->from, data, sizeof(data), 0);

    if (count < 0) {
        if (errno != EAGAIN && errno != EINTR)
            break_link(link, true);
        return;
    }
    stream->at_end = count == 0;
    route->bytes[direction] += (uint64_t)count;
    queue_packet(route, stream, direction, data, (size_t)count);
}

static bool stream_due(const struct route *route, const struct link *link, int direction, uint64_t now_ns)
{
    const struct packet *packet = link->streams[direction].first;

    return packet != NULL && !route->held[direction] && packet->due_ns <= now_ns;
}

/* Returns false if the socket is full or broken. */
static bool send_packet(struct link *link, struct stream *stream, struct packet *packet)
{
    while (packet->sent < packet->length) {
        ssize_t count = send(stream->to, packet->data + packet->sent, packet->length - packet->sent, MSG_NOSIGNAL);
        if (count >= 0) {
            packet->sent += (size_t)count;
        } else if (errno != EINTR) {
            if (errno != EAGAIN)
                break_link(link, true);
            return false;
        }
    }
    return true;
}

static void pop_packet(struct stream *stream)
{
    struct packet *packet = stream->first;

    stream->queued -= packet->length;
    stream->first = packet->next;
    if (stream->first == NULL)
        stream->last = &stream->first;
    if (packet->length == 0) {
        shutdown(stream->to, SHUT_WR);
        stream->finished = true;
    }
    free(packet);
}

static void write_stream(const struct route *route, struct link *link, int direction)
{
    struct stream *stream = &link->streams[direction];

    stream->blocked = false;
    while (!link->broken && !link->connecting && stream_due(route, link, direction, test_now_ns())) {
        stream->blocked = !send_packet(link, stream, stream->first);
        if (stream->blocked)
            return;
        pop_packet(stream);
    }
}

static void finish_connect(struct link *link)
{
    int error = 0;
    socklen_t length = sizeof(error);

    link->connecting = false;
    if (getsockopt(link->ends[TO_CLIENT].descriptor, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0)
        break_link(link, true);
}

static struct stream new_stream(int from, int to)
{
    return (struct stream){.from = from, .to = to};
}

static bool wants_read(const struct link *link, int direction)
{
    const struct stream *stream = &link->streams[direction];

    return !link->connecting && !stream->at_end && stream->queued < MOST_QUEUED;
}

/* An end is read for the stream of its own number, and written for the other one. */
static void watch_ends(struct link *link)
{
    for (int i = 0; i < DIRECTIONS && !link->broken; i++) {
        bool writes = link->connecting ? i == TO_CLIENT : link->streams[!i].blocked;
        watch(link, &link->ends[i], (wants_read(link, i) ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u));
    }
}

static void accept_link(struct delay_proxy *proxy, size_t index)
{
    struct route *route = &proxy->routes[index];
    int client = accept4(route->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (client < 0)
        return;
    int server = socket_connect_start_to(route->server_host, route->server_port);
    if (server < 0) {
        socket_close_with_reset(client);
        return;
    }
    socket_no_delay(client);
    struct link *link = fixture_allocate(sizeof(*link));
    *link = (struct link){.next = proxy->links, .route = index, .epoll = proxy->epoll, .connecting = true};
    link->ends[TO_SERVER].descriptor = client;
    link->ends[TO_CLIENT].descriptor = server;
    link->streams[TO_SERVER] = new_stream(client, server);
    link->streams[TO_CLIENT] = new_stream(server, client);
    for (int i = 0; i < DIRECTIONS; i++)
        link->streams[i].last = &link->streams[i].first;
    watch_ends(link);
    proxy->links = link;
}

static void free_finished(struct delay_proxy *proxy)
{
    struct link **place = &proxy->links;

    while (*place != NULL) {
        struct link *link = *place;
        if (link->streams[TO_SERVER].finished && link->streams[TO_CLIENT].finished)
            break_link(link, false);
        if (!link->broken) {
            place = &link->next;
            continue;
        }
        *place = link->next;
        free_packets(&link->streams[TO_SERVER]);
        free_packets(&link->streams[TO_CLIENT]);
        free(link);
    }
}

/* --- The thread --- */

/* The earliest time at which a packet becomes due. One whose socket is full or connecting waits for an event. */
static uint64_t next_ns(const struct delay_proxy *proxy)
{
    uint64_t next = UINT64_MAX;

    for (const struct link *link = proxy->links; link != NULL; link = link->next) {
        for (int i = 0; i < DIRECTIONS; i++) {
            const struct stream *stream = &link->streams[i];
            bool waits = link->connecting || stream->blocked || proxy->routes[link->route].held[i];
            if (stream->first != NULL && !waits && stream->first->due_ns < next)
                next = stream->first->due_ns;
        }
    }
    return next;
}

static void serve_link(struct delay_proxy *proxy, struct link *link)
{
    enum { READABLE = EPOLLIN | EPOLLHUP | EPOLLERR };
    struct route *route = &proxy->routes[link->route];

    if (link->broken)
        return;
    if (link->connecting && link->ends[TO_CLIENT].ready != 0)
        finish_connect(link);
    for (int i = 0; i < DIRECTIONS; i++)
        if (!link->broken && (link->ends[i].ready & READABLE) != 0 && wants_read(link, i))
            read_stream(route, link, i);
    for (int i = 0; i < DIRECTIONS; i++) {
        link->ends[i].ready = 0;
        write_stream(route, link, i);
    }
    watch_ends(link);
}

static void open_or_close(struct route *route)
{
    if (!route->refused && route->listener < 0) {
        route->listener = socket_listen(false, route->port);
    } else if (route->refused && route->listener >= 0) {
        close(route->listener);
        route->listener = -1;
    }
}

static void obey(struct delay_proxy *proxy)
{
    uint64_t wakes;

    (void)!read(proxy->wake, &wakes, sizeof(wakes));
    for (size_t i = 0; i < proxy->route_count; i++)
        open_or_close(&proxy->routes[i]);
    for (struct link *link = proxy->links; link != NULL; link = link->next)
        if (link->wish != LIVE)
            break_link(link, link->wish == END_BY_RST);
}

static void report_done(struct delay_proxy *proxy)
{
    proxy->done = proxy->asked;
    pthread_cond_broadcast(&proxy->turned);
}

static void gather_ready(struct delay_proxy *proxy)
{
    struct epoll_event events[64];
    int count = epoll_wait(proxy->epoll, events, sizeof(events) / sizeof(events[0]), 0);

    for (int i = 0; i < count; i++)
        ((struct end *)events[i].data.ptr)->ready = events[i].events;
}

/* Polls epoll's descriptor, because epoll_wait() counts in milliseconds. */
static void sleep_until_ready(struct delay_proxy *proxy, struct pollfd *polled)
{
    uint64_t now = test_now_ns();
    uint64_t next = next_ns(proxy);
    struct timespec left = test_timespec(next > now ? next - now : 0);

    polled[0] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = proxy->epoll, .events = POLLIN};
    for (size_t i = 0; i < proxy->route_count; i++)
        polled[2 + i] = (struct pollfd){.fd = proxy->routes[i].listener, .events = POLLIN};
    pthread_mutex_unlock(&proxy->lock);
    if (ppoll(polled, 2 + proxy->route_count, next == UINT64_MAX ? NULL : &left, NULL) < 0 && errno != EINTR)
        fixture_fail("ppoll in the delay proxy failed: errno %d", errno);
    pthread_mutex_lock(&proxy->lock);
}

static void turn(struct delay_proxy *proxy, struct pollfd *polled)
{
    sleep_until_ready(proxy, polled);
    if (polled[1].revents != 0)
        gather_ready(proxy);
    if (proxy->done != proxy->asked)
        obey(proxy);
    for (struct link *link = proxy->links; link != NULL; link = link->next)
        serve_link(proxy, link);
    for (size_t i = 0; i < proxy->route_count; i++)
        if (polled[2 + i].revents != 0 && proxy->routes[i].listener >= 0)
            accept_link(proxy, i);
    free_finished(proxy);
    report_done(proxy);
}

static void *run(void *arg)
{
    struct delay_proxy *proxy = arg;
    struct pollfd *polled = fixture_allocate((2 + proxy->route_count) * sizeof(*polled));

    (void)prctl(PR_SET_TIMERSLACK, 1ul); /* by default a wake-up may be 50 us late */
    pthread_mutex_lock(&proxy->lock);
    while (!proxy->quit)
        turn(proxy, polled);
    for (struct link *link = proxy->links; link != NULL; link = link->next)
        break_link(link, false);
    free_finished(proxy);
    pthread_mutex_unlock(&proxy->lock);
    free(polled);
    return NULL;
}

/* --- For tests --- */

static void wake(struct delay_proxy *proxy)
{
    uint64_t one = 1;

    (void)!write(proxy->wake, &one, sizeof(one));
}

static void stop_object(void *proxy)
{
    delay_proxy_stop(proxy);
}

static void prepare_route(struct route *route, const char *host, uint16_t server_port)
{
    snprintf(route->server_host, sizeof(route->server_host), "%s", host);
    route->server_port = server_port;
    route->reservation = socket_reserve_port(false, &route->port);
    route->listener = socket_listen(false, route->port);
    route->address = fixture_text("127.0.0.1:%u", route->port);
}

static char *join_addresses(const struct delay_proxy *proxy)
{
    struct bytes joined = {0};

    for (size_t i = 0; i < proxy->route_count; i++)
        bytes_print(&joined, "%s%s", i > 0 ? "," : "", proxy->routes[i].address);
    bytes_append(&joined, "", 1);
    return joined.data;
}

/* The thread blocks all signals, which belong to the test. */
static void start_thread(struct delay_proxy *proxy)
{
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&proxy->thread, NULL, run, proxy);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        fixture_fail("cannot start a thread: %s", strerror(error));
}

struct delay_proxy *delay_proxy_start(const uint16_t *server_ports, size_t routes)
{
    return delay_proxy_start_to(NULL, server_ports, routes);
}

struct delay_proxy *delay_proxy_start_to(const char *const *hosts, const uint16_t *server_ports, size_t routes)
{
    struct delay_proxy *proxy = fixture_allocate(sizeof(*proxy));

    pthread_mutex_init(&proxy->lock, NULL);
    pthread_cond_init(&proxy->turned, NULL);
    proxy->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (proxy->wake < 0)
        fixture_fail("eventfd: %s", strerror(errno));
    proxy->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (proxy->epoll < 0)
        fixture_fail("epoll_create1: %s", strerror(errno));
    proxy->routes = fixture_allocate(routes * sizeof(proxy->routes[0]));
    proxy->route_count = routes;
    for (size_t i = 0; i < routes; i++)
        prepare_route(&proxy->routes[i], hosts != NULL ? hosts[i] : "127.0.0.1", server_ports[i]);
    proxy->nodes_string = join_addresses(proxy);
    start_thread(proxy);
    fixture_register(proxy, stop_object);
    return proxy;
}

static void free_route(struct route *route)
{
    if (route->listener >= 0)
        close(route->listener);
    close(route->reservation);
    free(route->address);
}

void delay_proxy_stop(struct delay_proxy *proxy)
{
    if (proxy == NULL)
        return;
    fixture_unregister(proxy);
    pthread_mutex_lock(&proxy->lock);
    proxy->quit = true;
    wake(proxy);
    pthread_mutex_unlock(&proxy->lock);
    pthread_join(proxy->thread, NULL);
    for (size_t i = 0; i < proxy->route_count; i++)
        free_route(&proxy->routes[i]);
    close(proxy->epoll);
    close(proxy->wake);
    pthread_mutex_destroy(&proxy->lock);
    pthread_cond_destroy(&proxy->turned);
    free(proxy->routes);
    free(proxy->nodes_string);
    free(proxy);
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
    return proxy->nodes_string;
}

/* Call it with the lock held; it releases the lock. Returns when the thread works with the new settings. */
static void apply(struct delay_proxy *proxy)
{
    uint64_t ticket = ++proxy->asked;

    wake(proxy);
    while (proxy->done < ticket)
        pthread_cond_wait(&proxy->turned, &proxy->lock);
    pthread_mutex_unlock(&proxy->lock);
}

void delay_proxy_set_delay_us(struct delay_proxy *proxy, size_t route, enum proxy_direction direction,
                              uint32_t delay_us)
{
    struct route *changed = route_at(proxy, route);

    pthread_mutex_lock(&proxy->lock);
    for (int i = 0; i < DIRECTIONS; i++)
        if (((unsigned)direction >> i & 1) != 0)
            changed->delay_ns[i] = (uint64_t)delay_us * 1000;
    apply(proxy);
}

static void set_held(struct delay_proxy *proxy, size_t route, enum proxy_direction direction, bool held)
{
    struct route *changed = route_at(proxy, route);

    pthread_mutex_lock(&proxy->lock);
    for (int i = 0; i < DIRECTIONS; i++)
        if (((unsigned)direction >> i & 1) != 0)
            changed->held[i] = held;
    apply(proxy);
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
    (void)route_at(proxy, route);
    pthread_mutex_lock(&proxy->lock);
    for (struct link *link = proxy->links; link != NULL; link = link->next)
        if (link->route == route)
            link->wish = reset ? END_BY_RST : END_BY_FIN;
    apply(proxy);
}

void delay_proxy_refuse(struct delay_proxy *proxy, size_t route, bool refused)
{
    struct route *changed = route_at(proxy, route);

    pthread_mutex_lock(&proxy->lock);
    changed->refused = refused;
    apply(proxy);
}

size_t delay_proxy_connections(struct delay_proxy *proxy, size_t route)
{
    size_t count = 0;

    pthread_mutex_lock(&proxy->lock);
    for (const struct link *link = proxy->links; link != NULL; link = link->next)
        count += link->route == route && !link->broken;
    pthread_mutex_unlock(&proxy->lock);
    return count;
}

uint64_t delay_proxy_bytes(struct delay_proxy *proxy, size_t route, enum proxy_direction direction)
{
    struct route *asked = route_at(proxy, route);
    uint64_t bytes = 0;

    pthread_mutex_lock(&proxy->lock);
    for (int i = 0; i < DIRECTIONS; i++)
        if (((unsigned)direction >> i & 1) != 0)
            bytes += asked->bytes[i];
    pthread_mutex_unlock(&proxy->lock);
    return bytes;
}
