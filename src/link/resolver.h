/*
 * Resolves host names beside the loop, because getaddrinfo(3) blocks and cannot be cancelled. Each resolution has its
 * thread and its memory (from malloc(3)), so that a client can close while a resolution still waits for a name server.
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
    bool taken; /* used by the loop only: it has read the result */
    atomic_uint references;
    atomic_bool done; /* error, count and numeric are written */
    struct rl_wakeup *wakeup;
    char host[RL_HOST_SIZE];
    char error[96]; /* "" if an address was found */
    unsigned count;
    char numeric[RL_RESOLVED_MAX][RL_NUMERIC_SIZE];
};

/* True if the host is an address and needs no resolution. */
bool rl_resolver_is_numeric(const char *host);

/* Starts a resolution, which signals the wakeup when it is done. NULL: no memory or no thread. */
struct rl_resolution *rl_resolver_start(const char *host, struct rl_wakeup *wakeup);

void rl_resolver_unref(struct rl_resolution *resolution);

#endif
