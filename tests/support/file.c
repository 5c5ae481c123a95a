#define _GNU_SOURCE
#include "file.h"

#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_read(const char *path, struct bytes *content)
{
    enum { CHUNK = 16384 };
    FILE *file = fopen(path, "re");
    size_t count;
    if (!file)
        return false;
    while ((count = fread(bytes_room(content, CHUNK), 1, CHUNK, file)) > 0)
        content->length += count;
    bool complete = !ferror(file);
    fclose(file);
    *bytes_room(content, 1) = '\0';
    return complete;
}

void file_write(const char *path, const void *data, size_t length)
{
    FILE *file = fopen(path, "we");
    bool written = file && fchmod(fileno(file), 0600) == 0 && fwrite(data, 1, length, file) == length;
    if (!file || fclose(file) != 0 || !written)
        fixture_fail("cannot write %s: %s", path, strerror(errno));
}

static size_t count_entries(const char *path)
{
    DIR *directory = opendir(path);
    size_t count = 0;
    if (!directory)
        fixture_fail("cannot read %s: %s", path, strerror(errno));
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count - 2; /* without "." and ".." */
}

size_t file_open_descriptors(void)
{
    return count_entries("/proc/self/fd") - 1; /* without the descriptor of the directory itself */
}

size_t file_threads(void)
{
    return count_entries("/proc/self/task");
}

size_t file_resident_bytes(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#else
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages;

    if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1)
        fixture_fail("cannot read /proc/self/statm: %s", strerror(errno));
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
#endif
}
