/*
 * Every sequence of events that a round can have, each step compared with the oracle. Up to five nodes: every reply in
 * every order, with a cancellation at every point, and an hour late from every point on. Up to three nodes also:
 * nodes that become usable late, give up, or reply twice. More nodes: random sequences. A prefix of a sequence covers
 * the case that the other nodes never reply.
 */
#include "quorum/round.h"

#include "rules/random.h"
#include "rules/round_oracle.h"
#include "support/test.h"

#define MS QUORUM_MILLISECOND

static const quorum_time begin = 5000 * QUORUM_SECOND;

struct outcome {
    enum quorum_vote vote;
    bool permanent;
    bool left_nothing;
};

/* A node's possible votes on an acquire. */
static const struct outcome acquire_outcomes[] = {
    {QUORUM_GRANTED, false, false},     {QUORUM_HELD, false, true},       {QUORUM_HELD, false, false},
    {QUORUM_REFUSED, false, false},     {QUORUM_REFUSED, true, false},    {QUORUM_TIMED_OUT, false, false},
    {QUORUM_UNREACHABLE, false, false}, {QUORUM_UNATTESTED, false, false}};

/* A node's possible votes on an extension or a release. */
static const struct outcome other_outcomes[] = {{QUORUM_GRANTED, false, false},     {QUORUM_ABSENT, false, false},
                                                {QUORUM_HELD, false, false},        {QUORUM_REFUSED, false, false},
                                                {QUORUM_REFUSED, true, false},      {QUORUM_TIMED_OUT, false, false},
                                                {QUORUM_UNREACHABLE, false, false}, {QUORUM_ABSENT, false, true}};

/* The possible votes of a node that got no request. */
static const struct outcome unasked_outcomes[] = {
    {QUORUM_TIMED_OUT, false, false}, {QUORUM_UNREACHABLE, false, false}, {QUORUM_UNREACHABLE, true, false}};
#define OUTCOMES      ((unsigned)ROWS(acquire_outcomes))
#define LATE_OUTCOMES 3u /* the first three: after a node's first vote the others make no difference */
_Static_assert(sizeof acquire_outcomes == sizeof other_outcomes, "one number for both");

/* -------------------------------------------------------------------------------------------------------- sequences */

/* The terms under test. EXTEND moves the end of validity; EXTEND_SHORT does not. */
enum { ACQUIRE, EXTEND, RELEASE, LOOK, EXTEND_SHORT, ADOPT, ACQUIRE_ALL, RELEASE_ALL, PLANS };

static struct quorum_terms terms_of(int plan, unsigned nodes)
{
    struct quorum_terms terms = {.kind = QUORUM_ACQUIRE, .nodes = nodes, .ttl = QUORUM_SECOND, .drift_ppm = 10000};
    terms.all_answers = plan == ACQUIRE_ALL || plan == RELEASE_ALL;
    if (plan == ACQUIRE || plan == ACQUIRE_ALL || plan == ADOPT)
        terms.minimum_validity = 300 * MS;
    else
        terms.validity_end = begin + (plan == EXTEND ? 700 * MS : 3000 * MS);
    if (plan == EXTEND || plan == EXTEND_SHORT)
        terms.kind = QUORUM_EXTEND;
    if (plan == ADOPT)
        terms.kind = QUORUM_ADOPT;
    if (plan == RELEASE || plan == RELEASE_ALL)
        terms.kind = QUORUM_RELEASE;
    if (plan == LOOK)
        terms = (struct quorum_terms){.kind = QUORUM_LOOK, .nodes = nodes};
    return terms;
}

struct path {
    struct subject subject;
    quorum_time now;
    quorum_nodes usable_sent; /* nodes that already had QUORUM_USABLE */
    quorum_nodes answered_late;
};

struct tree {
    unsigned slow_from;                  /* an hour passes before this step; NOT_SLOW: never */
    bool late_events;                    /* nodes become usable late, and reply after their timeout */
    bool one_order;                      /* of nodes that differ only by their number, the first one acts first */
    enum { NEVER, LAST, AND_ON } cancel; /* LAST: a path ends with it; AND_ON: a path continues */
    uint64_t paths;
};
#define NOT_SLOW UINT32_MAX

static struct path new_path(int plan, unsigned nodes)
{
    const struct quorum_terms terms = terms_of(plan, nodes);
    struct path path = {.now = begin};
    subject_init(&path.subject, &terms);
    return path;
}

static void step(struct path *path, struct quorum_event event)
{
    event.now = path->now;
    subject_step(&path->subject, &event);
    path->now += MS;
}

static void start(struct path *path, quorum_nodes usable, quorum_nodes coming)
{
    step(path, (struct quorum_event){.type = QUORUM_START, .usable = usable, .coming = coming});
}

static struct quorum_event vote_event(unsigned node, const struct outcome *outcome)
{
    return (struct quorum_event){.type = QUORUM_VOTED,
                                 .node = node,
                                 .vote = outcome->vote,
                                 .permanent = outcome->permanent,
                                 .left_nothing = outcome->left_nothing};
}

/* --------------------------------------------------------------------------------------------- possible next events */

struct menu {
    struct quorum_event event[QUORUM_NODES_MAX * (OUTCOMES + 2) + 1];
    unsigned count;
};

static void add(struct menu *menu, struct quorum_event event)
{
    menu->event[menu->count++] = event;
}

/* What the node may reply, or first the `count` of it. */
static void add_answers(struct menu *menu, const struct oracle *oracle, unsigned node, unsigned count)
{
    const struct outcome *outcomes = oracle->terms.kind == QUORUM_ACQUIRE ? acquire_outcomes : other_outcomes;
    if (!oracle->node[node].asked) {
        outcomes = unasked_outcomes;
        count = ROWS(unasked_outcomes);
    }
    for (unsigned i = 0; i < count; i++)
        add(menu, vote_event(node, &outcomes[i]));
}

static void add_node(struct menu *menu, const struct path *path, unsigned node, bool late_events)
{
    const struct oracle *oracle = &path->subject.oracle;
    const struct oracle_node *state = &oracle->node[node];
    if (!state->voted)
        add_answers(menu, oracle, node, OUTCOMES);
    if (late_events && state->asked && !state->voted && !state->late)
        add(menu, (struct quorum_event){.type = QUORUM_OVERDUE, .node = node});
    else if (late_events && state->asked && state->vote == QUORUM_TIMED_OUT && !(path->answered_late >> node & 1))
        add_answers(menu, oracle, node, LATE_OUTCOMES); /* after it was counted as timed out */
    if (late_events && oracle->started && state->coming && !(path->usable_sent >> node & 1))
        add(menu, (struct quorum_event){.type = QUORUM_USABLE, .node = node});
}

static bool untouched(const struct path *path, unsigned node)
{
    return !path->subject.oracle.node[node].voted && !(path->usable_sent >> node & 1);
}

/* Of the untouched nodes of one kind, the one with the lowest number acts first. */
static bool is_in_turn(const struct path *path, unsigned node)
{
    const struct oracle_node *nodes = path->subject.oracle.node;
    for (unsigned before = 0; before < node; before++)
        if (untouched(path, before) && nodes[before].coming == nodes[node].coming &&
            nodes[before].asked == nodes[node].asked)
            return !untouched(path, node);
    return true;
}

static void list_events(const struct tree *tree, const struct path *path, struct menu *menu)
{
    const struct oracle *oracle = &path->subject.oracle;
    menu->count = 0;
    for (unsigned node = 0; node < oracle->terms.nodes; node++)
        if (!tree->one_order || is_in_turn(path, node))
            add_node(menu, path, node, tree->late_events);
    if (tree->cancel != NEVER && !oracle->cancelled)
        add(menu, (struct quorum_event){.type = QUORUM_CANCEL});
}

/* Events that occur once are not offered again. */
static void note(struct path *path, const struct quorum_event *event)
{
    if (event->type == QUORUM_USABLE)
        path->usable_sent |= quorum_node(event->node);
    if (event->type == QUORUM_VOTED && path->subject.oracle.node[event->node].voted)
        path->answered_late |= quorum_node(event->node);
}

static void take(const struct tree *tree, struct path *path, const struct quorum_event *event)
{
    note(path, event);
    if (path->subject.steps == tree->slow_from)
        path->now += 3600 * QUORUM_SECOND;
    step(path, *event);
}

/* ------------------------------------------------------------------------------------------------------------ trees */

static void walk(struct tree *tree, const struct path *path);

/* Every node is usable or coming. That includes a node that has already been counted out, which must make no
 * difference. */
static void walk_splits(struct tree *tree, const struct path *path)
{
    quorum_nodes all = quorum_all(path->subject.oracle.terms.nodes);
    quorum_nodes coming = all; /* iterates over every subset of `all` */
    for (;; coming = (coming - 1) & all) {
        struct path next = *path;
        start(&next, all & ~coming, coming);
        walk(tree, &next);
        if (!coming)
            return;
    }
}

static void walk(struct tree *tree, const struct path *path)
{
    static struct menu menus[32]; /* one for each step of the path; static because they are large */
    struct menu *menu = &menus[path->subject.steps];
    tree->paths++;
    if (!path->subject.oracle.started)
        walk_splits(tree, path);
    list_events(tree, path, menu);
    for (unsigned i = 0; i < menu->count; i++) {
        struct path next = *path;
        take(tree, &next, &menu->event[i]);
        if (menu->event[i].type == QUORUM_CANCEL && tree->cancel == LAST)
            tree->paths++;
        else
            walk(tree, &next);
    }
}

/* The number of paths in a tree of replies if each of `nodes` has OUTCOMES possible votes. */
static uint64_t expected_paths(const struct tree *tree, unsigned nodes, bool cancelled)
{
    unsigned next = nodes && tree->one_order ? 1 : nodes;
    uint64_t paths = 1;
    if (nodes)
        paths += next * OUTCOMES * expected_paths(tree, nodes - 1, cancelled);
    if (tree->cancel == LAST)
        paths++;
    if (tree->cancel == AND_ON && !cancelled)
        paths += expected_paths(tree, nodes, true);
    return paths;
}

static void walk_answers(int plan, unsigned nodes, struct tree tree)
{
    struct path path = new_path(plan, nodes);
    start(&path, quorum_all(nodes), 0);
    walk(&tree, &path);
    ck_assert_uint_eq(tree.paths, expected_paths(&tree, nodes, false));
}

TEST_CASE_WITHIN(answers, NULL, NULL, 60);

/* Steps are counted from the start: step 1 is the first reply or the cancellation, step nodes + 1 the last one. */
TEST_ROWS(answers, every_answer_in_every_order, PLANS)
{
    for (unsigned nodes = 1; nodes <= 4; nodes++) {
        struct tree tree = {.cancel = nodes == 4 ? LAST : AND_ON};
        for (tree.slow_from = 1; tree.slow_from <= nodes + 2; tree.slow_from++)
            walk_answers(_i, nodes, tree);
    }
}

/* A sanitizer makes each step ten times as slow, and finds the same in one plan as in all. */
#if defined(ONE_PLAN_OF_FIVE)
enum { PLANS_OF_FIVE = ACQUIRE + 1 };
#else
enum { PLANS_OF_FIVE = ADOPT };
#endif

TEST_ROWS(answers, every_answer_of_five_in_every_order, PLANS_OF_FIVE)
{
    walk_answers(_i, 5, (struct tree){.slow_from = NOT_SLOW, .cancel = NEVER});
}

/* That the numbers of the nodes make no difference is seen above, and below at random. */
TEST_ROWS(answers, every_answer_of_five_cancelled_and_slow, PLANS_OF_FIVE)
{
    for (unsigned slow_from = 1; slow_from <= 7; slow_from++)
        walk_answers(_i, 5, (struct tree){.slow_from = slow_from, .one_order = true, .cancel = LAST});
    walk_answers(_i, 5, (struct tree){.slow_from = NOT_SLOW, .one_order = true, .cancel = AND_ON});
}

static uint64_t walk_life(int plan, unsigned nodes, struct tree tree)
{
    const struct path path = new_path(plan, nodes);
    walk(&tree, &path);
    return tree.paths;
}

TEST_CASE_WITHIN(life, NULL, NULL, 60);

TEST_ROWS(life, every_way_to_come_late, PLANS)
{
    struct tree tree = {.late_events = true, .cancel = AND_ON};
    for (tree.slow_from = 0; tree.slow_from < 8; tree.slow_from++)
        ck_assert_uint_gt(walk_life(_i, 1, tree), 100);
    ck_assert_uint_gt(walk_life(_i, 2, tree), 10000);
}

TEST_ROWS(life, every_way_of_three_to_come_late, LOOK)
{
    struct tree tree = {.slow_from = NOT_SLOW, .late_events = true, .one_order = true, .cancel = LAST};
    ck_assert_uint_gt(walk_life(_i, 3, tree), 100000);
}

/* -------------------------------------------------------------------------------------------- more nodes, at random */

/* The most frequent votes of one sequence, in percent. Without a bias, hardly any round of many nodes would be won,
 * or lost for a single reason. */
struct bias {
    unsigned grants;
    unsigned favourites;
    unsigned favourite; /* index of the favourite outcome */
};

static struct quorum_event draw_event(const struct menu *menu, const struct oracle *oracle, const struct bias *bias,
                                      uint64_t *seed)
{
    const struct outcome *outcomes = oracle->terms.kind == QUORUM_ACQUIRE ? acquire_outcomes : other_outcomes;
    struct quorum_event event = menu->event[random_below(seed, menu->count)];
    if (event.type == QUORUM_CANCEL && random_below(seed, 10)) /* seldom; otherwise most rounds would end with it */
        event = menu->event[0];
    bool votes = event.type == QUORUM_VOTED || (event.type == QUORUM_OVERDUE && random_below(seed, 8));
    if (!votes || !oracle->node[event.node].asked)
        return event;
    unsigned percent = random_below(seed, 100);
    if (percent < bias->grants)
        return vote_event(event.node, &outcomes[0]);
    if (percent < bias->grants + bias->favourites)
        return vote_event(event.node, &outcomes[bias->favourite]);
    return event;
}

/* In every other sequence some nodes become usable late. */
static void start_at_random(struct path *path, uint64_t *seed)
{
    quorum_nodes coming = random_below(seed, 2) ? (quorum_nodes)next_random(seed) & (quorum_nodes)next_random(seed) : 0;
    quorum_nodes open = path->subject.round.tally.voted[QUORUM_PENDING];
    start(path, open & ~coming, open & coming);
}

/* Returns the verdict at the end of the sequence. */
static enum quorum_verdict live_at_random(int plan, unsigned nodes, uint64_t *seed)
{
    static struct menu menu;
    const struct tree tree = {.slow_from = NOT_SLOW, .late_events = true, .cancel = LAST};
    const struct bias bias = {random_below(seed, 101), random_below(seed, 201), random_below(seed, OUTCOMES)};
    struct path path = new_path(plan, nodes);
    unsigned before = random_below(seed, 2) ? random_below(seed, 2 + nodes / 4) : 0;
    for (unsigned steps = 0; steps < 6 * nodes; steps++) {
        if (steps == before)
            start_at_random(&path, seed);
        list_events(&tree, &path, &menu);
        if (!menu.count)
            break;
        const struct quorum_event event = draw_event(&menu, &path.subject.oracle, &bias, seed);
        if (random_below(seed, 10 * nodes) == 0)
            path.now += QUORUM_SECOND;
        take(&tree, &path, &event);
    }
    return path.subject.round.verdict;
}

/* Each verdict that is possible in a plan must occur; otherwise the sequences cover too little. */
TEST(life, random_histories_agree_with_the_oracle)
{
    unsigned met[PLANS][QUORUM_LOST_CANCELLED + 1] = {{0}};
    for (unsigned nodes = 2; nodes <= QUORUM_NODES_MAX; nodes++) {
        uint64_t seed = nodes;
        for (int plan = 0; plan < PLANS; plan++)
            for (unsigned i = 0; i < 6000 / (nodes + 8); i++)
                met[plan][live_at_random(plan, nodes, &seed)]++;
    }
    for (int plan = 0; plan < PLANS; plan++)
        for (enum quorum_verdict verdict = QUORUM_WON; verdict <= QUORUM_LOST_CANCELLED; verdict++) {
            bool known = plan == ACQUIRE || plan == ACQUIRE_ALL
                             ? verdict != QUORUM_LOST_GONE
                             : verdict != QUORUM_LOST_HELD &&
                                   (verdict != QUORUM_LOST_TOO_SLOW || plan == EXTEND || plan == ADOPT);
            if ((met[plan][verdict] > 0) != known)
                ck_abort_msg("plan %d: verdict %d met %u times", plan, (int)verdict, met[plan][verdict]);
        }
}

TEST_PROGRAM("quorum/round, exhaustively")
