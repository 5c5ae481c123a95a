#include "quorum/deadline.h"

static quorum_duration longest(const struct quorum_patience *patience)
{
    return patience->most > patience->least ? patience->most : patience->least;
}

quorum_duration quorum_deadline_timeout(const struct quorum_round_trip *round_trip,
                                        const struct quorum_patience *patience)
{
    quorum_duration timeout = round_trip->smoothed + 4 * round_trip->deviation;
    if (timeout < patience->least)
        return patience->least;
    return timeout < longest(patience) ? timeout : longest(patience);
}

void quorum_deadline_measured(struct quorum_round_trip *round_trip, const struct quorum_patience *patience,
                              quorum_duration took)
{
    quorum_duration most = 2 * quorum_deadline_timeout(round_trip, patience);
    if (!round_trip->measured) {
        took = took < longest(patience) ? took : longest(patience); /* there is no earlier one to compare it with */
        *round_trip = (struct quorum_round_trip){.smoothed = took, .deviation = took / 2, .measured = true};
        return;
    }
    took = took < most ? took : most;
    quorum_duration smoothed = round_trip->smoothed;
    quorum_duration off = took > smoothed ? took - smoothed : smoothed - took;
    round_trip->deviation = (3 * round_trip->deviation + off) / 4;
    round_trip->smoothed = (7 * smoothed + took) / 8;
}

quorum_time quorum_deadline_due(const struct quorum_round_trip *round_trip, const struct quorum_patience *patience,
                                quorum_time sent, quorum_time heard)
{
    quorum_time since = sent > heard ? sent : heard;
    quorum_time due = quorum_time_add(since, quorum_deadline_timeout(round_trip, patience));
    quorum_time last = quorum_time_add(sent, longest(patience));
    return due < last ? due : last;
}
