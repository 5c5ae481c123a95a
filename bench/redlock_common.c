#include "redlock_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contender.h"
#include "counting.h"

redlock_client *redlock_bench_client;

static bool is_variant(const char *name)
{
    return strcmp(contender_variant, name) == 0;
}

void contender_state(struct contender_state *state)
{
    redlock_statistics statistics;
    if (redlock_statistics_get(redlock_bench_client, &statistics) != REDLOCK_OK)
        redlock_die("no statistics", NULL);
    *state = (struct contender_state){
        .allocations = atomic_load(&counting.allocations),
        .bytes = atomic_load(&counting.bytes),
        .most_bytes = atomic_load(&counting.most),
        .late_grants = statistics.late_grants,
    };
}

/* New nodes are in quarantine, which no lock of another client requires here. A process of its own trusts them: once a
 * process has had a second thread, the C library's system calls take longer, and the contender without the guard has
 * had none. */
static void trust_nodes(const char *nodes)
{
    redlock_client *client;
    redlock_result result;
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (redlock_connect(nodes, NULL, &client, &result) != REDLOCK_OK ||
            redlock_trust(client, NULL, &result) != REDLOCK_OK)
            redlock_die("the nodes are not trusted", &result);
        redlock_close(&client, NULL, NULL);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        redlock_die("the nodes are not trusted", NULL);
}

redlock_options redlock_bench_options(const char *nodes)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.allocator = counting_allocator();
    if (!is_variant("defaults")) {
        options.ttl_ms = LOCK_TTL_MS;
        options.node_timeout_ms = is_variant("patient") ? PATIENT_TIMEOUT_MS : NODE_TIMEOUT_MS;
        options.guard = is_variant("guard");
    }
    if (options.guard)
        trust_nodes(nodes);
    return options;
}

void redlock_bench_connect(const char *nodes)
{
    redlock_result result;
    redlock_options options = redlock_bench_options(nodes);
    if (redlock_connect(nodes, &options, &redlock_bench_client, &result) != REDLOCK_OK)
        redlock_die("no client", &result);
    if (redlock_ready(redlock_bench_client, CONNECT_TIMEOUT_MS, &result) != REDLOCK_OK)
        redlock_die("the nodes are not ready", &result);
}

/* A lock on eight resources: the slot's name, and that with a digit before it. The acquire copies the names. */
static void add_seven(redlock_acquire_options *options, const struct slot *slot)
{
    static char names[7][sizeof slot->resource + 1];
    static redlock_name also[7];
    for (unsigned i = 0; i < 7; i++) {
        names[i][0] = (char)('1' + i);
        memcpy(names[i] + 1, slot->resource, slot->resource_length + 1);
        also[i] = (redlock_name){.bytes = names[i], .size = slot->resource_length + 1};
    }
    options->also = also;
    options->also_count = 7;
}

/* One of the names that another process also uses. The two take turns. */
static void rename_slot(struct slot *slot, unsigned names)
{
    static unsigned number;
    slot->resource_length =
        (size_t)snprintf(slot->resource, sizeof slot->resource, "/0000/turns/%u-of-%u", number++ % names, names);
}

const redlock_acquire_options *redlock_bench_how(struct slot *slot)
{
    static redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    static enum { UNKNOWN, PLAIN, FENCE, TURNS, EIGHT } how;
    static unsigned names;
    if (how == UNKNOWN)
        how = is_variant("fence")                                  ? FENCE
              : sscanf(contender_variant, "turns-%u", &names) == 1 ? TURNS
              : is_variant("eight")                                ? EIGHT
                                                                   : PLAIN;
    if (how == PLAIN)
        return NULL;
    if (how == EIGHT)
        add_seven(&options, slot);
    else
        options.fence = 1;
    if (how == TURNS)
        rename_slot(slot, names);
    return &options;
}

_Noreturn void redlock_die(const char *what, const redlock_result *result)
{
    redlock_result copy = result ? *result : (redlock_result){0};
    fprintf(stderr, "redlock: %s%s%s\n", what, result ? ": " : "", result ? redlock_result_text(&copy) : "");
    exit(1);
}
