/* The transport of the floor "raw": non-blocking sockets and epoll, neither hiredis nor libev. A command is encoded
 * once, each socket is written once per turn, and a reply is one line. All nodes must be up. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "contender.h"
#include "floor.h"

/* A slow node may fall far behind the majority. */
enum { BUFFER_SIZE = 1 << 24, PENDING_MAX = 1 << 17, COMMAND_MAX = 1024, FOREVER = -1 };

struct node {
    int socket;
    size_t unsent, unread;
    unsigned first, last; /* positions in `pending`, modulo its size */
    struct {
        struct floor_attempt *attempt;
        enum floor_step step;
    } pending[PENDING_MAX];
    char out[BUFFER_SIZE], in[BUFFER_SIZE];
};

static struct node *nodes[FLOOR_NODES_MAX];
static unsigned node_count;
static int epoll = -1;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "raw floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static size_t append_number(char *out, char type, size_t number)
{
    char digits[24];
    size_t count = 0, length = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    out[length++] = type;
    while (count > 0)
        out[length++] = digits[--count];
    out[length++] = '\r';
    out[length++] = '\n';
    return length;
}

static size_t encode(char *out, const struct floor_command *command)
{
    size_t length = append_number(out, '*', (size_t)command->count);
    for (int i = 0; i < command->count; i++) {
        length += append_number(out + length, '$', command->lengths[i]);
        memcpy(out + length, command->words[i], command->lengths[i]);
        length += command->lengths[i];
        memcpy(out + length, "\r\n", 2);
        length += 2;
    }
    return length;
}

unsigned transport_send(struct floor_attempt *attempt, enum floor_step step, const struct floor_command *command)
{
    char bytes[COMMAND_MAX];
    size_t length = encode(bytes, command);
    for (unsigned i = 0; i < node_count; i++) {
        struct node *node = nodes[i];
        if (node->unsent + length > BUFFER_SIZE || node->last - node->first == PENDING_MAX)
            fail("too many locks in flight");
        memcpy(node->out + node->unsent, bytes, length);
        node->unsent += length;
        node->pending[node->last % PENDING_MAX].attempt = attempt;
        node->pending[node->last++ % PENDING_MAX].step = step;
    }
    return node_count;
}

/* If a socket is full, replies are due: the rest follows in a later turn. */
static void flush(struct node *node)
{
    ssize_t sent = send(node->socket, node->out, node->unsent, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN)
        fail("a node is gone");
    if (sent <= 0)
        return;
    node->unsent -= (size_t)sent;
    memmove(node->out, node->out + sent, node->unsent);
}

static void parse(struct node *node)
{
    char *at = node->in, *end = node->in + node->unread, *newline;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        unsigned place = node->first++ % PENDING_MAX;
        long long number = *at == ':' ? at[1] - '0' : 0; /* 0 or 1: keys deleted */
        floor_replied(node->pending[place].attempt, node->pending[place].step, *at, number);
        at = newline + 1;
    }
    node->unread = (size_t)(end - at);
    memmove(node->in, at, node->unread);
}

static void turn(void)
{
    struct epoll_event events[FLOOR_NODES_MAX];
    for (unsigned i = 0; i < node_count; i++)
        if (nodes[i]->unsent > 0)
            flush(nodes[i]);
    int count = epoll_wait(epoll, events, FLOOR_NODES_MAX, FOREVER);
    for (int i = 0; i < count; i++) {
        struct node *node = events[i].data.ptr;
        ssize_t size = recv(node->socket, node->in + node->unread, BUFFER_SIZE - node->unread, 0);
        if (size <= 0)
            fail("a node is gone");
        node->unread += (size_t)size;
        parse(node);
    }
}

void transport_connect(struct ev_loop *loop, const char *host, int port)
{
    int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    struct node *node = nodes[node_count++] = calloc(1, sizeof *node);
    (void)loop;
    if (!node || inet_pton(AF_INET, host, &address.sin_addr) != 1)
        fail("not an IPv4 address, or no memory");
    node->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (node->socket < 0 || connect(node->socket, (struct sockaddr *)&address, sizeof address) != 0)
        fail("cannot connect");
    setsockopt(node->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void load_script(const struct node *node, const char *script)
{
    char bytes[COMMAND_MAX], reply[64] = "";
    struct floor_command command = {0};
    floor_word(&command, "SCRIPT", 6);
    floor_word(&command, "LOAD", 4);
    floor_word(&command, script, strlen(script));
    size_t length = encode(bytes, &command);
    if (send(node->socket, bytes, length, MSG_NOSIGNAL) != (ssize_t)length ||
        recv(node->socket, reply, strlen("$40\r\n") + 42, MSG_WAITALL) < 45 || strncmp(reply, "$40\r\n", 5) != 0)
        fail("a node did not take the script");
    reply[45] = '\0';
    floor_script_loaded(reply + 5);
}

void transport_load(struct ev_loop *loop)
{
    (void)loop;
    epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < node_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = nodes[i]};
        for (unsigned script = 0; script < floor_script_count; script++)
            load_script(nodes[i], floor_script(script));
        if (fcntl(nodes[i]->socket, F_SETFL, O_NONBLOCK) != 0 ||
            epoll_ctl(epoll, EPOLL_CTL_ADD, nodes[i]->socket, &event) != 0)
            fail("cannot wait");
    }
    contender_turn = turn;
}

void transport_close(struct ev_loop *loop)
{
    (void)loop;
    for (unsigned i = 0; i < node_count; i++)
        while (nodes[i]->first != nodes[i]->last)
            turn();
    for (unsigned i = 0; i < node_count; i++) {
        close(nodes[i]->socket);
        free(nodes[i]);
    }
}
