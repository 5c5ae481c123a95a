/* Threads as owners of locks, and threads that are cancelled: the blocking API against fake nodes. Also under
 * ThreadSanitizer. */
#include "fake/scene.h"

enum { THREADS_TRIED = 1000, CANCELS = 300, WORKERS = 4 };

static const char self[] = "the owner";
static redlock_result result;

static void three_nodes(void)
{
    scene_begin(3);
    scene_connect();
}

static void release(redlock_lock **lock)
{
    if (*lock)
        redlock_release(lock, NULL, &result);
}

/* --- A thread as the owner --- */

struct visit {
    pthread_t thread;
    redlock_acquire_options options;
    redlock_lock *lock;
    int status;
};

static void *acquire_stock(void *arg)
{
    struct visit *visit = arg;
    visit->thread = pthread_self();
    visit->status = redlock_acquire(scene.client, "stock", &visit->options, &visit->lock, NULL);
    return NULL;
}

static void *note_thread(void *arg)
{
    *(pthread_t *)arg = pthread_self();
    return NULL;
}

/* Runs acquire_stock() in a thread that has the pthread_t of an earlier one that has ended. */
static void visit_as(struct visit *visit, pthread_t earlier)
{
    for (unsigned i = 0; i < THREADS_TRIED; i++) {
        pthread_t seen;
        scene_join(scene_thread(note_thread, &seen));
        if (!pthread_equal(seen, earlier))
            continue;
        scene_join(scene_thread(acquire_stock, visit));
        if (pthread_equal(visit->thread, earlier))
            return;
        release(&visit->lock);
    }
    ck_abort_msg("no thread got the pthread_t of the first one");
}

static bool is_lost(void *lock)
{
    return redlock_lock_loss(lock) != REDLOCK_NOT_LOST;
}

static const struct {
    uint32_t ttl_ms; /* of the first thread's lock, which is not renewed */
    int status;      /* of the second thread's acquire */
} visits[] = {{60000, REDLOCK_HELD}, {300, REDLOCK_OK}};

SCENE_CASE(owner, three_nodes);

TEST_ROWS(owner, new_thread_is_another_owner_than_dead_one_of_same_pthread_t, ROWS(visits))
{
    bool expires = visits[_i].status == REDLOCK_OK;
    struct visit first = {.options =
                              *SCENE_WITH(.ttl_ms = visits[_i].ttl_ms, .no_renewal = 1, .wait_ms = SCENE_SOON_MS)};
    struct visit second = {.options = *REDLOCK_WAIT_MS(expires ? SCENE_SOON_MS : 0)}; /* the drift after the lock */
    scene_join(scene_thread(acquire_stock, &first));
    ck_assert_status(first.status, REDLOCK_OK);
    if (expires)
        ck_assert(wait_until(is_lost, first.lock, SCENE_SOON_MS));
    visit_as(&second, first.thread);
    ck_assert_status(second.status, visits[_i].status);
    ck_assert_uint_eq(redlock_hold_count(first.lock), 1);
    release(&second.lock);
    release(&first.lock);
}

/* --- Options for re-entry --- */

static const struct {
    uint32_t reentry;
    const void *owner;
    int status; /* of the second acquire by the same thread, with the same options */
    const char *words;
} reentries[] = {
    {REDLOCK_REENTRY_DEFAULT, NULL, REDLOCK_OK, "this owner already holds the lock: hold count 2; no request was sent"},
    {REDLOCK_REENTRY_DEFAULT, self, REDLOCK_OK, "hold count 2"},
    {REDLOCK_REENTRY_OWNER, self, REDLOCK_OK, "hold count 2"},
    {REDLOCK_REENTRY_NEVER, NULL, REDLOCK_HELD, "this client itself holds 'stock', for another owner"},
    {REDLOCK_REENTRY_OWNER, NULL, REDLOCK_INVALID, "owner is NULL; pass the address of the owner"},
    {REDLOCK_REENTRY_NEVER, self, REDLOCK_INVALID, "REDLOCK_REENTRY_NEVER and an owner exclude each other"},
    {3, NULL, REDLOCK_INVALID, "reentry is 3"},
};

TEST_ROWS(owner, reentry_option_selects_the_owner, ROWS(reentries))
{
    const redlock_acquire_options *options = SCENE_WITH(.reentry = reentries[_i].reentry, .owner = reentries[_i].owner);
    redlock_lock *first, *second;
    int status = redlock_acquire(scene.client, "stock", options, &first, &result);
    ck_assert_status(status, reentries[_i].status == REDLOCK_INVALID ? REDLOCK_INVALID : REDLOCK_OK);
    ck_assert_status(redlock_acquire(scene.client, "stock", options, &second, &result), reentries[_i].status);
    ck_assert_has(redlock_result_text(&result), reentries[_i].words);
    redlock_lock_set_user_data(first, &scene);
    ck_assert_ptr_null(redlock_lock_user_data(second)); /* each handle has its own */
    release(&second);
    if (reentries[_i].status == REDLOCK_OK)
        ck_assert_has(redlock_result_text(&result), "still held by its owner: hold count 1");
    release(&first);
}

/* The lock that is held is on the resources "b" and "dd". */
static const struct {
    const char *resource;
    redlock_name also[2];
    size_t also_count;
    int status;
} others[] = {
    {"b", {{"dd", 0}}, 1, REDLOCK_OK},
    {"dd", {{"b", 0}}, 1, REDLOCK_OK},
    {"b", {{NULL, 0}}, 0, REDLOCK_OK},
    {"dd", {{NULL, 0}}, 0, REDLOCK_OK},
    {"b", {{"cc", 0}}, 1, REDLOCK_INVALID},
    {"b", {{"ee", 0}}, 1, REDLOCK_INVALID},
    {"a", {{"dd", 0}}, 1, REDLOCK_INVALID},
    {"bc", {{"dd", 0}}, 1, REDLOCK_INVALID},
    {"b", {{"d", 0}}, 1, REDLOCK_INVALID},
    {"b", {{"dd", 0}, {"e", 0}}, 2, REDLOCK_INVALID},
    {"a", {{"b", 0}, {"dd", 0}}, 2, REDLOCK_INVALID},
};

TEST_ROWS(owner, lock_is_reentered_by_its_resources_alone, ROWS(others))
{
    redlock_lock *first, *second;
    int status = redlock_acquire(scene.client, "b", SCENE_WITH(.also = &(redlock_name){"dd", 0}, .also_count = 1),
                                 &first, &result);
    ck_assert_status(status, REDLOCK_OK);
    ck_assert_int_ge(result.validity_ms, redlock_validity_ms(first)); /* less is left now */
    ck_assert_int_gt(redlock_validity_ms(first), 0);
    status =
        redlock_acquire(scene.client, others[_i].resource,
                        SCENE_WITH(.also = others[_i].also, .also_count = others[_i].also_count), &second, &result);
    ck_assert_status(status, others[_i].status);
    ck_assert_uint_eq(redlock_hold_count(first), others[_i].status == REDLOCK_OK ? 2 : 1);
    release(&second);
    release(&first);
}

/* --- pthread_cancel(3) --- */

static void release_at_exit(void *arg)
{
    release(arg);
}

/* Only a worker's cleanup handler releases its lock, so *lock must be set before a cancellation takes effect. */
static void *work_until_cancelled(void *arg)
{
    char name[24];
    redlock_lock *lock = NULL;
    snprintf(name, sizeof name, "own-%u", *(unsigned *)arg);
    pthread_cleanup_push(release_at_exit, &lock);
    for (;;) {
        redlock_acquire(scene.client, name, NULL, &lock, NULL);
        pthread_testcancel();
        redlock_extend(lock, 0, NULL, NULL);
        redlock_wait_lost(lock, 0, NULL);
        redlock_release(&lock, NULL, NULL);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

TEST(owner, cancelled_threads_leave_no_lock)
{
    pthread_t threads[WORKERS];
    unsigned numbers[WORKERS];
    for (unsigned cancel = 0; cancel < CANCELS / WORKERS; cancel++) {
        for (unsigned i = 0; i < WORKERS; i++) {
            numbers[i] = i;
            threads[i] = scene_thread(work_until_cancelled, &numbers[i]);
        }
        redlock_query(scene.client, "own-0", 0, NULL, NULL,
                      NULL); /* takes a round trip, during which the workers run */
        for (unsigned i = 0; i < WORKERS; i++)
            pthread_cancel(threads[i]);
        for (unsigned i = 0; i < WORKERS; i++)
            scene_join(threads[i]);
    }
    ck_assert_uint_eq(scene_statistics().locks_held, 0);
    ck_assert_uint_eq(scene_statistics().operations_pending, 0);
}

/* A cancelled thread completes its calls: the client is created and closed completely. */
static void *open_and_close(void *unused)
{
    redlock_client *client;
    (void)unused;
    pthread_cancel(pthread_self());
    if (redlock_connect(scene_list(), &scene.options, &client, NULL) == REDLOCK_OK)
        redlock_close(&client, NULL, NULL);
    pthread_testcancel();
    return NULL;
}

TEST(owner, pending_cancel_waits_for_the_end_of_a_call)
{
    ck_assert_ptr_eq(scene_join(scene_thread(open_and_close, NULL)), PTHREAD_CANCELED);
}

TEST_PROGRAM("fake_owner")
