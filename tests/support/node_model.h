/*
 * A model of one Redis server. It executes commands, and the library's own scripts in a Lua interpreter. It has no
 * sockets and no clock: the caller passes bytes and time with each call.
 */
#ifndef TESTS_SUPPORT_NODE_MODEL_H
#define TESTS_SUPPORT_NODE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "keyspace.h"

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
    /* NULL, or what replies to INFO instead of the model. */
    void (*info)(struct sim_server *server, size_t count, const struct resp_argument *words, struct bytes *reply);
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
