#define _GNU_SOURCE
#include "group.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

void cli_group_terminate(pid_t group)
{
    kill(-group, SIGTERM);
    kill(-group, SIGCONT);
}

void cli_group_kill(pid_t group)
{
    kill(-group, SIGKILL);
}

static bool is_living_member(const char *process, pid_t group)
{
    char path[64];
    char line[512];
    char state = 'X';
    int its_group = 0;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", process);
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(line, 1, sizeof(line) - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    line[length] = '\0';
    const char *name_end = strrchr(line, ')'); /* a name may hold anything */
    return name_end != NULL && sscanf(name_end + 1, " %c %*d %d", &state, &its_group) == 2 && its_group == group &&
           state != 'Z' && state != 'X';
}

/* Its leader may be gone, and others be somebody else's children: only the list of all processes knows. */
static bool has_living_member(pid_t group)
{
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    bool found = processes == NULL; /* nobody knows: take them for alive */

    while (processes != NULL && !found && (entry = readdir(processes)) != NULL)
        found = isdigit((unsigned char)entry->d_name[0]) && is_living_member(entry->d_name, group);
    if (processes != NULL)
        closedir(processes);
    return found;
}

bool cli_group_is_alive(pid_t group)
{
    return (kill(-group, 0) == 0 || errno == EPERM) && has_living_member(group); /* EPERM: all are another user's */
}
