/* A fake Redis node: a separate thread that uses RESP over TCP.
 *
 * By default it behaves as a healthy node (node_model.h). Rules make it misbehave. On the k-th
 * command of a name it replies late, with an error, incompletely, twice or not at all, or it breaks the connection.
 * It records every command in the order of arrival. A test can wait until one is there, so no test has to sleep.
 *
 * Every function may be called from any thread of the process that started the server. Its effect is complete when it
 * returns. */
#ifndef TESTS_SUPPORT_FAKE_SERVER_H
#define TESTS_SUPPORT_FAKE_SERVER_H

#include "resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_server;

/* INFO's master_replid */
#define FAKE_HISTORY "0123456789abcdef0123456789abcdef01234567"

/* Registers itself for fixtures_end(). Ends the test if it fails. */
struct fake_server *fake_server_start(void);

/* "127.0.0.1:4711"; valid until the end of the test. */
const char *fake_server_address(const struct fake_server *server);
uint16_t fake_server_port(const struct fake_server *server);

/* --- Rules -------------------------------------------------------------------------------------------------------- */

/* The state of the connection after the reply. */
enum fake_ending {
    FAKE_GO_ON,
    FAKE_STALL,    /* stays open; nothing more is read or sent */
    FAKE_SHUTDOWN, /* FIN; later input is read and dropped, so that the reply is sure to arrive */
    FAKE_CLOSE,    /* close(2), as a server that exits: the kernel replies with an RST to later data */
    FAKE_RESET     /* RST at once; a reply before it may or may not arrive */
};

/* A zeroed rule changes nothing for every command: set the fields that must differ. Texts and bytes are copied. */
struct fake_rule {
    /* Selects commands. */
    const char *command;  /* "SET", "CLIENT ID", FAKE_ACCEPT for a new connection; NULL: any command */
    const char *argument; /* only commands with this argument; NULL: any */
    unsigned connection;  /* only this connection (numbered from 1); 0: any */
    unsigned first;       /* begins with this match since the rule was added; 0 and 1: the first one */
    unsigned count;       /* for this number of matches; 0: for all that follow */

    /* Selects the effect. */
    bool skip;               /* not executed */
    const char *reply;       /* these bytes instead of the node's reply */
    size_t reply_length;     /* 0: strlen(reply) */
    bool silent;             /* no reply */
    const char *extra;       /* additional bytes after the reply, without a request */
    unsigned reply_delay_ms; /* executed at once; the reply is sent later */
    bool hold;               /* executed at once; the reply is kept until fake_server_release() */
    enum fake_ending ending;
};

/* The name of a new connection in a rule. Only the effects reply, hold and ending apply to it. */
#define FAKE_ACCEPT "*accept*"

/* The first matching rule, in the order in which they were added, is applied to a command. Returns the rule's
 * number. */
unsigned fake_server_add_rule(struct fake_server *server, const struct fake_rule *rule);
void fake_server_clear_rules(struct fake_server *server);

/* Number of commands (or connections) to which the rule was applied. */
unsigned fake_server_rule_used(struct fake_server *server, unsigned number);

/* The most common rule: the next `count` commands of that name (0: all) are not executed, and get `error` as their
 * reply. */
unsigned fake_server_refuse(struct fake_server *server, const char *command, unsigned count, const char *error);

/* The errors that Redis sends. */
#define FAKE_LOADING    "-LOADING Redis is loading the dataset in memory\r\n"
#define FAKE_READONLY   "-READONLY You can't write against a read only replica.\r\n"
#define FAKE_OOM        "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
#define FAKE_NOSCRIPT   "-NOSCRIPT No matching script. Please use EVAL.\r\n"
#define FAKE_WRONGTYPE  "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
#define FAKE_NOPERM     "-NOPERM this user has no permissions to run the 'set' command\r\n"
#define FAKE_BUSY       "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n"
#define FAKE_MAXCLIENTS "-ERR max number of clients reached\r\n"
#define FAKE_DENIED     "-DENIED Redis is running in protected mode because protected mode is enabled.\r\n"
#define FAKE_GARBAGE    "\001\377\376HTTP/1.1 400 Bad Request\r\n\r\n"

/* --- Immediate faults --------------------------------------------------------------------------------------------- */

/* Sends the held replies. */
void fake_server_release(struct fake_server *server);

/* Breaks every open connection: FAKE_SHUTDOWN, FAKE_CLOSE or FAKE_RESET. */
void fake_server_drop(struct fake_server *server, enum fake_ending ending);

/* Between the two calls the server's thread works on nothing. */
void fake_server_suspend(struct fake_server *server);
void fake_server_continue(struct fake_server *server);

/* As SIGSTOP and SIGCONT: the kernel accepts and buffers; the server reads and sends nothing until it resumes. */
void fake_server_pause(struct fake_server *server);
void fake_server_resume(struct fake_server *server);

/* Refuses new connections until the server listens again, on the same port. Open connections stay. */
void fake_server_stop_listening(struct fake_server *server);
void fake_server_listen(struct fake_server *server);

/* --- The node ----------------------------------------------------------------------------------------------------- */

/* As FLUSHALL and SCRIPT FLUSH. */
void fake_server_forget_keys(struct fake_server *server);
void fake_server_forget_scripts(struct fake_server *server);

/* A field of INFO: "run_id", "role", "loading", "maxmemory_policy". */
void fake_server_set_info(struct fake_server *server, const char *field, const char *value);

/* Required on connections opened from now on. user NULL is "default"; password NULL removes the requirement. */
void fake_server_set_password(struct fake_server *server, const char *user, const char *password);

/* The node's clock minus CLOCK_REALTIME. TIME and the expiry of keys use it. */
void fake_server_set_clock_offset_us(struct fake_server *server, int64_t offset_us);

/* As PUBLISH. Returns the number of receivers. */
size_t fake_server_publish(struct fake_server *server, const char *channel, const char *message);

/* --- Keys --------------------------------------------------------------------------------------------------------- */

/* A negative ttl_ms means no expiry. */
void fake_server_set_key(struct fake_server *server, const char *key, const char *value, int64_t ttl_ms);
void fake_server_delete_key(struct fake_server *server, const char *key);
/* Copies the value (truncated and NUL-terminated). Returns false if there is no such string. */
bool fake_server_get_key(struct fake_server *server, const char *key, char *value, size_t size);
/* As PTTL: -2 if the key does not exist, -1 without expiry. */
int64_t fake_server_pttl(struct fake_server *server, const char *key);
/* Number of keys whose names match none of the patterns (glob, a list ended by NULL, or NULL). */
size_t fake_server_keys_left(struct fake_server *server, const char *const *except);

/* --- Records ------------------------------------------------------------------------------------------------------ */

struct fake_record {
    unsigned connection; /* numbered from 1 in the order of accepting; also the CLIENT ID */
    struct resp_command *command;
};

/* Number of records of a name as in a rule (NULL: any) since start or the last fake_server_forget_records(). */
size_t fake_server_count(struct fake_server *server, const char *command);
/* The index-th of them, from 0; NULL if there are fewer. It stays valid until the end of the test. */
const struct fake_record *fake_server_record(struct fake_server *server, const char *command, size_t index);
void fake_server_forget_records(struct fake_server *server);

size_t fake_server_open_connections(struct fake_server *server);
size_t fake_server_accepted(struct fake_server *server);

/* Number of inputs that were no RESP command. As Redis does, the server sends an error and closes the connection. */
size_t fake_server_protocol_errors(struct fake_server *server);

#endif
