/* redlock bench: how long locks take on the user's own nodes, and why. */
#include "bench.h"

#include "command.h"
#include "duration.h"
#include "message.h"
#include "session.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_MS = 1000, MOST_MS = 60000, THREADS_MAX = 256, SUFFIX_MAX = 64 };

static bool json;
static int64_t time_ms = 10000;
static struct cli_number threads = {16, 1, THREADS_MAX};

static int measure(struct cli_bench *bench)
{
    int status = cli_connect(&bench->client);

    cli_interrupts_catch();
    if (status == CLI_OK)
        status = cli_bench_measure(bench);
    if (bench->acquire.count > 0 && json)
        cli_bench_write_json(bench);
    else if (bench->acquire.count > 0)
        cli_bench_print(bench);
    cli_close(&bench->client); /* the nodes' names end with the client */
    cli_bench_free(bench);
    return status;
}

static int run(const struct cli_arguments *arguments)
{
    int status;
    const char *prefix = arguments->count == 1 ? arguments->words[0] : "redlock-bench";

    if (arguments->count > 1)
        return cli_misused("at most one resource: the beginning of the names to lock");
    if (arguments->count == 1 && !cli_resource_read(arguments->words[0]))
        return CLI_USAGE;
    if (strlen(prefix) > REDLOCK_RESOURCE_MAX - SUFFIX_MAX)
        return cli_misused("the resource's name must have at most %d bytes here", REDLOCK_RESOURCE_MAX - SUFFIX_MAX);
    if (time_ms < LEAST_MS || time_ms > MOST_MS)
        return cli_misused("--time must be from 1 s to 1 min");
    const struct cli_settings *settings = cli_settings_get(&status);
    if (settings == NULL)
        return status;
    struct cli_bench *bench = calloc(1, sizeof(*bench)); /* large */
    if (bench == NULL)
        return cli_fail(CLI_SYSTEM, "out of memory");
    bench->prefix = prefix;
    bench->time_ms = time_ms;
    bench->threads = (unsigned)threads.value;
    bench->ready_ms = 2 * (int64_t)settings->options.connect_timeout_ms + 1000; /* two attempts */
    bench->ttl_ms = settings->options.ttl_ms;
    status = measure(bench);
    free(bench);
    return status;
}

static const struct cli_option options[] = {
    {'t', "time", "TIME", "measure for this long, from 1s to 1m (10s)", .duration_ms = &time_ms},
    {'p', "parallel", "NUMBER", "threads of the last part, each with its own lock (16)", .number = &threads},
    {0, "json", NULL, "write an object, on one line; durations in microseconds", .flag = &json},
    {0},
};

const struct cli_command cli_command_bench = {
    .name = "bench",
    .arguments = "[RESOURCE]",
    .summary = "Measure round trips and locks on the nodes, and what takes the time",
    .help =
        "It acquires and releases locks of new names that begin with RESOURCE (redlock-bench), and leaves none of them.\n"
        "First it measures the round trip to each node, then the locks of one thread, then those of several at once: this\n"
        "last part loads the nodes.\n"
        "\n"
        "exit status: 0 measured; 69 no quorum of nodes; 78 misconfigured; 64 usage; 71 system error\n",
    .options = options,
    .run = run,
};
