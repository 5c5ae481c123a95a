#include "src/link/adapter.h"

#include <assert.h>
#include <string.h>

#include "src/link/sigpipe.h"
#include "src/link/tls.h"

static void add_read(void *data)
{
    struct rl_adapter *adapter = data;
    ev_io_start(adapter->writes->loop, &adapter->reader);
}

static void delete_read(void *data)
{
    struct rl_adapter *adapter = data;
    ev_io_stop(adapter->writes->loop, &adapter->reader);
}

static void add_write(void *data)
{
    struct rl_adapter *adapter = data;
    if (!adapter->connected || adapter->writing) {
        ev_io_start(adapter->writes->loop, &adapter->writer);
    } else if (!adapter->waiting && !ev_is_active(&adapter->writer)) {
        struct rl_writes *writes = adapter->writes;
        adapter->waiting = true;
        adapter->next = NULL;
        *(writes->first ? &writes->last->next : &writes->first) = adapter;
        writes->last = adapter;
    }
}

static void delete_write(void *data)
{
    struct rl_adapter *adapter = data;
    ev_io_stop(adapter->writes->loop, &adapter->writer);
}

static void leave_list(struct rl_adapter *adapter)
{
    struct rl_writes *writes = adapter->writes;
    struct rl_adapter *before = NULL;
    for (struct rl_adapter *at = writes->first; at && at != adapter; at = at->next)
        before = at;
    *(before ? &before->next : &writes->first) = adapter->next;
    if (writes->last == adapter)
        writes->last = before;
    adapter->waiting = false;
}

static void cleanup(void *data)
{
    struct rl_adapter *adapter = data;
    delete_read(adapter);
    delete_write(adapter);
    if (adapter->waiting)
        leave_list(adapter);
    adapter->writes->broken = true;
    adapter->context = NULL;
}

static bool has_bytes_to_write(const struct rl_adapter *adapter)
{
    const char *bytes = adapter->context->c.obuf;
    return bytes && bytes[0]; /* the buffer has commands, which do not begin with a NUL */
}

static void write_out_tls(struct rl_adapter *adapter)
{
    rl_tls_enter();
    redisAsyncHandleWrite(adapter->context);
    /* If the last read returned only TLS messages and no data, hiredis waits for reads here, not for writes. */
    if (adapter->context && has_bytes_to_write(adapter) && rl_tls_wants_to_write(adapter->tls))
        ev_io_start(adapter->writes->loop, &adapter->writer);
    rl_tls_leave();
}

/* One write. It may end the connection. */
static void write_out(struct rl_adapter *adapter)
{
    adapter->writing = true;
    if (adapter->tls)
        write_out_tls(adapter);
    else
        redisAsyncHandleWrite(adapter->context);
    adapter->writing = false;
}

static void on_writable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    struct rl_adapter *adapter = watcher->data;
    struct rl_sigpipe guard;
    adapter->writes->broken = false;
    rl_sigpipe_block(&guard);
    write_out(adapter);
    rl_sigpipe_restore(&guard, adapter->writes->broken);
}

static void read_in(struct rl_adapter *adapter)
{
    if (!adapter->readable(adapter))
        return;
    redisAsyncHandleRead(adapter->context);
    if (adapter->context && rl_limit_is_exceeded(&adapter->limit, adapter->context->c.reader))
        redisAsyncFree(adapter->context);
}

/* TLS replies to some records itself, such as alerts, so reading can write and raise SIGPIPE. */
static void read_in_tls(struct rl_adapter *adapter)
{
    struct rl_sigpipe guard;
    struct rl_writes *writes = adapter->writes;
    writes->broken = false;
    if (!writes->own_thread)
        rl_sigpipe_block(&guard);
    rl_tls_enter();
    read_in(adapter);
    rl_tls_leave();
    if (!writes->own_thread)
        rl_sigpipe_restore(&guard, writes->broken);
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    struct rl_adapter *adapter = watcher->data;
    if (adapter->tls)
        read_in_tls(adapter);
    else
        read_in(adapter);
}

void rl_adapter_attach(struct rl_adapter *adapter, redisAsyncContext *context, struct rl_writes *writes)
{
    assert(!adapter->context);
    adapter->writes = writes;
    adapter->context = context;
    adapter->tls = NULL;
    rl_limit_attach(&adapter->limit, context->c.reader);
    adapter->waiting = adapter->connected = adapter->writing = false;
    ev_io_init(&adapter->reader, on_readable, context->c.fd, EV_READ);
    ev_io_init(&adapter->writer, on_writable, context->c.fd, EV_WRITE);
    adapter->reader.data = adapter->writer.data = adapter;
    context->ev.data = adapter;
    context->ev.addRead = add_read;
    context->ev.delRead = delete_read;
    context->ev.addWrite = add_write;
    context->ev.delWrite = delete_write;
    context->ev.cleanup = cleanup;
}

void rl_adapter_flush(struct rl_writes *writes)
{
    if (!writes->first)
        return;
    struct rl_sigpipe guard;
    writes->broken = false;
    if (!writes->own_thread)
        rl_sigpipe_block(&guard);
    while (writes->first) {
        struct rl_adapter *adapter = writes->first;
        leave_list(adapter);
        write_out(adapter);
    }
    if (!writes->own_thread)
        rl_sigpipe_restore(&guard, writes->broken);
}
