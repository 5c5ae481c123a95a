/*
 * A world: N model nodes, M client processes, the network between them, and their faults. It runs in one thread on a
 * virtual clock, and a seed determines it. The processes run the production code of the library and hiredis. The
 * simulator replaces the system (sockets, clocks, random numbers) and libev.
 */
#ifndef SIMULATION_WORLD_H
#define SIMULATION_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "quorum/time.h"
#include "redlock/redlock.h"
#include "rules/random.h"
#include "support/node_model.h"
#include "torture/check.h"

#define SIM_NODES_MAX     25 /* hosts: five nodes with two servers and three sentinels each */
#define SIM_PROCESSES_MAX 8
#define SIM_RESOURCES_MAX 8
#define SIM_CONTENDED     3                       /* with up to this many resources clients contend most of the time */
#define SIM_SEMAPHORE     SIM_RESOURCES_MAX       /* number of the resource that is a semaphore */
#define SIM_NAMES         (SIM_RESOURCES_MAX + 1) /* number of all resources */
#define SIM_SLOTS_MAX     4

/* A process on an idle machine must act within this time. */
#define SIM_PROMPT (10 * QUORUM_MILLISECOND)

/* Faults within the assumptions of the guarantees ... */
enum sim_fault {
    SIM_FAULT_BREAK, /* a connection breaks, before or after its commands took effect; one end, both or none see it */
    SIM_FAULT_PARTITION, /* packets between a client and a node, or all packets of one, are held up, one way or both */
    SIM_FAULT_HANG,      /* a node stops, and executes its pending requests later */
    SIM_FAULT_RESTART,   /* a node's process dies, and comes back with its data, without it, or with an old copy */
    SIM_FAULT_PROMOTE,   /* a replica that missed the last writes takes over from a node that died */
    SIM_FAULT_REFUSE,    /* a node replies with errors for a while */
    SIM_FAULT_UNSCRIPT,  /* a node loses its scripts */
    SIM_FAULT_PAUSE,     /* a client's process stops between two turns of its loop */
    SIM_FAULT_LAG,       /* the same, in the middle of a turn */
    SIM_FAULT_CRASH,     /* a client's process dies */
    SIM_FAULT_CLOSE,     /* a client is closed in any state */
    SIM_FAULT_CANCEL,    /* operations are cancelled */
    SIM_FAULT_SLOW,      /* a node replies slowly for a while */
    SIM_FAULT_DRIFT,     /* clocks run at different rates, within the drift */
    SIM_FAULT_PARTIAL,   /* sockets accept only a part of each write */
    SIM_FAULT_FLUSH,     /* a node is flushed under open connections */
    SIM_FAULT_FAILOVER,  /* a node becomes a replica of an old copy of itself, then a master again; connections stay */
    SIM_FAULT_SWAP,      /* a node's databases are exchanged under open connections */
    SIM_FAULT_EVICT,     /* a node with an evicting maxmemory-policy evicts keys */
    SIM_FAULT_FOREIGN,   /* a client of another library holds a lock, and publishes nothing when it releases */
    SIM_FAULT_JUMP,      /* a node's clock jumps while no client looks; each has a sample of it from before */
    SIM_FAULT_ELECT,     /* a node's sentinels elect a leader for a failover, or one is made by hand */
    SIM_FAULTS
};

extern const char *const sim_fault_names[SIM_FAULTS];

/* ... and faults beyond them, one kind at a time. */
enum sim_beyond {
    SIM_WITHIN,
    SIM_BEYOND_RATE,      /* nodes' clocks run faster than the drift allows for */
    SIM_BEYOND_JUMP,      /* nodes' clocks jump */
    SIM_BEYOND_STOP,      /* clients' clocks stop: a machine was suspended unnoticed */
    SIM_BEYOND_UNGUARDED, /* nodes lose keys, and the guard is off */
    SIM_BEYOND_MAX_TTL,   /* some clients take locks with a larger ttl than other clients' max_ttl_ms */
    SIM_BEYONDS
};

extern const char *const sim_beyond_names[SIM_BEYONDS];

#define SIM_ALL_FAULTS (SIM_FAULTS + SIM_BEYONDS)

enum sim_invariant {
    SIM_SOUND,
    SIM_EXCLUSION,    /* G1 */
    SIM_FENCING,      /* G2 */
    SIM_TOLD,         /* G3 */
    SIM_BOUNDED,      /* G4 */
    SIM_NOTHING_LEFT, /* G5 */
    SIM_LIVE,         /* G6 */
    SIM_ONCE,         /* G7 */
    SIM_SPARING,      /* G8 */
    SIM_CLOCKS,       /* no clock may be reported as jumped or stopped */
    SIM_SCRIPT,       /* a script failed by itself */
    SIM_INVARIANTS
};

extern const char *const sim_invariant_names[SIM_INVARIANTS];

/* Situations that the rules are made for. A long run must meet each of them. */
#define SIM_SITUATIONS_MET(SITUATION)                                                                                  \
    SITUATION(RENEWAL, "renewals")                                                                                     \
    SITUATION(IN_TURN, "renewals in turn that moved an end")                                                           \
    SITUATION(EARLY_RENEWAL, "renewals on a master promoted a moment ago")                                             \
    SITUATION(HEAL, "heals")                                                                                           \
    SITUATION(BROKEN_HEAL, "heals whose connection broke")                                                             \
    SITUATION(HAND_OVER, "hand-overs")                                                                                 \
    SITUATION(FORGETTING, "hand-overs after a node forgot")                                                            \
    SITUATION(LATE_GRANT, "late grants")                                                                               \
    SITUATION(LATE_UNDO, "undos after a restart")                                                                      \
    SITUATION(QUARANTINE, "quarantines")                                                                               \
    SITUATION(READERS, "readers together")                                                                             \
    SITUATION(MIXED_READERS, "readers with different ttls")                                                            \
    SITUATION(DOWNGRADE, "downgrades")                                                                                 \
    SITUATION(SEVERAL, "locks on several resources")                                                                   \
    SITUATION(PERMIT, "permits")                                                                                       \
    SITUATION(AT_LEAST, "releases before the end of at_least_ms")                                                      \
    SITUATION(FENCE, "fencing tokens")                                                                                 \
    SITUATION(CLOCK_JUMP, "unseen jumps of clocks")

#define SIM_MET(situation, name) SIM_MET_##situation,
enum sim_situation { SIM_SITUATIONS_MET(SIM_MET) SIM_SITUATIONS };

extern const char *const sim_situation_names[SIM_SITUATIONS];

/* ----------------------------------------------------------------------------------------------------------- clocks */

#define SIM_STOPPED (-1000000000)

/* A machine's clock. It runs at its own rate, and may stop or jump. True time is the world's time, which only the simulator
 * knows. */
struct sim_clock {
    quorum_time since;      /* true time at which it showed ... */
    quorum_time shown;      /* ... this */
    int64_t rate;           /* its error in billionths; SIM_STOPPED: the clock is stopped */
    int64_t rate_by_itself; /* the rate to which it returns */
};

#define SIM_BILLION INT64_C(1000000000)

static inline quorum_time sim_clock_read(const struct sim_clock *clock, quorum_time now)
{
    int64_t passed = (int64_t)(now - clock->since);
    int64_t error = passed / SIM_BILLION * clock->rate + passed % SIM_BILLION * clock->rate / SIM_BILLION;
    return clock->shown + (quorum_time)(passed + error);
}

/* Sets the rate from now on. */
static inline void sim_clock_turn(struct sim_clock *clock, quorum_time now, int64_t rate)
{
    clock->shown = sim_clock_read(clock, now);
    clock->since = now;
    clock->rate = rate;
}

static inline void sim_clock_jump(struct sim_clock *clock, quorum_time now, int64_t by)
{
    clock->shown = sim_clock_read(clock, now) + (quorum_time)by;
    clock->since = now;
}

/* The true time at which the clock will show this value; QUORUM_NEVER while it is stopped. */
static inline quorum_time sim_clock_when(const struct sim_clock *clock, quorum_time shown, quorum_time now)
{
    if (sim_clock_read(clock, now) >= shown)
        return now;
    if (clock->rate == SIM_STOPPED)
        return QUORUM_NEVER;
    int64_t left = (int64_t)(shown - sim_clock_read(clock, now)), pace = SIM_BILLION + clock->rate;
    if (left < 0 || left > INT64_MAX / 4)
        return QUORUM_NEVER;
    return now + (quorum_time)(left / pace * SIM_BILLION + left % pace * SIM_BILLION / pace + 1);
}

/* ----------------------------------------------------------------------------------------------------------- events */

struct sim_event {
    quorum_time at;
    uint64_t order; /* order of events at the same time */
    void (*happen)(void *subject, uint64_t datum);
    void *subject;
    uint64_t datum;
};

struct sim_events {
    struct sim_event *heap;
    size_t count;
    size_t capacity;
    uint64_t order;
};

void sim_at(quorum_time at, void (*happen)(void *subject, uint64_t datum), void *subject, uint64_t datum);

/* ---------------------------------------------------------------------------------------------------------- network */

struct sim_process;
struct sim_node;

/* A connection. Each end may be closed without the other end's knowledge. */
struct sim_link {
    struct sim_link *next; /* in the world's list */
    struct sim_link *previous;
    unsigned references; /* of its two ends and of its packets in transit */
    struct sim_process *process;
    struct sim_node *node;
    unsigned life;    /* of the process */
    bool client_open; /* the process has not closed the descriptor */
    bool connected;   /* the process has seen that it is connected */
    int error;        /* of the client's end: ECONNREFUSED, ECONNRESET */
    bool server_open;
    quorum_time held_up_until; /* packets to the node arrive no earlier */
    bool severed;              /* nothing arrives any more, and neither end sees the break */
    struct sim_session session;
    struct bytes inbox; /* arrived at the client's end; unread from `read` on */
    size_t read;
    struct bytes unexecuted; /* arrived at the server's end */
    quorum_time last_up;     /* when the last sent bytes arrive at the node */
    quorum_time last_down;
};

struct sim_node {
    unsigned index;
    struct sim_server server;
    struct sim_keyspace snapshot; /* the data after a restart from an old copy, or of an outdated replica */
    struct sim_keyspace other;    /* database 1 */
    struct sim_clock clock;       /* wall clock */
    quorum_time looked;           /* when a client last sampled the clock, in true time */
    quorum_time forgot;           /* when it last lost keys; 0: never */
    quorum_time promoted;         /* behind Sentinel; 0: never */
    quorum_time restarted;        /* 0: never */
    bool up;
    bool hung;
    quorum_duration slow; /* additional delay */
    unsigned incarnation;
    struct bytes reply; /* being written */
};

#define SIM_SENTINELS 3

/* A node behind Sentinel. */
struct sim_group {
    unsigned master; /* 0, 1: the server that was promoted last */
    unsigned epoch;  /* of the last failover, given up or not */
    unsigned config; /* of the last one that promoted a server */
    unsigned leader;
    unsigned cut; /* bits: sentinels that hear of the failover only when the network is repaired */
    quorum_time cut_until;
    bool busy; /* a failover is in progress */
    struct sim_sentinel {
        unsigned config; /* epoch of the configuration that it knows */
        unsigned named;  /* the server */
    } sentinel[SIM_SENTINELS];
};

/* The network between a process and a node. */
struct sim_path {
    quorum_time up_blocked_until;
    quorum_time down_blocked_until;
};

/* -------------------------------------------------------------------------------------------------------- processes */

enum sim_slot_state { SIM_IDLE, SIM_ACQUIRING, SIM_HOLDING, SIM_EXTENDING, SIM_RELEASING };

struct sim_slot;

/* One call of the library that must be answered exactly once. */
struct sim_operation {
    struct sim_operation *next; /* in the list of all, which live as long as the world: an end may come twice */
    struct sim_process *process;
    struct sim_slot *slot; /* NULL: an operation of the process itself */
    const char *name;
    uint64_t number;     /* 0: it has ended */
    quorum_time least;   /* release: the end of at_least_ms, by the process' clock; 0: none */
    quorum_time started; /* true time */
    quorum_duration within;
    quorum_time latest; /* the latest time for the result, by the process' clock */
};

/* A lock that a process believes it holds. */
struct sim_holding {
    redlock_lock *lock;
    uint32_t resources; /* bits */
    unsigned permits;   /* of the semaphore; otherwise 0 */
    bool shared;
    quorum_time since;    /* true time */
    quorum_time told_end; /* the latest end of validity seen, by the process' clock */
    bool told_failure;    /* the last turn ended with a failed renewal */
    bool lost_told;
    uint64_t fence;       /* its fencing token; 0: none */
    quorum_time promised; /* the latest end in the history */
    unsigned recorded;    /* the lock's number in the history, which its handles share; 0: none */
    uint32_t at_least_ms;
    quorum_time least; /* the end of at_least_ms since the call, by the process' clock; 0: none */
};

static inline bool sim_is_on(const struct sim_holding *holding, unsigned resource)
{
    return holding->resources & 1u << resource;
}

struct sim_slot {
    struct sim_process *process;
    enum sim_slot_state state;
    quorum_time wake; /* by the process' clock; QUORUM_NEVER */
    struct sim_holding holding;
    redlock_cancellation *cancellation;
    quorum_time cancel_at;
    unsigned ttl_ms;
    bool probing;
    unsigned extensions;
};

struct sim_watch;

struct sim_process {
    unsigned index;
    bool alive;
    unsigned life; /* counts its restarts */
    redlock_client *client;
    redlock_client *ending; /* while the client is being closed; freed after a crash */
    struct sim_clock clock; /* CLOCK_BOOTTIME */
    int64_t wall_offset;    /* CLOCK_REALTIME minus true time; wall clocks differ */
    uint64_t entropy;       /* getrandom(2) */
    quorum_time paused_until;
    quorum_time busy_until;   /* true time at which its last action ends */
    uint64_t handed_over;     /* locks that its client got from the queue */
    quorum_time lagged_until; /* the end of the last turn that lagged, or of a pause that is over */
    quorum_duration lag;      /* of the current turn: how far it is ahead of the world's time */
    quorum_time turn_at;      /* planned */
    uint64_t turn_number;     /* of the planned turn; older ones are void */
    bool in_turn;
    bool in_call;            /* inside a call of the library: no callback may be called */
    struct sim_watch *watch; /* its watchers and descriptors */
    struct sim_slot slots[SIM_SLOTS_MAX];
    redlock_options options;
    bool closing;
    bool closed;                                       /* the last callback has been called */
    unsigned under_way;                                /* operations */
    unsigned holds;                                    /* locks */
    enum { SIM_NOTHING, SIM_TRUST, SIM_CLOSE } wanted; /* beside its slots' work */
    uint64_t excused_lives;                            /* bits: lives that may have left keys on the nodes */
    quorum_time spent[SIM_NODES_MAX];                  /* true time by which its requests as a waiter are paid for */
};

/* ------------------------------------------------------------------------------------------------------------ world */

struct sim_config {
    unsigned nodes;
    unsigned processes;
    unsigned resources;
    unsigned slots;
    unsigned operations; /* number of operations before the calm */
    enum sim_beyond beyond;
    uint32_t faults; /* bits */
    uint32_t max_ttl_ms;
    uint32_t ttl_ms[3];    /* the ttls of locks */
    bool idle;             /* most clients are idle for most of the time */
    bool differ;           /* every second client has a smaller max_ttl_ms, which is the ttl of its locks */
    unsigned fence;        /* per mille: with a fencing token */
    unsigned shared;       /* per mille of the acquires: with other readers */
    unsigned several;      /* per mille: on several resources */
    unsigned permits;      /* of the semaphore; 0: there is none */
    unsigned least;        /* per mille of the acquires: with at_least_ms */
    bool exact_walls;      /* the clients' wall clocks are equal */
    bool groups;           /* the nodes are behind Sentinel */
    bool brisk;            /* failovers while short locks are held; every client except one hears of them at once */
    quorum_duration think; /* average */
    quorum_duration hold;
    quorum_duration delay;                       /* minimum delay of a packet */
    quorum_duration jitter;                      /* additional delay, in most cases less */
    unsigned tail;                               /* per mille of the packets that take far longer */
    quorum_duration fault_every[SIM_ALL_FAULTS]; /* on average */
};

/* The process uses only locks of ttl_ms[0], which is its max_ttl_ms. */
bool sim_config_is_short(const struct sim_config *config, unsigned process);

/* The client that set a token. */
#define SIM_AUTHORS      8192
#define SIM_AUTHORS_NEAR 16
struct sim_author {
    char token[12]; /* its first bytes */
    unsigned process;
    unsigned life;
    bool granted;      /* its lock has been returned to its client */
    quorum_time since; /* when a node first got it */
    uint32_t undone;   /* bits: nodes that have executed its undo */
};

/* Counts over many worlds. */
struct sim_totals {
    unsigned long long worlds;
    unsigned long long operations;
    unsigned long long acquired;
    unsigned long long met[SIM_SITUATIONS];
    unsigned long long violations[SIM_INVARIANTS];
};

struct sim_violation {
    enum sim_invariant invariant;
    quorum_time at;
    unsigned long long operations; /* operations started before this one */
    char text[400];
};

struct sim_world {
    unsigned long long seed;
    struct sim_config config;
    quorum_time now;
    struct sim_events events;
    uint64_t network, workload, nemesis, identity;
    struct sim_node nodes[SIM_NODES_MAX];
    struct sim_process processes[SIM_PROCESSES_MAX];
    struct sim_path paths[SIM_PROCESSES_MAX][SIM_NODES_MAX];
    struct sim_group groups[SIM_NODES_MAX];
    struct sim_link *links;
    struct sim_operation *all_operations;
    uint64_t fault_streams[SIM_ALL_FAULTS];
    bool calm; /* no more faults and no new operations */
    bool tracing;
    uint64_t operations; /* operations started */
    uint64_t operations_under_way;
    struct check *check; /* the history of its locks */
    unsigned recorded;   /* number of locks in it */
    struct sim_author authors[SIM_AUTHORS];
    quorum_time kept_until; /* the end of the latest at_least_ms that a client asked for */
    bool forgotten;         /* a node has lost keys */
    struct sim_violation violation;
    struct sim_totals *totals;
};

/* The current world. */
extern struct sim_world *sim_world;

/* Plans a world by its seed, without the faults in `without` (bits). */
void sim_config_draw(struct sim_config *config, uint64_t seed, enum sim_beyond beyond, uint32_t without);

/* Runs it to its end or to its first violation. Adds to totals. */
struct sim_violation sim_run(uint64_t seed, const struct sim_config *config, bool tracing, struct sim_totals *totals);

/* Records the first violation of a world, which ends the world. */
void sim_violate(enum sim_invariant invariant, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "client 1", "node 1": valid until the next call. */
const char *sim_client_name(const struct sim_process *process);
const char *sim_node_name(const struct sim_node *node);

/* The file that the histories of worlds are written to; -1: none. */
extern int sim_history;

/* The commands that node 1 executes are recorded for model_test.c, as RESP: a time in microseconds, then the words. In a
 * new world it has no keys, and the first record is empty. NULL: no record. */
extern FILE *sim_commands;
extern const char *sim_identity; /* its run_id and master_replid, which then do not change; NULL: drawn */
void sim_commands_add(int64_t microseconds, size_t count, const struct resp_argument *words);

/* Prints one line about an event if the world is traced. */
void sim_trace(const char *who, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define SIM_TRACE(...)                                                                                                 \
    do {                                                                                                               \
        if (sim_world->tracing)                                                                                        \
            sim_trace(__VA_ARGS__);                                                                                    \
    } while (0)

/* True when processes are no longer replaced. */
bool sim_is_closing(void);

/* The process uses its client now and then. */
bool sim_config_is_idle(const struct sim_config *config, unsigned process);

/* network.c */
void sim_packet_drop(const struct sim_event *event); /* frees the data of an event that will not happen */
struct sim_link *sim_link_open(struct sim_process *process, unsigned node);
void sim_link_write(struct sim_link *link, const void *bytes, size_t size); /* by the process */
void sim_link_close(struct sim_link *link);                                 /* by the process */
void sim_link_release(struct sim_link *link);
void sim_link_cut(struct sim_link *link, bool client_told, bool server_told);
void sim_node_execute(struct sim_link *link);
void sim_node_die(struct sim_node *node);
void sim_node_resume(struct sim_node *node);
int64_t sim_node_clock(const struct sim_node *node); /* microseconds */
extern const struct sim_server_hooks sim_node_hooks;

/* system.c */
struct sim_watch *sim_watch_create(void);
void sim_watch_destroy(struct sim_watch *watch); /* closes the open descriptors, as the end of a process does */
void sim_watch_dispatch(struct sim_process *process);
bool sim_watch_is_ready(const struct sim_process *process);
quorum_time sim_watch_alarm(const struct sim_process *process); /* by the process' clock */
void sim_watch_prepare(struct sim_process *process);
extern struct sim_process *sim_current; /* the process whose code runs */

/* process.c */
void sim_process_start(struct sim_process *process);
void sim_process_end(struct sim_process *process); /* dies */
void sim_process_wake(struct sim_process *process, quorum_time at);
void sim_process_alarm_moved(struct sim_process *process); /* its clock has changed */
quorum_time sim_process_clock(const struct sim_process *process);
quorum_time sim_process_wall(const struct sim_process *process);
void sim_process_preempt(struct sim_process *process); /* may preempt it, when it reads its clock */

/* agent.c */
void sim_agent_start(struct sim_process *process);
void sim_agent_calm(struct sim_process *process); /* holders release their locks soon */
void sim_agent_end(struct sim_process *process);  /* its process has died */
void sim_agent_run(struct sim_process *process);  /* does the work that is due */
quorum_time sim_agent_wake(const struct sim_process *process);
void sim_agent_probe(struct sim_process *process, unsigned resource, bool shared); /* one round must acquire it */
bool sim_agent_is_at_rest(const struct sim_process *process);
const char *sim_resource_name(unsigned resource);
const char *sim_holding_name(const struct sim_holding *holding); /* "a+c, shared"; valid until the next call */

/* nemesis.c */

/* When a fault happens: to which node or to which process, and how long. Some faults draw another time. */
struct sim_occasion {
    unsigned fault;
    struct sim_node *node;
    struct sim_process *process;
    uint64_t *random;
    quorum_duration time;
};

void sim_nemesis_start(void);
void sim_nemesis_rest(void);                           /* repairs everything */
void sim_process_replace(struct sim_process *process); /* a new process replaces it later */

void sim_node_restart(struct sim_node *node); /* is up again, as a new process */
void sim_node_promote(struct sim_node *node); /* a replica becomes a master, with another history */
void sim_path_block(unsigned process, unsigned host, bool up, bool down, quorum_time until);

/* sentinels.c */
unsigned sim_servers(void); /* those of the nodes */
unsigned sim_hosts(void);   /* with the sentinels */
size_t sim_group_list(unsigned node, char *text, size_t size);
bool sim_sentinel_execute(const struct sim_node *host, size_t count, const struct resp_argument *words,
                          struct bytes *reply); /* false: the host is a server */
void sim_groups_start(void);
void sim_groups_rest(void);
bool sim_group_elect(struct sim_occasion *at);

/* check.c */
quorum_time sim_holding_end(const struct sim_holding *holding); /* end of validity, by the process' clock; 0: lost */
void sim_check_granted(const struct sim_operation *operation);
void sim_check_released(const struct sim_slot *slot);
void sim_check_record(const struct sim_slot *slot, enum history_event event);
void sim_check_record_hold(struct sim_slot *slot, quorum_time started);
void sim_check_releasing(struct sim_operation *operation);
void sim_check_kept(const struct sim_operation *operation); /* a majority has the release */
void sim_check_clock(struct sim_process *process);          /* which has changed its rate */
void sim_check_stalled(const struct sim_process *process, quorum_time until);
void sim_check_history(void); /* at the end */
void sim_check_sent(struct sim_process *process, unsigned node, const char *bytes, size_t size);
void sim_check_waits(struct sim_process *process); /* an acquire begins, which may wait */
void sim_check_note_author(const struct sim_link *link, struct resp_argument token);
void sim_check_undone(const struct sim_node *node, struct resp_argument token);
bool sim_check_is_undone(struct sim_node *node, struct resp_argument token); /* and the node does not have it */
void sim_check_executed(struct sim_node *node,
                        struct resp_argument token); /* after a command with a token that was undone before */
void sim_check_excuse(struct sim_process *process);  /* ignores the keys that its current life leaves */
void sim_check_count(const struct sim_process *process);
void sim_check_hand_over(struct sim_process *process); /* it has a lock, perhaps from the queue */
void sim_node_forgets(struct sim_node *node);
void sim_check_turn(const struct sim_process *process);
void sim_check_answer(struct sim_operation *operation);
void sim_check_nothing_left(void);

#endif
