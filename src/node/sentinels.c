#include "src/node/sentinels.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/clock.h"
#include "src/core/memory.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"

#define OUTPUT_FIRST 1024
#define ASK_EVERY    (QUORUM_CONFIRMED_LASTS / 4)

/* The requests to a sentinel, in the order that quorum/sentinel.h needs: a failover between two of them can only make the
 * sentinel confirm less. */
enum request { AUTH, MYID, VOTE, MASTER, ADDRESS, REQUESTS };

/* Asks for the last vote, and votes for nothing: its epoch is not above any other. */
#define NO_LEADER "0000000000000000000000000000000000000000"

static void on_timer(struct rl_timer *timer);

static struct rl_core *core_of(const struct rl_sentinel *sentinel)
{
    return sentinel->group->node->nodes->core;
}

static unsigned index_of(const struct rl_sentinel *sentinel)
{
    return (unsigned)(sentinel - sentinel->group->sentinel);
}

static struct quorum_sentinel *said(struct rl_sentinel *sentinel)
{
    return &sentinel->group->rules.sentinel[index_of(sentinel)];
}

static void schedule(struct rl_sentinel *sentinel, quorum_time due)
{
    rl_timer_set(&core_of(sentinel)->timers, &sentinel->timer, due);
}

/* ---------------------------------------------------------------------------------------------------------- verdicts */

static uint32_t finding_of(enum quorum_sentinels_state state)
{
    switch (state) {
    case QUORUM_SENTINELS_SILENT:
        return REDLOCK_FINDING_SENTINELS_SILENT;
    case QUORUM_SENTINELS_UNKNOWN:
        return REDLOCK_FINDING_MASTER_UNKNOWN;
    case QUORUM_SENTINELS_FAILOVER:
        return REDLOCK_FINDING_FAILOVER;
    case QUORUM_SENTINELS_DISAGREE:
        return REDLOCK_FINDING_SENTINELS_DISAGREE;
    case QUORUM_SENTINELS_CONFIRM:
        break;
    }
    return 0;
}

const char *rl_sentinels_explain(struct rl_sentinels *sentinels, quorum_time now)
{
    uint32_t finding = finding_of(quorum_sentinels_state(&sentinels->rules, now));
    const char *why = finding ? redlock_finding_text(finding) : "the client waits for a connection to its new master";
    for (unsigned i = 0; finding == REDLOCK_FINDING_SENTINELS_SILENT && i < sentinels->rules.count; i++)
        if (sentinels->sentinel[i].attempts.error[0]) {
            snprintf(sentinels->text, sizeof sentinels->text, "too few sentinels reply; %.24s: %.44s",
                     sentinels->sentinel[i].address.name, sentinels->sentinel[i].attempts.error);
            return sentinels->text;
        }
    return why;
}

static const char *port_of(const char *named)
{
    const char *space = strchr(named, ' ');
    return space ? space + 1 : "";
}

void rl_sentinels_describe(const struct rl_sentinels *sentinels, quorum_time now, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < sentinels->rules.count && used < size; i++) {
        const struct rl_sentinel *sentinel = &sentinels->sentinel[i];
        const struct quorum_sentinel *says = &sentinels->rules.sentinel[i];
        bool current = says->sent && quorum_time_since(says->sent, now) < QUORUM_CONFIRMED_LASTS;
        used += (size_t)snprintf(text + used, size - used, "%s%s: ", i ? "; " : "", sentinel->address.name);
        if (used >= size)
            return;
        if (!current)
            used += (size_t)snprintf(text + used, size - used, "%s",
                                     sentinel->attempts.error[0] ? sentinel->attempts.error : "no reply");
        else if (says->unknown)
            used += (size_t)snprintf(text + used, size - used, "knows no such master");
        else
            used +=
                (size_t)snprintf(text + used, size - used, "%.*s:%s, epoch %llu%s%s", (int)strcspn(says->named, " "),
                                 says->named, port_of(says->named), (unsigned long long)says->config_epoch,
                                 says->failing_over ? ", leads a failover" : "",
                                 says->vote_epoch > says->config_epoch ? ", has voted for a failover" : "");
    }
}

bool rl_sentinels_may_confirm(const struct rl_sentinels *sentinels, quorum_time now)
{
    uint32_t pending = 0;
    for (unsigned i = 0; i < sentinels->rules.count; i++) {
        enum rl_sentinel_state state = sentinels->sentinel[i].state;
        bool old = quorum_time_since(sentinels->rules.sentinel[i].sent, now) >= QUORUM_CONFIRMED_LASTS;
        if (old && (state == RL_SENTINEL_ASKED || state == RL_SENTINEL_RESTING))
            pending |= UINT32_C(1) << i;
    }
    return sentinels->master[0] && quorum_sentinels_may_confirm(&sentinels->rules, sentinels->master, pending, now);
}

/* In a new client's first moments silence means nothing. */
static bool awaits_first(const struct rl_sentinels *sentinels)
{
    for (unsigned i = 0; i < sentinels->rules.count; i++)
        if (!sentinels->rules.sentinel[i].sent && !sentinels->sentinel[i].attempts.error[0])
            return true;
    return false;
}

/* The sentinels have spoken, or have been silent for too long. */
static void judge(struct rl_sentinels *sentinels, quorum_time now)
{
    const char *confirmed = quorum_sentinels_confirmed(&sentinels->rules, now);
    bool moved = confirmed && strcmp(confirmed, sentinels->master) != 0;
    if (moved)
        snprintf(sentinels->master, sizeof sentinels->master, "%s", confirmed);
    /* Sentinels that hear of the new configuration later show whether a majority has voted for it. */
    const struct rl_verdict verdict = {
        .finding = finding_of(quorum_sentinels_state(&sentinels->rules, now)),
        .pending = !confirmed && (awaits_first(sentinels) || rl_sentinels_may_confirm(sentinels, now)),
        .master = moved ? sentinels->master : NULL,
        .confirmed_until = quorum_sentinels_confirmed_until(&sentinels->rules, sentinels->master),
        .longer = quorum_sentinels_longer(&sentinels->rules, sentinels->master),
        .term = quorum_sentinels_term(&sentinels->rules, sentinels->master)};
    sentinels->judged(sentinels->node, &verdict);
}

/* --------------------------------------------------------------------------------------------------------- requests */

static bool add(struct rl_sentinel *sentinel, unsigned count, const char *const *words)
{
    struct rl_command command;
    rl_command_init(&command);
    for (unsigned i = 0; i < count; i++)
        rl_command_add_text(&command, words[i]);
    bool added = rl_command_format(&command) && rl_link_append(&sentinel->link, command.bytes, command.length);
    if (added)
        rl_link_release(&sentinel->link, command.length);
    if (command.buffer)
        rl_wipe(command.buffer, command.used); /* it may be a password */
    rl_command_free(&command);
    return added;
}

#define ADD(sentinel, ...)                                                                                             \
    add(sentinel, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), (const char *const[]){__VA_ARGS__})

static bool add_vote(struct rl_sentinel *sentinel)
{
    char host[QUORUM_MASTER_SIZE];
    memcpy(sentinel->asked, said(sentinel)->named, sizeof sentinel->asked);
    const char *space = strchr(sentinel->asked, ' ');
    if (!space) { /* it has not named an address yet: the replies are not judged */
        sentinel->asked[0] = '\0';
        return ADD(sentinel, "SENTINEL", "MYID");
    }
    snprintf(host, sizeof host, "%.*s", (int)(space - sentinel->asked), sentinel->asked);
    return ADD(sentinel, "SENTINEL", "IS-MASTER-DOWN-BY-ADDR", host, space + 1, "0", NO_LEADER);
}

/* first: on a new connection. false: no memory. */
static bool ask(struct rl_sentinel *sentinel, bool first)
{
    const char *name = sentinel->group->node->address.master;
    const struct rl_address *address = &sentinel->address;
    bool added = true, authenticates = first && address->has_password;
    sentinel->reading = (struct quorum_sentinel){.sent = rl_now()};
    sentinel->reply = authenticates ? AUTH : MYID;
    sentinel->state = RL_SENTINEL_ASKED;
    if (authenticates)
        added = address->user[0] ? ADD(sentinel, "AUTH", address->user, address->password)
                                 : ADD(sentinel, "AUTH", address->password);
    return added && ADD(sentinel, "SENTINEL", "MYID") && add_vote(sentinel) &&
           ADD(sentinel, "SENTINEL", "MASTER", name) && ADD(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name);
}

/* ---------------------------------------------------------------------------------------------------------- replies */

/* The connection has ended, or there is none. What the sentinel said last counts until it is too old. */
static void fail(struct rl_sentinel *sentinel, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct rl_sentinel *sentinel, const char *format, ...)
{
    char why[RL_LINK_TEXT_SIZE];
    bool connecting = sentinel->connecting, was_up = said(sentinel)->sent && !sentinel->attempts.error[0];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    memcpy(sentinel->attempts.error, why, sizeof sentinel->attempts.error);
    rl_link_close(&sentinel->link);
    sentinel->state = RL_SENTINEL_BACKOFF;
    sentinel->connecting = false;
    schedule(sentinel, rl_attempts_failed(&sentinel->attempts, core_of(sentinel), connecting, was_up));
    if (was_up || sentinel->attempts.failures == 1)
        rl_log(core_of(sentinel), REDLOCK_LOG_WARNING, "%s: sentinel %s: %s", sentinel->group->node->name,
               sentinel->address.name, sentinel->attempts.error);
    judge(sentinel->group, rl_now());
}

static const char *text_of(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING ? reply->str : "";
}

static uint64_t number_of(const char *text)
{
    return strtoull(text, NULL, 10);
}

static void take_vote(struct rl_sentinel *sentinel, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || reply->element[2]->type != REDIS_REPLY_INTEGER) {
        sentinel->asked[0] = '\0'; /* its vote is not known */
        return;
    }
    const char *leader = text_of(reply->element[1]);
    sentinel->reading.vote_epoch = (uint64_t)reply->element[2]->integer;
    if (strcmp(leader, "*") != 0)
        snprintf(sentinel->reading.leader, sizeof sentinel->reading.leader, "%s", leader);
}

/* Fields and values in turn. */
static void take_master(struct rl_sentinel *sentinel, const redisReply *reply)
{
    bool has_epoch = false;
    sentinel->reading.unknown = reply->type == REDIS_REPLY_ERROR;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const char *field = text_of(reply->element[i]), *value = text_of(reply->element[i + 1]);
        if (strcmp(field, "flags") == 0)
            sentinel->reading.failing_over = strstr(value, "failover_in_progress");
        else if (strcmp(field, "num-other-sentinels") == 0)
            sentinel->reading.others = number_of(value) < 1000 ? (unsigned)number_of(value) : 1000;
        else if (strcmp(field, "config-epoch") == 0) {
            sentinel->reading.config_epoch = number_of(value);
            has_epoch = true;
        }
    }
    if (!has_epoch)
        sentinel->asked[0] = '\0';
}

static void take_address(struct rl_sentinel *sentinel, const redisReply *reply)
{
    char *named = sentinel->reading.named;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return;
    const char *host = text_of(reply->element[0]), *port = text_of(reply->element[1]);
    for (const char *c = host; *c; c++)
        if (*c <= ' ' || *c == 127)
            return; /* it would be shown */
    if (!host[0] || number_of(port) == 0 || number_of(port) > UINT16_MAX || strlen(host) >= RL_HOST_SIZE)
        return;
    snprintf(named, sizeof sentinel->reading.named, "%s %u", host, (unsigned)number_of(port));
}

/* All replies have arrived. A vote counts for the address that it was asked for: if the sentinel names another one, it is
 * asked again at once. */
static void finish(struct rl_sentinel *sentinel, quorum_time now)
{
    struct quorum_sentinel *reading = &sentinel->reading;
    bool knows_vote = reading->unknown || (sentinel->asked[0] && strcmp(sentinel->asked, reading->named) == 0);
    bool moved = reading->named[0] && strcmp(said(sentinel)->named, reading->named) != 0;
    rl_attempts_succeeded(&sentinel->attempts, now);
    sentinel->state = RL_SENTINEL_RESTING;
    if (!knows_vote)
        reading->sent = 0;
    *said(sentinel) = *reading;
    quorum_time next = quorum_time_add(now, ASK_EVERY);
    schedule(sentinel, moved && !knows_vote ? now : next);
    judge(sentinel->group, now);
}

static void take(struct rl_sentinel *sentinel, const redisReply *reply)
{
    char text[RL_LINK_TEXT_SIZE];
    enum rl_reply_error error = rl_reply_error(reply);
    /* Only a failover that was given up needs its ID, which Redis 6.2 and later show. */
    if (error == RL_ERROR_CREDENTIALS || (error == RL_ERROR_NOT_PERMITTED && sentinel->reply != MYID)) {
        /* A sentinel without a password refuses one, and needs none. */
        if (sentinel->reply == AUTH && strstr(reply->str, "without any password"))
            return;
        rl_reply_text(reply, text, sizeof text);
        fail(sentinel, "%.64s", text);
        return;
    }
    if (sentinel->reply == MASTER && error == RL_ERROR_UNKNOWN_COMMAND) {
        fail(sentinel, "it is no Sentinel");
        return;
    }
    if (sentinel->reply == MYID)
        snprintf(sentinel->reading.id, sizeof sentinel->reading.id, "%s", text_of(reply));
    else if (sentinel->reply == VOTE)
        take_vote(sentinel, reply);
    else if (sentinel->reply == MASTER)
        take_master(sentinel, reply);
    else if (sentinel->reply == ADDRESS)
        take_address(sentinel, reply);
}

/* ------------------------------------------------------------------------------------------------------- connection */

static struct rl_sentinel *sentinel_of(const struct rl_link *link)
{
    return (struct rl_sentinel *)(void *)((char *)(uintptr_t)link - offsetof(struct rl_sentinel, link));
}

/* The requests leave now. */
static void on_connected(struct rl_link *link)
{
    struct rl_sentinel *sentinel = sentinel_of(link);
    sentinel->connecting = false;
    sentinel->reading.sent = rl_now();
}

static bool expects_reply(const struct rl_link *link)
{
    return sentinel_of(link)->state == RL_SENTINEL_ASKED;
}

static void on_replied(struct rl_link *link, const redisReply *reply)
{
    struct rl_sentinel *sentinel = sentinel_of(link);
    if (sentinel->state != RL_SENTINEL_ASKED) {
        fail(sentinel, "sent a reply to no request");
        return;
    }
    take(sentinel, reply);
    if (sentinel->state == RL_SENTINEL_ASKED && ++sentinel->reply == REQUESTS)
        finish(sentinel, rl_now());
}

static void on_ended(struct rl_link *link, const struct rl_link_end *why)
{
    fail(sentinel_of(link), "%s", why->text);
}

static void connect_now(struct rl_sentinel *sentinel)
{
    static const struct rl_link_type type = {.reply_max = RL_REPLY_MAX,
                                             .connected = on_connected,
                                             .expects = expects_reply,
                                             .replied = on_replied,
                                             .ended = on_ended};
    struct rl_link_target target =
        rl_attempts_target(&sentinel->attempts, &sentinel->address, sentinel->group->node->nodes->tls);
    struct rl_link_end why;
    sentinel->connecting = true;
    schedule(sentinel, quorum_time_add(rl_now(), sentinel->attempts.timeout));
    if (!rl_link_open(&sentinel->link, &type, &target, &why))
        fail(sentinel, "%s", why.text);
    else if (!ask(sentinel, true))
        fail(sentinel, "no memory for the requests");
}

static void resolved(struct rl_sentinel *sentinel)
{
    bool found;
    if (sentinel->state != RL_SENTINEL_RESOLVING || !rl_attempts_take_name(&sentinel->attempts, &found))
        return;
    if (found)
        connect_now(sentinel);
    else
        fail(sentinel, "%s", sentinel->attempts.resolution->error);
}

void rl_sentinels_resolved(struct rl_sentinels *sentinels)
{
    for (unsigned i = 0; i < sentinels->rules.count; i++)
        resolved(&sentinels->sentinel[i]);
}

static void start(struct rl_sentinel *sentinel)
{
    if (!rl_attempts_need_name(&sentinel->attempts, &sentinel->address)) {
        connect_now(sentinel);
        return;
    }
    sentinel->state = RL_SENTINEL_RESOLVING;
    schedule(sentinel, quorum_time_add(rl_now(), sentinel->attempts.timeout));
    if (rl_attempts_resolve(&sentinel->attempts, &sentinel->address, core_of(sentinel)->wakeup))
        resolved(sentinel);
    else
        fail(sentinel, "cannot resolve the name: no thread or no memory");
}

static void on_timer(struct rl_timer *timer)
{
    struct rl_sentinel *sentinel = (struct rl_sentinel *)(void *)((char *)timer - offsetof(struct rl_sentinel, timer));
    quorum_duration timeout = sentinel->attempts.timeout;
    switch (sentinel->state) {
    case RL_SENTINEL_BACKOFF:
        start(sentinel);
        break;
    case RL_SENTINEL_RESOLVING:
    case RL_SENTINEL_ASKED:
        fail(sentinel, "no %s within %llu ms",
             sentinel->state == RL_SENTINEL_RESOLVING ? "address"
             : sentinel->connecting                   ? "connection"
                                                      : "reply",
             (unsigned long long)(timeout / QUORUM_MILLISECOND));
        break;
    case RL_SENTINEL_RESTING:
        schedule(sentinel, quorum_time_add(rl_now(), timeout));
        if (!ask(sentinel, false))
            fail(sentinel, "no memory for the requests");
        break;
    }
}

bool rl_sentinels_open(struct rl_node *node, void (*judged)(struct rl_node *node, const struct rl_verdict *verdict))
{
    unsigned count = node->address.sentinel_count;
    struct rl_core *core = node->nodes->core;
    struct rl_sentinels *sentinels =
        rl_allocate(&core->allocator, sizeof *sentinels + count * sizeof *sentinels->sentinel);
    node->sentinels = sentinels;
    if (!sentinels)
        return false;
    sentinels->node = node;
    sentinels->judged = judged;
    quorum_sentinels_init(&sentinels->rules, count);
    for (unsigned i = 0; i < count; i++) {
        struct rl_sentinel *sentinel = &sentinels->sentinel[i];
        sentinel->group = sentinels;
        rl_address_sentinel(&node->address, i, &sentinel->address);
        sentinel->attempts.timeout = node->attempts.timeout;
        sentinel->timer.fire = on_timer;
        if (!rl_link_init(&sentinel->link, &node->nodes->writes, OUTPUT_FIRST))
            return false;
        schedule(sentinel, rl_now());
    }
    return true;
}

void rl_sentinels_close(struct rl_sentinels *sentinels)
{
    for (unsigned i = 0; i < sentinels->rules.count; i++) {
        struct rl_sentinel *sentinel = &sentinels->sentinel[i];
        if (!sentinel->group)
            return; /* the set was not opened */
        rl_timer_stop(&core_of(sentinel)->timers, &sentinel->timer);
        rl_link_close(&sentinel->link);
        rl_attempts_end(&sentinel->attempts);
        rl_wipe(sentinel->address.user, sizeof sentinel->address.user);
        rl_wipe(sentinel->address.password, sizeof sentinel->address.password);
    }
}

void rl_sentinels_free(struct rl_node *node)
{
    struct rl_sentinels *sentinels = node->sentinels;
    if (!sentinels)
        return;
    for (unsigned i = 0; i < sentinels->rules.count; i++)
        rl_link_free(&sentinels->sentinel[i].link);
    rl_core_free(node->nodes->core, sentinels);
    node->sentinels = NULL;
}
