#define _GNU_SOURCE
#include "descriptors.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in getdents64(2). readdir(3) is not async-signal-safe. */
struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[];
};

static bool close_range_from(int first)
{
#ifdef SYS_close_range
    return syscall(SYS_close_range, first, ~0U, 0) == 0;
#else
    (void)first;
    return false;
#endif
}

/* -1 for . and .. */
static int number_of(const char *name)
{
    int number = 0;

    for (; *name >= '0' && *name <= '9'; name++)
        number = number * 10 + (*name - '0');
    return *name == '\0' ? number : -1;
}

bool cli_descriptors_close_from(int first)
{
    _Alignas(struct entry) char entries[2048];
    long size;

    if (close_range_from(first))
        return true;
    int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return false;
    while ((size = syscall(SYS_getdents64, directory, entries, sizeof(entries))) > 0)
        for (long at = 0; at < size; at += ((struct entry *)(void *)(entries + at))->size) {
            int number = number_of(((struct entry *)(void *)(entries + at))->name);
            if (number >= first && number != directory)
                close(number);
        }
    close(directory);
    return size == 0;
}
