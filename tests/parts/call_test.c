/* Calls of other threads: which of them wakes the loop's thread, and that none is left when it falls asleep. */
#include "src/client/call.h"
#include "support/test.h"

#include <unistd.h>

enum { MANY = 100000 };

static struct rl_calls calls;
static struct rl_call call[MANY];
static struct rl_wakeup *wakeup;
static unsigned ran;

static void run(struct rl_call *next)
{
    ck_assert_ptr_eq(next, &call[ran++]);
}

static void setup(void)
{
    static redlock_client *const some_client = (redlock_client *)(void *)&calls; /* it is only passed on */
    calls = (struct rl_calls){.newest = NULL};
    ran = 0;
    wakeup = rl_wakeup_create();
    ck_assert_ptr_nonnull(wakeup);
    for (unsigned i = 0; i < MANY; i++)
        call[i] = (struct rl_call){.run = run, .arguments = {.client = some_client}};
}

static void teardown(void)
{
    rl_wakeup_unref(wakeup);
}

TEST_CASE(calls, setup, teardown);

/* The first call wakes the loop if it polls. A turn must be short, because the losses of the client's locks wait for its end. Those
 * that are left when the loop ends are refused. */
TEST_ROWS(calls, many_calls_are_one_signal_and_several_turns, 2)
{
    bool polls = _i, ends = _i;
    uint64_t signals = 0;
    unsigned turns = 0;
    ck_assert(rl_calls_fall_asleep(&calls, wakeup));
    if (!polls)
        rl_calls_wake_up(wakeup);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(rl_calls_post(&calls, wakeup, &call[i]));
    ck_assert_int_eq(read(wakeup->descriptor, &signals, sizeof signals) > 0, polls);
    ck_assert_uint_eq(signals, polls);
    for (unsigned before = 0; !rl_calls_fall_asleep(&calls, wakeup) && !(ends && turns == 2); before = ran, turns++) {
        rl_calls_run(&calls);
        ck_assert(ran > before && ran - before <= MANY / 50);
    }
    ck_assert(ends || ran == MANY);
    rl_calls_close(&calls);
    ck_assert_uint_eq(ran, MANY);
}

TEST_PROGRAM("calls")
