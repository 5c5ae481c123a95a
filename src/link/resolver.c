#include "src/link/resolver.h"

#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "src/core/process.h"

bool rl_resolver_is_numeric(const char *host)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}

static void keep(struct rl_resolution *resolution, const struct addrinfo *found)
{
    for (; found && resolution->count < RL_RESOLVED_MAX; found = found->ai_next)
        if (getnameinfo(found->ai_addr, found->ai_addrlen, resolution->numeric[resolution->count], RL_NUMERIC_SIZE,
                        NULL, 0, NI_NUMERICHOST) == 0)
            resolution->count++;
    assert(resolution->count <= RL_RESOLVED_MAX);
}

static void *resolve(void *data)
{
    struct rl_resolution *resolution = data;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(resolution->host, NULL, &hints, &found);
    if (error == 0) {
        keep(resolution, found);
        freeaddrinfo(found);
    }
    if (resolution->count == 0)
        snprintf(resolution->error, sizeof resolution->error, "cannot resolve the name: %s",
                 error ? gai_strerror(error) : "no address");
    atomic_store(&resolution->done, true);
    rl_wakeup_signal(resolution->wakeup);
    rl_resolver_unref(resolution);
    return NULL;
}

struct rl_resolution *rl_resolver_start(const char *host, struct rl_wakeup *wakeup)
{
    struct rl_resolution *resolution = calloc(1, sizeof *resolution);
    if (!resolution)
        return NULL;
    atomic_init(&resolution->references, 2);
    atomic_init(&resolution->done, false);
    resolution->wakeup = rl_wakeup_ref(wakeup);
    snprintf(resolution->host, sizeof resolution->host, "%s", host);
    pthread_t thread;
    if (rl_thread_start(&thread, resolve, resolution)) {
        pthread_detach(thread);
        return resolution;
    }
    rl_resolver_unref(resolution);
    rl_resolver_unref(resolution);
    return NULL;
}

void rl_resolver_unref(struct rl_resolution *resolution)
{
    if (resolution && atomic_fetch_sub(&resolution->references, 1) == 1) {
        rl_wakeup_unref(resolution->wakeup);
        free(resolution);
    }
}
