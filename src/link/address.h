/* Parses the user's list of nodes, and the witnesses of one. No I/O. */
#ifndef RL_ADDRESS_H
#define RL_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock/redlock.h"

#define RL_HOST_SIZE   256 /* a DNS name has at most 253 bytes */
#define RL_PATH_SIZE   108 /* sun_path */
#define RL_SECRET_SIZE 512 /* user or password */
#define RL_MASTER_SIZE 64  /* the name by which Sentinels know a master, or {tag} */

/* One node's address. Plain data; wipe it after use because of the password. */
struct rl_address {
    char host[RL_HOST_SIZE];      /* name or number, without brackets; "" for a unix socket */
    char path[RL_PATH_SIZE];      /* of a unix socket; "" for TCP */
    char name[RL_HOST_SIZE + 96]; /* host:port, [v6]:port or the path: for messages, and to find duplicates */
    char master[RL_MASTER_SIZE];  /* "": the address is known, or in a cluster, the tag is not yet */
    unsigned witness_count;       /* 0: the address is known */
    bool cluster;                 /* the witnesses are servers of a Redis Cluster; otherwise Sentinels */
    uint16_t port;
    bool tls;
    bool has_password;           /* the URI has a password: options and callback are not used */
    int64_t database;            /* -1: the options' */
    uint32_t timeout_ms;         /* 0: the options' */
    uint32_t connect_timeout_ms; /* 0: the options' */
    /* A copy of an address that has neither a password nor witnesses ends here: see rl_address_size(). */
    char user[RL_SECRET_SIZE];     /* "" for none; of Sentinels, if there are any: the master's is in the options */
    char password[RL_SECRET_SIZE]; /* "" for none */
    char witnesses[1024];          /* those that know it, each host:port and a space */
};

/*
 * Parses a list of nodes and returns their number: at most REDLOCK_NODES_MAX, and at most one more than the list has
 * commas. On an error it returns 0 and writes the node and the reason to `error`, never with a password.
 */
unsigned rl_address_list(const char *list, struct rl_address addresses[REDLOCK_NODES_MAX], char *error,
                         size_t error_size);

/* How many bytes of it to keep. */
size_t rl_address_size(const struct rl_address *address);

/* Wipes the secrets of an address, or of such a copy. */
void rl_address_wipe(struct rl_address *address);

/* The address of one of the node's witnesses, with the credentials of Sentinels. */
void rl_address_witness(const struct rl_address *node, unsigned index, struct rl_address *witness);

/* Any host and port: its name follows. */
void rl_address_set(struct rl_address *address, const char *host, size_t size, uint16_t port);

/* The tag of a cluster's node: its name follows. */
void rl_address_tag(struct rl_address *address, const char *tag, size_t size);

#endif
