#include "servers.h"

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STARTS_MAX = 5, LEFT_OVER_WAIT_MS = 500 };

int servers_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        die("no free loopback port");
    close(listener);
    return ntohs(address.sin_port);
}

static const char *server_program(void)
{
    const char *named = getenv("REDLOCK_SERVER_PROGRAM");
    if (named && *named)
        return named;
    bool only_valkey = system("command -v valkey-server >/dev/null && ! command -v redis-server >/dev/null") == 0;
    return only_valkey ? "valkey-server" : "redis-server";
}

static bool answers(int port)
{
    redisContext *connection = redisConnect("127.0.0.1", port);
    redisReply *reply = connection && !connection->err ? redisCommand(connection, "PING") : NULL;
    bool ready = reply && reply->type == REDIS_REPLY_STATUS;
    if (reply)
        freeReplyObject(reply);
    if (connection)
        redisFree(connection);
    return ready;
}

static bool start_one(struct process *process, const char *program, int port)
{
    char port_text[8];
    snprintf(port_text, sizeof port_text, "%d", port);
    const char *arguments[] = {program,  "--port", port_text,      "--bind", "127.0.0.1",
                               "--save", "",       "--appendonly", "no",     NULL};
    process_start(process, arguments, PROCESS_SILENT);
    /* The server does not report that it listens: poll until it replies, or has ended because another process took
     * the port. */
    while (!process_ended(process)) {
        if (answers(port))
            return true;
        usleep(2000);
    }
    return false;
}

void servers_start(struct servers *servers, unsigned count)
{
    const char *program = server_program();
    *servers = (struct servers){.count = count};
    for (unsigned i = 0; i < count; i++) {
        unsigned starts = 0;
        do {
            if (starts++ == STARTS_MAX)
                die("%s does not start; try it by hand: %s --port 0 --save ''", program, program);
            servers->ports[i] = servers_free_port();
        } while (!start_one(&servers->processes[i], program, servers->ports[i]));
    }
}

void servers_end(struct servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++)
        process_kill(&servers->processes[i]);
    servers->count = 0;
}

void servers_kill(struct servers *servers, unsigned count)
{
    servers->unreachable += count;
    for (unsigned i = servers->count - count; i < servers->count; i++)
        process_kill(&servers->processes[i]);
}

void servers_stop(struct servers *servers, unsigned count)
{
    servers->unreachable += count;
    for (unsigned i = servers->count - count; i < servers->count; i++)
        kill(servers->processes[i].pid, SIGSTOP);
}

void servers_restart(struct servers *servers, unsigned number)
{
    process_kill(&servers->processes[number]);
    if (!start_one(&servers->processes[number], server_program(), servers->ports[number]))
        die("127.0.0.1:%d does not start again", servers->ports[number]);
}

const char *ports_list(const int *ports, unsigned count, char *list)
{
    size_t length = 0;
    for (unsigned i = 0; i < count; i++)
        length += (size_t)snprintf(list + length, NODE_LIST_SIZE - length, "%s127.0.0.1:%d", i ? "," : "", ports[i]);
    return list;
}

const char *servers_list(const struct servers *servers, unsigned count, char *list)
{
    return ports_list(servers->ports, count, list);
}

static char last_key[128];

static unsigned long count_keys(int port, const char *pattern)
{
    redisContext *connection = redisConnect("127.0.0.1", port);
    if (!connection || connection->err)
        die("127.0.0.1:%d does not answer any more", port);
    redisReply *reply = redisCommand(connection, "KEYS %s", pattern);
    if (!reply || reply->type != REDIS_REPLY_ARRAY)
        die("127.0.0.1:%d does not list its keys", port);
    unsigned long keys = reply->elements;
    if (keys > 0)
        snprintf(last_key, sizeof last_key, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    redisFree(connection);
    return keys;
}

/* Fencing records are kept deliberately. */
static unsigned long lock_keys(const struct servers *servers, unsigned count)
{
    unsigned long keys = 0;
    for (unsigned i = 0; i < count; i++)
        keys += count_keys(servers->ports[i], "*/00*/*") - count_keys(servers->ports[i], "*/00*/*:redlock:fence");
    return keys;
}

unsigned long servers_left_over(const struct servers *servers)
{
    unsigned count = servers->count - servers->unreachable;
    unsigned long keys = lock_keys(servers, count);
    for (unsigned waited = 0; keys > 0 && waited < LEFT_OVER_WAIT_MS; waited++) {
        usleep(1000);
        keys = lock_keys(servers, count);
    }
    if (keys > 0)
        fprintf(stderr, "bench: %lu keys left over, e.g. %s\n", keys, last_key);
    return keys;
}
