/* The problems of a deployment, with remedies. Prints nothing. */
#ifndef CLI_DIAGNOSIS_H
#define CLI_DIAGNOSIS_H

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stdint.h>

enum cli_severity { CLI_NOTE, CLI_WARNING, CLI_CRITICAL };

struct cli_finding {
    enum cli_severity severity;
    char name[24];    /* "unreachable", or redlock_finding_name() */
    char text[320];   /* the problem */
    char remedy[768]; /* the remedy */
};

enum { CLI_FINDINGS_MAX = 18 };

struct cli_findings {
    unsigned count;
    struct cli_finding finding[CLI_FINDINGS_MAX];
};

struct cli_diagnosed_node {
    redlock_node_status status;
    uint32_t round_trip_us; /* 0: none */
    /* What another client has found there, where its master changes a name, otherwise a run_id; "": the same server. */
    char other_server[128];
    bool works;   /* it would grant a lock now */
    bool refuses; /* the server refuses every new lock, in quarantine or not */
    struct cli_findings findings;
};

struct cli_diagnosis {
    enum cli_severity severity; /* of the deployment; NOTE: no problem */
    uint32_t nodes;
    uint32_t quorum;
    uint32_t working;
    int64_t recovers_ms;          /* if quarantines prevent a majority: until there is one; otherwise 0 */
    struct cli_findings findings; /* about all nodes together */
    struct cli_diagnosed_node node[REDLOCK_NODES_MAX];
};

/* Checks the nodes for locks on this resource. nodes and options: the client's. */
void cli_diagnose(redlock_client *client, const char *nodes, const redlock_options *options, const char *resource,
                  struct cli_diagnosis *diagnosis, redlock_result *result);

#endif
