#include "src/lock/queue.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "src/core/escape.h"
#include "src/core/wall.h"
#include "src/lock/held_by.h"
#include "src/lock/locks.h"
#include "src/lock/queue_table.h"
#include "src/lock/round.h"
#include "src/node/guard.h"

#define REFRESH           (RL_OVERTAKE_MS * QUORUM_MILLISECOND)
#define MARGIN            (20 * QUORUM_MILLISECOND) /* much longer than a hand-over */
#define WATCH             (20 * QUORUM_MILLISECOND)
#define LINGER            QUORUM_SECOND
#define ATTEMPTS_PER_TURN 1000 /* of the loop: thousands may fail at once */
_Static_assert(2 * RL_OVERTAKE_MS < RL_WAITER_LIFE_MS, "an entry outlives a refresh that is lost");

static void queue_step(struct rl_queue *queue, const struct quorum_waiting_event *event);

/* --------------------------------------------------------------------------------------------------------- lifetime */

/* A node that has lost the script must not get it again behind the waiter's removal: the entry would stay. */
static void give_up_look(struct rl_queue *queue)
{
    if (!queue->looking)
        return;
    rl_round_cancel(queue->looking);
    rl_round_leave(queue->looking);
    queue->looking = NULL;
}

static void set_due(struct rl_queue *queue, bool due)
{
    struct rl_queues *queues = &queue->locks->queues;
    struct rl_queue **link = &queues->due;
    if (queue->due == due)
        return;
    while (!due && *link != queue)
        link = &(*link)->next_due;
    if (due)
        queue->next_due = queues->due;
    *link = due ? queue : queue->next_due;
    queue->due = due;
}

static void destroy(struct rl_queue *queue)
{
    struct rl_locks *locks = queue->locks;
    rl_queue_table_remove(queue);
    set_due(queue, false);
    rl_timer_stop(&queue->timer);
    give_up_look(queue);
    rl_round_leave(queue->offer);
    rl_lease_unref(queue->lease);
    rl_free(&locks->core->allocator, queue->held_by);
    rl_core_free(locks->core, queue);
}

void rl_queues_free(struct rl_locks *locks)
{
    for (unsigned i = 0; i <= RL_QUEUE_BUCKETS; i++)
        while (locks->queues.buckets[i])
            destroy(locks->queues.buckets[i]);
}

static void on_timer(struct rl_timer *timer)
{
    struct rl_queue *queue = (struct rl_queue *)(void *)((char *)timer - offsetof(struct rl_queue, timer));
    const struct quorum_waiting_event woken = {.type = QUORUM_WAITING_WOKEN, .now = rl_now()};
    const struct rl_text resource = rl_lease_resource(queue->lease, 0);
    if (queue->first)
        queue_step(queue, &woken);
    /* A holder that releases the lock and acquires it again at once would overtake the waiters by a bare SET. */
    else if (rl_leases_find(queue->locks, resource.bytes, resource.size))
        rl_timer_set(&queue->locks->core->timers, timer, rl_now() + LINGER);
    else
        destroy(queue);
}

static struct rl_queue *create(struct rl_locks *locks, const struct rl_names *names, bool shared)
{
    int status;
    struct rl_queue *queue = rl_allocate(&locks->core->allocator, sizeof *queue);
    if (!queue)
        return NULL;
    queue->lease = rl_lease_create(locks, names, &status);
    if (!queue->lease) {
        rl_core_free(locks->core, queue);
        return NULL;
    }
    queue->lease->shared = shared;
    queue->locks = locks;
    queue->timer.fire = on_timer;
    queue->turns = 1;
    rl_queue_table_add(queue);
    return queue;
}

/* ------------------------------------------------------------------------------------------------- offers of hand-over */

static struct rl_round *offer_create(struct rl_queue *queue)
{
    int status;
    struct rl_locks *locks = queue->locks;
    const struct rl_text resource = rl_lease_resource(queue->lease, 0);
    const struct quorum_terms terms = {
        .kind = QUORUM_ACQUIRE,
        .ttl = queue->first->ttl,
        .minimum_validity = queue->first->minimum_validity,
    };
    struct rl_lease *lease = rl_lease_create_one(locks, resource.bytes, resource.size, &status);
    if (!lease)
        return NULL;
    struct rl_round *offer = rl_round_create(lease, RL_COMMAND_TAKE, terms);
    lease->queueing.queued = true;
    lease->ttl_ms = (uint32_t)(terms.ttl / QUORUM_MILLISECOND);
    rl_lease_unref(lease);
    return offer;
}

void rl_handover_offer(struct rl_queue *queue, struct rl_round *request)
{
    assert(!request->offer);
    if (!queue->first || !queue->first->ttl)
        return;
    if (!queue->offer)
        queue->offer = offer_create(queue);
    if (queue->offer)
        request->offer = rl_lease_ref(queue->offer->lease);
}

static struct rl_round *close_offer(struct rl_queue *queue)
{
    struct rl_round *offer = queue->offer;
    queue->offer = NULL;
    return offer;
}

/* Gives back what nodes have handed over, or will have before they get this, and removes the entry. */
static void handover_withdraw(struct rl_queue *queue)
{
    struct rl_round *offer = close_offer(queue);
    if (!offer)
        return;
    offer->lease->queueing.withdrawn = true;
    rl_lease_release_detached(offer->lease);
    rl_round_leave(offer);
}

/* The first waiter leaves, with the round that it won or NULL: any other round's offer is withdrawn. Returns the nodes
 * that may keep its entry. */
static quorum_nodes handover_end(struct rl_queue *queue, const struct rl_round *won)
{
    struct rl_round *offer = queue->offer;
    quorum_nodes listed = queue->rules.listed & ~(won ? won->lease->may_hold : 0);
    if (won)
        queue->hot = offer == won;
    if (!offer)
        return listed;
    if (won == offer) { /* nodes that have not handed it over yet will, or dequeue it on the release */
        listed = won->lease->may_hold & ~won->lease->queueing.offered;
        rl_round_leave(close_offer(queue));
        return listed;
    }
    /* A node that granted the attempt has removed the offer. Any other may have handed the lock over, and its message
     * may be lost: without the withdrawal its key would stay until the ttl ends. */
    quorum_nodes removed = won ? won->rules.tally.voted[QUORUM_GRANTED] : 0;
    offer->lease->may_hold &= ~removed;
    offer->lease->queueing.offered &= ~removed;
    listed &= ~offer->lease->may_hold;
    if (offer->lease->may_hold || listed)
        handover_withdraw(queue);
    else
        rl_round_leave(close_offer(queue));
    return listed;
}

/* --------------------------------------------------------------------------------------------------------- first waiter */

/* From the wall clock, so that tickets of different clients are comparable; and above all tickets that this client has
 * seen, in case the clocks differ. */
static uint64_t draw_ticket(struct rl_locks *locks)
{
    uint64_t ticket = rl_wall_us();
    if (ticket <= locks->queues.last_ticket)
        ticket = locks->queues.last_ticket + 1;
    locks->queues.last_ticket = ticket;
    return ticket;
}

/* A new first waiter: the client gets a new entry on the nodes. */
static void stand_anew(struct rl_queue *queue)
{
    struct rl_locks *locks = queue->locks;
    quorum_time deadline = queue->first->deadline;
    const struct quorum_waiting_terms terms = {
        .nodes = locks->nodes->count,
        .polling = &locks->queues.polling,
        .refresh = REFRESH,
        .margin = MARGIN,
        .patience = quorum_waiting_patience(rl_nodes_round_trip(locks->nodes), MARGIN, rl_nodes_timeout(locks->nodes)),
        .watch = WATCH,
        .last_attempt = quorum_waiting_last_attempt(rl_now(), deadline, rl_nodes_timeout(locks->nodes)),
        .deadline = deadline,
    };
    rl_timer_stop(&queue->timer);
    quorum_waiting_renew(&queue->rules, &terms);
    queue->rules.listening = rl_listeners_up(locks->nodes);
    quorum_waiting_try(&queue->rules);
    queue->lease->permits = (uint8_t)queue->first->permits;
    queue->lease->wanted = (uint8_t)queue->first->wanted;
    queue->ticket = draw_ticket(locks);
    queue->seen = 0;
    memset(queue->place, 0, sizeof queue->place);
    queue->raised = false;
    queue->standing = true;
    if (queue->known)
        rl_listeners_start(locks->nodes);
}

bool rl_queue_join(struct rl_locks *locks, const struct rl_names *names, struct rl_waiter *waiter)
{
    assert(!waiter->queue && waiter->attempt && waiter->must_poll && waiter->handed);
    struct rl_queue *queue = rl_queue_find(locks, names, waiter->shared);
    if (!queue)
        queue = create(locks, names, waiter->shared);
    waiter->queue = queue;
    if (!queue)
        return true;
    waiter->next = NULL;
    waiter->previous = queue->last;
    *(queue->first ? &queue->last->next : &queue->first) = waiter;
    queue->last = waiter;
    if (queue->first != waiter || queue->due)
        return false;
    stand_anew(queue);
    return true;
}

static void remove_waiter(struct rl_queue *queue, struct rl_waiter *waiter)
{
    assert(waiter->queue == queue);
    *(waiter->previous ? &waiter->previous->next : &queue->first) = waiter->next;
    *(waiter->next ? &waiter->next->previous : &queue->last) = waiter->previous;
    if (queue->cursor == waiter)
        queue->cursor = waiter->next;
    assert(!queue->first == !queue->last);
    waiter->queue = NULL;
}

/* The first waiter tries; readers try together, `most` of them now and the others in the next turn of the loop. But one is
 * enough to poll. An attempt may end at once, and its waiter leave: then the next waiter's turn is due, not inside that
 * call. */
static unsigned attempt_some(struct rl_queue *queue, unsigned most)
{
    unsigned attempts = 0;
    queue->attempting = true;
    if (!queue->cursor) {
        queue->cursor = queue->first;
        queue->turns++;
    }
    while (queue->cursor && !queue->due && attempts < most) {
        struct rl_waiter *waiter = queue->cursor;
        queue->cursor = waiter->shared && !queue->rules.probing ? waiter->next : NULL;
        waiter->turn = queue->turns;
        waiter->attempt(waiter);
        attempts++;
    }
    queue->attempting = false;
    if (queue->due)
        queue->cursor = NULL;
    set_due(queue, queue->due || queue->cursor);
    return attempts;
}

static void attempt(struct rl_queue *queue)
{
    assert(queue->known && queue->standing && queue->first);
    if (queue->attempting)
        set_due(queue, true);
    else
        attempt_some(queue, ATTEMPTS_PER_TURN);
}

void rl_queues_flush(struct rl_locks *locks)
{
    struct rl_queues *queues = &locks->queues;
    for (unsigned attempts = 0; queues->due && attempts < ATTEMPTS_PER_TURN;) {
        struct rl_queue *queue = queues->due;
        set_due(queue, false);
        if (!queue->first)
            continue;
        if (!queue->standing)
            stand_anew(queue);
        attempts += attempt_some(queue, ATTEMPTS_PER_TURN - attempts);
    }
}

const struct quorum_waiting *rl_queue_rules(const struct rl_waiter *waiter)
{
    const struct rl_queue *queue = waiter->queue;
    return queue && queue->standing && queue->first == waiter ? &queue->rules : NULL;
}

/* The readers of one client have one entry on each node. If the next reader has tried together with the leaving one, its
 * request has set the entry again, and the removal would follow that request. */
static bool is_entered_by_next(const struct rl_queue *queue, const struct rl_waiter *leaving)
{
    const struct rl_waiter *next = queue->first;
    return leaving->shared && next && next->turn == queue->turns;
}

void rl_queue_leave(struct rl_waiter *waiter, const struct rl_round *won, struct rl_round *attempt)
{
    struct rl_queue *queue = waiter->queue;
    if (!queue)
        return;
    if (attempt && !won)
        rl_held_by_copy(queue->locks->core, &attempt->held_by, queue->held_by);
    bool was_first = queue->first == waiter;
    remove_waiter(queue, waiter);
    if (!was_first)
        return;
    /* Readers that tried together may all leave before the next turn. */
    if (queue->known && (queue->standing || waiter->turn == queue->turns)) {
        give_up_look(queue);
        /* After a success the nodes that granted have removed the entry; the release removes it on the nodes that it
         * goes to. */
        bool offered = queue->offer != NULL;
        if ((handover_end(queue, won) || (!won && !offered)) && !is_entered_by_next(queue, waiter))
            rl_dequeue_detached(queue->lease);
        queue->rules.enqueued = queue->rules.listed = 0;
    }
    queue->standing = false;
    queue->cursor = NULL;
    if (queue->first) {
        queue->known = true;
        set_due(queue, true);
    } else if (queue->known) {
        rl_timer_set(&queue->locks->core->timers, &queue->timer, rl_now() + LINGER);
    } else {
        destroy(queue);
    }
}

void rl_queue_expect(const struct rl_lease *released)
{
    struct rl_locks *locks = released->locks;
    const struct rl_names names = rl_lease_names(released);
    struct rl_queue *queue = rl_queue_find(locks, &names, false);
    if (!queue)
        queue = create(locks, &names, false);
    if (queue && !queue->first)
        rl_timer_set(&locks->core->timers, &queue->timer, rl_now() + LINGER);
}

/* ----------------------------------------------------------------------------------------------------------- looking */

/* A lock that is free on a node in quarantine is not available there before the end of the quarantine. */
static struct quorum_waiting_event answer(const struct rl_node *node, const redisReply *reply, bool is_semaphore)
{
    long long left = reply->element[RL_WAIT_REMAINING]->integer;
    long long holder = reply->element[RL_WAIT_RECORD]->integer;
    quorum_time now = rl_now();
    quorum_duration remaining = left < 0 ? QUORUM_NEVER : (quorum_duration)left * QUORUM_MILLISECOND;
    quorum_duration withheld = rl_guard_withholds(node, now);
    return (struct quorum_waiting_event){
        .type = QUORUM_WAITING_ENQUEUED,
        .now = now,
        .node = node->index,
        .remaining = withheld > remaining ? withheld : remaining,
        .behind = reply->element[RL_WAIT_AHEAD]->integer > 0,
        .holder = is_semaphore ? 0
                  : holder < 0 ? 0 - (uint64_t)holder
                               : (uint64_t)holder,
        .is_ours = holder < 0,
    };
}

/* A lock that is held, and whose key is no string; NULL: another reply. */
static const char *remark_on(const redisReply *reply, bool is_semaphore)
{
    if (reply->element[RL_WAIT_HOLDER]->len > 0 || is_semaphore || reply->element[RL_WAIT_TAKEN]->integer != 0 ||
        reply->element[RL_WAIT_REMAINING]->integer == 0)
        return NULL;
    return reply->element[RL_WAIT_RECORD]->integer > 0 ? RL_REMARK_NO_LOCK : RL_REMARK_SHARED;
}

static void take(struct rl_queue *queue, unsigned node, const redisReply *reply)
{
    const struct quorum_waiting_event event = answer(&queue->locks->nodes->node[node], reply, queue->lease->permits);
    long long seen = reply->element[RL_WAIT_SEEN]->integer;
    queue->place[node] = seen < 0 ? 0 - (uint64_t)seen : 0;
    if (seen > 0 && (uint64_t)seen > queue->seen)
        queue->seen = (uint64_t)seen;
    const redisReply *holder = reply->element[RL_WAIT_HOLDER];
    if (holder->type == REDIS_REPLY_STRING)
        rl_held_by_note(queue->locks->core, &queue->held_by, node, (struct rl_text){holder->str, (size_t)holder->len},
                        remark_on(reply, queue->lease->permits), quorum_time_add(event.now, event.remaining));
    queue_step(queue, &event);
    if (reply->element[RL_WAIT_TAKEN]->integer == RL_WAIT_HANDED && queue->first) {
        const struct quorum_waiting_event handed = {
            .type = QUORUM_WAITING_HANDED, .now = event.now, .node = node, .polled = true};
        queue_step(queue, &handed);
    }
}

void rl_queue_answered(struct rl_waiter *waiter, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    if (!waiter->queue)
        return;
    if (vote->vote == QUORUM_HELD)
        take(waiter->queue, node, reply);
    else if (vote->vote == QUORUM_GRANTED)
        waiter->queue->place[node] = 0; /* the grant has removed the entry */
}

static void looked_at(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    if (vote->vote == QUORUM_GRANTED)
        take(round->owner, node, reply);
}

/*
 * A waiter is behind all earlier ones, even if the clocks differ. And if no majority has the waiter's old place,
 * because nodes have moved it to the tail, it takes the later place on the other nodes, too. Otherwise each of several
 * waiters could be the first on some nodes indefinitely, and hold the nodes that the others lack.
 */
static bool raise_ticket(struct rl_queue *queue)
{
    uint64_t ticket = queue->ticket, place = quorum_waiting_least(queue->place, queue->locks->nodes->count);
    if (!queue->raised && queue->seen >= ticket) {
        queue->raised = true;
        ticket = queue->seen + 1;
    }
    ticket = place > ticket ? place : ticket;
    if (ticket == queue->ticket)
        return false;
    queue->ticket = ticket;
    if (ticket > queue->locks->queues.last_ticket)
        queue->locks->queues.last_ticket = ticket;
    return true;
}

static void look(struct rl_queue *queue);

static void looked(struct rl_round *round)
{
    struct rl_queue *queue = round->owner;
    assert(queue->looking == round);
    const struct quorum_waiting_event event = {.type = QUORUM_WAITING_LOOKED, .now = rl_now()};
    rl_round_leave(queue->looking);
    queue->looking = NULL;
    if (raise_ticket(queue))
        look(queue);
    else
        queue_step(queue, &event);
}

static void look(struct rl_queue *queue)
{
    const struct quorum_waiting_event failed = {.type = QUORUM_WAITING_LOOKED, .now = rl_now()};
    rl_round_leave(queue->looking);
    queue->looking = rl_round_create(queue->lease, RL_COMMAND_ENQUEUE, (struct quorum_terms){.kind = QUORUM_LOOK});
    if (!queue->looking) {
        queue_step(queue, &failed);
        return;
    }
    queue->looking->ticket = queue->ticket;
    rl_handover_offer(queue, queue->looking);
    queue->looking->owner = queue;
    queue->looking->replied = looked_at;
    queue->looking->decided = looked;
    rl_round_begin(queue->looking);
}

/* -------------------------------------------------------------------------------------------------------- the rules */

static void queue_step(struct rl_queue *queue, const struct quorum_waiting_event *event)
{
    struct rl_waiter *first = queue->first;
    if (!first || !queue->standing)
        return;
    struct quorum_waiting_actions actions = quorum_waiting_step(&queue->rules, event);
    rl_timer_set(&queue->locks->core->timers, &queue->timer, quorum_waiting_deadline(&queue->rules));
    bool may_have_changed = event->type == QUORUM_WAITING_LOOKED || event->type == QUORUM_WAITING_DEAF;
    if (actions.dequeue)
        rl_dequeue_detached(queue->lease);
    if (actions.withdraw) {
        handover_withdraw(queue);
        rl_listeners_renew(queue->locks->nodes, actions.silent); /* before the attempt, which tells who is subscribed */
    }
    if (actions.look)
        look(queue);
    else if (actions.attempt)
        attempt(queue);
    else if (may_have_changed && !queue->rules.trying && !rl_queue_can_be_notified(first))
        first->must_poll(first);
}

void rl_queue_try(struct rl_waiter *waiter)
{
    assert(waiter->queue);
    if (waiter->queue->standing)
        quorum_waiting_try(&waiter->queue->rules);
}

void rl_queue_tried(struct rl_waiter *waiter, bool held, quorum_time rest_until)
{
    struct rl_queue *queue = waiter->queue;
    assert(queue->first == waiter);
    if (!queue->known) {
        queue->known = true;
        rl_listeners_start(queue->locks->nodes);
        queue->rules.listening = rl_listeners_up(queue->locks->nodes);
    }
    const struct quorum_waiting_event event = {.type = QUORUM_WAITING_TRIED,
                                               .now = rl_now(),
                                               .misplaced = raise_ticket(queue),
                                               .in_the_way = held,
                                               .rest_until = rest_until};
    queue_step(queue, &event);
}

bool rl_queue_can_be_notified(const struct rl_waiter *waiter)
{
    return waiter->queue && waiter->queue->standing &&
           (waiter->queue->rules.looking || quorum_waiting_can_be_notified(&waiter->queue->rules));
}

/* One resource is free. For a lock on several, an attempt shows whether the others are. */
static void notify(struct rl_queue *queue, const struct quorum_waiting_event *event, const char *resource, size_t size,
                   int slot)
{
    const struct rl_names names = rl_names_of(resource, size);
    for (struct rl_queue *next; queue; queue = next) {
        next = queue->next;
        if (!rl_lease_has(queue->lease, &names))
            continue;
        if (slot >= 0 && queue->first)
            queue->first->slot_freed(queue->first, (unsigned)slot);
        queue_step(queue, event);
    }
}

void rl_queues_wake(struct rl_locks *locks, unsigned node, const char *key, size_t size)
{
    assert(node < locks->nodes->count);
    size_t prefix = strlen(locks->core->options.prefix);
    const struct quorum_waiting_event event = {.type = QUORUM_WAITING_NOTIFIED, .now = rl_now(), .node = node};
    if (size <= prefix || rl_guard_withholds(&locks->nodes->node[node], event.now) > 0)
        return;
    const char *name = key + prefix; /* the slot's infix is looked for in it alone: the prefix may end with one */
    size -= prefix;
    int slot = rl_slot_of(name, &size);
    notify(*rl_queue_table_bucket(locks, 1, name, size), &event, name, size, slot);
    notify(locks->queues.buckets[RL_QUEUE_BUCKETS], &event, name, size, -1);
}

void rl_queues_listening(struct rl_locks *locks, unsigned node, bool listening)
{
    assert(node < locks->nodes->count);
    const struct quorum_waiting_event event = {
        .type = listening ? QUORUM_WAITING_LISTENING : QUORUM_WAITING_DEAF, .now = rl_now(), .node = node};
    for (unsigned i = 0; i <= RL_QUEUE_BUCKETS; i++)
        for (struct rl_queue *queue = locks->queues.buckets[i], *next; queue; queue = next) {
            next = queue->next;
            queue_step(queue, &event);
        }
}

/* -------------------------------------------------------------------------------------------------- grants by hand-over */

/* A node that may have lost data, or cannot prove that it has not, does not count. */
static bool handover_counts(struct rl_node *node, const struct rl_handed *handed, quorum_time now)
{
    if (node->nodes->core->options.guard &&
        !quorum_attest_shows(&node->attest.rules, handed->shown, handed->shown_size)) {
        node->nodes->core->statistics.unattested++;
        rl_guard_doubt(node);
        return false;
    }
    return !rl_guard_objection(node, now);
}

static void handover_count(struct rl_queue *queue, struct rl_node *node, const struct rl_handed *handed)
{
    quorum_time now = rl_now();
    assert(queue->first && queue->first->handed);
    struct rl_round *offer = queue->offer;
    rl_fanout_ref(&offer->fanout);
    const struct quorum_event grant = {.type = QUORUM_HANDED, .now = now, .node = node->index, .since = handed->since};
    if (handed->since <= now && handover_counts(node, handed, now))
        rl_round_step(offer, &grant);
    if (offer->rules.verdict == QUORUM_WON) {
        queue->first->handed(queue->first, offer);
    } else {
        const struct quorum_waiting_event event = {.type = QUORUM_WAITING_HANDED, .now = now, .node = node->index};
        queue_step(queue, &event);
    }
    rl_fanout_unref(&offer->fanout);
}

void rl_handover_take(struct rl_locks *locks, unsigned node, const struct rl_handed *handed)
{
    assert(node < locks->nodes->count);
    size_t prefix = strlen(locks->core->options.prefix);
    if (handed->key.size <= prefix || handed->key.size - prefix > REDLOCK_RESOURCE_MAX)
        return; /* no client offers such a name */
    const struct rl_text resource = {handed->key.bytes + prefix, handed->key.size - prefix};
    const struct rl_names names = rl_names_of(resource.bytes, resource.size);
    struct rl_queue *queue = rl_queue_find(locks, &names, false);
    struct rl_lease *held;
    if (queue && queue->first && queue->offer && rl_text_equals(handed->value, rl_lease_value(queue->offer->lease)))
        handover_count(queue, &locks->nodes->node[node], handed);
    else if ((held = rl_leases_find_token(locks, resource.bytes, resource.size, handed->value)) != NULL)
        held->may_hold |= quorum_node(node); /* one more grant of a lock that was handed over */
    else
        locks->core->statistics.messages_dropped++;
}
