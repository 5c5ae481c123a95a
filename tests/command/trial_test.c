/*
 * Is every process of CMD's tree dead when the lock ends? Each trial has its own servers, and several trials run at
 * once. The nodes are stopped, so that no renewal succeeds. One of redlock's two processes is killed or stopped. CMD starts four processes that ignore every signal they can and record when they were last alive, in the
 * command's process group or outside it. The end of the lock is computed from the nodes' replies, not from redlock's
 * output.
 *
 * REDLOCK_TRIALS is the number of trials (default: each fate once). The smallest margin is printed. After FATES *
 * SHAPES trials each fate has been combined with each shape of the tree.
 */
#include "scene.h"

#include "support/clock.h"
#include "support/fixture.h"
#include "support/lateness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 3, AT_ONCE = 7 };

static int ttl_ms = 1500;

/* A renewal starts no earlier than this after the previous one: a third of the ttl minus its jitter. */
static double until_renewal_ms(void)
{
    return 0.23 * ttl_ms;
}

#define NAME real_key("trial")

enum { FRONT = 1 << PROGRAM_FRONT, HOLDER = 1 << PROGRAM_HOLDER };

static const struct fate {
    const char *name;
    bool nodes_stopped;
    unsigned stopped;
    unsigned killed;
} fates[] = {
    {"nodes stopped", true, 0, 0},
    {"front killed", false, 0, FRONT},
    {"holder killed", false, 0, HOLDER},
    {"nodes stopped, front killed", true, 0, FRONT},
    {"nodes stopped, holder killed", true, 0, HOLDER},
    {"holder stopped", false, HOLDER, 0},
    {"nodes and front stopped", true, FRONT, 0},
};
enum { FATES = sizeof fates / sizeof fates[0] };

/* The ways to start the processes: $0 with the argument $1. */
static const struct shape {
    const char *name;
    const char *script;
} shapes[] = {
    {"group", "$0 $1"},
    {"timeout", "timeout 60 $0 $1"},
    {"session", "setsid --wait $0 $1"},
    {"job control", "set -m; $0 $1 & wait"},
    {"double fork", "(setsid $0 $1 &); sleep 60"},
    {"nested", "$R run --ttl 1500ms --grace 200ms --timeout 300ms test:inner -- $0 $1"},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* --- The command: four processes of one group, which record when they were last alive --- */

/* Each is the child of the one before. */
enum { STAMPER_PROCESSES = 4 };

struct stamps {
    atomic_int group;                         /* the process group of all four */
    atomic_llong alive_ns[STAMPER_PROCESSES]; /* CLOCK_BOOTTIME, updated every two milliseconds; 0: not yet */
};

static double boot_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The stamps are the measurement: the pause is their resolution. It ends by itself after a minute, in case the test did
 * not end it. */
_Noreturn static void stamp(struct stamps *stamps, unsigned process)
{
    enum { PAUSE_NS = 2000000, LIFE_MS = 60000 };
    double until_ms = boot_ms() + LIFE_MS;
    while (boot_ms() < until_ms) {
        atomic_store(&stamps->alive_ns[process], (long long)(boot_ms() * 1e6));
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    _exit(EXIT_FAILURE);
}

/* This program, started with the name of a file of stamps. It ignores every signal that it can. */
_Noreturn static void be_stamper(const char *path)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct stamps *stamps = mmap(NULL, sizeof *stamps, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (stamps == MAP_FAILED)
        _exit(99);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        signal(numbers[i], SIG_IGN);
    atomic_store(&stamps->group, getpgrp());
    unsigned process = 0;
    while (process + 1 < STAMPER_PROCESSES && fork() == 0)
        process++;
    stamp(stamps, process);
}

/* --- A crowd: processes that ignore SIGTERM, half of them in their own sessions --- */

enum { CROWD_MOST = 4000, CROWD = 300 };

struct crowd {
    atomic_int count;
    atomic_int pid[CROWD_MOST];
};

/* This program, started with the name of a file and a number. */
_Noreturn static void be_crowd(const char *path, int count)
{
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct crowd *crowd = mmap(NULL, sizeof *crowd, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (crowd == MAP_FAILED)
        _exit(99);
    signal(SIGTERM, SIG_IGN);
    for (int i = 0; i < count; i++)
        if (fork() == 0) {
            if (i % 2)
                setsid();
            atomic_store(&crowd->pid[i], getpid());
            atomic_fetch_add(&crowd->count, 1);
            for (;;)
                pause();
        }
    for (;;)
        pause();
}

/* --- Trials --- */

struct trial {
    const struct fate *fate;
    const struct shape *shape;
    struct cluster *cluster;
    struct program *program;
    struct stamps *stamps;
    char path[64];
    pid_t processes[PROGRAM_PROCESSES];
    double waited_ms[PROGRAM_PROCESSES]; /* for a processor, when redlock's processes were struck */
    double late_ms;                      /* the most that one of redlock's processes has waited for a processor since */
    pid_t group;
    unsigned fixtures; /* our children before the program starts: servers, and the process that cleans up */
    double end_ms;     /* end of validity, CLOCK_BOOTTIME; late by no more than the time a request is in transit */
};

/* --- Set-up --- */

static void *map(struct trial *trial, size_t size)
{
    int file = memfd_create("stamps", 0); /* inherited, so the command opens it by its name in /proc */
    if (file < 0 || ftruncate(file, (off_t)size) != 0)
        fixture_fail("memfd_create: %s", strerror(errno));
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        fixture_fail("mmap: %s", strerror(errno));
    snprintf(trial->path, sizeof trial->path, "/proc/%d/fd/%d", (int)getpid(), file);
    return mapped;
}

static bool all_stamped(void *arg)
{
    struct trial *trial = arg;
    for (size_t i = 0; i < STAMPER_PROCESSES; i++)
        if (atomic_load(&trial->stamps->alive_ns[i]) == 0)
            return false;
    return true;
}

/* Counts our live children. An orphan becomes our child, because we are a subreaper. Children that have ended are
 * reaped. */
static unsigned count_children(void)
{
    pid_t children[64];
    size_t all = program_children(getpid(), children, 64);
    unsigned live = 0;
    for (size_t i = 0; i < all; i++)
        live += waitpid(children[i], NULL, WNOHANG) == 0;
    return live;
}

static bool begin(struct trial *trial)
{
    trial->cluster = cluster_create(NODES, NULL);
    scene_trust(cluster_nodes_string(trial->cluster));
    trial->stamps = map(trial, sizeof(struct stamps));
    program_setting = (struct program_setting){.nodes = cluster_nodes_string(trial->cluster)};
    trial->fixtures = count_children();
    trial->program =
        program_start("run --ttl 1500ms --grace 200ms --timeout 300ms " NAME " -- bash -c '%s' /proc/%d/exe %s",
                      trial->shape->script, (int)getpid(), trial->path);
    if (!wait_until(all_stamped, trial, PROGRAM_SOON_MS))
        return false;
    for (unsigned i = PROGRAM_FRONT; i < PROGRAM_PROCESSES; i++)
        trial->processes[i] = program_process(trial->program, (enum program_process)i);
    trial->group = atomic_load(&trial->stamps->group);
    return true;
}

/* Of those that run: the kernel ends a process only when nobody looks into its directory in /proc, and the other one of
 * redlock's processes waits for that. */
static void note_delays(struct trial *trial)
{
    for (unsigned i = PROGRAM_FRONT; i < PROGRAM_PROCESSES; i++) {
        if ((trial->fate->killed | trial->fate->stopped) & 1U << i)
            continue;
        double late_ms = lateness_waited_ms(trial->processes[i]) - trial->waited_ms[i];
        trial->late_ms = late_ms > trial->late_ms ? late_ms : trial->late_ms;
    }
}

/* The machine was so slow that the lock was lost before the fault. */
static bool is_lost(const struct trial *trial)
{
    const char *errors = program_errors(trial->program);
    return strstr(errors, "is lost") != NULL || strstr(errors, "no longer held") != NULL;
}

/* --- The end of the lock --- */

static double shown_end(struct trial *trial, size_t node)
{
    double now = boot_ms();
    long long left_ms = cluster_integer(trial->cluster, node, "PTTL", NAME, NULL);
    return now + (double)left_ms;
}

/* By any node: one may be without the key, or behind. */
static double latest_end(struct trial *trial)
{
    double latest = shown_end(trial, 0);
    for (size_t i = 1; i < NODES; i++) {
        double end = shown_end(trial, i);
        latest = end > latest ? end : latest;
    }
    return latest - ttl_ms / 100 - 2;
}

struct renewal {
    struct trial *trial;
    double before[NODES];
    double not_yet_ms; /* when the nodes were last seen without the renewal */
};

static bool is_renewed(void *arg)
{
    struct renewal *renewal = arg;
    double now = boot_ms();
    if (is_lost(renewal->trial))
        return true;
    for (size_t i = 0; i < NODES; i++) {
        if (shown_end(renewal->trial, i) < renewal->before[i] + until_renewal_ms() / 2) {
            renewal->not_yet_ms = now;
            return false;
        }
    }
    return true;
}

/* Returns right after a renewal on all nodes, so that no other renewal precedes the fault. Returns a time before the
 * renewal, because on a busy machine it may be seen late. */
static double await_renewal(struct trial *trial)
{
    struct renewal renewal = {.trial = trial};
    for (size_t i = 0; i < NODES; i++)
        renewal.before[i] = shown_end(trial, i);
    ck_assert_msg(wait_closely(is_renewed, &renewal, PROGRAM_SOON_MS) || is_lost(trial), "the lock is not renewed: %s",
                  program_errors(trial->program));
    return renewal.not_yet_ms;
}

static void signal_processes(const struct trial *trial, unsigned set, int number)
{
    for (unsigned i = PROGRAM_FRONT; i < PROGRAM_PROCESSES; i++)
        if (set & 1U << i)
            kill(trial->processes[i], number);
}

/* Returns false if the machine was too slow to know which renewal was the last. */
static bool strike_behind_renewal(struct trial *trial)
{
    double renewed_ms = await_renewal(trial);
    trial->end_ms = latest_end(trial);
    for (unsigned i = PROGRAM_FRONT; i < PROGRAM_PROCESSES; i++)
        trial->waited_ms[i] = lateness_waited_ms(trial->processes[i]);
    for (size_t i = 0; trial->fate->nodes_stopped && i < NODES; i++)
        cluster_stop(trial->cluster, i);
    signal_processes(trial, trial->fate->stopped, SIGSTOP);
    signal_processes(trial, trial->fate->killed, SIGKILL);
    return boot_ms() - renewed_ms < until_renewal_ms() && !is_lost(trial);
}

/* --- Leftover processes --- */

/* A holder that is neither killed nor stopped renews the lock until the tree has ended. */
static void follow_renewal(struct trial *trial)
{
    bool holder_runs = !((trial->fate->killed | trial->fate->stopped) & HOLDER);
    if (!holder_runs || trial->fate->nodes_stopped || boot_ms() < trial->end_ms - ttl_ms / 5.0)
        return;
    double end_ms = latest_end(trial);
    if (end_ms > boot_ms()) /* otherwise the key is gone */
        trial->end_ms = end_ms > trial->end_ms ? end_ms : trial->end_ms;
}

static bool group_is_gone(void *arg)
{
    struct trial *trial = arg;
    note_delays(trial);
    follow_renewal(trial);
    return kill(-trial->group, 0) != 0 && errno == ESRCH;
}

static double last_alive_ms(const struct trial *trial)
{
    long long last = 0;
    for (size_t i = 0; i < STAMPER_PROCESSES; i++) {
        long long alive = atomic_load(&trial->stamps->alive_ns[i]);
        last = alive > last ? alive : last;
    }
    return (double)last / 1e6;
}

static bool nothing_is_left(void *arg)
{
    const struct trial *trial = arg;
    return count_children() <= trial->fixtures;
}

/* Returns the time from the last sign of life to the end of the lock. Redlock wakes to kill the tree 50 ms before the end.
 * A process that only wakes gets a processor sooner than one that has to read /proc, so both are measured. */
static double judge(struct trial *trial)
{
    lateness_begin();
    if (!wait_closely(group_is_gone, trial, PROGRAM_SOON_MS))
        fixture_fail("processes of the tree are left");
    double woken_ms = lateness_end_ms(), margin_ms = trial->end_ms - last_alive_ms(trial);
    double late_ms = woken_ms > trial->late_ms ? woken_ms : trial->late_ms;
    if (margin_ms + late_ms < 0) /* between that and 0 the trial proves nothing, and is repeated */
        fixture_fail("the tree was alive %.1f ms after the end of the lock; the machine was late by %.1f ms: %s",
                     -margin_ms, late_ms, program_errors(trial->program));
    signal_processes(trial, trial->fate->stopped & FRONT, SIGCONT); /* as its shell would do */
    if (!(trial->fate->killed & FRONT))
        cluster_resume_all(trial->cluster); /* otherwise the release waits for the nodes, which is not tested here */
    int status = program_wait(trial->program);
    if (status != (trial->fate->killed & FRONT ? -SIGKILL : LOST))
        fixture_fail("exit status %d: %s", status, program_errors(trial->program));
    if (!wait_until(nothing_is_left, trial, PROGRAM_SOON_MS))
        fixture_fail("%u processes are left", count_children() - trial->fixtures);
    return margin_ms;
}

/* --- One trial, in a separate process --- */

static const struct fate *fate_of(unsigned number)
{
    return &fates[number % FATES];
}

static const struct shape *shape_of(unsigned number)
{
    return &shapes[(number + number / FATES) % SHAPES];
}

/* Returns a negative number if the trial must be repeated. */
static double try_once(unsigned number)
{
    struct trial trial = {.fate = fate_of(number), .shape = shape_of(number)};
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!begin(&trial) && !is_lost(&trial))
        fixture_fail("CMD was not started: %s; %s", program_output(trial.program), program_errors(trial.program));
    if (is_lost(&trial) || !strike_behind_renewal(&trial))
        return -1;
    return judge(&trial);
}

static pid_t start_trial(unsigned number, double *margin_ms)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    do {
        fixtures_begin();
        *margin_ms = try_once(number);
        fixtures_end();
    } while (*margin_ms < 0);
    _exit(EXIT_SUCCESS);
}

static unsigned trials(void)
{
    const char *text = getenv("REDLOCK_TRIALS");
    return text != NULL && atoi(text) > 0 ? (unsigned)atoi(text) : FATES;
}

/* ctest limits the time. */
TEST_CASE_WITHIN(trials, fixtures_begin, fixtures_end, 86400);

TEST(trials, no_process_of_the_tree_outlives_the_lock)
{
    unsigned all = trials();
    pid_t pids[AT_ONCE];
    double worst_ms = 1e9;
    double *margin_ms =
        mmap(NULL, AT_ONCE * sizeof *margin_ms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(margin_ms != MAP_FAILED);
    for (unsigned done = 0; done < all; done += AT_ONCE) {
        unsigned batch = all - done < AT_ONCE ? all - done : AT_ONCE;
        for (unsigned i = 0; i < batch; i++)
            pids[i] = start_trial(done + i, &margin_ms[i]);
        for (unsigned i = 0; i < batch; i++) {
            int status;
            ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
            ck_assert_msg(status == 0, "trial %u, %s, %s", done + i, fate_of(done + i)->name, shape_of(done + i)->name);
            worst_ms = margin_ms[i] < worst_ms ? margin_ms[i] : worst_ms;
        }
    }
    printf("%u trials; the last process died %.1f ms before the end of the lock at the latest\n", all, worst_ms);
}

static int crowd_size(void)
{
    const char *text = getenv("REDLOCK_CROWD");
    int size = text ? atoi(text) : CROWD;
    return size < 1 ? 1 : size > CROWD_MOST ? CROWD_MOST : size;
}

struct living {
    struct crowd *crowd;
    int first; /* the processes before it have ended */
    double last_ms;
};

static bool crowd_is_there(void *arg)
{
    const struct living *living = arg;
    return atomic_load(&living->crowd->count) == crowd_size();
}

/* Zombies count: they are reaped as soon as the holder runs. */
static bool crowd_is_gone(void *arg)
{
    struct living *living = arg;
    double now = boot_ms();
    while (living->first < crowd_size() && program_is_gone(atomic_load(&living->crowd->pid[living->first])))
        living->first++;
    if (living->first < crowd_size())
        living->last_ms = now;
    return living->first == crowd_size();
}

/* The walk over the tree takes long, so SIGKILL begins early. REDLOCK_CROWD: the number of processes. */
TEST(trials, a_large_tree_does_not_outlive_the_lock)
{
    struct trial trial = {.fate = &fates[0]};
    ttl_ms = 5000;
    trial.cluster = cluster_create(NODES, NULL);
    scene_trust(cluster_nodes_string(trial.cluster));
    struct living living = {.crowd = map(&trial, sizeof(struct crowd))};
    program_setting = (struct program_setting){.nodes = cluster_nodes_string(trial.cluster)};
    trial.program = program_start("run --ttl 5s --grace 2s --timeout 500ms --on-lost 'echo $REDLOCK_LOSS' " NAME
                                  " -- /proc/%d/exe %s %d",
                                  (int)getpid(), trial.path, crowd_size());
    ck_assert(wait_until(crowd_is_there, &living, PROGRAM_SOON_MS));
    for (unsigned i = PROGRAM_FRONT; i < PROGRAM_PROCESSES; i++)
        trial.processes[i] = program_process(trial.program, (enum program_process)i);
    while (!strike_behind_renewal(&trial)) {
        ck_assert_msg(!is_lost(&trial), "%s", program_errors(trial.program));
        cluster_resume_all(trial.cluster);
    }
    lateness_begin();
    ck_assert(wait_closely(crowd_is_gone, &living, PROGRAM_SOON_MS));
    note_delays(&trial);
    double woken_ms = lateness_end_ms(), margin_ms = trial.end_ms - living.last_ms;
    double late_ms = woken_ms > trial.late_ms ? woken_ms : trial.late_ms;
    cluster_resume_all(trial.cluster);
    program_exits(trial.program, LOST);
    printf("%d processes: the last one was there %.1f ms before the end of the lock; the machine was late by %.1f ms\n",
           crowd_size(), margin_ms, late_ms);
    ck_assert_msg(margin_ms + late_ms > 0, "alive %.1f ms after the end of the lock", -margin_ms);
    ck_assert_str_eq(program_output(trial.program), margin_ms > 50 ? "ended\n" : program_output(trial.program));
}

int main(int argc, char **argv)
{
    if (argc == 3)
        be_crowd(argv[1], atoi(argv[2]));
    if (argc == 2)
        be_stamper(argv[1]);
    return real_run(registered_suite("cli_trial"), true);
}
