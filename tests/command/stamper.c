/* A command for redlock run that does not end when asked to: four processes of one group that ignore every signal
 * they can, and record when they were last alive. Argument: the file. It ends by itself after a minute, in case the
 * test did not end it. */
#define _GNU_SOURCE
#include "stamper.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_NS = 2000000, LIFE_S = 60 };

static long long now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The stamps are the measurement: the pause is their resolution. */
_Noreturn static void stamp(struct stamps *stamps, unsigned process)
{
    long long until = now_ns() + LIFE_S * 1000000000LL;

    while (now_ns() < until) {
        atomic_store(&stamps->alive_ns[process], now_ns());
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    _exit(EXIT_FAILURE);
}

static void ignore_signals(void)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        signal(numbers[i], SIG_IGN);
}

static void start_others(struct stamps *stamps)
{
    if (fork() == 0) {
        if (fork() == 0)
            stamp(stamps, 2);
        stamp(stamps, 1);
    }
    if (fork() == 0) {
        if (fork() == 0)
            stamp(stamps, 3);
        _exit(EXIT_SUCCESS);
    }
}

int main(int argc, char **argv)
{
    int file = argc == 2 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
    struct stamps *stamps = mmap(NULL, sizeof(*stamps), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    if (stamps == MAP_FAILED)
        return 99;
    ignore_signals();
    atomic_store(&stamps->group, getpgrp());
    start_others(stamps);
    stamp(stamps, 0);
}
