/* The leases of one client: those with handles, by key; those due for renewal; those with events to report. */
#ifndef RL_LEASES_H
#define RL_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/lock/lease.h"

struct rl_locks;

struct rl_leases {
    struct rl_lease *first;
    struct rl_key **buckets; /* by hash of the key; NULL before the first lease */
    size_t bucket_count;     /* a power of two */
    size_t count;            /* of keys */
    struct rl_lease *due;    /* for renewal, oldest first */
    struct rl_lease *due_last;
    unsigned due_count;
    struct rl_lease *lacking; /* some nodes lack them: they are healed in this turn */
    struct rl_lease *noticed; /* with events to report, oldest first; each with a reference */
    struct rl_lease *noticed_last;
};

/* A hash of a key, with a different start per client: names chosen by an outsider must not all fall into one bucket. */
uint64_t rl_leases_hash(const struct rl_locks *locks, const char *key, size_t size);

/* Adds a lease that gets its first handle to the list and the table. false: no memory for the table. */
bool rl_leases_add(struct rl_lease *lease);
void rl_leases_remove(struct rl_lease *lease);

/* Lists the lease for renewal with its renewal.ttl, and sets the timer that sends the list in time. */
void rl_leases_renew(struct rl_lease *lease);

/* Lists the lease for a heal of these nodes, at the end of the turn. */
void rl_leases_heal(struct rl_lease *lease, quorum_nodes nodes);

/* Take the first one off its list, and end the list's reference. */
void rl_leases_take_due(struct rl_leases *leases);
void rl_leases_take_lacking(struct rl_leases *leases);

/* Lists the lease for rl_leases_notify(). notices: bits of events. */
void rl_leases_notice(struct rl_lease *lease, unsigned notices);

/* The time over which the renewals of all locks are spread, so that they leave the client time for its calls. */
quorum_duration rl_leases_spread(const struct rl_leases *leases);

/* A node may have lost keys: renews the locks within a second, which heals the node. Or it has only become ready: renews
 * the locks that were not sent to it early, as many at a time as usual, because they are on a majority without it. */
void rl_leases_hasten(struct rl_locks *locks, unsigned node, bool has_forgotten);

/* Ends all leases for this reason. */
void rl_leases_mark_lost(struct rl_locks *locks, enum quorum_lease_event_type why);

/* Steps the leases that are due. For a loop that is late: the timers' turn would come after the host's next
 * callbacks. */
void rl_leases_wake_due(struct rl_locks *locks);

/* Calls the event callbacks, up to a bound per turn. */
void rl_leases_notify(struct rl_locks *locks);

/* The lease with this token, lost or not; or NULL. */
struct rl_lease *rl_leases_find_token(struct rl_locks *locks, const char *resource, size_t size, struct rl_text token);

/* A valid lease on the resource, or NULL. */
struct rl_lease *rl_leases_find(struct rl_locks *locks, const char *resource, size_t size);

/* The same for a slot of a semaphore. */
struct rl_lease *rl_leases_find_slot(struct rl_locks *locks, const char *resource, size_t size, unsigned slot);

/* The client has a valid lock on the resource, or a permit of it. */
bool rl_leases_have(struct rl_locks *locks, const char *resource, size_t size);

/* The owner's lease on all these resources, lost or not; or NULL. */
struct rl_lease *rl_leases_find_owned(struct rl_locks *locks, const struct rl_names *names, struct rl_owner owner);

/* A lease of the owner on some of these resources, lost or not, that excludes a lock on all of them; or NULL. *name: a
 * resource of both. */
struct rl_lease *rl_leases_find_obstacle(struct rl_locks *locks, const struct rl_names *names, struct rl_owner owner,
                                         bool shared, struct rl_text *name);

/* The number of the semaphore's permits that the owner has. */
unsigned rl_leases_count_permits(struct rl_locks *locks, struct rl_text semaphore, unsigned permits,
                                 struct rl_owner owner);

/* Call it when the client's operations, queues and releases have ended. Reports no events. */
void rl_leases_free(struct rl_locks *locks);

#endif
