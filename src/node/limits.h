/*
 * Numbers that the C code and the Lua scripts share. cmake/RedlockScripts.cmake reads the lines of the form '#define
 * NAME number', and replaces the names in the scripts by the numbers.
 */
#ifndef RL_LIMITS_H
#define RL_LIMITS_H

#include "redlock/redlock.h"

/* How long a waiter's entry lives on a node without a refresh. The keys of a queue live four times as long. */
#define RL_WAITER_LIFE_MS 3000

/* A waiter with an entry this fresh is alive: no second waiter is woken in case it is dead. */
#define RL_WAITER_FRESH_MS 200

/* Offset of the last byte that is read of the marker key; a marker is shorter. */
#define RL_MARKER_LAST 511

/* Number of the last slot that a semaphore can have. */
#define RL_SLOT_LAST 31
_Static_assert(RL_SLOT_LAST == REDLOCK_PERMITS_MAX - 1, "a semaphore has REDLOCK_PERMITS_MAX slots");

/* A limit as the text of a command's argument. */
#define RL_LIMIT_TEXT(limit)  RL_LIMIT_TEXT_(limit)
#define RL_LIMIT_TEXT_(limit) #limit

#endif
