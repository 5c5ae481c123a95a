/* Processes that play a part in bench-contend and bench-dead-head, on nodes that are new. */
#ifndef BENCH_ACTOR_H
#define BENCH_ACTOR_H

#include <redlock/redlock.h>
#include <stddef.h>
#include <sys/types.h>

enum { ACTOR_READY_TIMEOUT_MS = 10000 };

_Noreturn void actor_fail(const char *what, const char *why);

/* Starts a process that calls the function, and dies with this one. This one may have no client, which would not
 * survive the fork. */
pid_t actor_start(void (*body)(const void *argument), const void *argument);

/* Waits for its end (-1: that of any); it must be a good one. */
void actor_wait(pid_t actor);

/* With default options; waits until the nodes are ready. */
redlock_client *actor_connect(const char *nodes);

/* Ends the quarantine of new nodes, which hold no lock. */
void actor_trust(const void *nodes);

/* Zeroed. */
void *actor_share_memory(size_t size);

#endif
