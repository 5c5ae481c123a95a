#include "real/held.h"

#include "src/lock/lease.h"

redlock_options held_options(uint32_t ttl_ms, uint32_t guard)
{
    redlock_options options = face_options();
    options.ttl_ms = ttl_ms;
    options.renewal_percent = 33;
    options.node_timeout_ms = 500; /* long enough for a busy machine */
    options.connect_timeout_ms = 1000;
    options.silence_limit_ms = 1000;
    options.guard = guard;
    if (guard)
        options.max_ttl_ms = 2000;
    return options;
}

void held_event(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    struct held_story *story = arg;
    if (event == REDLOCK_EVENT_RENEWAL_FAILING) {
        atomic_fetch_add(&story->failing, 1);
        return;
    }
    if (event != REDLOCK_EVENT_LOST)
        return;
    atomic_store(&story->lost_ns, (long long)test_now_ns());
    atomic_store(&story->validity_ms, validity_ms);
    atomic_store(&story->loss, loss);
    story->lock = lock;
    atomic_fetch_add(&story->lost, 1);
}

redlock_acquire_options held_acquire_options(struct held_story *story)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    memset(story, 0, sizeof *story);
    options.event = held_event;
    options.event_arg = story;
    options.wait_ms = REAL_SOON_MS;
    return options;
}

/* --- Clients --- */

static bool all_answer(struct face *face)
{
    for (uint32_t i = 0; i < redlock_nodes(face_client(face)); i++)
        if (strcmp(held_node_status(face, i).state, "ready") != 0)
            return false;
    return true;
}

bool held_all_usable(struct face *face)
{
    for (uint32_t i = 0; i < redlock_nodes(face_client(face)); i++)
        if (!held_node_status(face, i).usable)
            return false;
    return true;
}

bool held_clocks_known(struct face *face)
{
    for (uint32_t i = 0; i < redlock_nodes(face_client(face)); i++)
        if (!held_node_status(face, i).clock_known || !held_node_status(face, i).round_trip_us)
            return false;
    return true;
}

struct face *held_open(int i, const char *nodes, const redlock_options *options)
{
    if (!cluster)
        real_cluster(HELD_NODES, NULL);
    struct face *face = face_open(face_of(i), nodes ? nodes : cluster_nodes_string(cluster), options);
    real_until(face, all_answer(face));
    return face;
}

/* On a busy machine a majority may miss the node timeout. */
void held_trust(struct face *face)
{
    uint64_t deadline = test_deadline_ns(REAL_SOON_MS);
    while (face_trust(face, &result) == REDLOCK_NO_QUORUM && test_now_ns() < deadline)
        ;
    real_status(result.status, REDLOCK_OK, &result);
}

struct face *held_open_trusted(int i, const char *nodes, const redlock_options *options)
{
    struct face *face = held_open(i, nodes, options);
    if (options->guard)
        held_trust(face);
    ck_assert(face_wait_all_ready(face));
    return face;
}

redlock_lock *held_acquire(struct face *face, const char *key, const redlock_acquire_options *options)
{
    redlock_lock *lock;
    real_status(face_acquire(face, key, options, &lock, &result), REDLOCK_OK, &result);
    return lock;
}

void held_refuse(struct face *face, const char *key, const redlock_acquire_options *options, int status)
{
    redlock_lock *lock;
    real_status(face_acquire(face, key, options, &lock, &result), status, &result);
    ck_assert_ptr_null(lock);
}

void held_result_says(const char *words)
{
    const char *text = redlock_result_text(&result);
    ck_assert_msg(strstr(text, words), "'%s' is not in: %s", words, text);
}

void held_release(struct face *face, redlock_lock **lock)
{
    redlock_result released;
    real_status(face_release(face, lock, &released), REDLOCK_OK, &released);
}

static bool has_to_undo(struct face *face)
{
    for (uint32_t i = 0; i < redlock_nodes(face_client(face)); i++) {
        redlock_node_status status = held_node_status(face, i);
        if (status.undos_pending > 0 || status.requests_pending > 0) /* a request that breaks may need one */
            return true;
    }
    return held_statistics(face).locks_held > 0;
}

/* A node that is down has requests that need an undo or not, as the machine was late or in time. A node that refuses the
 * client never answers, and only its handshake is pending. */
void held_close(struct face *face)
{
    redlock_result closed;
    if (has_to_undo(face)) {
        cluster_repair(cluster);
        real_until(face, all_answer(face) || !has_to_undo(face));
    }
    real_status(face_close(&face, &closed), REDLOCK_OK, &closed);
    ck_assert_uint_eq(closed.pending_undos, 0);
}

void held_close_all(void)
{
    struct face *face;
    while ((face = face_newest()))
        held_close(face);
}

void held_settle(struct face *face)
{
    redlock_result unused;
    for (int turns = 0; turns < 2; turns++)
        face_ready(face, 0, &unused);
}

redlock_node_status held_node_status(struct face *face, uint32_t node)
{
    redlock_node_status status;
    ck_assert_int_eq(redlock_node_status_get(face_client(face), node, &status), REDLOCK_OK);
    return status;
}

redlock_statistics held_statistics(struct face *face)
{
    redlock_statistics statistics;
    ck_assert_int_eq(redlock_statistics_get(face_client(face), &statistics), REDLOCK_OK);
    return statistics;
}

static uint64_t value_of(struct face *face, size_t counter)
{
    redlock_statistics statistics = held_statistics(face);
    uint64_t value;
    memcpy(&value, (const char *)&statistics + counter, sizeof value);
    return value;
}

void held_await_more(struct face *face, size_t counter, uint64_t more)
{
    uint64_t wanted = value_of(face, counter) + more;
    real_until(face, value_of(face, counter) >= wanted);
}

/* --- Scenes --- */

void held_nodes_with_clocks(void)
{
    real_cluster_of(HELD_NODES, (struct cluster_node_options){.own_clock = true});
}

void held_begin(struct held_scene *scene, int i, const redlock_options *options)
{
    memset(scene, 0, sizeof *scene);
    scene->face = held_open_trusted(i, NULL, options);
    scene->acquire = held_acquire_options(&scene->story);
}

void held_take(struct held_scene *scene, const char *key)
{
    scene->lock = held_acquire(scene->face, key, &scene->acquire);
}

void held_take_everywhere(struct held_scene *scene, const char *key)
{
    held_take(scene, key);
    held_everywhere(scene->face, key, scene->lock);
}

bool held_is_lost(const struct held_story *story)
{
    return atomic_load(&story->lost) > 0;
}

/* --- Keys --- */

bool held_is_on(size_t node, const char *key, const redlock_lock *lock)
{
    char reply[256];
    return cluster_command(cluster, node, reply, sizeof reply, "GET", key, NULL) &&
           strcmp(reply, rl_lease_token_text(lock->lease)) == 0;
}

void held_everywhere(struct face *face, const char *key, const redlock_lock *lock)
{
    real_until(face, real_shows_everywhere(key, rl_lease_token_text(lock->lease)));
}
