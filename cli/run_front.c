/* The process of redlock run that the user started: signals, terminal, exit status. It also guards CMD's tree. */
#define _GNU_SOURCE
#include "child.h"
#include "exit_status.h"
#include "message.h"
#include "moment.h"
#include "run.h"
#include "run_guard.h"
#include "run_lost.h"
#include "tree.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* PATIENCE: the other two send SIGTERM, unless they are late by this much. AWAKE: how often a watchdog that has not
 * reported the holder's end gets SIGCONT, in case it is stopped. */
enum { PATIENCE_MS = 100, AWAKE_MS = 100 };

struct front {
    const struct cli_run *run;
    struct cli_run_links links;
    pid_t watchdog;     /* 0: it has ended */
    pid_t holder;       /* 0: it has ended */
    bool holder_closed; /* its link: it has ended, and the watchdog is about to report it */
    int signals;        /* descriptors */
    int alarm;
    pid_t group; /* CMD's; 0: not started, or nothing of the tree is left */
    bool started;
    struct cli_run_guard guard;
    int interrupt;                /* the signal that ended the wait; 0: none */
    bool interrupted_at_terminal; /* CMD was interrupted, and ended by it */
    bool must_resume;             /* CMD must continue, because we do */
    bool watchdog_killed;
    int holder_status;
};

/* --- CMD's processes --- */

static struct cli_tree tree_of(const struct front *front)
{
    struct cli_tree tree = {.root = front->watchdog, .spared = front->holder, .group = front->group};

    if (tree.root > 0)
        return tree;
    tree.root = front->holder > 0 ? front->holder : getpid();
    tree.strangers = front->run->strangers;
    tree.stranger_count = front->run->stranger_count;
    return tree;
}

static void signal_group(const struct front *front, int number)
{
    struct cli_tree tree = tree_of(front);

    cli_tree_signal_group(&tree, number);
}

/* --- The terminal --- */

static bool have_foreground(const struct front *front)
{
    return front->run->terminal >= 0 && tcgetpgrp(front->run->terminal) == getpgrp();
}

static bool command_has_foreground(const struct front *front)
{
    return front->run->terminal >= 0 && tcgetpgrp(front->run->terminal) == front->group;
}

/* All signals are blocked, so that a group in the background may do it. */
static void take_terminal_back(const struct front *front)
{
    if (command_has_foreground(front))
        tcsetpgrp(front->run->terminal, getpgrp());
}

static void give_foreground(const struct front *front)
{
    if (have_foreground(front))
        tcsetpgrp(front->run->terminal, front->group);
}

static void resume(struct front *front)
{
    front->must_resume = false;
    give_foreground(front);
    signal_group(front, SIGCONT);
}

/* Whether CMD was continued since the holder reported its stop. */
static bool is_outdated(const struct front *front)
{
    return front->group > 0 && !cli_process_is_stopped(front->group);
}

/* Consumes the SIGCONT that continued us: otherwise CMD would get a second one, which may cancel the next stop. Returns
 * its sender; 0: there was none. */
static pid_t take_continuation(void)
{
    static const struct timespec at_once;
    sigset_t signals;
    siginfo_t information;

    sigemptyset(&signals);
    sigaddset(&signals, SIGCONT);
    return sigtimedwait(&signals, &information, &at_once) == SIGCONT ? information.si_pid : 0;
}

/*
 * Stops the whole job, as the terminal would if CMD were in our group. Returns when it is continued; at once if no
 * process could continue it, or if CMD was continued meanwhile. True: CMD must be continued.
 *
 * The holder sends SIGCONT after it has seen that CMD continues, and SIGCONT discards a pending stop. So make the stop
 * pending first, then check CMD: no order of the two can stop us permanently.
 */
static bool stop_here(const struct front *front, int number, bool whole_group)
{
    bool in_background = !have_foreground(front);
    pid_t stopped = whole_group ? 0 : getpid();
    sigset_t signals;
    sigset_t before;

    kill(stopped, number);
    bool outdated = is_outdated(front);
    if (outdated || (in_background && have_foreground(front))) /* the shell has just continued us there */
        kill(stopped, SIGCONT);
    sigemptyset(&signals);
    sigaddset(&signals, number);
    sigprocmask(SIG_UNBLOCK, &signals, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return take_continuation() != front->holder && !outdated;
}

/* CMD was stopped: stop too, otherwise the shell would keep waiting for its job. */
static void follow_stop(struct front *front, int number)
{
    bool had_foreground = command_has_foreground(front);
    bool must_resume = true;

    if (front->run->terminal < 0)
        return; /* no shell could continue it */
    if (is_outdated(front)) {
        give_foreground(front); /* and leave it there: a read of CMD without it would stop CMD again */
        return;
    }
    if (!have_foreground(front)) {
        take_terminal_back(front);
        must_resume = stop_here(front, number, had_foreground);
    }
    if (must_resume)
        front->must_resume = true;
    else
        give_foreground(front);
}

/* --- Signals --- */

/* A blocked signal reaches its descriptor even if it is ignored, as under nohup(1). */
static void interrupt_waiting(struct front *front, int number)
{
    if (cli_child_ignores(number))
        return;
    if (number == SIGTSTP || number == SIGTTIN || number == SIGTTOU) {
        kill(front->holder, SIGSTOP);
        stop_here(front, number, false);
        kill(front->holder, SIGCONT);
    } else if (number != SIGCONT && number != SIGWINCH) {
        front->interrupt = number;
        kill(front->holder, SIGTERM);
        kill(front->holder, SIGCONT); /* it may be stopped */
    }
}

static void take_signal(struct front *front, int number, pid_t sender)
{
    if (number == SIGCHLD)
        return;
    if (front->group > 0 && number == SIGCONT && front->holder > 0 && sender == front->holder)
        give_foreground(front); /* CMD has continued, and may have been stopped again */
    else if (front->group > 0 && number == SIGCONT)
        resume(front);
    else if (front->group > 0) {
        /* From the terminal it came to our group, so we have the foreground: fg of a job that runs in the background
         * sends no SIGCONT. */
        if (number == SIGINT || number == SIGQUIT || number == SIGTSTP)
            give_foreground(front);
        signal_group(front, number);
    } else if (!front->started && front->holder > 0)
        interrupt_waiting(front, number);
}

static void read_signals(struct front *front)
{
    struct signalfd_siginfo information;

    while (read(front->signals, &information, sizeof(information)) == (ssize_t)sizeof(information))
        take_signal(front, (int)information.ssi_signo, (pid_t)information.ssi_pid);
}

/* --- The holder's messages --- */

/* A signal that came too late to end the wait goes to CMD. */
static void begin_guarding(struct front *front, const struct cli_run_message *message)
{
    front->started = true;
    front->group = message->group;
    if (front->interrupt != 0)
        signal_group(front, front->interrupt);
    front->interrupt = 0;
}

/* Ctrl-C is for the whole job: the shell, and a script that waits for us, must see it too. */
static void forget_group(struct front *front, int number)
{
    front->interrupted_at_terminal = number == SIGINT && command_has_foreground(front);
    take_terminal_back(front);
    front->group = 0;
}

static void take_message(struct front *front, const struct cli_run_message *message)
{
    switch (message->word) {
    case CLI_RUN_STARTED:
        begin_guarding(front, message);
        break;
    case CLI_RUN_STOPPED:
        follow_stop(front, message->signal);
        break;
    case CLI_RUN_ENDED:
    default:
        forget_group(front, message->signal);
        break;
    }
}

/* End of file: it has ended, or was killed. */
static void read_holder(struct front *front)
{
    struct cli_run_message message;
    ssize_t size;

    while (!front->holder_closed && (size = recv(front->links.holder, &message, sizeof(message), 0)) >= 0) {
        if (size == (ssize_t)sizeof(message))
            take_message(front, &message);
        else
            front->holder_closed = true;
    }
}

/* --- The others' ends --- */

static void say_killed(const struct front *front, const char *process, int status)
{
    cli_say("%s was killed by signal %d%s", process, WTERMSIG(status), front->group > 0 ? "; ending the command" : "");
}

static void lose_holder(struct front *front, int status)
{
    read_holder(front);
    front->holder = 0;
    front->holder_status = status;
    if (WIFSIGNALED(status))
        say_killed(front, "the process with the lock", status);
    else if (front->group > 0)
        forget_group(front, 0);
    if (front->group > 0)
        cli_run_guard_end(&front->guard);
}

static void lose_watchdog(struct front *front, int status)
{
    front->watchdog = 0;
    front->watchdog_killed = WIFSIGNALED(status);
    if (WIFSIGNALED(status))
        say_killed(front, "redlock's watchdog", status);
}

static void read_watchdog(struct front *front)
{
    struct cli_run_report report;

    while (recv(front->links.watchdog, &report, sizeof(report), 0) == (ssize_t)sizeof(report))
        if (report.ended && front->holder > 0)
            lose_holder(front, report.status);
}

/* The watchdog ends when the tree is empty. If it is killed, the holder becomes our child, and so does the tree if the
 * holder is killed too. Read the watchdog's last report before handling its end. */
static void reap(struct front *front)
{
    int status;
    pid_t pid;

    read_watchdog(front);
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        read_watchdog(front);
        if (pid == front->watchdog)
            lose_watchdog(front, status);
        else if (pid == front->holder)
            lose_holder(front, status);
    }
}

/* --- The guard --- */

/* Both others are dead. */
static bool is_left_alone(const struct front *front)
{
    return front->holder == 0 && front->watchdog == 0;
}

/* Without strangers the kernel decides: no child, hence no descendant. */
static bool nothing_is_left(const struct front *front)
{
    struct cli_tree tree = tree_of(front);

    if (front->run->stranger_count == 0)
        return waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD;
    return !cli_tree_is_alive(&tree);
}

static bool awaits_report(const struct front *front)
{
    return front->holder_closed && front->holder > 0 && front->watchdog > 0;
}

static void guard(struct front *front)
{
    struct cli_tree tree = tree_of(front);

    cli_run_guard_step(&front->guard, &tree, front->holder);
    if (awaits_report(front))
        kill(front->watchdog, SIGCONT);
}

/* --- Events --- */

static int64_t next_wake(const struct front *front)
{
    int64_t next = front->group > 0 ? cli_run_guard_next(&front->guard) : INT64_MAX;
    int64_t awake = awaits_report(front) ? cli_now_ms() + AWAKE_MS : INT64_MAX;

    return awake < next ? awake : next;
}

static void sleep_until_something_happens(struct front *front)
{
    struct pollfd events[] = {{.fd = !front->holder_closed ? front->links.holder : -1, .events = POLLIN},
                              {.fd = front->watchdog > 0 ? front->links.watchdog : -1, .events = POLLIN},
                              {.fd = front->signals, .events = POLLIN},
                              {.fd = front->alarm, .events = POLLIN}};

    cli_alarm_set(front->alarm, next_wake(front));
    poll(events, sizeof(events) / sizeof(events[0]), -1);
}

/* The links first: do not signal a group that has ended, its number may be reused. */
static void watch(struct front *front)
{
    for (;;) {
        read_holder(front);
        reap(front);
        if (is_left_alone(front) && front->group > 0 && nothing_is_left(front))
            forget_group(front, 0);
        if (is_left_alone(front) && front->group == 0)
            return;
        if (front->group == 0)
            front->must_resume = false;
        if (front->must_resume)
            resume(front);
        read_signals(front);
        guard(front);
        sleep_until_something_happens(front);
    }
}

/* --- Main loop --- */

static bool make_descriptors(struct front *front)
{
    static const int ours[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,  SIGUSR2, SIGALRM,
                               SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGWINCH, SIGCHLD};
    sigset_t signals;

    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        sigaddset(&signals, ours[i]);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    front->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    front->alarm = cli_alarm_make();
    return front->signals >= 0 && front->alarm >= 0;
}

/* After watch(): no process of CMD is left. */
static void report_loss(const struct front *front)
{
    bool killed = front->started && WIFSIGNALED(front->holder_status);

    if (front->run->on_lost != NULL && (front->run->shared->lost || killed))
        cli_run_on_lost(front->run, killed);
}

static int exit_status(const struct front *front)
{
    if (front->interrupt != 0 && !front->started)
        cli_interrupt_with(front->interrupt);
    if (front->interrupted_at_terminal) {
        kill(0, SIGINT);
        cli_interrupt_with(SIGINT);
    }
    if (WIFEXITED(front->holder_status) && (front->started || !front->watchdog_killed))
        return WEXITSTATUS(front->holder_status);
    return front->started ? CLI_LOST : CLI_SYSTEM;
}

/* The watchdog's first report; 0: none, it has printed the reason. */
static pid_t await_holder(const struct cli_run_links *links)
{
    struct pollfd event = {.fd = links->watchdog, .events = POLLIN};
    struct cli_run_report report = {0};

    while (poll(&event, 1, -1) < 0 && errno == EINTR)
        ;
    return recv(links->watchdog, &report, sizeof(report), 0) == (ssize_t)sizeof(report) ? report.holder : 0;
}

int cli_run_guard(const struct cli_run *run, pid_t watchdog, const struct cli_run_links *links)
{
    struct front front = {
        .run = run, .links = *links, .watchdog = watchdog, .guard = {.run = run, .patience_ms = PATIENCE_MS}};

    signal(SIGPIPE, SIG_IGN); /* a closed standard error must not end us */
    if (!make_descriptors(&front)) {
        cli_say_no_descriptor();
        kill(watchdog, SIGKILL); /* the holder gives up, too */
        return CLI_SYSTEM;
    }
    front.holder = await_holder(links);
    if (front.holder == 0)
        return CLI_SYSTEM;
    watch(&front);
    report_loss(&front);
    return exit_status(&front);
}
