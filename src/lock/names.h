/* The resources of one lock, as requested. */
#ifndef RL_NAMES_H
#define RL_NAMES_H

#include <stddef.h>

#include "redlock/redlock.h"
#include "src/node/command.h"

/* Sorted by their bytes, without duplicates, so that equal sets are the same lock, listed in any order. */
struct rl_names {
    unsigned count;
    struct rl_text name[REDLOCK_RESOURCES_MAX]; /* the names stay in the caller's memory */
};

/* The number of the slot that has this name, one above RL_SLOT_LAST if it is larger, and in *size the size of the semaphore's
 * name. -1: it is no slot. */
int rl_slot_of(const char *name, size_t *size);

/* How the key is named if it is one of the library's own keys of another lock; otherwise NULL. */
const char *rl_key_reserved(const char *key, size_t size);

/* Checks a resource's name: 1 to REDLOCK_RESOURCE_MAX bytes, and its key, with the client's prefix, is not reserved.
 * *size 0: it is a C string, and its length is stored. client: the client's options. */
int rl_resource_check(const char *resource, size_t *size, const redlock_options *client, redlock_result *result);

/* The same for a resource to lock or release: its key must not be the marker's. The marker never expires, so a wait for
 * a lock of this name would never end. */
int rl_lock_name_check(const char *resource, size_t *size, const redlock_options *client, redlock_result *result);

/* Checks and sorts a resource and the further ones in the options. client: the client's options. */
int rl_names_read(struct rl_names *names, const char *resource, const redlock_acquire_options *options,
                  const redlock_options *client, redlock_result *result);

/* A single resource that has been checked. */
struct rl_names rl_names_of(const char *resource, size_t size);

#endif
