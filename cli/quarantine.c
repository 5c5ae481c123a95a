#include "quarantine.h"

/* As long as a node has one of these it grants no lock, in quarantine or not. */
enum {
    LASTING = REDLOCK_FINDING_TOO_OLD | REDLOCK_FINDING_REPLICA | REDLOCK_FINDING_SAME_SERVER |
              REDLOCK_FINDING_OTHER_DEPLOYMENT | REDLOCK_FINDING_NOT_PERMITTED | REDLOCK_FINDING_MARKER_TAKEN |
              REDLOCK_FINDING_FULL
};

bool cli_quarantine_ends(const redlock_node_status *node)
{
    return node->quarantine_ms > 0 && (node->findings & LASTING) == 0;
}
