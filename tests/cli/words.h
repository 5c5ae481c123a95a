/* Any program, started by its words. */
#ifndef TESTS_CLI_WORDS_H
#define TESTS_CLI_WORDS_H

#include "program.h"

/* The words ended by NULL; the first one is looked for in PATH. */
struct program *words_start(const struct program_options *options, ...) __attribute__((sentinel));
/* The same, and waits for its end. */
struct program *words_run(const struct program_options *options, ...) __attribute__((sentinel));

#endif
