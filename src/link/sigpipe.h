/*
 * hiredis writes to sockets without MSG_NOSIGNAL. The adapter blocks SIGPIPE for the thread around these writes and
 * consumes a raised one, so that the process' dispositions and pending signals do not change.
 */
#ifndef RL_SIGPIPE_H
#define RL_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

struct rl_sigpipe {
    sigset_t before; /* the thread's mask */
    bool blocks;     /* until restored; false: there is nothing to restore */
    bool pending;    /* one was pending before: it belongs to the host program */
};

void rl_sigpipe_block(struct rl_sigpipe *guard);
void rl_sigpipe_restore(struct rl_sigpipe *guard, bool broken); /* broken: a write may have raised it */

#endif
