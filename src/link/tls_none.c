/* A build without TLS: creating a client with a rediss:// node fails. */
#include "src/link/tls.h"

#include "src/core/result.h"

#ifndef REDLOCK_WITH_TLS

int rl_tls_create(const struct rl_core *core, struct rl_tls **tls, redlock_result *result)
{
    (void)core;
    (void)tls;
    return rl_result_fail(result, REDLOCK_INVALID,
                          "rediss:// needs TLS, and this library was built without TLS (it needs hiredis 1.0 "
                          "or later with hiredis_ssl); use redis:// or another build");
}

void rl_tls_destroy(struct rl_tls *tls, const redlock_allocator *allocator)
{
    (void)tls;
    (void)allocator;
}

/* No client has a node that needs TLS, so the functions below are never called with a connection. */

struct ssl_st *rl_tls_start(struct rl_tls *tls, redisContext *context, const char *host, char *error, size_t size,
                            bool *permanent)
{
    (void)tls;
    (void)context;
    (void)host;
    *permanent = true;
    if (size)
        error[0] = '\0';
    return NULL;
}

void rl_tls_enter(void)
{
}

void rl_tls_leave(void)
{
}

bool rl_tls_wants_to_write(const struct ssl_st *link)
{
    (void)link;
    return false;
}

bool rl_tls_is_established(const struct ssl_st *link)
{
    (void)link;
    return false;
}

bool rl_tls_explain(const struct rl_tls *tls, struct ssl_st *link, const char *host, char *text, size_t size)
{
    (void)tls;
    (void)link;
    (void)host;
    if (size)
        text[0] = '\0';
    return false;
}

void rl_tls_explain_reset(const struct ssl_st *link, char *text, size_t size)
{
    (void)link;
    (void)text;
    (void)size;
}

#endif
