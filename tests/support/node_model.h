/*
 * A model of one Redis server. It executes commands, and the library's own scripts, in a Lua interpreter, which all
 * servers share: one thread at a time may call these functions. It has no sockets and no clock: the caller passes bytes
 * and time with each call.
 */
#ifndef TESTS_SUPPORT_NODE_MODEL_H
#define TESTS_SUPPORT_NODE_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <strings.h>

#include "support/resp.h"

/* ------------------------------------------------------------------------------------------------------------- keys */

/* The data of a server (keyspace.lua). A zeroed struct is an empty one. */
struct sim_keyspace {
    int keys; /* a reference to the table; 0: none yet */
};

void sim_keyspace_clear(struct sim_keyspace *space);
/* revived: see the field of the keys. Both may be the same. */
void sim_keyspace_copy(struct sim_keyspace *to, struct sim_keyspace *from, bool revived);

/* Removes each key with probability 1/2, by the seed. Returns the number of removed keys. */
unsigned sim_keyspace_evict(struct sim_keyspace *space, uint64_t seed);

/* Executes a command on the keys and writes its reply as RESP. microseconds: the node's clock. */
void sim_keyspace_execute(struct sim_keyspace *space, size_t count, const struct resp_argument *words,
                          int64_t microseconds, struct bytes *reply);

/* Returns false if there is no such string. The value is valid until the next change. */
bool sim_keyspace_get(struct sim_keyspace *space, const char *name, int64_t microseconds, struct resp_argument *value);

#define SIM_NO_EXPIRY INT64_MAX

/* A string, or one member of a hash or a sorted set: the value is its name. */
struct sim_key {
    struct resp_argument name, value;
    int64_t ends; /* ms of the node's clock: gone when the clock shows more. The score of a sorted set's member */
    bool revived; /* restored from a snapshot: changes since then are lost */
};

void sim_keyspace_each(struct sim_keyspace *space, void (*see)(const struct sim_key *key, void *arg), void *arg);

/* Compares without regard to case. The size and the first letter distinguish most words early. */
static inline bool sim_text_is(struct resp_argument text, const char *word)
{
    return text.length == strlen(word) && (text.length == 0 || ((text.data[0] ^ word[0]) & ~32) == 0) &&
           strncasecmp(text.data, word, text.length) == 0;
}

/* ----------------------------------------------------------------------------------------------------------- server */

#define SIM_CHANNEL_SIZE 160

/* The server's state for one connection. */
struct sim_session {
    int64_t id;
    char channel[SIM_CHANNEL_SIZE]; /* the channel it is subscribed to; "" for none */
};

struct sim_server;

/* Effects of a command beyond its keys. publish returns the number of receivers. */
struct sim_server_hooks {
    long long (*publish)(struct sim_server *server, struct resp_argument channel, struct resp_argument text);
    bool (*kill)(struct sim_server *server, int64_t id); /* false: no such connection */
};

struct sim_field {
    const char *name, *value;
};

struct sim_server {
    struct sim_keyspace keys;
    char run_id[41];
    bool replica;
    char replid[41];     /* master_replid */
    char history[41];    /* master_replid2: of the data that it took over last */
    uint64_t evicted;    /* keys */
    bool evicts;         /* its maxmemory-policy allows eviction */
    uint64_t swaps;      /* SWAPDB calls */
    int64_t last_id;     /* last connection ID */
    uint32_t scripts;    /* bits: the scripts that it knows */
    const char *refusal; /* the error that it returns for every command except those about the connection; NULL: none */
    const struct sim_server_hooks *hooks;
    const struct sim_field *lies; /* of INFO, in place of its own fields or beside them; ended by {NULL}. NULL: none */
};

/* Executes one command and writes its reply. microseconds: the server's wall clock. */
void sim_server_execute(struct sim_server *server, struct sim_session *session, size_t count,
                        const struct resp_argument *words, int64_t microseconds, struct bytes *reply);

/* Errors inside scripts that no simulated fault explains: bugs of the library's scripts or of the model. */
extern unsigned sim_script_errors;
extern char sim_script_error[256];

void sim_scripts_close(void);

/* The name of a script from its hash or its text; the word itself if it is no script. */
struct resp_argument sim_script_name(struct resp_argument word);

#endif
