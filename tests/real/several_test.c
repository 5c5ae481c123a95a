/* Locks on several resources, on real servers: all of them or none, in one round trip, and otherwise like a lock on
 * one resource. contention_test.c has overlapping ones that contend. */
#include "real/clients.h"

#define A real_key("a")
#define B real_key("b")
#define C real_key("c")

/* The tests name resources by letters. */
static const char *const keys[] = {A, B, C, real_key("d"), real_key("e")};

static const char *key_of(char letter)
{
    return keys[letter - 'a'];
}

static const redlock_acquire_options plain = REDLOCK_ACQUIRE_OPTIONS_INIT;

static int acquire(struct face *face, const char *letters, redlock_acquire_options options, redlock_lock **lock)
{
    redlock_name also[8];
    options.also_count = strlen(letters) - 1;
    for (size_t i = 0; i < options.also_count; i++)
        also[i] = (redlock_name){key_of(letters[i + 1]), i & 1 ? strlen(key_of(letters[i + 1])) : 0};
    options.also = also;
    return face_acquire(face, key_of(*letters), &options, lock, &result);
}

static redlock_lock *take(struct face *face, const char *letters)
{
    redlock_lock *lock;
    real_status(acquire(face, letters, plain, &lock), REDLOCK_OK, &result);
    return lock;
}

/* --- All or none --- */

REAL_CASE(all, real_common_case, NULL);
REAL_CASE(alike, real_common_case, NULL);
REAL_CASE(own, real_common_case, NULL);

TEST(all, at_most_64_resources_may_be_locked_together)
{
    struct face *face = clients_open(_i);
    char text[REDLOCK_RESOURCES_MAX][32];
    redlock_name also[REDLOCK_RESOURCES_MAX];
    for (unsigned i = 0; i < REDLOCK_RESOURCES_MAX; i++) {
        snprintf(text[i], sizeof text[i], real_key("many-%02u"), i);
        also[i] = (redlock_name){text[i], 0};
    }
    redlock_lock *lock = held_acquire(face, A, REAL_WITH(.also = also, .also_count = REDLOCK_RESOURCES_MAX - 1));
    ck_assert_uint_eq(redlock_lock_resources(lock), REDLOCK_RESOURCES_MAX);
    real_status(face_extend(face, lock, 2 * CLIENTS_TTL_MS, &result), REDLOCK_OK, &result);
    for (unsigned i = 0; i < REDLOCK_RESOURCES_MAX - 1; i++)
        clients_await(face, "PTTL", text[i], CLIENTS_TTL_MS + 1, INT32_MAX);
    held_release(face, &lock);
    ck_assert(real_nothing_left(face));
    held_refuse(face, A, REAL_WITH(.also = also, .also_count = REDLOCK_RESOURCES_MAX), REDLOCK_INVALID);
    held_result_says("also_count is 64");
}

/* --- Like any other lock --- */

/* A node cannot be healed, because another client has one of the resources there. It still has the others. */
TEST(alike, release_reaches_a_node_where_another_client_has_one_resource)
{
    enum { SHORT_MS = 3000 }; /* a busy machine may use it up in part, but not as a whole */
    struct face *face = clients_open_with(_i, SHORT_MS, 33);
    redlock_lock *lock = take(face, "abc");
    held_everywhere(face, A, lock);
    ck_assert(cluster_command(cluster, 0, NULL, 0, "SET", A, "another", NULL));
    face_idle(face, SHORT_MS / 2); /* renewed, and healed in vain */
    held_release(face, &lock);
    held_close(face);
    ck_assert_int_eq(cluster_integer(cluster, 0, "EXISTS", B, C, NULL), 0); /* at once, not when they expire */
    ck_assert_int_eq(cluster_integer(cluster, 0, "DEL", A, NULL), 1);
}

/* --- What one owner may hold at once --- */

static const char self[] = "the owner", another[] = "another owner";

struct wish {
    const char *letters;
    redlock_acquire_options options;
};

#define WISH(letters, ...)                                                                                             \
    {                                                                                                                  \
        letters,                                                                                                       \
        {                                                                                                              \
            .struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options), __VA_ARGS__                                   \
        }                                                                                                              \
    }
#define OWN_LOCK "can never be granted: this owner holds '" A "'"
static const struct {
    struct wish held, wanted;
    int status;
    const char *words;
    enum { APART, AGAIN } relation; /* AGAIN: both are the same lock */
} overlaps[] = {
    {WISH("b", .owner = self), WISH("ba", .owner = self), REDLOCK_INVALID, "this owner holds '" B "'", APART},
    {WISH("ac", .owner = self), WISH("ba", .owner = self), REDLOCK_INVALID, OWN_LOCK, APART},
    {WISH("a", .owner = self), WISH("ab", .owner = self, .shared = 1), REDLOCK_INVALID, OWN_LOCK, APART},
    {WISH("a", .owner = self, .shared = 1), WISH("ab", .owner = self), REDLOCK_INVALID, OWN_LOCK " shared", APART},
    {WISH("a", .owner = self, .shared = 1), WISH("a", .owner = self), REDLOCK_INVALID, "' shared; release that first",
     APART},
    {WISH("a", .owner = self, .permits = 1), WISH("a", .owner = self, .permits = 1), REDLOCK_INVALID,
     "holds 1 of the 1 permits", APART},
    {WISH("a", .owner = self, .permits = REDLOCK_PERMITS_MAX), WISH("a", .owner = self, .permits = REDLOCK_PERMITS_MAX),
     REDLOCK_OK, "", APART},
    {WISH("a", .owner = self, .permits = 3, .permits_wanted = 2), WISH("a", .owner = self, .permits = 3), REDLOCK_OK,
     "", APART},
    {WISH("a", .owner = self, .permits = 3, .permits_wanted = 2),
     WISH("a", .owner = self, .permits = 3, .permits_wanted = 2), REDLOCK_INVALID,
     "2 more can never be granted: this owner holds 2 of the 3 permits; release 1 first", APART},
    /* another thread may release the permit */
    {WISH("a", .permits = 1), WISH("a", .permits = 1), REDLOCK_HELD, "", APART},
    {WISH("a", .owner = self, .permits = 1), WISH("a", .owner = self), REDLOCK_OK, "", APART},
    {WISH("a", .owner = self, .shared = 1), WISH("ab", .owner = self, .shared = 1), REDLOCK_OK, "", APART},
    {WISH("a", .owner = self), WISH("b", .owner = self), REDLOCK_OK, "", APART},
    {WISH("a", .owner = self), WISH("ab", .owner = another), REDLOCK_HELD, "", APART},
    {WISH("abc", .owner = self), WISH("c", .owner = self), REDLOCK_OK, "", AGAIN},
    {WISH("a", .owner = self, .shared = 1), WISH("a", .owner = self, .shared = 1), REDLOCK_OK, "", AGAIN},
    {WISH("a", .owner = self), WISH("a", .owner = self, .shared = 1), REDLOCK_OK, "", AGAIN},
};

static int acquire_wish(struct face *face, const struct wish *wish, int64_t wait_ms, redlock_lock **lock)
{
    redlock_acquire_options options = wish->options;
    options.wait_ms = wait_ms;
    return acquire(face, wish->letters, options, lock);
}

TEST_ROWS(own, owner_does_not_wait_for_itself, ROWS(overlaps))
{
    struct face *face = clients_open(_i);
    redlock_lock *held, *wanted;
    bool is_refused = overlaps[_i].status == REDLOCK_INVALID;
    real_status(acquire_wish(face, &overlaps[_i].held, 0, &held), REDLOCK_OK, &result);
    int status = acquire_wish(face, &overlaps[_i].wanted, is_refused ? REDLOCK_FOREVER : 0, &wanted);
    real_status(status, overlaps[_i].status, &result);
    held_result_says(overlaps[_i].words);
    if (wanted != NULL)
        ck_assert_int_eq(strcmp(redlock_lock_token(held), redlock_lock_token(wanted)) == 0,
                         overlaps[_i].relation == AGAIN);
    ck_assert_uint_eq(redlock_hold_count(held), overlaps[_i].relation == AGAIN ? 2 : 1);
    held_release(face, &held);
    if (is_refused) /* the remedy in the error text works */
        real_status(acquire_wish(face, &overlaps[_i].wanted, REAL_SOON_MS, &wanted), REDLOCK_OK, &result);
    if (wanted != NULL)
        held_release(face, &wanted);
}

TEST(own, lost_part_of_a_wider_lock_is_lost)
{
    struct face *face = clients_open_with(_i, 300, 0);
    redlock_lock *lock, *wider;
    real_status(acquire_wish(face, &overlaps[0].held, 0, &lock), REDLOCK_OK, &result);
    real_until(face, redlock_lock_loss(lock) != REDLOCK_NOT_LOST);
    real_status(acquire_wish(face, &overlaps[0].wanted, REDLOCK_FOREVER, &wider), REDLOCK_LOST, &result);
    held_result_says("lost its lock on '" B "'");
    real_status(face_release(face, &lock, &result), REDLOCK_LOST, &result);
    real_status(acquire_wish(face, &overlaps[0].wanted, REAL_SOON_MS, &wider), REDLOCK_OK, &result);
    face_release(face, &wider, &result);
}

REAL_PROGRAM("several")
