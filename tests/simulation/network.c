/* Packets, connections, and the nodes at their other ends. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "quorum/guard.h"
#include "src/node/script.h"
#include "support/fixture.h"
#include "world.h"

/* Bytes in transit. */
struct packet {
    struct sim_link *link;
    void (*arrive)(const struct packet *packet);
    unsigned incarnation; /* of the node when it was sent */
    size_t size;
    char bytes[];
};

static quorum_duration draw_delay(const struct sim_node *node)
{
    uint64_t *random = &sim_world->network;
    const struct sim_config *config = &sim_world->config;
    quorum_duration delay = config->delay + random_between(random, 0, config->jitter) + node->slow;
    if (!sim_world->calm && random_chance(random, config->tail))
        delay += random_log(random, QUORUM_MILLISECOND, 200 * QUORUM_MILLISECOND);
    return delay;
}

void sim_link_release(struct sim_link *link)
{
    assert(link->references > 0);
    if (--link->references > 0)
        return;
    *(link->previous ? &link->previous->next : &sim_world->links) = link->next;
    if (link->next)
        link->next->previous = link->previous;
    bytes_free(&link->inbox);
    bytes_free(&link->unexecuted);
    free(link);
}

/* Packets of one direction stay in order. The process may act ahead of the world's time. */
static quorum_time arrival(struct sim_link *link, bool up)
{
    quorum_time *last = up ? &link->last_up : &link->last_down;
    const struct sim_path *path = &sim_world->paths[link->process->index][link->node->index];
    quorum_time sent = sim_world->now + (up ? link->process->lag : 0);
    quorum_time blocked = up ? path->up_blocked_until : path->down_blocked_until;
    quorum_time at = (sent > blocked ? sent : blocked) + draw_delay(link->node);
    *last = at > *last ? at : *last + 1;
    return *last;
}

static void request_arrives(const struct packet *packet);

static void packet_arrives(void *subject, uint64_t unused)
{
    (void)unused;
    struct packet *packet = subject;
    struct sim_link *link = packet->link;
    if (packet->arrive == request_arrives && link->held_up_until > sim_world->now) {
        sim_at(link->held_up_until, packet_arrives, packet, 0);
        return;
    }
    packet->arrive(packet);
    sim_link_release(link);
    free(packet);
}

void sim_packet_drop(const struct sim_event *event)
{
    if (event->happen != packet_arrives)
        return;
    struct packet *packet = event->subject;
    sim_link_release(packet->link);
    free(packet);
}

static void send_after(struct sim_link *link, bool up, void (*arrive)(const struct packet *), const void *bytes,
                       size_t size)
{
    struct packet *packet = fixture_allocate(sizeof *packet + size);
    packet->link = link;
    packet->arrive = arrive;
    packet->incarnation = link->node->incarnation;
    packet->size = size;
    if (size)
        memcpy(packet->bytes, bytes, size);
    link->references++;
    sim_at(arrival(link, up), packet_arrives, packet, 0);
}

/* --------------------------------------------------------------------------------------------------- to the process */

static void tell_client(struct sim_link *link)
{
    if (link->client_open)
        sim_process_wake(link->process, sim_world->now);
}

static void data_arrives(const struct packet *packet)
{
    struct sim_link *link = packet->link;
    if (link->client_open && !link->error && !link->severed) {
        bytes_append(&link->inbox, packet->bytes, packet->size);
        tell_client(link);
    }
}

static void reset_arrives(const struct packet *packet)
{
    struct sim_link *link = packet->link;
    if (link->client_open && !link->severed && !link->error) {
        link->error = link->connected ? ECONNRESET : ECONNREFUSED;
        tell_client(link);
    }
}

static void accepted_arrives(const struct packet *packet)
{
    struct sim_link *link = packet->link;
    if (link->client_open && !link->severed) {
        link->connected = true;
        tell_client(link);
    }
}

static void send_reset(struct sim_link *link)
{
    if (link->client_open)
        send_after(link, false, reset_arrives, NULL, 0);
}

/* ------------------------------------------------------------------------------------------------------ to the node */

int64_t sim_node_clock(const struct sim_node *node)
{
    return (int64_t)(sim_clock_read(&node->clock, sim_world->now) / QUORUM_MICROSECOND);
}

static void trace_command(const struct sim_link *link, size_t count, const struct resp_argument *words, size_t answer)
{
    char text[200];
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof text - 48; i++) {
        struct resp_argument word = words[i];
        if (word.length > 44)
            word.length = 12; /* a script's text */
        if (word.length == 40)
            word.length = 8; /* a token, or a script's hash */
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s ", (int)word.length, word.data);
    }
    char said[100];
    snprintf(said, sizeof said, "%.*s", (int)(link->node->reply.length - answer), link->node->reply.data + answer);
    for (char *at = said; *at; at++)
        *at = *at < ' ' ? ' ' : *at;
    sim_trace(sim_node_name(link->node), "client %u: %s-> %s", link->process->index + 1, text, said);
}

FILE *sim_commands;

void sim_commands_add(int64_t microseconds, size_t count, const struct resp_argument *words)
{
    struct bytes record = {0};
    char time[24];
    if (!sim_commands)
        return;
    snprintf(time, sizeof time, "%lld", (long long)microseconds);
    struct resp_argument all[256] = {resp_argument_of(time)};
    assert(count < sizeof all / sizeof *all);
    for (size_t i = 0; i < count; i++)
        all[i + 1] = words[i];
    resp_write_command(&record, count + 1, all);
    if (fwrite(record.data, record.length, 1, sim_commands) != 1)
        fixture_fail("cannot write the commands");
    bytes_free(&record);
}

enum { TOKEN_DIGITS = 40 };

static bool is_script(const struct resp_argument *words)
{
    return sim_text_is(words[0], "EVALSHA") || sim_text_is(words[0], "EVAL");
}

/* The random digits of a token, without the time and the label; no bytes: it is none. */
static struct resp_argument digits_of(struct resp_argument word)
{
    if (word.length < TOKEN_DIGITS || (word.length > TOKEN_DIGITS && word.data[TOKEN_DIGITS] != '/'))
        return (struct resp_argument){NULL, 0};
    word.length = TOKEN_DIGITS;
    return word;
}

/* Records which client set these tokens. Returns the first one that this node has undone: no command may set it
 * again. */
static struct resp_argument note_tokens(const struct sim_link *link, size_t count, const struct resp_argument *words)
{
    struct resp_argument undone = {NULL, 0};
    for (size_t i = is_script(words) ? 3 : 2; i < count; i++) {
        struct resp_argument token = digits_of(words[i]);
        if (!token.data)
            continue;
        sim_check_note_author(link, token);
        if (!undone.data && sim_check_is_undone(link->node, token))
            undone = token;
    }
    return undone;
}

/* The token is the word after the keys. */
static void note_undo(const struct sim_link *link, size_t count, const struct resp_argument *words, bool succeeded)
{
    long long keys;
    if (!succeeded || count < 5 || !is_script(words) || !resp_argument_integer(words[2], &keys) ||
        3 + (size_t)keys >= count)
        return;
    struct resp_argument name = sim_script_name(words[1]), token = digits_of(words[3 + keys]);
    if ((sim_text_is(name, "release") || sim_text_is(name, "free")) && token.data)
        sim_check_undone(link->node, token);
}

static void note_situation(const struct sim_link *link, size_t count, const struct resp_argument *words, bool succeeded)
{
    unsigned long long *met = sim_world->totals->met;
    quorum_time promoted = link->node->promoted;
    if (!succeeded || count < 2 || !is_script(words))
        return;
    struct resp_argument name = sim_script_name(words[1]);
    if (sim_text_is(name, "heal"))
        met[SIM_MET_BROKEN_HEAL] += link->severed || !link->client_open;
    else if (sim_text_is(name, "extend"))
        met[SIM_MET_EARLY_RENEWAL] += promoted && sim_world->now < promoted + QUORUM_SETTLING;
}

static void execute_one(struct sim_link *link, size_t count, struct resp_argument *words)
{
    struct sim_node *node = link->node;
    size_t answer = node->reply.length;
    if (sim_sentinel_execute(node, count, words, &node->reply)) {
        if (sim_world->tracing)
            trace_command(link, count, words, answer);
        return;
    }
    if (node->index == 0)
        sim_commands_add(sim_node_clock(node), count, words);
    struct resp_argument undone = note_tokens(link, count, words);
    sim_server_execute(&node->server, &link->session, count, words, sim_node_clock(node), &node->reply);
    if (sim_text_is(words[0], "TIME"))
        node->looked = sim_world->now;
    bool succeeded = node->reply.data[answer] != '-';
    note_undo(link, count, words, succeeded);
    note_situation(link, count, words, succeeded);
    if (undone.data)
        sim_check_executed(node, undone);
    if (!sim_world->tracing || sim_text_is(words[0], "INFO") || sim_text_is(words[0], "SCRIPT"))
        return;
    if (is_script(words) && count > 1)
        words[1] = sim_script_name(words[1]);
    trace_command(link, count, words, answer);
}

void sim_node_execute(struct sim_link *link)
{
    struct sim_node *node = link->node;
    size_t taken = 0;
    if (!node->up || node->hung || !link->server_open)
        return;
    node->reply.length = 0;
    while (link->server_open) {
        struct resp_command *command;
        size_t size;
        enum resp_progress progress =
            resp_parse_command(link->unexecuted.data + taken, link->unexecuted.length - taken, &size, &command);
        if (progress == RESP_MALFORMED)
            abort(); /* hiredis never writes this */
        if (progress == RESP_INCOMPLETE)
            break;
        taken += size;
        execute_one(link, command->argc, command->argv);
        free(command);
    }
    bytes_consume(&link->unexecuted, taken);
    if (node->reply.length && link->client_open && !link->severed)
        send_after(link, false, data_arrives, node->reply.data, node->reply.length);
    node->reply.length = 0;
}

static void request_arrives(const struct packet *packet)
{
    struct sim_link *link = packet->link;
    if (link->server_open && packet->incarnation == link->node->incarnation) {
        bytes_append(&link->unexecuted, packet->bytes, packet->size);
        sim_node_execute(link);
    } else if (link->node->up) {
        send_reset(link);
    }
}

static void server_closes(struct sim_link *link)
{
    if (!link->server_open)
        return;
    link->server_open = false;
    link->unexecuted.length = 0;
    link->session.channel[0] = '\0';
    sim_link_release(link);
}

/* The client has closed its end. The node still executes the commands that were sent before. */
static void end_arrives(const struct packet *packet)
{
    struct sim_link *link = packet->link;
    if (packet->incarnation == link->node->incarnation && !link->severed && !link->node->hung)
        server_closes(link);
}

/* A hung node still accepts connections, because its kernel does. */
static void connection_arrives(const struct packet *packet)
{
    struct sim_link *link = packet->link;
    struct sim_node *node = link->node;
    if (!node->up) {
        send_reset(link);
    } else if (link->client_open) {
        link->server_open = true;
        link->references++;
        link->session.id = ++node->server.last_id;
        send_after(link, false, accepted_arrives, NULL, 0);
    }
}

/* --------------------------------------------------------------------------------------------------- by the process */

struct sim_link *sim_link_open(struct sim_process *process, unsigned node)
{
    struct sim_link *link = fixture_allocate(sizeof *link);
    link->process = process;
    link->life = process->life;
    link->node = &sim_world->nodes[node];
    link->references = 1;
    link->client_open = true;
    link->next = sim_world->links;
    if (link->next)
        link->next->previous = link;
    sim_world->links = link;
    send_after(link, true, connection_arrives, NULL, 0);
    return link;
}

static void break_silently(void *subject, uint64_t client_told)
{
    struct sim_link *link = subject;
    if (link->client_open && !link->error)
        sim_link_cut(link, client_told, false);
    sim_link_release(link);
}

/* By chance a connection breaks hardly ever while a heal is on its way. */
static void break_heal(struct sim_link *link, const char *bytes, size_t size)
{
    uint64_t *random = &sim_world->fault_streams[SIM_FAULT_BREAK];
    if (sim_world->calm || !(sim_world->config.faults & 1u << SIM_FAULT_BREAK) ||
        !memmem(bytes, size, rl_scripts[RL_SCRIPT_HEAL].sha1, TOKEN_DIGITS) || !random_chance(random, 800))
        return;
    link->references++;
    sim_at(sim_world->now, break_silently, link, random_chance(random, 700));
}

void sim_link_write(struct sim_link *link, const void *bytes, size_t size)
{
    sim_check_sent(link->process, link->node->index, bytes, size);
    if (link->severed)
        return;
    send_after(link, true, request_arrives, bytes, size);
    break_heal(link, bytes, size);
}

void sim_link_close(struct sim_link *link)
{
    link->client_open = false;
    if (!link->severed)
        send_after(link, true, end_arrives, NULL, 0);
    sim_link_release(link);
}

/* ----------------------------------------------------------------------------------------------------------- faults */

void sim_link_cut(struct sim_link *link, bool client_told, bool server_told)
{
    if (client_told && link->client_open && !link->error) {
        link->error = ECONNRESET;
        tell_client(link);
    }
    if (server_told)
        server_closes(link);
    else
        link->severed = true; /* packets in transit arrive; the end of the connection does not */
}

void sim_node_die(struct sim_node *node)
{
    struct sim_link *next;
    node->up = node->hung = false;
    node->incarnation++;
    for (struct sim_link *link = sim_world->links; link; link = next) {
        next = link->next;
        if (link->node != node || !link->server_open)
            continue;
        send_reset(link);
        server_closes(link);
    }
}

/* The order of the links does not matter, because the kernel guarantees none. */
void sim_node_resume(struct sim_node *node)
{
    struct sim_link *waiting[256];
    unsigned count = 0;
    node->hung = false;
    for (struct sim_link *link = sim_world->links; link && count < 256; link = link->next)
        if (link->node == node && link->server_open) {
            link->references++;
            waiting[count++] = link;
        }
    for (; count > 0; count--) {
        unsigned pick = random_below(&sim_world->network, count);
        struct sim_link *link = waiting[pick];
        waiting[pick] = waiting[count - 1];
        sim_node_execute(link);
        if (!link->client_open && !link->severed)
            server_closes(link);
        sim_link_release(link);
    }
}

static long long publish(struct sim_server *server, struct resp_argument channel, struct resp_argument text)
{
    struct bytes message = {NULL, 0, 0};
    const struct resp_argument words[] = {resp_argument_of("message"), channel, text};
    long long told = 0;
    resp_write_command(&message, 3, words);
    for (struct sim_link *link = sim_world->links; link; link = link->next) {
        if (&link->node->server != server || !link->server_open || !resp_argument_is(&channel, link->session.channel))
            continue;
        if (!link->severed)
            send_after(link, false, data_arrives, message.data, message.length);
        told++;
    }
    bytes_free(&message);
    return told;
}

static bool kill_session(struct sim_server *server, int64_t id)
{
    for (struct sim_link *link = sim_world->links; link; link = link->next)
        if (&link->node->server == server && link->server_open && link->session.id == id) {
            send_reset(link);
            server_closes(link);
            return true;
        }
    return false;
}

const struct sim_server_hooks sim_node_hooks = {.publish = publish, .kill = kill_session};
