/* redlock trust: ends the nodes' quarantine, because an operator vouches that no lock is held. */
#include "command.h"
#include "message.h"
#include "session.h"
#include "settings.h"
#include "times.h"

#include <redlock/redlock.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool yes;

/* --- Nodes in quarantine --- */

static bool is_untrusted(const redlock_node_status *node)
{
    return node->quarantine_ms > 0 || (node->findings & REDLOCK_FINDING_OTHER_DEPLOYMENT) != 0;
}

static void print_node(const redlock_node_status *node)
{
    if (strcmp(node->state, "ready") != 0)
        printf("  %s: cannot be reached: %s\n", node->name, node->error);
    else if ((node->findings & REDLOCK_FINDING_OTHER_DEPLOYMENT) != 0)
        printf("  %s: belongs to deployment '%s' of %u nodes, and will be taken from it\n", node->name,
               node->marker_deployment, node->marker_nodes);
    else if (*node->objection != '\0')
        printf("  %s: %s\n", node->name, node->objection);
    else
        printf("  %s: grants locks already\n", node->name);
}

/* Prints all nodes; returns whether one of them is to be trusted. */
static bool print_nodes(redlock_client *client)
{
    redlock_node_status node;
    bool untrusted = false;

    for (uint32_t i = 0; i < redlock_nodes(client); i++)
        if (redlock_node_status_get(client, i, &node) == REDLOCK_OK) {
            untrusted = is_untrusted(&node) || untrusted;
            print_node(&node);
        }
    return untrusted;
}

/* --- Confirmation --- */

static void print_assertion(void)
{
    char text[CLI_DURATION_SIZE];

    printf("\n"
           "A node in quarantine may have lost locks that are still held, and waits until\n"
           "each of them has expired. Trust it only if no client holds a lock: the\n"
           "deployment is new, or all its clients have been stopped for %s (max-ttl).\n"
           "A lock that is held nevertheless may be granted a second time.\n\n",
           cli_duration_exact(cli_settings.options.max_ttl_ms, text));
}

static bool is_confirmed(void)
{
    char answer[64];

    fprintf(stderr, "Are you sure that no client holds a lock? [y/N] "); /* the output may go to a file */
    if (fgets(answer, sizeof(answer), stdin) == NULL)
        return fputc('\n', stderr), false;
    answer[strcspn(answer, "\r\n")] = '\0';
    return strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
}

/* --- The command --- */

static int trust(redlock_client *client)
{
    redlock_result result;
    int status = redlock_trust(client, NULL, &result);

    cli_explain_result("trust", &result);
    printf("trusted: %u of %u nodes\n", result.granted, result.nodes);
    fflush(stdout);
    for (uint32_t i = 0; i < result.nodes; i++)
        if (result.node[i].outcome != REDLOCK_NODE_GRANTED)
            cli_say("%s is not trusted: %s%s%s", result.node[i].name, redlock_outcome_name(result.node[i].outcome),
                    *result.node[i].text != '\0' ? ": " : "", result.node[i].text);
    if (status != REDLOCK_OK)
        cli_say("too few nodes are trusted; repair the others, or wait until their quarantine ends");
    return cli_exit_of(&result);
}

static int decide(redlock_client *client, const struct cli_arguments *arguments)
{
    redlock_state state;
    redlock_result result;

    (void)arguments;
    redlock_query(client, "redlock-trust", 0, NULL, &state, &result); /* waits until each node has replied or failed */
    cli_explain_result("connecting", &result);
    if (!print_nodes(client)) {
        printf(result.status == REDLOCK_OK ? "There is nothing to trust: no node is in quarantine.\n"
                                           : "There is nothing to trust among the reachable nodes.\n");
        return cli_exit_of(&result);
    }
    print_assertion();
    fflush(stdout); /* before a message on standard error */
    if (!yes && isatty(STDIN_FILENO) != 1)
        return cli_misused("there is no terminal for the confirmation; use --yes if no client holds a lock");
    if (!yes && !is_confirmed())
        return cli_fail(CLI_NOT_OBTAINED, "nothing was changed");
    return trust(client);
}

static int check(const struct cli_arguments *arguments)
{
    if (arguments->count > 0)
        return cli_misused("it takes no arguments: all nodes are trusted");
    int status = cli_settings_load();
    if (status == CLI_OK && cli_settings.options.guard == 0)
        return cli_fail(CLI_MISCONFIGURED, "the guard is off (%s): there is no quarantine to end",
                        cli_settings.config_path);
    return status;
}

static const struct cli_option options[] = {
    {'y', "yes", NULL, "skip the confirmation: no client holds a lock", .flag = &yes},
    {0},
};

const struct cli_command cli_command_trust = {
    .name = "trust",
    .arguments = "",
    .summary = "End the quarantine of new nodes, if no client holds a lock",
    .help =
        "Nodes that are new or have restarted grant no lock until every lock that they may have lost has expired: max-ttl\n"
        "plus a margin. Nodes of another deployment become part of this one.\n"
        "\n"
        "exit status: 0 a majority is trusted; 1 not confirmed; 69 too few nodes; 78 misconfigured; 64 usage\n",
    .options = options,
    .run = check,
    .use = decide,
};
