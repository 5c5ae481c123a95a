#include "json.h"

#include <redlock/redlock.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { DEPTH_MAX = 8 };

static char ends[DEPTH_MAX]; /* of open objects and arrays */
static unsigned depth;
static bool has_members;

/* How many bytes the UTF-8 character has that begins here; 0: it is none, or a control character. */
static size_t character_size(const char *bytes, size_t size)
{
    for (size_t length = 1; length <= size; length++)
        if (redlock_escape(bytes, length, NULL, 0) == length + 1)
            return length;
    return 0;
}

static void write_string(const char *text)
{
    putchar('"');
    while (*text != '\0') {
        size_t length = character_size(text, strnlen(text, 4)); /* none has more than 4 */
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if (length > 0)
            fwrite(text, 1, length, stdout);
        else if ((unsigned char)*text < 0x80)
            printf("\\u%04x", (unsigned)*text);
        else
            fputs("\\ufffd", stdout);
        text += length > 0 ? length : 1;
    }
    putchar('"');
}

static void member(const char *key)
{
    if (has_members)
        putchar(',');
    has_members = true;
    if (key == NULL)
        return;
    write_string(key);
    putchar(':');
}

static void begin(const char *key, const char *brackets)
{
    assert(depth < DEPTH_MAX);
    member(key);
    putchar(brackets[0]);
    ends[depth++] = brackets[1];
    has_members = false;
}

void cli_json_object(const char *key)
{
    begin(key, "{}");
}

void cli_json_array(const char *key)
{
    begin(key, "[]");
}

void cli_json_end(void)
{
    assert(depth > 0);
    putchar(ends[--depth]);
    has_members = depth > 0;
    if (depth == 0)
        putchar('\n');
}

void cli_json_text(const char *key, const char *text)
{
    member(key);
    write_string(text);
}

void cli_json_number(const char *key, int64_t number)
{
    member(key);
    printf("%lld", (long long)number);
}

void cli_json_bool(const char *key, bool value)
{
    member(key);
    fputs(value ? "true" : "false", stdout);
}

void cli_json_left(int64_t remaining_ms)
{
    if (remaining_ms != REDLOCK_STATE_NO_EXPIRY) {
        cli_json_number("remaining_ms", remaining_ms);
        return;
    }
    member("remaining_ms");
    fputs("null", stdout);
}

void cli_json_escaped(const char *key, const char *bytes)
{
    char text[4 * REDLOCK_RESOURCE_MAX + 1];

    redlock_escape(bytes, 0, text, sizeof(text));
    cli_json_text(key, text);
}

void cli_json_holder(const redlock_holder *holder)
{
    char since[32];
    struct tm utc;
    time_t then = (time_t)holder->since_s;

    cli_json_text("token", holder->token);
    if (*holder->label == '\0')
        return;
    cli_json_text("label", holder->label);
    if (gmtime_r(&then, &utc) != NULL && strftime(since, sizeof(since), "%Y-%m-%dT%H:%M:%SZ", &utc) > 0)
        cli_json_text("since", since);
}
