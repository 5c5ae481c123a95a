/* A fake Redis node: a thread of its own that speaks RESP over TCP or a unix socket.
 *
 * Left alone it behaves as a healthy node (fake_node.h lists the commands). Rules make it misbehave: on the k-th command
 * of a name it answers late, with an error, by half, twice, not at all, or breaks the connection. It records every command
 * in the order of arrival, and the test waits for them, so no test has to sleep.
 *
 * Every function may be called from any thread of the process that started the server; none from a script handler.
 * What a function changes has happened when it returns. */
#ifndef TESTS_SUPPORT_FAKE_SERVER_H
#define TESTS_SUPPORT_FAKE_SERVER_H

#include "fake_node.h"
#include "resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_server;

enum fake_transport { FAKE_IPV4, FAKE_IPV6, FAKE_UNIX };

/* Registers itself for fixtures_end(); never fails, or ends the test. */
struct fake_server *fake_server_start(enum fake_transport transport);

/* Closes every connection and frees everything, the records too. NULL does nothing. */
void fake_server_stop(struct fake_server *server);

/* "127.0.0.1:4711", "[::1]:4711" or "unix:///tmp/…"; valid until stop. */
const char *fake_server_address(const struct fake_server *server);
uint16_t fake_server_port(const struct fake_server *server);    /* 0 on a unix socket */
const char *fake_server_path(const struct fake_server *server); /* NULL on TCP */

/* --- Rules ------------------------------------------------------------------------------------------------------- */

/* What becomes of the connection after the reply. */
enum fake_ending {
    FAKE_GO_ON,
    FAKE_STALL,    /* stays open; nothing more is read or sent */
    FAKE_SHUTDOWN, /* FIN; what still comes is read and thrown away, so that the reply arrives for certain */
    FAKE_CLOSE,    /* close(2), as a server that exits: what the client sends later is answered by an RST */
    FAKE_RESET     /* RST at once; a reply before it may or may not arrive */
};

/* All zero is a rule that changes nothing for every command; set what shall differ. Texts and bytes are copied. */
struct fake_rule {
    /* Which commands. */
    const char *command;  /* "SET", "CLIENT ID", FAKE_ACCEPT for a new connection; NULL: any command */
    const char *argument; /* only commands with this argument; NULL: all */
    unsigned connection;  /* only this connection (numbered from 1); 0: all */
    unsigned first;       /* begins with the first-th that matches since the rule was added; 0 and 1: at once */
    unsigned count;       /* for so many of them; 0: for all that follow */

    /* What happens. */
    unsigned delay_ms;       /* the command waits so long before it is executed, and all behind it on its connection */
    bool skip;               /* it is not executed */
    const char *reply;       /* these bytes instead of the node's reply */
    size_t reply_length;     /* 0: strlen(reply) */
    bool silent;             /* no reply */
    bool half;               /* only the first half of the reply's bytes */
    const char *extra;       /* these bytes behind the reply, which nobody asked for */
    size_t extra_length;     /* 0: strlen(extra) */
    unsigned reply_delay_ms; /* executed at once, the reply sent later */
    bool hold;               /* executed at once, the reply kept until fake_server_release() */
    enum fake_ending ending;
};

/* The name of a new connection in a rule. Of what happens only reply, delay_ms, hold and ending count. */
#define FAKE_ACCEPT "*accept*"

/* The first rule that applies to a command, in the order they were added, is the one that is used. Returns its number. */
unsigned fake_server_add_rule(struct fake_server *server, const struct fake_rule *rule);
void fake_server_remove_rule(struct fake_server *server, unsigned number);
void fake_server_clear_rules(struct fake_server *server);

/* How many commands (or connections) the rule was used for. */
unsigned fake_server_rule_used(struct fake_server *server, unsigned number);

/* The common rule: the next `count` commands of that name (0: all) are not executed and answered by `error`. */
unsigned fake_server_refuse(struct fake_server *server, const char *command, unsigned count, const char *error);

/* Every new connection is told that there are too many, then closed; 0: all that follow. */
unsigned fake_server_refuse_connections(struct fake_server *server, unsigned count);

/* Redis' own words. */
#define FAKE_LOADING  "-LOADING Redis is loading the dataset in memory\r\n"
#define FAKE_READONLY "-READONLY You can't write against a read only replica.\r\n"
#define FAKE_NOAUTH   "-NOAUTH Authentication required.\r\n"
#define FAKE_OOM      "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
#define FAKE_NOSCRIPT "-NOSCRIPT No matching script. Please use EVAL.\r\n"
#define FAKE_MISCONF                                                                                                   \
    "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. "               \
    "Commands that may modify the data set are disabled.\r\n"
#define FAKE_WRONGTYPE  "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
#define FAKE_NOPERM     "-NOPERM this user has no permissions to run the 'set' command\r\n"
#define FAKE_BUSY       "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n"
#define FAKE_MASTERDOWN "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n"
#define FAKE_MAXCLIENTS "-ERR max number of clients reached\r\n"
#define FAKE_GARBAGE    "\001\377\376HTTP/1.1 400 Bad Request\r\n\r\n"

/* --- Faults now -------------------------------------------------------------------------------------------------- */

/* Sends what was held. */
void fake_server_release(struct fake_server *server);

/* Sends bytes that nobody asked for on every open connection. */
void fake_server_push(struct fake_server *server, const void *data, size_t length);

/* Breaks every open connection: FAKE_SHUTDOWN, FAKE_CLOSE or FAKE_RESET. */
void fake_server_drop(struct fake_server *server, enum fake_ending ending);

/* As SIGSTOP and SIGCONT: the kernel accepts and stores, nothing is read or sent until it resumes. */
void fake_server_pause(struct fake_server *server);
void fake_server_resume(struct fake_server *server);

/* Connections are refused (open ones stay) until the server listens again, on the same port. */
void fake_server_stop_listening(struct fake_server *server);
void fake_server_listen(struct fake_server *server);

/* As a server without persistence that is restarted: connections closed, keys and scripts gone, a new run_id. */
void fake_server_restart(struct fake_server *server);

/* --- The node ---------------------------------------------------------------------------------------------------- */

/* Answers EVAL and EVALSHA; called on the server's thread. */
void fake_server_set_script_handler(struct fake_server *server, fake_script_handler *handler, void *arg);

/* As FLUSHALL and SCRIPT FLUSH. */
void fake_server_forget_keys(struct fake_server *server);
void fake_server_forget_scripts(struct fake_server *server);

/* A field of INFO ("run_id", "role", "loading", "maxmemory_policy") or a parameter of CONFIG GET. */
void fake_server_set_info(struct fake_server *server, const char *field, const char *value);
void fake_server_set_config(struct fake_server *server, const char *name, const char *value);

/* Asked from connections made from now on; user NULL is "default", password NULL ends it. */
void fake_server_set_password(struct fake_server *server, const char *user, const char *password);

/* The node's clock against CLOCK_REALTIME; TIME and the expiry of keys follow it. */
void fake_server_set_clock_offset_us(struct fake_server *server, int64_t offset_us);

/* Publishes as PUBLISH does; returns the number of receivers. */
size_t fake_server_publish(struct fake_server *server, const char *channel, const char *message);

/* --- Keys -------------------------------------------------------------------------------------------------------- */

/* Database 0. A ttl_ms below 0 is for ever. */
void fake_server_set_key(struct fake_server *server, const char *key, const char *value, int64_t ttl_ms);
void fake_server_delete_key(struct fake_server *server, const char *key);
/* Copied into value (cut and NUL-terminated); false: no such key. */
bool fake_server_get_key(struct fake_server *server, const char *key, char *value, size_t size);
/* As PTTL: -2 no such key, -1 without an end. */
int64_t fake_server_pttl(struct fake_server *server, const char *key);
/* Keys of all databases whose names match none of the patterns (glob, a list ended by NULL, or NULL). */
size_t fake_server_keys_left(struct fake_server *server, const char *const *except);

/* --- What came --------------------------------------------------------------------------------------------------- */

struct fake_record {
    unsigned connection;  /* numbered from 1 in the order of accepting; also the CLIENT ID */
    uint64_t received_ns; /* when it was read whole, by test_now_ns() */
    const struct resp_command *command;
};

/* Records of a name as in a rule (NULL: any) since start or the last fake_server_forget_records(). */
size_t fake_server_count(struct fake_server *server, const char *command);
/* The index-th of them, from 0; NULL: not so many. Stays valid until stop. */
const struct fake_record *fake_server_record(struct fake_server *server, const char *command, size_t index);
void fake_server_forget_records(struct fake_server *server);

/* Waits until at least `count` records of that name are there: false when the time is over. */
bool fake_server_wait_for(struct fake_server *server, const char *command, size_t count, unsigned timeout_ms);

/* Waits until exactly so many connections are open. */
bool fake_server_wait_for_open(struct fake_server *server, size_t open, unsigned timeout_ms);
/* Waits until so many connections have been accepted since start. */
bool fake_server_wait_for_accepted(struct fake_server *server, size_t accepted, unsigned timeout_ms);
/* Waits until so many subscriptions are in force. */
bool fake_server_wait_for_subscribers(struct fake_server *server, const char *channel, size_t count,
                                      unsigned timeout_ms);

size_t fake_server_open_connections(struct fake_server *server);
size_t fake_server_accepted(struct fake_server *server);

/* How often something came that is no RESP command (answered as Redis does, then the connection is closed). */
size_t fake_server_protocol_errors(struct fake_server *server);

#endif
