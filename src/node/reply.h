/* Classifies a node's reply as a vote and a text. Pure functions. */
#ifndef RL_REPLY_H
#define RL_REPLY_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "quorum/tally.h"

/* The request. */
enum rl_command_kind {
    RL_COMMAND_SET,
    RL_COMMAND_SET_GET, /* a SET whose reply names the holder */
    RL_COMMAND_GRANT,   /* as SET, by a script */
    RL_COMMAND_EXTEND,
    RL_COMMAND_KEEP,      /* as EXTEND, for a lock that is not plain */
    RL_COMMAND_DOWNGRADE, /* turn a writer's lock into a reader's */
    RL_COMMAND_HEAL,      /* set a held lock again where it is missing */
    RL_COMMAND_RESTORE,   /* as HEAL, for a lock that is not plain */
    RL_COMMAND_RELEASE,
    RL_COMMAND_QUERY,
    RL_COMMAND_TRUST,
    RL_COMMAND_TAKE,    /* take the lock in turn, or enter the queue */
    RL_COMMAND_ENQUEUE, /* enter the queue, or refresh the entry */
    RL_COMMAND_DEQUEUE  /* leave the queue */
};

/* The elements of wait.lua's answer, which describes them. The build compares this list with the script's. */
enum rl_wait_element {
    RL_WAIT_TAKEN,
    RL_WAIT_REMAINING,
    RL_WAIT_AHEAD,
    RL_WAIT_SEEN,
    RL_WAIT_RECORD,
    RL_WAIT_HOLDER,
    RL_WAIT_ELEMENTS
};

/* The same for query.lua. */
enum rl_query_element { RL_QUERY_HOLDER, RL_QUERY_LEFT, RL_QUERY_WAITERS, RL_QUERY_TAKEN, RL_QUERY_ELEMENTS };

struct rl_vote {
    enum quorum_vote vote;
    bool permanent;    /* the refusal lasts until an operator changes the server or the settings */
    bool left_nothing; /* the reply shows that the node has nothing of ours */
    bool unannounced;  /* released, but the user may not notify the waiters */
    bool awaited;      /* of a release: clients wait for the lock */
    bool apart;        /* of a release of several locks: this one must be released by itself */
    bool noscript;     /* the node does not know the script: send its text */
    bool clock;        /* the fencing token is refused: a clock is too far off, the node's or a client's */
    uint64_t record;   /* granted, with a fencing token: the node's record from before; held, for a semaphore: the free
                          slots, as bits */
};

struct rl_vote rl_reply_vote(enum rl_command_kind command, const redisReply *reply);

/* The token of the holder that a reply names, which lives as long as the reply; NULL: none. */
const redisReply *rl_reply_holder(enum rl_command_kind command, const redisReply *reply);

/* The class of an error, for every supported server, sent by a client or by a script. */
enum rl_reply_error {
    RL_ERROR_NONE,    /* not an error */
    RL_ERROR_PASSING, /* a temporary error, or an unknown one */
    RL_ERROR_NOSCRIPT,
    RL_ERROR_CLOCK,           /* see struct rl_vote */
    RL_ERROR_NOT_PERMITTED,   /* by the ACL. This error and those below last until an operator acts */
    RL_ERROR_CREDENTIALS,     /* the user or the password is wrong, missing, or not expected */
    RL_ERROR_UNKNOWN_COMMAND, /* renamed, or not allowed from a script */
    RL_ERROR_WRONGTYPE,       /* the key is of another type */
    RL_ERROR_ELSEWHERE        /* a replica, or a node of a Redis Cluster; or the keys are in several slots */
};

enum rl_reply_error rl_reply_error(const redisReply *reply);
bool rl_reply_error_is_permanent(enum rl_reply_error error);

/* The user lacks a right, or the command is renamed. */
bool rl_reply_is_forbidden(const redisReply *reply);

/* The server executes no command, or few, for a while. */
bool rl_reply_is_unavailable(const redisReply *reply);

/* An error reply's text, truncated to fit, without control characters and without the line of a script; "" for other
 * replies. */
void rl_reply_text(const redisReply *reply, char *text, size_t size);

/* Copies a field of INFO's reply, truncated to fit, '?' for what is not printable; "": it is missing, or
 * the reply is another one. */
void rl_reply_info(const redisReply *info, const char *field, char *value, size_t size);

static inline bool rl_reply_is_ok(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STATUS && reply->len == 2 && reply->str[0] == 'O' && reply->str[1] == 'K';
}

static inline bool rl_reply_has(const redisReply *reply, size_t elements)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == elements;
}

/* The reply is exactly this text. */
bool rl_reply_is_text(const redisReply *reply, const char *text);

/* The reply is an error that begins with this word. */
bool rl_reply_is_error(const redisReply *reply, const char *word);

#endif
