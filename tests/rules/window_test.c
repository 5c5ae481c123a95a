/* The window of a node: it grows while round trips are short and requests wait, and shrinks when the node queues
 * them. */
#include "quorum/window.h"

#include "quorum/tally.h"

#include "support/test.h"

#define MS QUORUM_MILLISECOND
#define US QUORUM_MICROSECOND

static struct quorum_window window;

static void setup(void)
{
    quorum_window_init(&window);
}

static void fill(void)
{
    ck_assert(quorum_window_admits(&window, window.limit - 1));
    ck_assert(!quorum_window_admits(&window, window.limit));
}

/* The node timeout is 50 ms, so the window aims at twice the shortest round trip and 25 ms. */
static const struct {
    quorum_duration shortest, took;
    bool full;
    unsigned limit;
} measured[] = {
    {MS, MS, false, QUORUM_WINDOW_FIRST},
    {MS, MS, true, 2 * QUORUM_WINDOW_FIRST},
    {MS, 18 * MS - US, true, QUORUM_WINDOW_FIRST / 2 * 3},
    {MS, 27 * MS - US, true, QUORUM_WINDOW_FIRST},
    {MS, 27 * MS - US, false, QUORUM_WINDOW_FIRST},
    {MS, 54 * MS - US, true, QUORUM_WINDOW_FIRST / 2},
    {MS, 54 * MS - US, false, QUORUM_WINDOW_FIRST / 2},
    {MS, 1000 * MS, true, QUORUM_WINDOW_FIRST / 4},
    {100 * MS, 150 * MS - US, true, QUORUM_WINDOW_FIRST / 2 * 3},
    {100 * MS, 450 * MS - US, true, QUORUM_WINDOW_FIRST / 2},
    {100 * MS, 0, true, 2 * QUORUM_WINDOW_FIRST},
};

TEST_CASE(window, setup, NULL);

TEST_ROWS(window, window_follows_the_round_trip, ROWS(measured))
{
    quorum_window_measured(&window, measured[_i].shortest, 50 * MS);
    if (measured[_i].full)
        fill();
    quorum_window_measured(&window, measured[_i].took, 50 * MS);
    ck_assert_uint_eq(window.limit, measured[_i].limit);
}

TEST(window, window_stays_within_its_bounds)
{
    for (unsigned i = 0; i < 20; i++) {
        fill();
        quorum_window_measured(&window, MS, 50 * MS);
    }
    ck_assert_uint_eq(window.limit, QUORUM_WINDOW_MOST);
    for (unsigned i = 0; i < 100; i++)
        quorum_window_measured(&window, 60 * MS, 50 * MS);
    ck_assert_uint_eq(window.limit, QUORUM_WINDOW_LEAST);
}

TEST(window, window_aims_at_the_shortest_of_all_round_trips)
{
    static const quorum_duration trips[] = {100 * MS, 0, 2 * MS};
    for (int i = 0; i < ROWS(trips); i++)
        quorum_window_measured(&window, trips[i], 50 * MS);
    quorum_window_measured(&window, 50 * MS - US, 50 * MS);
    ck_assert_uint_eq(window.limit, QUORUM_WINDOW_FIRST / 2);
}

/* A window that was full once does not grow with every later round trip. */
TEST(window, window_grows_once_for_each_time_that_it_was_full)
{
    fill();
    quorum_window_measured(&window, MS, 50 * MS);
    quorum_window_measured(&window, MS, 50 * MS);
    ck_assert_uint_eq(window.limit, 2 * QUORUM_WINDOW_FIRST);
}

TEST(window, acquires_wait_until_a_majority_has_room_unless_none_can)
{
    for (unsigned nodes = 1; nodes <= QUORUM_NODES_MAX; nodes++)
        for (unsigned roomy = 0; roomy <= nodes; roomy++)
            for (unsigned awaited = 0; roomy + awaited <= nodes; awaited++)
                ck_assert_int_eq(quorum_window_crowded(roomy, awaited, nodes),
                                 2 * roomy <= nodes && 2 * (roomy + awaited) > nodes);
}

TEST_PROGRAM("quorum/window")
