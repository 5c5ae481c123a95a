#define _GNU_SOURCE
#include "resp.h"

#include "fixture.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_ARGUMENTS = 1 << 20, LONGEST_ARGUMENT = 512 << 20 };

/* The reading position. */
struct cursor {
    const char *data;
    size_t length;
    size_t at;
};

static enum resp_progress read_line(struct cursor *cursor, const char **line, size_t *length)
{
    if (cursor->at == cursor->length)
        return RESP_INCOMPLETE;
    const char *start = cursor->data + cursor->at, *last = cursor->data + cursor->length - 1;
    const char *end = memchr(start, '\r', (size_t)(last - start)); /* memmem() would let ASan check all of it */

    while (end != NULL && end[1] != '\n')
        end = memchr(end + 1, '\r', (size_t)(last - end - 1));
    if (end == NULL)
        return RESP_INCOMPLETE;
    *line = start;
    *length = (size_t)(end - start);
    cursor->at += *length + 2;
    return RESP_WHOLE;
}

static bool to_number(const char *digits, size_t length, long long *number)
{
    char copy[24], *end;

    if (length == 0 || length >= sizeof(copy))
        return false;
    memcpy(copy, digits, length);
    copy[length] = '\0';
    if (strspn(copy, "-0123456789") < length)
        return false;
    errno = 0;
    *number = strtoll(copy, &end, 10);
    return errno == 0 && end == copy + length;
}

/* Reads a line of `type` followed by a count, as "*3" and "$5". */
static enum resp_progress read_count(struct cursor *cursor, char type, long long most, long long *count)
{
    const char *line;
    size_t length;

    if (cursor->at < cursor->length && cursor->data[cursor->at] != type)
        return RESP_MALFORMED;
    enum resp_progress progress = read_line(cursor, &line, &length);
    if (progress != RESP_WHOLE)
        return progress;
    return to_number(line + 1, length - 1, count) && *count >= 0 && *count <= most ? RESP_WHOLE : RESP_MALFORMED;
}

static enum resp_progress read_argument(struct cursor *cursor, struct resp_argument *argument)
{
    long long length;
    enum resp_progress progress = read_count(cursor, '$', LONGEST_ARGUMENT, &length);

    if (progress != RESP_WHOLE)
        return progress;
    if (cursor->length - cursor->at < (size_t)length + 2)
        return RESP_INCOMPLETE;
    *argument = (struct resp_argument){.data = cursor->data + cursor->at, .length = (size_t)length};
    cursor->at += (size_t)length + 2;
    return memcmp(cursor->data + cursor->at - 2, "\r\n", 2) == 0 ? RESP_WHOLE : RESP_MALFORMED;
}

static struct resp_command *allocate_command(size_t argc, size_t bytes)
{
    struct resp_command *command = fixture_allocate(sizeof(*command) + argc * sizeof(command->argv[0]) + bytes + argc);

    command->argc = argc;
    return command;
}

/* Reads the arguments twice: first to compute their size, then to copy them. */
static enum resp_progress read_arguments(struct cursor *cursor, size_t argc, struct resp_command **command)
{
    struct cursor ahead = *cursor;
    struct resp_argument argument;
    size_t total = 0;

    for (size_t i = 0; i < argc; i++) {
        enum resp_progress progress = read_argument(&ahead, &argument);
        if (progress != RESP_WHOLE)
            return progress;
        total += argument.length;
    }
    *command = allocate_command(argc, total);
    char *copy = (char *)&(*command)->argv[argc];
    for (size_t i = 0; i < argc; i++) {
        read_argument(cursor, &argument);
        memcpy(copy, argument.data, argument.length);
        (*command)->argv[i] = (struct resp_argument){.data = copy, .length = argument.length};
        copy += argument.length + 1;
    }
    return RESP_WHOLE;
}

enum resp_progress resp_parse_command(const char *data, size_t length, size_t *used, struct resp_command **command)
{
    struct cursor cursor = {.data = data, .length = length};
    long long argc;

    if (length == 0)
        return RESP_INCOMPLETE;
    enum resp_progress progress = read_count(&cursor, '*', MOST_ARGUMENTS, &argc);
    if (progress == RESP_WHOLE && argc == 0)
        return RESP_MALFORMED;
    if (progress == RESP_WHOLE)
        progress = read_arguments(&cursor, (size_t)argc, command);
    *used = cursor.at;
    return progress;
}

static bool same_word(const struct resp_argument *argument, const char *word, size_t length)
{
    return argument->length == length && strncasecmp(argument->data, word, length) == 0;
}

bool resp_command_is(const struct resp_command *command, const char *name)
{
    if (name == NULL)
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

void resp_write_command(struct bytes *out, size_t argc, const struct resp_argument *argv)
{
    resp_write_array(out, argc);
    for (size_t i = 0; i < argc; i++)
        resp_write_bulk(out, argv[i].data, argv[i].length);
}

void resp_write_status(struct bytes *out, const char *text)
{
    bytes_print(out, "+%s\r\n", text);
}

void resp_write_error(struct bytes *out, const char *text)
{
    bytes_print(out, "-%s\r\n", text);
}

void resp_write_wrong_arguments(struct bytes *out, const char *command)
{
    bytes_print(out, "-ERR wrong number of arguments for '");
    for (; *command != '\0'; command++)
        bytes_print(out, "%c", tolower((unsigned char)*command));
    bytes_print(out, "' command\r\n");
}

void resp_write_integer(struct bytes *out, long long value)
{
    bytes_print(out, ":%lld\r\n", value);
}

void resp_write_bulk(struct bytes *out, const void *data, size_t length)
{
    bytes_print(out, "$%zu\r\n", length);
    bytes_append(out, data, length);
    bytes_append(out, "\r\n", 2);
}

void resp_write_text(struct bytes *out, const char *text)
{
    resp_write_bulk(out, text, strlen(text));
}

void resp_write_nil(struct bytes *out)
{
    bytes_append(out, "$-1\r\n", 5);
}

void resp_write_array(struct bytes *out, size_t count)
{
    bytes_print(out, "*%zu\r\n", count);
}

/* The content of the first line of a reply. */
struct reply_head {
    char type;
    const char *text;
    size_t length;
    long long number; /* of a bulk string or an array; -1 is nil */
};

static enum resp_progress read_reply_head(struct cursor *cursor, struct reply_head *head)
{
    const char *line;
    size_t length;
    enum resp_progress progress = read_line(cursor, &line, &length);

    if (progress != RESP_WHOLE)
        return progress;
    if (length == 0 || strchr("+-:$*", line[0]) == NULL)
        return RESP_MALFORMED;
    *head = (struct reply_head){.type = line[0], .text = line + 1, .length = length - 1};
    if (strchr(":$*", head->type) != NULL && !to_number(head->text, head->length, &head->number))
        return RESP_MALFORMED;
    return RESP_WHOLE;
}

static enum resp_progress skip_bulk(struct cursor *cursor, long long length)
{
    if (length < 0)
        return RESP_WHOLE;
    if (length > LONGEST_ARGUMENT)
        return RESP_MALFORMED;
    if (cursor->length - cursor->at < (size_t)length + 2)
        return RESP_INCOMPLETE;
    cursor->at += (size_t)length + 2;
    return RESP_WHOLE;
}

enum resp_progress resp_parse_reply(const char *data, size_t length, size_t *used)
{
    struct cursor cursor = {.data = data, .length = length};

    /* An array of n elements requires n more replies. */
    for (long long owed = 1; owed > 0; owed--) {
        struct reply_head head;
        enum resp_progress progress = read_reply_head(&cursor, &head);
        if (progress == RESP_WHOLE && head.type == '$')
            progress = skip_bulk(&cursor, head.number);
        if (progress != RESP_WHOLE)
            return progress;
        if (head.type == '*' && head.number > MOST_ARGUMENTS)
            return RESP_MALFORMED;
        if (head.type == '*' && head.number > 0)
            owed += head.number;
    }
    *used = cursor.at;
    return RESP_WHOLE;
}

static void write_element(struct cursor *cursor, const struct reply_head *head, struct bytes *out)
{
    if (strchr("$*", head->type) != NULL && head->number < 0) {
        bytes_append(out, "(nil)", 5);
    } else if (head->type == '$') {
        bytes_append(out, cursor->data + cursor->at, (size_t)head->number);
    } else {
        if (head->type == '-')
            bytes_append(out, "-", 1);
        bytes_append(out, head->text, head->length);
    }
}

void resp_reply_text(const char *data, size_t length, struct bytes *out)
{
    struct cursor cursor = {.data = data, .length = length};
    struct reply_head head;
    size_t elements = 0;

    while (cursor.at < length && read_reply_head(&cursor, &head) == RESP_WHOLE) {
        if (head.type == '*' && head.number >= 0)
            continue;
        if (elements++ > 0)
            bytes_append(out, "\n", 1);
        write_element(&cursor, &head, out);
        if (head.type == '$')
            skip_bulk(&cursor, head.number);
    }
}
