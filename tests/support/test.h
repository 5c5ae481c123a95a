/* Tests that register themselves. A program names its cases, writes its tests, and runs them in the order of the file:
 *
 *   TEST_CASE(limits, setup, teardown);
 *
 *   TEST(limits, a_release_is_never_refused)
 *   {
 *       ...
 *   }
 *
 *   TEST_ROWS(limits, each_number_has_its_bounds, ROWS(bounds))
 *   {
 *       ... bounds[_i] ...
 *   }
 *
 *   TEST_PROGRAM("limits")
 *
 * TEST_LONG_ROWS is for rows that take seconds: in a run without forks, which looks only for the effects of earlier tests
 * on later ones, the first row alone runs.
 *
 * With TEST_ONLY=NAME in the environment the program runs this test alone, and with TEST_ROW=N beside it this row alone,
 * from 0; if TEST_ONLY is empty, the program prints the names of its tests, or of those in CK_RUN_CASE, and runs none.
 */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS(table) ((int)(sizeof(table) / sizeof *(table)))

static inline bool tests_share_a_process(void)
{
    const char *fork = getenv("CK_FORK");
    return fork && strcmp(fork, "no") == 0;
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

struct test_case {
    const char *name;
    SFun setup, teardown;                              /* they run around each test; NULL: nothing to do */
    double timeout_s;                                  /* 0: Check's default */
    TCase *(*create)(Suite *suite, const char *name);  /* a case with more fixtures; NULL: without any */
    void (*add_once)(TCase *tcase, const TTest *test); /* adds a test without rows; NULL: it runs with 0 as _i */
    TCase *tcase;
};

struct test {
    TTest test;
    struct test_case *of;
    int rows;     /* it runs once for each, with the number as _i; 0: once */
    bool is_long; /* its rows take seconds: if all tests share one process, only the first one runs */
    struct test *next;
};

static struct test *registered_tests; /* by line: the order of constructors is not that of the file */

static inline void test_register(struct test *test)
{
    struct test **at = &registered_tests;
    while (*at && (*at)->test.line < test->test.line)
        at = &(*at)->next;
    test->next = *at;
    *at = test;
}

#define TEST_CASE_WITHIN(name, setup, teardown, timeout_s)                                                             \
    static struct test_case case_##name = {#name, setup, teardown, timeout_s, NULL, NULL, NULL}

#define TEST_CASE(name, setup, teardown) TEST_CASE_WITHIN(name, setup, teardown, 0)

#define TEST_REGISTERED(of, name, rows, is_long)                                                                       \
    static void name(int _i);                                                                                          \
    static struct test name##_test = {{#name, name, __FILE__, __LINE__}, &case_##of, rows, is_long, NULL};             \
    __attribute__((constructor)) static void name##_register(void)                                                     \
    {                                                                                                                  \
        test_register(&name##_test);                                                                                   \
    }                                                                                                                  \
    static void name(int _i CK_ATTRIBUTE_UNUSED)

#define TEST_ROWS(of, name, rows)      TEST_REGISTERED(of, name, rows, false)
#define TEST_LONG_ROWS(of, name, rows) TEST_REGISTERED(of, name, rows, true)
#define TEST(of, name)                 TEST_REGISTERED(of, name, 0, false)

static inline Suite *registered_suite(const char *name)
{
    Suite *suite = suite_create(name);
    const char *only = getenv("TEST_ONLY"), *row = only ? getenv("TEST_ROW") : NULL, *of_case = getenv("CK_RUN_CASE");
    for (struct test *test = registered_tests; test; test = test->next) {
        struct test_case *of = test->of;
        if (only && !*only && (!of_case || strcmp(of_case, of->name) == 0))
            printf("test %s\n", test->test.name);
        if (only && strcmp(only, test->test.name) != 0)
            continue;
        if (!of->tcase) {
            of->tcase = of->create ? of->create(suite, of->name) : tcase_create(of->name);
            suite_add_tcase(suite, of->tcase); /* does nothing if create() has added it */
            tcase_add_checked_fixture(of->tcase, of->setup, of->teardown);
            if (of->timeout_s > 0)
                tcase_set_timeout(of->tcase, of->timeout_s);
        }
        if (test->rows == 0 && of->add_once) {
            of->add_once(of->tcase, &test->test);
        } else {
            int first = row ? atoi(row) : 0, once = test->rows == 0 || (test->is_long && tests_share_a_process());
            tcase_add_loop_test(of->tcase, &test->test, first, row ? first + 1 : once ? 1 : test->rows);
        }
    }
    return suite;
}

/* The program's main function. The name is that of its suite. */
#define TEST_PROGRAM(name)                                                                                             \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return run_suite(registered_suite(name));                                                                      \
    }

#endif
