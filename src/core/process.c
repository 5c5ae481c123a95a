#include "src/core/process.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

rl_process *rl_process_mark(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        munmap(page, size);
        return NULL;
    }
    *(volatile unsigned char *)page = 1;
    return page;
}

void rl_process_free(rl_process *owner)
{
    if (owner)
        munmap((void *)(uintptr_t)owner, (size_t)sysconf(_SC_PAGESIZE));
}

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

bool rl_thread_start(pthread_t *thread, void *(*run)(void *), void *data)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, data);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
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
