/* A test program whose tests are a list: one case, one fixture for all. */
#ifndef TESTS_SUPPORT_LISTED_H
#define TESTS_SUPPORT_LISTED_H

#include "support/suite.h"

#define ROWS(table) ((int)(sizeof(table) / sizeof *(table)))

/* A test, and for how many rows of a table it runs, as _i; 0: once. */
struct listed_test {
    const TTest *test;
    int rows;
};

/* `setup` and `teardown` run around each test; NULL: nothing to do. */
static inline int run_listed(const char *name, SFun setup, SFun teardown, const struct listed_test *tests, int count)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup, teardown);
    for (int i = 0; i < count; i++)
        tcase_add_loop_test(tcase, tests[i].test, 0, tests[i].rows ? tests[i].rows : 1);
    return run_suite(suite);
}

#endif
