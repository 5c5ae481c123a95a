#define _GNU_SOURCE
#include "keeper_watchdog.h"

#include "process.h"
#include "times.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINK = 3, PROCESS = 4, OTHERS = 5 }; /* descriptors of the watchdog */
enum { PATIENCE_MS = 100 };                 /* a keeper that notices the loss sends the signal first */
enum { PAUSE_MS = 250 };                    /* from the start of a watchdog to that of the next */

struct cli_keeper_shared {
    _Atomic int64_t valid_until;
    atomic_bool settled; /* the signal was sent, or will never be */
};

/* Either process may be killed at any point here, the watchdog by the keeper's end: at worst both send the signal. */
static void signal_loss(const struct cli_keeper_watchdog *watchdog)
{
    if (watchdog->shared->settled)
        return;
    syscall(SYS_pidfd_send_signal, watchdog->process, watchdog->loss_signal, NULL, 0);
    watchdog->shared->settled = true;
}

/* --- The watchdog --- */

/* Leaves the keeper's process group, and closes its connections. */
static bool detach(struct cli_keeper_watchdog *watchdog, int link)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    cli_process_name_set("keeper-watchdog");
    int process = fcntl(watchdog->process, F_DUPFD_CLOEXEC, OTHERS);
    link = fcntl(link, F_DUPFD_CLOEXEC, OTHERS);
    watchdog->process = PROCESS;
    return dup3(link, LINK, O_CLOEXEC) == LINK && dup3(process, PROCESS, O_CLOEXEC) == PROCESS &&
           cli_descriptors_close_from(OTHERS);
}

/* The child of a process with threads: calls only async-signal-safe functions (signal-safety(7)). */
_Noreturn static void watch(struct cli_keeper_watchdog *watchdog, int link)
{
    int alarm = detach(watchdog, link) ? cli_alarm_make() : -1;
    if (alarm < 0)
        _exit(1); /* the keeper starts another one */
    struct pollfd events[] = {
        {.fd = PROCESS, .events = POLLIN}, {.fd = LINK, .events = POLLIN}, {.fd = alarm, .events = POLLIN}};
    bool keeper_lives = true;
    while (events[0].revents == 0 && keeper_lives && !watchdog->shared->settled) {
        int64_t late = watchdog->shared->valid_until + PATIENCE_MS;
        cli_alarm_set(alarm, late);
        poll(events, sizeof(events) / sizeof(events[0]), -1);
        keeper_lives = events[1].revents == 0 && (watchdog->shared->valid_until + PATIENCE_MS > cli_now_ms());
    }
    if (events[0].revents == 0)
        signal_loss(watchdog);
    _exit(0);
}

/* --- The keeper --- */

static bool start(struct cli_keeper_watchdog *watchdog)
{
    int ends[2];

    watchdog->started_ms = cli_now_ms();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    watchdog->pid = fork();
    if (watchdog->pid == 0)
        watch(watchdog, ends[0]);
    int error = errno;
    close(ends[0]);
    if (watchdog->pid < 0) {
        close(ends[1]);
        watchdog->pid = 0;
    } else {
        watchdog->link = ends[1];
    }
    errno = error;
    return watchdog->pid > 0;
}

bool cli_keeper_watchdog_start(struct cli_keeper_watchdog *watchdog, int process, int loss_signal, int64_t valid_until)
{
    *watchdog = (struct cli_keeper_watchdog){.link = -1, .process = process, .loss_signal = loss_signal};
    if (loss_signal == 0)
        return true;
    void *shared = mmap(NULL, sizeof(*watchdog->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return false;
    watchdog->shared = shared;
    watchdog->shared->valid_until = valid_until;
    return start(watchdog);
}

void cli_keeper_watchdog_prolong(struct cli_keeper_watchdog *watchdog, int64_t valid_until)
{
    if (watchdog->shared != NULL)
        watchdog->shared->valid_until = valid_until;
}

static int64_t pause_left(const struct cli_keeper_watchdog *watchdog)
{
    int64_t left = watchdog->started_ms + PAUSE_MS - cli_now_ms();

    return left > 0 ? left : 0;
}

void cli_keeper_watchdog_renew(struct cli_keeper_watchdog *watchdog)
{
    if (watchdog->pid > 0 && waitpid(watchdog->pid, NULL, WNOHANG) == watchdog->pid) {
        close(watchdog->link);
        watchdog->link = -1;
        watchdog->pid = 0; /* reaped: the PID may be reused */
    }
    if (watchdog->shared != NULL && watchdog->pid <= 0 && pause_left(watchdog) == 0)
        (void)start(watchdog); /* without memory: again after the pause */
}

int cli_keeper_watchdog_wake_ms(const struct cli_keeper_watchdog *watchdog, int64_t validity_ms)
{
    if (watchdog->shared == NULL)
        return -1;
    return watchdog->pid > 0 ? (int)(validity_ms / 2) + 1 : (int)pause_left(watchdog);
}

void cli_keeper_watchdog_signal_loss(struct cli_keeper_watchdog *watchdog)
{
    if (watchdog->shared != NULL)
        signal_loss(watchdog);
}

void cli_keeper_watchdog_end(struct cli_keeper_watchdog *watchdog)
{
    if (watchdog->shared != NULL)
        watchdog->shared->settled = true;
    if (watchdog->pid > 0) {
        kill(watchdog->pid, SIGKILL);
        waitpid(watchdog->pid, NULL, 0);
    }
}
