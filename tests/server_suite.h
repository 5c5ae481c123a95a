/* The frame of a test program of one suite that starts servers of its own: without redis-server it is skipped. */
#ifndef TESTS_SERVER_SUITE_H
#define TESTS_SERVER_SUITE_H

#include "quorum_suite.h"
#include "support/cluster.h"

#include <stdio.h>

static inline int run_server_suite(Suite *suite)
{
    enum { EXIT_SKIPPED = 77 };

    if (cluster_available())
        return run_suite(suite);
    srunner_free(srunner_create(suite));
    fputs("skipped: there is no redis-server; install it or set REDIS_SERVER\n", stderr);
    return EXIT_SKIPPED;
}

#endif
