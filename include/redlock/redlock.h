/*
 * redlock.h - a distributed lock over N independent Redis masters
 *
 * The client acquires a lock when a majority of the nodes (quorum = N/2+1) grants it. The lock is valid for its ttl
 * minus the time that acquiring it took, minus an allowance for clock drift. The algorithm is Redlock (redis.io,
 * "Distributed Locks with Redis").
 *
 * Three ways to call one core:
 *   blocking      redlock_connect() creates a client with its own loop thread. Its functions block until they have a
 *                 result.
 *   descriptor    on the same client the asynchronous functions (..._async) return at once and report the result to a
 *                 callback. redlock_dispatch() runs the callbacks when redlock_descriptor() is readable: for any event
 *                 loop (libuv, libevent, GLib, Asio, epoll, ...).
 *   asynchronous  redlock_attach() creates a client on the caller's libev loop, which runs the callbacks.
 *
 * Conventions, unless a declaration says otherwise:
 *   units         the name of a number ends in its unit: _ms, _us, _ns.
 *   bytes         a string argument followed by a size may hold any byte; size 0: it is a C string. Acquire and adopt
 *                 take the resource's size in their options (resource_size), so that a call with a C string needs no
 *                 further argument; functions without options take it as an argument.
 *   ownership     the library copies its arguments before the call returns. The client owns every object that the
 *                 library returns; each declaration says how long the object lives.
 *   errors        functions return REDLOCK_OK (0) or a negative enum redlock_status; each function lists its own,
 *                 without their prefix. The redlock_result adds the details, per node and as text; it may be NULL.
 *   threads       a client of redlock_connect(): any thread, several at once; redlock_dispatch() one at a time. An
 *                 attached client: only the thread that attached it. A blocking call uses up to 64 KiB of stack.
 *   callbacks     each operation that was started calls its callback exactly once, from the loop or from
 *                 redlock_dispatch(), never from inside the call that started it. A callback may call every function;
 *                 one that redlock_dispatch() runs may not close with redlock_close() or dispatch again.
 *   deadlines     every function that waits for nodes has one, relative to the call: wait_ms, or timeout_ms in the
 *                 redlock_call_options, of which NULL is the default: none. It then returns TIMED_OUT, and CANCELLED
 *                 after redlock_cancel(). Neither takes back what nodes have executed.
 *   cancellation  pthread_cancel(3) takes effect when the blocking call has finished.
 *                 Do not cancel the thread that runs an asynchronous client's loop while it runs the loop.
 *   processes     a client belongs to the process that created it. In a forked child every call returns
 *                 REDLOCK_INVALID, except redlock_close() and redlock_close_async(), which free memory and descriptors
 *                 and send nothing. (If a thread was at work on a blocking client during the fork, or in a callback of
 *                 redlock_dispatch(), its memory and descriptors stay until exec or exit.)
 *                 An event callback on the client's own thread that forks and returns in the child ends the child: no
 *                 other thread exists there.
 *   descriptors   are close-on-exec. hiredis opens those of connections, so a program that another thread starts at that
 *                 moment may inherit one: it keeps the connection open until it ends.
 *   side effects  the library never prints, never exits, never changes a signal disposition, and does not abort on
 *                 anything that a server sends. Built on hiredis before 1.0 it aborts the process if an allocation
 *                 inside hiredis fails: where memory may run out, build it on hiredis 1.0 or later.
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

#define REDLOCK_VERSION_MAJOR   1
#define REDLOCK_VERSION_MINOR   0
#define REDLOCK_VERSION_PATCH   0

#define REDLOCK_NODES_MAX       32   /* nodes of one client */
#define REDLOCK_RESOURCE_MAX    512  /* bytes of a resource's name */
#define REDLOCK_RESOURCES_MAX   64   /* resources of one lock */
#define REDLOCK_PERMITS_MAX     32   /* permits of a semaphore */
#define REDLOCK_TOKEN_SIZE      120  /* bytes of the text of this library's tokens, with the final NUL */
#define REDLOCK_LABEL_SIZE      64   /* bytes of a client's label, with the final NUL */
#define REDLOCK_TOKEN_MAX       128  /* bytes of another library's token that can be displayed and passed in */
#define REDLOCK_TOKEN_TEXT_SIZE 513  /* bytes of any token's text, with the final NUL */
#define REDLOCK_FOREVER         (-1) /* as a wait_ms: no limit */

/* The struct_size of an initialised struct. Only the ..._INIT macros and ..._init() functions set it: the library refuses
 * a struct without it, because a designated initialiser sets every field that it does not name to 0, also those whose
 * default is another value. */
#define REDLOCK_STRUCT_SIZE(type) (sizeof(type) | 0x52440000u)

struct ev_loop; /* declared by libev */

/* A set of nodes and the connections to them. Lives until redlock_close(). */
typedef struct redlock_client redlock_client;

/* A handle: one successful acquire. Lives until it is released or its client is closed. */
typedef struct redlock_lock redlock_lock;

/* Ends operations in progress: see redlock_cancel(). */
typedef struct redlock_cancellation redlock_cancellation;

/* ----------------------------------------------------------------------------------------------------------- status */

enum redlock_status {
    REDLOCK_OK = 0,
    REDLOCK_HELD = -1,          /* others hold the lock, or part of it: a majority cannot be reached */
    REDLOCK_NO_QUORUM = -2,     /* too many nodes are down, silent or refusing: a majority cannot be reached */
    REDLOCK_MISCONFIGURED = -3, /* the same, and waiting does not help: wrong password, missing permission, replica */
    REDLOCK_TOO_SLOW = -4,      /* a majority granted the lock, but with less than minimum_validity_ms left; or, during
                                   the attempt, this client's clock stopped or it learned of a larger max_ttl */
    REDLOCK_TIMED_OUT = -5,     /* wait_ms passed; the result's cause is the status of the last attempt */
    REDLOCK_CANCELLED = -6,     /* ended by redlock_cancel() or by closing the client */
    REDLOCK_LOST = -7,          /* the lock is no longer held: it expired, or a majority no longer has its key */
    REDLOCK_INVALID = -8,       /* a bad argument, or the wrong thread, process or state of the client for this call */
    REDLOCK_NO_MEMORY = -9,     /* the allocator returned NULL; nothing was done, unless the function says otherwise */
    REDLOCK_SYSTEM = -10,       /* the system refused a thread, a descriptor or random bytes; nothing was done */
    REDLOCK_CLOCK = -11 /* no fencing token: this machine's clock and the nodes' clocks differ by more than a day */
};

/* One node's part of a round. */
enum redlock_outcome {
    REDLOCK_NODE_PENDING = 0,     /* had not replied when the round was decided */
    REDLOCK_NODE_GRANTED = 1,     /* set, extended or deleted the key, as requested */
    REDLOCK_NODE_HELD = 2,        /* another holder's key is there */
    REDLOCK_NODE_ABSENT = 3,      /* extend, release: the node does not have our key */
    REDLOCK_NODE_REFUSED = 4,     /* replied with an error (LOADING, READONLY, OOM, NOPERM ...): see text */
    REDLOCK_NODE_UNREACHABLE = 5, /* not connected, or the connection broke */
    REDLOCK_NODE_TIMED_OUT = 6,   /* no reply within the node's timeout */
    REDLOCK_NODE_UNATTESTED = 7   /* acquire: granted, but the node's marker changed: the node may have lost locks */
};

/* "REDLOCK_OK", "REDLOCK_HELD", ... Static; never NULL. Any thread. */
REDLOCK_API const char *redlock_status_name(int status);

/* The status as a sentence. Static; never NULL. Any thread. */
REDLOCK_API const char *redlock_status_text(int status);

/*
 * The status as an errno value, for programs that report errors so: 0, EBUSY (HELD), EHOSTUNREACH (NO_QUORUM), EACCES
 * (MISCONFIGURED), ETIME (TOO_SLOW), ETIMEDOUT, ECANCELED, ESTALE (LOST), EINVAL, ENOMEM, EAGAIN (SYSTEM), ERANGE
 * (CLOCK); EINVAL for a number that is no status. Any thread.
 */
REDLOCK_API int redlock_status_errno(int status);

/* "granted", "held", ... Static; never NULL. Any thread. */
REDLOCK_API const char *redlock_outcome_name(int outcome);

/*
 * Converts bytes to text, in the form that the library, its log and redlock(1) use, and back without loss. A byte that
 * is part of a control character, or not part of valid UTF-8, becomes \xNN; so does a backslash that would otherwise
 * begin such a sequence. Both functions write as much as fits (whole sequences; the text always gets its final NUL) and
 * return how many bytes the complete output takes. Any thread.
 */
REDLOCK_API size_t redlock_escape(const char *bytes, size_t size, char *text, size_t text_size);
REDLOCK_API size_t redlock_unescape(const char *text, char *bytes, size_t size);

/* The library's version, "1.0.0". Static. Any thread. */
REDLOCK_API const char *redlock_version(void);

/*
 * A holder, as its token describes it. This library's tokens are 40 random hexadecimal digits; then, unless its
 * client's label is "", a slash, the wall clock of its machine at the acquire in seconds since 1970, a slash, and the
 * label. Label and time are information for people: no decision depends on them, and every user with write access can
 * forge them.
 */
typedef struct redlock_holder {
    int64_t since_s;                /* the time of the acquire, in seconds since 1970; 0: unknown */
    char label[REDLOCK_LABEL_SIZE]; /* printable ASCII without spaces; "": unknown, as of another library's token */
    char token[REDLOCK_TOKEN_TEXT_SIZE]; /* as redlock_query() shows it; "": there is no holder, or it is unknown */
} redlock_holder;

/* Reads a token's text, as redlock_query() and redlock_lock_token() return it. NULL is "". Any thread. */
REDLOCK_API void redlock_holder_read(const char *token, redlock_holder *holder);

/* ----------------------------------------------------------------------------------------------------------- result */

typedef struct redlock_node_result {
    const char *name;    /* "10.0.0.4:6379", never with a password; lives as long as the client; of a close "" */
    int32_t outcome;     /* enum redlock_outcome */
    uint32_t latency_us; /* from sending the request to receiving its reply; 0 without a reply */
    char text[96];       /* the node's error, or why no request was sent; "" if outcome says it all */
} redlock_node_result;

/* The result of an operation, filled on success and on failure. Plain data: copy it freely. */
typedef struct redlock_result {
    int32_t status;   /* enum redlock_status: the function's return value */
    int32_t cause;    /* TIMED_OUT, CANCELLED: the status of the last attempt that finished; otherwise status */
    uint32_t nodes;   /* N: the number of entries used in node[] */
    uint32_t quorum;  /* N/2+1 */
    uint32_t granted; /* the last attempt's votes by class; a pending node is in none of them */
    uint32_t held;
    uint32_t absent;
    uint32_t refused;
    uint32_t unreachable;
    uint32_t timed_out;
    uint32_t unattested;
    uint32_t attempts;      /* rounds over the nodes */
    uint32_t pending_undos; /* close: undos that no node confirmed, summed over the nodes */
    uint32_t kept_releases; /* release: nodes that get it when they are connected again, while the client is open */
    int64_t validity_ms;    /* validity left when the operation was decided; 0 if the lock is not held */
    uint64_t elapsed_us;    /* from the start of the operation to its decision */
    uint64_t fence;         /* successful acquire: as redlock_lock_fence(); otherwise 0 */
    /* Release of a lock with at_least_ms: for how long the nodes keep it. Acquire that waited, and whose cause is HELD:
     * until the lock expires, unless its holder extends it. 0: unknown, or none. */
    int64_t remaining_ms;
    /* Acquire whose cause is HELD: the holder that most of the refusing nodes name. Servers before Redis 7.0 name it only
     * to an acquire that waits, or that is not of one plain lock. */
    redlock_holder holder;
    uint64_t reserved[6];
    redlock_node_result node[REDLOCK_NODES_MAX];
    char text[768]; /* the error, with the remedy; after REDLOCK_OK: see redlock_result_text() */
} redlock_result;

/*
 * Formats the result as one log line: "held by another client: 2 granted, 3 held (10.0.0.1:6379, ...)". Writes it to
 * result->text, which already holds it unless the status is REDLOCK_OK, and returns that. Never NULL. Any thread, one
 * at a time per result.
 */
REDLOCK_API const char *redlock_result_text(redlock_result *result);

/* ---------------------------------------------------------------------------------------------------------- options */

/* One client's memory functions: set all three or none. user is passed through. The client's loop thread calls them,
 * and in the blocking API every thread that calls the library: there they must be thread-safe. They do not serve
 * hiredis, libev, OpenSSL and the resolver. */
typedef struct redlock_allocator {
    void *(*allocate)(size_t size, void *user);                 /* NULL: no memory */
    void *(*reallocate)(void *memory, size_t size, void *user); /* NULL: no memory, and the old block stays */
    void (*release)(void *memory, void *user);                  /* memory may be NULL */
    void *user;
} redlock_allocator;

enum redlock_log_level { REDLOCK_LOG_ERROR = 0, REDLOCK_LOG_WARNING = 1, REDLOCK_LOG_INFO = 2, REDLOCK_LOG_DEBUG = 3 };

/* Logs one line, which has no newline and no secrets and lives for the call. Must not call the library. Runs on the
 * client's loop thread, or on a thread in a blocking call. */
typedef void (*redlock_log_callback)(int level, const char *line, void *arg);

/*
 * Supplies the credentials for one node. The loop calls it at each connect, so credentials can be rotated. It writes
 * NUL-terminated strings to two buffers of the given size (user may stay "") and returns 0. Any other return value
 * means that there are no credentials now: the library tries the node again later. It must not block and must not call
 * the library. The library wipes the buffers after use.
 */
typedef int (*redlock_credentials_callback)(const char *node, char *user, char *password, size_t size, void *arg);

/* Events of a held lock. */
enum redlock_event {
    REDLOCK_EVENT_RENEWAL_FAILING = 1, /* a renewal failed, the first in a row: see redlock_renewal_result() */
    REDLOCK_EVENT_ENDING = 2,          /* no more than notify_before_ms of validity are left */
    REDLOCK_EVENT_LOST = 3             /* the lock is no longer held: its last event, sent once */
};

/* Why a lock was lost. */
enum redlock_loss {
    REDLOCK_NOT_LOST = 0,
    REDLOCK_LOSS_EXPIRED = 1, /* its validity ended before a renewal succeeded */
    REDLOCK_LOSS_GONE = 2,    /* a majority of the nodes no longer has the key */
    REDLOCK_LOSS_CLOCK = 3,   /* this machine's clock stopped (suspend): the lock may have expired on the nodes */
    REDLOCK_LOSS_CLOSED = 4   /* the client was closed */
};

/*
 * Reports an event (enum redlock_event) of a lock, with the loss (enum redlock_loss) and the validity left. The loss of
 * a lock is reported within 10 ms of the end of validity, independent of the nodes.
 * A lock of redlock_acquire_async() or redlock_adopt_async(): runs on the caller's loop or in redlock_dispatch(), and
 * never before the callback of the acquire. It may release the handle.
 * A lock of redlock_acquire() or redlock_adopt(): runs on the client's own thread, where functions that wait for nodes
 * return REDLOCK_INVALID; functions that send no request work. It must not wait for a mutex that another thread holds
 * during a blocking call: that call waits for it.
 */
typedef void (*redlock_event_callback)(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg);

/* clang-format off */
/* A client's settings, with their defaults. Start from REDLOCK_OPTIONS_INIT or redlock_options_init(), then set single
 * fields: later versions may append some. */
typedef struct redlock_options {
    size_t struct_size;               /* set by the initialisation */
    uint32_t ttl_ms;                  /* 10000: default ttl of a lock */
    uint32_t minimum_validity_ms;     /* 1: default of the validity that an acquired lock must have left */
    uint32_t node_timeout_ms;         /* 50: lower bound of a node's reply timeout; in a URI: ?timeout_ms=. The timeout
                                         follows the measured round trip (smoothed + 4 * mean deviation) up to
                                         silence_limit_ms or a quarter of ttl_ms. It starts when the node has replied to
                                         the request before */
    uint32_t connect_timeout_ms;      /* 1000: connect and handshake; in a URI: ?connect_timeout_ms= */
    uint32_t silence_limit_ms;        /* 2000: reconnect to a node that owes a reply for this long */
    uint32_t backoff_max_ms;          /* 2000: longest pause between attempts to connect */
    uint32_t drift_ppm;               /* 10000 (1 %): bound on the clocks' rate error in parts per million; +2 ms */
    uint32_t pending_max;             /* 65536: unanswered requests to one node; then the node gets only renewals */
    uint32_t undos_max;               /* 8192: undos kept for a disconnected node; beyond it the oldest is dropped */
    uint32_t operations_max;          /* 65536: operations in progress; more return REDLOCK_INVALID */
    uint32_t leave_locks;             /* 0: close releases the held locks; 1: close leaves them to expire */
    uint32_t database;                /* 0: for SELECT; in a URI: /3 */
    const char *prefix;               /* "": put before every resource to form its key */
    const char *client_name;          /* "redlock": for CLIENT SETNAME, without spaces; "" for none */
    const char *user;                 /* NULL: for AUTH; in a URI: user:password@ */
    const char *password;
    redlock_credentials_callback credentials; /* called instead of using these two, except for a URI with a password */
    void *credentials_arg;
    redlock_log_callback log;         /* NULL: no log */
    void *log_arg;
    uint32_t log_level;               /* REDLOCK_LOG_INFO: the least important level to log */
    uint32_t tls_no_verify;           /* 1: accept any certificate. For tests only */
    const char *tls_ca_file;          /* PEM; without it and tls_ca_directory: the system's trust store */
    const char *tls_ca_directory;
    const char *tls_certificate_file; /* PEM: the client's certificate; needs tls_key_file */
    const char *tls_key_file;
    const char *tls_server_name;      /* the host: the name to verify in the certificate and to send by SNI */
    redlock_allocator allocator;      /* malloc(3) */
    uint32_t renewal_percent;         /* 33: renew held locks after this much of their ttl; 10 to 80; 0: never */
    uint32_t guard;                   /* 1: a node that may have lost locks grants none for max_ttl_ms; 0: trust it */
    uint32_t max_ttl_ms;              /* 30000: the longest ttl in the deployment; the same in all clients. With the
                                         guard, an acquire or extension with a longer ttl is REDLOCK_INVALID */
    const char *deployment;           /* "default": the deployment's name, without spaces */
    const char *marker_key;           /* "redlock:marker": the guard's key on each node */
    const char *channel_prefix;       /* "redlock:": of the channels that wake waiters */
    uint32_t fence_ttl_ms;            /* 86400000, a day: how long nodes keep a resource's last fencing token; 0:
                                         indefinitely. The same in all clients */
    const char *label;                /* NULL: "host:pid". Tells people who holds a lock: see redlock_holder. 1 to 63
                                         characters of printable ASCII without spaces; "": tokens without label and time */
} redlock_options;
/* clang-format on */

/* clang-format off */
#define REDLOCK_OPTIONS_INIT                                                                                           \
    { REDLOCK_STRUCT_SIZE(redlock_options), 10000, 1, 50, 1000, 2000, 2000, 10000, 65536, 8192, 65536, 0, 0, "",        \
      "redlock", NULL, NULL, NULL, NULL, NULL, NULL, REDLOCK_LOG_INFO, 0, NULL, NULL, NULL, NULL, NULL,                \
      { NULL, NULL, NULL, NULL }, 33, 1, 30000, "default", "redlock:marker", "redlock:", 86400000, NULL }
/* clang-format on */

/* A resource's name. */
typedef struct redlock_name {
    const char *bytes;
    size_t size;
} redlock_name;

/* Which acquires re-enter a held lock: see redlock_hold_count(). */
enum redlock_reentry {
    /* Those with the same options.owner; without one, those of the same thread. Without an owner in the asynchronous
     * API: none. */
    REDLOCK_REENTRY_DEFAULT = 0,
    /* Those with the same options.owner, which must not be NULL. For callers that compute it: NULL is then an error. */
    REDLOCK_REENTRY_OWNER = 1,
    /* None: a second acquire waits like any other client's. For tasks that share a thread, such as coroutines. Together
     * with an options.owner it is REDLOCK_INVALID. */
    REDLOCK_REENTRY_NEVER = 2
};

/* clang-format off */
/* How to acquire. Start from REDLOCK_ACQUIRE_OPTIONS_INIT or redlock_acquire_options_init(), or pass NULL to try once with
 * the client's settings. */
typedef struct redlock_acquire_options {
    size_t struct_size;               /* set by the initialisation */
    int64_t wait_ms;                  /* 0: try once; otherwise the longest wait; REDLOCK_FOREVER. Waiters acquire in the
                                         order of their arrival; those of one client take turns in its place. An acquire
                                         that does not wait, or not yet (its first attempt at a plain lock), and a
                                         client of another library overtake them if the lock is free at that instant.
                                         If the first waiter was stopped or cut off, the next one waits 1 to 1.3 s
                                         longer after a release; if that was less than 0.2 s before its turn, it got
                                         the lock, for its ttl. An acquire that tries once waits for connections: for a
                                         node's first one as long as connect_timeout_ms, for one that is made again as
                                         long as node_timeout_ms */
    uint32_t ttl_ms;                  /* 0: the client's */
    uint32_t minimum_validity_ms;     /* 0: the client's */
    size_t resource_size;             /* bytes of the resource; 0: a C string */
    redlock_cancellation *cancellation; /* ends the operation early; of this client; must outlive the operation */
    uint32_t no_renewal;              /* 1: do not renew; the lock ends with its ttl */
    uint32_t cap_ms;                  /* renew for at most this long after the acquire; at least the ttl; 0: no cap */
    uint32_t notify_before_ms;        /* REDLOCK_EVENT_ENDING comes this long before the end of validity; 0: never */
    redlock_event_callback event;     /* NULL: none */
    void *event_arg;
    uint32_t keep_waiting;            /* 1: keep waiting although misconfigured nodes make a majority impossible */
    const void *owner;                /* the lock's owner: see redlock_hold_count(). Compared, never dereferenced.
                                         NULL: the calling thread; in the asynchronous API: no owner */
    uint32_t all_answers;             /* 1: succeed only after every node has replied or timed out (connect_timeout_ms
                                         for a node that is connecting), for which an acquire that a majority has
                                         granted exceeds wait_ms. Use it when the token is passed to another process:
                                         its release must not overtake a late grant */
    const redlock_name *also;         /* further resources: the lock covers all of them or none. Their order does not */
    size_t also_count;                /* matter, a repeated name counts once; REDLOCK_RESOURCES_MAX in all */
    uint32_t permits;                 /* the resource is a semaphore with this number of permits, the same in all
                                         clients (to resize it: redlock_acquire(3)); each acquire takes permits_wanted
                                         of them. 0: a lock. Not with shared, fence, or also without any. A semaphore
                                         and a lock of the same name do not exclude each other */
    uint32_t shared;                  /* 1: a reader: excludes writers, not other readers. A shared lock cannot be
                                         upgraded, because two readers that wanted it would wait for each other:
                                         release it, then acquire the exclusive lock */
    uint32_t fence;                   /* 1: with a fencing token: see redlock_lock_fence(). Not for redlock_adopt() */
    uint32_t reentry;                 /* which acquires re-enter the lock: enum redlock_reentry */
    uint32_t at_least_ms;             /* no other client gets the lock before this long after the acquire, by the nodes'
                                         clocks: an earlier release, or close, returns at once and leaves the keys until
                                         then. At most max_ttl_ms, or a day without the guard. A lock that is lost, not
                                         released (a crash), or released by its token ends as without this option. Of
                                         acquires that re-enter a lock the latest end counts. 0: none */
    uint32_t any;                     /* 1: the resource and `also` are alternatives: the lock is on the first of them
                                         that this acquire gets (redlock_lock_resource()), and nothing is left on the
                                         others. It waits for each as an acquire of its own, in statistics and
                                         operations_max too. With a wait_ms of 0, acquires that try the same
                                         alternatives at the same moment may all fail */
    uint32_t permits_wanted;          /* how many permits this acquire takes, all or none, as one lock: at most
                                         `permits`. 0: one */
} redlock_acquire_options;
/* clang-format on */

/* clang-format off */
#define REDLOCK_ACQUIRE_OPTIONS_INIT                                                                                   \
    { REDLOCK_STRUCT_SIZE(redlock_acquire_options), 0, 0, 0, 0, NULL, 0, 0, 0, NULL, NULL, 0, NULL, 0, NULL, 0, 0, 0,   \
      0, 0, 0, 0, 0 }
/* clang-format on */

#ifndef __cplusplus
/* Default acquire options, except for these fields: REDLOCK_ACQUIRE_WITH(.wait_ms = 5000, .fence = 1). And with this
 * wait_ms. They live until the end of the enclosing block. */
#define REDLOCK_ACQUIRE_WITH(...)                                                                                      \
    (&(const redlock_acquire_options){.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options), __VA_ARGS__})
#define REDLOCK_WAIT_MS(milliseconds) REDLOCK_ACQUIRE_WITH(.wait_ms = (milliseconds))
#endif

/* How long a call may take, and what ends it early. Start from REDLOCK_CALL_OPTIONS_INIT or redlock_call_options_init(),
 * or pass NULL. */
typedef struct redlock_call_options {
    size_t struct_size;                 /* set by the initialisation */
    int64_t timeout_ms;                 /* REDLOCK_FOREVER: as long as the function says. 0: starts, and
                                           returns without waiting for a node */
    redlock_cancellation *cancellation; /* NULL: none. Of this client; must outlive the call */
} redlock_call_options;

#define REDLOCK_CALL_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        REDLOCK_STRUCT_SIZE(redlock_call_options), REDLOCK_FOREVER, NULL                                               \
    }

#ifndef __cplusplus
/* Call options with this timeout_ms. Live until the end of the enclosing block. */
#define REDLOCK_TIMEOUT_MS(milliseconds)                                                                               \
    (&(const redlock_call_options){.struct_size = REDLOCK_STRUCT_SIZE(redlock_call_options),                           \
                                   .timeout_ms = (milliseconds)})
#endif

/*
 * Set the defaults, as the macros do: for languages without them. size: the bytes that *options has, with room for
 * struct_size at least; the functions write no more.
 */
REDLOCK_API void redlock_options_init(redlock_options *options, size_t size);
REDLOCK_API void redlock_acquire_options_init(redlock_acquire_options *options, size_t size);
REDLOCK_API void redlock_call_options_init(redlock_call_options *options, size_t size);

/*
 * The node list of a client: 1 to 32 nodes, separated by commas, with optional spaces. Each node is one of
 *     host   host:port   [::1]:6379   /path/to/socket
 *     redis://[[user]:password@]host[:port][/database][?timeout_ms=50&connect_timeout_ms=1000]
 *     rediss://...      the same over TLS, if the library was built with it
 *     unix://[[user]:password@]/path/to/socket[?database=3&timeout_ms=50]
 *     sentinel://[[user]:password@]host[:26379],host[:26379],host[:26379]/NAME[/database][?timeout_ms=50]
 *     sentinels://...   the same, with TLS to the Sentinels and to the master
 *     cluster://[[user]:password@]host[:6379],host,host[/][?timeout_ms=50]
 *     clusters://...    the same, with TLS
 * User, password and path may be percent-encoded: a % in them must be. For an ACL user with `nopass` write any
 * password: without one the library does not log in. The library resolves a host name off the loop, again at each
 * connect unless a lookup is still running. A repeated address is an error. Every client of a deployment must have the
 * same list: the majority is counted over it.
 * With sentinel:// the node is the master that Redis Sentinel knows by this name: list all of its Sentinels, 3 to 9.
 * User and password are theirs; the options' are the master's. Its votes count while a majority of the Sentinels
 * confirms its address; after a failover it is in quarantine, and votes again by itself. It needs the guard. Its name
 * is "NAME (host:port)" in results, and "NAME (sentinel host:port)" for the credentials callback.
 * With cluster:// the node is the master of one slot of a Redis Cluster: that of the {tag} that prefix and marker_key
 * have in common. List some of its servers, up to 9; they name the others. If the next node of the list has no scheme,
 * end the cluster with a '/'. The master's votes count while a majority of the cluster's masters, without itself, confirms
 * its address; so the cluster needs three masters, and has at most 16. It needs the guard. Its name is
 * "{tag} (host:port)" in results, and "{tag} (cluster host:port)" for the credentials callback. See docs/deployments.md.
 */

/* ----------------------------------------------------------------------------------------------------- blocking API */

/*
 * Creates a client with its own loop thread, which blocks all signals. Does not wait for the nodes: see
 * redlock_ready(). options: NULL for the defaults. *client: to be closed by redlock_close(). Returns OK, INVALID (a bad
 * node list or option: see result->text), NO_MEMORY, SYSTEM.
 */
REDLOCK_API int redlock_connect(const char *nodes, const redlock_options *options, redlock_client **client,
                                redlock_result *result);

/*
 * Waits up to wait_ms (0: only checks; REDLOCK_FOREVER) until a majority of the nodes is usable. Optional: an acquire
 * waits for connections itself. result: a usable node is GRANTED, any other has its reason. Returns OK, NO_QUORUM,
 * MISCONFIGURED, TIMED_OUT, CANCELLED, INVALID, NO_MEMORY.
 */
REDLOCK_API int redlock_ready(redlock_client *client, int64_t wait_ms, redlock_result *result);

/*
 * Acquires the lock on a resource of 1 to REDLOCK_RESOURCE_MAX bytes. options: NULL to try once. *lock: the handle, or
 * NULL unless OK. On failure nothing is left on any reachable node. Returns OK, HELD, NO_QUORUM, MISCONFIGURED,
 * TOO_SLOW, TIMED_OUT, CANCELLED, LOST (its owner has an unreleased handle of this lock, which was lost: see
 * redlock_hold_count()), INVALID, NO_MEMORY, SYSTEM, CLOCK.
 */
REDLOCK_API int redlock_acquire(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                                redlock_lock **lock, redlock_result *result);

/*
 * Takes over a lock by its token, from a handle in this process or another, or from another library
 * (redlock_lock_token(), redlock_query()). It extends the lock on all nodes, once. If a majority still holds the token,
 * the lock belongs to this handle too: valid for its ttl from now (nodes never shorten it), renewed and monitored like
 * any other. The first release ends it for all handles. options: as for an acquire; wait_ms is the deadline, 0 for
 * none; keep_waiting has no effect; also, permits, shared and fence are INVALID. *lock: the handle, or NULL unless OK.
 * Returns OK, LOST (a majority does not have the token; keys that are left expire), NO_QUORUM, MISCONFIGURED, TOO_SLOW
 * (it is on the nodes, with less than minimum_validity_ms), TIMED_OUT, CANCELLED, INVALID (also: this client already
 * has a handle of the lock), NO_MEMORY, SYSTEM.
 */
REDLOCK_API int redlock_adopt(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                              const char *token, redlock_lock **lock, redlock_result *result);

/*
 * Releases a lock by its token, without a handle. Waits until every node has replied or timed out. A node that did not
 * get the request gets it when it is reachable again, as long as the client lives. Returns OK (a majority deleted it),
 * LOST (a majority did not have it), NO_QUORUM or MISCONFIGURED (no majority confirmed; the lock may last until its
 * ttl), TIMED_OUT or CANCELLED (the release goes on in the background), INVALID (also: this client has a handle of the
 * lock), NO_MEMORY, SYSTEM. With the token that redlock_query() reports, of any library, this breaks another holder's
 * lock: another client may acquire it at once; its holder is notified at its next renewal, or at the end of its
 * validity.
 */
REDLOCK_API int redlock_release_token(redlock_client *client, const char *resource, size_t size, const char *token,
                                      const redlock_call_options *options, redlock_result *result);

/*
 * Extends the lock to at least ttl_ms from now (0: its present ttl, that of the acquire or of a longer extension), if a
 * majority still holds it. Never shortens it: the later of the old end and the new end counts. cap_ms limits renewals,
 * not extensions. After a failure other than LOST the lock stays valid until its old end. No other thread may release
 * this lock meanwhile. After TIMED_OUT or CANCELLED too, and a majority that replies later still extends it. Returns
 * OK, LOST, NO_QUORUM, MISCONFIGURED, TOO_SLOW, TIMED_OUT, CANCELLED, INVALID, NO_MEMORY.
 */
REDLOCK_API int redlock_extend(redlock_lock *lock, uint32_t ttl_ms, const redlock_call_options *options,
                               redlock_result *result);

/*
 * Turns an exclusive lock into a shared one, without a moment in between at which a writer could get it. The handle, its
 * end, renewal, at_least_ms and redlock_lock_fence() (of the last writer: this one) stay. From the call on, other readers
 * may enter, also if it fails: then nodes that were not reached exclude them until a renewal reaches these. The lock
 * itself stays valid until its old end after any result but LOST. Of a lock that is shared already it repeats the request.
 * There is no way back: see `shared` above. INVALID for a permit, for a lock that its owner holds more than once, and if
 * another process may hold it by its token (redlock_adopt(), redlock_lock_token()). No other thread may release this lock
 * meanwhile. Returns OK (a majority lets readers in), LOST, NO_QUORUM, MISCONFIGURED, TOO_SLOW, TIMED_OUT, CANCELLED,
 * INVALID, NO_MEMORY (of these two the lock is exclusive as before).
 */
REDLOCK_API int redlock_downgrade(redlock_lock *lock, const redlock_call_options *options, redlock_result *result);

/*
 * Releases the lock. Frees the handle and sets *lock to NULL, even on failure. Waits until a majority has replied: for
 * a late one until it has been silent for silence_limit_ms, and at most for the lock's ttl. A node that did not get the
 * request gets it when it is reachable again. Returns OK (a majority deleted it), LOST (it had expired, or a majority
 * no longer had it), NO_QUORUM or MISCONFIGURED (no majority confirmed; the lock may last until its ttl; after a
 * failover of nodes, one with at_least_ms may end before), TIMED_OUT or CANCELLED (the release goes on in the
 * background, as long as the client lives; or the client is closing, which releases the lock or leaves it to expire),
 * INVALID (NULL, or *lock is NULL: already released; bad options, in a forked child, and on the client's own thread
 * unless the lock was lost, where *lock stays), NO_MEMORY (released, but not confirmed). A callback may release a lost
 * lock in a close, too: that only frees the handle.
 */
REDLOCK_API int redlock_release(redlock_lock **lock, const redlock_call_options *options, redlock_result *result);

/* ------------------------------------------------------------------------------------------------- asynchronous API */

/* lock: NULL unless result->status is REDLOCK_OK. result: lives for the call. */
typedef void (*redlock_acquire_callback)(redlock_client *client, redlock_lock *lock, const redlock_result *result,
                                         void *arg);

/* result: lives for the call. */
typedef void (*redlock_callback)(redlock_client *client, const redlock_result *result, void *arg);

/*
 * Creates a client on the caller's loop, which must outlive it; otherwise like redlock_connect(). The client keeps the
 * loop alive (ev_run() does not return) until it is closed. The thread that attaches must be the one that runs the
 * loop; calls from another thread return REDLOCK_INVALID. A forked child that keeps using the loop must call
 * ev_loop_fork(), as usual with libev; its loop runs without the client. Callbacks run just before the loop sleeps: a
 * caller that runs single iterations (EVRUN_ONCE) until a callback has run must call ev_break() in the callback.
 */
REDLOCK_API int redlock_attach(struct ev_loop *loop, const char *nodes, const redlock_options *options,
                               redlock_client **client, redlock_result *result);

/*
 * The asynchronous forms of the blocking functions. OK: the callback will run and gets the status, also of a bad
 * argument. INVALID (NULL, a forked child; or, with the reason in the log, wrong thread, closing client,
 * operations_max), NO_MEMORY: the callback will not run. arg is passed through. On a client of redlock_connect() any
 * thread may call them, and redlock_dispatch() runs the callbacks.
 */
REDLOCK_API int redlock_ready_async(redlock_client *client, int64_t wait_ms, redlock_callback callback, void *arg);
REDLOCK_API int redlock_acquire_async(redlock_client *client, const char *resource,
                                      const redlock_acquire_options *options, redlock_acquire_callback callback,
                                      void *arg);
REDLOCK_API int redlock_adopt_async(redlock_client *client, const char *resource,
                                    const redlock_acquire_options *options, const char *token,
                                    redlock_acquire_callback callback, void *arg);
REDLOCK_API int redlock_release_token_async(redlock_client *client, const char *resource, size_t size,
                                            const char *token, const redlock_call_options *options,
                                            redlock_callback callback, void *arg);
REDLOCK_API int redlock_extend_async(redlock_lock *lock, uint32_t ttl_ms, const redlock_call_options *options,
                                     redlock_callback callback, void *arg);
REDLOCK_API int redlock_downgrade_async(redlock_lock *lock, const redlock_call_options *options,
                                        redlock_callback callback, void *arg);

/* OK or NO_MEMORY: *lock is NULL and the handle is freed. Bad options are INVALID, with the reason in the log. callback
 * may be NULL. Also for callbacks in a close. */
REDLOCK_API int redlock_release_async(redlock_lock **lock, const redlock_call_options *options,
                                      redlock_callback callback, void *arg);

/* ---------------------------------------------------------------------------------------- completions by descriptor */

/*
 * Of a client of redlock_connect(): a descriptor for poll(2) and any event loop. It is readable while completions of
 * asynchronous functions, or events of their locks, wait for redlock_dispatch(). The client owns it until it is closed:
 * do not read or close it. Returns the descriptor, or INVALID, SYSTEM (no descriptor).
 */
REDLOCK_API int redlock_descriptor(redlock_client *client);

/*
 * Runs the callbacks that wait, on the calling thread, and does not block. Any thread may call it, one at a time, with
 * or without the descriptor. Operations that the callbacks start are sent when it returns, or at the next blocking
 * call. Returns OK (also if none waited), or INVALID: NULL, an attached client, a forked child, called in a callback of
 * this client or while another thread dispatches, or while redlock_close() runs. The log has the reason, and nothing is
 * lost.
 *
 * A caller may dispatch late or never: renewal, redlock_validity_ms() and redlock_lost_descriptor() do not depend on
 * it. operations_max bounds the callbacks that wait. An event of a lock waits once, with the validity left when its
 * callback runs; none runs after the release of the handle, so release such a lock on the thread that dispatches, or
 * while no thread does. Cancelling the thread (pthread_cancel(3)) takes effect when redlock_dispatch() returns. If a
 * callback ends its thread (pthread_exit(3)), the remaining callbacks wait for the next dispatch, on any thread.
 *
 * redlock_close() runs the callbacks that wait, on its own thread, before it returns: a lock that was granted meanwhile
 * is released, and its callback gets REDLOCK_CANCELLED. These callbacks must return. After redlock_close_async() keep a
 * copy of the pointer, and dispatch it until the callback of the close, which is the last, has run: that dispatch frees
 * the client, and closes the descriptor when the callback returns. In a close, operations that a callback starts are
 * INVALID.
 */
REDLOCK_API int redlock_dispatch(redlock_client *client);

/* --------------------------------------------------------------------------------------------------- all three ways */

/*
 * The lock's validity left, by this machine's CLOCK_BOOTTIME, rounded down: 0 in its last millisecond and after a loss.
 * redlock_validity_ms(), redlock_valid_until_ns() and redlock_lock_loss(): any thread, with each API, as long as no
 * other thread releases the handle or closes the client, which frees it. So a worker can check the validity of a lock
 * that another thread's loop renews.
 */
REDLOCK_API int64_t redlock_validity_ms(const redlock_lock *lock);

/*
 * The end of validity on this machine's CLOCK_BOOTTIME (CLOCK_MONOTONIC on systems without it), in nanoseconds: compare
 * it with clock_gettime(). A renewal moves it. 0: the lock is lost.
 */
REDLOCK_API int64_t redlock_valid_until_ns(const redlock_lock *lock);

/* The resource, NUL-terminated, and its size (may be NULL); of several the first in byte order. Lives as long as the
 * handle. */
REDLOCK_API const char *redlock_lock_resource(const redlock_lock *lock, size_t *size);

/* The number of resources, and each of them, in byte order; "" for an index out of range. Lives as long as the
 * handle. */
REDLOCK_API uint32_t redlock_lock_resources(const redlock_lock *lock);
REDLOCK_API const char *redlock_lock_resource_at(const redlock_lock *lock, uint32_t index, size_t *size);

/* The value of the key on the nodes: 40 random hexadecimal digits, new for each attempt; of an adopted lock the adopted
 * token. Lives as long as the handle. Whoever gets the token may adopt the lock: once it has been read, or adopted, a
 * loss of the lock here leaves the keys to expire, and only a release deletes them. */
REDLOCK_API const char *redlock_lock_token(const redlock_lock *lock);

/*
 * The lock's fencing token, a number below 2^53; 0 if it was acquired without `fence`. The tokens of one resource are
 * unique and increase with each acquire that requests one. Send it with each write, and let the protected resource
 * reject a token smaller than one it has seen: this makes a holder that was paused beyond its validity harmless.
 * Renewal, extension and re-entry keep the token. A shared lock, with or without `fence`, has the token of the last
 * exclusive holder, or a larger one, or 0 if none is known; readers get no new token. Any thread, as
 * redlock_validity_ms().
 */
REDLOCK_API uint64_t redlock_lock_fence(const redlock_lock *lock);

/* The lock's client. NULL for NULL. Any thread, as redlock_validity_ms(). */
REDLOCK_API redlock_client *redlock_lock_client(const redlock_lock *lock);

/*
 * A pointer of the caller's, kept with a client or a handle and never used by the library; NULL at first. Any thread:
 * with a lock as redlock_validity_ms(), with a client until it is closed. Setting one does nothing for NULL.
 */
REDLOCK_API void redlock_client_set_user_data(redlock_client *client, void *data);
REDLOCK_API void *redlock_client_user_data(const redlock_client *client);
REDLOCK_API void redlock_lock_set_user_data(redlock_lock *lock, void *data);
REDLOCK_API void *redlock_lock_user_data(const redlock_lock *lock);

/*
 * The client's handles, lost ones too, until they are released: up to `size` of them, in no order. *count: all of them.
 * Those of an acquire whose callback has not begun are left out. Sends no request. In the blocking API another thread
 * may release a handle meanwhile: use this only where none does. Returns OK, INVALID (also if size is too small).
 */
REDLOCK_API int redlock_locks(redlock_client *client, redlock_lock **locks, size_t size, size_t *count);

/* 1 if this client holds a valid lock on the resource, or a valid permit of it; otherwise 0. Sends no request. */
REDLOCK_API int redlock_held_by_me(redlock_client *client, const char *resource, size_t size);

/* Why the lock was lost: enum redlock_loss. Any thread, as redlock_validity_ms(). */
REDLOCK_API int redlock_lock_loss(const redlock_lock *lock);

/* "expired", "gone", "clock", "closed", and the loss as a sentence. Static; never NULL. Any thread. */
REDLOCK_API const char *redlock_loss_name(int loss);
REDLOCK_API const char *redlock_loss_text(int loss);

/*
 * The result of the last renewal. If it failed, the status is not OK and each node that did not extend the lock has a
 * text. OK after a renewal that succeeded, and before the first. result must not be NULL. Sends no request; use it in
 * the event REDLOCK_EVENT_RENEWAL_FAILING. Returns OK, INVALID.
 */
REDLOCK_API int redlock_renewal_result(redlock_lock *lock, redlock_result *result);

/*
 * The number of handles of this lock: 1, or more by re-entrancy.
 *
 * An owner that acquires a lock it already holds gets another handle of it. That takes no round trip, unless the lock
 * must be extended first: because less than minimum_validity_ms is left, or for a longer ttl. From then on the lock is
 * renewed if one of its acquires wanted that, until the latest cap, with the longest notice before its end. Each
 * release ends one handle; the last one frees the lock. After a loss the owner's acquires return REDLOCK_LOST until all
 * handles are released.
 *
 * The owner is options.owner, or the thread that called redlock_acquire(); in the asynchronous API a lock without
 * options.owner has no owner. Another thread may query, extend and release the handle; the owner stays the thread that
 * acquired the lock, and no later thread is mistaken for it. Tasks that share a thread must each pass an owner, or use
 * REDLOCK_REENTRY_NEVER.
 *
 * An acquire that could never succeed, because its owner holds a part of the lock or is a reader of it, returns
 * REDLOCK_INVALID at once.
 */
REDLOCK_API uint32_t redlock_hold_count(const redlock_lock *lock);

/*
 * A descriptor for poll(2) that becomes readable when the lock is lost, and stays so. The lock owns it until the last
 * handle is released: do not read or close it. Returns OK, INVALID, SYSTEM (no descriptor: see errno).
 */
REDLOCK_API int redlock_lost_descriptor(redlock_lock *lock, int *descriptor);

/*
 * Blocking API: waits up to wait_ms (REDLOCK_FOREVER) until the lock is lost. *loss: the reason; loss may be NULL. Another
 * thread may release the handle while this one waits, but not before the call has begun: the handle would be gone.
 * Returns LOST, TIMED_OUT, CANCELLED (another thread released the last handle, or the client is closing), INVALID,
 * NO_MEMORY.
 */
REDLOCK_API int redlock_wait_lost(redlock_lock *lock, int64_t wait_ms, int *loss);

/* ------------------------------------------------------------------------------------------------------------ nodes */

/* Findings about a node, as bits. */
enum redlock_finding {
    REDLOCK_FINDING_REPLICA = 1,          /* not a master */
    REDLOCK_FINDING_SAME_SERVER = 2,      /* listed twice under different names */
    REDLOCK_FINDING_OTHER_DEPLOYMENT = 4, /* its marker names another deployment, or another N */
    REDLOCK_FINDING_NOT_PERMITTED = 8,    /* the guard may not run a command: a right is missing, or it is renamed */
    REDLOCK_FINDING_EVICTING = 16,        /* its maxmemory-policy may evict locks */
    REDLOCK_FINDING_NOT_PERSISTENT = 32,  /* it loses its data in a restart, and the guard is off */
    REDLOCK_FINDING_OTHER_MAX_TTL = 64,   /* clients differ in max_ttl_ms; the largest one counts */
    REDLOCK_FINDING_NO_PUBLISH = 128,     /* the user cannot notify waiters: they must poll */
    REDLOCK_FINDING_NO_SUBSCRIBE = 256,   /* the user cannot be notified: it must poll */
    REDLOCK_FINDING_MARKER_TAKEN = 512,   /* the marker key holds another value, or a newer version's marker */
    REDLOCK_FINDING_TOO_OLD = 1024,       /* older than Redis 5.0 */
    REDLOCK_FINDING_FULL = 2048,          /* at its memory limit, and its marker must be written: it grants nothing */
    REDLOCK_FINDING_CLUSTER = 4096,       /* in cluster mode, and prefix and marker_key have no common {tag} */
    REDLOCK_FINDING_HIDDEN = 8192,        /* INFO or TIME does not show a fact that the guard needs */
    /* These are of a sentinel:// or cluster:// node, which has no vote meanwhile. Its witnesses are its sentinels, or the
     * other masters of its cluster. */
    REDLOCK_FINDING_MASTER_UNKNOWN = 16384,     /* its witnesses know no master of this name, or of the slot */
    REDLOCK_FINDING_WITNESSES_SILENT = 32768,   /* fewer than a majority of its witnesses reply */
    REDLOCK_FINDING_WITNESSES_DISAGREE = 65536, /* no majority of them names one address */
    REDLOCK_FINDING_FAILOVER = 131072           /* they name one, but have not all heard of its last failover */
};

/* A node with one of these is unfit: its votes do not count. */
#define REDLOCK_FINDINGS_UNFIT                                                                                         \
    (REDLOCK_FINDING_REPLICA | REDLOCK_FINDING_SAME_SERVER | REDLOCK_FINDING_OTHER_DEPLOYMENT |                        \
     REDLOCK_FINDING_NOT_PERMITTED | REDLOCK_FINDING_MARKER_TAKEN | REDLOCK_FINDING_TOO_OLD |                          \
     REDLOCK_FINDING_CLUSTER | REDLOCK_FINDING_HIDDEN)

/* The name of one bit ("replica", ...), what is wrong, and the remedy. Static; never NULL. Any thread. */
REDLOCK_API const char *redlock_finding_name(uint32_t finding);
REDLOCK_API const char *redlock_finding_text(uint32_t finding);
REDLOCK_API const char *redlock_finding_remedy(uint32_t finding);

typedef struct redlock_node_status {
    const char *name;          /* lives as long as the client */
    uint32_t usable;           /* 1: it gets requests for new locks */
    uint32_t findings;         /* bits of enum redlock_finding */
    int64_t quarantine_ms;     /* until it may grant locks again; 0: it may now */
    uint32_t round_trip_us;    /* of the last heartbeat; 0: none yet */
    uint32_t requests_pending; /* without a reply yet, also those that wait in the client */
    uint32_t undos_pending;    /* kept until it is reachable */
    uint32_t clock_known;      /* 1: the next two are known */
    int64_t clock_low_us;      /* the node's wall clock is ahead of ours by at least this ... */
    int64_t clock_high_us;     /* ... and at most this */
    char state[24];            /* "ready", "connecting", ... */
    char role[16];             /* "master", "slave"; "": unknown */
    char version[24];          /* of the server: "7.0.15"; "": unknown */
    char run_id[48];
    char error[96];            /* why the connection failed, now or last time; or "" */
    char objection[96];        /* why it gets no requests although it is ready; or "" */
    char maxmemory_policy[24]; /* "": unknown */
    int32_t append_only;       /* 1: it has an append-only file; 0: it has none; -1: unknown */
    uint32_t marker_nodes;     /* the N in its marker; 0: guard off, or not read yet */
    uint32_t marker_max_ttl_ms;
    char marker_why[12];        /* "new", "restarted", "copied", "promoted", "evicted", "replaced", "jumped", "trusted",
                                  "taken", "full" */
    char marker_deployment[72]; /* the deployment's name in its marker */
    int32_t snapshots;          /* after redlock_inspect(): 1: it saves snapshots; 0: it does not; -1: unknown */
    char append_fsync[12];      /* after redlock_inspect(): "always", "everysec", "no"; "": unknown */
    char lacking[512];          /* after redlock_inspect(): missing ACL rules, "+pexpire ~jobs:* (more)" */
    char user[128];             /* the ACL user of the last handshake, "default" if unnamed; may be cut */
    char server[16];            /* "redis", "valkey"; "": unknown */
    char witnesses[512];        /* what each of its sentinels, or masters of its cluster, says; "": it has none */
    uint64_t reserved[8];
} redlock_node_status;

/* The number of nodes. */
REDLOCK_API uint32_t redlock_nodes(const redlock_client *client);

/* The client's current knowledge of node 0 to redlock_nodes() - 1. Sends no request. Returns OK, INVALID. */
REDLOCK_API int redlock_node_status_get(redlock_client *client, uint32_t node, redlock_node_status *status);

/*
 * Ends the quarantine of all reachable nodes. The caller vouches that no client holds a lock that a node may have lost:
 * in a new deployment, or after all clients have been stopped for max_ttl_ms. Nodes of another deployment, or of
 * another number of nodes, become part of this client's: use this to change the node list or the name. Clients of the
 * old one have no vote on these nodes from then on. Waits until every node has replied or timed out. Returns OK (a
 * majority), NO_QUORUM, MISCONFIGURED, TIMED_OUT, CANCELLED, INVALID (the guard is off), NO_MEMORY.
 */
REDLOCK_API int redlock_trust(redlock_client *client, const redlock_call_options *options, redlock_result *result);
REDLOCK_API int redlock_trust_async(redlock_client *client, const redlock_call_options *options,
                                    redlock_callback callback, void *arg);

/*
 * For diagnosis: tries every command that the library uses, on all nodes, on the keys of this resource, without any
 * effect; and reads the fields of redlock_node_status that need it (fewer without permission for CONFIG GET). The
 * server records each refusal in its ACL LOG. Waits until every node has replied or timed out. result: a node is
 * GRANTED, or REFUSED with the commands that the server has renamed or disabled, with the error by which it refuses new
 * locks, or with the missing ACL rules: those for all resources with this prefix. Returns OK
 * (nothing is missing on a majority), NO_QUORUM, MISCONFIGURED, TIMED_OUT, CANCELLED, INVALID, NO_MEMORY.
 */
REDLOCK_API int redlock_inspect(redlock_client *client, const char *resource, size_t size,
                                const redlock_call_options *options, redlock_result *result);
REDLOCK_API int redlock_inspect_async(redlock_client *client, const char *resource, size_t size,
                                      const redlock_call_options *options, redlock_callback callback, void *arg);

/* ------------------------------------------------------------------------------------------------------- statistics */

#define REDLOCK_STATUSES          12  /* REDLOCK_OK to REDLOCK_CLOCK */
#define REDLOCK_HISTOGRAM_BUCKETS 128 /* four per power of two of microseconds; the last has no bound */

/* A log-linear histogram of durations. */
typedef struct redlock_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t bucket[REDLOCK_HISTOGRAM_BUCKETS];
} redlock_histogram;

/* The largest duration in a bucket; UINT64_MAX for the last. */
REDLOCK_API uint64_t redlock_histogram_bound_us(uint32_t bucket);

/* The upper bound of the bucket that holds this quantile (0 to 1). 0 for an empty histogram. */
REDLOCK_API uint64_t redlock_histogram_quantile_us(const redlock_histogram *histogram, double quantile);

/* A client's counters since its creation. */
typedef struct redlock_statistics {
    uint64_t acquires[REDLOCK_STATUSES]; /* by result: [-status] */
    uint64_t losses[5];                  /* locks lost: [enum redlock_loss] */
    uint64_t attempts;                   /* rounds of all acquires */
    uint64_t hand_offs;                  /* locks acquired by a waiter from the queue */
    uint64_t reentered;
    uint64_t released; /* confirmed by a majority */
    uint64_t renewed;  /* how often renewals moved a lock's end: those in turn do so more often than rounds */
    uint64_t renewals_failed;
    uint64_t healed;      /* keys set again on a node that had lost them, or found there again */
    uint64_t late_grants; /* grants that arrived after their attempt had failed; the client undoes them */
    uint64_t unattested;  /* grants that did not count because the node's marker had changed */
    uint64_t undos_dropped;
    uint64_t quarantines; /* nodes found to have lost data */
    uint64_t node_clock_jumps;
    uint32_t locks_held;               /* now */
    uint32_t operations_pending;       /* now */
    redlock_histogram acquire_latency; /* of successful acquires */
    uint64_t messages_dropped;         /* of nodes: hand-overs that are no answer to an offer of this client */
    uint64_t reserved[7];
} redlock_statistics;

/* Copies the counters. Returns OK, INVALID. */
REDLOCK_API int redlock_statistics_get(redlock_client *client, redlock_statistics *statistics);

/*
 * The counters, with those per node, in the Prometheus exposition format. *needed: the bytes that the text takes with
 * its final NUL; needed may be NULL. Returns OK, INVALID (also if size is too small; the text is then cut).
 */
REDLOCK_API int redlock_metrics(redlock_client *client, char *text, size_t size, size_t *needed);

/* ------------------------------------------------------------------------------------------------------------ query */

/*
 * The state of a resource on the nodes. A token's text is its bytes in the form of redlock_escape(), with spaces
 * escaped too; redlock_release_token() and redlock_adopt() accept it. A text in parentheses is a remark: (empty), which
 * they accept too; (shared) for readers; (300 bytes) for a value longer than REDLOCK_TOKEN_MAX; (not a string) for a
 * key that is not a lock.
 */
typedef struct redlock_node_state {
    int64_t remaining_ms;                /* the key's remaining ttl; 0: no key; -1: no reply; REDLOCK_STATE_NO_EXPIRY */
    char token[REDLOCK_TOKEN_TEXT_SIZE]; /* the key's value as text; "" without a key */
    int32_t waiters; /* clients in the node's queue for the resource; -1: no reply, or not permitted */
} redlock_node_state;

#define REDLOCK_STATE_NO_EXPIRY INT64_MAX

typedef struct redlock_state {
    int32_t locked;         /* 1: a majority has the same holder */
    int32_t held_by_me;     /* 1: this client is the holder, or has a permit */
    uint32_t locked_nodes;  /* nodes with the most frequent holder */
    uint32_t free_nodes;    /* nodes without a key */
    int64_t remaining_ms;   /* until fewer than a majority have the holder; 0 if not locked */
    redlock_holder holder;  /* the most frequent holder, "" for none */
    uint32_t waiters;       /* the largest number on any node */
    uint32_t permits_taken; /* of a semaphore, counted by majorities. Nodes do not know its size: it is never locked */
    uint64_t reserved[7];
    redlock_node_state node[REDLOCK_NODES_MAX];
} redlock_state;

/* state: lives for the call; valid if a majority replied (OK). */
typedef void (*redlock_query_callback)(redlock_client *client, const redlock_state *state, const redlock_result *result,
                                       void *arg);

/*
 * Reads the state of a resource: whether it is locked, on how many nodes, for how long. Waits until every node has
 * replied or timed out. A snapshot: it may change at once. Returns OK (a majority replied), NO_QUORUM, MISCONFIGURED,
 * TIMED_OUT, CANCELLED, INVALID, NO_MEMORY.
 */
REDLOCK_API int redlock_query(redlock_client *client, const char *resource, size_t size,
                              const redlock_call_options *options, redlock_state *state, redlock_result *result);
REDLOCK_API int redlock_query_async(redlock_client *client, const char *resource, size_t size,
                                    const redlock_call_options *options, redlock_query_callback callback, void *arg);

enum redlock_kind { REDLOCK_KIND_LOCK = 0, REDLOCK_KIND_READER = 1, REDLOCK_KIND_PERMIT = 2 };

/* A lock on one node; of a shared lock one of its readers, of a semaphore one of its permits. Lives for the call. */
typedef struct redlock_found {
    redlock_name resource;
    int32_t kind;         /* enum redlock_kind */
    int32_t permit;       /* the permit's number, from 0 */
    int32_t waiters;      /* in the node's queue; -1: not permitted */
    int64_t remaining_ms; /* until it expires, or the reader's end; REDLOCK_STATE_NO_EXPIRY */
    redlock_holder holder;
} redlock_found;

/* Runs on the client's loop thread, one at a time. Must not block, and must not call the library except
 * redlock_escape() and redlock_holder_read(). */
typedef void (*redlock_scan_callback)(const redlock_found *found, void *arg);

/*
 * Finds the locks on one node, 0 to redlock_nodes() - 1, whose resources match a pattern as in Redis' KEYS; NULL: all.
 * Reads a few keys at a time, so that other clients' commands are not delayed. Without a prefix, locks of other
 * libraries are left out: nothing tells them from other values. A lock is held if a majority of the nodes has its token;
 * one that is acquired or released during the scan may be missing, and one may be found twice. Needs the right +scan.
 * found: called for each lock, before the operation ends. Returns OK (the node was read), NO_QUORUM (it cannot be
 * reached), MISCONFIGURED (not permitted), TIMED_OUT, CANCELLED, INVALID, NO_MEMORY.
 */
REDLOCK_API int redlock_scan(redlock_client *client, uint32_t node, const char *pattern, redlock_scan_callback found,
                             void *found_arg, const redlock_call_options *options, redlock_result *result);
REDLOCK_API int redlock_scan_async(redlock_client *client, uint32_t node, const char *pattern,
                                   redlock_scan_callback found, void *found_arg, const redlock_call_options *options,
                                   redlock_callback callback, void *arg);

/*
 * redlock_cancel() ends every operation that has this cancellation in its options, those in progress and those started
 * later, with REDLOCK_CANCELLED: an acquire is undone on the nodes, a release goes on in the background. It stays
 * cancelled until redlock_cancellation_reset(), which affects only operations started later. Both may be called from
 * any thread, and from a signal handler. Destroy it when no operation uses it any more, before or after the client is
 * closed; *cancellation becomes NULL. redlock_cancellation_create(): returns OK, INVALID, NO_MEMORY; *cancellation is
 * set only on OK.
 */
REDLOCK_API int redlock_cancellation_create(redlock_client *client, redlock_cancellation **cancellation);
REDLOCK_API void redlock_cancel(redlock_cancellation *cancellation);
REDLOCK_API void redlock_cancellation_reset(redlock_cancellation *cancellation);
REDLOCK_API void redlock_cancellation_destroy(redlock_cancellation **cancellation);

/*
 * Closes a client. Operations in progress end with REDLOCK_CANCELLED. Held locks are released (leave_locks: left to
 * expire) and their handles freed. Each node gets its timeout to reply to the requests sent; then all memory is freed.
 * *client becomes NULL at once. result: pending_undos, and per node the unconfirmed undos. Returns OK (all undos are
 * confirmed), NO_QUORUM (some are not; their keys will expire), TIMED_OUT or CANCELLED (the same, closed early by the
 * options), INVALID (bad options; NULL, or *client is NULL: already closed;
 * called on the client's own loop thread or in a callback of redlock_dispatch(); an attached client).
 * redlock_close() lets other threads' calls on this client return first; the caller sees to it that no new one starts.
 * See redlock_dispatch() for callbacks that wait.
 * redlock_close_async(): callback is the client's last, with a NULL client. An attached client needs a running loop
 * (destroy it after the callback), and callback may be NULL; it comes after the client's other callbacks have returned,
 * so do not wait for it in one of them. Another client needs a callback, and redlock_dispatch().
 */
REDLOCK_API int redlock_close(redlock_client **client, const redlock_call_options *options, redlock_result *result);
REDLOCK_API int redlock_close_async(redlock_client **client, const redlock_call_options *options,
                                    redlock_callback callback, void *arg);

#ifdef __cplusplus
}
#endif

#endif
