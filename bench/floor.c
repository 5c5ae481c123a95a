/* The votes of a floor. */
#include "floor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "contender.h"

struct floor_attempt {
    struct slot *slot;
    struct floor_attempt *next; /* in the list of unused attempts */
    unsigned pending;           /* replies in transit */
    unsigned granted, refused, released;
    struct floor_lock lock;
};

static unsigned node_count, majority;
static struct floor_attempt *unused;
static uint64_t token_state[3];
static unsigned long long allocations;

/* The first token is random, the next ones come from splitmix64: unique, and as cheap as possible. */
static void draw_token(char *token)
{
    for (unsigned i = 0, digit = 0; i < 3; i++) {
        uint64_t bits = token_state[i] += UINT64_C(0x9e3779b97f4a7c15);
        bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
        for (unsigned n = 0; n < 16 && digit < FLOOR_TOKEN_LENGTH; n++, bits >>= 4)
            token[digit++] = "0123456789abcdef"[bits & 15];
    }
}

static struct floor_attempt *take_attempt(struct slot *slot)
{
    struct floor_attempt *attempt = unused;
    if (attempt) {
        unused = attempt->next;
    } else {
        allocations++;
        attempt = malloc(sizeof *attempt);
        if (!attempt)
            abort();
    }
    *attempt = (struct floor_attempt){.slot = slot};
    attempt->lock.resource = slot->resource;
    attempt->lock.resource_length = slot->resource_length;
    draw_token(attempt->lock.token);
    return attempt;
}

static void vote(struct floor_attempt *attempt, enum floor_step step, char type, long long number)
{
    if (step == FLOOR_RELEASE) {
        if (type && ++attempt->released == majority)
            slot_released(attempt->slot);
    } else if (type && floor_is_grant(type, number)) {
        if (++attempt->granted == majority)
            slot_acquired(attempt->slot);
    } else if (++attempt->refused == node_count - majority + 1) {
        slot_failed(attempt->slot);
    }
}

void floor_replied(struct floor_attempt *attempt, enum floor_step step, char type, long long number)
{
    vote(attempt, step, type, number);
    if (--attempt->pending > 0)
        return;
    attempt->next = unused;
    unused = attempt;
}

void contender_acquire(struct slot *slot)
{
    struct floor_attempt *attempt = slot->lock = take_attempt(slot);
    struct floor_command command = {0};
    floor_acquire(&command, &attempt->lock);
    attempt->pending += transport_send(attempt, FLOOR_ACQUIRE, &command);
}

void contender_release(struct slot *slot)
{
    struct floor_attempt *attempt = slot->lock;
    struct floor_command command = {0};
    floor_release(&command, &attempt->lock);
    attempt->pending += transport_send(attempt, FLOOR_RELEASE, &command);
}

void contender_connect(struct ev_loop *loop, const char *list)
{
    char *copy = strdup(list), *rest = copy, host[64];
    int port;
    if (!copy || getrandom(token_state, sizeof token_state, 0) != sizeof token_state)
        abort();
    for (char *address; (address = strsep(&rest, ","));) {
        if (node_count++ == FLOOR_NODES_MAX || sscanf(address, "%63[^:]:%d", host, &port) != 2) {
            fprintf(stderr, "floor: '%s' is not HOST:PORT, or is one node too many\n", address);
            exit(2);
        }
        transport_connect(loop, host, port);
    }
    free(copy);
    majority = node_count / 2 + 1;
    transport_load(loop);
}

void contender_disconnect(struct ev_loop *loop)
{
    transport_close(loop);
}

void contender_state(struct contender_state *state)
{
    *state = (struct contender_state){.allocations = allocations};
}
