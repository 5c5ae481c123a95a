/*
 * hiredis on libev, one adapter per connection. The stock adapter turns write interest on and off for each command: two
 * epoll_ctl per command. Here a connection with something to write is put on a list, and the list is written once per
 * loop turn, before the loop sleeps; write interest is only asked for while connecting or when a socket's buffer is
 * full.
 */
#ifndef RL_ADAPTER_H
#define RL_ADAPTER_H

#include <ev.h>
#include <hiredis/async.h>
#include <stdbool.h>

#include "src/link/limit.h"

struct rl_adapter;
struct ssl_st;

/* What all connections of one client share. */
struct rl_writes {
    struct ev_loop *loop;
    struct rl_adapter *first; /* with something to write */
    struct rl_adapter *last;
    bool own_thread; /* all signals are blocked in it: SIGPIPE need not be */
    bool broken;     /* a connection ended since the writes began */
};

struct rl_adapter {
    struct rl_writes *writes;
    struct rl_adapter *next;
    redisAsyncContext *context; /* NULL once hiredis has cleaned up */
    struct ssl_st *tls;         /* set by the owner on a link with TLS; lives as long as the context */
    ev_io reader;
    ev_io writer;
    bool waiting; /* on the list */
    bool
        connected; /* told by the owner from hiredis' callback: hiredis' own flag is set before it or after, depending on version */
    struct rl_limit limit;
    bool writing; /* inside a write: asking for write interest now means the socket is full */
    /* There is data: true lets hiredis read it. False: the owner has dealt with it, the connection may be gone. */
    bool (*readable)(struct rl_adapter *adapter);
};

/* Takes the context over; to be called before its callbacks are set. */
void rl_adapter_attach(struct rl_adapter *adapter, redisAsyncContext *context, struct rl_writes *writes);

/* Writes what the connections have gathered. */
void rl_adapter_flush(struct rl_writes *writes);

#endif
