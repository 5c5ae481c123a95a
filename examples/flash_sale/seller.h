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
    int start;     /* a descriptor: the sale starts when it reads as ended */
    int customers; /* he serves at most so many */
    int think_ms;  /* between looking at the stock and taking an item: the card is being charged */
};

/* Sells. Returns the exit status of its process, forked for it: a client belongs to the process that made it. */
int seller_run(const struct seller *seller);

#endif
