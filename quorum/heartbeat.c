#include "quorum/heartbeat.h"

#include <assert.h>

#include "quorum/tally.h"

static quorum_duration smaller(quorum_duration one, quorum_duration other)
{
    return one < other ? one : other;
}

quorum_duration quorum_heartbeat_in_turn(unsigned nodes, quorum_duration shortest_ttl)
{
    assert(nodes >= 1 && nodes <= QUORUM_NODES_MAX);
    quorum_duration most = smaller(QUORUM_HEARTBEAT_MOST, shortest_ttl / QUORUM_HEARTBEATS_IN_TTL);
    quorum_duration interval = smaller(nodes * QUORUM_HEARTBEAT_APART, most);
    return interval > QUORUM_HEARTBEAT ? interval : QUORUM_HEARTBEAT;
}

quorum_time quorum_heartbeat_next(unsigned node, unsigned nodes, quorum_duration interval, uint64_t phase,
                                  quorum_time now)
{
    assert(node < nodes && interval > 0);
    quorum_duration turn = (phase % interval + interval / nodes * node) % interval;
    quorum_duration since = (now % interval + interval - turn) % interval; /* the node's last turn */
    return quorum_time_add(now, interval - since);
}
