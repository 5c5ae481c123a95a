#include "session.h"

#include "command.h"
#include "duration.h"
#include "message.h"
#include "moment.h"
#include "settings.h"
#include "waiting.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Interrupts --- */

static volatile sig_atomic_t interrupt;
static volatile sig_atomic_t stopped; /* acquires, by cli_acquire_stop() */
static redlock_cancellation *_Atomic cancellation;

void cli_acquire_stop(void)
{
    redlock_cancellation *current = atomic_load(&cancellation);

    stopped = 1;
    if (current != NULL)
        redlock_cancel(current);
}

static void on_interrupt(int number)
{
    interrupt = number;
    cli_acquire_stop();
}

static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};
enum { INTERRUPTS = sizeof(interrupts) / sizeof(interrupts[0]) };

sigset_t cli_interrupts(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    for (size_t i = 0; i < INTERRUPTS; i++)
        sigaddset(&signals, interrupts[i]);
    return signals;
}

void cli_interrupts_catch(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    struct sigaction before;

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < INTERRUPTS; i++)
        if (sigaction(interrupts[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* under nohup(1) */
            sigaction(interrupts[i], &action, NULL);
}

void cli_interrupts_block(void)
{
    const sigset_t signals = cli_interrupts();

    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

void cli_outlive_readers(void)
{
    signal(SIGPIPE, SIG_IGN);
}

int cli_interrupted(void)
{
    return interrupt;
}

void cli_interrupt_with(int number)
{
    interrupt = number;
}

void cli_interrupt_again(void)
{
    sigset_t signals;

    if (interrupt == 0)
        return;
    signal(interrupt, SIG_DFL);
    raise(interrupt);
    sigemptyset(&signals); /* a blocked signal stays pending */
    sigaddset(&signals, interrupt);
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
    exit(128 + interrupt); /* process 1 of a container survives its signals */
}

/* --- Client --- */

static void on_log(int level, const char *line, void *arg)
{
    (void)arg;
    if (level == REDLOCK_LOG_ERROR)
        cli_say("%s", line);
    else
        cli_explain("%s", line);
}

static int refuse_settings(const struct cli_settings *settings, redlock_result *result)
{
    if (result->status != REDLOCK_INVALID)
        return cli_fail(CLI_SYSTEM, "%s", redlock_result_text(result));
    cli_say("%s (nodes from %s%s%s)", redlock_result_text(result), settings->nodes_source,
            *settings->config_path != '\0' ? "; config file " : "", settings->config_path);
    return CLI_MISCONFIGURED;
}

static int connect_nodes(redlock_client **client, bool leave_locks)
{
    redlock_result result;
    int status;
    const struct cli_settings *settings = cli_settings_get(&status);

    *client = NULL;
    if (settings == NULL)
        return status;
    if (settings->nodes == NULL) {
        cli_say("no nodes are listed; use --nodes LIST, REDLOCK_NODES, or 'nodes =' in the config file");
        return CLI_MISCONFIGURED;
    }
    redlock_options options = settings->options;
    options.leave_locks = leave_locks;
    options.log = on_log;
    options.log_level = cli_is_verbose ? REDLOCK_LOG_DEBUG : REDLOCK_LOG_ERROR;
    if (redlock_connect(settings->nodes, &options, client, &result) != REDLOCK_OK)
        return refuse_settings(settings, &result);
    return CLI_OK;
}

int cli_connect(redlock_client **client)
{
    return connect_nodes(client, false);
}

int cli_connect_to_leave(redlock_client **client)
{
    return connect_nodes(client, true);
}

void cli_close(redlock_client **client)
{
    redlock_result result;

    if (*client == NULL)
        return;
    if (redlock_close(client, NULL, &result) != REDLOCK_OK)
        cli_explain("close: %s", redlock_result_text(&result)); /* names the nodes, whose structs are freed */
}

/* A node that is unfit or full grants no lock, in quarantine or not. */
bool cli_quarantine_ends(const redlock_node_status *node)
{
    return node->quarantine_ms > 0 && (node->findings & (REDLOCK_FINDINGS_UNFIT | REDLOCK_FINDING_FULL)) == 0;
}

/* Reads the clock first: in the other order the end would be too late by the time between the two. */
int64_t cli_end_of_validity(const redlock_lock *lock)
{
    int64_t now = cli_now_ms();
    int64_t validity_ms = redlock_validity_ms(lock);

    return validity_ms > 0 ? now + validity_ms : 0;
}

/* --- Several resources --- */

static const char *resource_at(const struct cli_acquire *how, size_t index)
{
    return index == 0 ? how->resource : how->options.also[index - 1].bytes;
}

const char *cli_acquire_names(const struct cli_acquire *how, char buffer[CLI_NAMES_SIZE])
{
    char first[CLI_QUOTED_SIZE];
    char second[CLI_QUOTED_SIZE];
    size_t others = how->options.also_count;

    cli_quote(how->resource, first);
    if (others == 0)
        snprintf(buffer, CLI_NAMES_SIZE, "%s", first);
    else if (others == 1)
        snprintf(buffer, CLI_NAMES_SIZE, "%s and %s", first, cli_quote(resource_at(how, 1), second));
    else
        snprintf(buffer, CLI_NAMES_SIZE, "%s and %zu more", first, others);
    return buffer;
}

static bool is_free(const redlock_state *state, const redlock_result *result)
{
    return !state->locked && state->free_nodes >= result->quorum;
}

const char *cli_acquire_obstacle(redlock_client *client, const struct cli_acquire *how, redlock_state *state,
                                 redlock_result *result)
{
    for (size_t i = 0; i <= how->options.also_count; i++)
        if (redlock_query(client, resource_at(how, i), 0, NULL, state, result) == REDLOCK_OK && !is_free(state, result))
            return resource_at(how, i);
    if (how->options.also_count > 0)
        redlock_query(client, how->resource, 0, NULL, state, result);
    return how->resource;
}

/* --- One acquire --- */

/* Whether waiting can help: a majority of the nodes is usable, or will be after its quarantine. */
static bool may_recover(redlock_client *client, const redlock_result *result)
{
    redlock_node_status node;
    uint32_t there = 0;

    for (uint32_t i = 0; i < redlock_nodes(client); i++)
        if (redlock_node_status_get(client, i, &node) == REDLOCK_OK && (node.usable || cli_quarantine_ends(&node)))
            there++;
    return there >= result->quorum;
}

static bool is_worth_waiting(redlock_client *client, const struct cli_acquire *how, const redlock_result *result)
{
    if (how->wait_ms == 0)
        return false;
    if (result->status == REDLOCK_HELD)
        return true;
    if (result->status != REDLOCK_NO_QUORUM && result->status != REDLOCK_TOO_SLOW &&
        result->status != REDLOCK_TIMED_OUT)
        return false;
    return how->insists || may_recover(client, result);
}

enum { HINT_SIZE = CLI_QUOTED_SIZE + 64 };

/* Names a key that is no lock; and for several resources, the one that is not free. */
static void name_obstacle(redlock_client *client, const struct cli_acquire *how, char hint[HINT_SIZE])
{
    char quoted[CLI_QUOTED_SIZE];
    redlock_state state;
    redlock_result look;

    *hint = '\0';
    const char *resource = cli_acquire_obstacle(client, how, &state, &look);
    if (look.status == REDLOCK_OK && strcmp(state.holder.token, "(not a string)") == 0)
        snprintf(hint, HINT_SIZE, "; %s is not a lock: its key holds other data", cli_quote(resource, quoted));
    else if (how->options.also_count > 0 && look.status == REDLOCK_OK && !is_free(&state, &look))
        snprintf(hint, HINT_SIZE, "; %s is not free", cli_quote(resource, quoted));
}

static bool has_quarantine(redlock_client *client)
{
    redlock_node_status node;

    for (uint32_t i = 0; i < redlock_nodes(client); i++)
        if (redlock_node_status_get(client, i, &node) == REDLOCK_OK && cli_quarantine_ends(&node))
            return true;
    return false;
}

static void name_remedy(redlock_client *client, int status, char hint[HINT_SIZE])
{
    *hint = '\0';
    if (has_quarantine(client))
        snprintf(hint, HINT_SIZE, "; if no client holds a lock, redlock trust ends the quarantine");
    else if (status == CLI_NO_QUORUM || status == CLI_MISCONFIGURED)
        snprintf(hint, HINT_SIZE, "; redlock doctor shows the remedy");
}

/* Whether the redlock run that started this process holds the lock, or a reader's part of it, or its only permit: the
 * environment has its token, and the nodes show it. Readers and permits are known by their name alone. */
static bool is_our_parents(redlock_client *client, const struct cli_acquire *how, const redlock_result *result)
{
    const char *token = getenv("REDLOCK_TOKEN");
    const char *name = getenv("REDLOCK_RESOURCE");
    redlock_state state;
    redlock_result look;

    if (result->status != REDLOCK_HELD || token == NULL || name == NULL)
        return false;
    const char *resource = cli_acquire_obstacle(client, how, &state, &look);
    if (look.status != REDLOCK_OK)
        return false;
    if (strcmp(state.holder.token, token) == 0)
        return true;
    return strcmp(resource, name) == 0 &&
           (strcmp(state.holder.token, "(shared)") == 0 || (how->options.permits == 1 && state.permits_taken > 0));
}

enum { NESTED = 1 }; /* no status of the library: those are 0 and below */

/* The first attempt shows at once the reason to wait; then it waits for the remaining time. */
static int acquire(redlock_client *client, const struct cli_acquire *how, redlock_acquire_options *options,
                   redlock_lock **lock, redlock_result *result)
{
    int64_t began_ms = cli_now_ms();
    char hint[HINT_SIZE];

    options->wait_ms = 0;
    int status = redlock_acquire(client, how->resource, options, lock, result);
    cli_explain("first attempt: %s", redlock_result_text(result));
    if (!is_worth_waiting(client, how, result))
        return status;
    if (is_our_parents(client, how, result))
        return NESTED;
    name_remedy(client, CLI_OK, hint);
    if (result->status != REDLOCK_HELD)
        cli_notice("waiting: %s%s", redlock_result_text(result), hint);
    options->wait_ms = how->wait_ms;
    if (how->wait_ms > 0) {
        int64_t left_ms = how->wait_ms - (cli_now_ms() - began_ms);
        options->wait_ms = left_ms > 0 ? left_ms : 1;
    }
    struct cli_waiting *waiting = cli_waiting_show(client, how, options->wait_ms, result->status != REDLOCK_HELD);
    status = redlock_acquire(client, how->resource, options, lock, result);
    cli_waiting_hide(waiting, status == REDLOCK_OK);
    cli_explain("after waiting: %s", redlock_result_text(result));
    return status;
}

static bool lacks_descriptors(const redlock_result *result)
{
    for (uint32_t i = 0; i < result->nodes; i++)
        if (strstr(result->node[i].text, strerror(EMFILE)) != NULL)
            return true;
    return false;
}

static int explain_failure(redlock_client *client, const struct cli_acquire *how, redlock_result *result)
{
    char names[CLI_NAMES_SIZE];
    char hint[HINT_SIZE];
    int status = cli_exit_of(result);

    if (result->status == REDLOCK_CANCELLED)
        return status;
    if (status == CLI_NOT_OBTAINED && how->skips)
        return status;
    if (status == CLI_NO_QUORUM && lacks_descriptors(result)) {
        cli_say("%s not acquired: %s; raise the limit of open files (ulimit -n)", cli_acquire_names(how, names),
                redlock_result_text(result));
        return CLI_SYSTEM;
    }
    *hint = '\0';
    if (status == CLI_NOT_OBTAINED)
        name_obstacle(client, how, hint);
    else if (strstr(redlock_result_text(result), "; redlock doctor ") == NULL)
        name_remedy(client, status, hint);
    (status == CLI_NOT_OBTAINED ? cli_notice : cli_say)("%s not acquired: %s%s", cli_acquire_names(how, names),
                                                        redlock_result_text(result), hint);
    return status;
}

/* flock(1) has --timeout for the wait. */
static void warn_of_timeout(const struct cli_acquire *how)
{
    int64_t timeout_ms;

    if (cli_overrides.timeout != NULL && how->wait_ms == REDLOCK_FOREVER &&
        cli_take_duration("timeout", cli_overrides.timeout, &timeout_ms) && timeout_ms >= 1000)
        cli_notice("--timeout %s is a node's reply timeout; --wait limits the wait for the lock",
                   cli_overrides.timeout);
}

int cli_acquire(redlock_client *client, const struct cli_acquire *how, redlock_lock **lock, redlock_result *result)
{
    redlock_acquire_options options = how->options;
    redlock_cancellation *own;
    char names[CLI_NAMES_SIZE];

    *lock = NULL;
    warn_of_timeout(how);
    if (redlock_cancellation_create(client, &own) != REDLOCK_OK)
        return cli_fail(CLI_SYSTEM, "out of memory");
    options.cancellation = own;
    atomic_store(&cancellation, own);
    cli_interrupts_catch();
    if (interrupt != 0 || stopped)
        redlock_cancel(own);
    int status = acquire(client, how, &options, lock, result);
    atomic_store(&cancellation, NULL);
    redlock_cancellation_destroy(&own);
    if (status != NESTED)
        return status == REDLOCK_OK ? CLI_OK : explain_failure(client, how, result);
    return cli_fail(
        CLI_USAGE,
        "%s is held by the redlock run that started this command, which waits for its end: leave out this inner "
        "redlock, or use another resource",
        cli_acquire_names(how, names));
}
