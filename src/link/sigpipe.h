/*
 * hiredis writes to sockets without MSG_NOSIGNAL. Around its writes SIGPIPE is blocked for the thread, and one that a
 * write raised is taken off again: the process' own dispositions and pending signals stay as they were.
 */
#ifndef RL_SIGPIPE_H
#define RL_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

struct rl_sigpipe {
    sigset_t before; /* the thread's mask */
    bool pending;    /* one was waiting before: it is the host's */
};

void rl_sigpipe_block(struct rl_sigpipe *guard);
void rl_sigpipe_restore(struct rl_sigpipe *guard, bool broken); /* broken: a write may have raised it */

#endif
