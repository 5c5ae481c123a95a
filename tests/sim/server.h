/*
 * A model of one Redis server: executes commands, and the very scripts the library ships, in an interpreter of the
 * language they are written in. It has no sockets and no clock: bytes and time come in with each call.
 */
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "keyspace.h"

#define SIM_CHANNEL_SIZE 160
#define SIM_WORDS_MAX    512

/* What the server knows of one connection. */
struct sim_session {
    int64_t id;
    char channel[SIM_CHANNEL_SIZE]; /* that it listens to; "" none */
};

struct sim_server;

/* What a command does beyond its keys. */
struct sim_server_hooks {
    long long (*publish)(struct sim_server *server, struct sim_text channel, struct sim_text text); /* to how many */
    bool (*kill)(struct sim_server *server, int64_t id); /* a connection; false: there is none */
};

struct sim_server {
    struct sim_keyspace keys;
    char run_id[41];
    bool replica;
    char history[41];    /* master_replid2: of the data it took over last */
    uint64_t evicted;    /* keys */
    bool evicts;         /* its maxmemory-policy does */
    uint64_t swaps;      /* SWAPDB calls */
    int64_t last_id;     /* of connections */
    uint32_t scripts;    /* bits: that it knows */
    const char *refusal; /* an error that answers every command that is not about the connection; NULL */
    const struct sim_server_hooks *hooks;
};

/* Executes one command and writes its reply. microseconds: the server's wall clock. */
void sim_server_execute(struct sim_server *server, struct sim_session *session, size_t count,
                        const struct sim_text *words, int64_t microseconds, struct sim_bytes *reply);

/*
 * Reads one command of what a client sent. 0: it is not complete yet. Else how many bytes it takes; words point into them.
 */
size_t sim_server_parse(const char *bytes, size_t size, struct sim_text *words, size_t *count);

/* Errors in scripts themselves, which no fault of a test explains: of the library's scripts, or of the model. */
extern unsigned sim_script_errors;
extern char sim_script_error[256];

void sim_scripts_close(void);

/* The name of a script that is called by its hash or its text; the word itself when it is none. */
struct sim_text sim_script_name(struct sim_text word);

#endif
