/* The two floors differ only in the adapter between hiredis and libev. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

struct ev_loop;
struct redisAsyncContext;

void floor_attach(struct ev_loop *loop, struct redisAsyncContext *connection);

#endif
