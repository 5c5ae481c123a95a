#define _POSIX_C_SOURCE 200809L

#include "flash_sale/sale.h"

#include "flash_sale/seller.h"
#include "flash_sale/shop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct pipes {
    int desk[2];
    int start[2];
    int faults[2];
};

/* The shop while it is open: the sellers write to one end of the desk's pipe, and this process reads the other. */
struct shop {
    const struct sale_plan *plan;
    struct sale *sale;
    int stock;
    int desk;
    int faults; /* closed after all faults have been tried */
    int faults_tried;
    int last_seller;
    int *sold; /* by item: its number of orders */
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

static void make_pipes(struct pipes *pipes)
{
    if (pipe(pipes->desk) != 0 || pipe(pipes->start) != 0 || pipe(pipes->faults) != 0)
        fail("pipe");
    /* Processes that a fault's command leaves running must not keep it open. */
    if (fcntl(pipes->faults[1], F_SETFD, FD_CLOEXEC) != 0)
        fail("fcntl");
}

/* A seller's process keeps only its ends of the pipes: a pipe ends when its last writer has closed it. */
static void hire(const struct shop *shop, int number, const struct pipes *pipes)
{
    fflush(NULL);
    pid_t process = fork();
    if (process < 0)
        fail("fork");
    if (process > 0)
        return;
    close(pipes->desk[0]);
    close(pipes->start[1]);
    close(pipes->faults[1]);
    exit(seller_run(&(struct seller){
        .number = number,
        .nodes = shop->plan->nodes,
        .stock = shop->stock,
        .desk = pipes->desk[1],
        .start = pipes->start[0],
        .faults = pipes->faults[0],
        .held_back = shop->plan->held_back,
        .customers = shop->plan->items,
        .think_ms = shop->plan->think_ms,
    }));
}

static void open_shop(struct shop *shop)
{
    struct pipes pipes;
    make_pipes(&pipes);
    for (int number = 1; number <= shop->plan->sellers; number++)
        hire(shop, number, &pipes);
    close(pipes.desk[1]);
    close(pipes.start[0]);
    close(pipes.start[1]);
    close(pipes.faults[0]);
    shop->desk = pipes.desk[0];
    shop->faults = pipes.faults[1];
}

static void cause(struct shop *shop, const struct fault *fault)
{
    printf("   after %d orders: %s\n", shop->sale->orders, fault->what);
    fflush(stdout);
    shop->faults_tried++;
    int status = system(fault->command);
    if (status != 0)
        printf("   this failed with status %d: %s\n", WIFEXITED(status) ? WEXITSTATUS(status) : status, fault->command);
    else
        shop->sale->faults_done++;
}

static void cause_what_is_due(struct shop *shop)
{
    const struct sale_plan *plan = shop->plan;
    while (shop->faults_tried < plan->fault_count &&
           plan->faults[shop->faults_tried].after_orders <= shop->sale->orders)
        cause(shop, &plan->faults[shop->faults_tried]);
    if (shop->faults >= 0 && shop->faults_tried == plan->fault_count) {
        close(shop->faults);
        shop->faults = -1;
    }
}

static void take_order(struct shop *shop, const struct news *order)
{
    struct sale *sale = shop->sale;
    sale->orders++;
    sale->hand_offs += order->seller != shop->last_seller;
    shop->last_seller = order->seller;
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
    cause_what_is_due(shop);
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
