#include "src/core/wakeup.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/core/process.h"

struct rl_wakeup *rl_wakeup_create(void)
{
    struct rl_wakeup *wakeup = malloc(sizeof *wakeup);
    if (!wakeup)
        return NULL;
    wakeup->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wakeup->descriptor < 0) {
        free(wakeup);
        return NULL;
    }
    atomic_init(&wakeup->references, 1);
    atomic_init(&wakeup->sleep, 0);
    atomic_init(&wakeup->cancelled, false);
    return wakeup;
}

struct rl_wakeup *rl_wakeup_ref(struct rl_wakeup *wakeup)
{
    unsigned before = atomic_fetch_add(&wakeup->references, 1);
    assert(before > 0);
    (void)before;
    return wakeup;
}

void rl_wakeup_unref(struct rl_wakeup *wakeup)
{
    unsigned before = wakeup ? atomic_fetch_sub(&wakeup->references, 1) : 0;
    assert(!wakeup || before > 0);
    if (before == 1) {
        int cancel = rl_thread_disable_cancel();
        close(wakeup->descriptor);
        free(wakeup);
        rl_thread_restore_cancel(cancel);
    }
}

void rl_wakeup_signal(struct rl_wakeup *wakeup)
{
    /* write(2) is a cancellation point: a cancelled thread would leave a recorded event without its wake-up. */
    int saved = errno, cancel = rl_thread_disable_cancel();
    uint64_t one = 1;
    ssize_t written = write(wakeup->descriptor, &one, sizeof one);
    (void)written; /* EAGAIN: the counter is at its maximum, so the loop wakes anyway */
    rl_thread_restore_cancel(cancel);
    errno = saved;
}

void rl_wakeup_drain(struct rl_wakeup *wakeup)
{
    uint64_t rings;
    ssize_t got = read(wakeup->descriptor, &rings, sizeof rings);
    (void)got; /* EAGAIN: it was not signalled */
}
