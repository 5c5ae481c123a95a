/* The attempts to connect to one server: which address its name leads to, which is next and when, why the last one failed,
 * and the credentials. */
#ifndef RL_ATTEMPTS_H
#define RL_ATTEMPTS_H

#include <stdbool.h>

#include "quorum/time.h"
#include "src/core/core.h"
#include "src/link/address.h"
#include "src/link/link.h"
#include "src/node/command.h"

#define RL_NUMERIC_SIZE 64 /* an IPv6 address with its scope */

struct rl_attempts {
    struct rl_resolution *resolution; /* in progress, or the last one */
    unsigned address;                 /* index of the resolved address in use */
    unsigned failures;                /* attempts in a row that did not become ready */
    bool permanent;                   /* the last failure lasts until an operator acts */
    char error[RL_LINK_TEXT_SIZE];    /* why it is not ready; "" before the end of the first attempt */
    char peer[RL_NUMERIC_SIZE];       /* the address of the present or the last connection */
    quorum_duration timeout;          /* for connect and handshake */
    quorum_time connected_at;
    quorum_time ready_since; /* 0: never ready */
};

/* The next attempt must resolve the name first. */
bool rl_attempts_need_name(const struct rl_attempts *attempts, const struct rl_address *address);

/* Starts to resolve the name. false: no thread or no memory. */
bool rl_attempts_resolve(struct rl_attempts *attempts, const struct rl_address *address, struct rl_wakeup *wakeup);

/* true once the name is resolved, or could not be: then *error says why; otherwise it is "". */
bool rl_attempts_take_name(struct rl_attempts *attempts, const char **error);

/* Writes the address of this attempt to `peer` and returns the target. */
struct rl_link_target rl_attempts_target(struct rl_attempts *attempts, const struct rl_address *address,
                                         struct rl_tls *tls);

/* connecting: the failure is of this address, and the name may have another. Returns when to try again. */
quorum_time rl_attempts_failed(struct rl_attempts *attempts, struct rl_core *core, bool connecting, bool was_ready);

void rl_attempts_succeeded(struct rl_attempts *attempts, quorum_time now);

void rl_attempts_end(struct rl_attempts *attempts);

#define RL_USER_SIZE 128

/* Builds the AUTH command for this address, for each of its connections; user: for messages, truncated. 1: built, 0: not
 * needed, -1: no credentials or no memory. */
int rl_attempts_auth(const redlock_options *options, const struct rl_address *address, struct rl_command *command,
                     char user[RL_USER_SIZE]);
void rl_attempts_auth_free(struct rl_command *command);

#endif
