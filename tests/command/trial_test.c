/*
 * Is every process of CMD's tree dead when the lock ends? Each trial has its own servers, and several trials run at
 * once. The nodes are stopped, so that no renewal succeeds. One of redlock's two processes is killed or stopped. CMD starts
 * processes that ignore every signal they can, in the command's process group or outside it. The end of the lock is computed
 * from the nodes' replies, not from redlock's output.
 *
 * REDLOCK_TRIALS is the number of trials (default: each shape of the tree once). The smallest margin is printed. After FATES *
 * SHAPES trials each fate has been combined with each shape. REDLOCK_CROWD is the size of the large tree.
 */
#include "story.h"

#include "support/fixture.h"
#include "support/lateness.h"
#include "support/process.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 3, AT_ONCE = 6, CROWD_USUAL = 300, MEMBERS_MOST = 4000 };

#define TRIAL real_key("trial")

enum { FRONT = 1 << 0, HOLDER = 1 << 1, BOTH = 2 };

static const struct fate {
    const char *name;
    unsigned stopped, killed;
} fates[] = {
    {"both live", 0, 0},           {"front killed", 0, FRONT},  {"holder killed", 0, HOLDER},
    {"holder stopped", HOLDER, 0}, {"front stopped", FRONT, 0},
};
enum { FATES = sizeof fates / sizeof fates[0] };

/* Four processes, each the child of the one before, and a crowd, half of them in their own sessions. Each writes its PID. */
#define MEMBER "sh -c \"echo pid=\\$\\$; exec sleep 300\""
#define FOUR   "trap \"\" TERM INT HUP QUIT USR1 USR2; f() { [ $1 = 0 ] || f $(($1 - 1)) & exec " MEMBER "; }; f 3"
#define CROWD                                                                                                          \
    "trap \"\" TERM; for i in $(seq %d); do S=; [ $((i %% 2)) = 0 ] || S=setsid; $S " MEMBER " & done; sleep 300"

/* The ways to start the four: $0 -c "$TREE". */
static const struct shape {
    const char *name, *script;
} shapes[] = {
    {"group", "$0 -c \"$TREE\""},
    {"timeout", "timeout 60 $0 -c \"$TREE\""},
    {"session", "setsid --wait $0 -c \"$TREE\""},
    {"job control", "set -m; $0 -c \"$TREE\" & wait"},
    {"double fork", "(setsid $0 -c \"$TREE\" &); sleep 60"},
    {"nested", "$R run --ttl 1500ms --grace 200ms --timeout 300ms test:inner -- $0 -c \"$TREE\""},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

struct trial {
    const struct fate *fate;
    double ttl_ms;
    pid_t processes[BOTH];
    double waited_ms[BOTH]; /* for a processor, when redlock's processes were struck */
    double late_ms;         /* the most that one of redlock's processes has waited for a processor since */
    pid_t members[MEMBERS_MOST];
    int count, first, left;    /* of the members; those before the first have ended, those before `left` are reaped */
    double alive_ms, there_ms; /* when a member was last seen alive, and alive or a zombie */
    double end_ms;     /* end of validity, CLOCK_BOOTTIME; late by no more than the time a request is in transit */
    unsigned fixtures; /* our children before the program starts: servers, and the process that cleans up */
};

static double boot_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* A renewal starts no earlier than this after the previous one: a third of the ttl minus its jitter. */
static double until_renewal_ms(const struct trial *trial)
{
    return 0.23 * trial->ttl_ms;
}

/* --- Set-up --- */

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

/* The machine was so slow that the lock was lost before the fault. */
static bool is_lost(void)
{
    return strstr(story_errors(), "is lost") || strstr(story_errors(), "no longer held");
}

static bool all_are_there(struct trial *trial, int count)
{
    trial->count = 0;
    for (const char *at = story_output(); (at = strstr(at, "pid=")) != NULL && trial->count < count; at++)
        trial->members[trial->count++] = atoi(at + strlen("pid="));
    return trial->count == count;
}

/* Starts redlock with these words, whose command starts as many members of the tree. Returns false if the machine was too
 * slow. */
static bool begin(struct trial *trial, int count, const char *words)
{
    story_tell("cluster %d\n> trust --yes => 0\nconfig", NODES);
    trial->fixtures = count_children();
    story_tell("p> %s", words);
    STORY_SOON(is_lost() || all_are_there(trial, count), "CMD was not started");
    story_tell("let front pid\nlet holder holder");
    trial->processes[0] = story_process("front");
    trial->processes[1] = story_process("holder");
    return !is_lost();
}

/* Of those that run: the kernel ends a process only when nobody looks into its directory in /proc, and the other one of
 * redlock's processes waits for that. */
static void note_delays(struct trial *trial)
{
    for (unsigned i = 0; i < BOTH; i++) {
        if ((trial->fate->killed | trial->fate->stopped) & 1U << i)
            continue;
        double late_ms = lateness_waited_ms(trial->processes[i]) - trial->waited_ms[i];
        trial->late_ms = late_ms > trial->late_ms ? late_ms : trial->late_ms;
    }
}

/* --- The end of the lock --- */

static double shown_end(size_t node)
{
    double now = boot_ms();
    long long left_ms = cluster_integer(cluster, node, "PTTL", TRIAL, NULL);
    return now + (double)left_ms;
}

/* By any node: one may be without the key, or behind. */
static double latest_end(const struct trial *trial)
{
    double latest = 0;
    for (size_t i = 0; i < NODES; i++) {
        double end = shown_end(i);
        latest = end > latest ? end : latest;
    }
    return latest - trial->ttl_ms / 100 - 2;
}

struct renewal {
    const struct trial *trial;
    double before[NODES];
    double not_yet_ms; /* when the nodes were last seen without the renewal */
};

static bool is_renewed(void *arg)
{
    struct renewal *renewal = arg;
    double now = boot_ms();
    for (size_t i = 0; i < NODES && !is_lost(); i++) {
        if (shown_end(i) < renewal->before[i] + until_renewal_ms(renewal->trial) / 2) {
            renewal->not_yet_ms = now;
            return false;
        }
    }
    return true;
}

/* Returns right after a renewal on all nodes, so that no other renewal precedes the fault. Returns a time before the
 * renewal, because on a busy machine it may be seen late. */
static double await_renewal(const struct trial *trial)
{
    struct renewal renewal = {.trial = trial};
    for (size_t i = 0; i < NODES; i++)
        renewal.before[i] = shown_end(i);
    STORY_REQUIRE(wait_closely(is_renewed, &renewal, PROGRAM_SOON_MS), "the lock is not renewed");
    return renewal.not_yet_ms;
}

static void signal_processes(const struct trial *trial, unsigned set, int number)
{
    for (unsigned i = 0; i < BOTH; i++)
        if (set & 1U << i)
            kill(trial->processes[i], number);
}

/* Returns false if the machine was too slow to know which renewal was the last. */
static bool strike_behind_renewal(struct trial *trial)
{
    double renewed_ms = await_renewal(trial);
    trial->end_ms = latest_end(trial);
    for (unsigned i = 0; i < BOTH; i++)
        trial->waited_ms[i] = lateness_waited_ms(trial->processes[i]);
    for (size_t i = 0; i < NODES; i++)
        cluster_stop(cluster, i);
    signal_processes(trial, trial->fate->stopped, SIGSTOP);
    signal_processes(trial, trial->fate->killed, SIGKILL);
    return boot_ms() - renewed_ms < until_renewal_ms(trial) && !is_lost();
}

/* --- Leftover processes --- */

static bool all_have_ended(void *arg)
{
    struct trial *trial = arg;
    note_delays(trial);
    double now = boot_ms();
    while (trial->first < trial->count && process_has_ended(trial->members[trial->first]))
        trial->first++;
    if (trial->first < trial->count)
        trial->alive_ms = now;
    while (trial->left < trial->count && program_is_gone(trial->members[trial->left]))
        trial->left++;
    if (trial->left < trial->count)
        trial->there_ms = now;
    bool are_reaped = !(trial->fate->killed | trial->fate->stopped); /* by redlock, as soon as it runs */
    return (are_reaped ? trial->left : trial->first) == trial->count;
}

/* Returns the time from the last sign of life to the end of the lock. Redlock wakes to kill the tree 50 ms before the end.
 * A process that only wakes gets a processor sooner than one that has to read /proc, so both are measured. */
static double judge(struct trial *trial)
{
    lateness_begin();
    STORY_REQUIRE(wait_closely(all_have_ended, trial, PROGRAM_SOON_MS), "processes of the tree are left");
    double woken_ms = lateness_end_ms(), margin_ms = trial->end_ms - trial->alive_ms;
    trial->late_ms = woken_ms > trial->late_ms ? woken_ms : trial->late_ms;
    /* Between that and 0 the trial proves nothing, and is repeated. */
    STORY_REQUIRE(margin_ms + trial->late_ms >= 0,
                  "alive %.1f ms after the end of the lock; the machine was late by %.1f ms", -margin_ms,
                  trial->late_ms);
    signal_processes(trial, trial->fate->stopped & FRONT, SIGCONT); /* as its shell would do */
    if (!(trial->fate->killed & FRONT))
        cluster_resume_all(cluster); /* otherwise the release waits for the nodes, which is not tested here */
    story_tell(trial->fate->killed & FRONT ? "ends -SIGKILL" : "ends LOST");
    STORY_SOON(count_children() <= trial->fixtures, "%u processes are left", count_children() - trial->fixtures);
    return margin_ms;
}

/* --- One trial, in a separate process --- */

static const struct shape *shape_of(unsigned number)
{
    return &shapes[number % SHAPES];
}

static const struct fate *fate_of(unsigned number)
{
    return &fates[(number + number / SHAPES) % FATES];
}

/* Returns a negative number if the trial must be repeated. */
static double try_once(unsigned number)
{
    struct trial trial = {.fate = fate_of(number), .ttl_ms = 1500};
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    bool struck = begin(&trial, 4,
                        program_text("TREE='" FOUR "' run --ttl 1500ms --grace 200ms --timeout 300ms " TRIAL
                                     " -- bash -c '%s' sh",
                                     shape_of(number)->script)) &&
                  strike_behind_renewal(&trial);
    return struck ? judge(&trial) : -1;
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
        story_begin();
        *margin_ms = try_once(number);
        fixtures_end();
    } while (*margin_ms < 0);
    _exit(EXIT_SUCCESS);
}

/* ctest limits the time. */
TEST_CASE_WITHIN(trials, fixtures_begin, fixtures_end, 86400);

TEST(trials, no_process_of_the_tree_outlives_the_lock)
{
    unsigned all = real_setting("REDLOCK_TRIALS", SHAPES);
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

/* The walk over the tree takes long, so SIGKILL begins early. */
TEST(trials, a_large_tree_does_not_outlive_the_lock)
{
    struct trial trial = {.fate = &fates[0], .ttl_ms = 5000};
    int size = (int)real_setting("REDLOCK_CROWD", CROWD_USUAL);
    ck_assert_int_le(size, MEMBERS_MOST);
    ck_assert(begin(&trial, size,
                    program_text("TREE='" CROWD "' run --ttl 5s --grace 2s --timeout 500ms --on-lost "
                                 "'echo $REDLOCK_LOSS' " TRIAL " -- sh -c 'eval \"$TREE\"'",
                                 size)));
    while (!strike_behind_renewal(&trial)) {
        STORY_REQUIRE(!is_lost(), "it is lost");
        cluster_resume_all(cluster);
    }
    double margin_ms = judge(&trial);
    printf("%d processes: the last one was there %.1f ms before the end of the lock\n", size, margin_ms);
    ck_assert(trial.end_ms - trial.there_ms < 50 + trial.late_ms || strstr(story_output(), "\nended\n"));
}

int main(void)
{
    return real_run(registered_suite("cli_trial"), true);
}
