#define _GNU_SOURCE
#include "servers.h"

#include "exit_status.h"
#include "message.h"

#include <redlock/redlock.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { READY_WITHIN_MS = 20000, LOOK_MS = 10, SENTINELS = 3, ADDRESS_SIZE = 96 };

/* The first server of a node is its master. Behind Sentinel the replica and the Sentinels follow. */
enum part { MASTER, REPLICA, FIRST_SENTINEL, PARTS = FIRST_SENTINEL + SENTINELS };

struct server {
    enum part part;
    int configuration; /* of a Sentinel, in memory */
    pid_t pid;
    int port_holder; /* a socket that reserves the port while it is open */
    int log;         /* in memory */
    unsigned port;
};

struct cli_servers {
    unsigned nodes_count, count; /* of nodes, and of their servers */
    struct server server[REDLOCK_NODES_MAX * PARTS];
    char nodes[REDLOCK_NODES_MAX * ADDRESS_SIZE];
    char program[PATH_MAX]; /* valid from any directory */
    int directory;          /* their working directory: already removed, so that no file can be left in it */
};

const char *cli_servers_nodes(const struct cli_servers *servers)
{
    return servers->nodes;
}

/* --- Starting --- */

static int fail(const char *what)
{
    cli_say("%s: %s", what, strerror(errno));
    return CLI_SYSTEM;
}

/* Bound, not listening: the kernel gives the port to no other process, and a server with SO_REUSEADDR may listen on
 * it. */
static bool reserve_port(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int on = 1;

    server->port_holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server->port_holder < 0 || setsockopt(server->port_holder, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(server->port_holder, (struct sockaddr *)&address, size) != 0 ||
        getsockname(server->port_holder, (struct sockaddr *)&address, &size) != 0)
        return false;
    server->port = ntohs(address.sin_port);
    return true;
}

static const char default_program[] = "redis-server";

/* asked: the program named on the command line, or NULL. */
static const char *choose_program(const char *asked)
{
    const char *named = asked != NULL ? asked : getenv("REDLOCK_SERVER_PROGRAM");

    return named != NULL && *named != '\0' ? named : default_program;
}

/* A name like ./redis-server is relative to the directory in which redlock was started. */
static bool find_program(struct cli_servers *servers, const char *named)
{
    char here[PATH_MAX] = "";

    if (named[0] != '/' && strchr(named, '/') != NULL && getcwd(here, sizeof(here)) == NULL)
        return false;
    int length = snprintf(servers->program, sizeof(servers->program), "%s%s%s", here, *here != '\0' ? "/" : "", named);
    errno = ENAMETOOLONG;
    return length < (int)sizeof(servers->program);
}

static void execute(const char *program, const struct server *server, const char *port, const char *master)
{
    char configuration[32];

    snprintf(configuration, sizeof(configuration), "/proc/self/fd/%d", server->configuration);
    if (server->part >= FIRST_SENTINEL)
        execlp(program, program, configuration, "--sentinel", (char *)NULL);
    else if (server->part == REPLICA)
        execlp(program, program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
               "--daemonize", "no", "--loglevel", "notice", "--logfile", "", "--replicaof", "127.0.0.1", master,
               (char *)NULL);
    else
        execlp(program, program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
               "--daemonize", "no", "--loglevel", "notice", "--logfile", "", (char *)NULL);
}

/* In its own session, so that an interrupt at the terminal reaches only the user's command. */
_Noreturn static void become(const struct cli_servers *servers, const struct server *server, pid_t parent)
{
    char port[16], master[16];
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

    snprintf(port, sizeof(port), "%u", server->port);
    snprintf(master, sizeof(master), "%u", server[-(int)server->part].port);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fcntl(server->configuration, F_SETFD, 0); /* a Sentinel reads it again when it is reset */
    if (getppid() == parent && fchdir(servers->directory) == 0 && dup2(nothing, STDIN_FILENO) == STDIN_FILENO &&
        dup2(server->log, STDOUT_FILENO) == STDOUT_FILENO && dup2(server->log, STDERR_FILENO) == STDERR_FILENO)
        execute(servers->program, server, port, master);
    if (errno == ENOENT && strcmp(servers->program, default_program) == 0) {
        execute("valkey-server", server, port, master);
        errno = ENOENT;
    }
    dprintf(server->log, "%s: %s\n", servers->program, strerror(errno));
    _exit(CLI_NOT_FOUND);
}

/* It cannot save what it learns, and goes on without. */
static bool configure(struct server *server, unsigned node)
{
    server->configuration = memfd_create("sentinel.conf", MFD_CLOEXEC);
    return server->configuration >= 0 &&
           dprintf(server->configuration,
                   "port %u\nbind 127.0.0.1\nsentinel monitor m%u 127.0.0.1 %u 2\n"
                   "sentinel down-after-milliseconds m%u 1000\nsentinel failover-timeout m%u 5000\n",
                   server->port, node, server[-(int)server->part].port, node, node) > 0;
}

static bool start(struct cli_servers *servers, struct server *server, unsigned node)
{
    pid_t parent = getpid();

    server->log = memfd_create("log", MFD_CLOEXEC);
    if (server->log < 0 || !reserve_port(server) || (server->part >= FIRST_SENTINEL && !configure(server, node)))
        return false;
    server->pid = fork();
    if (server->pid == 0)
        become(servers, server, parent);
    return server->pid > 0;
}

static void list(struct cli_servers *servers)
{
    size_t length = 0;
    unsigned parts = servers->count / servers->nodes_count;

    for (unsigned i = 0; i < servers->count; i += parts) {
        const struct server *server = &servers->server[i];
        length += (size_t)snprintf(
            servers->nodes + length, sizeof(servers->nodes) - length,
            parts == 1 ? "%s127.0.0.1:%u" : "%ssentinel://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/m%u", i > 0 ? "," : "",
            server[parts == 1 ? 0 : FIRST_SENTINEL].port, server[parts == 1 ? 0 : FIRST_SENTINEL + 1].port,
            server[parts == 1 ? 0 : FIRST_SENTINEL + 2].port, i / parts + 1);
    }
}

static bool start_all(struct cli_servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++)
        if (!start(servers, &servers->server[i], i / (servers->count / servers->nodes_count) + 1))
            return false;
    list(servers);
    return true;
}

static bool make_directory(struct cli_servers *servers)
{
    const char *temporary = getenv("TMPDIR");
    const char *parent = temporary != NULL && *temporary != '\0' ? temporary : "/tmp";
    char path[4096];

    snprintf(path, sizeof(path), "%s/redlock-XXXXXX", parent);
    if (mkdtemp(path) != NULL) {
        servers->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int error = errno; /* of open(), which may fail: the directory is removed in any case */
        if (rmdir(path) == 0 && servers->directory >= 0)
            return true;
        errno = servers->directory < 0 ? error : errno;
    }
    cli_say("cannot create a directory for the servers in %s: %s; set TMPDIR to another directory", parent,
            strerror(errno));
    return false;
}

/* --- Ready --- */

/* The last line that it wrote. */
static void say_last_words(const struct cli_servers *servers, const struct server *server)
{
    char text[4096] = "";
    ssize_t length = pread(server->log, text, sizeof(text) - 1, 0);
    char *end = text + (length > 0 ? length : 0);

    *end = '\0';
    while (end > text && end[-1] == '\n')
        *--end = '\0';
    char *line = strrchr(text, '\n');
    bool is_missing = strstr(text, strerror(ENOENT)) != NULL;
    if (*text == '\0')
        snprintf(text, sizeof(text), "it ended without a message; is it a Redis server?");
    cli_say("%s did not start: %s%s", servers->program, line != NULL ? line + 1 : text,
            is_missing ? "; install it, or choose another with --server" : "");
}

/* A server that has ended; NULL: all are running. */
static struct server *find_dead(struct cli_servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++)
        if (waitpid(servers->server[i].pid, NULL, WNOHANG) == servers->server[i].pid) {
            servers->server[i].pid = 0;
            return &servers->server[i];
        }
    return NULL;
}

static void pause_a_moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
}

/* They are new, so no lock can be held on them: they can be trusted. */
static int trust(struct cli_servers *servers, redlock_client *client)
{
    redlock_result result;
    struct server *dead;

    for (int waited_ms = 0; waited_ms < READY_WITHIN_MS; waited_ms += LOOK_MS) {
        redlock_trust(client, NULL, &result);
        if (result.granted == servers->nodes_count)
            return CLI_OK;
        if ((dead = find_dead(servers)) != NULL)
            return say_last_words(servers, dead), CLI_SYSTEM;
        pause_a_moment();
    }
    cli_say("the servers were not ready after %d s: %s", READY_WITHIN_MS / 1000, redlock_result_text(&result));
    return CLI_SYSTEM;
}

static int await(struct cli_servers *servers)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    redlock_client *client;
    redlock_result result;

    options.backoff_max_ms = LOOK_MS;
    options.node_timeout_ms = 1000;
    if (redlock_connect(servers->nodes, &options, &client, &result) != REDLOCK_OK) {
        cli_say("%s", redlock_result_text(&result));
        return CLI_SYSTEM;
    }
    int status = trust(servers, client);
    redlock_close(&client, NULL, NULL);
    return status;
}

int cli_servers_start(unsigned count, bool sentinels, const char *program, struct cli_servers **servers)
{
    unsigned parts = sentinels ? PARTS : 1;
    struct cli_servers *made = calloc(1, sizeof(*made));
    int status = CLI_OK;

    if (made == NULL)
        return fail("out of memory");
    *made = (struct cli_servers){.directory = -1, .nodes_count = count, .count = count * parts};
    for (unsigned i = 0; i < made->count; i++)
        made->server[i] =
            (struct server){.part = (enum part)(i % parts), .configuration = -1, .port_holder = -1, .log = -1};
    if (!make_directory(made))
        status = CLI_SYSTEM;
    else if (!find_program(made, choose_program(program)) || !start_all(made))
        status = fail("cannot start a server");
    if (status == CLI_OK)
        status = await(made);
    *servers = status == CLI_OK ? made : NULL;
    if (status != CLI_OK)
        cli_servers_end(made);
    return status;
}

/* --- Ending --- */

static void end(struct server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (server->log >= 0)
        close(server->log);
    if (server->configuration >= 0)
        close(server->configuration);
    if (server->port_holder >= 0)
        close(server->port_holder);
}

void cli_servers_end(struct cli_servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++)
        end(&servers->server[i]);
    if (servers->directory >= 0)
        close(servers->directory);
    free(servers);
}
