/* A healthy Redis node for the fake server: the model of node_model.h, with logins and a clock that may be wrong. It
 * executes the library's scripts in a Lua interpreter. */
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

/* Returns NULL if the key does not exist or has expired. The result is valid until the node changes. */
const struct sim_key *fake_node_find(struct fake_node *node, const struct resp_argument *name);
/* A negative ttl_ms means no expiry. */
void fake_node_set(struct fake_node *node, const struct resp_argument *name, const void *value, size_t length,
                   int64_t ttl_ms);
void fake_node_delete(struct fake_node *node, const struct resp_argument *name);
/* As PTTL: -2 if the key does not exist, -1 without expiry. */
int64_t fake_node_pttl(struct fake_node *node, const struct resp_argument *name);
struct fake_node *fake_node_new(struct fake_server *server);
void fake_node_free(struct fake_node *node);
void fake_node_new_run_id(struct fake_node *node);
void fake_node_forget_keys(struct fake_node *node);
void fake_node_forget_scripts(struct fake_node *node);
void fake_node_set_info(struct fake_node *node, const char *field, const char *value);
void fake_node_set_clock_offset_us(struct fake_node *node, int64_t offset_us);
size_t fake_node_keys_left(struct fake_node *node, const char *const *except);
/* Writes the reply. */
void fake_node_execute(struct fake_node *node, struct fake_connection *connection, const struct resp_command *command,
                       struct bytes *reply);

#endif
