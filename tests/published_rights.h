/* The rights that redlock(7) says are all that a user needs, taken from there: what is published is what is tested. */
#ifndef TESTS_PUBLISHED_RIGHTS_H
#define TESTS_PUBLISHED_RIGHTS_H

/* What the published user may put before its resources, and its password. */
#define PUBLISHED_PREFIX   "jobs:"
#define PUBLISHED_USER     "lock"
#define PUBLISHED_PASSWORD "password"

/* The line in the manual page and that in docs/design.md, without what they begin with ("ACL SETUSER"), words separated
 * by one space: what a line of an ACL file has behind "user". Live as long as the program. */
const char *published_rights(void);
const char *published_rights_in_design(void);

/* The same line without some of its words, separated by spaces, each of which it must have. */
const char *published_rights_without(const char *words);

#endif
