/* The data of one Redis server: strings, hashes and sorted sets with expiry, to the extent that the library's
 * commands and scripts use them. The words of a command need no NUL. */
#ifndef TESTS_SUPPORT_KEYSPACE_H
#define TESTS_SUPPORT_KEYSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "support/resp.h"

enum sim_type { SIM_STRING, SIM_HASH, SIM_SORTED };

struct sim_member {
    char *name;
    size_t name_size;
    char *value; /* of a hash's field */
    size_t value_size;
    double score; /* of a sorted set's member */
};

#define SIM_NO_EXPIRY INT64_MAX

struct sim_key {
    enum sim_type type;
    char *name;
    size_t name_size;
    char *value;
    size_t value_size;
    struct sim_member *members; /* of a sorted set: ordered by score, then by name */
    size_t members_count;
    bool revived;    /* restored from a snapshot: changes since then are lost */
    int64_t expires; /* ms of the node's clock: gone when the clock shows more */
};

struct sim_keyspace {
    struct sim_key *keys;
    size_t count;
    size_t capacity;
};

void sim_keyspace_clear(struct sim_keyspace *space);
/* revived: see the field of the keys. */
void sim_keyspace_copy(struct sim_keyspace *to, const struct sim_keyspace *from, bool revived);

/* Removes each key with probability 1/2, by the seed. Returns the number of removed keys. */
unsigned sim_keyspace_evict(struct sim_keyspace *space, uint64_t seed);

/* Returns NULL if no such key exists at `now` (ms of the node's clock). The result is valid until the next change. */
struct sim_key *sim_keyspace_find(struct sim_keyspace *space, struct resp_argument name, int64_t now);

/*
 * Executes a command on the keys and writes its reply as RESP. Returns false if the command is not one of the key
 * space. microseconds: the node's clock.
 */
bool sim_keyspace_execute(struct sim_keyspace *space, size_t count, const struct resp_argument *words,
                          int64_t microseconds, struct bytes *reply);

/* Compares without regard to case. The size and the first letter distinguish most words early. */
static inline bool sim_text_equal(struct resp_argument a, struct resp_argument b)
{
    return a.length == b.length && (a.length == 0 || ((a.data[0] ^ b.data[0]) & ~32) == 0) &&
           strncasecmp(a.data, b.data, a.length) == 0;
}

static inline bool sim_text_is(struct resp_argument text, const char *word)
{
    return sim_text_equal(text, resp_argument_of(word));
}

#endif
