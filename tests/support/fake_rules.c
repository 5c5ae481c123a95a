#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "fixture.h"

#include <stdlib.h>
#include <string.h>

static char *copy(const char *data, size_t length)
{
    if (data == NULL)
        return NULL;
    char *block = fixture_allocate(length + 1);
    memcpy(block, data, length);
    return block;
}

static size_t length_of(const char *data, size_t length)
{
    return data != NULL && length == 0 ? strlen(data) : length;
}

static const char *copy_text(const char *text)
{
    return copy(text, text != NULL ? strlen(text) : 0);
}

/* The entry owns the memory that its rule points to, although the rule declares it const. */
static void free_text(const char *text)
{
    union {
        const char *promised;
        char *owned;
    } pointer = {.promised = text};

    free(pointer.owned);
}

static struct fake_rule_entry *make_entry(const struct fake_rule *rule)
{
    struct fake_rule_entry *entry = fixture_allocate(sizeof(*entry));

    entry->rule = *rule;
    entry->rule.command = copy_text(rule->command);
    entry->rule.argument = copy_text(rule->argument);
    entry->rule.reply_length = length_of(rule->reply, rule->reply_length);
    entry->rule.reply = copy(rule->reply, entry->rule.reply_length);
    entry->rule.extra_length = length_of(rule->extra, rule->extra_length);
    entry->rule.extra = copy(rule->extra, entry->rule.extra_length);
    return entry;
}

void fake_rules_free(struct fake_server *server)
{
    while (server->rules != NULL) {
        struct fake_rule_entry *entry = server->rules;
        server->rules = entry->next;
        free_text(entry->rule.command);
        free_text(entry->rule.argument);
        free_text(entry->rule.reply);
        free_text(entry->rule.extra);
        free(entry);
    }
}

unsigned fake_server_add_rule(struct fake_server *server, const struct fake_rule *rule)
{
    struct fake_rule_entry *entry = make_entry(rule);

    pthread_mutex_lock(&server->lock);
    struct fake_rule_entry **link = &server->rules;
    while (*link != NULL)
        link = &(*link)->next;
    unsigned number = entry->number = ++server->last_rule;
    *link = entry;
    pthread_mutex_unlock(&server->lock);
    return number;
}

static struct fake_rule_entry *find_entry(struct fake_server *server, unsigned number)
{
    struct fake_rule_entry *entry = server->rules;

    while (entry != NULL && entry->number != number)
        entry = entry->next;
    if (entry == NULL)
        fixture_fail("the fake server has no rule %u", number);
    return entry;
}

void fake_server_remove_rule(struct fake_server *server, unsigned number)
{
    pthread_mutex_lock(&server->lock);
    find_entry(server, number)->removed = true;
    pthread_mutex_unlock(&server->lock);
}

void fake_server_clear_rules(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    for (struct fake_rule_entry *entry = server->rules; entry != NULL; entry = entry->next)
        entry->removed = true;
    pthread_mutex_unlock(&server->lock);
}

unsigned fake_server_rule_used(struct fake_server *server, unsigned number)
{
    pthread_mutex_lock(&server->lock);
    unsigned used = find_entry(server, number)->used;
    pthread_mutex_unlock(&server->lock);
    return used;
}

unsigned fake_server_refuse(struct fake_server *server, const char *command, unsigned count, const char *error)
{
    return fake_server_add_rule(server,
                                &(struct fake_rule){.command = command, .count = count, .skip = true, .reply = error});
}

unsigned fake_server_refuse_connections(struct fake_server *server, unsigned count)
{
    return fake_server_add_rule(
        server,
        &(struct fake_rule){.command = FAKE_ACCEPT, .count = count, .reply = FAKE_MAXCLIENTS, .ending = FAKE_SHUTDOWN});
}

static bool has_argument(const struct resp_command *command, const char *argument)
{
    for (size_t i = 1; i < command->argc; i++)
        if (resp_argument_is(&command->argv[i], argument))
            return true;
    return false;
}

static bool matches(const struct fake_rule *rule, const struct fake_connection *connection,
                    const struct resp_command *command)
{
    bool accept_rule = rule->command != NULL && strcmp(rule->command, FAKE_ACCEPT) == 0;

    if (accept_rule != (command == NULL))
        return false;
    if (rule->connection != 0 && rule->connection != connection->number)
        return false;
    if (command == NULL)
        return true;
    return resp_command_is(command, rule->command) && (rule->argument == NULL || has_argument(command, rule->argument));
}

static bool applies_now(const struct fake_rule_entry *entry)
{
    unsigned first = entry->rule.first > 0 ? entry->rule.first : 1;

    return entry->seen >= first && (entry->rule.count == 0 || entry->seen - first < entry->rule.count);
}

const struct fake_rule *fake_rules_apply(struct fake_server *server, const struct fake_connection *connection,
                                         const struct resp_command *command)
{
    static const struct fake_rule healthy = {0};
    struct fake_rule_entry *chosen = NULL;

    /* Every rule counts the command, even if another one is applied, so that "the third SET" does not depend on
     * other rules. */
    for (struct fake_rule_entry *entry = server->rules; entry != NULL; entry = entry->next) {
        if (entry->removed || !matches(&entry->rule, connection, command))
            continue;
        entry->seen++;
        if (chosen == NULL && applies_now(entry))
            chosen = entry;
    }
    if (chosen == NULL)
        return &healthy;
    chosen->used++;
    return &chosen->rule;
}
