/*
 * Host names to addresses, off the loop: getaddrinfo(3) blocks, and cannot be called off. Each resolution has a thread
 * and memory (malloc's) of its own, so that a client can be closed while the resolver still waits for a name server.
 */
#ifndef RL_RESOLVER_H
#define RL_RESOLVER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "src/core/wakeup.h"
#include "src/link/address.h"

#define RL_RESOLVED_MAX 8
#define RL_NUMERIC_SIZE 64 /* an IPv6 address with its scope */

struct rl_resolution {
    bool taken; /* the loop's: what was found has been used */
    atomic_uint references;
    atomic_bool done; /* the rest may be read */
    struct rl_wakeup *wakeup;
    char host[RL_HOST_SIZE];
    char error[96]; /* "" when found */
    unsigned count;
    char numeric[RL_RESOLVED_MAX][RL_NUMERIC_SIZE];
};

/* A host that is an address already needs no resolving. */
bool rl_resolver_is_numeric(const char *host);

/* Starts; rings the wakeup when done. NULL: no memory or no thread. */
struct rl_resolution *rl_resolver_start(const char *host, struct rl_wakeup *wakeup);

void rl_resolver_unref(struct rl_resolution *resolution);

#endif
