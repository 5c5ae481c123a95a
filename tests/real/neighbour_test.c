/* Coexistence with node-redlock: both of its major versions in use and this library lock the same key on real
 * servers. There are never two holders; each library sees the other's lock, and extends and releases its own. */
#include "real/held.h"

#include "support/fixture.h"
#include "support/process.h"
#include "support/temp_dir.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    VERSIONS = 2,
    TIMES = 6,
    ENOUGH = 40, /* then the threads stop: the neighbours poll, and would wait too long on a busy machine */
    HOLD_MS = 2,
    THINK_MS = 40
};

static const char key[] = real_key("shared");

/* --- The neighbour: a node-redlock process that reads commands as lines --- */

struct neighbour {
    struct process process;
    FILE *to;
    FILE *from;
    char answer[1024];
};

/* One neighbour and one client, for each version of node-redlock. */
static struct neighbour *they;
static struct face *face;

static void kill_neighbour(void *object)
{
    struct neighbour *neighbour = object;
    process_kill(&neighbour->process);
    fclose(neighbour->to);
    fclose(neighbour->from);
    free(neighbour);
}

/* Reads the neighbour's next line, without the newline. The neighbour writes one line per command. */
static const char *hear(struct neighbour *neighbour)
{
    if (!fgets(neighbour->answer, sizeof neighbour->answer, neighbour->from))
        fixture_fail("the neighbour has ended");
    neighbour->answer[strcspn(neighbour->answer, "\n")] = '\0';
    return neighbour->answer;
}

static struct neighbour *meet(int version)
{
    struct neighbour *neighbour = fixture_allocate(sizeof *neighbour);
    char *path = fixture_text("%s/answers", temp_dir_path(temp_dir_make()));
    char number[2] = {(char)('0' + version), '\0'};
    char node[] = "node", program[] = NEIGHBOUR_PROGRAM;
    char *nodes = fixture_text("%s", cluster_nodes_string(cluster));
    char *argv[] = {node, program, number, nodes, NULL};
    int input[2];
    setenv("NODE_PATH", NEIGHBOUR_MODULES, 1);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(pipe2(input, O_CLOEXEC), 0);
    int output = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    process_start(&neighbour->process, &(struct process_options){.argv = argv, .output = path, .input = input[0]});
    ck_assert_int_eq(poll(&(struct pollfd){output, POLLIN, 0}, 1, 3 * REAL_SOON_MS), 1);
    ck_assert_int_eq(fcntl(output, F_SETFL, 0), 0);
    neighbour->from = fdopen(output, "r");
    neighbour->to = fdopen(input[1], "w");
    setlinebuf(neighbour->to);
    close(input[0]);
    free(path);
    free(nodes);
    fixture_register(neighbour, kill_neighbour);
    real_note_descriptors();
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
    fprintf(they->to, "acquire %s %u 0\n", key, ttl_ms);
    says(they, "ok ");
    return they->answer + strlen("ok ");
}

static void they_are_refused(void)
{
    fprintf(they->to, "acquire %s 60000 1\n", key);
    says(they, "refused ");
}

static void they_release(void)
{
    fprintf(they->to, "release\n");
    says(they, "ok");
}

/* --- This library --- */

/* On every node the key lasts longer than its original 10 s. The last node may get the extension after the majority has
 * replied. */
static const struct real_number extended = {{"PTTL", key}, 10001, INT32_MAX};

static void open_both(int i)
{
    they = meet(4 + i);
    face = real_open(i);
}

REAL_CASE(one_at_a_time, real_shared_case, NULL);
REAL_CASE(all_at_once, real_shared_case, NULL);

TEST_LONG_ROWS(one_at_a_time, each_sees_the_others_lock_and_extends_its_own, VERSIONS)
{
    open_both(_i);
    char *value = fixture_text("%s", they_acquire(10000));
    ck_assert(real_soon_shows(NULL, key, value));
    fprintf(they->to, "extend 50000\n");
    says(they, "ok");
    ck_assert(real_soon_all_reply(NULL, extended));
    redlock_state state;
    real_status(face_query(face, key, &state, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(state.locked, 1);
    ck_assert_int_eq(state.held_by_me, 0);
    ck_assert_str_eq(state.holder.token, value);
    held_refuse(face, key, NULL, REDLOCK_HELD);
    ck_assert_uint_ge(result.held, result.quorum);
    ck_assert(real_shows_everywhere(key, value));
    free(value);
    they_release();
    ck_assert(real_soon_shows(NULL, key, "(nil)"));
    redlock_lock *lock = held_acquire(face, key, REAL_WITH(.ttl_ms = 10000));
    ck_assert(real_soon_shows(NULL, key, redlock_lock_token(lock)));
    real_status(face_extend(face, lock, 29000, &result), REDLOCK_OK, &result);
    ck_assert(real_soon_all_reply(face, extended));
    they_are_refused();
    ck_assert(real_shows_everywhere(key, redlock_lock_token(lock)));
    held_release(face, &lock);
    they_acquire(60000);
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
            status = redlock_release(&lock, NULL, NULL);
        }
        if (status != REDLOCK_OK && status != REDLOCK_TIMED_OUT)
            atomic_fetch_add(&contest->failures, 1);
        poll(NULL, 0, rand_r(&seed) % THINK_MS); /* work without the lock */
    }
    return NULL;
}

TEST(all_at_once, never_two_holders)
{
    struct contest contest = {.witness = fixture_text("%s/witness", temp_dir_path(temp_dir_make()))};
    struct neighbour *neighbours[] = {meet(4), meet(5)};
    pthread_t threads[2];
    face = real_open(BLOCKING_FACE);
    contest.client = face_client(face);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, contend, &contest), 0);
    for (size_t i = 0; i < VERSIONS; i++)
        fprintf(neighbours[i]->to, "compete %s %s %d\n", key, contest.witness, TIMES);
    for (size_t i = 0; i < VERSIONS; i++)
        says(neighbours[i], "ok 0");
    atomic_store(&contest.over, true);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(contest.overlaps, 0);
    ck_assert_uint_eq(contest.failures, 0);
    ck_assert_uint_gt(contest.held, 0);
    free(contest.witness);
}

REAL_PROGRAM("neighbour")
