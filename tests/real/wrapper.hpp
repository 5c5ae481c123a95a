// The C++ wrapper, and the nodes of the tests in C.
#ifndef TESTS_REAL_WRAPPER_HPP
#define TESTS_REAL_WRAPPER_HPP

#include <check.h>
#include <redlock/redlock.hpp>

extern "C" {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" // a flexible array in C
#include "real/real.h"
#pragma GCC diagnostic pop
extern struct cluster *cluster; // the nodes of the running test
}

using namespace std::chrono_literals;
using redlock::status;

// Like face_options(): locks that outlive any test, and timeouts that a loaded machine does not reach.
inline redlock::options patient()
{
    redlock::options options;
    options.ttl = options.max_ttl = 60s;
    options.node_timeout = options.connect_timeout = 10s;
    options.silence_limit = 30s;
    options.renewal_percent = 0;
    options.guard = false;
    return options;
}

#endif
