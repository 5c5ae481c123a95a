/* The state of SIGPIPE in this thread. */
#ifndef TESTS_SUPPORT_SIGPIPE_H
#define TESTS_SUPPORT_SIGPIPE_H

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static inline bool sigpipe_is_pending(void)
{
    sigset_t pending;
    ck_assert_int_eq(sigpending(&pending), 0);
    return sigismember(&pending, SIGPIPE) == 1;
}

static inline bool sigpipe_is_blocked(void)
{
    sigset_t mask;
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    return sigismember(&mask, SIGPIPE) == 1;
}

#endif
