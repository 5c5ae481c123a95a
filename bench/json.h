/* Writes one JSON document, piece by piece. */
#ifndef BENCH_JSON_H
#define BENCH_JSON_H

#include <stdbool.h>
#include <stdio.h>

struct json {
    FILE *file;
    bool started; /* the innermost object or array has a member already */
};

/* A key of NULL: a member of an array. */
void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);
void json_text(struct json *json, const char *key, const char *text);
void json_number(struct json *json, const char *key, double number); /* NaN becomes null */

#endif
