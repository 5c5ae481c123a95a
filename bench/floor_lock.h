/* The commands with which a floor acquires and releases a lock. */
#ifndef BENCH_FLOOR_LOCK_H
#define BENCH_FLOOR_LOCK_H

#include <stdbool.h>
#include <stddef.h>

enum { FLOOR_TOKEN_LENGTH = 40, FLOOR_WORDS_MAX = 11, FLOOR_FENCE_SIZE = 24 };

struct redisReply;

struct floor_lock {
    const char *resource;
    size_t resource_length;
    char token[FLOOR_TOKEN_LENGTH]; /* no final NUL */
    char fence[FLOOR_FENCE_SIZE];   /* the fencing token, for floors that have one */
};

struct floor_command {
    int count;
    const char *words[FLOOR_WORDS_MAX];
    size_t lengths[FLOOR_WORDS_MAX];
};

/* Scripts that are loaded on every node before the first lock, and their digests. */
extern const unsigned floor_script_count;
const char *floor_script(unsigned number);
void floor_script_loaded(const char *sha1);

/* They fill an empty command. Its words live as long as the lock. */
void floor_acquire(struct floor_command *command, struct floor_lock *lock);
void floor_release(struct floor_command *command, struct floor_lock *lock);

bool floor_is_grant(const struct redisReply *reply);

static inline void floor_word(struct floor_command *command, const char *word, size_t length)
{
    command->words[command->count] = word;
    command->lengths[command->count++] = length;
}

#endif
