/* Coexistence with node-redlock: both of its major versions in use and this library lock the same key on real
 * servers. There are never two holders; each library sees the other's lock, and extends and releases only its own. */
#include "real/held.h"

#include "support/clock.h"
#include "support/fixture.h"
#include "support/process.h"
#include "support/temp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ANSWER_MS = 60000,
    VERSIONS = 2,
    KINDS = VERSIONS * FACES,
    TIMES = 6,
    ENOUGH = 40, /* then the threads stop: the neighbours poll, and would wait too long on a busy machine */
    HOLD_MS = 2,
    THINK_MS = 40,
    SHORT_TTL_MS = 300
};

static const char key[] = real_key("shared");

/* --- The neighbour: a node-redlock process that reads commands as lines --- */

struct neighbour {
    struct process process;
    struct temp_dir *directory;
    int to;
    int from;
    size_t filled;
    char answer[1024];
};

/* One neighbour and one client, for each version of node-redlock and each way to call. */
static struct neighbour *they;
static struct face *face;

static void kill_neighbour(void *object)
{
    struct neighbour *neighbour = object;
    process_kill(&neighbour->process);
    close(neighbour->to);
    close(neighbour->from);
    free(neighbour);
}

/* Cleans up before the fixtures check for leaks. */
static void part(struct neighbour *neighbour)
{
    struct temp_dir *directory = neighbour->directory;
    fixture_unregister(neighbour);
    kill_neighbour(neighbour);
    temp_dir_remove(directory);
}

static void read_some(struct neighbour *neighbour, uint64_t deadline)
{
    struct pollfd readable = {.fd = neighbour->from, .events = POLLIN};
    ssize_t got;
    if (poll(&readable, 1, test_ms_left(deadline)) == 0)
        fixture_fail("the neighbour does not answer; so far: '%s'; on the nodes: %s", neighbour->answer,
                     deployment_key_names(real_nodes));
    got =
        read(neighbour->from, neighbour->answer + neighbour->filled, sizeof neighbour->answer - 1 - neighbour->filled);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        fixture_fail("the neighbour has ended: %s", neighbour->answer);
    if (got > 0)
        neighbour->filled += (size_t)got;
    neighbour->answer[neighbour->filled] = '\0';
}

/* Reads the neighbour's next line, without the newline. The neighbour writes one line per command. */
static const char *hear(struct neighbour *neighbour)
{
    uint64_t deadline = test_deadline_ns(ANSWER_MS);
    neighbour->filled = 0;
    neighbour->answer[0] = '\0';
    while (neighbour->filled == 0 || neighbour->answer[neighbour->filled - 1] != '\n')
        read_some(neighbour, deadline);
    neighbour->answer[neighbour->filled - 1] = '\0';
    return neighbour->answer;
}

static void tell(struct neighbour *neighbour, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void tell(struct neighbour *neighbour, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    ck_assert_int_gt(vdprintf(neighbour->to, format, arguments), 0);
    va_end(arguments);
}

static struct neighbour *meet(int version)
{
    struct neighbour *neighbour = fixture_allocate(sizeof *neighbour);
    struct temp_dir *directory = temp_dir_make();
    char *path = fixture_text("%s/answers", temp_dir_path(directory));
    char number[2] = {(char)('0' + version), '\0'};
    char node[] = "node", program[] = NEIGHBOUR_PROGRAM;
    char *nodes = fixture_text("%s", cluster_nodes_string(cluster));
    char *argv[] = {node, program, number, nodes, NULL};
    int input[2];
    setenv("NODE_PATH", NEIGHBOUR_MODULES, 1);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(pipe2(input, O_CLOEXEC), 0);
    neighbour->directory = directory;
    neighbour->from = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    neighbour->to = input[1];
    ck_assert(
        process_start(&neighbour->process, &(struct process_options){.argv = argv, .output = path, .input = input[0]}));
    close(input[0]);
    free(path);
    free(nodes);
    fixture_register(neighbour, kill_neighbour);
    ck_assert_str_eq(hear(neighbour), "ready");
    return neighbour;
}

static void says(struct neighbour *neighbour, const char *beginning)
{
    const char *answer = hear(neighbour);
    ck_assert_msg(strncmp(answer, beginning, strlen(beginning)) == 0, "the neighbour says '%s', not '%s'", answer,
                  beginning);
}

/* Returns the value of the neighbour's key. */
static const char *they_acquire(unsigned ttl_ms)
{
    tell(they, "acquire %s %u 0\n", key, ttl_ms);
    says(they, "ok ");
    return they->answer + strlen("ok ");
}

static void they_are_refused(void)
{
    tell(they, "acquire %s 60000 1\n", key);
    says(they, "refused ");
}

static void they_release(void)
{
    tell(they, "release\n");
    says(they, "ok");
}

/* --- This library --- */

static void open_both(int i)
{
    they = meet(4 + i % VERSIONS);
    face = real_open(i / VERSIONS);
}

/* Before the descriptors are counted. */
static void part_from_them(void)
{
    if (they != NULL)
        part(they);
    they = NULL;
}

static bool is_free(void *arg)
{
    (void)arg;
    return real_shows_everywhere(key, "(nil)");
}

/* On every node the key lasts longer than its original 10 s. The last node may get the extension after the majority has
 * replied. */
static struct real_number extended = {{"PTTL", key}, 10001, INT32_MAX};

REAL_CASE_WITH(one_at_a_time, real_shared_case, NULL, part_from_them, 0);
REAL_CASE(all_at_once, real_shared_case, NULL);

TEST_LONG_ROWS(one_at_a_time, we_see_their_lock, KINDS)
{
    open_both(_i);
    const char *value = they_acquire(60000);
    redlock_state state;
    held_refuse(face, key, NULL, REDLOCK_HELD);
    ck_assert_uint_ge(result.held, result.quorum);
    real_status(face_query(face, key, &state, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(state.locked, 1);
    ck_assert_int_eq(state.held_by_me, 0);
    ck_assert_str_eq(state.token, value);
    ck_assert(real_shows_everywhere(key, value));
    they_release();
    redlock_lock *lock = held_acquire(face, key, NULL);
    held_release(face, &lock);
}

/* node-redlock publishes nothing when it releases. Our waiter finds the free lock by polling, long before the ttl
 * ends. */
TEST_LONG_ROWS(one_at_a_time, we_wait_for_their_lock, KINDS)
{
    open_both(_i);
    they_acquire(60000);
    tell(they, "release-when-queued %s\n", key);
    redlock_lock *lock = held_acquire(face, key, REDLOCK_WAIT_MS(50000));
    ck_assert_uint_lt(result.elapsed_us, 30000000);
    says(they, "ok");
    held_release(face, &lock);
}

TEST_LONG_ROWS(one_at_a_time, each_sees_the_others_lock_and_extends_its_own, KINDS)
{
    open_both(_i);
    char *value = fixture_text("%s", they_acquire(10000));
    ck_assert(real_soon_everywhere(key, value));
    tell(they, "extend 50000\n");
    says(they, "ok");
    ck_assert(wait_until(real_all_reply, &extended, REAL_SOON_MS));
    held_refuse(face, key, NULL, REDLOCK_HELD);
    ck_assert(real_shows_everywhere(key, value));
    free(value);
    they_release();
    ck_assert(wait_until(is_free, NULL, REAL_SOON_MS));
    redlock_lock *lock = held_acquire(face, key, REAL_WITH(.ttl_ms = 10000));
    ck_assert(real_soon_everywhere(key, redlock_lock_token(lock)));
    real_status(face_extend(face, lock, 29000, &result), REDLOCK_OK, &result);
    ck_assert(face_wait(face, real_all_reply, &extended, REAL_SOON_MS));
    they_are_refused();
    ck_assert(real_shows_everywhere(key, redlock_lock_token(lock)));
    held_release(face, &lock);
    they_acquire(60000);
    they_release();
}

TEST_LONG_ROWS(one_at_a_time, they_do_nothing_to_a_lock_that_is_ours_now, KINDS)
{
    open_both(_i);
    they_acquire(SHORT_TTL_MS);
    ck_assert(wait_until(is_free, NULL, REAL_SOON_MS));
    redlock_lock *lock = held_acquire(face, key, NULL);
    ck_assert(real_soon_everywhere(key, redlock_lock_token(lock)));
    tell(they, "extend 60000\n");
    says(they, "refused ");
    tell(they, "release\n");
    says(they, "refused ");
    ck_assert(real_shows_everywhere(key, redlock_lock_token(lock)));
    real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
    held_release(face, &lock);
}

TEST_LONG_ROWS(one_at_a_time, we_do_nothing_to_a_lock_that_is_theirs_now, KINDS)
{
    open_both(_i);
    redlock_lock *lock = held_acquire(face, key, REAL_WITH(.ttl_ms = SHORT_TTL_MS));
    ck_assert(face_wait(face, is_free, NULL, REAL_SOON_MS));
    char *value = fixture_text("%s", they_acquire(60000));
    ck_assert_int_eq(redlock_validity_ms(lock), 0);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_LOST, &result);
    real_status(face_release(face, &lock, &result), REDLOCK_LOST, &result);
    held_refuse(face, key, NULL, REDLOCK_HELD);
    ck_assert(real_shows_everywhere(key, value));
    free(value);
    they_release();
}

/* --- Contention between both libraries --- */

struct contest {
    redlock_client *client;
    char *witness; /* a directory that only the holder creates */
    atomic_bool over;
    atomic_uint held;
    atomic_uint overlaps;
    atomic_uint failures;
};

static void hold(struct contest *contest)
{
    if (mkdir(contest->witness, 0700) != 0) {
        atomic_fetch_add(&contest->overlaps, 1);
        return;
    }
    poll(NULL, 0, HOLD_MS);
    rmdir(contest->witness);
    atomic_fetch_add(&contest->held, 1);
}

static void *contend(void *arg)
{
    struct contest *contest = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    while (!atomic_load(&contest->over) && atomic_load(&contest->held) < ENOUGH) {
        redlock_lock *lock;
        int status = redlock_acquire(contest->client, key, REDLOCK_WAIT_MS(100), &lock, NULL);

        if (status == REDLOCK_OK) {
            hold(contest);
            status = redlock_release(&lock, NULL);
        }
        if (status != REDLOCK_OK && status != REDLOCK_TIMED_OUT)
            atomic_fetch_add(&contest->failures, 1);
        poll(NULL, 0, rand_r(&seed) % THINK_MS); /* work without the lock */
    }
    return NULL;
}

TEST(all_at_once, never_two_holders)
{
    struct neighbour *neighbours[] = {meet(4), meet(5)};
    struct contest contest = {0};
    pthread_t threads[2];
    face = real_open(BLOCKING_FACE);
    contest.client = face_client(face);
    contest.witness = fixture_text("%s/witness", temp_dir_path(neighbours[0]->directory));
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, contend, &contest), 0);
    for (size_t i = 0; i < VERSIONS; i++)
        tell(neighbours[i], "compete %s %s %d\n", key, contest.witness, TIMES);
    for (size_t i = 0; i < VERSIONS; i++)
        says(neighbours[i], "ok 0");
    atomic_store(&contest.over, true);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(contest.overlaps, 0);
    ck_assert_uint_eq(contest.failures, 0);
    ck_assert_uint_gt(contest.held, 0);
    free(contest.witness);
    for (size_t i = 0; i < VERSIONS; i++)
        part(neighbours[i]);
}

REAL_PROGRAM("neighbour")
