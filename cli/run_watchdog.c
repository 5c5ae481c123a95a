/* The process of redlock run that watches the other two, and ends CMD's tree in time when they are killed or
 * stopped. */
#define _GNU_SOURCE
#include "exit_status.h"
#include "message.h"
#include "moment.h"
#include "process_name.h"
#include "run.h"
#include "run_guard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The front waits longer than the watchdog. */
enum { PATIENCE_MS = 50 };

struct watchdog {
    const struct cli_run *run;
    int front;    /* the link to it */
    pid_t holder; /* 0: it has ended */
    int signals;  /* descriptors */
    int alarm;
    bool front_is_dead;
    struct cli_run_guard guard;
};

static void report(const struct watchdog *watchdog, struct cli_run_report report)
{
    (void)!send(watchdog->front, &report, sizeof(report), MSG_NOSIGNAL);
}

/* --- Events --- */

/* Signals only wake the watchdog: waitid(2), getppid(2) and the shared memory have the events. */
static void drain_signals(const struct watchdog *watchdog)
{
    struct signalfd_siginfo information;

    while (read(watchdog->signals, &information, sizeof(information)) == (ssize_t)sizeof(information))
        ;
}

/* A holder that still waits for the lock gives up; it may be stopped, as a job at the terminal. One that runs CMD
 * detects the front's death itself. */
static void look_at_front(struct watchdog *watchdog)
{
    if (watchdog->front_is_dead || getppid() == watchdog->run->front)
        return;
    watchdog->front_is_dead = true;
    if (watchdog->holder > 0) {
        kill(watchdog->holder, SIGTERM);
        kill(watchdog->holder, SIGCONT);
    }
}

static void lose_holder(struct watchdog *watchdog, const siginfo_t *end)
{
    int status = end->si_code == CLD_EXITED ? W_EXITCODE(end->si_status, 0) : W_EXITCODE(0, end->si_status);

    report(watchdog, (struct cli_run_report){.holder = watchdog->holder, .ended = true, .status = status});
    watchdog->holder = 0;
    cli_run_guard_end(&watchdog->guard); /* its children are ours now */
}

/* Reports the holder's end before reaping it: if the watchdog is killed in between, the holder becomes the front's
 * child. False: no child is left, hence no descendant. */
static bool reap(struct watchdog *watchdog)
{
    for (;;) {
        siginfo_t end = {0};
        if (waitid(P_ALL, 0, &end, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
            return errno != ECHILD;
        if (end.si_pid == 0)
            return true;
        if (end.si_pid == watchdog->holder)
            lose_holder(watchdog, &end);
        waitpid(end.si_pid, NULL, __WALL);
    }
}

static void sleep_until_something_happens(const struct watchdog *watchdog)
{
    struct pollfd events[] = {{.fd = watchdog->signals, .events = POLLIN}, {.fd = watchdog->alarm, .events = POLLIN}};

    cli_alarm_set(watchdog->alarm, cli_run_guard_next(&watchdog->guard));
    poll(events, sizeof(events) / sizeof(events[0]), -1);
}

static void watch(struct watchdog *watchdog)
{
    struct cli_tree tree = {.root = getpid()};

    for (;;) {
        drain_signals(watchdog);
        if (!reap(watchdog))
            return;
        look_at_front(watchdog);
        tree.spared = watchdog->holder;
        tree.group = watchdog->run->shared->group;
        cli_run_guard_step(&watchdog->guard, &tree, watchdog->holder);
        sleep_until_something_happens(watchdog);
    }
}

/* --- Main loop --- */

/* Signals that the terminal or kill(1) sends to the front's process group are for the front alone. */
static void become_background_process(pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(CLI_SYSTEM);
}

_Noreturn static void become_holder(const struct watchdog *watchdog, int front, const sigset_t *signals)
{
    close(watchdog->front);
    close(watchdog->signals);
    close(watchdog->alarm);
    become_background_process(watchdog->run->watchdog);
    prctl(PR_SET_NAME, "lock-holder");
    sigprocmask(SIG_SETMASK, signals, NULL);
    _exit(cli_run_hold(watchdog->run, front));
}

/* All signals are blocked: SIGCHLD, SIGTERM at the front's death and SIGUSR1 at CMD's start arrive here. */
static bool make_descriptors(struct watchdog *watchdog, const sigset_t *all)
{
    watchdog->signals = signalfd(-1, all, SFD_CLOEXEC | SFD_NONBLOCK);
    watchdog->alarm = cli_alarm_make();
    if (watchdog->signals >= 0 && watchdog->alarm >= 0)
        return true;
    cli_say_no_descriptor();
    return false;
}

_Noreturn void cli_run_watch(struct cli_run *run, const struct cli_run_links *ends)
{
    struct watchdog watchdog = {.run = run, .front = ends->watchdog, .guard = {.run = run, .patience_ms = PATIENCE_MS}};
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    become_background_process(run->front);
    run->watchdog = getpid();
    if (!make_descriptors(&watchdog, &all))
        _exit(CLI_SYSTEM);
    watchdog.holder = fork();
    if (watchdog.holder == 0)
        become_holder(&watchdog, ends->holder, &before);
    cli_process_name_set("lock-watchdog"); /* after the fork: the holder needs the arguments for CMD */
    close(ends->holder);
    if (watchdog.holder < 0) {
        cli_say("cannot start a process: %s", strerror(errno));
        _exit(CLI_SYSTEM);
    }
    report(&watchdog, (struct cli_run_report){.holder = watchdog.holder});
    watch(&watchdog);
    _exit(CLI_OK);
}
