/* redlock doctor: finds problems of the nodes, and prints a remedy for each. */
#include "command.h"
#include "diagnosis.h"
#include "json.h"
#include "message.h"
#include "screen.h"
#include "session.h"
#include "settings.h"
#include "times.h"

#include <redlock/redlock.h>

#include <stdio.h>
#include <string.h>

enum { STATE_WIDTH = 8 };

static bool json;

static const char *const severities[] = {"ok", "warning", "critical"};

/* --- For programs --- */

static void write_findings(const struct cli_findings *findings)
{
    cli_json_array("findings");
    for (unsigned i = 0; i < findings->count; i++) {
        const struct cli_finding *finding = &findings->finding[i];
        cli_json_object(NULL);
        cli_json_text("name", finding->name);
        cli_json_text("severity", finding->severity == CLI_NOTE ? "note" : severities[finding->severity]);
        cli_json_text("text", finding->text);
        cli_json_text("remedy", finding->remedy);
        cli_json_end();
    }
    cli_json_end();
}

static void write_clock(const redlock_node_status *status)
{
    if (status->clock_known == 0)
        return;
    cli_json_object("clock_ahead_us");
    cli_json_number("least", status->clock_low_us);
    cli_json_number("most", status->clock_high_us);
    cli_json_end();
}

static void write_marker(const redlock_node_status *status)
{
    if (status->marker_nodes == 0)
        return;
    cli_json_object("marker");
    cli_json_text("deployment", status->marker_deployment);
    cli_json_number("nodes", status->marker_nodes);
    cli_json_number("max_ttl_ms", status->marker_max_ttl_ms);
    cli_json_text("why", status->marker_why);
    cli_json_end();
}

static void write_persistence(const redlock_node_status *status)
{
    if (status->append_only >= 0)
        cli_json_bool("append_only", status->append_only == 1);
    if (*status->append_fsync != '\0')
        cli_json_text("append_fsync", status->append_fsync);
    if (status->snapshots >= 0)
        cli_json_bool("snapshots", status->snapshots == 1);
    if (*status->maxmemory_policy != '\0')
        cli_json_text("maxmemory_policy", status->maxmemory_policy);
}

static void write_node(const struct cli_diagnosed_node *node)
{
    const redlock_node_status *status = &node->status;

    cli_json_object(NULL);
    cli_json_text("name", status->name);
    cli_json_bool("works", node->works);
    cli_json_text("state", status->state);
    if (*status->version != '\0') {
        cli_json_text("server", status->server);
        cli_json_text("version", status->version);
        cli_json_text("role", status->role);
        cli_json_text("run_id", status->run_id);
    }
    if (node->round_trip_us > 0)
        cli_json_number("round_trip_us", node->round_trip_us);
    write_clock(status);
    write_marker(status);
    cli_json_number("quarantine_ms", status->quarantine_ms);
    write_persistence(status);
    cli_json_text("lacking", status->lacking);
    if (*status->witnesses != '\0')
        cli_json_text("witnesses", status->witnesses);
    write_findings(&node->findings);
    cli_json_end();
}

static void write_diagnosis(const struct cli_diagnosis *diagnosis)
{
    cli_json_object(NULL);
    cli_json_text("verdict", severities[diagnosis->severity]);
    cli_json_number("working", diagnosis->working);
    cli_json_number("quorum", diagnosis->quorum);
    if (diagnosis->recovers_ms > 0)
        cli_json_number("recovers_ms", diagnosis->recovers_ms);
    write_findings(&diagnosis->findings);
    cli_json_array("nodes");
    for (uint32_t i = 0; i < diagnosis->nodes; i++)
        write_node(&diagnosis->node[i]);
    cli_json_end();
    cli_json_end();
}

/* --- For people --- */

static void print_findings(const struct cli_findings *findings)
{
    for (unsigned i = 0; i < findings->count; i++) {
        const struct cli_finding *finding = &findings->finding[i];
        printf("    %s: %s\n", finding->name, finding->text);
        if (*finding->remedy != '\0')
            printf("      -> %s\n", finding->remedy);
    }
}

static const char *persistence(const redlock_node_status *status, char *text, size_t size)
{
    if (status->append_only == 1)
        snprintf(text, size, "aof %s", *status->append_fsync != '\0' ? status->append_fsync : "");
    else if (status->append_only == 0)
        snprintf(text, size, "%s", status->snapshots == 1 ? "snapshots" : status->snapshots == 0 ? "none" : "no aof");
    else
        snprintf(text, size, "unknown");
    return text;
}

static const char *or_unknown(const char *text)
{
    return *text != '\0' ? text : "unknown";
}

static void print_titles(int width)
{
    printf("  %-*s  %-*s  %-12s  %-7s  %10s  %10s  %-12s  %-12s  %s\n", width, "node", STATE_WIDTH, "state", "server",
           "role", "round trip", "clock", "persistence", "eviction", "marker");
}

static void print_facts(const struct cli_diagnosed_node *node)
{
    const redlock_node_status *status = &node->status;
    char round_trip[32] = "unknown";
    char clock[32] = "unknown";
    char text[32];
    char server[48] = "unknown";

    if (*status->version != '\0')
        snprintf(server, sizeof(server), "%s %s", status->server, status->version);
    if (node->round_trip_us > 0)
        snprintf(round_trip, sizeof(round_trip), "%.1f ms", node->round_trip_us / 1e3);
    if (status->clock_known != 0)
        snprintf(clock, sizeof(clock), "%+.1f ms", (double)(status->clock_low_us + status->clock_high_us) / 2e3);
    printf("  %-12s  %-7s  %10s  %10s  %-12s  %-12s  %s", server, or_unknown(status->role), round_trip, clock,
           persistence(status, text, sizeof(text)), or_unknown(status->maxmemory_policy),
           *status->marker_why != '\0' ? status->marker_why : "none");
}

static void print_node(const struct cli_diagnosed_node *node, int width)
{
    bool is_ready = strcmp(node->status.state, "ready") == 0;
    int columns = is_ready ? STATE_WIDTH : 0; /* nothing follows the state of an unreachable node */

    printf("  %-*s  ", width, node->status.name);
    if (node->findings.count == 0)
        cli_print(CLI_GOOD, columns, "ok");
    else
        cli_print(node->works ? CLI_DOUBTFUL : CLI_BAD, columns, node->works ? "warning" : "out");
    if (is_ready)
        print_facts(node);
    putchar('\n');
    if (*node->status.witnesses != '\0')
        printf("    %s: %s\n", *node->status.name == '{' ? "masters" : "sentinels", node->status.witnesses);
    print_findings(&node->findings);
}

static void print_verdict(const struct cli_diagnosis *diagnosis)
{
    static const enum cli_colour colours[] = {CLI_GOOD, CLI_DOUBTFUL, CLI_BAD};
    char left[CLI_DURATION_SIZE];
    uint32_t spare = diagnosis->working - diagnosis->quorum;

    cli_print(colours[diagnosis->severity], 0, severities[diagnosis->severity]);
    printf(": %u of %u nodes grant locks (%u needed); ", diagnosis->working, diagnosis->nodes, diagnosis->quorum);
    if (diagnosis->severity != CLI_CRITICAL)
        printf("%u more may fail\n", spare);
    else if (diagnosis->recovers_ms > 0)
        printf("none can be acquired for %s\n", cli_duration_text(diagnosis->recovers_ms, left));
    else
        printf("none can be acquired\n");
}

static void print_diagnosis(const struct cli_diagnosis *diagnosis)
{
    int width = 0;

    for (uint32_t i = 0; i < diagnosis->nodes; i++)
        width = cli_wider(width, diagnosis->node[i].status.name);
    print_verdict(diagnosis);
    print_titles(width);
    for (uint32_t i = 0; i < diagnosis->nodes; i++)
        print_node(&diagnosis->node[i], width);
    print_findings(&diagnosis->findings);
}

/* --- The command --- */

static int diagnose(redlock_client *client, const struct cli_arguments *arguments)
{
    const char *resource = arguments->count == 1 ? arguments->words[0] : "redlock-doctor";
    static struct cli_diagnosis diagnosis; /* large */
    redlock_result result;

    cli_diagnose(client, cli_settings.nodes, &cli_settings.options, resource, &diagnosis, &result);
    cli_explain_result("inspection", &result);
    if (result.nodes == 0)
        return cli_fail(cli_exit_of(&result), "%s", redlock_result_text(&result));
    if (json)
        write_diagnosis(&diagnosis);
    else
        print_diagnosis(&diagnosis);
    return (int)diagnosis.severity; /* 0, 1, 2: like monitoring plugins */
}

static int check(const struct cli_arguments *arguments)
{
    if (arguments->count > 1)
        return cli_misused("at most one resource: the one whose keys are checked");
    return arguments->count == 0 || cli_resource_read(arguments->words[0]) ? CLI_OK : CLI_USAGE;
}

static const struct cli_option options[] = {
    {0, "json", NULL, "write an object, on one line", .flag = &json},
    {0},
};

const struct cli_command cli_command_doctor = {
    .name = "doctor",
    .arguments = "[RESOURCE]",
    .summary = "Check the nodes, and print a remedy for each problem",
    .help =
        "It tries the user's rights, without any effect, on the keys of RESOURCE: name one that the user may lock.\n"
        "The server records each refusal in its ACL LOG.\n"
        "\n"
        "exit status, for monitoring: 0 ok; 1 warning: locks can be acquired, but there are problems;\n"
        "2 critical: no lock can be acquired; 64 usage; 78 misconfigured; 71 system error\n",
    .options = options,
    .run = check,
    .use = diagnose,
};
