#include "ending.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t kill_at(const struct cli_ending *ending)
{
    return least(ending->kill_by, ending->end - CLI_ENDING_KILL_BEFORE_MS);
}

static int64_t terminate_at(const struct cli_ending *ending)
{
    return ending->kill_by != INT64_MAX ? INT64_MIN : ending->end - ending->grace;
}

void cli_ending_begin(struct cli_ending *ending, int64_t end, int64_t grace)
{
    *ending = (struct cli_ending){.end = end, .grace = grace, .kill_by = INT64_MAX};
}

/* A command that survived SIGTERM continues under the renewed lock; at the next end it gets SIGTERM again. */
void cli_ending_prolong(struct cli_ending *ending, int64_t end)
{
    if (end <= ending->end)
        return;
    ending->end = end;
    if (ending->kill_by == INT64_MAX)
        ending->terminated = false;
}

void cli_ending_now(struct cli_ending *ending, int64_t now)
{
    if (ending->kill_by != INT64_MAX)
        return;
    ending->kill_by = now + ending->grace;
    ending->terminated = false;
}

void cli_ending_over(struct cli_ending *ending, int64_t now)
{
    ending->kill_by = least(ending->kill_by, now);
}

enum cli_ending_action cli_ending_step(struct cli_ending *ending, int64_t now)
{
    if (now >= kill_at(ending))
        return CLI_ENDING_KILL;
    if (ending->terminated || now < terminate_at(ending))
        return CLI_ENDING_WAIT;
    ending->terminated = true;
    return CLI_ENDING_TERMINATE;
}

int64_t cli_ending_next(const struct cli_ending *ending)
{
    return ending->terminated ? kill_at(ending) : least(terminate_at(ending), kill_at(ending));
}
