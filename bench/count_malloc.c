/* A preloaded library that counts all allocations of the process. At the end it writes the count to the file named
 * by BENCH_MALLOC_COUNT. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_ullong count;
static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);

/* dlsym may allocate before the next calloc is known. This memory is never freed. */
static char early[4096];
static size_t early_used;

static void *find(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function)
        abort();
    return function;
}

__attribute__((constructor)) static void start(void)
{
    void *functions[] = {find("malloc"), find("calloc"), find("realloc")};
    /* ISO C defines no conversion from an object pointer to a function pointer; POSIX guarantees that it works. */
    memcpy(&next_malloc, &functions[0], sizeof next_malloc);
    memcpy(&next_realloc, &functions[2], sizeof next_realloc);
    memcpy(&next_calloc, &functions[1], sizeof next_calloc);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("BENCH_MALLOC_COUNT");
    unsigned long long counted = atomic_load(&count);
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%llu\n", counted);
    fclose(file);
}

static void *take_early(size_t size)
{
    size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded > sizeof early - early_used)
        return NULL;
    void *memory = early + early_used;
    early_used += rounded;
    return memory;
}

void *malloc(size_t size)
{
    if (!next_malloc)
        return take_early(size);
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    return next_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    if (!next_calloc)
        return take_early(number * size);
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    return next_calloc(number, size);
}

void *realloc(void *memory, size_t size)
{
    if (!next_realloc)
        start();
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    return next_realloc(memory, size);
}
