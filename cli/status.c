/* redlock status: shows the holder of each resource, node by node. */
#include "command.h"
#include "json.h"
#include "message.h"
#include "screen.h"
#include "session.h"
#include "times.h"

#include <redlock/redlock.h>

#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SHORTEST_MS = 50 };

static bool json;
static bool watch;
static int64_t interval_ms = 1000;

/* The state of a resource on the nodes. */
struct look {
    const char *resource;
    redlock_state state;
    redlock_result result;
};

/* Free on a majority: it can be acquired. */
static const char *word_for(const struct look *look)
{
    if (look->result.status != REDLOCK_OK)
        return "unknown";
    if (look->state.locked)
        return "held";
    if (look->state.permits_taken > 0)
        return "semaphore";
    return look->state.free_nodes >= look->result.quorum ? "free" : "disputed";
}

/* --- For programs --- */

static void write_node(const redlock_node_state *state, const redlock_node_result *result)
{
    bool answered = state->remaining_ms >= 0;
    redlock_holder holder;

    cli_json_object(NULL);
    cli_json_text("name", result->name);
    cli_json_text("state", !answered ? "unknown" : state->remaining_ms > 0 ? "held" : "free");
    if (state->remaining_ms > 0) {
        redlock_holder_read(state->token, &holder);
        cli_json_holder(&holder);
        cli_json_left(state->remaining_ms);
    }
    if (answered && state->waiters >= 0)
        cli_json_number("waiters", state->waiters);
    if (!answered)
        cli_json_text("error", *result->text != '\0' ? result->text : redlock_outcome_name(result->outcome));
    cli_json_end();
}

static void write_look(const struct look *look)
{
    cli_json_object(NULL);
    cli_json_escaped("resource", look->resource);
    cli_json_text("state", word_for(look));
    if (look->state.locked) {
        cli_json_holder(&look->state.holder);
        cli_json_left(look->state.remaining_ms);
    }
    if (look->state.permits_taken > 0)
        cli_json_number("permits_taken", look->state.permits_taken);
    cli_json_number("waiters", look->state.waiters);
    cli_json_number("held_on", look->state.locked_nodes);
    cli_json_number("free_on", look->state.free_nodes);
    cli_json_number("quorum", look->result.quorum);
    cli_json_array("nodes");
    for (uint32_t i = 0; i < look->result.nodes; i++)
        write_node(&look->state.node[i], &look->result.node[i]);
    cli_json_end();
    cli_json_end();
}

/* --- For people --- */

static void print_node(const struct look *look, uint32_t node, int width, int token_width)
{
    const redlock_node_state *state = &look->state.node[node];
    const redlock_node_result *result = &look->result.node[node];
    char left[CLI_DURATION_SIZE];

    printf("  %-*s  ", width, result->name);
    if (state->remaining_ms < 0)
        cli_print(CLI_BAD, 0, *result->text != '\0' ? result->text : redlock_outcome_name(result->outcome));
    else if (state->remaining_ms == 0)
        cli_print(CLI_PLAIN, 0,
                  look->state.permits_taken > 0 ? "replied" : "free"); /* permits are not counted by node */
    else
        printf("%-*s  %8s", token_width, state->token,
               state->remaining_ms == REDLOCK_STATE_NO_EXPIRY ? "no end"
                                                              : cli_duration_text(state->remaining_ms, left));
    if (state->remaining_ms >= 0 && state->waiters > 0)
        printf("  %" PRId32 " waiting", state->waiters);
    putchar('\n');
}

static void print_summary(const struct look *look)
{
    const redlock_state *state = &look->state;
    char left[CLI_LEFT_SIZE];
    char holder[CLI_HOLDER_SIZE];

    if (state->locked)
        printf("%s", cli_holder_text(&state->holder, holder));
    if (look->result.status != REDLOCK_OK)
        printf(": too few nodes reply, %u of %u", look->result.granted, look->result.nodes);
    else if (state->locked)
        printf(" on %u of %u nodes%s", state->locked_nodes, look->result.nodes,
               cli_left_text(state->remaining_ms, "extended", left));
    else if (state->permits_taken > 0)
        printf(", %u %s taken", state->permits_taken, state->permits_taken == 1 ? "permit" : "permits");
    else if (state->locked_nodes > 0)
        printf(": free on %u of %u nodes, no client has a majority", state->free_nodes, look->result.nodes);
    if (state->waiters > 0)
        printf("; %u waiting", state->waiters);
}

static void print_look(const struct look *look, bool with_nodes)
{
    char quoted[CLI_QUOTED_SIZE];
    const char *word = word_for(look);
    enum cli_colour colour = look->result.status != REDLOCK_OK ? CLI_BAD
                             : look->state.locked              ? CLI_DOUBTFUL
                             : look->state.permits_taken > 0   ? CLI_DOUBTFUL
                             : *word == 'f'                    ? CLI_GOOD
                                                               : CLI_BAD;

    cli_print(CLI_BRIGHT, 0, cli_quote(look->resource, quoted));
    putchar(' ');
    cli_print(colour, 0, word);
    print_summary(look);
    putchar('\n');
    int width = 0, token_width = 0;
    for (uint32_t i = 0; i < look->result.nodes; i++) {
        width = cli_wider(width, look->result.node[i].name);
        token_width = cli_wider(token_width, look->state.node[i].token);
    }
    for (uint32_t i = 0; with_nodes && i < look->result.nodes; i++)
        print_node(look, i, width, token_width);
}

/* --- The command --- */

/* What a program that watches waits for: the state, the holder, and the numbers of permits and waiters. */
static uint64_t fingerprint(const struct look *looks, unsigned count)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (unsigned i = 0; i < count; i++) {
        char numbers[32];
        const redlock_state *state = &looks[i].state;
        bool known = looks[i].result.status == REDLOCK_OK;
        snprintf(numbers, sizeof(numbers), " %u %u ", known ? state->permits_taken : 0, known ? state->waiters : 0);
        const char *const words[] = {word_for(&looks[i]), numbers, known && state->locked ? state->holder.token : ""};
        for (size_t word = 0; word < sizeof(words) / sizeof(words[0]); word++)
            for (const char *c = words[word]; *c != '\0'; c++)
                hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    }
    return hash;
}

static void write_looks(const struct look *looks, unsigned count)
{
    cli_json_object(NULL);
    cli_json_array("resources");
    for (unsigned i = 0; i < count; i++)
        write_look(&looks[i]);
    cli_json_end();
    cli_json_end();
}

/* rows: of the screen, below which nothing may be printed. With too few it leaves out the nodes, then resources. */
static void print_looks(const struct look *looks, unsigned count, unsigned rows)
{
    bool with_nodes = count * (1 + looks[0].result.nodes) <= rows;

    for (unsigned i = 0; i < count; i++) {
        if (count > rows && i + 1 >= rows) {
            printf("%u more do not fit on the screen\n", count - rows + 1);
            return;
        }
        print_look(&looks[i], with_nodes);
    }
}

/* With --json and --watch only a change is written. */
static int show(redlock_client *client, const struct cli_arguments *arguments, unsigned rows)
{
    static uint64_t last;
    int status = CLI_OK;
    unsigned count = (unsigned)arguments->count;

    struct look *looks = calloc(count, sizeof(*looks));
    if (looks == NULL)
        return cli_fail(CLI_SYSTEM, "out of memory");
    for (unsigned i = 0; i < count && (i < rows || rows == UINT_MAX); i++) {
        looks[i].resource = arguments->words[i];
        redlock_query(client, looks[i].resource, 0, NULL, &looks[i].state, &looks[i].result);
        cli_explain_result(looks[i].resource, &looks[i].result);
        if (looks[i].result.status != REDLOCK_OK)
            status = cli_exit_of(&looks[i].result);
    }
    uint64_t now = json && watch ? fingerprint(looks, count) : 0;
    if (!json)
        print_looks(looks, count, rows);
    else if (!watch || now != last)
        write_looks(looks, count);
    last = now;
    free(looks);
    return status;
}

/* Sleeps until the next snapshot or an interrupt, also one that arrived since the last pause. */
static void pause_a_while(void)
{
    struct timespec pause = {.tv_sec = interval_ms / 1000, .tv_nsec = (long)(interval_ms % 1000 * 1000000)};
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (cli_interrupted() == 0)
        ppoll(NULL, 0, &pause, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Runs until it is interrupted, or standard output is closed. */
static int show_again_and_again(redlock_client *client, const struct cli_arguments *arguments)
{
    char clock[32];
    int status;

    do {
        time_t now = time(NULL);
        struct tm local;
        if (!json) {
            cli_screen_clear();
            strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &local));
            printf("%s\n", clock);
        }
        unsigned rows = json ? UINT_MAX : cli_screen_rows();
        status = show(client, arguments, rows == UINT_MAX || rows < 3 ? rows : rows - 2); /* the clock; the cursor */
        if (!cli_screen_show())
            break;
        pause_a_while();
    } while (cli_interrupted() == 0);
    return status;
}

static int check(const struct cli_arguments *arguments)
{
    if (arguments->count < 1)
        return cli_misused("at least one resource is needed");
    for (int i = 0; i < arguments->count; i++)
        if (!cli_resource_read(arguments->words[i]))
            return CLI_USAGE;
    return interval_ms >= SHORTEST_MS ? CLI_OK : cli_misused("--interval must be at least %d ms", SHORTEST_MS);
}

static int use(redlock_client *client, const struct cli_arguments *arguments)
{
    if (!watch)
        return show(client, arguments, UINT_MAX);
    cli_interrupts_catch();
    return show_again_and_again(client, arguments);
}

static const struct cli_option options[] = {
    {'w', "watch", NULL, "repeat each second, until interrupted; with --json a line for each change", .flag = &watch},
    {0, "interval", "TIME", "with --watch: the interval (1s)", .duration_ms = &interval_ms},
    {0, "json", NULL, "write an object, on one line", .flag = &json},
    {0},
};

const struct cli_command cli_command_status = {
    .name = "status",
    .arguments = "RESOURCE ...",
    .summary = "Show the holder of a lock, its nodes, the remaining time and the number of waiters",
    .help =
        "held: a majority has the same token. free: a majority has none. disputed: neither, for example while several clients\n"
        "try to acquire it. semaphore: permits are taken; the nodes do not know how many there are. The output is a snapshot.\n"
        "\n"
        "exit status: 0 a majority replied; 69 too few nodes; 78 misconfigured; 64 usage\n",
    .options = options,
    .run = check,
    .use = use,
};
