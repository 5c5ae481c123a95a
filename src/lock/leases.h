/* The leases of one client: those with handles out, by key; those due for renewal; those with events to report. */
#ifndef RL_LEASES_H
#define RL_LEASES_H

#include <stdbool.h>
#include <stddef.h>

#include "src/lock/lease.h"

struct rl_locks;

struct rl_leases {
    struct rl_lease *first;
    struct rl_key **buckets; /* by hash of the key; NULL until the first */
    size_t bucket_count;     /* a power of two */
    size_t count;            /* of keys */
    struct rl_lease *due;    /* for renewal, oldest first */
    struct rl_lease *due_last;
    unsigned due_count;
    struct rl_lease *noticed; /* with something to tell, oldest first; references */
    struct rl_lease *noticed_last;
};

/* The first handle is out: the lease can be found by its keys. false: no memory for the table. */
bool rl_leases_add(struct rl_lease *lease);
void rl_leases_remove(struct rl_lease *lease);

/* Lists the lease for renewal with its renewal_ttl, and sees to it that the list is sent in time. */
void rl_leases_renew(struct rl_lease *lease);

/* The oldest due lease, with the list's reference. */
struct rl_lease *rl_leases_take_due(struct rl_leases *leases);

/* Lists the lease for rl_leases_notify(). notices: bits of events. */
void rl_leases_notice(struct rl_lease *lease, unsigned notices);

/* A node is back without its memory: what it held is renewed, and set again, soon. */
void rl_leases_hasten(struct rl_locks *locks, unsigned node);

/* Ends all of them, for this reason. */
void rl_leases_mark_lost(struct rl_locks *locks, enum quorum_lease_event_type why);

/* Steps the leases that are due. For a loop that is late: the timers' turn would come after the host's next callbacks. */
void rl_leases_wake_due(struct rl_locks *locks);

/* Calls back for what has happened to leases. true: some is left for the next turn. */
bool rl_leases_notify(struct rl_locks *locks);

/* The one with this token, lost or not, or NULL. */
struct rl_lease *rl_leases_find_token(struct rl_locks *locks, const char *resource, size_t size, struct rl_text token);

/* A valid one on the resource, or NULL. */
struct rl_lease *rl_leases_find(struct rl_locks *locks, const char *resource, size_t size);

/* The same for a slot of a semaphore. */
struct rl_lease *rl_leases_find_slot(struct rl_locks *locks, const char *resource, size_t size, unsigned slot);

/* Has the client a valid lock on the resource, or a permit of it? */
bool rl_leases_have(struct rl_locks *locks, const char *resource, size_t size);

/* One that the owner has on all of these, lost or not, or NULL. */
struct rl_lease *rl_leases_find_owned(struct rl_locks *locks, const struct rl_names *names, struct rl_owner owner);

/* One that the owner has on some of these, lost or not, and that excludes a lock on all of them; or NULL. *name: the
 * one of them that both are on. */
struct rl_lease *rl_leases_find_obstacle(struct rl_locks *locks, const struct rl_names *names, struct rl_owner owner,
                                         bool shared, struct rl_text *name);

/* Does the owner have every permit of the semaphore? */
bool rl_leases_have_all_permits(struct rl_locks *locks, struct rl_text semaphore, unsigned permits,
                                struct rl_owner owner);
void rl_leases_free(struct rl_locks *locks);

#endif
