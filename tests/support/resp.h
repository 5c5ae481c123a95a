/* RESP2, as far as fixtures need it: reading commands and replies, writing both. Binary safe. */
#ifndef TESTS_SUPPORT_RESP_H
#define TESTS_SUPPORT_RESP_H

#include "bytes.h"

#include <stdbool.h>
#include <stddef.h>

struct resp_argument {
    const char *data; /* followed by a NUL that does not belong to it */
    size_t length;
};

/* One block: free() frees all of it. */
struct resp_command {
    size_t argc;
    struct resp_argument argv[];
};

enum resp_progress { RESP_WHOLE, RESP_INCOMPLETE, RESP_MALFORMED };

/* The first command in the bytes; when whole, *used is its length and *command the caller's to free. */
enum resp_progress resp_parse_command(const char *data, size_t length, size_t *used, struct resp_command **command);

/* Is its name `name`, in any case? "CLIENT ID" also asks for the first argument; NULL is every command. */
bool resp_command_is(const struct resp_command *command, const char *name);

bool resp_argument_is(const struct resp_argument *argument, const char *text);

void resp_write_command(struct bytes *out, size_t argc, const struct resp_argument *argv);
void resp_write_status(struct bytes *out, const char *text);
void resp_write_error(struct bytes *out, const char *text);
/* Redis' words for a command with too few or too many arguments. */
void resp_write_wrong_arguments(struct bytes *out, const char *command);
void resp_write_integer(struct bytes *out, long long value);
void resp_write_bulk(struct bytes *out, const void *data, size_t length);
void resp_write_text(struct bytes *out, const char *text);
void resp_write_nil(struct bytes *out);
void resp_write_array(struct bytes *out, size_t count);

/* The first reply in the bytes; when whole, *used is its length. */
enum resp_progress resp_parse_reply(const char *data, size_t length, size_t *used);

/* A whole reply for people and for comparisons: "OK", "17", the bytes of a bulk string, "(nil)", "-ERR text", and the
 * elements of an array one per line. */
void resp_reply_text(const char *data, size_t length, struct bytes *out);

#endif
