#include "src/node/reply.h"

#include <string.h>

#include "quorum/marker.h"
#include "redlock/redlock.h"
#include "src/core/escape.h"
#include "src/node/guard.h"
#include "src/node/limits.h"

/* -------------------------------------------------------------------------------------------------------------- errors */

static bool skip(struct rl_text *span, const char *prefix)
{
    size_t size = strlen(prefix);
    if (span->size < size || memcmp(span->bytes, prefix, size) != 0)
        return false;
    *span = (struct rl_text){span->bytes + size, span->size - size};
    return true;
}

static bool skip_behind(struct rl_text *span, const char *delimiter)
{
    const char *found = memmem(span->bytes, span->size, delimiter, strlen(delimiter));
    if (!found)
        return false;
    *span = (struct rl_text){found, span->size - (size_t)(found - span->bytes)};
    return skip(span, delimiter);
}

/* "@user_script: 36: " */
static bool skip_line_number(struct rl_text *span)
{
    struct rl_text rest = *span;
    if (!skip(&rest, "@user_script:") || !skip_behind(&rest, ": "))
        return false;
    *span = rest;
    return true;
}

/* " script: SHA1, on @user_script:36." at the end; an error of the ACL has " script: " in its middle, too. */
static void cut_place(struct rl_text *span)
{
    static const char mark[] = " script: ";
    struct rl_text place = *span;
    const char *begin = NULL;
    while (skip_behind(&place, mark))
        begin = place.bytes - strlen(mark);
    if (begin && memmem(place.bytes, place.size, "on @user_script:", 16))
        span->size = (size_t)(begin - span->bytes);
}

/*
 * The error without its place. Servers wrap the error of a command that a script calls.
 * Up to 6.2: "ERR Error running script (call to f_SHA1): @user_script:36: @user_script: 36: -OOM command not allowed
 * ...", and the part from the first @ on if the script catches it. Since 7.0: "OOM command not allowed ... script:
 * SHA1, on @user_script:36."; Valkey 9 leaves the SHA1 out.
 */
static struct rl_text cause_of(const redisReply *reply)
{
    struct rl_text cause = {reply->str, (size_t)reply->len};
    if (skip(&cause, "ERR Error running script (call to f_"))
        skip_behind(&cause, "): ");
    bool wrapped = false;
    while (skip_line_number(&cause))
        wrapped = true;
    if (wrapped)
        skip(&cause, "-");
    cut_place(&cause);
    while (cause.size && cause.bytes[cause.size - 1] == ' ')
        cause.size--;
    return cause;
}

static bool begins_with(struct rl_text text, const char *words)
{
    return skip(&text, words) && (text.size == 0 || *text.bytes == ' ');
}

bool rl_reply_is_error(const redisReply *reply, const char *word)
{
    return reply->type == REDIS_REPLY_ERROR && begins_with(cause_of(reply), word);
}

/* The error texts of every server from Redis 5.0 and Valkey 7.2 on. Errors that are not listed may be temporary:
 * LOADING, BUSY, OOM, MISCONF, MASTERDOWN, TRYAGAIN, and unknown ones. */
static const struct {
    const char *words;
    enum rl_reply_error error;
} known_errors[] = {
    {"NOSCRIPT", RL_ERROR_NOSCRIPT},
    {"CLOCK", RL_ERROR_CLOCK}, /* of our scripts */
    {"NOPERM", RL_ERROR_NOT_PERMITTED},
    {"ERR ACL failure in script:", RL_ERROR_NOT_PERMITTED},        /* 7.2 and later */
    {"ERR The user executing the script", RL_ERROR_NOT_PERMITTED}, /* 7.0 */
    {"The user executing the script", RL_ERROR_NOT_PERMITTED},     /* 6 */
    {"NOAUTH", RL_ERROR_CREDENTIALS},
    {"WRONGPASS", RL_ERROR_CREDENTIALS},
    {"ERR AUTH <password> called without any password", RL_ERROR_CREDENTIALS},
    {"ERR invalid password", RL_ERROR_CREDENTIALS},                             /* 5 */
    {"ERR Client sent AUTH, but no password is set", RL_ERROR_CREDENTIALS},     /* 5 */
    {"ERR wrong number of arguments for 'auth' command", RL_ERROR_CREDENTIALS}, /* 5, which has no users */
    {"ERR unknown command", RL_ERROR_UNKNOWN_COMMAND},
    {"ERR unknown subcommand", RL_ERROR_UNKNOWN_COMMAND},
    {"ERR Unknown subcommand", RL_ERROR_UNKNOWN_COMMAND}, /* 5, 6 */
    {"WRONGTYPE", RL_ERROR_WRONGTYPE},
    {"READONLY", RL_ERROR_ELSEWHERE},
    {"MOVED", RL_ERROR_ELSEWHERE},
    {"ASK", RL_ERROR_ELSEWHERE},
    {"CROSSSLOT", RL_ERROR_ELSEWHERE},
};

/* Parts of errors whose beginning differs from server to server. */
static const struct {
    const char *part;
    enum rl_reply_error error;
} known_parts[] = {
    {"command called from ", RL_ERROR_UNKNOWN_COMMAND}, /* "ERR Unknown Redis ... script"; also other servers' names */
    {"not allowed from script", RL_ERROR_UNKNOWN_COMMAND}, /* "ERR This Redis command is ..."; Valkey, hosted servers */
    {"non local key", RL_ERROR_ELSEWHERE},             /* "ERR Script attempted to access a ... in a cluster node" */
    {"not hash to the same slot", RL_ERROR_ELSEWHERE}, /* "ERR Script attempted to access keys that do ..." */
    {"undeclared key", RL_ERROR_ELSEWHERE},            /* "ERR script tried accessing ...": Dragonfly */
};

enum rl_reply_error rl_reply_error(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return RL_ERROR_NONE;
    struct rl_text cause = cause_of(reply);
    for (size_t i = 0; i < sizeof known_errors / sizeof *known_errors; i++)
        if (begins_with(cause, known_errors[i].words))
            return known_errors[i].error;
    for (size_t i = 0; i < sizeof known_parts / sizeof *known_parts; i++)
        if (memmem(cause.bytes, cause.size, known_parts[i].part, strlen(known_parts[i].part)))
            return known_parts[i].error;
    return RL_ERROR_PASSING;
}

bool rl_reply_error_is_permanent(enum rl_reply_error error)
{
    return error >= RL_ERROR_NOT_PERMITTED;
}

bool rl_reply_is_forbidden(const redisReply *reply)
{
    enum rl_reply_error error = rl_reply_error(reply);
    return error == RL_ERROR_NOT_PERMITTED || error == RL_ERROR_UNKNOWN_COMMAND;
}

bool rl_reply_is_unavailable(const redisReply *reply)
{
    return rl_reply_is_error(reply, "BUSY") || rl_reply_is_error(reply, "LOADING") ||
           rl_reply_is_error(reply, "MASTERDOWN");
}

void rl_reply_text(const redisReply *reply, char *text, size_t size)
{
    size_t used = 0;
    if (reply->type == REDIS_REPLY_ERROR) {
        struct rl_text cause = cause_of(reply);
        used = cause.size < size ? cause.size : size - 1;
        memcpy(text, cause.bytes, used);
        rl_text_tame(text, used);
    }
    text[used] = '\0';
}

/* --------------------------------------------------------------------------------------------------------------- votes */

static struct rl_vote refused(const redisReply *reply)
{
    enum rl_reply_error error = rl_reply_error(reply);
    return (struct rl_vote){.vote = QUORUM_REFUSED,
                            .permanent = rl_reply_error_is_permanent(error),
                            .noscript = error == RL_ERROR_NOSCRIPT,
                            .clock = error == RL_ERROR_CLOCK};
}

static const struct rl_vote granted = {.vote = QUORUM_GRANTED};
static const struct rl_vote held = {.vote = QUORUM_HELD, .left_nothing = true};
static const struct rl_vote absent = {.vote = QUORUM_ABSENT, .left_nothing = true};

/* SET NX: OK, or nil because there is a key. It is not ours: the token is new. */
static struct rl_vote set(const redisReply *reply)
{
    if (rl_reply_is_ok(reply))
        return granted;
    if (reply->type == REDIS_REPLY_NIL)
        return held;
    return refused(reply);
}

/* SET NX GET: nil because there was no key, or the holder's token. A key of another type, as readers have it, is an
 * error, and held. */
static struct rl_vote set_get(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_NIL)
        return granted;
    if (reply->type == REDIS_REPLY_STRING || rl_reply_error(reply) == RL_ERROR_WRONGTYPE)
        return held;
    return refused(reply);
}

/* grant.lua: the fencing record from before; below 0 or the holder's token: held. A script that refuses has set
 * nothing. */
static struct rl_vote grant(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_STRING)
        return held;
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0)
        return (struct rl_vote){.vote = QUORUM_GRANTED, .record = (uint64_t)reply->integer};
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= -1 - (long long)UINT32_MAX)
        return (struct rl_vote){.vote = QUORUM_HELD, .left_nothing = true, .record = (uint64_t)(-1 - reply->integer)};
    return refused(reply);
}

/* keep.lua, for one lock: the fencing record from before, or why there is none. missing: what that is a vote for. */
static struct rl_vote keep(const redisReply *reply, struct rl_vote missing)
{
    if (!rl_reply_has(reply, 1) || reply->element[0]->type != REDIS_REPLY_INTEGER)
        return refused(reply);
    long long answer = reply->element[0]->integer;
    if (answer >= 0)
        return (struct rl_vote){.vote = QUORUM_GRANTED, .record = (uint64_t)answer};
    if (answer == RL_KEEP_ABSENT)
        return missing;
    return (struct rl_vote){.vote = QUORUM_REFUSED, .clock = true};
}

bool rl_reply_is_text(const redisReply *reply, const char *text)
{
    return reply->type == REDIS_REPLY_STRING && rl_text_is((struct rl_text){reply->str, (size_t)reply->len}, text);
}

/* extend.lua and heal.lua, for one lock: a digit. */
static struct rl_vote digit(const redisReply *reply, struct rl_vote missing)
{
    if (rl_reply_is_text(reply, "1"))
        return granted;
    return rl_reply_is_text(reply, "0") ? missing : refused(reply);
}

/* release.lua and free.lua: a number. releases.lua, for one lock: a digit. */
static struct rl_vote release(const redisReply *reply)
{
    long long answer = reply->type == REDIS_REPLY_INTEGER                     ? reply->integer
                       : reply->type == REDIS_REPLY_STRING && reply->len == 1 ? reply->str[0] - '0'
                                                                              : -1;
    if (answer == RL_KEY_DONE || answer == RL_KEY_UNANNOUNCED || answer == RL_KEY_AWAITED)
        return (struct rl_vote){
            .vote = QUORUM_GRANTED, .unannounced = answer == RL_KEY_UNANNOUNCED, .awaited = answer == RL_KEY_AWAITED};
    if (answer == RL_KEY_APART && reply->type == REDIS_REPLY_STRING)
        return (struct rl_vote){.vote = QUORUM_REFUSED, .apart = true};
    if (answer == RL_KEY_NOT_OURS || rl_reply_error(reply) == RL_ERROR_WRONGTYPE)
        return absent; /* a key of another type is not ours */
    return refused(reply);
}

/* Slots, each followed by its token. */
static bool are_permits(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 2 != 0)
        return false;
    for (size_t i = 0; i < reply->elements; i += 2) {
        const redisReply *slot = reply->element[i];
        if (slot->type != REDIS_REPLY_INTEGER || slot->integer < 0 || slot->integer >= REDLOCK_PERMITS_MAX ||
            reply->element[i + 1]->type != REDIS_REPLY_STRING)
            return false;
    }
    return true;
}

static struct rl_vote query(const redisReply *reply)
{
    if (!rl_reply_has(reply, RL_QUERY_ELEMENTS) || reply->element[RL_QUERY_LEFT]->type != REDIS_REPLY_INTEGER ||
        reply->element[RL_QUERY_WAITERS]->type != REDIS_REPLY_INTEGER || !are_permits(reply->element[RL_QUERY_TAKEN]))
        return refused(reply);
    int holder = reply->element[RL_QUERY_HOLDER]->type;
    bool known = holder == REDIS_REPLY_STRING || holder == REDIS_REPLY_NIL || holder == REDIS_REPLY_INTEGER;
    return known ? granted : refused(reply);
}

/* guard.lua shows the marker that is there now. */
static struct rl_vote trust(const redisReply *reply)
{
    struct quorum_marker marker;
    if (!rl_reply_has(reply, RL_GUARD_ELEMENTS) || reply->element[RL_GUARD_MARKER]->type != REDIS_REPLY_STRING)
        return refused(reply);
    const redisReply *text = reply->element[RL_GUARD_MARKER];
    bool trusted = quorum_marker_parse(&marker, text->str, (size_t)text->len) && strcmp(marker.why, "trusted") == 0;
    return (struct rl_vote){.vote = trusted ? QUORUM_GRANTED : QUORUM_REFUSED, .permanent = !trusted};
}

/* wait.lua */
static struct rl_vote wait(const redisReply *reply, bool take)
{
    if (!rl_reply_has(reply, RL_WAIT_ELEMENTS))
        return refused(reply);
    for (size_t i = 0; i < RL_WAIT_HOLDER; i++)
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            return refused(reply);
    if (!take)
        return granted;
    long long record = reply->element[RL_WAIT_RECORD]->integer;
    bool taken = reply->element[RL_WAIT_TAKEN]->integer == 1;
    if (taken && record >= 0)
        return (struct rl_vote){.vote = QUORUM_GRANTED, .record = (uint64_t)record};
    if (taken) /* a damaged record, too large for a number */
        return (struct rl_vote){.vote = QUORUM_REFUSED, .clock = true};
    return (struct rl_vote){.vote = QUORUM_HELD, .left_nothing = true, .record = (uint64_t)record};
}

struct rl_vote rl_reply_vote(enum rl_command_kind command, const redisReply *reply)
{
    switch (command) {
    case RL_COMMAND_SET:
        return set(reply);
    case RL_COMMAND_SET_GET:
        return set_get(reply);
    case RL_COMMAND_GRANT:
        return grant(reply);
    case RL_COMMAND_EXTEND:
    case RL_COMMAND_DOWNGRADE:
        return digit(reply, absent);
    case RL_COMMAND_HEAL:
        return digit(reply, held);
    case RL_COMMAND_KEEP:
        return keep(reply, (struct rl_vote){.vote = QUORUM_ABSENT});
    case RL_COMMAND_RESTORE:
        return keep(reply, held);
    case RL_COMMAND_RELEASE:
        return release(reply);
    case RL_COMMAND_QUERY:
        return query(reply);
    case RL_COMMAND_TAKE:
    case RL_COMMAND_ENQUEUE:
        return wait(reply, command != RL_COMMAND_ENQUEUE);
    case RL_COMMAND_DEQUEUE: /* after any other error the entry expires soon */
        return rl_reply_is_error(reply, "NOSCRIPT") ? refused(reply) : granted;
    case RL_COMMAND_TRUST:
        return trust(reply);
    }
    return refused(reply);
}

const redisReply *rl_reply_holder(enum rl_command_kind command, const redisReply *reply)
{
    bool waits = command == RL_COMMAND_TAKE || command == RL_COMMAND_ENQUEUE;
    if (waits && rl_reply_has(reply, RL_WAIT_ELEMENTS))
        reply = reply->element[RL_WAIT_HOLDER];
    else if (command != RL_COMMAND_SET_GET && command != RL_COMMAND_GRANT)
        return NULL;
    return reply->type == REDIS_REPLY_STRING ? reply : NULL;
}

void rl_reply_info(const redisReply *info, const char *field, char *value, size_t size)
{
    size_t name = strlen(field), used = 0;
    const char *end = info->type == REDIS_REPLY_STRING ? info->str + info->len : info->str;
    value[0] = '\0';
    for (const char *line = info->str; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        if ((size_t)(stop - line) > name && memcmp(line, field, name) == 0 && line[name] == ':') {
            for (const char *c = line + name + 1; c < stop && *c != '\r' && used + 1 < size; c++)
                value[used++] = *c > ' ' && *c < 127 ? *c : '?';
            value[used] = '\0';
            return;
        }
        line = stop + 1;
    }
}
