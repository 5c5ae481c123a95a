/* Calls of other threads: which of them wakes the loop's thread, and that none is left when it falls asleep. */
#include "src/client/call.h"
#include "support/test.h"

#include <unistd.h>

enum { CALLS = 3 };

static struct rl_calls calls;
static struct rl_call call[CALLS];
static struct rl_wakeup *wakeup;
static unsigned order[CALLS + 1], ran;

static void note(struct rl_call *run)
{
    order[ran++] = (unsigned)(run - call);
}

static void setup(void)
{
    static redlock_client *const some_client = (redlock_client *)(void *)&calls; /* it is only passed on */
    calls = (struct rl_calls){.newest = NULL};
    ran = 0;
    wakeup = rl_wakeup_create();
    ck_assert_ptr_nonnull(wakeup);
    for (unsigned i = 0; i < CALLS; i++)
        call[i] = (struct rl_call){.run = note, .arguments = {.client = some_client}};
}

static void teardown(void)
{
    rl_wakeup_unref(wakeup);
}

static uint64_t signals(void)
{
    uint64_t count = 0;
    return read(wakeup->descriptor, &count, sizeof count) == sizeof count ? count : 0;
}

static void post_all(void)
{
    for (unsigned i = 0; i < CALLS; i++)
        ck_assert(rl_calls_post(&calls, wakeup, &call[i]));
}

TEST_CASE(calls, setup, teardown);

TEST_ROWS(calls, the_first_of_several_calls_wakes_a_loop_that_polls, 2)
{
    bool polls = _i;
    ck_assert(rl_calls_fall_asleep(&calls));
    if (!polls)
        rl_calls_wake_up(&calls);
    post_all();
    ck_assert_uint_eq(signals(), polls);
    ck_assert(!rl_calls_fall_asleep(&calls)); /* so the loop runs them first */
    rl_calls_run(&calls);
    for (unsigned i = 0; i < CALLS; i++)
        ck_assert_uint_eq(order[i], i);
    ck_assert(rl_calls_fall_asleep(&calls));
}

TEST(calls, calls_of_a_dispatch_are_posted_together)
{
    ck_assert(rl_calls_fall_asleep(&calls));
    for (unsigned i = 0; i < CALLS; i++)
        rl_calls_gather(&calls, &call[i]);
    ck_assert_uint_eq(signals(), 0);
    rl_calls_flush(&calls, wakeup);
    ck_assert_uint_eq(signals(), 1);
    rl_calls_close(&calls); /* runs them: they are refused */
    ck_assert_uint_eq(ran, CALLS);
    ck_assert(!rl_calls_post(&calls, wakeup, &call[0]));
    rl_calls_gather(&calls, &call[1]);
    rl_calls_flush(&calls, wakeup);
    rl_calls_run_gathered(&calls);
    ck_assert_uint_eq(ran, CALLS + 1);
}

TEST_PROGRAM("calls")
