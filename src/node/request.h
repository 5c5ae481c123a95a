/*
 * One command on its way to one node and back. Its memory belongs to whoever asks (a round, the node itself), who keeps
 * it until the last answer: hiredis cannot take a queued command back.
 */
#ifndef RL_REQUEST_H
#define RL_REQUEST_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "quorum/attest.h"
#include "quorum/time.h"

struct rl_node;
struct rl_request;

enum rl_answer_kind {
    RL_ANSWER_REPLY,   /* last: the node's reply is here */
    RL_ANSWER_OVERDUE, /* not last: the node's timeout has passed; the link is kept, a late reply still comes */
    RL_ANSWER_BROKEN,  /* last: the link broke; whether the node did what was asked is unknown */
    RL_ANSWER_DROPPED  /* last, of kept ones only: it will not be sent any more */
};

struct rl_answer {
    enum rl_answer_kind kind;
    quorum_time now;         /* read for this answer */
    const redisReply *reply; /* REPLY: lives for the call */
};

struct rl_request_type {
    void (*answered)(struct rl_request *request, const struct rl_answer *answer);
    bool (*send)(struct rl_request *request); /* of those that are kept for a node that is away: sends it now */
    /* Of those that called rl_attest_await() in answered(): last, unless answered() reports the link's end. */
    void (*attested)(struct rl_request *request, enum quorum_proof proof, quorum_time now);
};

struct rl_request {
    const struct rl_request_type *type;
    struct rl_node *node;
    struct rl_request *next; /* in the order sent, or kept */
    quorum_time sent;
    bool overdue;      /* OVERDUE has been told */
    unsigned char tag; /* its owner's */
    bool whole; /* went with its script's whole text: NOSCRIPT is a refusal now, or the two would go on for ever */
};

#endif
