#include "src/link/link.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "src/core/core.h"

#define OUTPUT_KEPT (256 * 1024) /* an empty buffer that is larger is reduced to that of a busy link */

/* --------------------------------------------------------------------------------------------------------- the list */

static void enlist(struct rl_link *link)
{
    assert(!link->listed && link->connected);
    struct rl_writes *writes = link->writes;
    link->listed = true;
    link->next = NULL;
    *(writes->first ? &writes->last->next : &writes->first) = link;
    writes->last = link;
}

static void leave_list(struct rl_link *link)
{
    struct rl_writes *writes = link->writes;
    assert(link->listed);
    struct rl_link *before = NULL;
    for (struct rl_link *at = writes->first; at && at != link; at = at->next)
        before = at;
    *(before ? &before->next : &writes->first) = link->next;
    if (writes->last == link)
        writes->last = before;
    link->listed = false;
}

/* --------------------------------------------------------------------------------------------------------- watchers */

static void watch(struct rl_link *link, ev_io *watcher, bool on)
{
    if (on == (bool)ev_is_active(watcher))
        return;
    if (on)
        ev_io_start(link->writes->loop, watcher);
    else
        ev_io_stop(link->writes->loop, watcher);
}

/* ---------------------------------------------------------------------------------------------------------- closing */

static void note_touched(struct rl_output *output)
{
    if (output->touched < output->used)
        output->touched = output->used;
}

/* Freed memory, and that of a closed connection, must not keep a password, nor a token. While the connection is in use
 * the next commands replace them: wiping each command after its write would read the buffer once more. */
static void wipe_output(struct rl_output *output)
{
    note_touched(output);
    if (output->touched > 0)
        rl_wipe(output->bytes, output->touched);
    output->touched = 0;
}

/* The context is gone, or will be. hiredis calls it, too, when it frees the context itself. */
static void forget_context(void *owner)
{
    struct rl_link *link = owner;
    watch(link, &link->readable, false);
    watch(link, &link->writable, false);
    if (link->listed)
        leave_list(link);
    link->context = NULL;
    link->session = NULL; /* freed with the context */
    link->connected = link->unwritten = false;
    wipe_output(&link->output);
    link->output.written = link->output.released = link->output.used = 0;
    link->writes->broken = true;
}

void rl_link_close(struct rl_link *link)
{
    redisAsyncContext *context = link->context;
    if (!context)
        return;
    assert(!link->failure); /* hiredis must not be told to free a context inside its connect callback */
    memset(&context->ev, 0, sizeof context->ev);
    forget_context(link);
    if (link->delivering)
        link->doomed = context;
    else
        redisAsyncFree(context);
}

void rl_link_free(struct rl_link *link)
{
    assert(!link->context);
    if (link->writes)
        rl_free(link->writes->allocator, link->output.bytes);
    link->output = (struct rl_output){0};
}

/* The reason is TLS's, if it has one: hiredis reports an unrelated errno then. Call it before rl_tls_clear_errors(). */
static void __attribute__((format(printf, 2, 3))) end(struct rl_link *link, const char *format, ...)
{
    struct rl_link_end why = {.permanent = false};
    if (link->session && link->connected)
        why.permanent = rl_tls_explain(link->tls, link->session, link->host, why.text, sizeof why.text);
    if (!why.text[0]) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(why.text, sizeof why.text, format, arguments);
        va_end(arguments);
        if (link->session && !link->replied)
            rl_tls_explain_reset(link->session, why.text, sizeof why.text);
    }
    rl_link_close(link);
    link->type->ended(link, &why);
}

/* ---------------------------------------------------------------------------------------------------------- writing */

static bool resize(struct rl_link *link, size_t size)
{
    struct rl_output *output = &link->output;
    const redlock_allocator *allocator = link->writes->allocator;
    assert(size >= output->used);
    char *bytes = allocator->allocate(size, allocator->user);
    if (!bytes)
        return false;
    if (output->used > 0)
        memcpy(bytes, output->bytes, output->used);
    wipe_output(output);
    rl_free(allocator, output->bytes);
    output->bytes = bytes;
    output->size = size;
    return true;
}

bool rl_link_init(struct rl_link *link, struct rl_writes *writes, size_t first)
{
    assert(!link->context && !link->output.bytes);
    link->writes = writes;
    return resize(link, first);
}

static bool make_room(struct rl_link *link, size_t size)
{
    struct rl_output *output = &link->output;
    if (output->written > 0 &&
        output->written >= output->used - output->written) { /* moves no more than has been written */
        memmove(output->bytes, output->bytes + output->written, output->used - output->written);
        note_touched(output);
        output->used -= output->written;
        output->released -= output->written;
        output->written = 0;
    }
    size_t larger = output->size;
    while (larger - output->used < size)
        larger = larger < RL_OUTPUT_BUSY
                     ? RL_OUTPUT_BUSY
                     : larger + larger / 4; /* twice as much would cost an operation in flight 230 bytes */
    return larger == output->size || resize(link, larger);
}

static bool can_take(struct rl_link *link, size_t size)
{
    return link->context && (link->output.size - link->output.used >= size || make_room(link, size));
}

bool rl_link_append(struct rl_link *link, const char *bytes, size_t size)
{
    struct rl_output *output = &link->output;
    if (!can_take(link, size))
        return false;
    memcpy(output->bytes + output->used, bytes, size);
    output->used += size;
    assert(output->used <= output->size);
    return true;
}

bool rl_link_insert(struct rl_link *link, const char *bytes, size_t size)
{
    struct rl_output *output = &link->output;
    if (!can_take(link, size))
        return false;
    char *at = output->bytes + output->released;
    memmove(at + size, at, output->used - output->released);
    memcpy(at, bytes, size);
    output->used += size;
    return true;
}

void rl_link_release(struct rl_link *link, size_t size)
{
    link->output.released += size;
    assert(link->output.released <= link->output.used);
    if (link->connected && !link->listed && !ev_is_active(&link->writable))
        enlist(link);
}

bool rl_link_send(struct rl_link *link, const char *bytes, size_t size)
{
    if (!rl_link_append(link, bytes, size))
        return false;
    rl_link_release(link, size);
    return true;
}

/* The socket has taken all bytes that may go. */
static void end_of_output(struct rl_link *link)
{
    struct rl_output *output = &link->output;
    if (output->written < output->used)
        return;
    note_touched(output);
    output->written = output->released = output->used = 0;
    if (output->size > OUTPUT_KEPT)
        resize(link, RL_OUTPUT_BUSY);
}

static void write_plain(struct rl_link *link)
{
    struct rl_output *output = &link->output;
    assert(link->connected && output->written <= output->released);
    if (output->written == output->released)
        return;
    ssize_t sent =
        send(link->context->c.fd, output->bytes + output->written, output->released - output->written, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        end(link, "the connection broke: %.60s", strerror(errno));
        return;
    }
    output->written += sent > 0 ? (size_t)sent : 0;
    watch(link, &link->writable, output->written < output->released);
    end_of_output(link);
}

/* TLS takes a piece of this size as a whole, or not at all. */
#define TLS_PIECE ((size_t)16 * 1024)

/* Writes the piece that TLS did not take, or the next one. false: the link has ended. */
static bool write_piece(struct rl_link *link)
{
    struct rl_output *output = &link->output;
    size_t left = output->released - output->written, size = left < TLS_PIECE ? left : TLS_PIECE;
    int done = 0;
    if (!link->unwritten) {
        if (redisAppendFormattedCommand(&link->context->c, output->bytes + output->written, size) != REDIS_OK) {
            end(link, "no memory for the commands to it");
            return false;
        }
        output->written += size;
    }
    if (redisBufferWrite(&link->context->c, &done) != REDIS_OK) {
        end(link, "the connection broke: %.60s", link->context->c.errstr);
        return false;
    }
    link->unwritten = !done;
    return true;
}

/* TLS reports when it needs a writable socket. While it waits for the server instead, write interest would only spin
 * the loop. */
static void write_tls(struct rl_link *link)
{
    struct rl_output *output = &link->output;
    do
        if ((link->unwritten || output->written < output->released) && !write_piece(link))
            return;
    while (!link->unwritten && output->written < output->released);
    watch(link, &link->writable, link->unwritten && rl_tls_wants_to_write(link->session));
    end_of_output(link);
}

/* Also outside the flush. The link leaves the list: no byte released to a listed link has reached the server, because
 * rl_flight_written() moves the time of such requests to the flush. */
static void write_out(struct rl_link *link)
{
    if (link->listed)
        leave_list(link);
    if (!link->session) {
        write_plain(link);
        return;
    }
    rl_tls_clear_errors();
    write_tls(link);
    rl_tls_clear_errors();
}

/* TLS may raise SIGPIPE. Plain writes do not. */
static void block_sigpipe(struct rl_link *link, struct rl_sigpipe *guard)
{
    if (!link->tls || link->writes->own_thread || guard->blocks)
        return;
    link->writes->broken = false;
    rl_sigpipe_block(guard);
}

void rl_links_flush(struct rl_writes *writes)
{
    struct rl_sigpipe guard = {.blocks = false};
    while (writes->first) {
        struct rl_link *link = writes->first;
        block_sigpipe(link, &guard);
        write_out(link);
    }
    rl_sigpipe_restore(&guard, writes->broken);
}

/* ----------------------------------------------------------------------------------------------------- hiredis' reader */

/* hiredis destroys an empty buffer with more room than this. Its own limit is the size of one read, so that it would
 * allocate the buffer again after each one. */
#define BUFFER_KEPT (64 * 1024)

#if HIREDIS_MAJOR >= 1
typedef size_t elements_type;
#else
typedef int elements_type;
#endif

static unsigned depth(const redisReadTask *task)
{
    unsigned arrays = 0;
    for (; task->parent; task = task->parent)
        arrays++;
    return arrays;
}

/* Adds bytes to the reply's total. false: the reply is too large or nested too deep. */
static bool spend(struct rl_reader *reader, const redisReadTask *task, size_t bytes)
{
    if (!task->parent)
        reader->spent = 0;
    assert(reader->spent <= reader->most);
    if (bytes > reader->most - reader->spent || depth(task) > RL_NESTING_MAX) {
        reader->exceeded = true;
        return false;
    }
    reader->spent += bytes;
    return true;
}

/* Only the fields that every version of hiredis has. The rest is zero. */
static redisReply *own_reply(struct rl_reader *reader, int type)
{
    redisReply *reply = &reader->reply;
    reply->type = type;
    reply->integer = 0;
    reply->str = NULL;
    reply->len = 0;
    return reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t size)
{
    struct rl_reader *reader = task->privdata;
    if (!spend(reader, task, size))
        return NULL;
    bool known =
        task->type == REDIS_REPLY_STATUS || task->type == REDIS_REPLY_STRING || task->type == REDIS_REPLY_ERROR;
    if (task->parent || !known || size >= RL_REPLY_SHORT)
        return reader->original->createString(task, text, size);
    redisReply *reply = own_reply(reader, task->type);
    memcpy(reader->text, text, size);
    reader->text[size] = '\0';
    reply->str = reader->text;
    reply->len = size;
    return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    struct rl_reader *reader = task->privdata;
    if (task->parent)
        return reader->original->createInteger(task, value);
    redisReply *reply = own_reply(reader, REDIS_REPLY_INTEGER);
    reply->integer = value;
    return reply;
}

static void *create_nil(const redisReadTask *task)
{
    struct rl_reader *reader = task->privdata;
    return task->parent ? reader->original->createNil(task) : own_reply(reader, REDIS_REPLY_NIL);
}

/* Counts the memory of the elements, which hiredis allocates before it reads the first. */
static void *create_array(const redisReadTask *task, elements_type elements)
{
    struct rl_reader *reader = task->privdata;
    size_t each = sizeof(redisReply) + sizeof(redisReply *);
    size_t count = (size_t)elements;
    size_t bytes = count > reader->most / each ? reader->most + 1 : count * each;
    return spend(reader, task, bytes) ? reader->original->createArray(task, elements) : NULL;
}

/* Before the reader's first data. The struct must live as long as hiredis' reader. */
static void reader_attach(struct rl_reader *reader, redisReader *hiredis, size_t most)
{
    reader->most = most;
    memset(&reader->reply, 0, sizeof reader->reply);
    reader->original = hiredis->fn;
    reader->functions = *hiredis->fn;
    reader->functions.createString = create_string;
    reader->functions.createInteger = create_integer;
    reader->functions.createNil = create_nil;
    reader->functions.createArray = create_array;
    reader->spent = 0;
    reader->exceeded = false;
    hiredis->fn = &reader->functions;
    hiredis->privdata = reader;
    hiredis->maxbuf = BUFFER_KEPT;
}

/* Whether the present reply exceeds a limit: after each read. */
static bool reader_is_exceeded(const struct rl_reader *reader, const redisReader *hiredis)
{
    return reader->exceeded || hiredis->len - hiredis->pos > reader->most;
}

/* Each reply must be freed before the next one is taken. */
static void reader_free(const struct rl_reader *reader, void *reply)
{
    if (reply != &reader->reply)
        reader->original->freeObject(reply);
}

/* ---------------------------------------------------------------------------------------------------------- reading */

/* hiredis keeps its buffer, which has no function to free it: a new reader has none. */
static void free_buffers(struct rl_link *link)
{
    redisReader *fresh = redisReaderCreate();
    if (!fresh)
        return;
    redisReaderFree(link->context->c.reader);
    link->context->c.reader = fresh;
    reader_attach(&link->reader, fresh, link->type->reply_max);
}

void rl_link_rest(struct rl_link *link, bool rests)
{
    struct rl_output *output = &link->output;
    link->rests = rests;
    if (rests ? output->used == 0 && output->size > RL_OUTPUT_LEAST : output->size < RL_OUTPUT_BUSY)
        resize(link, rests ? RL_OUTPUT_LEAST : RL_OUTPUT_BUSY); /* without memory it stays as it is */
}

/* The owner may close the link with any reply. */
static void deliver(struct rl_link *link)
{
    redisReader *hiredis = link->context->c.reader;
    void *reply = NULL;
    int status = REDIS_OK;
    size_t begun = 0; /* bytes of a reply that has not arrived whole: hiredis consumes the first one at once */
    if (link->type->expects && !link->type->expects(link)) {
        end(link, "sent a reply to no request");
        return;
    }
    link->delivering = true;
    while (link->context) {
        begun = hiredis->len - hiredis->pos;
        status = redisReaderGetReply(hiredis, &reply);
        if (status != REDIS_OK || !reply)
            break;
        link->replied = true;
        link->type->replied(link, reply);
        reader_free(&link->reader, reply);
    }
    link->delivering = false;
    if (link->doomed) {
        redisAsyncFree(link->doomed);
        link->doomed = NULL;
    } else if (reader_is_exceeded(&link->reader, hiredis)) {
        end(link, "sent a reply of more than %zu KiB, or nested too deep", link->type->reply_max / 1024);
    } else if (status != REDIS_OK) {
        end(link, "the connection broke: %.60s", hiredis->errstr);
    } else if (link->rests && begun == 0) {
        free_buffers(link);
    }
}

static void read_tls(struct rl_link *link)
{
    if (redisBufferRead(&link->context->c) != REDIS_OK)
        end(link, "the connection broke: %.60s", link->context->c.errstr);
    else if (rl_link_has_more(link))
        deliver(link); /* otherwise a wake-up for nothing, or a message of TLS */
}

/* A client has a link to each node, and thousands of clients have most of their links idle. hiredis' buffer grows to twice
 * what it is given at a time, and the stack by what is read at a time: so both get little, unless much comes always. */
#define READ_MOST   ((size_t)16 * 1024)
#define READ_LITTLE ((size_t)1024)

/* Returns the bytes that it has read. */
static size_t read_some(struct rl_link *link, char *bytes, size_t room)
{
    ssize_t got = recv(link->context->c.fd, bytes, room, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0) {
        end(link, "the connection broke: %.60s", got == 0 ? "Server closed the connection" : strerror(errno));
        return 0;
    }
    redisReaderFeed(link->context->c.reader, bytes, (size_t)got); /* a failure shows below */
    deliver(link);
    return (size_t)got;
}

/* Two frames: the stack of an idle client's thread does not get the larger one. */
static __attribute__((noinline)) size_t read_much(struct rl_link *link)
{
    char bytes[READ_MOST];
    return read_some(link, bytes, sizeof bytes);
}

/* Reads what has come, as far as that is not much: the beginning of a reply would keep hiredis' buffer meanwhile. */
static __attribute__((noinline)) size_t read_little(struct rl_link *link)
{
    char bytes[READ_LITTLE];
    const redisAsyncContext *context = link->context;
    size_t all = 0, got;
    do
        all += got = read_some(link, bytes, sizeof bytes);
    while (got == sizeof bytes && all < READ_MOST && link->context == context);
    return all;
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    struct rl_link *link = watcher->data;
    struct rl_sigpipe guard = {.blocks = false};
    if (!rl_process_is(link->writes->owner))
        return;
    if (!link->session) {
        bool much = link->full && link->output.size >= RL_OUTPUT_BUSY;
        link->full = (much ? read_much : read_little)(link) >= READ_LITTLE;
        return;
    }
    /* TLS replies to some records itself, so reading can write, and can unblock the bytes that are left to write. */
    block_sigpipe(link, &guard);
    rl_tls_clear_errors();
    read_tls(link);
    rl_tls_clear_errors();
    if (link->context && link->unwritten)
        write_out(link);
    rl_sigpipe_restore(&guard, link->writes->broken);
}

bool rl_link_has_unread(const struct rl_link *link)
{
    /* Not before it is connected: recv() would consume the connection's error. */
    char byte;
    return link->connected && recv(link->context->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* ------------------------------------------------------------------------------------------------------- connecting */

/* Of hiredis. Versions before 1.1 must not free the context here, and free it themselves after a failure. */
static void on_connect(const redisAsyncContext *context, int status)
{
    struct rl_link *link = context->data;
    link->connected = status == REDIS_OK;
    if (link->connected)
        return;
    snprintf(link->failure->text, sizeof link->failure->text, "cannot connect: %.64s", context->c.errstr);
    if (link->session)
        rl_tls_explain_reset(link->session, link->failure->text, sizeof link->failure->text);
}

/* hiredis finds out whether the connection is established. */
static void go_on_connecting(struct rl_link *link)
{
    struct rl_link_end why = {.permanent = false, .text = ""};
    link->failure = &why;
    redisAsyncHandleWrite(link->context);
    link->failure = NULL;
    if (link->connected) {
        watch(link, &link->readable, true);
        watch(link, &link->writable, false);
        if (link->type->connected)
            link->type->connected(link);
    } else if (!link->context) {
        if (!why.text[0])
            snprintf(why.text, sizeof why.text, "cannot connect");
        link->type->ended(link, &why);
    }
}

static void on_writable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    struct rl_link *link = watcher->data;
    struct rl_sigpipe guard = {.blocks = false};
    if (!rl_process_is(link->writes->owner))
        return;
    block_sigpipe(link, &guard);
    if (!link->connected)
        go_on_connecting(link);
    if (link->connected)
        write_out(link);
    rl_sigpipe_restore(&guard, link->writes->broken);
}

/* hiredis starts and stops no watcher: it has no hooks for that. */
static void attach(struct rl_link *link)
{
    redisAsyncContext *context = link->context;
    context->data = context->ev.data = link;
    context->ev.cleanup = forget_context;
    ev_io_init(&link->readable, on_readable, context->c.fd, EV_READ);
    ev_io_init(&link->writable, on_writable, context->c.fd, EV_WRITE);
    link->readable.data = link->writable.data = link;
}

static bool start_tls(struct rl_link *link, struct rl_link_end *why)
{
    struct rl_sigpipe guard = {.blocks = false};
    block_sigpipe(link, &guard);
    rl_tls_clear_errors();
    link->session =
        rl_tls_start(link->tls, &link->context->c, link->host, why->text, sizeof why->text, &why->permanent);
    rl_tls_clear_errors();
    rl_sigpipe_restore(&guard, !link->session);
    return link->session;
}

static redisAsyncContext *connect_context(const struct rl_link_target *target, struct rl_link_end *why)
{
    redisAsyncContext *context =
        target->path[0] ? redisAsyncConnectUnix(target->path) : redisAsyncConnect(target->numeric, target->port);
    if (context && !context->err) {
        fcntl(context->c.fd, F_SETFD, FD_CLOEXEC);
        if (!target->path[0])
            redisEnableKeepAlive(&context->c);
        return context;
    }
    snprintf(why->text, sizeof why->text, "cannot connect: %.64s", context ? context->errstr : "no memory");
    if (context)
        redisAsyncFree(context);
    return NULL;
}

bool rl_link_open(struct rl_link *link, const struct rl_link_type *type, const struct rl_link_target *target,
                  struct rl_link_end *why)
{
    assert(link->writes && !link->context && !link->delivering && link->output.used == 0);
    link->type = type;
    link->tls = target->tls;
    link->host = target->host;
    link->replied = link->full = false;
    link->rests = true;
    *why = (struct rl_link_end){.permanent = false};
    link->context = connect_context(target, why);
    if (!link->context)
        return false;
    attach(link);
    reader_attach(&link->reader, link->context->c.reader, type->reply_max);
    if (link->tls && !start_tls(link, why)) {
        rl_link_close(link);
        return false;
    }
    redisAsyncSetConnectCallback(link->context, on_connect);
    watch(link, &link->writable, true);
    return true;
}
