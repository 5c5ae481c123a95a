/* redlock(1): parses the command line and starts the command. */
#include "child.h"
#include "command.h"
#include "message.h"
#include "process.h"
#include "session.h"
#include "settings.h"

#include <redlock/redlock.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTIONS_MAX = 48 };
enum { WORD = 1 };        /* getopt_long's value for a word that is not an option */
enum { LONG_ONLY = 256 }; /* its values for options without a letter begin here */

static bool wants_help, wants_version;

const struct cli_option cli_global_options[] = {
    {0, "nodes", "LIST", "the nodes: host:port,host:port,...", .text = &cli_overrides.nodes},
    {0, "config", "FILE", "the config file ($XDG_CONFIG_HOME/redlock/config, /etc/redlock.conf)",
     .text = &cli_overrides.config},
    {0, "user", "NAME", "the ACL user; the password comes from $REDLOCK_PASSWORD or the file",
     .text = &cli_overrides.user},
    {0, "timeout", "TIME", "lower bound of a node's reply timeout (50ms); for the lock: --wait",
     .text = &cli_overrides.timeout},
    {0, "label", "TEXT", "the holder's name, for people (user@host:pid:command); '' for none",
     .text = &cli_overrides.label},
    {'v', "verbose", NULL, "explain each step, node by node", .flag = &cli_is_verbose},
    {'h', "help", NULL, "show this help", .flag = &wants_help},
    {'V', "version", NULL, "show the version", .flag = &wants_version},
    {0},
};

/* Two tables of options in getopt_long's form. */
struct parser {
    const struct cli_option *option[OPTIONS_MAX];
    struct option longs[OPTIONS_MAX];
    char shorts[2 * OPTIONS_MAX + 3];
    size_t count;
    int words; /* that are not options */
};

static void parser_add(struct parser *parser, const struct cli_option *options)
{
    char *end = parser->shorts + strlen(parser->shorts);

    for (; options != NULL && options->name != NULL; options++) {
        assert(parser->count + 1 < OPTIONS_MAX);
        parser->longs[parser->count] =
            (struct option){options->name, options->argument != NULL ? required_argument : no_argument, NULL,
                            options->letter != 0 ? options->letter : LONG_ONLY + (int)parser->count};
        parser->option[parser->count++] = options;
        if (options->letter == 0)
            continue;
        *end++ = options->letter;
        if (options->argument != NULL)
            *end++ = ':';
    }
    *end = '\0';
}

/* --- Options --- */

static int show_version(void)
{
    printf("redlock %s\n", redlock_version());
    return CLI_OK;
}

/* word: "--name", "--name=value" or "-x". */
static bool is_among(const struct cli_option *options, const char *word)
{
    size_t length = strcspn(word + 2, "=");

    for (; options != NULL && options->name != NULL; options++)
        if (word[1] != '-' ? options->letter == word[1]
                           : strlen(options->name) == length && strncmp(options->name, word + 2, length) == 0)
            return true;
    return false;
}

/* A command that has the option; NULL: none. */
static const struct cli_command *who_has(const char *word)
{
    for (const struct cli_command *const *command = cli_commands; *command != NULL; command++)
        if (is_among((*command)->options, word))
            return *command;
    return NULL;
}

static int refuse_unknown(const struct cli_command *command, const char *word, const char *quoted)
{
    const struct cli_command *other = who_has(word);

    if (is_among(cli_global_options, word) || (command != NULL && is_among(command->options, word)))
        return cli_misused("%s: this option takes no value", quoted);
    if (strcmp(word, "--fair") == 0)
        return cli_misused("%s is no longer an option, because waiting is always fair: leave it out", quoted);
    if (other == NULL)
        return cli_misused("%s is not an option, or could be several", quoted);
    if (command == NULL)
        return cli_misused("%s is an option of redlock %s: write it after that", quoted, other->name);
    return cli_misused("%s is not an option of redlock %s, but of redlock %s", quoted, command->name, other->name);
}

/* By getopt_long's value; NULL: there is none. */
static const struct cli_option *find_option(const struct parser *parser, int value)
{
    for (size_t i = 0; i < parser->count; i++)
        if (parser->longs[i].val == value)
            return parser->option[i];
    return NULL;
}

/* An unknown letter may be followed by others in its word; then argv[optind - 1] is not that word. */
static int refuse_option(const struct cli_command *command, const struct parser *parser, int answer, char *const *argv)
{
    char quoted[CLI_QUOTED_SIZE];
    char letter[3] = {'-', (char)optopt, '\0'};
    bool is_long = optopt == 0 || (find_option(parser, optopt) != NULL && strncmp(argv[optind - 1], "--", 2) == 0);
    const char *word = is_long ? argv[optind - 1] : letter;

    if (answer == ':')
        return cli_misused("%s needs a value", cli_quote(word, quoted));
    return refuse_unknown(command, word, cli_quote(word, quoted));
}

/* Parses the options from argv[1] on; the other words move to argv[1] and on, if the parser returns them. Returns -1 to
 * continue, otherwise the exit status. */
static int take_options(const struct cli_command *command, struct parser *parser, int argc, char **argv)
{
    int value;

    parser->words = 0;
    optind = 0; /* glibc: start again */
    opterr = 0;
    while ((value = getopt_long(argc, argv, parser->shorts, parser->longs, NULL)) != -1) {
        if (value == '?' || value == ':')
            return refuse_option(command, parser, value, argv);
        if (value == WORD)
            argv[++parser->words] = optarg;
        else if (!cli_take_option(find_option(parser, value), optarg))
            return CLI_USAGE;
        if (wants_help)
            return cli_help(command);
        if (wants_version)
            return show_version();
    }
    return -1;
}

/* --- Commands --- */

static const struct cli_command *find_command(const char *name)
{
    for (const struct cli_command *const *command = cli_commands; *command != NULL; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    return NULL;
}

/* The index of the first --, before the user's command; argc if there is none, or the command takes none. */
static int find_end(const struct cli_command *command, int argc, char **argv)
{
    int end = 1;

    while (command->takes_command && end < argc && strcmp(argv[end], "--") != 0)
        end++;
    return command->takes_command ? end : argc;
}

static int use_client(const struct cli_command *command, const struct cli_arguments *arguments)
{
    redlock_client *client;
    int status = cli_connect(&client, command->leaves_locks);

    if (status == CLI_OK)
        status = command->use(client, arguments);
    cli_close(&client);
    return status;
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
    struct parser parser = {.shorts = "-:"}; /* -: options may follow words, also with POSIXLY_CORRECT */
    int end = find_end(command, argc, argv);
    struct cli_arguments arguments = {.command = end < argc ? argv + end + 1 : NULL};

    cli_message_command = command->name;
    argv[end] = NULL; /* the --, or already NULL */
    parser_add(&parser, command->options);
    parser_add(&parser, cli_global_options);
    int status = take_options(command, &parser, end, argv);
    if (status >= 0)
        return status;
    while (optind < end) /* behind a -- */
        argv[++parser.words] = argv[optind++];
    argv[parser.words + 1] = NULL;
    arguments.words = argv + 1;
    arguments.count = parser.words;
    status = command->run(&arguments);
    return status == CLI_OK && command->use != NULL ? use_client(command, &arguments) : status;
}

static int dispatch(int argc, char **argv)
{
    struct parser parser = {.shorts = "+:"}; /* +: words after the command belong to it */
    char quoted[CLI_QUOTED_SIZE];

    parser_add(&parser, cli_global_options);
    int status = take_options(NULL, &parser, argc, argv);
    if (status >= 0)
        return status;
    if (optind == argc)
        return cli_misused("a command is needed: run, status, ...");
    int first = optind;
    bool is_help = strcmp(argv[first], "help") == 0;
    if (strcmp(argv[first], "version") == 0)
        return show_version();
    if (is_help && (argv[first + 1] == NULL || strcmp(argv[first + 1], "help") == 0))
        return cli_help(NULL);
    first += is_help;
    const struct cli_command *command = find_command(argv[first]);
    if (command != NULL && is_help)
        return cli_help(command);
    if (command == NULL)
        return cli_misused("there is no command %s", cli_quote(argv[first], quoted));
    return run_command(command, argc - first, argv + first);
}

/* Reports buffered output that cannot be written, for example to a full disk. */
static int finish_output(int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return status;
    cli_say("cannot write to standard output%s%s", errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    return status == CLI_OK ? CLI_SYSTEM : status;
}

/* Occupies a closed standard descriptor: otherwise the next one opened, for example a connection to a node, would get
 * its number and the output. */
static void hold_standard_files(void)
{
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) == -1)
            (void)!open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    cli_process_name_note(argc, argv);
    hold_standard_files();
    cli_child_note_signals();
    signal(SIGCHLD, SIG_DFL); /* if it is ignored, waitpid() finds no exit status */
    int status = finish_output(dispatch(argc, argv));

    cli_interrupt_again();
    return status;
}
