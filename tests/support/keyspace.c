#include "keyspace.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "support/fixture.h"

static void say(struct bytes *reply, const char *line)
{
    bytes_append(reply, line, strlen(line));
    bytes_append(reply, "\r\n", 2);
}

/* -------------------------------------------------------------------------------------------------------- key space */

static char *duplicate(const char *bytes, size_t size)
{
    char *copy = fixture_reallocate(NULL, size + 1);
    if (size)
        memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

static void empty(struct sim_key *key)
{
    for (size_t i = 0; i < key->members_count; i++) {
        free(key->members[i].name);
        free(key->members[i].value);
    }
    free(key->members);
    free(key->value);
    key->members = NULL;
    key->members_count = 0;
    key->value = NULL;
}

static void delete (struct sim_keyspace *space, struct sim_key *key)
{
    empty(key);
    free(key->name);
    *key = space->keys[--space->count];
}

void sim_keyspace_clear(struct sim_keyspace *space)
{
    while (space->count)
        delete (space, &space->keys[space->count - 1]);
    free(space->keys);
    *space = (struct sim_keyspace){NULL, 0, 0};
}

unsigned sim_keyspace_evict(struct sim_keyspace *space, uint64_t seed)
{
    unsigned evicted = 0;
    for (size_t i = space->count; i-- > 0; seed = seed >> 1 | seed << 63)
        if (seed & 1) {
            delete (space, &space->keys[i]);
            evicted++;
        }
    return evicted;
}

static struct sim_key *append(struct sim_keyspace *space)
{
    if (space->count == space->capacity) {
        space->capacity = space->capacity ? 2 * space->capacity : 16;
        space->keys = fixture_reallocate(space->keys, space->capacity * sizeof *space->keys);
    }
    struct sim_key *key = &space->keys[space->count++];
    memset(key, 0, sizeof *key);
    key->expires = SIM_NO_EXPIRY;
    return key;
}

void sim_keyspace_copy(struct sim_keyspace *to, const struct sim_keyspace *from, bool revived)
{
    sim_keyspace_clear(to);
    for (size_t i = 0; i < from->count; i++) {
        const struct sim_key *key = &from->keys[i];
        struct sim_key *copy = append(to);
        *copy = *key;
        copy->revived = key->revived || revived;
        copy->name = duplicate(key->name, key->name_size);
        copy->value = key->value ? duplicate(key->value, key->value_size) : NULL;
        copy->members = key->members_count ? fixture_reallocate(NULL, key->members_count * sizeof *key->members) : NULL;
        for (size_t m = 0; m < key->members_count; m++) {
            copy->members[m] = key->members[m];
            copy->members[m].name = duplicate(key->members[m].name, key->members[m].name_size);
            if (key->members[m].value)
                copy->members[m].value = duplicate(key->members[m].value, key->members[m].value_size);
        }
    }
}

/* As in Redis, a key has expired when the clock shows more than its end, not when it shows exactly the end. */
struct sim_key *sim_keyspace_find(struct sim_keyspace *space, struct resp_argument name, int64_t now)
{
    for (size_t i = 0; i < space->count; i++) {
        struct sim_key *key = &space->keys[i];
        if (key->name_size != name.length || memcmp(key->name, name.data, name.length) != 0)
            continue;
        if (key->expires != SIM_NO_EXPIRY && now > key->expires) {
            delete (space, key);
            return NULL;
        }
        return key;
    }
    return NULL;
}

static struct sim_key *create(struct sim_keyspace *space, struct resp_argument name, enum sim_type type)
{
    struct sim_key *key = append(space);
    key->type = type;
    key->name = duplicate(name.data, name.length);
    key->name_size = name.length;
    return key;
}

/* --------------------------------------------------------------------------------------------------------- commands */

struct bound {
    double value;
    bool excluded;
};

struct call {
    struct sim_keyspace *space;
    size_t count;
    const struct resp_argument *words;
    int64_t now; /* ms */
    int64_t microseconds;
    struct bytes *reply;
    struct sim_key *key;    /* NULL: it does not exist, or the command is not about one key */
    long long from, to;     /* numbers after the key */
    bool only_new;          /* SET NX */
    bool gets;              /* SET GET */
    double score;           /* after the key */
    struct bound low, high; /* scores after the key */
};

static const char wrong_type[] = "-WRONGTYPE Operation against a key holding the wrong kind of value";
static const char not_integer[] = "-ERR value is not an integer or out of range";
static const char syntax[] = "-ERR syntax error";

static bool real(struct resp_argument text, double *number)
{
    char copy[64], *end;
    if (text.length == 0 || text.length >= sizeof copy || isspace((unsigned char)text.data[0]))
        return false;
    memcpy(copy, text.data, text.length);
    copy[text.length] = '\0';
    errno = 0;
    *number = strtod(copy, &end);
    return end == copy + text.length && errno != ERANGE && !isnan(*number);
}

static struct sim_key *find(const struct call *call, size_t word)
{
    return sim_keyspace_find(call->space, call->words[word], call->now);
}

static struct sim_key *find_or_create(struct call *call, enum sim_type type)
{
    return call->key ? call->key : create(call->space, call->words[1], type);
}

/* false, after an error reply: the word is no integer. */
static bool read_integer(const struct call *call, size_t word, long long *number)
{
    bool read = resp_argument_integer(call->words[word], number);
    if (!read)
        say(call->reply, not_integer);
    return read;
}

static void say_string(struct bytes *reply, const struct sim_key *key)
{
    if (key && key->type == SIM_STRING)
        resp_write_bulk(reply, key->value, key->value_size);
    else
        resp_write_nil(reply);
}

static void get(struct call *call)
{
    say_string(call->reply, call->key);
}

/* Supports offsets from the beginning only. */
static void getrange(struct call *call)
{
    long long size = call->key ? (long long)call->key->value_size : 0;
    long long end = call->to < size ? call->to + 1 : size;
    bool none = call->from >= end;
    resp_write_bulk(call->reply, none ? "" : call->key->value + call->from, none ? 0 : (size_t)(end - call->from));
}

static void mget(struct call *call)
{
    resp_write_array(call->reply, call->count - 1);
    for (size_t i = 1; i < call->count; i++)
        say_string(call->reply, find(call, i));
}

/* NX, GET, and PX with a life: other options, and a second PX, are syntax errors. */
static bool read_set_options(struct call *call)
{
    size_t life = 0; /* number of its word */
    for (size_t i = 3; i < call->count; i++) {
        if (sim_text_is(call->words[i], "NX")) {
            call->only_new = true;
        } else if (sim_text_is(call->words[i], "GET")) {
            call->gets = true;
        } else if (life == 0 && i + 1 < call->count && sim_text_is(call->words[i], "PX")) {
            life = ++i;
        } else {
            say(call->reply, syntax);
            return false;
        }
    }
    if (life > 0 && !read_integer(call, life, &call->to))
        return false;
    bool fits = life == 0 || (call->to > 0 && call->to <= LLONG_MAX - call->now);
    if (!fits)
        say(call->reply, "-ERR invalid expire time in 'set' command");
    return fits;
}

static void set(struct call *call)
{
    if (call->gets && call->key && call->key->type != SIM_STRING) {
        say(call->reply, wrong_type);
        return;
    }
    if (call->gets)
        say_string(call->reply, call->key);
    if (call->key && call->only_new) {
        if (call->gets)
            return;
        resp_write_nil(call->reply);
        return;
    }
    struct sim_key *key = find_or_create(call, SIM_STRING);
    empty(key);
    key->revived = false;
    key->type = SIM_STRING;
    key->value = duplicate(call->words[2].data, call->words[2].length);
    key->value_size = call->words[2].length;
    key->expires = call->to > 0 ? call->now + call->to : SIM_NO_EXPIRY;
    if (!call->gets)
        say(call->reply, "+OK");
}

static void del(struct call *call)
{
    long long deleted = 0;
    for (size_t i = 1; i < call->count; i++) {
        struct sim_key *key = find(call, i);
        deleted += key != NULL;
        if (key)
            delete (call->space, key);
    }
    resp_write_integer(call->reply, deleted);
}

static void exists(struct call *call)
{
    long long found = 0;
    for (size_t i = 1; i < call->count; i++)
        found += find(call, i) != NULL;
    resp_write_integer(call->reply, found);
}

static void pttl(struct call *call)
{
    const struct sim_key *key = call->key;
    resp_write_integer(call->reply, !key ? -2 : key->expires == SIM_NO_EXPIRY ? -1 : key->expires - call->now);
}

static bool read_life(struct call *call)
{
    if (!read_integer(call, 2, &call->to))
        return false;
    bool fits = call->to <= LLONG_MAX - call->now && call->to >= LLONG_MIN + call->now;
    if (!fits)
        say(call->reply, "-ERR invalid expire time in 'pexpire' command");
    return fits;
}

static void pexpire(struct call *call)
{
    resp_write_integer(call->reply, call->key != NULL);
    if (call->key && call->to <= 0)
        delete (call->space, call->key);
    else if (call->key)
        call->key->expires = call->now + call->to;
}

static void time_of_day(struct call *call)
{
    char text[RESP_INTEGER_SIZE];
    resp_write_array(call->reply, 2);
    resp_write_bulk(call->reply, text, resp_format_integer(text, call->microseconds / 1000000));
    resp_write_bulk(call->reply, text, resp_format_integer(text, call->microseconds % 1000000));
}

/* ---------------------------------------------------------------------------------------------- hashes, sorted sets */

static struct sim_member *member(const struct sim_key *key, struct resp_argument name)
{
    for (size_t i = 0; key && i < key->members_count; i++)
        if (key->members[i].name_size == name.length && memcmp(key->members[i].name, name.data, name.length) == 0)
            return &key->members[i];
    return NULL;
}

static void insert(struct sim_key *key, size_t at, const struct sim_member *new)
{
    key->members = fixture_reallocate(key->members, (key->members_count + 1) * sizeof *key->members);
    memmove(&key->members[at + 1], &key->members[at], (key->members_count - at) * sizeof *key->members);
    key->members[at] = *new;
    key->members_count++;
}

static void take_out(struct sim_key *key, const struct sim_member *at)
{
    size_t index = (size_t)(at - key->members);
    key->members_count--;
    memmove(&key->members[index], &key->members[index + 1], (key->members_count - index) * sizeof *key->members);
}

/* Returns true if the member existed. A collection that becomes empty is deleted. */
static bool erase(const struct call *call, struct sim_key *key, struct resp_argument name)
{
    struct sim_member *found = member(key, name);
    if (!found)
        return false;
    free(found->name);
    free(found->value);
    take_out(key, found);
    if (key->members_count == 0)
        delete (call->space, key);
    return true;
}

static void remove_members(struct call *call)
{
    long long removed = 0;
    for (size_t i = 2; call->key && i < call->count; i++) {
        removed += erase(call, call->key, call->words[i]);
        call->key = find(call, 1);
    }
    resp_write_integer(call->reply, removed);
}

static void say_field(struct bytes *reply, const struct sim_member *field)
{
    if (field)
        resp_write_bulk(reply, field->value, field->value_size);
    else
        resp_write_nil(reply);
}

static void hget(struct call *call)
{
    say_field(call->reply, member(call->key, call->words[2]));
}

static void hmget(struct call *call)
{
    resp_write_array(call->reply, call->count - 2);
    for (size_t i = 2; i < call->count; i++)
        say_field(call->reply, member(call->key, call->words[i]));
}

static bool write_field(struct sim_key *key, struct resp_argument name, struct resp_argument value)
{
    struct sim_member *field = member(key, name);
    bool new = !field;
    if (new) {
        const struct sim_member made = {.name = duplicate(name.data, name.length), .name_size = name.length};
        insert(key, key->members_count, &made);
        field = &key->members[key->members_count - 1];
    }
    free(field->value);
    field->value = duplicate(value.data, value.length);
    field->value_size = value.length;
    return new;
}

static bool read_fields(struct call *call)
{
    if (call->count % 2)
        say(call->reply, "-ERR wrong number of arguments for 'hset' command");
    return call->count % 2 == 0;
}

static void hset(struct call *call)
{
    long long added = 0;
    struct sim_key *key = find_or_create(call, SIM_HASH);
    for (size_t i = 2; i + 1 < call->count; i += 2)
        added += write_field(key, call->words[i], call->words[i + 1]);
    resp_write_integer(call->reply, added);
}

static int compare(const struct sim_member *a, const struct sim_member *b)
{
    if (a->score < b->score || a->score > b->score)
        return a->score < b->score ? -1 : 1;
    size_t shorter = a->name_size < b->name_size ? a->name_size : b->name_size;
    int order = memcmp(a->name, b->name, shorter);
    if (order == 0 && a->name_size != b->name_size)
        order = a->name_size < b->name_size ? -1 : 1;
    return order;
}

static void place(struct sim_key *key, const struct sim_member *new)
{
    size_t at = 0;
    while (at < key->members_count && compare(&key->members[at], new) < 0)
        at++;
    insert(key, at, new);
}

static bool read_score(struct call *call)
{
    bool read = real(call->words[2], &call->score);
    if (!read)
        say(call->reply, "-ERR value is not a valid float");
    return read;
}

static void zadd(struct call *call)
{
    struct sim_key *key = find_or_create(call, SIM_SORTED);
    struct resp_argument name = call->words[3];
    struct sim_member *there = member(key, name), placed = {.name_size = name.length};
    if (there) {
        placed = *there;
        take_out(key, there);
    } else {
        placed.name = duplicate(name.data, name.length);
    }
    placed.score = call->score + 0.0; /* never -0 */
    place(key, &placed);
    resp_write_integer(call->reply, !there);
}

static void say_score(struct bytes *reply, double score)
{
    char text[64];
    size_t size = resp_format_number(text, sizeof text, score);
    resp_write_bulk(reply, text, size);
}

static void zscore(struct call *call)
{
    const struct sim_member *found = member(call->key, call->words[2]);
    if (found)
        say_score(call->reply, found->score);
    else
        resp_write_nil(call->reply);
}

static void say_members(const struct call *call, size_t from, size_t to, bool scores)
{
    resp_write_array(call->reply, (to - from) * (scores ? 2 : 1));
    for (size_t i = from; i < to; i++) {
        resp_write_bulk(call->reply, call->key->members[i].name, call->key->members[i].name_size);
        if (scores)
            say_score(call->reply, call->key->members[i].score);
    }
}

static bool read_range(struct call *call)
{
    if (call->count > 4 && !sim_text_is(call->words[4], "WITHSCORES")) {
        say(call->reply, syntax);
        return false;
    }
    return read_integer(call, 2, &call->from) && read_integer(call, 3, &call->to);
}

static void zrange(struct call *call)
{
    long long count = call->key ? (long long)call->key->members_count : 0;
    long long from = call->from < 0 ? call->from + count : call->from;
    long long to = call->to < 0 ? call->to + count : call->to;
    from = from < 0 ? 0 : from;
    to = to >= count ? count - 1 : to;
    bool none = from > to || from >= count;
    say_members(call, none ? 0 : (size_t)from, none ? 0 : (size_t)to + 1, call->count > 4);
}

/* Reads a bound. Unlike a score, an empty text is 0, and leading spaces are allowed. */
static bool read_bound(struct resp_argument text, struct bound *bound)
{
    char copy[64], *end;
    bound->excluded = text.length > 0 && text.data[0] == '(';
    if (text.length >= sizeof copy)
        return false;
    memcpy(copy, text.data, text.length);
    copy[text.length] = '\0';
    bound->value = strtod(copy + bound->excluded, &end);
    return *end == '\0' && !isnan(bound->value);
}

static bool read_bounds(struct call *call)
{
    bool read = read_bound(call->words[2], &call->low) && read_bound(call->words[3], &call->high);
    if (!read)
        say(call->reply, "-ERR min or max is not a float");
    return read;
}

static bool is_above(double score, struct bound low)
{
    return low.excluded ? score > low.value : score >= low.value;
}

static bool is_below(double score, struct bound high)
{
    return high.excluded ? score < high.value : score <= high.value;
}

/* LIMIT: how many members to skip, and how many there may be at the most. */
static bool read_bounds_and_limit(struct call *call)
{
    call->from = 0;
    call->to = -1;
    if (call->count == 4)
        return read_bounds(call);
    if (call->count == 7 && sim_text_is(call->words[4], "LIMIT"))
        return read_integer(call, 5, &call->from) && read_integer(call, 6, &call->to) && read_bounds(call);
    say(call->reply, syntax);
    return false;
}

static void zrangebyscore(struct call *call)
{
    const struct sim_key *key = call->key;
    size_t count = key && call->from >= 0 ? key->members_count : 0, from = 0, to;
    while (from < count && !is_above(key->members[from].score, call->low))
        from++;
    from = (size_t)call->from < count - from ? from + (size_t)call->from : count;
    for (to = from; to < count && is_below(key->members[to].score, call->high); to++)
        if (call->to >= 0 && to - from >= (size_t)call->to)
            break;
    say_members(call, from, to, false);
}

enum { NO_KEY = -2, ANY_TYPE = -1 };

#define WORD(text)                                                                                                     \
    {                                                                                                                  \
        text, sizeof text - 1                                                                                          \
    }
static const struct command {
    struct resp_argument name;
    size_t least; /* number of words, including the name */
    size_t most;
    int type;                        /* of the first word's key */
    bool (*read)(struct call *call); /* the words after the key, before it is looked up; false after an error reply */
    void (*run)(struct call *call);
} commands[] = {
    {WORD("GET"), 2, 2, SIM_STRING, NULL, get},
    {WORD("GETRANGE"), 4, 4, SIM_STRING, read_range, getrange},
    {WORD("MGET"), 2, SIZE_MAX, NO_KEY, NULL, mget},
    {WORD("SET"), 3, 16, ANY_TYPE, read_set_options, set},
    {WORD("DEL"), 2, SIZE_MAX, NO_KEY, NULL, del},
    {WORD("EXISTS"), 2, SIZE_MAX, NO_KEY, NULL, exists},
    {WORD("PTTL"), 2, 2, ANY_TYPE, NULL, pttl},
    {WORD("PEXPIRE"), 3, 3, ANY_TYPE, read_life, pexpire},
    {WORD("TIME"), 1, 1, NO_KEY, NULL, time_of_day},
    {WORD("HGET"), 3, 3, SIM_HASH, NULL, hget},
    {WORD("HMGET"), 3, SIZE_MAX, SIM_HASH, NULL, hmget},
    {WORD("HSET"), 4, SIZE_MAX, SIM_HASH, read_fields, hset},
    {WORD("HDEL"), 3, SIZE_MAX, SIM_HASH, NULL, remove_members},
    {WORD("ZADD"), 4, 4, SIM_SORTED, read_score, zadd},
    {WORD("ZREM"), 3, SIZE_MAX, SIM_SORTED, NULL, remove_members},
    {WORD("ZSCORE"), 3, 3, SIM_SORTED, NULL, zscore},
    {WORD("ZRANGE"), 4, 5, SIM_SORTED, read_range, zrange},
    {WORD("ZRANGEBYSCORE"), 4, 7, SIM_SORTED, read_bounds_and_limit, zrangebyscore},
};

static void run(const struct command *command, struct call *call)
{
    if (command->read && !command->read(call))
        return;
    call->key = command->type == NO_KEY ? NULL : find(call, 1);
    if (call->key && command->type != ANY_TYPE && (int)call->key->type != command->type)
        say(call->reply, wrong_type);
    else
        command->run(call);
}

static void lower_case(char *to, size_t size, struct resp_argument word)
{
    size_t i = 0;
    for (; i < word.length && i + 1 < size; i++)
        to[i] = (char)(word.data[i] >= 'A' && word.data[i] <= 'Z' ? word.data[i] - 'A' + 'a' : word.data[i]);
    to[i] = '\0';
}

bool sim_keyspace_execute(struct sim_keyspace *space, size_t count, const struct resp_argument *words,
                          int64_t microseconds, struct bytes *reply)
{
    struct call call = {.space = space,
                        .count = count,
                        .words = words,
                        .now = microseconds / 1000,
                        .microseconds = microseconds,
                        .reply = reply};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char name[32];
        if (!sim_text_equal(words[0], commands[i].name))
            continue;
        if (count >= commands[i].least && count <= commands[i].most) {
            run(&commands[i], &call);
            return true;
        }
        lower_case(name, sizeof name, words[0]);
        bytes_print(reply, "-ERR wrong number of arguments for '%s' command\r\n", name);
        return true;
    }
    return false;
}
