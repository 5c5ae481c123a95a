#include "src/command.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "src/memory.h"

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

void rl_command_script(struct rl_command *command, enum rl_script_id script, bool whole, const char *keys)
{
    rl_command_add_text(command, whole ? "EVAL" : "EVALSHA");
    rl_command_add_text(command, whole ? rl_scripts[script].text : rl_scripts[script].sha1);
    rl_command_add_text(command, keys);
}

static bool format(struct rl_command *command, unsigned count, const char **argument, const size_t *size)
{
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
                           enum rl_script_id script, bool whole, unsigned keys)
{
    size_t count = BEFORE_KEYS + 3 * (size_t)keys;
    memset(command, 0, sizeof *command);
    command->keys = keys;
    command->argument = rl_allocate(allocator, count * sizeof *command->argument);
    command->size = rl_allocate(allocator, count * sizeof *command->size);
    if (!command->argument || !command->size)
        return false;
    snprintf(command->number, sizeof command->number, "%u", keys);
    command->argument[0] = whole ? "EVAL" : "EVALSHA";
    command->argument[1] = whole ? rl_scripts[script].text : rl_scripts[script].sha1;
    command->argument[2] = command->number;
    for (unsigned i = 0; i < BEFORE_KEYS; i++)
        command->size[i] = strlen(command->argument[i]);
    return true;
}

static void place(struct rl_long_command *command, size_t at, const char *bytes, size_t size)
{
    command->argument[at] = bytes;
    command->size[at] = size;
}

void rl_long_command_key(struct rl_long_command *command, unsigned index, const char *key, size_t size)
{
    assert(index < command->keys);
    place(command, BEFORE_KEYS + index, key, size);
}

void rl_long_command_pair(struct rl_long_command *command, unsigned index, const char *first, size_t first_size,
                          const char *second)
{
    size_t at = BEFORE_KEYS + command->keys + 2 * (size_t)index;
    assert(index < command->keys);
    place(command, at, first, first_size);
    place(command, at + 1, second, strlen(second));
}

bool rl_long_command_format(struct rl_long_command *command)
{
    return format(&command->command, BEFORE_KEYS + 3 * command->keys, command->argument, command->size);
}

void rl_long_command_free(struct rl_long_command *command, const redlock_allocator *allocator)
{
    rl_command_free(&command->command);
    rl_free(allocator, command->argument);
    rl_free(allocator, command->size);
}

void rl_command_free(struct rl_command *command)
{
    if (command->bytes)
        redisFreeCommand(command->bytes);
    command->bytes = NULL;
}
