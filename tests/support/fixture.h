/* Failure and cleanup of all fixtures.
 *
 * In Check's fork mode a failing test ends with _exit(), in no-fork mode with longjmp(). Both skip the cleanup in
 * its body. So every fixture registers itself, and
 *
 *   tcase_add_checked_fixture(tcase, fixtures_begin, fixtures_end);
 *
 * destroys after each test, newest first, every fixture that the test created and did not destroy. Fixtures from
 * before fixtures_begin() (of an unchecked fixture) stay, and are destroyed at exit(3). After _exit() or a crash the
 * kernel kills the servers (PR_SET_PDEATHSIG), and a guard process removes temporary directories.
 *
 * A forked child never destroys the fixtures of its parent. */
#ifndef TESTS_SUPPORT_FIXTURE_H
#define TESTS_SUPPORT_FIXTURE_H

#include <stddef.h>

void fixtures_begin(void);
void fixtures_end(void);

/* For fixtures only. */
void fixture_register(void *object, void (*destroy)(void *object));
void fixture_unregister(void *object);

/* If a fixture fails, no result of the test is meaningful: prints the reason and aborts. */
void fixture_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Never return NULL. */
void *fixture_allocate(size_t size);
void *fixture_reallocate(void *block, size_t size);
char *fixture_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- A growing byte array --- */

struct bytes {
    char *data;
    size_t length;
    size_t capacity;
};

/* Makes room for `size` more bytes after the end. The caller adds the number of bytes used to `length`. */
char *bytes_room(struct bytes *bytes, size_t size);

void bytes_append(struct bytes *bytes, const void *data, size_t length);
void bytes_print(struct bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first `length` bytes. */
void bytes_consume(struct bytes *bytes, size_t length);

void bytes_free(struct bytes *bytes);

#endif
