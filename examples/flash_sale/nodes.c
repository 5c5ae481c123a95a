#define _POSIX_C_SOURCE 200809L

#include "flash_sale/nodes.h"

#include "flash_sale/seller.h"

#include <errno.h>
#include <redlock/redlock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { READY_WAIT_MS = 5000 };

static int complain(const char *what, redlock_result *result)
{
    printf("   %s: %s\n", what, redlock_result_text(result));
    return EXIT_FAILURE;
}

static void print_missing(const redlock_result *result)
{
    for (uint32_t i = 0; i < result->nodes; i++) {
        const redlock_node_result *node = &result->node[i];
        if (node->outcome != REDLOCK_NODE_GRANTED)
            printf("   - %s: %s\n", node->name, node->text[0] ? node->text : redlock_outcome_name(node->outcome));
    }
}

static int judge(const redlock_state *state, const redlock_result *result, int expected_missing)
{
    bool enough_missing = result->nodes - result->granted >= (uint32_t)expected_missing;
    printf("   %u of %u masters answer\n", result->granted, result->nodes);
    print_missing(result);
    if (state->locked_nodes > 0)
        printf("   the lock is still on %u of them, though nobody sells\n", state->locked_nodes);
    if (!enough_missing)
        printf("   at least %d should be missing: they did not fail\n", expected_missing);
    return state->locked_nodes == 0 && enough_missing ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* A majority confirms the last release of a seller. The other nodes may still be about to execute it. */
static int query_until_free(redlock_client *client, redlock_state *state, redlock_result *result)
{
    const struct timespec pause = {0, 10000000};
    int status = redlock_query(client, SELLER_RESOURCE, 0, NULL, state, result);
    for (int again = 0; again < 50 && status == REDLOCK_OK && state->locked_nodes > 0; again++) {
        nanosleep(&pause, NULL);
        status = redlock_query(client, SELLER_RESOURCE, 0, NULL, state, result);
    }
    return status;
}

static int look(redlock_client *client, int expected_missing)
{
    redlock_state state;
    redlock_result result;
    if (redlock_ready(client, READY_WAIT_MS, &result) != REDLOCK_OK)
        return complain("ready", &result);
    if (query_until_free(client, &state, &result) != REDLOCK_OK)
        return complain("query", &result);
    return judge(&state, &result, expected_missing);
}

static int connect_and_look(const char *nodes, int expected_missing)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    redlock_client *client;
    redlock_result result;
    options.node_timeout_ms = 1000; /* long, because only silent nodes count as missing here, not slow ones */
    if (redlock_connect(nodes, &options, &client, &result) != REDLOCK_OK)
        return complain("connect", &result);
    int status = look(client, expected_missing);
    redlock_close(&client, NULL, NULL);
    return status;
}

int nodes_inspect(const char *nodes, int expected_missing)
{
    int status = EXIT_FAILURE;
    fflush(NULL);
    pid_t process = fork();
    if (process == 0)
        exit(connect_and_look(nodes, expected_missing));
    while (process > 0 && waitpid(process, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0;
}
