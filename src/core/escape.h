/* The one way in which bytes are shown as text: names of resources, and tokens. */
#ifndef RL_ESCAPE_H
#define RL_ESCAPE_H

#include <stddef.h>

#include "redlock/redlock.h"

/* A token's text: that of redlock_escape(), without spaces and without a '(' at its start, which begins a remark. */
void rl_token_show(const char *bytes, size_t size, char text[REDLOCK_TOKEN_TEXT_SIZE]);

/* Reads a token from its text: *size bytes, which may be 0. */
int rl_token_read(const char *text, char bytes[REDLOCK_TOKEN_MAX], size_t *size, redlock_result *result);

#endif
