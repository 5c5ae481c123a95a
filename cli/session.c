#include "session.h"

#include "command.h"
#include "message.h"
#include "settings.h"
#include "times.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

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

static int refuse_settings(redlock_result *result)
{
    if (result->status != REDLOCK_INVALID)
        return cli_fail(CLI_SYSTEM, "%s", redlock_result_text(result));
    cli_say("%s (nodes from %s%s%s)", redlock_result_text(result), cli_settings.nodes_source,
            *cli_settings.config_path != '\0' ? "; config file " : "", cli_settings.config_path);
    return CLI_MISCONFIGURED;
}

int cli_connect(redlock_client **client, bool leaves_locks)
{
    redlock_result result;
    int status = cli_settings_load();

    *client = NULL;
    if (status != CLI_OK)
        return status;
    if (cli_settings.nodes == NULL)
        return cli_fail(CLI_MISCONFIGURED,
                        "no nodes are listed; use --nodes LIST, REDLOCK_NODES, or 'nodes =' in the config file");
    redlock_options options = cli_settings.options;
    options.leave_locks = leaves_locks;
    options.log = on_log;
    options.log_level = cli_is_verbose ? REDLOCK_LOG_DEBUG : REDLOCK_LOG_ERROR;
    if (redlock_connect(cli_settings.nodes, &options, client, &result) != REDLOCK_OK)
        return refuse_settings(&result);
    return CLI_OK;
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

int64_t cli_end_of_validity(const redlock_lock *lock)
{
    return redlock_valid_until_ns(lock) / 1000000;
}

/* --- What run and acquire share --- */

struct cli_given cli_given = {.wait_ms = REDLOCK_FOREVER,
                              .ttl_ms = CLI_NOT_GIVEN,
                              .cap_ms = CLI_NOT_GIVEN,
                              .conflict = {CLI_NOT_OBTAINED, 0, 255}};

int cli_acquire_prepare(struct cli_acquire *how)
{
    const struct cli_given *given = &cli_given;
    const redlock_options *settings = &cli_settings.options;
    char text[CLI_DURATION_SIZE];

    if (given->no_wait && given->wait_ms != REDLOCK_FOREVER)
        return cli_misused("--wait and --no-wait contradict each other");
    int status = cli_settings_load();
    if (status != CLI_OK)
        return status;
    int64_t ttl_ms = given->ttl_ms != CLI_NOT_GIVEN ? given->ttl_ms : settings->ttl_ms;
    int64_t most_ms = settings->guard ? settings->max_ttl_ms : CLI_TTL_MOST_MS;
    if (!cli_ttl_fits(ttl_ms, ""))
        return CLI_USAGE;
    if (given->cap_ms != CLI_NOT_GIVEN && (given->cap_ms < ttl_ms || given->cap_ms > UINT32_MAX))
        return cli_fail(CLI_USAGE, "--cap must be at least the ttl, that is %s, and at most 49 days",
                        cli_duration_exact(ttl_ms, text));
    if (given->at_least_ms > most_ms)
        return cli_fail(CLI_USAGE, "--at-least must be from 0 to %s%s", cli_duration_exact(most_ms, text),
                        settings->guard
                            ? ", the deployment's max-ttl; for more raise max-ttl in the config file of every machine"
                            : "");
    how->options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    how->options.ttl_ms = (uint32_t)ttl_ms;
    how->options.cap_ms = given->cap_ms != CLI_NOT_GIVEN ? (uint32_t)given->cap_ms : 0;
    how->options.at_least_ms = (uint32_t)given->at_least_ms;
    how->options.fence = given->fence;
    how->options.wait_ms = given->no_wait ? 0 : given->wait_ms;
    return CLI_OK;
}

/* A lock that is held is no news. */
static bool skips(void)
{
    return cli_given.conflict.value == 0;
}

/* --- Several resources --- */

enum { NAMES_SIZE = 2 * CLI_QUOTED_SIZE };

static const char *resource_at(const struct cli_acquire *how, size_t index)
{
    return index == 0 ? how->resource : how->options.also[index - 1].bytes;
}

/* "'a'", "'a' and 'b'" or "'a' and 3 more", for messages. Returns buffer. */
static const char *names_of(const struct cli_acquire *how, char buffer[NAMES_SIZE])
{
    char first[CLI_QUOTED_SIZE];
    char second[CLI_QUOTED_SIZE];
    size_t others = how->options.also_count;

    cli_quote(how->resource, first);
    if (others == 0)
        snprintf(buffer, NAMES_SIZE, "%s", first);
    else if (others == 1)
        snprintf(buffer, NAMES_SIZE, "%s and %s", first, cli_quote(resource_at(how, 1), second));
    else
        snprintf(buffer, NAMES_SIZE, "%s and %zu more", first, others);
    return buffer;
}

static bool is_free(const redlock_state *state, const redlock_result *result)
{
    return !state->locked && state->free_nodes >= result->quorum;
}

/* Queries the nodes for the first resource that is not free, or the first of all. state, result: of that resource. */
static const char *find_obstacle(redlock_client *client, const struct cli_acquire *how, redlock_state *state,
                                 redlock_result *result)
{
    for (size_t i = 0; i <= how->options.also_count; i++)
        if (redlock_query(client, resource_at(how, i), 0, NULL, state, result) == REDLOCK_OK && !is_free(state, result))
            return resource_at(how, i);
    if (how->options.also_count > 0)
        redlock_query(client, how->resource, 0, NULL, state, result);
    return how->resource;
}

/* --- The wait: a status line on a terminal, otherwise a line when it begins; and one at its end --- */

/* A wait that is over at once is not worth a line. */
enum { SECOND_MS = 1000, WORTH_A_LINE_MS = 500 };

struct waiting {
    redlock_client *client;
    const struct cli_acquire *how;
    int64_t wait_ms;
    int64_t began_ms;
    pthread_t thread;
    int over;   /* readable when the wait is over */
    bool said;  /* that it begins, in a line, without a terminal */
    bool shown; /* by the thread, which uses the client and `how` meanwhile */
};

/* The keys are free on a majority, but some nodes grant no lock, for example in quarantine: the first one's reason. */
static void describe_nodes(redlock_client *client, const redlock_state *state, char *text, size_t size)
{
    redlock_node_status node, first;
    uint32_t nodes = redlock_nodes(client), out = 0;

    for (uint32_t i = 0; i < nodes; i++)
        if (redlock_node_status_get(client, i, &node) == REDLOCK_OK && node.usable == 0 && out++ == 0)
            first = node;
    if (out == 0)
        snprintf(text, size, "held on %u of %u nodes, free on %u", state->locked_nodes, nodes, state->free_nodes);
    else
        snprintf(text, size, "not held, but %u of %u nodes grant no lock: %s: %s", out, nodes, first.name,
                 *first.objection != '\0' ? first.objection : first.error);
}

/* For several resources, describes the one that is not free. */
static void describe_obstacle(redlock_client *client, const struct cli_acquire *how, char *text, size_t size)
{
    char quoted[CLI_QUOTED_SIZE];
    char left[CLI_LEFT_SIZE];
    char holder[CLI_HOLDER_SIZE];
    redlock_state state;
    redlock_result result;

    const char *resource = find_obstacle(client, how, &state, &result);
    if (how->options.also_count > 0) {
        int length = snprintf(text, size, "%s ", cli_quote(resource, quoted));
        text += length;
        size -= (size_t)length;
    }
    cli_holder_text(&state.holder, holder);
    if (result.status != REDLOCK_OK)
        snprintf(text, size, "%s", redlock_result_text(&result));
    else if (state.locked)
        snprintf(text, size, "held%s on %u of %u nodes%s", holder, state.locked_nodes, result.nodes,
                 cli_left_text(state.remaining_ms, "renewed", left));
    else if (state.permits_taken > 0)
        snprintf(text, size, "%u permits are taken", state.permits_taken);
    else
        describe_nodes(client, &state, text, size);
}

static void draw(struct waiting *waiting)
{
    char names[NAMES_SIZE];
    char left[CLI_DURATION_SIZE];
    char holder[1024];
    int64_t left_ms = waiting->wait_ms - (cli_now_ms() - waiting->began_ms);
    void (*print)(const char *format, ...) = cli_is_live() ? cli_live : cli_say;

    if (waiting->said || cli_is_quiet)
        return;
    waiting->said = !cli_is_live();
    describe_obstacle(waiting->client, waiting->how, holder, sizeof(holder));
    if (waiting->wait_ms == REDLOCK_FOREVER)
        print("waiting for %s: %s; no limit", names_of(waiting->how, names), holder);
    else
        print("waiting for %s: %s; %s left to wait", names_of(waiting->how, names), holder,
              cli_duration_text(left_ms > 0 ? left_ms : 0, left));
}

/* True: the wait is over. */
static bool pause_for(const struct waiting *waiting, int pause_ms)
{
    struct pollfd over = {.fd = waiting->over, .events = POLLIN};

    return poll(&over, 1, pause_ms) != 0;
}

static void *show(void *arg)
{
    struct waiting *waiting = arg;

    bool over = !cli_is_live() && pause_for(waiting, WORTH_A_LINE_MS);

    while (!over) {
        draw(waiting);
        over = pause_for(waiting, SECOND_MS);
    }
    return NULL;
}

/* Signals go to the thread that waits. */
static void waiting_show(struct waiting *waiting)
{
    sigset_t all;
    sigset_t before;

    if (skips() && !cli_is_live())
        return;
    waiting->over = eventfd(0, EFD_CLOEXEC);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    waiting->shown = waiting->over >= 0 && pthread_create(&waiting->thread, NULL, show, waiting) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void waiting_hide(struct waiting *waiting, bool acquired)
{
    char names[NAMES_SIZE];
    char waited[CLI_DURATION_SIZE];
    int64_t waited_ms = cli_now_ms() - waiting->began_ms;

    if (waiting->shown) {
        eventfd_write(waiting->over, 1);
        pthread_join(waiting->thread, NULL);
        cli_live("%s", "");
    }
    if (waiting->over >= 0)
        close(waiting->over);
    if (waiting->shown && acquired && waited_ms >= WORTH_A_LINE_MS)
        cli_notice("%s acquired after %s", names_of(waiting->how, names), cli_duration_text(waited_ms, waited));
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
    if (how->options.wait_ms == 0)
        return false;
    if (result->status == REDLOCK_HELD)
        return true;
    if (result->status != REDLOCK_NO_QUORUM && result->status != REDLOCK_TOO_SLOW &&
        result->status != REDLOCK_TIMED_OUT)
        return false;
    return cli_given.wait_ms != REDLOCK_FOREVER || may_recover(client, result);
}

enum { HINT_SIZE = CLI_QUOTED_SIZE + 64 };

/* Names a key that is no lock; and for several resources, the one that is not free. */
static void name_obstacle(redlock_client *client, const struct cli_acquire *how, char hint[HINT_SIZE])
{
    char quoted[CLI_QUOTED_SIZE];
    redlock_state state;
    redlock_result look;

    const char *resource = find_obstacle(client, how, &state, &look);
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
    const char *resource = find_obstacle(client, how, &state, &look);
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
    char hint[HINT_SIZE] = "";

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
    options->wait_ms = how->options.wait_ms;
    if (how->options.wait_ms > 0) {
        int64_t left_ms = how->options.wait_ms - (cli_now_ms() - began_ms);
        options->wait_ms = left_ms > 0 ? left_ms : 1;
    }
    struct waiting waiting = {.client = client,
                              .how = how,
                              .wait_ms = options->wait_ms,
                              .began_ms = cli_now_ms(),
                              .over = -1,
                              .said = result->status != REDLOCK_HELD && !cli_is_live()};
    waiting_show(&waiting);
    status = redlock_acquire(client, how->resource, options, lock, result);
    waiting_hide(&waiting, status == REDLOCK_OK);
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
    char names[NAMES_SIZE];
    char hint[HINT_SIZE] = "";
    int status = cli_exit_of(result);

    if (result->status == REDLOCK_CANCELLED || (status == CLI_NOT_OBTAINED && skips()))
        return status;
    if (status == CLI_NO_QUORUM && lacks_descriptors(result)) {
        snprintf(hint, HINT_SIZE, "; raise the limit of open files (ulimit -n)");
        status = CLI_SYSTEM;
    } else if (status == CLI_NOT_OBTAINED)
        name_obstacle(client, how, hint);
    else if (strstr(redlock_result_text(result), "; redlock doctor ") == NULL)
        name_remedy(client, status, hint);
    if (status != CLI_NOT_OBTAINED || !cli_is_quiet)
        cli_say("%s not acquired: %s%s", names_of(how, names), redlock_result_text(result), hint);
    return status;
}

/* flock(1) has --timeout for the wait. */
static void warn_of_timeout(const struct cli_acquire *how)
{
    int64_t timeout_ms;

    if (cli_overrides.timeout != NULL && how->options.wait_ms == REDLOCK_FOREVER &&
        cli_take_duration("timeout", cli_overrides.timeout, &timeout_ms) && timeout_ms >= 1000)
        cli_notice("--timeout %s is a node's reply timeout; --wait limits the wait for the lock",
                   cli_overrides.timeout);
}

int cli_acquire(redlock_client *client, const struct cli_acquire *how, redlock_lock **lock, redlock_result *result)
{
    redlock_acquire_options options = how->options;
    redlock_cancellation *own;
    char names[NAMES_SIZE];

    *lock = NULL;
    warn_of_timeout(how);
    if (redlock_cancellation_create(client, &own) != REDLOCK_OK)
        return cli_fail(CLI_SYSTEM, "out of memory");
    options.cancellation = own;
    atomic_store(&cancellation, own);
    cli_interrupts_catch();
    if (stopped)
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
        names_of(how, names));
}
