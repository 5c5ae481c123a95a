/*
 * Numbers and names that the C code and the Lua scripts share. cmake/RedlockScripts.cmake reads the lines of the form
 * '#define NAME number' or '#define NAME "text"', and replaces the names in the scripts by the values.
 */
#ifndef RL_LIMITS_H
#define RL_LIMITS_H

#include "quorum/fence.h"
#include "redlock/redlock.h"

/* A helper key is the lock's key and one of these suffixes; a resource must not end in one. */
#define RL_QUEUE_SUFFIX ":redlock:queue"
#define RL_ALIVE_SUFFIX ":redlock:alive"
#define RL_FREE_SUFFIX  ":redlock:free"
#define RL_FENCE_SUFFIX ":redlock:fence"
/*
 * queue  sorted set: waiters by ticket
 * alive  hash: each waiter's expiry and offer; and in fields that begin with a space the largest ticket seen, and since
 *        when a writer waits
 * free   string: exists while there are waiters; only scripts use it
 * fence  string: the largest fencing token that the node has received
 */
#define RL_SUFFIX_MAX (sizeof RL_QUEUE_SUFFIX - 1)
_Static_assert(sizeof RL_ALIVE_SUFFIX - 1 <= RL_SUFFIX_MAX && sizeof RL_FREE_SUFFIX - 1 <= RL_SUFFIX_MAX &&
                   sizeof RL_FENCE_SUFFIX - 1 <= RL_SUFFIX_MAX,
               "no suffix is longer than the queue's");

/* Between a semaphore's key and a slot's number. */
#define RL_SLOT_INFIX ":redlock:slot:"

/* How long a waiter's entry lives on a node without a refresh, and the keys of a queue. */
#define RL_WAITER_LIFE_MS 3000
#define RL_QUEUE_LIFE_MS  12000

/* The expiries of a queue's keys are not set again if they were this recently. */
#define RL_QUEUE_RECENT_MS 500
_Static_assert(RL_QUEUE_LIFE_MS - RL_QUEUE_RECENT_MS > RL_WAITER_LIFE_MS, "a queue lives longer than its waiters");

/* A waiter with an entry this fresh may be handed the lock; its validity counts from then. */
#define RL_WAITER_FRESH_MS 200

/* In place of an offer: the waiter's client hears no messages. */
#define RL_OFFER_DEAF "-"

/* The largest ticket that counts: a wall clock in the year 2112, in microseconds. Another program wrote a larger one, or
 * it is damaged: there would be no exact numbers above it. */
#define RL_TICKET_MOST 4503599627370496

/* The answers of keep.lua that are no fencing record. */
#define RL_KEEP_ABSENT  (-1)
#define RL_KEEP_REFUSED (-2)

/* The holders that query.lua reports without a token. */
#define RL_HOLDER_READERS 1
#define RL_HOLDER_FOREIGN 2

/* Offset of the last byte that is read of the marker key; a marker is shorter. */
#define RL_MARKER_LAST 511

/* Number of the last slot that a semaphore can have. */
#define RL_SLOT_LAST 31
_Static_assert(RL_SLOT_LAST == REDLOCK_PERMITS_MAX - 1, "a semaphore has REDLOCK_PERMITS_MAX slots");

/* A first waiter that leaves a free lock for longer than this loses its place to the others. */
#define RL_OVERTAKE_MS 1000

/* A node refuses a fencing token that is further ahead of its clock. */
#define RL_FENCE_FAR_S 86400
_Static_assert(RL_FENCE_FAR_S * 1000000ull == QUORUM_FENCE_FAR, "nodes and client agree on a far fencing token");

/* Bytes of a holder's token that a refusal names: one more than a client shows. */
#define RL_TOKEN_SHOWN 129
#define RL_TOKEN_LAST  128
_Static_assert(RL_TOKEN_SHOWN == RL_TOKEN_LAST + 1 && RL_TOKEN_LAST == REDLOCK_TOKEN_MAX,
               "a longer token is seen to be longer");

/* The answers of release.lua, and of free.lua, which does not say that clients wait. */
#define RL_KEY_NOT_OURS    0
#define RL_KEY_DONE        1
#define RL_KEY_UNANNOUNCED 2
#define RL_KEY_AWAITED     3

/* The answer of releases.lua for a lock that it has left to release.lua, because clients wait for it. */
#define RL_KEY_APART 4

/* In the reply of wait.lua: the lock is not taken, because the node has handed it over to this waiter. */
#define RL_WAIT_HANDED 2

/* A limit as the text of a command's argument. */
#define RL_LIMIT_TEXT(limit)  RL_LIMIT_TEXT_(limit)
#define RL_LIMIT_TEXT_(limit) #limit

#endif
