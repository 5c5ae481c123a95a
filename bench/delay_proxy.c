/* Simulates distant servers: DELAY_PROXY PORT:ROUND_TRIP_US... listens once for each, prints its ports in one line,
 * and forwards each piece of data half a round trip after its arrival. Connecting takes no time. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum { ROUTES_MAX = 32, PIPES_MAX = 512, PIECE_SIZE = 16384 };

struct route {
    int listener;
    in_port_t target; /* network order */
    uint64_t delay;   /* ns, one-way */
};

struct piece {
    struct piece *next;
    uint64_t due;
    size_t size; /* 0: the end of the stream */
    char bytes[];
};

/* One direction of a connection. */
struct pipe {
    int from, to;
    uint64_t delay;
    bool ended; /* no more data will be read */
    struct piece *first, *last;
};

static struct route routes[ROUTES_MAX];
static unsigned route_count;
static struct pipe *pipes[PIPES_MAX]; /* the two directions of a connection are adjacent */
static unsigned pipe_count;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "delay proxy: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct sockaddr_in loopback(in_port_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void add_route(const char *argument)
{
    unsigned port;
    unsigned long round_trip;
    if (route_count == ROUTES_MAX || sscanf(argument, "%u:%lu", &port, &round_trip) != 2 || port > 65535) {
        fprintf(stderr, "delay proxy: '%s' is not PORT:ROUND_TRIP_US, or is one too many\n", argument);
        exit(2);
    }
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 128) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        fail("cannot listen");
    routes[route_count++] = (struct route){listener, htons((in_port_t)port), round_trip * 1000 / 2};
    printf("%s%d", route_count > 1 ? " " : "", ntohs(address.sin_port));
}

static void add_pipe(int from, int to, uint64_t delay)
{
    int on = 1;
    struct pipe *pipe = calloc(1, sizeof *pipe);
    if (!pipe || pipe_count == PIPES_MAX)
        fail("too many connections");
    setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pipe->from = from;
    pipe->to = to;
    pipe->delay = delay;
    pipes[pipe_count++] = pipe;
}

static void accept_connection(const struct route *route)
{
    struct sockaddr_in target = loopback(route->target);
    int near = accept4(route->listener, NULL, NULL, SOCK_CLOEXEC);
    if (near < 0)
        return;
    int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (far < 0 || connect(far, (struct sockaddr *)&target, sizeof target) != 0) {
        close(near);
        close(far);
        return;
    }
    add_pipe(near, far, route->delay);
    add_pipe(far, near, route->delay);
}

static void take(struct pipe *pipe)
{
    struct piece *piece = malloc(sizeof *piece + PIECE_SIZE);
    if (!piece)
        fail("no memory");
    ssize_t size = recv(pipe->from, piece->bytes, PIECE_SIZE, 0);
    piece->size = size > 0 ? (size_t)size : 0;
    piece->due = clock_now() + pipe->delay;
    piece->next = NULL;
    pipe->ended = piece->size == 0;
    if (pipe->last)
        pipe->last->next = piece;
    else
        pipe->first = piece;
    pipe->last = piece;
}

/* Returns the time when the next piece is due, or 0. */
static uint64_t pass_on(struct pipe *pipe)
{
    while (pipe->first && pipe->first->due <= clock_now()) {
        struct piece *piece = pipe->first;
        pipe->first = piece->next;
        if (!pipe->first)
            pipe->last = NULL;
        if (piece->size == 0)
            shutdown(pipe->to, SHUT_WR);
        else
            send(pipe->to, piece->bytes, piece->size, MSG_NOSIGNAL); /* errors appear when reading from it */
        free(piece);
    }
    return pipe->first ? pipe->first->due : 0;
}

static bool over(const struct pipe *pipe)
{
    return pipe->ended && !pipe->first;
}

static void drop_finished(void)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < pipe_count; i += 2) {
        if (over(pipes[i]) && over(pipes[i + 1])) {
            close(pipes[i]->from);
            close(pipes[i]->to);
            free(pipes[i]);
            free(pipes[i + 1]);
            continue;
        }
        pipes[kept++] = pipes[i];
        pipes[kept++] = pipes[i + 1];
    }
    pipe_count = kept;
}

static void wait_and_read(uint64_t due)
{
    struct pollfd polled[ROUTES_MAX + PIPES_MAX];
    unsigned known = pipe_count;
    for (unsigned i = 0; i < route_count; i++)
        polled[i] = (struct pollfd){.fd = routes[i].listener, .events = POLLIN};
    for (unsigned i = 0; i < known; i++)
        polled[route_count + i] = (struct pollfd){.fd = pipes[i]->ended ? -1 : pipes[i]->from, .events = POLLIN};
    uint64_t now = clock_now(), wait = due > now ? due - now : 0;
    struct timespec timeout = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
    if (ppoll(polled, route_count + known, due ? &timeout : NULL, NULL) < 0)
        fail("cannot wait");
    for (unsigned i = 0; i < known; i++)
        if (polled[route_count + i].revents)
            take(pipes[i]);
    for (unsigned i = 0; i < route_count; i++)
        if (polled[i].revents)
            accept_connection(&routes[i]);
}

int main(int count, char **arguments)
{
    for (int i = 1; i < count; i++)
        add_route(arguments[i]);
    printf("\n");
    fflush(stdout);
    for (;;) {
        uint64_t nearest = 0;
        for (unsigned i = 0; i < pipe_count; i++) {
            uint64_t due = pass_on(pipes[i]);
            if (due && (!nearest || due < nearest))
                nearest = due;
        }
        drop_finished();
        wait_and_read(nearest);
    }
}
