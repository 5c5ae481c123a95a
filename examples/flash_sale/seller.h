/*
 * seller.h - one seller: a process that sells items as long as there are any
 */
#ifndef FLASH_SALE_SELLER_H
#define FLASH_SALE_SELLER_H

#define SELLER_RESOURCE "flash_sale/stock" /* the name of the lock */

struct seller {
    int number;
    const char *nodes; /* of the lock; NULL sells without one */
    int stock;
    int desk;
    int start;     /* a pipe: the sale starts when it has ended */
    int faults;    /* a pipe: all that is to go wrong has gone wrong when it has ended ... */
    int held_back; /* ... and until then so many items are not for sale */
    int customers; /* he serves at most so many */
    int think_ms;  /* between looking at the stock and taking an item, and between two customers */
};

/* Sells. Returns the exit status of its process, forked for it: a client belongs to the process that made it. */
int seller_run(const struct seller *seller);

#endif
