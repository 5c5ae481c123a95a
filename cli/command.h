/* A command of redlock(1): one file that defines a struct cli_command, one line in commands.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

/* One option; a table of them ends with {0}. Help, parsing and completion are made of it. */
struct cli_option {
    int id;               /* its letter, or from CLI_LONG_ONLY on for one without */
    const char *name;     /* without the -- */
    const char *argument; /* "TIME"; NULL: it takes none */
    const char *help;     /* one line */
};

enum { CLI_LONG_ONLY = 256, CLI_GLOBAL = 512 };

/* What is left of the command line when its options have been taken. */
struct cli_arguments {
    int count;
    char **words;   /* `count` of them, ended by NULL */
    char **command; /* what follows --, ended by NULL; NULL when there is no -- */
};

struct cli_command {
    const char *name;
    const char *arguments;            /* for the usage line: "RESOURCE -- CMD [ARG ...]" */
    const char *summary;              /* one line */
    const char *help;                 /* what follows the options in --help; NULL: nothing */
    const struct cli_option *options; /* NULL: the global ones only */
    bool takes_command;               /* -- ends the words and begins a command of the user's */

    /* Takes one of the options; value NULL if it has no argument. False when it said what is wrong with it: exit status
     * CLI_USAGE. */
    bool (*take)(int id, const char *value);
    /* Returns the exit status, an enum cli_exit. */
    int (*run)(const struct cli_arguments *arguments);
};

/* All of them; ended by NULL. */
extern const struct cli_command *const cli_commands[];
/* The options that every command has. */
extern const struct cli_option cli_global_options[];

/* For take(): a duration, with the option's name in the message when it is none. */
bool cli_take_duration(const char *option, const char *value, int64_t *milliseconds);
/* A whole number between two bounds, both included. */
bool cli_take_number(const char *option, const char *value, long least, long most, long *number);

/* Reads a resource's name, in place, as redlock_unescape() does: 1 to REDLOCK_RESOURCE_MAX bytes, none of them NUL. False
 * when it said what is wrong. */
bool cli_resource_read(char *resource);

/* Says what is wrong and where help is found; returns CLI_USAGE. */
int cli_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
