/*
 * shop.h - what the sellers of a flash sale share: the stock, and the desk that takes the orders
 *
 * The stock is a number in a file. It can be read and it can be written, and nothing keeps two sellers from reading the
 * same number: like many a store that a lock has to guard.
 */
#ifndef FLASH_SALE_SHOP_H
#define FLASH_SALE_SHOP_H

#include <stdint.h>

enum news_kind {
    NEWS_ORDER,   /* an item was sold */
    NEWS_TROUBLE, /* text says what; the seller goes on */
    NEWS_GAVE_UP  /* text says why; the seller went home */
};

/* What a seller tells the desk, in one write of less than PIPE_BUF bytes, so that sellers do not talk at once. */
struct news {
    enum news_kind kind;
    int32_t seller;
    int32_t item; /* the number that was left when it was sold: two orders with the same one cannot both be served */
    uint32_t attempts;   /* rounds over the nodes to acquire the lock; 0 without a lock */
    uint64_t acquire_us; /* how long that took */
    char text[400];
};

/* A new stock of so many items; its file vanishes with the last process that has it open. */
int stock_create(int items);

/* They end the process when the file cannot be read or written. */
int stock_read(int stock);
void stock_write(int stock, int items);

void desk_tell(int desk, const struct news *news);

/* 1, or 0 when all sellers have gone home. */
int desk_listen(int desk, struct news *news);

#endif
