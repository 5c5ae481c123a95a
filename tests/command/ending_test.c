/* The rule that decides when a command under a lock gets SIGTERM and SIGKILL. */
#include "cli/ending.h"

#include "support/test.h"

/* Each is a sequence of steps, STEP=MS: the lock is `renewed` until then, the command must end `now`, the lock is `over`, SIGKILL
 * `takes` this long, the `next` step is due then, the next `look` for a renewal is due then, after what the rule did last; and what
 * it does at this time: it waits, terminates or kills. The lock ends at 10000. */
static const struct {
    const char *name;
    int64_t grace;
    const char *steps;
} stories[] = {
    {"without renewal: SIGTERM a grace before the end, SIGKILL 50 ms before it", 2000,
     "next=8000 waits=7999 terminates=8000 next=9950 waits=9949 kills=9950 kills=11000"},
    {"a renewal moves both on, and never back", 2000, "renewed=10500 renewed=10000 waits=8499 terminates=8500"},
    {"a renewal after SIGTERM lets it go on, until the next end", 2000,
     "terminates=8000 renewed=19000 waits=10000 next=17000 terminates=17000 kills=18950"},
    {"ended at once it has the grace, whatever is renewed, and whoever asks again", 2000,
     "now=1000 terminates=1000 renewed=20000 now=2000 waits=2999 kills=3000"},
    {"ended at once after SIGTERM it gets another", 2000, "terminates=8000 now=8010 terminates=8010"},
    {"ended at once it has no more than what is left", 2000, "now=9500 terminates=9500 waits=9949 kills=9950"},
    {"a tree that takes long is killed earlier, also during the grace", 2000,
     "terminates=8000 takes=600 next=9350 waits=9349 kills=9350"},
    {"how long a tree took before a renewal does not count after it", 2000,
     "terminates=8000 takes=4500 renewed=13000 takes=4500 next=11000 terminates=11000 next=12950 takes=4500 kills=11001"},
    {"SIGKILL is repeated after a pause, which doubles, and is forgotten by a renewal", 2000,
     "kills=10000 next=10010 waits=10009 kills=10010 next=10030 kills=15000 renewed=19000 kills=18950"},
    {"too late for SIGTERM", 2000, "kills=9950"},
    {"ended at once, too late for SIGTERM", 2000, "now=9980 kills=9980"},
    {"without a grace there is no SIGTERM", 0, "waits=9949 next=9950 kills=9950"},
    {"a lock that is over leaves no grace", 2000, "over=1000 kills=1000"},
    {"a lock that is over ends the grace", 2000, "now=1000 terminates=1000 over=1100 kills=1100"},
    {"the look for a renewal is halfway to the SIGTERM, and every 50 ms at last", 2000,
     "look=4000 waits=4000 look=6000 renewed=15000 look=6000 waits=7901 look=7951 waits=9000 look=9050"},
};

static const char *const actions[] = {"waits", "terminates", "kills"};

TEST_CASE(ending, NULL, NULL);

TEST_ROWS(ending, each_story_ends_as_expected, ROWS(stories))
{
    struct cli_ending ending;
    const char *at = stories[_i].steps;
    char step[16];
    long long ms, last = 0;
    int length;
    cli_ending_begin(&ending, 10000, stories[_i].grace);
    for (; sscanf(at, " %15[^=]=%lld%n", step, &ms, &length) == 2; at += length) {
        if (strcmp(step, "renewed") == 0)
            cli_ending_prolong(&ending, ms);
        else if (strcmp(step, "now") == 0)
            cli_ending_now(&ending, ms);
        else if (strcmp(step, "over") == 0)
            cli_ending_over(&ending, ms);
        else if (strcmp(step, "takes") == 0)
            cli_ending_allow(&ending, ms);
        else if (strcmp(step, "next") == 0)
            ck_assert_msg(cli_ending_next(&ending) == ms, "%s: next at %lld in '%s'", stories[_i].name,
                          (long long)cli_ending_next(&ending), at);
        else if (strcmp(step, "look") == 0)
            ck_assert_msg(cli_ending_look(&ending, 10000, last) == ms, "%s: '%s'", stories[_i].name, at);
        else
            ck_assert_msg(strcmp(step, actions[cli_ending_step(&ending, last = ms)]) == 0, "%s: not '%s'",
                          stories[_i].name, at);
    }
    ck_assert_str_eq(at, "");
}

TEST_PROGRAM("cli_ending")
