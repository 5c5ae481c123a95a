#include "src/client/watch.h"

#include <stddef.h>

#include "src/client/client.h"

struct rl_watch {
    struct rl_operation base;
    struct rl_lease *lease; /* a reference */
    struct rl_watch *next;  /* of the lease's watches */
    rl_watch_callback *callback;
    void *arg;
};

void rl_watches_end(struct rl_lease *lease)
{
    int status = atomic_load(&lease->loss) ? REDLOCK_LOST : REDLOCK_CANCELLED;
    while (lease->watches) {
        struct rl_watch *watch = lease->watches;
        lease->watches = watch->next;
        rl_operation_complete(&watch->base, status);
    }
}

static void stop(struct rl_operation *operation)
{
    struct rl_watch *watch = (struct rl_watch *)operation;
    struct rl_watch **link = &watch->lease->watches;
    while (*link && *link != watch)
        link = &(*link)->next;
    if (*link)
        *link = watch->next;
}

static void on_deadline(struct rl_timer *timer)
{
    struct rl_operation *operation =
        (struct rl_operation *)(void *)((char *)timer - offsetof(struct rl_operation, timer));
    stop(operation);
    rl_operation_complete(operation, REDLOCK_TIMED_OUT);
}

static void tell(struct rl_operation *operation, redlock_result *result)
{
    struct rl_watch *watch = (struct rl_watch *)operation;
    rl_watch_callback *callback = watch->callback;
    void *arg = watch->arg;
    enum quorum_loss loss = (enum quorum_loss)atomic_load(&watch->lease->loss);
    rl_lease_unref(watch->lease);
    callback(result->status, loss, arg);
}

static void drop(struct rl_operation *operation)
{
    struct rl_watch *watch = (struct rl_watch *)operation;
    stop(operation);
    rl_lease_unref(watch->lease);
}

static const struct rl_operation_type type = {stop, tell, NULL, NULL, drop};

int rl_watch_start(redlock_lock *lock, int64_t wait_ms, rl_watch_callback *callback, void *arg)
{
    struct rl_lease *lease = lock->lease;
    int created;
    struct rl_watch *watch =
        (struct rl_watch *)rl_operation_create(lease->locks->client, &type, sizeof *watch, &created);
    if (!watch)
        return created;
    watch->lease = rl_lease_ref(lease);
    watch->callback = callback;
    watch->arg = arg;
    watch->base.timer.fire = on_deadline;
    if (wait_ms == 0 && !atomic_load(&lease->loss)) {
        rl_operation_complete(&watch->base, REDLOCK_TIMED_OUT); /* it has never waited: not one of the lease's */
        return REDLOCK_OK;
    }
    watch->next = lease->watches;
    lease->watches = watch;
    if (atomic_load(&lease->loss))
        rl_watches_end(lease);
    else
        rl_operation_wait(&watch->base, wait_ms);
    return REDLOCK_OK;
}
