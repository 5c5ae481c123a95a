/*
 * A store that rejects writes of an outdated holder: fenced_store STORE VALUE [--stall]. The nodes come from
 * REDLOCK_NODES.
 *
 * Acquires a lock with a fencing token, and writes VALUE together with the token. --stall stops the process right
 * before the write, as a long pause of the machine would. After SIGCONT it continues, when another process has long
 * acquired the lock.
 *
 * STORE   sqlite:FILE   a row with a conditional UPDATE
 *         redis:PORT    a key on the application's own Redis, with a script
 */
#include <redlock/redlock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

enum { REFUSED = 3 };

static int complain(const char *what, redlock_result *result)
{
    fprintf(stderr, "%s: %s\n", what, redlock_result_text(result));
    return EXIT_FAILURE;
}

static int write_value(const char *store, const char *value, uint64_t fence)
{
    uint64_t seen = 0;
    switch (store_write(store, value, fence, &seen)) {
    case STORE_WRITTEN:
        printf("written\n");
        return EXIT_SUCCESS;
    case STORE_REFUSED:
        printf("refused: the store has seen token %llu\n", (unsigned long long)seen);
        return REFUSED;
    case STORE_FAILED:
        break;
    }
    return EXIT_FAILURE;
}

static int run(redlock_client *client, const char *store, const char *value, int stall)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_result result;
    redlock_lock *lock;
    options.wait_ms = 20000;
    options.ttl_ms = 1000;
    options.fence = 1;
    if (redlock_acquire(client, "examples/fenced_store", &options, &lock, &result) != REDLOCK_OK)
        return complain("acquire", &result);
    uint64_t fence = redlock_lock_fence(lock);
    printf("acquired, with token %llu and %lld ms left\n", (unsigned long long)fence,
           (long long)redlock_validity_ms(lock));
    fflush(stdout);
    if (stall)
        raise(SIGSTOP); /* after the last check of the validity and before the write: no check can be late enough */
    int status = write_value(store, value, fence);
    if (redlock_release(&lock, NULL, &result) != REDLOCK_OK)
        complain("release", &result); /* after a stall the lock is lost: nothing to repair */
    return status;
}

int main(int count, char **arguments)
{
    redlock_client *client;
    redlock_result result;
    int stall = count == 4 && strcmp(arguments[3], "--stall") == 0;
    if (count != 3 && !stall) {
        fprintf(stderr, "usage: fenced_store sqlite:FILE|redis:PORT VALUE [--stall]\n");
        return count == 2 && strcmp(arguments[1], "--help") == 0 ? EXIT_SUCCESS : 2;
    }
    if (redlock_connect(getenv("REDLOCK_NODES"), NULL, &client, &result) != REDLOCK_OK)
        return complain("connect", &result);
    int status = run(client, arguments[1], arguments[2], stall);
    if (redlock_close(&client, NULL, &result) != REDLOCK_OK)
        complain("close", &result);
    return status;
}
