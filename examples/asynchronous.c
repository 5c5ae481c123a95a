/* A lock on the program's own libev loop: asynchronous [NODES]. Without NODES the program uses REDLOCK_NODES. */
#include <ev.h>
#include <redlock/redlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct program {
    redlock_lock *lock;
    int status;
};

static int went_well(const char *step, const redlock_result *result)
{
    redlock_result copy = *result; /* the callback's result is const, and the text is written to the result */
    if (result->status == REDLOCK_OK)
        return printf("%s: %u of %u nodes, %lld ms\n", step, copy.granted, copy.nodes, (long long)copy.validity_ms);
    fprintf(stderr, "%s: %s\n", step, redlock_result_text(&copy));
    return 0;
}

static void on_released(redlock_client *client, const redlock_result *result, void *arg)
{
    struct program *program = arg;
    if (went_well("release", result))
        program->status = EXIT_SUCCESS;
    redlock_close_async(&client, NULL, NULL, NULL);
}

/* Every failure closes the client. The close releases a held lock and lets ev_run() return. */
static void on_extended(redlock_client *client, const redlock_result *result, void *arg)
{
    struct program *program = arg;
    if (!went_well("extend", result) || redlock_release_async(&program->lock, NULL, on_released, program) != REDLOCK_OK)
        redlock_close_async(&client, NULL, NULL, NULL);
}

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    struct program *program = arg;
    program->lock = lock;
    if (!went_well("acquire", result) || redlock_extend_async(lock, 20000, NULL, on_extended, program) != REDLOCK_OK)
        redlock_close_async(&client, NULL, NULL, NULL);
    else
        printf("working on %s\n", redlock_lock_resource(lock, NULL));
}

int main(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] == '-') {
        puts("usage: asynchronous [NODES]\n\nNODES   the masters, host:port,host:port,... (default: REDLOCK_NODES)");
        return strcmp(argv[1], "--help") == 0 ? EXIT_SUCCESS : 2;
    }
    struct program program = {.status = EXIT_FAILURE};
    redlock_client *client;
    redlock_result result = {0};
    const char *nodes = argc > 1 ? argv[1] : getenv("REDLOCK_NODES");
    if (redlock_attach(EV_DEFAULT, nodes, NULL, &client, &result) != REDLOCK_OK)
        return !went_well("attach", &result);
    if (redlock_acquire_async(client, "examples/asynchronous", REDLOCK_WAIT_MS(5000), on_acquired, &program))
        redlock_close_async(&client, NULL, NULL, NULL);
    ev_run(EV_DEFAULT, 0);
    return program.status;
}
