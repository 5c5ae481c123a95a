#define _GNU_SOURCE
#include "poller.h"

#include "clock.h"
#include "fixture.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *run(void *arg)
{
    struct poller *poller = arg;
    (void)prctl(PR_SET_TIMERSLACK, 1ul); /* by default a wake-up may be 50 us late */
    pthread_mutex_lock(&poller->lock);
    while (!poller->quit)
        poller->turn(poller->owner);
    pthread_mutex_unlock(&poller->lock);
    return NULL;
}

/* The thread blocks all signals, which belong to the test. */
void poller_start(struct poller *poller, void (*turn)(void *owner), void *owner)
{
    pthread_condattr_t attributes;
    sigset_t all, before;
    *poller = (struct poller){.turn = turn, .owner = owner, .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (poller->wake < 0)
        fixture_fail("eventfd: %s", strerror(errno));
    pthread_mutex_init(&poller->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&poller->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&poller->thread, NULL, run, poller);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        fixture_fail("cannot start a thread: %s", strerror(error));
}

void poller_stop(struct poller *poller)
{
    poller_enter(poller);
    poller->quit = true;
    poller_leave(poller);
    pthread_join(poller->thread, NULL);
    close(poller->wake);
    pthread_mutex_destroy(&poller->lock);
    pthread_cond_destroy(&poller->changed);
}

void poller_wait(struct poller *poller, struct pollfd *polled, size_t count, uint64_t next_ns)
{
    uint64_t now = test_now_ns(), wakes;
    struct timespec left = test_timespec(next_ns > now ? next_ns - now : 0);
    polled[0] = (struct pollfd){.fd = poller->wake, .events = POLLIN};
    poller->polling = true;
    pthread_mutex_unlock(&poller->lock);
    if (ppoll(polled, count, next_ns == UINT64_MAX ? NULL : &left, NULL) < 0 && errno != EINTR)
        fixture_fail("ppoll: %s", strerror(errno));
    pthread_mutex_lock(&poller->lock);
    poller->polling = false;
    if (polled[0].revents)
        (void)!read(poller->wake, &wakes, sizeof wakes);
    pthread_cond_broadcast(&poller->changed);
    while (poller->visitors > 0)
        pthread_cond_wait(&poller->changed, &poller->lock);
}

void poller_enter(struct poller *poller)
{
    uint64_t one = 1;
    pthread_mutex_lock(&poller->lock);
    poller->visitors++;
    (void)!write(poller->wake, &one, sizeof one);
    while (poller->polling)
        pthread_cond_wait(&poller->changed, &poller->lock);
}

void poller_leave(struct poller *poller)
{
    poller->visitors--;
    pthread_cond_broadcast(&poller->changed);
    pthread_mutex_unlock(&poller->lock);
}
