#include "src/lock/round.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "src/core/result.h"
#include "src/lock/held_by.h"
#include "src/lock/locks.h"
#include "src/lock/round_command.h"
#include "src/lock/vote.h"
#include "src/node/guard.h"

/* ---------------------------------------------------------------------------------------------------------- lifetime */

static void destroy(struct rl_fanout *fanout)
{
    struct rl_round *round = (struct rl_round *)fanout;
    struct rl_locks *locks = round->locks;
    assert(!round->list);
    rl_lease_unref(round->lease);
    if (round->offer)
        rl_lease_unref(round->offer);
    if (round->text)
        rl_core_free(locks->core, round->text);
    if (round->held_by)
        rl_core_free(locks->core, round->held_by);
    rl_core_free(locks->core, round);
}

static const struct rl_fanout_type ask_type = {
    .answered = rl_vote_answered, .proven = rl_vote_proven, .resend = rl_vote_resend, .destroy = destroy};
static const struct rl_fanout_type release_type = {
    .answered = rl_undo_answered, .resend = rl_undo_resend, .destroy = destroy};

struct rl_round *rl_round_create(struct rl_lease *lease, enum rl_command_kind command, struct quorum_terms terms)
{
    struct rl_locks *locks = lease->locks;
    bool releases = terms.kind == QUORUM_RELEASE;
    assert(releases == (command == RL_COMMAND_RELEASE));
    terms.nodes = locks->nodes->count;
    terms.drift_ppm = locks->core->options.drift_ppm;
    size_t size = sizeof(struct rl_round) + terms.nodes * sizeof(struct rl_request);
    size_t refusals = releases ? terms.nodes * sizeof(quorum_time) : 0;
    struct rl_round *round = rl_allocate(&locks->core->allocator, size + refusals);
    if (!round)
        return NULL;
    if (releases)
        round->refused_since = (quorum_time *)&round->request[terms.nodes];
    rl_fanout_init(&round->fanout, releases ? &release_type : &ask_type, locks->nodes, round->request, releases);
    round->fanout.grants = terms.kind == QUORUM_ACQUIRE;
    round->fanout.plain = command == RL_COMMAND_SET;
    round->fanout.urgent = terms.kind == QUORUM_EXTEND;
    quorum_round_init(&round->rules, &terms);
    round->locks = locks;
    round->lease = rl_lease_ref(lease);
    round->command = command;
    round->is_downgraded = lease->downgraded;
    return round;
}

/* Puts the round at its place in the list, or takes it off. */
static void link_round(struct rl_round *round, struct rl_round_list *list, bool on)
{
    *(round->previous ? &round->previous->next : &list->first) = on ? round : round->next;
    *(round->next ? &round->next->previous : &list->last) = on ? round : round->previous;
}

void rl_round_enlist(struct rl_round *round, struct rl_round_list *list)
{
    if (round->list)
        link_round(round, round->list, false);
    round->list = list;
    if (!list)
        return;
    round->previous = list->last;
    round->next = NULL;
    link_round(round, list, true);
}

/* ------------------------------------------------------------------------------------------------------------ texts */

/* false: no memory. */
static bool has_texts(struct rl_round *round)
{
    if (!round->text)
        round->text = rl_allocate(&round->locks->core->allocator, round->locks->nodes->count * sizeof *round->text);
    return round->text;
}

void rl_round_note(struct rl_round *round, unsigned node, const char *format, ...)
{
    assert(node < round->locks->nodes->count);
    char *text = NULL; /* without an owner only the log reads it */
    if (!rl_round_is_open(round, node))
        return;
    if (round->renews) /* all renewals fail on a node for the same reason: see redlock_renewal_result() */
        text = round->locks->nodes->node[node].renewal_failure;
    else if ((round->owner || rl_logs(round->locks->core, REDLOCK_LOG_DEBUG)) && has_texts(round))
        text = round->text[node];
    if (!text)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, RL_NODE_TEXT_SIZE, format, arguments);
    va_end(arguments);
}

/* The text of a node that the release is not sent to takes no memory: with many locks in flight every second release has
 * such a node, whose window held the acquire's request back until the other nodes had granted. */
static const char *text_of(const struct rl_round *round, unsigned node)
{
    quorum_nodes absent = round->rules.tally.voted[QUORUM_ABSENT] & ~round->rules.asked;
    if (round->text && round->text[node][0])
        return round->text[node];
    return absent & quorum_node(node) ? "it never had the key" : "";
}

static void explain_node(const struct rl_round *round, unsigned node)
{
    const char *text = text_of(round, node);
    uint32_t latency_us = round->request[node].latency_us;
    enum quorum_vote vote = quorum_tally_vote_of(&round->rules.tally, node);
    char latency[24] = "";
    if (latency_us)
        snprintf(latency, sizeof latency, " after %.1f ms", latency_us / 1000.0);
    rl_log(round->locks->core, REDLOCK_LOG_DEBUG, "  %s: %s%s%s%s", round->locks->nodes->node[node].name,
           redlock_outcome_name((int)vote), latency, text[0] ? ": " : "", text);
}

/* Logs why a lock was granted or not. Looks are left out: they are not about one lock's outcome; and renewals, which
 * are many. */
static void explain(const struct rl_round *round)
{
    static const char *const kinds[] = {[QUORUM_ACQUIRE] = "acquire",
                                        [QUORUM_EXTEND] = "extend",
                                        [QUORUM_ADOPT] = "adopt",
                                        [QUORUM_RELEASE] = "release",
                                        [QUORUM_LOOK] = NULL};
    _Static_assert(sizeof kinds / sizeof *kinds == QUORUM_LOOK + 1, "every kind of round has a name or none");
    struct rl_locks *locks = round->locks;
    const char *kind = kinds[round->rules.terms.kind];
    if (!kind || round->renews || !rl_logs(locks->core, REDLOCK_LOG_DEBUG))
        return;
    /* That an undo finds nothing is no loss of a lock. */
    bool undoes = round->rules.terms.kind == QUORUM_RELEASE && !round->decided;
    redlock_result named = {.holder.label = ""};
    rl_held_by_fill(round->held_by, &named);
    rl_log(locks->core, REDLOCK_LOG_DEBUG, "%s %.100s%s%s%s%s", undoes ? "undo" : kind, round->lease->key[0].bytes,
           undoes ? "" : ": ", undoes ? "" : redlock_status_name(rl_result_status(round->rules.verdict)),
           named.holder.label[0] ? " by " : "", named.holder.label);
    for (unsigned i = 0; i < locks->nodes->count; i++)
        explain_node(round, i);
}

void rl_round_fill(const struct rl_round *round, redlock_result *result)
{
    const struct quorum_tally *tally = &round->rules.tally;
    rl_result_votes(result, tally);
    rl_held_by_fill(round->held_by, result);
    result->kept_releases = quorum_count(round->kept);
    for (unsigned i = 0; i < tally->nodes; i++) {
        result->node[i].latency_us = round->request[i].latency_us;
        snprintf(result->node[i].text, sizeof result->node[i].text, "%s", text_of(round, i));
    }
}

/* ---------------------------------------------------------------------------------------------------------- actions */

/* Nodes that were sent the offer without a subscription have an entry for the waiter, but hand nothing over. */
static void note_offer(struct rl_round *round, quorum_nodes nodes, bool subscribed)
{
    if (!round->offer)
        return;
    round->offer->may_hold |= nodes;
    round->offer->queueing.offered |= subscribed ? nodes : 0;
}

/* special: the nodes are subscribed to, or name the holder in their reply to a SET, or release nothing but the lock. */
static quorum_nodes send(struct rl_round *round, quorum_nodes nodes, bool special, bool use_eval)
{
    struct rl_command command;
    if (!nodes)
        return 0;
    if (round->rules.terms.kind != QUORUM_RELEASE && round->lease)
        rl_releases_flush_for(round->lease);
    rl_command_init(&command);
    rl_round_command_format(&command, round, special, use_eval);
    round->fanout.gets = special && round->command == RL_COMMAND_SET;
    quorum_nodes failed = rl_fanout_send(&round->fanout, nodes, &command);
    rl_command_free(&command);
    if (rl_round_is_grant(round))
        round->lease->may_hold |= nodes & ~failed;
    note_offer(round, nodes & ~failed, special);
    return failed;
}

static bool enqueues(const struct rl_round *round)
{
    return round->command == RL_COMMAND_ENQUEUE || round->command == RL_COMMAND_TAKE;
}

static quorum_nodes naming_nodes(const struct rl_round *round, quorum_nodes nodes)
{
    quorum_nodes naming = 0;
    for (; nodes; nodes &= nodes - 1)
        if (round->locks->nodes->node[__builtin_ctz(nodes)].server.gets)
            naming |= nodes & -nodes;
    return naming;
}

quorum_nodes rl_round_send(struct rl_round *round, quorum_nodes nodes, bool use_eval)
{
    assert(!(nodes & ~quorum_all(round->locks->nodes->count)));
    quorum_nodes special = 0, failed = 0;
    if (enqueues(round))
        special = nodes & rl_listeners_up(round->locks->nodes);
    else if (round->command == RL_COMMAND_SET)
        special = naming_nodes(round, nodes);
    else if (round->command == RL_COMMAND_RELEASE)
        special = nodes & round->lease->queueing.only_lock;
    if (round->command == RL_COMMAND_TRUST) { /* each node's marker says something else */
        for (; nodes; nodes &= nodes - 1) {
            round->trusted = (unsigned)__builtin_ctz(nodes);
            failed |= send(round, quorum_node(round->trusted), false, use_eval);
        }
        return failed;
    }
    return send(round, special, true, use_eval) | send(round, nodes & ~special, false, use_eval);
}

void rl_round_count_out(struct rl_round *round, unsigned node, enum quorum_vote vote, bool permanent, quorum_time now)
{
    assert(vote != QUORUM_GRANTED); /* only a reply grants */
    const struct quorum_event event = {
        .type = QUORUM_VOTED, .now = now, .node = node, .vote = vote, .permanent = permanent};
    rl_round_step(round, &event);
}

static void ask_nodes(struct rl_round *round, quorum_nodes nodes)
{
    quorum_nodes failed = rl_round_send(round, nodes, false);
    /* After all sends, because a vote can decide the round, which ends the sending. */
    for (; failed; failed &= failed - 1) {
        unsigned node = (unsigned)__builtin_ctz(failed);
        rl_round_note(round, node, "the request could not be sent");
        rl_round_count_out(round, node, QUORUM_UNREACHABLE, false, rl_now());
    }
}

/* A larger max_ttl, learned during the round, ends it like a clock that stopped. */
static bool is_void(const struct rl_round *round, quorum_time now)
{
    return rl_round_is_grant(round) &&
           quorum_guard_voids(round->locks->nodes->guard, round->rules.tally.voted[QUORUM_GRANTED], round->rules.sent,
                              now);
}

void rl_round_step(struct rl_round *round, const struct quorum_event *event)
{
    struct quorum_event stamped = *event;
    stamped.stopped = round->locks->nodes->clock_stopped;
    if (is_void(round, event->now))
        stamped.stopped = event->now;
    struct quorum_actions actions = quorum_round_step(&round->rules, &stamped);
    if (!actions.send && !actions.undo && !actions.decided && !actions.confirmed && !actions.heal)
        return;
    rl_fanout_ref(&round->fanout); /* an action may end the owner's reference */
    if (actions.decided) {
        rl_round_enlist(round, NULL);
        explain(round);
    }
    if (actions.send && round->rules.terms.kind == QUORUM_RELEASE)
        rl_undo_send(round, actions.send);
    else if (actions.send && !round->renews && !rl_round_heals(round))
        ask_nodes(round, actions.send);
    if (actions.undo & round->lease->may_hold)
        rl_lease_undo_later(round->lease);
    if (actions.decided && round->decided)
        round->decided(round);
    if (actions.confirmed)
        rl_lease_confirmed(round->lease, &round->rules, round->renews);
    if (actions.heal)
        rl_leases_heal(round->lease, actions.heal);
    rl_fanout_unref(&round->fanout);
}

/* ------------------------------------------------------------------------------------------------------------ owner */

/* A renewal goes to nodes in quarantine, and to those that hold back other requests; the next one to those that are being
 * connected. */
static struct rl_usable renewable(struct rl_node *node, quorum_time now)
{
    if (rl_node_can_renew(node, now))
        return (struct rl_usable){RL_USABLE, false, QUORUM_PENDING, ""};
    const char *why = rl_node_usable(node, now, false).reason;
    return (struct rl_usable){RL_OUT, false, QUORUM_UNREACHABLE, why && why[0] ? why : "not connected"};
}

static struct rl_usable usability(const struct rl_round *round, struct rl_node *node, quorum_time now)
{
    if (round->command == RL_COMMAND_TRUST && rl_guard_may_take_over(node))
        return (struct rl_usable){RL_USABLE, false, QUORUM_PENDING, ""};
    return round->renews ? renewable(node, now) : rl_node_usable(node, now, rl_round_is_grant(round));
}

static void count_unusable(struct rl_round *round, unsigned node, const struct rl_usable *usable, quorum_time now)
{
    rl_round_note(round, node, "%s", usable->reason);
    rl_round_count_out(round, node, usable->vote, usable->permanent, now);
}

/* Counts the nodes that cannot be sent to, and sorts the others into usable and coming ones. */
static void sort_nodes(struct rl_round *round, struct quorum_event *start)
{
    for (unsigned i = 0; i < round->locks->nodes->count; i++) {
        struct rl_usable usable = usability(round, &round->locks->nodes->node[i], start->now);
        if (usable.is == RL_USABLE)
            start->usable |= quorum_node(i);
        else if (usable.is == RL_COMING)
            start->coming |= quorum_node(i);
        else
            count_unusable(round, i, &usable, start->now);
    }
}

/* A waiter enqueues with a majority: a node that hangs while it is being connected must not hold up the queue. */
static void leave_out_coming(struct rl_round *round, struct quorum_event *start)
{
    if (round->command != RL_COMMAND_ENQUEUE || quorum_count(start->usable) < round->rules.tally.majority)
        return;
    for (; start->coming; start->coming &= start->coming - 1)
        rl_round_count_out(round, (unsigned)__builtin_ctz(start->coming), QUORUM_UNREACHABLE, false, start->now);
}

/* With all_answers the round waits for a node that is connecting; otherwise that node gets the kept undo later. */
static void start_release(struct rl_round *round)
{
    /* A node that was offered the lock may hand it over later: the release takes the offer back. */
    round->lease->may_hold |= round->lease->queueing.offered;
    round->lease->queueing.offered = 0;
    quorum_nodes targets = round->lease->may_hold;
    struct quorum_event start = {.type = QUORUM_START, .now = rl_now(), .usable = targets};
    for (unsigned i = 0; round->rules.terms.all_answers && i < round->locks->nodes->count; i++)
        if (rl_node_usable(&round->locks->nodes->node[i], start.now, false).is == RL_COMING)
            start.coming |= targets & quorum_node(i);
    start.usable &= ~start.coming;
    rl_round_step(round, &start);
    for (unsigned i = 0; i < round->locks->nodes->count; i++)
        if (!(targets & quorum_node(i)) && !quorum_round_over(&round->rules))
            rl_round_count_out(round, i, QUORUM_ABSENT, false, start.now);
}

void rl_round_begin(struct rl_round *round)
{
    assert(!quorum_round_over(&round->rules) && !round->rules.asked && !round->list);
    rl_fanout_ref(&round->fanout);
    if (round->rules.terms.kind == QUORUM_RELEASE) {
        start_release(round);
    } else {
        if (!round->renews)
            rl_detached_retry(round->locks); /* otherwise the keys of failed attempts could block this round */
        struct quorum_event start = {.type = QUORUM_START, .now = rl_now()};
        sort_nodes(round, &start);
        leave_out_coming(round, &start);
        rl_round_step(round, &start);
    }
    if (!quorum_round_over(&round->rules) && round->rules.coming)
        rl_round_enlist(round, &round->locks->coming); /* every node gets the requests in the order of this list */
    rl_fanout_unref(&round->fanout);
}

/* The result of a round that waited for its turn shows which nodes could not have had the request. */
static void count_unusable_ones(struct rl_round *round, quorum_time now)
{
    for (unsigned i = 0; i < round->locks->nodes->count && rl_round_is_waiting(round); i++) {
        struct rl_usable usable = usability(round, &round->locks->nodes->node[i], now);
        if (usable.is == RL_OUT)
            count_unusable(round, i, &usable, now);
    }
}

void rl_round_cancel(struct rl_round *round)
{
    const struct quorum_event cancel = {.type = QUORUM_CANCEL, .now = rl_now()};
    round->decided = NULL;
    count_unusable_ones(round, cancel.now);
    rl_round_step(round, &cancel);
    assert(quorum_round_over(&round->rules));
}

bool rl_round_has_unread_replies(const struct rl_round *round)
{
    if (quorum_round_over(&round->rules))
        return false;
    for (unsigned i = 0; i < round->locks->nodes->count; i++)
        if (rl_round_is_open(round, i) && rl_node_has_unread_replies(&round->locks->nodes->node[i]))
            return true;
    return false;
}

void rl_round_stop_waiting(struct rl_round *round, const char *why)
{
    quorum_time now = rl_now();
    rl_fanout_ref(&round->fanout);
    for (unsigned i = 0; i < round->locks->nodes->count && !quorum_round_over(&round->rules); i++)
        if (rl_round_is_open(round, i)) {
            rl_round_note(round, i, "%s", why);
            rl_round_count_out(round, i, QUORUM_TIMED_OUT, false, now);
        }
    assert(quorum_round_over(&round->rules)); /* every node has been counted */
    rl_fanout_unref(&round->fanout);
}

/* A node that is being connected keeps the release, and gets it when it is ready. */
void rl_round_go_on(struct rl_round *round)
{
    assert(round->rules.terms.kind == QUORUM_RELEASE);
    round->decided = round->overdue = NULL;
    rl_fanout_ref(&round->fanout);
    for (quorum_nodes left = round->rules.coming; left; left &= left - 1) {
        const struct quorum_event event = {
            .type = QUORUM_USABLE, .now = rl_now(), .node = (unsigned)__builtin_ctz(left)};
        rl_round_step(round, &event);
    }
    rl_fanout_unref(&round->fanout);
}

/* A round that waits for its turn waits for them, too. */
static quorum_nodes coming_nodes(const struct rl_round *round, quorum_time now)
{
    quorum_nodes coming = 0, left = round->rules.tally.voted[QUORUM_PENDING] & ~round->rules.asked;
    for (; left && !quorum_round_over(&round->rules); left &= left - 1)
        if (usability(round, &round->locks->nodes->node[__builtin_ctz(left)], now).is == RL_COMING)
            coming |= left & -left;
    return coming;
}

bool rl_round_awaits_connection(const struct rl_round *round)
{
    return coming_nodes(round, rl_now());
}

void rl_round_stop_reconnecting(struct rl_round *round)
{
    quorum_time now = rl_now();
    rl_fanout_ref(&round->fanout);
    for (quorum_nodes left = coming_nodes(round, now); left && !quorum_round_over(&round->rules); left &= left - 1) {
        const struct rl_node *node = &round->locks->nodes->node[__builtin_ctz(left)];
        if (!node->attempts.ready_since)
            continue;
        rl_round_note(round, node->index, "%s", node->attempts.error[0] ? node->attempts.error : "reconnecting");
        rl_round_count_out(round, node->index, QUORUM_UNREACHABLE, false, now);
    }
    rl_fanout_unref(&round->fanout);
}

void rl_round_leave(struct rl_round *round)
{
    if (!round)
        return;
    round->decided = NULL;
    round->overdue = NULL;
    round->replied = NULL;
    round->owner = NULL;
    rl_round_enlist(round, NULL);
    rl_fanout_unref(&round->fanout);
}

static void node_changed(struct rl_round *round, struct rl_node *node)
{
    quorum_time now = rl_now();
    if (!(round->rules.coming & quorum_node(node->index)))
        return;
    struct rl_usable usable = usability(round, node, now);
    if (usable.is == RL_COMING)
        return;
    if (usable.is == RL_OUT && round->rules.terms.kind != QUORUM_RELEASE) {
        count_unusable(round, node->index, &usable, now);
        return;
    }
    const struct quorum_event event = {.type = QUORUM_USABLE, .now = now, .node = node->index};
    rl_round_step(round, &event);
}

/* The end of one round may end others: after a round has left the list, the walk starts again. A round handles each
 * change once. */
void rl_rounds_node_changed(struct rl_locks *locks, struct rl_node *node)
{
    struct rl_round *next;
    for (struct rl_round *round = locks->coming.first; round; round = next) {
        rl_fanout_ref(&round->fanout);
        node_changed(round, node);
        next = round->list ? round->next : locks->coming.first;
        rl_fanout_unref(&round->fanout);
    }
}

/* -------------------------------------------------------------------------------------------------------- admission */

/* Nodes that hang send nothing that would start a turn of the loop. */
#define ADMISSION_CHECK (100 * QUORUM_MILLISECOND)

void rl_round_start(struct rl_round *round)
{
    struct rl_locks *locks = round->locks;
    if (rl_round_is_grant(round) && (locks->waiting.first || rl_nodes_are_crowded(locks->nodes)))
        rl_round_enlist(round, &locks->waiting);
    else
        rl_round_begin(round);
}

void rl_rounds_admit(struct rl_locks *locks)
{
    while (locks->waiting.first && !rl_nodes_are_crowded(locks->nodes)) {
        struct rl_round *round = locks->waiting.first;
        rl_round_enlist(round, NULL);
        rl_round_begin(round);
    }
    if (locks->waiting.first && !locks->admission_timer.set)
        rl_timer_set(&locks->core->timers, &locks->admission_timer, rl_now() + ADMISSION_CHECK);
}
