/* Commands in the form they travel in. Made once, sent to every node. */
#ifndef RL_COMMAND_H
#define RL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "src/script.h"

#define RL_COMMAND_ARGUMENTS 8

struct rl_text {
    const char *bytes;
    size_t size;
};

/* A command under construction: arguments are not copied until it is formatted. */
struct rl_command {
    const char *argument[RL_COMMAND_ARGUMENTS];
    size_t size[RL_COMMAND_ARGUMENTS];
    unsigned count;
    char *bytes; /* formatted, hiredis' memory; NULL before */
    size_t length;
};

void rl_command_add(struct rl_command *command, const char *bytes, size_t size);
void rl_command_add_text(struct rl_command *command, const char *text);

/* Starts a call of a script with one key: by its hash, or by its whole text for a node that does not know the hash. */
void rl_command_script(struct rl_command *command, enum rl_script_id script, bool whole, struct rl_text key);

/* false: no memory. */
bool rl_command_format(struct rl_command *command);
void rl_command_free(struct rl_command *command);

#endif
