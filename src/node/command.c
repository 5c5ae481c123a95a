#include "src/node/command.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "src/core/memory.h"

void rl_command_add(struct rl_command *command, const char *bytes, size_t size)
{
    assert(command->count < RL_COMMAND_ARGUMENTS);
    command->argument[command->count] = bytes;
    command->size[command->count] = size;
    command->count++;
}

void rl_command_add_text(struct rl_command *command, const char *text)
{
    rl_command_add(command, text, strlen(text));
}

void rl_command_script(struct rl_command *command, enum rl_script_id script, bool use_eval, const char *keys)
{
    assert(command->count == 0 && script < RL_SCRIPTS);
    rl_command_add_text(command, use_eval ? "EVAL" : "EVALSHA");
    rl_command_add_text(command, use_eval ? rl_scripts[script].text : rl_scripts[script].sha1);
    rl_command_add_text(command, keys);
}

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

/* RESP: a type, a number, and the end of the line. */
static char *put_number(char *at, char kind, size_t number)
{
    *at++ = kind;
    at += rl_decimal(at, number);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

#define AROUND_ARGUMENT (1 + 5 + 2 + 2) /* its length, and two ends of lines */
_Static_assert(RL_COMMAND_SMALL < 100000, "a length in a small command has at most 5 digits");

static bool is_small(unsigned count, const size_t *size)
{
    size_t bytes = AROUND_ARGUMENT;
    for (unsigned i = 0; i < count; i++)
        bytes += AROUND_ARGUMENT + size[i];
    return bytes <= RL_COMMAND_SMALL;
}

/* Each lock needs two such commands; hiredis' printf and malloc for them were a tenth of a client's CPU time. */
static void format_small(struct rl_command *command, unsigned count, const char **argument, const size_t *size)
{
    char *at = put_number(command->small, '*', count);
    for (unsigned i = 0; i < count; i++) {
        at = put_number(at, '$', size[i]);
        memcpy(at, argument[i], size[i]);
        at += size[i];
        *at++ = '\r';
        *at++ = '\n';
    }
    command->bytes = command->small;
    command->length = (size_t)(at - command->small);
    assert(command->length <= sizeof command->small); /* as is_small() has estimated */
}

static bool format(struct rl_command *command, unsigned count, const char **argument, const size_t *size)
{
    if (is_small(count, size)) {
        format_small(command, count, argument, size);
        return true;
    }
    long long length = redisFormatCommandArgv(&command->bytes, (int)count, argument, size);
    if (length < 0)
        command->bytes = NULL;
    else
        command->length = (size_t)length;
    return command->bytes != NULL;
}

bool rl_command_format(struct rl_command *command)
{
    return command->bytes || format(command, command->count, command->argument, command->size);
}

#define BEFORE_KEYS 3 /* EVALSHA hash number */

bool rl_long_command_begin(struct rl_long_command *command, const redlock_allocator *allocator,
                           enum rl_script_id script, bool use_eval, unsigned keys, unsigned arguments)
{
    size_t most = BEFORE_KEYS + (size_t)keys + arguments;
    memset(command, 0, sizeof *command);
    command->argument = rl_allocate(allocator, most * sizeof *command->argument);
    command->size = rl_allocate(allocator, most * sizeof *command->size);
    if (!command->argument || !command->size)
        return false;
    command->most = (unsigned)most;
    snprintf(command->number, sizeof command->number, "%u", keys);
    rl_long_command_add_text(command, use_eval ? "EVAL" : "EVALSHA");
    rl_long_command_add_text(command, use_eval ? rl_scripts[script].text : rl_scripts[script].sha1);
    rl_long_command_add_text(command, command->number);
    return true;
}

void rl_long_command_add(struct rl_long_command *command, const char *bytes, size_t size)
{
    assert(command->count < command->most);
    command->argument[command->count] = bytes;
    command->size[command->count] = size;
    command->count++;
}

void rl_long_command_add_text(struct rl_long_command *command, const char *text)
{
    rl_long_command_add(command, text, strlen(text));
}

bool rl_long_command_format(struct rl_long_command *command)
{
    assert(command->count == command->most);
    return format(&command->command, command->count, command->argument, command->size);
}

void rl_long_command_free(struct rl_long_command *command, const redlock_allocator *allocator)
{
    rl_command_free(&command->command);
    rl_free(allocator, command->argument);
    rl_free(allocator, command->size);
}

void rl_command_free(struct rl_command *command)
{
    if (command->bytes && command->bytes != command->small)
        redisFreeCommand(command->bytes);
    command->bytes = NULL;
}
