/* A healthy Redis node for the fake server: the model of node_model.h, with logins and a clock that may be wrong. It executes the library's scripts in a Lua interpreter, unless a test's handler replaces them. */
#ifndef TESTS_SUPPORT_FAKE_NODE_H
#define TESTS_SUPPORT_FAKE_NODE_H

#include "bytes.h"
#include "keyspace.h"
#include "resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_node;
struct fake_server;
struct fake_connection;

/* INFO's master_replid */
#define FAKE_HISTORY "0123456789abcdef0123456789abcdef01234567"

struct fake_script_call {
    struct fake_node *node; /* may be read, and changed with the functions below */
    const char *script;     /* its text, also for a call by digest */
    size_t key_count;
    const struct resp_argument *keys;
    size_t argument_count;
    const struct resp_argument *arguments; /* they follow the keys */
    struct bytes *reply;                   /* write one RESP reply here, with resp_write_…() */
    void *arg;
};

typedef void fake_script_handler(const struct fake_script_call *call);

/* The default handler: executes the script. */
fake_script_handler fake_script_run;

/* Returns NULL if the key does not exist or has expired. The result is valid until the node changes. */
const struct sim_key *fake_node_find(struct fake_node *node, const struct resp_argument *name);
/* A negative ttl_ms means no expiry. */
void fake_node_set(struct fake_node *node, const struct resp_argument *name, const void *value, size_t length,
                   int64_t ttl_ms);
void fake_node_delete(struct fake_node *node, const struct resp_argument *name);
/* As PTTL: -2 if the key does not exist, -1 without expiry. */
int64_t fake_node_pttl(struct fake_node *node, const struct resp_argument *name);
/* The node's wall clock in microseconds. */
int64_t fake_node_clock_us(const struct fake_node *node);

/* For the fake server, not for handlers. */
struct fake_node *fake_node_new(struct fake_server *server);
void fake_node_free(struct fake_node *node);
void fake_node_new_run_id(struct fake_node *node);
void fake_node_forget_keys(struct fake_node *node);
void fake_node_forget_scripts(struct fake_node *node);
void fake_node_set_info(struct fake_node *node, const char *field, const char *value);
void fake_node_set_clock_offset_us(struct fake_node *node, int64_t offset_us);
void fake_node_set_script_handler(struct fake_node *node, fake_script_handler *handler, void *arg);
size_t fake_node_keys_left(struct fake_node *node, const char *const *except);
/* Writes the reply. */
void fake_node_execute(struct fake_node *node, struct fake_connection *connection, const struct resp_command *command,
                       struct bytes *reply);

#endif
