/* Starts any program from a list of words. */
#ifndef TESTS_COMMAND_WORDS_H
#define TESTS_COMMAND_WORDS_H

#include "program.h"

/* The list is ended by NULL. The first word is searched in PATH. */
struct program *words_start(const struct program_options *options, ...) __attribute__((sentinel));
/* The same, and waits for the end of the program. */
struct program *words_run(const struct program_options *options, ...) __attribute__((sentinel));

#endif
