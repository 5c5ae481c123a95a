/* Functions of a handle that all three ways to call share, and cancellations. */
#include <errno.h>

#include "src/client/client.h"
#include "src/client/functions.h"
#include "src/core/result.h"
#include "src/lock/renewal.h"

int64_t redlock_validity_ms(const redlock_lock *lock)
{
    if (!lock || !rl_client_in_owner_process(lock->lease->locks->client))
        return 0;
    return (int64_t)(rl_lease_validity(lock->lease) / QUORUM_MILLISECOND);
}

int64_t redlock_valid_until_ns(const redlock_lock *lock)
{
    if (!lock || !rl_client_in_owner_process(lock->lease->locks->client))
        return 0;
    return (int64_t)atomic_load_explicit(&lock->lease->validity_end, memory_order_acquire);
}

int redlock_lock_loss(const redlock_lock *lock)
{
    if (!lock || !rl_client_in_owner_process(lock->lease->locks->client))
        return REDLOCK_LOSS_CLOSED;
    return rl_lease_loss(lock->lease);
}

struct renewal_question {
    const redlock_lock *lock;
    redlock_result *result;
};

static int fill_renewal_result(void *data)
{
    const struct renewal_question *question = data;
    rl_renewal_fill(question->lock->lease, question->result);
    return REDLOCK_OK;
}

int redlock_renewal_result(redlock_lock *lock, redlock_result *result)
{
    if (!lock || !result || !rl_client_in_owner_process(lock->lease->locks->client))
        return REDLOCK_INVALID;
    return rl_client_ask(lock->lease->locks->client, fill_renewal_result, &(struct renewal_question){lock, result});
}

static int read_hold_count(void *data)
{
    return (int)((redlock_lock *)data)->lease->handles.count;
}

uint32_t redlock_hold_count(const redlock_lock *lock)
{
    if (!lock || !rl_client_in_owner_process(lock->lease->locks->client))
        return 0;
    if (!lock->lease->locks->client->loop_thread)
        return lock->lease->handles.count;
    int count = rl_client_ask(lock->lease->locks->client, read_hold_count, (void *)(uintptr_t)lock);
    return count < 0 ? 0 : (uint32_t)count;
}

struct descriptor_question {
    const redlock_lock *lock;
    int descriptor; /* or a negative errno of the loop's thread */
};

static int open_descriptor(void *data)
{
    struct descriptor_question *question = data;
    question->descriptor = rl_lease_descriptor(question->lock->lease);
    return REDLOCK_OK;
}

int redlock_lost_descriptor(redlock_lock *lock, int *descriptor)
{
    if (!lock || !descriptor || !rl_client_in_owner_process(lock->lease->locks->client))
        return REDLOCK_INVALID;
    struct descriptor_question question = {.lock = lock};
    if (rl_client_ask(lock->lease->locks->client, open_descriptor, &question))
        return REDLOCK_INVALID;
    *descriptor = question.descriptor;
    if (question.descriptor >= 0)
        return REDLOCK_OK;
    errno = -question.descriptor;
    *descriptor = -1;
    return REDLOCK_SYSTEM;
}

const char *redlock_lock_resource(const redlock_lock *lock, size_t *size)
{
    return redlock_lock_resource_at(lock, 0, size);
}

uint32_t redlock_lock_resources(const redlock_lock *lock)
{
    return lock ? rl_lease_resources(lock->lease) : 0;
}

const char *redlock_lock_resource_at(const redlock_lock *lock, uint32_t index, size_t *size)
{
    bool is_there = index < redlock_lock_resources(lock);
    struct rl_text name = is_there ? rl_lease_resource(lock->lease, index) : (struct rl_text){"", 0};
    if (size)
        *size = name.size;
    return name.bytes;
}

const char *redlock_lock_token(const redlock_lock *lock)
{
    if (!lock)
        return "";
    atomic_store(&lock->lease->handles.passed_on, true);
    return rl_lease_token_text(lock->lease);
}

uint64_t redlock_lock_fence(const redlock_lock *lock)
{
    return lock ? lock->lease->fence : 0;
}

redlock_client *redlock_lock_client(const redlock_lock *lock)
{
    return lock ? lock->lease->locks->client : NULL;
}

void redlock_client_set_user_data(redlock_client *client, void *data)
{
    if (client)
        atomic_store(&client->user_data, data);
}

void *redlock_client_user_data(const redlock_client *client)
{
    return client ? atomic_load(&client->user_data) : NULL;
}

void redlock_lock_set_user_data(redlock_lock *lock, void *data)
{
    if (lock)
        atomic_store(&lock->user_data, data);
}

void *redlock_lock_user_data(const redlock_lock *lock)
{
    return lock ? atomic_load(&lock->user_data) : NULL;
}

struct locks_question {
    redlock_client *client;
    redlock_lock **locks;
    size_t size;
    size_t count;
};

static int list_handles(void *data)
{
    struct locks_question *question = data;
    for (struct rl_lease *lease = question->client->locks.leases.first; lease; lease = lease->links.next)
        for (redlock_lock *handle = lease->handles.all; handle; handle = handle->next) {
            if (!handle->given || atomic_load(&handle->delivery) != RL_DELIVERED)
                continue;
            if (question->count < question->size)
                question->locks[question->count] = handle;
            question->count++;
        }
    return REDLOCK_OK;
}

int redlock_locks(redlock_client *client, redlock_lock **locks, size_t size, size_t *count)
{
    if (!client || !count || (size && !locks) || !rl_client_in_owner_process(client))
        return REDLOCK_INVALID;
    struct locks_question question = {.client = client, .locks = locks, .size = size};
    if (rl_client_ask(client, list_handles, &question))
        return REDLOCK_INVALID;
    *count = question.count;
    return question.count <= size ? REDLOCK_OK : REDLOCK_INVALID;
}

static int look_for_lock(void *data)
{
    const struct rl_arguments *question = data;
    return rl_leases_have(&question->client->locks, question->resource, question->size);
}

int redlock_held_by_me(redlock_client *client, const char *resource, size_t size)
{
    if (!client || !rl_client_in_owner_process(client) ||
        rl_resource_check(resource, &size, &client->core.options, NULL))
        return 0;
    return rl_client_ask(client, look_for_lock,
                         &(struct rl_arguments){.client = client, .resource = resource, .size = size}) == 1;
}

int redlock_cancellation_create(redlock_client *client, redlock_cancellation **cancellation)
{
    if (!client || !cancellation || !rl_client_in_owner_process(client))
        return REDLOCK_INVALID;
    if (!client->loop_thread && rl_client_enter(client))
        return REDLOCK_INVALID;
    redlock_cancellation *made = rl_core_allocate(&client->core, sizeof *made);
    if (!made)
        return REDLOCK_NO_MEMORY;
    atomic_init(&made->changes, 0);
    made->wakeup = rl_wakeup_ref(client->core.wakeup);
    made->allocator = client->core.allocator;
    *cancellation = made;
    return REDLOCK_OK;
}

/* Increments the counter, unless it already has that state. Async-signal-safe, because the counter is lock-free. */
static void cancellation_set(redlock_cancellation *cancellation, bool cancelled)
{
    uint64_t changes = atomic_load(&cancellation->changes);
    while ((changes % 2 == 1) != cancelled &&
           !atomic_compare_exchange_weak(&cancellation->changes, &changes, changes + 1))
        ;
}

void redlock_cancel(redlock_cancellation *cancellation)
{
    if (!cancellation)
        return;
    cancellation_set(cancellation, true);
    atomic_store(&cancellation->wakeup->cancelled, true);
    rl_wakeup_signal(cancellation->wakeup);
}

void redlock_cancellation_reset(redlock_cancellation *cancellation)
{
    if (cancellation)
        cancellation_set(cancellation, false);
}

void redlock_cancellation_destroy(redlock_cancellation **cancellation)
{
    if (!cancellation || !*cancellation)
        return;
    redlock_cancellation *destroyed = *cancellation;
    redlock_allocator allocator = destroyed->allocator;
    *cancellation = NULL;
    rl_wakeup_unref(destroyed->wakeup);
    rl_free(&allocator, destroyed);
}
