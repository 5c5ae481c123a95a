/* Long timeouts for the programs under test: a config file with timeouts that a loaded machine does not reach. The
 * file is in the test program's memory. */
#ifndef TESTS_COMMAND_PATIENCE_H
#define TESTS_COMMAND_PATIENCE_H

#include <check.h>

/* Call this in main(): it opens the file. */
void patience_begin(void);

/* Returns "REDLOCK_CONFIG=..."; the second function returns an environment with only this variable. */
const char *patience_variable(void);
const char *const *patience_environment(void);
/* The same with the default time to connect, for nodes that do not reply. */
const char *const *patience_short_environment(void);

/* Gives scene_on_nodes this environment before each test. Returns the case. */
TCase *patient(TCase *tcase);

#endif
