#include "src/tls.h"

#include "src/result.h"

#ifndef REDLOCK_WITH_TLS

int rl_tls_create(const redlock_options *options, struct rl_tls **tls, redlock_result *result)
{
    (void)options;
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

bool rl_tls_start(struct rl_tls *tls, redisAsyncContext *context, const char *host, char *error, size_t size)
{
    (void)tls;
    (void)context;
    (void)host;
    if (size)
        error[0] = '\0';
    return false;
}

bool rl_tls_has_data(redisAsyncContext *context)
{
    (void)context;
    return false;
}

#endif
