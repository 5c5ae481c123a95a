#include "src/client/options.h"

#include <string.h>

#include "quorum/validity.h"
#include "src/core/core.h"
#include "src/core/escape.h"
#include "src/core/result.h"
#include "src/link/address.h"
#include "src/lock/names.h"

#define STRUCT_SIZE_MOST 0xffffu
#define STRUCT_MARK      (REDLOCK_STRUCT_SIZE(char) & ~(size_t)STRUCT_SIZE_MOST)
_Static_assert(sizeof(redlock_options) <= STRUCT_SIZE_MOST, "a struct's size leaves its mark alone");

#define TTL_MAX_MS 86400000u /* a day, so that sums of times stay far from overflow */

/* -------------------------------------------------------------------------------------------------------- structs */

static bool is_initialised(size_t given)
{
    return (given & ~(size_t)STRUCT_SIZE_MOST) == STRUCT_MARK;
}

size_t rl_struct_size(size_t given, size_t most)
{
    size_t size = given & STRUCT_SIZE_MOST;
    return is_initialised(given) && size >= sizeof given && size <= most ? size : 0;
}

int rl_struct_refuse(size_t given, const char *init, redlock_result *result)
{
    if (is_initialised(given))
        return rl_result_fail(result, REDLOCK_INVALID,
                              "the options' struct has %zu bytes; start from %s of a header no newer than the library",
                              given & STRUCT_SIZE_MOST, init);
    return rl_result_fail(result, REDLOCK_INVALID,
                          "the options are not initialised (struct_size is %zu): start from %s and then set single "
                          "fields; a designated initialiser sets the others to 0",
                          given, init);
}

void rl_struct_copy(void *options, size_t size, const void *given)
{
    size_t struct_size;
    if (!given)
        return;
    memcpy(&struct_size, given, sizeof struct_size);
    size_t known = rl_struct_size(struct_size, size);
    if (known)
        memcpy((char *)options + sizeof struct_size, (const char *)given + sizeof struct_size,
               known - sizeof struct_size);
    else
        memcpy(options, &struct_size, sizeof struct_size); /* it will be refused */
}

static void init(void *options, size_t size, const void *defaults, size_t most)
{
    size_t struct_size = size | STRUCT_MARK;
    if (!options || size < sizeof struct_size)
        return;
    memset(options, 0, size);
    memcpy(options, defaults, size < most ? size : most);
    memcpy(options, &struct_size, sizeof struct_size);
}

void redlock_options_init(redlock_options *options, size_t size)
{
    const redlock_options defaults = REDLOCK_OPTIONS_INIT;
    init(options, size, &defaults, sizeof defaults);
}

void redlock_acquire_options_init(redlock_acquire_options *options, size_t size)
{
    const redlock_acquire_options defaults = REDLOCK_ACQUIRE_OPTIONS_INIT;
    init(options, size, &defaults, sizeof defaults);
}

void redlock_call_options_init(redlock_call_options *options, size_t size)
{
    const redlock_call_options defaults = REDLOCK_CALL_OPTIONS_INIT;
    init(options, size, &defaults, sizeof defaults);
}

/* --------------------------------------------------------------------------------------------------------- checks */

struct range {
    const char *name;
    uint32_t value, least, most;
};

static int check_ranges(const struct range *ranges, size_t count, redlock_result *result)
{
    for (size_t i = 0; i < count; i++)
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
            return rl_result_fail(result, REDLOCK_INVALID, "%s is %u; it must be from %u to %u", ranges[i].name,
                                  ranges[i].value, ranges[i].least, ranges[i].most);
    return REDLOCK_OK;
}

int rl_options_check_ttl(const redlock_options *options, uint32_t ttl_ms, uint32_t minimum_validity_ms,
                         redlock_result *result)
{
    if (ttl_ms == 0 || ttl_ms > TTL_MAX_MS)
        return rl_result_fail(result, REDLOCK_INVALID, "ttl_ms is %u; it must be from 1 to %u", ttl_ms, TTL_MAX_MS);
    if (options->guard && ttl_ms > options->max_ttl_ms)
        return rl_result_fail(
            result, REDLOCK_INVALID,
            "ttl_ms is %u, above the deployment's max_ttl_ms of %u; a longer one needs a longer max_ttl_ms in all clients",
            ttl_ms, options->max_ttl_ms);
    if (minimum_validity_ms == 0)
        return rl_result_fail(result, REDLOCK_INVALID, "minimum_validity_ms is 0; it must be at least 1");
    quorum_duration shortest = quorum_shortest_ttl(minimum_validity_ms * QUORUM_MILLISECOND, options->drift_ppm);
    if (ttl_ms * QUORUM_MILLISECOND < shortest)
        return rl_result_fail(
            result, REDLOCK_INVALID,
            "ttl_ms is %u; with a drift of %u ppm + 2 ms and a minimum_validity_ms of %u it must be at least %llu",
            ttl_ms, options->drift_ppm, minimum_validity_ms, (unsigned long long)(shortest / QUORUM_MILLISECOND));
    return REDLOCK_OK;
}

static int check_allocator(const redlock_allocator *allocator, redlock_result *result)
{
    int given = !!allocator->allocate + !!allocator->reallocate + !!allocator->release;
    if (given != 0 && given != 3)
        return rl_result_fail(result, REDLOCK_INVALID,
                              "the allocator needs all of allocate, reallocate and release, or none");
    return REDLOCK_OK;
}

/* The text fits in one field of the marker, whose fields are separated by spaces. */
static bool is_word(const char *text, size_t most)
{
    size_t size = text ? strlen(text) : 0;
    for (size_t i = 0; i < size; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return size > 0 && size <= most;
}

static int check_texts(const redlock_options *options, redlock_result *result)
{
    const struct {
        const char *name, *text;
        size_t most;
        bool is_word; /* it must be one, otherwise it only must not be longer */
    } texts[] = {
        {"client_name", options->client_name, 128, false},
        {"prefix", options->prefix, 128, false},
        {"user", options->user, RL_SECRET_SIZE - 1, false}, /* a truncated password would only be a wrong one */
        {"password", options->password, RL_SECRET_SIZE - 1, false},
        {"deployment", options->deployment, 64, true},
        {"marker_key", options->marker_key, 128, true},
        {"channel_prefix", options->channel_prefix, 128, true},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i].is_word && !is_word(texts[i].text, texts[i].most))
            return rl_result_fail(result, REDLOCK_INVALID, "%s must be 1 to %zu characters without spaces",
                                  texts[i].name, texts[i].most);
        if (texts[i].text && strlen(texts[i].text) > texts[i].most)
            return rl_result_fail(result, REDLOCK_INVALID, "%s is longer than %zu bytes", texts[i].name, texts[i].most);
    }
    if (options->client_name[0] && !is_word(options->client_name, 128))
        return rl_result_fail(result, REDLOCK_INVALID,
                              "client_name contains a space or a control character, which Redis rejects");
    if (options->label && options->label[0] && !rl_label_is_valid(options->label, strlen(options->label)))
        return rl_result_fail(
            result, REDLOCK_INVALID,
            "label has %zu bytes; it must be 1 to %d characters of printable ASCII, without spaces and "
            "backslashes, or \"\" for tokens without a label",
            strlen(options->label), REDLOCK_LABEL_SIZE - 1);
    if (rl_key_reserved(options->marker_key, strlen(options->marker_key)))
        return rl_result_fail(result, REDLOCK_INVALID,
                              "marker_key ends in '%s', which is reserved for the library's own keys; use another key",
                              rl_key_reserved(options->marker_key, strlen(options->marker_key)));
    return REDLOCK_OK;
}

static int check_pairs(const redlock_options *options, redlock_result *result)
{
    if (options->user && options->user[0] && !(options->password && options->password[0]) && !options->credentials)
        return rl_result_fail(result, REDLOCK_INVALID,
                              "user is set without a password; set both, or neither for nodes without authentication");
    if (!options->tls_certificate_file != !options->tls_key_file)
        return rl_result_fail(result, REDLOCK_INVALID, "tls_certificate_file and tls_key_file need each other");
    return REDLOCK_OK;
}

static int check(const redlock_options *options, redlock_result *result)
{
    const struct range ranges[] = {
        {"guard", options->guard, 0, 1},
        {"max_ttl_ms", options->max_ttl_ms, 1, TTL_MAX_MS},
        {"renewal_percent", options->renewal_percent ? options->renewal_percent : 33, 10, 80},
        {"node_timeout_ms", options->node_timeout_ms, 1, 3600000},
        {"connect_timeout_ms", options->connect_timeout_ms, 1, 3600000},
        {"silence_limit_ms", options->silence_limit_ms, 10, 3600000},
        {"backoff_max_ms", options->backoff_max_ms, 1, 3600000},
        {"drift_ppm", options->drift_ppm, 0, 500000},
        {"pending_max", options->pending_max, 16, 1000000},
        {"undos_max", options->undos_max, 16, 1000000},
        {"operations_max", options->operations_max, 1, 10000000},
        {"leave_locks", options->leave_locks, 0, 1},
        {"tls_no_verify", options->tls_no_verify, 0, 1},
        {"database", options->database, 0, 1000000},
        {"fence_ttl_ms", options->fence_ttl_ms ? options->fence_ttl_ms : UINT32_MAX, 1000, UINT32_MAX},
        {"log_level", options->log_level, REDLOCK_LOG_ERROR, REDLOCK_LOG_DEBUG},
    };
    int status = check_ranges(ranges, sizeof ranges / sizeof *ranges, result);
    if (!status)
        status = check_allocator(&options->allocator, result);
    if (!status)
        status = check_texts(options, result);
    if (!status)
        status = check_pairs(options, result);
    if (!status)
        status = rl_options_check_ttl(options, options->ttl_ms, options->minimum_validity_ms, result);
    return status;
}

int rl_options_read(const redlock_options *given, redlock_options *options, redlock_result *result)
{
    *options = (redlock_options)REDLOCK_OPTIONS_INIT;
    rl_struct_copy(options, sizeof *options, given);
    if (!rl_struct_size(options->struct_size, sizeof *options))
        return rl_struct_refuse(options->struct_size, "REDLOCK_OPTIONS_INIT or redlock_options_init()", result);
    if (!options->prefix)
        options->prefix = "";
    if (!options->client_name)
        options->client_name = "";
    return check(options, result);
}

redlock_acquire_options rl_options_known(const redlock_acquire_options *given)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    rl_struct_copy(&options, sizeof options, given);
    return options;
}

int rl_options_read_acquire(const redlock_acquire_options *given, const redlock_options *defaults,
                            redlock_acquire_options *options, redlock_result *result)
{
    *options = rl_options_known(given);
    if (!rl_struct_size(options->struct_size, sizeof *options))
        return rl_struct_refuse(options->struct_size, "REDLOCK_ACQUIRE_OPTIONS_INIT or redlock_acquire_options_init()",
                                result);
    if (options->ttl_ms == 0)
        options->ttl_ms = defaults->ttl_ms;
    if (options->minimum_validity_ms == 0)
        options->minimum_validity_ms = defaults->minimum_validity_ms;
    if (options->wait_ms < REDLOCK_FOREVER)
        return rl_result_fail(result, REDLOCK_INVALID, "wait_ms is %lld; it must be 0, more, or REDLOCK_FOREVER",
                              (long long)options->wait_ms);
    const struct range ranges[] = {
        {"reentry", options->reentry, 0, REDLOCK_REENTRY_NEVER},
        {"keep_waiting", options->keep_waiting, 0, 1},
        {"all_answers", options->all_answers, 0, 1},
        {"permits", options->permits, 0, REDLOCK_PERMITS_MAX},
        {"any", options->any, 0, 1},
        {"shared", options->shared, 0, 1},
        {"fence", options->fence, 0, 1},
        {"no_renewal", options->no_renewal, 0, 1},
    };
    int status = check_ranges(ranges, sizeof ranges / sizeof *ranges, result);
    if (status)
        return status;
    if (options->permits_wanted > options->permits)
        return rl_result_fail(result, REDLOCK_INVALID, "permits_wanted is %u; it must be at most permits, which is %u",
                              options->permits_wanted, options->permits);
    if (options->reentry == REDLOCK_REENTRY_OWNER && !options->owner)
        return rl_result_fail(result, REDLOCK_INVALID,
                              "owner is NULL; pass the address of the owner, or a number above 0");
    if (options->reentry == REDLOCK_REENTRY_NEVER && options->owner)
        return rl_result_fail(result, REDLOCK_INVALID,
                              "REDLOCK_REENTRY_NEVER and an owner exclude each other; set one of them");
    if (options->permits && (options->shared || options->fence || (options->also_count && !options->any)))
        return rl_result_fail(
            result, REDLOCK_INVALID,
            "permits cannot be combined with shared, fence, or also without any: a semaphore has many holders in no order");
    if (options->cap_ms && options->cap_ms < options->ttl_ms)
        return rl_result_fail(result, REDLOCK_INVALID, "cap_ms is %u, shorter than the ttl of %u ms", options->cap_ms,
                              options->ttl_ms);
    uint32_t most_ms = defaults->guard ? defaults->max_ttl_ms : TTL_MAX_MS;
    if (options->at_least_ms > most_ms)
        return rl_result_fail(result, REDLOCK_INVALID, "at_least_ms is %u; it must be from 0 to %u%s",
                              options->at_least_ms, most_ms,
                              defaults->guard ? ", the deployment's max_ttl_ms; a longer one needs a longer max_ttl_ms "
                                                "in all clients"
                                              : "");
    return rl_options_check_ttl(defaults, options->ttl_ms, options->minimum_validity_ms, result);
}

static const size_t strings[] = {
    offsetof(redlock_options, prefix),
    offsetof(redlock_options, client_name),
    offsetof(redlock_options, user),
    offsetof(redlock_options, password),
    offsetof(redlock_options, tls_ca_file),
    offsetof(redlock_options, tls_ca_directory),
    offsetof(redlock_options, tls_certificate_file),
    offsetof(redlock_options, tls_key_file),
    offsetof(redlock_options, tls_server_name),
    offsetof(redlock_options, deployment),
    offsetof(redlock_options, marker_key),
    offsetof(redlock_options, channel_prefix),
    offsetof(redlock_options, label),
};
#define STRINGS (sizeof strings / sizeof *strings)

static char **string_of(redlock_options *options, size_t index)
{
    return (char **)(void *)((char *)options + strings[index]);
}

bool rl_options_copy_strings(redlock_options *options)
{
    redlock_options copied = *options;
    for (size_t i = 0; i < STRINGS; i++)
        *string_of(&copied, i) = NULL;
    for (size_t i = 0; i < STRINGS; i++) {
        const char *from = *string_of(options, i);
        if (!from)
            continue;
        char *copy = rl_copy(&options->allocator, from, strlen(from));
        if (!copy) {
            rl_options_free_strings(&copied);
            return false;
        }
        *string_of(&copied, i) = copy;
    }
    *options = copied;
    return true;
}

void rl_options_free_strings(redlock_options *options)
{
    if (options->password)
        rl_wipe(*string_of(options, 3), strlen(options->password));
    for (size_t i = 0; i < STRINGS; i++) {
        rl_free(&options->allocator, *string_of(options, i));
        *string_of(options, i) = NULL;
    }
}

struct rl_lease_terms rl_options_terms(const redlock_acquire_options *options, struct rl_owner owner,
                                       const redlock_options *client)
{
    return (struct rl_lease_terms){
        .ttl_ms = options->ttl_ms,
        .renewal_percent = options->no_renewal ? 0 : client->renewal_percent,
        .cap_ms = options->cap_ms,
        .at_least_ms = options->at_least_ms,
        .notify_before_ms = options->notify_before_ms,
        .owner = owner,
        .event = options->event,
        .event_arg = options->event_arg,
    };
}
