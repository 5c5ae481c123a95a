/* Preloaded into a server, this shifts its wall clock by the number of microseconds in a file, or stops it at a
 * second number unless that is 0. Both numbers have eight bytes in this machine's byte order, and may change at any
 * time. $SHIFTED_CLOCK names the file. Monotonic clocks do not change. (libfaketime, which does far more, deadlocks
 * with Redis' allocator.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SHIFT, HELD, NUMBERS };

static const _Atomic int64_t none[NUMBERS];
static const _Atomic int64_t *microseconds = none;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("SHIFTED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = file >= 0 ? mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (map == MAP_FAILED)
        abort(); /* a test must not pass without the shifted clock */
    microseconds = map;
    close(file);
}

static int64_t now_ns(void)
{
    struct timespec real;
    int64_t held_us = atomic_load(&microseconds[HELD]);
    if (held_us != 0)
        return held_us * 1000;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
    return real.tv_sec * INT64_C(1000000000) + real.tv_nsec + atomic_load(&microseconds[SHIFT]) * 1000;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, time);
    int64_t now = now_ns();
    time->tv_sec = now / INT64_C(1000000000);
    time->tv_nsec = now % INT64_C(1000000000);
    return 0;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    int64_t now = now_ns() / 1000;
    (void)zone;
    time->tv_sec = now / 1000000;
    time->tv_usec = now % 1000000;
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *result)
{
    time_t now = (time_t)(now_ns() / INT64_C(1000000000));
    if (result)
        *result = now;
    return now;
}

/* Valkey 9.1 reads the time of day from the processor's counter if this file says that the counter's rate is
 * constant. Without the file it reads the system's clocks. */
__attribute__((visibility("default"))) FILE *fopen(const char *restrict path, const char *restrict mode)
{
    FILE *(*open_file)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen64");
    if (strcmp(path, "/proc/cpuinfo") != 0)
        return open_file(path, mode);
    errno = ENOENT;
    return NULL;
}

#ifndef fopen64 /* in musl it is another name for fopen */
__attribute__((visibility("default"))) FILE *fopen64(const char *restrict path, const char *restrict mode)
{
    return fopen(path, mode);
}
#endif
