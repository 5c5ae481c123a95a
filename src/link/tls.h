/*
 * TLS to the nodes, if hiredis was built with it; otherwise rl_tls_create() refuses rediss://.
 *
 * hiredis reads and writes; this file handles certificates, names and OpenSSL's error queue. That queue belongs to the
 * thread: an error that another connection or the host program left in it would be reported as this connection's. So
 * it is cleared before and after every read and write.
 */
#ifndef RL_TLS_H
#define RL_TLS_H

#include <hiredis/async.h>
#include <stdbool.h>
#include <stddef.h>

#include "redlock/redlock.h"
#include "src/core/core.h"

struct rl_tls;
struct ssl_st; /* OpenSSL's SSL: one connection. hiredis frees it with the connection's context. */

/* Reads the files of certificates and keys that the options name. Returns a status; result has the error. */
int rl_tls_create(const struct rl_core *core, struct rl_tls **tls, redlock_result *result);
void rl_tls_destroy(struct rl_tls *tls, const redlock_allocator *allocator);

/*
 * Starts TLS on a connection that is being opened. Reads the files again if they have changed; if the new ones are
 * unusable, the log says why, and those before stay in use until the next connect. The certificate must be for `host`, unless the options name a
 * server. NULL: it failed; error has the reason, and permanent says that another attempt would not help.
 */
struct ssl_st *rl_tls_start(struct rl_tls *tls, redisContext *context, const char *host, char *error, size_t size,
                            bool *permanent);

/* Call it before and after every read and write of a connection. */
void rl_tls_clear_errors(void);

/* The last write stopped because the socket is full. hiredis may wait for reads instead, and none may come. */
bool rl_tls_wants_to_write(const struct ssl_st *link);

/* The TLS handshake is complete. */
bool rl_tls_is_established(const struct ssl_st *link);

/*
 * Writes the reason why a connection failed to text; "" if TLS has none. Call it before rl_tls_clear_errors(). Returns true if
 * another attempt fails, too, until an operator changes the configuration.
 */
bool rl_tls_explain(const struct rl_tls *tls, struct ssl_st *link, const char *host, char *text, size_t size);

/* Call it if a connection broke before any reply. A server that refuses a client without a certificate may reset the
 * connection before its alert can be read: adds that to a text which says so. */
void rl_tls_explain_reset(const struct ssl_st *link, char *text, size_t size);

#endif
