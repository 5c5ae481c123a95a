#include "src/lock/lease.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/core/clock.h"
#include "src/core/escape.h"
#include "src/core/memory.h"
#include "src/core/result.h"
#include "src/lock/detached.h"
#include "src/lock/locks.h"
#include "src/lock/renewal.h"

#define FIRST_BUCKETS 64
#define GRAIN_MOST    (5 * QUORUM_MILLISECOND)
#define SPREAD_EACH   (300 * QUORUM_MICROSECOND)

/* FNV-1a with the client's own start: resources come from outside, and shall not be made to meet in one bucket. */
static uint64_t hash_of(const struct rl_locks *locks, const char *key, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ (uintptr_t)locks;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)key[i]) * UINT64_C(1099511628211);
    return hash ^ (hash >> 29);
}

static size_t bytes_of(const struct rl_names *names, size_t prefix)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < names->count; i++)
        bytes += prefix + names->name[i].size + 1;
    return bytes;
}

static void write_keys(struct rl_lease *lease, const struct rl_names *names)
{
    const char *prefix = lease->locks->core->options.prefix;
    char *at = (char *)&lease->key[names->count];
    for (unsigned i = 0; i < names->count; i++) {
        struct rl_key *key = &lease->key[i];
        key->lease = lease;
        key->bytes = at;
        key->size = lease->prefix_size + names->name[i].size;
        memcpy(at, prefix, lease->prefix_size);
        memcpy(at + lease->prefix_size, names->name[i].bytes, names->name[i].size);
        at[key->size] = '\0';
        at += key->size + 1;
    }
    lease->key_count = (uint16_t)names->count;
}

struct rl_lease *rl_lease_create(struct rl_locks *locks, const struct rl_names *names, int *status)
{
    size_t prefix = strlen(locks->core->options.prefix);
    size_t keys = names->count * sizeof(struct rl_key);
    struct rl_lease *lease = rl_core_allocate(locks->core, sizeof *lease + keys + bytes_of(names, prefix));
    if (!lease) {
        *status = REDLOCK_NO_MEMORY;
        return NULL;
    }
    memset(lease, 0, sizeof *lease);
    if (!rl_random_token(&locks->core->random, lease->token)) {
        rl_core_free(locks->core, lease);
        *status = REDLOCK_SYSTEM;
        return NULL;
    }
    lease->references = 1;
    lease->locks = locks;
    lease->value = (struct rl_text){lease->token, REDLOCK_TOKEN_SIZE - 1};
    lease->token_text = lease->token;
    lease->descriptor = -1;
    lease->slot = -1;
    atomic_init(&lease->validity_end, 0);
    atomic_init(&lease->loss, QUORUM_NOT_LOST);
    atomic_init(&lease->fence, 0);
    lease->prefix_size = (uint16_t)prefix;
    write_keys(lease, names);
    return lease;
}

struct rl_lease *rl_lease_create_one(struct rl_locks *locks, const char *resource, size_t size, int *status)
{
    const struct rl_names names = rl_names_of(resource, size);
    return rl_lease_create(locks, &names, status);
}

static size_t name_slot(char name[REDLOCK_RESOURCE_MAX + RL_SLOT_SIZE], const char *semaphore, size_t size,
                        unsigned slot)
{
    memcpy(name, semaphore, size);
    return size + (size_t)snprintf(name + size, RL_SLOT_SIZE, RL_SLOT_INFIX "%u", slot);
}

struct rl_lease *rl_lease_create_slot(struct rl_locks *locks, const struct rl_names *names, unsigned permits,
                                      unsigned slot, int *status)
{
    struct rl_text base = names->name[0];
    char name[REDLOCK_RESOURCE_MAX + RL_SLOT_SIZE];
    /* A second name, which is no key of the lease: the semaphore's. */
    struct rl_names both = {.count = 2, .name = {{name, name_slot(name, base.bytes, base.size, slot)}, base}};
    struct rl_lease *lease = rl_lease_create(locks, &both, status);
    if (!lease)
        return NULL;
    lease->key_count = 1;
    lease->semaphore = (struct rl_text){lease->key[1].bytes, lease->key[1].size};
    lease->permits = (uint8_t)permits;
    lease->slot = (int8_t)slot;
    return lease;
}

/* Its bytes and its text, which are the same for the library's own. */
static bool set_token(struct rl_lease *lease, struct rl_text token)
{
    char *memory = rl_core_allocate(lease->locks->core, token.size + REDLOCK_TOKEN_TEXT_SIZE);
    if (!memory)
        return false;
    memcpy(memory, token.bytes, token.size);
    rl_token_show(memory, token.size, memory + token.size);
    lease->foreign = memory;
    lease->value = (struct rl_text){memory, token.size};
    lease->token_text = memory + token.size;
    return true;
}

struct rl_lease *rl_lease_create_of(struct rl_locks *locks, const char *resource, size_t size, struct rl_text token,
                                    int *status)
{
    struct rl_lease *lease = rl_lease_create_one(locks, resource, size, status);
    if (!lease)
        return NULL;
    if (!set_token(lease, token)) {
        rl_lease_unref(lease);
        *status = REDLOCK_NO_MEMORY;
        return NULL;
    }
    lease->may_hold = quorum_all(locks->nodes->count);
    return lease;
}

struct rl_lease *rl_lease_ref(struct rl_lease *lease)
{
    if (lease)
        lease->references++;
    return lease;
}

void rl_lease_unref(struct rl_lease *lease)
{
    if (!lease)
        return;
    assert(lease->references > 0);
    if (--lease->references > 0)
        return;
    assert(!lease->listed && !lease->due && !lease->watches);
    rl_timer_stop(&lease->locks->core->timers, &lease->timer);
    if (lease->descriptor >= 0)
        close(lease->descriptor);
    if (lease->foreign)
        rl_core_free(lease->locks->core, lease->foreign);
    rl_core_free(lease->locks->core, lease);
}

/* ------------------------------------------------------------------------------------------------- list and table */

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

/* Twice the buckets. Without memory for them the table stays, only slower. */
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
    for (struct rl_lease *lease = leases->first; lease; lease = lease->next)
        insert(leases, lease);
    return true;
}

static bool list(struct rl_lease *lease)
{
    struct rl_leases *leases = &lease->locks->leases;
    if (leases->count >= leases->bucket_count && !grow(lease->locks))
        return false;
    for (unsigned i = 0; i < lease->key_count; i++)
        lease->key[i].hash = hash_of(lease->locks, lease->key[i].bytes, lease->key[i].size);
    lease->listed = true;
    lease->previous = NULL;
    lease->next = leases->first;
    if (lease->next)
        lease->next->previous = lease;
    leases->first = lease;
    leases->count += lease->key_count;
    insert(leases, lease);
    return true;
}

static void unlist(struct rl_lease *lease)
{
    struct rl_leases *leases = &lease->locks->leases;
    if (!lease->listed)
        return;
    lease->listed = false;
    *(lease->previous ? &lease->previous->next : &leases->first) = lease->next;
    if (lease->next)
        lease->next->previous = lease->previous;
    take_out(leases, lease);
    leases->count -= lease->key_count;
}

/* --------------------------------------------------------------------------------------------------------- handles */

static void add_handle(struct rl_lease *lease, redlock_lock *handle, redlock_event_callback event, void *arg)
{
    handle->lease = rl_lease_ref(lease);
    handle->event = event;
    handle->event_arg = arg;
    handle->pending = lease->notices;
    handle->given = false;
    handle->next = lease->handles;
    lease->handles = handle;
    lease->holds++;
}

redlock_lock *rl_lease_share(struct rl_lease *lease, redlock_event_callback event, void *arg)
{
    redlock_lock *handle = rl_core_allocate(lease->locks->core, sizeof *handle);
    if (handle)
        add_handle(lease, handle, event, arg);
    return handle;
}

void rl_lease_end_handle(redlock_lock *lock)
{
    struct rl_lease *lease = lock->lease;
    redlock_lock **link = &lease->handles;
    while (*link != lock)
        link = &(*link)->next;
    *link = lock->next;
    lease->holds--;
    if (lock != &lease->first)
        rl_core_free(lease->locks->core, lock);
    if (lease->holds == 0) {
        unlist(lease);
        rl_timer_stop(&lease->locks->core->timers, &lease->timer);
        lease->locks->events->lease_ended(lease);
    }
}

/* ------------------------------------------------------------------------------------------------ the rules' words */

static void enlist_noticed(struct rl_lease *lease, unsigned notices)
{
    struct rl_leases *leases = &lease->locks->leases;
    bool first = lease->notices == 0;
    lease->notices |= notices;
    if (!first)
        return;
    rl_lease_ref(lease);
    lease->next_noticed = NULL;
    *(leases->noticed ? &leases->noticed_last->next_noticed : &leases->noticed) = lease;
    leases->noticed_last = lease;
}

static void notice(struct rl_lease *lease, int event)
{
    for (redlock_lock *handle = lease->handles; handle; handle = handle->next)
        handle->pending |= 1u << event;
    enlist_noticed(lease, 1u << event);
}

void rl_lease_give(redlock_lock *lock)
{
    lock->given = true;
    if (lock->pending)
        enlist_noticed(lock->lease, lock->pending);
}

static void lost(struct rl_lease *lease, enum quorum_loss loss)
{
    struct rl_locks *locks = lease->locks;
    atomic_store_explicit(&lease->loss, (int)loss, memory_order_release);
    locks->core->statistics.losses[loss]++;
    notice(lease, REDLOCK_EVENT_LOST);
    if (lease->descriptor >= 0)
        rl_lease_signal(lease);
    lease->locks->events->lease_ended(lease);
    bool left = loss == QUORUM_LOSS_CLOSED && locks->core->options.leave_locks;
    char name[128];
    redlock_escape(rl_lease_resource(lease, 0).bytes, rl_lease_resource(lease, 0).size, name, sizeof name);
    rl_log(locks->core, loss == QUORUM_LOSS_CLOSED ? REDLOCK_LOG_DEBUG : REDLOCK_LOG_WARNING, "lock on %s %s: %s", name,
           left ? "is left to expire" : "lost", rl_result_loss(loss));
    if (left)
        rl_lease_invalidate(lease);
    else
        rl_lease_release_detached(lease); /* whatever the nodes still have of it */
}

static void carry_out(struct rl_lease *lease, const struct quorum_lease_actions *actions)
{
    if (actions->lost) {
        lost(lease, actions->lost);
        return;
    }
    if (lease->rules.loss)
        return; /* over before: an answer that was under way then must not give it its validity back */
    atomic_store_explicit(&lease->validity_end, lease->rules.validity_end, memory_order_release);
    if (actions->failing)
        notice(lease, REDLOCK_EVENT_RENEWAL_FAILING);
    if (actions->ending)
        notice(lease, REDLOCK_EVENT_ENDING);
    if (actions->renew) {
        lease->renewal_ttl = actions->renew;
        rl_renewal_due(lease);
    }
}

/*
 * When to be woken. Renewals wait for each other anyway: those of many locks share a wake-up. All else, and a renewal
 * that is tried again, has its exact time.
 */
static quorum_time wake_at(const struct quorum_lease *rules)
{
    quorum_time deadline = quorum_lease_deadline(rules);
    quorum_duration grain = rules->terms.ttl / 500 < GRAIN_MOST ? rules->terms.ttl / 500 + 1 : GRAIN_MOST;
    if (deadline != rules->renew_at || rules->failures || rules->terms.notify_before)
        return deadline;
    quorum_time together = quorum_time_add(deadline, grain - 1 - (deadline + grain - 1) % grain);
    return together < rules->validity_end ? together : deadline;
}

void rl_lease_step(struct rl_lease *lease, const struct quorum_lease_event *event)
{
    if (!lease->listed)
        return; /* released: nothing that comes after concerns anybody */
    rl_lease_ref(lease);
    struct quorum_lease_actions actions = quorum_lease_step(&lease->rules, event);
    carry_out(lease, &actions);
    quorum_time deadline = wake_at(&lease->rules);
    if (deadline == QUORUM_NEVER)
        rl_timer_stop(&lease->locks->core->timers, &lease->timer);
    else
        rl_timer_set(&lease->locks->core->timers, &lease->timer, deadline);
    rl_lease_unref(lease);
}

static void on_timer(struct rl_timer *timer)
{
    struct rl_lease *lease = (struct rl_lease *)(void *)((char *)timer - offsetof(struct rl_lease, timer));
    const struct quorum_lease_event event = {.type = QUORUM_LEASE_WOKEN, .now = rl_now()};
    rl_lease_step(lease, &event);
}

bool rl_lease_hold(struct rl_lease *lease, const struct rl_lease_terms *terms)
{
    if (!list(lease))
        return false;
    quorum_time now = rl_now();
    const struct quorum_lease_terms rules = {
        .ttl = terms->ttl_ms * QUORUM_MILLISECOND,
        .renewal_percent = terms->renewal_percent,
        .notify_before = terms->notify_before_ms * QUORUM_MILLISECOND,
        .cap = terms->cap_ms ? quorum_time_add(now, terms->cap_ms * QUORUM_MILLISECOND) : QUORUM_NEVER,
    };
    lease->ttl_ms = terms->ttl_ms;
    lease->owner = terms->owner;
    lease->timer.fire = on_timer;
    add_handle(lease, &lease->first, terms->event, terms->event_arg);
    quorum_lease_init(&lease->rules, &rules);
    const struct quorum_lease_event granted = {.type = QUORUM_LEASE_GRANTED,
                                               .now = now,
                                               .validity_end = terms->validity_end,
                                               .spread = lease->locks->leases.count * SPREAD_EACH,
                                               .random = rl_random_u64(&lease->locks->core->random)};
    rl_lease_step(lease, &granted);
    return true;
}

void rl_lease_extended(struct rl_lease *lease, const struct quorum_round *round)
{
    struct quorum_lease_event event = {.type = QUORUM_LEASE_EXTENDED,
                                       .now = round->decided_at,
                                       .validity_end = round->validity_end,
                                       .ttl = round->terms.ttl};
    if (round->verdict == QUORUM_LOST_GONE) {
        event.type =
            QUORUM_LEASE_RENEWED; /* that a majority does not have it is as true as when a renewal had found it */
        event.verdict = round->verdict;
    } else if (round->verdict != QUORUM_WON) {
        event.type = QUORUM_LEASE_WOKEN; /* too late, perhaps: the lease itself knows its end */
    }
    if (round->verdict == QUORUM_WON && round->terms.ttl / QUORUM_MILLISECOND > lease->ttl_ms)
        lease->ttl_ms = (uint32_t)(round->terms.ttl / QUORUM_MILLISECOND);
    rl_lease_step(lease, &event);
}

void rl_lease_confirmed(struct rl_lease *lease, const struct quorum_round *round, quorum_time now)
{
    const struct quorum_lease_event event = {
        .type = QUORUM_LEASE_CONFIRMED, .now = now, .validity_end = round->validity_end, .ttl = round->terms.ttl};
    if (round->terms.ttl / QUORUM_MILLISECOND > lease->ttl_ms)
        lease->ttl_ms = (uint32_t)(round->terms.ttl / QUORUM_MILLISECOND);
    rl_lease_step(lease, &event);
}

void rl_leases_hasten(struct rl_locks *locks, unsigned node)
{
    for (struct rl_lease *lease = locks->leases.first; lease; lease = lease->next) {
        const struct quorum_lease_event event = {.type = QUORUM_LEASE_HASTEN,
                                                 .now = rl_now(),
                                                 .spread = QUORUM_SECOND,
                                                 .random = rl_random_u64(&locks->core->random)};
        if (lease->may_hold & quorum_node(node))
            rl_lease_step(lease, &event);
    }
}

void rl_leases_mark_lost(struct rl_locks *locks, enum quorum_lease_event_type why)
{
    for (struct rl_lease *lease = locks->leases.first; lease; lease = lease->next) {
        const struct quorum_lease_event event = {.type = why, .now = rl_now()};
        rl_lease_step(lease, &event);
    }
}

/* ---------------------------------------------------------------------------------------------------------- telling */

static redlock_lock *next_to_tell(const struct rl_lease *lease, int event)
{
    redlock_lock *handle = lease->handles;
    while (handle && !(handle->given && handle->pending & 1u << event))
        handle = handle->next;
    return handle;
}

/* Callbacks may release handles, and make new ones: after each the list is looked at from its start. A warning that the
 * loss has overtaken is still told before it, and tells nothing of it. */
static void tell(struct rl_lease *lease, int event)
{
    redlock_lock *handle;
    while ((handle = next_to_tell(lease, event)) != NULL) {
        handle->pending &= ~(1u << event);
        if (handle->event)
            handle->event(handle, event,
                          event == REDLOCK_EVENT_LOST ? atomic_load(&lease->loss) : (int)REDLOCK_NOT_LOST,
                          (int64_t)(rl_lease_validity(lease) / QUORUM_MILLISECOND), handle->event_arg);
    }
}

bool rl_leases_notify(struct rl_locks *locks)
{
    struct rl_leases *leases = &locks->leases;
    for (unsigned told = 0; leases->noticed && told < 1024; told++) {
        struct rl_lease *lease = leases->noticed;
        unsigned notices = lease->notices;
        leases->noticed = lease->next_noticed;
        lease->notices = 0;
        for (int event = REDLOCK_EVENT_RENEWAL_FAILING; event <= REDLOCK_EVENT_LOST; event++)
            if (notices & 1u << event)
                tell(lease, event);
        rl_lease_unref(lease);
    }
    return leases->noticed != NULL;
}

/* ------------------------------------------------------------------------------------------------------- questions */

void rl_lease_signal(struct rl_lease *lease)
{
    uint64_t one = 1;
    ssize_t written = write(lease->descriptor, &one, sizeof one);
    (void)written; /* EAGAIN: readable it is */
}

int rl_lease_descriptor(struct rl_lease *lease)
{
    if (lease->descriptor >= 0)
        return lease->descriptor;
    lease->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lease->descriptor < 0)
        return -errno;
    if (atomic_load(&lease->loss))
        rl_lease_signal(lease);
    return lease->descriptor;
}

void rl_lease_invalidate(struct rl_lease *lease)
{
    atomic_store_explicit(&lease->validity_end, 0, memory_order_release);
}

quorum_duration rl_lease_validity(const struct rl_lease *lease)
{
    return quorum_time_until(atomic_load_explicit(&lease->validity_end, memory_order_acquire), rl_now());
}

static bool is_named(const struct rl_lease *lease, unsigned index, struct rl_text name)
{
    struct rl_text resource = rl_lease_resource(lease, index);
    return resource.size == name.size && memcmp(resource.bytes, name.bytes, name.size) == 0;
}

bool rl_lease_is_on(const struct rl_lease *lease, const struct rl_names *names)
{
    bool same = lease->key_count == names->count;
    for (unsigned i = 0; same && i < names->count; i++)
        same = is_named(lease, i, names->name[i]);
    return same;
}

bool rl_lease_is_alike(const struct rl_lease *lease, const struct rl_lease *other)
{
    bool same = lease->key_count == other->key_count;
    for (unsigned i = 0; same && i < other->key_count; i++)
        same = is_named(lease, i, rl_lease_resource(other, i));
    return same;
}

/* Both are in order. */
bool rl_lease_has(const struct rl_lease *lease, const struct rl_names *names)
{
    unsigned found = 0;
    for (unsigned i = 0; i < lease->key_count && found < names->count; i++)
        found += is_named(lease, i, names->name[found]);
    return found == names->count;
}

uint32_t rl_lease_set(const struct rl_lease *lease)
{
    uint32_t hash = 2166136261u;
    for (unsigned i = 0; i < lease->key_count; i++)
        for (size_t at = 0; at <= lease->key[i].size; at++)
            hash = (hash ^ (unsigned char)lease->key[i].bytes[at]) * 16777619u;
    return hash;
}

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
    uint64_t hash = hash_of(locks, bytes, prefix + size);
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

/* Two readers are never in each other's way. */
static bool is_obstacle(const struct rl_lease *lease, const void *what)
{
    const struct wanted *wanted = what;
    return rl_owner_is(lease->owner, wanted->owner) && !(lease->shared && wanted->shared);
}

static bool has_token(const struct rl_lease *lease, const void *what)
{
    const struct rl_text *token = what;
    return lease->value.size == token->size && memcmp(lease->value.bytes, token->bytes, token->size) == 0;
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
    return find(locks, name, name_slot(name, resource, size, slot), is_valid, NULL);
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

bool rl_leases_have_all_permits(struct rl_locks *locks, struct rl_text semaphore, unsigned permits,
                                struct rl_owner owner)
{
    bool all = true;
    for (unsigned slot = 0; all && slot < permits; slot++) {
        const struct rl_lease *lease = rl_leases_find_slot(locks, semaphore.bytes, semaphore.size, slot);
        all = lease && rl_owner_is(lease->owner, owner);
    }
    return all;
}

/* In a forked child, or at the end of a close: nobody is told. */
void rl_leases_free(struct rl_locks *locks)
{
    struct rl_leases *leases = &locks->leases;
    while (leases->noticed) {
        struct rl_lease *lease = leases->noticed;
        leases->noticed = lease->next_noticed;
        rl_lease_unref(lease);
    }
    while (leases->first) {
        struct rl_lease *lease = leases->first;
        rl_lease_ref(lease);
        while (lease->handles) {
            rl_lease_end_handle(lease->handles);
            rl_lease_unref(lease);
        }
        rl_lease_unref(lease);
    }
    if (leases->buckets)
        rl_core_free(locks->core, leases->buckets);
    leases->buckets = NULL;
}
