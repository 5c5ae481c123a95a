/* The state of SIGPIPE in this thread. */
#ifndef TESTS_SUPPORT_SIGPIPE_H
#define TESTS_SUPPORT_SIGPIPE_H

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

static inline sigset_t sigpipe_only(void)
{
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    return only;
}

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

/* SIG_BLOCK or SIG_UNBLOCK */
static inline void sigpipe_mask(int how)
{
    const sigset_t only = sigpipe_only();
    ck_assert_int_eq(pthread_sigmask(how, &only, NULL), 0);
}

/* Consumes the pending signal. */
static inline void sigpipe_take(void)
{
    const struct timespec now = {0, 0};
    const sigset_t only = sigpipe_only();
    ck_assert(sigpipe_is_pending());
    ck_assert_int_eq(sigtimedwait(&only, NULL, &now), SIGPIPE);
}

#endif
