/* What redlock(1) exits with. The manual page has the same table. */
#ifndef CLI_EXIT_STATUS_H
#define CLI_EXIT_STATUS_H

#include <redlock/redlock.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_NOT_OBTAINED = 1,   /* others hold the lock, or held it for as long as was waited; -E changes it */
    CLI_USAGE = 64,         /* the command line is not understood */
    CLI_NO_QUORUM = 69,     /* too many nodes are down, silent, refusing or slow */
    CLI_SYSTEM = 71,        /* this machine: no memory, no process, no descriptor */
    CLI_LOST = 75,          /* the lock was lost, or ended before the work did */
    CLI_MISCONFIGURED = 78, /* the config file, the environment, or a node that must be put right */
    CLI_NOT_EXECUTABLE = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL = 128 /* and the number of the signal */
};

/* The exit status for how an operation ended. */
int cli_exit_of(const redlock_result *result);

#endif
