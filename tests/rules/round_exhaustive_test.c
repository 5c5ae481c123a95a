/*
 * Every sequence of events that a round can have. After each step the round is compared with an oracle: the rules of a
 * round, computed a second time in the simplest way, with one record per node and plain counting. Up to five nodes: every
 * reply in every order, with a cancellation at every point, and an hour late from every point on. Up to three nodes also:
 * nodes that become usable late, give up, or reply twice. More nodes: random sequences. A prefix of a sequence covers the
 * case that the other nodes never reply.
 */
#include "quorum/round.h"

#include <inttypes.h>

#include "rules/random.h"
#include "rules/wide.h"
#include "support/test.h"

#define MS    QUORUM_MILLISECOND
#define BEGIN (5000 * QUORUM_SECOND)

/* The terms under test. EXTEND moves the end of validity; EXTEND_SHORT does not. */
enum { ACQUIRE, EXTEND, RELEASE, LOOK, EXTEND_SHORT, ADOPT, ACQUIRE_ALL, RELEASE_ALL, PLANS };

static const struct quorum_terms plans[PLANS] = {
    [ACQUIRE] = {.kind = QUORUM_ACQUIRE, .minimum_validity = 300 * MS},
    [EXTEND] = {.kind = QUORUM_EXTEND, .validity_end = BEGIN + 700 * MS},
    [RELEASE] = {.kind = QUORUM_RELEASE, .validity_end = BEGIN + 3000 * MS},
    [LOOK] = {.kind = QUORUM_LOOK},
    [EXTEND_SHORT] = {.kind = QUORUM_EXTEND, .validity_end = BEGIN + 3000 * MS},
    [ADOPT] = {.kind = QUORUM_ADOPT, .minimum_validity = 300 * MS},
    [ACQUIRE_ALL] = {.kind = QUORUM_ACQUIRE, .minimum_validity = 300 * MS, .all_answers = true},
    [RELEASE_ALL] = {.kind = QUORUM_RELEASE, .validity_end = BEGIN + 3000 * MS, .all_answers = true},
};

/* A node's possible votes: on an acquire, on other requests, and if it got no request. An acquire times out by OVERDUE
 * alone; to other requests UNREACHABLE is like REFUSED. */
enum { REPLIES = 8, LATE_REPLIES = 3, UNASKED = 3 }; /* after a node's first vote only the first ones differ */

static const struct quorum_event acquire_replies[REPLIES] = {
    {.vote = QUORUM_GRANTED},    {.vote = QUORUM_HELD, .left_nothing = true}, {.vote = QUORUM_HELD},
    {.vote = QUORUM_REFUSED},    {.vote = QUORUM_REFUSED, .permanent = true}, {.vote = QUORUM_UNREACHABLE},
    {.vote = QUORUM_UNATTESTED}, {.vote = QUORUM_REFUSED, .clock = true},
};

static const struct quorum_event other_replies[REPLIES] = {
    {.vote = QUORUM_GRANTED},
    {.vote = QUORUM_ABSENT},
    {.vote = QUORUM_HELD},
    {.vote = QUORUM_REFUSED},
    {.vote = QUORUM_REFUSED, .permanent = true},
    {.vote = QUORUM_TIMED_OUT},
    {.vote = QUORUM_ABSENT, .left_nothing = true},
    {.vote = QUORUM_REFUSED, .clock = true},
};

static const struct quorum_event unasked_replies[UNASKED] = {
    {.vote = QUORUM_TIMED_OUT}, {.vote = QUORUM_UNREACHABLE}, {.vote = QUORUM_UNREACHABLE, .permanent = true}};

struct node {
    bool coming;           /* named in `coming` of START */
    bool asked;            /* got the request */
    bool clean;            /* its reply showed that the node has nothing of ours */
    bool voted;            /* its first vote has been counted; later ones do not count */
    bool late;             /* its timeout passed before it voted */
    bool permanent, clock; /* these and the next one: of its first vote */
    enum quorum_vote vote;
    bool had_usable, had_late_reply; /* the events that occur once, and are not offered again */
};

/* A round under test, its oracle, and where the sequence is. */
struct path {
    struct quorum_round round;
    struct quorum_terms terms;
    struct node node[QUORUM_NODES_MAX];
    bool started, cancelled;
    bool settled;   /* an extension that was won: every node has been counted */
    bool confirmed; /* an extension that was lost by timeouts got a majority later */
    enum quorum_verdict verdict;
    quorum_time now, sent, decided_at, validity_end;
    unsigned steps;
};

/* The steps so far. While the test walks a tree of events, each path overwrites the entries beyond its `steps`, which
 * belong to an abandoned path. */
static struct quorum_event story[512];

#define CHECK(holds) ((holds) ? (void)0 : give_up(path, #holds))

static void give_up(const struct path *path, const char *what)
{
    fprintf(stderr, "kind %d over %u nodes, held until %" PRIu64 "; verdict %d, expected %d:\n", (int)path->terms.kind,
            path->terms.nodes, path->terms.validity_end, (int)path->round.verdict, (int)path->verdict);
    for (const struct quorum_event *event = story; event < &story[path->steps]; event++)
        fprintf(stderr, "  %" PRIu64 " event %d, node %u, vote %d%s%s, usable %x coming %x\n", event->now,
                (int)event->type, event->node, (int)event->vote,
                event->permanent ? " for good"
                : event->clock   ? " by its clock"
                                 : "",
                event->left_nothing ? ", left nothing" : "", event->usable, event->coming);
    ck_abort_msg("%s", what);
}

/* ----------------------------------------------------------------------------------------------------------- oracle */

static quorum_time own_end(const struct path *path)
{
    return wide_validity_end(path->sent, path->terms.ttl, path->terms.drift_ppm);
}

static enum quorum_verdict verdict_of_majority(const struct path *path)
{
    const struct quorum_terms *terms = &path->terms;
    if (terms->kind == QUORUM_ACQUIRE || terms->kind == QUORUM_ADOPT)
        return (wide)path->now + terms->minimum_validity > own_end(path) ? QUORUM_LOST_TOO_SLOW : QUORUM_WON;
    return terms->kind == QUORUM_EXTEND && path->now >= terms->validity_end ? QUORUM_LOST_TOO_SLOW : QUORUM_WON;
}

static enum quorum_verdict verdict_now(const struct path *path)
{
    const enum quorum_kind kind = path->terms.kind;
    const unsigned nodes = path->terms.nodes;
    unsigned votes[QUORUM_VOTES] = {0}, open = 0, punctual = 0, permanent = 0, repairable = 0;
    for (unsigned i = 0; i < nodes; i++) {
        const struct node *node = &path->node[i];
        votes[node->vote] += node->voted;
        permanent += node->permanent;
        repairable += !node->permanent && !node->clock;
        open += !node->voted;
        punctual += !node->voted && !node->late;
    }
    const bool won = 2 * votes[QUORUM_GRANTED] > nodes, lost = 2 * (votes[QUORUM_GRANTED] + open) <= nodes;
    if (path->cancelled)
        return QUORUM_LOST_CANCELLED;
    if (kind == QUORUM_LOOK && open)
        return QUORUM_UNDECIDED; /* a look waits for every reply */
    /* No request of a release may arrive after the caller's callback. Once its verdict is certain, the release waits only
     * for nodes that are not late yet. */
    if (kind == QUORUM_RELEASE && path->terms.all_answers && (won || lost ? punctual : open))
        return QUORUM_UNDECIDED;
    if (kind == QUORUM_ACQUIRE && path->terms.all_answers && won && open)
        return QUORUM_UNDECIDED;
    if (won)
        return verdict_of_majority(path);
    if (!lost)
        return QUORUM_UNDECIDED;
    unsigned failed = votes[QUORUM_REFUSED] + votes[QUORUM_UNREACHABLE] + votes[QUORUM_TIMED_OUT];
    if (2 * (nodes - permanent) <= nodes)
        return QUORUM_LOST_MISCONFIGURED;
    if (2 * repairable <= nodes)
        return QUORUM_LOST_CLOCK;
    if (kind == QUORUM_ACQUIRE)
        return 2 * (nodes - failed - votes[QUORUM_UNATTESTED]) > nodes ? QUORUM_LOST_HELD : QUORUM_LOST_NO_QUORUM;
    return 2 * (nodes - votes[QUORUM_ABSENT] - votes[QUORUM_HELD]) > nodes ? QUORUM_LOST_NO_QUORUM : QUORUM_LOST_GONE;
}

/* Nothing is sent after the verdict, except by a release: every node that may have the key gets it. */
static bool may_ask(const struct path *path, const struct node *node)
{
    return !node->asked && !node->voted && (!path->verdict || path->terms.kind == QUORUM_RELEASE);
}

static quorum_nodes ask_if(struct path *path, unsigned i, bool wanted)
{
    if (!wanted || !may_ask(path, &path->node[i]))
        return 0;
    path->node[i].asked = true;
    path->sent = path->sent < path->now ? path->sent : path->now;
    return quorum_node(i);
}

static void take_vote(struct path *path, struct node *node, const struct quorum_event *event)
{
    bool by_timeouts = !path->verdict || path->verdict == QUORUM_LOST_NO_QUORUM;
    node->clean |= event->left_nothing;
    node->had_late_reply = node->voted;
    if (!node->voted) {
        node->voted = true;
        node->vote = event->vote;
        node->permanent = event->permanent;
        node->clock = event->clock;
    } else if (path->terms.kind == QUORUM_EXTEND && by_timeouts && node->asked && node->vote == QUORUM_TIMED_OUT &&
               event->vote == QUORUM_GRANTED)
        node->vote = QUORUM_GRANTED; /* a node that replied too late to an extension has executed it all the same */
}

static quorum_nodes may_hold(const struct path *path)
{
    quorum_nodes nodes = 0;
    for (unsigned i = 0; i < path->terms.nodes; i++)
        if (path->terms.kind == QUORUM_ACQUIRE && path->node[i].asked && !path->node[i].clean)
            nodes |= quorum_node(i);
    return nodes;
}

static struct quorum_actions decide(struct path *path, enum quorum_verdict verdict)
{
    const enum quorum_kind kind = path->terms.kind;
    path->verdict = verdict;
    path->decided_at = path->now;
    for (unsigned i = 0; i < path->terms.nodes; i++)
        path->node[i].voted |= path->node[i].late;
    if (verdict == QUORUM_WON && (kind == QUORUM_ACQUIRE || kind == QUORUM_ADOPT || kind == QUORUM_EXTEND))
        path->validity_end = own_end(path) > path->terms.validity_end ? own_end(path) : path->terms.validity_end;
    return (struct quorum_actions){.decided = true, .undo = verdict == QUORUM_WON ? 0 : may_hold(path)};
}

/* An extension gets more votes after its verdict: it is confirmed late, with validity left, or, once each node has been
 * counted, the nodes that lack the lock are healed. */
static void follow_extension(struct path *path, const struct quorum_event *event, struct quorum_actions *actions)
{
    unsigned granted = 0, open = 0;
    quorum_nodes lacking = 0;
    for (unsigned i = 0; i < path->terms.nodes; i++) {
        const struct node *node = &path->node[i];
        granted += node->voted && node->vote == QUORUM_GRANTED;
        open += !node->voted;
        lacking |= node->vote == QUORUM_ABSENT ? quorum_node(i) : 0;
    }
    if (path->verdict == QUORUM_LOST_NO_QUORUM && !path->confirmed && event->type == QUORUM_VOTED &&
        2 * granted > path->terms.nodes && own_end(path) > path->now && own_end(path) > path->terms.validity_end) {
        actions->confirmed = path->confirmed = true;
        path->validity_end = own_end(path);
    }
    if (path->verdict == QUORUM_WON && !open && !path->settled) {
        path->settled = true;
        actions->heal = lacking;
    }
}

static struct quorum_actions expect(struct path *path, const struct quorum_event *event)
{
    struct node *node = &path->node[event->node];
    quorum_nodes send = 0;
    if (event->type == QUORUM_START) {
        path->started = true;
        for (unsigned i = 0; i < path->terms.nodes; i++) {
            path->node[i].coming = event->coming >> i & 1;
            send |= ask_if(path, i, event->usable >> i & 1);
        }
    } else if (event->type == QUORUM_USABLE) {
        node->had_usable = true;
        send = ask_if(path, event->node, node->coming);
    } else if (event->type == QUORUM_VOTED)
        take_vote(path, node, event);
    else if (event->type == QUORUM_OVERDUE) {
        node->late = true;
        node->voted = path->terms.kind != QUORUM_RELEASE;
        node->vote = QUORUM_TIMED_OUT;
    } else
        path->cancelled = true;
    enum quorum_verdict verdict = path->verdict ? QUORUM_UNDECIDED : verdict_now(path);
    struct quorum_actions actions = verdict ? decide(path, verdict) : (struct quorum_actions){.decided = false};
    if (path->terms.kind == QUORUM_EXTEND)
        follow_extension(path, event, &actions);
    actions.send = send;
    return actions;
}

static void compare(const struct path *path)
{
    const struct quorum_round *round = &path->round;
    quorum_nodes asked = 0, permanent = 0, clock = 0, coming = 0, voted[QUORUM_VOTES] = {0};
    for (unsigned i = 0; i < path->terms.nodes; i++) {
        const struct node *node = &path->node[i];
        asked |= (quorum_nodes)node->asked << i;
        permanent |= (quorum_nodes)node->permanent << i;
        clock |= (quorum_nodes)node->clock << i;
        coming |= (quorum_nodes)(node->coming && may_ask(path, node)) << i;
        voted[node->voted ? node->vote : QUORUM_PENDING] |= quorum_node(i);
    }
    CHECK(memcmp(round->tally.voted, voted, sizeof voted) == 0);
    CHECK(round->tally.permanent == permanent);
    CHECK(round->clock == clock);
    CHECK(round->asked == asked);
    CHECK(round->coming == coming);
    CHECK(round->may_hold == may_hold(path));
    CHECK(round->verdict == path->verdict);
    CHECK(round->sent == path->sent);
    CHECK(round->decided_at == path->decided_at);
    CHECK(round->validity_end == path->validity_end);
    CHECK(round->confirmed == path->confirmed);
}

static void step(struct path *path, struct quorum_event event)
{
    event.now = path->now;
    CHECK(path->steps < sizeof story / sizeof *story);
    story[path->steps++] = event;
    struct quorum_actions expected = expect(path, &event), actions = quorum_round_step(&path->round, &event);
    CHECK(actions.decided == expected.decided);
    CHECK(actions.confirmed == expected.confirmed);
    CHECK(actions.heal == expected.heal);
    CHECK(actions.send == expected.send);
    CHECK(actions.undo == expected.undo);
    compare(path);
    path->now += MS;
}

static struct path new_path(int plan, unsigned nodes)
{
    struct path path = {.terms = plans[plan], .now = BEGIN, .sent = QUORUM_NEVER};
    path.terms.nodes = nodes;
    path.terms.ttl = QUORUM_SECOND;
    path.terms.drift_ppm = 10000;
    quorum_round_init(&path.round, &path.terms);
    compare(&path);
    return path;
}

/* --------------------------------------------------------------------------------------------- possible next events */

struct menu {
    struct quorum_event event[QUORUM_NODES_MAX * (REPLIES + 2) + 1];
    unsigned count;
};

static void add(struct menu *menu, struct quorum_event event, enum quorum_event_type type, unsigned node)
{
    event.type = type;
    event.node = node;
    menu->event[menu->count++] = event;
}

static const struct quorum_event *replies_to(const struct path *path)
{
    return path->terms.kind == QUORUM_ACQUIRE ? acquire_replies : other_replies;
}

static void add_node(struct menu *menu, const struct path *path, unsigned i, bool late_events)
{
    const struct node *node = &path->node[i];
    const struct quorum_event *replies = node->asked || node->voted ? replies_to(path) : unasked_replies;
    bool may_be_late = late_events && node->vote == QUORUM_TIMED_OUT && !node->had_late_reply;
    unsigned count = node->asked ? REPLIES : UNASKED;
    if (node->voted) /* a node that got no request may have been sent another round's, which it grants */
        count = !may_be_late ? 0 : node->asked ? LATE_REPLIES : 1;
    for (unsigned reply = 0; reply < count; reply++)
        add(menu, replies[reply], QUORUM_VOTED, i);
    if (late_events && node->asked && !node->voted && !node->late)
        add(menu, (struct quorum_event){.now = 0}, QUORUM_OVERDUE, i);
    if (late_events && node->coming && !node->had_usable)
        add(menu, (struct quorum_event){.now = 0}, QUORUM_USABLE, i);
}

static bool untouched(const struct node *node)
{
    return !node->voted && !node->had_usable;
}

/* Of the untouched nodes of one kind, the one with the lowest number acts first. */
static bool is_in_turn(const struct path *path, unsigned i)
{
    const struct node *node = path->node;
    for (unsigned before = 0; before < i; before++)
        if (untouched(&node[before]) && node[before].coming == node[i].coming && node[before].asked == node[i].asked)
            return !untouched(&node[i]);
    return true;
}

/* How much is tried. */
struct tree {
    unsigned nodes;
    unsigned slow_from, slow_to;         /* in each tree an hour passes before one of these steps */
    bool late_events;                    /* nodes become usable late, and reply after their timeout */
    bool one_order;                      /* of nodes that differ only by their number, the first one acts first */
    enum { NEVER, LAST, AND_ON } cancel; /* LAST: a path ends with it; AND_ON: a path continues */
    int plans;                           /* of the first ones in the list */
    unsigned paths;                      /* at least, in each */
};

static void list_events(const struct tree *tree, const struct path *path, struct menu *menu)
{
    menu->count = 0;
    for (unsigned i = 0; i < path->terms.nodes; i++)
        if (!tree->one_order || is_in_turn(path, i))
            add_node(menu, path, i, tree->late_events);
    if (tree->cancel != NEVER && !path->cancelled)
        add(menu, (struct quorum_event){.now = 0}, QUORUM_CANCEL, 0);
}

/* --------------------------------------------------------------------------------------------------- all sequences */

static unsigned walk(const struct tree *tree, const struct path *path, unsigned slow_from)
{
    struct menu menu;
    unsigned paths = 1;
    quorum_nodes all = quorum_all(path->terms.nodes), coming = all;
    /* Every node is usable or coming. That includes a node that has already been counted out, which must make no
     * difference. */
    for (bool left = !path->started; left; left = coming != 0, coming = (coming - 1) & all) {
        struct path next = *path;
        step(&next, (struct quorum_event){.type = QUORUM_START, .usable = all & ~coming, .coming = coming});
        paths += walk(tree, &next, slow_from);
    }
    list_events(tree, path, &menu);
    for (unsigned i = 0; i < menu.count; i++) {
        struct path next = *path;
        if (next.steps == slow_from)
            next.now += 3600 * QUORUM_SECOND;
        step(&next, menu.event[i]);
        paths += tree->cancel == LAST && next.cancelled ? 1 : walk(tree, &next, slow_from);
    }
    return paths;
}

/* A sanitizer makes each step ten times as slow, and finds the same in one plan, and one order, as in all. */
#if defined(ONE_PLAN_OF_FIVE)
enum { PLANS_OF_FIVE = ACQUIRE + 1, PLANS_OF_FIVE_IN_ANY_ORDER = 0 };
#else
enum { PLANS_OF_FIVE = ADOPT, PLANS_OF_FIVE_IN_ANY_ORDER = ADOPT };
#endif
enum { NOT_SLOW = 100 };

/* With late events the start is an event like others. That the numbers of the nodes make no difference is seen where there
 * is more than one order, and at random. */
static const struct tree trees[] = {
    {1, 1, 3, .cancel = AND_ON, .plans = PLANS, .paths = 26},
    {2, 1, 4, .cancel = AND_ON, .plans = PLANS, .paths = 562},
    {3, 1, 5, .cancel = AND_ON, .plans = PLANS, .paths = 16970},
    {4, NOT_SLOW, NOT_SLOW, .cancel = LAST, .plans = PLANS, .paths = 222786},
    {4, 1, 6, .one_order = true, .cancel = LAST, .plans = PLANS, .paths = 9362},
    {5, NOT_SLOW, NOT_SLOW, .cancel = NEVER, .plans = PLANS_OF_FIVE_IN_ANY_ORDER, .paths = 4455721},
    {5, 1, 7, .one_order = true, .cancel = LAST, .plans = PLANS_OF_FIVE, .paths = 74898},
    {5, NOT_SLOW, NOT_SLOW, .one_order = true, .cancel = AND_ON, .plans = PLANS_OF_FIVE, .paths = 256794},
    {1, 0, 8, .late_events = true, .cancel = AND_ON, .plans = PLANS, .paths = 236},
    {2, NOT_SLOW, NOT_SLOW, .late_events = true, .cancel = AND_ON, .plans = PLANS, .paths = 43904},
    {3, NOT_SLOW, NOT_SLOW, .late_events = true, .one_order = true, .cancel = LAST, .plans = LOOK, .paths = 2218104},
};

TEST_CASE_WITHIN(round, NULL, NULL, 120);

TEST_ROWS(round, every_sequence_agrees_with_the_oracle, ROWS(trees) * PLANS)
{
    const struct tree *tree = &trees[_i / PLANS];
    for (unsigned slow_from = tree->slow_from; slow_from <= tree->slow_to && _i % PLANS < tree->plans; slow_from++) {
        struct path path = new_path(_i % PLANS, tree->nodes);
        if (!tree->late_events)
            step(&path, (struct quorum_event){.type = QUORUM_START, .usable = quorum_all(tree->nodes)});
        ck_assert_uint_ge(walk(tree, &path, slow_from), tree->paths);
    }
}

/* -------------------------------------------------------------------------------------------- more nodes, at random */

/* The most frequent votes of one sequence, in percent. Without a bias, hardly any round of many nodes would be won,
 * or lost for a single reason. */
struct bias {
    unsigned grants;
    unsigned favourites;
    unsigned favourite; /* index of the favourite reply */
};

static struct quorum_event draw_event(const struct menu *menu, const struct path *path, const struct bias *bias,
                                      uint64_t *seed)
{
    struct quorum_event event = menu->event[random_below(seed, menu->count)];
    if (event.type == QUORUM_CANCEL && random_below(seed, 10)) /* seldom; otherwise most rounds would end with it */
        event = menu->event[0];
    bool votes = event.type == QUORUM_VOTED || (event.type == QUORUM_OVERDUE && random_below(seed, 8));
    unsigned percent = random_below(seed, 100), node = event.node;
    if (votes && path->node[node].asked && percent < bias->grants + bias->favourites) {
        event = replies_to(path)[percent < bias->grants ? 0 : bias->favourite];
        event.type = QUORUM_VOTED;
        event.node = node;
    }
    return event;
}

/* Returns the verdict at the end of the sequence. In every other one some nodes become usable late. */
static enum quorum_verdict live_at_random(int plan, unsigned nodes, uint64_t *seed)
{
    static const struct tree tree = {.late_events = true, .cancel = LAST};
    const struct bias bias = {random_below(seed, 101), random_below(seed, 201), random_below(seed, REPLIES)};
    struct menu menu;
    struct path path = new_path(plan, nodes);
    unsigned before = random_below(seed, 2) ? random_below(seed, 2 + nodes / 4) : 0;
    for (unsigned steps = 0; steps < 6 * nodes; steps++) {
        if (steps == before) {
            quorum_nodes open = path.round.tally.voted[QUORUM_PENDING], coming = open & (quorum_nodes)next_random(seed);
            coming &= random_below(seed, 2) ? (quorum_nodes)next_random(seed) : 0;
            step(&path, (struct quorum_event){.type = QUORUM_START, .usable = open & ~coming, .coming = coming});
        }
        list_events(&tree, &path, &menu);
        if (!menu.count)
            break;
        if (random_below(seed, 10 * nodes) == 0)
            path.now += QUORUM_SECOND;
        step(&path, draw_event(&menu, &path, &bias, seed));
    }
    return path.round.verdict;
}

/* Each verdict that is possible in a plan must occur; otherwise the sequences cover too little. */
TEST(round, random_sequences_agree_with_the_oracle)
{
    unsigned met[PLANS][QUORUM_VERDICTS] = {{0}};
    for (unsigned nodes = 2; nodes <= QUORUM_NODES_MAX; nodes++) {
        uint64_t seed = nodes;
        for (int plan = 0; plan < PLANS; plan++)
            for (unsigned i = 0; i < 6000 / (nodes + 8); i++)
                met[plan][live_at_random(plan, nodes, &seed)]++;
    }
    for (int plan = 0; plan < PLANS; plan++)
        for (enum quorum_verdict verdict = QUORUM_WON; verdict < QUORUM_VERDICTS; verdict++) {
            bool known = plan == ACQUIRE || plan == ACQUIRE_ALL
                             ? verdict != QUORUM_LOST_GONE
                             : verdict != QUORUM_LOST_HELD &&
                                   (verdict != QUORUM_LOST_TOO_SLOW || plan == EXTEND || plan == ADOPT);
            if ((met[plan][verdict] > 0) != known)
                ck_abort_msg("plan %d: verdict %d met %u times", plan, (int)verdict, met[plan][verdict]);
        }
}

TEST_PROGRAM("quorum/round, exhaustively")
