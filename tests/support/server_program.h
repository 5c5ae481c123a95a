/* The server that tests start: $REDLOCK_SERVER_PROGRAM, otherwise redis-server, or valkey-server if only that is
 * installed. */
#ifndef TESTS_SUPPORT_SERVER_PROGRAM_H
#define TESTS_SUPPORT_SERVER_PROGRAM_H

#include <stdbool.h>

/* Features of a server, by its version. Valkey counts as Redis 7.2, of which it is a fork. */
enum server_feature {
    SERVER_ACL = 600,            /* users and their rights */
    SERVER_CHANNEL_ACL = 602,    /* rights on channels: "&pattern" */
    SERVER_SUBCOMMAND_ACL = 700, /* a single subcommand can be revoked: "-client|id" */
    SERVER_CLUSTER_PORT = 700,   /* the port of the cluster bus can be chosen */
    SERVER_SET_NX_GET = 700,     /* SET with both NX and GET */
    SERVER_AS_MODELLED = 700     /* replies as the model of a node in tests/simulation does */
};

/* Its name or path. */
const char *server_program(void);

/* False when it cannot be run. */
bool server_program_available(void);

bool server_program_has(enum server_feature feature);

/* Why a test is skipped, and how to install a server. */
const char *server_program_missing(void);

#endif
