/* A lease: a lock's keys and token, its handles and owner, and its end of validity. */
#ifndef RL_LEASE_H
#define RL_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "quorum/lease.h"
#include "quorum/round.h"
#include "redlock/redlock.h"
#include "src/core/process.h"
#include "src/core/timer.h"
#include "src/lock/names.h"
#include "src/node/limits.h"

struct rl_locks;
struct rl_lease;
struct rl_watch;

/* An event of a lock in a set of events. They are reported in the order of their values. */
#define RL_EVENT_BIT(event) (1u << (event))
#define RL_EVENT_LAST       REDLOCK_EVENT_LOST

/* Whether the acquire's callback gets the handle. A close recalls those that are on their way. */
enum rl_delivery { RL_ON_ITS_WAY, RL_DELIVERED, RL_RECALLED };

/* A handle, as a successful acquire returns it. */
struct redlock_lock {
    struct rl_lease *lease;    /* a reference */
    struct redlock_lock *next; /* in the lease's list of handles */
    redlock_event_callback event;
    void *event_arg;
    _Atomic(void *) user_data;
    unsigned pending;      /* events to report, as bits */
    bool given;            /* events may be reported */
    atomic_uchar delivery; /* enum rl_delivery */
};

/* One of a lease's keys: prefix, resource and a NUL. */
struct rl_key {
    struct rl_lease *lease;
    struct rl_key *chain; /* the next in the table's bucket */
    const char *bytes;
    size_t size;
    uint64_t hash; /* see rl_leases_hash() */
};

struct rl_handles {
    struct redlock_lock first; /* the first acquire's handle, in the lease's memory */
    struct redlock_lock *all;
    unsigned count;
    unsigned notices;      /* events to report, as bits; not 0: in the list of noticed leases */
    atomic_bool passed_on; /* the token is adopted, or the caller has read it: others may have handles, too */
};

/* The lists that a lease may be in. */
struct rl_lease_links {
    bool listed; /* has handles: is in the list and in the table, lost or not */
    bool due;
    bool unreleased;
    struct rl_lease *next; /* listed leases */
    struct rl_lease *previous;
    struct rl_lease *next_due;        /* due renewals */
    struct rl_lease *next_lacking;    /* heals of this turn */
    struct rl_lease *next_noticed;    /* events to report */
    struct rl_lease *next_unreleased; /* delayed releases */
};

/* Another process' token, adopted by this one. */
struct rl_adopted {
    struct rl_text value; /* the key's value on the nodes */
    char *text;           /* to display it */
};

/* The last renewal, if it failed. */
struct rl_renewal_failure {
    struct quorum_tally votes;
    enum quorum_verdict verdict;
    quorum_time sent; /* a late confirmation of an earlier renewal does not clear the failure */
};

/* A lease that is acquired through the queue on the nodes, or offered for a hand-over by one. */
struct rl_lease_queueing {
    quorum_nodes offered;   /* nodes that were sent the offer, and may notify the waiter */
    quorum_nodes only_lock; /* nodes where the user may use no key but the lock's: they are only to delete it */
    quorum_time held_since;
    bool queued;    /* acquired through the queue: the release also dequeues */
    bool awaited;   /* clients wait for the lock on a node that has released it */
    bool withdrawn; /* an offer that its waiter has withdrawn */
};

struct rl_lease_renewal {
    quorum_duration ttl;                /* to set */
    struct rl_renewal_failure *failure; /* NULL: the last one did not fail, or there was no memory */
    quorum_nodes lacking;               /* nodes to heal in this turn; not 0: in the list of these leases */
    quorum_nodes healing;               /* nodes that have not replied to a request that sets the lock again */
    quorum_nodes healed;                /* nodes that were sent one since a majority last confirmed the lock */
    bool apart;                         /* the user may not renew it: no carrier takes it with others */
};

/* What a release and the end of the lease read comes first, in few cache lines. */
struct rl_lease {
    unsigned references; /* by handles, rounds and operations; only the loop's thread changes them */
    uint32_t ttl_ms;     /* the longest that a node may have set; 0: never sent */
    struct rl_locks *locks;
    quorum_nodes may_hold; /* were sent the token, and have not replied that they lack it: an undo goes to them */
    uint8_t permits;       /* number of permits, if it is on slots of a semaphore or stands for one; otherwise 0 */
    uint8_t wanted;        /* of them, that it waits for */
    bool shared;           /* held by readers: its keys are sets of tokens */
    bool downgraded;       /* was a writer's: nodes may have the token as the key's value */
    struct rl_lease_queueing queueing;
    uint16_t prefix_size;
    uint16_t key_count;
    int descriptor;             /* readable once lost; -1 until requested */
    struct rl_adopted *adopted; /* NULL: the key's value on the nodes is `token` */
    struct rl_watch *watches;   /* operations that wait for its loss */
    struct rl_lease_renewal renewal;
    struct rl_lease_links links;
    struct rl_timer timer;            /* the rules' next deadline */
    quorum_time kept_until;           /* the release keeps the keys until then; 0: it deletes them */
    _Atomic uint64_t fence;           /* the fencing token; 0: none yet; of a shared lock the last writer's */
    _Atomic quorum_time validity_end; /* 0: lost, or not yet held. Any thread reads it */
    atomic_int loss;                  /* enum quorum_loss. Any thread reads it */
    uint32_t slots;                   /* of a semaphore, as bits; 0: none */
    struct rl_text token;             /* generated by this client, with its label and a NUL, in the lease's memory */
    struct rl_owner owner;            /* a permit has one only if the caller gave it */
    struct rl_handles handles;
    struct quorum_lease rules;
    struct rl_key key[]; /* sorted by their bytes, which follow the array; of slots by their numbers */
};

/* The terms of a held lock. */
struct rl_lease_terms {
    quorum_time validity_end;
    uint32_t ttl_ms;
    unsigned renewal_percent;
    uint32_t cap_ms;
    uint32_t at_least_ms;
    uint32_t notify_before_ms;
    struct rl_owner owner;
    redlock_event_callback event;
    void *event_arg;
};

/* Creates a lease with a new token and one reference, the caller's. NULL: *status has the reason. */
struct rl_lease *rl_lease_create(struct rl_locks *locks, const struct rl_names *names, int *status);

/* The same for one resource. */
struct rl_lease *rl_lease_create_one(struct rl_locks *locks, const char *resource, size_t size, int *status);
/* The same with another process' token, which any node may have. */
struct rl_lease *rl_lease_create_of(struct rl_locks *locks, const char *resource, size_t size, struct rl_text token,
                                    int *status);
struct rl_lease *rl_lease_ref(struct rl_lease *lease);
void rl_lease_unref(struct rl_lease *lease);

/* Starts the lease of an acquired lock: adds its first handle, with a reference. false: no memory for the table. */
bool rl_lease_hold(struct rl_lease *lease, const struct rl_lease_terms *terms);

/* Adds a handle, with a reference, whose terms join those of the others. NULL: no memory. */
redlock_lock *rl_lease_share(struct rl_lease *lease, const struct rl_lease_terms *terms);

/* The acquire's callback is about to receive the handle: events may be reported from now on. */
void rl_lease_give(redlock_lock *lock);

/* Undoes this, before an event was reported: another operation will give the handle to the caller. */
void rl_lease_take_back(redlock_lock *lock);

/* Delivers or recalls a handle that is on its way; any thread. true: it is, or was, delivered. */
bool rl_lease_deliver(redlock_lock *lock, enum rl_delivery as);

/* Ends a handle. The caller takes over its reference. */
void rl_lease_end_handle(redlock_lock *lock);

/* Passes an event to the rules and executes their actions. */
void rl_lease_step(struct rl_lease *lease, const struct quorum_lease_event *event);

/* An extension that the holder requested was decided. */
void rl_lease_extended(struct rl_lease *lease, const struct quorum_round *round);

/* Late replies of a majority have confirmed an extension that had failed by timeouts. renews: a renewal. */
void rl_lease_confirmed(struct rl_lease *lease, const struct quorum_round *round, bool renews);

/* The lease is about to be released by its holder: its keys stay until the end of at_least_ms. Returns for how long;
 * 0: the release deletes them. */
quorum_duration rl_lease_keep(struct rl_lease *lease);

/* The ttl that the release sets now, instead of deleting the keys; 0: it deletes them. */
quorum_duration rl_lease_rest(const struct rl_lease *lease);

/* Records the last renewal's failure, for redlock_renewal_result(), and forgets it. */
void rl_lease_note_failure(struct rl_lease *lease, const struct quorum_round *round);
void rl_lease_clear_failure(struct rl_lease *lease);

/* The lock is still held, and was confirmed by the last renewal: a node that lacks it may set it again. */
bool rl_lease_may_heal(const struct rl_lease *lease);

/* The node will not reply to a heal any more. */
void rl_lease_note_healed(struct rl_lease *lease, unsigned node, bool healed);

/* Ends the validity, as seen by every thread. */
void rl_lease_invalidate(struct rl_lease *lease);

/* The descriptor that becomes readable at the loss; -errno: the system refused one. */
int rl_lease_descriptor(struct rl_lease *lease);

/* Creates a lease of some slots of a semaphore. */
struct rl_lease *rl_lease_create_slots(struct rl_locks *locks, const struct rl_names *names, unsigned permits,
                                       uint32_t slots, int *status);
#define RL_SLOT_SIZE (sizeof RL_SLOT_INFIX + 3)

/* A request with this ttl is about to be sent. A node may set it even if the request fails. */
static inline void rl_lease_note_ttl(struct rl_lease *lease, uint32_t ttl_ms)
{
    if (ttl_ms > lease->ttl_ms)
        lease->ttl_ms = ttl_ms;
}

/* A node has replied that it has nothing of ours. A renewal overtakes requests, so this reply may be older than a heal:
 * then the heal's reply decides. */
void rl_lease_note_absent(struct rl_lease *lease, unsigned node);

/* The ttl of a held lock: the longest that a majority has set. */
static inline uint32_t rl_lease_ttl_ms(const struct rl_lease *lease)
{
    return (uint32_t)(lease->rules.terms.ttl / QUORUM_MILLISECOND);
}

/* The lock is one key and one token: SET and the short scripts suffice. */
static inline bool rl_lease_is_plain(const struct rl_lease *lease)
{
    return lease->key_count == 1 && !lease->shared && !lease->permits && lease->fence == 0;
}

/* The fencing token to send to nodes; readers raise none. */
static inline uint64_t rl_lease_own_fence(const struct rl_lease *lease)
{
    return lease->shared ? 0 : lease->fence;
}

/* A hash of the lease's resources. Different sets of resources rarely have the same. */
uint32_t rl_lease_set(const struct rl_lease *lease);

/* The key's value on the nodes: the token, or an adopted one. */
static inline struct rl_text rl_lease_value(const struct rl_lease *lease)
{
    return lease->adopted ? lease->adopted->value : lease->token;
}

/* The value as text. */
static inline const char *rl_lease_token_text(const struct rl_lease *lease)
{
    return lease->adopted ? lease->adopted->text : lease->token.bytes;
}

/* Behind the keys of slots is the semaphore's. Without slots: no bytes. */
static inline struct rl_text rl_lease_semaphore(const struct rl_lease *lease)
{
    const struct rl_key *key = &lease->key[lease->key_count];
    return lease->slots ? (struct rl_text){key->bytes, key->size} : (struct rl_text){NULL, 0};
}

/* The number of resources: of slots there is one, the semaphore. */
static inline unsigned rl_lease_resources(const struct rl_lease *lease)
{
    return lease->slots ? 1 : lease->key_count;
}

/* One resource: the key without the prefix; of slots their semaphore's name. */
static inline struct rl_text rl_lease_resource(const struct rl_lease *lease, unsigned index)
{
    const struct rl_key *key = &lease->key[lease->slots ? lease->key_count : index];
    return (struct rl_text){key->bytes + lease->prefix_size, key->size - lease->prefix_size};
}

/* The resources, in the lease's memory. */
struct rl_names rl_lease_names(const struct rl_lease *lease);

/* The lease has all these resources; exactly these. */
bool rl_lease_has(const struct rl_lease *lease, const struct rl_names *names);
bool rl_lease_is_on(const struct rl_lease *lease, const struct rl_names *names);

/* The validity left; 0 after its end. Any thread. */
quorum_duration rl_lease_validity(const struct rl_lease *lease);

/* Why the lock is lost, or REDLOCK_NOT_LOST. Any thread. */
int rl_lease_loss(const struct rl_lease *lease);

#endif
