/* A floor: the least work of a lock over N masters, as a lower bound. Send the acquire to all nodes, continue at the
 * majority's grant, send the release to all, end at the majority's reply. There are no deadlines, no reconnect and no
 * validity check.
 *
 * A floor consists of the votes (floor.c), the commands (floor_plain.c, floor_fence.c) and a transport (floor_raw.c,
 * or floor_hiredis.c with an adapter between hiredis and libev). */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <stdbool.h>
#include <stddef.h>

enum { FLOOR_NODES_MAX = 32, FLOOR_TOKEN_LENGTH = 40, FLOOR_WORDS_MAX = 16, FLOOR_FENCE_SIZE = 24, FLOOR_HELPERS = 4 };

struct ev_loop;
struct redisAsyncContext;

struct floor_lock {
    const char *resource;
    size_t resource_length;
    char token[FLOOR_TOKEN_LENGTH]; /* no final NUL */
    char fence[FLOOR_FENCE_SIZE];   /* the fencing token, for floors that have one */
    char helper[FLOOR_HELPERS][64]; /* the keys beside the lock's, for scripts that name them */
};

struct floor_command {
    int count;
    const char *words[FLOOR_WORDS_MAX];
    size_t lengths[FLOOR_WORDS_MAX];
};

static inline void floor_word(struct floor_command *command, const char *word, size_t length)
{
    command->words[command->count] = word;
    command->lengths[command->count++] = length;
}

/* ---------------------------------------------------------------------------------------------------------- commands */

/* Scripts that are loaded on every node before the first lock, and their digests. */
extern const unsigned floor_script_count;
const char *floor_script(unsigned number);
void floor_script_loaded(const char *sha1);

/* They fill an empty command. Its words live as long as the lock. */
void floor_acquire(struct floor_command *command, struct floor_lock *lock);
void floor_release(struct floor_command *command, struct floor_lock *lock);

/* type: the first byte of the reply's RESP encoding; number: of an integer. */
bool floor_is_grant(char type, long long number);

/* --------------------------------------------------------------------------------------------------------- transport */

enum floor_step { FLOOR_ACQUIRE, FLOOR_RELEASE };

struct floor_attempt;

/* Connects to one more node. */
void transport_connect(struct ev_loop *loop, const char *host, int port);

/* Loads the scripts on all nodes and waits until all have confirmed. */
void transport_load(struct ev_loop *loop);

/* Sends the command to all nodes. Each reply is passed to floor_replied. Returns the number of nodes. */
unsigned transport_send(struct floor_attempt *attempt, enum floor_step step, const struct floor_command *command);

/* Waits for replies in transit, and disconnects. */
void transport_close(struct ev_loop *loop);

/* type 0: the connection broke. */
void floor_replied(struct floor_attempt *attempt, enum floor_step step, char type, long long number);

/* The adapter between hiredis and libev, for floor_hiredis.c. */
void floor_attach(struct ev_loop *loop, struct redisAsyncContext *connection);

#endif
