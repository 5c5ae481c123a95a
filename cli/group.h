/* A process group: the user's command and what it started. */
#ifndef CLI_GROUP_H
#define CLI_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

/* SIGTERM; a stopped process is continued, or it would not hear it. */
void cli_group_terminate(pid_t group);
void cli_group_kill(pid_t group);

/* Is any process of it alive? What has ended and was not reaped by its parent is not. */
bool cli_group_is_alive(pid_t group);

#endif
