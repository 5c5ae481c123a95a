#define _GNU_SOURCE
#include "cluster.h"

#include "clock.h"
#include "file.h"
#include "fixture.h"
#include "process.h"
#include "raw_client.h"
#include "sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    START_TIMEOUT_MS = 20000, /* enough for valgrind on a loaded machine */
    COMMAND_TIMEOUT_MS = 20000
};

/* Has all rights, regardless of the test's ACL and without the test's password. A server without ACL has no users. */
#define FIXTURE_USER "fixture"

const char *const cluster_marks[] = {"redlock:*", "{redlock}*", "*:marker", "*:redlock:fence", NULL};

struct node {
    struct bytes command; /* of a shell, which becomes the server */
    char directory[256], log[280];
    char socket_path[280];
    char clock[280]; /* a file with the shift of its clock */
    char *password;  /* of the default user; NULL: none */
    char *address;
    uint16_t port;
    int reservation;
    int bus_reservation; /* of the port of its cluster bus */
    bool cluster_mode;
    uint16_t bus; /* its port for the other servers of the cluster */
    struct process process;
    char *host;                         /* of a server that ran already; NULL: an own one */
    enum { UP, STOPPED, KILLED } state; /* of such a server */
};

struct cluster {
    size_t size;
    struct node *nodes;
    struct temp_dir *dir;
    struct bytes nodes_string;
    struct bytes key_names;
    pid_t owner; /* 0: the servers ran already */
};

/* --- The command line of a server --- */

/* Each word is quoted for the shell. */
static void add_words(struct node *node, const char *const *words)
{
    for (; words != NULL && *words != NULL; words++)
        bytes_print(&node->command, " '%s'", *words);
}

static void add_tls(struct node *node, const struct cluster_tls *tls)
{
    bytes_print(&node->command, " --port %u", tls ? 0u : node->port);
    if (tls)
        bytes_print(
            &node->command,
            " --tls-port %u --tls-cert-file '%s' --tls-key-file '%s' --tls-ca-cert-file '%s' --tls-auth-clients %s",
            node->port, tls->certificate, tls->key, tls->authority, tls->client_certificates ? "yes" : "no");
}

static void add_users(struct node *node, const struct cluster_node_options *options)
{
    const char *channels = server_program_has(SERVER_CHANNEL_ACL) ? " '&*'" : "";
    if (!options->acl) {
        if (server_program_has(SERVER_ACL))
            bytes_print(&node->command, " --user " FIXTURE_USER " on nopass '~*' '+@all'%s", channels);
        return;
    }
    char *path = fixture_text("%s/users.acl", node->directory);
    char *lines =
        fixture_text("user " FIXTURE_USER " on nopass ~* +@all %s\n%s\n", *channels ? "&*" : "", options->acl);
    file_write(path, lines, strlen(lines));
    bytes_print(&node->command, " --aclfile '%s'", path);
    free(lines);
    free(path);
}

static void add_clock(struct node *node)
{
    static const int64_t as_it_is[2];
    file_write(node->clock, as_it_is, sizeof as_it_is);
    bytes_print(&node->command, " env LD_PRELOAD='" SHIFTED_CLOCK_LIBRARY "' SHIFTED_CLOCK='%s'", node->clock);
}

static void add_all(struct node *node, const struct cluster_options *options, const struct cluster_node_options *own)
{
    bytes_print(&node->command, "cd '%s' && exec", node->directory);
    if (own->network != 0)
        bytes_print(&node->command, " nsenter --net=/proc/%ld/ns/net", (long)own->network);
    if (own->own_clock)
        add_clock(node);
    bytes_print(&node->command, " '%s' --bind %s --unixsocket '%s' --daemonize no --save '' --appendonly no",
                server_program(),
                own->host       ? own->host
                : options->ipv6 ? "::1"
                                : "127.0.0.1",
                node->socket_path);
    if (own->host)
        bytes_print(&node->command, " --protected-mode no");
    add_tls(node, own->tls);
    bytes_print(&node->command,
                " --repl-diskless-sync-delay 0"); /* otherwise a failover takes longer than the lock lives */
    if (own->cluster_mode || options->masters > 0) {
        node->bus_reservation = socket_reserve_port(false, &node->bus);
        node->cluster_mode = true;
        bytes_print(&node->command, " --cluster-enabled yes --cluster-port %u", node->bus);
    }
    add_users(node, own);
    if (own->password) {
        bytes_print(&node->command, " --requirepass '%s'", own->password);
        node->password = fixture_text("%s", own->password);
    }
    add_words(node, options->arguments);
    add_words(node, own->arguments);
    bytes_append(&node->command, "", 1);
}

/* --- Start --- */

static void prepare_node(struct cluster *cluster, size_t index, const struct cluster_options *options)
{
    static const struct cluster_node_options ordinary = {0};
    struct node *node = &cluster->nodes[index];
    snprintf(node->directory, sizeof node->directory, "%s/%zu", temp_dir_path(cluster->dir), index);
    snprintf(node->socket_path, sizeof node->socket_path, "%s/redis.sock", node->directory);
    snprintf(node->log, sizeof node->log, "%s/log", node->directory);
    snprintf(node->clock, sizeof node->clock, "%s/clock", node->directory);
    if (mkdir(node->directory, 0700) != 0)
        fixture_fail("cannot make %s: %s", node->directory, strerror(errno));
    node->reservation = socket_reserve_port(options->ipv6, &node->port);
    const struct cluster_node_options *own = options->nodes ? &options->nodes[index] : &ordinary;
    if (options->unix_sockets)
        node->address = fixture_text("unix://%s", node->socket_path);
    else if (own->host)
        node->address = fixture_text("%s:%u", own->host, node->port);
    else
        node->address = fixture_text(options->ipv6 ? "[::1]:%u" : "127.0.0.1:%u", node->port);
    bytes_print(&cluster->nodes_string, "%s%s", index > 0 ? "," : "", node->address);
    add_all(node, options, own);
}

static void launch(struct node *node)
{
    char shell[] = "sh", option[] = "-c";
    char *const argv[] = {shell, option, node->command.data, NULL};
    unlink(node->socket_path);
    process_start(&node->process, argv, node->log);
}

_Noreturn static void give_up(const struct node *node, const char *what)
{
    struct bytes log = {0};
    file_read(node->log, &log);
    fixture_fail("the server on port %u %s; its log:\n%.*s", node->port, what, (int)log.length, log.data);
}

/* Appends the reply as text, or the reason why there is none. */
static bool ask_node(const struct node *node, uint64_t deadline_ns, size_t argc, const struct resp_argument *argv,
                     struct bytes *text)
{
    bool has_user = !node->host && server_program_has(SERVER_ACL);
    const struct raw_client_place place = {.path = node->host ? NULL : node->socket_path,
                                           .host = node->host,
                                           .port = node->port,
                                           .user = has_user ? FIXTURE_USER : NULL,
                                           .password = has_user ? "" : node->password};
    return raw_client_ask(&place, deadline_ns, argc, argv, text);
}

/* A server creates its socket, loads its keys and joins a cluster without notification. */
static void await_reply(struct cluster *cluster, size_t index, const char *first, const char *second, const char *text)
{
    const struct node *node = &cluster->nodes[index];
    uint64_t deadline = test_deadline_ns(START_TIMEOUT_MS);
    char reply[8192];
    while (!cluster_command(cluster, index, reply, sizeof reply, first, second, NULL) || !strstr(reply, text)) {
        if (test_ms_left(deadline) == 0)
            give_up(node, text);
        if (!node->host && !process_running(&node->process))
            give_up(node, "ended at once");
        poll(NULL, 0, 2);
    }
}

/* The part of the slots with this number, from 0. */
static void take_slots(struct cluster *cluster, size_t node, size_t part, size_t parts)
{
    char first[24], last[24], epoch[24];
    snprintf(first, sizeof first, "%zu", part * 16384 / parts);
    snprintf(last, sizeof last, "%zu", (part + 1) * 16384 / parts - 1);
    snprintf(epoch, sizeof epoch, "%zu", part + 1);
    cluster_command(cluster, node, NULL, 0, "CLUSTER", "ADDSLOTSRANGE", first, last, NULL);
    cluster_command(cluster, node, NULL, 0, "CLUSTER", "SET-CONFIG-EPOCH", epoch, NULL);
}

static void meet(struct cluster *cluster, size_t node, size_t other)
{
    const struct node *met = &cluster->nodes[other];
    char host[64], port[8], bus[8];
    snprintf(host, sizeof host, "%.*s", (int)(strrchr(met->address, ':') - met->address), met->address);
    snprintf(port, sizeof port, "%u", met->port);
    snprintf(bus, sizeof bus, "%u", met->bus);
    cluster_command(cluster, node, NULL, 0, "CLUSTER", "MEET", host, port, bus, NULL);
}

static void join(struct cluster *cluster, size_t masters)
{
    char id[64], known[64];
    snprintf(known, sizeof known, "cluster_known_nodes:%zu", cluster->size);
    for (size_t i = 0; i < masters; i++)
        take_slots(cluster, i, i, masters);
    for (size_t i = 0; i < cluster->size; i++)
        for (size_t j = 0; j < i; j++)
            meet(cluster, i, j);
    for (size_t i = 0; i < cluster->size; i++)
        await_reply(cluster, i, "CLUSTER", "INFO", known);
    for (size_t i = 0; i < cluster->size; i++)
        await_reply(cluster, i, "CLUSTER", "INFO", "cluster_state:ok");
    for (size_t i = masters; i < cluster->size; i++) {
        cluster_command(cluster, i % masters, id, sizeof id, "CLUSTER", "MYID", NULL);
        cluster_command(cluster, i, NULL, 0, "CLUSTER", "REPLICATE", id, NULL);
        await_reply(cluster, i, "INFO", "replication", "master_link_status:up");
        await_reply(cluster, i % masters, "INFO", "replication", "state=online");
    }
}

static void destroy_object(void *cluster)
{
    cluster_destroy(cluster);
}

struct cluster *cluster_create(size_t nodes, const struct cluster_options *options)
{
    static const struct cluster_options ordinary = {0};
    struct cluster *cluster = fixture_allocate(sizeof *cluster);
    cluster->size = nodes;
    cluster->nodes = fixture_allocate(nodes * sizeof *cluster->nodes);
    cluster->dir = temp_dir_make();
    cluster->owner = getpid();
    for (size_t i = 0; i < nodes; i++)
        prepare_node(cluster, i, options != NULL ? options : &ordinary);
    fixture_register(cluster, destroy_object);
    for (size_t i = 0; i < nodes; i++)
        launch(&cluster->nodes[i]);
    for (size_t i = 0; i < nodes; i++)
        await_reply(cluster, i, "PING", NULL, "PONG");
    if (options != NULL && options->masters > 0)
        join(cluster, options->masters);
    for (size_t i = 0; i < nodes && (options == NULL || options->masters == 0); i++)
        if (cluster->nodes[i].cluster_mode) {
            take_slots(cluster, i, 0, 1);
            await_reply(cluster, i, "CLUSTER", "INFO", "cluster_state:ok");
        }
    return cluster;
}

struct cluster *cluster_adopt(const char *nodes)
{
    struct cluster *cluster = fixture_allocate(sizeof *cluster);
    char *list = fixture_text("%s", nodes), *rest = list, *address;
    char host[128];
    while ((address = strsep(&rest, ","))) {
        cluster->nodes = fixture_reallocate(cluster->nodes, (cluster->size + 1) * sizeof *cluster->nodes);
        struct node *node = &cluster->nodes[cluster->size++];
        *node = (struct node){.address = fixture_text("%s", address), .reservation = -1};
        if (sscanf(address, "%127[^:]:%hu", host, &node->port) != 2)
            fixture_fail("'%s' is not host:port", address);
        node->host = fixture_text("%s", host);
    }
    free(list);
    bytes_print(&cluster->nodes_string, "%s", nodes);
    fixture_register(cluster, destroy_object);
    return cluster;
}

void cluster_destroy(struct cluster *cluster)
{
    fixture_unregister(cluster);
    for (size_t i = 0; i < cluster->size; i++)
        process_signal(&cluster->nodes[i].process, SIGKILL);
    for (size_t i = 0; i < cluster->size; i++) {
        struct node *node = &cluster->nodes[i];
        process_kill(&node->process);
        bytes_free(&node->command);
        free(node->password);
        free(node->address);
        free(node->host);
        if (node->reservation >= 0)
            close(node->reservation);
        if (node->cluster_mode)
            close(node->bus_reservation);
    }
    temp_dir_remove(cluster->dir);
    bytes_free(&cluster->key_names);
    bytes_free(&cluster->nodes_string);
    free(cluster->nodes);
    free(cluster);
}

/* --- Addresses --- */

static struct node *node_at(const struct cluster *cluster, size_t node)
{
    if (node >= cluster->size)
        fixture_fail("node %zu asked of a cluster of %zu, numbered from 0", node, cluster->size);
    return &cluster->nodes[node];
}

size_t cluster_size(const struct cluster *cluster)
{
    return cluster->size;
}

const char *cluster_nodes_string(const struct cluster *cluster)
{
    return cluster->nodes_string.data;
}

const char *cluster_address(const struct cluster *cluster, size_t node)
{
    return node_at(cluster, node)->address;
}

uint16_t cluster_port(const struct cluster *cluster, size_t node)
{
    return node_at(cluster, node)->port;
}

const char *cluster_socket_path(const struct cluster *cluster, size_t node)
{
    return node_at(cluster, node)->socket_path;
}

/* --- Faults --- */

static void assert_owner(const struct cluster *cluster)
{
    if (cluster->owner > 0 && cluster->owner != getpid())
        fixture_fail("only the process that made a cluster may kill or start its servers: use a checked fixture");
}

/* For a server that ran already. */
static void control(struct node *node, size_t number, const char *action, unsigned state)
{
    char *command = fixture_text("%s %s %zu >/dev/null", getenv("REDLOCK_NODE_CONTROL"), action, number + 1);
    if (system(command) != 0)
        fixture_fail("REDLOCK_NODE_CONTROL failed: %s", command);
    free(command);
    node->state = state;
}

void cluster_kill(struct cluster *cluster, size_t node)
{
    struct node *killed = node_at(cluster, node);
    assert_owner(cluster);
    if (killed->host)
        control(killed, node, "kill", KILLED);
    process_kill(&killed->process);
}

void cluster_start(struct cluster *cluster, size_t node)
{
    struct node *started = node_at(cluster, node);
    assert_owner(cluster);
    if (started->host) {
        control(started, node, "start", UP);
    } else {
        if (process_running(&started->process))
            fixture_fail("node %zu is to be started but runs already", node);
        process_kill(&started->process);
        launch(started);
    }
    await_reply(cluster, node, "PING", NULL, "PONG");
}

void cluster_restart(struct cluster *cluster, size_t node)
{
    cluster_kill(cluster, node);
    cluster_start(cluster, node);
}

/* `action` and `state` are for a server that ran already. */
static void signal_node(struct cluster *cluster, size_t index, int number, const char *action, unsigned state)
{
    struct node *node = node_at(cluster, index);
    process_signal(&node->process, number);
    if (node->host)
        control(node, index, action, state);
}

void cluster_stop(struct cluster *cluster, size_t node)
{
    signal_node(cluster, node, SIGSTOP, "pause", STOPPED);
}

void cluster_resume(struct cluster *cluster, size_t node)
{
    signal_node(cluster, node, SIGCONT, "unpause", UP);
}

void cluster_resume_all(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->size; i++)
        cluster_resume(cluster, i);
}

void cluster_repair(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->size; i++) {
        const struct node *node = &cluster->nodes[i];
        if (node->host ? node->state == KILLED : !process_running(&node->process))
            cluster_start(cluster, i);
        else if (!node->host || node->state == STOPPED)
            cluster_resume(cluster, i);
    }
}

static void set_clock(struct cluster *cluster, size_t node, int64_t shift_us, int64_t held_us)
{
    const int64_t microseconds[] = {shift_us, held_us}; /* in the order in which shifted_clock.c reads them */
    int file = open(node_at(cluster, node)->clock, O_WRONLY | O_CLOEXEC);
    if (file < 0 || pwrite(file, microseconds, sizeof microseconds, 0) != sizeof microseconds)
        fixture_fail("cannot set the clock of node %zu, which needs own_clock: %s", node, strerror(errno));
    close(file);
}

void cluster_shift_clock(struct cluster *cluster, size_t node, int64_t shift_us)
{
    set_clock(cluster, node, shift_us, 0);
}

void cluster_hold_clock(struct cluster *cluster, size_t node, int64_t time_us)
{
    set_clock(cluster, node, 0, time_us);
}

void cluster_set_password(struct cluster *cluster, size_t node, const char *password)
{
    struct node *protected = node_at(cluster, node);
    char reply[256];
    if (!cluster_command(cluster, node, reply, sizeof reply, "CONFIG", "SET", "requirepass", password, NULL) ||
        strcmp(reply, "OK") != 0)
        fixture_fail("CONFIG SET requirepass on node %zu: %s", node, reply);
    free(protected->password);
    protected->password = fixture_text("%s", password);
}

void cluster_flush(struct cluster *cluster, size_t node)
{
    char reply[256];
    if (!cluster_command(cluster, node, reply, sizeof reply, "FLUSHALL", NULL) || strcmp(reply, "OK") != 0)
        fixture_fail("FLUSHALL on node %zu: %s", node, reply);
}

/* --- Requests to a node --- */

static bool command_words(struct cluster *cluster, size_t node, struct bytes *text, va_list words)
{
    struct resp_argument argv[RESP_MOST_WORDS];
    size_t argc = resp_words(argv, words);
    bool answered = ask_node(node_at(cluster, node), test_deadline_ns(COMMAND_TIMEOUT_MS), argc, argv, text);
    bytes_append(text, "", 1);
    return answered;
}

bool cluster_vcommand(struct cluster *cluster, size_t node, char *reply, size_t size, va_list words)
{
    struct bytes text = {0};
    bool answered = command_words(cluster, node, &text, words);
    if (reply)
        snprintf(reply, size, "%s", text.data);
    bytes_free(&text);
    return answered;
}

bool cluster_command(struct cluster *cluster, size_t node, char *reply, size_t size, ...)
{
    va_list words;
    va_start(words, size);
    bool answered = cluster_vcommand(cluster, node, reply, size, words);
    va_end(words);
    return answered;
}

long long cluster_integer(struct cluster *cluster, size_t node, ...)
{
    struct bytes text = {0};
    char *end;
    va_list words;
    va_start(words, node);
    bool answered = command_words(cluster, node, &text, words);
    va_end(words);
    long long number = strtoll(text.data, &end, 10);
    if (!answered || end == text.data || *end != '\0')
        fixture_fail("node %zu did not answer with an integer but \"%s\"", node, text.data);
    bytes_free(&text);
    return number;
}

/* --- Keys --- */

static bool answering(const struct node *node)
{
    return node->host ? node->state == UP : process_running(&node->process) && !process_stopped(&node->process);
}

size_t cluster_keys_left(struct cluster *cluster, const char *const *except)
{
    struct bytes *names = &cluster->key_names;
    size_t count = 0;
    names->length = 0;
    for (size_t i = 0; i < cluster->size; i++) {
        const struct resp_argument argv[] = {resp_argument_of("KEYS"),
                                             resp_argument_of(cluster->owner ? "*" : CLUSTER_PREFIX "*")};
        struct bytes reply = {0};
        if (!answering(&cluster->nodes[i]))
            continue;
        bool answered = ask_node(&cluster->nodes[i], test_deadline_ns(COMMAND_TIMEOUT_MS), 2, argv, &reply);
        bytes_append(&reply, "", 1);
        if (!answered || strncmp(reply.data, "-ERR", 4) == 0)
            fixture_fail("KEYS on node %zu: %s", i, reply.data);
        bytes_print(names, "%zu:", i);
        for (char *rest = reply.data, *name; (name = strsep(&rest, "\n"));)
            if (*name != '\0' && !resp_matches_any(name, except)) {
                bytes_print(names, " %s", name);
                count++;
            }
        bytes_print(names, "; ");
        bytes_free(&reply);
    }
    bytes_append(names, "", 1);
    return count;
}

const char *cluster_key_names(struct cluster *cluster, const char *const *except)
{
    cluster_keys_left(cluster, except);
    return cluster->key_names.data;
}

void cluster_remove_keys(struct cluster *cluster)
{
    static const char script[] = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end";
    for (size_t i = 0; i < cluster->size; i++)
        if (!cluster->owner)
            cluster_command(cluster, i, NULL, 0, "EVAL", script, "0", CLUSTER_PREFIX "*", NULL);
        else if (answering(&cluster->nodes[i]))
            cluster_flush(cluster, i);
}

/* --- The program of the servers --- */

enum { VALKEY = 702, UNKNOWN = 0 };

/* The first line that the command prints; empty: it prints none. */
static void read_line(const char *command, char *line, size_t size)
{
    FILE *output = popen(command, "re");
    if (!output || !fgets(line, (int)size, output))
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (output)
        pclose(output);
}

const char *server_program(void)
{
    static char found[256];
    const char *named = getenv("REDLOCK_SERVER_PROGRAM");
    if (named && *named != '\0')
        return named;
    if (!found[0])
        read_line("command -v redis-server || command -v valkey-server || echo redis-server", found, sizeof found);
    return found;
}

/* "Redis server v=6.0.20 sha=..." becomes 600. */
static int read_version(const char *text)
{
    unsigned major, minor;
    if (strncmp(text, "Valkey", 6) == 0)
        return VALKEY;
    const char *version = strstr(text, " v=");
    return version != NULL && sscanf(version, " v=%u.%u", &major, &minor) == 2 ? (int)(major * 100 + minor) : UNKNOWN;
}

static int version(void)
{
    static int known = UNKNOWN;
    char line[256];
    if (known != UNKNOWN)
        return known;
    char *command = fixture_text("'%s' --version 2>/dev/null", server_program());
    read_line(command, line, sizeof line);
    known = read_version(line);
    free(command);
    return known;
}

bool server_program_available(void)
{
    return version() != UNKNOWN;
}

bool server_program_has(enum server_feature feature)
{
    return version() >= (int)feature;
}

const char *server_program_missing(void)
{
    return "there is no redis-server or valkey-server; install one, or name it in REDLOCK_SERVER_PROGRAM";
}
