/* The report of a torture run: a short summary, and a picture of faults and holders over time. */
#ifndef TORTURE_REPORT_H
#define TORTURE_REPORT_H

#include "check.h"

bool report_is_clean(const struct check_summary *summary);

void report_text(FILE *out, const struct check_summary *summary, uint64_t seed, bool guard, bool namespaces);

/* The picture has one lane for each node, one for the clients' faults, and one for each resource with its holders. A
 * long run is split into rows. */
void report_svg(const char *path, const struct check *check, const struct check_summary *summary);

#endif
