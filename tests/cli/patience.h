/* Patience for the programs under test: a config file with timeouts that a loaded machine does not reach. It is in the
 * memory of the test program. */
#ifndef TESTS_CLI_PATIENCE_H
#define TESTS_CLI_PATIENCE_H

#include <check.h>

/* To be called in main(): the file is open from then on. */
void patience_begin(void);

/* "REDLOCK_CONFIG=..."; and an environment of it alone. */
const char *patience_variable(void);
const char *const *patience_environment(void);
/* The same with the usual time to connect, for nodes that do not answer. */
const char *const *patience_short_environment(void);

/* Gives scene_on_nodes this environment before each test; returns the case. */
TCase *patient(TCase *tcase);

#endif
