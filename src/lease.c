#include "src/lease.h"

#include <assert.h>
#include <string.h>

#include "src/client.h"
#include "src/clock.h"
#include "src/memory.h"

#define FIRST_BUCKETS 64

/* FNV-1a with the client's own start: resources come from outside, and shall not be made to meet in one bucket. */
static uint64_t hash_of(const redlock_client *client, const char *key, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ (uintptr_t)client;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)key[i]) * UINT64_C(1099511628211);
    return hash ^ (hash >> 29);
}

struct rl_lease *rl_lease_create(redlock_client *client, const char *resource, size_t size, int *status)
{
    size_t prefix = strlen(client->options.prefix);
    struct rl_lease *lease = rl_client_allocate(client, sizeof *lease + prefix + size + 1);
    if (!lease) {
        *status = REDLOCK_NO_MEMORY;
        return NULL;
    }
    memset(lease, 0, sizeof *lease);
    if (!rl_random_token(&client->random, lease->token)) {
        rl_client_free(client, lease);
        *status = REDLOCK_SYSTEM;
        return NULL;
    }
    lease->references = 1;
    lease->client = client;
    lease->handle.lease = lease;
    atomic_init(&lease->validity_end, 0);
    lease->prefix_size = prefix;
    lease->key_size = prefix + size;
    memcpy(lease->key, client->options.prefix, prefix);
    memcpy(lease->key + prefix, resource, size);
    lease->key[lease->key_size] = '\0';
    return lease;
}

struct rl_lease *rl_lease_retain(struct rl_lease *lease)
{
    if (lease)
        lease->references++;
    return lease;
}

void rl_lease_release(struct rl_lease *lease)
{
    if (!lease)
        return;
    assert(lease->references > 0);
    if (--lease->references > 0)
        return;
    assert(!lease->held);
    rl_client_free(lease->client, lease);
}

static void insert(struct rl_leases *leases, struct rl_lease *lease)
{
    struct rl_lease **bucket = &leases->buckets[lease->hash & (leases->bucket_count - 1)];
    lease->chain = *bucket;
    *bucket = lease;
}

/* Twice the buckets. Without memory for them the table stays, only slower. */
static bool grow(redlock_client *client)
{
    struct rl_leases *leases = &client->leases;
    size_t count = leases->bucket_count ? 2 * leases->bucket_count : FIRST_BUCKETS;
    struct rl_lease **buckets = rl_allocate(&client->allocator, count * sizeof *buckets);
    if (!buckets)
        return leases->bucket_count > 0;
    if (leases->buckets)
        rl_client_free(client, leases->buckets);
    leases->buckets = buckets;
    leases->bucket_count = count;
    for (struct rl_lease *lease = leases->first; lease; lease = lease->next)
        insert(leases, lease);
    return true;
}

bool rl_lease_hold(struct rl_lease *lease, quorum_time validity_end, uint32_t ttl_ms)
{
    struct rl_leases *leases = &lease->client->leases;
    if (leases->count >= leases->bucket_count && !grow(lease->client))
        return false;
    lease->hash = hash_of(lease->client, lease->key, lease->key_size);
    lease->ttl_ms = ttl_ms;
    lease->held = true;
    lease->previous = NULL;
    lease->next = leases->first;
    if (lease->next)
        lease->next->previous = lease;
    leases->first = lease;
    leases->count++;
    insert(leases, lease);
    rl_lease_retain(lease);
    atomic_store_explicit(&lease->validity_end, validity_end, memory_order_release);
    return true;
}

void rl_lease_drop(struct rl_lease *lease)
{
    struct rl_leases *leases = &lease->client->leases;
    if (!lease->held)
        return;
    lease->held = false;
    *(lease->previous ? &lease->previous->next : &leases->first) = lease->next;
    if (lease->next)
        lease->next->previous = lease->previous;
    struct rl_lease **link = &leases->buckets[lease->hash & (leases->bucket_count - 1)];
    while (*link != lease)
        link = &(*link)->chain;
    *link = lease->chain;
    leases->count--;
}

void rl_lease_lose(struct rl_lease *lease)
{
    atomic_store_explicit(&lease->validity_end, 0, memory_order_release);
}

quorum_duration rl_lease_validity(const struct rl_lease *lease)
{
    return quorum_time_until(atomic_load_explicit(&lease->validity_end, memory_order_acquire), rl_now());
}

struct rl_lease *rl_leases_find(redlock_client *client, const char *resource, size_t size)
{
    struct rl_leases *leases = &client->leases;
    char key[128 + REDLOCK_RESOURCE_MAX];
    size_t prefix = strlen(client->options.prefix);
    if (!leases->count || prefix + size > sizeof key)
        return NULL;
    memcpy(key, client->options.prefix, prefix);
    memcpy(key + prefix, resource, size);
    uint64_t hash = hash_of(client, key, prefix + size);
    for (struct rl_lease *lease = leases->buckets[hash & (leases->bucket_count - 1)]; lease; lease = lease->chain)
        if (lease->hash == hash && lease->key_size == prefix + size && memcmp(lease->key, key, lease->key_size) == 0 &&
            rl_lease_validity(lease) > 0)
            return lease;
    return NULL;
}

void rl_leases_free(redlock_client *client)
{
    while (client->leases.first) {
        struct rl_lease *lease = client->leases.first;
        rl_lease_drop(lease);
        rl_lease_release(lease);
    }
    if (client->leases.buckets)
        rl_client_free(client, client->leases.buckets);
    client->leases.buckets = NULL;
}
