/* What a failed check does in a run without forks (CK_FORK=no). Check returns from the test by longjmp(), and reports at
 * the end of the program. If other threads run, they may use the stack of the test that is gone, so the program may
 * crash before that, and the failure is never seen. Here it is printed at once, and ends the program: the remaining tests are
 * left out, and the servers and directories of the fixtures end with the process.
 *
 * The linker puts these functions before Check's own (--wrap). */
#include <stdarg.h>
#include <unistd.h>

#include "test.h"

void __real_tcase_fn_start(const char *test, const char *file, int line);
void __wrap_tcase_fn_start(const char *test, const char *file, int line);
_Noreturn void __real__ck_assert_failed(const char *file, int line, const char *expression, const char *format, ...);
_Noreturn void __wrap__ck_assert_failed(const char *file, int line, const char *expression, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The running test, and the row of its table, counted from 0. */
static const char *running = "no test";
static int row;

void __wrap_tcase_fn_start(const char *test, const char *file, int line)
{
    row = running == test ? row + 1 : 0;
    running = test;
    __real_tcase_fn_start(test, file, line);
}

void __wrap__ck_assert_failed(const char *file, int line, const char *expression, const char *format, ...)
{
    char text[4096];
    if (format) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        expression = text;
    }
    if (!tests_share_a_process())
        __real__ck_assert_failed(file, line, "", "%s", expression);
    fprintf(stderr, "%s:%d: %s (row %d) failed: %s\n", file, line, running, row, expression);
    _exit(EXIT_FAILURE);
}
