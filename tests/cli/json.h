/* What a program wrote, as JSON: asked by jq(1), so that it is another's judgement whether it is any. */
#ifndef TESTS_CLI_JSON_H
#define TESTS_CLI_JSON_H

#include "program.h"

#include <string.h>

/* The answer of `jq -r filter` to the program's output, without its last newline; valid until the end of the test. The
 * output must be whole JSON values. */
const char *json_get(struct program *program, const char *filter);

#define json_is(program, filter, expected)                                                                             \
    do {                                                                                                               \
        const char *json_actual = json_get(program, filter);                                                           \
        ck_assert_msg(strcmp(json_actual, expected) == 0, "%s is '%s', not '%s', in %s", filter, json_actual,          \
                      expected, program_output(program));                                                              \
    } while (0)

#endif
