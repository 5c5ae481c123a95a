#include "flash_sale/settings.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static void usage(FILE *stream)
{
    fprintf(stream, "usage: flash_sale [OPTION ...] [NODES]\n"
                    "\n"
                    "NODES                the masters, host:port,host:port,... (default: REDLOCK_NODES)\n"
                    "  --items NUMBER     how many are for sale (200)\n"
                    "  --sellers NUMBER   processes that sell them (8)\n"
                    "  --think-ms NUMBER  from looking at the stock to taking an item, and between customers (5)\n"
                    "  --kill COMMAND     the third sale: kills one of the masters, e.g. 'kill -KILL 4711'\n"
                    "  --stop COMMAND     the third sale: freezes another one, e.g. 'kill -STOP 4712'\n"
                    "  --help\n"
                    "\n"
                    "exit status: 0 all as promised, 1 a sale under the lock went wrong, 2 it could not be tried,\n"
                    "             3 the sale without a lock did not oversell either, which proves nothing\n");
}

static int number(const char *option, const char *text, int most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && value >= 1 && value <= most)
        return (int)value;
    fprintf(stderr, "flash_sale: --%s '%s' is not a number from 1 to %d\n", option, text, most);
    exit(EXIT_UNTRIED);
}

static void take_option(struct settings *settings, int option, const char *name)
{
    switch (option) {
    case 'i':
        settings->items = number(name, optarg, 10000);
        break;
    case 's':
        settings->sellers = number(name, optarg, 100);
        break;
    case 't':
        settings->think_ms = number(name, optarg, 1000);
        break;
    case 'k':
        settings->kill = optarg;
        break;
    case 'f':
        settings->stop = optarg;
        break;
    case 'h':
        usage(stdout);
        exit(EXIT_OK);
    default:
        usage(stderr);
        exit(EXIT_UNTRIED);
    }
}

static void take_options(struct settings *settings, int argc, char **argv)
{
    static const struct option options[] = {
        {"items", required_argument, NULL, 'i'},
        {"sellers", required_argument, NULL, 's'},
        {"think-ms", required_argument, NULL, 't'},
        {"kill", required_argument, NULL, 'k'},
        {"stop", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    int index = 0;
    while ((option = getopt_long(argc, argv, "", options, &index)) != -1)
        take_option(settings, option, options[index].name);
}

void settings_take(struct settings *settings, int argc, char **argv)
{
    *settings = (struct settings){.nodes = getenv("REDLOCK_NODES"), .items = 200, .sellers = 8, .think_ms = 5};
    take_options(settings, argc, argv);
    if (optind < argc)
        settings->nodes = argv[optind++];
    if (optind < argc) {
        fprintf(stderr, "flash_sale: '%s' is one argument too many; the nodes are one list with commas\n",
                argv[optind]);
        exit(EXIT_UNTRIED);
    }
    if (!settings->nodes) {
        fprintf(stderr, "flash_sale: name the nodes as the argument or in REDLOCK_NODES: host:port,host:port,...\n");
        exit(EXIT_UNTRIED);
    }
}
