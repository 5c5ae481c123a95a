/* Temporary server processes on free loopback ports. They write nothing to disk, and die with this process. */
#ifndef BENCH_SERVERS_H
#define BENCH_SERVERS_H

#include "process.h"

enum { SERVERS_MAX = 7, NODE_LIST_SIZE = 32 * SERVERS_MAX };

struct servers {
    unsigned count;
    unsigned unreachable; /* the last ones, killed or stopped */
    int ports[SERVERS_MAX];
    struct process processes[SERVERS_MAX];
};

int servers_free_port(void);

void servers_start(struct servers *servers, unsigned count);
void servers_end(struct servers *servers);

/* Kills the last servers of the list; the first `count` stay. */
void servers_kill(struct servers *servers, unsigned count);
void servers_stop(struct servers *servers, unsigned count);

/* Kills a server, and starts it again on the same port, empty. */
void servers_restart(struct servers *servers, unsigned number);

/* "host:port,host:port" of the first `count`, in the form that every contender accepts. The list has room for
 * NODE_LIST_SIZE. */
const char *servers_list(const struct servers *servers, unsigned count, char *list);
const char *ports_list(const int *ports, unsigned count, char *list);

/* Number of keys that contenders which have ended left on the reachable servers. Waits a moment for requests in
 * transit. */
unsigned long servers_left_over(const struct servers *servers);

#endif
