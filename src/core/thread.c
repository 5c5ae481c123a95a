#include "src/core/thread.h"

#include <pthread.h>
#include <stdatomic.h>

/*
 * The library's only variables outside a client. A thread belongs to the process: with a counter per client each client
 * would need a pthread_key_t, of which a process has 1024. They serve no other purpose than rl_thread_id().
 */
static _Atomic uint64_t last_id;
static _Thread_local uint64_t own_id;

uint64_t rl_thread_id(void)
{
    if (!own_id)
        own_id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
    return own_id;
}

int rl_thread_disable_cancel(void)
{
    int state = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

void rl_thread_restore_cancel(int state)
{
    pthread_setcancelstate(state, NULL);
}
