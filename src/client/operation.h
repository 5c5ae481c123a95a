/*
 * The operations in progress. Any event that ends an operation only records the end. The loop's turn calls the callback
 * later, with no other library frame on the stack: exactly once, and never from inside the call that started the
 * operation.
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

/* The thread that called, as it was then: the loop's thread may start the operation later. */
struct rl_caller {
    struct rl_owner owner;
    uint64_t turns; /* of the cancellation in its options */
};

struct redlock_cancellation {
    _Atomic uint64_t turns; /* incremented by each cancel and each reset that changes it: odd while cancelled */
    struct rl_wakeup *wakeup;
    redlock_allocator allocator;
};

struct rl_operation_type {
    void (*stop)(struct rl_operation *operation); /* ends its work in progress, with an undo where needed */
    void (*tell)(struct rl_operation *operation, redlock_result *result); /* calls the user's callback */
    void (*fill)(struct rl_operation *operation, redlock_result *result); /* adds the votes; NULL: those of its round */
    void (*changed)(struct rl_operation *operation); /* handles a change of a node's state; may be NULL */
    /* Replaces the callback in a forked child: only unreferences objects. May be NULL. */
    void (*drop)(struct rl_operation *operation);
};

struct rl_operation {
    const struct rl_operation_type *type;
    redlock_client *client;
    struct rl_operation *next; /* in the list of those in progress, or of the completed ones */
    struct rl_operation *previous;
    struct rl_round *round;             /* of the last attempt; a reference */
    redlock_cancellation *cancellation; /* see rl_operation_heed() */
    uint64_t turns;                     /* the cancellation's, when the operation began */
    struct rl_timer timer;              /* its deadline */
    quorum_time started;
    quorum_time decided;
    unsigned attempts;
    int status;
    int cause;
    bool completed;
    char text[256]; /* replaces the text of the status; "": none */
};

struct rl_operations {
    struct rl_operation *first; /* in progress */
    struct rl_operation *completed;
    struct rl_operation *completed_last;
    unsigned count; /* in both lists */
};

/* Creates an operation in progress. size: the size of the struct that begins with it. NULL: operations_max is reached,
 * or no memory; *status says which. */
struct rl_operation *rl_operation_create(redlock_client *client, const struct rl_operation_type *type, size_t size,
                                         int *status);

/* The same without operations_max, for releases: operations in progress must not prevent one. */
struct rl_operation *rl_operation_create_always(redlock_client *client, const struct rl_operation_type *type,
                                                size_t size, int *status);

/* options: as the user passed them; may be NULL. */
struct rl_caller rl_caller_of(struct rl_owner owner, const redlock_acquire_options *options);

/* Makes the cancellation (may be NULL) end the operation. true: it was cancelled before the call, or since, and the
 * operation has ended. */
bool rl_operation_heed(struct rl_operation *operation, redlock_cancellation *cancellation,
                       const struct rl_caller *caller);

/* Records the operation's end. Later calls have no effect. */
void rl_operation_complete(struct rl_operation *operation, int status);

/* The same for a bad argument, with the error's text. */
void rl_operation_refuse(struct rl_operation *operation, const redlock_result *why);

/* Sets the deadline; if wait_ms is 0, the operation ends at once with REDLOCK_TIMED_OUT. timer.fire must be set. */
void rl_operation_wait(struct rl_operation *operation, int64_t wait_ms);

/* Calls the callbacks of completed operations, up to a bound per turn. true: some are left. */
bool rl_operations_notify(redlock_client *client);

/* Ends the operations whose cancellation was called, or all of them. */
void rl_operations_cancel(redlock_client *client, bool all);

/* Calls the changed() functions of the operations in progress. */
void rl_operations_node_changed(redlock_client *client);

/* Frees all operations without calling callbacks. */
void rl_operations_free(redlock_client *client);

/* Checks that the cancellation is NULL or belongs to this client: it wakes the loop of the client it belongs to. */
int rl_cancellation_check(const redlock_client *client, const redlock_cancellation *cancellation,
                          redlock_result *result);

#endif
