/* The model of a healthy Redis node for the fake server: keys with values and expiry, scripts, INFO, TIME. It has the
 * commands that the library sends to work: SET [NX] [PX], GET, GETRANGE, DEL, TIME, INFO, SCRIPT LOAD, EVAL and EVALSHA,
 * which the test's handler executes. The commands about one connection (AUTH, CLIENT, SUBSCRIBE ...) are in
 * fake_session.c. */
#ifndef TESTS_SUPPORT_FAKE_NODE_H
#define TESTS_SUPPORT_FAKE_NODE_H

#include "bytes.h"
#include "resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_node;

/* INFO's master_replid */
#define FAKE_HISTORY "0123456789abcdef0123456789abcdef01234567"

struct fake_script_call {
    struct fake_node *node; /* may be read, and changed with the functions below */
    unsigned database;
    const char *script; /* its text, also for a call by digest */
    size_t key_count;
    const struct resp_argument *keys;
    size_t argument_count;
    const struct resp_argument *arguments;
    struct bytes *reply; /* write one RESP reply here, with resp_write_…() */
    void *arg;
};

typedef void fake_script_handler(const struct fake_script_call *call);

/* A handler for the usual release script: deletes KEYS[1] if its value is ARGV[1]; returns 1 or 0. */
fake_script_handler fake_script_compare_and_delete;

struct fake_key {
    char *name;
    size_t name_length;
    char *value;
    size_t value_length;
    int64_t expires_us; /* by the node's clock; INT64_MAX: never */
    unsigned database;
};

/* Returns NULL if the key does not exist or has expired. The result is valid until the node changes. */
const struct fake_key *fake_node_find(struct fake_node *node, unsigned database, const struct resp_argument *name);
/* A negative ttl_ms means no expiry. */
void fake_node_set(struct fake_node *node, unsigned database, const struct resp_argument *name, const void *value,
                   size_t length, int64_t ttl_ms);
bool fake_node_delete(struct fake_node *node, unsigned database, const struct resp_argument *name);
/* As PTTL: -2 if the key does not exist, -1 without expiry. */
int64_t fake_node_pttl(struct fake_node *node, unsigned database, const struct resp_argument *name);
/* The node's wall clock in microseconds. */
int64_t fake_node_clock_us(const struct fake_node *node);

/* For the fake server, not for handlers. */
struct fake_node *fake_node_new(void);
void fake_node_free(struct fake_node *node);
void fake_node_new_run_id(struct fake_node *node);
void fake_node_forget_keys(struct fake_node *node);
void fake_node_forget_scripts(struct fake_node *node);
void fake_node_set_info(struct fake_node *node, const char *field, const char *value);
void fake_node_set_clock_offset_us(struct fake_node *node, int64_t offset_us);
void fake_node_set_script_handler(struct fake_node *node, fake_script_handler *handler, void *arg);
size_t fake_node_keys_left(struct fake_node *node, const char *const *except);
/* Writes the reply. Returns false if the node has no such command. */
bool fake_node_execute(struct fake_node *node, unsigned database, const struct resp_command *command,
                       struct bytes *reply);

#endif
