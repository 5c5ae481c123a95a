/*
 * What the user has asked for and has not been answered yet. Whatever ends an operation, its end is noted first and
 * told later, from the loop's turn, with nothing of the library on the stack: exactly once, never from inside the call
 * that started it.
 */
#ifndef RL_OPERATION_H
#define RL_OPERATION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "quorum/time.h"
#include "redlock/redlock.h"
#include "src/core/owner.h"
#include "src/core/timer.h"
#include "src/core/wakeup.h"

struct rl_operation;
struct rl_lease;
struct rl_round;

struct redlock_cancellation {
    _Atomic uint64_t turns; /* calls of redlock_cancel() and of its reset, in turns: odd while it is cancelled */
    struct rl_wakeup *wakeup;
    redlock_allocator allocator;
};

struct rl_operation_type {
    void (*stop)(struct rl_operation *operation); /* ends what it has under way, with an undo where needed */
    void (*tell)(struct rl_operation *operation, redlock_result *result); /* calls the user back */
    void (*fill)(struct rl_operation *operation, redlock_result *result); /* NULL: from its round */
    void (*changed)(struct rl_operation *operation);                      /* a node's state has changed; may be NULL */
    void (*drop)(
        struct rl_operation *operation); /* instead of tell, in a forked child: lets go of what it holds; may be NULL */
};

struct rl_operation {
    const struct rl_operation_type *type;
    redlock_client *client;
    struct rl_operation *next; /* under way, or completed */
    struct rl_operation *previous;
    struct rl_round *round;             /* of the last attempt; a reference */
    redlock_cancellation *cancellation; /* see rl_operation_heed() */
    uint64_t turns;                     /* of it, when the operation began */
    struct rl_timer timer;              /* its deadline */
    quorum_time started;
    quorum_time decided;
    unsigned attempts;
    int status;
    int cause;
    bool completed;
    char text[256]; /* instead of one made from the result */
};

struct rl_operations {
    struct rl_operation *first; /* under way */
    struct rl_operation *completed;
    struct rl_operation *completed_last;
    unsigned count; /* of both */
};

/* Memory for an operation (size: of the struct that begins with it), under way from now on. NULL: too many, or no
 * memory: *status. */
struct rl_operation *rl_operation_create(redlock_client *client, const struct rl_operation_type *type, size_t size,
                                         int *status);

/* The same without the bound, for what ends something: that must never be kept waiting by what has begun. */
struct rl_operation *rl_operation_create_always(redlock_client *client, const struct rl_operation_type *type,
                                                size_t size, int *status);

/* Lets the cancellation, or NULL, end it from now on. true: it is cancelled already, and the operation ends. */
bool rl_operation_heed(struct rl_operation *operation, redlock_cancellation *cancellation);

/* Notes its end. The first call counts. */
void rl_operation_complete(struct rl_operation *operation, int status);

/* The same for a bad argument, with words. */
void rl_operation_refuse(struct rl_operation *operation, const redlock_result *why);

/* Lets its deadline end it, with REDLOCK_TIMED_OUT; at once when wait_ms is 0. Its timer's fire() must be set. */
void rl_operation_wait(struct rl_operation *operation, int64_t wait_ms);

/* Tells the ends that have been noted, up to a bound a turn; true: some are left. */
bool rl_operations_notify(redlock_client *client);

/* Ends those whose cancellation was called; or all of them. */
void rl_operations_cancel(redlock_client *client, bool all);

/* Lets those look that depend on the nodes' states. */
void rl_operations_node_changed(redlock_client *client);

/* In a forked child: frees without a call. */
void rl_operations_free(redlock_client *client);

/* One of this client's, or NULL: another's would ring at the other client's loop. */
int rl_cancellation_check(const redlock_client *client, const redlock_cancellation *cancellation,
                          redlock_result *result);

#endif
