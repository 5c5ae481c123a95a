/* A control group (cgroups(7), version 2) for a command, where one is delegated to us: one write kills all that is in it,
 * faster than it forks, also processes of other users. */
#ifndef CLI_CGROUP_H
#define CLI_CGROUP_H

enum { CLI_CGROUP_SIZE = 512 };

/* Makes a group below that of this process. "" in path: none is delegated, or the kernel has no cgroup.kill (before
 * Linux 5.14). */
void cli_cgroup_make(char path[CLI_CGROUP_SIZE]);

/* Moves the calling process into it. Async-signal-safe. The functions do nothing if there is none. */
void cli_cgroup_join(const char *path);

/* Sends SIGKILL to all that is in it, or in a group below it. */
void cli_cgroup_kill(const char *path);

/* Removes it, with the groups below it, if no process is left in them. */
void cli_cgroup_remove(const char *path);

#endif
