/*
 * Histories of events for the quorum machines: any order, any times and any replies that the contract of a machine
 * allows. The first byte selects the machine. The function named after a machine checks its invariants after every
 * step. tests/rules has exact expectations for rounds, quarantines and retries.
 */
#include "fuzz.h"

#include "quorum/clock_watch.h"
#include "quorum/lease.h"
#include "quorum/waiting.h"

#include <string.h>

/* Advances the time by anything from nothing to an hour, and sometimes to its maximum. */
static quorum_time pass(struct fuzz_input *input, quorum_time now)
{
    unsigned how = fuzz_byte(input);
    if (how == 255)
        return now > QUORUM_NEVER - 1 ? now : QUORUM_NEVER - 1;
    return quorum_time_add(now, (quorum_duration)fuzz_word(input) << how % 32);
}

static quorum_duration any_duration(struct fuzz_input *input)
{
    unsigned how = fuzz_byte(input);
    return how == 255 ? QUORUM_NEVER : (quorum_duration)fuzz_word(input) << how % 48;
}

/* ------------------------------------------------------------------------------------------------------------ lease */

struct lease_history {
    struct quorum_lease lease;
    quorum_time kept[5];
    bool renewing;
    unsigned losses;
    quorum_time end;
    quorum_duration longest_ttl; /* of the terms, the extensions and the late confirmations */
    quorum_time asked;           /* when the renewal in progress was requested */
    quorum_duration asked_for;
};

static struct quorum_lease_event lease_event(struct fuzz_input *input, const struct lease_history *history,
                                             quorum_time now)
{
    struct quorum_lease_event event = {.now = now, .random = fuzz_number(input) * UINT64_C(0x9e3779b97f4a7c15)};
    static const enum quorum_lease_event_type types[] = {
        QUORUM_LEASE_WOKEN,  QUORUM_LEASE_CONFIRMED, QUORUM_LEASE_RENEWED, QUORUM_LEASE_EXTENDED,
        QUORUM_LEASE_HASTEN, QUORUM_LEASE_CLOCK,     QUORUM_LEASE_CLOSED,  QUORUM_LEASE_IN_TURN};
    unsigned kind = fuzz_byte(input);
    event.type = types[kind % 8];
    event.node = kind / 8 % history->lease.turns.nodes;
    event.granted = kind % 16 < 8 || kind / 128;
    event.sent = now - now % (kind + 1);
    event.spread = any_duration(input) / 2;
    event.ttl = 1 + any_duration(input) / 2;
    event.verdict = (enum quorum_verdict)(1 + kind / 8 % QUORUM_LOST_CANCELLED);
    event.validity_end = quorum_time_add(now, any_duration(input) / 4);
    if (event.type == QUORUM_LEASE_RENEWED) {
        event.validity_end = quorum_time_add(history->asked, history->asked_for);
        if (!history->renewing)
            event.type = QUORUM_LEASE_WOKEN;
    }
    return event;
}

static void check_renewal(struct lease_history *history, quorum_duration ttl, const struct quorum_lease_event *event)
{
    const struct quorum_lease_terms *terms = &history->lease.terms;
    quorum_time latest = quorum_time_add(event->now, ttl);
    history->renewing = true;
    history->asked = event->now;
    history->asked_for = ttl;
    fuzz_require(terms->renewal_percent > 0, "renewed though renewal is off");
    fuzz_require(terms->cap == QUORUM_NEVER || latest <= terms->cap, "renewed beyond the cap");
    fuzz_require(latest > history->lease.validity_end, "renewed for nothing");
    fuzz_require(ttl <= history->longest_ttl, "renewed for longer than any ttl");
    fuzz_require(ttl % QUORUM_MILLISECOND == 0, "renewed for a part of a millisecond");
}

static void check_deadline(const struct lease_history *history, quorum_time now)
{
    struct quorum_lease early = history->lease;
    quorum_time deadline = quorum_lease_deadline(&early);
    fuzz_require(history->losses ? deadline == QUORUM_NEVER : deadline <= early.validity_end, "sleeps past its end");
    fuzz_require(deadline > now || deadline == QUORUM_NEVER, "woken without a pause");
    const struct quorum_lease_event woken = {.type = QUORUM_LEASE_WOKEN, .now = deadline - 1};
    struct quorum_lease_actions actions = quorum_lease_step(&early, &woken);
    fuzz_require(!actions.renew && !actions.failing && !actions.ending && !actions.lost, "acts before its deadline");
}

static void check_lease(struct lease_history *history, struct quorum_lease_actions actions,
                        const struct quorum_lease_event *event)
{
    const struct quorum_lease *lease = &history->lease;
    history->losses += actions.lost != QUORUM_NOT_LOST;
    fuzz_require(history->losses <= 1, "lost twice");
    fuzz_require((lease->loss != QUORUM_NOT_LOST) == (history->losses == 1), "lost, and not said");
    bool speaks = actions.renew || actions.failing || actions.ending;
    fuzz_require(!speaks || history->losses == 0, "a word after the end, or beside its report");
    fuzz_require(history->losses || event->now < lease->validity_end, "held beyond its end");
    fuzz_require(lease->validity_end >= history->end, "shortened");
    fuzz_require(!actions.renew || !history->renewing || event->type == QUORUM_LEASE_RENEWED, "two renewals at once");
    bool prolongs = event->type == QUORUM_LEASE_EXTENDED || event->type == QUORUM_LEASE_CONFIRMED;
    if (prolongs && event->ttl > history->longest_ttl)
        history->longest_ttl = event->ttl;
    bool was_over = event->type != QUORUM_LEASE_GRANTED && event->now >= history->end;
    fuzz_require(!was_over || lease->validity_end == history->end, "prolonged after its end");
    history->end = lease->validity_end;
    if (event->type == QUORUM_LEASE_RENEWED)
        history->renewing = false;
    if (actions.renew)
        check_renewal(history, actions.renew, event);
    check_deadline(history, event->now);
}

static void run_lease(struct fuzz_input *input)
{
    struct lease_history history = {0};
    quorum_time now = pass(input, 0);
    const struct quorum_lease_terms terms = {.ttl = (1 + (quorum_duration)fuzz_number(input)) * QUORUM_MILLISECOND,
                                             .renewal_percent = fuzz_byte(input) % 100,
                                             .notify_before = any_duration(input),
                                             .cap = any_duration(input)};
    history.longest_ttl = terms.ttl;
    quorum_lease_init(&history.lease, &terms, history.kept, sizeof history.kept / sizeof *history.kept);
    struct quorum_lease_event event = lease_event(input, &history, now);
    event.type = QUORUM_LEASE_GRANTED;
    while (true) {
        check_lease(&history, quorum_lease_step(&history.lease, &event), &event);
        if (!input->left)
            return;
        now = pass(input, now);
        event = lease_event(input, &history, now);
    }
}

/* ---------------------------------------------------------------------------------------------------------- waiting */

static struct quorum_waiting_event waiting_event(struct fuzz_input *input, const struct quorum_waiting *waiting,
                                                 quorum_time now)
{
    struct quorum_waiting_event event = {.now = now, .node = fuzz_byte(input) % waiting->terms.nodes};
    unsigned kind = fuzz_byte(input);
    event.type = (enum quorum_waiting_event_type)(kind % (QUORUM_WAITING_WOKEN + 1));
    event.in_the_way = kind & 64;
    event.misplaced = kind & 128;
    event.behind = fuzz_byte(input) % 2;
    event.holder = fuzz_byte(input) % 3;
    event.remaining = any_duration(input);
    event.rest_until = quorum_time_add(now, event.remaining);
    if ((event.type == QUORUM_WAITING_TRIED && !waiting->trying) ||
        (event.type == QUORUM_WAITING_LOOKED && !waiting->looking))
        event.type = QUORUM_WAITING_WOKEN;
    return event;
}

static void check_waiting(const struct quorum_waiting *before, const struct quorum_waiting *after,
                          struct quorum_waiting_actions actions, const struct quorum_waiting_event *event)
{
    bool was_busy = (before->trying && event->type != QUORUM_WAITING_TRIED) ||
                    (before->looking && event->type != QUORUM_WAITING_LOOKED);
    fuzz_require(!(actions.attempt && actions.look), "an attempt and a look at once");
    fuzz_require(!was_busy || (!actions.attempt && !actions.look), "two things at once");
    fuzz_require(!actions.attempt || after->trying, "an attempt that it does not know of");
    fuzz_require(!actions.look || after->looking, "a look that it does not know of");
    quorum_nodes heard = before->free | quorum_node(event->node);
    bool may_withdraw = before->give_up_at <= event->now || event->type == QUORUM_WAITING_HANDED;
    fuzz_require(!actions.withdraw || (actions.attempt && may_withdraw), "a hand-over that is given back too early");
    bool is_own_idea = after->probing || before->terms.last_attempt <= event->now || actions.withdraw;
    fuzz_require(!actions.attempt || is_own_idea || quorum_count(heard) >= quorum_majority(after->terms.nodes),
                 "an attempt that too few nodes have called for");
    quorum_time rest_until = event->type == QUORUM_WAITING_TRIED && !event->in_the_way ? event->rest_until
                             : event->type == QUORUM_WAITING_TRIED                     ? 0
                                                                                       : before->rest_until;
    fuzz_require(!actions.attempt || is_own_idea || rest_until <= event->now, "an attempt while it rests");
    fuzz_require(!actions.dequeue || !after->enqueued, "leaves the queues, and is in one");
    fuzz_require(!(after->enqueued & ~quorum_all(after->terms.nodes)), "a node that is not there");
}

static void run_waiting(struct fuzz_input *input)
{
    struct quorum_polling polling = {.spent_until = 0};
    struct quorum_waiting_terms terms = {.nodes = 1 + fuzz_byte(input) % QUORUM_NODES_MAX,
                                         .polling = &polling,
                                         .refresh = any_duration(input),
                                         .margin = any_duration(input)};
    terms.patience = terms.refresh;
    terms.watch = terms.last_attempt = terms.margin;
    struct quorum_waiting waiting, before;
    quorum_waiting_init(&waiting, &terms);
    waiting.listening = fuzz_number(input) & quorum_all(terms.nodes);
    waiting.trying = fuzz_byte(input) % 2;
    for (quorum_time now = pass(input, 0); input->left; now = pass(input, now)) {
        const struct quorum_waiting_event event = waiting_event(input, &waiting, now);
        before = waiting;
        check_waiting(&before, &waiting, quorum_waiting_step(&waiting, &event), &event);
        bool pauses = terms.refresh >= QUORUM_MILLISECOND && terms.margin >= QUORUM_MILLISECOND;
        quorum_time deadline = quorum_waiting_deadline(&waiting);
        fuzz_require(!pauses || deadline > now || deadline == QUORUM_NEVER, "woken without a pause");
    }
}

/* ------------------------------------------------------------------------------------------------------ clock watch */

static void run_clock_watch(struct fuzz_input *input)
{
    struct quorum_clock_watch watch;
    unsigned nodes = 1 + fuzz_byte(input) % QUORUM_NODES_MAX;
    quorum_clock_init(&watch, nodes, fuzz_number(input) % 500001, any_duration(input));
    quorum_nodes sampled = 0;
    for (quorum_time now = pass(input, 0); input->left; now = pass(input, now)) {
        struct quorum_clock_sample sample = {.node = fuzz_byte(input) % nodes, .sent = now};
        sample.answering = fuzz_number(input) & quorum_all(nodes);
        sample.received = now = pass(input, now);
        sample.time = fuzz_byte(input) % 2 ? quorum_time_add(now, fuzz_number(input))
                                           : (quorum_time)fuzz_number(input) << 32 | fuzz_number(input);
        struct quorum_clock_actions actions = quorum_clock_step(&watch, &sample);
        sampled |= quorum_node(sample.node);
        fuzz_require(!((actions.jumped | actions.suspect) & ~sampled), "blames a node that was never heard");
        fuzz_require(!(actions.jumped & actions.suspect), "judged, and suspected");
        fuzz_require(!actions.own || actions.jumped || quorum_count(sampled) >= quorum_majority(nodes),
                     "a minority says that our clock stopped, and is not blamed itself");
        fuzz_require(!(actions.ask & actions.suspect), "a suspect is asked about itself");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const machines[])(struct fuzz_input *) = {run_lease, run_waiting, run_clock_watch};
    struct fuzz_input input = {data, size};
    machines[fuzz_byte(&input) % (sizeof machines / sizeof *machines)](&input);
    return 0;
}
