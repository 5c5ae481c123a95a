/* Floor A: hiredis' own libev adapter. */
#include "floor.h"

#include <hiredis/hiredis.h>

#include <hiredis/async.h>

#include <hiredis/adapters/libev.h>

void floor_attach(struct ev_loop *loop, struct redisAsyncContext *connection)
{
    redisLibevAttach(loop, connection);
}
