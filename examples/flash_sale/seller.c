#define _POSIX_C_SOURCE 200809L

#include "flash_sale/seller.h"

#include "flash_sale/shop.h"

#include <errno.h>
#include <poll.h>
#include <redlock/redlock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    TTL_MS = 5000,               /* how long the other sellers wait after a seller died with the lock */
    CONNECT_WAIT_MS = 5000,      /* to connect to a majority of the nodes */
    ACQUIRE_WAIT_MS = 20000,     /* including the other sellers' turns */
    WRITE_NEEDS_MS = TTL_MS / 10 /* the write takes microseconds; the rest is for delays */
};

enum sale { SOLD, SOLD_OUT, NOT_YET, TOO_LATE, IMPOSSIBLE };

static void report(const struct seller *seller, enum news_kind kind, const char *what, const char *text)
{
    struct news news = {.kind = kind, .seller = seller->number};
    snprintf(news.text, sizeof(news.text), "%s: %s", what, text);
    desk_report(seller->desk, &news);
}

static void spend(int time_ms)
{
    struct timespec rest = {time_ms / 1000, time_ms % 1000 * 1000000L};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}

static bool has_ended(int pipe)
{
    struct pollfd end = {.fd = pipe, .events = POLLIN};
    return poll(&end, 1, 0) > 0;
}

/* Reads, thinks and writes. A seller that reads in between sells the same item again, unless a lock excludes it. */
static enum sale sell_one(const struct seller *seller, const redlock_lock *lock, struct news *order)
{
    int left = stock_read(seller->stock);
    if (left <= 0)
        return SOLD_OUT;
    if (left <= seller->held_back && !has_ended(seller->faults))
        return NOT_YET;
    spend(seller->think_ms); /* the customer's card is charged */

    /* This process may have been paused for longer than the validity of the lock. Before a step that must not happen
     * twice, check that enough time is left for it. */
    if (lock && redlock_validity_ms(lock) < WRITE_NEEDS_MS) {
        report(seller, NEWS_TROUBLE, "too late",
               "the lock is about to end, so this sale is left to whoever comes next");
        return TOO_LATE;
    }
    stock_write(seller->stock, left - 1);
    order->item = left;
    return SOLD;
}

static enum sale sell_one_locked(const struct seller *seller, redlock_client *client, struct news *order)
{
    redlock_lock *lock;
    redlock_result result;
    if (redlock_acquire(client, SELLER_RESOURCE, REDLOCK_WAIT_MS(ACQUIRE_WAIT_MS), &lock, &result) != REDLOCK_OK) {
        report(seller, NEWS_GAVE_UP, "acquire", redlock_result_text(&result));
        return IMPOSSIBLE;
    }
    order->attempts = result.attempts;
    order->acquire_us = result.elapsed_us;

    enum sale sale = sell_one(seller, lock, order);
    if (redlock_release(&lock, NULL, &result) != REDLOCK_OK)
        report(seller, NEWS_TROUBLE, "release", redlock_result_text(&result));
    return sale;
}

/* client: NULL sells without a lock. */
static int serve_customers(const struct seller *seller, redlock_client *client)
{
    enum sale sale = SOLD;
    int served = 0;
    while (served < seller->customers && sale != SOLD_OUT && sale != IMPOSSIBLE) {
        struct news order = {.kind = NEWS_ORDER, .seller = seller->number};
        sale = client ? sell_one_locked(seller, client, &order) : sell_one(seller, NULL, &order);
        if (sale == SOLD) {
            desk_report(seller->desk, &order);
            served++;
        }
        spend(seller->think_ms); /* time for the next customer, and for the other sellers to get the lock */
    }
    return sale == IMPOSSIBLE ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void wait_for_start(const struct seller *seller)
{
    char none;
    while (read(seller->start, &none, 1) < 0 && errno == EINTR)
        ;
}

static int serve_with_lock(const struct seller *seller, redlock_client *client)
{
    redlock_result result;
    if (redlock_ready(client, CONNECT_WAIT_MS, &result) != REDLOCK_OK) {
        report(seller, NEWS_GAVE_UP, "ready", redlock_result_text(&result));
        return EXIT_FAILURE;
    }
    wait_for_start(seller);
    return serve_customers(seller, client);
}

static int run_with_lock(const struct seller *seller)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    redlock_client *client;
    redlock_result result;
    options.ttl_ms = TTL_MS;
    if (redlock_connect(seller->nodes, &options, &client, &result) != REDLOCK_OK) {
        report(seller, NEWS_GAVE_UP, "connect", redlock_result_text(&result));
        return EXIT_FAILURE;
    }
    int status = serve_with_lock(seller, client);
    redlock_close(&client, NULL, NULL);
    return status;
}

int seller_run(const struct seller *seller)
{
    if (seller->nodes)
        return run_with_lock(seller);
    wait_for_start(seller);
    return serve_customers(seller, NULL);
}
