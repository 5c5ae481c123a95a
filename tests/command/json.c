#define _GNU_SOURCE
#include "json.h"

#include "words.h"

#include "support/fixture.h"

#include <stdlib.h>
#include <string.h>

static void destroy(void *text)
{
    free(text);
}

const char *json_get(struct program *program, const char *filter)
{
    const char *text = program_output(program);
    struct program *jq = words_run(NULL, "sh", "-c", "printf %s \"$1\" | jq -r \"$2\"", "sh", text, filter, NULL);

    if (program_wait(jq) != 0)
        fixture_fail("jq '%s': %s; the text: %s", filter, program_errors(jq), text);
    char *answer = fixture_text("%s", program_output(jq));
    answer[strcspn(answer, "\n")] = '\0';
    fixture_register(answer, destroy);
    return answer;
}
