/* Where the nodes are: the text a user gives, taken apart. No I/O. */
#ifndef RL_ADDRESS_H
#define RL_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock/redlock.h"

#define RL_HOST_SIZE   256 /* a DNS name has at most 253 bytes */
#define RL_PATH_SIZE   108 /* sun_path */
#define RL_SECRET_SIZE 512 /* user or password */

/* One node. Plain data; wiped after use because of the password. */
struct rl_address {
    char host[RL_HOST_SIZE]; /* name or number, without brackets; "" for a unix socket */
    char path[RL_PATH_SIZE]; /* of a unix socket; "" for TCP */
    char name[RL_HOST_SIZE +
              8];              /* what people are shown: host:port, [v6]:port or the path; also tells two nodes apart */
    char user[RL_SECRET_SIZE]; /* "" for none */
    char password[RL_SECRET_SIZE]; /* "" for none */
    uint16_t port;
    bool tls;
    bool has_password;           /* its URI says how to authenticate: neither options nor callback are asked */
    int64_t database;            /* -1: as the options say */
    uint32_t timeout_ms;         /* 0: as the options say */
    uint32_t connect_timeout_ms; /* 0: as the options say */
};

/*
 * Takes a list of nodes apart into up to REDLOCK_NODES_MAX addresses. Returns their number, or 0 and what is wrong with
 * which of them in `error`, never with a password in it.
 */
unsigned rl_address_list(const char *list, struct rl_address addresses[REDLOCK_NODES_MAX], char *error,
                         size_t error_size);

#endif
