/* The published pattern: SET key token NX PX ttl, compare and delete. */
#include <string.h>

#include "contender.h"
#include "floor.h"

static const char ttl_text[] = "10000";
_Static_assert(LOCK_TTL_MS == 10000, "one ttl for all contenders");
static const char unlock_script[] =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";

static char unlock_sha[41];

const unsigned floor_script_count = 1;

const char *floor_script(unsigned number)
{
    (void)number;
    return unlock_script;
}

void floor_script_loaded(const char *sha1)
{
    memcpy(unlock_sha, sha1, sizeof unlock_sha);
}

void floor_acquire(struct floor_command *command, struct floor_lock *lock)
{
    floor_word(command, "SET", 3);
    floor_word(command, lock->resource, lock->resource_length);
    floor_word(command, lock->token, FLOOR_TOKEN_LENGTH);
    floor_word(command, "NX", 2);
    floor_word(command, "PX", 2);
    floor_word(command, ttl_text, sizeof ttl_text - 1);
}

void floor_release(struct floor_command *command, struct floor_lock *lock)
{
    floor_word(command, "EVALSHA", 7);
    floor_word(command, unlock_sha, sizeof unlock_sha - 1);
    floor_word(command, "1", 1);
    floor_word(command, lock->resource, lock->resource_length);
    floor_word(command, lock->token, FLOOR_TOKEN_LENGTH);
}

bool floor_is_grant(char type, long long number)
{
    (void)number;
    return type == '+';
}
