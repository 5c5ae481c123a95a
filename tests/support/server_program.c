#define _GNU_SOURCE
#include "server_program.h"

#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VALKEY = 702, UNKNOWN = 0 };

static bool is_in_path(const char *name)
{
    char *copy = fixture_text("%s", getenv("PATH") != NULL ? getenv("PATH") : "");
    char *rest = copy;
    char *directory;
    bool found = false;
    while (!found && (directory = strsep(&rest, ":")) != NULL) {
        char *path = fixture_text("%s/%s", directory, name);
        found = access(path, X_OK) == 0;
        free(path);
    }
    free(copy);
    return found;
}

const char *server_program(void)
{
    const char *named = getenv("REDLOCK_SERVER_PROGRAM");
    if (named && *named != '\0')
        return named;
    return is_in_path("valkey-server") && !is_in_path("redis-server") ? "valkey-server" : "redis-server";
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
    char line[256] = "";
    if (known != UNKNOWN)
        return known;
    char *command = fixture_text("'%s' --version 2>/dev/null", server_program());
    FILE *output = popen(command, "re");
    if (output && fgets(line, sizeof line, output) != NULL)
        known = read_version(line);
    if (output)
        pclose(output);
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

const char *server_program_wrong_password(void)
{
    return server_program_has(SERVER_ACL) ? "WRONGPASS" : "invalid password";
}

const char *server_program_missing(void)
{
    return "there is no redis-server or valkey-server; install one, or name it in REDLOCK_SERVER_PROGRAM";
}
