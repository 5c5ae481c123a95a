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

/* An error reply's text, cut to fit and without control characters; "" for other replies. */
void rl_reply_text(const redisReply *reply, char *text, size_t size);

/* The reply is an error that begins with this word. */
bool rl_reply_is_error(const redisReply *reply, const char *word);

/* The user may not do what was asked, or what the script that was asked for does. */
bool rl_reply_is_not_permitted(const redisReply *reply);

#endif
