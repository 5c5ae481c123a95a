#include "src/command.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <string.h>

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

void rl_command_script(struct rl_command *command, enum rl_script_id script, bool whole, struct rl_text key)
{
    rl_command_add_text(command, whole ? "EVAL" : "EVALSHA");
    rl_command_add_text(command, whole ? rl_scripts[script].text : rl_scripts[script].sha1);
    rl_command_add_text(command, "1");
    rl_command_add(command, key.bytes, key.size);
}

bool rl_command_format(struct rl_command *command)
{
    if (command->bytes)
        return true;
    long long length = redisFormatCommandArgv(&command->bytes, (int)command->count, command->argument, command->size);
    if (length < 0)
        command->bytes = NULL;
    else
        command->length = (size_t)length;
    return command->bytes != NULL;
}

void rl_command_free(struct rl_command *command)
{
    if (command->bytes)
        redisFreeCommand(command->bytes);
    command->bytes = NULL;
}
