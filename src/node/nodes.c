#include "src/node/nodes.h"

#include <assert.h>
#include <stdio.h>

#include "quorum/waiting.h"
#include "src/core/result.h"
#include "src/node/attest.h"
#include "src/node/handshake.h"

struct rl_nodes *rl_nodes_create(struct rl_core *core, unsigned count, bool own_thread,
                                 const struct rl_nodes_events *events, struct rl_locks *locks)
{
    assert(count >= 1 && count <= REDLOCK_NODES_MAX);
    _Static_assert(_Alignof(struct quorum_guard) == _Alignof(struct quorum_clock_watch), "one follows the other");
    size_t size = sizeof(struct rl_nodes) + count * sizeof(struct rl_node);
    struct rl_nodes *nodes = rl_allocate(&core->allocator, size + QUORUM_GUARD_SIZE(count) + QUORUM_CLOCK_SIZE(count));
    if (!nodes)
        return NULL;
    nodes->guard = (struct quorum_guard *)(void *)&nodes->node[count];
    nodes->clock_watch = (struct quorum_clock_watch *)(void *)((char *)nodes->guard + QUORUM_GUARD_SIZE(count));
    nodes->core = core;
    nodes->events = events;
    nodes->locks = locks;
    nodes->writes.loop = core->loop;
    nodes->writes.allocator = &core->allocator;
    nodes->writes.own_thread = own_thread;
    nodes->count = count;
    nodes->shortest_ttl = QUORUM_NEVER;
    return nodes;
}

int rl_nodes_open(struct rl_nodes *nodes, const struct rl_address *addresses, redlock_result *result)
{
    const redlock_options *options = &nodes->core->options;
    char token[RL_RANDOM_TOKEN_SIZE];
    nodes->writes.owner = nodes->core->owner;
    if (!rl_random_token(&nodes->core->random, token))
        return rl_result_fail(result, REDLOCK_SYSTEM, "the system has no random bytes yet");
    nodes->phase = rl_random_u64(&nodes->core->random);
    snprintf(nodes->channel, sizeof nodes->channel, "%.*s%.16s", RL_CHANNEL_SIZE - 17, options->channel_prefix, token);
    bool needs_tls = false;
    for (unsigned i = 0; i < nodes->count; i++) {
        struct rl_text tag;
        needs_tls = needs_tls || addresses[i].tls;
        if (addresses[i].witness_count && !options->guard)
            return rl_result_fail(
                result, REDLOCK_INVALID,
                "%s: a failover loses locks, so a node behind Sentinel or in a cluster needs the guard; set guard to 1",
                addresses[i].name);
        if (addresses[i].cluster && !rl_handshake_tag(options, &tag))
            return rl_result_fail(
                result, REDLOCK_INVALID,
                "%s: prefix '%.40s' and marker_key '%.40s' have no common {tag}, which puts all keys into "
                "one slot; set prefix {redlock}: and marker_key {redlock}:marker in all clients",
                addresses[i].name, options->prefix, options->marker_key);
    }
    int status = needs_tls ? rl_tls_create(nodes->core, &nodes->tls, result) : REDLOCK_OK;
    if (status)
        return status;
    quorum_guard_init(nodes->guard, nodes->count, options->drift_ppm, options->max_ttl_ms * QUORUM_MILLISECOND);
    quorum_clock_init(nodes->clock_watch, nodes->count, options->drift_ppm, QUORUM_SECOND);
    if (!rl_attest_open(nodes))
        return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for the proofs of grants");
    for (unsigned i = 0; i < nodes->count; i++)
        if (!rl_link_init(&nodes->node[i].link, &nodes->writes, RL_OUTPUT_LEAST))
            return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for the connections");
    bool opened = true;
    for (unsigned i = 0; i < nodes->count; i++)
        opened = rl_node_open(&nodes->node[i], nodes, i, &addresses[i]) && opened;
    if (!opened)
        return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for a node");
    return REDLOCK_OK;
}

void rl_nodes_close(struct rl_nodes *nodes)
{
    for (unsigned i = 0; i < nodes->count; i++) {
        struct rl_node *node = &nodes->node[i];
        if (!node->nodes)
            continue; /* the set was not opened */
        rl_node_close(node);
        rl_listener_close(node->listener);
    }
}

void rl_nodes_free(struct rl_nodes *nodes)
{
    for (unsigned i = 0; i < nodes->count; i++) {
        rl_node_free(&nodes->node[i]);
        rl_link_free(&nodes->node[i].link);
        rl_listener_free(nodes->node[i].listener);
    }
    rl_attest_close(nodes);
    rl_tls_destroy(nodes->tls, &nodes->core->allocator);
    rl_core_free(nodes->core, nodes);
}

quorum_duration rl_nodes_round_trip(const struct rl_nodes *nodes)
{
    uint64_t took[QUORUM_NODES_MAX];
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct quorum_round_trip *round_trip = &nodes->node[i].flight.round_trip;
        took[i] = round_trip->measured ? round_trip->smoothed : QUORUM_SECOND;
    }
    return quorum_waiting_least(took, nodes->count);
}

void rl_nodes_flush(struct rl_nodes *nodes)
{
    /* A connection that breaks during the write may start a round, whose grants need their proofs in this turn, too. */
    do {
        rl_attest_send(nodes);
        quorum_time now = rl_now();
        for (unsigned i = 0; nodes->writes.first && i < nodes->count; i++)
            rl_flight_written(&nodes->node[i].flight, now);
        rl_links_flush(&nodes->writes);
    } while (nodes->unproven);
}
