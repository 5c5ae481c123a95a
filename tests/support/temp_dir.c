#define _GNU_SOURCE
#include "temp_dir.h"

#include "fixture.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct temp_dir {
    char *path;
    struct process guard; /* waits for the end of the test, and removes the files that the test has left */
    int guard_input;      /* closed by the test, or by its death */
};

static void remove_object(void *dir)
{
    temp_dir_remove(dir);
}

static void start_guard(struct temp_dir *dir)
{
    /* Tries twice, because a server that is killed at the same moment may still write a file. */
    static char script[] = "trap '' INT TERM HUP; read -r end; rm -rf -- \"$1\" || { sleep 1; rm -rf -- \"$1\"; }";
    static char shell[] = "/bin/sh";
    static char option[] = "-c";
    static char name[] = "fixture-guard";
    char *argv[] = {shell, option, script, name, dir->path, NULL};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        fixture_fail("pipe: %s", strerror(errno));
    struct process_options options = {.argv = argv, .input = ends[0], .detached = true};
    if (!process_start(&dir->guard, &options))
        fixture_fail("cannot start %s: %s", shell, strerror(errno));
    close(ends[0]);
    dir->guard_input = ends[1];
}

struct temp_dir *temp_dir_make(void)
{
    struct temp_dir *dir = fixture_allocate(sizeof *dir);
    const char *parent = getenv("TMPDIR");
    dir->path = fixture_text("%s/redlock-test-XXXXXX", parent != NULL && *parent != '\0' ? parent : "/tmp");
    if (mkdtemp(dir->path) == NULL)
        fixture_fail("cannot make the directory %s: %s", dir->path, strerror(errno));
    start_guard(dir);
    fixture_register(dir, remove_object);
    return dir;
}

const char *temp_dir_path(const struct temp_dir *dir)
{
    return dir->path;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

void temp_dir_remove(struct temp_dir *dir)
{
    if (!dir)
        return;
    fixture_unregister(dir);
    if (nftw(dir->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        fixture_fail("cannot remove %s: %s", dir->path, strerror(errno));
    close(dir->guard_input);
    process_kill(&dir->guard);
    free(dir->path);
    free(dir);
}
