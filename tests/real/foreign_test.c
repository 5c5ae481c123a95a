/* Waiting beside clients of other libraries. They acquire the lock with SET NX PX, delete it by a script that compares,
 * retry every few milliseconds, and publish nothing. quorum_waiting has the times of attempts behind them. */
#include "real/held.h"

#include "support/raw_client.h"

#include <pthread.h>
#include <unistd.h>

enum { NODES = 3, MAJORITY = NODES / 2 + 1, MS = 1000000 };

#define KEY real_key("foreign")

static struct face *open_client(void)
{
    redlock_options options = face_options();
    options.node_timeout_ms = 250;
    return face_open(BLOCKING_FACE, cluster_nodes_string(cluster), &options);
}

/* --- A foreign client --- */

struct foreigner {
    struct raw_client *node[NODES];
    char token[64];
    unsigned tries;
    char name;
    bool hexadecimal; /* its tokens look like ours */
};

static void connect_foreigner(struct foreigner *foreigner, char name, bool hexadecimal)
{
    foreigner->name = name;
    foreigner->hexadecimal = hexadecimal;
    for (size_t i = 0; i < NODES; i++)
        foreigner->node[i] = raw_client_connect(cluster_socket_path(cluster, i));
    real_note_descriptors();
}

/* Sends the script to all nodes at once. */
static void foreigner_release(struct foreigner *foreigner)
{
    static const char compare_and_delete[] = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', "
                                             "KEYS[1]) else return 0 end";
    for (size_t i = 0; i < NODES; i++)
        raw_client_say(foreigner->node[i], "EVAL", compare_and_delete, "1", KEY, foreigner->token, NULL);
    for (size_t i = 0; i < NODES; i++)
        raw_client_reply(foreigner->node[i]);
}

static bool foreigner_try(struct foreigner *foreigner)
{
    unsigned granted = 0;
    snprintf(foreigner->token, sizeof foreigner->token, foreigner->hexadecimal ? "%c%07x%032x" : "%c-%u",
             foreigner->name, foreigner->tries, foreigner->tries);
    foreigner->tries++;
    for (size_t i = 0; i < NODES; i++)
        raw_client_say(foreigner->node[i], "SET", KEY, foreigner->token, "NX", "PX", "10000", NULL);
    for (size_t i = 0; i < NODES; i++)
        granted += strcmp(raw_client_reply(foreigner->node[i]), "OK") == 0;
    if (granted >= MAJORITY)
        return true;
    foreigner_release(foreigner);
    return false;
}

REAL_CASE(rivals, real_bare_case, NULL);

/* --- Rivals --- */

enum { RIVALS_MOST = 8, RETRY_MS = 5 };

/* Clients of another library beside ours. Each side pauses between a release and its next acquire; a foreign client
 * that is refused retries after 5 ms. */
static const struct contest {
    const char *name;
    unsigned
        length_ms; /* longer than a wait of ours may take, and for so many turns that the share is no matter of luck */
    unsigned foreign, ours, hold_ms, their_pause_ms, our_pause_ms;
    bool hexadecimal; /* the foreign tokens look like ours */
    /* What must be had in one of a few contests: */
    unsigned our_percent;  /* of the turns */
    unsigned their_number; /* of turns, all together */
    unsigned longest_ms;   /* of our waits */
} contests[] = {
    {"foreign clients that pause", 2000, 4, 4, 2, RETRY_MS, RETRY_MS, false, 33, 4, 1000},
    {"foreign clients with tokens like ours", 4000, 4, 4, 2, RETRY_MS, RETRY_MS, true, 15, 4, 4000},
    {"one foreign client beside ours without pauses", 2000, 1, 4, 0, RETRY_MS, 0, false, 50, 4, 1000},
    {"one foreign client beside ours that hold for 50 ms", 4000, 1, 2, 50, RETRY_MS, 0, false, 50, 1, 1000},
    {"foreign clients without pauses that hold for 100 ms", 4000, 4, 2, 100, 0, 0, false, 9, 4, 4000},
};

static atomic_bool over;
static atomic_int inside, overlaps;

struct rival {
    pthread_t thread;
    const struct contest *contest;
    struct foreigner foreigner;
    redlock_client *client; /* of ours; NULL: the foreigner competes */
    redlock_lock *lock;
    unsigned turns;
    uint64_t longest_ns;
    bool failed;
};

static bool get(struct rival *rival)
{
    if (!rival->client)
        return foreigner_try(&rival->foreigner);
    uint64_t began = test_now_ns();
    int status =
        redlock_acquire(rival->client, KEY, REDLOCK_WAIT_MS(2 * rival->contest->length_ms), &rival->lock, NULL);
    uint64_t took = test_now_ns() - began;
    rival->longest_ns = took > rival->longest_ns ? took : rival->longest_ns;
    rival->failed = rival->failed || (status != REDLOCK_OK && status != REDLOCK_TIMED_OUT);
    return status == REDLOCK_OK;
}

static void *compete(void *arg)
{
    struct rival *rival = arg;
    while (!atomic_load(&over)) {
        if (!get(rival)) {
            usleep(RETRY_MS * 1000); /* no event ends these times */
            continue;
        }
        atomic_fetch_add(&overlaps, atomic_fetch_add(&inside, 1) != 0);
        if (rival->contest->hold_ms)
            usleep(rival->contest->hold_ms * 1000);
        atomic_fetch_sub(&inside, 1);
        if (rival->client)
            redlock_release(&rival->lock, NULL, NULL);
        else
            foreigner_release(&rival->foreigner);
        rival->turns++;
        unsigned pause_ms = rival->client ? rival->contest->our_pause_ms : rival->contest->their_pause_ms;
        if (pause_ms)
            usleep(pause_ms * 1000);
    }
    return NULL;
}

/* Returns whether each side had its share. */
static bool hold_contest(const struct contest *contest, struct rival *rivals)
{
    unsigned all = 0, ours = 0;
    uint64_t longest_ns = 0;
    atomic_store(&over, false);
    for (unsigned i = 0; i < contest->foreign + contest->ours; i++) {
        rivals[i].turns = 0;
        rivals[i].longest_ns = 0;
        ck_assert_int_eq(pthread_create(&rivals[i].thread, NULL, compete, &rivals[i]), 0);
    }
    usleep(contest->length_ms * 1000);
    atomic_store(&over, true);
    for (unsigned i = 0; i < contest->foreign + contest->ours; i++) {
        const struct rival *rival = &rivals[i];
        pthread_join(rival->thread, NULL);
        ck_assert(!rival->failed);
        all += rival->turns;
        ours += rival->client ? rival->turns : 0;
        longest_ns = rival->longest_ns > longest_ns ? rival->longest_ns : longest_ns;
    }
    ck_assert_int_eq(atomic_load(&overlaps), 0);
    printf("%s: ours had %u of %u turns; our longest wait took %llu ms\n", contest->name, ours, all,
           (unsigned long long)(longest_ns / MS));
    return ours > 0 && 100 * ours >= contest->our_percent * all && all - ours >= contest->their_number &&
           longest_ns < (uint64_t)contest->longest_ms * MS;
}

/* A busy machine may spoil some of the contests; a defect spoils all of them. */
TEST_LONG_ROWS(rivals, each_side_has_its_share, ROWS(contests))
{
    const struct contest *contest = &contests[_i];
    struct rival rivals[RIVALS_MOST] = {0};
    bool had_share = false;
    real_cluster(NODES, NULL);
    for (unsigned i = 0; i < contest->foreign + contest->ours; i++) {
        rivals[i].contest = contest;
        if (i < contest->foreign)
            connect_foreigner(&rivals[i].foreigner, (char)('a' + i), contest->hexadecimal);
        else
            rivals[i].client = face_client(open_client());
    }
    for (int run = 0; run < 5 && !had_share; run++)
        had_share = hold_contest(contest, rivals);
    ck_assert(had_share);
}

REAL_PROGRAM("foreign")
