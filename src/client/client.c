#include "src/client/client.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/client/options.h"
#include "src/client/result.h"
#include "src/core/clock.h"
#include "src/core/memory.h"

bool rl_logs(const redlock_client *client, int level)
{
    return client->options.log && level <= (int)client->options.log_level && !client->forked;
}

void rl_log(redlock_client *client, int level, const char *format, ...)
{
    char line[256];
    if (!rl_logs(client, level))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (char *c = line; *c; c++) /* a node's words may be anything: they must not move a terminal's cursor */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    client->options.log(level, line, client->options.log_arg);
}

/* ------------------------------------------------------------------------------------------------------ who may call */

/* A page that the kernel wipes in a forked child tells the two apart without a system call per call. */
static volatile unsigned char *born(void)
{
    long size = sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, (size_t)size, MADV_WIPEONFORK) != 0) {
        munmap(page, (size_t)size);
        return NULL;
    }
    *(volatile unsigned char *)page = 1;
    return page;
}

static void unborn(volatile unsigned char *page)
{
    if (page)
        munmap((void *)(uintptr_t)page, (size_t)sysconf(_SC_PAGESIZE));
}

bool rl_client_is_at_home(const redlock_client *client)
{
    return *client->birth == 1;
}

int rl_client_enter(const redlock_client *client)
{
    if (!client || !rl_client_is_at_home(client) || client->closing)
        return REDLOCK_INVALID;
    return pthread_equal(client->thread, pthread_self()) ? REDLOCK_OK : REDLOCK_INVALID;
}

/* --------------------------------------------------------------------------------------------------------- loop turn */

static bool finish_if_closed(redlock_client *client);

/* Before the loop sleeps: tells what has ended, writes what has gathered, and sets the alarm. */
static void on_prepare(struct ev_loop *loop, ev_prepare *watcher, int events)
{
    (void)events;
    redlock_client *client = watcher->data;
    bool ended = client->operations.completed;
    bool more = rl_operations_tell(client);
    if (ended || client->operations.completed || client->closing)
        rl_rounds_undo(client); /* the caller may never turn the loop again */
    more = rl_leases_tell(client) || more;
    rl_renewals_flush(client);
    /* A link that breaks while it is written to may start a round, whose grants need their proofs in this turn, too. */
    do {
        rl_attest_send(client);
        rl_adapter_flush(&client->writes);
    } while (client->unproven);
    more =
        more || client->operations.completed || client->leases.noticed; /* a link that broke while it was written to */
    if (client->closing && finish_if_closed(client))
        return;
    if (more)
        ev_idle_start(loop, &client->idle);
    else
        ev_idle_stop(loop, &client->idle);
    rl_timers_arm(&client->timers);
}

static void on_idle(struct ev_loop *loop, ev_idle *watcher, int events)
{
    (void)loop;
    (void)watcher;
    (void)events;
}

static void on_timers(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    redlock_client *client = watcher->data;
    rl_timers_fire(&client->timers, rl_now());
}

static void on_wakeup(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    redlock_client *client = watcher->data;
    rl_wakeup_hush(client->wakeup);
    for (unsigned i = 0; i < client->nodes_count; i++)
        rl_node_resolved(&client->nodes[i]);
    rl_operations_cancel(client, false);
    rl_blocking_take_calls(client);
}

static void start_watchers(redlock_client *client)
{
    struct ev_loop *loop = client->loop;
    ev_prepare_init(&client->prepare, on_prepare);
    ev_idle_init(&client->idle, on_idle);
    ev_io_init(&client->timers_watcher, on_timers, client->timers.descriptor, EV_READ);
    ev_io_init(&client->wakeup_watcher, on_wakeup, client->wakeup->descriptor, EV_READ);
    client->prepare.data = client->timers_watcher.data = client->wakeup_watcher.data = client;
    ev_prepare_start(loop, &client->prepare);
    ev_io_start(loop, &client->timers_watcher);
    ev_io_start(loop, &client->wakeup_watcher);
}

static void stop_watchers(redlock_client *client)
{
    struct ev_loop *loop = client->loop;
    ev_prepare_stop(loop, &client->prepare);
    ev_idle_stop(loop, &client->idle);
    ev_io_stop(loop, &client->timers_watcher);
    ev_io_stop(loop, &client->wakeup_watcher);
}

void rl_client_node_changed(redlock_client *client, struct rl_node *node)
{
    rl_listener_node_changed(&node->listener);
    rl_rounds_node_changed(client, node);
    rl_operations_node_changed(client);
}

/* ------------------------------------------------------------------------------------------------------------ making */

static bool needs_tls(const struct rl_address *addresses, unsigned count)
{
    bool needed = false;
    for (unsigned i = 0; i < count; i++)
        needed = needed || addresses[i].tls;
    return needed;
}

/* What a client consists of besides its nodes. On failure what has been made is left for rl_client_destroy(). */
static int equip(redlock_client *client, bool tls, redlock_result *result)
{
    client->timers.descriptor = -1;
    if (!rl_options_copy_strings(&client->options)) {
        client->options = (redlock_options)REDLOCK_OPTIONS_INIT;
        memset(&client->options, 0, sizeof client->options); /* the strings in it are still the caller's */
        return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for the options");
    }
    if (!rl_timers_open(&client->timers))
        return rl_result_fail(result, REDLOCK_SYSTEM, "the system gives no timerfd; are too many descriptors open?");
    client->wakeup = rl_wakeup_create();
    if (!client->wakeup)
        return rl_result_fail(result, REDLOCK_SYSTEM, "the system gives no eventfd; are too many descriptors open?");
    client->birth = born();
    if (!client->birth)
        return rl_result_fail(result, REDLOCK_SYSTEM,
                              "the system gives no page that is wiped on fork (Linux 4.14 has it)");
    char token[REDLOCK_TOKEN_SIZE];
    if (!rl_random_token(&client->random, token))
        return rl_result_fail(result, REDLOCK_SYSTEM, "the system gives no random bytes yet");
    snprintf(client->channel, sizeof client->channel, "%.*s%.16s", RL_CHANNEL_SIZE - 17, client->options.channel_prefix,
             token);
    return tls ? rl_tls_create(&client->options, &client->tls, result) : REDLOCK_OK;
}

static redlock_client *allocate(const redlock_options *options, unsigned count)
{
    redlock_allocator allocator = rl_memory_allocator(&options->allocator);
    redlock_client *client = rl_allocate(&allocator, sizeof *client + count * sizeof *client->nodes);
    if (!client)
        return NULL;
    client->allocator = allocator;
    client->options = *options;
    client->options.allocator = allocator;
    client->nodes_count = count;
    return client;
}

static int create(struct ev_loop *loop, bool own_thread, const struct rl_address *addresses, unsigned count,
                  const redlock_options *options, redlock_client **made, redlock_result *result)
{
    redlock_client *client = allocate(options, count);
    if (!client)
        return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for a client");
    client->loop = loop;
    client->thread = pthread_self();
    client->writes.loop = loop;
    client->writes.own_thread = own_thread;
    client->release_timer.fire = rl_release_again;
    client->renewal_timer.fire = rl_renewals_gathered;
    client->undo_timer.fire = rl_rounds_undo_due;
    int status = equip(client, needs_tls(addresses, count), result);
    if (status) {
        client->nodes_count = 0;
        rl_client_destroy(client);
        return status;
    }
    quorum_clock_init(&client->clock_watch, count, client->options.drift_ppm, QUORUM_SECOND);
    for (unsigned i = 0; i < count; i++)
        rl_node_open(&client->nodes[i], client, i, &addresses[i]);
    start_watchers(client);
    *made = client;
    return REDLOCK_OK;
}

int rl_client_create(struct ev_loop *loop, bool own_thread, const char *nodes, const redlock_options *given,
                     redlock_client **client, redlock_result *result)
{
    redlock_options options;
    char error[256];
    if (result)
        rl_result_clear(result, 0);
    int status = rl_options_read(given, &options, result);
    if (status)
        return status;
    redlock_allocator allocator = rl_memory_allocator(&options.allocator);
    struct rl_address *addresses = rl_allocate(&allocator, REDLOCK_NODES_MAX * sizeof *addresses);
    if (!addresses)
        return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for the node list");
    unsigned count = rl_address_list(nodes, addresses, error, sizeof error);
    if (count == 0)
        status = rl_result_fail(result, REDLOCK_INVALID, "%s", error);
    else
        status = create(loop, own_thread, addresses, count, &options, client, result);
    rl_wipe(addresses, REDLOCK_NODES_MAX * sizeof *addresses);
    rl_free(&allocator, addresses);
    return status;
}

/* ----------------------------------------------------------------------------------------------------------- closing */

static void free_parts(redlock_client *client)
{
    redlock_allocator allocator = client->allocator;
    rl_rounds_free_spare(client);
    rl_attest_free_spare(client);
    rl_leases_free(client);
    rl_timers_close(&client->timers);
    rl_wakeup_release(client->wakeup);
    rl_tls_destroy(client->tls, &allocator);
    if (client->options.struct_size)
        rl_options_free_strings(&client->options);
    unborn(client->birth);
    rl_wipe(&client->random, sizeof client->random);
    rl_free(&allocator, client);
}

static void drop_unreleased(redlock_client *client)
{
    while (client->unreleased) {
        struct rl_lease *lease = client->unreleased;
        client->unreleased = lease->next_unreleased;
        client->pending_undos += quorum_count(lease->may_hold);
        rl_lease_release(lease);
    }
}

static void drop_all(redlock_client *client)
{
    for (unsigned i = 0; i < client->nodes_count; i++)
        rl_node_close(&client->nodes[i]);
    rl_renewals_drop(client);
    rl_operations_free(client);
    rl_queues_free(client);
    rl_rounds_undo(client); /* which are dropped */
    drop_unreleased(client);
}

void rl_client_destroy(redlock_client *client)
{
    client->forked = true;
    if (client->nodes_count)
        stop_watchers(client);
    drop_all(client);
    free_parts(client);
}

/* Has it answered all it was sent, or had its time? */
static bool is_done(const redlock_client *client, struct rl_node *node, quorum_time now)
{
    if (!node->sent.first && !node->kept.first)
        return true;
    /* A node that answers is let go on, but not one that only answers heartbeats and refuses the undos kept for it. */
    bool answering = node->sent.count > node->beating && node->heard > client->closing_since;
    if (quorum_time_since(answering ? node->heard : client->closing_since, now) >= rl_node_timeout(node))
        return true;
    /* A link that has just broken is made anew at once, and once more: what is kept for the node gets that chance. */
    return node->state != RL_NODE_READY && (node->permanent || node->failures > 2);
}

static bool all_done(redlock_client *client)
{
    quorum_time now = rl_now(), wake = now + 10 * QUORUM_MILLISECOND;
    bool done = !client->operations.first && !client->operations.completed && !client->leases.noticed;
    for (unsigned i = 0; i < client->nodes_count; i++)
        done = is_done(client, &client->nodes[i], now) && done;
    if (!done)
        rl_timer_set(&client->timers, &client->close_timer, wake);
    return done;
}

static void report(redlock_client *client, redlock_result *result)
{
    rl_result_clear(result, client->nodes_count);
    for (unsigned i = 0; i < client->nodes_count; i++) {
        struct rl_node *node = &client->nodes[i];
        unsigned owed = node->sent.count - (node->beating && node->sent.count ? 1 : 0) + node->kept.count;
        result->node[i].outcome = owed ? REDLOCK_NODE_UNREACHABLE : REDLOCK_NODE_GRANTED;
        if (owed)
            snprintf(result->node[i].text, sizeof result->node[i].text, "%.60s: %u request%s not confirmed",
                     node->address.name, owed, owed == 1 ? "" : "s");
    }
}

static bool finish_if_closed(redlock_client *client)
{
    redlock_result result;
    if (!all_done(client))
        return false;
    report(client, &result);
    redlock_callback closed = client->closed;
    void *arg = client->closed_arg;
    stop_watchers(client);
    rl_timer_stop(&client->timers, &client->close_timer);
    drop_all(client);
    result.pending_undos = client->pending_undos;
    result.status = result.cause = client->pending_undos ? REDLOCK_NO_QUORUM : REDLOCK_OK;
    free_parts(client);
    if (closed)
        closed(NULL, &result, arg);
    return true;
}

static void on_close_timer(struct rl_timer *timer)
{
    (void)timer; /* the turn it wakes looks */
}

int rl_client_close(redlock_client *client, redlock_callback callback, void *arg)
{
    client->closing = true;
    client->closing_since = rl_now();
    client->closed = callback;
    client->closed_arg = arg;
    client->close_timer.fire = on_close_timer;
    rl_operations_cancel(client, true);
    rl_leases_lose(client, QUORUM_LEASE_CLOSED);
    rl_release_again(&client->release_timer); /* the last occasion for those that found no memory */
    rl_timer_set(&client->timers, &client->close_timer, client->closing_since);
    return REDLOCK_OK;
}
