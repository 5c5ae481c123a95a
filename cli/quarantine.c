#include "quarantine.h"

/* A node that is unfit or full grants no lock, in quarantine or not. */
bool cli_quarantine_ends(const redlock_node_status *node)
{
    return node->quarantine_ms > 0 && (node->findings & (REDLOCK_FINDINGS_UNFIT | REDLOCK_FINDING_FULL)) == 0;
}
