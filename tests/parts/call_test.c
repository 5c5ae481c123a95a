/* Calls of other threads: which of them wakes the loop's thread, and that none is left when it falls asleep. */
#include "src/client/call.h"
#include "support/test.h"

#include <unistd.h>

enum { MANY = 20000 };

static struct rl_call call[MANY];
static unsigned ran;

static void run(struct rl_call *next)
{
    ck_assert_ptr_eq(next, &call[ran++]);
}

TEST_CASE(calls, NULL, NULL);

/* The first call wakes the loop if it polls. A turn must be short, because the losses of the client's locks wait for its end.
 * Those that are left when the loop ends are refused, and in a forked child they are freed. The client is only passed on. */
TEST_ROWS(calls, many_calls_are_one_signal_and_several_turns, 3)
{
    bool polls = _i, ends = _i, forked = _i == 2;
    struct rl_calls calls = {.newest = NULL};
    struct rl_wakeup *wakeup = rl_wakeup_create();
    uint64_t signals = 0;
    unsigned turns = 0;
    ran = 0;
    ck_assert(wakeup && rl_calls_fall_asleep(&calls, wakeup));
    if (!polls)
        rl_calls_wake_up(wakeup);
    for (unsigned i = 0; i < MANY; i++) {
        call[i] = (struct rl_call){.run = run, .drop = run, .arguments = {.client = (redlock_client *)(void *)&calls}};
        ck_assert(rl_calls_post(&calls, wakeup, &call[i]));
    }
    ck_assert_int_eq(read(wakeup->descriptor, &signals, sizeof signals) > 0, polls);
    ck_assert_uint_eq(signals, polls);
    for (unsigned before = 0; !rl_calls_fall_asleep(&calls, wakeup) && !(ends && turns == 2); before = ran, turns++) {
        rl_calls_run(&calls);
        ck_assert(ran > before && ran - before <= MANY / 10);
    }
    ck_assert(ends || ran == MANY);
    (forked ? rl_calls_drop : rl_calls_close)(&calls);
    ck_assert_uint_eq(ran, MANY);
    rl_wakeup_unref(wakeup);
}

TEST_PROGRAM("calls")
