/* The process of redlock run that the user started: signals, terminal, exit status. It also guards CMD's tree. */
#include "child.h"
#include "command.h"
#include "ending.h"
#include "message.h"
#include "run.h"
#include "times.h"
#include "tree.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* PATIENCE: the holder sends SIGTERM, unless it is late by this much. WALKS: SIGKILL begins that many walks over the tree
 * earlier; the holder's begins before it. STOPPED: from the first SIGKILL on, how long a stopped holder is left alone. */
enum { PATIENCE_MS = 100, WALKS = 4, STOPPED_MS = 1000 };

struct front {
    const struct cli_run *run;
    int link;           /* to the holder */
    pid_t holder;       /* 0: it is reaped */
    bool holder_closed; /* its link */
    int signals;        /* descriptors */
    int alarm;
    pid_t group; /* CMD's; 0: not started, or nothing of the tree is left */
    bool started;
    struct cli_ending ending; /* if the holder does not end the tree */
    bool ending_began;
    int64_t killing_since;        /* 0: no SIGKILL was due */
    int interrupt;                /* the signal that ended the wait; 0: none */
    bool interrupted_at_terminal; /* CMD was interrupted, and ended by it */
    bool must_resume;             /* CMD must continue, because we do */
    bool holder_was_stopped;      /* until the lock had ended, and we have killed it */
    bool holder_ended;
    int holder_status; /* its exit status, or the signal that has killed it */
    bool holder_was_killed;
    bool has_tree; /* a process of the tree may live */
};

/* --- CMD's processes --- */

/* Also what a holder that has ended has left: that is ours from the end of its first thread on. */
static struct cli_tree tree_of(const struct front *front)
{
    return (struct cli_tree){.root = getpid(),
                             .spared = front->holder,
                             .group = front->group,
                             .strangers = front->run->strangers,
                             .stranger_count = front->run->stranger_count};
}

static void signal_group(const struct front *front, int number)
{
    struct cli_tree tree = tree_of(front);

    cli_tree_signal_group(&tree, number);
}

/* --- The terminal --- */

static bool have_foreground(const struct front *front)
{
    return tcgetpgrp(front->run->terminal) == getpgrp(); /* -1 without a terminal */
}

static bool command_has_foreground(const struct front *front)
{
    return tcgetpgrp(front->run->terminal) == front->group;
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
    return front->group > 0 && !cli_process_is_stopped(front->group, true);
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
        front->run->shared->paused = true;
        kill(front->holder, SIGTSTP);
        stop_here(front, number, false);
        front->run->shared->paused = false;
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
    } else if (!front->started && !front->holder_ended)
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

    while (!front->holder_closed && (size = recv(front->link, &message, sizeof(message), 0)) >= 0) {
        if (size == (ssize_t)sizeof(message))
            take_message(front, &message);
        else
            front->holder_closed = true;
    }
}

/* --- The guard --- */

static void begin_ending(struct front *front, int64_t patience_ms)
{
    int64_t grace = front->run->grace_ms - patience_ms;

    if (!front->ending_began)
        cli_ending_begin(&front->ending, front->run->shared->valid_until, grace > 0 ? grace : 0);
    front->ending_began = true;
}

/* False: no child is left but strangers. */
static bool reap(struct front *front)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
        if (pid == front->holder)
            front->holder = 0;
    return pid == 0 && front->run->stranger_count == 0;
}

/*
 * Whether a process of the tree may live. When /proc shows none, the kernel decides: no child, hence no descendant. Nothing
 * is reaped earlier, because waitpid(2) takes seconds if many processes look into the child's directory in /proc, and the
 * tree must be ended meanwhile.
 */
static bool has_tree(struct front *front)
{
    struct cli_tree tree = tree_of(front);

    if (!front->holder_ended)
        return front->group > 0;
    return cli_tree_is_alive(&tree) || reap(front);
}

/* A stopped holder does not reap its children: so that they are ours, it is killed too. */
static void replace_stopped_holder(struct front *front, int64_t now)
{
    if (front->killing_since == 0)
        front->killing_since = now;
    if (front->holder_ended || now < front->killing_since + STOPPED_MS || now < front->ending.end + STOPPED_MS ||
        !cli_process_is_stopped(front->holder, false))
        return;
    front->holder_was_stopped = true;
    kill(front->holder, SIGKILL);
}

static void guard(struct front *front)
{
    struct cli_tree tree = tree_of(front);

    if (!front->has_tree)
        return;
    begin_ending(front, PATIENCE_MS);
    cli_ending_prolong(&front->ending, front->run->shared->valid_until);
    cli_ending_allow(&front->ending, WALKS * front->run->shared->walk_ms);
    int64_t now = cli_now_ms();
    enum cli_ending_action action = cli_ending_step(&front->ending, now);

    if (action == CLI_ENDING_TERMINATE)
        cli_run_terminate(front->run, &tree);
    if (action != CLI_ENDING_KILL)
        return;
    cli_run_kill(front->run, &tree);
    replace_stopped_holder(front, now);
}

/* --- The holder's end --- */

static void say_killed(const struct front *front)
{
    if (front->holder_was_stopped)
        cli_say("the process with the lock was stopped until the lock had ended");
    else
        cli_say("the process with the lock was killed by signal %d%s", front->holder_status,
                front->group > 0 ? "; ending the command" : "");
}

/* If it was killed, the tree is ours, and ends from now on. */
static void look_at_holder(struct front *front)
{
    siginfo_t end = {0};

    if (front->holder_ended || waitid(P_PID, (id_t)front->holder, &end, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        end.si_pid == 0)
        return;
    read_holder(front);
    front->holder_ended = true;
    front->holder_status = end.si_status;
    front->holder_was_killed = end.si_code != CLD_EXITED;
    if (!front->holder_was_killed)
        return;
    say_killed(front);
    begin_ending(front, 0);
    front->ending.grace = front->run->grace_ms;
    cli_ending_prolong(&front->ending, front->run->shared->valid_until);
    cli_ending_now(&front->ending, cli_now_ms());
}

/* True: the holder has ended, and so has all that depends on its lock. */
static bool is_over(struct front *front)
{
    if (!front->holder_ended || (front->holder_was_killed && front->has_tree))
        return false;
    if (front->holder_was_killed && front->started)
        cli_run_note_end(front->run);
    if (front->group > 0)
        forget_group(front, 0);
    reap(front);
    return true;
}

/* --- Events --- */

static void sleep_until_something_happens(struct front *front)
{
    struct pollfd events[] = {{.fd = !front->holder_closed ? front->link : -1, .events = POLLIN},
                              {.fd = front->signals, .events = POLLIN},
                              {.fd = front->alarm, .events = POLLIN}};

    cli_alarm_set(front->alarm, front->has_tree ? cli_ending_next(&front->ending) : INT64_MAX);
    poll(events, sizeof(events) / sizeof(events[0]), -1);
}

/* The link first: do not signal a group that has ended, its number may be reused. The signals ahead of the children: a
 * SIGCHLD that is read after the last look at them would not wake us for its child. */
static void watch(struct front *front)
{
    for (;;) {
        read_holder(front);
        read_signals(front);
        look_at_holder(front);
        front->has_tree = has_tree(front);
        if (is_over(front))
            return;
        if (front->group == 0)
            front->must_resume = false;
        if (front->must_resume)
            resume(front);
        guard(front);
        sleep_until_something_happens(front);
    }
}

/* --- The command of --on-lost --- */

/* killed: the holder was, by another process. */
static const char *loss_name(const struct cli_run_shared *shared, bool killed)
{
    int loss = shared->loss;

    if (loss != REDLOCK_NOT_LOST && loss != REDLOCK_LOSS_CLOSED)
        return redlock_loss_name(loss);
    if (killed)
        return "killed";
    return shared->outlived ? redlock_loss_name(REDLOCK_LOSS_EXPIRED) : "ended";
}

/* The first in byte order, as in CMD's environment. */
static const char *first_resource(const struct cli_acquire *acquire)
{
    const char *first = acquire->resource;

    for (size_t i = 0; i < acquire->options.also_count; i++)
        if (strcmp(acquire->options.also[i].bytes, first) < 0)
            first = acquire->options.also[i].bytes;
    return first;
}

/* Signals that end redlock, and the end of a child. The others, of the terminal, have their usual effect. */
static sigset_t catch_signals(void)
{
    sigset_t caught = cli_interrupts();

    for (int number = 1; number < NSIG; number++)
        if (cli_child_ignores(number)) /* a blocked signal arrives even if it is ignored */
            sigdelset(&caught, number);
    sigaddset(&caught, SIGCHLD);
    sigprocmask(SIG_SETMASK, &caught, NULL);
    return caught;
}

/* Waits for the command's end. Returns 0, or the signal that arrived before it. */
static int await_command(pid_t pid, int *status)
{
    const sigset_t caught = catch_signals();

    while (waitpid(pid, status, WNOHANG) == 0) {
        int number = sigwaitinfo(&caught, NULL);
        if (number > 0 && number != SIGCHLD)
            return number;
    }
    return 0;
}

/* After watch(): no process of CMD is left. A signal ends the command, with all that it has started: this process is a
 * subreaper. Then cli_interrupt_again() ends the front by it. */
static void run_on_lost(const struct front *front)
{
    bool killed = front->started && front->holder_was_killed;
    char shell[] = "/bin/sh";
    char option[] = "-c";
    int status;

    if (front->run->on_lost == NULL || (!front->run->shared->lost && !killed))
        return;
    char *line = strdup(front->run->on_lost);
    char *argv[] = {shell, option, line, NULL};
    /* Those of an outer redlock, which are not about this lock. */
    unsetenv("REDLOCK_TOKEN");
    unsetenv("REDLOCK_VALIDITY_MS");
    unsetenv("REDLOCK_FENCE");
    if (line == NULL || setenv("REDLOCK_RESOURCE", first_resource(&front->run->acquire), 1) != 0 ||
        setenv("REDLOCK_LOSS", loss_name(front->run->shared, killed && !front->holder_was_stopped), 1) != 0) {
        cli_say("out of memory for the command of --on-lost");
        free(line);
        return;
    }
    struct cli_child child = {.argv = argv, .environment = environ, .terminal = -1, .parent_signal = SIGTERM};
    pid_t pid = cli_child_start(&child, &status);
    free(line);
    if (pid < 0)
        return;
    int number = await_command(pid, &status);
    if (number != 0) {
        struct cli_tree tree = tree_of(front);
        cli_tree_terminate(&tree);
        cli_interrupt_with(number);
    } else if (cli_child_exit(status) != 0) {
        cli_say("the command of --on-lost failed: exit status %d", cli_child_exit(status));
    }
}

/* --- Main loop --- */

/* Blocks the signals before there is another process. */
static bool make_descriptors(struct front *front, int *theirs)
{
    static const int ours[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,  SIGUSR2, SIGALRM,
                               SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGWINCH, SIGCHLD};
    int ends[2];
    sigset_t signals;

    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        sigaddset(&signals, ours[i]);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    front->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    front->alarm = cli_alarm_make();
    if (front->signals < 0 || front->alarm < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return false;
    front->link = ends[0];
    *theirs = ends[1];
    return true;
}

static int exit_status(const struct front *front)
{
    if (front->interrupt != 0 && !front->started)
        cli_interrupt_with(front->interrupt);
    if (front->interrupted_at_terminal) {
        kill(0, SIGINT);
        cli_interrupt_with(SIGINT);
    }
    if (!front->holder_was_killed)
        return front->holder_status;
    return front->started ? CLI_LOST : CLI_SYSTEM;
}

int cli_run_guard(struct cli_run *run)
{
    struct front front = {.run = run};
    int theirs;

    if (!make_descriptors(&front, &theirs)) {
        cli_say_no_descriptor();
        return CLI_SYSTEM;
    }
    if (!cli_tree_children(&run->strangers, &run->stranger_count))
        return cli_fail(CLI_SYSTEM, "out of memory");
    if (!run->leave)
        cli_cgroup_make(run->cgroup);
    /* If the holder is killed, its descendants become children of this process. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    front.holder = fork();
    if (front.holder == 0) {
        close(front.link);
        close(front.signals);
        close(front.alarm);
        cli_run_hold(run, theirs);
    }
    close(theirs);
    if (front.holder < 0) {
        cli_cgroup_remove(run->cgroup);
        return cli_fail(CLI_SYSTEM, "cannot start a process: %s", strerror(errno));
    }
    signal(SIGPIPE, SIG_IGN); /* a closed standard error must not end us */
    watch(&front);
    cli_cgroup_remove(run->cgroup);
    run_on_lost(&front);
    free(run->strangers);
    return exit_status(&front);
}
