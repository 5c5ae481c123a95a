/*
 * Functions that all fuzz targets share. A target is LLVMFuzzerTestOneInput() in one file. With clang's libFuzzer it
 * gets generated inputs (preset `fuzz`, scripts/fuzz.sh); in other builds replay.c runs it on the stored inputs as an
 * ordinary test.
 *
 * An input is read from front to back as small numbers. Numbers beyond its end are 0, so every input is valid.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include "support/fixture.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

static inline uint16_t fuzz_word(struct fuzz_input *input)
{
    unsigned low = fuzz_byte(input);
    return (uint16_t)(low | (unsigned)fuzz_byte(input) << 8);
}

static inline uint32_t fuzz_number(struct fuzz_input *input)
{
    uint32_t low = fuzz_word(input);
    return low | (uint32_t)fuzz_word(input) << 16;
}

/* Returns up to `wanted` bytes; *taken is their number. */
static inline const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t wanted, size_t *taken)
{
    const uint8_t *bytes = input->at;
    *taken = wanted < input->left ? wanted : input->left;
    input->at += *taken;
    input->left -= *taken;
    return bytes;
}

/* Aborts with a message if a guarantee is broken. The fuzzer then stores the input. */
#define fuzz_require(condition, ...)                                                                                   \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: '%s' does not hold\n", __FILE__, __LINE__, #condition);                            \
            fixture_fail(__VA_ARGS__);                                                                                 \
        }                                                                                                              \
    } while (0)

/* True if the text may be logged: it has no control characters. */
static inline bool fuzz_is_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return false;
    return true;
}

#endif
