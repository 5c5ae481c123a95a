/* A lock in a program on libuv: libuv [NODES]. Without NODES the program uses REDLOCK_NODES. */
#include <redlock/redlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct program {
    redlock_client *client;
    redlock_lock *lock;
    uv_poll_t completions;
    int status;
};

static int went_well(const char *step, const redlock_result *result)
{
    redlock_result copy = *result; /* the callback's result is const, and the text is written to the result */
    if (result->status == REDLOCK_OK)
        return printf("%s: %u of %u nodes\n", step, copy.granted, copy.nodes);
    fprintf(stderr, "%s: %s\n", step, redlock_result_text(&copy));
    return 0;
}

static void on_readable(uv_poll_t *completions, int status, int events)
{
    struct program *program = completions->data;
    (void)status, (void)events;
    redlock_dispatch(program->client);
}

/* The client's last callback: its descriptor is closed after this. */
static void on_closed(redlock_client *none, const redlock_result *result, void *arg)
{
    struct program *program = arg;
    (void)none, (void)result;
    uv_close((uv_handle_t *)&program->completions, NULL);
}

static void on_released(redlock_client *client, const redlock_result *result, void *arg)
{
    struct program *program = arg;
    program->status = went_well("release", result) ? EXIT_SUCCESS : EXIT_FAILURE;
    redlock_close_async(&client, NULL, on_closed, program);
}

/* A failure closes the client, too. redlock_dispatch() needs program->client until the close has ended. */
static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    struct program *program = arg;
    program->lock = lock;
    if (!went_well("acquire", result)) {
        redlock_close_async(&client, NULL, on_closed, program);
        return;
    }
    printf("working on %s, with %lld ms left\n", redlock_lock_resource(lock, NULL),
           (long long)redlock_validity_ms(lock));
    if (redlock_release_async(&program->lock, NULL, on_released, program) != REDLOCK_OK)
        redlock_close_async(&client, NULL, on_closed, program);
}

int main(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] == '-') {
        puts("usage: loop_libuv [NODES]\n\nNODES   the masters, host:port,host:port,... (default: REDLOCK_NODES)");
        return strcmp(argv[1], "--help") == 0 ? EXIT_SUCCESS : 2;
    }
    struct program program = {.status = EXIT_FAILURE};
    redlock_result result = {0};
    if (redlock_connect(argc > 1 ? argv[1] : getenv("REDLOCK_NODES"), NULL, &program.client, &result) != REDLOCK_OK)
        return !went_well("connect", &result);
    uv_poll_init(uv_default_loop(), &program.completions, redlock_descriptor(program.client));
    program.completions.data = &program;
    uv_poll_start(&program.completions, UV_READABLE, on_readable);
    redlock_client *client = program.client;
    if (redlock_acquire_async(client, "examples/libuv", REDLOCK_WAIT_MS(5000), on_acquired, &program) != REDLOCK_OK)
        redlock_close_async(&client, NULL, on_closed, &program);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    uv_loop_close(uv_default_loop());
    return program.status;
}
