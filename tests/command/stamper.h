/* The file that the stamper (stamper.c) writes and its observer maps: the PIDs of its processes, and when each was
 * last alive. */
#ifndef TESTS_COMMAND_STAMPER_H
#define TESTS_COMMAND_STAMPER_H

#include <stdatomic.h>
#include <stdint.h>

/* The stamper itself, its child, a grandchild, and an orphan. */
enum { STAMPER_PROCESSES = 4 };

struct stamps {
    atomic_int group;                         /* the process group of all four */
    atomic_llong alive_ns[STAMPER_PROCESSES]; /* CLOCK_BOOTTIME, updated every two milliseconds; 0: not yet */
};

#endif
