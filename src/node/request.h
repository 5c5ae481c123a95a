/*
 * One command in flight to one node. It is part of its sender (a fan-out, the node), which must stay in memory
 * until the request's last answer: the node's replies are matched to the requests by their order.
 */
#ifndef RL_REQUEST_H
#define RL_REQUEST_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "quorum/attest.h"
#include "quorum/time.h"

struct rl_node;
struct rl_request;

enum rl_answer_kind {
    RL_ANSWER_REPLY,   /* last: the node's reply */
    RL_ANSWER_OVERDUE, /* not last: the node's timeout has passed; the connection stays, and a late reply may arrive */
    RL_ANSWER_BROKEN,  /* last: the connection broke; the node may have executed the command or not */
    RL_ANSWER_DROPPED  /* last, for kept requests only: it will not be sent */
};

struct rl_answer {
    enum rl_answer_kind kind;
    struct rl_node *node;
    quorum_time now;         /* read for this answer */
    const redisReply *reply; /* REPLY: lives for the call */
};

struct rl_request_type {
    void (*answered)(struct rl_request *request, const struct rl_answer *answer);
    /* Sends a request that was kept for a disconnected node. */
    bool (*send)(struct rl_request *request, struct rl_node *node);
    /* How many undos the request stands for, until its last answer. NULL: none. */
    unsigned (*undos)(const struct rl_request *request);
    /* The last call for a grant that has waited for its proof: of a plain request, or after rl_attest_await() in
     * answered(); unless answered() reports the end of the connection. */
    void (*proven)(struct rl_request *request, struct rl_node *node, enum quorum_proof proof, quorum_time now);
};

/* The sender's struct begins with this, and outlives its requests. */
struct rl_sender {
    const struct rl_request_type *type;
};

#define RL_REQUEST_BYTES_MAX ((1u << 25) - 1)

/* Half a cache line: with many in flight each is a miss. */
struct rl_request {
    const struct rl_sender *sender;
    struct rl_request *next; /* in the order of sending or keeping */
    union {
        quorum_time sent;
        uint64_t record; /* of a grant by a script, which waits for its proof: see struct rl_vote */
    };
    uint32_t latency_us; /* of its reply; 0: none yet */
    bool overdue : 1;    /* RL_ANSWER_OVERDUE was reported */
    bool use_eval : 1;   /* sent with the script's text instead of its hash */
    bool held : 1;       /* the node's window holds it back */
    bool plain : 1;      /* OK in reply is a grant, and the request for its proof has been sent behind it */
    bool gets : 1;       /* a SET with GET: nil in reply is the grant, and the holder's token a refusal */
    bool urgent : 1;     /* keeps a held lock: overtakes the requests that the window holds back */
    bool kept : 1;       /* was kept: it may follow requests that were made after it */
    uint32_t bytes : 25; /* of the command */
};

_Static_assert(sizeof(struct rl_request) <= 32, "two fit into a cache line");

#endif
