#include "quorum/lease.h"

#include <assert.h>
#include <string.h>

#include "quorum/validity.h"

/* A failed renewal is retried after an eighth of the remaining validity: about a dozen retries, the last ones close to
 * the end. */
#define RETRY_DIVISOR 8
static const quorum_duration retry_least = 20 * QUORUM_MILLISECOND;

void quorum_lease_init(struct quorum_lease *lease, const struct quorum_lease_terms *terms, quorum_time *kept,
                       unsigned nodes)
{
    assert(terms->ttl > 0 && terms->renewal_percent < 100);
    memset(lease, 0, sizeof *lease);
    lease->terms = *terms;
    lease->turns.kept = kept;
    lease->turns.nodes = nodes;
    lease->renew_at = lease->hasten_to = QUORUM_NEVER;
}

static bool is_over(const struct quorum_lease *lease)
{
    return lease->loss != QUORUM_NOT_LOST;
}

/* The ttl of the request, in whole milliseconds as on the nodes, so that the keys expire at the cap; 0 if that would
 * extend nothing. */
static quorum_duration renewal_ttl(const struct quorum_lease *lease, quorum_time now)
{
    quorum_duration left = quorum_time_until(lease->terms.cap, now);
    quorum_duration ttl = lease->terms.ttl < left ? lease->terms.ttl : left;
    ttl -= ttl % QUORUM_MILLISECOND; /* the nodes do not count fractions */
    return quorum_time_add(now, ttl) > lease->validity_end ? ttl : 0;
}

quorum_duration quorum_lease_ttl_at(const struct quorum_lease *lease, quorum_duration ttl, quorum_time now)
{
    quorum_duration left = quorum_time_until(lease->terms.cap, now);
    if (ttl <= left)
        return ttl;
    return left < QUORUM_MILLISECOND ? QUORUM_MILLISECOND : left - left % QUORUM_MILLISECOND;
}

quorum_duration quorum_lease_rest(quorum_time least, quorum_time now, uint32_t drift_ppm, quorum_duration most)
{
    quorum_duration left = quorum_time_until(least, now);
    quorum_duration ttl = left ? quorum_shortest_ttl(left, drift_ppm) : 0;
    return ttl < most ? ttl : most;
}

static quorum_duration renewal_pause(const struct quorum_lease *lease)
{
    return lease->terms.ttl / 100 * lease->terms.renewal_percent;
}

/*
 * At renewal_percent of the ttl, minus a random tenth, so that locks acquired together are not renewed together. With
 * very many locks the first renewals are spread further, down to a quarter of that time; later ones stay spread.
 */
static void plan_renewal(struct quorum_lease *lease, const struct quorum_lease_event *event)
{
    quorum_duration pause = renewal_pause(lease);
    quorum_duration spread = event->type == QUORUM_LEASE_GRANTED ? event->spread : 0;
    if (spread > pause - pause / 4)
        spread = pause - pause / 4;
    if (spread < pause / 10)
        spread = pause / 10;
    lease->renew_at = pause ? quorum_time_add(event->now, pause - event->random % (spread + 1)) : QUORUM_NEVER;
}

static void plan_retry(struct quorum_lease *lease, quorum_time now)
{
    quorum_duration pause = quorum_time_until(lease->validity_end, now) / RETRY_DIVISOR;
    lease->renew_at = quorum_time_add(now, pause > retry_least ? pause : retry_least);
}

static void lose(struct quorum_lease *lease, struct quorum_lease_actions *actions, enum quorum_loss loss)
{
    lease->loss = loss;
    lease->renew_at = QUORUM_NEVER;
    actions->lost = loss;
}

void quorum_lease_begin_turns(struct quorum_lease *lease, quorum_time now)
{
    lease->turns.since = now;
    lease->turns.round_end = lease->validity_end;
    for (unsigned i = 0; i < lease->turns.nodes; i++)
        lease->turns.kept[i] = 0;
}

/* The later of the two ends counts: a late reply may support less than an earlier one. */
static void carry_on(struct quorum_lease *lease, quorum_time validity_end, quorum_time now)
{
    if (validity_end > lease->validity_end)
        lease->validity_end = validity_end;
    if (quorum_time_until(lease->validity_end, now) > lease->terms.notify_before)
        lease->notified = false;
}

/* A majority has confirmed it in a round. */
static void confirm(struct quorum_lease *lease, const struct quorum_lease_event *event,
                    struct quorum_lease_actions *actions)
{
    carry_on(lease, event->validity_end, event->now);
    quorum_lease_begin_turns(lease, event->now);
    actions->confirmed = true;
}

/* The latest time until which a majority keeps the key; 0: none does. */
static quorum_time kept_by_majority(const struct quorum_lease_turns *turns)
{
    quorum_time latest = 0;
    for (unsigned i = 0; i < turns->nodes; i++) {
        unsigned keep = 0;
        for (unsigned k = 0; k < turns->nodes; k++)
            keep += turns->kept[k] >= turns->kept[i];
        if (keep >= quorum_majority(turns->nodes) && turns->kept[i] > latest)
            latest = turns->kept[i];
    }
    return latest;
}

/* The next round stays as far from the end as it was. It is due at once where a node fails. */
static void renewed_in_turn(struct quorum_lease *lease, const struct quorum_lease_event *event,
                            struct quorum_lease_actions *actions)
{
    const quorum_time end = lease->validity_end;
    if (event->sent <= lease->turns.since)
        return;
    lease->turns.kept[event->node] = event->granted ? event->validity_end : 0;
    carry_on(lease, kept_by_majority(&lease->turns), event->now);
    actions->confirmed = lease->validity_end > end;
    if (lease->renew_at != QUORUM_NEVER)
        lease->renew_at = event->granted ? quorum_time_add(lease->renew_at, lease->validity_end - end) : event->now;
}

static void renewed(struct quorum_lease *lease, const struct quorum_lease_event *event,
                    struct quorum_lease_actions *actions)
{
    if (event->verdict == QUORUM_WON) {
        lease->failures = 0;
        confirm(lease, event, actions);
        plan_renewal(lease, event);
    } else if (event->verdict == QUORUM_LOST_GONE) {
        lose(lease, actions, QUORUM_LOSS_GONE); /* an end in the past would have been detected before */
    } else {
        actions->failing = lease->failures++ == 0;
        plan_retry(lease, event->now);
    }
}

/* The node may have executed the present renewal before it lost its data: then another one follows. */
static void hasten(struct quorum_lease *lease, const struct quorum_lease_event *event)
{
    quorum_time due = quorum_time_add(event->now, event->random % (event->spread + 1));
    if (due < lease->hasten_to)
        lease->hasten_to = due;
}

/* The nodes are late, not gone. The failure stays recorded, because this may confirm an earlier renewal; but the next
 * renewal follows from the present validity. */
static void confirmed(struct quorum_lease *lease, const struct quorum_lease_event *event)
{
    if (event->ttl > lease->terms.ttl)
        lease->terms.ttl = event->ttl;
    carry_on(lease, event->validity_end, event->now);
    if (lease->failures && lease->renew_at != QUORUM_NEVER)
        plan_retry(lease, event->now);
}

/* Each of its holders gets the renewal, the least time and the warning that it asked for: the longer one counts. */
static void join(struct quorum_lease *lease, const struct quorum_lease_event *event)
{
    const struct quorum_lease_terms *joined = event->joined;
    quorum_time cap = joined->renewal_percent ? joined->cap : 0;
    if (!lease->terms.renewal_percent) {
        lease->terms.renewal_percent = joined->renewal_percent;
        lease->terms.cap = 0;
    }
    if (cap > lease->terms.cap) {
        lease->terms.cap = cap;
        if (lease->renew_at == QUORUM_NEVER)
            lease->renew_at = event->now;
    }
    if (joined->least > lease->terms.least)
        lease->terms.least = joined->least;
    if (joined->notify_before > lease->terms.notify_before) {
        lease->terms.notify_before = joined->notify_before;
        lease->notified = false;
    }
}

static void take(struct quorum_lease *lease, const struct quorum_lease_event *event,
                 struct quorum_lease_actions *actions)
{
    switch (event->type) { /* GCOVR_EXCL_BR_LINE: there are no other events */
    case QUORUM_LEASE_GRANTED:
        lease->validity_end = event->validity_end;
        quorum_lease_begin_turns(lease, event->now);
        plan_renewal(lease, event);
        break;
    case QUORUM_LEASE_WOKEN:
        break;
    case QUORUM_LEASE_RENEWED:
        renewed(lease, event, actions);
        break;
    case QUORUM_LEASE_IN_TURN:
        renewed_in_turn(lease, event, actions);
        break;
    case QUORUM_LEASE_CONFIRMED:
        confirmed(lease, event);
        break;
    case QUORUM_LEASE_EXTENDED:
        if (event->ttl > lease->terms.ttl)
            lease->terms.ttl = event->ttl;
        confirm(lease, event, actions);
        break;
    case QUORUM_LEASE_JOINED:
        join(lease, event);
        break;
    case QUORUM_LEASE_HASTEN:
        hasten(lease, event);
        break;
    case QUORUM_LEASE_CLOCK:
        lose(lease, actions, QUORUM_LOSS_CLOCK);
        break;
    case QUORUM_LEASE_CLOSED:
        lose(lease, actions, QUORUM_LOSS_CLOSED);
        break;
    }
}

/* Renewals that are off, beyond their cap or in progress are not hastened. */
static quorum_time renewal_due(const struct quorum_lease *lease)
{
    return lease->renew_at != QUORUM_NEVER && lease->hasten_to < lease->renew_at ? lease->hasten_to : lease->renew_at;
}

/* Events of the clock alone. */
static void look_at_clock(struct quorum_lease *lease, quorum_time now, struct quorum_lease_actions *actions)
{
    if (now >= lease->validity_end) {
        lose(lease, actions, QUORUM_LOSS_EXPIRED);
        return;
    }
    if (!lease->notified && lease->validity_end - now <= lease->terms.notify_before)
        lease->notified = actions->ending = true;
    if (now < renewal_due(lease))
        return;
    actions->renew = renewal_ttl(lease, now);
    lease->hasten_to = QUORUM_NEVER;
    lease->renew_at = QUORUM_NEVER; /* until it is decided; beyond the cap the lock ends by itself */
}

struct quorum_lease_actions quorum_lease_step(struct quorum_lease *lease, const struct quorum_lease_event *event)
{
    struct quorum_lease_actions actions = {0, false, false, false, QUORUM_NOT_LOST};
    if (is_over(lease))
        return actions; /* final: no later event restores it */
    /* An event after the end cannot extend the lock: another client may hold it. */
    if (event->type == QUORUM_LEASE_GRANTED || event->now < lease->validity_end)
        take(lease, event, &actions);
    if (!is_over(lease))
        look_at_clock(lease, event->now, &actions);
    return actions;
}

quorum_time quorum_lease_deadline(const struct quorum_lease *lease)
{
    if (is_over(lease))
        return QUORUM_NEVER;
    quorum_time deadline = lease->validity_end;
    if (renewal_due(lease) < deadline)
        deadline = renewal_due(lease);
    if (!lease->notified) {
        quorum_duration before =
            lease->terms.notify_before < lease->validity_end ? lease->terms.notify_before : lease->validity_end;
        if (lease->validity_end - before < deadline)
            deadline = lease->validity_end - before;
    }
    return deadline;
}

/* All turns of a majority, and of one more node, are to come within the time between two rounds. */
quorum_duration quorum_lease_in_turn(const struct quorum_lease *lease, unsigned node, quorum_duration interval,
                                     quorum_time now)
{
    const struct quorum_lease_turns *turns = &lease->turns;
    if (is_over(lease) || lease->renew_at == QUORUM_NEVER || lease->failures ||
        interval / turns->nodes * (quorum_majority(turns->nodes) + 1) > renewal_pause(lease))
        return 0;
    quorum_duration rest = quorum_time_until(lease->validity_end, lease->renew_at); /* left when a round is due */
    quorum_time kept = turns->kept[node] > turns->round_end ? turns->kept[node] : turns->round_end;
    return quorum_time_until(kept, now) < quorum_time_add(interval, rest) ? renewal_ttl(lease, now) : 0;
}

bool quorum_lease_may_heal(const struct quorum_lease *lease)
{
    return !lease->loss && !lease->failures;
}

quorum_duration quorum_lease_patience(const struct quorum_lease *lease, quorum_time now)
{
    return quorum_time_until(lease->validity_end, now) / 2;
}
