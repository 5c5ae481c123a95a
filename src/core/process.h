/* The process that created a client. Its forked children have the client's memory, but not its connections. */
#ifndef RL_PROCESS_H
#define RL_PROCESS_H

#include <stdbool.h>

/* A page that the kernel wipes in a forked child, so recognizing the child takes one read and no system call. */
typedef const volatile unsigned char rl_process;

/* Marks the calling process. NULL: the system refused; Linux 4.14 or later is needed. */
rl_process *rl_process_mark(void);
void rl_process_free(rl_process *owner); /* may be NULL */

/* True in the process that called rl_process_mark(), false in a forked child. */
static inline bool rl_process_is(rl_process *owner)
{
    return *owner == 1;
}

#endif
