#include "ending.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t kill_at(const struct cli_ending *ending)
{
    return least(ending->kill_by, ending->end - ending->kill_before);
}

static int64_t terminate_at(const struct cli_ending *ending)
{
    return ending->kill_by != INT64_MAX ? INT64_MIN : ending->end - ending->grace;
}

void cli_ending_begin(struct cli_ending *ending, int64_t end, int64_t grace)
{
    *ending =
        (struct cli_ending){.end = end, .grace = grace, .kill_before = CLI_ENDING_KILL_BEFORE_MS, .kill_by = INT64_MAX};
}

void cli_ending_allow(struct cli_ending *ending, int64_t takes_ms)
{
    if (ending->terminated)
        ending->kill_before = CLI_ENDING_KILL_BEFORE_MS + takes_ms;
}

/* A command that survived SIGTERM continues under the renewed lock; at the next end it gets SIGTERM again, and how long
 * that takes is measured again: a measure from before may be longer than the lock has left. */
void cli_ending_prolong(struct cli_ending *ending, int64_t end)
{
    if (end <= ending->end)
        return;
    ending->end = end;
    ending->kill_again = 0;
    if (ending->kill_by != INT64_MAX)
        return;
    ending->terminated = false;
    ending->kill_before = CLI_ENDING_KILL_BEFORE_MS;
}

void cli_ending_now(struct cli_ending *ending, int64_t now)
{
    if (ending->kill_by != INT64_MAX)
        return;
    ending->kill_by = now + ending->grace;
    ending->kill_again = 0;
    ending->pause = 0;
    ending->terminated = false;
}

void cli_ending_over(struct cli_ending *ending, int64_t now)
{
    ending->kill_by = least(ending->kill_by, now);
}

enum cli_ending_action cli_ending_step(struct cli_ending *ending, int64_t now)
{
    if (now >= kill_at(ending)) {
        if (now < ending->kill_again)
            return CLI_ENDING_WAIT;
        ending->pause = ending->pause == 0 ? CLI_ENDING_PAUSE_MS : least(2 * ending->pause, CLI_ENDING_PAUSE_MOST_MS);
        ending->kill_again = now + ending->pause;
        return CLI_ENDING_KILL;
    }
    if (ending->terminated || now < terminate_at(ending))
        return CLI_ENDING_WAIT;
    ending->terminated = true;
    return CLI_ENDING_TERMINATE;
}

int64_t cli_ending_next(const struct cli_ending *ending)
{
    int64_t kill = kill_at(ending) > ending->kill_again ? kill_at(ending) : ending->kill_again;

    return ending->terminated || ending->pause > 0 ? kill : least(terminate_at(ending), kill);
}

int64_t cli_ending_look(const struct cli_ending *ending, int64_t known_end, int64_t now)
{
    int64_t left = known_end - ending->grace - now;

    return now + (left > 2 * CLI_ENDING_LOOK_MS ? left / 2 : CLI_ENDING_LOOK_MS);
}
