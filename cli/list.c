/* redlock list: shows every lock of the deployment. It reads the nodes one after the other, and counts which locks a
 * majority of them has. */
#include "command.h"
#include "json.h"
#include "message.h"
#include "screen.h"
#include "session.h"

#include <redlock/redlock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SIZE = 1024, READY_MS = 5000 };

static bool json;

/* A token on a key. */
struct entry {
    char *resource;    /* as text; the token's text is behind it */
    const char *token; /* as text */
    int64_t left_ms;   /* the longest on any node */
    int32_t kind;
    int32_t permit;
    int32_t waiters; /* the most on any node */
    uint32_t nodes;  /* that have it */
    uint32_t last;   /* the number of the last one, from 1 */
};

struct table {
    struct entry *entry;
    size_t count;
    size_t size;
    bool failed; /* no memory */
};

/* The reading of one node. */
struct reading {
    struct table *table;
    const char *node;
    uint32_t number; /* from 1 */
    uint32_t nodes;
    size_t found;
};

/* --- The table --- */

static bool add(struct table *table, struct entry entry, const char *resource, const char *token)
{
    size_t resource_size = strlen(resource) + 1;
    size_t token_size = strlen(token) + 1;

    if (table->count == table->size) {
        size_t size = table->size > 0 ? 2 * table->size : FIRST_SIZE;
        struct entry *larger = realloc(table->entry, size * sizeof(*larger));
        if (larger == NULL)
            return false;
        table->entry = larger;
        table->size = size;
    }
    entry.resource = malloc(resource_size + token_size);
    if (entry.resource == NULL)
        return false;
    memcpy(entry.resource, resource, resource_size);
    entry.token = memcpy(entry.resource + resource_size, token, token_size);
    table->entry[table->count++] = entry;
    return true;
}

/* On the client's thread. */
static void on_found(const redlock_found *found, void *arg)
{
    struct reading *reading = arg;
    struct entry entry = {.left_ms = found->remaining_ms,
                          .kind = found->kind,
                          .permit = found->permit,
                          .waiters = found->waiters,
                          .nodes = 1,
                          .last = reading->number};
    char resource[4 * REDLOCK_RESOURCE_MAX + 1];

    redlock_escape(found->resource.bytes, found->resource.size, resource, sizeof(resource));
    if (!add(reading->table, entry, resource, found->holder.token))
        reading->table->failed = true;
    else if (++reading->found % 1000 == 0)
        cli_live("reading %s, node %u of %u: %zu locks", reading->node, reading->number, reading->nodes,
                 reading->found);
}

/* 0: the same token on the same key. */
static int compare(const struct entry *first, const struct entry *second)
{
    int order = strcmp(first->resource, second->resource);

    if (order == 0)
        order = first->permit - second->permit;
    if (order == 0)
        order = strcmp(first->token, second->token);
    return order != 0 ? order : first->kind - second->kind;
}

static int by_name_and_node(const void *one, const void *other)
{
    const struct entry *first = one, *second = other;
    int order = compare(first, second);

    return order != 0 ? order : (first->last > second->last) - (first->last < second->last);
}

/* Sorts the table, and makes one entry of those for the same token on the same key: of several nodes, or of one whose SCAN
 * has returned the key twice. */
static void merge(struct table *table)
{
    size_t kept = 0;

    if (table->count > 0)
        qsort(table->entry, table->count, sizeof(*table->entry), by_name_and_node);
    for (size_t i = 0; i < table->count; i++) {
        struct entry *entry = &table->entry[i], *before = kept > 0 ? &table->entry[kept - 1] : NULL;
        if (before == NULL || compare(before, entry) != 0) {
            table->entry[kept++] = *entry;
            continue;
        }
        before->nodes += entry->last != before->last;
        before->last = entry->last;
        before->left_ms = entry->left_ms > before->left_ms ? entry->left_ms : before->left_ms;
        before->waiters = entry->waiters > before->waiters ? entry->waiters : before->waiters;
        free(entry->resource);
    }
    table->count = kept;
}

static void free_table(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->entry[i].resource);
    free(table->entry);
}

/* --- Output --- */

static void write_lock(const struct entry *lock)
{
    static const char *const kinds[] = {
        [REDLOCK_KIND_LOCK] = "lock", [REDLOCK_KIND_READER] = "reader", [REDLOCK_KIND_PERMIT] = "permit"};
    redlock_holder holder;

    redlock_holder_read(lock->token, &holder);
    cli_json_object(NULL);
    cli_json_text("resource", lock->resource);
    cli_json_text("kind", kinds[lock->kind]);
    if (lock->kind == REDLOCK_KIND_PERMIT)
        cli_json_number("permit", lock->permit);
    cli_json_holder(&holder);
    cli_json_left(lock->left_ms);
    if (lock->waiters >= 0)
        cli_json_number("waiters", lock->waiters);
    cli_json_number("held_on", lock->nodes);
    cli_json_end();
}

static void print_lock(const struct entry *lock)
{
    redlock_holder holder;
    char text[CLI_HOLDER_SIZE];
    char left[CLI_LEFT_SIZE];

    redlock_holder_read(lock->token, &holder);
    cli_print(CLI_BRIGHT, 0, "'");
    cli_print(CLI_BRIGHT, 0, lock->resource);
    cli_print(CLI_BRIGHT, 0, "'");
    if (lock->kind == REDLOCK_KIND_PERMIT)
        printf(" permit %" PRId32 " held", lock->permit);
    else
        printf(lock->kind == REDLOCK_KIND_READER ? " shared" : " held");
    printf("%s", *holder.label != '\0' ? cli_holder_text(&holder, text) : "");
    if (*holder.label == '\0')
        printf(" by token %s", lock->token);
    printf("%s", cli_left_text(lock->left_ms, "extended", left));
    if (lock->waiters > 0)
        printf("; %" PRId32 " waiting", lock->waiters);
    putchar('\n');
}

/* The locks of a majority. */
static void show(const struct table *table, uint32_t read, uint32_t quorum)
{
    if (json) {
        cli_json_object(NULL);
        cli_json_array("locks");
    }
    for (size_t i = 0; i < table->count; i++)
        if (table->entry[i].nodes >= quorum)
            (json ? write_lock : print_lock)(&table->entry[i]);
    if (json) {
        cli_json_end();
        cli_json_number("nodes_read", read);
        cli_json_number("quorum", quorum);
        cli_json_end();
    }
}

/* --- The command --- */

/* One node after the other. Returns the number of nodes that were read. */
static uint32_t read_nodes(redlock_client *client, const char *pattern, struct table *table, redlock_result *failure)
{
    redlock_node_status node;
    redlock_result result;
    uint32_t read = 0;

    for (uint32_t i = 0; i < redlock_nodes(client) && !table->failed; i++) {
        redlock_node_status_get(client, i, &node);
        struct reading reading = {table, node.name, i + 1, redlock_nodes(client), 0};
        int status = redlock_scan(client, i, pattern, on_found, &reading, NULL, &result);
        merge(table);
        if (status == REDLOCK_OK) {
            read++;
            continue;
        }
        *failure = result;
        cli_say("%s is not read: %s", node.name,
                *result.node[i].text != '\0' ? result.node[i].text : redlock_result_text(&result));
    }
    cli_live("%s", "");
    return read;
}

static const char *pattern_of(const struct cli_arguments *arguments)
{
    return arguments->count > 0 ? arguments->words[0] : "*";
}

static int list(redlock_client *client, const struct cli_arguments *arguments)
{
    struct table table = {0};
    redlock_result ready;
    redlock_result failure = {0};
    uint32_t quorum = redlock_nodes(client) / 2 + 1;

    redlock_ready(client, READY_MS, &ready); /* or some nodes are unreachable */
    uint32_t read = read_nodes(client, pattern_of(arguments), &table, &failure);
    int status = table.failed ? CLI_SYSTEM : read < quorum ? cli_exit_of(&failure) : CLI_OK;
    if (table.failed)
        cli_say("out of memory");
    else if (read < quorum)
        cli_say("%u of %u nodes were read; a majority is needed to tell which locks are held", read,
                redlock_nodes(client));
    else
        show(&table, read, quorum);
    free_table(&table);
    return status;
}

static int check(const struct cli_arguments *arguments)
{
    const char *pattern = pattern_of(arguments);

    if (arguments->count > 1)
        return cli_misused("one pattern only; quote it, so that the shell does not expand it");
    if (*pattern == '\0' || strlen(pattern) > REDLOCK_RESOURCE_MAX)
        return cli_misused("a pattern has 1 to %d bytes", REDLOCK_RESOURCE_MAX);
    return CLI_OK;
}

static const struct cli_option options[] = {
    {0, "json", NULL, "write an object, on one line", .flag = &json},
    {0},
};

const struct cli_command cli_command_list = {
    .name = "list",
    .arguments = "[PATTERN]",
    .summary = "List every lock of the deployment with its holder, its remaining time and its waiters",
    .help =
        "PATTERN selects resources as Redis' KEYS does: 'jobs/*'. Quote it. A lock is listed if a majority of the nodes has\n"
        "the same token, a reader and a permit each for itself. The nodes are read one after the other: a lock that is\n"
        "acquired or released meanwhile may be missing. Without a prefix only locks of this library are listed.\n"
        "\n"
        "The user needs the right +scan, besides those of a lock.\n"
        "\n"
        "exit status: 0 a majority was read; 69 too few nodes; 78 misconfigured; 64 usage\n",
    .options = options,
    .run = check,
    .use = list,
};
