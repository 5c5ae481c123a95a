/* TLS to the nodes, where hiredis offers it; else a clear refusal. */
#ifndef RL_TLS_H
#define RL_TLS_H

#include <hiredis/async.h>
#include <stdbool.h>

#include "redlock/redlock.h"

struct rl_tls;

/* Reads certificates and keys. Returns a status; result tells what is wrong. */
int rl_tls_create(const redlock_options *options, struct rl_tls **tls, redlock_result *result);
void rl_tls_destroy(struct rl_tls *tls, const redlock_allocator *allocator);

/* Starts TLS on a link that is connecting. host: what the certificate must be for, unless the options name a server. false: the error's text. */
bool rl_tls_start(struct rl_tls *tls, redisAsyncContext *context, const char *host, char *error, size_t size);

/* The server has sent application data: looked at, not taken. A link without TLS answers by its socket alone. */
bool rl_tls_has_data(redisAsyncContext *context);

#endif
