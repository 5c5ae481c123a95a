#include "apis.h"

/* A call that passes between two threads costs more: up to eight system calls (futex, eventfd) for a lock and its
 * release, and time, for which its limits allow the same to raw as to floor A. How many locks threads can have in flight
 * depends on how fast they are switched: no limit. By descriptor each call is one block more. */
const struct api apis[APIS] = {
    {"async", "redlock, asynchronous", "bench-redlock-async", false, {1.10, 0.95, 1.00, 24, 5, 1.00, 1.10, 0.90}},
    {"blocking", "redlock, blocking", "bench-redlock-blocking", true, {1.45, 1.25, 1.30, 32, 5, 0, 0, 0.85}},
    {"descriptor", "redlock, by descriptor", "bench-redlock-descriptor", false, {0, 0, 0, 0, 7, 0, 0, 0.85}},
};
