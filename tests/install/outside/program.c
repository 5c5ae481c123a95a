/* A user's program: acquires a lock on $REDLOCK_NODES, and prints the version of the library. */
#include <redlock/redlock.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    redlock_client *client;
    redlock_lock *lock;
    redlock_result result;
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.node_timeout_ms = 20000; /* on a busy machine */
    if (redlock_connect(getenv("REDLOCK_NODES"), &options, &client, &result) != REDLOCK_OK)
        return puts(redlock_result_text(&result)), EXIT_FAILURE;
    int status = redlock_acquire(client, "outside", REDLOCK_WAIT_MS(20000), &lock, &result);
    printf("%s: C: %s\n", redlock_version(), redlock_result_text(&result));
    redlock_release(&lock, NULL, NULL);
    redlock_close(&client, NULL, NULL);
    return status == REDLOCK_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
