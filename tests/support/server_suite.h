/* The main function of a test program with one suite that starts its servers. Without a server program it is
 * skipped. */
#ifndef TESTS_SUPPORT_SERVER_SUITE_H
#define TESTS_SUPPORT_SERVER_SUITE_H

#include "support/server_program.h"
#include "support/suite.h"

#include <stdio.h>

static inline int run_server_suite(Suite *suite)
{
    enum { EXIT_SKIPPED = 77 };
    if (server_program_available())
        return run_suite(suite);
    srunner_free(srunner_create(suite));
    fprintf(stderr, "skipped: %s\n", server_program_missing());
    return EXIT_SKIPPED;
}

#endif
