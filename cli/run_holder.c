/* The process of redlock run that holds the lock, and is CMD's parent. */
#include "child.h"
#include "command.h"
#include "ending.h"
#include "message.h"
#include "process.h"
#include "run.h"
#include "times.h"
#include "tree.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* WALKS: SIGKILL begins that many walks over the tree earlier: the front, which does the same later, must find little
 * left. LATE: an end of validity that is noticed so late was passed while this process did not run. */
enum { WALKS = 6, LATE_MS = 500 };

struct holder {
    const struct cli_run *run;
    int front; /* -1: it is dead */
    redlock_client *client;
    redlock_lock *lock;
    int lost;    /* readable when the lock is lost; -1: already handled */
    int signals; /* descriptors */
    int alarm;
    struct cli_ending ending;
    int64_t announced_end; /* the end of validity that the front knows */
    pid_t command;
    bool exited;      /* CMD has exited; others of its tree may live */
    int status;       /* CMD's, from waitpid(2) */
    bool said_ending; /* that CMD gets a signal, and no renewal came after it */
    bool cut_short;   /* CMD was ended because of the lock */
};

/* --- Messages --- */

static void send_message(const struct holder *holder, struct cli_run_message message)
{
    if (holder->front >= 0)
        (void)!send(holder->front, &message, sizeof(message), MSG_NOSIGNAL);
}

/* On the loop's thread. */
static void on_event(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    char left[CLI_DURATION_SIZE];
    char quoted[CLI_QUOTED_SIZE];

    (void)loss;
    (void)arg;
    if (event == REDLOCK_EVENT_RENEWAL_FAILING)
        cli_say("%s: renewal failed and is retried; the lock ends in %s",
                cli_quote(redlock_lock_resource(lock, NULL), quoted), cli_duration_text(validity_ms, left));
}

/* --- Starting CMD --- */

static bool is_ours(const char *variable)
{
    static const char *const names[] = {
        "REDLOCK_RESOURCE=", "REDLOCK_TOKEN=", "REDLOCK_VALIDITY_MS=", "REDLOCK_FENCE=", "REDLOCK_LOSS="};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

enum { TEXTS = 4 };

/* CMD's environment variables; false: no memory. */
static bool write_texts(const redlock_lock *lock, char *texts[TEXTS])
{
    uint64_t fence = redlock_lock_fence(lock);

    return asprintf(&texts[0], "REDLOCK_RESOURCE=%s", redlock_lock_resource(lock, NULL)) >= 0 &&
           asprintf(&texts[1], "REDLOCK_TOKEN=%s", redlock_lock_token(lock)) >= 0 &&
           asprintf(&texts[2], "REDLOCK_VALIDITY_MS=%lld", (long long)redlock_validity_ms(lock)) >= 0 &&
           (fence == 0 || asprintf(&texts[3], "REDLOCK_FENCE=%llu", (unsigned long long)fence) >= 0);
}

/* Not with setenv(3): the client's thread may read the environment. */
static char **make_environment(char *const texts[TEXTS])
{
    size_t count = 0;
    size_t made = 0;

    while (environ[count] != NULL)
        count++;
    char **environment = calloc(count + TEXTS + 1, sizeof(*environment));
    if (environment == NULL)
        return NULL;
    for (size_t i = 0; i < TEXTS; i++)
        if (texts[i] != NULL)
            environment[made++] = texts[i];
    for (size_t i = 0; i < count; i++)
        if (!is_ours(environ[i]))
            environment[made++] = environ[i];
    return environment;
}

/* Without the foreground, CMD is stopped when it reads the terminal. Then the front gives it the foreground. */
static bool gives_foreground(const struct cli_run *run)
{
    return !run->in_pipeline && tcgetpgrp(run->terminal) == run->front_group; /* -1 without a terminal */
}

/* In the child: otherwise the front would miss the group if the holder is killed first. */
static void announce(void *arg)
{
    const struct holder *holder = arg;

    cli_cgroup_join(holder->run->cgroup);
    send_message(holder, (struct cli_run_message){.word = CLI_RUN_STARTED, .group = getpid()});
}

static int start_command(struct holder *holder)
{
    char *texts[TEXTS] = {NULL};
    int status = CLI_SYSTEM;
    char **environment = write_texts(holder->lock, texts) ? make_environment(texts) : NULL;
    struct cli_child child = {.argv = holder->run->command,
                              .environment = environment,
                              .terminal = gives_foreground(holder->run) ? holder->run->terminal : -1,
                              .own_group = true,
                              .parent_signal = SIGTERM,
                              .announce = announce,
                              .arg = holder};

    if (environment != NULL)
        holder->command = cli_child_start(&child, &status);
    else
        cli_say("out of memory");
    if (holder->command < 0 && child.terminal >= 0)
        tcsetpgrp(child.terminal, holder->run->front_group); /* the child had taken it before its exec failed */
    if (holder->command < 0)
        send_message(holder, (struct cli_run_message){.word = CLI_RUN_ENDED});
    free(environment);
    for (size_t i = 0; i < TEXTS; i++)
        free(texts[i]);
    return holder->command > 0 ? CLI_OK : status;
}

/* --- Events --- */

/* SIGTERM from redlock itself was to end the wait, and came too late: the front sends CMD the signal itself. */
static void read_signals(struct holder *holder)
{
    struct signalfd_siginfo information;

    while (read(holder->signals, &information, sizeof(information)) == (ssize_t)sizeof(information))
        if (information.ssi_signo == SIGTERM && information.ssi_pid != (uint32_t)holder->run->front &&
            !holder->exited) {
            kill(-holder->command, SIGTERM);
            kill(-holder->command, SIGCONT);
        }
}

/* Whether a shell could continue it. */
static void signal_front(const struct holder *holder, int number)
{
    if (holder->front >= 0 && holder->run->terminal >= 0)
        kill(holder->run->front, number);
}

/*
 * CMD was stopped: stop the front, otherwise the shell would keep waiting for its job. SIGSTOP comes from a process,
 * not from the terminal, and that process may send SIGCONT too. The front gets both from here, so that they stay in
 * order.
 */
static void note_stopped(const struct holder *holder, int number)
{
    if (number == SIGSTOP)
        signal_front(holder, SIGSTOP);
    else
        send_message(holder, (struct cli_run_message){.word = CLI_RUN_STOPPED, .signal = number});
}

/* False: no child is left, hence no descendant: an orphan would be our child. */
static bool reap(struct holder *holder)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL)) > 0) {
        if (pid != holder->command)
            continue;
        if (WIFSTOPPED(status)) {
            note_stopped(holder, WSTOPSIG(status));
            continue;
        }
        signal_front(holder, SIGCONT); /* also at its end: it may have been continued just before */
        if (WIFCONTINUED(status))
            continue;
        holder->exited = true;
        holder->status = status;
        if (holder->front >= 0 &&
            holder->run->shared->terminated) /* by the front too, while this process was stopped */
            holder->cut_short = true;
    }
    return pid == 0 || errno != ECHILD;
}

static bool front_is_dead(struct holder *holder)
{
    char byte;

    if (recv(holder->front, &byte, 1, 0) == 0) {
        close(holder->front);
        holder->front = -1;
    }
    return holder->front < 0;
}

static void look_at_front(struct holder *holder)
{
    if (front_is_dead(holder) || getppid() != holder->run->front)
        cli_ending_now(&holder->ending, cli_now_ms());
}

static void lose(struct holder *holder, int loss, int64_t now)
{
    char quoted[CLI_QUOTED_SIZE];

    holder->lost = -1;
    holder->run->shared->loss = loss;
    cli_say("%s is lost: %s%s", cli_quote(redlock_lock_resource(holder->lock, NULL), quoted), redlock_loss_text(loss),
            loss == REDLOCK_LOSS_EXPIRED && now > holder->ending.end + LATE_MS ? ", while redlock was stopped" : "");
}

static void look_at_lock(struct holder *holder)
{
    struct pollfd lost = {.fd = holder->lost, .events = POLLIN};

    if (holder->lost < 0)
        return;
    cli_ending_prolong(&holder->ending, cli_end_of_validity(holder->lock));
    if (poll(&lost, 1, 0) <= 0)
        return;
    int64_t now = cli_now_ms();
    int loss = redlock_lock_loss(holder->lock);
    lose(holder, loss, now);
    if (loss == REDLOCK_LOSS_GONE)
        cli_ending_now(&holder->ending, now);
    else
        cli_ending_over(&holder->ending, now);
    holder->cut_short = holder->cut_short || !holder->exited;
}

static bool is_ending(const struct holder *holder)
{
    return holder->ending.kill_by != INT64_MAX;
}

/* Processes that CMD leaves behind depend on the lock too: end them, and hold the lock until they have ended. False:
 * they are to be left. */
static bool look_at_leftovers(struct holder *holder)
{
    struct cli_tree tree = {.root = getpid()};
    char names[CLI_TREE_NAMES_SIZE];

    if (!holder->exited || is_ending(holder))
        return true;
    if (holder->run->leave && !holder->cut_short)
        return false;
    if (!holder->cut_short && cli_tree_names(&tree, false, names) > 0)
        cli_notice("the command has exited and left %s: ended with its lock (see --leave)", names);
    cli_ending_now(&holder->ending, cli_now_ms());
    return true;
}

static void say_ending(const struct holder *holder, const char *action)
{
    char quoted[CLI_QUOTED_SIZE];

    if (!is_ending(holder) && !holder->exited)
        cli_say("%s %s: the command %s", cli_quote(redlock_lock_resource(holder->lock, NULL), quoted),
                holder->run->acquire.options.cap_ms > 0 ? "ends, by --cap or because its renewal failed"
                                                        : "ends, because its renewal failed",
                action);
}

static void step(struct holder *holder)
{
    struct cli_tree tree = {.root = getpid(), .group = holder->command};

    cli_ending_allow(&holder->ending, WALKS * holder->run->shared->walk_ms);
    enum cli_ending_action action = cli_ending_step(&holder->ending, cli_now_ms());

    if (action == CLI_ENDING_WAIT)
        return;
    if (action == CLI_ENDING_KILL)
        cli_run_kill(holder->run, &tree);
    else
        cli_run_terminate(holder->run, &tree);
    if (!holder->said_ending && holder->lost >= 0)
        say_ending(holder, action == CLI_ENDING_TERMINATE ? "gets SIGTERM" : "gets SIGKILL");
    holder->said_ending = true;
    if (action == CLI_ENDING_KILL && !holder->exited && holder->front >= 0)
        holder->cut_short = true;
}

/* The front has signalled CMD, because no later end was reported to it. */
static void say_terminated(struct holder *holder)
{
    char quoted[CLI_QUOTED_SIZE];

    if (!holder->run->shared->terminated || holder->said_ending || holder->lost < 0)
        return;
    cli_say("%s: the command got a signal, because the process with the lock did not run for too long",
            cli_quote(redlock_lock_resource(holder->lock, NULL), quoted));
    holder->said_ending = true;
}

static void tell_validity(struct holder *holder)
{
    if (holder->ending.end <= holder->announced_end)
        return;
    say_terminated(holder);
    holder->announced_end = holder->ending.end;
    holder->run->shared->valid_until = holder->announced_end;
    if (!holder->ending.terminated)
        holder->run->shared->terminated = holder->said_ending = false;
}

/* --- Waiting for it --- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void sleep_until_something_happens(struct holder *holder)
{
    struct pollfd events[] = {{.fd = holder->front, .events = POLLIN},
                              {.fd = holder->signals, .events = POLLIN},
                              {.fd = holder->lost, .events = POLLIN},
                              {.fd = holder->alarm, .events = POLLIN}};
    int64_t now = cli_now_ms();

    cli_alarm_set(holder->alarm, least(cli_ending_next(&holder->ending),
                                       cli_ending_look(&holder->ending, holder->announced_end, now)));
    poll(events, sizeof(events) / sizeof(events[0]), -1);
}

static void watch(struct holder *holder)
{
    for (;;) {
        read_signals(holder);
        if (!reap(holder))
            return;
        look_at_front(holder);
        look_at_lock(holder);
        if (!look_at_leftovers(holder))
            return;
        step(holder);
        tell_validity(holder);
        sleep_until_something_happens(holder);
    }
}

/* --- Main loop --- */

static const struct cli_run *stopping; /* for the signal handler */

/*
 * The front stops at the terminal while this process waits for the lock: stop too. If the front is killed meanwhile, the
 * kernel's SIGTERM would find a stopped process, so the kernel is to send SIGKILL. The stop is pending before `paused`
 * is read, and the front clears that before it sends SIGCONT, which discards a pending stop: no order of the two can
 * stop this process permanently.
 */
static void stop_with_front(int number)
{
    sigset_t stop;
    sigset_t before;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(number, SIG_DFL);
    raise(number);
    sigemptyset(&stop);
    sigaddset(&stop, number);
    if (stopping->shared->paused && getppid() == stopping->front) {
        pthread_sigmask(SIG_UNBLOCK, &stop, &before);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    signal(number, SIG_IGN); /* discards it */
    signal(number, stop_with_front);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != stopping->front)
        raise(SIGTERM);
}

/* Blocks all signals except those that end the wait, or stop it; this also lets a background group write to its
 * terminal. SIGTERM ends it even if the user's shell ignores that: the front sends it for every signal, and the kernel
 * when the front is dead. */
static void block_signals(const struct cli_run *run)
{
    sigset_t signals;

    stopping = run;
    signal(SIGTERM, SIG_DFL);
    signal(SIGTSTP, stop_with_front);
    sigfillset(&signals);
    sigdelset(&signals, SIGTERM);
    sigdelset(&signals, SIGTSTP);
    sigprocmask(SIG_SETMASK, &signals, NULL);
}

static bool make_descriptors(struct holder *holder)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGTSTP); /* from now on the front alone stops */
    sigprocmask(SIG_BLOCK, &signals, NULL);
    sigdelset(&signals, SIGTSTP);
    holder->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    holder->alarm = cli_alarm_make();
    if (holder->signals >= 0 && holder->alarm >= 0 &&
        redlock_lost_descriptor(holder->lock, &holder->lost) == REDLOCK_OK)
        return true;
    cli_say_no_descriptor();
    return false;
}

/* SIGTERM ends the wait, and may come late. */
static bool is_wanted(struct holder *holder)
{
    return cli_interrupted() == 0 && !front_is_dead(holder) && getppid() == holder->run->front;
}

/* The lock is acquired: runs CMD, until its tree is empty. */
static int run_command(struct holder *holder)
{
    int64_t end = cli_end_of_validity(holder->lock);

    if (!make_descriptors(holder))
        return CLI_SYSTEM;
    cli_ending_begin(&holder->ending, end, holder->run->grace_ms);
    holder->announced_end = end;
    holder->run->shared->valid_until = end;
    int status = is_wanted(holder) ? start_command(holder) : CLI_NOT_OBTAINED;
    if (status != CLI_OK)
        return status;
    watch(holder);
    cli_run_note_end(holder->run);
    look_at_lock(holder);
    if (holder->cut_short && holder->run->shared->outlived && holder->lost >= 0)
        lose(holder, REDLOCK_LOSS_EXPIRED, cli_now_ms()); /* the client's thread has not reported it yet */
    if (holder->cut_short)
        say_terminated(holder);
    send_message(holder,
                 (struct cli_run_message){.word = CLI_RUN_ENDED,
                                          .signal = WIFSIGNALED(holder->status) ? WTERMSIG(holder->status) : 0});
    return holder->cut_short ? CLI_LOST : cli_child_exit(holder->status);
}

/* Reports a loss during CMD's run even if only the release finds it. A CMD that has failed keeps its exit status. */
static int release(struct holder *holder, int status)
{
    int loss = redlock_lock_loss(holder->lock);
    char quoted[CLI_QUOTED_SIZE];
    redlock_result result;

    holder->run->shared->lost = holder->cut_short;
    if (redlock_release(&holder->lock, NULL, &result) == REDLOCK_OK || status == CLI_LOST)
        return status;
    if (result.kept_releases) { /* this process ends before those nodes are connected again */
        result.kept_releases = 0;
        result.text[0] = '\0'; /* is formatted again */
    }
    cli_say("%s: the release failed: %s", cli_quote(holder->run->acquire.resource, quoted),
            redlock_result_text(&result));
    if (result.status != REDLOCK_LOST)
        return status;
    holder->run->shared->loss = loss != REDLOCK_NOT_LOST ? loss : REDLOCK_LOSS_GONE;
    holder->run->shared->lost = true;
    return status == CLI_OK ? CLI_LOST : status;
}

static int hold(struct holder *holder)
{
    struct cli_acquire acquire = holder->run->acquire;
    redlock_result result;

    acquire.options.event = on_event;
    int status = cli_acquire(holder->client, &acquire, &holder->lock, &result);
    if (status != CLI_OK)
        return status == CLI_NOT_OBTAINED ? (int)cli_given.conflict.value : status;
    status = run_command(holder);
    return release(holder, status);
}

_Noreturn void cli_run_hold(const struct cli_run *run, int front)
{
    struct holder holder = {.run = run, .front = front, .lost = -1, .signals = -1, .alarm = -1};

    setpgid(0, 0); /* signals that the terminal or kill(1) sends to the front's group are for the front alone */
    block_signals(run);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    cli_process_name_set("lock-holder");
    if (getppid() != run->front)
        _exit(CLI_SYSTEM);
    int status = cli_connect(&holder.client, false);
    if (status == CLI_OK)
        status = hold(&holder);
    cli_close(&holder.client);
    if (front_is_dead(&holder))
        cli_cgroup_remove(run->cgroup);
    _exit(status);
}
