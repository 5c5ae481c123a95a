/*
 * Records which functions of the library run for one plain acquire on a warm client, from the call to the callback. Built by scripts/walk.sh: the
 * library with -finstrument-functions, this file without.
 *
 * Prints "ADDRESS" for each function that ran, then an empty line, then the deepest stack, outermost function first.
 */
#include <ev.h>
#include <redlock/redlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUNCTIONS_MAX = 4096, DEPTH_MAX = 256, TRIES = 10 };

struct walk {
    void *function[FUNCTIONS_MAX];
    size_t functions;
    void *deepest[DEPTH_MAX];
    size_t depth;
};

static void *stack[DEPTH_MAX];
static size_t depth;
static struct walk *recording; /* NULL: functions are not recorded */

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    if (depth == DEPTH_MAX)
        abort();
    stack[depth++] = function;
    if (recording == NULL)
        return;
    if (depth > recording->depth) {
        recording->depth = depth;
        memcpy(recording->deepest, stack, depth * sizeof *stack);
    }
    for (size_t i = 0; i < recording->functions; i++)
        if (recording->function[i] == function)
            return;
    if (recording->functions == FUNCTIONS_MAX)
        abort();
    recording->function[recording->functions++] = function;
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
    depth--;
}

static void must(int status, const char *what)
{
    if (status == REDLOCK_OK)
        return;
    fprintf(stderr, "walk: %s: %s\n", what, redlock_status_text(status));
    exit(EXIT_FAILURE);
}

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    (void)client;
    recording = NULL;
    must(result->status, "acquire");
    *(redlock_lock **)arg = lock;
    ev_break(EV_DEFAULT_ EVBREAK_ALL);
}

static void on_done(redlock_client *client, const redlock_result *result, void *arg)
{
    const char *const *what = arg;
    (void)client;
    must(result->status, *what);
    ev_break(EV_DEFAULT_ EVBREAK_ALL);
}

static void on_rested(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)timer;
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

/* Lets late replies arrive, and a heartbeat: the walk is then that of the acquire alone. */
static void rest(void)
{
    ev_timer timer;
    ev_timer_init(&timer, on_rested, 0.3, 0);
    ev_timer_start(EV_DEFAULT_ & timer);
    ev_run(EV_DEFAULT_ 0);
}

static const char *ready = "ready", *release = "release", *end = "close";

static void acquire(redlock_client *client, struct walk *walk)
{
    redlock_lock *lock = NULL;
    recording = walk;
    must(redlock_acquire_async(client, "walk", NULL, on_acquired, &lock), "acquire");
    ev_run(EV_DEFAULT_ 0);
    must(redlock_release_async(&lock, NULL, on_done, &release), release);
    ev_run(EV_DEFAULT_ 0);
    rest();
}

int main(void)
{
    static struct walk walk, best;
    redlock_client *client;
    redlock_result result;
    must(redlock_attach(EV_DEFAULT, getenv("REDLOCK_NODES"), NULL, &client, &result), "attach");
    must(redlock_ready_async(client, 10000, on_done, &ready), ready);
    ev_run(EV_DEFAULT_ 0);
    acquire(client, &walk);
    for (int i = 0; i < TRIES; i++) {
        memset(&walk, 0, sizeof walk);
        acquire(client, &walk);
        if (best.functions == 0 || walk.functions < best.functions)
            best = walk;
    }
    must(redlock_close_async(&client, NULL, on_done, &end), end);
    ev_run(EV_DEFAULT_ 0);
    for (size_t i = 0; i < best.functions; i++)
        printf("%p\n", best.function[i]);
    printf("\n");
    for (size_t i = 0; i < best.depth; i++)
        printf("%p\n", best.deepest[i]);
    return EXIT_SUCCESS;
}
