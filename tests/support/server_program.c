#define _GNU_SOURCE
#include "server_program.h"

#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALKEY = 702, UNKNOWN = 0 };

/* The first line that the command prints; empty: it prints none. */
static void read_line(const char *command, char *line, size_t size)
{
    FILE *output = popen(command, "re");
    if (!output || !fgets(line, (int)size, output))
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (output)
        pclose(output);
}

const char *server_program(void)
{
    static char found[256];
    const char *named = getenv("REDLOCK_SERVER_PROGRAM");
    if (named && *named != '\0')
        return named;
    if (!found[0])
        read_line("command -v redis-server || command -v valkey-server || echo redis-server", found, sizeof found);
    return found;
}

/* "Redis server v=6.0.20 sha=..." becomes 600. */
static int read_version(const char *text)
{
    unsigned major, minor;
    if (strncmp(text, "Valkey", 6) == 0)
        return VALKEY;
    const char *version = strstr(text, " v=");
    return version != NULL && sscanf(version, " v=%u.%u", &major, &minor) == 2 ? (int)(major * 100 + minor) : UNKNOWN;
}

static int version(void)
{
    static int known = UNKNOWN;
    char line[256];
    if (known != UNKNOWN)
        return known;
    char *command = fixture_text("'%s' --version 2>/dev/null", server_program());
    read_line(command, line, sizeof line);
    known = read_version(line);
    free(command);
    return known;
}

bool server_program_available(void)
{
    return version() != UNKNOWN;
}

bool server_program_has(enum server_feature feature)
{
    return version() >= (int)feature;
}

const char *server_program_missing(void)
{
    return "there is no redis-server or valkey-server; install one, or name it in REDLOCK_SERVER_PROGRAM";
}
