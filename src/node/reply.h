/* What a node's reply means. Pure: a reply in, a vote and a text out. */
#ifndef RL_REPLY_H
#define RL_REPLY_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "quorum/tally.h"

/* What was asked. */
enum rl_question {
    RL_ASK_SET,
    RL_ASK_GRANT, /* as SET, by a script */
    RL_ASK_EXTEND,
    RL_ASK_KEEP, /* as EXTEND, of a lock that has more to it */
    RL_ASK_RELEASE,
    RL_ASK_QUERY,
    RL_ASK_TRUST,
    RL_ASK_TRY,  /* take it if nobody waits for it */
    RL_ASK_TAKE, /* take it in turn, or sign in as a waiter */
    RL_ASK_SIGN,
    RL_ASK_LEAVE
};

struct rl_vote {
    enum quorum_vote vote;
    bool permanent; /* the same question will meet the same refusal until someone changes the server or the settings */
    bool left_nothing; /* nothing of ours is on the node, by its own word */
    bool noscript;     /* it does not know the script: to be asked again with the whole of it */
    bool clock; /* a fencing token is refused: the node's clock and the one that the token follows are too far apart */
    uint64_t record; /* granted, with a fencing token: the largest that the node had been told before; held, of a
                          semaphore: which slots are free, as bits */
};

struct rl_vote rl_reply_vote(enum rl_question question, const redisReply *reply);

/* What a server refuses, whichever server it is, and whether a client or a script asked. */
enum rl_reply_error {
    RL_ERROR_NONE,    /* not an error */
    RL_ERROR_PASSING, /* one that may pass by itself, or an unknown one */
    RL_ERROR_NOSCRIPT,
    RL_ERROR_CLOCK,           /* see struct rl_vote */
    RL_ERROR_NOT_PERMITTED,   /* by the ACL; this and those below end only when someone acts */
    RL_ERROR_CREDENTIALS,     /* the user or the password is wrong, missing, or not expected */
    RL_ERROR_UNKNOWN_COMMAND, /* renamed */
    RL_ERROR_WRONGTYPE,       /* a key of another kind is in the way */
    RL_ERROR_ELSEWHERE        /* a replica, or a node of a Redis Cluster */
};

enum rl_reply_error rl_reply_error(const redisReply *reply);
bool rl_reply_error_is_permanent(enum rl_reply_error error);

/* An error reply's text, cut to fit and without control characters; "" for other replies. The place in a script where it
 * came up is left out. */
void rl_reply_text(const redisReply *reply, char *text, size_t size);

/* The reply is an error that begins with this word. */
bool rl_reply_is_error(const redisReply *reply, const char *word);

#endif
