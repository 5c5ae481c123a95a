/* Which nodes will grant locks after their quarantine. */
#ifndef CLI_QUARANTINE_H
#define CLI_QUARANTINE_H

#include <redlock/redlock.h>

#include <stdbool.h>

/* Whether the node is in quarantine, and grants locks when that ends, by itself or by redlock trust. */
bool cli_quarantine_ends(const redlock_node_status *node);

#endif
