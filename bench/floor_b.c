/* Floor B: every connection with pending data is written once per loop turn, right before the loop waits. Write
 * interest is registered only while connecting and when a socket is full. */
#include <ev.h>
#include <hiredis/async.h>
#include <stdbool.h>
#include <stdlib.h>

#include "floor.h"

struct link {
    redisAsyncContext *connection;
    struct ev_loop *loop;
    struct link *next; /* in the list of connections with pending data */
    bool queued, flushing;
    ev_io read, write;
};

static struct link *unsent;
static ev_prepare before_wait;

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop, (void)events;
    redisAsyncHandleRead(watcher->data);
}

static void on_writable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)events;
    ev_io_stop(loop, watcher);
    redisAsyncHandleWrite(watcher->data);
}

static void flush(struct ev_loop *loop, ev_prepare *watcher, int events)
{
    (void)loop, (void)watcher, (void)events;
    while (unsent) {
        struct link *link = unsent;
        unsent = link->next;
        link->queued = false;
        link->flushing = true;
        redisAsyncHandleWrite(link->connection);
    }
}

static void add_read(void *data)
{
    struct link *link = data;
    ev_io_start(link->loop, &link->read);
}

static void del_read(void *data)
{
    struct link *link = data;
    ev_io_stop(link->loop, &link->read);
}

static void add_write(void *data)
{
    struct link *link = data;
    bool wait = link->flushing || !(link->connection->c.flags & REDIS_CONNECTED);
    link->flushing = false;
    if (wait) {
        ev_io_start(link->loop, &link->write);
    } else if (!link->queued && !ev_is_active(&link->write)) {
        link->queued = true;
        link->next = unsent;
        unsent = link;
    }
}

static void del_write(void *data)
{
    struct link *link = data;
    link->flushing = false;
    ev_io_stop(link->loop, &link->write);
}

static void cleanup(void *data)
{
    struct link *link = data;
    del_read(link);
    del_write(link);
    for (struct link **at = &unsent; *at; at = &(*at)->next)
        if (*at == link) {
            *at = link->next;
            break;
        }
    free(link);
}

void floor_attach(struct ev_loop *loop, redisAsyncContext *connection)
{
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        abort();
    link->connection = connection;
    link->loop = loop;
    ev_io_init(&link->read, on_readable, connection->c.fd, EV_READ);
    ev_io_init(&link->write, on_writable, connection->c.fd, EV_WRITE);
    link->read.data = link->write.data = connection;
    connection->ev.data = link;
    connection->ev.addRead = add_read;
    connection->ev.delRead = del_read;
    connection->ev.addWrite = add_write;
    connection->ev.delWrite = del_write;
    connection->ev.cleanup = cleanup;
    if (!ev_is_active(&before_wait)) {
        ev_prepare_init(&before_wait, flush);
        ev_prepare_start(loop, &before_wait);
    }
}
