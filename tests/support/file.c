#define _GNU_SOURCE
#include "file.h"

#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

size_t file_open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    size_t count = 0;
    if (!directory)
        fixture_fail("cannot read /proc/self/fd: %s", strerror(errno));
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count - 3; /* without ".", ".." and the descriptor of the directory itself */
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

/* --- A private directory --- */

struct temp_dir {
    char *path;
    FILE *guard; /* a shell that removes the directory when the test says so, or dies */
};

static void remove_object(void *dir)
{
    temp_dir_remove(dir);
}

struct temp_dir *temp_dir_make(void)
{
    /* In a session of its own, so that nothing that ends the test's processes ends it. It tries twice, because a server that
     * is killed at the same moment may still write a file. */
    static const char guard[] =
        "exec setsid sh -c 'trap \"\" INT TERM HUP; IFS= read -r dir; read -r end; rm -rf -- \"$dir\" || "
        "{ sleep 1; rm -rf -- \"$dir\"; }' >/dev/null 2>&1";
    struct temp_dir *dir = fixture_allocate(sizeof *dir);
    const char *parent = getenv("TMPDIR");
    dir->path = fixture_text("%s/redlock-test-XXXXXX", parent != NULL && *parent != '\0' ? parent : "/tmp");
    if (mkdtemp(dir->path) == NULL)
        fixture_fail("cannot make the directory %s: %s", dir->path, strerror(errno));
    dir->guard = popen(guard, "we");
    if (!dir->guard || fprintf(dir->guard, "%s\n", dir->path) < 0 || fflush(dir->guard) != 0)
        fixture_fail("cannot start a shell: %s", strerror(errno));
    fixture_register(dir, remove_object);
    return dir;
}

const char *temp_dir_path(const struct temp_dir *dir)
{
    return dir->path;
}

void temp_dir_remove(struct temp_dir *dir)
{
    if (!dir)
        return;
    fixture_unregister(dir);
    fputs("end\n", dir->guard);
    int status = pclose(dir->guard);
    if (status != 0 && !(status < 0 && errno == ECHILD)) /* libev's default loop may have reaped it */
        fixture_fail("cannot remove %s", dir->path);
    free(dir->path);
    free(dir);
}
