/* The user's rights that redlock(7) documents. The tests read them from the manual page, so that they test the
 * published line itself. */
#ifndef TESTS_REAL_PUBLISHED_RIGHTS_H
#define TESTS_REAL_PUBLISHED_RIGHTS_H

#include "redlock/redlock.h"

/* The prefix of the published user's resources, its name and its password. */
#define PUBLISHED_PREFIX   "jobs:"
#define PUBLISHED_USER     "lock"
#define PUBLISHED_PASSWORD "password"

/* The line in the manual page, without the leading "ACL SETUSER". Words are separated by one space, as behind "user" in
 * a line of an ACL file. It lives as long as the program. */
const char *published_rights(void);

/* Options with the guard of a client that is this user. */
redlock_options published_options(uint32_t ttl_ms);

/* The line of the manual page without these words, separated by spaces. The line must contain each of them. */
const char *published_rights_without(const char *words);

#endif
