#include "run_guard.h"

#include "moment.h"

#include <signal.h>

enum { LOOK_MS = 10, HOLDER_PATIENCE_MS = 1000 };

static void begin(struct cli_run_guard *guard)
{
    int64_t grace = guard->run->grace_ms - guard->patience_ms;

    if (guard->began)
        return;
    guard->began = true;
    cli_ending_begin(&guard->ending, guard->run->shared->valid_until, grace > 0 ? grace : 0);
}

/* The group exists before CMD runs, and until the tree is empty. */
static bool has_work(const struct cli_run_guard *guard)
{
    return guard->holder_is_dead || guard->run->shared->group != 0;
}

void cli_run_guard_end(struct cli_run_guard *guard)
{
    begin(guard);
    guard->holder_is_dead = true;
    guard->ending.grace = guard->run->grace_ms;
    cli_ending_prolong(&guard->ending, guard->run->shared->valid_until);
    cli_ending_now(&guard->ending, cli_now_ms());
}

/* The first of redlock's processes that gets here sends SIGTERM. */
static void terminate(const struct cli_run_guard *guard, const struct cli_tree *tree)
{
    if (!atomic_exchange(&guard->run->shared->terminated, true))
        cli_tree_terminate(tree);
}

void cli_run_guard_step(struct cli_run_guard *guard, const struct cli_tree *tree, pid_t holder)
{
    if (!has_work(guard))
        return;
    begin(guard);
    cli_ending_prolong(&guard->ending, guard->run->shared->valid_until);
    int64_t now = cli_now_ms();
    enum cli_ending_action action = cli_ending_step(&guard->ending, now);

    if (action == CLI_ENDING_TERMINATE)
        terminate(guard, tree);
    else if (action == CLI_ENDING_KILL)
        cli_tree_kill(tree);
    if (holder > 0 && now > guard->ending.end + HOLDER_PATIENCE_MS)
        kill(holder, SIGKILL); /* it may be stopped, and does not reap its children */
}

int64_t cli_run_guard_next(const struct cli_run_guard *guard)
{
    int64_t now = cli_now_ms();

    if (!has_work(guard) || !guard->began)
        return INT64_MAX;
    int64_t next = cli_ending_next(&guard->ending);
    return next <= now ? now + LOOK_MS : next;
}
