/* The calling thread: its number, and protection of a call from pthread_cancel(3). */
#ifndef RL_THREAD_H
#define RL_THREAD_H

#include <stdint.h>

/* The calling thread's number, from 1. It is never reused in the process; the system reuses a pthread_t. */
uint64_t rl_thread_id(void);

/* Defers pthread_cancel(3) of the calling thread until the returned state is restored. */
int rl_thread_disable_cancel(void);
void rl_thread_restore_cancel(int state);

#endif
