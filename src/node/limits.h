/*
 * Numbers that the C code and the Lua scripts share. cmake/RedlockScripts.cmake puts the values in place of the names in the scripts; it reads
 * lines of the form '#define NAME number' here.
 */
#ifndef RL_LIMITS_H
#define RL_LIMITS_H

#include "redlock/redlock.h"

/* How long a waiter's entry lives on a node without being refreshed. The keys of a queue live four times as long. */
#define RL_WAITER_LIFE_MS 3000

/* A waiter refreshed this recently answers its wake-up: a second one need not be woken to stand in for it. */
#define RL_WAITER_FRESH_MS 200

/* Offset of the last byte of the marker key that is read: our markers are shorter. */
#define RL_MARKER_LAST 511

/* Number of the last slot that a semaphore can have. */
#define RL_SLOT_LAST 31
_Static_assert(RL_SLOT_LAST == REDLOCK_PERMITS_MAX - 1, "a semaphore has REDLOCK_PERMITS_MAX slots");

/* A limit as the text of a command's argument. */
#define RL_LIMIT_TEXT(limit)  RL_LIMIT_TEXT_(limit)
#define RL_LIMIT_TEXT_(limit) #limit

#endif
