#include "quorum/waiting.h"

#include <assert.h>
#include <string.h>

/* An attempt may fail a few times at a hand-over, because others acquire at once; not more often than this. */
static const unsigned losses_on_end = 8;
/* With less time until the deadline another attempt is not worth it. */
static const quorum_duration least_time_for_attempt = 4 * QUORUM_MILLISECOND;
/* What a client may send to each node behind foreign holders: 125 looks and attempts a second, and as many in advance.
 * Enough to follow one lock whose holder changes every 20 ms. */
static const quorum_duration time_per_poll = 8 * QUORUM_MILLISECOND;
static const quorum_duration polls_in_advance = QUORUM_SECOND;
/* Between releases that leave the lock free. Each costs one more. */
static const quorum_duration round_trips_between_wakes = 64;

void quorum_waiting_init(struct quorum_waiting *waiting, const struct quorum_waiting_terms *terms)
{
    assert(terms->nodes >= 1 && terms->nodes <= QUORUM_NODES_MAX && terms->polling);
    memset(waiting, 0, sizeof *waiting);
    waiting->terms = *terms;
    waiting->overtake_at = waiting->give_up_at = QUORUM_NEVER;
    for (unsigned i = 0; i < QUORUM_NODES_MAX; i++)
        waiting->free_at[i] = QUORUM_NEVER;
}

void quorum_waiting_renew(struct quorum_waiting *waiting, const struct quorum_waiting_terms *terms)
{
    quorum_duration tenure = waiting->tenure;
    quorum_nodes unannounced = waiting->unannounced;
    quorum_waiting_init(waiting, terms);
    waiting->tenure = tenure;
    waiting->unannounced = unannounced;
}

static bool is_majority(const struct quorum_waiting *waiting, quorum_nodes nodes)
{
    return quorum_count(nodes) >= quorum_majority(waiting->terms.nodes);
}

quorum_time quorum_waiting_last_attempt(quorum_time now, quorum_time deadline, quorum_duration timeout)
{
    quorum_duration half = quorum_time_until(deadline, now) / 2;
    return deadline == QUORUM_NEVER ? QUORUM_NEVER : deadline - (timeout < half ? timeout : half);
}

uint64_t quorum_waiting_least(const uint64_t *values, unsigned nodes)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < nodes; i++) {
        unsigned there = 0;
        for (unsigned other = 0; other < nodes; other++)
            there += values[other] <= values[i];
        if (there >= quorum_majority(nodes) && values[i] < least)
            least = values[i];
    }
    return least;
}

quorum_duration quorum_waiting_patience(quorum_duration round_trip, quorum_duration margin, quorum_duration timeout)
{
    quorum_duration usual = quorum_time_add(margin, 4 * round_trip);
    return usual < timeout ? usual : timeout;
}

bool quorum_waiting_leaves_free(quorum_duration held, quorum_duration round_trip, uint64_t random)
{
    quorum_duration turn = quorum_time_add(held, round_trip); /* the next holder has the lock one round trip later */
    return turn >= round_trips_between_wakes * round_trip || random % (round_trips_between_wakes * round_trip) < turn;
}

bool quorum_waiting_can_be_notified(const struct quorum_waiting *waiting)
{
    return is_majority(waiting, waiting->heard & waiting->enqueued);
}

static void set(quorum_nodes *nodes, unsigned node, bool on)
{
    *nodes = on ? *nodes | quorum_node(node) : *nodes & ~quorum_node(node);
}

static void note_free(struct quorum_waiting *waiting, const struct quorum_waiting_event *event)
{
    waiting->free_at[event->node] = QUORUM_NEVER;
    set(event->behind ? &waiting->left : &waiting->free, event->node, true);
}

/* A node moves a waiter that leaves a free lock for a refresh interval to the tail, but only on a request. A waiter
 * behind it that has seen the lock free does not know since when, and looks more often. */
static void plan_overtaking(struct quorum_waiting *waiting, quorum_time now)
{
    if (!is_majority(waiting, waiting->free | waiting->left))
        waiting->overtake_at = QUORUM_NEVER;
    else if (waiting->overtake_at == QUORUM_NEVER)
        waiting->overtake_at = quorum_time_add(now, waiting->terms.refresh / 4);
}

/* When one node notifies us, the others will too, at once. If not, their queues differ: a look repairs that. But only
 * once: nodes may notify us repeatedly of one that is free while a majority is not. */
static void look_soon(struct quorum_waiting *waiting, const struct quorum_waiting_event *event)
{
    quorum_time soon = quorum_time_add(event->now, 3 * waiting->terms.margin);
    if (!(waiting->free & quorum_node(event->node)) && soon < waiting->look_at)
        waiting->look_at = soon;
}

/* A release of ours wakes the first waiter, or hands the lock over to it. */
static void note_holder(struct quorum_waiting *waiting, const struct quorum_waiting_event *event)
{
    quorum_nodes node = quorum_node(event->node);
    bool is_next = event->holder && event->holder != waiting->holder[event->node];
    bool was_unheard = waiting->first & waiting->listening & ~waiting->messaged & node && !event->behind;
    if (waiting->messaged & node)
        set(&waiting->unannounced, event->node, false);
    if (is_next && waiting->holder[event->node] && was_unheard)
        set(&waiting->unannounced, event->node, true);
    bool is_foreign = event->holder && (!event->is_ours || waiting->unannounced & node);
    set(&waiting->foreign, event->node, is_foreign);
    if (is_next && waiting->holder[event->node])
        set(&waiting->changed, event->node, true);
    if (is_next && is_foreign)
        set(&waiting->succeeded, event->node, true);
    if (event->holder)
        waiting->holder[event->node] = event->holder;
    set(&waiting->first, event->node, !event->behind);
    set(&waiting->messaged, event->node, false);
}

static void hear(struct quorum_waiting *waiting, unsigned node)
{
    set(&waiting->messaged, node, true);
    set(&waiting->unannounced, node, false);
}

/* A notification and a reply arrive on different connections: the reply may be older, and does not cancel the
 * notification. */
static void enqueued(struct quorum_waiting *waiting, const struct quorum_waiting_event *event)
{
    set(&waiting->enqueued, event->node, true);
    set(&waiting->listed, event->node, true);
    waiting->free &= ~quorum_node(event->node) | waiting->notified;
    note_holder(waiting, event);
    if (event->remaining == QUORUM_FREE)
        note_free(waiting, event); /* or others are ahead of us: they are notified first */
    else
        waiting->free_at[event->node] = quorum_time_add(event->now, event->remaining);
}

static void begin_request(struct quorum_waiting *waiting)
{
    waiting->heard = waiting->listening;
    waiting->notified = waiting->left = 0;
    waiting->changed = waiting->succeeded = 0;
    waiting->enqueued = 0; /* a granted attempt removes our entry */
}

void quorum_waiting_try(struct quorum_waiting *waiting)
{
    waiting->trying = true;
    begin_request(waiting);
}

static void start_look(struct quorum_waiting *waiting, struct quorum_waiting_actions *actions, quorum_time now)
{
    if (waiting->looking || waiting->trying)
        return;
    actions->look = waiting->looking = true;
    if (waiting->overtake_at <= now)
        waiting->overtake_at = QUORUM_NEVER;
    begin_request(waiting);
    /* These nodes get a request now: one that does not reply must not get one in every turn. */
    for (unsigned i = 0; i < waiting->terms.nodes; i++)
        if (waiting->free_at[i] <= now)
            waiting->free_at[i] = QUORUM_NEVER;
}

static void dequeue_from_few(struct quorum_waiting *waiting, struct quorum_waiting_actions *actions)
{
    if (waiting->trying) /* which enters the queue */
        return;
    if (is_majority(waiting, waiting->enqueued) || !waiting->enqueued)
        return;
    actions->dequeue = true;
    waiting->enqueued = waiting->listed = 0;
}

/* A node drops the entry of a dead waiter at once, but only if its client was subscribed when it refreshed the entry.
 * One more look reports the subscriptions that came after the last; the others follow within milliseconds. */
static void report_subscriptions(struct quorum_waiting *waiting, quorum_time now)
{
    quorum_time soon = quorum_time_add(now, waiting->terms.margin);
    if (waiting->listening & waiting->enqueued & ~waiting->heard && soon < waiting->look_at)
        waiting->look_at = soon;
}

/*
 * Foreign clients that retry every few milliseconds leave the lock free for about one: less frequent attempts hardly ever
 * find it free, and a look that finds it free is too late for an attempt. So attempts are frequent when the holder has
 * had the lock for about as long as the one before. Outside of that time the pause grows: a holder that is still there
 * after a pause is likely to stay as long again.
 */
static quorum_duration pause_behind_holder(const struct quorum_waiting *waiting, quorum_time now)
{
    quorum_duration held = quorum_time_since(waiting->changed_at, now), soonest = waiting->terms.watch / 4;
    quorum_duration begin = waiting->tenure - waiting->tenure / 4, end = waiting->tenure + waiting->tenure / 2;
    if (!waiting->tenure || held >= end || held + waiting->pause <= begin)
        return waiting->pause;
    return held + soonest < begin ? begin - held : soonest;
}

static void count_poll(const struct quorum_waiting *waiting, quorum_time now)
{
    quorum_time *spent_until = &waiting->terms.polling->spent_until;
    *spent_until = quorum_time_add(*spent_until > now ? *spent_until : now, time_per_poll);
}

/* The client's other waiters may have used up the allowance; still, a waiter looks once in a refresh interval. */
quorum_time quorum_waiting_poll_at(const struct quorum_waiting *waiting, quorum_time now, quorum_time moment)
{
    quorum_duration spent = quorum_time_until(waiting->terms.polling->spent_until, now);
    quorum_duration least = spent > polls_in_advance ? spent - polls_in_advance : 0;
    least = least < waiting->terms.refresh ? least : waiting->terms.refresh;
    return quorum_time_until(moment, now) > least ? moment : quorum_time_add(now, least);
}

bool quorum_waiting_sees_changes(const struct quorum_waiting *waiting)
{
    return waiting->changed != 0;
}

/* The nodes without a foreign holder are no majority: no release of ours will say when that ends. */
static void plan_look(struct quorum_waiting *waiting, quorum_time now)
{
    const struct quorum_waiting_terms *terms = &waiting->terms;
    quorum_nodes foreign = waiting->foreign & waiting->enqueued;
    bool was_watching = waiting->watching, has_changed = is_majority(waiting, waiting->succeeded);
    waiting->watching = foreign && !is_majority(waiting, waiting->enqueued & ~foreign);
    if (was_watching && waiting->watching && has_changed)
        waiting->tenure = quorum_time_since(waiting->changed_at, now);
    if (!was_watching || has_changed)
        waiting->changed_at = now;
    if (!waiting->watching)
        waiting->pause = terms->refresh;
    else if (waiting->changed_at == now)
        waiting->pause = terms->watch;
    else if (quorum_time_since(waiting->changed_at, now) >= waiting->pause)
        waiting->pause = waiting->pause < terms->refresh / 2 ? 2 * waiting->pause : terms->refresh;
    waiting->look_at = quorum_time_add(now, waiting->watching ? pause_behind_holder(waiting, now) : waiting->pause);
    if (waiting->watching)
        waiting->look_at = quorum_waiting_poll_at(waiting, now, waiting->look_at);
    report_subscriptions(waiting, now);
}

static void looked(struct quorum_waiting *waiting, struct quorum_waiting_actions *actions, quorum_time now)
{
    waiting->looking = false;
    count_poll(waiting, now);
    plan_look(waiting, now);
    dequeue_from_few(waiting, actions);
}

/* A message that was sent before we listened is lost: look instead. */
static void look_if_worthwhile(struct quorum_waiting *waiting, struct quorum_waiting_actions *actions, quorum_time now)
{
    if (is_majority(waiting, waiting->listening) && !quorum_waiting_can_be_notified(waiting))
        start_look(waiting, actions, now);
}

/*
 * Back off if no client was in the way: the nodes reported the lock free, it is not available, and they will report the
 * same again. Or if the attempt failed many times in a row: of two clients that share the nodes each is notified when
 * the other gives up, and they would alternate as fast as they can.
 */
static bool is_to_rest(struct quorum_waiting *waiting, const struct quorum_waiting_event *event)
{
    if (waiting->probing) /* the growing pause limits the rate */
        return !event->in_the_way;
    bool close = quorum_time_since(waiting->lost_at, event->now) < 5 * waiting->terms.margin;
    waiting->losses = close ? waiting->losses + 1 : 0;
    waiting->lost_at = event->now;
    return !event->in_the_way || waiting->losses >= losses_on_end;
}

/* An attempt enters the queue like a look, and needs no look after it, unless a message may have been sent before we
 * listened. */
static void tried(struct quorum_waiting *waiting, struct quorum_waiting_actions *actions,
                  const struct quorum_waiting_event *event)
{
    waiting->trying = false;
    count_poll(waiting, event->now);
    waiting->rest_until = is_to_rest(waiting, event) ? event->rest_until : 0;
    waiting->left = 0;
    waiting->overtake_at = QUORUM_NEVER;
    if (!event->misplaced && is_majority(waiting, waiting->heard & waiting->enqueued))
        plan_look(waiting, event->now);
    else
        waiting->look_at = event->now;
    look_if_worthwhile(waiting, actions, event->now);
    dequeue_from_few(waiting, actions);
}

static quorum_nodes expired(const struct quorum_waiting *waiting, quorum_time now)
{
    quorum_nodes nodes = 0;
    for (unsigned i = 0; i < waiting->terms.nodes; i++)
        if (waiting->free_at[i] <= now)
            nodes |= quorum_node(i);
    return nodes;
}

static void take(struct quorum_waiting *waiting, const struct quorum_waiting_event *event,
                 struct quorum_waiting_actions *actions)
{
    switch (event->type) { /* GCOVR_EXCL_BR_LINE: there are no other events */
    case QUORUM_WAITING_LISTENING:
    case QUORUM_WAITING_DEAF:
        set(&waiting->listening, event->node, event->type == QUORUM_WAITING_LISTENING);
        waiting->heard &= waiting->listening;
        report_subscriptions(waiting, event->now);
        look_if_worthwhile(waiting, actions, event->now);
        break;
    case QUORUM_WAITING_ENQUEUED:
        enqueued(waiting, event);
        break;
    case QUORUM_WAITING_LOOKED:
        looked(waiting, actions, event->now);
        plan_overtaking(waiting, event->now);
        break;
    case QUORUM_WAITING_NOTIFIED:
        set(&waiting->notified, event->node, true);
        hear(waiting, event->node);
        look_soon(waiting, event);
        note_free(waiting, event);
        break;
    case QUORUM_WAITING_HANDED:
        hear(waiting, event->node);
        set(event->polled ? &waiting->handed : &waiting->told, event->node, true);
        if (waiting->give_up_at == QUORUM_NEVER)
            waiting->give_up_at = quorum_time_add(event->now, waiting->terms.patience);
        break;
    case QUORUM_WAITING_TRIED:
        tried(waiting, actions, event);
        break;
    case QUORUM_WAITING_WOKEN:
        break;
    }
}

static quorum_time next_last_attempt(const struct quorum_waiting *waiting, quorum_time now)
{
    quorum_duration half = quorum_time_until(waiting->terms.deadline, now) / 2;
    return waiting->watching && half >= least_time_for_attempt ? now + half : QUORUM_NEVER;
}

static void start_attempt(struct quorum_waiting *waiting, struct quorum_waiting_actions *actions)
{
    actions->attempt = true;
    quorum_waiting_try(waiting);
    waiting->free = 0; /* the attempt's replies will report the free nodes */
}

static void consider(struct quorum_waiting *waiting, struct quorum_waiting_actions *actions, quorum_time now)
{
    if (waiting->trying || waiting->looking)
        return;
    bool is_last = waiting->terms.last_attempt <= now;
    bool is_look_due = is_majority(waiting, waiting->listening) && waiting->look_at <= now;
    waiting->probing = waiting->watching && is_look_due;
    if (waiting->give_up_at <= now) {
        waiting->give_up_at = QUORUM_NEVER;
        actions->withdraw = true;
        actions->silent = waiting->handed & ~waiting->told;
        waiting->handed = waiting->told = 0;
        start_attempt(waiting, actions);
        return;
    }
    if (is_last || waiting->probing || (is_majority(waiting, waiting->free) && waiting->rest_until <= now)) {
        waiting->terms.last_attempt = is_last ? next_last_attempt(waiting, now) : waiting->terms.last_attempt;
        start_attempt(waiting, actions);
        return;
    }
    /* The lock may have been extended since: check an expiry, do not assume it. */
    bool may_be_open = expired(waiting, now) && is_majority(waiting, waiting->free | expired(waiting, now));
    if (may_be_open || waiting->overtake_at <= now || is_look_due)
        start_look(waiting, actions, now);
}

struct quorum_waiting_actions quorum_waiting_step(struct quorum_waiting *waiting,
                                                  const struct quorum_waiting_event *event)
{
    struct quorum_waiting_actions actions = {.look = false};
    assert(event->node < waiting->terms.nodes);
    take(waiting, event, &actions);
    consider(waiting, &actions, event->now);
    return actions;
}

/* When enough nodes for a majority are, or may be, free. */
static quorum_time majority_free_at(const struct quorum_waiting *waiting)
{
    quorum_time earliest = QUORUM_NEVER;
    for (unsigned i = 0; i < waiting->terms.nodes; i++) {
        quorum_time candidate = waiting->free_at[i];
        if (candidate < earliest && is_majority(waiting, waiting->free | expired(waiting, candidate)))
            earliest = candidate;
    }
    return earliest;
}

quorum_time quorum_waiting_deadline(const struct quorum_waiting *waiting)
{
    if (waiting->trying || waiting->looking)
        return QUORUM_NEVER;
    quorum_time deadline = is_majority(waiting, waiting->listening) ? waiting->look_at : QUORUM_NEVER;
    quorum_time free_at = majority_free_at(waiting);
    deadline = free_at < deadline ? free_at : deadline;
    deadline = waiting->overtake_at < deadline ? waiting->overtake_at : deadline;
    deadline = waiting->give_up_at < deadline ? waiting->give_up_at : deadline;
    deadline = waiting->terms.last_attempt < deadline ? waiting->terms.last_attempt : deadline;
    bool is_free = is_majority(waiting, waiting->free);
    return is_free && waiting->rest_until < deadline ? waiting->rest_until : deadline;
}
