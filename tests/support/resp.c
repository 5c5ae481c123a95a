#define _GNU_SOURCE
#include "resp.h"

#include "fixture.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { MOST_ARGUMENTS = 1 << 20, LONGEST_ARGUMENT = 512 << 20 };

/* The reading position. */
struct cursor {
    const char *data;
    size_t length;
    size_t at;
};

bool resp_argument_integer(struct resp_argument text, long long *number)
{
    bool negative = text.length > 0 && text.data[0] == '-';
    unsigned long long most = LLONG_MAX + (unsigned long long)negative, value = 0;
    size_t at = negative;
    if (at == text.length || (text.data[at] == '0' && text.length > 1))
        return false;
    for (; at < text.length; at++) {
        if (text.data[at] < '0' || text.data[at] > '9')
            return false;
        unsigned digit = (unsigned)(text.data[at] - '0');
        if (value > (most - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    *number = negative ? (long long)(0 - value) : (long long)value;
    return true;
}

/* A reply, or the beginning of an array. */
struct item {
    char type;
    const char *text; /* the bytes of a bulk string, or the rest of the line */
    size_t length;
    long long number; /* of an integer, a bulk string or an array; -1 of the latter two is nil */
};

static bool is_one_of(char type, const char *types)
{
    return memchr(types, type, strlen(types));
}

static enum resp_progress read_item(struct cursor *cursor, struct item *item)
{
    if (cursor->at == cursor->length)
        return RESP_INCOMPLETE;
    const char *start = cursor->data + cursor->at, *last = cursor->data + cursor->length - 1;
    const char *end = memchr(start, '\r', (size_t)(last - start)); /* memmem() would let ASan check all of it */
    while (end && end[1] != '\n')
        end = memchr(end + 1, '\r', (size_t)(last - end - 1));
    if (!end)
        return RESP_INCOMPLETE;
    if (!is_one_of(*start, "+-:$*"))
        return RESP_MALFORMED;
    *item = (struct item){.type = *start, .text = start + 1, .length = (size_t)(end - start) - 1};
    if (is_one_of(item->type, ":$*") &&
        !resp_argument_integer((struct resp_argument){item->text, item->length}, &item->number))
        return RESP_MALFORMED;
    cursor->at += item->length + 3;
    if (item->type == '*' && item->number > MOST_ARGUMENTS)
        return RESP_MALFORMED;
    if (item->type != '$' || item->number < 0)
        return RESP_WHOLE;
    if (item->number > LONGEST_ARGUMENT)
        return RESP_MALFORMED;
    if (cursor->length - cursor->at < (size_t)item->number + 2)
        return RESP_INCOMPLETE;
    item->text = cursor->data + cursor->at;
    item->length = (size_t)item->number;
    cursor->at += item->length + 2;
    return RESP_WHOLE;
}

enum resp_progress resp_parse_reply(const char *data, size_t length, size_t *used)
{
    struct cursor cursor = {.data = data, .length = length};
    struct item item;
    /* An array of n elements requires n more replies. */
    for (long long owed = 1; owed > 0; owed--) {
        enum resp_progress progress = read_item(&cursor, &item);
        if (progress != RESP_WHOLE)
            return progress;
        if (item.type == '*' && item.number > 0)
            owed += item.number;
    }
    *used = cursor.at;
    return RESP_WHOLE;
}

/* A command is an array of bulk strings. The copies of its arguments need less room than its bytes. */
enum resp_progress resp_parse_command(const char *data, size_t length, size_t *used, struct resp_command **command)
{
    struct cursor cursor = {.data = data, .length = length};
    struct item item;
    if (length > 0 && data[0] != '*')
        return RESP_MALFORMED;
    enum resp_progress progress = resp_parse_reply(data, length, used);
    if (progress != RESP_WHOLE)
        return progress;
    read_item(&cursor, &item);
    if (item.number <= 0)
        return RESP_MALFORMED;
    size_t argc = (size_t)item.number;
    struct resp_command *parsed = fixture_allocate(sizeof *parsed + argc * sizeof *parsed->argv + *used);
    char *copy = (char *)&parsed->argv[argc];
    for (; parsed->argc < argc; parsed->argc++) {
        read_item(&cursor, &item);
        if (item.type != '$' || item.number < 0 || memcmp(item.text + item.length, "\r\n", 2) != 0) {
            free(parsed);
            return RESP_MALFORMED;
        }
        parsed->argv[parsed->argc] = (struct resp_argument){.data = copy, .length = item.length};
        memcpy(copy, item.text, item.length);
        copy += item.length + 1;
    }
    *command = parsed;
    return RESP_WHOLE;
}

static bool same_word(const struct resp_argument *argument, const char *word, size_t length)
{
    return argument->length == length && strncasecmp(argument->data, word, length) == 0;
}

bool resp_command_is(const struct resp_command *command, const char *name)
{
    if (!name)
        return true;
    size_t first = strcspn(name, " ");
    if (!same_word(&command->argv[0], name, first))
        return false;
    if (name[first] == '\0')
        return true;
    return command->argc > 1 && same_word(&command->argv[1], name + first + 1, strlen(name + first + 1));
}

bool resp_argument_is(const struct resp_argument *argument, const char *text)
{
    return argument->length == strlen(text) && memcmp(argument->data, text, argument->length) == 0;
}

bool resp_matches_any(const char *name, const char *const *patterns)
{
    for (; patterns && *patterns; patterns++)
        if (fnmatch(*patterns, name, 0) == 0)
            return true;
    return false;
}

size_t resp_words(struct resp_argument argv[RESP_MOST_WORDS], va_list words)
{
    size_t argc = 0;
    const char *word;
    while ((word = va_arg(words, const char *))) {
        if (argc == RESP_MOST_WORDS)
            fixture_fail("a command of more than %d words", RESP_MOST_WORDS);
        argv[argc++] = resp_argument_of(word);
    }
    return argc;
}

void resp_write_command(struct bytes *out, size_t argc, const struct resp_argument *argv)
{
    resp_write_array(out, argc);
    for (size_t i = 0; i < argc; i++)
        resp_write_bulk(out, argv[i].data, argv[i].length);
}

static void write_line(struct bytes *out, char mark, long long number)
{
    bytes_print(out, "%c%lld\r\n", mark, number);
}

void resp_write_integer(struct bytes *out, long long value)
{
    write_line(out, ':', value);
}

void resp_write_bulk(struct bytes *out, const void *data, size_t length)
{
    write_line(out, '$', (long long)length);
    char *end = bytes_room(out, length + 2);
    if (length > 0)
        memcpy(end, data, length);
    memcpy(end + length, "\r\n", 2);
    out->length += length + 2;
}

void resp_write_array(struct bytes *out, size_t count)
{
    write_line(out, '*', (long long)count);
}

void resp_reply_text(const char *data, size_t length, struct bytes *out)
{
    struct cursor cursor = {.data = data, .length = length};
    struct item item;
    size_t elements = 0;
    while (cursor.at < length && read_item(&cursor, &item) == RESP_WHOLE) {
        bool is_nil = is_one_of(item.type, "$*") && item.number < 0;
        if (item.type == '*' && !is_nil)
            continue;
        bytes_print(out, "%s%s", elements++ > 0 ? "\n" : "", item.type == '-' ? "-" : is_nil ? "(nil)" : "");
        bytes_append(out, item.text, is_nil ? 0 : item.length);
    }
}
