#include "src/node/attempts.h"

#include <assert.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "src/core/core.h"

#define BACKOFF_FIRST (10 * QUORUM_MILLISECOND)
#define STEADY        (QUORUM_SECOND) /* a connection that breaks sooner once ready counts as a failed attempt */

#define RESOLVED_MAX  8

/* ----------------------------------------------------------------------------------------------------- resolutions */

/*
 * One resolution of a host name, beside the loop, because getaddrinfo(3) blocks and cannot be cancelled. Each has its thread
 * and its memory (from malloc(3)), so that a client can close while a resolution still waits for a name server.
 */
struct rl_resolution {
    bool taken; /* used by the loop only: it has read the result */
    atomic_uint references;
    atomic_bool done; /* error, count and numeric are written */
    struct rl_wakeup *wakeup;
    char host[RL_HOST_SIZE];
    char error[96]; /* "" if an address was found */
    unsigned count;
    char numeric[RESOLVED_MAX][RL_NUMERIC_SIZE];
};

static bool is_numeric(const char *host)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}

static void resolution_unref(struct rl_resolution *resolution)
{
    if (resolution && atomic_fetch_sub(&resolution->references, 1) == 1) {
        rl_wakeup_unref(resolution->wakeup);
        free(resolution);
    }
}

static void keep(struct rl_resolution *resolution, const struct addrinfo *found)
{
    for (; found && resolution->count < RESOLVED_MAX; found = found->ai_next)
        if (getnameinfo(found->ai_addr, found->ai_addrlen, resolution->numeric[resolution->count], RL_NUMERIC_SIZE,
                        NULL, 0, NI_NUMERICHOST) == 0)
            resolution->count++;
    assert(resolution->count <= RESOLVED_MAX);
}

/* The thread of a resolution. */
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
    resolution_unref(resolution);
    return NULL;
}

/* Signals the wakeup when it is done. NULL: no memory or no thread. */
static struct rl_resolution *resolution_start(const char *host, struct rl_wakeup *wakeup)
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
    resolution_unref(resolution);
    resolution_unref(resolution);
    return NULL;
}

/* -------------------------------------------------------------------------------------------------------- attempts */

/* Tries the addresses of one name in turn. */
bool rl_attempts_need_name(const struct rl_attempts *attempts, const struct rl_address *address)
{
    return !address->path[0] && attempts->address == 0 && !is_numeric(address->host);
}

/* Each attempt resolves the name again; but if the last resolution is still in progress or unused, it waits for that
 * one: otherwise an unreachable name server would cost more and more threads. */
bool rl_attempts_resolve(struct rl_attempts *attempts, const struct rl_address *address, struct rl_wakeup *wakeup)
{
    if (!attempts->resolution || attempts->resolution->taken) {
        resolution_unref(attempts->resolution);
        attempts->resolution = resolution_start(address->host, wakeup);
    }
    return attempts->resolution;
}

bool rl_attempts_take_name(struct rl_attempts *attempts, const char **error)
{
    struct rl_resolution *resolution = attempts->resolution;
    assert(!resolution->taken);
    if (!atomic_load(&resolution->done))
        return false;
    resolution->taken = true;
    attempts->address = 0;
    *error = resolution->error;
    return true;
}

struct rl_link_target rl_attempts_target(struct rl_attempts *attempts, const struct rl_address *address,
                                         struct rl_tls *tls)
{
    assert(!attempts->resolution || attempts->address < attempts->resolution->count);
    const char *numeric = attempts->resolution ? attempts->resolution->numeric[attempts->address] : address->host;
    snprintf(attempts->peer, sizeof attempts->peer, "%.*s", RL_NUMERIC_SIZE - 1, address->path[0] ? "" : numeric);
    return (struct rl_link_target){.path = address->path,
                                   .numeric = attempts->peer,
                                   .port = address->port,
                                   .host = address->host,
                                   .tls = address->tls ? tls : NULL};
}

static quorum_time next_attempt(const struct rl_attempts *attempts, struct rl_core *core, quorum_time now)
{
    if (attempts->failures == 0)
        return now;
    unsigned doublings = attempts->failures < 16 ? attempts->failures - 1 : 15;
    quorum_duration longest = core->options.backoff_max_ms * QUORUM_MILLISECOND;
    quorum_duration pause = BACKOFF_FIRST << doublings;
    if (pause > longest)
        pause = longest;
    /* Half of it is jitter, so that the clients of a recovering node do not all connect at once. */
    return now + pause / 2 + rl_random_u64(&core->random) % (pause / 2 + 1);
}

quorum_time rl_attempts_failed(struct rl_attempts *attempts, struct rl_core *core, bool connecting, bool was_ready)
{
    quorum_time now = rl_now();
    bool more = connecting && attempts->resolution && attempts->address + 1 < attempts->resolution->count;
    if (was_ready && quorum_time_since(attempts->ready_since, now) >= STEADY)
        attempts->failures = 0;
    else if (!more && attempts->failures < UINT32_MAX)
        attempts->failures++;
    attempts->address = more ? attempts->address + 1 : 0;
    return more ? now : next_attempt(attempts, core, now);
}

void rl_attempts_succeeded(struct rl_attempts *attempts, quorum_time now)
{
    attempts->ready_since = now;
    attempts->failures = 0;
    attempts->address = 0;
    attempts->permanent = false;
    attempts->error[0] = '\0';
}

void rl_attempts_end(struct rl_attempts *attempts)
{
    resolution_unref(attempts->resolution);
    attempts->resolution = NULL;
}

int rl_attempts_auth(const redlock_options *options, const struct rl_address *address, struct rl_command *command,
                     char user[RL_USER_SIZE])
{
    char given_user[RL_SECRET_SIZE] = "", given_password[RL_SECRET_SIZE] = ""; /* by the callback */
    const char *name = given_user, *password = given_password;
    int answer = 0;
    if (address->has_password) {
        name = address->user;
        password = address->password;
    } else if (options->credentials) {
        answer = options->credentials(address->name, given_user, given_password, RL_SECRET_SIZE,
                                      options->credentials_arg) == 0
                     ? 0
                     : -1;
        given_user[RL_SECRET_SIZE - 1] = given_password[RL_SECRET_SIZE - 1] = '\0';
    } else if (options->password) {
        name = options->user ? options->user : "";
        password = options->password;
    }
    bool authenticates = answer == 0 && password[0];
    snprintf(user, RL_USER_SIZE, "%.127s", authenticates && name[0] ? name : "default");
    if (authenticates)
        answer = rl_command_words(command, "AUTH", name[0] ? name : password, name[0] ? password : NULL, NULL) ? 1 : -1;
    rl_wipe(given_user, sizeof given_user);
    rl_wipe(given_password, sizeof given_password);
    return answer;
}

void rl_attempts_auth_free(struct rl_command *command)
{
    if (command->buffer)
        rl_wipe(command->buffer, command->used);
    rl_command_free(command);
}
