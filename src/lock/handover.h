/*
 * Hand-over: the release of a lock gives it to the next waiter. A waiter's entry on a node carries an offer: the value
 * that the node may set the key to, with the waiter's ttl. The node's release script does so, and publishes the grant.
 * The waiter counts these grants as votes of a separate round. Its lease never gets a request, so it is undone only as
 * a whole: after that no grant for it counts, and the waiter's next offer has another token.
 */
#ifndef RL_HANDOVER_H
#define RL_HANDOVER_H

#include "quorum/tally.h"

struct rl_handed;
struct rl_locks;
struct rl_queue;
struct rl_round;

/* The shortest ttl of a lock that is handed over: five times the validity that a hand-over may cost. */
#define RL_HANDOVER_TTL_MS 1000

/* The request, which enqueues the first waiter, carries its offer, if the waiter can be handed the lock. */
void rl_handover_offer(struct rl_queue *queue, struct rl_round *request);

/* Gives back what nodes have handed over, or will have before they get this, and removes the entry. */
void rl_handover_withdraw(struct rl_queue *queue);

/* The first waiter leaves, with the round that it won or NULL: any other round's offer is withdrawn. Returns the
 * nodes that may keep its entry. */
quorum_nodes rl_handover_end(struct rl_queue *queue, const struct rl_round *won);

/* A node says that it has handed a lock over to this client. Only a grant of the client's own outstanding offer, or of a
 * lock that it holds by one, has an effect: any user who may publish can send any other. */
void rl_handover_take(struct rl_locks *locks, unsigned node, const struct rl_handed *handed);

#endif
