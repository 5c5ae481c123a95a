#define _GNU_SOURCE
#include "patience.h"

#include "scene.h"

#include "support/fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char variable[64], short_variable[64];

static void make_config(const char *settings, char *made, size_t size)
{
    int file = memfd_create("config", 0);

    if (file < 0 || write(file, settings, strlen(settings)) != (ssize_t)strlen(settings))
        fixture_fail("cannot write a config file");
    snprintf(made, size, "REDLOCK_CONFIG=/proc/%d/fd/%d", (int)getpid(), file);
}

void patience_begin(void)
{
    make_config("timeout = 10s\nconnect-timeout = 10s\n", variable, sizeof(variable));
    make_config("timeout = 1s\n", short_variable, sizeof(short_variable));
}

const char *patience_variable(void)
{
    return variable;
}

const char *const *patience_environment(void)
{
    static const char *const environment[] = {variable, NULL};

    return environment;
}

const char *const *patience_short_environment(void)
{
    static const char *const environment[] = {short_variable, NULL};

    return environment;
}

static void be_patient(void)
{
    scene_on_nodes.environment = patience_environment();
}

TCase *patient(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, be_patient, NULL);
    return tcase;
}
