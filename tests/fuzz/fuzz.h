/*
 * Functions that all fuzz targets share. A target is LLVMFuzzerTestOneInput() in one file. With clang's libFuzzer it
 * gets generated inputs (preset `fuzz`, scripts/fuzz.sh); in other builds replay.c runs it on the stored inputs as an
 * ordinary test.
 *
 * An input is read from front to back as small numbers. Numbers beyond its end are 0, so every input is valid.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

uint8_t fuzz_byte(struct fuzz_input *input);
uint16_t fuzz_word(struct fuzz_input *input);
uint32_t fuzz_number(struct fuzz_input *input);
/* Returns up to `wanted` bytes; *taken is their number. */
const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t wanted, size_t *taken);

/* Aborts with a message if a guarantee is broken. The fuzzer then stores the input. */
#define fuzz_require(condition, ...)                                                                                   \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fuzz_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                                                    \
    } while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* True if the text may be logged: it has no control characters. */
bool fuzz_is_printable(const char *text);

#endif
