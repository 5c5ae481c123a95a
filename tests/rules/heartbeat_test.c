/* The turns of the heartbeats: every node is heard often enough for the locks that are held, some node at least every
 * 0.6 s, and no two nodes of a client, nor many clients, at the same time. */
#include "quorum/heartbeat.h"

#include "quorum/tally.h"
#include "quorum/validity.h"
#include "rules/random.h"
#include "support/test.h"

#define MS QUORUM_MILLISECOND

TEST_CASE(heartbeat, NULL, NULL);

static const struct {
    unsigned nodes;
    quorum_duration shortest_ttl, interval;
} rows[] = {
    {1, 30000 * MS, 1000 * MS},   {2, 30000 * MS, 1200 * MS},   {3, 30000 * MS, 1800 * MS},  {4, 30000 * MS, 2400 * MS},
    {5, 30000 * MS, 3000 * MS},   {6, 30000 * MS, 3000 * MS},   {32, 30000 * MS, 3000 * MS}, {5, 9000 * MS, 3000 * MS},
    {5, 8999 * MS, 2999666666u},  {5, 5000 * MS, 1666666666u},  {3, 5000 * MS, 1666666666u}, {5, 3000 * MS, 1000 * MS},
    {5, 2000 * MS, 1000 * MS},    {32, 2000 * MS, 1000 * MS},   {5, 100 * MS, 1000 * MS},    {5, 0, 1000 * MS},
    {5, QUORUM_NEVER, 3000 * MS}, {1, QUORUM_NEVER, 1000 * MS},
};

TEST_ROWS(heartbeat, interval_in_turn_follows_the_nodes_and_the_shortest_ttl, ROWS(rows))
{
    ck_assert_uint_eq(quorum_heartbeat_in_turn(rows[_i].nodes, rows[_i].shortest_ttl), rows[_i].interval);
}

/* A step of a clock passes unnoticed if it is within the drift of the interval. Twice that is within what the validity of
 * any lock allows for, apart from those for which a heartbeat a second is too rare as well. */
TEST(heartbeat, step_that_passes_as_drift_is_within_the_drift_of_every_lock)
{
    for (unsigned nodes = 1; nodes <= QUORUM_NODES_MAX; nodes++)
        for (quorum_duration ttl = 2000 * MS; ttl <= 60000 * MS; ttl += 100 * MS) {
            quorum_duration passes = quorum_drift(quorum_heartbeat_in_turn(nodes, ttl), 10000) - QUORUM_DRIFT_FLOOR;
            ck_assert_uint_le(2 * passes, quorum_drift(ttl, 10000) - QUORUM_DRIFT_FLOOR);
        }
}

/* For two intervals: each node has two turns, an interval apart, and between two turns in a row, whosever they are, is the
 * interval divided by the nodes. A turn is never now: the heartbeat of this moment has just been answered. Clients whose phases
 * are evenly spread are not in step. */
TEST(heartbeat, turns_are_evenly_spread)
{
    static const quorum_duration intervals[] = {1000 * MS, 1800 * MS, 3000 * MS};
    uint64_t seed = 1;
    for (int life = 0; life < 100; life++) {
        unsigned nodes = 1 + random_below(&seed, QUORUM_NODES_MAX);
        quorum_duration interval = intervals[random_below(&seed, 3)];
        uint64_t phase = next_random(&seed);
        quorum_time begin = next_random(&seed) % (QUORUM_SECOND * 1000000), now = begin;
        unsigned turns[QUORUM_NODES_MAX] = {0};
        ck_assert_uint_eq(quorum_heartbeat_next(0, nodes, interval, phase, 0) % interval, phase % interval);
        for (unsigned turn = 0; turn < 2 * nodes; turn++) {
            quorum_time next = QUORUM_NEVER;
            unsigned whose = 0;
            for (unsigned i = 0; i < nodes; i++) {
                quorum_time due = quorum_heartbeat_next(i, nodes, interval, phase, now);
                ck_assert(due > now && due <= now + interval);
                whose = due < next ? i : whose;
                next = due < next ? due : next;
            }
            ck_assert_uint_le(next - now, interval / nodes + nodes);
            ck_assert_uint_eq(quorum_heartbeat_next(whose, nodes, interval, phase, next), next + interval);
            turns[whose]++;
            now = next;
        }
        for (unsigned i = 0; i < nodes; i++)
            ck_assert_uint_eq(turns[i], 2);
    }
}

TEST(heartbeat, no_time_is_too_late)
{
    ck_assert_uint_eq(quorum_heartbeat_next(0, 5, 1000 * MS, UINT64_MAX, QUORUM_NEVER), QUORUM_NEVER);
}

TEST_PROGRAM("quorum/heartbeat")
