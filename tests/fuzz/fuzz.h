/*
 * What the fuzz targets share. A target is LLVMFuzzerTestOneInput() in one file: built with clang's libFuzzer it
 * invents inputs (preset `fuzz`, scripts/fuzz.sh); everywhere else replay.c feeds it the kept ones, as an ordinary
 * test.
 *
 * Inputs are read front to back as small numbers; what is missing at the end is 0, so that every input means something.
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
/* Up to so many bytes; *taken says how many there were. */
const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t wanted, size_t *taken);

/* A promise was broken: says which, and aborts, which the fuzzer keeps the input for. */
#define fuzz_require(condition, ...)                                                                                   \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fuzz_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                                                    \
    } while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Text that may stand in a log: no control characters. */
bool fuzz_is_printable(const char *text);

#endif
