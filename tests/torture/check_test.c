/* Tests the checker with histories written by hand. It accepts those that keep the guarantees, and names each
 * guarantee that is broken. */
#include "check.h"

#include "support/test.h"

/* Lines of a history, with times in milliseconds, separated by semicolons. A loss may be reported 10 ms late, and an
 * acquire may end 100 ms late. */
static const struct history {
    const char *name;
    enum check_promise broken; /* CHECK_PROMISES: none */
    size_t times;
    const char *lines;
} histories[] = {
    {"one after the other", CHECK_PROMISES, 0,
     "100 a held 1 r 100 -;150 a release 1 r 0 -;151 b held 1 r 100 -;240 b release 1 r 0 -;300 a end 1 r 0 -"},
    {"two at once", CHECK_EXCLUSION, 1,
     "100 a held 1 r 100 -;150 b held 1 r 100 -;160 b release 1 r 0 -;170 a release 1 r 0 -"},
    {"the longest promise counts, not the last", CHECK_EXCLUSION, 2,
     "100 a held 1 r 100 -;110 a valid 1 r 500 -;150 b held 1 r 100 -;160 b release 1 r 0 -;"
     "400 c held 1 r 100 -;410 c release 1 r 0 -;420 a release 1 r 0 -"},
    {"a promise outlives a client that was killed", CHECK_EXCLUSION, 1,
     "100 a held 1 r 100 -;199 b held 1 r 100 -;210 b release 1 r 0 -"},
    {"a promise ends", CHECK_PROMISES, 0, "100 a held 1 r 100 -;201 b held 1 r 100 -;210 b release 1 r 0 -"},
    {"other resources do not meet", CHECK_PROMISES, 0,
     "100 a held 1 r 100 -;120 b held 1 other 50 -;130 b release 1 other 0 -;140 a release 1 r 0 -"},
    {"a validity of 0 promises nothing", CHECK_PROMISES, 0,
     "110 a held 1 r 0 -;111 b held 1 r 100 -;120 b release 1 r 0 -"},
    {"a reported loss ends the promise", CHECK_PROMISES, 0,
     "100 a held 1 r 100 -;120 a lost 1 r 0 gone;130 b held 1 r 100 -;140 b release 1 r 0 -"},
    {"readers together", CHECK_PROMISES, 0,
     "90 a start 1 r -1 shared;100 a held 1 r 100 -;90 b start 1 r -1 shared;120 b held 1 r 50 -;"
     "130 b release 1 r 0 -;140 a release 1 r 0 -"},
    {"a writer beside a reader that is not the last", CHECK_EXCLUSION, 1,
     "90 a start 1 r -1 shared;100 a held 1 r 100 -;90 b start 1 r -1 shared;110 b held 1 r 20 -;"
     "90 c start 1 r -1 -;150 c held 1 r 10 -;155 c release 1 r 0 -;160 a release 1 r 0 -"},
    {"a reader beside a writer", CHECK_EXCLUSION, 1,
     "90 a start 1 r -1 -;100 a held 1 r 20 -;90 b start 1 r -1 shared;110 b held 1 r 20 -"},
    {"as many permits as there are", CHECK_PROMISES, 0,
     "90 a start 1 s -1 1/3;100 a held 1 s 100 -;90 b start 1 s -1 2/3;120 b held 1 s 50 -;"
     "90 c start 1 s -1 2/3;175 c held 1 s 50 -"},
    {"more permits than there are", CHECK_EXCLUSION, 1,
     "90 a start 1 s -1 1/3;100 a held 1 s 100 -;90 b start 1 s -1 2/3;120 b held 1 s 50 -;"
     "90 c start 1 s -1 1/3;165 c held 1 s 50 -"},
    {"a lock that is kept after its release", CHECK_EXCLUSION, 1,
     "100 a held 1 r 100 -;110 a release 1 r 30 -;139 b held 1 r 10 -;145 b release 1 r 0 -"},
    {"a lock that a majority keeps beyond its validity", CHECK_EXCLUSION, 2,
     "100 a held 1 r 50 -;110 a release 1 r 40 -;120 a released 1 r 200 -;310 b held 1 r 50 -;330 c held 1 r 10 -;"
     "331 c release 1 r 0 -;332 b release 1 r 0 -"},
    {"growing tokens", CHECK_PROMISES, 0,
     "90 a start 1 r 1000 -;100 a held 1 r 5 -;100 a fence 1 r 7 -;101 a release 1 r 0 -;"
     "110 b start 1 r 1000 -;120 b held 1 r 5 -;120 b fence 1 r 9 -;121 b release 1 r 0 -;"
     "130 a start 2 r 1000 -;140 a held 2 r 5 -;140 a fence 2 r 12 -;141 a release 2 r 0 -"},
    {"a smaller token", CHECK_FENCING, 1,
     "90 a start 1 r 1000 -;100 a held 1 r 5 -;100 a fence 1 r 9 -;101 a release 1 r 0 -;"
     "110 b start 1 r 1000 -;120 b held 1 r 5 -;120 b fence 1 r 7 -;121 b release 1 r 0 -"},
    {"a token smaller than an earlier one than the last", CHECK_FENCING, 1,
     "90 a start 1 r 1000 -;100 a held 1 r 5 -;100 a fence 1 r 9 -;101 a release 1 r 0 -;"
     "95 b start 1 r 1000 -;120 b held 1 r 5 -;120 b fence 1 r 6 -;121 b release 1 r 0 -;"
     "110 c start 1 r 1000 -;130 c held 1 r 5 -;130 c fence 1 r 7 -;131 c release 1 r 0 -"},
    {"a token twice", CHECK_FENCING, 1,
     "90 a start 1 r 1000 -;100 a held 1 r 5 -;100 a fence 1 r 9 -;101 a release 1 r 0 -;"
     "95 b start 1 r 1000 -;120 b held 1 r 5 -;120 b fence 1 r 9 -;121 b release 1 r 0 -"},
    {"the same token of another resource", CHECK_PROMISES, 0,
     "90 a start 1 r 1000 -;100 a held 1 r 5 -;100 a fence 1 r 9 -;101 a release 1 r 0 -;"
     "110 b start 1 s 1000 -;120 b held 1 s 5 -;120 b fence 1 s 9 -;121 b release 1 s 0 -"},
    {"acquires that overlap have no order", CHECK_PROMISES, 0,
     "90 a start 1 r 1000 -;100 a held 1 r 5 -;100 a fence 1 r 9 -;101 a release 1 r 0 -;"
     "95 b start 1 r 1000 -;120 b held 1 r 5 -;120 b fence 1 r 7 -;121 b release 1 r 0 -"},
    {"a reader is told the writer's token", CHECK_PROMISES, 0,
     "90 a start 1 r -1 -;100 a held 1 r 5 -;100 a fence 1 r 9 -;101 a release 1 r 0 -;"
     "110 b start 1 r -1 shared;120 b held 1 r 5 -;120 b fence 1 r 9 -;121 b release 1 r 0 -"},
    {"a reader is told an older token", CHECK_FENCING, 1,
     "90 a start 1 r -1 -;100 a held 1 r 5 -;100 a fence 1 r 9 -;101 a release 1 r 0 -;"
     "110 b start 1 r -1 shared;120 b held 1 r 5 -;120 b fence 1 r 0 -;121 b release 1 r 0 -"},
    {"told within the tolerance", CHECK_PROMISES, 0,
     "100 a held 1 r 100 -;211 a lost 1 r 0 expired"}, /* rounded down */
    {"told late", CHECK_TOLD, 1, "100 a held 1 r 100 -;215 a lost 1 r 0 expired"},
    {"not told at all", CHECK_TOLD, 1, "100 a held 1 r 100 -;300 a end 1 r 0 -"},
    {"told late, but the process did not run", CHECK_PROMISES, 0,
     "100 a.1 held 1 r 100 -;900 a.0 stall 0 - 780 -;905 a.1 lost 1 r 0 expired"},
    {"told late, and another process did not run", CHECK_TOLD, 1,
     "100 a.1 held 1 r 100 -;900 b.0 stall 0 - 780 -;905 a.1 lost 1 r 0 expired"},
    {"not told, because it was killed", CHECK_PROMISES, 0,
     "100 a held 1 r 100 -;300 b held 1 r 100 -;310 b release 1 r 0 -"},
    {"an acquire beyond its deadline", CHECK_BOUNDED, 1, "100 a start 1 r 500 -;701 a failed 1 r 0 REDLOCK_TIMED_OUT"},
    {"an acquire that never ends", CHECK_BOUNDED, 1, "100 a start 1 r 500 -;5000 a end 1 r 0 -"},
    {"an acquire without a deadline", CHECK_PROMISES, 0, "100 a start 1 r -1 -;5000 a failed 1 r 0 cancelled"},
    {"a key that is left", CHECK_NOTHING, 1, "100 nemesis left 3 - 0 r0"},
};

TEST_CASE(check, NULL, NULL);

static void add_lines(struct check *check, const char *lines)
{
    char text[512], copy[128], *rest = text, *next;
    struct history_line line;
    snprintf(text, sizeof text, "%s", lines);
    while ((next = strsep(&rest, ";"))) {
        size_t time = strcspn(next, " ");
        snprintf(copy, sizeof copy, "%.*s000000%s\n", (int)time, next, next + time);
        ck_assert_msg(history_parse(copy, &line), "%s", copy);
        bool in_us = line.event == HISTORY_HELD || line.event == HISTORY_VALID || line.event == HISTORY_RELEASE ||
                     line.event == HISTORY_RELEASED;
        line.number *= in_us ? 1000 : 1;
        ck_assert_msg(check_add(check, &line), "%s", copy);
    }
}

static void ignore(void *arg, enum check_promise which, uint64_t time, const char *text)
{
    (void)arg;
    (void)which;
    (void)time;
    (void)text;
}

TEST_ROWS(check, each_broken_promise_is_found_and_no_other, ROWS(histories))
{
    const struct history *history = &histories[_i];
    struct check *check = check_new(10, 100);
    add_lines(check, history->lines);
    struct check_summary summary = check_all(check, ignore, NULL);
    for (unsigned i = 0; i < CHECK_PROMISES; i++)
        ck_assert_msg(summary.violations[i] == (i == history->broken ? history->times : 0), "%s: %zu violations of %s",
                      history->name, summary.violations[i], check_promise_names[i]);
    check_free(check);
}

static const char *const refused[] = {"",
                                      "\n",
                                      "x\n",
                                      "1 a held 1 r 5\n",
                                      "1 a sings 1 r 5 -\n",
                                      "1 a held x r 5 -\n",
                                      "1 a start 1 r 9 -\n" /* again */};

TEST_ROWS(check, what_is_no_line_and_a_second_life_of_one_name_are_refused, ROWS(refused))
{
    struct check *check = check_new(10, 100);
    ck_assert(check_line(check, "1 a start 1 r 5 -\n"));
    ck_assert_msg(!check_line(check, refused[_i]), "%s", refused[_i]);
    check_free(check);
}

TEST_PROGRAM("torture checker")
