/* Writes texts, and converts names of resources, and tokens, to text and back. All texts of the library use this form. */
#ifndef RL_ESCAPE_H
#define RL_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "redlock/redlock.h"

/* A text in a buffer, truncated at the buffer's end. What does not fit is counted, too, so that a caller learns the size. */
struct rl_writer {
    char *at;
    size_t size;
    size_t used;
};

void rl_write(struct rl_writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* -1: it is no hexadecimal digit. */
int rl_hex_digit(char digit);

/* Replaces each byte of a control character, or not of valid UTF-8, by '?': for texts from nodes, in logs and errors. */
void rl_text_tame(char *text, size_t size);

/* A token's text: that of redlock_escape(), with spaces escaped, too, and a '(' at its start, which marks a remark. */
void rl_token_show(const char *bytes, size_t size, char text[REDLOCK_TOKEN_TEXT_SIZE]);

/* Remarks in place of a token. */
#define RL_REMARK_SHARED  "(shared)"
#define RL_REMARK_NO_LOCK "(not a string)"

/* Describes the holder that has this token. */
void rl_holder_show(const char *token, size_t size, redlock_holder *holder);

/* The label may be part of a token: 1 to 63 characters of printable ASCII, of which none is a space or a backslash, so
 * that a token is its own text. */
bool rl_label_is_valid(const char *label, size_t size);

/* Writes the default label, "host:pid". */
void rl_label_default(char label[REDLOCK_LABEL_SIZE]);

/* Converts a token's text to *size bytes, which may be 0. Returns a status; result has the error. */
int rl_token_read(const char *text, char bytes[REDLOCK_TOKEN_MAX], size_t *size, redlock_result *result);

#endif
