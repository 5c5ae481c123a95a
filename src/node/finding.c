/* The findings of redlock_node_status_get(): names, and texts with the remedy. */
#include "redlock/redlock.h"

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
    {REDLOCK_FINDING_FULL, "full",
     "it is at its memory limit, and its marker must be written: it grants no lock, and renews those that it holds. Raise maxmemory, or free memory"},
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
