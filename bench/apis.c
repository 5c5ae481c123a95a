#include "apis.h"

/* A blocking call passes between two threads; what its limits allow for that is the same to raw and to floor A. */
const struct api apis[APIS] = {
    {"async", "redlock, asynchronous", "bench-redlock-async", false, {1.10, 0.95, 1.00, 24, 0.90}},
    {"blocking", "redlock, blocking", "bench-redlock-blocking", true, {1.45, 1.25, 1.30, 28, 0.85}},
};
