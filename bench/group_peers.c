/* Other lock clients beside this one, on the same machine, in turn: redsync and node-redlock on the same five Redis
 * servers, and etcd's lock on five members. scripts/bench.sh builds them; those that are not there are left out. */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contest.h"
#include "groups.h"
#include "report.h"

enum { NODES = 5, CLIENTS = 7, IN_FLIGHT = 100, CONTENDERS = 32, HOLD_US = 1000, ROUNDS = 3, SECONDS = 4 };

struct client {
    const char *label, *program;
    enum { LIMIT, OURS, PEER, ETCD } kind; /* LIMIT: a floor, which only acquires on healthy nodes */
    const char *api;                       /* of bench-contend; NULL: the worker itself competes, with as many tasks */
    const char *nodes;
    struct entrant *one, *many;
    struct estimate healthy, to_limit, rate, stopped;
    uint64_t stopped_failed;
    struct contest lone, contest;
};

static bool exists(const char *program)
{
    char path[PATH_MAX], name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(program, " "), program);
    return access(process_sibling(name, path, sizeof path), X_OK) == 0;
}

/* ------------------------------------------------------------------------------------------------------ etcd members */

struct etcd {
    char directory[64], nodes[NODE_LIST_SIZE];
    struct process members[NODES];
};

static void join_ports(char *list, int *ports)
{
    *list = '\0';
    for (unsigned i = 0; i < NODES; i++) {
        ports[i] = servers_free_port();
        sprintf(list + strlen(list), "%s%d", i ? "," : "", ports[i]);
    }
}

/* In memory, as the Redis servers are: on a disk each lock would wait for it as well. */
static void start_etcd(struct etcd *etcd)
{
    char path[PATH_MAX], peers[64], clients[64], line[64];
    int ports[NODES];
    strcpy(etcd->directory, access("/dev/shm", W_OK) == 0 ? "/dev/shm/bench-etcd-XXXXXX" : "/tmp/bench-etcd-XXXXXX");
    if (!mkdtemp(etcd->directory))
        die("no temporary directory");
    process_sibling("bench-etcd-member", path, sizeof path);
    join_ports(peers, ports);
    join_ports(clients, ports);
    ports_list(ports, NODES, etcd->nodes);
    for (unsigned i = 0; i < NODES; i++) {
        char number[8], directory[96];
        snprintf(number, sizeof number, "%u", i);
        snprintf(directory, sizeof directory, "%s/%u", etcd->directory, i);
        const char *arguments[] = {path, number, directory, peers, clients, NULL};
        process_start(&etcd->members[i], arguments, PROCESS_PIPED);
    }
    for (unsigned i = 0; i < NODES; i++) {
        process_read_line(&etcd->members[i], line, sizeof line);
        if (strcmp(line, "ready") != 0)
            die("an etcd member does not become ready: %s", line);
    }
}

static void end_etcd(struct etcd *etcd)
{
    struct process remove;
    const char *arguments[] = {"rm", "-rf", etcd->directory, NULL};
    if (!etcd->directory[0])
        return;
    for (unsigned i = 0; i < NODES; i++)
        process_kill(&etcd->members[i]);
    process_start(&remove, arguments, PROCESS_SILENT);
    process_finish(&remove);
}

/* ------------------------------------------------------------------------------------------------------------- phases */

static void contend(struct client *client, struct contest *contest, double seconds)
{
    if (client->api) {
        contest_play(contest, client->nodes, seconds);
        return;
    }
    struct process *process = client->one->process;
    fprintf(process->to, "contend %u %.0f %u\n", contest->processes, seconds * 1e6, contest->hold_us);
    fflush(process->to);
    contest_read(contest, process);
}

static void play_healthy(struct stage *stage, struct client *clients, unsigned count)
{
    for (struct client *client = clients; client < clients + count; client++) {
        char label[LABEL_SIZE];
        client->one = stage_enter(stage, client->label, client->program, client->nodes, 1);
        snprintf(label, sizeof label, "%s, %d in flight", client->label, IN_FLIGHT);
        client->many = stage_enter_again(stage, label, client->one, IN_FLIGHT);
    }
    stage_play(stage, 24, 200);
    report_table(stage, clients[0].one);
    for (struct client *client = clients; client < clients + count; client++) {
        client->healthy = entrant_estimate(stage, client->one, acquire_p50);
        client->to_limit = entrant_ratio(stage, client->one, clients[0].one, acquire_p50);
        client->rate = entrant_estimate(stage, client->many, lock_rate);
    }
}

static void play_contests(struct client *clients, unsigned count)
{
    for (unsigned round = 0; round < ROUNDS; round++)
        for (struct client *client = clients; client < clients + count; client++) {
            struct contest empty = {.api = client->api ? client->api : client->label, .hold_us = HOLD_US};
            if (client->kind == LIMIT)
                continue;
            if (round == 0) {
                client->lone = client->contest = empty;
                client->lone.processes = 1;
                client->contest.processes = CONTENDERS;
            }
            contend(client, &client->lone, SECONDS);
            contend(client, &client->contest, SECONDS);
        }
    for (struct client *client = clients; client < clients + count; client++)
        if (client->kind != LIMIT) {
            contest_report(&client->lone);
            contest_report(&client->contest);
        }
}

/* One lock at a time. A block lasts until its last lock is released: each client acquires at least one, or fails. */
static void play_stopped(struct client *clients, unsigned count)
{
    static double p50[CLIENTS][ROUNDS];
    unsigned rounds[CLIENTS] = {0};
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < count; i++) {
            struct measurement measurement;
            if (clients[i].kind == LIMIT)
                continue;
            entrant_block(clients[i].one, 500000, 0, &measurement);
            clients[i].stopped_failed += measurement.failed;
            if (measurement.operations > 0)
                p50[i][rounds[i]++] = acquire_p50(&measurement);
        }
    for (unsigned i = 0; i < count; i++) {
        clients[i].stopped = estimate_median(p50[i], rounds[i]);
        if (clients[i].kind == LIMIT)
            continue;
        report_figure(clients[i].label, "acquire p50, one node stopped", clients[i].stopped, "us");
        report_figure(clients[i].label, "failed, one node stopped", estimate_exact((double)clients[i].stopped_failed),
                      "");
    }
}

static const char *time_text(double us, char text[16])
{
    if (us < 10000)
        snprintf(text, 16, "%.0f µs", us);
    else if (us < 1000000)
        snprintf(text, 16, "%.0f ms", us / 1e3);
    else
        snprintf(text, 16, "%.1f s", us / 1e6);
    return text;
}

/* The rows of the first table in bench/README.md. */
static void print_rows(const struct client *clients, unsigned count)
{
    char p50[16], stopped[16], wait[16];
    printf("\n| | acquire, median | to the limit | one of five nodes stopped | locks/s, %d in flight |", IN_FLIGHT);
    printf(" %d contenders: rate to a lone client's | hand-offs | wait, 99th percentile |\n", CONTENDERS);
    printf("|---|---|---|---|---|---|---|---|\n");
    for (const struct client *client = clients; client < clients + count; client++) {
        printf("| %s | %s | %.1f |", client->label, time_text(client->healthy.value, p50), client->to_limit.value);
        if (client->kind == LIMIT) {
            printf(" | %.0f | | | |\n", client->rate.value);
            continue;
        }
        printf(" %s", time_text(client->stopped.value, stopped));
        if (client->stopped_failed > 0)
            printf(", %" PRIu64 " fail", client->stopped_failed);
        printf(" | %.0f | %.2f |", client->rate.value, contest_ratio(&client->contest, &client->lone).value);
        printf(" %.0f %% | %s |\n", contest_estimate(&client->contest, CONTEST_HAND_OFFS).value,
               time_text(1e3 * contest_estimate(&client->contest, CONTEST_WAIT_P99).value, wait));
    }
    printf("\n");
}

void group_peers(struct stage *stage)
{
    static const struct client all[CLIENTS] = {
        {.label = "raw sockets", .program = "bench-floor-raw", .kind = LIMIT},
        {.label = "redlock, asynchronous", .program = "bench-redlock-async", .kind = OURS, .api = "async"},
        {.label = "redlock, blocking", .program = "bench-redlock-blocking", .kind = OURS, .api = "blocking"},
        {.label = "node-redlock", .program = "bench-peer-node-redlock", .kind = PEER},
        {.label = "redsync", .program = "bench-peer-redsync", .kind = PEER},
        {.label = "redsync, fail fast", .program = "bench-peer-redsync failfast", .kind = PEER},
        {.label = "etcd", .program = "bench-peer-etcd", .kind = ETCD}};
    static struct client clients[CLIENTS];
    static struct etcd etcd;
    unsigned count = 0;
    stage_open(stage, NODES);
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (!exists(all[i].program)) {
            printf("%s is left out: it was not built\n", all[i].label);
            continue;
        }
        if (all[i].kind == ETCD)
            start_etcd(&etcd);
        clients[count] = all[i];
        clients[count++].nodes = all[i].kind == ETCD ? etcd.nodes : stage->nodes;
    }
    play_healthy(stage, clients, count);
    play_contests(clients, count);
    servers_stop(&stage->servers, 1);
    if (etcd.members[NODES - 1].pid)
        kill(etcd.members[NODES - 1].pid, SIGSTOP);
    play_stopped(clients, count);
    print_rows(clients, count);
    end_etcd(&etcd);
}
