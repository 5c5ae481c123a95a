/* redlock(1)'s exit statuses. The manual page has the same table. */
#ifndef CLI_EXIT_STATUS_H
#define CLI_EXIT_STATUS_H

#include <redlock/redlock.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_NOT_OBTAINED = 1,   /* the lock is held, or was held for the whole wait; -E changes it */
    CLI_USAGE = 64,         /* usage error */
    CLI_NO_QUORUM = 69,     /* too many nodes are down, silent, refusing or slow */
    CLI_SYSTEM = 71,        /* the system refused memory, a process or a descriptor */
    CLI_LOST = 75,          /* the lock was lost, or ended before the command did */
    CLI_MISCONFIGURED = 78, /* the config file, the environment or a node is misconfigured */
    CLI_NOT_EXECUTABLE = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL = 128 /* plus the signal's number */
};

/* The exit status for an operation's status. */
int cli_exit_of(const redlock_result *result);

#endif
