/*
 * A command on its way to the wire. A caller adds the arguments, which are copied into the form of RESP at once; formats
 * the command; sends its bytes, to any number of nodes; and frees it. It knows no nodes and no keys.
 */
#ifndef RL_COMMAND_H
#define RL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock/redlock.h"
#include "src/core/core.h"
#include "src/node/script.h"

#define RL_COMMAND_SMALL 4096 /* bytes of a command that needs no allocation, as for the releases of one turn */
#define RL_DECIMAL_SIZE  21   /* the largest number's digits and a NUL */

struct rl_command {
    unsigned count; /* of arguments */
    char *bytes;    /* formatted; NULL before */
    size_t length;
    char *buffer; /* `small`, or malloc(3)'s memory, as hiredis' buffers are; NULL before the first argument */
    size_t used, room;
    bool failed; /* no memory */
    char small[RL_COMMAND_SMALL];
};

/* Writes the number's digits and a NUL, faster than printf(3); returns the number of digits. */
size_t rl_decimal(char text[RL_DECIMAL_SIZE], uint64_t number);

/* Prepares a command; cheaper than zeroing it with its memory. */
void rl_command_init(struct rl_command *command);

void rl_command_add(struct rl_command *command, const char *bytes, size_t size);
void rl_command_add_text(struct rl_command *command, const char *text);
void rl_command_add_joined(struct rl_command *command, struct rl_text text, const char *suffix, size_t suffix_size);
void rl_command_add_number(struct rl_command *command, uint64_t number);

/* Starts a script's call. keys: the number of keys, which are added next. use_eval: by its text, for a node that does not
 * know its hash. */
void rl_command_script(struct rl_command *command, enum rl_script_id script, bool use_eval, unsigned keys);

/* Call it behind the last argument. false: no memory. Free the command in any case. */
bool rl_command_format(struct rl_command *command);
void rl_command_free(struct rl_command *command);

/* Prepares, builds and formats a command of these words, which a NULL ends. false: as above. */
bool rl_command_words(struct rl_command *command, ...) __attribute__((sentinel));

#endif
