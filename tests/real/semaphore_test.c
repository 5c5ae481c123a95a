/* Semaphores on real servers: all permits and not one more; waiters are notified. contention_test.c has them while nodes
 * hang, the simulation while nodes lose keys. */
#include "real/clients.h"

#define KEY real_key("seats")

enum { PERMITS = 3 };

static const redlock_acquire_options permit = {.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options),
                                               .permits = PERMITS};

static redlock_lock *take(struct face *face)
{
    return held_acquire(face, KEY, &permit);
}

static void refuse(struct face *face)
{
    held_refuse(face, KEY, &permit, REDLOCK_HELD);
}

/* --- Permits --- */

REAL_CASE(permits, real_common_case, NULL);
REAL_CASE(waiting, real_common_case, NULL);

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

static redlock_acquire_options several(unsigned wanted)
{
    redlock_acquire_options options = permit;
    options.permits_wanted = wanted;
    return options;
}

/* The first waiter waits for two permits. When one is free, the waiters behind it, for one, do not overtake it, however long
 * that takes; then all get their turn, each by the release before it. */
TEST(waiting, a_waiter_for_several_permits_is_not_overtaken)
{
    struct face *face = clients_open(BLOCKING_FACE), *second_face = clients_open(BLOCKING_FACE),
                *faces[] = {clients_open(BLOCKING_FACE), clients_open(BLOCKING_FACE), clients_open(BLOCKING_FACE)};
    const unsigned wanted[] = {2, 1, PERMITS};
    struct waiter waiters[3];
    redlock_lock *locks[] = {take(face), take(face), take(face)};
    for (int i = 0; i < 3; i++) {
        waiter_start(&waiters[i], faces[i], KEY, several(wanted[i]));
        clients_await_waiters(face, KEY, i + 1);
    }
    held_release(face, &locks[0]);
    long long looks =
        real_calls(0, "evalsha"); /* each looks once a second, and loses its place if a second is too long */
    real_until(NULL, real_calls(0, "evalsha") >= looks + 12);
    ck_assert(!waiters[0].ended && !waiters[1].ended && !waiters[2].ended);
    char entries[512];
    ck_assert(cluster_command(cluster, 0, entries, sizeof entries, "HVALS", KEY ":redlock:alive", NULL));
    ck_assert_msg(strstr(entries, " *2") && strstr(entries, " *3"), "%s", entries); /* what they wait for */
    redlock_acquire_options patient = permit;
    patient.wait_ms = 300;
    held_refuse(second_face, KEY, &patient, REDLOCK_TIMED_OUT); /* nor does a newcomer that can wait */
    held_release(face, &locks[1]);
    waiter_finish(&waiters[0]);
    ck_assert(!waiters[1].ended && !waiters[2].ended);
    waiter_release(&waiters[0]);
    waiter_finish(&waiters[1]);
    ck_assert(!waiters[2].ended);
    waiter_release(&waiters[1]);
    ck_assert(!waiters[2].ended);
    held_release(face, &locks[2]);
    waiter_finish_and_release(&waiters[2]);
    ck_assert(real_nothing_left(face));
}

/* A first waiter for two permits that does nothing: its entry alone keeps its place, but only while fewer are free. */
TEST(waiting, a_silent_waiter_for_several_permits_loses_its_place_when_they_are_free)
{
    struct face *face = clients_open(BLOCKING_FACE);
    struct waiter waiter;
    char head[128];
    redlock_lock *locks[] = {take(face), take(face)};
    real_command(HELD_NODES, "ZADD", KEY ":redlock:queue", "1", "silent", NULL);
    real_command(HELD_NODES, "HSET", KEY ":redlock:alive", "silent", "9999999999999.0 *2", NULL);
    real_command(HELD_NODES, "SET", KEY ":redlock:free", "0", NULL);
    waiter_start(&waiter, clients_open(BLOCKING_FACE), KEY, permit);
    clients_await_waiters(face, KEY, 2);
    real_command(HELD_NODES, "SET", KEY ":redlock:free", "1", NULL); /* as if there had been enough for long */
    long long looks = real_calls(0, "evalsha");
    real_until(NULL, real_calls(0, "evalsha") >= looks + 4); /* a look finds it, and another would take its place */
    ck_assert(!waiter.ended);
    ck_assert(cluster_command(cluster, 0, head, sizeof head, "ZRANGE", KEY ":redlock:queue", "0", "0", NULL));
    ck_assert_ptr_nonnull(strstr(head, "silent"));
    held_release(face, &locks[0]); /* now two are free */
    waiter_finish_and_release(&waiter);
    held_release(face, &locks[1]);
    real_command(HELD_NODES, "DEL", KEY ":redlock:queue", KEY ":redlock:alive", KEY ":redlock:free", NULL);
}

/* One release of all permits wakes waiters for all of them. */
TEST(waiting, a_release_of_several_permits_wakes_as_many_waiters)
{
    struct face *face = clients_open(BLOCKING_FACE),
                *faces[] = {clients_open(BLOCKING_FACE), clients_open(BLOCKING_FACE)};
    struct waiter waiters[2];
    const redlock_acquire_options all = several(PERMITS);
    int woken = 0;
    for (int turn = 0; turn < 5 && woken < 2; turn++) { /* the machine may be late; a waiter looks after a second */
        redlock_lock *lock = held_acquire(face, KEY, &all);
        for (int i = 0; i < 2; i++) {
            waiter_start(&waiters[i], faces[i], KEY, several(i == turn % 2 ? 2 : 1));
            clients_await_waiters(face, KEY, i + 1);
        }
        uint64_t freed = test_now_ns();
        held_release(face, &lock);
        waiter_finish(&waiters[0]);
        waiter_finish(&waiters[1]);
        woken += waiters[0].got_ns - freed < 500000000 && waiters[1].got_ns - freed < 500000000;
        refuse(face);
        waiter_release(&waiters[0]);
        waiter_release(&waiters[1]);
        ck_assert(real_nothing_left(face));
    }
    ck_assert_int_eq(woken, 2);
}

REAL_PROGRAM("semaphore")
