#include "src/link/sigpipe.h"

#include <pthread.h>
#include <time.h>

static bool is_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

void rl_sigpipe_block(struct rl_sigpipe *guard)
{
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &only, &guard->before);
    guard->blocks = true;
    /* Only a thread that had SIGPIPE blocked can have one pending: the others need no system call to find out. */
    guard->pending = sigismember(&guard->before, SIGPIPE) == 1 && is_pending();
}

void rl_sigpipe_restore(struct rl_sigpipe *guard, bool broken)
{
    if (!guard->blocks)
        return;
    guard->blocks = false;
    if (broken && !guard->pending && is_pending()) {
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, SIGPIPE);
        const struct timespec now = {0, 0};
        sigtimedwait(&only, NULL, &now);
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}
