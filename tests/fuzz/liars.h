/*
 * Nodes that may say anything, in the thread of the client that asks them: listeners on unix sockets, the connections
 * to them, what was asked on each, and what was answered. Nothing is sent but what the caller says. What a node has
 * granted is read off the bytes on the wire by a parser of the tests' own, so that it can be held against what the
 * client believes.
 */
#ifndef TESTS_FUZZ_LIARS_H
#define TESTS_FUZZ_LIARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LIARS = 3 };

/* Once per process. */
void liars_listen(void);
/* "unix:///tmp/.../0,..." with this before each path, "user:password@", and this behind it, "?timeout_ms=20". */
const char *liars_list(const char *login, const char *parameters);

/* Takes what has come: new connections, commands, ends. true: there was something. */
bool liars_take(void);

size_t liars_connections(void);
/* What is asked on the connection and has no answer yet. */
size_t liars_pending(size_t connection);

/* A healthy node's answer to the next question, cut to so many bytes, with one byte changed (at < 0: none). */
void liars_answer(size_t connection, size_t cut, long at, uint8_t byte);
/* Bytes of the caller's own. */
void liars_say(size_t connection, const void *bytes, size_t size);
void liars_hang_up(size_t connection);
/* All of them, and what is known of them. */
void liars_forget(void);

/* How many nodes have, by any reading of their words, granted the lock with this token. */
unsigned liars_granted(const char *token);

#endif
