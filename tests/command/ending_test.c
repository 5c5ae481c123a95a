/* Tests the rule that decides when a command under a lock gets SIGTERM and SIGKILL: a table of stories, each a
 * sequence of steps. */
#include "cli/ending.h"
#include "support/test.h"

#include <check.h>

enum { END = 10000, GRACE = 2000 };

enum what {
    STOP, /* the end of a story */
    RENEWED,
    END_NOW,
    LOCK_OVER,
    TAKES, /* SIGKILL takes as long */
    NEXT,
    STEP,
    WAITS = STEP + CLI_ENDING_WAIT,
    TERMINATES = STEP + CLI_ENDING_TERMINATE,
    KILLS = STEP + CLI_ENDING_KILL,
};

struct moment {
    enum what what;
    int64_t at; /* RENEWED: the new end; NEXT: the expected time; otherwise the time of the step */
};

static const struct story {
    const char *name;
    int64_t grace;
    struct moment moments[10];
} stories[] = {
    {"without renewal: SIGTERM a grace before the end, SIGKILL 50 ms before it",
     GRACE,
     {{NEXT, END - GRACE},
      {WAITS, END - GRACE - 1},
      {TERMINATES, END - GRACE},
      {NEXT, END - 50},
      {WAITS, END - 51},
      {KILLS, END - 50},
      {KILLS, END + 1000}}},
    {"a renewal moves both on, and never back",
     GRACE,
     {{RENEWED, END + 500}, {RENEWED, END}, {WAITS, END - GRACE + 499}, {TERMINATES, END - GRACE + 500}}},
    {"a renewal after SIGTERM lets it go on, until the next end",
     GRACE,
     {{TERMINATES, END - GRACE},
      {RENEWED, END + 9000},
      {WAITS, END},
      {NEXT, END + 9000 - GRACE},
      {TERMINATES, END + 9000 - GRACE},
      {KILLS, END + 9000 - 50}}},
    {"ended at once it has the grace, whatever is renewed, and whoever asks again",
     GRACE,
     {{END_NOW, 1000},
      {TERMINATES, 1000},
      {RENEWED, 2 * END},
      {END_NOW, 2000},
      {WAITS, 1000 + GRACE - 1},
      {KILLS, 1000 + GRACE}}},
    {"ended at once after SIGTERM it gets another",
     GRACE,
     {{TERMINATES, END - GRACE}, {END_NOW, END - GRACE + 10}, {TERMINATES, END - GRACE + 10}}},
    {"ended at once it has no more than what is left",
     GRACE,
     {{END_NOW, END - 500}, {TERMINATES, END - 500}, {WAITS, END - 51}, {KILLS, END - 50}}},
    {"a tree that takes long is killed earlier, also during the grace",
     GRACE,
     {{TERMINATES, END - GRACE}, {TAKES, 600}, {NEXT, END - 650}, {WAITS, END - 651}, {KILLS, END - 650}}},
    {"how long a tree took before a renewal does not count after it",
     GRACE,
     {{TERMINATES, END - GRACE},
      {TAKES, 4500},
      {RENEWED, END + 3000},
      {TAKES, 4500},
      {NEXT, END + 3000 - GRACE},
      {TERMINATES, END + 3000 - GRACE},
      {NEXT, END + 3000 - 50},
      {TAKES, 4500},
      {KILLS, END + 3000 - GRACE + 1}}},
    {"SIGKILL is repeated after a pause, which doubles, and is forgotten by a renewal",
     GRACE,
     {{KILLS, END},
      {NEXT, END + 10},
      {WAITS, END + 9},
      {KILLS, END + 10},
      {NEXT, END + 30},
      {KILLS, END + 5000},
      {RENEWED, END + 9000},
      {KILLS, END + 9000 - 50}}},
    {"too late for SIGTERM", GRACE, {{KILLS, END - 50}}},
    {"ended at once, too late for SIGTERM", GRACE, {{END_NOW, END - 20}, {KILLS, END - 20}}},
    {"without a grace there is no SIGTERM", 0, {{WAITS, END - 51}, {NEXT, END - 50}, {KILLS, END - 50}}},
    {"a lock that is over leaves no grace", GRACE, {{LOCK_OVER, 1000}, {KILLS, 1000}}},
    {"a lock that is over ends the grace",
     GRACE,
     {{END_NOW, 1000}, {TERMINATES, 1000}, {LOCK_OVER, 1100}, {KILLS, 1100}}},
};

static void expect(const char *story, size_t moment, int64_t is, int64_t expected)
{
    ck_assert_msg(is == expected, "%s: moment %zu: %lld, not %lld", story, moment, (long long)is, (long long)expected);
}

TEST_CASE(ending, NULL, NULL);

TEST_ROWS(ending, each_story_ends_as_expected, ROWS(stories))
{
    const struct story *story = &stories[_i];
    struct cli_ending ending;
    cli_ending_begin(&ending, END, story->grace);
    for (size_t i = 0; story->moments[i].what != STOP; i++) {
        int64_t at = story->moments[i].at;
        enum what what = story->moments[i].what;
        if (what == RENEWED) {
            cli_ending_prolong(&ending, at);
        } else if (what == END_NOW) {
            cli_ending_now(&ending, at);
        } else if (what == LOCK_OVER) {
            cli_ending_over(&ending, at);
        } else if (what == TAKES) {
            cli_ending_allow(&ending, at);
        } else if (what == NEXT) {
            expect(story->name, i, cli_ending_next(&ending), at);
        } else {
            enum cli_ending_action action = cli_ending_step(&ending, at);
            expect(story->name, i, action, (int64_t)what - STEP);
        }
    }
}

TEST_PROGRAM("cli_ending")
