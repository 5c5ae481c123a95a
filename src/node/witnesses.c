#include "src/node/witnesses.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/node/nodes.h"
#include "src/node/reply.h"

#define ASK_EVERY (QUORUM_CONFIRMED_LASTS / 2)

/* What a witness said last is shown for longer than it counts: a reply that is late once is no silence. */
#define SHOWN (2 * QUORUM_CONFIRMED_LASTS)

/* What a witness is asked. The epoch comes ahead of the address: a failover between them shows the new master with the
 * old epoch, which no majority confirms. */
enum request { AUTH, NODES, MYID, MASTER, ADDRESS, REQUESTS };

static struct rl_core *core_of(const struct rl_witness *witness)
{
    return witness->group->node->nodes->core;
}

static unsigned index_of(const struct rl_witness *witness)
{
    return (unsigned)(witness - witness->group->witness);
}

static struct quorum_witness *said(struct rl_witness *witness)
{
    return &witness->group->rules.witness[index_of(witness)];
}

static bool is_cluster(const struct rl_witnesses *witnesses)
{
    return witnesses->node->address->cluster;
}

static void schedule(struct rl_witness *witness, quorum_time due)
{
    rl_timer_set(&core_of(witness)->timers, &witness->timer, due);
}

/* The client asks the witnesses in turn, each ASK_EVERY after its last requests: so it learns of a failover from one of them
 * soon after a majority has, and a reply may take as long as ASK_EVERY, because the pause does not begin with it. */
static quorum_time next_turn(const struct rl_witness *witness)
{
    const struct rl_witnesses *group = witness->group;
    quorum_duration turn = (group->turns + index_of(witness) * ASK_EVERY / group->rules.count) % ASK_EVERY;
    quorum_time sent = witness->reading.sent;
    return quorum_time_add(sent, ASK_EVERY - (sent + ASK_EVERY - turn) % ASK_EVERY);
}

/* ---------------------------------------------------------------------------------------------------------- verdicts */

static uint32_t finding_of(enum quorum_witnesses_state state)
{
    switch (state) {
    case QUORUM_WITNESSES_SILENT:
        return REDLOCK_FINDING_WITNESSES_SILENT;
    case QUORUM_WITNESSES_UNKNOWN:
        return REDLOCK_FINDING_MASTER_UNKNOWN;
    case QUORUM_WITNESSES_FAILOVER:
        return REDLOCK_FINDING_FAILOVER;
    case QUORUM_WITNESSES_DISAGREE:
        return REDLOCK_FINDING_WITNESSES_DISAGREE;
    case QUORUM_WITNESSES_CONFIRM:
        break;
    }
    return 0;
}

const char *rl_witnesses_explain(struct rl_witnesses *witnesses, quorum_time now)
{
    uint32_t finding = finding_of(quorum_witnesses_state(&witnesses->rules, now));
    const char *why = finding ? redlock_finding_text(finding) : "the client waits for a connection to its new master";
    for (unsigned i = 0; finding == REDLOCK_FINDING_WITNESSES_SILENT && i < witnesses->rules.count; i++)
        if (witnesses->witness[i].attempts.error[0]) {
            snprintf(witnesses->text, sizeof witnesses->text, "too few %s reply; %.24s: %.44s",
                     is_cluster(witnesses) ? "masters" : "sentinels", witnesses->witness[i].address.name,
                     witnesses->witness[i].attempts.error);
            return witnesses->text;
        }
    return why;
}

static const char *port_of(const char *named)
{
    const char *space = strchr(named, ' ');
    return space ? space + 1 : "";
}

void rl_witnesses_describe(const struct rl_witnesses *witnesses, quorum_time now, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < witnesses->rules.count && used < size; i++) {
        const struct rl_witness *witness = &witnesses->witness[i];
        const struct quorum_witness *says = &witnesses->rules.witness[i];
        bool current = says->sent && quorum_time_since(says->sent, now) < SHOWN;
        used += (size_t)snprintf(text + used, size - used, "%s%s: ", i ? "; " : "", witness->address.name);
        if (used >= size)
            return;
        if (!current)
            used += (size_t)snprintf(text + used, size - used, "%s",
                                     witness->attempts.error[0] ? witness->attempts.error : "no reply");
        else if (says->unknown)
            used += (size_t)snprintf(text + used, size - used,
                                     is_cluster(witnesses) ? "knows no master of the slot" : "knows no such master");
        else if (!says->named[0])
            used += (size_t)snprintf(text + used, size - used, "names no usable address");
        else
            used += (size_t)snprintf(text + used, size - used, "%.*s:%s, epoch %llu%s", (int)strcspn(says->named, " "),
                                     says->named, port_of(says->named), (unsigned long long)says->epoch,
                                     says->observes ? ", does not count" : "");
    }
}

bool rl_witnesses_may_confirm(const struct rl_witnesses *witnesses, quorum_time now)
{
    uint32_t pending = 0;
    for (unsigned i = 0; i < witnesses->rules.count; i++) {
        const struct rl_witness *witness = &witnesses->witness[i];
        bool replies = !witness->attempts.error[0]; /* to its last requests; otherwise no reply is on the way */
        bool old = quorum_time_since(witnesses->rules.witness[i].sent, now) >= QUORUM_CONFIRMED_LASTS;
        if (old && replies && (witness->state == RL_WITNESS_ASKED || witness->state == RL_WITNESS_RESTING))
            pending |= UINT32_C(1) << i;
    }
    return witnesses->master[0] && quorum_witnesses_may_confirm(&witnesses->rules, witnesses->master, pending, now);
}

/* In a new client's first moments silence means nothing. */
static bool awaits_first(const struct rl_witnesses *witnesses)
{
    for (unsigned i = 0; i < witnesses->rules.count; i++)
        if (!witnesses->rules.witness[i].sent && !witnesses->witness[i].attempts.error[0])
            return true;
    return false;
}

/* The witnesses have spoken, or have been silent for too long. */
static void judge(struct rl_witnesses *witnesses, quorum_time now)
{
    const struct quorum_confirmation says = quorum_witnesses_confirmation(&witnesses->rules);
    bool confirmed = says.until > now, moved = confirmed && strcmp(says.address, witnesses->master) != 0;
    if (moved)
        snprintf(witnesses->master, sizeof witnesses->master, "%s", says.address);
    const struct rl_verdict verdict = {.finding = finding_of(quorum_witnesses_state(&witnesses->rules, now)),
                                       .pending = !confirmed &&
                                                  (awaits_first(witnesses) || rl_witnesses_may_confirm(witnesses, now)),
                                       .master = moved ? witnesses->master : NULL,
                                       .confirmed_until = confirmed ? says.until : 0,
                                       .term = confirmed ? says.epoch : 0};
    witnesses->judged(witnesses->node, &verdict);
}

/* --------------------------------------------------------------------------------------------------------- requests */

/* Up to three words; the next ones are NULL. */
static bool send(struct rl_witness *witness, const char *first, const char *second, const char *third)
{
    struct rl_command command;
    bool sent = rl_command_words(&command, first, second, third, NULL) &&
                rl_link_send(&witness->link, command.bytes, command.length);
    rl_command_free(&command);
    return sent;
}

/* Sentinels have credentials of their own, the servers of a cluster the node's. 1: sent, 0: there are none, -1: none could be
 * had, or no memory. */
static int authenticate(struct rl_witness *witness)
{
    struct rl_node *node = witness->group->node;
    bool cluster = is_cluster(witness->group);
    char user[RL_USER_SIZE];
    struct rl_command command;
    if (!cluster && !witness->address.has_password)
        return 0;
    rl_command_init(&command);
    int needed = rl_attempts_auth(&core_of(witness)->options, cluster ? node->address : &witness->address, &command,
                                  cluster ? node->facts.user : user);
    if (needed > 0 && !rl_link_send(&witness->link, command.bytes, command.length))
        needed = -1;
    rl_attempts_auth_free(&command);
    return needed;
}

/* first: on a new connection. false: no credentials or no memory. */
static bool ask(struct rl_witness *witness, bool first)
{
    const char *name = witness->group->node->address->master;
    bool cluster = is_cluster(witness->group);
    int authenticates = first ? authenticate(witness) : 0;
    witness->reading = (struct quorum_witness){.sent = rl_now()};
    witness->state = RL_WITNESS_ASKED;
    witness->reply = authenticates ? AUTH : cluster ? NODES : MYID;
    if (authenticates < 0)
        return false;
    if (cluster)
        return send(witness, "CLUSTER", "NODES", NULL);
    return send(witness, "SENTINEL", "MYID", NULL) && send(witness, "SENTINEL", "MASTER", name) &&
           send(witness, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name);
}

/* ---------------------------------------------------------------------------------------------------------- replies */

/* The connection has ended, or there is none. What the witness said last counts until it is too old. */
static void __attribute__((format(printf, 2, 3))) fail(struct rl_witness *witness, const char *format, ...)
{
    char why[RL_LINK_TEXT_SIZE];
    bool connecting = witness->connecting, was_up = said(witness)->sent && !witness->attempts.error[0];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    memcpy(witness->attempts.error, why, sizeof witness->attempts.error);
    rl_link_close(&witness->link);
    witness->state = RL_WITNESS_BACKOFF;
    if (quorum_time_since(said(witness)->sent, rl_now()) >= QUORUM_CONFIRMED_LASTS)
        *said(witness) = (struct quorum_witness){0}; /* it may have left the cluster, and what it knew counts no more */
    witness->connecting = false;
    schedule(witness, rl_attempts_failed(&witness->attempts, core_of(witness), connecting, was_up));
    if (was_up || witness->attempts.failures == 1)
        rl_log(core_of(witness), REDLOCK_LOG_WARNING, "%s: witness %s: %s", witness->group->node->name,
               witness->address.name, witness->attempts.error);
    judge(witness->group, rl_now());
}

static const char *text_of(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING ? reply->str : "";
}

static uint64_t number_of(const char *text)
{
    return strtoull(text, NULL, 10);
}

/* Fields and values in turn. */
static void take_master(struct rl_witness *witness, const redisReply *reply)
{
    witness->reading.unknown = true;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const char *field = text_of(reply->element[i]), *value = text_of(reply->element[i + 1]);
        if (strcmp(field, "num-other-sentinels") == 0)
            witness->reading.others = number_of(value) < 1000 ? (unsigned)number_of(value) : 1000;
        else if (strcmp(field, "config-epoch") == 0) {
            witness->reading.epoch = number_of(value);
            witness->reading.unknown = false;
        }
    }
}

static bool is_address(const char *host, size_t size, uint64_t port)
{
    for (size_t i = 0; i < size; i++)
        if (host[i] <= ' ' || host[i] == 127)
            return false; /* it would be shown */
    return size > 0 && size < RL_HOST_SIZE && port > 0 && port <= UINT16_MAX;
}

static void take_address(struct rl_witness *witness, const redisReply *reply)
{
    char *named = witness->reading.named;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return;
    const char *host = text_of(reply->element[0]), *port = text_of(reply->element[1]);
    if (is_address(host, strlen(host), number_of(port)))
        snprintf(named, sizeof witness->reading.named, "%s %u", host, (unsigned)number_of(port));
}

/* ---------------------------------------------------------------------------------------------------------- clusters */

/* A line of CLUSTER NODES: id host:port@bus[,hostname] flags master ping pong epoch link slots... */
struct member {
    struct rl_text id, host, flags, slots;
    uint64_t port, epoch;
};

static struct rl_text take_word(const char **at, const char *end)
{
    const char *begin = *at, *space = memchr(begin, ' ', (size_t)(end - begin));
    *at = space ? space + 1 : end;
    return (struct rl_text){begin, (size_t)((space ? space : end) - begin)};
}

static uint64_t digits(struct rl_text text)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.size && text.bytes[i] >= '0' && text.bytes[i] <= '9' && number < UINT32_MAX; i++)
        number = number * 10 + (uint64_t)(text.bytes[i] - '0');
    return number;
}

static bool has_flag(struct rl_text flags, const char *flag)
{
    size_t size = strlen(flag);
    for (size_t at = 0; at < flags.size;) {
        const char *comma = memchr(flags.bytes + at, ',', flags.size - at);
        size_t length = comma ? (size_t)(comma - flags.bytes) - at : flags.size - at;
        if (length == size && memcmp(flags.bytes + at, flag, size) == 0)
            return true;
        at += length + 1;
    }
    return false;
}

/* An announced name is preferred: a certificate has it. */
static void take_place(struct member *member, struct rl_text place)
{
    const char *end = place.bytes + place.size, *bus = memchr(place.bytes, '@', place.size), *colon = NULL;
    const char *comma = memchr(place.bytes, ',', place.size);
    const char *own = bus ? bus : comma ? comma : end;
    for (const char *c = place.bytes; c < own; c++)
        colon = *c == ':' ? c : colon;
    if (!colon)
        return;
    member->host = (struct rl_text){place.bytes, (size_t)(colon - place.bytes)};
    member->port = digits((struct rl_text){colon + 1, (size_t)(own - colon - 1)});
    if (comma) {
        const char *name = comma + 1, *next = memchr(name, ',', (size_t)(end - name));
        size_t size = (size_t)((next ? next : end) - name);
        if (size > 0 && !memchr(name, '=', size))
            member->host = (struct rl_text){name, size};
    }
}

/* false: it has no more lines. */
static bool take_member(const char **at, const char *end, struct member *member)
{
    while (*at < end && **at == '\n')
        ++*at;
    if (*at >= end)
        return false;
    const char *newline = memchr(*at, '\n', (size_t)(end - *at)), *line_end = newline ? newline : end;
    memset(member, 0, sizeof *member);
    member->id = take_word(at, line_end);
    take_place(member, take_word(at, line_end));
    member->flags = take_word(at, line_end);
    for (unsigned i = 0; i < 3; i++)
        take_word(at, line_end);
    member->epoch = digits(take_word(at, line_end));
    take_word(at, line_end);
    member->slots = (struct rl_text){*at, (size_t)(line_end - *at)};
    *at = line_end;
    return true;
}

/* Whether it serves this slot; any: any slot. Those that migrate are in brackets: [slot->-id]. */
static bool serves(const struct member *member, unsigned slot, bool any)
{
    const char *at = member->slots.bytes, *end = at + member->slots.size;
    while (at < end && has_flag(member->flags, "master")) {
        struct rl_text range = take_word(&at, end);
        if (range.size == 0 || range.bytes[0] == '[')
            continue;
        const char *dash = memchr(range.bytes, '-', range.size);
        uint64_t first = digits(range), last = first;
        if (dash)
            last = digits((struct rl_text){dash + 1, (size_t)(range.bytes + range.size - dash - 1)});
        if (any || (first <= slot && slot <= last))
            return true;
    }
    return false;
}

/* The entry of a server that is no master of this cluster; `room`: none. */
static unsigned spare(const struct rl_witnesses *witnesses, const char *nodes, const char *end)
{
    struct member member;
    if (witnesses->rules.count < witnesses->room)
        return witnesses->rules.count;
    for (unsigned i = 0; i < witnesses->rules.count; i++) {
        bool is_master = witnesses->witness[i].state == RL_WITNESS_ASKED; /* it may be the one that says this */
        for (const char *at = nodes; take_member(&at, end, &member);)
            is_master =
                is_master || (rl_text_is(member.id, witnesses->rules.witness[i].id) && serves(&member, 0, true));
        if (!is_master)
            return i;
    }
    return witnesses->room;
}

static void adopt(struct rl_witnesses *witnesses, const struct member *member, const char *nodes, const char *end)
{
    for (unsigned i = 0; i < witnesses->rules.count; i++) {
        const struct rl_address *address = &witnesses->witness[i].address;
        if (rl_text_is(member->id, witnesses->rules.witness[i].id) ||
            (rl_text_is(member->host, address->host) && address->port == member->port))
            return;
    }
    unsigned i = spare(witnesses, nodes, end);
    if (i == witnesses->room)
        return;
    struct rl_witness *witness = &witnesses->witness[i];
    rl_link_close(&witness->link);
    rl_attempts_end(&witness->attempts);
    witness->attempts = (struct rl_attempts){.timeout = witness->attempts.timeout};
    rl_address_set(&witness->address, member->host.bytes, member->host.size, (uint16_t)member->port);
    witness->address.tls = witnesses->node->address->tls;
    witnesses->rules.witness[i] = (struct quorum_witness){0};
    witnesses->rules.count += i == witnesses->rules.count;
    witness->state = RL_WITNESS_BACKOFF;
    schedule(witness, rl_now());
}

/* Masters that are not asked yet. */
static void adopt_masters(struct rl_witnesses *witnesses, const char *nodes, const char *end)
{
    struct member member;
    for (const char *at = nodes; take_member(&at, end, &member);)
        if (serves(&member, 0, true) && !has_flag(member.flags, "myself") &&
            is_address(member.host.bytes, member.host.size, member.port))
            adopt(witnesses, &member, nodes, end);
}

/* A majority without the master itself. */
#define MASTERS_LEAST 3

static void take_nodes(struct rl_witness *witness, const redisReply *reply)
{
    struct quorum_witness *reading = &witness->reading;
    unsigned masters = 0;
    bool counts = false;
    struct member member;
    if (reply->type != REDIS_REPLY_STRING) {
        fail(witness, "it is not in cluster mode");
        return;
    }
    const char *nodes = reply->str, *end = reply->str + reply->len;
    reading->unknown = true;
    for (const char *at = nodes; take_member(&at, end, &member);) {
        bool is_master = serves(&member, 0, true), owns = serves(&member, witness->group->slot, false);
        bool itself = has_flag(member.flags, "myself");
        masters += is_master;
        if (itself)
            snprintf(reading->id, sizeof reading->id, "%.*s", (int)member.id.size, member.id.bytes);
        counts = counts || (itself && is_master && !owns);
        if (!owns)
            continue;
        reading->unknown = false;
        reading->epoch = member.epoch;
        if (is_address(member.host.bytes, member.host.size, member.port))
            snprintf(reading->named, sizeof reading->named, "%.*s %u", (int)member.host.size, member.host.bytes,
                     (unsigned)member.port);
    }
    reading->observes = !counts;
    if (masters < MASTERS_LEAST || masters > QUORUM_WITNESSES_MAX) {
        fail(witness, "its cluster has %u masters with slots; 3 to %d are needed", masters, QUORUM_WITNESSES_MAX);
        return;
    }
    reading->others = masters - 1;
    adopt_masters(witness->group, nodes, end);
}

/* ------------------------------------------------------------------------------------------------- end of the replies */

/* All replies have arrived. */
static void finish(struct rl_witness *witness, quorum_time now)
{
    rl_attempts_succeeded(&witness->attempts, now);
    witness->state = RL_WITNESS_RESTING;
    *said(witness) = witness->reading;
    schedule(witness, next_turn(witness));
    judge(witness->group, now);
}

static void take(struct rl_witness *witness, const redisReply *reply)
{
    char text[RL_LINK_TEXT_SIZE];
    enum rl_reply_error error = rl_reply_error(reply);
    /* The ID only tells two names of one Sentinel; Redis 6.2 and later show it. */
    if (error == RL_ERROR_CREDENTIALS || (error == RL_ERROR_NOT_PERMITTED && witness->reply != MYID)) {
        /* A witness without a password refuses one, and needs none. */
        if (witness->reply == AUTH && strstr(reply->str, "without any password"))
            return;
        rl_reply_text(reply, text, sizeof text);
        fail(witness, "%.64s", text);
        return;
    }
    if (witness->reply == MASTER && error == RL_ERROR_UNKNOWN_COMMAND) {
        fail(witness, "it is no Sentinel");
        return;
    }
    if (witness->reply == NODES)
        take_nodes(witness, reply);
    else if (witness->reply == MYID)
        snprintf(witness->reading.id, sizeof witness->reading.id, "%s", text_of(reply));
    else if (witness->reply == MASTER)
        take_master(witness, reply);
    else if (witness->reply == ADDRESS)
        take_address(witness, reply);
}

/* ------------------------------------------------------------------------------------------------------- connection */

static struct rl_witness *witness_of(const struct rl_link *link)
{
    return (struct rl_witness *)(void *)((char *)(uintptr_t)link - offsetof(struct rl_witness, link));
}

/* The requests leave now. */
static void on_connected(struct rl_link *link)
{
    struct rl_witness *witness = witness_of(link);
    witness->connecting = false;
    witness->reading.sent = rl_now();
}

static bool expects_reply(const struct rl_link *link)
{
    return witness_of(link)->state == RL_WITNESS_ASKED;
}

static void on_replied(struct rl_link *link, const redisReply *reply)
{
    struct rl_witness *witness = witness_of(link);
    if (witness->state != RL_WITNESS_ASKED) {
        fail(witness, "sent a reply to no request");
        return;
    }
    take(witness, reply);
    if (witness->state != RL_WITNESS_ASKED)
        return;
    bool cluster = is_cluster(witness->group);
    witness->reply = witness->reply == AUTH && !cluster ? MYID : witness->reply + 1;
    if (witness->reply == (cluster ? MYID : REQUESTS))
        finish(witness, rl_now());
}

static void on_ended(struct rl_link *link, const struct rl_link_end *why)
{
    fail(witness_of(link), "%s", why->text);
}

static void connect_now(struct rl_witness *witness)
{
    static const struct rl_link_type type = {.reply_max = RL_REPLY_MAX,
                                             .connected = on_connected,
                                             .expects = expects_reply,
                                             .replied = on_replied,
                                             .ended = on_ended};
    struct rl_link_target target =
        rl_attempts_target(&witness->attempts, &witness->address, witness->group->node->nodes->tls);
    struct rl_link_end why;
    witness->connecting = true;
    schedule(witness, quorum_time_add(rl_now(), witness->attempts.timeout));
    if (!rl_link_open(&witness->link, &type, &target, &why))
        fail(witness, "%s", why.text);
    else if (!ask(witness, true))
        fail(witness, "no credentials or no memory for the requests");
}

static void resolved(struct rl_witness *witness)
{
    const char *error;
    if (witness->state != RL_WITNESS_RESOLVING || !rl_attempts_take_name(&witness->attempts, &error))
        return;
    if (!*error)
        connect_now(witness);
    else
        fail(witness, "%s", error);
}

void rl_witnesses_resolved(struct rl_witnesses *witnesses)
{
    for (unsigned i = 0; i < witnesses->rules.count; i++)
        resolved(&witnesses->witness[i]);
}

static void start(struct rl_witness *witness)
{
    if (!rl_attempts_need_name(&witness->attempts, &witness->address)) {
        connect_now(witness);
        return;
    }
    witness->state = RL_WITNESS_RESOLVING;
    schedule(witness, quorum_time_add(rl_now(), witness->attempts.timeout));
    if (rl_attempts_resolve(&witness->attempts, &witness->address, core_of(witness)->wakeup))
        resolved(witness);
    else
        fail(witness, "cannot resolve the name: no thread or no memory");
}

static void on_timer(struct rl_timer *timer)
{
    struct rl_witness *witness = (struct rl_witness *)(void *)((char *)timer - offsetof(struct rl_witness, timer));
    quorum_duration timeout = witness->attempts.timeout;
    switch (witness->state) {
    case RL_WITNESS_BACKOFF:
        start(witness);
        break;
    case RL_WITNESS_RESOLVING:
    case RL_WITNESS_ASKED:
        fail(witness, "no %s within %llu ms",
             witness->state == RL_WITNESS_RESOLVING ? "address"
             : witness->connecting                  ? "connection"
                                                    : "reply",
             (unsigned long long)(timeout / QUORUM_MILLISECOND));
        break;
    case RL_WITNESS_RESTING:
        schedule(witness, quorum_time_add(rl_now(), timeout));
        if (!ask(witness, false))
            fail(witness, "no credentials or no memory for the requests");
        break;
    }
}

bool rl_witnesses_open(struct rl_node *node, unsigned slot,
                       void (*judged)(struct rl_node *node, const struct rl_verdict *verdict))
{
    unsigned count = node->address->witness_count, room = node->address->cluster ? QUORUM_WITNESSES_MAX : count;
    struct rl_core *core = node->nodes->core;
    struct rl_witnesses *witnesses =
        rl_allocate(&core->allocator, sizeof *witnesses + room * sizeof *witnesses->witness);
    node->witnesses = witnesses;
    if (!witnesses)
        return false;
    witnesses->node = node;
    witnesses->judged = judged;
    witnesses->slot = slot;
    witnesses->turns = rl_random_u64(&core->random) % ASK_EVERY;
    quorum_witnesses_init(&witnesses->rules, count, node->address->cluster ? MASTERS_LEAST : count);
    for (; witnesses->room < room; witnesses->room++) {
        struct rl_witness *witness = &witnesses->witness[witnesses->room];
        witness->group = witnesses;
        witness->attempts.timeout = node->attempts.timeout;
        witness->timer.fire = on_timer;
        if (!rl_link_init(&witness->link, &node->nodes->writes, RL_OUTPUT_LEAST))
            return false;
    }
    for (unsigned i = 0; i < count; i++) {
        rl_address_witness(node->address, i, &witnesses->witness[i].address);
        schedule(&witnesses->witness[i], rl_now());
    }
    return true;
}

void rl_witnesses_ask(struct rl_witnesses *witnesses)
{
    for (unsigned i = 0; i < witnesses->rules.count; i++)
        if (witnesses->witness[i].state == RL_WITNESS_RESTING)
            schedule(&witnesses->witness[i], rl_now());
}

void rl_witnesses_close(struct rl_witnesses *witnesses)
{
    for (unsigned i = 0; i < witnesses->room; i++) {
        struct rl_witness *witness = &witnesses->witness[i];
        rl_timer_stop(&witness->timer);
        rl_link_close(&witness->link);
        rl_attempts_end(&witness->attempts);
        rl_address_wipe(&witness->address);
    }
}

void rl_witnesses_free(struct rl_node *node)
{
    struct rl_witnesses *witnesses = node->witnesses;
    if (!witnesses)
        return;
    for (unsigned i = 0; i < witnesses->room; i++)
        rl_link_free(&witnesses->witness[i].link);
    rl_core_free(node->nodes->core, witnesses);
    node->witnesses = NULL;
}
