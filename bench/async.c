/* Runner of contenders on an event loop. Each slot continues in the callback that ended its last step. */
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contender.h"
#include "worker.h"

static struct ev_loop *loop;
static struct block block;
static struct record record;
static struct slot *slots;
static unsigned slot_count, busy;
static ev_io command;

void (*contender_turn)(void);

static void block_over(void)
{
    worker_block_over(&record);
    ev_io_start(loop, &command);
}

static void next(struct slot *slot)
{
    if (record_next(&record, &block, slot))
        contender_acquire(slot);
    else if (--busy == 0)
        block_over();
}

void slot_acquired(struct slot *slot)
{
    record_acquired(&record, slot);
    contender_release(slot);
}

void slot_released(struct slot *slot)
{
    record_released(&record, slot);
    next(slot);
}

void slot_failed(struct slot *slot)
{
    record.failed++;
    next(slot);
}

static void grow_slots(unsigned count)
{
    if (count <= slot_count)
        return;
    free(slots); /* no slot is busy between blocks */
    slots = calloc(count, sizeof *slots);
    if (!slots)
        abort();
    slot_count = count;
}

void runner_start(const struct block *bounds)
{
    block = *bounds;
    memset(&record, 0, sizeof record);
    grow_slots(block.in_flight);
    busy = block.in_flight;
    for (unsigned i = 0; i < block.in_flight; i++)
        next(&slots[i]);
    while (contender_turn && busy)
        contender_turn();
}

/* Reads single bytes, so that no byte of the next line is consumed. */
static bool read_line(int fd, char *line, size_t size)
{
    size_t length = 0;
    while (length + 1 < size && read(fd, &line[length], 1) == 1)
        if (line[length++] == '\n') {
            line[length] = '\0';
            return true;
        }
    return false;
}

static void on_command(struct ev_loop *running, ev_io *watcher, int events)
{
    (void)events;
    char line[128];
    if (!read_line(watcher->fd, line, sizeof line)) {
        ev_break(running, EVBREAK_ALL);
        return;
    }
    worker_command(line);
    if (busy)
        ev_io_stop(running, watcher); /* until the block has ended */
}

void runner_connect(const char *nodes)
{
    loop = ev_loop_new(EVFLAG_NOENV);
    if (!loop)
        abort();
    contender_connect(loop, nodes);
}

void runner_serve(void)
{
    ev_io_init(&command, on_command, STDIN_FILENO, EV_READ);
    ev_io_start(loop, &command);
    ev_run(loop, 0);
    ev_io_stop(loop, &command);
    contender_disconnect(loop);
}
