#include "src/core/result.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "quorum/permits.h"
#include "src/core/escape.h"

/* ------------------------------------------------------------------------------------------------------------ words */

/* A new status is one line here, beside its value in the public header; so is a new outcome or loss. */
#define STATUSES(X)                                                                                                    \
    X(OK, 0, "done")                                                                                                   \
    X(HELD, EBUSY, "held by another client")                                                                           \
    X(NO_QUORUM, EHOSTUNREACH, "no majority of the nodes can be reached")                                              \
    X(MISCONFIGURED, EACCES, "too many nodes are misconfigured for a majority")                                        \
    X(TOO_SLOW, ETIME, "granted too late: less validity was left than requested")                                      \
    X(TIMED_OUT, ETIMEDOUT, "timed out")                                                                               \
    X(CANCELLED, ECANCELED, "cancelled")                                                                               \
    X(LOST, ESTALE, "the lock is no longer held")                                                                      \
    X(INVALID, EINVAL,                                                                                                 \
      "invalid call: check the arguments; call an asynchronous client, and its locks, only from the thread "           \
      "that attached it, and no client in a forked child or after its close")                                          \
    X(NO_MEMORY, ENOMEM, "out of memory")                                                                              \
    X(SYSTEM, EAGAIN, "the system refused a thread, a descriptor or random bytes")                                     \
    X(CLOCK, ERANGE,                                                                                                   \
      "no fencing token: this machine's clock and the nodes' clocks differ by more than a day; set them by NTP")

/* In the order of the rules' votes, which have the same values; and the field of the result that counts them. */
#define OUTCOMES(X)                                                                                                    \
    X(GRANTED, "granted", granted)                                                                                     \
    X(HELD, "held", held)                                                                                              \
    X(ABSENT, "absent", absent)                                                                                        \
    X(REFUSED, "refused", refused)                                                                                     \
    X(UNREACHABLE, "unreachable", unreachable)                                                                         \
    X(TIMED_OUT, "timed out", timed_out)                                                                               \
    X(UNATTESTED, "unattested", unattested)

/* The rules' losses have the same values. */
#define LOSSES(X)                                                                                                      \
    X(EXPIRED, "expired", "its validity ended")                                                                        \
    X(GONE, "gone", "a majority of the nodes no longer has it")                                                        \
    X(CLOCK, "clock", "this machine's clock stopped, so it may have expired on the nodes")                             \
    X(CLOSED, "closed", "the client was closed")

static const struct {
    const char *name;
    const char *text;
    int number; /* errno */
} statuses[] = {
#define ROW(name, number, text) [-REDLOCK_##name] = {"REDLOCK_" #name, text, number},
    STATUSES(ROW)
#undef ROW
};
_Static_assert(sizeof statuses / sizeof *statuses == REDLOCK_STATUSES, "statistics count every status");

static const char *const outcomes[] = {[REDLOCK_NODE_PENDING] = "pending",
#define ROW(name, text, field) [REDLOCK_NODE_##name] = text,
                                       OUTCOMES(ROW)
#undef ROW
};
#define CHECK(name, text, field) _Static_assert((int)QUORUM_##name == (int)REDLOCK_NODE_##name, "a vote is an outcome");
OUTCOMES(CHECK)
#undef CHECK
_Static_assert((int)QUORUM_PENDING == (int)REDLOCK_NODE_PENDING, "a vote is an outcome");
_Static_assert(QUORUM_VOTES == sizeof outcomes / sizeof *outcomes, "every vote is an outcome");
_Static_assert(QUORUM_NODES_MAX == REDLOCK_NODES_MAX, "the rules count every node");
_Static_assert(QUORUM_PERMITS_MAX == REDLOCK_PERMITS_MAX, "the rules count every permit");

static const struct {
    const char *name;
    const char *text;
} losses[] = {[REDLOCK_NOT_LOST] = {"", "not lost"},
#define ROW(value, name, text) [REDLOCK_LOSS_##value] = {name, text},
              LOSSES(ROW)
#undef ROW
};
#define CHECK(value, name, text) _Static_assert((int)QUORUM_LOSS_##value == (int)REDLOCK_LOSS_##value, name);
LOSSES(CHECK)
#undef CHECK
_Static_assert((int)QUORUM_NOT_LOST == (int)REDLOCK_NOT_LOST, "not lost");
_Static_assert(sizeof losses / sizeof *losses == sizeof(redlock_statistics){0}.losses / sizeof(uint64_t),
               "statistics count every loss");

static const int verdicts[] = {
    [QUORUM_UNDECIDED] = REDLOCK_NO_QUORUM,
    [QUORUM_WON] = REDLOCK_OK,
    [QUORUM_LOST_HELD] = REDLOCK_HELD,
    [QUORUM_LOST_NO_QUORUM] = REDLOCK_NO_QUORUM,
    [QUORUM_LOST_MISCONFIGURED] = REDLOCK_MISCONFIGURED,
    [QUORUM_LOST_TOO_SLOW] = REDLOCK_TOO_SLOW,
    [QUORUM_LOST_GONE] = REDLOCK_LOST,
    [QUORUM_LOST_CANCELLED] = REDLOCK_CANCELLED,
    [QUORUM_LOST_CLOCK] = REDLOCK_CLOCK,
};
_Static_assert(sizeof verdicts / sizeof *verdicts == QUORUM_VERDICTS, "every verdict has a status");

static bool is_status(int status)
{
    return status <= 0 && status > -REDLOCK_STATUSES;
}

const char *redlock_status_name(int status)
{
    return is_status(status) ? statuses[-status].name : "unknown";
}

const char *redlock_status_text(int status)
{
    return is_status(status) ? statuses[-status].text : "unknown";
}

int redlock_status_errno(int status)
{
    return is_status(status) ? statuses[-status].number : EINVAL;
}

const char *redlock_outcome_name(int outcome)
{
    return outcome >= 0 && outcome < QUORUM_VOTES ? outcomes[outcome] : "unknown";
}

static bool is_loss(int loss)
{
    return loss >= 0 && (size_t)loss < sizeof losses / sizeof *losses;
}

const char *redlock_loss_name(int loss)
{
    return is_loss(loss) ? losses[loss].name : "unknown";
}

const char *redlock_loss_text(int loss)
{
    return is_loss(loss) ? losses[loss].text : "unknown";
}

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

#define TEXT(number)                      #number
#define VERSION_TEXT(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *redlock_version(void)
{
    return VERSION_TEXT(REDLOCK_VERSION_MAJOR, REDLOCK_VERSION_MINOR, REDLOCK_VERSION_PATCH);
}

void rl_result_clear(redlock_result *result, unsigned nodes)
{
    memset(result, 0, offsetof(redlock_result, node));
    memset(result->node, 0, nodes * sizeof *result->node);
    result->text[0] = '\0';
    result->nodes = nodes;
    result->quorum = nodes ? quorum_majority(nodes) : 0;
}

int rl_result_fail(redlock_result *result, int status, const char *format, ...)
{
    if (!result)
        return status;
    rl_result_clear(result, 0);
    result->status = result->cause = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->text, sizeof result->text, format, arguments);
    va_end(arguments);
    return status;
}

int rl_result_status(enum quorum_verdict verdict)
{
    assert(verdict < QUORUM_VERDICTS);
    return verdicts[verdict];
}

void rl_result_votes(redlock_result *result, const struct quorum_tally *tally)
{
    for (unsigned i = 0; i < tally->nodes; i++) {
        enum quorum_vote vote = quorum_tally_vote_of(tally, i);
        result->node[i].outcome = (int)vote;
    }
#define COUNT(name, text, field) result->field = quorum_tally_count(tally, QUORUM_##name);
    OUTCOMES(COUNT)
#undef COUNT
}

void rl_result_copy_votes(redlock_result *result, const redlock_result *from)
{
#define COPY(name, text, field) result->field = from->field;
    OUTCOMES(COPY)
#undef COPY
    result->kept_releases = from->kept_releases;
    result->remaining_ms = from->remaining_ms;
    result->holder = from->holder;
    for (unsigned i = 0; i < result->nodes; i++) {
        const char *name = result->node[i].name;
        result->node[i] = from->node[i];
        result->node[i].name = name;
    }
}

/* ------------------------------------------------------------------------------------------------------- log line */

static unsigned count(const redlock_result *result, int outcome)
{
    unsigned found = 0;
    for (unsigned i = 0; i < result->nodes; i++)
        found += result->node[i].outcome == outcome;
    return found;
}

/* "2 granted, 3 unreachable (10.0.0.1:6379 connection refused; ...)" */
static void add_class(struct rl_writer *text, const redlock_result *result, int outcome, const char **separator)
{
    unsigned found = count(result, outcome);
    if (!found)
        return;
    rl_write(text, "%s%u %s", *separator, found, redlock_outcome_name(outcome));
    *separator = ", ";
    if (outcome == REDLOCK_NODE_GRANTED || outcome == REDLOCK_NODE_PENDING)
        return;
    const char *inner = " (";
    for (unsigned i = 0; i < result->nodes; i++) {
        const redlock_node_result *node = &result->node[i];
        if (node->outcome != outcome)
            continue;
        /* A close reports no names, because they end with the client; the nodes' texts begin with them. */
        const char *name = node->name ? node->name : "";
        rl_write(text, "%s%s%s%s", inner, name, name[0] && node->text[0] ? " " : "", node->text);
        inner = "; ";
    }
    rl_write(text, ")");
}

/* If all nodes are pending, the operation ended before its first round: listing them says nothing. */
static bool was_any_node_sent_to(const redlock_result *result)
{
    return result->attempts > 0 || count(result, REDLOCK_NODE_PENDING) < result->nodes;
}

/* A key that is no string makes SET with GET fail on every node: readers have it, or another program. */
static bool is_no_string(const redlock_result *result)
{
    unsigned held = 0;
    for (unsigned i = 0; i < result->nodes; i++) {
        const redlock_node_result *node = &result->node[i];
        if (node->outcome == REDLOCK_NODE_HELD && strncmp(node->text, "WRONGTYPE", 9) != 0)
            return false;
        held += node->outcome == REDLOCK_NODE_HELD;
    }
    return held > 0;
}

/* The status; or the holder of the lock, and how long it is held. */
static const char *status_text(const redlock_result *result, int status)
{
    if (status == REDLOCK_HELD && strcmp(result->holder.token, RL_REMARK_NO_LOCK) == 0)
        return "not a lock: its key holds other data; choose another name";
    if (status == REDLOCK_HELD && strcmp(result->holder.token, RL_REMARK_SHARED) == 0)
        return "held by readers";
    if (status == REDLOCK_HELD && !result->holder.token[0] && is_no_string(result))
        return "held by readers, or not a lock";
    return redlock_status_text(status);
}

/* "held by web-3:4711 since 10:42:07, for 12.3 s unless extended": the time of day is the local one. */
static void add_status(struct rl_writer *text, const redlock_result *result, int status)
{
    const redlock_holder *holder = &result->holder;
    char clock[32] = "";
    if (status != REDLOCK_HELD || !holder->label[0]) {
        rl_write(text, "%s", status_text(result, status));
    } else {
        time_t since = (time_t)holder->since_s, now = time(NULL);
        bool is_recent = since <= now && now - since < 43200;
        struct tm local;
        if (localtime_r(&since, &local))
            strftime(clock, sizeof clock, is_recent ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &local);
        rl_write(text, "held by %s%s%s", holder->label, clock[0] ? " since " : "", clock);
    }
    if (status == REDLOCK_HELD && result->remaining_ms > 0 && result->remaining_ms != REDLOCK_STATE_NO_EXPIRY)
        rl_write(text, ", for %.1f s unless extended", (double)result->remaining_ms / 1000);
}

static bool is_any_refused_by_acl(const redlock_result *result)
{
    for (unsigned i = 0; i < result->nodes; i++)
        if (result->node[i].outcome == REDLOCK_NODE_REFUSED &&
            (strstr(result->node[i].text, "NOPERM ") || strstr(result->node[i].text, "ACL failure") ||
             strstr(result->node[i].text, "The user executing")))
            return true;
    return false;
}

const char *redlock_result_text(redlock_result *result)
{
    if (!result)
        return "";
    if (result->text[0])
        return result->text;
    struct rl_writer text = {result->text, sizeof result->text, 0};
    if (result->pending_undos) /* a close */
        rl_write(&text, "closed, with %u undo%s not confirmed (the keys expire)", result->pending_undos,
                 result->pending_undos == 1 ? "" : "s");
    else
        add_status(&text, result, result->status);
    if (result->cause != result->status) {
        rl_write(&text, "; the last attempt: ");
        add_status(&text, result, result->cause);
    }
    const char *separator = ": ";
    for (int outcome = REDLOCK_NODE_GRANTED; outcome < QUORUM_VOTES; outcome++)
        add_class(&text, result, outcome, &separator);
    if (was_any_node_sent_to(result))
        add_class(&text, result, REDLOCK_NODE_PENDING, &separator);
    if (is_any_refused_by_acl(result))
        rl_write(&text, "; redlock doctor names the rights to grant");
    if (result->kept_releases)
        rl_write(&text, "; %u node%s the release when connected again", result->kept_releases,
                 result->kept_releases == 1 ? " gets" : "s get");
    return result->text;
}
