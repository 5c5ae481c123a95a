/* The user's options, checked, completed and copied. */
#ifndef RL_OPTIONS_H
#define RL_OPTIONS_H

#include <stdbool.h>

#include "redlock/redlock.h"

/* Completes what the user gave with defaults for fields their header did not know. Returns a status; result tells what
 * is wrong. */
int rl_options_read(const redlock_options *given, redlock_options *options, redlock_result *result);

/* The same for one acquire. The client's defaults are put in place of zeros. */
int rl_options_read_acquire(const redlock_acquire_options *given, const redlock_options *defaults,
                            redlock_acquire_options *options, redlock_result *result);

/* A ttl that can hold the validity asked of it. */
int rl_options_check_ttl(const redlock_options *options, uint32_t ttl_ms, uint32_t minimum_validity_ms,
                         redlock_result *result);

/* Replaces the strings in options by copies of the client's own; false: no memory, and nothing to free. */
bool rl_options_copy_strings(redlock_options *options);
void rl_options_free_strings(redlock_options *options);

#endif
