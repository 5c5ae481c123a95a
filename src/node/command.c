#include "src/node/command.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* RESP: a type, a number, and the end of the line. */
#define LINE_MOST (1 + RL_DECIMAL_SIZE + 2)

size_t rl_decimal(char text[RL_DECIMAL_SIZE], uint64_t number)
{
    char digits[RL_DECIMAL_SIZE];
    size_t count = 0, length = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count)
        text[length++] = digits[--count];
    text[length] = '\0';
    return length;
}

static size_t put_line(char *at, char kind, size_t number)
{
    *at = kind;
    size_t digits = rl_decimal(at + 1, number);
    at[1 + digits] = '\r';
    at[2 + digits] = '\n';
    return digits + 3;
}

void rl_command_init(struct rl_command *command)
{
    memset(command, 0, offsetof(struct rl_command, small));
}

/* The line with the number of arguments is written last, into the room that is left in front of them. */
static void begin(struct rl_command *command)
{
    command->buffer = command->small;
    command->room = sizeof command->small;
    command->used = LINE_MOST;
}

static bool grow(struct rl_command *command, size_t needed)
{
    size_t room = 2 * command->room > needed ? 2 * command->room : needed;
    char *buffer = malloc(room);
    if (!buffer)
        return false;
    memcpy(buffer, command->buffer, command->used);
    rl_wipe(command->buffer, command->used); /* it may have a password */
    if (command->buffer != command->small)
        free(command->buffer);
    command->buffer = buffer;
    command->room = room;
    return true;
}

/* Returns where the bytes of the next argument go, or NULL: no memory. */
static char *add_room(struct rl_command *command, size_t size)
{
    assert(!command->bytes);
    if (!command->buffer)
        begin(command);
    size_t needed = command->used + LINE_MOST + size + 2;
    if (command->failed || (needed > command->room && !grow(command, needed))) {
        command->failed = true;
        return NULL;
    }
    char *at = command->buffer + command->used;
    at += put_line(at, '$', size);
    at[size] = '\r';
    at[size + 1] = '\n';
    command->used = (size_t)(at - command->buffer) + size + 2;
    command->count++;
    return at;
}

/* Each lock needs two such commands; hiredis' printf and malloc for them were a tenth of a client's CPU time. */
void rl_command_add(struct rl_command *command, const char *bytes, size_t size)
{
    char *at = add_room(command, size);
    if (at)
        memcpy(at, bytes, size);
}

void rl_command_add_joined(struct rl_command *command, struct rl_text text, const char *suffix, size_t suffix_size)
{
    char *at = add_room(command, text.size + suffix_size);
    if (!at)
        return;
    memcpy(at, text.bytes, text.size);
    memcpy(at + text.size, suffix, suffix_size);
}

void rl_command_add_text(struct rl_command *command, const char *text)
{
    rl_command_add(command, text, strlen(text));
}

void rl_command_add_number(struct rl_command *command, uint64_t number)
{
    char digits[RL_DECIMAL_SIZE];
    rl_command_add(command, digits, rl_decimal(digits, number));
}

void rl_command_script(struct rl_command *command, enum rl_script_id script, bool use_eval, unsigned keys)
{
    assert(command->count == 0 && script < RL_SCRIPTS);
    rl_command_add_text(command, use_eval ? "EVAL" : "EVALSHA");
    rl_command_add_text(command, use_eval ? rl_scripts[script].text : rl_scripts[script].sha1);
    rl_command_add_number(command, keys);
}

bool rl_command_format(struct rl_command *command)
{
    char line[LINE_MOST];
    if (command->failed || command->bytes)
        return !command->failed;
    assert(command->count > 0);
    size_t size = put_line(line, '*', command->count);
    command->bytes = command->buffer + LINE_MOST - size;
    command->length = command->used - (LINE_MOST - size);
    memcpy(command->bytes, line, size);
    return true;
}

void rl_command_free(struct rl_command *command)
{
    if (command->buffer && command->buffer != command->small)
        free(command->buffer);
    command->buffer = command->bytes = NULL;
}

bool rl_command_words(struct rl_command *command, ...)
{
    va_list words;
    rl_command_init(command);
    va_start(words, command);
    for (const char *word = va_arg(words, const char *); word; word = va_arg(words, const char *))
        rl_command_add_text(command, word);
    va_end(words);
    return rl_command_format(command);
}
