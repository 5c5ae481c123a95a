#include "diagnosis.h"

#include "session.h"
#include "times.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { CLOCK_OFF_US = 1000000 };

/* Adds a warning. */
__attribute__((format(printf, 4, 5))) static struct cli_finding *find(struct cli_findings *findings, const char *name,
                                                                      const char *remedy, const char *format, ...)
{
    struct cli_finding *finding =
        &findings->finding[findings->count < CLI_FINDINGS_MAX ? findings->count++ : CLI_FINDINGS_MAX - 1];
    va_list arguments;

    *finding = (struct cli_finding){.severity = CLI_WARNING};
    snprintf(finding->name, sizeof(finding->name), "%s", name);
    snprintf(finding->remedy, sizeof(finding->remedy), "%s", remedy);
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof(finding->text), format, arguments);
    va_end(arguments);
    return finding;
}

/* --- A node --- */

static const struct remedy {
    const char *part; /* of the error */
    const char *remedy;
} remedies[] = {
    {"does this port speak TLS", "if it does, write rediss:// in front of the node; otherwise see the server's log"},
    {"does not speak TLS on this port", "list it without rediss://, or with the server's TLS port"},
    {"Protocol error", "no Redis server is on this port: correct the address in the list of nodes"},
    {"the port speak TLS", "list it without rediss://, or with the server's TLS port; or the server hangs"},
    {"a client certificate", "set tls-certificate-file and tls-key-file in the config file"},
    {"require tls_certificate_file", "set tls-certificate-file and tls-key-file; otherwise see the server's log"},
    {"trust tls_certificate_file", "see the server's log: it may not trust this client's certificate"},
    {"alert unknown ca",
     "the server does not trust this client's certificate: set its tls-ca-cert-file to the authority that "
     "issued it, or another tls-certificate-file here"},
    {"alert certificate expired", "this client's certificate has expired: renew tls-certificate-file"},
    {"TLS: the server refused",
     "the server does not accept this client's certificate or TLS version; its log has the reason"},
    {"certificate has expired", "renew the server's certificate; or this machine's clock is wrong"},
    {"certificate is not yet valid", "set this machine's clock, or the server's certificate is for later"},
    {"certificate is not for", "list the node by a name or address that its certificate has, or set tls-server-name"},
    {"certificate not trusted", "set tls-ca-file to the authority that issued the server's certificate"},
    {"it is a Sentinel",
     "write sentinel:// with all Sentinels and the name of the master, or list the servers that it watches"},
    {"MOVED", "another server of its cluster has the slot of the lock's keys: list the cluster, as cluster://HOST"},
    {"ASK", "the slot of the lock's keys moves to another server of its cluster: list the cluster, as cluster://HOST"},
    {"CROSSSLOT",
     "the keys are in several slots: set prefix = {redlock}: and marker-key = {redlock}:marker in all clients"},
    {"non local key",
     "the keys are in several slots: set prefix = {redlock}: and marker-key = {redlock}:marker in all clients"},
    {"CLUSTERDOWN", "the server's cluster does not serve all slots: CLUSTER INFO there"},
    {"Connection refused", "start the server, or correct the address in the list of nodes"},
    {"WRONGPASS", "correct the user, or the password in REDLOCK_PASSWORD or the config file"},
    {"invalid password", "correct the password in REDLOCK_PASSWORD or the config file"}, /* Redis 5 */
    {"arguments for 'auth'",
     "this server has no ACL users: configure a password without a user, or upgrade to Redis 6.0"},
    {"no password is set", "the server has no password: set requirepass there, or configure none"},
    {"nknown command", "the server has renamed a command: restore its name"},
    {"command called from", "the server has renamed a command: restore its name"},
    {"without any password", "the server has no password: set requirepass or a user there, or configure none"},
    {"NOAUTH", "set the password: REDLOCK_PASSWORD, REDLOCK_PASSWORD_FILE or password-file in the config file"},
    {"DENIED", "set a password (requirepass) or users on the server: without one it accepts only its own machine"},
    {"MASTERDOWN", "it is a replica, and its master is down: list masters"},
    {"NOPERM", "grant the user the rights that redlock(7) lists"},
    {"max number of clients", "raise maxclients on the server, or find the clients with many connections"},
    {"TLS", "check rediss:// in the list of nodes and the tls- settings: certificates, names, dates"},
    {"certificate", "check the tls- settings: certificates, names, dates"},
    {"DB index", "correct the database: /N in the list of nodes, or database in the config file"},
    {"resolve", "correct the name in the list of nodes, or the resolver of this machine"},
    {"Name or service", "correct the name in the list of nodes, or the resolver of this machine"},
    {"no reply to the handshake", "the server hangs, or the port is not a Redis server's; check its log"},
    {"no connection within", "check that its host is up, and for a firewall in between"},
    {"Network is unreachable", "check this machine's network and routes"},
    {"Permission denied", "let this user open the server's socket: see unixsocketperm in redis.conf"},
    {"No route", "check that its host is up, and for a firewall in between"},
    {"No such file", "start the server, or correct the path in the list of nodes"},
    {"Too many open files", "raise the limit of open files (ulimit -n)"},
    {"OOM", "raise maxmemory on the server, or free memory"},
    {"MISCONF", "the server cannot save its data and refuses writes: free disk space; its log has the reason"},
    {"NOREPLICAS", "set min-replicas-to-write 0 on the server: replicas add no safety to a lock"},
    {"LOADING", "wait until the server has loaded its data"},
    {"BUSY", "a script occupies the server: SCRIPT KILL"},
};

/* Where another one helps for a Sentinel, or a master of a cluster, than for a node. */
static const struct remedy remedies_of_witnesses[] = {
    {"does not speak TLS on this port",
     "list them by their TLS ports, or without the s of sentinels:// and clusters://, which is for TLS"},
    {"the connection broke", "see their logs; if they speak TLS, write sentinels:// or clusters://"},
    {"no reply", "they hang, or do not speak TLS as listed: sentinels:// and clusters:// are for TLS; see their logs"},
    {"it is no Sentinel", "list Sentinels, whose usual port is 26379; list a server itself without sentinel://"},
    {"it is not in cluster mode", "list the server itself, without cluster://"},
    {"masters with slots", "list the cluster's servers themselves, without cluster://"},
    {"NOAUTH",
     "set their password: in the list for Sentinels, as sentinel://:PASSWORD@HOST, and as for a node for a cluster"},
    {"WRONGPASS",
     "correct their password: in the list for Sentinels, as sentinel://:PASSWORD@HOST, and as for a node for a cluster"},
};

/* NULL: none is known. */
static const char *find_remedy(const struct remedy *table, size_t count, const char *error)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(error, table[i].part) != NULL)
            return table[i].remedy;
    return NULL;
}

static const char *remedy_for(const char *error)
{
    const char *remedy = find_remedy(remedies, COUNT(remedies), error);

    return remedy != NULL ? remedy : "check the server's log";
}

/* said: "HOST:PORT: ERROR; HOST:PORT: ERROR". Each remedy is named once; if none is known, the finding's stays. */
static void set_remedy_of_witnesses(struct cli_finding *finding, const char *said)
{
    char errors[sizeof(((redlock_node_status *)NULL)->witnesses)];
    char text[sizeof(finding->remedy)] = "";
    char *rest = errors, *error;

    snprintf(errors, sizeof(errors), "%s", said);
    while ((error = strsep(&rest, ";")) != NULL) {
        const char *remedy = find_remedy(remedies_of_witnesses, COUNT(remedies_of_witnesses), error);
        size_t used = strlen(text);
        if (remedy == NULL)
            remedy = find_remedy(remedies, COUNT(remedies), error);
        if (remedy != NULL && strstr(text, remedy) == NULL)
            snprintf(text + used, sizeof(text) - used, "%s%s", used > 0 ? "; " : "", remedy);
    }
    if (*text != '\0')
        snprintf(finding->remedy, sizeof(finding->remedy), "%s", text);
}

static bool is_ready(const struct cli_diagnosed_node *node)
{
    return strcmp(node->status.state, "ready") == 0;
}

/* It is behind Sentinel, or in a cluster. */
static bool has_witnesses(const struct cli_diagnosed_node *node)
{
    return *node->status.witnesses != '\0';
}

static const char remedy_of_masters[] =
    "wait for the end of the failover; if it stays, see the logs of those that name this master, and let them all "
    "watch the same servers, of which one is a master";

static const uint32_t of_witnesses = REDLOCK_FINDING_MASTER_UNKNOWN | REDLOCK_FINDING_WITNESSES_SILENT |
                                     REDLOCK_FINDING_WITNESSES_DISAGREE | REDLOCK_FINDING_FAILOVER;

static void judge_link(struct cli_diagnosed_node *node, const redlock_node_result *result)
{
    const char *error = *node->status.error != '\0' ? node->status.error : result->text;

    if (!is_ready(node) && (node->status.findings & of_witnesses) != 0)
        return; /* the finding says more */
    if (!is_ready(node))
        find(&node->findings, "unreachable",
             has_witnesses(node) && strstr(error, "Connection refused") != NULL
                 ? "start the server that they name, or wait until they name another master"
                 : remedy_for(error),
             "%s", *error != '\0' ? error : node->status.state);
    else if (result->outcome == REDLOCK_NODE_TIMED_OUT)
        find(&node->findings, "slow", "check its load, or raise --timeout",
             "it is connected, but did not reply within its timeout");
    else if (result->outcome == REDLOCK_NODE_UNREACHABLE) /* and is connected again */
        find(&node->findings, "unreachable", remedy_for(result->text), "%s", result->text);
}

static void add_library_finding(struct cli_diagnosed_node *node, uint32_t bit)
{
    struct cli_finding *finding =
        find(&node->findings, redlock_finding_name(bit), redlock_finding_remedy(bit), "%s", redlock_finding_text(bit));

    if (bit == REDLOCK_FINDING_WITNESSES_SILENT)
        set_remedy_of_witnesses(finding, node->status.witnesses);
    if (bit == REDLOCK_FINDING_OTHER_DEPLOYMENT) {
        snprintf(finding->text, sizeof(finding->text),
                 "its marker names deployment '%s' with %u nodes; its vote does not count",
                 node->status.marker_deployment, node->status.marker_nodes);
        snprintf(
            finding->remedy, sizeof(finding->remedy),
            "correct the list of nodes or the deployment's name; or, if all its clients are stopped: redlock trust");
    }
    if (bit == REDLOCK_FINDING_REPLICA && has_witnesses(node))
        snprintf(finding->remedy, sizeof(finding->remedy), "%s", remedy_of_masters);
    if (bit == REDLOCK_FINDING_TOO_OLD && *node->status.objection != '\0') /* which has the server's name and version */
        snprintf(finding->text, sizeof(finding->text), "%s", node->status.objection);
}

static void judge_findings(struct cli_diagnosed_node *node)
{
    for (uint32_t bit = 1; bit != 0; bit <<= 1)
        if ((node->status.findings & bit) != 0)
            add_library_finding(node, bit);
}

static void judge_quarantine(struct cli_diagnosed_node *node)
{
    char left[CLI_DURATION_SIZE];

    if (!is_ready(node) || !cli_quarantine_ends(&node->status) || *node->other_server != '\0')
        return;
    const char *why = strstr(node->status.objection, ": ");
    find(&node->findings, "quarantine", "wait; or, if no client holds a lock: redlock trust",
         "it may have lost locks, and grants none for %s%s", cli_duration_text(node->status.quarantine_ms, left),
         why != NULL ? why : "");
}

static void judge_rights(struct cli_diagnosed_node *node)
{
    const char *user = node->status.user; /* from the node's address, the settings or the callback */

    if (*node->status.lacking == '\0')
        return;
    struct cli_finding *finding =
        find(&node->findings, "lacking-rights", "not all rules fit here: grant the user those that redlock(7) lists",
             "user %s lacks %.250s", user, node->status.lacking);
    if (strncmp(node->status.lacking, "(more)", 6) != 0 && strstr(node->status.lacking, " (more)") == NULL)
        snprintf(finding->remedy, sizeof(finding->remedy), "on the node: ACL SETUSER %s %s", user,
                 node->status.lacking);
}

/* An inspection is refused for missing commands or rights, or with the error by which the server refuses new locks. */
static const char of_commands[] = "the server has no ", of_rights[] = "the user lacks ";

static bool begins(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* An unfit node, such as a replica, is refused too; its own finding says why. */
static bool refuses_locks(const struct cli_diagnosed_node *node, const redlock_node_result *result)
{
    return is_ready(node) && (node->status.usable != 0 || cli_quarantine_ends(&node->status)) &&
           result->outcome == REDLOCK_NODE_REFUSED && !begins(result->text, of_rights);
}

static void judge_commands(struct cli_diagnosed_node *node, const redlock_node_result *result)
{
    if (is_ready(node) && begins(result->text, of_commands))
        find(&node->findings, "missing-commands",
             "remove their rename-command from the server's configuration, and restart it", "%s", result->text);
}

static void judge_refusal(struct cli_diagnosed_node *node, const redlock_node_result *result)
{
    if (node->refuses && !begins(result->text, of_commands))
        find(&node->findings, "refusing", remedy_for(result->text), "it grants no lock: %.200s", result->text);
}

static void judge_time(struct cli_diagnosed_node *node, const redlock_options *options)
{
    int64_t low = node->status.clock_low_us, high = node->status.clock_high_us;

    if (node->status.clock_known != 0 && (low > CLOCK_OFF_US || high < -CLOCK_OFF_US))
        find(&node->findings, "clock", "synchronise both clocks by NTP", "its clock is %.1f s %s this machine's",
             (low > 0 ? 1 : -1) * (double)(low + high) / 2e6, low > 0 ? "ahead of" : "behind");
    if (node->round_trip_us > options->node_timeout_ms * 500)
        find(&node->findings, "slow", "raise --timeout, or use a closer node",
             "its round trip of %.1f ms is more than half of its timeout of %u ms", node->round_trip_us / 1e3,
             options->node_timeout_ms);
}

static void judge_persistence(struct cli_diagnosed_node *node, const redlock_options *options)
{
    if (options->guard == 0 && node->status.append_only == 1 && *node->status.append_fsync != '\0' &&
        strcmp(node->status.append_fsync, "always") != 0)
        find(&node->findings, "not-persistent", "turn the guard on, or set appendfsync always",
             "with appendfsync %s it loses its last locks in a crash, and the guard is off", node->status.append_fsync);
}

/* Locks work without these rights; only waiting and healing suffer. */
static bool can_do_without(const char *rule)
{
    static const char *const beginnings[] = {"+client|", "+script|", "+publish", "+subscribe",
                                             "&",        "+z",       "+h",       "+exists"};

    for (size_t i = 0; i < COUNT(beginnings); i++)
        if (strncmp(rule, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return strstr(rule, ":redlock:*") != NULL;
}

static bool has_rights(const redlock_node_status *status)
{
    char rules[sizeof(status->lacking)];
    char *rest = NULL;

    memcpy(rules, status->lacking, sizeof(rules));
    for (char *rule = strtok_r(rules, " ", &rest); rule != NULL; rule = strtok_r(NULL, " ", &rest))
        if (!can_do_without(rule))
            return false;
    return true;
}

static void judge_server(struct cli_diagnosed_node *node)
{
    if (*node->other_server != '\0' && has_witnesses(node))
        find(&node->findings, "several-servers", remedy_of_masters,
             "different masters are named in turn: %s, and then %s", node->status.name, node->other_server);
    else if (*node->other_server != '\0')
        find(&node->findings, "several-servers",
             "list the servers themselves: no proxy that spreads connections, and no name of several servers",
             "its connections lead to different servers, of the run_ids %.8s... and %.8s...", node->status.run_id,
             node->other_server);
}

static void judge_node(struct cli_diagnosed_node *node, const redlock_node_result *result,
                       const redlock_options *options)
{
    node->refuses = refuses_locks(node, result);
    node->works = node->status.usable != 0 && result->outcome != REDLOCK_NODE_TIMED_OUT &&
                  result->outcome != REDLOCK_NODE_UNREACHABLE && has_rights(&node->status) && !node->refuses &&
                  *node->other_server == '\0';
    judge_server(node);
    judge_link(node, result);
    judge_findings(node);
    judge_quarantine(node);
    judge_commands(node, result);
    judge_rights(node);
    judge_refusal(node, result);
    judge_time(node, options);
    judge_persistence(node, options);
}

/* --- All together --- */

static void judge_number(struct cli_diagnosis *diagnosis)
{
    struct cli_findings *findings = &diagnosis->findings;

    if (diagnosis->nodes == 1)
        find(findings, "number", "five nodes tolerate two failures",
             "a single node: if it fails, no lock can be acquired")
            ->severity = CLI_NOTE;
    else if (diagnosis->nodes % 2 == 0)
        find(findings, "number", "use an odd number", "%u nodes tolerate no more failures than %u", diagnosis->nodes,
             diagnosis->nodes - 1)
            ->severity = CLI_NOTE;
}

/* When the quorum-th node leaves quarantine, if the others have no other problem. */
static int64_t recovery(const struct cli_diagnosis *diagnosis)
{
    int64_t needed = 0;

    for (uint32_t i = 0; i < diagnosis->nodes; i++) {
        int64_t candidate = diagnosis->node[i].status.quarantine_ms;
        uint32_t by_then = 0;
        for (uint32_t j = 0; j < diagnosis->nodes; j++) {
            const struct cli_diagnosed_node *node = &diagnosis->node[j];
            bool waits =
                is_ready(node) && cli_quarantine_ends(&node->status) && has_rights(&node->status) && !node->refuses;
            by_then += node->works || (waits && node->status.quarantine_ms <= candidate);
        }
        if (by_then >= diagnosis->quorum && (needed == 0 || candidate < needed))
            needed = candidate;
    }
    return needed;
}

static void judge_whole(struct cli_diagnosis *diagnosis)
{
    diagnosis->severity = CLI_NOTE;
    for (uint32_t i = 0; i < diagnosis->nodes; i++) {
        diagnosis->working += diagnosis->node[i].works;
        if (diagnosis->node[i].findings.count > 0)
            diagnosis->severity = CLI_WARNING;
    }
    if (diagnosis->working >= diagnosis->quorum)
        return;
    diagnosis->severity = CLI_CRITICAL;
    diagnosis->recovers_ms = recovery(diagnosis);
}

/* A separate query: an inspection sends many commands at once. */
static void measure(redlock_client *client, const char *resource, struct cli_diagnosis *diagnosis)
{
    redlock_state state;
    redlock_result result;

    redlock_query(client, resource, 0, NULL, &state, &result);
    for (uint32_t i = 0; i < result.nodes; i++)
        diagnosis->node[i].round_trip_us = result.node[i].latency_us;
}

/* A proxy that spreads connections leads each one to another server, whose restarts they then seem to be. With two servers
 * behind it, of two connections one leads to another server than the client's. */
static void look_again(const char *nodes, const redlock_options *options, const char *resource,
                       struct cli_diagnosis *diagnosis)
{
    redlock_client *client;
    redlock_node_status status;
    redlock_state state;
    redlock_result result;

    for (int looks = 0; looks < 2; looks++) {
        if (redlock_connect(nodes, options, &client, &result) != REDLOCK_OK)
            return;
        redlock_query(client, resource, 0, NULL, &state, &result);
        for (uint32_t i = 0; i < diagnosis->nodes; i++) {
            struct cli_diagnosed_node *node = &diagnosis->node[i];
            if (redlock_node_status_get(client, i, &status) == REDLOCK_OK && strcmp(status.state, "ready") == 0 &&
                is_ready(node) && *status.run_id != '\0' && strcmp(status.run_id, node->status.run_id) != 0)
                snprintf(node->other_server, sizeof(node->other_server), "%s",
                         has_witnesses(node) ? status.name : status.run_id);
        }
        redlock_close(&client, NULL, NULL);
    }
}

/* Returns whether a node is connected. */
static bool read_states(redlock_client *client, struct cli_diagnosis *diagnosis)
{
    bool connected = false;

    for (uint32_t i = 0; i < diagnosis->nodes; i++) {
        redlock_node_status_get(client, i, &diagnosis->node[i].status);
        connected = connected || is_ready(&diagnosis->node[i]);
    }
    return connected;
}

void cli_diagnose(redlock_client *client, const char *nodes, const redlock_options *options, const char *resource,
                  struct cli_diagnosis *diagnosis, redlock_result *result)
{
    memset(diagnosis, 0, sizeof(*diagnosis));
    redlock_inspect(client, resource, 0, NULL, result);
    diagnosis->nodes = result->nodes;
    diagnosis->quorum = result->quorum;
    if (read_states(client, diagnosis)) {
        measure(client, resource, diagnosis);
        read_states(client, diagnosis);
        look_again(nodes, options, resource, diagnosis);
    }
    for (uint32_t i = 0; i < diagnosis->nodes; i++)
        judge_node(&diagnosis->node[i], &result->node[i], options);
    judge_number(diagnosis);
    judge_whole(diagnosis);
}
