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
                           enum rl_script_id script, bool whole, unsigned keys, unsigned arguments)
{
    size_t most = BEFORE_KEYS + (size_t)keys + arguments;
    memset(command, 0, sizeof *command);
    command->argument = rl_allocate(allocator, most * sizeof *command->argument);
    command->size = rl_allocate(allocator, most * sizeof *command->size);
    if (!command->argument || !command->size)
        return false;
    command->most = (unsigned)most;
    snprintf(command->number, sizeof command->number, "%u", keys);
    rl_long_command_add_text(command, whole ? "EVAL" : "EVALSHA");
    rl_long_command_add_text(command, whole ? rl_scripts[script].text : rl_scripts[script].sha1);
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
    if (command->bytes)
        redisFreeCommand(command->bytes);
    command->bytes = NULL;
}
