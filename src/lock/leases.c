#include "src/lock/leases.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "src/lock/locks.h"

#define FIRST_BUCKETS 64
#define SPREAD_EACH   (300 * QUORUM_MICROSECOND)
#define LATE          (5 * QUORUM_MILLISECOND) /* a loop that was blocked, not one that is busy: the list may be long */

uint64_t rl_leases_hash(const struct rl_locks *locks, const char *key, size_t size)
{
    uint64_t hash = rl_hash(RL_HASH_OF_NOTHING ^ (uintptr_t)locks, key, size);
    return hash ^ (hash >> 29);
}

static void insert(struct rl_leases *leases, struct rl_lease *lease)
{
    for (unsigned i = 0; i < lease->key_count; i++) {
        struct rl_key *key = &lease->key[i];
        struct rl_key **bucket = &leases->buckets[key->hash & (leases->bucket_count - 1)];
        key->chain = *bucket;
        *bucket = key;
    }
}

static void take_out(struct rl_leases *leases, struct rl_lease *lease)
{
    for (unsigned i = 0; i < lease->key_count; i++) {
        struct rl_key *key = &lease->key[i];
        struct rl_key **link = &leases->buckets[key->hash & (leases->bucket_count - 1)];
        while (*link != key)
            link = &(*link)->chain;
        *link = key->chain;
    }
}

/* Doubles the buckets. Without memory the table keeps its size and becomes slower. */
static bool grow(struct rl_locks *locks)
{
    struct rl_leases *leases = &locks->leases;
    size_t count = leases->bucket_count ? 2 * leases->bucket_count : FIRST_BUCKETS;
    struct rl_key **buckets = rl_allocate(&locks->core->allocator, count * sizeof *buckets);
    if (!buckets)
        return leases->bucket_count > 0;
    if (leases->buckets)
        rl_core_free(locks->core, leases->buckets);
    leases->buckets = buckets;
    leases->bucket_count = count;
    assert((count & (count - 1)) == 0); /* a hash selects a bucket by its low bits */
    for (struct rl_lease *lease = leases->first; lease; lease = lease->links.next)
        insert(leases, lease);
    return true;
}

bool rl_leases_add(struct rl_lease *lease)
{
    struct rl_leases *leases = &lease->locks->leases;
    assert(!lease->links.listed && lease->key_count > 0);
    if (leases->count >= leases->bucket_count && !grow(lease->locks))
        return false;
    lease->links.listed = true;
    lease->links.previous = NULL;
    lease->links.next = leases->first;
    if (lease->links.next)
        lease->links.next->links.previous = lease;
    leases->first = lease;
    leases->count += lease->key_count;
    insert(leases, lease);
    return true;
}

void rl_leases_remove(struct rl_lease *lease)
{
    struct rl_leases *leases = &lease->locks->leases;
    if (!lease->links.listed)
        return;
    lease->links.listed = false;
    assert(leases->count >= lease->key_count && leases->first);
    *(lease->links.previous ? &lease->links.previous->links.next : &leases->first) = lease->links.next;
    if (lease->links.next)
        lease->links.next->links.previous = lease->links.previous;
    take_out(leases, lease);
    leases->count -= lease->key_count;
}

/* --------------------------------------------------------------------------------------------- due and lacking leases */

void rl_leases_renew(struct rl_lease *lease)
{
    assert(lease->links.listed && !lease->rules.loss);
    struct rl_locks *locks = lease->locks;
    struct rl_leases *leases = &locks->leases;
    if (lease->links.due)
        return;
    lease->links.due = true;
    lease->links.next_due = NULL;
    *(leases->due ? &leases->due_last->links.next_due : &leases->due) = rl_lease_ref(lease);
    leases->due_last = lease;
    leases->due_count++;
    /* How long it may wait for others: a hundredth of the ttl, the default allowance for drift, up to 20 ms. */
    quorum_duration share = lease->rules.terms.ttl / 100, most = 20 * QUORUM_MILLISECOND;
    quorum_duration patience = share < most ? share : most;
    quorum_time latest = quorum_time_add(rl_now(), lease->rules.failures ? 0 : patience);
    if (!locks->renewal_timer.set || locks->renewal_timer.due > latest)
        rl_timer_set(&locks->core->timers, &locks->renewal_timer, latest);
}

void rl_leases_take_due(struct rl_leases *leases)
{
    struct rl_lease *lease = leases->due;
    assert(lease && lease->links.due && leases->due_count > 0);
    leases->due = lease->links.next_due;
    leases->due_count--;
    assert((leases->due == NULL) == (leases->due_count == 0));
    lease->links.due = false;
    rl_lease_unref(lease);
}

void rl_leases_heal(struct rl_lease *lease, quorum_nodes nodes)
{
    struct rl_leases *leases = &lease->locks->leases;
    if (!lease->renewal.lacking) {
        lease->links.next_lacking = leases->lacking;
        leases->lacking = rl_lease_ref(lease);
    }
    lease->renewal.lacking |= nodes;
}

void rl_leases_take_lacking(struct rl_leases *leases)
{
    struct rl_lease *lease = leases->lacking;
    leases->lacking = lease->links.next_lacking;
    lease->renewal.lacking = 0;
    rl_lease_unref(lease);
}

/* ------------------------------------------------------------------------------------------------------------- events */

quorum_duration rl_leases_spread(const struct rl_leases *leases)
{
    return leases->count * SPREAD_EACH;
}

void rl_leases_hasten(struct rl_locks *locks, unsigned node, bool has_forgotten)
{
    struct quorum_lease_event event = {.type = QUORUM_LEASE_HASTEN, .now = rl_now(), .spread = QUORUM_SECOND};
    if (!has_forgotten && rl_leases_spread(&locks->leases) > event.spread)
        event.spread = rl_leases_spread(&locks->leases);
    for (struct rl_lease *lease = locks->leases.first; lease; lease = lease->links.next) {
        event.random = rl_random_u64(&locks->core->random);
        if (has_forgotten || !(lease->may_hold & quorum_node(node)))
            rl_lease_step(lease, &event);
    }
}

void rl_leases_mark_lost(struct rl_locks *locks, enum quorum_lease_event_type why)
{
    for (struct rl_lease *lease = locks->leases.first; lease; lease = lease->links.next) {
        const struct quorum_lease_event event = {.type = why, .now = rl_now()};
        rl_lease_step(lease, &event);
    }
}

void rl_leases_wake_due(struct rl_locks *locks)
{
    quorum_time now = locks->leases.first ? rl_now() : 0;
    if (quorum_time_since(locks->core->timers.earliest, now) < LATE)
        return;
    for (struct rl_lease *lease = locks->leases.first; lease; lease = lease->links.next) {
        const struct quorum_lease_event event = {.type = QUORUM_LEASE_WOKEN, .now = now};
        if (lease->timer.set && lease->timer.due <= now)
            rl_lease_step(lease, &event);
    }
}

void rl_leases_notice(struct rl_lease *lease, unsigned notices)
{
    struct rl_leases *leases = &lease->locks->leases;
    assert(notices);
    bool first = lease->handles.notices == 0;
    lease->handles.notices |= notices;
    if (!first)
        return;
    rl_lease_ref(lease);
    lease->links.next_noticed = NULL;
    *(leases->noticed ? &leases->noticed_last->links.next_noticed : &leases->noticed) = lease;
    leases->noticed_last = lease;
}

static redlock_lock *next_to_notify(const struct rl_lease *lease, int event)
{
    redlock_lock *handle = lease->handles.all;
    while (handle && !(handle->given && handle->pending & RL_EVENT_BIT(event)))
        handle = handle->next;
    return handle;
}

/* A callback may release handles and create new ones, so the search restarts after each; and fork, and return in the
 * child. */
static void report_event(struct rl_lease *lease, int event)
{
    redlock_lock *handle;
    while (rl_process_is(lease->locks->core->owner) && (handle = next_to_notify(lease, event)) != NULL) {
        handle->pending &= ~RL_EVENT_BIT(event);
        if (handle->event) /* a warning has no loss, even if the lock has been lost since */
            handle->event(handle, event, event == REDLOCK_EVENT_LOST ? atomic_load(&lease->loss) : REDLOCK_NOT_LOST,
                          (int64_t)(rl_lease_validity(lease) / QUORUM_MILLISECOND), handle->event_arg);
    }
}

void rl_leases_notify(struct rl_locks *locks)
{
    struct rl_leases *leases = &locks->leases;
    for (unsigned reported = 0; leases->noticed && reported < 1024 && rl_process_is(locks->core->owner); reported++) {
        struct rl_lease *lease = leases->noticed;
        unsigned notices = lease->handles.notices;
        assert(notices); /* otherwise it would not be in the list */
        leases->noticed = lease->links.next_noticed;
        lease->handles.notices = 0;
        for (int event = 1; event <= RL_EVENT_LAST; event++)
            if (notices & RL_EVENT_BIT(event))
                report_event(lease, event);
        rl_lease_unref(lease);
    }
}

/* ------------------------------------------------------------------------------------------------------------- search */

typedef bool predicate(const struct rl_lease *lease, const void *what);

static struct rl_lease *find(struct rl_locks *locks, const char *resource, size_t size, predicate *fits,
                             const void *what)
{
    struct rl_leases *leases = &locks->leases;
    char bytes[128 + REDLOCK_RESOURCE_MAX + RL_SLOT_SIZE];
    size_t prefix = strlen(locks->core->options.prefix);
    if (!leases->count || prefix + size > sizeof bytes)
        return NULL;
    memcpy(bytes, locks->core->options.prefix, prefix);
    memcpy(bytes + prefix, resource, size);
    uint64_t hash = rl_leases_hash(locks, bytes, prefix + size);
    for (struct rl_key *key = leases->buckets[hash & (leases->bucket_count - 1)]; key; key = key->chain)
        if (key->hash == hash && key->size == prefix + size && memcmp(key->bytes, bytes, key->size) == 0 &&
            fits(key->lease, what))
            return key->lease;
    return NULL;
}

static bool is_valid(const struct rl_lease *lease, const void *unused)
{
    (void)unused;
    return rl_lease_validity(lease) > 0;
}

struct wanted {
    const struct rl_names *names;
    struct rl_owner owner;
    bool shared;
};

static bool is_owned(const struct rl_lease *lease, const void *what)
{
    const struct wanted *wanted = what;
    return rl_owner_is(lease->owner, wanted->owner) && rl_lease_has(lease, wanted->names);
}

/* Readers do not exclude each other. */
static bool is_obstacle(const struct rl_lease *lease, const void *what)
{
    const struct wanted *wanted = what;
    return rl_owner_is(lease->owner, wanted->owner) && !(lease->shared && wanted->shared);
}

static bool has_token(const struct rl_lease *lease, const void *what)
{
    const struct rl_text *token = what;
    struct rl_text value = rl_lease_value(lease);
    return value.size == token->size && memcmp(value.bytes, token->bytes, token->size) == 0;
}

struct rl_lease *rl_leases_find_token(struct rl_locks *locks, const char *resource, size_t size, struct rl_text token)
{
    return find(locks, resource, size, has_token, &token);
}

struct rl_lease *rl_leases_find(struct rl_locks *locks, const char *resource, size_t size)
{
    return find(locks, resource, size, is_valid, NULL);
}

struct rl_lease *rl_leases_find_slot(struct rl_locks *locks, const char *resource, size_t size, unsigned slot)
{
    char name[REDLOCK_RESOURCE_MAX + RL_SLOT_SIZE];
    assert(size <= REDLOCK_RESOURCE_MAX && slot < REDLOCK_PERMITS_MAX);
    memcpy(name, resource, size);
    size += (size_t)snprintf(name + size, RL_SLOT_SIZE, RL_SLOT_INFIX "%u", slot);
    return find(locks, name, size, is_valid, NULL);
}

bool rl_leases_have(struct rl_locks *locks, const char *resource, size_t size)
{
    bool found = rl_leases_find(locks, resource, size);
    for (unsigned slot = 0; !found && locks->leases.count && slot < REDLOCK_PERMITS_MAX; slot++)
        found = rl_leases_find_slot(locks, resource, size, slot);
    return found;
}

struct rl_lease *rl_leases_find_owned(struct rl_locks *locks, const struct rl_names *names, struct rl_owner owner)
{
    const struct wanted wanted = {.names = names, .owner = owner};
    return find(locks, names->name[0].bytes, names->name[0].size, is_owned, &wanted);
}

struct rl_lease *rl_leases_find_obstacle(struct rl_locks *locks, const struct rl_names *names, struct rl_owner owner,
                                         bool shared, struct rl_text *name)
{
    const struct wanted wanted = {.owner = owner, .shared = shared};
    struct rl_lease *found = NULL;
    for (unsigned i = 0; !found && i < names->count; i++) {
        *name = names->name[i];
        found = find(locks, name->bytes, name->size, is_obstacle, &wanted);
    }
    return found;
}

unsigned rl_leases_count_permits(struct rl_locks *locks, struct rl_text semaphore, unsigned permits,
                                 struct rl_owner owner)
{
    unsigned count = 0;
    for (unsigned slot = 0; slot < permits; slot++) {
        const struct rl_lease *lease = rl_leases_find_slot(locks, semaphore.bytes, semaphore.size, slot);
        count += lease && rl_owner_is(lease->owner, owner);
    }
    return count;
}

void rl_leases_free(struct rl_locks *locks)
{
    struct rl_leases *leases = &locks->leases;
    while (leases->noticed) {
        struct rl_lease *lease = leases->noticed;
        leases->noticed = lease->links.next_noticed;
        rl_lease_unref(lease);
    }
    while (leases->first) {
        struct rl_lease *lease = leases->first;
        rl_lease_ref(lease);
        while (lease->handles.all) {
            rl_lease_end_handle(lease->handles.all);
            rl_lease_unref(lease);
        }
        rl_lease_unref(lease);
    }
    assert(leases->count == 0);
    if (leases->buckets)
        rl_core_free(locks->core, leases->buckets);
    leases->buckets = NULL;
}
