/*
 * sale.h - one sale, from the first order to the last: sellers in processes of their own, and what came of it
 */
#ifndef FLASH_SALE_SALE_H
#define FLASH_SALE_SALE_H

#include "flash_sale/durations.h"

/* Something that happens in the middle of the sale. */
struct fault {
    const char *what;    /* for the reader: "a master is killed" */
    const char *command; /* for the shell */
    int after_orders;
};

struct sale_plan {
    const char *nodes; /* of the lock; NULL sells without one */
    int items;
    int sellers;
    int think_ms;
    const struct fault *faults; /* in the order in which they happen */
    int fault_count;
    int held_back; /* so many items are for sale only when all faults have happened */
};

struct sale {
    int orders;
    int items_sold_twice; /* or more often */
    int hand_offs;        /* orders taken by another seller than the one before */
    int items_left;       /* by the stock's file */
    int sellers_failed;
    int faults_done; /* with their command's success */
    double seconds;
    struct durations acquire;         /* of each order: until the lock was held, waiting for one's turn included */
    struct durations acquire_at_once; /* of those that got it in the first round */
};

/* Holds it, and prints what happens on the way. sale: freed by sale_free(). */
void sale_hold(const struct sale_plan *plan, struct sale *sale);

void sale_free(struct sale *sale);

#endif
