/* The server that tests start: $REDLOCK_SERVER_PROGRAM, or redis-server, or valkey-server where only that is installed. */
#ifndef TESTS_SUPPORT_SERVER_PROGRAM_H
#define TESTS_SUPPORT_SERVER_PROGRAM_H

#include <stdbool.h>

/* What a server offers, by its version. A Valkey counts as Redis 7.2, of which it is a fork. */
enum server_feature {
    SERVER_ACL = 600,            /* users and their rights */
    SERVER_CHANNEL_ACL = 602,    /* rights on channels: "&pattern" */
    SERVER_SUBCOMMAND_ACL = 700, /* a single subcommand can be taken away: "-client|id" */
    SERVER_REPEATED_SAVE = 700,  /* a second --save on the command line replaces --save "" */
    SERVER_AS_MODELLED = 700     /* answers as the model of a node in tests/sim does */
};

/* Its name or path. */
const char *server_program(void);

/* False when it cannot be run. */
bool server_program_available(void);

bool server_program_has(enum server_feature feature);

/* What is in its answer to a wrong password. */
const char *server_program_wrong_password(void);

/* Why a program is skipped, and what to do about it. */
const char *server_program_missing(void);

#endif
