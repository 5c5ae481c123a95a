#include "actor.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

_Noreturn void actor_fail(const char *what, const char *why)
{
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

pid_t actor_start(void (*body)(const void *argument), const void *argument)
{
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        actor_fail("no process", "fork");
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    body(argument);
    _exit(0);
}

void actor_wait(pid_t actor)
{
    int status;
    if (waitpid(actor, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        actor_fail("a process did not end well", "see above");
}

redlock_client *actor_connect(const char *nodes)
{
    redlock_client *client;
    redlock_result result;
    if (redlock_connect(nodes, NULL, &client, &result) != REDLOCK_OK ||
        redlock_ready(client, ACTOR_READY_TIMEOUT_MS, &result) != REDLOCK_OK)
        actor_fail("no client", redlock_result_text(&result));
    return client;
}

void actor_trust(const void *nodes)
{
    redlock_client *client;
    redlock_result result;
    if (redlock_connect(nodes, NULL, &client, &result) != REDLOCK_OK ||
        redlock_trust(client, NULL, &result) != REDLOCK_OK)
        actor_fail("the nodes are not trusted", redlock_result_text(&result));
    redlock_close(&client, NULL, NULL);
}

void *actor_share_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        actor_fail("no shared memory", "mmap");
    return memory;
}
