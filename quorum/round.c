#include "quorum/round.h"

#include <assert.h>
#include <string.h>

#include "quorum/validity.h"

void quorum_round_init(struct quorum_round *round, const struct quorum_terms *terms)
{
    assert((terms->kind != QUORUM_ACQUIRE && terms->kind != QUORUM_ADOPT) || terms->minimum_validity >= 1);
    memset(round, 0, sizeof *round);
    round->terms = *terms;
    round->sent = QUORUM_NEVER;
    quorum_tally_init(&round->tally, terms->nodes);
}

/* A decided round sends no requests; except a release, to nodes that may hold the key. */
static bool may_ask(const struct quorum_round *round)
{
    return !quorum_round_over(round) || round->terms.kind == QUORUM_RELEASE;
}

static void ask(struct quorum_round *round, struct quorum_actions *actions, quorum_nodes nodes, quorum_time now)
{
    if (!nodes || !may_ask(round))
        return;
    if (round->sent == QUORUM_NEVER)
        round->sent = now; /* the first send, not the last: every node's ttl started after it */
    round->asked |= nodes;
    round->coming &= ~nodes;
    if (round->terms.kind == QUORUM_ACQUIRE)
        round->may_hold |= nodes;
    actions->send |= nodes;
}

/* The nodes that the round has waited for until now. */
static void count_overdue(struct quorum_round *round)
{
    for (quorum_nodes left = round->overdue & round->tally.voted[QUORUM_PENDING]; left; left &= left - 1)
        quorum_tally_vote(&round->tally, (unsigned)__builtin_ctz(left), QUORUM_TIMED_OUT, false);
}

static void decide(struct quorum_round *round, struct quorum_actions *actions, enum quorum_verdict verdict,
                   quorum_time now)
{
    assert(round->verdict == QUORUM_UNDECIDED && verdict != QUORUM_UNDECIDED);
    round->verdict = verdict;
    round->decided_at = now;
    count_overdue(round);
    if (!may_ask(round))
        round->coming = 0;
    actions->decided = true;
    if (verdict != QUORUM_WON)
        actions->undo = round->may_hold; /* replied or not: replies are FIFO, so the undo follows a late grant */
}

/* Validity is counted by our clock, from the first request. */
static bool counts_validity(enum quorum_kind kind)
{
    return kind == QUORUM_ACQUIRE || kind == QUORUM_ADOPT || kind == QUORUM_EXTEND;
}

/* A majority granted. Checks the time. */
static enum quorum_verdict judge_won(struct quorum_round *round, quorum_time now, quorum_time stopped)
{
    const struct quorum_terms *terms = &round->terms;
    if (counts_validity(terms->kind) && round->sent <= stopped)
        return QUORUM_LOST_TOO_SLOW; /* the lock may have expired on the nodes while our clock stopped */
    quorum_time end = quorum_validity_end(round->sent, terms->ttl, terms->drift_ppm);
    switch (terms->kind) { /* GCOVR_EXCL_BR_LINE: the fourth exit is the assert below */
    case QUORUM_ACQUIRE:
    case QUORUM_ADOPT:
        if (quorum_time_until(end, now) < terms->minimum_validity)
            return QUORUM_LOST_TOO_SLOW;
        round->validity_end = end;
        return QUORUM_WON;
    case QUORUM_EXTEND:
        if (now >= terms->validity_end)
            return QUORUM_LOST_TOO_SLOW; /* as this round sees it: another round may have extended it meanwhile */
        round->validity_end = end > terms->validity_end ? end : terms->validity_end;
        return QUORUM_WON;
    case QUORUM_RELEASE:
    case QUORUM_LOOK:
        return QUORUM_WON;
    }
    assert(false);                /* GCOVR_EXCL_LINE: there are no other kinds */
    return QUORUM_LOST_NO_QUORUM; /* GCOVR_EXCL_LINE */
}

/* A majority is impossible. Finds the cause. */
static enum quorum_verdict judge_lost(const struct quorum_round *round)
{
    const struct quorum_tally *tally = &round->tally;
    quorum_nodes failed = tally->voted[QUORUM_REFUSED] | tally->voted[QUORUM_UNREACHABLE] |
                          tally->voted[QUORUM_TIMED_OUT] | tally->voted[QUORUM_UNATTESTED];
    if (quorum_tally_blocked_by(tally, tally->permanent))
        return QUORUM_LOST_MISCONFIGURED;
    if (quorum_tally_blocked_by(tally, tally->permanent | round->clock))
        return QUORUM_LOST_CLOCK;
    if (round->terms.kind == QUORUM_ACQUIRE)
        return quorum_tally_blocked_by(tally, failed) ? QUORUM_LOST_NO_QUORUM : QUORUM_LOST_HELD;
    quorum_nodes without_ours = tally->voted[QUORUM_ABSENT] | tally->voted[QUORUM_HELD];
    return quorum_tally_blocked_by(tally, without_ours) ? QUORUM_LOST_GONE : QUORUM_LOST_NO_QUORUM;
}

/* The round waits for a late node only while its reply can decide it. */
static quorum_nodes awaited(const struct quorum_round *round)
{
    bool open = !quorum_tally_won(&round->tally) && !quorum_tally_lost(&round->tally);
    return round->tally.voted[QUORUM_PENDING] & (open ? ~0u : ~round->overdue);
}

static bool waits_for_all(const struct quorum_round *round)
{
    if (round->terms.kind == QUORUM_LOOK)
        return true;
    return round->terms.all_answers && (round->terms.kind == QUORUM_RELEASE || quorum_tally_won(&round->tally));
}

static void judge(struct quorum_round *round, struct quorum_actions *actions, quorum_time now, quorum_time stopped)
{
    if (quorum_round_over(round))
        return;
    if (waits_for_all(round) && awaited(round))
        return;
    if (quorum_tally_won(&round->tally))
        decide(round, actions, judge_won(round, now, stopped), now);
    else if (quorum_tally_lost(&round->tally))
        decide(round, actions, judge_lost(round), now);
}

/* A node that got no request cannot grant. A verdict that timeouts did not cause stays as it is. */
static bool may_count_late(const struct quorum_round *round, quorum_nodes node)
{
    if (round->terms.kind != QUORUM_EXTEND)
        return false;
    if (quorum_round_over(round) && round->verdict != QUORUM_LOST_NO_QUORUM)
        return false;
    return round->asked & round->tally.voted[QUORUM_TIMED_OUT] & node;
}

static void voted(struct quorum_round *round, const struct quorum_event *event)
{
    quorum_nodes bit = quorum_node(event->node);
    /* Validity counts from the first send: a grant without a request would be valid indefinitely. */
    assert(event->vote != QUORUM_GRANTED || (round->asked & bit) || !(round->tally.voted[QUORUM_PENDING] & bit));
    round->coming &= ~bit;
    /* Even a late reply shows whether the node has our key, and so whether the undo is needed. */
    if (event->left_nothing)
        round->may_hold &= ~bit;
    if (event->vote == QUORUM_GRANTED && may_count_late(round, bit))
        quorum_tally_grant_late(&round->tally, event->node);
    else if (quorum_tally_vote(&round->tally, event->node, event->vote, event->permanent) && event->clock)
        round->clock |= bit;
}

/* A lost extension that a majority has confirmed late. */
static void confirm_late(struct quorum_round *round, struct quorum_actions *actions, const struct quorum_event *event)
{
    if (round->terms.kind != QUORUM_EXTEND || round->verdict != QUORUM_LOST_NO_QUORUM || round->confirmed ||
        !quorum_tally_won(&round->tally))
        return;
    quorum_time end = quorum_validity_end(round->sent, round->terms.ttl, round->terms.drift_ppm);
    if (end <= event->now || end <= round->terms.validity_end || round->sent <= event->stopped)
        return;
    round->confirmed = actions->confirmed = true;
    round->validity_end = end;
}

/* Validity is counted from before the earliest of the grants. */
static void handed(struct quorum_round *round, const struct quorum_event *event)
{
    assert(round->terms.kind == QUORUM_ACQUIRE);
    if (quorum_round_over(round))
        return;
    if (event->since < round->sent)
        round->sent = event->since;
    round->asked |= quorum_node(event->node);
    round->may_hold |= quorum_node(event->node);
    quorum_tally_vote(&round->tally, event->node, QUORUM_GRANTED, false);
}

static void overdue(struct quorum_round *round, unsigned node)
{
    if (round->terms.kind == QUORUM_RELEASE)
        round->overdue |= quorum_node(node);
    else
        quorum_tally_vote(&round->tally, node, QUORUM_TIMED_OUT, false);
}

struct quorum_actions quorum_round_step(struct quorum_round *round, const struct quorum_event *event)
{
    struct quorum_actions actions = {0, 0, false, false, 0};
    quorum_nodes pending = round->tally.voted[QUORUM_PENDING];
    switch (event->type) { /* GCOVR_EXCL_BR_LINE: there are no other events */
    case QUORUM_START:
        assert(round->asked == 0 && (event->usable & event->coming) == 0);
        round->coming = may_ask(round) ? event->coming & pending : 0;
        ask(round, &actions, event->usable & pending, event->now);
        break;
    case QUORUM_USABLE:
        ask(round, &actions, round->coming & quorum_node(event->node), event->now);
        break;
    case QUORUM_VOTED:
        voted(round, event);
        judge(round, &actions, event->now, event->stopped);
        confirm_late(round, &actions, event);
        break;
    case QUORUM_HANDED:
        handed(round, event);
        judge(round, &actions, event->now, event->stopped);
        break;
    case QUORUM_OVERDUE:
        overdue(round, event->node);
        judge(round, &actions, event->now, event->stopped);
        break;
    case QUORUM_CANCEL:
        if (!quorum_round_over(round))
            decide(round, &actions, QUORUM_LOST_CANCELLED, event->now);
        break;
    }
    if (pending && !round->tally.voted[QUORUM_PENDING] && quorum_round_finds_absent(round))
        actions.heal = round->tally.voted[QUORUM_ABSENT];
    return actions;
}
