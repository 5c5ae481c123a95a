/* A command of redlock(1): one file that defines a struct cli_command, one line in commands.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

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

    /* Returns the exit status, an enum cli_exit. */
    int (*run)(const struct cli_arguments *arguments);
};

/* All commands, ended by NULL. */
extern const struct cli_command *const cli_commands[];
/* The options of all commands. */
extern const struct cli_option cli_global_options[];

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
