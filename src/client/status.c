/* The state of the nodes, for operators and for monitoring. */
#include <stdio.h>
#include <string.h>

#include "src/client/blocking.h"
#include "src/client/client.h"
#include "src/client/status.h"
#include "src/core/clock.h"
#include "src/node/guard.h"

static const char *state_text(const struct rl_node *node)
{
    switch (node->state) {
    case RL_NODE_BACKOFF:
        return "disconnected";
    case RL_NODE_RESOLVING:
        return "resolving its name";
    case RL_NODE_CONNECTING:
        return "connecting";
    case RL_NODE_HANDSHAKE:
        return "handshake";
    case RL_NODE_READY:
        return "ready";
    case RL_NODE_CLOSED:
        break;
    }
    return "closed";
}

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

/* Why the node has no vote, and how long its quarantine lasts. */
static void fill_objection(struct rl_node *node, redlock_node_status *status, quorum_time now)
{
    const char *objection = node->unfit ? node->unfit : rl_guard_objection(node, now);
    copy(status->objection, sizeof status->objection, node->state == RL_NODE_READY ? objection : NULL);
    if (node->nodes->core->options.guard)
        status->quarantine_ms =
            (int64_t)((quorum_time_until(rl_guard_free_at(node), now) + QUORUM_MILLISECOND - 1) / QUORUM_MILLISECOND);
}

static void fill_facts(const struct rl_facts *facts, redlock_node_status *status)
{
    status->append_only = facts->append_only;
    status->snapshots = facts->snapshots;
    status->marker_nodes = facts->marker_nodes;
    status->marker_max_ttl_ms = facts->marker_max_ttl_ms;
    copy(status->maxmemory_policy, sizeof status->maxmemory_policy, facts->maxmemory_policy);
    copy(status->append_fsync, sizeof status->append_fsync, facts->append_fsync);
    copy(status->marker_why, sizeof status->marker_why, facts->marker_why);
    copy(status->marker_deployment, sizeof status->marker_deployment, facts->marker_deployment);
    copy(status->lacking, sizeof status->lacking, facts->lacking);
    copy(status->user, sizeof status->user, facts->user);
}

void rl_status_fill(struct rl_node *node, redlock_node_status *status)
{
    const redlock_client *client = node->nodes->client;
    const struct quorum_clock_node *clock = &client->nodes->clock_watch.node[node->index];
    quorum_time now = rl_now();
    memset(status, 0, sizeof *status);
    status->name = node->address.name;
    status->usable = rl_node_usable(node, now, true).is == RL_USABLE;
    status->findings = node->findings;
    copy(status->state, sizeof status->state, state_text(node));
    copy(status->error, sizeof status->error, rl_node_error(node));
    copy(status->server, sizeof status->server, node->server.name);
    copy(status->version, sizeof status->version, node->server.version);
    copy(status->run_id, sizeof status->run_id, node->server.run_id);
    copy(status->role, sizeof status->role, node->server.role);
    fill_facts(&node->facts, status);
    fill_objection(node, status, now);
    status->round_trip_us = node->heartbeat.round_trip_us;
    status->requests_pending = node->flight.sent.count;
    status->undos_pending = node->kept.count;
    status->clock_known = clock->known;
    if (!clock->known)
        return;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t ahead = (int64_t)((quorum_time)wall.tv_sec * QUORUM_SECOND + (quorum_time)wall.tv_nsec - now);
    bool crossed = clock->offset.low > clock->offset.high; /* noise within the drift crosses the bounds */
    status->clock_low_us = ((crossed ? clock->offset.high : clock->offset.low) - ahead) / 1000;
    status->clock_high_us = ((crossed ? clock->offset.low : clock->offset.high) - ahead) / 1000;
}

uint32_t redlock_nodes(const redlock_client *client)
{
    return client && rl_client_in_owner_process(client) ? client->nodes->count : 0;
}

int redlock_node_status_get(redlock_client *client, uint32_t node, redlock_node_status *status)
{
    if (!client || !status || !rl_client_in_owner_process(client) || node >= client->nodes->count)
        return REDLOCK_INVALID;
    if (client->loop_thread)
        return rl_blocking_node_status(client, node, status);
    if (rl_client_enter(client))
        return REDLOCK_INVALID;
    rl_status_fill(&client->nodes->node[node], status);
    return REDLOCK_OK;
}
