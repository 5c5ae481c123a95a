/* The delaying proxy in front of the servers. */
#ifndef BENCH_PROXY_H
#define BENCH_PROXY_H

#include "servers.h"

struct proxy {
    struct process process;
    int ports[SERVERS_MAX];
};

/* For the first `count` servers, each with its own round trip in microseconds. */
void proxy_start(struct proxy *proxy, const struct servers *servers, const unsigned *round_trips, unsigned count);
void proxy_end(struct proxy *proxy);

/* "host:port,..." of `count` of them, beginning with the one numbered `first`. */
const char *proxy_list(const struct proxy *proxy, unsigned first, unsigned count, char *list);

#endif
