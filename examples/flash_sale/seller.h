/*
 * seller.h - one seller: a process that sells items until none are left
 */
#ifndef FLASH_SALE_SELLER_H
#define FLASH_SALE_SELLER_H

#define SELLER_RESOURCE "flash_sale/stock" /* the name of the lock */

struct seller {
    int number;
    const char *nodes; /* of the lock; NULL: sells without a lock */
    int stock;
    int desk;
    int start;     /* a pipe: the sale starts at its end of file */
    int faults;    /* a pipe: all faults have happened at its end of file ... */
    int held_back; /* ... and until then this many items are not for sale */
    int customers; /* maximum number of customers to serve */
    int think_ms;  /* between reading the stock and taking an item, and between two customers */
};

/* Sells. Returns the exit status of its process, which is forked for it because a client belongs to the process that
 * created it. */
int seller_run(const struct seller *seller);

#endif
