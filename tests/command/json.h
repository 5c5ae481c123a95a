/* Reads a program's output as JSON with jq(1), so that an independent program decides whether it is valid. */
#ifndef TESTS_COMMAND_JSON_H
#define TESTS_COMMAND_JSON_H

#include "program.h"

#include <string.h>

/* Returns the output of `jq -r filter` for the program's output, without its last newline. It is valid until the end
 * of the test. The program's output must consist of complete JSON values. */
const char *json_get(struct program *program, const char *filter);

#define json_is(program, filter, expected)                                                                             \
    do {                                                                                                               \
        const char *json_actual = json_get(program, filter);                                                           \
        ck_assert_msg(strcmp(json_actual, expected) == 0, "%s is '%s', not '%s', in %s", filter, json_actual,          \
                      expected, program_output(program));                                                              \
    } while (0)

#endif
