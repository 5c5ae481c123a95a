/*
 * A flash sale that cannot oversell: several processes sell a limited stock, first without a lock, then under a lock,
 * then under a lock while masters fail. `flash_sale --help` describes the options.
 */
#include "flash_sale/nodes.h"
#include "flash_sale/sale.h"
#include "flash_sale/settings.h"

#include <stdio.h>

static void print_acquire(const char *which, struct durations *durations, int orders)
{
    if (durations->count == 0)
        return;
    printf("   %s: p50 %.2f ms, p99 %.2f ms", which, durations_percentile_ms(durations, 50),
           durations_percentile_ms(durations, 99));
    if (durations->count < (size_t)orders)
        printf(" (%zu of %d)", durations->count, orders);
    printf("\n");
}

static void print_sale(const struct settings *settings, struct sale *sale)
{
    printf("   sold %d of %d items in %.2f s; %d items were sold more than once, %d were left over\n", sale->orders,
           settings->items, sale->seconds, sale->items_sold_twice, sale->items_left);
    if (sale->acquire.count > 0)
        printf("   the lock went to another seller %d times\n", sale->hand_offs);
    print_acquire("acquire, waiting for one's turn included", &sale->acquire, sale->orders);
    print_acquire("acquire in one round", &sale->acquire_at_once, sale->orders);
}

/* Runs and prints one of the three sales. */
static void hold(const struct settings *settings, const char *title, struct sale_plan plan, struct sale *sale)
{
    plan.items = settings->items;
    plan.sellers = settings->sellers;
    plan.think_ms = settings->think_ms;
    printf("\n%s\n", title);
    sale_hold(&plan, sale);
    print_sale(settings, sale);
}

static int sell_without_lock(const struct settings *settings)
{
    struct sale sale;
    int status = EXIT_OK;
    hold(settings, "1. Without a lock", (struct sale_plan){0}, &sale);
    if (sale.sellers_failed > 0) {
        printf("   VERDICT: could not be held, %d sellers failed\n", sale.sellers_failed);
        status = EXIT_UNTRIED;
    } else if (sale.orders <= settings->items) {
        printf("   VERDICT: not oversold. That was luck, so this run proves nothing: try more sellers\n");
        status = EXIT_INCONCLUSIVE;
    } else {
        printf("   VERDICT: oversold by %d, as expected without a lock\n", sale.orders - settings->items);
    }
    sale_free(&sale);
    return status;
}

/* Returns the first failed check, or NULL if the sale is correct. */
static const char *what_is_wrong(const struct settings *settings, const struct sale *sale)
{
    if (sale->orders > settings->items)
        return "oversold";
    if (sale->orders < settings->items)
        return "undersold";
    if (sale->items_sold_twice > 0 || sale->items_left > 0)
        return "not every item was sold once";
    if (sale->sellers_failed > 0)
        return "a seller failed";
    return NULL;
}

static int sell_with_lock(const struct settings *settings, const char *title, const struct fault *faults,
                          int fault_count)
{
    struct sale sale;
    hold(settings, title,
         (struct sale_plan){
             .nodes = settings->nodes, .faults = faults, .fault_count = fault_count, .held_back = settings->items / 4},
         &sale);
    const char *wrong = what_is_wrong(settings, &sale);
    if (!nodes_inspect(settings->nodes, sale.faults_done) && !wrong)
        wrong = "the masters are not as they should be";
    if (!wrong && sale.faults_done < fault_count)
        wrong = "sold out, but not while masters failed";
    printf("   VERDICT: %s%s\n", wrong ? "WRONG: " : "exactly sold out", wrong ? wrong : "");
    sale_free(&sale);
    return wrong ? EXIT_WRONG : EXIT_OK;
}

static int sell_while_masters_fail(const struct settings *settings)
{
    struct fault faults[2];
    int count = 0;
    if (settings->kill)
        faults[count++] = (struct fault){"one master is killed", settings->kill, settings->items / 4};
    if (settings->stop)
        faults[count++] = (struct fault){"one master is frozen", settings->stop, settings->items / 2};
    if (count > 0)
        return sell_with_lock(settings, "3. Under redlock, while masters fail", faults, count);
    printf("\n3. Under redlock, while masters fail: skipped, neither --kill nor --stop was given\n");
    return EXIT_OK;
}

static int run(const struct settings *settings)
{
    printf("%d items, %d sellers in as many processes, the stock a number in a file.\n", settings->items,
           settings->sellers);
    if (!nodes_inspect(settings->nodes, 0))
        return EXIT_UNTRIED;
    int unlocked = sell_without_lock(settings);
    int healthy = sell_with_lock(settings, "2. Under redlock", NULL, 0);
    int failing = sell_while_masters_fail(settings);
    return healthy ? healthy : failing ? failing : unlocked;
}

int main(int argc, char **argv)
{
    struct settings settings;
    settings_take(&settings, argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0); /* line by line, so that a pipe too gets the output during the sale */
    return run(&settings);
}
