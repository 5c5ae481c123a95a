/*
 * sale.h - runs one sale in separate seller processes and collects its results
 */
#ifndef FLASH_SALE_SALE_H
#define FLASH_SALE_SALE_H

#include "flash_sale/durations.h"

/* A fault during the sale. */
struct fault {
    const char *what;    /* description: "a master is killed" */
    const char *command; /* shell command */
    int after_orders;
};

struct sale_plan {
    const char *nodes; /* of the lock; NULL: sells without a lock */
    int items;
    int sellers;
    int think_ms;
    const struct fault *faults; /* in the order of their execution */
    int fault_count;
    int held_back; /* number of items that are for sale only after all faults */
};

struct sale {
    int orders;
    int items_sold_twice; /* including those sold more often */
    int hand_offs;        /* orders taken by a different seller than the previous one */
    int items_left;       /* according to the stock's file */
    int sellers_failed;
    int faults_done; /* whose command succeeded */
    double seconds;
    struct durations acquire;         /* time to acquire, per order, including the wait */
    struct durations acquire_at_once; /* the same, for orders that acquired the lock in the first round */
};

/* Runs the sale and prints its events. Free `sale` with sale_free(). */
void sale_hold(const struct sale_plan *plan, struct sale *sale);

void sale_free(struct sale *sale);

#endif
