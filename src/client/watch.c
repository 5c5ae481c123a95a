#include "src/client/watch.h"

#include "src/client/client.h"

struct rl_watch {
    struct rl_operation base;
    struct rl_watch *next; /* of the lease's watches */
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
    struct rl_watch **link = &watch->base.lease->watches;
    while (*link && *link != watch)
        link = &(*link)->next;
    if (*link)
        *link = watch->next;
}

static void on_deadline(struct rl_timer *timer)
{
    struct rl_operation *operation = rl_operation_of_timer(timer);
    stop(operation);
    rl_operation_complete(operation, REDLOCK_TIMED_OUT);
}

static void report(struct rl_operation *operation, redlock_result *result)
{
    enum quorum_loss loss = (enum quorum_loss)atomic_load(&operation->lease->loss);
    operation->callback.watch(result->status, loss, operation->arg);
}

static const struct rl_operation_type type = {
    .size = sizeof(struct rl_watch), .stop = stop, .report = report, .drop = stop};

int rl_watch_start(redlock_lock *lock, int64_t wait_ms, rl_watch_callback *callback, void *arg)
{
    struct rl_lease *lease = lock->lease;
    int created;
    struct rl_watch *watch =
        rl_operation_create(lease->locks->client, &type, 0, (union rl_callback){.watch = callback}, arg, &created);
    if (!watch)
        return created;
    watch->base.lease = rl_lease_ref(lease);
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
