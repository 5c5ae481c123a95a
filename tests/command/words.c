#include "words.h"

#include <stdarg.h>
#include <stddef.h>

struct program *words_start(const struct program_options *options, ...)
{
    va_list words;

    va_start(words, options);
    struct program *program = program_start_list(options, NULL, words);
    va_end(words);
    return program;
}

struct program *words_run(const struct program_options *options, ...)
{
    va_list words;

    va_start(words, options);
    struct program *program = program_start_list(options, NULL, words);
    va_end(words);
    program_wait(program);
    return program;
}
