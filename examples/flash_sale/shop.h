/*
 * shop.h - shared by the sellers of a flash sale: the stock, and the desk that records the orders
 *
 * The stock is a number in a file. It can be read and written, and two sellers can read the same number. Many stores
 * that need a lock are like this.
 */
#ifndef FLASH_SALE_SHOP_H
#define FLASH_SALE_SHOP_H

#include <stdint.h>

enum news_kind {
    NEWS_ORDER,   /* an item was sold */
    NEWS_TROUBLE, /* text is the message; the seller continues */
    NEWS_GAVE_UP  /* text is the reason; the seller has ended */
};

/* A seller's message to the desk, in one write of less than PIPE_BUF bytes, so that messages do not mix. */
struct news {
    enum news_kind kind;
    int32_t seller;
    int32_t item;      /* the number of items before the sale: two orders with the same number cannot both be served */
    uint32_t attempts; /* rounds needed to acquire the lock; 0 without a lock */
    uint64_t acquire_us; /* time needed to acquire the lock */
    char text[400];
};

/* Creates a stock of `items` items. Its file disappears when the last process closes it. */
int stock_create(int items);

/* Both end the process if the file cannot be read or written. */
int stock_read(int stock);
void stock_write(int stock, int items);

void desk_report(int desk, const struct news *news);

/* Returns 1, or 0 when all sellers have ended. */
int desk_listen(int desk, struct news *news);

#endif
