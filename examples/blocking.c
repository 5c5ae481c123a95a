/* A lock in ordinary blocking code: blocking [NODES]. Without NODES the program uses REDLOCK_NODES. */
#include <redlock/redlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(const char *what, redlock_result *result)
{
    fprintf(stderr, "%s: %s\n", what, redlock_result_text(result));
    return EXIT_FAILURE;
}

static int work_under(redlock_lock *lock, redlock_result *result)
{
    printf("step 1, with %lld ms left\n", (long long)redlock_validity_ms(lock));
    if (redlock_extend(lock, 20000, NULL, result) != REDLOCK_OK)
        return complain("extend", result);
    printf("extended by %u of %u nodes\n", result->granted, result->nodes);

    /* Check right before a step that must not happen twice: is there enough time left to finish it? */
    if (redlock_validity_ms(lock) < 1000)
        return complain("too late for step 2", result);
    printf("step 2, with %lld ms left\n", (long long)redlock_validity_ms(lock));
    return EXIT_SUCCESS;
}

static int run(redlock_client *client)
{
    redlock_lock *lock;
    redlock_result result;
    if (redlock_acquire(client, "examples/blocking", REDLOCK_WAIT_MS(5000), &lock, &result) != REDLOCK_OK)
        return complain("acquire", &result);
    printf("acquired from %u of %u nodes in %.2f ms\n", result.granted, result.nodes, (double)result.elapsed_us / 1000);

    int status = work_under(lock, &result);
    if (redlock_release(&lock, NULL, &result) != REDLOCK_OK)
        return complain("release", &result);
    printf("released\n");
    return status;
}

int main(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] == '-') {
        puts("usage: blocking [NODES]\n\nNODES   the masters, host:port,host:port,... (default: REDLOCK_NODES)");
        return strcmp(argv[1], "--help") == 0 ? EXIT_SUCCESS : 2;
    }
    const char *nodes = argc > 1 ? argv[1] : getenv("REDLOCK_NODES");
    redlock_client *client;
    redlock_result result;
    if (redlock_connect(nodes, NULL, &client, &result) != REDLOCK_OK)
        return complain("connect", &result);
    int status = run(client);
    if (redlock_close(&client, NULL, &result) != REDLOCK_OK)
        return complain("close", &result);
    return status;
}
