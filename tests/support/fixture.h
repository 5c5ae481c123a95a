/* What all fixtures share: how they fail, and how they are cleaned up when a test does not come back.
 *
 * In Check's fork mode a failing test leaves by _exit(), in no-fork mode by longjmp(): either way past any clean-up
 * in its body. So every fixture registers itself, and
 *
 *     tcase_add_checked_fixture(tcase, fixtures_begin, fixtures_end);
 *
 * destroys, after each test and newest first, whatever the test made and did not destroy itself. Fixtures made before
 * fixtures_begin() (by an unchecked fixture) stay. At exit(3) the rest is destroyed. After _exit() or a crash the kernel
 * kills the servers (PR_SET_PDEATHSIG) and a guard process removes temporary directories.
 *
 * A forked child never destroys what its parent made. */
#ifndef TESTS_SUPPORT_FIXTURE_H
#define TESTS_SUPPORT_FIXTURE_H

#include <stddef.h>

void fixtures_begin(void);
void fixtures_end(void);

/* For the fixtures themselves. */
void fixture_register(void *object, void (*destroy)(void *object));
void fixture_unregister(void *object);

/* A fixture that cannot do its work makes every answer of the test worthless: says why and aborts. */
_Noreturn void fixture_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Never return NULL. */
void *fixture_allocate(size_t size);
void *fixture_reallocate(void *block, size_t size);
char *fixture_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
