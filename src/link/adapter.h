/*
 * src/link is one connection to a server, below Redis' semantics: addresses, name resolution, hiredis on libev, TLS,
 * and the limits on replies. Its files do not call each other in cycles.
 *
 * The adapter connects hiredis to libev, one adapter per connection. hiredis' own adapter switches write interest on
 * and off for each command, two epoll_ctl(2) per command. This one lists the connections with pending data and writes
 * each once per loop turn, before the loop sleeps. It enables write interest only while connecting, and while the
 * socket's buffer is full.
 */
#ifndef RL_ADAPTER_H
#define RL_ADAPTER_H

#include <ev.h>
#include <hiredis/async.h>
#include <stdbool.h>

#include "src/link/limit.h"

struct rl_adapter;
struct ssl_st;

/* Shared by all connections of one client. */
struct rl_writes {
    struct ev_loop *loop;
    struct rl_adapter *first; /* the list of connections with pending data */
    struct rl_adapter *last;
    bool own_thread; /* the loop runs on the library's own thread, which blocks all signals, SIGPIPE included */
    bool broken;     /* a connection has ended since the writes began: one of them may have raised SIGPIPE */
};

struct rl_adapter {
    struct rl_writes *writes;
    struct rl_adapter *next;
    redisAsyncContext *context; /* NULL after hiredis has ended the connection */
    struct ssl_st *tls;         /* set by the node for a connection with TLS; lives as long as the context */
    ev_io reader;
    ev_io writer;
    bool waiting; /* on the list */
    /* Set by the node in hiredis' connect callback. Versions of hiredis set their own flag before it or after it. */
    bool connected;
    struct rl_limit limit;
    bool writing; /* inside a write: hiredis requests write interest now only if the socket is full */
    /* The socket is readable. true: hiredis reads the data. false: the node has handled the event, and may have ended
     * the connection. */
    bool (*readable)(struct rl_adapter *adapter);
};

/* Attaches the adapter to a context. Call it before setting the context's callbacks. */
void rl_adapter_attach(struct rl_adapter *adapter, redisAsyncContext *context, struct rl_writes *writes);

/* Writes the pending data of all connections. */
void rl_adapter_flush(struct rl_writes *writes);

#endif
