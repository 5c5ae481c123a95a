/* redlock list: shows every lock of the deployment. It reads the nodes one after the other, and counts which locks a
 * majority of them has. */
#define _GNU_SOURCE
#include "commands.h"
#include "duration.h"
#include "exit_status.h"
#include "json.h"
#include "message.h"
#include "screen.h"
#include "session.h"

#include <redlock/redlock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BUCKETS = 1024, READY_MS = 5000 };

static bool json;

/* A token on a key. */
struct entry {
    struct entry *next; /* in the bucket */
    uint64_t hash;
    const char *resource; /* as text */
    const char *token;    /* as text */
    int64_t left_ms;      /* the longest on any node */
    int32_t kind;
    int32_t permit;
    int32_t waiters; /* the most on any node */
    uint32_t nodes;  /* that have it */
    uint32_t last;   /* the number of the last one, from 1 */
    char text[];
};

struct table {
    struct entry **bucket;
    size_t buckets;
    size_t count;
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

static uint64_t hash_of(const char *text, uint64_t before)
{
    for (; *text != '\0'; text++)
        before = (before ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return before;
}

static void put(struct table *table, struct entry *entry)
{
    struct entry **bucket = &table->bucket[entry->hash % table->buckets];

    entry->next = *bucket;
    *bucket = entry;
}

static bool grow(struct table *table)
{
    struct table larger = {.buckets = table->buckets > 0 ? 4 * table->buckets : FIRST_BUCKETS};

    larger.bucket = calloc(larger.buckets, sizeof(*larger.bucket));
    if (larger.bucket == NULL)
        return false;
    for (size_t i = 0; i < table->buckets; i++)
        for (struct entry *entry = table->bucket[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            put(&larger, entry);
        }
    free(table->bucket);
    table->bucket = larger.bucket;
    table->buckets = larger.buckets;
    return true;
}

/* The entry of this token on this key; NULL: no memory. */
static struct entry *entry_of(struct table *table, const char *resource, const redlock_found *found)
{
    size_t resource_size = strlen(resource) + 1;
    size_t token_size = strlen(found->holder.token) + 1;
    uint64_t hash = hash_of(found->holder.token, hash_of(resource, UINT64_C(14695981039346656037)));

    if (table->count >= table->buckets && !grow(table))
        return NULL;
    for (struct entry *entry = table->bucket[hash % table->buckets]; entry != NULL; entry = entry->next)
        if (entry->hash == hash && entry->kind == found->kind && entry->permit == found->permit &&
            strcmp(entry->resource, resource) == 0 && strcmp(entry->token, found->holder.token) == 0)
            return entry;
    struct entry *entry = malloc(sizeof(*entry) + resource_size + token_size);
    if (entry == NULL)
        return NULL;
    *entry = (struct entry){.hash = hash, .kind = found->kind, .permit = found->permit};
    entry->resource = memcpy(entry->text, resource, resource_size);
    entry->token = memcpy(entry->text + resource_size, found->holder.token, token_size);
    put(table, entry);
    table->count++;
    return entry;
}

/* On the client's thread. */
static void on_found(const redlock_found *found, void *arg)
{
    struct reading *reading = arg;
    char resource[4 * REDLOCK_RESOURCE_MAX + 1];

    redlock_escape(found->resource.bytes, found->resource.size, resource, sizeof(resource));
    struct entry *entry = entry_of(reading->table, resource, found);
    if (entry == NULL) {
        reading->table->failed = true;
        return;
    }
    if (entry->last != reading->number) /* SCAN may return a key twice */
        entry->nodes++;
    entry->last = reading->number;
    entry->left_ms = found->remaining_ms > entry->left_ms ? found->remaining_ms : entry->left_ms;
    entry->waiters = found->waiters > entry->waiters ? found->waiters : entry->waiters;
    if (++reading->found % 1000 == 0)
        cli_live("reading %s, node %u of %u: %zu locks", reading->node, reading->number, reading->nodes,
                 reading->found);
}

static int by_resource(const void *one, const void *other)
{
    const struct entry *first = *(struct entry *const *)one;
    const struct entry *second = *(struct entry *const *)other;
    int order = strcmp(first->resource, second->resource);

    if (order == 0)
        order = first->permit - second->permit;
    return order != 0 ? order : strcmp(first->token, second->token);
}

/* Moves the locks of a majority to an array, sorted, and frees the others. */
static struct entry **sorted(struct table *table, uint32_t quorum, size_t *count)
{
    struct entry **locks = calloc(table->count + 1, sizeof(struct entry *));

    *count = 0;
    for (size_t i = 0; i < table->buckets; i++)
        for (struct entry *entry = table->bucket[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            if (locks != NULL && entry->nodes >= quorum)
                locks[(*count)++] = entry;
            else
                free(entry);
        }
    free(table->bucket);
    *table = (struct table){.failed = table->failed || locks == NULL};
    if (locks != NULL)
        qsort(locks, *count, sizeof(*locks), by_resource);
    return locks;
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
    if (lock->left_ms == REDLOCK_STATE_NO_EXPIRY)
        cli_json_null("remaining_ms");
    else
        cli_json_number("remaining_ms", lock->left_ms);
    if (lock->waiters >= 0)
        cli_json_number("waiters", lock->waiters);
    cli_json_number("held_on", lock->nodes);
    cli_json_end();
}

static void print_lock(const struct entry *lock)
{
    redlock_holder holder;
    char text[CLI_HOLDER_SIZE];
    char left[CLI_DURATION_SIZE];

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
    if (lock->left_ms == REDLOCK_STATE_NO_EXPIRY)
        printf(", without an expiry");
    else
        printf(", for %s unless extended", cli_duration_text(lock->left_ms, left));
    if (lock->waiters > 0)
        printf("; %" PRId32 " waiting", lock->waiters);
    putchar('\n');
}

static void show(struct entry **locks, size_t count, uint32_t read, uint32_t quorum)
{
    if (json) {
        cli_json_object(NULL);
        cli_json_array("locks");
    }
    for (size_t i = 0; i < count; i++) {
        (json ? write_lock : print_lock)(locks[i]);
        free(locks[i]);
    }
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
        if (redlock_scan(client, i, pattern, on_found, &reading, NULL, &result) == REDLOCK_OK) {
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

static int list(redlock_client *client, const char *pattern)
{
    struct table table = {0};
    redlock_result ready;
    redlock_result failure = {0};
    size_t count = 0;
    uint32_t quorum = redlock_nodes(client) / 2 + 1;

    redlock_ready(client, READY_MS, &ready); /* or some nodes are unreachable */
    uint32_t read = read_nodes(client, pattern, &table, &failure);
    struct entry **locks = sorted(&table, read < quorum ? UINT32_MAX : quorum, &count);
    if (table.failed) {
        cli_say("out of memory");
        free(locks);
        return CLI_SYSTEM;
    }
    if (read < quorum)
        cli_say("%u of %u nodes were read; a majority is needed to tell which locks are held", read,
                redlock_nodes(client));
    else
        show(locks, count, read, quorum);
    free(locks);
    return read >= quorum ? CLI_OK : cli_exit_of(&failure);
}

static int run(const struct cli_arguments *arguments)
{
    redlock_client *client;

    if (arguments->count > 1)
        return cli_misused("one pattern only; quote it, so that the shell does not expand it");
    const char *pattern = arguments->count == 1 ? arguments->words[0] : "*";
    if (*pattern == '\0' || strlen(pattern) > REDLOCK_RESOURCE_MAX)
        return cli_misused("a pattern has 1 to %d bytes", REDLOCK_RESOURCE_MAX);
    int status = cli_connect(&client);
    if (status == CLI_OK)
        status = list(client, pattern);
    cli_close(&client);
    return status;
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
    .run = run,
};
