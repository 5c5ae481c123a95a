#include "help.h"

#include "duration.h"

#include <stdio.h>

enum { COLUMN = 24 };

static void print_option(const struct cli_option *option)
{
    char left[64];
    char letter[4] = "  ";

    if (option->letter != 0)
        snprintf(letter, sizeof(letter), "-%c", option->letter);
    snprintf(left, sizeof(left), "%s%c --%s%s%s", letter, option->letter != 0 ? ',' : ' ', option->name,
             option->argument != NULL ? " " : "", option->argument != NULL ? option->argument : "");
    printf("  %-*s %s\n", COLUMN, left, option->help);
}

static void print_options(const char *title, const struct cli_option *options)
{
    printf("\n%s\n", title);
    for (; options->name != NULL; options++)
        print_option(options);
}

void cli_help(void)
{
    printf("usage: redlock [OPTION ...] COMMAND ...\n\n"
           "A distributed lock over independent Redis masters.\n\n"
           "commands; 'redlock COMMAND --help' has the options of each:\n");
    for (const struct cli_command *const *command = cli_commands; *command != NULL; command++)
        printf("  %-*s %s\n", 10, (*command)->name, (*command)->summary);
    print_options("options, before or after the command:", cli_global_options);
    printf("\nThe nodes come from --nodes, $REDLOCK_NODES or the config file, in this order. See redlock(1).\n");
}

void cli_command_help(const struct cli_command *command)
{
    printf("usage: redlock %s [OPTION ...]%s%s\n\n%s.\n", command->name, *command->arguments != '\0' ? " " : "",
           command->arguments, command->summary);
    if (command->options != NULL)
        print_options("options:", command->options);
    print_options("options of all commands:", cli_global_options);
    if (command->help != NULL)
        printf("\n%s", command->help);
    printf("\nTIME is " CLI_DURATION_FORM ".\n");
}
