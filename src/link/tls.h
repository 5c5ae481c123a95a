/*
 * TLS to the nodes, where hiredis offers it; else a clear refusal.
 *
 * hiredis does the reading and writing; certificates, names and OpenSSL's error queue are ours. That queue belongs to
 * the thread, and what another link or the host's own program left in it would be taken for an error of this link:
 * hence rl_tls_enter() and rl_tls_leave().
 */
#ifndef RL_TLS_H
#define RL_TLS_H

#include <hiredis/async.h>
#include <stdbool.h>
#include <stddef.h>

#include "redlock/redlock.h"

struct rl_tls;
struct ssl_st; /* OpenSSL's SSL: one link. hiredis frees it with the link's context. */

/* Reads certificates and keys. Returns a status; result tells what is wrong. The options must outlive it. */
int rl_tls_create(const redlock_options *options, struct rl_tls **tls, redlock_result *result);
void rl_tls_destroy(struct rl_tls *tls, const redlock_allocator *allocator);

/*
 * Starts TLS on a link that is connecting. host: what the certificate must be for, unless the options name a server.
 * NULL: why not, in error, and whether another attempt is of use.
 */
struct ssl_st *rl_tls_start(struct rl_tls *tls, redisContext *context, const char *host, char *error, size_t size,
                            bool *permanent);

/* Before and after whatever reads or writes a link. */
void rl_tls_enter(void);
void rl_tls_leave(void);

/* The last write stopped because the socket is full. hiredis then may wait for data to read, which may never come. */
bool rl_tls_wants_to_write(const struct ssl_st *link);

enum rl_tls_sight { RL_TLS_NOTHING, RL_TLS_DATA, RL_TLS_END };

/* Has the server sent application data, or ended? Looked at, not taken; what TLS has to say to itself is dealt with. */
enum rl_tls_sight rl_tls_look(struct ssl_st *link);

/* Is the handshake over? */
bool rl_tls_is_established(const struct ssl_st *link);

/*
 * Why a link has failed, asked before its rl_tls_leave(): in text, "" when TLS knows of no reason. Returns whether
 * another attempt is of no use before somebody changes something.
 */
bool rl_tls_explain(const struct rl_tls *tls, struct ssl_st *link, const char *host, char *text, size_t size);

#endif
