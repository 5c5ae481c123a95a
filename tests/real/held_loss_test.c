/* The end of a lock on real servers. The client reports it once, in time and with its reason, in all states of the
 * nodes, and never while a majority replies. REDLOCK_TRIALS is the number of outages; by default each
 * API has one kind of outage, with one to all nodes. */
#define _GNU_SOURCE
#include "real/held.h"

#include "support/clock.h"
#include "support/delay_proxy.h"
#include "support/fixture.h"

#include <dirent.h>
#include <ev.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TTL_MS = 2000, IN_TIME_MS = 10, MILLISECOND = 1000000 };

static const char key[] = real_key("lost");
static redlock_result result;

/* --- Delays caused by the machine --- */

/* Returns the total time that threads of this process have waited for a processor. */
static double waited_for_processor_ms(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    double waited_ms = 0;

    while (tasks != NULL && (task = readdir(tasks)) != NULL) {
        char *path = fixture_text("/proc/self/task/%s/schedstat", task->d_name);
        FILE *file = fopen(path, "r");
        unsigned long long ran, waited;
        if (file != NULL && fscanf(file, "%llu %llu", &ran, &waited) == 2)
            waited_ms += (double)waited / MILLISECOND;
        if (file != NULL)
            fclose(file);
        free(path);
    }
    if (tasks != NULL)
        closedir(tasks);
    return waited_ms;
}

/* Sleeps for a millisecond again and again, and notes the longest delay of a wake-up, which the machine itself has
 * caused. The sleep is the measurement. */
struct witness {
    pthread_t thread;
    atomic_bool over;
    atomic_llong worst_ns;
    double waited_ms;
};

static void *watch_machine(void *arg)
{
    struct witness *witness = arg;

    while (!atomic_load(&witness->over)) {
        uint64_t before = test_now_ns();
        usleep(1000);
        long long late = (long long)(test_now_ns() - before) - MILLISECOND;
        if (late > atomic_load(&witness->worst_ns))
            atomic_store(&witness->worst_ns, late);
    }
    return NULL;
}

static void witness_begin(struct witness *witness)
{
    atomic_store(&witness->over, false);
    atomic_store(&witness->worst_ns, 0);
    witness->waited_ms = waited_for_processor_ms();
    ck_assert_int_eq(pthread_create(&witness->thread, NULL, watch_machine, witness), 0);
}

/* Returns the delay caused by the machine. It is close to 0 on an idle machine, and the limit stays strict. */
static double witness_end_ms(struct witness *witness)
{
    double waited_ms = waited_for_processor_ms() - witness->waited_ms;

    atomic_store(&witness->over, true);
    pthread_join(witness->thread, NULL);
    return waited_ms + (double)atomic_load(&witness->worst_ns) / MILLISECOND;
}

/* --- Outages --- */

enum outage { STOPPED, KILLED, PARTITIONED, OUTAGES };
static const char *const outage_names[] = {"stopped", "killed", "partitioned"};

struct scene {
    struct cluster *cluster;
    struct delay_proxy *proxy;
    struct face *face;
    enum outage outage;
    size_t nodes; /* number of nodes that are out */
};

static void strike(struct scene *scene)
{
    for (size_t i = 0; i < scene->nodes; i++) {
        if (scene->outage == STOPPED)
            cluster_stop(scene->cluster, i);
        else if (scene->outage == KILLED)
            cluster_kill(scene->cluster, i);
        else
            delay_proxy_hold(scene->proxy, i, PROXY_BOTH);
    }
}

static void repair(struct scene *scene)
{
    for (size_t i = 0; i < scene->nodes; i++) {
        if (scene->outage == STOPPED)
            cluster_resume(scene->cluster, i);
        else if (scene->outage == KILLED)
            cluster_start(scene->cluster, i);
        else
            delay_proxy_let_go(scene->proxy, i, PROXY_BOTH);
    }
    ck_assert(face_wait_all_ready(scene->face));
}

static void open_scene(struct scene *scene, int i)
{
    redlock_options options = held_options(TTL_MS, 0);
    uint16_t ports[HELD_NODES];

    memset(scene, 0, sizeof(*scene));
    scene->outage = (enum outage)((i + i / FACES) % OUTAGES);
    scene->cluster = real_cluster(HELD_NODES, NULL);
    for (size_t node = 0; node < HELD_NODES; node++)
        ports[node] = cluster_port(scene->cluster, node);
    scene->proxy = delay_proxy_start(ports, HELD_NODES);
    scene->face = held_open_trusted(face_of(i), delay_proxy_nodes_string(scene->proxy), &options);
}

static void close_scene(struct scene *scene)
{
    ck_assert(real_nothing_left(scene->face));
    face_close(&scene->face, &result);
    delay_proxy_stop(scene->proxy);
}

/* --- The end of a lock --- */

/* A thread that waits for the loss in the blocking API. */
struct waiter {
    pthread_t thread;
    atomic_int id; /* the thread's ID, set just before it waits */
    redlock_lock *lock;
    int status;
    int loss;
    uint64_t told_ns;
};

static void *wait_for_loss(void *arg)
{
    struct waiter *waiter = arg;

    atomic_store(&waiter->id, gettid());
    waiter->status = redlock_wait_lost(waiter->lock, REAL_SOON_MS, &waiter->loss);
    waiter->told_ns = test_now_ns();
    return NULL;
}

/* Does its thread sleep? It only sleeps in the wait. */
static bool is_waiting(void *arg)
{
    struct waiter *waiter = arg;
    char path[64], state = '?';

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&waiter->id));
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (file != NULL)
        fclose(file);
    return state == 'S';
}

/* The end of the lock as its holder can observe it. */
struct sight {
    redlock_lock *lock;
    int descriptor;
    uint64_t end_ns;      /* end of validity by the last query; exact to a millisecond */
    uint64_t readable_ns; /* when the descriptor was first readable */
    uint64_t until_ns;    /* end of the observation */
};

static bool is_readable(int descriptor)
{
    struct pollfd asked = {.fd = descriptor, .events = POLLIN};

    return poll(&asked, 1, 0) == 1 && (asked.revents & POLLIN);
}

/* Must be called every millisecond. */
static bool has_ended(void *arg)
{
    struct sight *sight = arg;
    uint64_t now = test_now_ns();
    int64_t validity = redlock_validity_ms(sight->lock);

    if (validity > 0)
        sight->end_ns = now + (uint64_t)(validity + 1) * MILLISECOND;
    if (is_readable(sight->descriptor) && sight->readable_ns == 0)
        sight->readable_ns = test_now_ns();
    return sight->readable_ns != 0 || now >= sight->until_ns;
}

static void assert_in_time(const struct scene *scene, const char *what, uint64_t told_ns, uint64_t end_ns,
                           double slack_ms)
{
    double late_ms = ((double)told_ns - (double)end_ns) / MILLISECOND;

    ck_assert_msg(late_ms <= IN_TIME_MS + slack_ms, "%zu nodes %s: %s %.1f ms after the end (the machine: %.1f ms)",
                  scene->nodes, outage_names[scene->outage], what, late_ms, slack_ms);
    ck_assert_msg(late_ms >= -2, "%zu nodes %s: %s %.1f ms before the end", scene->nodes, outage_names[scene->outage],
                  what, -late_ms);
}

static void assert_lost(const struct scene *scene, const struct sight *sight, const struct held_story *story,
                        const struct waiter *waiter, double slack_ms)
{
    ck_assert_uint_eq(atomic_load(&story->lost), 1);
    ck_assert_int_eq(atomic_load(&story->loss), REDLOCK_LOSS_EXPIRED);
    ck_assert_int_eq(atomic_load(&story->validity_ms), 0);
    ck_assert_ptr_eq(story->lock, sight->lock);
    if (slack_ms <= TTL_MS / 4) /* otherwise the machine delayed the renewals */
        ck_assert_uint_ge(atomic_load(&story->failing), 1);
    ck_assert_int_eq(redlock_validity_ms(sight->lock), 0);
    ck_assert_int_eq(redlock_lock_loss(sight->lock), REDLOCK_LOSS_EXPIRED);
    ck_assert(is_readable(sight->descriptor)); /* it stays readable */
    assert_in_time(scene, "called back", (uint64_t)atomic_load(&story->told_ns), sight->end_ns, slack_ms);
    assert_in_time(scene, "descriptor seen", sight->readable_ns, sight->end_ns, slack_ms + 2);
    if (!waiter->lock)
        return;
    ck_assert_int_eq(waiter->status, REDLOCK_LOST);
    ck_assert_int_eq(waiter->loss, REDLOCK_LOSS_EXPIRED);
    assert_in_time(scene, "wait_lost returned", waiter->told_ns, sight->end_ns, slack_ms);
}

/* Returns false if the machine was so late that the trial is invalid. */
static bool try_outage(struct scene *scene, size_t nodes)
{
    bool fatal = nodes >= HELD_QUORUM;
    struct held_story story;
    struct witness witness;
    struct waiter waiter = {0};
    redlock_acquire_options acquire = held_acquire_options(&story);
    struct sight sight = {.lock = held_acquire(scene->face, key, &acquire)};

    scene->nodes = nodes;
    ck_assert_int_eq(redlock_lost_descriptor(sight.lock, &sight.descriptor), REDLOCK_OK);
    if (fatal && redlock_wait_lost(sight.lock, 0, NULL) == REDLOCK_TIMED_OUT) { /* only in the blocking API */
        waiter.lock = sight.lock;
        ck_assert_int_eq(pthread_create(&waiter.thread, NULL, wait_for_loss, &waiter), 0);
    }
    strike(scene);
    bool early = redlock_validity_ms(sight.lock) > TTL_MS / 2;
    witness_begin(&witness);
    sight.until_ns = test_deadline_ns(fatal ? REAL_SOON_MS : 3 * TTL_MS / 2);
    face_wait(scene->face, has_ended, &sight, REAL_SOON_MS);
    held_settle(scene->face); /* a second notification would arrive now */
    double slack_ms = witness_end_ms(&witness);
    if (waiter.lock)
        pthread_join(waiter.thread, NULL);
    if (!fatal && atomic_load(&story.lost) > 0 && slack_ms > TTL_MS / 4)
        early = false; /* the machine kept the client from renewing */
    if (early && fatal) {
        assert_lost(scene, &sight, &story, &waiter, slack_ms);
    } else if (early) {
        ck_assert_msg(atomic_load(&story.lost) == 0 && sight.readable_ns == 0 && redlock_validity_ms(sight.lock) > 0,
                      "%zu nodes %s: lost, though a majority answered (the machine: %.1f ms)", nodes,
                      outage_names[scene->outage], slack_ms);
    }
    repair(scene);
    if (early)
        ck_assert_uint_eq(atomic_load(&story.lost), fatal);
    int status = face_release(scene->face, &sight.lock, &result);
    if (early)
        real_status(status, fatal ? REDLOCK_LOST : REDLOCK_OK, &result);
    return early;
}

/* REDLOCK_TRIALS, or 0 */
static unsigned trials(void)
{
    const char *asked = getenv("REDLOCK_TRIALS");

    return asked != NULL ? (unsigned)atoi(asked) : 0;
}

START_TEST(its_end_is_told_in_time_whatever_the_nodes_do)
{
    struct scene scene;
    const unsigned kinds = (unsigned)OUTAGES * (unsigned)FACES;
    unsigned count = trials() > 0 ? (trials() + kinds - 1) / kinds : HELD_NODES;

    open_scene(&scene, _i);
    unsigned shown = 0, tried = 0;
    while (shown < count && tried++ < 6 * count + 20) /* on a busy machine some of the trials are invalid */
        shown += try_outage(&scene, shown % HELD_NODES + 1);
    ck_assert_uint_eq(shown, count);
    close_scene(&scene);
}
END_TEST

/* --- Reasons and warnings --- */

static bool is_told(void *story)
{
    return atomic_load(&((struct held_story *)story)->lost) > 0;
}

static bool is_announced(void *story)
{
    return atomic_load(&((struct held_story *)story)->ending) > 0;
}

START_TEST(keys_that_are_gone_from_a_majority_are_noticed_at_the_next_renewal)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(3 * TTL_MS, 0);
    struct face *face = held_open_trusted(face_of(_i), cluster_nodes_string(cluster), &options);
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);
    redlock_lock *lock = held_acquire(face, key, &acquire);

    for (size_t i = 0; i < HELD_QUORUM; i++)
        cluster_integer(cluster, i, "DEL", key, NULL);
    ck_assert(face_wait(face, is_told, &story, REAL_SOON_MS));
    ck_assert_int_eq(atomic_load(&story.loss), REDLOCK_LOSS_GONE); /* not at the end of validity */
    ck_assert_int_eq(redlock_lock_loss(lock), REDLOCK_LOSS_GONE);
    ck_assert_int_eq(redlock_validity_ms(lock), 0);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_LOST, &result);
    ck_assert(real_nothing_left(face)); /* the keys on the minority are undone while the handle exists */
    real_status(face_release(face, &lock, &result), REDLOCK_LOST, &result);
    ck_assert_uint_eq(atomic_load(&story.lost), 1);
    held_close(face);
}
END_TEST

START_TEST(closing_tells_its_holder)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(10 * TTL_MS, 0);
    struct face *face = held_open_trusted(face_of(_i), cluster_nodes_string(cluster), &options);
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);

    held_acquire(face, key, &acquire);
    held_close(face);
    ck_assert_uint_eq(atomic_load(&story.lost), 1);
    ck_assert_int_eq(atomic_load(&story.loss), REDLOCK_LOSS_CLOSED);
    ck_assert_uint_eq(cluster_keys_left(cluster, NULL, deployment_marks), 0);
}
END_TEST

START_TEST(its_end_is_announced_before)
{
    enum { BEFORE_MS = 3 * TTL_MS / 2 };
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(2 * TTL_MS, 0);
    struct face *face = held_open_trusted(face_of(_i), cluster_nodes_string(cluster), &options);
    struct held_story story;
    struct witness witness;
    redlock_acquire_options acquire = held_acquire_options(&story);

    acquire.no_renewal = 1;
    acquire.notify_before_ms = BEFORE_MS;
    witness_begin(&witness);
    redlock_lock *lock = held_acquire(face, key, &acquire);
    ck_assert(face_wait(face, is_announced, &story, REAL_SOON_MS));
    ck_assert(face_wait(face, is_told, &story, REAL_SOON_MS));
    double slack_ms = witness_end_ms(&witness);
    ck_assert_int_le(atomic_load(&story.ending_validity), BEFORE_MS);
    ck_assert_double_ge((double)atomic_load(&story.ending_validity), BEFORE_MS - IN_TIME_MS - slack_ms);
    ck_assert_uint_eq(atomic_load(&story.ending), 1);
    ck_assert_uint_eq(atomic_load(&story.failing), 0);
    ck_assert_int_eq(atomic_load(&story.loss), REDLOCK_LOSS_EXPIRED);
    real_status(face_release(face, &lock, &result), REDLOCK_LOST, &result);
    held_close(face);
}
END_TEST

START_TEST(whoever_waits_is_told_of_its_release)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(10 * TTL_MS, 0);
    struct face *face = held_open_trusted(BLOCKING_FACE, cluster_nodes_string(cluster), &options);
    redlock_lock *lock = held_acquire(face, key, NULL);
    struct waiter waiter = {.lock = lock};
    int descriptor;

    ck_assert_int_eq(redlock_wait_lost(lock, 0, NULL), REDLOCK_TIMED_OUT);
    ck_assert_int_eq(redlock_wait_lost(lock, -2, NULL), REDLOCK_INVALID);
    ck_assert_int_eq(redlock_wait_lost(NULL, 0, NULL), REDLOCK_INVALID);
    ck_assert_int_eq(redlock_lost_descriptor(NULL, &descriptor), REDLOCK_INVALID);
    ck_assert_int_eq(redlock_lost_descriptor(lock, &descriptor), REDLOCK_OK);
    ck_assert(!is_readable(descriptor));
    ck_assert_int_eq(pthread_create(&waiter.thread, NULL, wait_for_loss, &waiter), 0);
    ck_assert(wait_until(is_waiting, &waiter, REAL_SOON_MS));
    held_release(face, &lock);
    pthread_join(waiter.thread, NULL);
    ck_assert_int_eq(waiter.status, REDLOCK_CANCELLED);
    held_close(face);
}
END_TEST

/* --- Callbacks that call the library --- */

struct actor {
    struct held_story story;
    struct face *face;
    redlock_client *client;
    redlock_lock *again;
    unsigned acquired;
    unsigned released;
    unsigned closed;
    int status;
};

static void on_released(redlock_client *client, const redlock_result *told, void *arg)
{
    struct actor *actor = arg;

    (void)client;
    actor->status = told->status;
    actor->released++;
}

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *told, void *arg)
{
    struct actor *actor = arg;

    (void)client;
    actor->status = told->status;
    actor->again = lock;
    actor->acquired++;
}

static void on_closed(redlock_client *client, const redlock_result *told, void *arg)
{
    struct actor *actor = arg;

    (void)client;
    (void)told;
    actor->closed++;
}

static void event_releases(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    struct actor *actor = arg;

    held_event(lock, event, loss, validity_ms, &actor->story);
    if (event == REDLOCK_EVENT_LOST)
        ck_assert_int_eq(redlock_release_async(&lock, on_released, actor), REDLOCK_OK);
}

static void event_acquires(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    struct actor *actor = arg;

    event_releases(lock, event, loss, validity_ms, arg);
    if (event == REDLOCK_EVENT_LOST)
        ck_assert_int_eq(redlock_acquire_async(actor->client, key, REDLOCK_WAIT_MS(REAL_SOON_MS), on_acquired, actor),
                         REDLOCK_OK);
}

static void event_closes(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    struct actor *actor = arg;

    held_event(lock, event, loss, validity_ms, &actor->story);
    if (event == REDLOCK_EVENT_LOST && actor->client != NULL)
        ck_assert_int_eq(redlock_close_async(&actor->client, on_closed, actor), REDLOCK_OK);
}

/* Releases at the ENDING event, while the lock is still held. */
static void ending_releases(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    struct actor *actor = arg;

    held_event(lock, event, loss, validity_ms, &actor->story);
    if (event == REDLOCK_EVENT_ENDING)
        ck_assert_int_eq(redlock_release_async(&lock, on_released, actor), REDLOCK_OK);
}

static bool has_released(void *actor)
{
    return ((struct actor *)actor)->released > 0;
}

static bool has_acquired(void *actor)
{
    return ((struct actor *)actor)->acquired > 0 && ((struct actor *)actor)->released > 0;
}

static redlock_lock *begin_actor(struct actor *actor, redlock_event_callback event)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(2 * TTL_MS, 0);
    redlock_acquire_options acquire = held_acquire_options(&actor->story);

    actor->face = held_open_trusted(ASYNCHRONOUS_FACE, cluster_nodes_string(cluster), &options);
    actor->client = face_client(actor->face);
    acquire.no_renewal = 1;
    acquire.notify_before_ms = 3 * TTL_MS / 2; /* on a busy machine the event is late, but not after the end */
    acquire.event = event;
    acquire.event_arg = actor;
    return held_acquire(actor->face, key, &acquire);
}

START_TEST(a_callback_may_release)
{
    struct actor actor = {0};

    begin_actor(&actor, event_releases);
    ck_assert(face_wait(actor.face, has_released, &actor, REAL_SOON_MS));
    ck_assert_int_eq(actor.status, REDLOCK_LOST);
    ck_assert_uint_eq(atomic_load(&actor.story.lost), 1);
    held_close(actor.face);
}
END_TEST

START_TEST(a_callback_may_release_before_the_end)
{
    struct actor actor = {0};

    begin_actor(&actor, ending_releases);
    ck_assert(face_wait(actor.face, has_released, &actor, REAL_SOON_MS));
    ck_assert_int_eq(actor.status, REDLOCK_OK);
    struct held_story later;
    redlock_acquire_options acquire = held_acquire_options(&later);
    acquire.no_renewal = 1;
    redlock_lock *lock = held_acquire(actor.face, key, &acquire);
    ck_assert(face_wait(actor.face, is_told, &later, REAL_SOON_MS)); /* this lock was acquired later and has ended */
    real_status(face_release(actor.face, &lock, &result), REDLOCK_LOST, &result);
    ck_assert_uint_eq(atomic_load(&actor.story.lost), 0);
    held_close(actor.face);
}
END_TEST

START_TEST(a_callback_may_acquire_again)
{
    struct actor actor = {0};

    begin_actor(&actor, event_acquires);
    ck_assert(face_wait(actor.face, has_acquired, &actor, REAL_SOON_MS));
    ck_assert_ptr_nonnull(actor.again);
    held_release(actor.face, &actor.again);
    ck_assert_uint_eq(atomic_load(&actor.story.lost), 1);
    held_close(actor.face);
}
END_TEST

static void on_held(redlock_client *client, redlock_lock *lock, const redlock_result *told, void *arg)
{
    (void)client;
    (void)arg;
    ck_assert_int_eq(told->status, REDLOCK_OK);
    ck_assert_ptr_nonnull(lock);
}

/* Two locks end at the same time, and the first callback closes the client. The test does not use a face, which would
 * close the client again. */
START_TEST(a_callback_may_close)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(500, 0);
    struct actor actor = {0};
    redlock_acquire_options acquire = held_acquire_options(&actor.story);
    struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);

    ck_assert_int_eq(redlock_attach(loop, cluster_nodes_string(cluster), &options, &actor.client, &result), REDLOCK_OK);
    acquire.no_renewal = 1;
    acquire.event = event_closes;
    acquire.event_arg = &actor;
    ck_assert_int_eq(redlock_acquire_async(actor.client, real_key("a"), &acquire, on_held, NULL), REDLOCK_OK);
    ck_assert_int_eq(redlock_acquire_async(actor.client, real_key("b"), &acquire, on_held, NULL), REDLOCK_OK);
    ev_run(loop, 0); /* returns when nothing keeps the loop alive: the client is closed */
    ck_assert_uint_eq(actor.closed, 1);
    ck_assert_ptr_null(actor.client);
    ck_assert_uint_eq(atomic_load(&actor.story.lost), 2);
    ev_loop_destroy(loop);
}
END_TEST

/* --- The holder's process is stopped --- */

struct message {
    uint64_t readable_ns;
    int64_t validity_ms;
    int32_t loss;
    int32_t before;
    double waited_ms; /* total wait for a processor */
};

static void say(int to, const struct message *message)
{
    if (write(to, message, sizeof(*message)) != (ssize_t)sizeof(*message))
        _exit(2);
}

/* Holds a lock and waits for its loss only by the descriptor. */
static _Noreturn void hold(const char *nodes, int to)
{
    redlock_options options = held_options(TTL_MS, 0);
    redlock_client *client;
    redlock_lock *lock;
    struct pollfd lost = {.events = POLLIN};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (redlock_connect(nodes, &options, &client, NULL) != REDLOCK_OK ||
        redlock_acquire(client, key, REDLOCK_WAIT_MS(REAL_SOON_MS), &lock, NULL) != REDLOCK_OK ||
        redlock_lost_descriptor(lock, &lost.fd) != REDLOCK_OK)
        _exit(1);
    say(to, &(struct message){.before = 1, .waited_ms = waited_for_processor_ms()});
    while (poll(&lost, 1, -1) != 1)
        ;
    say(to, &(struct message){test_now_ns(), redlock_validity_ms(lock), redlock_lock_loss(lock), 0,
                              waited_for_processor_ms()});
    redlock_release(&lock, NULL);
    redlock_close(&client, NULL);
    _exit(0);
}

/* Have the keys expired on every node? They outlive the holder's validity. */
static bool has_run_out(void *cluster)
{
    return cluster_keys_left(cluster, NULL, deployment_marks) == 0;
}

START_TEST(a_client_that_was_stopped_learns_of_its_loss_at_once)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    struct witness witness;
    struct message message;
    int ends[2], status;

    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        hold(cluster_nodes_string(cluster), ends[1]);
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &message, sizeof(message)), sizeof(message));
    ck_assert_int_eq(message.before, 1);
    double waited_ms = message.waited_ms;
    kill(child, SIGSTOP);
    ck_assert(wait_until(has_run_out, cluster, REAL_SOON_MS));
    witness_begin(&witness);
    uint64_t resumed = test_now_ns();
    kill(child, SIGCONT);
    ck_assert_int_eq(read(ends[0], &message, sizeof(message)), sizeof(message));
    double slack_ms = witness_end_ms(&witness) + message.waited_ms - waited_ms;
    ck_assert_int_eq(message.before, 0);
    ck_assert_int_eq(message.validity_ms, 0);
    ck_assert_int_eq(message.loss, REDLOCK_LOSS_EXPIRED);
    ck_assert_uint_ge(message.readable_ns, resumed);
    double late_ms = (double)(message.readable_ns - resumed) / MILLISECOND;
    ck_assert_msg(late_ms <= IN_TIME_MS + slack_ms, "%.1f ms after it was resumed (the machine: %.1f ms)", late_ms,
                  slack_ms);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    close(ends[0]);
}
END_TEST

static Suite *loss_suite(void)
{
    Suite *suite = suite_create("held_loss");
    TCase *outages = real_bare_case(suite, "outages");
    TCase *reasons = real_bare_case(suite, "reasons");
    TCase *callbacks = real_bare_case(suite, "callbacks");

    tcase_set_timeout(outages, 120 + 5.0 * trials());
    real_add_long_test(outages, its_end_is_told_in_time_whatever_the_nodes_do,
                       trials() > 0 ? (int)OUTAGES * (int)FACES : (int)FACES);
    tcase_add_loop_test(reasons, keys_that_are_gone_from_a_majority_are_noticed_at_the_next_renewal, 0, FACES);
    tcase_add_loop_test(reasons, closing_tells_its_holder, 0, FACES);
    tcase_add_loop_test(reasons, its_end_is_announced_before, 0, FACES);
    tcase_add_test(reasons, whoever_waits_is_told_of_its_release);
    tcase_add_test(reasons, a_client_that_was_stopped_learns_of_its_loss_at_once);
    tcase_add_test(callbacks, a_callback_may_release);
    tcase_add_test(callbacks, a_callback_may_release_before_the_end);
    tcase_add_test(callbacks, a_callback_may_acquire_again);
    tcase_add_test(callbacks, a_callback_may_close);
    return suite;
}

int main(void)
{
    return real_run(loss_suite(), true);
}
