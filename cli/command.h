/* A command of redlock(1): one file that defines a struct cli_command, one line here and one in command.c. Extend and
 * release share token.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stdint.h>

/* The exit statuses. The manual page has the same table. */
enum cli_exit {
    CLI_OK = 0,
    CLI_NOT_OBTAINED = 1,   /* the lock is held, or was held for the whole wait; -E changes it */
    CLI_USAGE = 64,         /* usage error */
    CLI_NO_QUORUM = 69,     /* too many nodes are down, silent, refusing or slow */
    CLI_SYSTEM = 71,        /* the system refused memory, a process or a descriptor */
    CLI_LOST = 75,          /* the lock was lost, or ended before the command did */
    CLI_MISCONFIGURED = 78, /* the config file, the environment or a node is misconfigured */
    CLI_NOT_EXECUTABLE = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL = 128 /* plus the signal's number */
};

/* The exit status for an operation's status. */
int cli_exit_of(const redlock_result *result);

/* One option, and the variable that it sets; a table of them ends with {0}. Help, parser and completion use the table. */
struct cli_option {
    char letter;          /* 0: it has none */
    const char *name;     /* without the -- */
    const char *argument; /* "TIME"; NULL: none */
    const char *help;     /* one line */
    /* One of these: */
    bool *flag; /* becomes true */
    const char **text;
    int64_t *duration_ms;
    struct cli_number *number;
    bool (*take)(const char *value); /* false after a message: the exit status is CLI_USAGE */
};

/* An integer in a range. */
struct cli_number {
    long value;
    long least;
    long most;
};

/* The command line without its options. */
struct cli_arguments {
    int count;
    char **words;   /* `count` of them, ended by NULL */
    char **command; /* the words after --, ended by NULL; NULL without -- */
};

struct cli_command {
    const char *name;
    const char *arguments;            /* for the usage line: "RESOURCE -- CMD [ARG ...]" */
    const char *summary;              /* one line */
    const char *help;                 /* the text after the options in --help; NULL: none */
    const struct cli_option *options; /* NULL: only the global ones */
    bool takes_command;               /* -- starts a command of the user */
    bool leaves_locks;                /* on the nodes, when the client of use() is closed */

    /* Runs the command, or checks its words and options for use(). Both return the exit status, an enum cli_exit. */
    int (*run)(const struct cli_arguments *arguments);
    /* After a run() that has returned CLI_OK; NULL: nothing is left to do. */
    int (*use)(redlock_client *client, const struct cli_arguments *arguments);
};

extern const struct cli_command cli_command_acquire;
extern const struct cli_command cli_command_bench;
extern const struct cli_command cli_command_doctor;
extern const struct cli_command cli_command_extend;
extern const struct cli_command cli_command_list;
extern const struct cli_command cli_command_local;
extern const struct cli_command cli_command_release;
extern const struct cli_command cli_command_run;
extern const struct cli_command cli_command_status;
extern const struct cli_command cli_command_trust;
/* All commands, ended by NULL. */
extern const struct cli_command *const cli_commands[];
/* The options of all commands. */
extern const struct cli_option cli_global_options[];

/* Prints the help of the command, or of redlock(1) if it is NULL; returns CLI_OK. */
int cli_help(const struct cli_command *command);

/* Sets the option's variable. False after a message with the option's name. */
bool cli_take_option(const struct cli_option *option, const char *value);

/* Reads a duration. False after a message with the option's name. */
bool cli_take_duration(const char *option, const char *value, int64_t *milliseconds);

/* Unescapes a resource's name in place, like redlock_unescape(): 1 to REDLOCK_RESOURCE_MAX bytes, none of them NUL.
 * False after a message. */
bool cli_resource_read(char *resource);

/* Prints the error with a hint to --help; returns CLI_USAGE. */
int cli_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
