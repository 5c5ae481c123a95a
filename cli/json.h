/* JSON on standard output: one value per line. Each begin needs its end; the key is NULL for members of an array. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void cli_json_object(const char *key);
void cli_json_array(const char *key);
/* Ends the innermost object or array; the outermost also ends the line. */
void cli_json_end(void);

void cli_json_text(const char *key, const char *text);
void cli_json_number(const char *key, int64_t number);
void cli_json_bool(const char *key, bool value);

/* token; and label and since, if the token has them. */
void cli_json_holder(const redlock_holder *holder);

/* remaining_ms, of a lock; null: it has no expiry. */
void cli_json_left(int64_t remaining_ms);

/* A resource's name in the form of redlock_escape(). */
void cli_json_escaped(const char *key, const char *bytes);

#endif
