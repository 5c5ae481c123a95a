#include "rules/round_oracle.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>

#include "rules/wide.h"

/* The recorded events. While the test walks a tree of events, each subject overwrites the entries beyond its `steps`,
 * which belong to an abandoned subject. */
#define STORY_MAX 512
static struct quorum_event story[STORY_MAX];

static const char *const type_names[] = {"start", "usable", "voted", "handed over", "overdue", "cancel"};
static const char *const vote_names[] = {"pending", "granted",     "held",      "absent",
                                         "refused", "unreachable", "timed out", "unattested"};
static const char *const kind_names[] = {"acquire", "extend", "adopt", "release", "look"};

static void print_event(const struct quorum_event *event)
{
    fprintf(stderr, "  %" PRIu64 " %s, node %u %s%s%s, usable %x coming %x\n", event->now, type_names[event->type],
            event->node, vote_names[event->vote], event->permanent ? " for good" : "",
            event->left_nothing ? ", left nothing" : "", event->usable, event->coming);
}

/* Prints the events that led to the failure. */
_Noreturn static void give_up(const struct subject *subject, const char *why)
{
    const struct quorum_terms *terms = &subject->oracle.terms;
    fprintf(stderr, "%s over %u nodes, ttl %" PRIu64 ", minimum %" PRIu64 ", held until %" PRIu64 ":\n",
            kind_names[terms->kind], terms->nodes, terms->ttl, terms->minimum_validity, terms->validity_end);
    for (unsigned i = 0; i < subject->steps; i++)
        print_event(&story[i]);
    fprintf(stderr, "verdict %d, expected %d\n", (int)subject->round.verdict, (int)subject->oracle.verdict);
    ck_abort_msg("%s", why);
}

/* --------------------------------------------------------------------------------------------------------- counting */

static unsigned count_votes(const struct oracle *oracle, enum quorum_vote vote)
{
    unsigned count = 0;
    for (unsigned i = 0; i < oracle->terms.nodes; i++)
        count += oracle->node[i].voted && oracle->node[i].vote == vote;
    return count;
}

static unsigned open_nodes(const struct oracle *oracle)
{
    unsigned count = 0;
    for (unsigned i = 0; i < oracle->terms.nodes; i++)
        count += !oracle->node[i].voted;
    return count;
}

static unsigned count_permanent(const struct oracle *oracle)
{
    unsigned count = 0;
    for (unsigned i = 0; i < oracle->terms.nodes; i++)
        count += oracle->node[i].voted && oracle->node[i].permanent;
    return count;
}

static bool is_majority(const struct oracle *oracle, unsigned count)
{
    return 2 * count > oracle->terms.nodes;
}

/* Whether a majority is left without this many nodes. */
static bool majority_without(const struct oracle *oracle, unsigned count)
{
    return is_majority(oracle, oracle->terms.nodes - count);
}

/* ---------------------------------------------------------------------------------------------------------- verdict */

static quorum_time own_end(const struct oracle *oracle)
{
    return wide_validity_end(oracle->sent, oracle->terms.ttl, oracle->terms.drift_ppm);
}

static enum quorum_verdict verdict_of_majority(const struct oracle *oracle, quorum_time now)
{
    quorum_time end = own_end(oracle);
    bool enough = (wide)now + oracle->terms.minimum_validity <= end;
    if ((oracle->terms.kind == QUORUM_ACQUIRE || oracle->terms.kind == QUORUM_ADOPT) && !enough)
        return QUORUM_LOST_TOO_SLOW;
    if (oracle->terms.kind == QUORUM_EXTEND && now >= oracle->terms.validity_end)
        return QUORUM_LOST_TOO_SLOW;
    return QUORUM_WON;
}

static enum quorum_verdict verdict_of_minority(const struct oracle *oracle)
{
    unsigned down = count_votes(oracle, QUORUM_REFUSED) + count_votes(oracle, QUORUM_UNREACHABLE) +
                    count_votes(oracle, QUORUM_TIMED_OUT) + count_votes(oracle, QUORUM_UNATTESTED);
    unsigned without_ours = count_votes(oracle, QUORUM_ABSENT) + count_votes(oracle, QUORUM_HELD);
    if (!majority_without(oracle, count_permanent(oracle)))
        return QUORUM_LOST_MISCONFIGURED;
    if (oracle->terms.kind == QUORUM_ACQUIRE)
        return majority_without(oracle, down) ? QUORUM_LOST_HELD : QUORUM_LOST_NO_QUORUM;
    return majority_without(oracle, without_ours) ? QUORUM_LOST_NO_QUORUM : QUORUM_LOST_GONE;
}

/* Once a release can no longer change its verdict, it waits only for nodes that are not late yet. */
static unsigned count_awaited(const struct oracle *oracle)
{
    unsigned granted = count_votes(oracle, QUORUM_GRANTED), punctual = 0;
    for (unsigned i = 0; i < oracle->terms.nodes; i++)
        punctual += !oracle->node[i].voted && !oracle->node[i].late;
    bool open = !is_majority(oracle, granted) && is_majority(oracle, granted + open_nodes(oracle));
    return open ? open_nodes(oracle) : punctual;
}

/* Whether the round is decided now, and with which verdict. */
static bool decide(const struct oracle *oracle, quorum_time now, enum quorum_verdict *verdict)
{
    unsigned granted = count_votes(oracle, QUORUM_GRANTED);
    if (oracle->cancelled)
        *verdict = QUORUM_LOST_CANCELLED;
    else if (oracle->terms.kind == QUORUM_LOOK && open_nodes(oracle) > 0)
        return false; /* a look waits for every reply */
    else if (oracle->terms.all_answers && oracle->terms.kind == QUORUM_RELEASE && count_awaited(oracle) > 0)
        return false; /* no request of the round may arrive after the caller's callback */
    else if (oracle->terms.all_answers && oracle->terms.kind != QUORUM_RELEASE && is_majority(oracle, granted) &&
             open_nodes(oracle) > 0)
        return false;
    else if (is_majority(oracle, granted))
        *verdict = verdict_of_majority(oracle, now);
    else if (!is_majority(oracle, granted + open_nodes(oracle)))
        *verdict = verdict_of_minority(oracle);
    else
        return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ steps */

/* Nothing is sent after the verdict, except by a release: every node that may have the key gets it. */
static bool may_ask(const struct oracle *oracle, unsigned node)
{
    return !oracle->node[node].asked && !oracle->node[node].voted &&
           (!oracle->over || oracle->terms.kind == QUORUM_RELEASE);
}

static quorum_nodes ask_if(struct oracle *oracle, unsigned node, bool wanted, quorum_time now)
{
    if (!wanted || !may_ask(oracle, node))
        return 0;
    oracle->node[node].asked = true;
    if (oracle->sent == QUORUM_NEVER)
        oracle->sent = now;
    return quorum_node(node);
}

static quorum_nodes start(struct oracle *oracle, const struct quorum_event *event)
{
    quorum_nodes send = 0;
    oracle->started = true;
    for (unsigned i = 0; i < oracle->terms.nodes; i++) {
        oracle->node[i].coming = event->coming >> i & 1;
        send |= ask_if(oracle, i, event->usable >> i & 1, event->now);
    }
    return send;
}

/* A node that replied too late to an extension has executed it all the same. */
static bool is_late_grant(const struct oracle *oracle, const struct oracle_node *node, const struct quorum_event *event)
{
    return oracle->terms.kind == QUORUM_EXTEND && node->asked && node->voted && node->vote == QUORUM_TIMED_OUT &&
           event->vote == QUORUM_GRANTED && (!oracle->over || oracle->verdict == QUORUM_LOST_NO_QUORUM);
}

static void take_vote(struct oracle *oracle, const struct quorum_event *event)
{
    struct oracle_node *node = &oracle->node[event->node];
    node->clean |= event->left_nothing;
    if (is_late_grant(oracle, node, event))
        node->vote = QUORUM_GRANTED;
    if (node->voted)
        return;
    node->voted = true;
    node->vote = event->vote;
    node->permanent = event->permanent;
}

static quorum_nodes may_hold(const struct oracle *oracle)
{
    quorum_nodes nodes = 0;
    for (unsigned i = 0; i < oracle->terms.nodes; i++)
        if (oracle->terms.kind == QUORUM_ACQUIRE && oracle->node[i].asked && !oracle->node[i].clean)
            nodes |= quorum_node(i);
    return nodes;
}

static void take_overdue(struct oracle *oracle, unsigned index)
{
    struct oracle_node *node = &oracle->node[index];
    if (node->voted)
        return;
    node->late = true;
    node->voted = oracle->terms.kind != QUORUM_RELEASE;
    node->vote = QUORUM_TIMED_OUT;
}

static bool gives_validity(enum quorum_kind kind)
{
    return kind == QUORUM_ACQUIRE || kind == QUORUM_EXTEND || kind == QUORUM_ADOPT;
}

static void finish(struct oracle *oracle, enum quorum_verdict verdict, quorum_time now)
{
    oracle->over = true;
    oracle->verdict = verdict;
    oracle->decided_at = now;
    for (unsigned i = 0; i < oracle->terms.nodes; i++)
        oracle->node[i].voted |= oracle->node[i].late;
    if (verdict != QUORUM_WON || !gives_validity(oracle->terms.kind))
        return;
    quorum_time end = own_end(oracle);
    oracle->validity_end = end > oracle->terms.validity_end ? end : oracle->terms.validity_end;
}

/* Whether this event confirms an extension that was lost by timeouts, with validity left. */
static bool confirm_late(struct oracle *oracle, const struct quorum_event *event)
{
    if (oracle->confirmed || !oracle->over || event->type != QUORUM_VOTED)
        return false;
    if (oracle->terms.kind != QUORUM_EXTEND || oracle->verdict != QUORUM_LOST_NO_QUORUM)
        return false;
    if (!is_majority(oracle, count_votes(oracle, QUORUM_GRANTED)))
        return false;
    if (own_end(oracle) <= event->now || own_end(oracle) <= oracle->terms.validity_end)
        return false;
    oracle->confirmed = true;
    oracle->validity_end = own_end(oracle);
    return true;
}

/* An extension that was won, when each node has been counted. */
static quorum_nodes heal_once(struct oracle *oracle)
{
    quorum_nodes lacking = 0;
    bool settled = oracle->terms.kind == QUORUM_EXTEND && oracle->over && oracle->verdict == QUORUM_WON;
    for (unsigned i = 0; i < oracle->terms.nodes; i++) {
        settled = settled && oracle->node[i].voted;
        lacking |= oracle->node[i].vote == QUORUM_ABSENT ? quorum_node(i) : 0;
    }
    if (!settled || oracle->settled)
        return 0;
    oracle->settled = true;
    return lacking;
}

static struct quorum_actions oracle_step(struct oracle *oracle, const struct quorum_event *event)
{
    struct quorum_actions actions = {0};
    enum quorum_verdict verdict = QUORUM_UNDECIDED;
    switch (event->type) {
    case QUORUM_START:
        actions.send = start(oracle, event);
        break;
    case QUORUM_USABLE:
        actions.send = ask_if(oracle, event->node, oracle->node[event->node].coming, event->now);
        break;
    case QUORUM_VOTED:
        take_vote(oracle, event);
        break;
    case QUORUM_OVERDUE:
        take_overdue(oracle, event->node);
        break;
    case QUORUM_HANDED: /* see round_test.c */
        break;
    case QUORUM_CANCEL:
        oracle->cancelled = true;
        break;
    }
    if (!oracle->over && decide(oracle, event->now, &verdict)) {
        finish(oracle, verdict, event->now);
        actions.decided = true;
        if (verdict != QUORUM_WON)
            actions.undo = may_hold(oracle);
    }
    actions.confirmed = confirm_late(oracle, event);
    actions.heal = heal_once(oracle);
    return actions;
}

/* ------------------------------------------------------------------------------------------------------- comparison */

static void check(const struct subject *subject, bool holds, const char *what)
{
    if (!holds)
        give_up(subject, what);
}

/* Every node is in its class, and in no other. */
static void check_votes(const struct subject *subject)
{
    const struct oracle *oracle = &subject->oracle;
    const quorum_nodes *voted = subject->round.tally.voted;
    quorum_nodes right = 0;
    uint64_t sum = 0;
    for (unsigned i = 0; i < oracle->terms.nodes; i++)
        right |= voted[oracle->node[i].voted ? oracle->node[i].vote : QUORUM_PENDING] & quorum_node(i);
    for (unsigned vote = 0; vote < QUORUM_VOTES; vote++)
        sum += voted[vote];
    check(subject, right == quorum_all(oracle->terms.nodes), "who voted what");
    check(subject, sum == right, "a node in two classes");
}

static void check_nodes(const struct subject *subject)
{
    const struct quorum_round *round = &subject->round;
    const struct oracle *oracle = &subject->oracle;
    quorum_nodes asked = 0, permanent = 0, coming = 0;
    for (unsigned i = 0; i < oracle->terms.nodes; i++) {
        const struct oracle_node *node = &oracle->node[i];
        asked |= (quorum_nodes)node->asked << i;
        permanent |= (quorum_nodes)node->permanent << i;
        coming |= (quorum_nodes)(node->coming && may_ask(oracle, i)) << i;
    }
    check(subject, round->asked == asked, "who was asked");
    check(subject, round->coming == coming, "who may be asked later");
    check(subject, round->may_hold == may_hold(oracle), "who may hold the key");
    check(subject, round->tally.permanent == permanent, "who refuses for good");
}

static void check_verdict(const struct subject *subject)
{
    const struct quorum_round *round = &subject->round;
    const struct oracle *oracle = &subject->oracle;
    check(subject, quorum_round_over(round) == oracle->over, "over or not");
    check(subject, round->verdict == (oracle->over ? oracle->verdict : QUORUM_UNDECIDED), "the verdict");
    check(subject, round->sent == oracle->sent, "the first send");
    check(subject, !oracle->over || round->decided_at == oracle->decided_at, "when it was decided");
    check(subject, round->validity_end == oracle->validity_end, "the end of validity");
    check(subject, round->confirmed == oracle->confirmed, "confirmed late or not");
}

void subject_init(struct subject *subject, const struct quorum_terms *terms)
{
    quorum_round_init(&subject->round, terms);
    subject->oracle = (struct oracle){.terms = *terms, .sent = QUORUM_NEVER};
    subject->steps = 0;
    check_votes(subject);
    check_nodes(subject);
    check_verdict(subject);
}

void subject_step(struct subject *subject, const struct quorum_event *event)
{
    if (subject->steps == STORY_MAX)
        give_up(subject, "the story is too long");
    story[subject->steps++] = *event;
    struct quorum_actions expected = oracle_step(&subject->oracle, event);
    struct quorum_actions actions = quorum_round_step(&subject->round, event);
    check(subject, actions.decided == expected.decided, "decided too early, too late or twice");
    check(subject, actions.confirmed == expected.confirmed, "confirmed too early, too late or twice");
    check(subject, actions.heal == expected.heal, "nodes to heal");
    check(subject, actions.send == expected.send, "who is asked now");
    check(subject, actions.undo == expected.undo, "who is sent the undo");
    check_votes(subject);
    check_nodes(subject);
    check_verdict(subject);
}
