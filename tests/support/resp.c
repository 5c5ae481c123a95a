#define _GNU_SOURCE
#include "resp.h"

#include "fixture.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { MOST_ARGUMENTS = 1 << 20, LONGEST_ARGUMENT = 512 << 20 };

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

/* The reading position. */
struct cursor {
    const char *data;
    size_t left;
};

/* Reads a line of a mark and a size: "*3\r\n". */
static enum resp_progress read_size(struct cursor *cursor, char mark, long long most, size_t *size)
{
    const char *line = cursor->data;
    long long number;
    if (cursor->left == 0)
        return RESP_INCOMPLETE;
    if (*line != mark)
        return RESP_MALFORMED;
    const char *end = memchr(line, '\n', cursor->left);
    if (!end)
        return RESP_INCOMPLETE;
    if (end[-1] != '\r' ||
        !resp_argument_integer((struct resp_argument){line + 1, (size_t)(end - line) - 2}, &number) || number < 0 ||
        number > most)
        return RESP_MALFORMED;
    *size = (size_t)number;
    cursor->left -= (size_t)(end + 1 - line);
    cursor->data = end + 1;
    return RESP_WHOLE;
}

static enum resp_progress read_argument(struct cursor *cursor, struct resp_argument *argument)
{
    enum resp_progress progress = read_size(cursor, '$', LONGEST_ARGUMENT, &argument->length);
    if (progress != RESP_WHOLE)
        return progress;
    if (cursor->left < argument->length + 2)
        return RESP_INCOMPLETE;
    argument->data = cursor->data;
    cursor->data += argument->length + 2;
    cursor->left -= argument->length + 2;
    return memcmp(cursor->data - 2, "\r\n", 2) == 0 ? RESP_WHOLE : RESP_MALFORMED;
}

/* A command is an array of bulk strings. The copies of its arguments need less room than its bytes. */
enum resp_progress resp_parse_command(const char *data, size_t length, size_t *used, struct resp_command **command)
{
    struct cursor cursor = {data, length};
    size_t argc = 0;
    enum resp_progress progress = read_size(&cursor, '*', MOST_ARGUMENTS, &argc);
    if (progress != RESP_WHOLE)
        return progress;
    size_t head = sizeof **command + argc * sizeof *(*command)->argv;
    struct resp_command *parsed = fixture_allocate(head);
    while (parsed->argc < argc && progress == RESP_WHOLE)
        progress = read_argument(&cursor, &parsed->argv[parsed->argc++]);
    if (progress != RESP_WHOLE || argc == 0) {
        free(parsed);
        return progress != RESP_WHOLE ? progress : RESP_MALFORMED;
    }
    *used = length - cursor.left;
    parsed = fixture_reallocate(parsed, head + *used);
    char *copy = (char *)parsed + head;
    for (size_t i = 0; i < argc; i++) {
        struct resp_argument *argument = &parsed->argv[i];
        memcpy(copy, argument->data, argument->length);
        copy[argument->length] = '\0';
        argument->data = copy;
        copy += argument->length + 1;
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
    bytes_print(out, "*%zu\r\n", argc);
    for (size_t i = 0; i < argc; i++) {
        bytes_print(out, "$%zu\r\n", argv[i].length);
        bytes_append(out, argv[i].data, argv[i].length);
        bytes_append(out, "\r\n", 2);
    }
}
