/* RESP2 as servers see it: reads and writes commands. Binary safe. Clients read replies with hiredis. */
#ifndef TESTS_SUPPORT_RESP_H
#define TESTS_SUPPORT_RESP_H

#include "fixture.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct resp_argument {
    const char *data; /* followed by a NUL that length does not include */
    size_t length;
};

static inline struct resp_argument resp_argument_of(const char *text)
{
    return (struct resp_argument){.data = text, .length = strlen(text)};
}

/* The words of a command, ended by NULL, as arguments. Returns their number. */
enum { RESP_MOST_WORDS = 64 };
size_t resp_words(struct resp_argument argv[RESP_MOST_WORDS], va_list words);

/* A single block: free() frees all of it. */
struct resp_command {
    size_t argc;
    struct resp_argument argv[];
};

enum resp_progress { RESP_WHOLE, RESP_INCOMPLETE, RESP_MALFORMED };

/* Parses the first command in the bytes. If it is complete, *used is its length, and the caller frees *command. */
enum resp_progress resp_parse_command(const char *data, size_t length, size_t *used, struct resp_command **command);

/* True if its name is `name`, in any case. "CLIENT ID" also compares the first argument; NULL matches every command. */
bool resp_command_is(const struct resp_command *command, const char *name);

bool resp_argument_is(const struct resp_argument *argument, const char *text);

/* Whether the name of a key matches one of the patterns (glob), a list ended by NULL, or NULL. */
bool resp_matches_any(const char *name, const char *const *patterns);

/* Reads a number as Redis does: without spaces, a plus sign or leading zeros. */
bool resp_argument_integer(struct resp_argument text, long long *number);

void resp_write_command(struct bytes *out, size_t argc, const struct resp_argument *argv);

#endif
