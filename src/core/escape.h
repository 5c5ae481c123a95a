/* Converts names of resources, and tokens, to text and back. All texts of the library use this form. */
#ifndef RL_ESCAPE_H
#define RL_ESCAPE_H

#include <stddef.h>

#include "redlock/redlock.h"

/* Replaces each byte of a control character, or not of valid UTF-8, by '?': for texts from nodes, in logs and errors. */
void rl_text_tame(char *text, size_t size);

/* A token's text: that of redlock_escape(), with spaces escaped, too, and a '(' at its start, which marks a remark. */
void rl_token_show(const char *bytes, size_t size, char text[REDLOCK_TOKEN_TEXT_SIZE]);

/* Converts a token's text to *size bytes, which may be 0. Returns a status; result has the error. */
int rl_token_read(const char *text, char bytes[REDLOCK_TOKEN_MAX], size_t *size, redlock_result *result);

#endif
