/* Acquire: rounds, each with a new lease, until one is won, the time is over, or waiting does not help. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "quorum/permits.h"
#include "quorum/retry.h"
#include "src/client/acquire.h"
#include "src/client/client.h"
#include "src/client/extend.h"
#include "src/client/options.h"
#include "src/core/clock.h"
#include "src/core/histogram.h"
#include "src/core/result.h"
#include "src/core/wall.h"
#include "src/lock/detached.h"

struct acquire {
    struct rl_operation base;
    redlock_acquire_options options;
    struct quorum_retry retry;
    struct rl_timer pause; /* until the next attempt */
    struct rl_waiter waiter;
    struct quorum_fence fence;     /* of the attempt */
    struct quorum_permits permits; /* of a semaphore */
    uint64_t record;               /* the largest fencing record of the nodes that granted */
    bool raising;                  /* the attempt's round was won, and another one raises its fencing token */
    struct rl_lease *lease;        /* of the attempt in progress; then of the lock */
    redlock_lock *lock;            /* the handle; NULL until the lock is acquired */
    bool overdue;                  /* the deadline has passed: this attempt is the last */
    bool spared;                   /* the deadline was postponed once, to read replies that had arrived */
    struct rl_caller caller;
    struct rl_owner owner;
    redlock_acquire_callback callback;
    void *arg;
    struct rl_names *names; /* in `memory`, without the unused entries */
    uint64_t memory[];
};

static void leave_attempt(struct acquire *acquire)
{
    rl_round_leave(acquire->base.round);
    acquire->base.round = NULL;
    rl_lease_unref(acquire->lease);
    acquire->lease = NULL;
    acquire->raising = false;
    acquire->record = 0;
}

/* Ends the operation and its place in the queue. */
static void complete(struct acquire *acquire, int status)
{
    rl_timer_stop(&acquire->base.client->core.timers, &acquire->pause);
    rl_operation_complete(&acquire->base, status);
    rl_queue_leave(&acquire->waiter, status == REDLOCK_OK ? acquire->lease : NULL);
}

/* The semaphore's slot that this client used last, plus one; 0: none. */
static uint8_t *remembered(redlock_client *client, const struct rl_names *names)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < names->name[0].size; i++)
        hash = (hash ^ (unsigned char)names->name[0].bytes[i]) * 16777619u;
    return &client->slots[(hash ^ hash >> 16) % RL_SLOTS_REMEMBERED];
}

/* A permit has an owner only if the caller gives one: threads pass permits on to each other. */
static struct rl_owner lock_owner(const struct acquire *acquire)
{
    bool has_none = acquire->options.permits && acquire->owner.kind != RL_OWNER_GIVEN;
    return has_none ? rl_owner_none() : acquire->owner;
}

static void won(struct acquire *acquire, const struct rl_round *round)
{
    redlock_client *client = acquire->base.client;
    const redlock_acquire_options *options = &acquire->options;
    const struct rl_lease_terms terms = {
        .validity_end = round->rules.validity_end,
        .ttl_ms = options->ttl_ms,
        .renewal_percent = options->no_renewal ? 0 : client->core.options.renewal_percent,
        .cap_ms = options->cap_ms,
        .notify_before_ms = options->notify_before_ms,
        .owner = lock_owner(acquire),
        .event = options->event,
        .event_arg = options->event_arg,
    };
    if (!rl_lease_hold(acquire->lease, &terms)) {
        rl_lease_release_detached(acquire->lease);
        complete(acquire, REDLOCK_NO_MEMORY);
        return;
    }
    acquire->lock = &acquire->lease->first;
    acquire->raising = false;
    if (options->permits)
        *remembered(client, acquire->names) = (uint8_t)(acquire->permits.slot + 1);
    complete(acquire, REDLOCK_OK);
}

/* Without a wake-up from the nodes the client tries again by itself. If the deadline leaves no time for another
 * attempt, the operation still waits until then: a node may wake it. */
static void plan_next_attempt(struct acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    const struct quorum_round *round = &operation->round->rules;
    quorum_time now = rl_now();
    quorum_duration took = round->sent == QUORUM_NEVER ? 0 : quorum_time_since(round->sent, now);
    /* An attempt that a majority granted was given up because its validity was too short. */
    enum quorum_verdict verdict = round->verdict == QUORUM_WON ? QUORUM_LOST_TOO_SLOW : round->verdict;
    quorum_time next =
        quorum_retry_next(&acquire->retry, now, verdict, took, rl_random_u64(&operation->client->core.random));
    if (next != QUORUM_NEVER)
        rl_timer_set(&operation->client->core.timers, &acquire->pause, next);
}

/* The attempt has failed, and time is left: waits in the queue. */
static void wait_on(struct acquire *acquire)
{
    redlock_client *client = acquire->base.client;
    struct rl_waiter *waiter = &acquire->waiter;
    if (!waiter->queue && !rl_queue_join(&client->locks, acquire->names, waiter, acquire->options.fair))
        return;
    if (waiter->queue && !rl_queue_is_first(waiter))
        return;                 /* a reader that tried together with the first waiter */
    plan_next_attempt(acquire); /* before rl_queue_tried(), which may start an attempt */
    if (!waiter->queue)
        return;
    bool held = acquire->base.round->rules.verdict == QUORUM_LOST_HELD;
    rl_queue_tried(waiter, held, acquire->pause.set ? acquire->pause.due : acquire->retry.deadline);
    if (rl_queue_is_called(waiter))
        rl_timer_stop(&client->core.timers, &acquire->pause);
}

/* Waiting repairs neither. */
static bool needs_repair(int status)
{
    return status == REDLOCK_MISCONFIGURED || status == REDLOCK_CLOCK;
}

static void attempt(struct acquire *acquire);

/* Tries another free slot of the semaphore, if there is one. */
static bool try_next_slot(struct acquire *acquire, int cause)
{
    redlock_client *client = acquire->base.client;
    if (!acquire->options.permits || cause != REDLOCK_HELD || acquire->overdue ||
        !quorum_permits_next(&acquire->permits, rl_random_u64(&client->core.random)))
        return false;
    attempt(acquire);
    return true;
}

static void lost(struct acquire *acquire, int cause)
{
    acquire->base.cause = cause;
    if (try_next_slot(acquire, cause))
        return;
    if (acquire->overdue)
        complete(acquire, REDLOCK_TIMED_OUT);
    else if (acquire->options.wait_ms == 0 || (needs_repair(cause) && !acquire->options.keep_waiting))
        complete(acquire, cause);
    else
        wait_on(acquire);
}

static void raise_token(struct acquire *acquire);

/* A majority has the lock. true: a majority also has its fencing token, above all earlier ones. false: the token must
 * be raised. */
static bool settle_token(struct acquire *acquire)
{
    const struct quorum_fence_event event = {.type = QUORUM_FENCE_CONFIRMED};
    bool settled = quorum_fence_step(&acquire->fence, &event) == QUORUM_FENCE_SETTLED;
    quorum_fence_learn(&acquire->base.client->fence_clock, &acquire->fence);
    if (settled)
        acquire->lease->fence = acquire->fence.token;
    return settled;
}

/* Gives up a granted lock. The undo follows all its requests. */
static void give_up_lock(struct acquire *acquire, int cause)
{
    acquire->raising = false;
    rl_lease_release_detached(acquire->lease);
    lost(acquire, cause);
}

static void confirmed(struct acquire *acquire, const struct rl_round *round)
{
    if (acquire->options.shared)
        acquire->lease->fence = acquire->record; /* readers get the last writer's token */
    if (!acquire->options.fence || settle_token(acquire))
        won(acquire, round);
    else if (acquire->overdue) /* the deadline has passed while the last answers were awaited */
        give_up_lock(acquire, REDLOCK_TOO_SLOW);
    else
        raise_token(acquire);
}

static void decided(struct rl_round *round)
{
    struct acquire *acquire = round->owner;
    if (round->rules.verdict == QUORUM_WON)
        confirmed(acquire, round);
    else
        lost(acquire, rl_result_status(round->rules.verdict));
}

/* Explains "held" for a lock that is free, but not for this client. */
static void explain_refusal(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    if (vote->vote == QUORUM_HELD && reply->element[1]->integer == 0)
        rl_round_note(round, node, "free, but others wait for it");
}

static void replied(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    struct acquire *acquire = round->owner;
    const struct quorum_fence_event event = {QUORUM_FENCE_ANSWERED, node, vote->record};
    if (round->fence && vote->vote == QUORUM_GRANTED && !quorum_round_over(&round->rules))
        quorum_fence_step(&acquire->fence, &event);
    if (acquire->options.permits && vote->vote == QUORUM_HELD)
        quorum_permits_refused(&acquire->permits, vote->record);
    if (vote->vote == QUORUM_GRANTED && vote->record > acquire->record)
        acquire->record = vote->record;
    if (round->question == RL_ASK_TAKE || round->question == RL_ASK_TRY)
        explain_refusal(round, node, vote, reply);
    if (round->question == RL_ASK_TAKE)
        rl_queue_answered(&acquire->waiter, node, vote, reply);
}

/* ------------------------------------------------------------------------------------------- a larger fencing token */

static void raised(struct rl_round *round)
{
    struct acquire *acquire = round->owner;
    quorum_duration least = acquire->options.minimum_validity_ms * QUORUM_MILLISECOND;
    enum quorum_verdict verdict = round->rules.verdict;
    if (verdict == QUORUM_LOST_GONE) /* it expired meanwhile */
        give_up_lock(acquire, REDLOCK_TOO_SLOW);
    else if (verdict != QUORUM_WON)
        give_up_lock(acquire, rl_result_status(verdict));
    else if (quorum_time_until(round->rules.validity_end, rl_now()) < least)
        give_up_lock(acquire, REDLOCK_TOO_SLOW);
    else
        confirmed(acquire, round);
}

/* Sends the larger token with an extension. */
static void raise_token(struct acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    const struct quorum_terms terms = {
        .kind = QUORUM_EXTEND,
        .nodes = operation->client->nodes->count,
        .ttl = acquire->options.ttl_ms * QUORUM_MILLISECOND,
        .drift_ppm = operation->client->core.options.drift_ppm,
        .validity_end = operation->round->rules.validity_end,
    };
    struct rl_round *round = rl_round_create(&operation->client->locks, acquire->lease, RL_ASK_KEEP, &terms);
    acquire->raising = round != NULL;
    if (!round) {
        rl_lease_release_detached(acquire->lease);
        complete(acquire, REDLOCK_NO_MEMORY);
        return;
    }
    rl_round_leave(operation->round);
    operation->round = round;
    operation->attempts++;
    round->fence = acquire->fence.token;
    round->owner = acquire;
    round->decided = raised;
    round->replied = replied;
    rl_round_start(round);
}

/* -------------------------------------------------------------------------------------------------------- attempts */

/* A fair acquire that is not queued tries once. */
static enum rl_question question(const struct acquire *acquire)
{
    if (acquire->waiter.queue)
        return RL_ASK_TAKE;
    if (acquire->options.fair)
        return RL_ASK_TRY;
    return rl_lease_is_plain(acquire->lease) && !acquire->options.fence ? RL_ASK_SET : RL_ASK_GRANT;
}

static void propose(struct acquire *acquire)
{
    redlock_client *client = acquire->base.client;
    quorum_fence_init(&acquire->fence, client->nodes->count, &client->fence_clock, rl_wall_us(), rl_now());
}

static struct rl_lease *create_lease(struct acquire *acquire, int *status)
{
    redlock_client *client = acquire->base.client;
    struct quorum_permits *permits = &acquire->permits;
    if (!acquire->options.permits)
        return rl_lease_create(&client->locks, acquire->names, status);
    quorum_permits_try(permits);
    return rl_lease_create_slot(&client->locks, acquire->names, permits->permits, permits->slot, status);
}

/* Without a wait, a disconnected node has as long to reconnect as a ready node has to reply. The first connections have
 * their own timeout: a new client must not find its nodes unreachable. */
static void on_reconnecting_late(struct rl_timer *timer)
{
    struct rl_operation *operation =
        (struct rl_operation *)(void *)((char *)timer - offsetof(struct rl_operation, timer));
    if (operation->round)
        rl_round_stop_reconnecting(operation->round);
}

static void attempt(struct acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    redlock_client *client = operation->client;
    const struct rl_queue *queue = acquire->waiter.queue;
    int status = REDLOCK_NO_MEMORY;
    leave_attempt(acquire);
    rl_timer_stop(&client->core.timers, &acquire->pause);
    acquire->lease = create_lease(acquire, &status);
    const struct quorum_terms terms = {
        .kind = QUORUM_ACQUIRE,
        .nodes = client->nodes->count,
        .ttl = acquire->options.ttl_ms * QUORUM_MILLISECOND,
        .drift_ppm = client->core.options.drift_ppm,
        .minimum_validity = acquire->options.minimum_validity_ms * QUORUM_MILLISECOND,
        .all_answers = acquire->options.all_answers,
    };
    if (acquire->lease) {
        acquire->lease->shared = acquire->options.shared;
        acquire->lease->ttl_ms = acquire->options.ttl_ms;
        operation->round = rl_round_create(&client->locks, acquire->lease, question(acquire), &terms);
    }
    if (!operation->round) {
        complete(acquire, status);
        return;
    }
    operation->attempts++;
    acquire->lease->queued = queue != NULL;
    operation->round->ticket = queue ? queue->ticket : 0;
    operation->round->fair = acquire->options.fair;
    operation->round->owner = acquire;
    operation->round->decided = decided;
    operation->round->replied = replied;
    if (acquire->options.fence) {
        propose(acquire);
        operation->round->fence = acquire->fence.token;
    }
    rl_round_start(operation->round);
    if (acquire->options.wait_ms == 0 && !operation->completed && operation->round->rules.coming)
        rl_timer_set(&client->core.timers, &operation->timer,
                     quorum_time_add(rl_now(), rl_nodes_timeout(client->nodes)));
}

static void on_turn(struct rl_waiter *waiter)
{
    struct acquire *acquire = (struct acquire *)(void *)((char *)waiter - offsetof(struct acquire, waiter));
    if (!acquire->base.round || quorum_round_over(&acquire->base.round->rules))
        attempt(acquire);
}

static void on_slot_called(struct rl_waiter *waiter, unsigned slot)
{
    struct acquire *acquire = (struct acquire *)(void *)((char *)waiter - offsetof(struct acquire, waiter));
    if (!acquire->base.round || quorum_round_over(&acquire->base.round->rules))
        quorum_permits_called(&acquire->permits, slot);
}

static void on_uncalled(struct rl_waiter *waiter)
{
    struct acquire *acquire = (struct acquire *)(void *)((char *)waiter - offsetof(struct acquire, waiter));
    if (!acquire->pause.set && acquire->base.round)
        plan_next_attempt(acquire);
}

static void on_pause_over(struct rl_timer *timer)
{
    struct acquire *acquire = (struct acquire *)(void *)((char *)timer - offsetof(struct acquire, pause));
    if (rl_queue_is_called(&acquire->waiter))
        return; /* a majority can wake it by now, or a look is in progress */
    if (acquire->waiter.queue)
        rl_queue_try(&acquire->waiter);
    attempt(acquire);
}

static void stop(struct rl_operation *operation)
{
    struct acquire *acquire = (struct acquire *)operation;
    rl_timer_stop(&operation->client->core.timers, &acquire->pause);
    if (operation->round)
        rl_round_cancel(operation->round);
    if (acquire->raising)
        rl_lease_release_detached(acquire->lease);
    rl_queue_leave(&acquire->waiter, NULL);
}

/* If the loop is late, it first reads the replies that have arrived: they may grant the lock. */
static void on_deadline(struct rl_timer *timer)
{
    struct rl_operation *operation =
        (struct rl_operation *)(void *)((char *)timer - offsetof(struct rl_operation, timer));
    struct acquire *acquire = (struct acquire *)operation;
    if (operation->round && quorum_round_is_settling(&operation->round->rules)) {
        acquire->overdue = true; /* a majority has granted; the last replies have until their nodes' timeouts */
        return;
    }
    if (!acquire->spared && operation->round && rl_round_has_unread_replies(operation->round)) {
        acquire->spared = true;
        rl_timer_set(&operation->client->core.timers, timer, rl_now() + QUORUM_MILLISECOND);
        return;
    }
    stop(operation);
    rl_operation_complete(operation, REDLOCK_TIMED_OUT);
}

static void count(const struct acquire *acquire, const redlock_result *result)
{
    const struct rl_operation *operation = &acquire->base;
    redlock_statistics *statistics = &operation->client->core.statistics;
    statistics->acquires[-result->status]++;
    statistics->attempts += operation->attempts;
    if (result->status != REDLOCK_OK)
        return;
    statistics->hand_offs += acquire->lease->queued && operation->attempts > 1;
    rl_histogram_add(&statistics->acquire_latency, quorum_time_since(operation->started, operation->decided));
}

static void tell(struct rl_operation *operation, redlock_result *result)
{
    struct acquire *acquire = (struct acquire *)operation;
    redlock_client *client = operation->client;
    redlock_acquire_callback callback = acquire->callback;
    void *arg = acquire->arg;
    if (acquire->lock) {
        quorum_time end = acquire->lease->rules.validity_end;
        result->validity_ms = (int64_t)(quorum_time_until(end, operation->decided) / QUORUM_MILLISECOND);
        result->fence = acquire->lease->fence;
    }
    /* If the client began to close after the grant, it has released the lock already. */
    if (acquire->lock && client->core.closing) {
        rl_lease_end_handle(acquire->lock);
        rl_lease_unref(acquire->lease);
        acquire->lock = NULL;
        result->status = result->cause = REDLOCK_CANCELLED;
        result->validity_ms = 0;
        result->fence = 0;
    }
    count(acquire, result);
    if (acquire->lock)
        rl_lease_give(acquire->lock);
    rl_lease_unref(acquire->lease);
    callback(client, acquire->lock, result, arg);
}

static void drop(struct rl_operation *operation)
{
    struct acquire *acquire = (struct acquire *)operation;
    rl_timer_stop(&operation->client->core.timers, &acquire->pause);
    rl_lease_unref(acquire->lease);
}

static const struct rl_operation_type type = {stop, tell, NULL, NULL, drop};

/* ------------------------------------------------------------------------------------------------------ re-entry */

static void share(struct acquire *acquire)
{
    redlock_client *client = acquire->base.client;
    acquire->lock = rl_lease_share(acquire->lease, acquire->options.event, acquire->options.event_arg);
    client->core.statistics.reentered += acquire->lock != NULL;
    if (acquire->lock && !acquire->base.round)
        snprintf(acquire->base.text, sizeof acquire->base.text,
                 "done: held already by this owner: hold count %u; no node was asked", acquire->lease->holds);
    rl_operation_complete(&acquire->base, acquire->lock ? REDLOCK_OK : REDLOCK_NO_MEMORY);
}

static bool is_long_enough(const struct acquire *acquire)
{
    return rl_lease_validity(acquire->lease) >= acquire->options.minimum_validity_ms * QUORUM_MILLISECOND;
}

static bool wants_token(const struct acquire *acquire)
{
    return acquire->options.fence && !acquire->lease->fence;
}

static void extend_first(struct acquire *acquire);

static void reentry_decided(struct rl_round *round)
{
    struct acquire *acquire = round->owner;
    rl_lease_extended(acquire->lease, &round->rules);
    /* Lost, or all its handles were released meanwhile. */
    if (atomic_load(&acquire->lease->loss) || !acquire->lease->listed)
        rl_operation_complete(&acquire->base, REDLOCK_LOST);
    else if (round->rules.verdict != QUORUM_WON)
        rl_operation_complete(&acquire->base, rl_result_status(round->rules.verdict));
    else if (wants_token(acquire) && !settle_token(acquire))
        extend_first(acquire);
    else if (!is_long_enough(acquire))
        rl_operation_complete(&acquire->base, REDLOCK_TOO_SLOW);
    else
        share(acquire);
}

static void extend_first(struct acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    rl_round_leave(operation->round);
    operation->round = rl_extend_round(acquire->lease, acquire->options.ttl_ms);
    if (!operation->round) {
        rl_operation_complete(operation, REDLOCK_NO_MEMORY);
        return;
    }
    operation->attempts++;
    operation->round->owner = acquire;
    operation->round->decided = reentry_decided;
    if (wants_token(acquire)) {
        operation->round->question = RL_ASK_KEEP;
        operation->round->fence = acquire->fence.token;
        operation->round->replied = replied;
    }
    rl_round_start(operation->round);
}

/* The owner holds the lock already. Re-entry into a lost lock fails, because the outer section has lost its
 * protection. */
static void reenter(struct acquire *acquire, struct rl_lease *lease)
{
    acquire->lease = rl_lease_ref(lease);
    if (lease->shared && !acquire->options.shared) {
        snprintf(acquire->base.text, sizeof acquire->base.text,
                 "an exclusive lock can never be granted: this owner holds it shared; release that first");
        rl_operation_complete(&acquire->base, REDLOCK_INVALID);
        return;
    }
    if (rl_lease_validity(lease) == 0) {
        rl_operation_complete(&acquire->base, REDLOCK_LOST);
        return;
    }
    if (is_long_enough(acquire) && acquire->options.ttl_ms <= lease->ttl_ms && !wants_token(acquire)) {
        share(acquire);
        return;
    }
    if (wants_token(acquire))
        propose(acquire);
    extend_first(acquire);
}

/* ------------------------------------------------------------------------------------ locks that the owner prevents */

/* Refuses a lock that another lock of the owner excludes: the owner would wait for itself. */
static void refuse_own(struct acquire *acquire, const struct rl_lease *own, struct rl_text name)
{
    struct rl_operation *operation = &acquire->base;
    bool is_lost = rl_lease_validity(own) == 0;
    int shown = name.size > 64 ? 64 : (int)name.size;
    if (is_lost)
        snprintf(operation->text, sizeof operation->text,
                 "this owner lost its lock on '%.*s'; release the handles of that lock first", shown, name.bytes);
    else
        snprintf(operation->text, sizeof operation->text,
                 "the lock can never be granted: this owner holds '%.*s'%s; release that first, or acquire all of the "
                 "resources at once",
                 shown, name.bytes, own->shared ? " shared" : "");
    rl_operation_complete(operation, is_lost ? REDLOCK_LOST : REDLOCK_INVALID);
}

static void refuse_permit(struct acquire *acquire)
{
    snprintf(acquire->base.text, sizeof acquire->base.text,
             "no permit can ever be granted: this owner holds all %u permits; release one first",
             acquire->options.permits);
    rl_operation_complete(&acquire->base, REDLOCK_INVALID);
}

/* true: the owner's locks decide the acquire, by a re-entry or a refusal. */
static bool is_answered_by_own(struct acquire *acquire)
{
    redlock_client *client = acquire->base.client;
    const struct rl_names *names = acquire->names;
    const redlock_acquire_options *options = &acquire->options;
    struct rl_owner owner = lock_owner(acquire);
    struct rl_text name;
    if (owner.kind == RL_OWNER_NONE)
        return false;
    if (options->permits) { /* each acquire takes another permit */
        if (rl_leases_have_all_permits(&client->locks, names->name[0], options->permits, owner))
            refuse_permit(acquire);
        return acquire->base.completed;
    }
    struct rl_lease *own = rl_leases_find_owned(&client->locks, names, owner);
    if (own)
        reenter(acquire, own);
    else if ((own = rl_leases_find_obstacle(&client->locks, names, owner, options->shared, &name)) != NULL)
        refuse_own(acquire, own, name);
    return own != NULL;
}

/* ----------------------------------------------------------------------------------------------------------- start */

/* An acquire queues at once if it is fair, or if others of this client wait there or waited within the last second. */
static bool is_to_queue(const struct acquire *acquire)
{
    return acquire->options.fair || rl_queue_find(&acquire->base.client->locks, acquire->names);
}

/* The slot that this client used last, which is likely to be free; otherwise a random one. */
static unsigned first_slot(const struct acquire *acquire)
{
    redlock_client *client = acquire->base.client;
    unsigned slot = *remembered(client, acquire->names);
    return slot ? (slot - 1) % acquire->options.permits
                : (unsigned)(rl_random_u64(&client->core.random) % acquire->options.permits);
}

static void begin(struct acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    int64_t wait_ms = acquire->options.wait_ms;
    acquire->pause.fire = on_pause_over;
    acquire->waiter.attempt = on_turn;
    acquire->waiter.uncalled = on_uncalled;
    acquire->waiter.slot_called = on_slot_called;
    acquire->waiter.permits = acquire->options.permits;
    if (acquire->options.permits)
        quorum_permits_init(&acquire->permits, operation->client->nodes->count, acquire->options.permits,
                            first_slot(acquire));
    operation->timer.fire = wait_ms == 0 ? on_reconnecting_late : on_deadline;
    if (wait_ms > 0)
        rl_operation_wait(operation, wait_ms);
    acquire->waiter.deadline = operation->timer.set ? operation->timer.due : QUORUM_NEVER;
    quorum_retry_init(&acquire->retry, acquire->waiter.deadline);
    if (rl_operation_heed(operation, acquire->options.cancellation, &acquire->caller) || is_answered_by_own(acquire))
        return;
    if (wait_ms == 0 || !is_to_queue(acquire) ||
        rl_queue_join(&operation->client->locks, acquire->names, &acquire->waiter, acquire->options.fair))
        attempt(acquire);
}

static size_t memory_for(const struct rl_names *names)
{
    size_t memory = offsetof(struct rl_names, name) + names->count * sizeof *names->name;
    for (unsigned i = 0; i < names->count; i++)
        memory += names->name[i].size;
    return memory;
}

static void keep_names(struct acquire *acquire, const struct rl_names *names)
{
    size_t head = offsetof(struct rl_names, name) + names->count * sizeof *names->name;
    char *at = (char *)acquire->memory + head;
    acquire->names = (struct rl_names *)(void *)acquire->memory;
    memcpy(acquire->names, names, head);
    for (unsigned i = 0; i < names->count; i++) {
        memcpy(at, names->name[i].bytes, names->name[i].size);
        acquire->names->name[i].bytes = at;
        at += names->name[i].size;
    }
}

int rl_acquire_start(redlock_client *client, const char *resource, const redlock_acquire_options *given,
                     struct rl_caller caller, redlock_acquire_callback callback, void *arg)
{
    redlock_acquire_options options;
    redlock_result why;
    struct rl_names names;
    int status = rl_options_read_acquire(given, &client->core.options, &options, &why);
    if (!status)
        status = rl_cancellation_check(client, options.cancellation, &why);
    if (!status)
        status = rl_names_read(&names, resource, &options, &client->core.options, &why);
    size_t kept = status ? 0 : memory_for(&names);
    int created;
    struct acquire *acquire = (struct acquire *)rl_operation_create(client, &type, sizeof *acquire + kept, &created);
    if (!acquire)
        return created;
    acquire->options = options;
    acquire->options.fence = options.fence && !options.shared;
    acquire->waiter.shared = options.shared;
    acquire->caller = caller;
    acquire->owner = rl_owner_of(&options, caller.owner);
    acquire->callback = callback;
    acquire->arg = arg;
    if (status) {
        rl_operation_refuse(&acquire->base, &why);
        return REDLOCK_OK;
    }
    keep_names(acquire, &names);
    begin(acquire);
    return REDLOCK_OK;
}
