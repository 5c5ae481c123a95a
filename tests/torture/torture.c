/*
 * Runs five real servers, clients that call in each way, and a nemesis that causes faults. Then it checks the clients'
 * histories.
 *
 * torture --seconds S --seed N --directory DIR [--client PROGRAM] [--command REDLOCK] [--no-guard] [--loopback]
 *         [--fault NAME] [--told-ms N]
 *
 * DIR gets the histories, the logs and report.txt. Exit status 0: all guarantees were kept; 1: not; any
 * other status: the run could not be made.
 *
 * The nemesis stays within the assumptions of the guarantees. A fault that makes a node lose its keys is either
 * detected at once (a restart breaks the connections), or the nemesis causes it only if every lock is on enough other
 * nodes that this node is not needed. The latter are a flush without notice and a clock that jumps ahead. After such a
 * fault, no other fault of this kind starts until the clients must have detected it.
 */
#include "check.h"
#include "history.h"

#include "rules/random.h"
#include "support/clock.h"
#include "support/cluster.h"
#include "support/delay_proxy.h"
#include "support/fixture.h"
#include "support/network.h"
#include "support/process.h"
#include "support/raw_client.h"

#include <redlock/redlock.h>

#include <getopt.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NODES = 5, QUORUM = NODES / 2 + 1, CLIENTS = 8, RESOURCES = 3, MAX_TTL_MS = 3000, MS = 1000000 };
enum { TICK_MS = 25, FLUSH_SEEN_MS = 2500, JUMP_SEEN_MS = 6000, QUARANTINE_MS = 4200, NODE = 0, CLIENT = 100 };

/* The words of the command line. */
enum { SECONDS, SEED, TOLD_MS, DIRECTORY, CLIENT_PROGRAM, COMMAND, FAULT, NO_GUARD, LOOPBACK, OPTIONS };
static const struct option names[] = {
    {"seconds", required_argument, NULL, SECONDS},       {"seed", required_argument, NULL, SEED},
    {"told-ms", required_argument, NULL, TOLD_MS},       {"directory", required_argument, NULL, DIRECTORY},
    {"client", required_argument, NULL, CLIENT_PROGRAM}, {"command", required_argument, NULL, COMMAND},
    {"fault", required_argument, NULL, FAULT},           {"no-guard", no_argument, NULL, NO_GUARD},
    {"loopback", no_argument, NULL, LOOPBACK},           {0}};
/* COMMAND: redlock(1); NULL: not used. FAULT: the only fault to cause; NULL: all. The client's path must not be relative to
 * the directory. */
static const char *option[OPTIONS] = {"60", "1", "100", ".", "torture_client"};

static uint64_t number(unsigned of)
{
    return strtoull(option[of], NULL, 10);
}

static struct cluster *cluster;
static struct delay_proxy *proxy;
static struct process clients[CLIENTS];
static unsigned generation[CLIENTS]; /* number of times that each client has been started */
static int history;
static uint64_t random_state;
static uint64_t began;
static int64_t shift_us[NODES];
static uint64_t quiet_until; /* earlier, no fault starts that makes a node lose keys, or hides that */

static unsigned chance(unsigned below)
{
    return random_below(&random_state, below);
}

static void say(enum history_event event, unsigned target, const char *text)
{
    struct history_line line = {.time = history_now(), .who = "nemesis", .event = event, .hold = target};
    snprintf(line.text, sizeof line.text, "%s", text);
    if (!history_write(history, &line))
        fixture_fail("cannot write the nemesis' history");
}

/* ----------------------------------------------------------------------------------------------------------- set-up */

static void start_nodes(void)
{
    struct cluster_node_options nodes[NODES] = {{0}};
    const char *hosts[NODES];
    uint16_t ports[NODES];
    for (size_t i = 0; i < NODES; i++) {
        nodes[i].own_clock = true;
        nodes[i].host = hosts[i] = network_host(i);
        nodes[i].network = network_owner(i);
    }
    cluster = cluster_create(NODES, &(struct cluster_options){.nodes = nodes});
    for (size_t i = 0; i < NODES; i++)
        ports[i] = cluster_port(cluster, i);
    proxy = delay_proxy_start(hosts, ports, NODES);
}

/* The servers are new, so no lock can be held. */
static void trust(void)
{
    redlock_options trusting = REDLOCK_OPTIONS_INIT;
    redlock_client *client;
    redlock_result result;
    trusting.ttl_ms = trusting.max_ttl_ms = MAX_TTL_MS;
    trusting.node_timeout_ms = trusting.silence_limit_ms = 20000; /* the servers start on a busy machine */
    if (redlock_connect(cluster_nodes_string(cluster), &trusting, &client, &result) != REDLOCK_OK ||
        redlock_ready(client, 10000, &result) != REDLOCK_OK || redlock_trust(client, NULL, &result) != REDLOCK_OK)
        fixture_fail("cannot trust the nodes: %s", redlock_result_text(&result));
    redlock_close(&client, NULL, NULL);
}

static void write_command_settings(void)
{
    FILE *file = fopen("command.conf", "we");
    if (!file ||
        fprintf(file, "max-ttl = %dms\nttl = 2s\nguard = %s\n", MAX_TTL_MS, option[NO_GUARD] ? "no" : "yes") < 0 ||
        fclose(file) != 0)
        fixture_fail("cannot write command.conf");
}

/* Clients with even numbers connect to the nodes themselves, if there is a network that can be cut. Those with odd
 * numbers use the proxy. */
static const char *nodes_of(size_t client)
{
    return client % 2 || !network_is_made() ? delay_proxy_nodes_string(proxy) : cluster_nodes_string(cluster);
}

static void start_client(size_t index)
{
    enum { WORDS = 8 };
    static const char *const ways[CLIENTS] = {"blocking", "blocking",     "asynchronous", "command",
                                              "command",  "asynchronous", "descriptor",   "descriptor"};
    const char *way = option[COMMAND] || strcmp(ways[index], "command") != 0 ? ways[index] : "blocking";
    char *argv[WORDS + 1] = {
        fixture_text("%s", option[CLIENT_PROGRAM]),
        fixture_text("%s", way),
        fixture_text("%c%zu-%u", way[0], index, generation[index]), /* unique for each run of a client */
        fixture_text("%s", nodes_of(index)),
        fixture_text("%c%zu-%u.history", way[0], index, generation[index]),
        fixture_text("%llu", (unsigned long long)(number(SEED) * 1000 + index * 100 + generation[index])),
        fixture_text("%d", !option[NO_GUARD]),
        option[COMMAND] ? fixture_text("%s", option[COMMAND]) : NULL,
    };
    char *log = fixture_text("%s.log", argv[2]);
    generation[index]++;
    process_start(&clients[index], argv, log);
    for (size_t i = 0; i < WORDS; i++)
        free(argv[i]);
    free(log);
}

/* ----------------------------------------------------------------------------------------------------------- faults */

/* A fault in progress on a node or a client. */
struct active {
    const struct fault *fault;
    unsigned target;
    uint64_t until;
    unsigned detail;
};

struct fault {
    const char *name;
    unsigned weight;
    unsigned shortest_ms;
    unsigned longest_ms;
    bool of_client;
    bool forgets; /* or may prevent clients from detecting a loss of keys */
    bool lasts;   /* it must be ended */
    /* Begins or ends it. false: it cannot begin now. */
    bool (*act)(struct active *what, bool begins);
};

static struct active active[NODES + CLIENTS];
static size_t active_count;

static bool is_touched(unsigned target)
{
    for (size_t i = 0; i < active_count; i++)
        if (active[i].target == target)
            return true;
    return false;
}

static unsigned nodes_touched(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NODES; i++)
        count += is_touched(NODE + i);
    return count;
}

static uint64_t forgot_at[NODES];

/* Number of nodes that have a fault or are in quarantine. */
static unsigned nodes_out(void)
{
    uint64_t now = history_now();
    unsigned count = 0;
    for (unsigned i = 0; i < NODES; i++)
        count += is_touched(NODE + i) || (!option[NO_GUARD] && now - forgot_at[i] < (uint64_t)QUARANTINE_MS * MS);
    return count;
}

static bool kill_node(struct active *what, bool begins)
{
    if (begins)
        forgot_at[what->target] = history_now();
    (begins ? cluster_kill : cluster_start)(cluster, what->target);
    return true;
}

static bool stop_node(struct active *what, bool begins)
{
    (begins ? cluster_stop : cluster_resume)(cluster, what->target);
    return true;
}

/* A majority loses its memory at once. Redlock without a guard does not survive this. */
static bool restart_majority(struct active *what, bool begins)
{
    (void)what;
    (void)begins;
    if (nodes_touched() > NODES - QUORUM)
        return false;
    for (unsigned i = 0; i < NODES; i++)
        if (!is_touched(NODE + i))
            cluster_kill(cluster, i);
    for (unsigned i = 0; i < NODES; i++)
        if (!is_touched(NODE + i)) {
            cluster_start(cluster, i);
            forgot_at[i] = history_now();
        }
    /* The clients must first acquire locks again: otherwise the nodes have nothing to lose. */
    quiet_until = history_now() + (uint64_t)(option[NO_GUARD] ? 1500 : QUARANTINE_MS + 1000) * MS;
    return true;
}

/* Some clients reach the node, others do not. */
static bool hold_route(struct active *what, bool begins)
{
    if (begins)
        what->detail = 1 + chance(3);
    (begins ? delay_proxy_hold : delay_proxy_let_go)(proxy, what->target, (enum proxy_direction)what->detail);
    return true;
}

/* On loopback every client uses the proxy. */
static bool cut_node(struct active *what, bool begins)
{
    if (!network_is_made())
        return hold_route(what, begins);
    network_cut(what->target, begins ? 1 + chance(3) : 0);
    return true;
}

static bool delay_route(struct active *what, bool begins)
{
    unsigned us = begins ? chance(4) ? chance(20000) : chance(150000) : 0;
    delay_proxy_set_delay_us(proxy, what->target, PROXY_BOTH, us);
    return true;
}

static bool drop_connections(struct active *what, bool begins)
{
    (void)begins;
    if (chance(2))
        delay_proxy_drop(proxy, what->target, chance(2));
    else
        cluster_integer(cluster, what->target, "CLIENT", "KILL", "TYPE", "normal", NULL);
    return true;
}

/* One transaction, so that no client sends a request between the flush and the end of the connections. (A script may
 * not end connections.) */
static bool flush_and_disconnect(struct active *what, bool begins)
{
    (void)begins;
    struct raw_client *client = raw_client_connect(cluster_socket_path(cluster, what->target));
    raw_client_say(client, "AUTH", "fixture", "", NULL);
    raw_client_say(client, "MULTI", NULL);
    raw_client_say(client, "FLUSHALL", NULL);
    raw_client_say(client, "CLIENT", "KILL", "TYPE", "normal", NULL);
    forgot_at[what->target] = history_now();
    raw_client_say(client, "EXEC", NULL);
    for (unsigned i = 0; i < 4; i++)
        raw_client_reply(client);
    const char *reply = raw_client_reply(client);
    if (strncmp(reply, "OK\n", 3) != 0)
        fixture_fail("flush and disconnect of node %u: %s", what->target, reply);
    raw_client_close(client);
    return true;
}

/* True if every lock on this node is also on enough others that no other client can get a majority. */
static bool can_do_without(unsigned node)
{
    char key[8], token[NODES][64];
    for (unsigned r = 0; r < RESOURCES; r++) {
        unsigned others = 0;
        snprintf(key, sizeof key, "r%u", r);
        for (unsigned i = 0; i < NODES; i++)
            if (!cluster_command(cluster, i, token[i], sizeof token[i], "GET", key, NULL))
                return false;
        for (unsigned i = 0; i < NODES; i++)
            others += i != node && strcmp(token[i], token[node]) == 0;
        if (strcmp(token[node], "(nil)") != 0 && others < NODES - QUORUM + 1)
            return false;
    }
    return true;
}

static void pause_clients(void)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        process_signal(&clients[i], SIGSTOP);
    usleep(5000); /* their last requests arrive: no node has a fault, so there are no delays */
}

static void resume_clients(void)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        if (!is_touched(CLIENT + i))
            process_signal(&clients[i], SIGCONT);
}

/* Causes a fault that no client is notified of. The clients are stopped meanwhile, and the fault happens only if it
 * can break no lock. */
static bool unnoticed(struct active *what, void (*act)(unsigned node), unsigned seen_ms)
{
    if (nodes_touched() > 0)
        return false;
    pause_clients();
    bool can = can_do_without(what->target);
    if (can) {
        act(what->target);
        forgot_at[what->target] = history_now();
        quiet_until = history_now() + (uint64_t)seen_ms * MS;
    }
    resume_clients();
    return can;
}

static void flush(unsigned node)
{
    cluster_flush(cluster, node);
}

static bool flush_unnoticed(struct active *what, bool begins)
{
    (void)begins;
    return unnoticed(what, flush, FLUSH_SEEN_MS);
}

static int64_t new_shift_us;

static void shift(unsigned node)
{
    shift_us[node] = new_shift_us;
    cluster_shift_clock(cluster, node, new_shift_us);
}

static bool shift_clock(struct active *what, bool begins)
{
    (void)begins;
    new_shift_us = shift_us[what->target] ? 0 : ((int64_t)chance(20000) - 10000) * 1000;
    return unnoticed(what, shift, JUMP_SEEN_MS);
}

static bool stop_client(struct active *what, bool begins)
{
    process_signal(&clients[what->target - CLIENT], begins ? SIGSTOP : SIGCONT);
    return true;
}

static bool kill_client(struct active *what, bool begins)
{
    if (begins)
        process_kill(&clients[what->target - CLIENT]);
    else
        start_client(what->target - CLIENT);
    return true;
}

static const struct fault faults[] = {
    {"kill", 10, 0, 2000, false, true, true, kill_node},
    {"stop", 10, 50, 4000, false, true, true, stop_node},
    {"majority", 3, 10, 50, false, true, false, restart_majority},
    {"cut", 10, 50, 4000, false, true, true, cut_node},
    {"hold", 8, 50, 3000, false, true, true, hold_route},
    {"delay", 10, 200, 3000, false, true, true, delay_route},
    {"drop", 8, 10, 50, false, false, false, drop_connections},
    {"flush+drop", 6, 10, 50, false, true, false, flush_and_disconnect},
    {"flush", 6, 10, 50, false, true, false, flush_unnoticed},
    {"clock", 4, 10, 50, false, true, false, shift_clock},
    {"stop", 5, 100, 5000, true, false, true, stop_client},
    {"kill", 3, 10, 500, true, false, true, kill_client},
};
enum { FAULTS = sizeof faults / sizeof *faults };

/* ---------------------------------------------------------------------------------------------------------- nemesis */

static unsigned weight(const struct fault *fault)
{
    return option[FAULT] && strcmp(option[FAULT], fault->name) != 0 ? 0 : fault->weight;
}

static const struct fault *draw_fault(void)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < FAULTS; i++)
        sum += weight(&faults[i]);
    if (sum == 0)
        fixture_fail("there is no fault '%s'", option[FAULT]);
    unsigned drawn = chance(sum), i = 0;
    for (; drawn >= weight(&faults[i]); i++)
        drawn -= weight(&faults[i]);
    return &faults[i];
}

/* In most cases a majority stays untouched, so that clients hold locks that can be checked. */
static bool may_begin(const struct fault *fault, unsigned target)
{
    if (is_touched(target) || (fault->forgets && history_now() < quiet_until))
        return false;
    return fault->of_client || nodes_out() < NODES - QUORUM || chance(10) == 0;
}

static void begin_one(void)
{
    const struct fault *fault = draw_fault();
    unsigned target = fault->of_client ? CLIENT + chance(CLIENTS) : NODE + chance(NODES);
    struct active what = {.fault = fault, .target = target};
    if (!may_begin(fault, target))
        return;
    say(HISTORY_BEGIN, target, fault->name);
    if (!fault->act(&what, true)) {
        say(HISTORY_FINISH, target, fault->name);
        return;
    }
    unsigned ms = fault->shortest_ms + chance(fault->longest_ms - fault->shortest_ms);
    what.until = history_now() + (uint64_t)ms * MS;
    active[active_count++] = what;
}

static void finish_due(uint64_t now)
{
    for (size_t i = active_count; i-- > 0;) {
        if (active[i].until > now)
            continue;
        struct active what = active[i];
        active[i] = active[--active_count];
        if (what.fault->lasts)
            what.fault->act(&what, false);
        say(HISTORY_FINISH, what.target, what.fault->name);
    }
}

static void check_clients_live(void)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        if (!is_touched(CLIENT + i) && !process_running(&clients[i]))
            fixture_fail("client %u has ended: see its log in %s", i, option[DIRECTORY]);
}

static void run_nemesis(void)
{
    uint64_t end = history_now() + number(SECONDS) * 1000 * MS;
    usleep(500000); /* the clients need time to acquire locks */
    while (history_now() < end) {
        finish_due(history_now());
        if (chance(10) == 0)
            begin_one();
        check_clients_live();
        usleep(TICK_MS * 1000);
    }
    finish_due(UINT64_MAX);
}

/* -------------------------------------------------------------------------------------------------------------- end */

static void stop_clients(void)
{
    uint64_t deadline = test_deadline_ns(30000);
    for (unsigned i = 0; i < CLIENTS; i++)
        process_signal(&clients[i], SIGTERM);
    for (unsigned i = 0; i < CLIENTS; i++)
        if (!process_wait(&clients[i], deadline))
            fixture_fail("client %u does not end", i);
}

static const char *const marks[] = {"redlock:marker", "*:redlock:fence", "*:redlock:queue", "*:redlock:alive", NULL};

static bool is_empty(void *arg)
{
    (void)arg;
    return cluster_keys_left(cluster, marks) == 0;
}

/* Finds helper keys of the clients that never expire. */
static void look_for_endless_keys(void)
{
    static const char script[] =
        "for _, key in ipairs(redis.call('KEYS', '*')) do"
        " if key ~= 'redlock:marker' and redis.call('PTTL', key) == -1 then return key end end";
    char reply[64];
    for (unsigned i = 0; i < NODES; i++)
        if (!cluster_command(cluster, i, reply, sizeof reply, "EVAL", script, "0", NULL) || strcmp(reply, "(nil)") != 0)
            say(HISTORY_LEFT, i, reply);
}

/* Keys that killed clients held expire with their ttl. */
static void look_for_keys(void)
{
    look_for_endless_keys();
    for (unsigned i = 0; i < NODES; i++)
        cluster_shift_clock(cluster, i, 0);
    if (!wait_until(is_empty, NULL, 25000))
        say(HISTORY_LEFT, 0, cluster_key_names(cluster, marks));
}

static void report(FILE *out, const struct check_summary *summary)
{
    double seconds = (double)(summary->end - summary->begin) / 1e9;
    fprintf(out, "torture: %.0f s, seed %llu, guard %s, %s\n", seconds, (unsigned long long)number(SEED),
            option[NO_GUARD] ? "off" : "on", network_is_made() ? "a network namespace for each node" : "loopback");
    fprintf(out, "  %zu faults; %zu acquires, %zu locks (%.0f a second), %zu with tokens\n", summary->faults,
            summary->attempts, summary->holds, (double)summary->holds / seconds, summary->fences);
    fprintf(out, "  %zu losses told, half of them within %.1f ms of the end, the latest %.1f ms after it\n",
            summary->losses, (double)summary->median_told_us / 1e3, (double)summary->latest_told_us / 1e3);
    for (unsigned i = 0; i < CHECK_PROMISES; i++)
        fprintf(out, "  %-13s %zu violations\n", check_promise_names[i], summary->violations[i]);
}

static void report_violation(void *out, enum check_promise which, uint64_t time, const char *text)
{
    fprintf(out, "VIOLATION of %s at %.3f s: %s\n", check_promise_names[which], (double)(time - began) / 1e9, text);
}

static int judge(void)
{
    struct check *check = check_new((unsigned)number(TOLD_MS), 1000);
    glob_t histories;
    bool kept = true;
    if (glob("*.history", 0, NULL, &histories) != 0)
        fixture_fail("there are no histories");
    for (size_t i = 0; i < histories.gl_pathc; i++)
        if (!check_file(check, histories.gl_pathv[i]))
            fixture_fail("%s is no history", histories.gl_pathv[i]);
    globfree(&histories);
    FILE *text = fopen("report.txt", "we");
    if (!text)
        fixture_fail("cannot write report.txt");
    struct check_summary summary = check_all(check, report_violation, text);
    report(text, &summary);
    report(stdout, &summary);
    fclose(text);
    check_free(check);
    for (unsigned i = 0; i < CHECK_PROMISES; i++)
        kept = kept && summary.violations[i] == 0;
    return kept && summary.holds > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *why = "--loopback was asked for";
    for (int found; (found = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (found == '?')
            return 2;
        option[found] = optarg ? optarg : "yes";
    }
    random_state = number(SEED);
    mkdir(option[DIRECTORY], 0700);
    if (chdir(option[DIRECTORY]) != 0) {
        perror(option[DIRECTORY]);
        return 2;
    }
    if (!server_program_available()) {
        fprintf(stderr, "torture: %s\n", server_program_missing());
        return 77;
    }
    fixtures_begin();
    if (option[LOOPBACK] || !network_make(NODES, &why))
        printf("loopback only, no network namespaces: %s\n", why);
    began = history_now();
    history = history_open("nemesis.history");
    write_command_settings();
    start_nodes();
    trust();
    for (size_t i = 0; i < CLIENTS; i++)
        start_client(i);
    run_nemesis();
    stop_clients();
    look_for_keys();
    int status = judge();
    fixtures_end();
    return status;
}
