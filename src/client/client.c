#include "src/client/client.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/client/lock_events.h"
#include "src/client/loop_thread.h"
#include "src/client/options.h"
#include "src/client/watch.h"
#include "src/core/escape.h"
#include "src/core/result.h"
#include "src/lock/renewal.h"

/* ----------------------------------------------------------------------------------------------- process and thread */

bool rl_client_in_owner_process(const redlock_client *client)
{
    return rl_process_is(client->core.owner);
}

int rl_client_enter(const redlock_client *client)
{
    if (!client || !rl_client_in_owner_process(client) || client->core.closing)
        return REDLOCK_INVALID;
    return pthread_equal(client->thread, pthread_self()) ? REDLOCK_OK : REDLOCK_INVALID;
}

/* --------------------------------------------------------------------------------------------------------- loop turn */

static bool client_finish_if_closed(redlock_client *client);
static bool client_leaves_loop(redlock_client *client);

static void client_end_operations(redlock_client *client)
{
    rl_leases_wake_due(&client->locks);
    bool ended = client->operations.completed;
    rl_operations_notify(client);
    if (!rl_client_in_owner_process(client))
        return;
    if (ended || client->operations.completed || client->core.closing)
        rl_detached_retry(&client->locks); /* the host may never run the loop again */
    if (ended)
        rl_leases_wake_due(&client->locks); /* the callbacks may have taken long */
}

static void client_flush(redlock_client *client)
{
    if (client->loop_thread)
        rl_completions_post(&client->loop_thread->completions);
    rl_queues_flush(&client->locks); /* first: it makes requests */
    rl_renewals_flush(&client->locks);
    rl_releases_flush(&client->locks); /* they need the nodes' windows, so fewer acquires may begin */
    rl_rounds_admit(&client->locks);
    rl_nodes_flush(client->nodes);
}

/* Before the loop sleeps. See "One turn of the loop" in src/README.md. */
static void client_on_prepare(struct ev_loop *loop, ev_prepare *watcher, int events)
{
    (void)events;
    redlock_client *client = watcher->data;
    if (client_leaves_loop(client))
        return;
    bool nested = client->in_turn; /* a callback runs the loop: the client must not be freed under it */
    client->in_turn = true;
    if (client->loop_thread)
        rl_calls_run(&client->loop_thread->calls);
    client_end_operations(client);
    rl_leases_notify(&client->locks);
    client->in_turn = nested;
    if (client_leaves_loop(client)) /* a callback forked: this is the child */
        return;
    client_flush(client);
    /* A connection that broke during the write may have ended operations. */
    bool more = client->operations.completed || client->locks.queues.due || client->locks.leases.noticed ||
                (client->loop_thread && !rl_calls_fall_asleep(&client->loop_thread->calls, client->core.wakeup));
    if (client->core.closing && !nested && client_finish_if_closed(client))
        return;
    if (more)
        ev_idle_start(loop, &client->idle);
    else
        ev_idle_stop(loop, &client->idle);
    rl_timers_arm(&client->core.timers);
}

static void client_on_idle(struct ev_loop *loop, ev_idle *watcher, int events)
{
    (void)loop;
    (void)watcher;
    (void)events;
}

static void client_on_timers(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    redlock_client *client = watcher->data;
    if (!rl_client_in_owner_process(client))
        return;
    rl_timers_fire(&client->core.timers, rl_now());
}

static void log_complaint(redlock_client *client)
{
    const char *text = atomic_exchange(&client->complaint, NULL);
    if (text)
        rl_log(&client->core, REDLOCK_LOG_ERROR, "%s", text);
}

void rl_client_complain(redlock_client *client, const char *text)
{
    atomic_store(&client->complaint, text);
    if (client->loop_thread ? rl_loop_thread_is_current(client) : pthread_equal(client->thread, pthread_self()))
        log_complaint(client);
    else if (rl_logs(&client->core, REDLOCK_LOG_ERROR))
        rl_wakeup_signal(client->core.wakeup);
}

static void client_on_wakeup(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    redlock_client *client = watcher->data;
    if (!rl_client_in_owner_process(client))
        return;
    rl_wakeup_drain(client->core.wakeup);
    for (unsigned i = 0; i < client->nodes->count; i++)
        rl_node_resolved(&client->nodes->node[i]);
    if (atomic_exchange(&client->core.wakeup->cancelled, false)) /* to look at all operations takes long */
        rl_operations_cancel(client, false);
    log_complaint(client);
}

static void start_watchers(redlock_client *client)
{
    struct ev_loop *loop = client->core.loop;
    ev_prepare_init(&client->prepare, client_on_prepare);
    ev_idle_init(&client->idle, client_on_idle);
    ev_io_init(&client->timers_watcher, client_on_timers, client->core.timers.descriptor, EV_READ);
    ev_io_init(&client->wakeup_watcher, client_on_wakeup, client->core.wakeup->descriptor, EV_READ);
    client->prepare.data = client->timers_watcher.data = client->wakeup_watcher.data = client;
    ev_prepare_start(loop, &client->prepare);
    ev_io_start(loop, &client->timers_watcher);
    ev_io_start(loop, &client->wakeup_watcher);
}

static void stop_watchers(redlock_client *client)
{
    struct ev_loop *loop = client->core.loop;
    ev_prepare_stop(loop, &client->prepare);
    ev_idle_stop(loop, &client->idle);
    ev_io_stop(loop, &client->timers_watcher);
    ev_io_stop(loop, &client->wakeup_watcher);
}

static void on_node_changed(struct rl_locks *locks, struct rl_node *node)
{
    rl_listener_node_changed(node->listener);
    rl_rounds_node_changed(locks, node);
    rl_operations_node_changed(locks->client);
}

static enum rl_engagement engagement(struct rl_locks *locks)
{
    for (struct rl_operation *operation = locks->client->operations.first; operation; operation = operation->next)
        if (operation->type != &rl_watch) /* which waits for no node */
            return RL_WAITS;
    return locks->leases.first ? RL_HOLDS : RL_IDLE;
}

static void on_clock_stopped(struct rl_locks *locks)
{
    rl_leases_mark_lost(locks, QUORUM_LEASE_CLOCK);
}

static const struct rl_nodes_events nodes_events = {.engagement = engagement,
                                                    .in_turn = rl_renewals_in_turn,
                                                    .node_changed = on_node_changed,
                                                    .node_lacks = rl_leases_hasten,
                                                    .clock_stopped = on_clock_stopped,
                                                    .listening = rl_queues_listening,
                                                    .woken = rl_queues_wake,
                                                    .handed = rl_handover_take};

static void on_lease_lost(struct rl_lease *lease, bool leave)
{
    rl_watches_end(lease);
    if (leave)
        rl_lease_invalidate(lease);
    else
        rl_lease_release_detached(lease); /* nodes may still have the key */
}

static const struct rl_locks_events locks_events = {
    .lease_lost = on_lease_lost, .lease_ended = rl_watches_end, .handle_ended = rl_lock_events_ended};

/* --------------------------------------------------------------------------------------------------------- creating */

/* Creates all parts of a client except its nodes. After a failure rl_client_destroy() frees the existing parts. */
static int client_equip(redlock_client *client, redlock_result *result)
{
    struct rl_core *core = &client->core;
    core->timers.descriptor = -1;
    if (!rl_options_copy_strings(&core->options)) {
        memset(&core->options, 0, sizeof core->options); /* its strings still belong to the caller */
        return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for the options");
    }
    if (!rl_timers_open(&core->timers))
        return rl_result_fail(result, REDLOCK_SYSTEM,
                              "the system refused a timerfd; raise the limit of open files (ulimit -n)");
    core->wakeup = rl_wakeup_create();
    if (!core->wakeup)
        return rl_result_fail(result, REDLOCK_SYSTEM,
                              "the system refused an eventfd; raise the limit of open files (ulimit -n)");
    core->owner = rl_process_mark();
    if (!core->owner)
        return rl_result_fail(result, REDLOCK_SYSTEM,
                              "the system refused a page that is wiped on fork; Linux 4.14 or later is needed");
    return REDLOCK_OK;
}

static redlock_client *client_allocate(struct ev_loop *loop, bool own_thread, unsigned count,
                                       const redlock_options *options)
{
    redlock_allocator allocator = rl_memory_allocator(&options->allocator);
    redlock_client *client = rl_allocate(&allocator, sizeof *client);
    if (!client)
        return NULL;
    client->core.allocator = allocator;
    client->core.options = *options;
    client->core.options.allocator = allocator;
    client->core.loop = loop;
    client->thread = pthread_self();
    client->nodes = rl_nodes_create(&client->core, count, own_thread, &nodes_events, &client->locks);
    if (!client->nodes) {
        rl_free(&allocator, client);
        return NULL;
    }
    struct rl_locks *locks = &client->locks;
    locks->core = &client->core;
    locks->nodes = client->nodes;
    locks->events = &locks_events;
    locks->client = client;
    locks->release_timer.fire = rl_detached_on_timer;
    locks->renewal_timer.fire = rl_renewals_gathered;
    return client;
}

static int client_create(struct ev_loop *loop, bool own_thread, const struct rl_address *addresses, unsigned count,
                         const redlock_options *options, redlock_client **made, redlock_result *result)
{
    redlock_client *client = client_allocate(loop, own_thread, count, options);
    if (!client)
        return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for a client");
    int status = client_equip(client, result);
    if (!status)
        status = rl_nodes_open(client->nodes, addresses, result);
    if (status) {
        rl_client_destroy(client);
        return status;
    }
    start_watchers(client);
    *made = client;
    return REDLOCK_OK;
}

int rl_client_create(struct ev_loop *loop, bool own_thread, const char *nodes, const redlock_options *given,
                     redlock_client **client, redlock_result *result)
{
    redlock_options options;
    char error[256], label[REDLOCK_LABEL_SIZE];
    if (result)
        rl_result_clear(result, 0);
    int status = rl_options_read(given, &options, result);
    if (status)
        return status;
    if (!options.label) {
        rl_label_default(label);
        options.label = label;
    }
    redlock_allocator allocator = rl_memory_allocator(&options.allocator);
    unsigned most = 1; /* nodes: room for all that a list may have would stay touched in a process with one client */
    for (const char *at = nodes; at && *at && most < REDLOCK_NODES_MAX; at++)
        most += *at == ',';
    struct rl_address *addresses = rl_allocate(&allocator, most * sizeof *addresses);
    if (!addresses)
        return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for the node list");
    unsigned count = rl_address_list(nodes, addresses, error, sizeof error);
    if (count == 0)
        status = rl_result_fail(result, REDLOCK_INVALID, "%s", error);
    else
        status = client_create(loop, own_thread, addresses, count, &options, client, result);
    rl_wipe(addresses, most * sizeof *addresses);
    rl_free(&allocator, addresses);
    return status;
}

int redlock_attach(struct ev_loop *loop, const char *nodes, const redlock_options *options, redlock_client **client,
                   redlock_result *result)
{
    if (!client)
        return rl_result_fail(result, REDLOCK_INVALID, "client is NULL; pass the address of a redlock_client pointer");
    *client = NULL;
    if (!loop)
        return rl_result_fail(result, REDLOCK_INVALID, "loop is NULL; pass an ev_loop, or use redlock_connect()");
    return rl_client_create(loop, false, nodes, options, client, result);
}

/* ----------------------------------------------------------------------------------------------------------- closing */

const char *rl_client_close_text(const redlock_client *client)
{
    return client->core.options.leave_locks ? "the client is being closed, which leaves the lock to expire"
                                            : "the client is being closed, which releases the lock";
}

void rl_client_free(redlock_client *client)
{
    redlock_allocator allocator = client->core.allocator;
    rl_leases_free(&client->locks);
    rl_nodes_free(client->nodes);
    rl_timers_close(&client->core.timers);
    rl_wakeup_unref(client->core.wakeup);
    if (client->core.options.struct_size)
        rl_options_free_strings(&client->core.options);
    rl_process_free(client->core.owner);
    rl_wipe(&client->core.random, sizeof client->core.random);
    rl_free(&allocator, client);
}

/* Drops everything without a reply: at the end of a close, or in a forked child. */
static void client_drop_all(redlock_client *client)
{
    struct rl_locks *locks = &client->locks;
    rl_nodes_close(client->nodes);
    rl_renewals_drop(locks);
    rl_operations_free(client);
    assert(!locks->waiting.first); /* their operations have ended */
    rl_timer_stop(&locks->admission_timer);
    rl_queues_free(locks);
    rl_releases_drop(locks);
    rl_detached_drop(locks);
}

void rl_client_destroy(redlock_client *client)
{
    client->core.forked = true;
    if (ev_is_active(&client->prepare))
        stop_watchers(client);
    client_drop_all(client);
    rl_client_free(client);
}

void rl_client_drop(redlock_client *client)
{
    if (client->in_turn)
        client->dropped = true;
    else
        rl_client_destroy(client);
}

/* In a forked child that keeps the loop. The connections, the timers and the wake-ups are the parent's: a byte that the
 * child read or wrote would be missing or wrong there. The memory stays until the close: the caller has handles. */
static bool client_leaves_loop(redlock_client *client)
{
    if (rl_client_in_owner_process(client))
        return false;
    client->core.forked = true;
    stop_watchers(client);
    if (client->loop_thread)
        ev_break(client->core.loop, EVBREAK_ALL); /* before it polls the parent's epoll descriptor */
    if (client->dropped)
        rl_client_destroy(client);
    else
        rl_nodes_close(client->nodes);
    return true;
}

/* Whether the close waits for nodes no longer, although not all of them have replied. */
static int client_closes_early(const redlock_client *client, quorum_time now)
{
    if (rl_cancellation_ends(client->closing_cancellation, client->closing_changes))
        return REDLOCK_CANCELLED;
    return now >= client->closing_due ? REDLOCK_TIMED_OUT : REDLOCK_OK;
}

static bool client_is_done(redlock_client *client)
{
    quorum_time now = rl_now(), wake = now + 10 * QUORUM_MILLISECOND;
    bool ended = !client->operations.first && !client->operations.completed && !client->locks.leases.noticed;
    bool drained = true;
    for (unsigned i = 0; i < client->nodes->count; i++)
        drained = rl_node_is_drained(&client->nodes->node[i], client->closing_since, now) && drained;
    client->closing_early = drained ? REDLOCK_OK : client_closes_early(client, now);
    if (ended && (drained || client->closing_early))
        return true;
    if (wake > client->closing_due && client->closing_due > now)
        wake = client->closing_due;
    rl_timer_set(&client->core.timers, &client->close_timer, wake);
    return false;
}

void rl_client_fill_close_result(const redlock_client *client, redlock_result *result)
{
    rl_result_clear(result, client->nodes->count);
    for (unsigned i = 0; i < client->nodes->count; i++) {
        const struct rl_node *node = &client->nodes->node[i];
        unsigned owed = client->closing_owed[i];
        result->node[i].name = ""; /* the client is about to be freed */
        result->node[i].outcome = owed ? REDLOCK_NODE_UNREACHABLE : REDLOCK_NODE_GRANTED;
        if (owed)
            snprintf(result->node[i].text, sizeof result->node[i].text, "%.60s: %u undo%s not confirmed", node->name,
                     owed, owed == 1 ? "" : "s");
    }
    result->pending_undos = client->locks.pending_undos;
    int unconfirmed = client->closing_early ? client->closing_early : REDLOCK_NO_QUORUM;
    result->status = result->cause = client->locks.pending_undos ? unconfirmed : REDLOCK_OK;
    if (result->status)
        redlock_result_text(result);
}

static bool client_finish_if_closed(redlock_client *client)
{
    redlock_result result;
    if (!client_is_done(client))
        return false;
    for (unsigned i = 0; i < client->nodes->count; i++)
        client->closing_owed[i] = rl_node_unconfirmed_undos(&client->nodes->node[i]);
    redlock_callback closed = client->closed;
    void *arg = client->closed_arg;
    stop_watchers(client);
    rl_timer_stop(&client->close_timer);
    client_drop_all(client);
    rl_client_fill_close_result(client, &result);
    bool stays = client->loop_thread;
    if (!stays)
        rl_client_free(client);
    if (closed)
        closed(stays ? client : NULL, &result, arg);
    return true;
}

int rl_client_close(const struct rl_arguments *arguments, redlock_callback callback, void *arg)
{
    redlock_client *client = arguments->client;
    assert(!client->core.closing);
    client->closing_due = arguments->caller.due;
    client->closing_cancellation = arguments->call.cancellation;
    client->closing_changes = arguments->caller.changes;
    client->core.closing = true;
    client->closing_since = rl_now();
    client->closed = callback;
    client->closed_arg = arg;
    rl_operations_cancel(client, true);
    rl_leases_mark_lost(&client->locks, QUORUM_LEASE_CLOSED);
    rl_detached_retry(&client->locks); /* the last chance for releases that found no memory */
    rl_timer_set(&client->core.timers, &client->close_timer, client->closing_since);
    return REDLOCK_OK;
}
