/* redlock local: runs temporary servers on free ports of 127.0.0.1 while a command runs. */
#include "child.h"
#include "command.h"
#include "message.h"

#include <redlock/redlock.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Each node is one server, or a master with a replica behind three Sentinels, or a Redis Cluster of three masters. */
enum kind { PLAIN, SENTINEL, CLUSTER };

static struct {
    struct cli_number count;
    const char *program; /* NULL: the default */
    bool sentinel, cluster;
} given = {.count = {5, 1, REDLOCK_NODES_MAX}};

enum { READY_WITHIN_MS = 20000, GONE_WITHIN_MS = 5000, LOOK_MS = 10, LOOK_US = 1000 * LOOK_MS, ADDRESS_SIZE = 96 };

/* The parts of a node. The first server is its master. Behind Sentinel a replica and the Sentinels follow; in a cluster
 * two other masters and a replica of the first, which has the slot of {redlock}. */
enum { REPLICA = 1, FIRST_SENTINEL = 2, SENTINELS = 3, SENTINEL_PARTS = 5, CLUSTER_MASTERS = 3, CLUSTER_PARTS = 4 };

static const unsigned parts_of[] = {1, SENTINEL_PARTS, CLUSTER_PARTS};

/* The servers of a cluster talk to each other on a port this much above the other one. */
enum { BUS_ABOVE = 10000, PORT_ATTEMPTS = 1000 };

struct server {
    unsigned part;
    int configuration; /* of a Sentinel, in memory */
    pid_t pid;
    int port_holder, bus_holder; /* sockets that reserve the ports while they are open */
    int log;                     /* in memory */
    unsigned port;
};

struct servers {
    enum kind kind;
    unsigned nodes_count, count; /* of nodes, and of their servers */
    struct server server[REDLOCK_NODES_MAX * SENTINEL_PARTS];
    char nodes[REDLOCK_NODES_MAX * ADDRESS_SIZE];
    char program[PATH_MAX]; /* valid from any directory */
    /* Their working directory: already removed, so that no file can be left in it; but not if they are clusters, which
     * write their nodes.conf anew. */
    int directory;
    char path[PATH_MAX + 32];   /* of the directory */
    char config[PATH_MAX + 64]; /* the file that clients of clusters need; "/dev/null": none */
    pid_t sweeper;              /* a process that removes the directory when `alive` is closed; 0: none */
    int alive;                  /* a pipe's end that no other process has */
    uint64_t random;            /* part of the names of a cluster's servers */
};

/* --- Starting --- */

static int fail(const char *what)
{
    return cli_fail(CLI_SYSTEM, "%s: %s", what, strerror(errno));
}

/* A socket that is bound, not listening: the kernel gives the port to no other process, and a server with SO_REUSEADDR
 * may listen on it. *port 0: any, which it then is. -1: errno says why not. */
static int hold_port(unsigned *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)*port)};
    socklen_t size = sizeof(address);
    int on = 1;
    int holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (holder < 0)
        return -1;
    if (setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(holder, (struct sockaddr *)&address, size) != 0 ||
        getsockname(holder, (struct sockaddr *)&address, &size) != 0) {
        int error = errno;
        close(holder);
        errno = error;
        return -1;
    }
    *port = ntohs(address.sin_port);
    return holder;
}

static bool reserve_port(struct server *server, bool with_bus)
{
    for (int attempt = 0; attempt < PORT_ATTEMPTS; attempt++) {
        server->port = 0;
        server->port_holder = hold_port(&server->port);
        if (server->port_holder < 0 || !with_bus)
            return server->port_holder >= 0;
        unsigned bus = server->port + BUS_ABOVE;
        if (bus <= UINT16_MAX && (server->bus_holder = hold_port(&bus)) >= 0)
            return true;
        close(server->port_holder);
        server->port_holder = -1;
    }
    errno = EADDRINUSE;
    return false;
}

static const char default_program[] = "redis-server";

/* A name like ./redis-server is relative to the directory in which redlock was started. */
static bool find_program(struct servers *servers)
{
    const char *named = given.program != NULL ? given.program : getenv("REDLOCK_SERVER_PROGRAM");
    char here[PATH_MAX] = "";

    if (named == NULL || *named == '\0')
        named = default_program;
    if (named[0] != '/' && strchr(named, '/') != NULL && getcwd(here, sizeof(here)) == NULL)
        return false;
    int length = snprintf(servers->program, sizeof(servers->program), "%s%s%s", here, *here != '\0' ? "/" : "", named);
    errno = ENAMETOOLONG;
    return length < (int)sizeof(servers->program);
}

static bool is_sentinel(const struct servers *servers, const struct server *server)
{
    return servers->kind == SENTINEL && server->part >= FIRST_SENTINEL;
}

static void execute(const char *program, const struct servers *servers, const struct server *server)
{
    char port[16], master[16], configuration[32], nodes_conf[32];
    const char *more[7] = {NULL};

    snprintf(port, sizeof(port), "%u", server->port);
    snprintf(master, sizeof(master), "%u", server[-(int)server->part].port);
    snprintf(configuration, sizeof(configuration), "/proc/self/fd/%d", server->configuration);
    snprintf(nodes_conf, sizeof(nodes_conf), "%u.conf", server->port);
    if (is_sentinel(servers, server)) {
        execlp(program, program, configuration, "--sentinel", (char *)NULL);
        return;
    }
    if (servers->kind == SENTINEL) /* there is no directory for a file with the data */
        memcpy(more,
               (const char *[]){"--repl-diskless-sync", "yes", "--repl-diskless-load", "swapdb",
                                server->part == REPLICA ? "--replicaof" : NULL, "127.0.0.1", master},
               7 * sizeof(*more));
    if (servers->kind == CLUSTER)
        memcpy(more,
               (const char *[]){"--cluster-enabled", "yes", "--cluster-config-file", nodes_conf,
                                "--cluster-node-timeout", "2000"},
               6 * sizeof(*more));
    execlp(program, program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize",
           "no", "--loglevel", "notice", "--logfile", "", "--repl-diskless-sync-delay", "0", more[0], more[1], more[2],
           more[3], more[4], more[5], more[6], (char *)NULL);
}

/* In its own session, so that an interrupt at the terminal reaches only the user's command. */
_Noreturn static void become(const struct servers *servers, const struct server *server, pid_t parent)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fcntl(server->configuration, F_SETFD, 0); /* a Sentinel reads it again when it is reset */
    if (getppid() == parent && fchdir(servers->directory) == 0 && dup2(nothing, STDIN_FILENO) == STDIN_FILENO &&
        dup2(server->log, STDOUT_FILENO) == STDOUT_FILENO && dup2(server->log, STDERR_FILENO) == STDERR_FILENO)
        execute(servers->program, servers, server);
    if (errno == ENOENT && strcmp(servers->program, default_program) == 0) {
        execute("valkey-server", servers, server);
        errno = ENOENT;
    }
    dprintf(server->log, "%s: %s\n", servers->program, strerror(errno));
    _exit(CLI_NOT_FOUND);
}

/* It cannot save what it learns, and goes on without. */
static bool configure_sentinel(struct server *server, unsigned node)
{
    server->configuration = memfd_create("sentinel.conf", MFD_CLOEXEC);
    return server->configuration >= 0 &&
           dprintf(server->configuration,
                   "port %u\nbind 127.0.0.1\nsentinel monitor m%u 127.0.0.1 %u 2\n"
                   "sentinel down-after-milliseconds m%u 1000\nsentinel failover-timeout m%u 5000\n",
                   server->port, node, server[-(int)server->part].port, node, node) > 0;
}

/* A new file in the directory; -1: errno says why not. */
static int create_file(const struct servers *servers, const char *name)
{
    return openat(servers->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
}

/* nodes.conf as the servers of a cluster write it when they have found each other: they need not be introduced. */
static bool configure_member(const struct servers *servers, const struct server *server)
{
    static const char *const slots[CLUSTER_PARTS] = {" 0-5460", " 5461-10922", " 10923-16383", ""};
    const struct server *first = server - server->part;
    char name[32], master[64];

    snprintf(name, sizeof(name), "%u.conf", server->port);
    snprintf(master, sizeof(master), "%016" PRIx64 "%024x", servers->random, first->port);
    int file = create_file(servers, name);
    bool done = file >= 0 && dprintf(file, "vars currentEpoch %d lastVoteEpoch 0\n", CLUSTER_MASTERS) > 0;
    for (unsigned i = 0; done && i < CLUSTER_PARTS; i++) {
        bool is_master = i < CLUSTER_MASTERS;
        done = dprintf(file, "%016" PRIx64 "%024x 127.0.0.1:%u@%u %s%s %s 0 0 %u connected%s\n", servers->random,
                       first[i].port, first[i].port, first[i].port + BUS_ABOVE, i == server->part ? "myself," : "",
                       is_master ? "master" : "slave", is_master ? "-" : master, is_master ? i + 1 : 1, slots[i]) > 0;
    }
    if (file >= 0)
        close(file);
    return done;
}

static bool start(struct servers *servers, struct server *server, unsigned node)
{
    pid_t parent = getpid();

    if ((is_sentinel(servers, server) && !configure_sentinel(server, node)) ||
        (servers->kind == CLUSTER && !configure_member(servers, server)))
        return false;
    server->pid = fork();
    if (server->pid == 0)
        become(servers, server, parent);
    return server->pid > 0;
}

static void list(struct servers *servers)
{
    static const unsigned first[] = {0, FIRST_SENTINEL, 0};
    static const char *const scheme[] = {"", "sentinel://", "cluster://"};
    unsigned parts = parts_of[servers->kind];
    char *end = servers->nodes;

    for (unsigned i = 0; i < servers->count; i++) {
        unsigned part = i % parts;
        if (part >= first[servers->kind])
            end += sprintf(end, "%s%s127.0.0.1:%u", i > first[servers->kind] ? "," : "",
                           part == first[servers->kind] ? scheme[servers->kind] : "", servers->server[i].port);
        if (servers->kind == SENTINEL && part == parts - 1)
            end += sprintf(end, "/m%u", i / parts + 1);
    }
}

static bool prepare_all(struct servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++) {
        struct server *server = &servers->server[i];
        server->log = memfd_create("log", MFD_CLOEXEC);
        if (server->log < 0 || !reserve_port(server, servers->kind == CLUSTER))
            return false;
    }
    list(servers);
    return true;
}

/* The Sentinels, or all others. */
static bool start_all(struct servers *servers, bool sentinels)
{
    for (unsigned i = 0; i < servers->count; i++)
        if (is_sentinel(servers, &servers->server[i]) == sentinels &&
            !start(servers, &servers->server[i], i / parts_of[servers->kind] + 1))
            return false;
    return true;
}

/* --- Their directory --- */

static void remove_files(const char *path)
{
    DIR *directory = opendir(path);

    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory != NULL)
        closedir(directory);
}

/* The servers of a process that was killed die with it, but may have written one more file. */
static void remove_directory(const char *path)
{
    for (int waited_ms = 0; waited_ms < GONE_WITHIN_MS; waited_ms += LOOK_MS) {
        remove_files(path);
        if (rmdir(path) == 0 || (errno != ENOTEMPTY && errno != EEXIST))
            return;
        usleep(LOOK_US);
    }
}

/* In its own session, as the servers. It has nobody's terminal or pipe open. */
_Noreturn static void sweep(const char *path, int alive)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    char byte;

    setsid();
    for (int standard = STDIN_FILENO; standard <= STDERR_FILENO; standard++)
        dup2(nothing, standard);
    (void)!read(alive, &byte, 1); /* no handler of a signal interrupts it */
    remove_directory(path);
    _exit(CLI_OK);
}

static bool start_sweeper(struct servers *servers)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    servers->sweeper = fork();
    if (servers->sweeper == 0) {
        close(ends[1]);
        sweep(servers->path, ends[0]);
    }
    close(ends[0]);
    servers->alive = ends[1];
    return servers->sweeper > 0;
}

/* What clients of clusters need: a tag, so that all keys are in one slot. */
static const char prefix[] = "{redlock}:", marker_key[] = "{redlock}:marker";

static bool furnish(struct servers *servers)
{
    if (getrandom(&servers->random, sizeof(servers->random), 0) != sizeof(servers->random) || !start_sweeper(servers))
        return false;
    snprintf(servers->config, sizeof(servers->config), "%s/redlock.conf", servers->path);
    int file = create_file(servers, "redlock.conf");
    bool done = file >= 0 && dprintf(file, "prefix = %s\nmarker-key = %s\n", prefix, marker_key) > 0;
    if (file >= 0)
        close(file);
    return done;
}

static bool make_directory(struct servers *servers)
{
    const char *temporary = getenv("TMPDIR");
    const char *parent = temporary != NULL && *temporary != '\0' ? temporary : "/tmp";
    char whole[PATH_MAX];

    if (realpath(parent, whole) != NULL) {
        snprintf(servers->path, sizeof(servers->path), "%s/redlock-XXXXXX", whole);
        if (mkdtemp(servers->path) != NULL) {
            servers->directory = open(servers->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            bool is_kept = servers->kind == CLUSTER && servers->directory >= 0 && furnish(servers);
            int error = errno; /* of what may fail: the directory is removed in any case */
            if (is_kept)
                return true;
            if (servers->kind != CLUSTER && rmdir(servers->path) == 0 && servers->directory >= 0)
                return true;
            remove_directory(servers->path);
            errno = error;
        }
    }
    cli_say("cannot create a directory for the servers in %s: %s; set TMPDIR to another directory", parent,
            strerror(errno));
    return false;
}

/* --- Ready --- */

/* The last line that it wrote. */
static void say_last_words(const struct servers *servers, const struct server *server)
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
static struct server *find_dead(struct servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++)
        if (servers->server[i].pid > 0 && waitpid(servers->server[i].pid, NULL, WNOHANG) == servers->server[i].pid) {
            servers->server[i].pid = 0;
            return &servers->server[i];
        }
    return NULL;
}

static bool log_has(const struct server *server, const char *text, unsigned times)
{
    char log[16384];
    ssize_t length = pread(server->log, log, sizeof(log) - 1, 0);
    const char *at = log;

    log[length > 0 ? length : 0] = '\0';
    while (times > 0 && (at = strstr(at, text)) != NULL) {
        at += strlen(text);
        times--;
    }
    return times == 0;
}

/* A Sentinel hears of a replica from its master, every ten seconds: the replica is there before the first time. It fails
 * nothing over before it knows the replica and the other Sentinels. */
static bool is_joined(const struct servers *servers, const struct server *server)
{
    if (servers->kind != SENTINEL || server->part < REPLICA || server->pid <= 0)
        return true;
    if (server->part == REPLICA)
        return log_has(server, " sync: Finished with success", 1);
    return log_has(server, " +slave slave ", 1) && log_has(server, " +sentinel sentinel ", SENTINELS - 1);
}

static bool are_joined(const struct servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++)
        if (!is_joined(servers, &servers->server[i]))
            return false;
    return true;
}

/* Until those that were started know each other and, with a client, are trusted: they are new, so no lock can be held on
 * them. */
static int await_all(struct servers *servers, redlock_client *client)
{
    redlock_result result;
    struct server *dead;
    bool trusted = client == NULL;

    for (int waited_ms = 0; waited_ms < READY_WITHIN_MS; waited_ms += LOOK_MS) {
        if (!trusted) {
            redlock_trust(client, NULL, &result);
            trusted = result.granted == servers->nodes_count;
        }
        if (trusted && are_joined(servers))
            return CLI_OK;
        if ((dead = find_dead(servers)) != NULL)
            return say_last_words(servers, dead), CLI_SYSTEM;
        usleep(LOOK_US);
    }
    return cli_fail(CLI_SYSTEM, "the servers were not ready after %d s: %s", READY_WITHIN_MS / 1000,
                    trusted ? "a replica or the Sentinels did not find the others" : redlock_result_text(&result));
}

static int await(struct servers *servers)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    redlock_client *client;
    redlock_result result;

    options.backoff_max_ms = LOOK_MS;
    options.node_timeout_ms = 1000;
    if (servers->kind == CLUSTER) {
        options.prefix = prefix;
        options.marker_key = marker_key;
    }
    if (redlock_connect(servers->nodes, &options, &client, &result) != REDLOCK_OK)
        return cli_fail(CLI_SYSTEM, "%s", redlock_result_text(&result));
    int status = await_all(servers, client);
    redlock_close(&client, NULL, NULL);
    return status;
}

/* CLI_OK, or the exit status after a message; then some may run. */
static int start_servers(struct servers *servers, enum kind kind)
{
    unsigned parts = parts_of[kind];
    unsigned nodes_count = (unsigned)given.count.value;

    *servers = (struct servers){.kind = kind,
                                .directory = -1,
                                .alive = -1,
                                .config = "/dev/null",
                                .nodes_count = nodes_count,
                                .count = nodes_count * parts};
    for (unsigned i = 0; i < servers->count; i++)
        servers->server[i] =
            (struct server){.part = i % parts, .configuration = -1, .port_holder = -1, .bus_holder = -1, .log = -1};
    if (!make_directory(servers))
        return CLI_SYSTEM;
    if (!find_program(servers) || !prepare_all(servers) || !start_all(servers, false))
        return fail("cannot start a server");
    int status = await_all(servers, NULL);
    if (status == CLI_OK && !start_all(servers, true))
        status = fail("cannot start a server");
    return status == CLI_OK ? await(servers) : status;
}

/* --- Ending --- */

/* No signal interrupts it: each handler has SA_RESTART. */
static void await_end(pid_t pid, int *status)
{
    if (pid > 0)
        waitpid(pid, status, 0);
}

static void end(struct server *server)
{
    if (server->pid > 0)
        kill(server->pid, SIGKILL);
    await_end(server->pid, NULL);
    close(server->log);
    close(server->configuration);
    close(server->port_holder);
    close(server->bus_holder);
}

static void end_servers(struct servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++)
        end(&servers->server[i]);
    close(servers->directory);
    close(servers->alive);
    await_end(servers->sweeper, NULL);
}

/* --- The command --- */

static volatile sig_atomic_t command_pid;

/* The command gets the terminal's signals directly. */
static void forward(int number, siginfo_t *information, void *context)
{
    int error = errno;

    (void)context;
    if (command_pid > 0 && information->si_code != SI_KERNEL)
        kill((pid_t)command_pid, number);
    errno = error;
}

static void forward_signals(void)
{
    static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaction(numbers[i], &action, NULL);
}

static int run_command(char **argv)
{
    struct cli_child child = {.argv = argv, .environment = environ, .terminal = -1};
    int status = CLI_SYSTEM;
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* a signal that arrives now is forwarded when the process exists */
    forward_signals();
    command_pid = cli_child_start(&child, &status);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (command_pid < 0)
        return status;
    await_end((pid_t)command_pid, &status);
    command_pid = 0;
    return cli_child_exit(status);
}

/* --- Its environment --- */

/* Settings of the user's deployment, such as its password, must not affect this one. */
static bool export(const struct servers *servers)
{
    return setenv("REDLOCK_NODES", servers->nodes, 1) == 0 && setenv("REDLOCK_CONFIG", servers->config, 1) == 0 &&
           unsetenv("REDLOCK_USER") == 0 && unsetenv("REDLOCK_PASSWORD") == 0 && unsetenv("REDLOCK_PASSWORD_FILE") == 0;
}

static char *shell(void)
{
    static char usual[] = "/bin/sh";
    char *named = getenv("SHELL");

    return named != NULL && *named != '\0' ? named : usual;
}

static int run(const struct cli_arguments *arguments)
{
    static struct servers servers; /* large */
    char *shell_argv[] = {shell(), NULL};
    char **argv = arguments->command != NULL ? arguments->command : shell_argv;

    if (arguments->count > 0)
        return cli_misused("a command must follow --: redlock local -- CMD");
    if (argv[0] == NULL)
        return cli_misused("there is no command after --");
    if (given.program != NULL && *given.program == '\0')
        return cli_misused("--server is empty; name a program, as in --server valkey-server");
    if (given.sentinel && given.cluster)
        return cli_misused("--sentinel and --cluster exclude each other: leave one of them out");
    int status = start_servers(&servers, given.sentinel ? SENTINEL : given.cluster ? CLUSTER : PLAIN);
    if (status == CLI_OK && argv == shell_argv)
        cli_say("%u temporary nodes, trusted: %s; they end with this shell", servers.nodes_count, servers.nodes);
    if (status == CLI_OK)
        status = export(&servers) ? run_command(argv) : CLI_SYSTEM;
    end_servers(&servers);
    return status;
}

static const struct cli_option options[] = {
    {'n', "count", "NUMBER", "number of nodes, 1 to 32 (5)", .number = &given.count},
    {'S', "sentinel", NULL, "each node is a master with a replica, behind three Sentinels", .flag = &given.sentinel},
    {'C', "cluster", NULL, "each node is a Redis Cluster of three masters", .flag = &given.cluster},
    {'s', "server", "PROGRAM", "the server to start (redis-server, or valkey-server)", .text = &given.program},
    {0},
};

const struct cli_command cli_command_local = {
    .name = "local",
    .arguments = "[-- CMD [ARG ...]]",
    .summary = "Start temporary nodes on this machine, and run CMD or a shell with them",
    .help =
        "The servers listen on free ports of 127.0.0.1, keep nothing on disk, are trusted at once, and end with CMD, also when\n"
        "redlock is killed. CMD (default: $SHELL) finds them in REDLOCK_NODES, and what clusters need in REDLOCK_CONFIG.\n"
        "They run redis-server, or valkey-server where only that is installed; --server or $REDLOCK_SERVER_PROGRAM names\n"
        "another program.\n"
        "\n"
        "exit status: CMD's; 128 + signal; 71 the servers did not start\n",
    .options = options,
    .takes_command = true,
    .run = run,
};
