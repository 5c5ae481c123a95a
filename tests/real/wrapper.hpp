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
    const redlock_options from = face_options();
    redlock::options options;
    options.ttl = std::chrono::milliseconds(from.ttl_ms);
    options.max_ttl = std::chrono::milliseconds(from.max_ttl_ms);
    options.node_timeout = std::chrono::milliseconds(from.node_timeout_ms);
    options.connect_timeout = std::chrono::milliseconds(from.connect_timeout_ms);
    options.silence_limit = std::chrono::milliseconds(from.silence_limit_ms);
    options.renewal_percent = from.renewal_percent;
    options.guard = from.guard != 0;
    return options;
}

#endif
