#include "cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The group of this process below the root of version 2, as "/user.slice/..."; "": unknown. */
static void read_own(char *own, size_t size)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[CLI_CGROUP_SIZE];

    *own = '\0';
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "0::/", 4) == 0 && strchr(line, '\n') != NULL)
            snprintf(own, size, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    if (file != NULL)
        fclose(file);
}

/* systemd marks what it delegates; what belongs to an ordinary user was given to him. A group that root could change is
 * not ours for that: its manager may count on it. */
static bool is_delegated(const char *path)
{
    static const char *const marks[] = {"user.delegate", "trusted.delegate"};
    struct stat status;
    char value = '\0';

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (getxattr(path, marks[i], &value, sizeof(value)) == 1 && value == '1')
            return true;
    return geteuid() != 0 && stat(path, &status) == 0 && status.st_uid == geteuid();
}

/* The file of the group, for writing; -1: there is none. */
static int open_file(const char *path, const char *name)
{
    int directory = *path != '\0' ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int file = directory >= 0 ? openat(directory, name, O_WRONLY | O_CLOEXEC) : -1;

    if (directory >= 0)
        close(directory);
    return file;
}

static void write_file(const char *path, const char *name, const char *text)
{
    int file = open_file(path, name);

    if (file < 0)
        return;
    (void)!write(file, text, strlen(text));
    close(file);
}

void cli_cgroup_make(char path[CLI_CGROUP_SIZE])
{
    static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}; /* beside version 1, and alone */
    char own[CLI_CGROUP_SIZE / 2];
    char parent[CLI_CGROUP_SIZE - 32];
    bool delegated = false;

    read_own(own, sizeof(own));
    for (size_t i = 0; *own != '\0' && !delegated && i < sizeof(roots) / sizeof(roots[0]); i++) {
        snprintf(parent, sizeof(parent), "%s%s", roots[i], own);
        delegated = is_delegated(parent);
    }
    snprintf(path, CLI_CGROUP_SIZE, "%s/redlock-%d", parent, (int)getpid());
    if (!delegated || mkdir(path, 0755) != 0) {
        *path = '\0';
        return;
    }
    int file = open_file(path, "cgroup.kill");
    if (file < 0) {
        rmdir(path);
        *path = '\0';
        return;
    }
    close(file);
}

void cli_cgroup_join(const char *path)
{
    write_file(path, "cgroup.procs", "0");
}

void cli_cgroup_kill(const char *path)
{
    write_file(path, "cgroup.kill", "1");
}

/* Those below it are of a redlock run that was killed, or of the command. */
void cli_cgroup_remove(const char *path)
{
    char below[CLI_CGROUP_SIZE];
    struct dirent *entry;

    if (*path == '\0' || rmdir(path) == 0)
        return;
    DIR *directory = opendir(path);
    while (directory != NULL && (entry = readdir(directory)) != NULL)
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) < (int)sizeof(below))
            cli_cgroup_remove(below);
    if (directory != NULL)
        closedir(directory);
    rmdir(path);
}
