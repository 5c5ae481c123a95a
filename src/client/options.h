/* Checks, completes and copies the user's options. */
#ifndef RL_OPTIONS_H
#define RL_OPTIONS_H

#include <stdbool.h>

#include "redlock/redlock.h"
#include "src/core/process.h"
#include "src/lock/lease.h"

/* The bytes of an options struct that the caller's header knows, by its struct_size; 0: it was not initialised, or is
 * newer than the library. */
size_t rl_struct_size(size_t given, size_t most);

/* Refuses such a struct. init: what the caller must start from. */
int rl_struct_refuse(size_t given, const char *init, redlock_result *result);

/* Copies a struct of options, which may be NULL, onto its defaults, as far as the caller's header knows it. One that is
 * to be refused leaves only its struct_size. */
void rl_struct_copy(void *options, size_t size, const void *given);

/* Checks the user's options, and adds the defaults of fields that are newer than the user's header. Returns a status;
 * result has the error. */
int rl_options_read(const redlock_options *given, redlock_options *options, redlock_result *result);

/* The options of one acquire as far as the caller's header knows them; they are checked later. given may be NULL. */
redlock_acquire_options rl_options_known(const redlock_acquire_options *given);

/* The same as rl_options_read() for one acquire. Zeros become the client's defaults. */
int rl_options_read_acquire(const redlock_acquire_options *given, const redlock_options *defaults,
                            redlock_acquire_options *options, redlock_result *result);

/* Checks that a ttl is in range and long enough for the minimum validity. */
int rl_options_check_ttl(const redlock_options *options, uint32_t ttl_ms, uint32_t minimum_validity_ms,
                         redlock_result *result);

/* Replaces the strings in options by copies. false: no memory; there is nothing to free. */
bool rl_options_copy_strings(redlock_options *options);
void rl_options_free_strings(redlock_options *options);

/* A lock's terms by the options of its acquire, without the validity. */
struct rl_lease_terms rl_options_terms(const redlock_acquire_options *options, struct rl_owner owner,
                                       const redlock_options *client);

#endif
