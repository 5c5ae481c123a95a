/* Watch: waits for the loss of a lock, for redlock_wait_lost(). */
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

static void watch_stop(struct rl_operation *operation)
{
    struct rl_watch *watch = (struct rl_watch *)operation;
    struct rl_watch **link = &watch->base.lease->watches;
    while (*link && *link != watch)
        link = &(*link)->next;
    if (*link)
        *link = watch->next;
}

static void watch_report(struct rl_operation *operation, redlock_result *result, struct rl_returned *returned)
{
    (void)result;
    returned->loss = (int)atomic_load(&operation->lease->loss);
}

static void watch_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    struct rl_watch *watch = (struct rl_watch *)operation;
    struct rl_lease *lease = arguments->lock->lease;
    operation->lease = rl_lease_ref(lease);
    watch->next = lease->watches;
    lease->watches = watch;
    if (atomic_load(&lease->loss))
        rl_watches_end(lease);
}

const struct rl_operation_type rl_watch = {.size = sizeof(struct rl_watch),
                                           .start = watch_start,
                                           .stop = watch_stop,
                                           .report = watch_report,
                                           .drop = watch_stop};
