/*
 * Nodes that may send anything. They run in the thread of the client under test: listeners on unix sockets, their
 * connections, the requests on each connection, and the replies. They send only the bytes that the caller passes. A
 * parser that is independent of the library determines from the bytes on the wire which tokens a node has granted. So
 * the test can compare the grants with the client's results.
 */
#ifndef TESTS_FUZZ_LIARS_H
#define TESTS_FUZZ_LIARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LIARS = 3 };

/* Call this once per process. */
void liars_listen(void);
/* Returns "unix:///tmp/.../0,..." with `login` ("user:password@") before each path and `parameters`
 * ("?timeout_ms=20") after it. */
const char *liars_list(const char *login, const char *parameters);

/* Processes new connections, commands and ends of connections. Returns true if there were any. */
bool liars_take(void);

size_t liars_connections(void);
/* Number of requests on the connection that have no reply yet. */
size_t liars_pending(size_t connection);

/* Executes the next request as a healthy node, and sends the reply, cut to `cut` bytes, with the byte at `at` replaced (at < 0: no
 * byte). */
void liars_answer(size_t connection, size_t cut, long at, uint8_t byte);
/* Sends the caller's bytes. */
void liars_say(size_t connection, const void *bytes, size_t size);
void liars_hang_up(size_t connection);
/* The nodes have no keys, and an operator vouches for them. Their clocks run with rl_now(), or stand still. */
void liars_restart(bool clocks_run);
/* Drops all connections and everything recorded about them. */
void liars_forget(void);

/* Number of nodes that may have granted the lock with this token, if every ambiguous reply counts as a grant. */
unsigned liars_granted(const char *token);

#endif
