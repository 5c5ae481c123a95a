#include "src/lock/lease.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/core/escape.h"
#include "src/core/wall.h"
#include "src/lock/locks.h"

#define GRAIN_MOST (5 * QUORUM_MILLISECOND)
_Static_assert(REDLOCK_PERMITS_MAX <= 32, "slots fit their field");

static size_t bytes_of(const struct rl_names *names, size_t prefix)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < names->count; i++)
        bytes += prefix + names->name[i].size + 1;
    return bytes;
}

static size_t token_room(const struct rl_core *core)
{
    size_t label = strlen(core->options.label);
    return RL_RANDOM_TOKEN_SIZE + (label ? 1 + RL_DECIMAL_SIZE + label : 0);
}

/* Random digits; then, with a label, the time and the label, which are for people. false: no random bits. */
static bool write_token(struct rl_lease *lease, char *at)
{
    struct rl_core *core = lease->locks->core;
    lease->token = (struct rl_text){at, RL_RANDOM_TOKEN_SIZE - 1};
    if (!rl_random_token(&core->random, at))
        return false;
    size_t label = strlen(core->options.label);
    if (!label)
        return true;
    at += lease->token.size;
    *at++ = '/';
    at += rl_decimal(at, rl_wall_us() / 1000000 % 100000000000);
    *at++ = '/';
    memcpy(at, core->options.label, label + 1);
    lease->token.size = (size_t)(at - lease->token.bytes) + label;
    assert(lease->token.size < REDLOCK_TOKEN_SIZE);
    return true;
}

/* Writes the key of a resource, or of the slot of a semaphore with this name (-1: none). Returns the end of its bytes. */
static char *write_key(struct rl_lease *lease, struct rl_key *key, struct rl_text name, int slot, char *at)
{
    key->lease = lease;
    key->bytes = at;
    key->size = lease->prefix_size + name.size;
    memcpy(at, lease->locks->core->options.prefix, lease->prefix_size);
    memcpy(at + lease->prefix_size, name.bytes, name.size);
    if (slot >= 0)
        key->size += (size_t)snprintf(at + key->size, RL_SLOT_SIZE, RL_SLOT_INFIX "%d", slot);
    at[key->size] = '\0';
    key->hash = rl_leases_hash(lease->locks, key->bytes, key->size);
    return at + key->size + 1;
}

/* Behind the keys; those of slots are followed by the semaphore's. */
static quorum_time *kept_times(struct rl_lease *lease)
{
    return (quorum_time *)(void *)&lease->key[lease->key_count + (lease->slots != 0)];
}

/* The keys of the slots, then those of the names. Returns the end of their bytes. */
static char *write_keys(struct rl_lease *lease, const struct rl_names *names, uint32_t slots)
{
    struct rl_key *key = lease->key;
    char *at = (char *)&kept_times(lease)[lease->locks->nodes->count];
    for (int slot = 0; slot < REDLOCK_PERMITS_MAX; slot++)
        if (slots >> slot & 1)
            at = write_key(lease, key++, names->name[0], slot, at);
    for (unsigned i = 0; i < names->count; i++)
        at = write_key(lease, key++, names->name[i], -1, at);
    return at;
}

static struct rl_lease *create(struct rl_locks *locks, const struct rl_names *names, uint32_t slots, int *status)
{
    assert(names->count >= 1 && names->count <= REDLOCK_RESOURCES_MAX);
    size_t prefix = strlen(locks->core->options.prefix), slot_count = quorum_count(slots);
    size_t size = sizeof(struct rl_lease) + (names->count + slot_count) * sizeof(struct rl_key) +
                  locks->nodes->count * sizeof(quorum_time) + bytes_of(names, prefix) +
                  slot_count * (prefix + names->name[0].size + RL_SLOT_SIZE) + token_room(locks->core);
    struct rl_lease *lease = rl_core_allocate(locks->core, size);
    if (!lease) {
        *status = REDLOCK_NO_MEMORY;
        return NULL;
    }
    memset(lease, 0, sizeof *lease);
    lease->references = 1;
    lease->locks = locks;
    lease->descriptor = -1;
    lease->key_count = (uint16_t)(slots ? slot_count : names->count);
    lease->slots = slots;
    lease->prefix_size = (uint16_t)prefix;
    if (!write_token(lease, write_keys(lease, names, slots))) {
        rl_core_free(locks->core, lease);
        *status = REDLOCK_SYSTEM;
        return NULL;
    }
    return lease;
}

struct rl_lease *rl_lease_create(struct rl_locks *locks, const struct rl_names *names, int *status)
{
    return create(locks, names, 0, status);
}

struct rl_lease *rl_lease_create_one(struct rl_locks *locks, const char *resource, size_t size, int *status)
{
    const struct rl_names names = rl_names_of(resource, size);
    return rl_lease_create(locks, &names, status);
}

/* The key of the semaphore is stored with the lease, but is no key of the lease. */
struct rl_lease *rl_lease_create_slots(struct rl_locks *locks, const struct rl_names *names, unsigned permits,
                                       uint32_t slots, int *status)
{
    assert(names->count == 1 && slots && permits <= REDLOCK_PERMITS_MAX && slots <= UINT32_MAX >> (32 - permits));
    struct rl_lease *lease = create(locks, names, slots, status);
    if (!lease)
        return NULL;
    lease->permits = (uint8_t)permits;
    return lease;
}

/* Sets an adopted token: its bytes and its text. (This library's tokens are their own text.) */
static bool set_token(struct rl_lease *lease, struct rl_text token)
{
    struct rl_adopted *adopted =
        rl_core_allocate(lease->locks->core, sizeof *adopted + token.size + REDLOCK_TOKEN_TEXT_SIZE);
    if (!adopted)
        return false;
    char *bytes = (char *)(adopted + 1);
    memcpy(bytes, token.bytes, token.size);
    adopted->value = (struct rl_text){bytes, token.size};
    adopted->text = bytes + token.size;
    rl_token_show(bytes, token.size, adopted->text);
    lease->adopted = adopted;
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
    atomic_init(&lease->handles.passed_on, true);
    lease->may_hold = quorum_all(locks->nodes->count);
    return lease;
}

struct rl_lease *rl_lease_ref(struct rl_lease *lease)
{
    assert(!lease || lease->references > 0);
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
    assert(!lease->links.listed && !lease->links.due && !lease->renewal.lacking && !lease->links.unreleased &&
           !lease->watches);
    rl_timer_stop(&lease->timer);
    if (lease->descriptor >= 0)
        close(lease->descriptor);
    if (lease->adopted)
        rl_core_free(lease->locks->core, lease->adopted);
    rl_lease_clear_failure(lease);
    rl_core_free(lease->locks->core, lease);
}

void rl_lease_note_absent(struct rl_lease *lease, unsigned node)
{
    lease->may_hold &= ~quorum_node(node) | lease->renewal.healing;
}

bool rl_lease_may_heal(const struct rl_lease *lease)
{
    return lease->links.listed && quorum_lease_may_heal(&lease->rules);
}

void rl_lease_note_healed(struct rl_lease *lease, unsigned node, bool healed)
{
    lease->renewal.healing &= ~quorum_node(node);
    lease->locks->core->statistics.healed += healed;
}

void rl_lease_note_failure(struct rl_lease *lease, const struct quorum_round *round)
{
    struct rl_renewal_failure **failure = &lease->renewal.failure;
    if (!*failure)
        *failure = rl_core_allocate(lease->locks->core, sizeof **failure);
    if (*failure)
        **failure = (struct rl_renewal_failure){round->tally, round->verdict, round->sent};
}

void rl_lease_clear_failure(struct rl_lease *lease)
{
    if (lease->renewal.failure)
        rl_core_free(lease->locks->core, lease->renewal.failure);
    lease->renewal.failure = NULL;
}

struct rl_names rl_lease_names(const struct rl_lease *lease)
{
    struct rl_names names;
    names.count = rl_lease_resources(lease);
    for (unsigned i = 0; i < names.count; i++)
        names.name[i] = rl_lease_resource(lease, i);
    return names;
}

/* --------------------------------------------------------------------------------------------------------- handles */

static void add_handle(struct rl_lease *lease, redlock_lock *handle, redlock_event_callback event, void *arg)
{
    handle->lease = rl_lease_ref(lease);
    handle->event = event;
    handle->event_arg = arg;
    handle->pending = lease->handles.notices;
    atomic_init(&handle->user_data, NULL);
    handle->given = false;
    atomic_init(&handle->delivery, RL_ON_ITS_WAY);
    handle->next = lease->handles.all;
    lease->handles.all = handle;
    lease->handles.count++;
}

void rl_lease_end_handle(redlock_lock *lock)
{
    struct rl_lease *lease = lock->lease;
    redlock_lock **link = &lease->handles.all;
    while (*link != lock)
        link = &(*link)->next;
    *link = lock->next;
    lease->handles.count--;
    lease->locks->events->handle_ended(lock);
    if (lock != &lease->handles.first)
        rl_core_free(lease->locks->core, lock);
    assert((lease->handles.count == 0) == (lease->handles.all == NULL));
    if (lease->handles.count == 0) {
        rl_leases_remove(lease);
        rl_timer_stop(&lease->timer);
        lease->locks->events->lease_ended(lease);
    }
}

/* --------------------------------------------------------------------------------------------- actions of the rules */

static void signal_loss(struct rl_lease *lease)
{
    assert(lease->descriptor >= 0);
    uint64_t one = 1;
    ssize_t written = write(lease->descriptor, &one, sizeof one);
    (void)written; /* EAGAIN: it is readable already */
}

static void notice(struct rl_lease *lease, int event)
{
    for (redlock_lock *handle = lease->handles.all; handle; handle = handle->next)
        handle->pending |= RL_EVENT_BIT(event);
    rl_leases_notice(lease, RL_EVENT_BIT(event));
}

void rl_lease_give(redlock_lock *lock)
{
    assert(!lock->given);
    lock->given = true;
    rl_lease_deliver(lock, RL_DELIVERED);
    if (lock->pending)
        rl_leases_notice(lock->lease, lock->pending);
}

void rl_lease_take_back(redlock_lock *lock)
{
    assert(lock->given && !lock->event);
    lock->given = false;
    atomic_store(&lock->delivery, (unsigned char)RL_ON_ITS_WAY);
}

bool rl_lease_deliver(redlock_lock *lock, enum rl_delivery as)
{
    unsigned char state = RL_ON_ITS_WAY;
    if (atomic_compare_exchange_strong(&lock->delivery, &state, (unsigned char)as))
        state = (unsigned char)as;
    return state == RL_DELIVERED;
}

static bool recall_handles(struct rl_lease *lease)
{
    bool all = true;
    for (redlock_lock *handle = lease->handles.all; handle; handle = handle->next)
        all = !rl_lease_deliver(handle, RL_RECALLED) && all;
    return all;
}

/*
 * Whether the keys are left to expire. Another process that has the token may hold the lock, also if no caller of this
 * client has a handle yet. leave_locks is about locks of which a caller has one.
 *
 * If a majority lacks the key, that process may have released the lock while this client healed nodes where the release
 * had been already. No majority has confirmed the lock with these nodes, so no holder needs their keys.
 */
static bool is_left(struct rl_lease *lease, enum quorum_loss loss)
{
    if (loss == QUORUM_LOSS_CLOSED && !recall_handles(lease)) {
        rl_lease_keep(lease); /* a close releases the locks, as their holders would */
        return lease->locks->core->options.leave_locks;
    }
    if (!atomic_load(&lease->handles.passed_on))
        return false;
    if (loss == QUORUM_LOSS_GONE)
        lease->may_hold &= lease->renewal.healed;
    return loss != QUORUM_LOSS_GONE || !lease->may_hold;
}

static void lost(struct rl_lease *lease, enum quorum_loss loss)
{
    struct rl_locks *locks = lease->locks;
    assert(loss != QUORUM_NOT_LOST && !atomic_load(&lease->loss));
    atomic_store_explicit(&lease->loss, (int)loss, memory_order_release);
    locks->core->statistics.losses[loss]++;
    notice(lease, REDLOCK_EVENT_LOST);
    if (lease->descriptor >= 0)
        signal_loss(lease);
    bool closed = loss == QUORUM_LOSS_CLOSED, left = is_left(lease, loss);
    char name[128];
    redlock_escape(rl_lease_resource(lease, 0).bytes, rl_lease_resource(lease, 0).size, name, sizeof name);
    rl_log(locks->core, closed ? REDLOCK_LOG_DEBUG : REDLOCK_LOG_WARNING, "lock on %s %s: %s", name,
           closed && left ? "is left to expire" : "lost", redlock_loss_text((int)loss));
    locks->events->lease_lost(lease, left);
}

static void carry_out(struct rl_lease *lease, const struct quorum_lease_actions *actions)
{
    if (actions->lost) {
        lost(lease, actions->lost);
        return;
    }
    if (lease->rules.loss)
        return; /* lost before: a late reply must not restore the validity */
    atomic_store_explicit(&lease->validity_end, lease->rules.validity_end, memory_order_release);
    if (actions->failing)
        notice(lease, REDLOCK_EVENT_RENEWAL_FAILING);
    if (actions->ending)
        notice(lease, REDLOCK_EVENT_ENDING);
    if (actions->renew) {
        lease->renewal.ttl = actions->renew;
        rl_leases_renew(lease);
    }
}

/*
 * The time of the next wake-up. Renewals are gathered anyway, so those of many locks share one. Everything else, and a
 * retried renewal, has its exact time.
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
    if (!lease->links.listed)
        return; /* released: later events have no effect */
    assert(lease->handles.count > 0);
    rl_lease_ref(lease);
    struct quorum_lease_actions actions = quorum_lease_step(&lease->rules, event);
    if (actions.confirmed)
        lease->renewal.healed &= lease->renewal.healing;
    carry_out(lease, &actions);
    rl_timer_set(&lease->locks->core->timers, &lease->timer, wake_at(&lease->rules));
    rl_lease_unref(lease);
}

static void on_timer(struct rl_timer *timer)
{
    struct rl_lease *lease = (struct rl_lease *)(void *)((char *)timer - offsetof(struct rl_lease, timer));
    const struct quorum_lease_event event = {.type = QUORUM_LEASE_WOKEN, .now = rl_now()};
    rl_lease_step(lease, &event);
}

static struct quorum_lease_terms rules_of(const struct rl_lease_terms *terms, quorum_time now)
{
    return (struct quorum_lease_terms){
        .ttl = terms->ttl_ms * QUORUM_MILLISECOND,
        .renewal_percent = terms->renewal_percent,
        .notify_before = terms->notify_before_ms * QUORUM_MILLISECOND,
        .cap = terms->cap_ms ? quorum_time_add(now, terms->cap_ms * QUORUM_MILLISECOND) : QUORUM_NEVER,
        .least = terms->at_least_ms ? quorum_time_add(now, terms->at_least_ms * QUORUM_MILLISECOND) : 0,
    };
}

bool rl_lease_hold(struct rl_lease *lease, const struct rl_lease_terms *terms)
{
    assert(!lease->links.listed && lease->handles.count == 0 && !atomic_load(&lease->loss));
    if (!rl_leases_add(lease))
        return false;
    quorum_time now = rl_now();
    const struct quorum_lease_terms rules = rules_of(terms, now);
    /* Of an adopted lock the nodes keep the longer ttl that another process may have set. */
    rl_lease_note_ttl(lease, lease->adopted ? lease->locks->core->options.max_ttl_ms : 0);
    rl_lease_note_ttl(lease, terms->ttl_ms);
    rl_nodes_note_ttl(lease->locks->nodes, terms->ttl_ms * QUORUM_MILLISECOND);
    lease->owner = terms->owner;
    lease->queueing.held_since = now;
    lease->timer.fire = on_timer;
    add_handle(lease, &lease->handles.first, terms->event, terms->event_arg);
    quorum_lease_init(&lease->rules, &rules, kept_times(lease), lease->locks->nodes->count);
    const struct quorum_lease_event granted = {.type = QUORUM_LEASE_GRANTED,
                                               .now = now,
                                               .validity_end = terms->validity_end,
                                               .spread = rl_leases_spread(&lease->locks->leases),
                                               .random = rl_random_u64(&lease->locks->core->random)};
    rl_lease_step(lease, &granted);
    return true;
}

redlock_lock *rl_lease_share(struct rl_lease *lease, const struct rl_lease_terms *terms)
{
    assert(lease->links.listed && lease->handles.count > 0);
    redlock_lock *handle = rl_core_allocate(lease->locks->core, sizeof *handle);
    if (!handle)
        return NULL;
    add_handle(lease, handle, terms->event, terms->event_arg);
    quorum_time now = rl_now();
    const struct quorum_lease_terms rules = rules_of(terms, now);
    const struct quorum_lease_event event = {.type = QUORUM_LEASE_JOINED, .now = now, .joined = &rules};
    rl_lease_step(lease, &event);
    return handle;
}

void rl_lease_extended(struct rl_lease *lease, const struct quorum_round *round)
{
    assert(quorum_round_over(round));
    struct quorum_lease_event event = {.type = QUORUM_LEASE_EXTENDED,
                                       .now = round->decided_at,
                                       .validity_end = round->validity_end,
                                       .ttl = round->terms.ttl};
    if (round->verdict == QUORUM_LOST_GONE) {
        event.type = QUORUM_LEASE_RENEWED; /* a majority lacks the key: a loss, as after a renewal */
        event.verdict = round->verdict;
    } else if (round->verdict != QUORUM_WON) {
        event.type = QUORUM_LEASE_WOKEN; /* the rules check whether the validity has ended */
    }
    rl_lease_step(lease, &event);
}

void rl_lease_confirmed(struct rl_lease *lease, const struct quorum_round *round, bool renews)
{
    assert(round->confirmed);
    const struct rl_renewal_failure *failure = lease->renewal.failure;
    const struct quorum_lease_event event = {
        .type = QUORUM_LEASE_CONFIRMED, .now = rl_now(), .validity_end = round->validity_end, .ttl = round->terms.ttl};
    lease->locks->core->statistics.renewed += renews;
    if (renews && failure && round->sent >= failure->sent)
        rl_lease_clear_failure(lease);
    rl_lease_step(lease, &event);
}

/* The quarantine of a node that lost the key lasts for max_ttl: a longer ttl would outlive it. */
quorum_duration rl_lease_rest(const struct rl_lease *lease)
{
    const redlock_options *options = &lease->locks->core->options;
    quorum_duration most = options->guard ? options->max_ttl_ms * QUORUM_MILLISECOND : QUORUM_NEVER;
    return lease->kept_until == 0 ? 0 : quorum_lease_rest(lease->kept_until, rl_now(), options->drift_ppm, most);
}

quorum_duration rl_lease_keep(struct rl_lease *lease)
{
    lease->kept_until = lease->rules.terms.least;
    quorum_duration rest = rl_lease_rest(lease);
    rl_lease_note_ttl(lease, (uint32_t)(rest / QUORUM_MILLISECOND));
    return rest;
}

/* ------------------------------------------------------------------------------------------------------------ state */

int rl_lease_descriptor(struct rl_lease *lease)
{
    if (lease->descriptor >= 0)
        return lease->descriptor;
    lease->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lease->descriptor < 0)
        return -errno;
    if (atomic_load(&lease->loss))
        signal_loss(lease);
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

int rl_lease_loss(const struct rl_lease *lease)
{
    int loss = atomic_load_explicit(&lease->loss, memory_order_acquire);
    /* The validity has ended, but the loop has not recorded the loss yet. */
    return loss == REDLOCK_NOT_LOST && rl_lease_validity(lease) == 0 ? REDLOCK_LOSS_EXPIRED : loss;
}

static bool is_named(const struct rl_lease *lease, unsigned index, struct rl_text name)
{
    struct rl_text resource = rl_lease_resource(lease, index);
    return resource.size == name.size && memcmp(resource.bytes, name.bytes, name.size) == 0;
}

bool rl_lease_is_on(const struct rl_lease *lease, const struct rl_names *names)
{
    bool same = rl_lease_resources(lease) == names->count;
    for (unsigned i = 0; same && i < names->count; i++)
        same = is_named(lease, i, names->name[i]);
    return same;
}

/* Both lists are sorted. */
bool rl_lease_has(const struct rl_lease *lease, const struct rl_names *names)
{
    unsigned found = 0;
    for (unsigned i = 0; i < rl_lease_resources(lease) && found < names->count; i++)
        found += is_named(lease, i, names->name[found]);
    return found == names->count;
}

uint32_t rl_lease_set(const struct rl_lease *lease)
{
    uint64_t hash = RL_HASH_OF_NOTHING;
    for (unsigned i = 0; i < lease->key_count; i++)
        hash = rl_hash(hash, lease->key[i].bytes, lease->key[i].size + 1);
    return (uint32_t)hash;
}
