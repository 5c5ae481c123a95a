/*
 * The operations: one description, struct rl_operation_type, for each function that asks the nodes, in the operation's
 * own file. It says how the operation starts, what it returns and what ends it; the three ways to call (functions.c) are
 * made of it.
 *
 * In: a start with the function's arguments, on the loop's thread. Then rounds, timers and changes of nodes, which
 * the operation's own file handles. Out: one callback. Any event that ends an operation only records the end; the
 * loop's turn calls the callback later, with no other library frame on the stack: exactly once, and never from inside
 * the call that started the operation.
 */
#ifndef RL_OPERATION_H
#define RL_OPERATION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "quorum/lease.h"
#include "redlock/redlock.h"
#include "src/core/process.h"
#include "src/core/timer.h"
#include "src/core/wakeup.h"
#include "src/lock/round.h"

struct rl_call;
struct rl_names;
struct rl_operation;

/* The thread that called, as it was then: the loop's thread may start the operation later. */
struct rl_caller {
    struct rl_owner owner;
    quorum_time due;  /* when its timeout passes; QUORUM_NEVER: it has none */
    uint64_t changes; /* of the cancellation in its options */
};

struct redlock_cancellation {
    _Atomic uint64_t changes; /* incremented by each cancel and each reset that changes it: odd while cancelled */
    struct rl_wakeup *wakeup;
    redlock_allocator allocator;
};

/* The arguments of every function; each operation reads its own. */
struct rl_arguments {
    redlock_client *client;
    redlock_lock *lock;
    const char *resource;
    const char *token;
    size_t size;     /* of the resource; of an acquire or adopt it is in the options */
    int64_t wait_ms; /* of a ready; other operations have theirs in `call` */
    uint32_t ttl_ms;
    uint32_t node; /* of a scan, and where its locks go */
    redlock_scan_callback found;
    void *found_arg;
    const redlock_acquire_options *options; /* of an acquire or adopt, as far as the caller's header knows them */
    redlock_call_options call;              /* the same of any other function; not checked yet */
    struct rl_caller caller;
};

/* What an operation returns beside its result. */
struct rl_returned {
    redlock_lock *lock;
    const redlock_state *state;
    int loss; /* enum redlock_loss */
};

/* The user's callback, or the call of another thread that waits for the end. */
struct rl_callback {
    enum { RL_NO_CALLBACK, RL_RESULT_CALLBACK, RL_LOCK_CALLBACK, RL_STATE_CALLBACK, RL_CALL } kind;
    union {
        redlock_callback result;
        redlock_acquire_callback lock;
        redlock_query_callback state;
        struct rl_call *call;
    };
    void *arg;
};

/* Each function may be NULL, except start(). */
struct rl_operation_type {
    size_t size;     /* of the struct that begins with the operation */
    bool is_release; /* neither operations_max nor an early end prevents its start */
    bool returns_lock;
    bool returns_state;
    size_t (*extra_size)(const struct rl_arguments *arguments); /* of the bytes behind the struct */
    void (*start)(struct rl_operation *operation, const struct rl_arguments *arguments);
    /* There will be no operation, because the client closes or for lack of memory: ends the handle in the arguments. */
    void (*abandon)(const struct rl_arguments *arguments);
    /* Ends its work in progress at a deadline, a cancellation or a close, with an undo where needed; or leaves it to go on
     * by itself. NULL: cancels its round. */
    void (*stop)(struct rl_operation *operation);
    void (*fill)(struct rl_operation *operation, redlock_result *result); /* adds the votes; NULL: those of its round */
    /* Completes the result, and says what is returned with it. */
    void (*report)(struct rl_operation *operation, redlock_result *result, struct rl_returned *returned);
    void (*changed)(struct rl_operation *operation); /* handles a change of a node's state */
    /* Before the operation is freed, with or without a report: ends everything except its round and its lease. In a
     * forked child it only unreferences objects. */
    void (*drop)(struct rl_operation *operation);
};

extern const struct rl_operation_type rl_ready, rl_acquire, rl_acquire_any, rl_adopt, rl_extend, rl_downgrade,
    rl_release, rl_release_token, rl_trust, rl_inspect, rl_query, rl_scan, rl_watch;

/* The deadline and the cancellation, which most operations do not have, come last: with many operations in flight each
 * cache line of one is a miss. */
struct rl_operation {
    const struct rl_operation_type *type;
    redlock_client *client;
    struct rl_operation *next; /* in the list of those in progress, or of the completed ones */
    struct rl_operation *previous;
    struct rl_round *round; /* of the last attempt; a reference */
    struct rl_lease *lease; /* a reference, or NULL */
    struct rl_callback callback;
    quorum_time started;
    quorum_time decided;
    uint32_t attempts;
    int16_t status;
    int16_t cause;
    bool completed;
    char *text;                         /* replaces the text of the status; NULL: none */
    redlock_result *finished;           /* the votes of the last attempt that failed, of a wait; NULL: none */
    struct rl_timer timer;              /* its deadline */
    redlock_cancellation *cancellation; /* NULL: none */
    uint64_t changes;                   /* the cancellation's, when the operation began */
};

#define RL_TOO_MANY_OPERATIONS "more than operations_max operations in progress; raise it, or wait for some to end"

struct rl_operations {
    struct rl_operation *first; /* in progress */
    struct rl_operation *completed;
    struct rl_operation *completed_last;
    unsigned count; /* in both lists */
};

/* Starts an operation. Not OK: the callback will not be called, because operations_max is reached, or for lack of
 * memory. started: for an operation that starts others, NULL at first, and set before the start; or NULL. The started one
 * may complete in it, but is freed only after its callback. */
int rl_operation_start(const struct rl_operation_type *type, const struct rl_arguments *arguments,
                       struct rl_callback callback, struct rl_operation **started);

/* Keeps the votes of the round, which has failed, for the result of a wait that ends during a later one. */
void rl_operation_keep_votes(struct rl_operation *operation);

/* Calls the callback, if there is one. */
void rl_callback_call(const struct rl_callback *callback, redlock_client *client, const struct rl_returned *returned,
                      const redlock_result *result);

/* For the operations' own files: */

/* Starts the round of an attempt, with the operation as its owner. NULL: ends the operation for lack of memory. */
bool rl_operation_start_round(struct rl_operation *operation, struct rl_round *round,
                              void (*decided)(struct rl_round *round));

/* Creates a lease of this resource for the operation: it provides the key, and is not acquired. Then starts a round that
 * only reads, with these callbacks; see struct rl_round. A failure ends the operation. */
void rl_operation_look(struct rl_operation *operation, struct rl_text resource, enum rl_command_kind command,
                       rl_round_replied *replied, void (*decided)(struct rl_round *round));

/* A round's decided() that ends the operation with the verdict. */
void rl_operation_end_by_round(struct rl_round *round);

/* Reads the options and the resources of an acquire. false: they are bad, and the operation has ended. */
bool rl_operation_read_acquire(struct rl_operation *operation, const struct rl_arguments *arguments,
                               redlock_acquire_options *options, struct rl_names *names);

/* Sets the text of the result. Without memory the status' text stays. */
void rl_operation_explain(struct rl_operation *operation, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For report() of an operation that acquired a lock: returns the handle that the callback receives. If the client began
 * to close after the grant, it has released the lock already: NULL, and the result says so. */
redlock_lock *rl_operation_hand_out(struct rl_operation *operation, redlock_lock *lock, redlock_result *result);

/* For callbacks of timers: the operation of its timer. */
struct rl_operation *rl_operation_of_timer(struct rl_timer *timer);

/* Stops the operation, and ends it with this status. */
void rl_operation_cut(struct rl_operation *operation, int status);

/* Records the operation's end. Later calls have no effect. */
void rl_operation_complete(struct rl_operation *operation, int status);

/* The same for a bad argument, with the error's text. */
void rl_operation_refuse(struct rl_operation *operation, const redlock_result *why);

/* Sets the deadline, from the start of the operation; if wait_ms is 0, the operation ends at once with
 * REDLOCK_TIMED_OUT. timer.fire is a cut unless the operation has another. */
void rl_operation_wait(struct rl_operation *operation, int64_t wait_ms);

/* For the client: */

/* Calls the callbacks of completed operations, up to a bound per turn. */
void rl_operations_notify(redlock_client *client);

/* Ends the operations whose cancellation was called, or all of them. */
void rl_operations_cancel(redlock_client *client, bool all);

/* Calls the changed() functions of the operations in progress. */
void rl_operations_node_changed(redlock_client *client);

/* Frees all operations without calling callbacks. */
void rl_operations_free(redlock_client *client);

/* The call options, as far as the caller's header knows them. given may be NULL. */
redlock_call_options rl_call_options_known(const redlock_call_options *given);

/* Checks them. The cancellation must be NULL or belong to this client: it wakes the loop of the client it belongs to. */
int rl_call_options_check(const redlock_client *client, const redlock_call_options *options, redlock_result *result);

/* The cancellation was called since the caller read it. */
bool rl_cancellation_ends(const redlock_cancellation *cancellation, uint64_t changes);

#endif
