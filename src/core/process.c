#include "src/core/process.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
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
