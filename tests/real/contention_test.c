/* Contention for one lock on real servers: threads that share a client, threads with a client each, operations on
 * one loop, and processes. A witness outside Redis detects two holders at a time. */
#define _GNU_SOURCE
#include "real/real.h"

#include "support/clock.h"

#include <ev.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 5, CONTENDERS = 8, TURNS = 15, PROCESSES = 4 };

static const char key[] = real_key("contended");

/* The protected data. Reading and writing the count are separate steps, so two holders at a time would lose
 * increments. */
struct witness {
    atomic_int inside;
    atomic_int count;
    atomic_int violations;
};

static struct witness here;

static void enter(struct witness *witness)
{
    if (atomic_fetch_add(&witness->inside, 1) != 0)
        atomic_fetch_add(&witness->violations, 1);
}

static void leave(struct witness *witness)
{
    int count = atomic_load(&witness->count);

    sched_yield();
    atomic_store(&witness->count, count + 1);
    atomic_fetch_sub(&witness->inside, 1);
}

static void expect(struct witness *witness, int count)
{
    ck_assert_int_eq(atomic_load(&witness->violations), 0);
    ck_assert_int_eq(atomic_load(&witness->inside), 0);
    ck_assert_int_eq(atomic_load(&witness->count), count);
}

/* While nodes hang, a majority may confirm the release too late. */
static atomic_bool nodes_hang;

/* Short timeouts for nodes that hang: a round with two of three votes may have to wait for them, also while they are being
 * connected, and those of a node that hung then grow up to the silence limit. */
static redlock_client *connect_client(void)
{
    redlock_options options = face_options();
    redlock_client *client;

    options.node_timeout_ms = 200;
    if (atomic_load(&nodes_hang))
        options.connect_timeout_ms = options.silence_limit_ms = 1000;
    return redlock_connect(deployment_nodes(real_nodes), &options, &client, NULL) == REDLOCK_OK ? client : NULL;
}

static bool is_released(int status)
{
    return status == REDLOCK_OK || (status == REDLOCK_NO_QUORUM && atomic_load(&nodes_hang));
}

/* Returns the number of failed turns. */
static int take_turns(redlock_client *client, struct witness *witness, int turns)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *lock;
    int wrong = 0;

    options.wait_ms = REDLOCK_FOREVER;
    for (int i = 0; i < turns; i++) {
        if (redlock_acquire(client, key, &options, &lock, NULL) != REDLOCK_OK) {
            wrong++;
            continue;
        }
        enter(witness);
        wrong += redlock_validity_ms(lock) == 0;
        leave(witness);
        wrong += !is_released(redlock_release(&lock, NULL));
    }
    return wrong;
}

/* --- Threads --- */

struct contender {
    pthread_t thread;
    redlock_client *client; /* NULL: the thread opens a separate client */
    int wrong;
    bool unconfirmed;
};

static void *contend(void *arg)
{
    struct contender *contender = arg;
    redlock_client *own = contender->client == NULL ? connect_client() : NULL;

    contender->wrong = take_turns(own != NULL ? own : contender->client, &here, TURNS);
    if (own != NULL && redlock_close(&own, NULL) != REDLOCK_OK)
        contender->unconfirmed = true;
    return NULL;
}

static void contend_with(redlock_client *client)
{
    struct contender contenders[CONTENDERS];

    memset(&here, 0, sizeof(here));
    atomic_store(&nodes_hang, false);
    for (int i = 0; i < CONTENDERS; i++) {
        contenders[i] = (struct contender){.client = client};
        ck_assert_int_eq(pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]), 0);
    }
    for (int i = 0; i < CONTENDERS; i++) {
        ck_assert_int_eq(pthread_join(contenders[i].thread, NULL), 0);
        ck_assert_int_eq(contenders[i].wrong, 0);
        ck_assert(!contenders[i].unconfirmed);
    }
    expect(&here, CONTENDERS * TURNS);
}

START_TEST(threads_with_one_client)
{
    redlock_client *client = connect_client();

    contend_with(client);
    ck_assert_int_eq(redlock_close(&client, NULL), REDLOCK_OK);
}
END_TEST

START_TEST(threads_with_a_client_each)
{
    contend_with(NULL);
}
END_TEST

/* --- One loop --- */

struct runner {
    struct ev_loop *loop;
    redlock_client *client;
    redlock_lock *lock;
    ev_timer inside; /* holds the lock for one turn of the loop or more */
    int left;
    int *running;
};

static void run_again(struct runner *runner);

static void on_released(redlock_client *client, const redlock_result *result, void *arg)
{
    struct runner *runner = arg;

    (void)client;
    ck_assert_int_eq(result->status, REDLOCK_OK);
    if (--runner->left > 0)
        run_again(runner);
    else if (--*runner->running == 0)
        ev_break(runner->loop, EVBREAK_ALL);
}

static void on_inside(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct runner *runner = timer->data;

    (void)loop;
    (void)events;
    leave(&here);
    ck_assert_int_eq(redlock_release_async(&runner->lock, on_released, runner), REDLOCK_OK);
}

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    struct runner *runner = arg;

    (void)client;
    ck_assert_int_eq(result->status, REDLOCK_OK);
    runner->lock = lock;
    enter(&here);
    ev_timer_init(&runner->inside, on_inside, 0.0005, 0.);
    runner->inside.data = runner;
    ev_timer_start(runner->loop, &runner->inside);
}

static void run_again(struct runner *runner)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;

    options.wait_ms = REDLOCK_FOREVER;
    ck_assert_int_eq(redlock_acquire_async(runner->client, key, &options, on_acquired, runner), REDLOCK_OK);
}

static void on_closed(redlock_client *client, const redlock_result *result, void *arg)
{
    (void)client;
    ck_assert_int_eq(result->status, REDLOCK_OK);
    ev_break(arg, EVBREAK_ALL);
}

/* Half of the operations share a client; the others have one each. */
START_TEST(operations_of_one_loop)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);
    redlock_options options = face_options();
    struct runner runners[CONTENDERS];
    int running = CONTENDERS;

    memset(&here, 0, sizeof(here));
    for (int i = 0; i < CONTENDERS; i++) {
        runners[i] = (struct runner){.loop = loop, .left = TURNS, .running = &running};
        if (i > 0 && i < CONTENDERS / 2)
            runners[i].client = runners[0].client;
        else
            ck_assert_int_eq(redlock_attach(loop, deployment_nodes(real_nodes), &options, &runners[i].client, NULL),
                             REDLOCK_OK);
        run_again(&runners[i]);
    }
    ev_run(loop, 0);
    expect(&here, CONTENDERS * TURNS);
    for (int i = 0; i < CONTENDERS; i++) {
        if (i > 0 && i < CONTENDERS / 2)
            continue;
        ck_assert_int_eq(redlock_close_async(&runners[i].client, on_closed, loop), REDLOCK_OK);
        ev_run(loop, 0);
    }
    ev_loop_destroy(loop);
}
END_TEST

/* --- Processes --- */

static struct witness *shared_witness(void)
{
    void *page = mmap(NULL, sizeof(struct witness), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    ck_assert(page != MAP_FAILED);
    return memset(page, 0, sizeof(struct witness));
}

_Noreturn static void contend_in_child(struct witness *witness)
{
    redlock_client *client = connect_client();
    int wrong = client == NULL ? 1 : take_turns(client, witness, TURNS);

    if (client != NULL)
        wrong += redlock_close(&client, NULL) != REDLOCK_OK;
    _exit(wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

START_TEST(processes)
{
    struct witness *witness = shared_witness();
    pid_t children[PROCESSES];

    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0)
            contend_in_child(witness);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS, "child %d ended with %#x", i, status);
    }
    expect(witness, PROCESSES * TURNS);
    munmap(witness, sizeof(*witness));
}
END_TEST

/* The process is killed while it holds the lock, so the lock ends with its ttl. */
_Noreturn static void hold_and_die(uint32_t ttl_ms)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_client *client = connect_client();
    redlock_lock *lock;

    options.ttl_ms = ttl_ms;
    options.wait_ms = REDLOCK_FOREVER;
    if (client == NULL || redlock_acquire(client, key, &options, &lock, NULL) != REDLOCK_OK)
        _exit(EXIT_FAILURE);
    raise(SIGKILL);
    _exit(EXIT_FAILURE);
}

START_TEST(a_killed_holder_frees_the_lock_within_its_ttl)
{
    enum { TTL_MS = 1000 };
    redlock_result result;
    redlock_lock *lock;
    int status;
    pid_t child = fork();

    if (child == 0)
        hold_and_die(TTL_MS);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    struct face *face = face_open_ready((enum face_kind)_i, deployment_nodes(real_nodes), NULL);
    real_status(face_acquire(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS), &lock, &result), REDLOCK_OK, &result);
    real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
    face_close(&face, NULL);
}
END_TEST

/* --- Nodes fail meanwhile --- */

static bool has_progressed(void *count)
{
    int now = atomic_load(&here.count);

    return now > *(int *)count || now == CONTENDERS * TURNS;
}

/* Waits until the lock has changed hands, while two nodes are stopped or after they have resumed. */
static void await_progress(void)
{
    int count = atomic_load(&here.count);

    ck_assert(wait_until(has_progressed, &count, REAL_SOON_MS));
}

START_TEST(threads_while_nodes_hang_and_resume)
{
    struct contender contenders[CONTENDERS];

    memset(&here, 0, sizeof(here));
    atomic_store(&nodes_hang, true);
    for (int i = 0; i < CONTENDERS; i++) {
        contenders[i] = (struct contender){.client = NULL};
        ck_assert_int_eq(pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]), 0);
    }
    for (size_t node = 0; atomic_load(&here.count) < CONTENDERS * TURNS; node = (node + 1) % NODES) {
        deployment_stop(real_nodes, node);
        deployment_stop(real_nodes, (node + 1) % NODES);
        await_progress();
        deployment_repair(real_nodes);
        await_progress();
    }
    bool unconfirmed = false;
    for (int i = 0; i < CONTENDERS; i++) {
        ck_assert_int_eq(pthread_join(contenders[i].thread, NULL), 0);
        ck_assert_int_eq(contenders[i].wrong, 0);
        unconfirmed = unconfirmed || contenders[i].unconfirmed;
    }
    expect(&here, CONTENDERS * TURNS);
    /* A close does not wait for a node that hangs longer than its timeout, and says so: the key stays there for its ttl. */
    for (size_t node = 0; unconfirmed && node < NODES; node++)
        real_delete(node, key);
}
END_TEST

static Suite *contention_suite(void)
{
    Suite *suite = suite_create("real_contention");
    TCase *tcase = real_shared_case(suite, "contention");

    tcase_add_test(tcase, threads_with_one_client);
    tcase_add_test(tcase, threads_with_a_client_each);
    tcase_add_test(tcase, operations_of_one_loop);
    tcase_add_test(tcase, processes);
    tcase_add_loop_test(tcase, a_killed_holder_frees_the_lock_within_its_ttl, 0, FACES);
    if (deployment_has_control())
        tcase_add_test(tcase, threads_while_nodes_hang_and_resume);
    return suite;
}

int main(void)
{
    return real_run(contention_suite(), false);
}
