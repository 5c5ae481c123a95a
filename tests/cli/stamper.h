/* What the stamper (stamper.c) writes into a file that its watcher maps: who its processes are, and when each was last
 * alive. */
#ifndef TESTS_CLI_STAMPER_H
#define TESTS_CLI_STAMPER_H

#include <stdatomic.h>
#include <stdint.h>

/* The stamper itself, its child, a grandchild, and an orphan whose parent has ended. */
enum { STAMPER_PROCESSES = 4 };

struct stamps {
    atomic_int group;                         /* the process group of all */
    atomic_llong alive_ns[STAMPER_PROCESSES]; /* CLOCK_BOOTTIME, every two milliseconds; 0: not yet */
};

#endif
