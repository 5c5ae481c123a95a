/* With a fencing token: the library's scripts, sent as the library sends them (src/lock/round_command.c), with the wall
 * clock as the token. The previous values of the fencing records are ignored. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "contender.h"
#include "floor.h"
#include "src/node/limits.h"
#include "src/node/script.h"

static const char ttl_text[] = "10000";
_Static_assert(LOCK_TTL_MS == 10000, "one ttl for all contenders");
static const char record_life_text[] = "86400000"; /* the library's default */

static const enum rl_script_id scripts[] = {RL_SCRIPT_GRANT, RL_SCRIPT_FREE};

const unsigned floor_script_count = sizeof scripts / sizeof scripts[0];

const char *floor_script(unsigned number)
{
    return rl_scripts[scripts[number]].text;
}

void floor_script_loaded(const char *sha1)
{
    (void)sha1; /* the digest is known; if it were wrong, the nodes would return NOSCRIPT and every lock would fail */
}

static void draw_fence(char *fence)
{
    static uint64_t last;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t now = (uint64_t)wall.tv_sec * 1000000 + (uint64_t)wall.tv_nsec / 1000;
    last = now > last ? now : last + 1;
    snprintf(fence, FLOOR_FENCE_SIZE, "%" PRIu64, last);
}

static void begin(struct floor_command *command, enum rl_script_id script, struct floor_lock *lock)
{
    static const char *const suffixes[FLOOR_HELPERS] = {RL_FREE_SUFFIX, RL_QUEUE_SUFFIX, RL_ALIVE_SUFFIX,
                                                        RL_FENCE_SUFFIX};
    floor_word(command, "EVALSHA", 7);
    floor_word(command, rl_scripts[script].sha1, 40);
    floor_word(command, "5", 1);
    floor_word(command, lock->resource, lock->resource_length);
    for (unsigned i = 0; i < FLOOR_HELPERS; i++) {
        snprintf(lock->helper[i], sizeof lock->helper[i], "%.*s%s", (int)lock->resource_length, lock->resource,
                 suffixes[i]);
        floor_word(command, lock->helper[i], strlen(lock->helper[i]));
    }
    floor_word(command, lock->token, FLOOR_TOKEN_LENGTH);
}

static void add_fence(struct floor_command *command, const struct floor_lock *lock)
{
    floor_word(command, lock->fence, strlen(lock->fence));
    floor_word(command, record_life_text, sizeof record_life_text - 1);
    floor_word(command, "exclusive", 9);
}

void floor_acquire(struct floor_command *command, struct floor_lock *lock)
{
    draw_fence(lock->fence);
    begin(command, RL_SCRIPT_GRANT, lock);
    floor_word(command, ttl_text, sizeof ttl_text - 1);
    add_fence(command, lock);
    floor_word(command, "0", 1); /* no semaphore */
    floor_word(command, "-1", 2);
}

void floor_release(struct floor_command *command, struct floor_lock *lock)
{
    begin(command, RL_SCRIPT_FREE, lock);
    add_fence(command, lock);
    floor_word(command, "", 0); /* no waiter */
    floor_word(command, "0", 1);
}

bool floor_is_grant(char type, long long number)
{
    return type == ':' && number >= 0;
}
