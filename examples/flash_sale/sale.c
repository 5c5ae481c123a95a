#define _POSIX_C_SOURCE 200809L

#include "flash_sale/sale.h"

#include "flash_sale/seller.h"
#include "flash_sale/shop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The shop while it is open: the sellers write to one end of the desk, we read from the other. */
struct shop {
    const struct sale_plan *plan;
    struct sale *sale;
    int stock;
    int desk;
    int faults_tried;
    int *sold; /* by item: how many orders there are for it */
};

static void fail(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The seller's process keeps his ends of the pipes only: a pipe has ended when the last writer has closed it. */
static void hire(const struct shop *shop, int number, const int desk[2], const int start[2])
{
    fflush(NULL);
    pid_t process = fork();
    if (process < 0)
        fail("fork");
    if (process > 0)
        return;
    close(desk[0]);
    close(start[1]);
    exit(seller_run(&(struct seller){
        .number = number,
        .nodes = shop->plan->nodes,
        .stock = shop->stock,
        .desk = desk[1],
        .start = start[0],
        .customers = shop->plan->items,
        .think_ms = shop->plan->think_ms,
    }));
}

static void open_shop(struct shop *shop)
{
    int desk[2];
    int start[2];
    if (pipe(desk) != 0 || pipe(start) != 0)
        fail("pipe");
    for (int number = 1; number <= shop->plan->sellers; number++)
        hire(shop, number, desk, start);
    close(desk[1]);
    close(start[0]);
    close(start[1]);
    shop->desk = desk[0];
}

static void cause(struct shop *shop, const struct fault *fault)
{
    printf("   after %d orders: %s\n", shop->sale->orders, fault->what);
    fflush(stdout);
    shop->faults_tried++;
    int status = system(fault->command);
    if (status != 0)
        printf("   this failed with status %d: %s\n", WIFEXITED(status) ? WEXITSTATUS(status) : status, fault->command);
    else if (stock_read(shop->stock) == 0)
        printf("   this took until all was sold: try a longer sale\n");
    else
        shop->sale->faults_done++;
}

static void cause_what_is_due(struct shop *shop)
{
    const struct sale_plan *plan = shop->plan;
    while (shop->faults_tried < plan->fault_count &&
           plan->faults[shop->faults_tried].after_orders <= shop->sale->orders)
        cause(shop, &plan->faults[shop->faults_tried]);
}

static void take_order(struct shop *shop, const struct news *order)
{
    struct sale *sale = shop->sale;
    sale->orders++;
    if (++shop->sold[order->item - 1] == 2)
        sale->items_sold_twice++;
    if (order->attempts > 0)
        durations_add(&sale->acquire, order->acquire_us);
    if (order->attempts == 1)
        durations_add(&sale->acquire_at_once, order->acquire_us);
    cause_what_is_due(shop);
}

static void take_orders(struct shop *shop)
{
    struct news news;
    while (desk_listen(shop->desk, &news)) {
        if (news.kind == NEWS_ORDER)
            take_order(shop, &news);
        else
            printf("   seller %d%s: %s\n", news.seller, news.kind == NEWS_GAVE_UP ? " gave up" : "", news.text);
    }
    close(shop->desk);
}

static void dismiss(struct shop *shop)
{
    int status;
    pid_t process;
    while ((process = wait(&status)) > 0 || errno == EINTR)
        shop->sale->sellers_failed += process > 0 && status != 0;
}

void sale_hold(const struct sale_plan *plan, struct sale *sale)
{
    *sale = (struct sale){0};
    struct shop shop = {.plan = plan, .sale = sale, .stock = stock_create(plan->items)};
    shop.sold = calloc((size_t)plan->items, sizeof(*shop.sold));
    if (!shop.sold)
        fail("the order book");

    double start = now_s();
    open_shop(&shop);
    take_orders(&shop);
    dismiss(&shop);
    sale->seconds = now_s() - start;
    sale->items_left = stock_read(shop.stock);

    free(shop.sold);
    close(shop.stock);
}

void sale_free(struct sale *sale)
{
    durations_free(&sale->acquire);
    durations_free(&sale->acquire_at_once);
}
