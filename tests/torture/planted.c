/* The planted bug: the client takes a lock to be valid for twice the time that the nodes keep it. Linked in place of
 * the real rule (--wrap). */
#include "quorum/validity.h"

quorum_time __wrap_quorum_validity_end(quorum_time sent, quorum_duration ttl, uint32_t drift_ppm);

quorum_time __wrap_quorum_validity_end(quorum_time sent, quorum_duration ttl, uint32_t drift_ppm)
{
    (void)drift_ppm;
    return quorum_time_add(sent, 2 * ttl);
}
