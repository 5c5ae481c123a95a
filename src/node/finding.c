#include "src/node/finding.h"

#include <stddef.h>

#include "redlock/redlock.h"

/* All findings, the most important ones first. */
static const struct finding {
    uint32_t bit; /* enum redlock_finding */
    const char *name;
    const char *text;
    const char *remedy;
} findings[] = {
    {REDLOCK_FINDING_TOO_OLD, "too-old", "it is older than Redis 5.0",
     "upgrade it to Redis 5.0 or later, or to Valkey"},
    {REDLOCK_FINDING_CLUSTER, "cluster",
     "it is in cluster mode, and the keys of a lock have no common {tag} that puts them into one slot",
     "set prefix = {redlock}: and marker-key = {redlock}:marker in all clients, or use servers without cluster mode"},
    {REDLOCK_FINDING_REPLICA, "replica", "it is a replica, not a master", "list its master instead"},
    {REDLOCK_FINDING_SAME_SERVER, "same-server", "it is the same server as another node of the list",
     "list each server once"},
    {REDLOCK_FINDING_OTHER_DEPLOYMENT, "other-deployment",
     "its marker names another deployment, or another number of nodes",
     "correct the list of nodes or the deployment's name"},
    {REDLOCK_FINDING_NOT_PERMITTED, "not-permitted",
     "the guard may not run a command that it needs: the user lacks a right, or it is renamed",
     "add the ACL rules: +info +time +get +getrange +set +evalsha +eval, and ~ with the marker key; restore the names of these commands"},
    {REDLOCK_FINDING_MARKER_TAKEN, "marker-taken", "its marker key holds another value, or a newer version's marker",
     "set another marker_key, or delete the key if nothing needs it"},
    {REDLOCK_FINDING_HIDDEN, "hidden", "the server does not show what the guard needs, in INFO or by TIME:",
     "let the server show it, or set guard to 0, if the server cannot lose locks"},
    {REDLOCK_FINDING_MASTER_UNKNOWN, "master-unknown",
     "its sentinels know no master of this name, or no server of its cluster serves the slot of the tag",
     "correct the name in the list of nodes (redis-cli -p 26379 SENTINEL MASTERS), or the sentinels; in a cluster, assign the slot (redis-cli --cluster fix)"},
    {REDLOCK_FINDING_WITNESSES_SILENT, "witnesses-silent",
     "fewer than a majority of its sentinels, or of the other masters of its cluster, reply, so its address is not confirmed, and its votes do not count",
     "start them, list all sentinels, and check the password and the network"},
    {REDLOCK_FINDING_WITNESSES_DISAGREE, "witnesses-disagree",
     "no majority of its sentinels, or of the other masters of its cluster, names one address of its master, so its votes do not count",
     "wait for the end of the failover; if it stays, list sentinels that watch the same master, or servers of one cluster"},
    {REDLOCK_FINDING_FAILOVER, "failover",
     "its sentinels, or the other masters of its cluster, have not all heard of its last failover, so its votes do not count",
     "wait some seconds; if it stays, repair the network between them"},
    {REDLOCK_FINDING_FULL, "full",
     "it is at its memory limit, so its marker cannot be written: it grants no locks, and renews those that it holds",
     "raise maxmemory, or free memory"},
    {REDLOCK_FINDING_EVICTING, "evicting",
     "its maxmemory-policy may evict locks: with the guard on it grants no locks while it evicts keys, and for max_ttl afterwards",
     "set noeviction"},
    {REDLOCK_FINDING_NOT_PERSISTENT, "not-persistent", "it loses its locks in a restart, and the guard is off",
     "turn the guard on, or set appendonly yes and appendfsync always"},
    {REDLOCK_FINDING_OTHER_MAX_TTL, "other-max-ttl",
     "another client of the deployment has a different max_ttl; the largest one counts",
     "set the same max_ttl in all clients"},
    {REDLOCK_FINDING_NO_PUBLISH, "no-publish",
     "the user lacks PUBLISH on the library's channels, or a right to the keys of a queue: waiters notice a release only when they poll, once a second",
     "add the ACL rules: +publish, and & with the channel prefix; redlock doctor names the missing ones"},
    {REDLOCK_FINDING_NO_SUBSCRIBE, "no-subscribe",
     "the user lacks SUBSCRIBE on the library's channels: it notices a release only when it polls, once a second",
     "add the ACL rules: +subscribe, and & with the channel prefix"},
};
_Static_assert(REDLOCK_FINDING_FAILOVER == 1 << (sizeof findings / sizeof *findings - 1), "every finding is listed");

uint32_t rl_finding_first(uint32_t bits)
{
    for (size_t i = 0; bits && i < sizeof findings / sizeof *findings; i++)
        if (bits & findings[i].bit)
            return findings[i].bit;
    return 0;
}

static const struct finding *find(uint32_t bit)
{
    static const struct finding unknown = {0, "unknown", "unknown", "unknown"};
    for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
        if (findings[i].bit == bit)
            return &findings[i];
    return &unknown;
}

const char *redlock_finding_name(uint32_t finding)
{
    return find(finding)->name;
}

const char *redlock_finding_text(uint32_t finding)
{
    return find(finding)->text;
}

const char *redlock_finding_remedy(uint32_t finding)
{
    return find(finding)->remedy;
}
