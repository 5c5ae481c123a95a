/* Commands in RESP, Redis' protocol. One is formatted once and sent to every node. */
#ifndef RL_COMMAND_H
#define RL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock/redlock.h"
#include "src/node/script.h"

#define RL_COMMAND_ARGUMENTS (REDLOCK_RESOURCES_MAX + 16)
#define RL_COMMAND_SMALL     4096 /* bytes of a command that needs no allocation, as for the releases of one turn */
#define RL_DECIMAL_SIZE      21   /* the largest number's digits and a NUL */

struct rl_text {
    const char *bytes;
    size_t size;
};

/* A command under construction. Formatting copies the arguments; until then they must stay valid. */
struct rl_command {
    const char *argument[RL_COMMAND_ARGUMENTS];
    size_t size[RL_COMMAND_ARGUMENTS];
    unsigned count;
    char *bytes; /* formatted: `small`, or hiredis' memory; NULL before */
    size_t length;
    char small[RL_COMMAND_SMALL];
};

/* Writes the number's digits and a NUL, faster than printf(3); returns the number of digits. */
size_t rl_decimal(char text[RL_DECIMAL_SIZE], uint64_t number);

void rl_command_add(struct rl_command *command, const char *bytes, size_t size);
void rl_command_add_text(struct rl_command *command, const char *text);

/* Starts a script's call. keys: the number of keys, which are added next. use_eval: by its text, for a node that does not
 * know its hash. */
void rl_command_script(struct rl_command *command, enum rl_script_id script, bool use_eval, const char *keys);

/* A script's call with any number of keys. */
struct rl_long_command {
    struct rl_command command; /* the formatted command */
    const char **argument;
    size_t *size;
    unsigned count, most;
    char number[12];
};

/* Starts a call; keys and arguments are their numbers, and are added next. false: no memory. Free it in any case. */
bool rl_long_command_begin(struct rl_long_command *command, const redlock_allocator *allocator,
                           enum rl_script_id script, bool use_eval, unsigned keys, unsigned arguments);
void rl_long_command_add(struct rl_long_command *command, const char *bytes, size_t size);
void rl_long_command_add_text(struct rl_long_command *command, const char *text);
bool rl_long_command_format(struct rl_long_command *command);
void rl_long_command_free(struct rl_long_command *command, const redlock_allocator *allocator);

/* false: no memory. */
bool rl_command_format(struct rl_command *command);
void rl_command_free(struct rl_command *command);

#endif
