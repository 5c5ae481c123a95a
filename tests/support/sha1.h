/* The digest by which Redis names scripts. */
#ifndef TESTS_SUPPORT_SHA1_H
#define TESTS_SUPPORT_SHA1_H

#include <stddef.h>

/* 40 hexadecimal digits and a NUL. */
void sha1_hex(const void *data, size_t length, char digest[41]);

#endif
