/* What a torture run came to, for people: a few lines, and a picture of faults and holders in time. */
#ifndef TORTURE_REPORT_H
#define TORTURE_REPORT_H

#include "check.h"

bool report_is_clean(const struct check_summary *summary);

void report_text(FILE *out, const struct check_summary *summary, uint64_t seed, bool guard, bool namespaces);

/* One lane for each node and for the clients' faults, one for each resource with its holders. A long run is cut into
 * rows. */
void report_svg(const char *path, const struct check *check, const struct check_summary *summary);

#endif
