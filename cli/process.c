#define _GNU_SOURCE
#include "process.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- Its name --- */

static char *name_begin; /* of the bytes of all arguments, which the kernel lays out one behind the other */
static char *name_end;
static char *copies;

void cli_process_name_note(int argc, char **argv)
{
    if (argc == 0)
        return;
    name_begin = argv[0];
    name_end = argv[0];
    for (int i = 0; i < argc && argv[i] == name_end; i++)
        name_end += strlen(argv[i]) + 1;
    free(copies);
    copies = malloc((size_t)(name_end - name_begin));
    if (copies == NULL) {
        name_end = name_begin; /* no name can be set */
        return;
    }
    memcpy(copies, name_begin, (size_t)(name_end - name_begin));
    for (int i = 0; i < argc; i++)
        if (argv[i] >= name_begin && argv[i] < name_end)
            argv[i] = copies + (argv[i] - name_begin);
}

void cli_process_name_set(const char *name)
{
    char *byte = name_begin;

    prctl(PR_SET_NAME, name);
    while (byte < name_end)
        *byte++ = '\0';
    for (byte = name_begin; byte + 1 < name_end && *name != '\0'; byte++)
        *byte = *name++;
}

/* --- Its descriptors --- */

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
