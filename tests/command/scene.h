/* Shared by the tests of redlock(1): trusted nodes, and a check after each test that no key is left on them. */
#ifndef TESTS_COMMAND_SCENE_H
#define TESTS_COMMAND_SCENE_H

#include "program.h"
#include "real/real.h"

#include <check.h>

/* As real_shared_case() and real_own_case(), with nodes that are trusted before each test. */
TCase *scene_shared_case(Suite *suite, const char *name);
TCase *scene_own_case(Suite *suite, const char *name);
/* A case without nodes. */
TCase *scene_bare_case(Suite *suite, const char *name);

/* Ends the quarantine of these nodes. */
void scene_trust(const char *nodes);

/* Options with real_nodes' addresses. */
extern struct program_options scene_on_nodes;

#endif
