/* A schedule on ten machines whose clocks differ: in each slot one machine runs the job, also while a node is killed.
 * Scaled: the clocks differ by 40 ms, the job takes 2 ms, and the lock is kept for 1 s. REDLOCK_TRIALS is the number of
 * slots (default: 4). */
#include "real/clients.h"

enum { NODES = 5, MACHINES = 10, APART_MS = 40, JOB_MS = 2, WAIT_MS = 500, AT_LEAST_MS = 1000, MS = 1000000 };

static const char key[] = real_key("slots");

struct machine {
    pthread_t thread;
    redlock_client *client;
    unsigned late_ms;    /* its clock */
    uint64_t began, got; /* its acquire; got 0: it did not get the lock */
    redlock_result result;
};

static void sleep_ms(unsigned ms)
{
    struct timespec pause = test_timespec((uint64_t)ms * MS);
    nanosleep(&pause, NULL);
}

/* cron and `redlock run -w --at-least`. */
static void *run_slot(void *arg)
{
    struct machine *machine = arg;
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *lock;
    options.wait_ms = WAIT_MS;
    options.at_least_ms = AT_LEAST_MS;
    sleep_ms(machine->late_ms);
    machine->began = test_now_ns();
    machine->got = 0;
    if (redlock_acquire(machine->client, key, &options, &lock, &machine->result) != REDLOCK_OK)
        return NULL;
    machine->got = test_now_ns();
    sleep_ms(JOB_MS);
    redlock_release(&lock, NULL, &machine->result);
    return NULL;
}

/* A machine that a busy computer has delayed beyond at_least_ms may run the job again. Returns whether one has. */
static bool check_slot(const struct machine *machine)
{
    const struct machine *first = NULL;
    bool again = false;
    for (unsigned i = 0; i < MACHINES; i++)
        if (machine[i].got && (!first || machine[i].got < first->got))
            first = &machine[i];
    ck_assert_msg(first != NULL, "no machine ran the job: %s",
                  redlock_result_text((redlock_result *)(uintptr_t)&machine[0].result));
    for (unsigned i = 0; i < MACHINES; i++) {
        if (!machine[i].got || &machine[i] == first)
            continue;
        again = true;
        ck_assert_msg(machine[i].got - first->began >= (uint64_t)AT_LEAST_MS * MS,
                      "two machines ran the job, %llu ms apart",
                      (unsigned long long)((machine[i].got - first->began) / MS));
    }
    return again;
}

REAL_CASE(schedule, real_bare_case, NULL);

TEST_ROWS(schedule, each_slot_runs_once_on_ten_machines, 2)
{
    unsigned slots = real_setting("REDLOCK_TRIALS", 4), again = 0, seed = 1;
    struct machine machine[MACHINES];
    real_cluster(NODES, NULL);
    struct face *face = face_open_ready(BLOCKING_FACE, cluster_nodes_string(cluster), NULL);
    redlock_options options = face_options();
    for (unsigned i = 0; i < MACHINES; i++) {
        machine[i] = (struct machine){.late_ms = 0};
        ck_assert_int_eq(redlock_connect(cluster_nodes_string(cluster), &options, &machine[i].client, &result), 0);
        ck_assert_int_eq(redlock_ready(machine[i].client, 20000, &result), REDLOCK_OK);
    }
    for (unsigned slot = 0; slot < slots; slot++) {
        for (unsigned i = 0; i < MACHINES; i++) {
            seed = seed * 1103515245 + 12345;
            machine[i].late_ms = (seed >> 16) % (APART_MS + 1);
            ck_assert_int_eq(pthread_create(&machine[i].thread, NULL, run_slot, &machine[i]), 0);
        }
        if (_i == 1 && slot == slots / 2)
            cluster_kill(cluster, 0);
        for (unsigned i = 0; i < MACHINES; i++)
            pthread_join(machine[i].thread, NULL);
        again += check_slot(machine);
        redlock_lock *lock = held_acquire(face, key, REAL_WITH(.wait_ms = 20000)); /* the next slot is later */
        held_release(face, &lock);
    }
    printf("%u slots: each ran once, except %u in which a machine was late\n", slots, again);
    for (unsigned i = 0; i < MACHINES; i++)
        redlock_close(&machine[i].client, NULL, NULL);
    held_close(face);
}

REAL_PROGRAM("slots")
