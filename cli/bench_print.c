#include "bench.h"

#include "json.h"
#include "message.h"
#include "screen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERCENT = 100 };

/* The part of the acquires' time that is spent until the deciding reply, in percent: of all, and of the slowest
 * hundredth. */
struct shares {
    unsigned all;
    unsigned tail;
};

/* --- Evaluation --- */

static unsigned share_from(const struct cli_bench *bench, uint64_t least_us)
{
    uint64_t waited = 0;
    uint64_t total = 0;

    for (size_t i = 0; i < bench->wait.count && i < bench->acquire.count; i++)
        if (bench->acquire.us[i] >= least_us) {
            waited += bench->wait.us[i];
            total += bench->acquire.us[i];
        }
    return total > 0 ? (unsigned)(waited * PERCENT / total) : 0;
}

/* Sorts a copy: the waits have the same order as the acquires. */
static uint64_t slowest_hundredth(const struct cli_samples *samples)
{
    struct cli_samples copy = {0};

    for (size_t i = 0; i < samples->count; i++)
        cli_samples_add(&copy, samples->us[i]);
    cli_samples_sort(&copy);
    uint64_t us = cli_samples_quantile(&copy, 0.99);
    cli_samples_free(&copy);
    return us;
}

/* Sorts everything. */
static struct shares evaluate(struct cli_bench *bench)
{
    struct shares shares = {share_from(bench, 0), share_from(bench, slowest_hundredth(&bench->acquire))};

    for (uint32_t i = 0; i < bench->nodes; i++)
        cli_samples_sort(&bench->node[i].round_trip);
    cli_samples_sort(&bench->acquire);
    cli_samples_sort(&bench->wait);
    cli_samples_sort(&bench->release);
    cli_samples_sort(&bench->parallel);
    return shares;
}

static const char *dominant(unsigned share)
{
    return share >= PERCENT / 2 ? "nodes" : "client";
}

/* The node whose reply decided most acquires. */
static const struct cli_bench_node *deciding_node(const struct cli_bench *bench)
{
    const struct cli_bench_node *most = &bench->node[0];

    for (uint32_t i = 1; i < bench->nodes; i++)
        if (bench->node[i].decided > most->decided)
            most = &bench->node[i];
    return most;
}

static uint64_t locks_per_second(const struct cli_bench *bench)
{
    return bench->parallel_us > 0 ? bench->locks * 1000000 / bench->parallel_us : 0;
}

/* --- For people --- */

static double quantile_ms(const struct cli_samples *samples, double share)
{
    uint64_t us = cli_samples_quantile(samples, share);

    return (double)us / 1e3;
}

static void print_nodes(const struct cli_bench *bench)
{
    int width = (int)strlen("round trips");

    for (uint32_t i = 0; i < bench->nodes; i++)
        width = cli_wider(width, bench->node[i].name);
    printf("%-*s  %12s  %12s  %9s  %9s\n", width, "round trips", "p50", "p99", "replies", "decided");
    for (uint32_t i = 0; i < bench->nodes; i++) {
        const struct cli_bench_node *node = &bench->node[i];
        printf("%-*s  %9.2f ms  %9.2f ms  %9zu  %9" PRIu64 "\n", width, node->name, quantile_ms(&node->round_trip, 0.5),
               quantile_ms(&node->round_trip, 0.99), node->round_trip.count, node->decided);
        if (node->failures > 0) {
            char text[160];
            snprintf(text, sizeof(text), "  %" PRIu64 " without a reply: %s\n", node->failures, node->error);
            cli_print(CLI_DOUBTFUL, 0, text);
        }
    }
}

static void print_row(const char *title, const struct cli_samples *samples)
{
    printf("%-22s  %9.2f ms  %9.2f ms  %9.2f ms  %9.2f ms  %9zu\n", title, quantile_ms(samples, 0.5),
           quantile_ms(samples, 0.9), quantile_ms(samples, 0.99), quantile_ms(samples, 1), samples->count);
}

static void print_conclusion(const struct cli_bench *bench, struct shares shares)
{
    const char *name = deciding_node(bench)->name;

    if (shares.all >= PERCENT / 2)
        printf(
            "The nodes dominate: %u %% of an acquire is the wait for the reply that decides, number %u of %u, mostly "
            "of %s.\n",
            shares.all, bench->quorum, bench->nodes, name);
    else
        printf("This machine dominates: only %u %% of an acquire is the wait for replies. It may be busy, or have few "
               "processors.\n",
               shares.all);
    if (dominant(shares.tail) != dominant(shares.all))
        printf("In the slowest hundredth %s (%u %%).\n",
               shares.tail >= PERCENT / 2 ? "the nodes dominate"
                                          : "this machine dominates: the wait has a smaller part",
               shares.tail);
}

void cli_bench_print(struct cli_bench *bench)
{
    struct shares shares = evaluate(bench);
    char title[32];

    print_nodes(bench);
    if (bench->acquire.count == 0)
        return;
    printf("\n%-22s  %12s  %12s  %12s  %12s  %9s\n", "locks", "p50", "p90", "p99", "max", "number");
    print_row("acquire", &bench->acquire);
    print_row("  wait for replies", &bench->wait);
    print_row("release", &bench->release);
    if (bench->locks > 0) {
        snprintf(title, sizeof(title), "acquire, %u at once", bench->threads);
        print_row(title, &bench->parallel);
        printf("\n%u at once: %" PRIu64 " locks per second\n", bench->threads, locks_per_second(bench));
    }
    print_conclusion(bench, shares);
    fflush(stdout);
    if (bench->failed > 0)
        cli_say("%" PRIu64 " acquires failed, the last one with: %s", bench->failed,
                redlock_result_text(&bench->failure));
}

/* --- For programs --- */

static void write_samples(const char *key, const struct cli_samples *samples)
{
    cli_json_object(key);
    cli_json_number("count", (int64_t)samples->count);
    if (samples->count > 0) {
        cli_json_number("p50", (int64_t)cli_samples_quantile(samples, 0.5));
        cli_json_number("p90", (int64_t)cli_samples_quantile(samples, 0.9));
        cli_json_number("p99", (int64_t)cli_samples_quantile(samples, 0.99));
        cli_json_number("max", (int64_t)cli_samples_quantile(samples, 1));
    }
    cli_json_end();
}

static void write_nodes(const struct cli_bench *bench)
{
    cli_json_array("nodes");
    for (uint32_t i = 0; i < bench->nodes; i++) {
        const struct cli_bench_node *node = &bench->node[i];
        cli_json_object(NULL);
        cli_json_text("name", node->name);
        write_samples("round_trip_us", &node->round_trip);
        cli_json_number("decided", (int64_t)node->decided);
        cli_json_number("failures", (int64_t)node->failures);
        cli_json_text("error", node->error);
        cli_json_end();
    }
    cli_json_end();
}

void cli_bench_write_json(struct cli_bench *bench)
{
    struct shares shares = evaluate(bench);

    cli_json_object(NULL);
    cli_json_number("quorum", bench->quorum);
    write_nodes(bench);
    write_samples("acquire_us", &bench->acquire);
    write_samples("wait_us", &bench->wait);
    write_samples("release_us", &bench->release);
    cli_json_object("parallel");
    cli_json_number("threads", bench->threads);
    cli_json_number("locks_per_second", (int64_t)locks_per_second(bench));
    write_samples("acquire_us", &bench->parallel);
    cli_json_end();
    cli_json_number("failed", (int64_t)bench->failed);
    if (bench->acquire.count > 0) {
        cli_json_text("dominated_by", dominant(shares.all));
        cli_json_number("wait_percent", shares.all);
        cli_json_text("slowest_dominated_by", dominant(shares.tail));
        cli_json_number("slowest_wait_percent", shares.tail);
    }
    cli_json_end();
}
