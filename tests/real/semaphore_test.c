/* Semaphores on real servers: all permits and not one more; waiters are notified. contention_test.c has them while nodes
 * hang, the simulation while nodes lose keys. */
#include "real/clients.h"

#include "support/clock.h"

#define KEY real_key("seats")

enum { PERMITS = 3 };

static const redlock_acquire_options permit = {.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options),
                                               .permits = PERMITS};

static redlock_lock *take(struct face *face)
{
    redlock_lock *lock = held_acquire(face, KEY, &permit);
    ck_assert_str_eq(redlock_lock_resource(lock, NULL), KEY);
    return lock;
}

static void refuse(struct face *face)
{
    held_refuse(face, KEY, &permit, REDLOCK_HELD);
}

/* --- Permits --- */

REAL_CASE(permits, real_bare_case, NULL);
REAL_CASE(waiting, real_bare_case, NULL);

static void show(struct face *face, uint32_t taken, int mine)
{
    redlock_state state;
    real_status(face_query(face, KEY, &state, &result), REDLOCK_OK, &result);
    ck_assert_uint_eq(state.permits_taken, taken);
    ck_assert_int_eq(state.held_by_me, mine);
    ck_assert_int_eq(state.locked, 0);
    ck_assert_uint_eq(state.free_nodes, HELD_NODES); /* a semaphore has no key of its plain name */
    ck_assert_int_eq(redlock_held_by_me(face_client(face), KEY, 0), mine);
}

TEST(permits, query_counts_permits_and_lost_permits_are_reported)
{
    struct face *face = clients_open(_i), *other = clients_open(_i);
    show(face, 0, 0);
    redlock_lock *first = take(face);
    show(face, 1, 1);
    show(other, 1, 0);
    redlock_lock *second = take(other);
    show(face, 2, 1);
    ck_assert_int_eq(redlock_held_by_me(face_client(face), KEY ":redlock", 0), 0);
    held_release(face, &first);
    show(face, 1, 0);
    show(other, 1, 1);
    for (size_t i = 0; i < HELD_QUORUM; i++)
        cluster_flush(cluster, i);
    show(face, 0, 0); /* only a minority still has the permit's key */
    real_status(face_extend(other, second, 0, &result), REDLOCK_LOST, &result);
    real_status(face_release(other, &second, &result), REDLOCK_LOST, &result);
}

/* Clients with the old and the new number of permits work side by side. There are never more holders than the larger number,
 * and a smaller one holds as soon as the permits above it are released. */
TEST(permits, a_semaphore_can_be_resized)
{
    enum { LARGER = PERMITS + 2 };
    const redlock_acquire_options *large = REDLOCK_ACQUIRE_WITH(.permits = LARGER);
    struct face *old = clients_open(_i), *new = clients_open(_i);
    redlock_lock *locks[LARGER], *more;
    for (unsigned i = 0; i < PERMITS; i++)
        locks[i] = take(old);
    refuse(old);
    for (unsigned i = PERMITS; i < LARGER; i++)
        locks[i] = held_acquire(new, KEY, large); /* the slots that only the larger semaphore has */
    held_refuse(new, KEY, large, REDLOCK_HELD);
    held_release(new, &locks[LARGER - 1]);
    refuse(old); /* a free slot above its number */
    held_release(old, &locks[0]);
    more = take(old);
    refuse(old);
    held_release(old, &more);
    for (unsigned i = 1; i < LARGER - 1; i++)
        held_release(i < PERMITS ? old : new, &locks[i]);
    for (unsigned i = 0; i < PERMITS; i++)
        locks[i] = take(new); /* the smaller number again */
    refuse(new);
    for (unsigned i = 0; i < PERMITS; i++)
        held_release(new, &locks[i]);
}

/* Each client takes the slot again that it used last. */
TEST(permits, permit_usually_takes_one_round_trip)
{
    enum { TURNS = 100 };
    struct face *face = clients_open(_i), *other = clients_open(_i);
    unsigned rounds = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        redlock_lock *one = take(face);
        rounds += result.attempts;
        redlock_lock *two = take(other);
        rounds += result.attempts;
        held_release(face, &one);
        held_release(other, &two);
    }
    ck_assert_msg(rounds <= 2 * TURNS + TURNS / 10, "%u rounds for %d permits", rounds, 2 * TURNS);
}

/* Releasing any slot notifies a waiter, and releasing two slots at once notifies two waiters. */
TEST(waiting, waiters_are_notified)
{
    struct face *face = clients_open(BLOCKING_FACE),
                *faces[] = {clients_open(BLOCKING_FACE), clients_open(BLOCKING_FACE)};
    struct waiter waiters[2];
    redlock_lock *locks[PERMITS];
    int slow = 0;
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < PERMITS; i++)
            locks[i] = take(face);
        for (int i = 0; i < 2; i++)
            waiter_start(&waiters[i], faces[i], KEY, permit);
        clients_await_waiters(face, KEY, 2);
        uint64_t freed = test_now_ns();
        held_release(face, &locks[turn % PERMITS]);
        held_release(face, &locks[(turn + 1) % PERMITS]);
        for (int i = 0; i < 2; i++) {
            waiter_finish(&waiters[i]);
            slow += waiters[i].got_ns - freed > 900000000; /* not notified: the next look comes after 1 s */
        }
        refuse(face);
        for (int i = 0; i < 2; i++)
            waiter_release(&waiters[i]);
        held_release(face, &locks[(turn + 2) % PERMITS]);
        ck_assert(real_nothing_left(face));
    }
    ck_assert_int_le(slow, 2);
}

REAL_PROGRAM("semaphore")
