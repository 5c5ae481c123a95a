/* The process of redlock run that the user started: signals, terminal, exit status; and the guardian of CMD's group. */
#define _GNU_SOURCE
#include "child.h"
#include "ending.h"
#include "exit_status.h"
#include "group.h"
#include "message.h"
#include "moment.h"
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The front leaves the SIGTERM to the holder, unless that is late by so much. */
enum { LOOK_MS = 10, PATIENCE_MS = 100, HOLDER_PATIENCE_MS = 1000 };

struct front {
    const struct cli_run *run;
    pid_t holder; /* 0: it has ended */
    int link;     /* to it */
    int signals;  /* descriptors */
    int alarm;
    pid_t group; /* CMD's; 0: not started, or nothing of it is left */
    bool started;
    struct cli_ending ending;
    int interrupt;                /* what ended the waiting; 0: nothing */
    bool interrupted_at_terminal; /* CMD was, and ended by it */
    bool must_resume;             /* CMD is to go on, as we do */
    int holder_status;
};

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
    kill(-front->group, SIGCONT);
}

/* As the terminal would have done it to us without a group of CMD's own: the whole job stops. Returns when it is
 * continued; at once when nobody could. */
static void stop_here(int number, bool whole_group)
{
    sigset_t signals;
    sigset_t before;

    kill(whole_group ? 0 : getpid(), number);
    sigemptyset(&signals);
    sigaddset(&signals, number);
    sigprocmask(SIG_UNBLOCK, &signals, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* CMD was stopped: so are we, or the shell would go on waiting for its job. */
static void follow_stop(struct front *front, int number)
{
    bool had_foreground = command_has_foreground(front);

    if (front->run->terminal < 0)
        return; /* there is no shell that could continue it */
    if (!have_foreground(front)) {
        take_terminal_back(front);
        stop_here(number, had_foreground);
    }
    front->must_resume = true;
}

/* --- Signals --- */

/* A blocked signal comes to its descriptor even if it is ignored, as under nohup(1). */
static void interrupt_waiting(struct front *front, int number)
{
    if (cli_child_ignores(number))
        return;
    if (number == SIGTSTP || number == SIGTTIN || number == SIGTTOU) {
        kill(front->holder, SIGSTOP);
        stop_here(number, false);
        kill(front->holder, SIGCONT);
    } else if (number != SIGCONT && number != SIGWINCH) {
        front->interrupt = number;
        kill(front->holder, SIGTERM);
    }
}

static void take_signal(struct front *front, int number, pid_t sender)
{
    if (number == SIGCHLD)
        return;
    if (front->group > 0 && number == SIGCONT && front->holder > 0 && sender == front->holder)
        give_foreground(front); /* CMD goes on already, and may have been stopped again meanwhile */
    else if (front->group > 0 && number == SIGCONT)
        resume(front);
    else if (front->group > 0)
        kill(-front->group, number);
    else if (!front->started && front->holder > 0)
        interrupt_waiting(front, number);
}

static void read_signals(struct front *front)
{
    struct signalfd_siginfo information;

    while (read(front->signals, &information, sizeof(information)) == (ssize_t)sizeof(information))
        take_signal(front, (int)information.ssi_signo, (pid_t)information.ssi_pid);
}

/* --- The holder --- */

/* A signal that came too late to end the waiting is CMD's. */
static void begin_guarding(struct front *front, const struct cli_run_message *message)
{
    front->started = true;
    front->group = message->group;
    cli_ending_begin(&front->ending, message->end_ms,
                     front->run->grace_ms > PATIENCE_MS ? front->run->grace_ms - PATIENCE_MS : 0);
    if (front->interrupt != 0)
        kill(-front->group, front->interrupt);
    front->interrupt = 0;
}

/* Who presses Ctrl-C means the whole job: the shell, and a script that waits for us, are to see it as well. */
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
    case CLI_RUN_TOLD:
        front->ending.terminated = true;
        break;
    case CLI_RUN_ENDED:
    default:
        forget_group(front, message->signal);
        break;
    }
}

/* It has closed its end: it ends, or was killed. */
static void lose_holder(struct front *front)
{
    while (waitpid(front->holder, &front->holder_status, 0) < 0 && errno == EINTR)
        ;
    front->holder = 0;
    if (WIFSIGNALED(front->holder_status))
        cli_say("the process with the lock was killed by signal %d%s", WTERMSIG(front->holder_status),
                front->group > 0 ? ": the command is ended" : "");
    else if (front->group > 0)
        forget_group(front, 0);
    if (front->group > 0)
        cli_ending_now(&front->ending, cli_now_ms());
}

static void read_link(struct front *front)
{
    struct cli_run_message message;
    ssize_t size;

    while (front->holder > 0 && (size = recv(front->link, &message, sizeof(message), 0)) >= 0) {
        if (size == (ssize_t)sizeof(message))
            take_message(front, &message);
        else
            lose_holder(front);
    }
}

/* --- The guardian --- */

/* What the holder left is ours now. */
static void reap_orphans(struct front *front)
{
    bool alive = cli_group_is_alive(front->group);

    while (waitpid(-1, NULL, WNOHANG) > 0)
        ; /* when none lives, none is left behind this */
    if (!alive)
        forget_group(front, 0);
}

static void guard(struct front *front)
{
    cli_ending_prolong(&front->ending, *front->run->valid_until);
    int64_t now = cli_now_ms();
    enum cli_ending_action action = cli_ending_step(&front->ending, now);

    if (action == CLI_ENDING_TERMINATE)
        cli_group_terminate(front->group);
    else if (action == CLI_ENDING_KILL)
        cli_group_kill(front->group);
    if (front->holder > 0 && now > front->ending.end + HOLDER_PATIENCE_MS)
        kill(front->holder, SIGKILL); /* it was stopped, say, and does not even reap what is dead */
}

static int64_t next_wake(const struct front *front)
{
    int64_t now = cli_now_ms();

    if (front->group == 0)
        return INT64_MAX;
    int64_t next = cli_ending_next(&front->ending);
    return next <= now || front->holder == 0 ? now + LOOK_MS : next;
}

static void sleep_until_something_happens(struct front *front)
{
    struct pollfd events[] = {{.fd = front->holder > 0 ? front->link : -1, .events = POLLIN},
                              {.fd = front->signals, .events = POLLIN},
                              {.fd = front->alarm, .events = POLLIN}};

    cli_alarm_set(front->alarm, next_wake(front));
    poll(events, sizeof(events) / sizeof(events[0]), -1);
}

/* The link first: a group that has ended must not be sent a signal, its number may be another's soon. */
static void watch(struct front *front)
{
    while (front->holder > 0 || front->group > 0) {
        read_link(front);
        if (front->must_resume && front->group > 0)
            resume(front);
        read_signals(front);
        if (front->holder == 0 && front->group > 0)
            reap_orphans(front);
        if (front->group > 0)
            guard(front);
        if (front->must_resume && front->group == 0)
            front->must_resume = false;
        if (front->holder > 0 || front->group > 0)
            sleep_until_something_happens(front);
    }
}

/* --- Its life --- */

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

static int exit_status(const struct front *front)
{
    if (front->interrupt != 0 && !front->started)
        cli_interrupt_with(front->interrupt);
    if (front->interrupted_at_terminal) {
        kill(0, SIGINT);
        cli_interrupt_with(SIGINT);
    }
    if (WIFEXITED(front->holder_status))
        return WEXITSTATUS(front->holder_status);
    return front->started ? CLI_LOST : CLI_SYSTEM;
}

int cli_run_guard(const struct cli_run *run, pid_t holder, int link)
{
    struct front front = {.run = run, .holder = holder, .link = link};

    signal(SIGPIPE, SIG_IGN); /* that nobody reads what is said must not keep us from our work */
    if (!make_descriptors(&front)) {
        cli_say("cannot make a descriptor: %s", strerror(errno));
        kill(holder, SIGTERM);
        return CLI_SYSTEM;
    }
    watch(&front);
    return exit_status(&front);
}
