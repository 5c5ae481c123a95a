/* Calls of other threads: which of them wakes the loop's thread, and that none is left when it falls asleep. */
#include "src/client/call.h"
#include "support/test.h"

#include <unistd.h>

enum { CALLS = 3, MANY = 100000 };

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
    ck_assert(rl_calls_fall_asleep(&calls, wakeup));
    if (!polls)
        rl_calls_wake_up(wakeup);
    post_all();
    ck_assert_uint_eq(signals(), polls);
    ck_assert(!rl_calls_fall_asleep(&calls, wakeup)); /* so the loop runs them first */
    rl_calls_run(&calls);
    for (unsigned i = 0; i < CALLS; i++)
        ck_assert_uint_eq(order[i], i);
    ck_assert(rl_calls_fall_asleep(&calls, wakeup));
}

static struct rl_call many[MANY];

static void count(struct rl_call *run)
{
    ck_assert_ptr_eq(run, &many[ran++]);
}

/* A turn must be short, because the losses of the client's locks wait for its end. Those that are left when the loop ends
 * are refused. */
TEST_ROWS(calls, many_calls_take_several_turns, 2)
{
    unsigned turns = 0;
    for (unsigned i = 0; i < MANY; i++) {
        many[i] = (struct rl_call){.run = count, .arguments = call[0].arguments};
        ck_assert(rl_calls_post(&calls, wakeup, &many[i]));
    }
    for (unsigned before = 0; !rl_calls_fall_asleep(&calls, wakeup) && !(_i && turns == 2); before = ran, turns++) {
        rl_calls_run(&calls);
        ck_assert(ran > before && ran - before <= MANY / 50);
    }
    ck_assert(_i || ran == MANY);
    rl_calls_close(&calls);
    ck_assert_uint_eq(ran, MANY);
}

TEST_PROGRAM("calls")
