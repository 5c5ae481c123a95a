/* What a failed check does in a run without forks (CK_FORK=no). Check returns from the test by longjmp(), and reports at
 * the end of the program. If other threads run, they may use the stack of the test that is gone, so the program may
 * crash before that, and the failure is never seen. Here it is printed at once, and the program ends if threads run.
 *
 * If the program ends by a signal, the last check that passed is printed: Check does so only in a run with forks.
 *
 * The linker puts these functions before Check's own (--wrap). */
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include "file.h"
#include "test.h"

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);
void __real_tcase_fn_start(const char *test, const char *file, int line);
void __wrap_tcase_fn_start(const char *test, const char *file, int line);
_Noreturn void __real__ck_assert_failed(const char *file, int line, const char *expression, const char *format, ...);
_Noreturn void __wrap__ck_assert_failed(const char *file, int line, const char *expression, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The running test, and the row of its table, counted from 0. */
static _Atomic(const char *) running = "no test";
static atomic_int row;
static _Atomic(const char *) last_file = "";
static atomic_int last_line;
static pid_t runner; /* the process that runs the tests, which may fork */

static void on_end(int number)
{
    char text[512];
    int size = snprintf(text, sizeof text, "test program ended by signal %d in %s (row %d), after %s:%d\n", number,
                        running, row, last_file, last_line);
    if (write(STDERR_FILENO, text, (size_t)size) == size)
        fsync(STDERR_FILENO);
    signal(number, SIG_DFL);
    raise(number);
}

/* A sanitizer's own handler prints more, and stays. */
__attribute__((constructor)) static void handle_signals(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
    struct sigaction present;
    runner = getpid();
    for (size_t i = 0; tests_share_a_process() && i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &present) == 0 && present.sa_handler == SIG_DFL)
            signal(numbers[i], on_end);
}

void __wrap_tcase_fn_start(const char *test, const char *file, int line)
{
    row = running == test ? row + 1 : 0;
    running = test;
    __wrap__mark_point(file, line);
    __real_tcase_fn_start(test, file, line);
}

void __wrap__mark_point(const char *file, int line)
{
    last_file = file;
    last_line = line;
    __real__mark_point(file, line);
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
    if (tests_share_a_process()) {
        fprintf(stderr, "%s:%d: %s (row %d) failed: %s\n", file, line, running, row, expression);
        fflush(stderr);
        if (getpid() != runner)
            _exit(EXIT_FAILURE);
        if (file_threads() > 1) {
            fputs("Threads of this test still run: the remaining tests of this program are left out.\n", stderr);
            _exit(EXIT_FAILURE); /* the servers and directories of the fixtures end with the process */
        }
    }
    __real__ck_assert_failed(file, line, "", "%s", expression);
}
