/*
 * The fan-out: sends one command to a set of nodes, one request per node, and passes the replies to the operation. It
 * sends a script's text to a node that does not know its hash, keeps requests for disconnected nodes, and stays in
 * memory until its last request has ended. Rounds, carriers and inspections begin with a `struct rl_fanout`.
 */
#ifndef RL_FANOUT_H
#define RL_FANOUT_H

#include "quorum/attest.h"
#include "quorum/tally.h"
#include "src/node/command.h"
#include "src/node/flight.h"

struct rl_fanout;
struct rl_nodes;

struct rl_fanout_type {
    /* Handles an answer. The request's last answer ends its reference to the fan-out, after this has returned. */
    void (*answered)(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer);
    /* Handles a grant with its proof: of a plain request, whose answer is not handled before; or one that
     * rl_fanout_await_proof() has held back. NULL: there are none. */
    void (*proven)(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, enum quorum_proof proof,
                   quorum_time now);
    /* Sends the request again, by rl_fanout_send(): after NOSCRIPT with use_eval, with the script's text; otherwise
     * because it was kept. false: it was not sent. NULL: it is not sent again. */
    bool (*resend)(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, bool use_eval);
    void (*destroy)(struct rl_fanout *fanout); /* without references */
};

struct rl_fanout {
    /* Aligned as the structs that begin with it, also on 32-bit processors. */
    _Alignas(uint64_t) struct rl_sender sender;
    const struct rl_fanout_type *type;
    struct rl_nodes *nodes;
    struct rl_request *request; /* one per node */
    unsigned references;        /* the owner's, and one per request in flight or kept */
    unsigned stands_for;        /* how many requests one of its requests stands for: more than one in a carrier */
    bool grants;                /* the nodes must prove their grants: see attest.h */
    bool plain;                 /* OK in reply is a grant; nil, if it */
    bool gets;                  /* is sent as SET with GET */
    bool urgent;      /* the requests keep held locks: they overtake those that the nodes' windows hold back */
    bool proves_late; /* no grant is expected: the proof is requested only of nodes that have granted */
};

/* One reference, the caller's. request: memory for one per node. is_undo: the requests delete keys. */
void rl_fanout_init(struct rl_fanout *fanout, const struct rl_fanout_type *type, struct rl_nodes *nodes,
                    struct rl_request *request, bool is_undo);

void rl_fanout_ref(struct rl_fanout *fanout);
void rl_fanout_unref(struct rl_fanout *fanout);

/* Sends a command, if it is formatted. Returns the nodes that it was not sent to, because their
 * connections do not accept it, or because the command is not formatted. */
quorum_nodes rl_fanout_send(struct rl_fanout *fanout, quorum_nodes nodes, const struct rl_command *command);

/* Keeps a request, which is sent by resend() when the node is connected again. */
void rl_fanout_keep(struct rl_fanout *fanout, unsigned node);

/* For answered(): holds the grant back until the node has shown its marker. */
void rl_fanout_await_proof(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node);

/*
 * A carrier: one command to some nodes that stands for the requests of several fan-outs, of one loop turn and by one
 * script. A node replies with a part for each. The carrier passes the part on as the reply to that fan-out's request,
 * and any other answer to all of them: for them it is as if each had sent its request itself, and they count, time out
 * and end by themselves. It counts nothing.
 *
 * A fan-out sends its own request where the command of all was refused for one of them, or by a node that does not know
 * the script, or has found no memory.
 */
#define RL_CARRIER_MOST 64 /* more hardly make it cheaper */

/* Formats the command of these fan-outs; of one it is what its resend() sends. false: no memory. */
typedef bool rl_carrier_format(struct rl_fanout *const *member, unsigned count, bool use_eval,
                               struct rl_command *command);

/* How the nodes get the command: all at once, or one after the other, each when the one before has answered. */
struct rl_carrier_turns {
    quorum_duration end; /* when all remaining nodes get it at once; 0: all do now */
    unsigned first;      /* the first node */
};

/* Sends the command to these nodes. A request that could not be sent ends as broken. */
void rl_carrier_send(struct rl_fanout *const *member, unsigned count, quorum_nodes nodes, rl_carrier_format *format,
                     const struct rl_carrier_turns *turns);

#endif
