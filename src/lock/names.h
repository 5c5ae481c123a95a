/* The resources of one lock, as they are asked for. */
#ifndef RL_NAMES_H
#define RL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "redlock/redlock.h"
#include "src/node/command.h"

/* In the order of their bytes, none twice: so that the same resources are the same lock, however they are named. */
struct rl_names {
    unsigned count;
    struct rl_text name[REDLOCK_RESOURCES_MAX]; /* point to whoever's memory it is */
};

/* Checks a resource's name: 1 to REDLOCK_RESOURCE_MAX bytes, and no ending that the library's own keys have. *size 0: a C string, whose
   length is stored. */
int rl_resource_check(const char *resource, size_t *size, redlock_result *result);

/* Checks and sorts a resource and the further ones in the options. client: its options. */
int rl_names_read(struct rl_names *names, const char *resource, const redlock_acquire_options *options,
                  const redlock_options *client, redlock_result *result);

/* One that has been checked. */
struct rl_names rl_names_of(const char *resource, size_t size);

#endif
