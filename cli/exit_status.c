#include "exit_status.h"

static int exit_of_status(int status)
{
    switch ((enum redlock_status)status) { /* the compiler names a status that is missing here */
    case REDLOCK_OK:
        return CLI_OK;
    case REDLOCK_HELD:
    case REDLOCK_CANCELLED:
        return CLI_NOT_OBTAINED;
    case REDLOCK_NO_QUORUM:
    case REDLOCK_TOO_SLOW:
    case REDLOCK_TIMED_OUT:
        return CLI_NO_QUORUM;
    case REDLOCK_MISCONFIGURED:
    case REDLOCK_CLOCK:
        return CLI_MISCONFIGURED;
    case REDLOCK_LOST:
        return CLI_LOST;
    case REDLOCK_INVALID:
        return CLI_USAGE;
    case REDLOCK_NO_MEMORY:
    case REDLOCK_SYSTEM:
        break;
    }
    return CLI_SYSTEM;
}

int cli_exit_of(const redlock_result *result)
{
    return exit_of_status(result->status == REDLOCK_TIMED_OUT ? result->cause : result->status);
}
