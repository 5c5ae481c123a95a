#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

uint16_t fuzz_word(struct fuzz_input *input)
{
    unsigned low = fuzz_byte(input);
    return (uint16_t)(low | (unsigned)fuzz_byte(input) << 8);
}

uint32_t fuzz_number(struct fuzz_input *input)
{
    uint32_t low = fuzz_word(input);
    return low | (uint32_t)fuzz_word(input) << 16;
}

const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t wanted, size_t *taken)
{
    const uint8_t *bytes = input->at;
    *taken = wanted < input->left ? wanted : input->left;
    input->at += *taken;
    input->left -= *taken;
    return bytes;
}

_Noreturn void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s:%d: '%s' does not hold: ", file, line, condition);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

bool fuzz_is_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return false;
    return true;
}
