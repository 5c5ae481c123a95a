#define _GNU_SOURCE
#include "words.h"

#include "support/fixture.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

enum { WORDS_MAX = 32 };

static struct program *start(const struct program_options *options, va_list words)
{
    char *argv[WORDS_MAX] = {NULL};
    size_t count = 0;
    const char *word;

    while ((word = va_arg(words, const char *)) != NULL && count + 1 < WORDS_MAX)
        argv[count++] = fixture_text("%s", word);
    struct program *program = program_start_argv(options, argv);
    while (count > 0)
        free(argv[--count]);
    return program;
}

struct program *words_start(const struct program_options *options, ...)
{
    va_list words;

    va_start(words, options);
    struct program *program = start(options, words);
    va_end(words);
    return program;
}

struct program *words_run(const struct program_options *options, ...)
{
    va_list words;

    va_start(words, options);
    struct program *program = start(options, words);
    va_end(words);
    program_wait(program);
    return program;
}
