/* What is known of the nodes, for people and for monitoring. */
#include <stdio.h>
#include <string.h>

#include "src/client/blocking.h"
#include "src/client/client.h"
#include "src/core/clock.h"
#include "src/node/guard.h"

static const struct {
    uint32_t finding;
    const char *name;
    const char *text;
} findings[] = {
    {REDLOCK_FINDING_REPLICA, "replica", "it is a replica; its vote does not count. Name the master"},
    {REDLOCK_FINDING_SAME_SERVER, "same-server",
     "it is the server of another node of the list; its vote does not count. Name N servers"},
    {REDLOCK_FINDING_OTHER_DEPLOYMENT, "other-deployment",
     "its marker is of another deployment, or of another number of nodes; its vote does not count. Correct the node list, or the deployment's name"},
    {REDLOCK_FINDING_NOT_PERMITTED, "not-permitted",
     "the user may not run what the guard needs (INFO, TIME, GETRANGE and SET of the marker key, EVALSHA); its vote does not count. Extend the ACL"},
    {REDLOCK_FINDING_MARKER_TAKEN, "marker-taken",
     "its marker key holds a value that is not a marker, or one of a newer version of redlock, and is left alone; its vote does not count. Set another marker_key, or delete the key if nothing needs it"},
    {REDLOCK_FINDING_TOO_OLD, "too-old",
     "it is older than Redis 5.0; its vote does not count. Upgrade it to Redis 5.0 or later, or to Valkey"},
    {REDLOCK_FINDING_EVICTING, "evicting",
     "its maxmemory-policy may evict locks: with the guard on it grants no lock while it evicts keys, and for max_ttl after. Set noeviction"},
    {REDLOCK_FINDING_NOT_PERSISTENT, "not-persistent",
     "it forgets its locks in a restart, and the guard is off. Turn the guard on, or set appendonly yes, appendfsync always"},
    {REDLOCK_FINDING_OTHER_MAX_TTL, "other-max-ttl",
     "another client of the deployment has a different max_ttl; the larger counts. Make them the same"},
    {REDLOCK_FINDING_NO_PUBLISH, "no-publish",
     "the user may not PUBLISH on the library's channels: waiters find a released lock only when they look, once a second. Extend the ACL"},
    {REDLOCK_FINDING_NO_SUBSCRIBE, "no-subscribe",
     "the user may not SUBSCRIBE to the library's channels: when it waits, it finds a released lock only when it looks, once a second. Extend the ACL"},
};
#define FINDINGS (sizeof findings / sizeof *findings)

const char *redlock_finding_name(uint32_t finding)
{
    for (size_t i = 0; i < FINDINGS; i++)
        if (findings[i].finding == finding)
            return findings[i].name;
    return "unknown";
}

const char *redlock_finding_text(uint32_t finding)
{
    for (size_t i = 0; i < FINDINGS; i++)
        if (findings[i].finding == finding)
            return findings[i].text;
    return "unknown";
}

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

/* What the guard has against it, for how long. */
static void fill_objection(struct rl_node *node, redlock_node_status *status, quorum_time now)
{
    const char *objection = node->unfit ? node->unfit : rl_guard_objection(node, now);
    copy(status->objection, sizeof status->objection, node->state == RL_NODE_READY ? objection : NULL);
    if (node->client->options.guard)
        status->quarantine_ms =
            (int64_t)((quorum_time_until(node->quarantine_end, now) + QUORUM_MILLISECOND - 1) / QUORUM_MILLISECOND);
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
    const redlock_client *client = node->client;
    const struct quorum_clock_node *clock = &client->clock_watch.node[node->index];
    quorum_time now = rl_now();
    memset(status, 0, sizeof *status);
    status->name = node->address.name;
    status->usable = rl_node_usable(node, now, true).is == RL_USABLE;
    status->findings = node->findings;
    copy(status->state, sizeof status->state, state_text(node));
    copy(status->error, sizeof status->error, node->error);
    copy(status->server, sizeof status->server, node->server);
    copy(status->version, sizeof status->version, node->version);
    copy(status->run_id, sizeof status->run_id, node->run_id);
    copy(status->role, sizeof status->role, node->role);
    fill_facts(&node->facts, status);
    fill_objection(node, status, now);
    status->round_trip_us = node->round_trip_us;
    status->requests_pending = node->sent.count;
    status->undos_pending = node->kept.count;
    status->clock_known = clock->known;
    if (!clock->known)
        return;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t ahead = (int64_t)((quorum_time)wall.tv_sec * QUORUM_SECOND + (quorum_time)wall.tv_nsec - now);
    bool crossed = clock->offset.low > clock->offset.high; /* by noise within the drift */
    status->clock_low_us = ((crossed ? clock->offset.high : clock->offset.low) - ahead) / 1000;
    status->clock_high_us = ((crossed ? clock->offset.low : clock->offset.high) - ahead) / 1000;
}

uint32_t redlock_nodes(const redlock_client *client)
{
    return client && rl_client_is_at_home(client) ? client->nodes_count : 0;
}

int redlock_node_status_get(redlock_client *client, uint32_t node, redlock_node_status *status)
{
    if (!client || !status || !rl_client_is_at_home(client) || node >= client->nodes_count)
        return REDLOCK_INVALID;
    if (client->blocking)
        return rl_blocking_node_status(client, node, status);
    if (rl_client_enter(client))
        return REDLOCK_INVALID;
    rl_status_fill(&client->nodes[node], status);
    return REDLOCK_OK;
}
