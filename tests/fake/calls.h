/* Each function that waits for nodes, in the three ways to call. A new function gets its row in calls.c. */
#ifndef TESTS_FAKE_CALLS_H
#define TESTS_FAKE_CALLS_H

#include "fake/scene.h"

enum way { ATTACHED, DESCRIPTOR, BLOCKING, WAYS };

enum {
    CALL_ACQUIRE,
    CALL_ADOPT,
    CALL_RELEASE,
    CALL_RELEASE_TOKEN,
    CALL_EXTEND,
    CALL_DOWNGRADE,
    CALL_QUERY,
    CALL_TRUST,
    CALL_INSPECT,
    CALL_SCAN,
    CALL_CLOSE,
    CALL_READY,
    CALLS
};

/* What they are called with, on scene.client, and what they return. */
struct call_arguments {
    const char *resource; /* "stock" */
    redlock_lock *lock;
    redlock_lock *got;               /* by a blocking acquire or adoption */
    redlock_call_options limits;     /* of functions with call options */
    redlock_acquire_options acquire; /* of the others; ready() waits for its wait_ms */
    uint32_t node;                   /* that a scan asks */
    bool no_callback;                /* it is NULL */
    struct answer answer;
};
extern struct call_arguments call;

/* Without a lock and limits, and with callbacks. */
void call_begin(void);
const char *call_name(unsigned number);
/* Begins the call. A blocking one has ended when it returns. */
int call_start(unsigned number, enum way way);
/* Makes the call, and returns its status. */
int call_run(unsigned number, enum way way);

#define CALL_BIT(number) (1u << (number))
/* Makes each call except those with these bits, in this way. Returns the bits of those that returned something else than
 * INVALID or, of a blocking function, whose text lacks the words. Without assertions, for a forked child. */
unsigned calls_not_refused(enum way way, unsigned except, const char *words);

#endif
