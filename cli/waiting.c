#include "waiting.h"

#include "duration.h"
#include "message.h"
#include "moment.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A wait that is over at once is not worth a line. */
enum { SECOND_MS = 1000, WORTH_A_LINE_MS = 500 };

struct cli_waiting {
    redlock_client *client;
    const struct cli_acquire *how;
    int64_t wait_ms;
    int64_t began_ms;
    pthread_t thread;
    int over;  /* readable when the wait is over */
    bool said; /* in a line, without a terminal */
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

static void tell_state(redlock_client *client, const redlock_state *state, redlock_result *result, char *text,
                       size_t size)
{
    char left[CLI_DURATION_SIZE];
    char holder[CLI_HOLDER_SIZE];

    cli_holder_text(&state->holder, holder);
    if (result->status != REDLOCK_OK)
        snprintf(text, size, "%s", redlock_result_text(result));
    else if (state->locked && state->remaining_ms == REDLOCK_STATE_NO_EXPIRY)
        snprintf(text, size, "held%s on %u of %u nodes, without an expiry", holder, state->locked_nodes, result->nodes);
    else if (state->locked)
        snprintf(text, size, "held%s on %u of %u nodes, for %s unless renewed", holder, state->locked_nodes,
                 result->nodes, cli_duration_text(state->remaining_ms, left));
    else if (state->permits_taken > 0)
        snprintf(text, size, "%u permits are taken", state->permits_taken);
    else
        describe_nodes(client, state, text, size);
}

/* For several resources, describes the one that is not free. */
static void tell_holder(redlock_client *client, const struct cli_acquire *how, char *text, size_t size)
{
    char quoted[CLI_QUOTED_SIZE];
    char shown[512];
    redlock_state state;
    redlock_result result;

    const char *resource = cli_acquire_obstacle(client, how, &state, &result);
    tell_state(client, &state, &result, shown, sizeof(shown));
    if (how->options.also_count > 0)
        snprintf(text, size, "%s %s", cli_quote(resource, quoted), shown);
    else
        snprintf(text, size, "%s", shown);
}

static void draw(struct cli_waiting *waiting)
{
    char names[CLI_NAMES_SIZE];
    char left[CLI_DURATION_SIZE];
    char holder[1024];
    int64_t left_ms = waiting->wait_ms - (cli_now_ms() - waiting->began_ms);
    void (*print)(const char *format, ...) = cli_is_live() ? cli_live : cli_notice;

    if (waiting->said)
        return;
    waiting->said = !cli_is_live();
    tell_holder(waiting->client, waiting->how, holder, sizeof(holder));
    if (waiting->wait_ms == REDLOCK_FOREVER)
        print("waiting for %s: %s; no limit", cli_acquire_names(waiting->how, names), holder);
    else
        print("waiting for %s: %s; %s left to wait", cli_acquire_names(waiting->how, names), holder,
              cli_duration_text(left_ms > 0 ? left_ms : 0, left));
}

/* True: the wait is over. */
static bool pause_for(const struct cli_waiting *waiting, int pause_ms)
{
    struct pollfd over = {.fd = waiting->over, .events = POLLIN};

    return poll(&over, 1, pause_ms) != 0;
}

static void *show(void *arg)
{
    struct cli_waiting *waiting = arg;

    bool over = !cli_is_live() && pause_for(waiting, WORTH_A_LINE_MS);

    while (!over) {
        draw(waiting);
        over = pause_for(waiting, SECOND_MS);
    }
    return NULL;
}

/* Signals go to the thread that waits. */
static bool start_thread(struct cli_waiting *waiting)
{
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&waiting->thread, NULL, show, waiting) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

struct cli_waiting *cli_waiting_show(redlock_client *client, const struct cli_acquire *how, int64_t wait_ms, bool said)
{
    struct cli_waiting *waiting;

    if ((how->skips && !cli_is_live()) || (waiting = calloc(1, sizeof(*waiting))) == NULL)
        return NULL;
    *waiting = (struct cli_waiting){.client = client,
                                    .how = how,
                                    .wait_ms = wait_ms,
                                    .began_ms = cli_now_ms(),
                                    .over = eventfd(0, EFD_CLOEXEC),
                                    .said = said && !cli_is_live()};
    if (waiting->over >= 0 && start_thread(waiting))
        return waiting;
    if (waiting->over >= 0)
        close(waiting->over);
    free(waiting);
    return NULL;
}

void cli_waiting_hide(struct cli_waiting *waiting, bool acquired)
{
    char names[CLI_NAMES_SIZE];
    char waited[CLI_DURATION_SIZE];

    if (waiting == NULL)
        return;
    eventfd_write(waiting->over, 1);
    pthread_join(waiting->thread, NULL);
    close(waiting->over);
    cli_live("%s", "");
    if (acquired && cli_now_ms() - waiting->began_ms >= WORTH_A_LINE_MS)
        cli_notice("%s acquired after %s", cli_acquire_names(waiting->how, names),
                   cli_duration_text(cli_now_ms() - waiting->began_ms, waited));
    free(waiting);
}
