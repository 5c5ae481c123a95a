#include "keeper.h"

#include "command.h"
#include "keeper_watchdog.h"
#include "message.h"
#include "process.h"
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINK = 3, PROCESS = 4, OTHERS = 5 }; /* descriptors of the keeper */

enum { PROCESS_ENDED = 1 }; /* exit status of a keeper that got no token */

/* The keeper's reply to the token. */
struct report {
    int exit_status;
    char text[sizeof(((redlock_result *)NULL)->text)];
};

/* --- The keeper --- */

/* Detaches from the parent's files, pipes and terminal. It leaves the directory after it has read the files that the
 * settings name. */
static bool detach(int link, int process)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

    setsid();
    prctl(PR_SET_NAME, "redlock-keeper");
    link = fcntl(link, F_DUPFD_CLOEXEC, OTHERS); /* its descriptor number is about to be reused */
    process = fcntl(process, F_DUPFD_CLOEXEC, OTHERS);
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (dup2(nothing, file) < 0)
            return false;
    return dup3(link, LINK, O_CLOEXEC) == LINK && dup3(process, PROCESS, O_CLOEXEC) == PROCESS &&
           cli_descriptors_close_from(OTHERS);
}

/* A descriptor for SIGTERM and similar signals, and for the end of a child. -1: failed. */
static int catch_signals(void)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        signal(numbers[i], SIG_DFL); /* an ignored signal is not delivered */
        sigaddset(&set, numbers[i]);
    }
    sigprocmask(SIG_SETMASK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void report(const redlock_result *result, int exit_status)
{
    struct report report = {.exit_status = exit_status};

    snprintf(report.text, sizeof(report.text), "%s", result->text);
    (void)!write(LINK, &report, sizeof(report));
    close(LINK);
}

/* True: a signal requests the keeper's end. */
static bool read_signals(int signals)
{
    struct signalfd_siginfo information;
    bool ends = false;

    while (read(signals, &information, sizeof(information)) == (ssize_t)sizeof(information))
        ends = ends || information.ssi_signo != SIGCHLD;
    return ends;
}

/* Runs until the process ends, the lock is lost, or a signal arrives. True: the lock is lost, and the process lives.
 * The watchdog gets each new end of validity well before the old one. */
static bool wait_for_the_end(const redlock_lock *lock, int signals, int lost, struct cli_keeper_watchdog *watchdog)
{
    struct pollfd ends[] = {
        {.fd = PROCESS, .events = POLLIN}, {.fd = lost, .events = POLLIN}, {.fd = signals, .events = POLLIN}};

    for (;;) {
        int64_t validity_ms = redlock_validity_ms(lock);
        poll(ends, sizeof(ends) / sizeof(ends[0]), cli_keeper_watchdog_wake_ms(watchdog, validity_ms));
        if (ends[0].revents != 0 || ends[1].revents != 0)
            return ends[0].revents == 0;
        if (read_signals(signals))
            return false;
        cli_keeper_watchdog_renew(watchdog);
        cli_keeper_watchdog_prolong(watchdog, cli_end_of_validity(lock));
    }
}

static void hold(redlock_lock **lock, int signals, int lost, struct cli_keeper_watchdog *watchdog)
{
    if (wait_for_the_end(*lock, signals, lost, watchdog))
        cli_keeper_watchdog_signal_loss(watchdog);
    cli_keeper_watchdog_end(watchdog);
    redlock_release(lock, NULL, NULL);
}

static void keep(const char *resource, const redlock_acquire_options *options, const char *token, int signals,
                 int loss_signal)
{
    redlock_client *client;
    redlock_lock *lock = NULL;
    redlock_result result = {.text = "the keeper cannot create a client"};
    struct cli_keeper_watchdog watchdog;
    int lost = -1;
    int status = cli_connect(&client, false);

    if (status == CLI_OK && redlock_adopt(client, resource, options, token, &lock, &result) != REDLOCK_OK)
        status = cli_exit_of(&result);
    if (status == CLI_OK && redlock_lost_descriptor(lock, &lost) != REDLOCK_OK) {
        snprintf(result.text, sizeof(result.text), "the keeper cannot create a descriptor");
        status = CLI_SYSTEM;
    }
    if (status == CLI_OK && chdir("/") != 0)
        status = CLI_SYSTEM;
    if (status == CLI_OK && !cli_keeper_watchdog_start(&watchdog, PROCESS, loss_signal, cli_end_of_validity(lock))) {
        snprintf(result.text, sizeof(result.text), "the keeper cannot start a second process: %s", strerror(errno));
        status = CLI_SYSTEM;
    }
    report(&result, status);
    if (status == CLI_OK)
        hold(&lock, signals, lost, &watchdog);
    cli_close(&client);
}

/* False: the process has ended, a signal has arrived, or the parent needs no keeper any more. */
static bool receive_token(int signals, char token[REDLOCK_TOKEN_SIZE])
{
    struct pollfd ends[] = {
        {.fd = LINK, .events = POLLIN}, {.fd = PROCESS, .events = POLLIN}, {.fd = signals, .events = POLLIN}};

    do
        poll(ends, sizeof(ends) / sizeof(ends[0]), -1);
    while (ends[0].revents == 0 && ends[1].revents == 0 && !read_signals(signals));
    return ends[0].revents != 0 && read(LINK, token, REDLOCK_TOKEN_SIZE) == REDLOCK_TOKEN_SIZE;
}

static bool process_has_ended(void)
{
    struct pollfd process = {.fd = PROCESS, .events = POLLIN};

    return poll(&process, 1, 0) == 1;
}

_Noreturn static void become(int link, int process, int loss_signal, const char *resource,
                             const redlock_acquire_options *options)
{
    char token[REDLOCK_TOKEN_SIZE];

    if (!detach(link, process))
        _exit(CLI_SYSTEM);
    int signals = catch_signals();
    if (signals < 0 || !receive_token(signals, token))
        _exit(process_has_ended() ? PROCESS_ENDED : CLI_OK);
    keep(resource, options, token, signals, loss_signal);
    _exit(CLI_OK);
}

/* --- The parent --- */

static void on_keeper_end(int number)
{
    (void)number;
    cli_acquire_stop();
}

static void catch_keeper_end(void)
{
    const struct sigaction action = {.sa_handler = on_keeper_end, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    sigset_t ends;

    sigaction(SIGCHLD, &action, NULL);
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_UNBLOCK, &ends, NULL); /* it may have been inherited blocked */
}

static int open_process(pid_t process)
{
    int descriptor = (int)syscall(SYS_pidfd_open, process, 0);

    if (descriptor < 0 && errno == ENOSYS)
        cli_say("--for needs pidfd_open(2), which this kernel does not have; use Linux 5.3 or later");
    else if (descriptor < 0)
        cli_say("cannot watch process %ld: %s", (long)process,
                errno == EINVAL ? "it is a thread, not a process" : strerror(errno));
    return descriptor;
}

/* Process 1 of a container gets only the signals that it handles. */
static bool is_ignored_by_init(pid_t process, int number)
{
    char line[256];
    unsigned long long caught = ~(1ULL << (SIGKILL - 1)); /* without /proc: all that it may handle */
    FILE *file = process == 1 ? fopen("/proc/1/status", "re") : NULL;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "SigCgt: %llx", &caught) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return process == 1 && (caught >> (number - 1) & 1) == 0;
}

/* Otherwise the loss of the lock would be silent. */
static bool may_signal(pid_t process, int descriptor, int number)
{
    if (syscall(SYS_pidfd_send_signal, descriptor, 0, NULL, 0) != 0)
        cli_say("--loss-signal: may not signal process %ld: %s", (long)process, strerror(errno));
    else if (is_ignored_by_init(process, number))
        cli_say("--loss-signal: process 1 gets only signals that it handles, and does not handle this one; set a trap "
                "for it first, or start the container with an init (docker run --init)");
    else
        return true;
    return false;
}

int cli_keeper_start(pid_t process, int loss_signal, const char *resource, const redlock_acquire_options *options,
                     struct cli_keeper *keeper)
{
    int links[2] = {-1, -1};
    int descriptor = open_process(process);

    *keeper = (struct cli_keeper){.link = -1, .process = process};
    if (descriptor < 0)
        return CLI_SYSTEM;
    if (loss_signal != 0 && !may_signal(process, descriptor, loss_signal)) {
        close(descriptor);
        return CLI_SYSTEM;
    }
    if (process == 1)
        cli_notice("when process 1 ends, the kernel kills the keeper too: the lock then ends with its ttl");
    catch_keeper_end();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, links) == 0)
        keeper->pid = fork();
    if (keeper->pid == 0 && links[1] >= 0) {
        close(links[0]);
        become(links[1], descriptor, loss_signal, resource, options);
    }
    int error = errno;
    close(descriptor);
    close(links[1]);
    keeper->link = links[0];
    if (keeper->pid > 0)
        return CLI_OK;
    keeper->pid = 0;
    return cli_fail(CLI_SYSTEM, "cannot start a keeper: %s", strerror(error));
}

int cli_keeper_take(struct cli_keeper *keeper, const char *token)
{
    struct report report = {.exit_status = CLI_SYSTEM, .text = "it has ended"};
    char text[REDLOCK_TOKEN_SIZE] = "";
    ssize_t count;

    snprintf(text, sizeof(text), "%s", token); /* its memory may be shorter than a token can be */
    if (send(keeper->link, text, sizeof(text), MSG_NOSIGNAL) != (ssize_t)sizeof(text))
        report.text[0] = '\0';
    do
        count = read(keeper->link, &report, sizeof(report));
    while (count < 0 && errno == EINTR);
    if (report.exit_status != CLI_OK)
        cli_say("the keeper could not adopt the lock: %s", *report.text != '\0' ? report.text : "it has ended");
    return report.exit_status;
}

bool cli_keeper_has_ended(struct cli_keeper *keeper)
{
    int status;

    if (keeper->pid <= 0 || waitpid(keeper->pid, &status, WNOHANG) != keeper->pid)
        return false;
    keeper->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == PROCESS_ENDED)
        cli_say("process %ld has ended; no lock is acquired for it", (long)keeper->process);
    else
        cli_say("the keeper has ended; no lock is acquired");
    return true;
}

void cli_keeper_end(struct cli_keeper *keeper)
{
    if (keeper->pid > 0)
        kill(keeper->pid, SIGTERM);
    if (keeper->link >= 0)
        close(keeper->link);
    *keeper = (struct cli_keeper){.link = -1};
}
