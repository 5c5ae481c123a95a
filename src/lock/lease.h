/* A lock on the nodes: its key and token, who may have it, and until when it may be relied on. */
#ifndef RL_LEASE_H
#define RL_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "quorum/lease.h"
#include "quorum/round.h"
#include "redlock/redlock.h"
#include "src/core/owner.h"
#include "src/core/timer.h"
#include "src/lock/names.h"

struct rl_locks;
struct rl_lease;
struct rl_watch;

/* What a successful acquire hands out. */
struct redlock_lock {
    struct rl_lease *lease;    /* a reference */
    struct redlock_lock *next; /* of the lease's handles */
    redlock_event_callback event;
    void *event_arg;
    unsigned pending; /* bits of events that its callback is to be told of */
    bool given;       /* the acquire that made it has been told of it: before that nothing else is */
};

/* One of a lease's keys: prefix and resource, and a NUL. */
struct rl_key {
    struct rl_lease *lease;
    struct rl_key *chain; /* of the table's bucket */
    const char *bytes;
    size_t size;
    uint64_t hash;
};

struct rl_lease {
    unsigned references; /* of handles, rounds and operations; by the loop's thread only */
    struct rl_locks *locks;
    struct redlock_lock first; /* the handle of the first acquire: in the lease's own memory */
    struct redlock_lock *handles;
    unsigned holds;         /* how many handles */
    struct rl_owner owner;  /* of a permit: only one that the caller gave */
    _Atomic uint64_t fence; /* its fencing token; 0: none, or not yet; shared: the last writer's */
    struct rl_lease *next;  /* of the client's listed ones */
    struct rl_lease *previous;
    bool listed;      /* handles are out: on the list and in the table, lost or not */
    uint8_t permits;  /* it is one slot of a semaphore of so many, or stands for the semaphore; 0: neither */
    int8_t slot;      /* from 0; -1: none */
    bool shared;      /* by readers: its keys hold many tokens */
    bool queued;      /* taken from a queue on the nodes */
    bool due;         /* on the list of due renewals */
    unsigned notices; /* bits of events that handles are to be told of; not 0: on the list of the noticed */
    struct rl_lease *next_due;
    struct rl_lease *next_noticed;
    struct rl_lease *next_unreleased; /* of those there was no memory for: it may be listed still */
    struct rl_watch *watches;         /* operations that wait for its loss */
    struct rl_timer timer;            /* the rules' next deadline */
    struct quorum_lease rules;
    quorum_duration renewal_ttl;
    uint32_t ttl_ms;
    int descriptor; /* readable once lost; -1 until someone asks */
    quorum_nodes
        may_hold; /* nodes that were sent the token and have not said that they do not have it: what an undo goes to */
    _Atomic quorum_time validity_end; /* 0: lost, or not yet held. Read by any thread */
    atomic_int loss;                  /* enum quorum_loss. Read by any thread */
    char token[REDLOCK_TOKEN_SIZE];   /* of the library's own making */
    struct rl_text value;             /* what the nodes hold: that, or an adopted token */
    const char *token_text;           /* of the value */
    char *foreign;                    /* memory of the last two; NULL: the token's */
    struct quorum_tally failed_votes; /* of the last renewal, if it failed: failed_verdict */
    enum quorum_verdict failed_verdict;
    quorum_time failed_sent;  /* when that renewal was sent: a late confirmation of an earlier one does not clear it */
    struct rl_text semaphore; /* of a slot: the key that its name begins with, and a NUL */
    uint16_t prefix_size;
    uint16_t key_count;
    struct rl_key key[]; /* in the order of their bytes, which follow */
};

/* How a lock is to be held. */
struct rl_lease_terms {
    quorum_time validity_end;
    uint32_t ttl_ms;
    unsigned renewal_percent;
    uint32_t cap_ms;
    uint32_t notify_before_ms;
    struct rl_owner owner;
    redlock_event_callback event;
    void *event_arg;
};

/* One reference, the caller's; its token is drawn fresh. NULL: status tells why. */
struct rl_lease *rl_lease_create(struct rl_locks *locks, const struct rl_names *names, int *status);

/* The same for one resource. */
struct rl_lease *rl_lease_create_one(struct rl_locks *locks, const char *resource, size_t size, int *status);
/* The same with a token that somebody else has drawn, and that any node may hold. */
struct rl_lease *rl_lease_create_of(struct rl_locks *locks, const char *resource, size_t size, struct rl_text token,
                                    int *status);
struct rl_lease *rl_lease_ref(struct rl_lease *lease);
void rl_lease_unref(struct rl_lease *lease);

/* Acquired: the first handle is out, with a reference. false: no memory for the table. */
bool rl_lease_hold(struct rl_lease *lease, const struct rl_lease_terms *terms);

/* One more handle, with a reference. NULL: no memory. */
redlock_lock *rl_lease_share(struct rl_lease *lease, redlock_event_callback event, void *arg);

/* The user is about to be told of the handle, and may be told of events from now on. */
void rl_lease_give(redlock_lock *lock);

/* A handle's end. Its reference goes over to the caller. */
void rl_lease_end_handle(redlock_lock *lock);

/* Tells the rules what happened, and carries out what they say. */
void rl_lease_step(struct rl_lease *lease, const struct quorum_lease_event *event);

/* An extension the holder asked for was decided. */
void rl_lease_extended(struct rl_lease *lease, const struct quorum_round *round);

/* A renewal or extension that was lost by timeouts has been confirmed by a majority since. */
void rl_lease_confirmed(struct rl_lease *lease, const struct quorum_round *round, quorum_time now);

/* Not valid any more, for whoever asks. */
void rl_lease_invalidate(struct rl_lease *lease);

/* The descriptor that is readable once it is lost; -errno: the system gives none. */
int rl_lease_descriptor(struct rl_lease *lease);
void rl_lease_signal(struct rl_lease *lease);

/* One slot of a semaphore. */
struct rl_lease *rl_lease_create_slot(struct rl_locks *locks, const struct rl_names *names, unsigned permits,
                                      unsigned slot, int *status);
#define RL_SLOT_INFIX ":redlock:slot:"
#define RL_SLOT_SIZE  (sizeof RL_SLOT_INFIX + 3)

/* Writes the name of a semaphore's slot; returns its size. */
size_t rl_slot_name(char name[REDLOCK_RESOURCE_MAX + RL_SLOT_SIZE], const char *semaphore, size_t size, unsigned slot);

/* Nothing but a key and a token: what the commands and scripts for ordinary locks deal with. */
static inline bool rl_lease_is_plain(const struct rl_lease *lease)
{
    return lease->key_count == 1 && !lease->shared && !lease->permits && lease->fence == 0;
}

/* The fencing token that nodes are told: readers have none of their own. */
static inline uint64_t rl_lease_own_fence(const struct rl_lease *lease)
{
    return lease->shared ? 0 : lease->fence;
}

/* A number that tells locks on different resources apart, as a rule. */
uint32_t rl_lease_set(const struct rl_lease *lease);

/* One of its keys without the prefix; of a slot its semaphore. */
static inline struct rl_text rl_lease_resource(const struct rl_lease *lease, unsigned index)
{
    if (lease->semaphore.bytes)
        return (struct rl_text){lease->semaphore.bytes + lease->prefix_size,
                                lease->semaphore.size - lease->prefix_size};
    const struct rl_key *key = &lease->key[index];
    return (struct rl_text){key->bytes + lease->prefix_size, key->size - lease->prefix_size};
}

/* Is it on the same resources, or on more? */
bool rl_lease_has(const struct rl_lease *lease, const struct rl_names *names);
bool rl_lease_is_on(const struct rl_lease *lease, const struct rl_names *names);
bool rl_lease_is_alike(const struct rl_lease *lease, const struct rl_lease *other);

/* What is left of it; 0 when it is over. Any thread. */
quorum_duration rl_lease_validity(const struct rl_lease *lease);

#endif
