/* JSON on standard output: one value, a line. What is begun must be ended; a key is NULL for the members of an array. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void cli_json_object(const char *key);
void cli_json_array(const char *key);
/* Ends the object or array begun last; the outermost with its line. */
void cli_json_end(void);

void cli_json_text(const char *key, const char *text);
void cli_json_number(const char *key, int64_t number);
void cli_json_bool(const char *key, bool value);
void cli_json_null(const char *key);

/* The name of a resource, as redlock_escape() writes it. */
void cli_json_escaped(const char *key, const char *bytes);

#endif
