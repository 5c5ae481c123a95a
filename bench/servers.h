/* Throw-away server processes on free loopback ports: nothing is written to disk, and they die with us. */
#ifndef BENCH_SERVERS_H
#define BENCH_SERVERS_H

#include "process.h"

enum { SERVERS_MAX = 7, NODE_LIST_SIZE = 32 * SERVERS_MAX };

struct servers {
    unsigned count;
    int ports[SERVERS_MAX];
    struct process processes[SERVERS_MAX];
};

void servers_start(struct servers *servers, unsigned count);
void servers_end(struct servers *servers);

/* Counted from the last one: the first `count` servers of the list stay. */
void servers_kill(struct servers *servers, unsigned count);
void servers_stop(struct servers *servers, unsigned count);

/* "host:port,host:port" of the first `count`, as every contender takes it. The list has room for NODE_LIST_SIZE. */
const char *servers_list(const struct servers *servers, unsigned count, char *list);
const char *ports_list(const int *ports, unsigned count, char *list);

/* Keys that contenders which have ended left on the first `count` servers, after a moment for what is still on its way. */
unsigned long servers_left_over(const struct servers *servers, unsigned count);

#endif
