/* What the library needs of the thread that calls it: a number that names it, and no pthread_cancel(3) in the middle. */
#ifndef RL_THREAD_H
#define RL_THREAD_H

#include <stdint.h>

/* The calling thread's number, from 1. A thread that starts later never gets it again, as it may a pthread_t. */
uint64_t rl_thread_id(void);

/* Until the state that is returned is restored, pthread_cancel(3) has no effect on the calling thread. */
int rl_thread_disable_cancel(void);
void rl_thread_restore_cancel(int state);

#endif
