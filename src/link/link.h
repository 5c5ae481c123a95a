/*
 * src/link is one connection to a server, below Redis' semantics: addresses, hiredis on libev, TLS,
 * and the limits on replies. Its files do not call each other in cycles.
 *
 * A link is hiredis' asynchronous context, attached to libev by watchers of its own: hiredis connects, speaks TLS,
 * parses and frees. One part of it is gone around, by public functions and fields: the list of callbacks, and the way from
 * there to the socket and back. redisAsyncCommand() copies a command into a new buffer for each turn, allocates a
 * callback for it and a reply for its answer, and aborts the process on a reply too many. With 1000 locks in flight this
 * took a third of the client's CPU time, and the libev adapter costs two epoll_ctl(2) per command in addition.
 *
 * So a link appends the bytes of a command to a buffer that it keeps. The links with bytes to write are listed and
 * written once each per turn of the loop, before the loop sleeps. Write interest is only for connecting, and for a
 * socket whose buffer is full. Replies are taken from hiredis' reader; the owner knows which request each belongs to.
 */
#ifndef RL_LINK_H
#define RL_LINK_H

#include <ev.h>
#include <hiredis/async.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/core/process.h"
#include "src/link/tls.h"

#define RL_LINK_TEXT_SIZE 96

/* Bytes of a link's buffer while it rests: a handshake, or a few requests. While it does not, it has a buffer that takes
 * all that a client needs without memory. */
#define RL_OUTPUT_LEAST 1024
#define RL_OUTPUT_BUSY  (64 * 1024)

struct rl_link;

/* Shared by all links of one client. */
struct rl_writes {
    struct ev_loop *loop;
    const redlock_allocator *allocator;
    struct rl_link *first; /* the list of links with bytes to write */
    struct rl_link *last;
    bool own_thread;   /* this is the library's own thread, which blocks all signals, SIGPIPE included */
    rl_process *owner; /* a forked child leaves the sockets alone, though its loop may still have their events */
    bool broken;       /* a link has ended since the writes began: TLS may have raised SIGPIPE */
};

/* The most bytes of a reply to a request. */
#define RL_REPLY_MAX (1024 * 1024)
/* Arrays in arrays. hiredis 0.14 supports no more; later versions do, and recurse when they free the reply. */
#define RL_NESTING_MAX 7
/* Strings of fewer bytes need no allocation: errors, and a marker with the default names. */
#define RL_REPLY_SHORT 256

/*
 * hiredis' reader with limits, and without an allocation for most replies.
 *
 * The limits protect this process from a server that is hostile or not Redis: a reply ends the connection if it is too
 * large or nested too deep. A status, a number, nil, or a short string that is not part of an array is returned in
 * memory of the reader; every other reply is hiredis' own. hiredis calls these functions through the public table
 * `redisReader.fn`, in all versions.
 */
struct rl_reader {
    redisReplyObjectFunctions functions; /* hiredis' functions, except those that create strings, numbers and arrays */
    const redisReplyObjectFunctions *original;
    size_t most;  /* bytes of a reply, parsed or still in hiredis' buffer */
    size_t spent; /* bytes of the present reply */
    bool exceeded;
    redisReply reply; /* the present reply, unless it was allocated */
    char text[RL_REPLY_SHORT];
};

/* Why a link ended, or was not opened. */
struct rl_link_end {
    bool permanent; /* until an operator acts */
    char text[RL_LINK_TEXT_SIZE];
};

/* The owner's functions. Each of them may close the link. NULL for connected: what is queued leaves then, and that is
 * all; for expects: it always does. */
struct rl_link_type {
    size_t reply_max; /* bytes of a reply; a larger one ends the link */
    void (*connected)(struct rl_link *link);
    /* The server owes a reply. Bytes that it sends otherwise end the link. */
    bool (*expects)(const struct rl_link *link);
    void (*replied)(struct rl_link *link, const redisReply *reply);
    /* The link has ended by itself, and is closed. */
    void (*ended)(struct rl_link *link, const struct rl_link_end *end);
};

/* Bytes to write: [0, written) are in the socket, [written, released) may go, [released, used) wait for a release. Up to
 * `touched`, if that is larger, are bytes of earlier commands. */
struct rl_output {
    char *bytes;
    size_t written, released, used, touched, size;
};

struct rl_link {
    const struct rl_link_type *type;
    struct rl_writes *writes;
    struct rl_link *next;        /* in the list of links with bytes to write */
    redisAsyncContext *context;  /* NULL: closed */
    redisAsyncContext *doomed;   /* closed while its replies are delivered; freed afterwards */
    struct rl_link_end *failure; /* inside hiredis' connecting: takes the reason of a failure */
    struct rl_tls *tls;          /* NULL: a connection without TLS */
    const char *host;            /* for the server's certificate */
    struct ssl_st *session;
    struct rl_reader reader;
    struct rl_output output;
    ev_io readable, writable;
    bool connected;
    bool replied; /* the server has sent a reply */
    bool listed;
    bool unwritten;  /* TLS: hiredis has bytes that the socket did not take */
    bool delivering; /* inside replied() */
    bool full;       /* the last read brought much: the next one has more room */
    bool rests;      /* see rl_link_rest() */
};

struct rl_link_target {
    const char *path;    /* of a unix socket; "" for TCP */
    const char *numeric; /* the address */
    uint16_t port;
    const char *host;   /* the name in the certificate; must outlive the link */
    struct rl_tls *tls; /* NULL: without TLS */
};

/* Allocates the buffer, of this many bytes at first, so that a link can be opened and used while no memory is left.
 * false: no memory. */
bool rl_link_init(struct rl_link *link, struct rl_writes *writes, size_t first);

/* Starts to connect. false: it failed at once; `end` has the reason, and ended() is not called. */
bool rl_link_open(struct rl_link *link, const struct rl_link_type *type, const struct rl_link_target *target,
                  struct rl_link_end *end);

/* Closes the connection, if there is one, without calling ended(). */
void rl_link_close(struct rl_link *link);

/* Frees the buffer of a closed link. */
void rl_link_free(struct rl_link *link);

/* While the owner uses the link rarely, as it does at first, its buffers are freed between replies, or small. */
void rl_link_rest(struct rl_link *link, bool rests);

static inline bool rl_link_is_open(const struct rl_link *link)
{
    return link->context;
}

/* Appends bytes, which wait for rl_link_release(). false: closed, or no memory. */
bool rl_link_append(struct rl_link *link, const char *bytes, size_t size);

/* The same, in front of the bytes that wait already. */
bool rl_link_insert(struct rl_link *link, const char *bytes, size_t size);

/* Lets the next `size` bytes leave with the next flush. */
void rl_link_release(struct rl_link *link, size_t size);

/* Both: appends bytes that leave with the next flush. */
bool rl_link_send(struct rl_link *link, const char *bytes, size_t size);

/* Writes the released bytes of all links. */
void rl_links_flush(struct rl_writes *writes);

/* Bytes have arrived that were not read yet. */
bool rl_link_has_unread(const struct rl_link *link);

/* They are in hiredis' buffer, behind the last reply that was taken. */
static inline bool rl_link_has_more(const struct rl_link *link)
{
    return link->context->c.reader->pos < link->context->c.reader->len;
}

/* TLS: its handshake is in progress. */
static inline bool rl_link_is_negotiating(const struct rl_link *link)
{
    return link->session && !rl_tls_is_established(link->session);
}

#endif
