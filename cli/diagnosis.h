/* What is wrong with a deployment, and what to do about each thing. No output. */
#ifndef CLI_DIAGNOSIS_H
#define CLI_DIAGNOSIS_H

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stdint.h>

enum cli_severity { CLI_NOTE, CLI_WARNING, CLI_CRITICAL };

struct cli_finding {
    enum cli_severity severity;
    char name[24];    /* "unreachable", or as redlock_finding_name() has it */
    char text[320];   /* what is so */
    char remedy[768]; /* what to do about it */
};

enum { CLI_FINDINGS_MAX = 14 };

struct cli_diagnosed_node {
    redlock_node_status status;
    uint32_t round_trip_us; /* 0: none */
    bool works;             /* it would grant a lock now */
    unsigned count;
    struct cli_finding finding[CLI_FINDINGS_MAX];
};

struct cli_diagnosis {
    enum cli_severity severity; /* the whole: NOTE is well */
    uint32_t nodes;
    uint32_t quorum;
    uint32_t working;
    int64_t recovers_ms; /* when enough of them are only in quarantine: how long until a majority works; else 0 */
    unsigned count;      /* things that concern all nodes together */
    struct cli_finding finding[CLI_FINDINGS_MAX];
    struct cli_diagnosed_node node[REDLOCK_NODES_MAX];
};

/* Asks the nodes, as a holder of locks on this resource would, and judges. options: the client's. */
void cli_diagnose(redlock_client *client, const redlock_options *options, const char *resource,
                  struct cli_diagnosis *diagnosis, redlock_result *result);

#endif
