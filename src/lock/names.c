#include "src/lock/names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/result.h"
#include "src/lock/lease.h"

static bool ends_with(const char *key, size_t size, const char *suffix)
{
    size_t length = strlen(suffix);
    return size >= length && memcmp(key + size - length, suffix, length) == 0;
}

int rl_slot_of(const char *name, size_t *size)
{
    size_t digits = *size;
    int slot = 0;
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
        digits--;
    if (digits == *size || !ends_with(name, digits, RL_SLOT_INFIX))
        return -1;
    for (size_t at = digits; at < *size && slot <= RL_SLOT_LAST; at++)
        slot = 10 * slot + (name[at] - '0');
    *size = digits - strlen(RL_SLOT_INFIX);
    return slot;
}

const char *rl_key_reserved(const char *key, size_t size)
{
    static const char *const suffixes[] = {RL_QUEUE_SUFFIX, RL_ALIVE_SUFFIX, RL_FREE_SUFFIX, RL_FENCE_SUFFIX};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (ends_with(key, size, suffixes[i]))
            return suffixes[i];
    return rl_slot_of(key, &size) >= 0 ? RL_SLOT_INFIX "NUMBER" : NULL;
}

int rl_resource_check(const char *resource, size_t *size, const redlock_options *client, redlock_result *result)
{
    if (!resource)
        return rl_result_fail(result, REDLOCK_INVALID, "the resource is NULL; pass its name");
    if (*size == 0)
        *size = strnlen(resource, REDLOCK_RESOURCE_MAX + 1);
    if (*size == 0)
        return rl_result_fail(result, REDLOCK_INVALID, "the resource's name is empty; it needs 1 to %d bytes",
                              REDLOCK_RESOURCE_MAX);
    if (*size > REDLOCK_RESOURCE_MAX)
        return rl_result_fail(result, REDLOCK_INVALID, "the resource's name is longer than %d bytes",
                              REDLOCK_RESOURCE_MAX);
    char key[128 + REDLOCK_RESOURCE_MAX];
    size_t prefix = strlen(client->prefix);
    assert(prefix + *size <= sizeof key);
    memcpy(key, client->prefix, prefix);
    memcpy(key + prefix, resource, *size);
    const char *reserved = rl_key_reserved(key, prefix + *size);
    if (reserved)
        return rl_result_fail(result, REDLOCK_INVALID,
                              "the resource's key, which is the prefix and the name, ends in '%s', which is reserved "
                              "for the library's own keys; use another name",
                              reserved);
    return REDLOCK_OK;
}

static int compare(const void *one, const void *other)
{
    const struct rl_text *first = one, *second = other;
    size_t shorter = first->size < second->size ? first->size : second->size;
    int order = memcmp(first->bytes, second->bytes, shorter);
    return order ? order : (first->size > second->size) - (first->size < second->size);
}

static void fold(struct rl_names *names)
{
    unsigned kept = 1;
    qsort(names->name, names->count, sizeof *names->name, compare);
    for (unsigned i = 1; i < names->count; i++)
        if (compare(&names->name[kept - 1], &names->name[i]) != 0)
            names->name[kept++] = names->name[i];
    names->count = kept;
}

static bool is_marker(const char *resource, size_t size, const redlock_options *client)
{
    size_t prefix = strlen(client->prefix);
    return strlen(client->marker_key) == prefix + size && memcmp(client->marker_key, client->prefix, prefix) == 0 &&
           memcmp(client->marker_key + prefix, resource, size) == 0;
}

int rl_lock_name_check(const char *resource, size_t *size, const redlock_options *client, redlock_result *result)
{
    int status = rl_resource_check(resource, size, client, result);
    if (!status && is_marker(resource, *size, client))
        return rl_result_fail(result, REDLOCK_INVALID,
                              "the resource's key is the nodes' marker, '%s'; use another name, or another marker_key",
                              client->marker_key);
    return status;
}

static int add(struct rl_names *names, const char *resource, size_t size, const redlock_options *client,
               redlock_result *result)
{
    int status = rl_lock_name_check(resource, &size, client, result);
    if (!status)
        names->name[names->count++] = (struct rl_text){resource, size};
    return status;
}

int rl_names_read(struct rl_names *names, const char *resource, const redlock_acquire_options *options,
                  const redlock_options *client, redlock_result *result)
{
    names->count = 0;
    if (options->also_count >= REDLOCK_RESOURCES_MAX)
        return rl_result_fail(result, REDLOCK_INVALID, "also_count is %zu; a lock has at most %d resources",
                              options->also_count, REDLOCK_RESOURCES_MAX);
    if (options->also_count && !options->also)
        return rl_result_fail(result, REDLOCK_INVALID, "also is NULL, with an also_count of %zu", options->also_count);
    int status = add(names, resource, options->resource_size, client, result);
    for (size_t i = 0; !status && i < options->also_count; i++)
        status = add(names, options->also[i].bytes, options->also[i].size, client, result);
    if (!status)
        fold(names);
    return status;
}

struct rl_names rl_names_of(const char *resource, size_t size)
{
    struct rl_names names;
    names.count = 1;
    names.name[0] = (struct rl_text){resource, size};
    return names;
}
