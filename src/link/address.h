/* Parses the user's list of nodes. No I/O. */
#ifndef RL_ADDRESS_H
#define RL_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock/redlock.h"

#define RL_HOST_SIZE   256 /* a DNS name has at most 253 bytes */
#define RL_PATH_SIZE   108 /* sun_path */
#define RL_SECRET_SIZE 512 /* user or password */

/* One node's address. Plain data; wipe it after use because of the password. */
struct rl_address {
    char host[RL_HOST_SIZE];       /* name or number, without brackets; "" for a unix socket */
    char path[RL_PATH_SIZE];       /* of a unix socket; "" for TCP */
    char name[RL_HOST_SIZE + 8];   /* host:port, [v6]:port or the path: for messages, and to find duplicates */
    char user[RL_SECRET_SIZE];     /* "" for none */
    char password[RL_SECRET_SIZE]; /* "" for none */
    uint16_t port;
    bool tls;
    bool has_password;           /* the URI has a password: options and callback are not used */
    int64_t database;            /* -1: the options' */
    uint32_t timeout_ms;         /* 0: the options' */
    uint32_t connect_timeout_ms; /* 0: the options' */
};

/*
 * Parses a list of nodes into up to REDLOCK_NODES_MAX addresses and returns their number. On an error it returns 0 and
 * writes the node and the reason to `error`, never with a password.
 */
unsigned rl_address_list(const char *list, struct rl_address addresses[REDLOCK_NODES_MAX], char *error,
                         size_t error_size);

#endif
