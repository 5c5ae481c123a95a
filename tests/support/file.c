#define _GNU_SOURCE
#include "file.h"

#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool file_read(const char *path, struct bytes *content)
{
    enum { CHUNK = 16384 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count;
    if (fd < 0)
        return false;
    while ((count = read(fd, bytes_room(content, CHUNK), CHUNK)) != 0) {
        if (count > 0)
            content->length += (size_t)count;
        else if (errno != EINTR)
            break;
    }
    int error = errno;
    close(fd);
    errno = error;
    *bytes_room(content, 1) = '\0';
    return count == 0;
}

void file_write(const char *path, const void *data, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t written = 0;
    if (fd < 0)
        fixture_fail("cannot write %s: %s", path, strerror(errno));
    while (written < length) {
        ssize_t count = write(fd, (const char *)data + written, length - written);
        if (count < 0 && errno != EINTR)
            fixture_fail("cannot write %s: %s", path, strerror(errno));
        if (count > 0)
            written += (size_t)count;
    }
    close(fd);
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
