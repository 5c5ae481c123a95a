/* What a killed waiter costs: bench-dead-head NODES ROUNDS.
 *
 * In each round a process holds the lock, a second one waits first in its queue, a third one second. The second is
 * killed, then the lock is released. Prints the times from the release until the third holds the lock; ns. */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor.h"
#include "clock.h"

enum { WAIT_MS = 10000, QUEUE_US = 300000, POLL_US = 500 };

static struct arena {
    _Atomic bool held, release;
    _Atomic uint64_t released, acquired; /* clock */
} * arena;

static redlock_lock *acquire(redlock_client *client)
{
    redlock_lock *lock;
    redlock_result result;
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = WAIT_MS;
    if (redlock_acquire(client, "/0000/dead-head", &options, &lock, &result) != REDLOCK_OK)
        actor_fail("no lock", redlock_result_text(&result));
    return lock;
}

static void be_holder(const void *nodes)
{
    redlock_client *client = actor_connect(nodes);
    redlock_lock *lock = acquire(client);
    atomic_store(&arena->held, true);
    while (!atomic_load(&arena->release))
        usleep(POLL_US);
    atomic_store(&arena->released, clock_now());
    redlock_release(&lock, NULL, NULL);
    redlock_close(&client, NULL, NULL);
}

static void be_waiter(const void *nodes)
{
    redlock_client *client = actor_connect(nodes);
    redlock_lock *lock = acquire(client);
    atomic_store(&arena->acquired, clock_now());
    redlock_release(&lock, NULL, NULL);
    redlock_close(&client, NULL, NULL);
}

static uint64_t play(const char *nodes)
{
    atomic_store(&arena->held, false);
    atomic_store(&arena->release, false);
    pid_t holder = actor_start(be_holder, nodes);
    while (!atomic_load(&arena->held))
        if (waitpid(holder, NULL, WNOHANG) != 0 || usleep(POLL_US) != 0)
            actor_fail("the holder ended", "see above");
    pid_t first = actor_start(be_waiter, nodes);
    usleep(QUEUE_US);
    pid_t second = actor_start(be_waiter, nodes);
    usleep(QUEUE_US);
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
    atomic_store(&arena->release, true);
    actor_wait(holder);
    actor_wait(second);
    return atomic_load(&arena->acquired) - atomic_load(&arena->released);
}

int main(int count, char **arguments)
{
    int rounds = count == 3 ? atoi(arguments[2]) : 0;
    if (rounds < 1) {
        fprintf(stderr, "usage: %s HOST:PORT[,HOST:PORT...] ROUNDS\n", arguments[0]);
        return 2;
    }
    arena = actor_share_memory(sizeof *arena);
    actor_wait(actor_start(actor_trust, arguments[1]));
    for (int i = 0; i < rounds; i++)
        printf("%s%" PRIu64, i ? " " : "", play(arguments[1]));
    printf("\n");
    return 0;
}
