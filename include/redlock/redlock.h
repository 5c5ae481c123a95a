/*
 * redlock.h - a distributed lock over N independent Redis masters
 *
 * A lock is granted when a majority of the nodes (quorum = N/2+1) grants it, and is valid for its ttl less the time the
 * granting took, less a term for clock drift. The algorithm is Redlock (redis.io, "Distributed Locks with Redis").
 *
 * Two faces over one core:
 *   blocking      redlock_connect() makes a client that owns a loop thread; its functions block and may be called from
 *                 any thread;
 *   asynchronous  redlock_attach() makes a client on the caller's libev loop; its functions (..._async) return at once
 *                 and answer by a callback; all of them belong to the thread that attached.
 *
 * What holds everywhere, unless a function says otherwise:
 *   units         the name of a number ends in its unit: _ms, _us.
 *   ownership     what is passed in is copied before the call returns; what is handed out belongs to the client and
 *                 says how long it lives.
 *   errors        functions return REDLOCK_OK (0) or a negative enum redlock_status; the result says the rest in
 *                 numbers and words.
 *   cancellation  pthread_cancel(3) takes effect after a blocking call, when all it did is done; redlock_cancel() ends
 *                 one early. The thread that runs an asynchronous client's loop must not be cancelled inside it.
 *   callbacks     exactly one per started operation, never from inside the call that started it, always from the loop
 *                 and never while the library is in the middle of something: every function may be called in one.
 *   processes     a client belongs to the process that made it. In a forked child every call answers REDLOCK_INVALID,
 *                 but for redlock_close() and redlock_close_async(), which free memory and descriptors and send nothing
 *                 (those of a blocking client whose thread was at work at that moment stay until exec or exit).
 *   the host      the library never prints, exits, aborts on what a server sends, or touches signal dispositions.
 */
#ifndef REDLOCK_REDLOCK_H
#define REDLOCK_REDLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(REDLOCK_BUILDING) && defined(__GNUC__)
#define REDLOCK_API __attribute__((visibility("default")))
#else
#define REDLOCK_API
#endif

#define REDLOCK_VERSION_MAJOR   0
#define REDLOCK_VERSION_MINOR   1
#define REDLOCK_VERSION_PATCH   0

#define REDLOCK_NODES_MAX       32   /* nodes of one client */
#define REDLOCK_RESOURCE_MAX    512  /* bytes of a resource's name */
#define REDLOCK_RESOURCES_MAX   64   /* resources of one lock */
#define REDLOCK_PERMITS_MAX     32   /* permits of a semaphore */
#define REDLOCK_TOKEN_SIZE      41   /* bytes of the text of a token of this library, with its final NUL */
#define REDLOCK_TOKEN_MAX       128  /* bytes of another library's token that can be shown and given */
#define REDLOCK_TOKEN_TEXT_SIZE 513  /* bytes of any token's text, with its final NUL */
#define REDLOCK_FOREVER         (-1) /* as a wait_ms: no limit */

struct ev_loop; /* libev's; its header is not needed here */

/* A set of nodes and the connections to them. */
typedef struct redlock_client redlock_client;

/* One successful acquire. Lives until it is released, or its client is closed. */
typedef struct redlock_lock redlock_lock;

/* Ends operations that are under way; see redlock_cancel(). */
typedef struct redlock_cancellation redlock_cancellation;

/* ------------------------------------------------------------------------------------------------------------- status */

enum redlock_status {
    REDLOCK_OK = 0,
    REDLOCK_HELD = -1,      /* others hold the lock, or part of it, on so many nodes that no majority is left */
    REDLOCK_NO_QUORUM = -2, /* so many nodes are down, silent or refusing that no majority is left */
    REDLOCK_MISCONFIGURED =
        -3,                /* as before, and waiting will not help: wrong password, missing permission, a replica ... */
    REDLOCK_TOO_SLOW = -4, /* a majority granted it, but less validity was left than asked for */
    REDLOCK_TIMED_OUT = -5, /* wait_ms passed; the result's cause says what the last attempt met */
    REDLOCK_CANCELLED = -6, /* ended by redlock_cancel() or by closing the client */
    REDLOCK_LOST = -7,      /* the lock is no longer held: it expired, or a majority does not have it any more */
    REDLOCK_INVALID = -8, /* an argument, the thread, the process or the state of the client does not allow the call */
    REDLOCK_NO_MEMORY = -9, /* the allocator answered NULL; nothing was done */
    REDLOCK_SYSTEM = -10,   /* the system refused a thread, a descriptor or random bytes; nothing was done */
    REDLOCK_CLOCK = -11 /* no fencing token can be had: this machine's clock and the nodes' are more than a day apart */
};

/* What one node contributed to a round. */
enum redlock_outcome {
    REDLOCK_NODE_PENDING = 0,     /* had not answered when the round was decided */
    REDLOCK_NODE_GRANTED = 1,     /* did what was asked: set, extended or deleted the key */
    REDLOCK_NODE_HELD = 2,        /* another holder's key is there */
    REDLOCK_NODE_ABSENT = 3,      /* extend, release: our key is not there (any more) */
    REDLOCK_NODE_REFUSED = 4,     /* answered with an error (LOADING, READONLY, OOM, NOPERM ...): see text */
    REDLOCK_NODE_UNREACHABLE = 5, /* not connected, or the connection broke */
    REDLOCK_NODE_TIMED_OUT = 6,   /* no answer within the node's timeout */
    REDLOCK_NODE_UNATTESTED = 7   /* acquire: granted, but the node's marker had changed: it may have forgotten locks */
};

/* "REDLOCK_OK", "REDLOCK_HELD", ... Static; never NULL. Any thread. */
REDLOCK_API const char *redlock_status_name(int status);

/* A sentence on the status. Static; never NULL. Any thread. */
REDLOCK_API const char *redlock_status_text(int status);

/* "granted", "held", ... Static; never NULL. Any thread. */
REDLOCK_API const char *redlock_outcome_name(int outcome);

/*
 * Bytes as text, in the one way in which the library, its log and redlock(1) show them: as they are, except that a byte
 * that is part of a control character or of no UTF-8 character is written \xNN, and so is a backslash that would
 * otherwise begin such a sequence. redlock_unescape() reads it back, exactly. size 0: a C string. Both write no more than
 * fits (whole escapes, and for text a final NUL), and return how many bytes all of it takes. Any thread.
 */
REDLOCK_API size_t redlock_escape(const char *bytes, size_t size, char *text, size_t text_size);
REDLOCK_API size_t redlock_unescape(const char *text, char *bytes, size_t size);

/* The library's version, "0.1.0". Static. Any thread. */
REDLOCK_API const char *redlock_version(void);

/* ------------------------------------------------------------------------------------------------------------- result */

typedef struct redlock_node_result {
    const char *name;    /* "10.0.0.4:6379", never with a password; lives as long as the client */
    int32_t outcome;     /* enum redlock_outcome */
    uint32_t latency_us; /* from sending the request to its answer; 0 without an answer */
    char text[96];       /* the node's error, or why it was not asked; "" when outcome says it all */
} redlock_node_result;

/* What an operation came to. Filled by every operation, whatever its status. Plain data: copy it freely. */
typedef struct redlock_result {
    int32_t status;   /* enum redlock_status: what the function returned or the callback tells */
    int32_t cause;    /* on TIMED_OUT and CANCELLED the status of the last attempt that ended by itself, else status */
    uint32_t nodes;   /* N; how many entries of node[] are filled */
    uint32_t quorum;  /* N/2+1 */
    uint32_t granted; /* votes of the last attempt, by class; a node without an answer is in none of them */
    uint32_t held;
    uint32_t absent;
    uint32_t refused;
    uint32_t unreachable;
    uint32_t timed_out;
    uint32_t unattested;
    uint32_t attempts;      /* rounds over the nodes that the operation needed */
    uint32_t pending_undos; /* close: undos that could not be confirmed, over all nodes */
    int64_t validity_ms;    /* what was left of the lock when the operation was decided; 0 when it is not held */
    uint64_t elapsed_us;    /* from the start of the operation to its decision */
    uint64_t fence;         /* acquire with `fence`: the lock's fencing token; else 0 */
    uint64_t reserved[7];
    redlock_node_result node[REDLOCK_NODES_MAX];
    char text[768]; /* in words what went wrong; after REDLOCK_OK see redlock_result_text() */
} redlock_result;

/*
 * The result in one line for a log: "held by another: 2 granted, 3 held (10.0.0.1:6379, ...)". Written into
 * result->text, where it is already unless the status is REDLOCK_OK; returned for convenience; lives as long as the
 * result. Never NULL. Any thread, one at a time per result.
 */
REDLOCK_API const char *redlock_result_text(redlock_result *result);

/* ------------------------------------------------------------------------------------------------------------ options */

/* Memory for one client. All three or none. user is passed through. Called from the client's loop thread and, in the
 * blocking face, from every thread that calls it: they must be thread-safe there. Memory inside hiredis, libev, OpenSSL
 * and the resolver is not covered. */
typedef struct redlock_allocator {
    void *(*allocate)(size_t size, void *user);                 /* NULL: no memory */
    void *(*reallocate)(void *memory, size_t size, void *user); /* NULL: no memory, the old block stays */
    void (*release)(void *memory, void *user);                  /* memory may be NULL */
    void *user;
} redlock_allocator;

enum redlock_log_level { REDLOCK_LOG_ERROR = 0, REDLOCK_LOG_WARNING = 1, REDLOCK_LOG_INFO = 2, REDLOCK_LOG_DEBUG = 3 };

/* One line, without a newline and without secrets; lives for the call. Must not call the library. */
typedef void (*redlock_log_callback)(int level, const char *line, void *arg);

/*
 * Credentials for one node, asked at each connect, so that they can be rotated. Writes NUL-terminated texts into the
 * two buffers of the given size (user may stay ""); returns 0, or another number when there are none now: the node is
 * then tried again later. Called on the loop; must not block and must not call the library. The buffers are wiped after
 * use.
 */
typedef int (*redlock_credentials_callback)(const char *node, char *user, char *password, size_t size, void *arg);

/* What a holder is told about its lock. */
enum redlock_event {
    REDLOCK_EVENT_RENEWAL_FAILING =
        1, /* a renewal came to nothing, the first of a row (see redlock_renewal_result()); tried again until the end */
    REDLOCK_EVENT_ENDING = 2, /* no more than notify_before_ms of validity are left */
    REDLOCK_EVENT_LOST = 3    /* the lock is no longer held. Said once, after which nothing more is said of it */
};

/* Why a lock was lost. */
enum redlock_loss {
    REDLOCK_NOT_LOST = 0,
    REDLOCK_LOSS_EXPIRED = 1, /* its validity ended before a renewal could prolong it */
    REDLOCK_LOSS_GONE = 2,    /* a majority of the nodes does not have the key any more */
    REDLOCK_LOSS_CLOCK = 3,   /* this machine's clock stood still, so that the nodes may have let the lock expire */
    REDLOCK_LOSS_CLOSED = 4   /* the client was closed */
};

/*
 * Told of a lock's fate: event is an enum redlock_event, loss an enum redlock_loss, validity_ms what is left. Called on
 * the loop: the caller's in the asynchronous face; in the blocking face the client's own thread, where what waits for
 * nodes is refused, and what asks none is answered. Called within 10 ms of the end of validity, whatever the nodes do.
 * The handle may be released in it (asynchronous face, where nothing is told of a handle before its acquire is).
 */
typedef void (*redlock_event_callback)(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg);

/* clang-format off */
/* Settings of a client. Start from REDLOCK_OPTIONS_INIT; fields may be added at the end in later versions. */
typedef struct redlock_options {
    size_t struct_size;               /* set by REDLOCK_OPTIONS_INIT */
    uint32_t ttl_ms;                  /* default life of a lock on the nodes: 10000 */
    uint32_t minimum_validity_ms;     /* default of what must be left of it when acquired: 1 */
    uint32_t node_timeout_ms;         /* least time that a node has for an answer: 50; in a URI: ?timeout_ms=. It grows with the
                                         measured round trip (smoothed + 4 * mean deviation) up to silence_limit_ms
                                         or a quarter of ttl_ms, and begins when the node answers the request before */
    uint32_t connect_timeout_ms;      /* to connect and shake hands: 1000; in a URI: ?connect_timeout_ms= */
    uint32_t silence_limit_ms;        /* a node that owes an answer for so long is connected anew: 2000 */
    uint32_t backoff_max_ms;          /* longest pause between attempts to connect: 2000 */
    uint32_t drift_ppm;               /* clocks differ in rate by so many millionths: 10000 (1 %); 2 ms are added */
    uint32_t pending_max;             /* requests waiting for one node's answers; it is not asked beyond: 8192 */
    uint32_t undos_max;               /* undos kept for a node that is away; the oldest is dropped beyond: 8192 */
    uint32_t operations_max;          /* operations under way; more answer REDLOCK_INVALID: 65536 */
    uint32_t leave_locks;             /* close: 0 releases the locks still held, 1 leaves them to expire */
    uint32_t database;                /* SELECT: 0; in a URI: /3 */
    const char *prefix;               /* put before every resource to make its key: "" */
    const char *client_name;          /* CLIENT SETNAME, without spaces: "redlock"; "" for none */
    const char *user;                 /* AUTH: none; in a URI: user:password@ */
    const char *password;
    redlock_credentials_callback credentials; /* asked instead of these two, but not for a URI with a password */
    void *credentials_arg;
    redlock_log_callback log;         /* none */
    void *log_arg;
    uint32_t log_level;               /* the least important level that is logged: REDLOCK_LOG_INFO */
    uint32_t tls_no_verify;           /* 1: accept any certificate. For tests only */
    const char *tls_ca_file;          /* PEM; without it and tls_ca_directory the system's own are trusted */
    const char *tls_ca_directory;
    const char *tls_certificate_file; /* PEM; with tls_key_file: the client's own */
    const char *tls_key_file;
    const char *tls_server_name;      /* the name a certificate must carry and SNI asks for: the host */
    redlock_allocator allocator;      /* malloc(3) */
    uint32_t renewal_percent;         /* held locks are renewed after so much of their ttl: 33; 10 to 80; 0: never */
    uint32_t guard;                   /* 1: nodes that may have forgotten locks grant none for max_ttl_ms; 0: trust them */
    uint32_t max_ttl_ms;              /* the longest ttl anybody in the deployment uses: 30000; the same in all clients */
    const char *deployment;           /* a name for the nodes together, without spaces: "default" */
    const char *marker_key;           /* the guard's key on each node: "redlock:marker" */
    const char *channel_prefix;       /* of the channels on which waiters are called: "redlock:" */
    uint32_t fence_ttl_ms;            /* how long nodes remember a resource's last fencing token: 86400000, a day; 0: for ever.
                                         The same in all clients */
} redlock_options;
/* clang-format on */

/* clang-format off */
#define REDLOCK_OPTIONS_INIT                                                                                           \
    { sizeof(redlock_options), 10000, 1, 50, 1000, 2000, 2000, 10000, 8192, 8192, 65536, 0, 0, "", "redlock", NULL,    \
      NULL, NULL, NULL, NULL, NULL, REDLOCK_LOG_INFO, 0, NULL, NULL, NULL, NULL, NULL, { NULL, NULL, NULL, NULL }, 33, \
      1, 30000, "default", "redlock:marker", "redlock:", 86400000 }
/* clang-format on */

/* A resource's name. size 0: a C string; else it may hold any byte. */
typedef struct redlock_name {
    const char *bytes;
    size_t size;
} redlock_name;

/* Which acquires re-enter a lock that is held: see redlock_hold_count(). */
enum redlock_reentry {
    /* Those of options.owner, if given; otherwise those of the calling thread; in the asynchronous API none. */
    REDLOCK_REENTRY_DEFAULT = 0,
    /* Those of options.owner, which must not be NULL. For callers that compute it: 0 is then an error, not the thread. */
    REDLOCK_REENTRY_OWNER = 1,
    /* None: a second acquire waits like any other client's. For tasks that share a thread, as coroutines do. */
    REDLOCK_REENTRY_NEVER = 2
};

/* clang-format off */
/* How to acquire. Start from REDLOCK_ACQUIRE_OPTIONS_INIT, or pass NULL: try once, all else as the client's options
 * say. */
typedef struct redlock_acquire_options {
    size_t struct_size;               /* set by REDLOCK_ACQUIRE_OPTIONS_INIT */
    int64_t wait_ms;                  /* 0: try once; REDLOCK_FOREVER; else keep trying for so long */
    uint32_t ttl_ms;                  /* 0: the client's */
    uint32_t minimum_validity_ms;     /* 0: the client's */
    size_t resource_size;             /* bytes of the resource, which may then hold any byte; 0: it is a C string */
    redlock_cancellation *cancellation; /* ends the attempt early; this client's own; must outlive the operation */
    uint32_t no_renewal;              /* 1: not renewed, ends with its ttl */
    uint32_t cap_ms;                  /* not renewed beyond so long after it was acquired: at least the ttl; 0: no cap */
    uint32_t notify_before_ms;        /* REDLOCK_EVENT_ENDING comes so long before the end of validity; 0: not at all */
    redlock_event_callback event;     /* none */
    void *event_arg;
    uint32_t fair;                    /* 1: strictly first come, first served, among all clients that ask for it;
                                         with wait_ms 0 a free lock that others wait for is REDLOCK_HELD. A killed
                                         client at the head of the queue holds up the others for 1 to 1.3 s after the release */
    uint32_t keep_waiting;            /* 1: wait on though so many nodes refuse for good that only their repair can help */
    const void *owner;                /* the lock's owner: see redlock_hold_count(). Only compared, never dereferenced.
                                         NULL: the calling thread's; in the asynchronous API it has none */
    uint32_t all_answers;             /* 1: success is told when every node has answered or had its timeout (connect_timeout_ms
                                         while it is being connected): for who hands the token to another process, whose
                                         release could be overtaken else */
    const redlock_name *also;         /* further resources: the lock is on all of them or on none. Their order does not */
    size_t also_count;                /* matter, and what is named twice counts once; REDLOCK_RESOURCES_MAX in all */
    uint32_t permits;                 /* the resource is a semaphore that so many may have at once, the same number for all; each
                                         acquire takes one. 0: it is a lock. Without shared, fence and also. A semaphore
                                         and a lock of the same name do not exclude each other */
    uint32_t shared;                  /* 1: with others that ask for it so (readers), but not with those who do not (writers). No
                                         way leads from shared to exclusive but releasing it */
    uint32_t fence;                   /* 1: with a fencing token: see redlock_lock_fence(). Not for redlock_adopt() */
    uint32_t reentry;                 /* which acquires re-enter the lock: enum redlock_reentry */
} redlock_acquire_options;
/* clang-format on */

/* clang-format off */
#define REDLOCK_ACQUIRE_OPTIONS_INIT                                                                                   \
    { sizeof(redlock_acquire_options), 0, 0, 0, 0, NULL, 0, 0, 0, NULL, NULL, 0, 0, NULL, 0, NULL, 0, 0, 0, 0, 0 }
/* clang-format on */

#ifndef __cplusplus
/* Acquire options that wait for up to so many milliseconds and are the defaults else. Lives until the end of the
 * enclosing block. */
#define REDLOCK_WAIT_MS(milliseconds)                                                                                  \
    (&(const redlock_acquire_options){.struct_size = sizeof(redlock_acquire_options), .wait_ms = (milliseconds)})
#endif

/*
 * The nodes of a client, both faces. 1 to 32, separated by commas (spaces around them are ignored), each one of
 *     host   host:port   [::1]:6379   /path/to/socket
 *     redis://[[user]:password@]host[:port][/database][?timeout_ms=50&connect_timeout_ms=1000]
 *     rediss://...      the same over TLS, where the library was built with it
 *     unix://[[user]:password@]/path/to/socket[?database=3&timeout_ms=50]
 * User and password may be percent-encoded; a user that needs no password (nopass) takes any. A host name is resolved
 * off the loop, anew at each connect unless that is still under way. The same address twice is an error. Every client
 * of a deployment must name the same nodes: the majority is counted over this list.
 */

/* ------------------------------------------------------------------------------------------------------ blocking face */

/*
 * Makes a client with its own loop thread, which blocks all signals. Does not wait for the nodes: see redlock_ready().
 * nodes: see above. options: NULL for the defaults. *client: closed by redlock_close(). result: NULL, or told in words
 * what is wrong. Returns REDLOCK_OK, _INVALID (a bad node list or option), _NO_MEMORY, _SYSTEM. Any thread.
 */
REDLOCK_API int redlock_connect(const char *nodes, const redlock_options *options, redlock_client **client,
                                redlock_result *result);

/*
 * Waits until a majority of the nodes can be asked, for up to wait_ms (0: only looks; REDLOCK_FOREVER). Not needed
 * before an acquire, which waits for connections by itself. result: NULL, or per node GRANTED (usable) or why not.
 * Returns REDLOCK_OK, _NO_QUORUM, _MISCONFIGURED, _TIMED_OUT, _CANCELLED, _INVALID, _NO_MEMORY. Any thread.
 */
REDLOCK_API int redlock_ready(redlock_client *client, int64_t wait_ms, redlock_result *result);

/*
 * Acquires the lock on a resource. resource: 1 to REDLOCK_RESOURCE_MAX bytes. options: NULL to try once. *lock: the
 * handle, or NULL unless REDLOCK_OK. result: NULL, or filled. Returns REDLOCK_OK, _HELD, _NO_QUORUM, _MISCONFIGURED,
 * _TOO_SLOW, _TIMED_OUT, _CANCELLED, _INVALID, _NO_MEMORY, _SYSTEM, _CLOCK; nothing is left on any node that can be
 * reached unless REDLOCK_OK. Any thread.
 */
REDLOCK_API int redlock_acquire(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                                redlock_lock **lock, redlock_result *result);

/*
 * Takes over a lock that another handle, in this process or another, was granted: by its token. An extension over all
 * nodes; when a majority still holds the token the lock is this handle's, too, valid for its ttl from now (never
 * shortened on the nodes), renewed and watched like any other, and whoever releases first ends it for all. options: as
 * in acquire, but it is tried once: wait_ms, fair and keep_waiting are of no use. token: what redlock_lock_token() or
 * redlock_query() showed, also of another library's lock. *lock: the handle, or NULL unless REDLOCK_OK. result: NULL, or filled. Returns REDLOCK_OK, _LOST (a majority
 * does not have it: what is left of it is deleted), _NO_QUORUM, _MISCONFIGURED, _TOO_SLOW (it is on the nodes, with
 * less validity than asked for), _CANCELLED, _INVALID (also: this client has a handle of it), _NO_MEMORY, _SYSTEM. Any
 * thread.
 */
REDLOCK_API int redlock_adopt(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                              const char *token, redlock_lock **lock, redlock_result *result);

/*
 * Releases a lock by its token, without a handle (size 0: a C string). Waits until every node has answered or had its
 * timeout; nodes that did not get the message get it as soon as they can be reached, as long as the client lives.
 * result: NULL, or filled. Returns REDLOCK_OK (a majority deleted it), _LOST (a majority did not have it), _NO_QUORUM,
 * _MISCONFIGURED (not confirmed by a majority; it may last until its ttl), _CANCELLED, _INVALID (also: this client has
 * a handle of it), _NO_MEMORY, _SYSTEM. With the token that redlock_query() shows, of any library, it breaks another's lock: others may
 * have it at once; its holder is told at the next renewal, or at the end of its validity. Any thread.
 */
REDLOCK_API int redlock_release_token(redlock_client *client, const char *resource, size_t size, const char *token,
                                      redlock_result *result);

/*
 * Gives the lock at least ttl_ms (0: the ttl it was acquired with) from now on, on a majority that still holds it.
 * Never shortens: the later of the old end and the new one counts. When it fails, but for _LOST, the lock stays valid
 * until its old end. result: NULL, or filled. Returns REDLOCK_OK, _LOST, _NO_QUORUM, _MISCONFIGURED, _TOO_SLOW,
 * _CANCELLED, _INVALID, _NO_MEMORY. Any thread, not while another releases this lock.
 */
REDLOCK_API int redlock_extend(redlock_lock *lock, uint32_t ttl_ms, redlock_result *result);

/*
 * Releases the lock and frees the handle, whatever the status; *lock becomes NULL. Waits for a majority's answer; nodes
 * that did not get the message get it as soon as they can be reached. A majority that is late is waited for until it has
 * been silent for silence_limit_ms, and for the lock's ttl at most. result: NULL, or filled. Returns REDLOCK_OK (a
 * majority deleted it), _LOST (it was no longer held: it had expired or was gone on a majority), _NO_QUORUM,
 * _MISCONFIGURED (not confirmed by a majority; it may last until its ttl), _CANCELLED (the client is being closed,
 * which releases it), _INVALID (NULL, or *lock is NULL: released already), _NO_MEMORY (released all the same, not
 * confirmed). Any thread.
 */
REDLOCK_API int redlock_release(redlock_lock **lock, redlock_result *result);

/* ----------------------------------------------------------------------------------------------------- asynchronous face */

/* lock: NULL unless result->status is REDLOCK_OK. result: lives for the call. */
typedef void (*redlock_acquire_callback)(redlock_client *client, redlock_lock *lock, const redlock_result *result,
                                         void *arg);

/* result: lives for the call. */
typedef void (*redlock_callback)(redlock_client *client, const redlock_result *result, void *arg);

/*
 * Makes a client on the caller's loop, which must outlive it. Like redlock_connect() else. The client keeps the loop
 * alive (ev_run does not return) until it is closed. In a child that goes on using the loop, ev_loop_fork() is the
 * caller's to call, as ever. The thread that attaches is the one that runs the loop: calls from another answer
 * REDLOCK_INVALID. Callbacks come right before the loop sleeps: who runs it one event at a time (EVRUN_ONCE) and waits
 * for one, lets the callback call ev_break().
 */
REDLOCK_API int redlock_attach(struct ev_loop *loop, const char *nodes, const redlock_options *options,
                               redlock_client **client, redlock_result *result);

/*
 * As their blocking namesakes. Returned at once: REDLOCK_OK, the callback will come and has the status; or _INVALID
 * (NULL, wrong thread or process, closing client), _NO_MEMORY: no callback will come. A bad argument is told by the
 * callback, in words. arg is passed through.
 */
REDLOCK_API int redlock_ready_async(redlock_client *client, int64_t wait_ms, redlock_callback callback, void *arg);
REDLOCK_API int redlock_acquire_async(redlock_client *client, const char *resource,
                                      const redlock_acquire_options *options, redlock_acquire_callback callback,
                                      void *arg);
REDLOCK_API int redlock_adopt_async(redlock_client *client, const char *resource,
                                    const redlock_acquire_options *options, const char *token,
                                    redlock_acquire_callback callback, void *arg);
REDLOCK_API int redlock_release_token_async(redlock_client *client, const char *resource, size_t size,
                                            const char *token, redlock_callback callback, void *arg);
REDLOCK_API int redlock_extend_async(redlock_lock *lock, uint32_t ttl_ms, redlock_callback callback, void *arg);

/* The handle is gone (*lock is NULL) when the call returns REDLOCK_OK or REDLOCK_NO_MEMORY. callback may be NULL. */
REDLOCK_API int redlock_release_async(redlock_lock **lock, redlock_callback callback, void *arg);

/* ------------------------------------------------------------------------------------------------------------ both faces */

/*
 * How long the lock is still valid, by this machine's clock (CLOCK_BOOTTIME), rounded down: 0 in its last millisecond,
 * and when it is lost. Any thread.
 */
REDLOCK_API int64_t redlock_validity_ms(const redlock_lock *lock);

/*
 * The end of validity, in nanoseconds of this machine's CLOCK_BOOTTIME (CLOCK_MONOTONIC on systems without it): compare
 * it with clock_gettime(). 0 when the lock is lost. A renewal moves it on. Any thread with both APIs, as redlock_validity_ms()
 * and redlock_lock_loss() are, while no other releases the handle: a worker asks for the end, the owner renews.
 */
REDLOCK_API int64_t redlock_valid_until_ns(const redlock_lock *lock);

/* The resource's bytes, NUL-terminated, and their number (size may be NULL); of several the first in the order of
 * bytes. Lives as long as the handle. */
REDLOCK_API const char *redlock_lock_resource(const redlock_lock *lock, size_t *size);

/* How many resources the lock is on, and each of them, in the order of their bytes; "" for an index beyond. As above. */
REDLOCK_API uint32_t redlock_lock_resources(const redlock_lock *lock);
REDLOCK_API const char *redlock_lock_resource_at(const redlock_lock *lock, uint32_t index, size_t *size);

/* The text of the value under the key on the nodes: 40 hexadecimal digits, drawn anew for each attempt; of a lock that
 * was adopted the adopted token. Lives as long as the handle. */
REDLOCK_API const char *redlock_lock_token(const redlock_lock *lock);

/*
 * The lock's fencing token, a number below 2^53; 0 when it was acquired without `fence`. Tokens of one resource are
 * never equal, and grow with each acquisition that asks for one: whoever acquired later has the larger. Hand it to what
 * the lock protects, and let that refuse smaller ones than it has seen: then a holder that was paused beyond its
 * validity does no harm. Renewal, extension and re-entry leave it as it is. Of a shared lock, with or without `fence`:
 * the token of the last exclusive holder, or a larger one; 0 when none is known. Readers do not get one of their own.
 * Any thread.
 */
REDLOCK_API uint64_t redlock_lock_fence(const redlock_lock *lock);

/* 1 when this client holds a valid lock on the resource, or a valid permit of it (size 0: a C string), else 0. Asks no
 * node. Any thread in the blocking face. */
REDLOCK_API int redlock_held_by_me(redlock_client *client, const char *resource, size_t size);

/* Why the lock was lost: enum redlock_loss. Any thread. */
REDLOCK_API int redlock_lock_loss(const redlock_lock *lock);

/*
 * What the last renewal came to, node by node, if it failed: status is not REDLOCK_OK, and each node that did not extend
 * the lock has a text. REDLOCK_OK after one that was won, and before the first. Asks no node; meant for the event
 * REDLOCK_EVENT_RENEWAL_FAILING. Returns REDLOCK_OK, _INVALID. Any thread in the blocking API, and in callbacks.
 */
REDLOCK_API int redlock_renewal_result(redlock_lock *lock, redlock_result *result);

/*
 * Re-entrancy. An owner that acquires a lock it has gets another handle of the same lock, without a round trip as long
 * as the asked minimum of validity is left (else the lock is extended first, as it is when a longer ttl is asked for).
 * Each release ends one handle, the last one frees the lock. Once the lock is lost, acquiring it again answers
 * REDLOCK_LOST until all its handles have been released.
 *
 * The owner is options.owner, or else the thread that called redlock_acquire(); in the asynchronous API a lock without
 * options.owner has none. A handle may be passed to another thread, which may query, extend and release it; the
 * lock still belongs to the thread that acquired it, and no later thread is taken for that one. Tasks that share a
 * thread must each give an owner, or use REDLOCK_REENTRY_NEVER.
 *
 * A lock that an owner can never be granted, because it holds a part of it or is a reader of it, is REDLOCK_INVALID and
 * not waited for. How many handles there are:
 */
REDLOCK_API uint32_t redlock_hold_count(const redlock_lock *lock);

/*
 * A descriptor that becomes, and stays, readable when the lock is lost: for poll(2). It belongs to the lock: do not
 * read or close it; it is gone with the last handle. Returns REDLOCK_OK, _INVALID, _SYSTEM (none: errno says why). Any thread
 * in the blocking face.
 */
REDLOCK_API int redlock_lost_descriptor(redlock_lock *lock, int *descriptor);

/*
 * Blocking face: waits until the lock is lost, for up to wait_ms (REDLOCK_FOREVER). loss: NULL, or why.
 * Returns REDLOCK_LOST, _TIMED_OUT, _CANCELLED (released by another thread, or the client is closed), _INVALID,
 * _NO_MEMORY. Any thread.
 */
REDLOCK_API int redlock_wait_lost(redlock_lock *lock, int64_t wait_ms, int *loss);

/* ------------------------------------------------------------------------------------------------------- the nodes */

/* What is remarkable about a node: bits. The first four and the last two make it unfit: its votes do not count. */
enum redlock_finding {
    REDLOCK_FINDING_REPLICA = 1,          /* not a master */
    REDLOCK_FINDING_SAME_SERVER = 2,      /* listed twice under different names */
    REDLOCK_FINDING_OTHER_DEPLOYMENT = 4, /* its marker is of another deployment, or of another N */
    REDLOCK_FINDING_NOT_PERMITTED = 8,    /* the user may not do what the guard needs */
    REDLOCK_FINDING_EVICTING = 16,        /* its maxmemory-policy may evict locks */
    REDLOCK_FINDING_NOT_PERSISTENT = 32,  /* it forgets in a restart, and the guard is off */
    REDLOCK_FINDING_OTHER_MAX_TTL = 64,   /* clients of the deployment differ in max_ttl_ms; the larger counts */
    REDLOCK_FINDING_NO_PUBLISH = 128,     /* the user may not call waiters: they find a free lock only by looking */
    REDLOCK_FINDING_NO_SUBSCRIBE = 256,   /* the user may not be called: it finds a free lock only by looking */
    REDLOCK_FINDING_MARKER_TAKEN = 512,   /* unfit: the marker key holds what is no marker, or a newer version's */
    REDLOCK_FINDING_TOO_OLD = 1024        /* unfit: older than Redis 5.0 */
};

/* "replica", ... and a sentence with the remedy, for one bit. Static; never NULL. Any thread. */
REDLOCK_API const char *redlock_finding_name(uint32_t finding);
REDLOCK_API const char *redlock_finding_text(uint32_t finding);

typedef struct redlock_node_status {
    const char *name;          /* lives as long as the client */
    uint32_t usable;           /* 1: it is asked for new locks */
    uint32_t findings;         /* bits of enum redlock_finding */
    int64_t quarantine_ms;     /* until it may grant again; 0: it may */
    uint32_t round_trip_us;    /* of the last heartbeat; 0: none yet */
    uint32_t requests_pending; /* sent and not answered */
    uint32_t undos_pending;    /* kept until it can be reached */
    uint32_t clock_known;      /* 1: the next two are */
    int64_t clock_low_us;      /* the node's wall clock is ahead of ours by no less than this ... */
    int64_t clock_high_us;     /* ... and no more than this */
    char state[24];            /* "ready", "connecting", ... */
    char role[16];             /* "master", "slave"; "" unknown */
    char version[24];          /* of the server: "7.0.15"; "" unknown */
    char run_id[48];
    char error[96];            /* why it is not connected, or was not last time; "" */
    char objection[96];        /* why it is not asked though it is ready; "" */
    char maxmemory_policy[24]; /* "" unknown */
    int32_t append_only;       /* 1: it keeps an append-only file, 0: none, -1: unknown */
    uint32_t marker_nodes;     /* of its marker: the N it was written for; 0: no guard, or not read yet */
    uint32_t marker_max_ttl_ms;
    char marker_why[12];        /* "new", "restarted", "copied", "evicted", "replaced", "jumped", "trusted" */
    char marker_deployment[72]; /* whose it is */
    int32_t snapshots;          /* after redlock_inspect(): 1: it saves by itself, 0: it does not, -1: unknown */
    char append_fsync[12];      /* after redlock_inspect(): "always", "everysec", "no"; "" unknown */
    char lacking[512];          /* after redlock_inspect(): ACL rules that the user lacks, "+pexpire ~jobs/daily" */
    char user[128];  /* whom the library logs in as, as in the last handshake: "default" without a name; cut */
    char server[16]; /* "redis", "valkey"; "" unknown */
    uint64_t reserved[8];
} redlock_node_status;

/* How many nodes the client has. Any thread in the blocking face. */
REDLOCK_API uint32_t redlock_nodes(const redlock_client *client);

/* What is known of a node, from 0 to redlock_nodes() - 1. Asks nobody. Returns REDLOCK_OK, _INVALID. Any thread in the
 * blocking face. */
REDLOCK_API int redlock_node_status_get(redlock_client *client, uint32_t node, redlock_node_status *status);

/*
 * Ends the quarantine of all nodes that can be reached. Whoever calls this vouches that no lock is held anywhere that a
 * node may have forgotten: for a new deployment, or after all clients have been stopped for max_ttl_ms. Nodes of
 * another deployment, or of another number of nodes, become this client's: so the list or the name is changed; clients
 * of the old one have no vote on them from then on. Waits for every node's answer or timeout. Returns REDLOCK_OK (a
 * majority), _NO_QUORUM, _MISCONFIGURED, _CANCELLED, _INVALID (the guard is off), _NO_MEMORY.
 */
REDLOCK_API int redlock_trust(redlock_client *client, redlock_result *result);
REDLOCK_API int redlock_trust_async(redlock_client *client, redlock_callback callback, void *arg);

/*
 * Tries out, on all nodes and without any effect, every command that the library uses, on the keys of this resource
 * (size 0: a C string), and reads what is read only on demand: see redlock_node_status. Waits for every node's answers
 * or timeout; who may not run CONFIG GET learns less. For diagnosis: a server logs each refusal in its ACL LOG. result:
 * NULL, or per node GRANTED, or REFUSED with what is lacking. Returns REDLOCK_OK (on a majority nothing is lacking),
 * _NO_QUORUM, _MISCONFIGURED, _CANCELLED, _INVALID, _NO_MEMORY.
 */
REDLOCK_API int redlock_inspect(redlock_client *client, const char *resource, size_t size, redlock_result *result);
REDLOCK_API int redlock_inspect_async(redlock_client *client, const char *resource, size_t size,
                                      redlock_callback callback, void *arg);

/* ------------------------------------------------------------------------------------------------------- statistics */

#define REDLOCK_STATUSES          12  /* REDLOCK_OK to REDLOCK_CLOCK */
#define REDLOCK_HISTOGRAM_BUCKETS 128 /* four to each power of two of microseconds; the last is open */

/* Durations, log-linear. */
typedef struct redlock_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t bucket[REDLOCK_HISTOGRAM_BUCKETS];
} redlock_histogram;

/* The largest duration a bucket counts; UINT64_MAX for the last. */
REDLOCK_API uint64_t redlock_histogram_bound_us(uint32_t bucket);

/* The duration that so large a part (0 to 1) does not exceed: the bound of its bucket. 0 for an empty histogram. */
REDLOCK_API uint64_t redlock_histogram_quantile_us(const redlock_histogram *histogram, double quantile);

/* What a client has counted since it was made. */
typedef struct redlock_statistics {
    uint64_t acquires[REDLOCK_STATUSES]; /* operations by how they ended: [-status] */
    uint64_t losses[5];                  /* locks lost: [enum redlock_loss] */
    uint64_t attempts;                   /* rounds that acquires needed */
    uint64_t hand_offs;                  /* locks taken from a queue, after others had them */
    uint64_t reentered;
    uint64_t released; /* confirmed by a majority */
    uint64_t renewed;
    uint64_t renewals_failed;
    uint64_t healed;      /* keys set again on a node that had lost them, or found to be there again */
    uint64_t late_grants; /* grants that came after their attempt was lost; they are undone */
    uint64_t unattested;  /* grants that did not count, because the node's marker had changed */
    uint64_t undos_dropped;
    uint64_t quarantines; /* nodes found to have forgotten */
    uint64_t node_clock_jumps;
    uint32_t locks_held;               /* now */
    uint32_t operations_pending;       /* now */
    redlock_histogram acquire_latency; /* of those that got the lock */
    uint64_t reserved[8];
} redlock_statistics;

/* A snapshot. Returns REDLOCK_OK, _INVALID. Any thread in the blocking face. */
REDLOCK_API int redlock_statistics_get(redlock_client *client, redlock_statistics *statistics);

/*
 * The same, and what is counted per node, as text in the Prometheus exposition format. *needed (may be NULL): the bytes
 * it takes with its final NUL. Returns REDLOCK_OK; _INVALID also when size is too small, the text is cut then. Any
 * thread in the blocking face.
 */
REDLOCK_API int redlock_metrics(redlock_client *client, char *text, size_t size, size_t *needed);

/* ---------------------------------------------------------------------------------------------------- what they show */

/*
 * What the nodes show for a resource. A token's text is its bytes as redlock_escape() writes them, with spaces escaped too;
 * redlock_release_token() and redlock_adopt() take it back. In parentheses it is a remark: (empty), which they also take,
 * (shared) for readers, (300 bytes) for a value above REDLOCK_TOKEN_MAX, (not a string) for a key that is no lock.
 */
typedef struct redlock_node_state {
    int64_t remaining_ms; /* time the node's key has left; 0: no key; -1: no answer; REDLOCK_STATE_NO_EXPIRY */
    char token[REDLOCK_TOKEN_TEXT_SIZE]; /* the text of the key's value; "" without a key */
    int32_t waiters; /* clients that wait for the resource in the node's queue; -1: no answer, not permitted */
} redlock_node_state;

#define REDLOCK_STATE_NO_EXPIRY INT64_MAX

typedef struct redlock_state {
    int32_t locked;                      /* 1: a majority shows one and the same holder */
    int32_t held_by_me;                  /* 1: and it is this client; or it has one of the permits that are taken */
    uint32_t locked_nodes;               /* nodes that show the holder that most nodes show */
    uint32_t free_nodes;                 /* nodes without a key */
    int64_t remaining_ms;                /* until fewer than a majority show the holder; 0 when not locked */
    char token[REDLOCK_TOKEN_TEXT_SIZE]; /* the holder that most nodes show, "" for none */
    uint32_t waiters;                    /* the most that any node shows */
    uint32_t permits_taken; /* of a semaphore, shown by majorities; its size no node knows: it is never locked */
    uint64_t reserved[7];
    redlock_node_state node[REDLOCK_NODES_MAX];
} redlock_state;

/* state: lives for the call; meaningful when a majority answered (REDLOCK_OK). */
typedef void (*redlock_query_callback)(redlock_client *client, const redlock_state *state, const redlock_result *result,
                                       void *arg);

/*
 * Is the resource locked, by how many nodes, for how long (size 0: a C string)? Waits for every node's answer or
 * timeout. A look, not a promise: it may change at once. Returns REDLOCK_OK (a majority answered), _NO_QUORUM,
 * _MISCONFIGURED, _CANCELLED, _INVALID, _NO_MEMORY.
 */
REDLOCK_API int redlock_query(redlock_client *client, const char *resource, size_t size, redlock_state *state,
                              redlock_result *result);
REDLOCK_API int redlock_query_async(redlock_client *client, const char *resource, size_t size,
                                    redlock_query_callback callback, void *arg);

/*
 * A cancellation is given to operations in their options. redlock_cancel() ends those under way, and those started with
 * it later, with REDLOCK_CANCELLED, and what they left on the nodes is undone; where nothing waits it does nothing. It
 * stays cancelled until redlock_cancellation_reset(), which operations that are started later go by: those under way end
 * all the same. Both may be called from any thread and from a signal handler. Create and destroy: any
 * thread in the blocking face, the loop's thread in the other. Destroy only when no operation uses it any more; before
 * or after the client is closed. *cancellation becomes NULL.
 */
REDLOCK_API int redlock_cancellation_create(redlock_client *client, redlock_cancellation **cancellation);
REDLOCK_API void redlock_cancel(redlock_cancellation *cancellation);
REDLOCK_API void redlock_cancellation_reset(redlock_cancellation *cancellation);
REDLOCK_API void redlock_cancellation_destroy(redlock_cancellation **cancellation);

/*
 * Closes a client. Operations under way end with REDLOCK_CANCELLED; locks still held are released (or left to expire:
 * leave_locks) and their handles freed; each node has its timeout to answer what it was sent, then all memory is freed.
 * *client becomes NULL at once. result: NULL, or pending_undos and per node what is unconfirmed. Returns REDLOCK_OK,
 * _NO_QUORUM (something could not be confirmed; it expires), _INVALID (NULL, or *client is NULL: closed already; a
 * blocking client's own loop thread, an asynchronous client, another thread's client). redlock_close: any thread; calls
 * of other threads on this client return first, no new one may start. redlock_close_async: callback (may be NULL) comes
 * last of all, with a NULL client. Of a loop that is not run again it is called never: destroy the loop after the
 * callback.
 */
REDLOCK_API int redlock_close(redlock_client **client, redlock_result *result);
REDLOCK_API int redlock_close_async(redlock_client **client, redlock_callback callback, void *arg);

#ifdef __cplusplus
}
#endif

#endif
