/*
 * Leader election: leader NAME JOURNAL [--ttl MS] [--stall]. Start it on several machines; the nodes come from
 * REDLOCK_NODES.
 *
 * One candidate leads: it writes to the journal ten times per second, each time with its fencing token. The others wait.
 * If the leader is killed, stopped or cut off from the nodes, another one leads after at most one ttl plus the second
 * that a waiter may take to notice. On SIGTERM it resigns, and another one leads at once. A new leader says whom it
 * follows.
 *
 * --stall stops the leader once, right before its third write, as a long pause of the machine would. After SIGCONT it
 * writes too late, and the journal refuses it.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <redlock/redlock.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"

enum { INTERVAL_MS = 100, STALL_AT = 3, SEEN_MS = 1000 };

struct candidate {
    const char *name;
    const char *journal;
    uint32_t ttl_ms;
    int writes_until_stall;          /* 0: none */
    int failed;                      /* the journal cannot be written */
    char before[REDLOCK_LABEL_SIZE]; /* the leader that it saw last; "": none */
    redlock_client *client;
};

static volatile sig_atomic_t stopping;
static redlock_cancellation *waiting;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
    redlock_cancel(waiting);
}

static void say(const struct candidate *candidate, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct candidate *candidate, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%s ", candidate->name);
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    va_end(arguments);
}

/* True: the leader may go on. */
static int write_once(struct candidate *candidate, redlock_lock *lock)
{
    uint64_t seen = 0;
    if (redlock_validity_ms(lock) == 0)
        return say(candidate, "steps down: its lock has ended"), 0;
    if (candidate->writes_until_stall > 0 && --candidate->writes_until_stall == 0)
        raise(SIGSTOP); /* after the check and before the write: only the journal can notice */
    switch (journal_write(candidate->journal, redlock_lock_fence(lock), candidate->name, &seen)) {
    case JOURNAL_WRITTEN:
        return 1;
    case JOURNAL_REFUSED:
        return say(candidate, "is refused: the journal has seen token %llu", (unsigned long long)seen), 0;
    case JOURNAL_FAILED:
        stopping = candidate->failed = 1;
        break;
    }
    return 0;
}

static void lead(struct candidate *candidate, redlock_lock *lock)
{
    struct pollfd lost = {.events = POLLIN};
    if (redlock_lost_descriptor(lock, &lost.fd) != REDLOCK_OK)
        return;
    say(candidate, "leads with token %llu, after %s", (unsigned long long)redlock_lock_fence(lock),
        candidate->before[0] ? candidate->before : "none that it knows");
    candidate->before[0] = '\0';
    while (!stopping && write_once(candidate, lock))
        if (poll(&lost, 1, INTERVAL_MS) > 0) {
            say(candidate, "steps down: its lock is lost");
            return;
        }
}

/* Waits to lead, leads, and returns when it no longer does; or after a second, with the label of the leader. */
static int take_part(struct candidate *candidate)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *lock;
    redlock_result result;
    options.wait_ms = SEEN_MS;
    options.ttl_ms = candidate->ttl_ms;
    options.fence = 1;
    options.cancellation = waiting;
    int status = redlock_acquire(candidate->client, "examples/leader", &options, &lock, &result);
    if (status == REDLOCK_TIMED_OUT) {
        if (result.holder.label[0])
            memcpy(candidate->before, result.holder.label, sizeof candidate->before);
        return REDLOCK_OK;
    }
    if (status != REDLOCK_OK)
        return status;
    lead(candidate, lock);
    if (redlock_release(&lock, NULL, &result) == REDLOCK_OK)
        say(candidate, "resigned");
    return REDLOCK_OK;
}

static int complain(const char *what, redlock_result *result)
{
    fprintf(stderr, "%s: %s\n", what, redlock_result_text(result));
    return EXIT_FAILURE;
}

static int run(struct candidate *candidate)
{
    struct sigaction action = {.sa_handler = on_signal};
    redlock_options options = REDLOCK_OPTIONS_INIT;
    redlock_result result;
    int status = REDLOCK_OK;
    options.label = candidate->name; /* the others see who leads */
    if (redlock_connect(getenv("REDLOCK_NODES"), &options, &candidate->client, &result) != REDLOCK_OK)
        return complain("connect", &result);
    redlock_cancellation_create(candidate->client, &waiting);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    while (!stopping && status == REDLOCK_OK)
        status = take_part(candidate);
    signal(SIGTERM, SIG_IGN); /* from here on the cancellation does not exist */
    signal(SIGINT, SIG_IGN);
    redlock_cancellation_destroy(&waiting);
    if (redlock_close(&candidate->client, NULL, &result) != REDLOCK_OK)
        complain("close", &result);
    if (status == REDLOCK_OK || status == REDLOCK_CANCELLED)
        return candidate->failed;
    fprintf(stderr, "acquire: %s\n", redlock_status_text(status));
    return EXIT_FAILURE;
}

int main(int count, char **arguments)
{
    struct candidate candidate = {.ttl_ms = 2000};
    int at = 3;
    for (; at < count; at++)
        if (strcmp(arguments[at], "--stall") == 0)
            candidate.writes_until_stall = STALL_AT;
        else if (strcmp(arguments[at], "--ttl") == 0 && at + 1 < count)
            candidate.ttl_ms = (uint32_t)strtoul(arguments[++at], NULL, 10);
        else
            break;
    if (count < 3 || at < count) {
        fprintf(stderr, "usage: leader NAME JOURNAL [--ttl MS] [--stall]\n");
        return count == 2 && strcmp(arguments[1], "--help") == 0 ? EXIT_SUCCESS : 2;
    }
    candidate.name = arguments[1];
    candidate.journal = arguments[2];
    return run(&candidate);
}
